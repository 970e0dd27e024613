/* rules_state.h - what the main thread knows of rules: those in force, and those of its file. */
#ifndef NODE_RUNTIME_CONTROL_RULES_STATE_H
#define NODE_RUNTIME_CONTROL_RULES_STATE_H

#include "node/policy/model/policy.h"
#include "node/runtime/config/config.h"
#include "node/runtime/control/compiler.h"
#include "node/runtime/control/rules_watch.h"

/* The rules file: it seeds the settings, and is applied to them by SIGHUP, or as it changes. */
struct rules_file_state {
    enum { RULES_IDLE, RULES_SEEDED, RULES_RELOADED, RULES_FOLLOWED } state;
    struct hash128 edit_id; /* of the edit that is under way */
    bool compared;          /* whether a file that differs from the settings was told of */
    int64_t asked_ns;
    struct policy *policy; /* what the file says, until it was compared and applied, or NULL */
    char *text; /* what it held when it was read last, as it is kept (packed.h), or NULL */
    size_t len;
    struct hash128 stamp;      /* of what was read at the start */
    struct rules_watch *watch; /* NULL: changes are not looked for */
    bool told;                 /* SIGHUP: what is compiled next is applied whatever there is */
    bool owed;                 /* it has changed, and is still to be judged or applied; */
    bool overtaken;            /* while an edit of what it held before was under way */
    bool owed_told;            /* the log has why it could not be yet */
    char *was;                 /* what it held before, or NULL */
    size_t was_len;
};

/* The rules in force, and those that are to be. */
struct daemon_rules {
    struct policy *alone; /* the rules in force alone, or NULL */
    uint64_t version;     /* of those, in the configuration store, or 0 */
    void *ordinals;       /* that they were compiled with, as the store keeps them */
    size_t ordinals_len;
    struct policy *joined; /* the same with blocks and quotas in force, or NULL */
    uint64_t judged;       /* version of the rules that were put in force or refused last */
    uint32_t owed;         /* bits of shards that are to be given the rules in force */
    uint64_t sent[CONFIG_SHARDS_MAX]; /* how often each was given some */
    int64_t missed_ns;                /* when the newest rules found no memory; or 0 */
    int64_t refused_ns; /* when rules were refused first, before any were in force; or 0 */
    uint64_t refusals;  /* how often any were */
    uint64_t unread;    /* how often what the file holds was not taken */
    struct compiler *compiler;
    struct rules_file_state file;
};

#endif
