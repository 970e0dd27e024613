/* hold.h - tokens of hot keys that this handle holds: any thread takes of them, one keeps them.
 * Pure: the time is an argument. The idea and the invariants are in hold.c.
 */
#ifndef CLIENT_LIB_CACHE_HOLD_H
#define CLIENT_LIB_CACHE_HOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#include "client/include/tidegate.h"
#include "client/lib/cache/tag.h"
#include "client/lib/cache/verdict.h"

enum {
    CLIENT_HOLDS_MAX = 1024,   /* keys of which tokens are held, or asked for */
    CLIENT_HOLD_WAYS = 8,      /* places where a key may be: one cache line of tags */
    CLIENT_HOLD_COST_MAX = 16, /* a check of more is asked for */
    CLIENT_HOLD_TEXT_LEN = (CLIENT_TAG_INPUT_WORDS + CLIENT_TAG_ATTRIBUTES_MAX) * 8,
    CLIENT_HOLD_SETS = CLIENT_HOLDS_MAX / CLIENT_HOLD_WAYS,
    CLIENT_HOLD_DUE_WORDS = CLIENT_HOLDS_MAX / 64
};
#define CLIENT_HOLD_TOKENS_MAX (UINT32_MAX / 4) /* of one lease */

/* One lease: what is left of it, and what its decisions say. */
struct client_hold_block {
    char before[56];        /* takers write `state`: it has a cache line of its own */
    _Atomic uint64_t state; /* generation << 32 | tokens left */
    char behind[56];
    _Atomic int64_t until_ns;      /* nothing is taken from then on */
    _Atomic int64_t told_ns;       /* when the decider said what `verdict` says */
    _Atomic uint32_t half;         /* who gets down to it says so (due) */
    struct client_verdict verdict; /* of the grant */

    uint64_t lease; /* the keeper's from here on; 0: none */
    uint64_t granted;
    int64_t since_ns; /* it can be taken from */
    int64_t half_ns;  /* half of its time is over */
};

/* One key. The keeper's, but for blocks, current and place. */
struct client_hold {
    struct client_hold_block blocks[2];
    _Atomic uint32_t current; /* the newer block, from which is taken first */
    uint32_t number;
    uint32_t calls; /* about it on their way: it is not given to another key meanwhile */
    bool used;      /* it belongs to a key */
    bool asking;    /* for tokens */
    bool ending;    /* what is held is to go */
    uint64_t asked; /* how many */
    uint64_t granted_last;
    int64_t asked_ns;
    int64_t quiet_ns; /* nothing is asked for before */
    int64_t next_ns;  /* it is to be looked at then (leases.c) */
    struct client_tag tag;
    tg_request_t request; /* a copy: attributes and text are these */
    tg_attribute_t attributes[CLIENT_TAG_ATTRIBUTES_MAX];
    char text[CLIENT_HOLD_TEXT_LEN];
};

struct client_hold_table {
    const struct allocator *allocator;
    _Atomic uint64_t (*places)[CLIENT_HOLD_WAYS]; /* tag.place of holds[set * ways + way], or 0 */
    struct client_hold *holds;
    atomic_uint count;                           /* of keys */
    _Atomic uint64_t due[CLIENT_HOLD_DUE_WORDS]; /* holds that a taker says to look at */
};

/* ---- any thread ---- */

struct client_hold_taken {
    int64_t until_ns; /* it counts only if the clock, read after the take, says less */
    int64_t told_ns;
    bool due; /* the keeper is to be woken */
};

enum { CLIENT_HOLD_TAKE_TRIES = 1000 }; /* others were quicker each time: then it is asked for */

/* Of one block, by HOLD-1 and HOLD-2. */
static inline __attribute__((always_inline)) bool
client_hold_take_block(struct client_hold_block *block, const struct client_tag *tag, uint32_t cost,
                       tg_decision_t *decision, struct client_hold_taken *taken)
{
    uint64_t state = atomic_load_explicit(&block->state, memory_order_acquire);

    for (int tries = 0; tries < CLIENT_HOLD_TAKE_TRIES; tries++) {
        const uint32_t left = (uint32_t)state;
        uint32_t half;

        if (left < cost || !client_verdict_is(&block->verdict, tag))
            return false;
        client_verdict_get(&block->verdict, decision);
        taken->until_ns = atomic_load_explicit(&block->until_ns, memory_order_acquire);
        taken->told_ns = atomic_load_explicit(&block->told_ns, memory_order_acquire);
        half = atomic_load_explicit(&block->half, memory_order_acquire);
        if (!atomic_compare_exchange_weak_explicit(&block->state, &state, state - cost,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        taken->due = left == cost || (left > half && left - cost <= half);
        decision->used += decision->granted - (left - cost); /* granted: the whole block */
        decision->remaining += left - cost;
        decision->granted = cost;
        return true;
    }
    return false;
}

/* Takes `cost` tokens (1 .. CLIENT_HOLD_COST_MAX) held of the tag's key: one atomic subtraction.
 * False: not so many are held. Else *decision is an admission, with times as of told_ns: see
 * client_hold_finish. A take that comes too late is not undone: its tokens are spent. lease_id says
 * where they were taken from, for client_hold_return: who keeps them sets it to 0.
 * In line, for what each check does here is little beside the calls and the saving of registers. */
static inline __attribute__((always_inline)) bool
client_hold_take(struct client_hold_table *table, const struct client_tag *tag, uint32_t cost,
                 tg_decision_t *decision, struct client_hold_taken *taken)
{
    const uint64_t set = tag->place & (CLIENT_HOLD_SETS - 1);

    for (uint32_t way = 0; way < CLIENT_HOLD_WAYS; way++) {
        const uint64_t number = set * CLIENT_HOLD_WAYS + way;
        struct client_hold *hold = &table->holds[number];
        uint32_t current;

        if (atomic_load_explicit(&table->places[set][way], memory_order_acquire) != tag->place)
            continue;
        current = atomic_load_explicit(&hold->current, memory_order_acquire);
        for (uint32_t i = 0; i < 2; i++) {
            if (!client_hold_take_block(&hold->blocks[current ^ i], tag, cost, decision, taken))
                continue;
            if (taken->due)
                (void)atomic_fetch_or_explicit(&table->due[number / 64], 1ULL << number % 64,
                                               memory_order_release);
            return true;
        }
    }
    return false;
}

/* Gives tokens back that were taken for what is not to be answered. If their block has ended since,
 * they are spent. */
void client_hold_return(struct client_hold_table *table, uint64_t from, uint32_t cost);

/* ---- the keeper: one thread at a time ---- */

/* 0 or TG_ENOMEM. */
MUST_USE int client_hold_init(struct client_hold_table *table, const struct allocator *allocator);
void client_hold_fini(struct client_hold_table *table);

/* The key's hold, or NULL. */
struct client_hold *client_hold_find(struct client_hold_table *table, const struct client_tag *tag);
/* A hold for a key that has none, with a copy of its request; NULL: no room. */
struct client_hold *client_hold_claim(struct client_hold_table *table, const struct client_tag *tag,
                                      const tg_request_t *request);

struct client_hold_release {
    uint64_t lease;
    uint64_t used;
};

/* What is to be done about one hold now. */
struct client_hold_step {
    uint64_t ask; /* for so many tokens; 0 nothing */
    struct client_hold_release releases[2];
    uint32_t release_count;
    int64_t next_ns; /* look again then; INT64_MAX: not until something happens */
    bool over;       /* nothing is held nor asked for: client_hold_drop */
};

/* Decides what is to be done. What it says to release is taken out: nobody takes of it any more,
 * and `used` is final. What it says to ask is taken as asked. */
void client_hold_step(struct client_hold *hold, int64_t now_ns, struct client_hold_step *out);
/* The first question, for a key whose last 200 ms were `demand` tokens. */
uint64_t client_hold_ask_first(struct client_hold *hold, uint64_t demand, int64_t now_ns);
/* The answer to what was asked: a lease of `decision->granted` tokens, which lasts `lease_ms` from
 * asked_ns on. Then client_hold_step. */
void client_hold_granted(struct client_hold *hold, uint64_t lease, int64_t lease_ms,
                         const tg_decision_t *decision, int64_t now_ns);
/* Or none was given; nothing is asked before `quiet_ns`. With `end` what is held is to go, too. */
void client_hold_refused(struct client_hold *hold, int64_t quiet_ns, bool end);
/* What was taken of its leases by now, of which it goes on; of none if nothing was. */
uint32_t client_hold_used(const struct client_hold *hold, struct client_hold_release uses[2]);
/* Takes everything out, at the end. Fills releases as client_hold_step. */
uint32_t client_hold_end(struct client_hold *hold, struct client_hold_release releases[2]);
/* Gives the hold, which is over, to whoever comes next. */
void client_hold_drop(struct client_hold_table *table, struct client_hold *hold);
/* The next hold that a taker said to look at, or NULL. */
struct client_hold *client_hold_due(struct client_hold_table *table);
/* Asserts that the table is whole; for tests, while nobody claims or drops. */
void client_hold_check_invariants(const struct client_hold_table *table);

/* Sets the times in a decision that was made at told_ns to what they are at now_ns. Any thread. */
static inline void client_hold_finish(tg_decision_t *decision, int64_t told_ns, int64_t now_ns)
{
    const int64_t passed_ms = now_ns > told_ns ? (now_ns - told_ns) / 1000000 : 0;

    if (decision->reset_after_ms > 0)
        decision->reset_after_ms =
            decision->reset_after_ms > passed_ms ? decision->reset_after_ms - passed_ms : 0;
    if (decision->retry_after_ms > 0)
        decision->retry_after_ms =
            decision->retry_after_ms > passed_ms ? decision->retry_after_ms - passed_ms : 1;
}

#endif
