/* register.h - one linearizable register, for the ring configuration and for the settings:
 * compare-and-swap Paxos.
 *
 * The epoch is the instance: configuration e+1 is decided once, by the voters that configuration
 * e names, and carries on from it. There is no leader and no log: whoever wants a change asks.
 * What is said here of configurations holds for changes of the settings as well (settings.h): their
 * instance is the version, and each of them names the voters for the one after it.
 *
 *     proposer                               voters of e                  new voters of e+1
 *        |--- PREPARE(e+1, ballot) ------------->|                               |
 *        |<-- PROMISE(ballot, what was accepted) |   a majority                  |
 *        |--- ACCEPT(e+1, ballot, value) ------->|------------------------------>|
 *        |<-- ACCEPTED ------------------------- |   a majority of each          |
 *      decided: control makes it durable and tells everybody
 *
 * REGISTER-1  An acceptor answers for one instance: the epoch after the committed one that it
 *             knows. A proposer behind it is told the configuration; one ahead of it is asked for
 *             it.
 * REGISTER-2  A promise and an acceptance are durable before they are answered, and before they
 *             count for the proposer in the same node (the caller carries out `persist` before all
 *             else).
 * REGISTER-3  A ballot is used by one process for one value: (number, node, incarnation of the
 *             process).
 * REGISTER-4  A proposer carries on the value of the highest ballot that a majority reports; only
 *             if there is none does it propose its own. So a value that may have been chosen stays.
 * REGISTER-5  A value is decided when a majority of the voters of e has accepted it under one
 *             ballot and so has a majority of the voters that it names itself: who decides next
 *             knows it.
 * REGISTER-6  A node that lost its store has another id: what the old one promised nobody answers
 *             for.
 *
 * Pure: time and messages in, a struct of wishes out. One thread. Does not know addresses.
 */
#ifndef NODE_CLUSTER_CONSENSUS_REGISTER_H
#define NODE_CLUSTER_CONSENSUS_REGISTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/mp.h"
#include "ring/config.h"

enum {
    REGISTER_VALUE_LEN_MAX = 256 << 10,         /* an encoded configuration */
    REGISTER_CHANGE_LEN_MAX = (1 << 20) - 4096, /* an encoded change of settings: it fits a frame */
    REGISTER_RECORD_LEN_MAX = REGISTER_VALUE_LEN_MAX + 128,
    REGISTER_SENDS_MAX = 2 * RING_VOTERS_MAX, /* of one call */
};

/* No ballot is numbered higher on the wire, so that the next number never wraps around; half of it
 * was the bound of older releases, which promised any up to it. */
#define REGISTER_NUMBER_MAX (UINT64_C(1) << 63)
/* Nor is one heard that is so much above those that are known: numbers rise by one with an attempt,
 * and a promise of the highest would leave nothing to propose. */
#define REGISTER_NUMBER_STEP (UINT64_C(1) << 20)

struct register_ballot {
    uint64_t number; /* 0: none */
    uint64_t node;
    uint64_t boot; /* incarnation with which the process started */
};

enum register_type {
    REGISTER_PREPARE = 1,
    REGISTER_PROMISE = 2,
    REGISTER_ACCEPT = 3,
    REGISTER_ACCEPTED = 4,
    REGISTER_REFUSED = 5,
    REGISTER_TYPE_END
};

struct register_message {
    enum register_type type;
    uint64_t sender;
    uint64_t epoch;                /* the instance */
    struct register_ballot ballot; /* the proposer's; in every message */
    struct register_ballot other;  /* PROMISE: of `value`; REFUSED: the higher one promised */
    const uint8_t *value;          /* ACCEPT, and PROMISE if one was accepted; else NULL */
    size_t value_len;
};

struct register_send {
    uint64_t to;
    struct register_message message; /* `value` lives until the next call of this register */
};

/* What a call wants done, in this order. */
struct register_out {
    bool persist;        /* make register_encode's bytes durable first (REGISTER-2) */
    uint64_t fetch_from; /* non-zero: ask this node for its configuration, which is newer */
    uint64_t tell;       /* non-zero: tell this node the committed configuration */
    uint32_t send_count;
    bool decided; /* register_value is committed: make it durable, call register_follow */
    struct register_send sends[REGISTER_SENDS_MAX];
};

struct register_core;

struct register_voters {
    uint32_t count;
    uint64_t ids[RING_VOTERS_MAX];
};

struct register_options {
    uint64_t node_id;
    uint64_t boot; /* greater in each process of this node */
    uint64_t seed; /* of the random back-off */
    /* Reads the instance and the voters of an encoded value; false if it is none. NULL: values are
     * ring configurations, of at most REGISTER_VALUE_LEN_MAX bytes. */
    bool (*read)(const uint8_t *value, size_t len, uint64_t *instance,
                 struct register_voters *voters);
    size_t value_len_max; /* with `read` */
};

/* Takes all memory there will ever be. 0 or TG_ENOMEM. */
MUST_USE int register_new(const struct allocator *allocator, const struct register_options *options,
                          struct register_core **out);
void register_free(struct register_core **core);

/* Takes back what register_encode wrote before a restart; after register_follow with the stored
 * configuration, if there is one. 0, or TG_ECORRUPT: unreadable, or of an epoch that the stored
 * configuration does not lead to. */
MUST_USE int register_restore(struct register_core *core, int64_t now_ns, const void *record,
                              size_t len);
/* The durable record, of at most 128 bytes more than a value; length, or TG_ETOOBIG. */
MUST_USE int register_encode(const struct register_core *core, void *out, size_t capacity);
/* A ballot among other values: what the record and the frames have in common. */
void register_put_ballot(struct mp_writer *writer, const struct register_ballot *ballot);
void register_get_ballot(struct mp_cursor *cursor, struct register_ballot *ballot);

/* Goes back to what is on disk, because that had no room for the record, or for what was decided:
 * forgets all but the numbers that this process has used (REGISTER-3). register_follow and
 * register_restore come next, as after a restart. */
void register_forget(struct register_core *core);
/* The committed configuration is now this one; what belonged to earlier instances is forgotten. */
void register_follow(struct register_core *core, const struct ring_config *committed);
/* The same for values of another kind: instance `committed` is, and names `voters`. */
void register_follow_value(struct register_core *core, uint64_t committed,
                           const struct register_voters *voters);

/* Starts an attempt to have `next` follow the committed configuration. Does nothing while an
 * attempt is under way or backs off; true if one was started. */
bool register_propose(struct register_core *core, int64_t now_ns, const struct ring_config *next,
                      struct register_out *out);
/* The same for an encoded value of another kind, which `read` understands. */
bool register_propose_value(struct register_core *core, int64_t now_ns, const void *value,
                            size_t len, struct register_out *out);
void register_receive(struct register_core *core, int64_t now_ns,
                      const struct register_message *message, struct register_out *out);
/* Repeats what was not answered, gives up what takes too long, and carries on what was left in
 * doubt by others. */
void register_tick(struct register_core *core, int64_t now_ns, struct register_out *out);
/* When register_tick is due, INT64_MAX for never. */
int64_t register_next_deadline(const struct register_core *core);

/* Gives up the attempt under way, if it is for an own wish that nobody was offered yet: that cannot
 * be decided any more. One that carries on what was accepted before goes on. */
void register_withdraw(struct register_core *core);
/* Whether an attempt is under way; whether its value was offered to the voters, so that it may be
 * chosen. */
bool register_busy(const struct register_core *core);
bool register_offers(const struct register_core *core);
/* Whether the own acceptor has accepted a value that is not known to be decided. */
bool register_in_doubt(const struct register_core *core);
/* Whether the own acceptor has accepted just this value for the instance under way. */
bool register_accepted(const struct register_core *core, const uint8_t *bytes, size_t len);
/* That value, of length 0 if there is none; valid until the next call. */
const uint8_t *register_accepted_value(const struct register_core *core, size_t *len);
/* The encoded value that was decided; valid right after `decided`. */
const uint8_t *register_value(const struct register_core *core, size_t *len);

/* Below, equal, above: -1, 0, 1. */
int register_ballot_compare(const struct register_ballot *a, const struct register_ballot *b);

void register_check_invariants(const struct register_core *core);

#endif
