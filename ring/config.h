/* config.h - the ring configuration: the value that the cluster's register agrees on.
 *
 *      stable              transition                 stable
 *   from = to = {a,b} --> from {a,b}, to {a,b,c} --> from = to = {a,b,c}
 *      epoch 7   add          epoch 8        settle      epoch 9
 *
 * One transition at a time: while `from` and `to` differ, add, remove and reweigh answer
 * TG_ECONFLICT; each vnode belongs to `from` until its own cutover (node/cluster's business).
 * Each change makes a new value with epoch + 1 out of an old one, which stays untouched, as a
 * compare-and-swap wants it.
 *
 * The upper half of the epoch is the lineage. Only an operator's force raises it, when too few
 * voters are left to agree on anything:
 *
 *     63            40 39       32 31                 0
 *    +----------------+-----------+--------------------+
 *    |   generation   |  byte of  |  counted from 1    |    any epoch of a new lineage is above
 *    |                |  its maker|                    |    all epochs of the old one
 *    +----------------+-----------+--------------------+
 *
 * The byte tells apart two lineages that two sides of a split begin at once, so that one wins. The
 * transition that begins a lineage has its first epoch and no other, so an epoch tells whether it
 * is of such a one: the operator has said that members of `from` are lost. A ring that may have had
 * one of the same name before it begins with a generation of its own, above that one's.
 *
 * Size: the struct is some 400 KB, because it bounds both lists; keep it on the heap or in a
 * long-lived struct, never on a stack. Only the members in use are read or written by these
 * functions, so untouched pages cost nothing and ring_config_copy is cheap. The encoded form is
 * small (about 25 bytes and the two names for each member).
 */
#ifndef RING_CONFIG_H
#define RING_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mp.h"
#include "ring/ring.h"

enum {
    RING_VOTERS_MAX = 5,
    RING_CONFIG_VERSION = 1,
    /* Bytes that hold any encoded configuration, and tokens that hold any decoded one. */
    RING_CONFIG_BYTES_MAX =
        2 * RING_MEMBERS_MAX * (2 * RING_NAME_LEN + 24 + 3 * RING_SEATS_EACH_MAX) + 256,
    RING_CONFIG_TOKENS_MAX =
        2 * RING_MEMBERS_MAX * (6 + RING_SEATS_EACH_MAX) + RING_VOTERS_MAX + 16,
    RING_SENTENCE_LEN = 160 /* bytes of an error sentence, NUL included */
};

struct ring_config {
    uint64_t epoch;    /* >= 1, grows by 1 with each change */
    uint32_t vnodes;   /* fixed when the cluster is created */
    uint32_t replicas; /* positions of a vnode, owner included */
    uint32_t voters_count;
    uint32_t from_count;
    uint32_t to_count;
    uint64_t voters[RING_VOTERS_MAX];          /* ids ascending; 1, 2 (while changing), 3, 4 or 5 */
    struct ring_member from[RING_MEMBERS_MAX]; /* ascending by id */
    struct ring_member to[RING_MEMBERS_MAX];   /* ascending by id */
};

/* The first configuration of a cluster: epoch 1, one member, which is the only voter, stable.
 * Returns 0 or TG_EINVALID. */
MUST_USE int ring_config_init(struct ring_config *config, const struct ring_member *first,
                              uint32_t vnodes, uint32_t replicas);

/* Gives that first configuration, which node `maker` makes, the first epoch of a generation. */
void ring_config_begin(struct ring_config *config, uint64_t generation, uint64_t maker);
/* The generation that `epoch` belongs to. */
uint64_t ring_config_generation(uint64_t epoch);

/* 0 if the configuration keeps every rule, else TG_EINVALID with a sentence that names the place
 * and what was expected in sentence[RING_SENTENCE_LEN] (may be NULL). Rules: epoch >= 1; vnodes
 * and replicas in range; 1..RING_MEMBERS_MAX members on both sides, ascending by id, ids not 0,
 * weights in range, zone = hash of zone_name, seats none or ascending, distinct within a side and
 * as many as the weight is worth, names terminated and not repeated within a side (an empty name
 * may repeat); 1..RING_VOTERS_MAX distinct voters, ascending, not 0, each a member of `from` or
 * `to`. */
MUST_USE int ring_config_validate(const struct ring_config *config,
                                  char sentence[RING_SENTENCE_LEN]);

/* True when from = to: no transition is under way. */
bool ring_config_is_stable(const struct ring_config *config);
/* True when both are equal in every field that counts. */
bool ring_config_equal(const struct ring_config *a, const struct ring_config *b);
/* Copies only what is in use. */
void ring_config_copy(struct ring_config *out, const struct ring_config *in);
/* The member `id` of `to`, else of `from`, else NULL. Lives as long as `config`. */
const struct ring_member *ring_config_find(const struct ring_config *config, uint64_t id);

/* Changes. `out` may not be `in`; on failure `out` is unspecified. Each returns 0 or
 *   TG_ECONFLICT  a transition is under way (add, remove, reweigh) or none is (settle),
 *   TG_EEXISTS    add: the id, or the non-empty name, is a member already,
 *   TG_ENOTFOUND  remove, reweigh: no such member; set_voters: a voter is no member,
 *   TG_EFULL      add: RING_MEMBERS_MAX or RING_SEATS_MAX reached (reweigh too),
 *   TG_EINVALID   add: a bad member; remove: the last member or the only voter; a bad weight
 *                 or set of voters.
 * add gives the member the lowest free seats, whatever it brings; reweigh gives or takes some.
 * remove also takes the node out of the voters; choosing another is the caller's decision.
 * A node brings its weight when it joins: no command calls reweigh yet, but tests do. */
MUST_USE int ring_config_add(struct ring_config *out, const struct ring_config *in,
                             const struct ring_member *member);
MUST_USE int ring_config_remove(struct ring_config *out, const struct ring_config *in, uint64_t id);
MUST_USE int ring_config_reweigh(struct ring_config *out, const struct ring_config *in, uint64_t id,
                                 uint32_t weight);
/* Ends a transition: epoch + 1, from = to. Fails with TG_EINVALID if a voter is not in `to`. */
MUST_USE int ring_config_settle(struct ring_config *out, const struct ring_config *in);
/* Replaces the voters (any order, distinct); epoch + 1. Allowed during a transition, but
 * TG_ECONFLICT in one that was forced: its epoch must tell. */
MUST_USE int ring_config_set_voters(struct ring_config *out, const struct ring_config *in,
                                    const uint64_t *voters, uint32_t voters_count);

/* Begins a new lineage: `id` (0: nobody) leaves `to`, whether or not a transition is under way, the
 * voters are these, and the epoch is the first of the lineage that node `maker` makes. Returns as
 * remove and set_voters do, but for TG_ECONFLICT; TG_ENOTFOUND only for a voter; TG_EINVALID as
 * well where `in` is of the last generation that an epoch has room for. */
MUST_USE int ring_config_force(struct ring_config *out, const struct ring_config *in, uint64_t id,
                               const uint64_t *voters, uint32_t voters_count, uint64_t maker);
/* Whether `next` is what one of these changes, but for force, makes of `config`. */
bool ring_config_follows(const struct ring_config *next, const struct ring_config *config);
/* The lineage that `epoch` belongs to. */
uint32_t ring_config_lineage(uint64_t epoch);
/* Whether it is the first of a lineage, which a transition has only if it was forced. */
bool ring_config_epoch_forced(uint64_t epoch);

/* Writes the msgpack form: [version, epoch, vnodes, replicas, [voters], [from], [to]] where a
 * member is [id, weight, [seats], name, zone_name]; `to` is nil when stable. Equal configurations
 * give equal bytes. Returns the number of bytes or TG_ETOOBIG (`capacity` too small). */
MUST_USE int ring_config_encode(const struct ring_config *config, void *data, size_t capacity);
/* Reads it back and validates it. `tokens` is scratch of tokens_max (RING_CONFIG_TOKENS_MAX holds
 * any). Returns 0, TG_EPROTOCOL (malformed or against a rule), TG_ETOOBIG or TG_EVERSION (a version
 * this code does not know); on failure *config is unspecified. */
MUST_USE int ring_config_decode(struct ring_config *config, const void *data, size_t len,
                                struct mp_token *tokens, size_t tokens_max);

#endif
