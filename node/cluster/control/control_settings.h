/* control_settings.h - the configuration store (settings.h), as the control core gives it to
 * others.
 *
 * Part of control.h.
 */
#ifndef NODE_CLUSTER_CONTROL_CONTROL_SETTINGS_H
#define NODE_CLUSTER_CONTROL_CONTROL_SETTINGS_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "gossip/swim.h"
#include "node/cluster/configstore/settings_change.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/model/identity.h"
#include "node/cluster/model/view.h"
#include "node/cluster/shard/shard.h"
#include "node/policy/model/policy.h"
#include "ring/config.h"
#include <stdbool.h>
#include <stdint.h>

struct control;
struct settings_edit;

/* Gives back the stored values whose keys begin with SETTINGS_PREFIX, in the order of their keys,
 * after control_new and before anything else; then whether they fit together. 0, TG_ECORRUPT or
 * TG_ENOMEM. */
MUST_USE int control_restore_settings(struct control *control, const char *key, const void *bytes,
                                      size_t len);
MUST_USE int control_settings_restored(struct control *control);
/* All shards have what was told of kinds and of rules; `rules`: version of the rules that were put
 * in force or refused last. An edit is told as done when it is among that. */
void control_spread(struct control *control, uint64_t rules);
/* The newest rules that are known here; false if there are none. Lives until the next event. */
bool control_rules_known(const struct control *control, struct settings_entry *out);
/* Whether this node has the cluster's settings, as far as it knows. */
bool control_settings_known(const struct control *control);
/* Whether the node has joined a cluster just now and waits for its settings: until then, and for
 * three seconds at most, it should not serve. */
bool control_settings_awaited(const struct control *control, int64_t now_ns);
/* True once after each change of the rules: they are to be compiled and put in force. What `out`
 * points to lives until the next event. */
bool control_rules_due(struct control *control, struct settings_entry *out);
/* The rules that were due found no memory: unless they are in force by now, they are due again. */
void control_rules_missed(struct control *control);

/* True once after each change of the records of that kind, and at first if there are any. */
bool control_kind_due(struct control *control, uint32_t kind);
/* What was due could not be put in force: it is due again. */
void control_kind_missed(struct control *control, uint32_t kind);
/* The next setting of the kind, in order of names; NULL at the end. *cursor is 0 at first. Lives
 * until the next event. */
const struct settings_entry *control_setting_next(const struct control *control, uint32_t kind,
                                                  size_t *cursor);

struct api_key_entry;
/* A setting of kind SETTINGS_API_KEY. What it points to is the entry's. */
struct api_key_entry control_api_key_of(const struct settings_entry *entry);
/* A setting of kind SETTINGS_CREDENTIAL, likewise. */
struct credential_entry control_credential_of(const struct settings_entry *entry);

struct quota;
/* Reads a setting of kind SETTINGS_QUOTA; false if it cannot be read. What it points to is the
 * entry's. */
bool control_quota_of(const struct settings_entry *entry, struct quota *out);

struct block;

/* A change that somebody wants. Texts are copied. */
struct control_edit_request {
    struct hash128 id; /* random: asked again with the same, nothing is done twice */
    uint32_t kind;
    bool removes;
    bool based;        /* of an answer: on that version, whether or not the operator names one */
    uint64_t based_on; /* the version of the record that it replaces, 0: none, or SETTINGS_ANY */
    bool keeps_last;   /* the last record of its kind is not removed */
    struct settings_text name; /* of rules: anything */
    struct settings_text value;
    const struct policy *rules;  /* of rules: the same compiled */
    struct settings_text beside; /* and the ordinals to be kept beside; len 0: none */
    uint64_t beside_of;          /* that these follow: a version of the rules */
    struct settings_text author;
    struct settings_text note;
};

/* Has this node propose the change, from its next tick on; control_edit_find says what became of
 * it. An edit that is known is not begun again, unless it has ended as one that changed nothing for
 * certain. 0 (also if it is known), TG_EBUSY (SETTINGS-8), TG_ETOOBIG, TG_EINVALID (a text is too
 * long, or has control characters), TG_ENOMEM. */
MUST_USE int control_edit(struct control *control, int64_t now_ns,
                          const struct control_edit_request *request);
/* The same for rules; which of their limits go on with counts of the rules before is decided here.
 * `mine` are the rules in force at this node. Errors of control_edit. */
MUST_USE int control_edit_rules(struct control *control, int64_t now_ns, const struct policy *mine,
                                struct control_edit_request *request);
/* What is kept beside the newest rules, for ordinals_give; len 0: nothing. Lives until the next
 * event. */
struct settings_text control_ordinals_known(const struct control *control);
/* Whether the edit waits, was made, or may have been: asked for again, it is not begun anew. */
bool control_edit_known(const struct control *control, struct hash128 id);
/* The edit, while it is remembered; NULL otherwise. Lives until the next event. */
const struct settings_edit *control_edit_find(const struct control *control, struct hash128 id);

#endif
