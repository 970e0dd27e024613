/* settings.h - the configuration store: what operators write, the same on every node, with history.
 *
 * Settings are records of a kind, a name and a value (settings_change.h): the rules as one
 * document, one record a block, and later one a pool, a tier, a quota, an API key. The unit of
 * change is the record, so that two people who change different things do not meet, and nothing but
 * the change is sent. The rules are one document because their order counts and the author's
 * comments are worth keeping; each version of them is a record of its own, which is the history one
 * can go back to.
 *
 *   edit (an operator, at any node)
 *     |  judged by that node: compiles, based on what is in force   -- conflict, bad --> told so
 *     v
 *   change of version v + 1 --> register of register.h --> decided: durable at a majority of voters
 *                                                            |
 *      log of changes <--- applied, in one transaction ------+--> NEWS to members, and in gossip
 *      records            (settings_apply)                         |
 *        ^                                                         v
 *        +------------ CHANGES, or RECORDS <------- FETCH ---- whoever is behind
 *
 * SETTINGS-1  There is one change of each version: the register decides it, by a majority of the
 *             voters that the change before names and of those that it names itself. Voters follow
 *             the ring's; of several regions, they are spread over these.
 * SETTINGS-2  An edit is acknowledged when its change is decided, so it is on a majority's disks:
 *             it is lost only with them. Applying is one transaction: log, records and head
 *             (version, digest, voters).
 * SETTINGS-3  A change holds the digest of the one before it, so equal digests are equal histories,
 *             and a node votes for and applies nothing but what follows its own. Two nodes of one
 *             version and other digests come of a disk that was put back, or of lineages forced at
 *             once: whoever sees it proposes an empty change, and who cannot follow that copies.
 * SETTINGS-4  An edit based on a record that has changed since is refused, and told what it met;
 *             one that would change nothing is done. Its id finds it again in the log, whoever
 *             carried it out.
 * SETTINGS-5  Without a majority of the voters nothing can be changed, and the node says so; it
 *             goes on with what it has. A change that was accepted by some, but not told as
 *             decided, may come about; one that was told as refused cannot: its proposal is
 *             withdrawn, and who does not know whether voters have it says just that.
 * SETTINGS-6  A node that was away takes the changes that it lacks; where they are not kept any
 *             more, the records, range by range. In between its records are mixed, of different
 *             versions, each of them whole, and even of a lineage that may be lost with its source.
 *             So its digest is one that nobody has: no change follows it, only a whole copy ends
 *             it, and nobody is answered from it. It says so in gossip: who has a history of its
 *             version proposes a change then, for which it votes and which it copies; it proposes
 *             none itself unless all that live are as it is. Its version rises when it has all of
 *             them, then with every change since (SETTINGSTABLE-2). Rules come into force when all
 *             is there, or nothing comes any more; of mixed ones, only at a start.
 * SETTINGS-7  Force (`remove --force`) begins a new lineage with the forcing node's records and
 *             voters that live; who comes back from the old one drops what it had beyond. The byte
 *             of its maker tells apart two that begin at once, as for the ring.
 * SETTINGS-8  An id of SETTINGS_EDITS_MAX edits is remembered; more at once, or of more bytes than
 *             SETTINGS_EDITS_BYTES_MAX, are refused as busy. What came of one that is not in the
 *             log stays long enough for whoever waits to hear of it.
 * SETTINGS-9  A node that joins does not serve before it has the settings, or has waited for them
 *             for long (control_settings_awaited): it would decide by other rules, or by none.
 *
 * The first change of a cluster is made by the lowest-id member when all members live and none has
 * any: its voters are those of the ring (control_edit.c).
 *
 * Bounds: settings_change.h (sizes), settings_table.h (records, bytes, log), SETTINGS_RULES_KEPT.
 * Pure; part of the control core, which calls it from one thread. It must not know addresses.
 */
#ifndef NODE_CLUSTER_CONFIGSTORE_SETTINGS_H
#define NODE_CLUSTER_CONFIGSTORE_SETTINGS_H

#include "node/cluster/configstore/settings_table.h"
#include "node/cluster/configstore/settings_wire.h"
#include "node/cluster/consensus/register.h"
#include "node/cluster/model/effects.h"

enum {
    SETTINGS_EDITS_MAX = 128,
    SETTINGS_EDITS_BYTES_MAX = 32 << 20, /* of all that wait */
    SETTINGS_RULES_KEPT = 64,            /* versions of the rules, the one in force included */
    SETTINGS_RULES_KEPT_BYTES = 8 << 20, /* of all of them; the one in force is always kept */
    SETTINGS_SENTENCE_LEN = 400,
    SETTINGS_GROUP_MAX = 3072,       /* values that change in one transaction */
    SETTINGS_RANGE_DROPS_MAX = 1024, /* records removed by one RECORDS frame */
    SETTINGS_APPLY_MAX = 32,         /* changes of one CHANGES frame */
};

static_assert((int)SETTINGS_GROUP_MAX < (int)EFFECTS_KEPT,
              "a transaction fits among the kept effects");
static_assert((int)SETTINGS_ITEMS_MAX + (int)SETTINGS_RANGE_DROPS_MAX + (int)SETTINGS_LOG_MAX + 8 <
                      (int)SETTINGS_GROUP_MAX &&
                  (int)SETTINGS_APPLY_MAX * ((int)SETTINGS_OPS_MAX + 4) < (int)SETTINGS_GROUP_MAX,
              "what a frame changes is one transaction");

/* Keys of stored values begin so. */
#define SETTINGS_PREFIX       "settings."
#define SETTINGS_REGISTER_KEY SETTINGS_PREFIX "register"

/* What an edit may be based on. */
#define SETTINGS_ANY UINT64_MAX

enum settings_edit_state {
    SETTINGS_EDIT_FREE,
    SETTINGS_EDIT_WAITS,
    SETTINGS_EDIT_DONE,
    SETTINGS_EDIT_CONFLICT,
    SETTINGS_EDIT_UNAVAILABLE, /* not made: no majority of the voters, no room on the disk */
    SETTINGS_EDIT_DOUBT        /* offered, and not known to be decided in time */
};

struct settings_edit {
    enum settings_edit_state state;
    struct hash128 id;
    uint32_t kind;
    bool removes;
    bool changed;      /* DONE: by a change of its own */
    bool keeps_last;   /* as of control_edit_request */
    uint64_t based_on; /* version of the record that it replaces, 0: none, SETTINGS_ANY */
    uint64_t version;  /* DONE: where it is; CONFLICT: what it met */
    /* As the change of which version it is known to voters, so that it may come about whatever
     * becomes of it here; the same once what is wanted now was carried out. 0: none. */
    uint64_t offered;
    uint64_t offering;
    int64_t started_ns;
    int64_t ended_ns;
    size_t name_len;
    size_t value_len;
    size_t author_len;
    size_t note_len;
    size_t beside_len;
    uint64_t beside_of; /* the version of the rules that what is beside them follows */
    uint8_t *bytes;     /* name, value, author, note, beside */
    size_t bytes_len;
    char sentence[SETTINGS_SENTENCE_LEN]; /* CONFLICT and what follows: why */
};

/* A copy of all records that is under way (SETTINGS-6). */
struct settings_copying {
    bool active;
    uint64_t source;
    uint64_t version; /* of the source when it began */
    struct hash128 digest;
    struct register_voters voters;
    uint32_t next_kind;
    size_t next_len;
    char next_name[SETTINGS_NAME_LEN_MAX];
    int64_t heard_ns;
};

struct settings {
    const struct allocator *allocator;
    uint64_t node_id;
    struct register_core *ballots;
    struct register_out wants; /* of the register's last call */
    struct settings_table table;
    struct settings_log log;
    uint32_t items_max;
    bool mixed;       /* a copy has begun and did not end (SETTINGS-6) */
    uint64_t version; /* the head; 0: nothing yet */
    struct hash128 digest;
    struct register_voters voters;
    struct settings_edit edits[SETTINGS_EDITS_MAX];
    uint32_t proposing;     /* the place after that of the edit that was proposed last */
    struct hash128 attempt; /* the edit whose change was proposed last, 0: one of upkeep */
    struct settings_copying copying;
    int64_t more_ns;     /* when changes came behind which there are more, 0: none are known */
    uint64_t rules_told; /* version of the rules that the runtime was given */
    uint64_t kind_since[SETTINGS_KINDS]; /* goes up with every change of a record of the kind */
    uint64_t kind_told[SETTINGS_KINDS];  /* what that was when the runtime was given them */
    int64_t asked_ns;
    uint64_t nonce; /* of what was asked; 0: nothing yet */
    int64_t nonce_ns;
    int64_t swept_ns;
    int64_t forced_ns;
    int64_t led_ns;   /* when this node last proposed something of its own accord */
    uint64_t applied; /* changes, since start */
    uint64_t copied;  /* complete copies taken, since start */
    uint8_t *bytes;   /* JOIN_LARGE_FRAME_MAX, scratch */
    uint8_t *value;   /* SETTINGS_CHANGE_LEN_MAX, a change that is being made */
    struct settings_frame *frame;
    struct settings_frame *answer;
};

struct settings_options {
    uint64_t node_id;
    uint64_t boot;
    uint64_t seed;
    uint32_t log_max;   /* changes that are kept; 0: SETTINGS_LOG_MAX */
    uint32_t items_max; /* records that are sent in one frame; 0: SETTINGS_ITEMS_MAX */
};

MUST_USE int settings_new(const struct allocator *allocator, const struct settings_options *options,
                          struct settings **out);
void settings_free(struct settings **settings);

/* Takes back one stored value; in the order of their keys. 0 or TG_ECORRUPT, TG_ENOMEM. */
MUST_USE int settings_restore(struct settings *settings, int64_t now_ns, const char *key,
                              const void *bytes, size_t len);
/* After all of them: whether they fit together. 0 or TG_ECORRUPT. */
MUST_USE int settings_restored(const struct settings *settings);
/* Forgets what is stored: it is to be restored again, for the disk had no room for what came after.
 * Edits stay, and what the runtime was told. */
void settings_forget(struct settings *settings);

/* Applies the change that follows the head, and keeps it (SETTINGS-2); `more`: in one transaction
 * with the one that is applied next. 0, TG_ECONFLICT (it does not follow), TG_EPROTOCOL, TG_ENOMEM:
 * the head is what it was. */
MUST_USE int settings_apply(struct settings *settings, const void *bytes, size_t len, bool more,
                            struct effects *effects);
/* Ends a transaction that was to have more. */
void settings_end(const struct settings *settings, struct effects *effects);
/* Whether a change of the version after the head carries on from this head, so that it may be voted
 * for (SETTINGS-3); true as well of what the register has to judge, other versions and no change at
 * all, and of any change if records are mixed: this node will copy whatever comes of it. */
bool settings_follows(const struct settings *settings, const void *bytes, size_t len);
/* Takes a frame of RECORDS that follows what was copied so far (SETTINGS-6). False if it does not,
 * or cannot be read; else ask on, from where settings->copying says, or from the head if that has
 * ended. */
bool settings_take_records(struct settings *settings, int64_t now_ns,
                           const struct settings_frame *frame, struct effects *effects);
/* Fills `out` for one that asks: CHANGES or RECORDS; false if it lacks nothing. */
bool settings_answer(struct settings *settings, const struct settings_frame *asked,
                     struct settings_frame *out);

/* Keeps one value; `more`: in one transaction with the next. bytes NULL removes it. */
void settings_keep(const char *key, const void *bytes, size_t len, bool more,
                   struct effects *effects);

/* The record that an edit of `kind` and `name` would replace, or NULL. */
const struct settings_entry *settings_current(const struct settings *settings, uint32_t kind,
                                              const struct settings_text *name);

void settings_check_invariants(const struct settings *settings);

#endif
