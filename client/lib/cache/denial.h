/* denial.h - denials that hold until their time: any thread looks them up, one keeps them. Pure:
 * the time is an argument. The idea and the invariants are in denial.c. */
#ifndef CLIENT_LIB_CACHE_DENIAL_H
#define CLIENT_LIB_CACHE_DENIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#include "client/include/tidegate.h"
#include "client/lib/cache/tag.h"
#include "client/lib/cache/verdict.h"

enum {
    CLIENT_DENIALS_MAX = 4096,
    CLIENT_DENIAL_WAYS = 8, /* places where a key may be */
    CLIENT_DENIAL_SETS = CLIENT_DENIALS_MAX / CLIENT_DENIAL_WAYS,
    CLIENT_DENIAL_MS = 1000 /* a denial is remembered for so long at most */
};

struct client_denial {
    _Atomic uint64_t version; /* odd while it is written */
    _Atomic int64_t until_ns;
    _Atomic int64_t told_ns;
    _Atomic uint64_t cost; /* and any higher one */
    _Atomic uint64_t age;  /* of the table, when it was told */
    struct client_verdict verdict;
};

struct client_denial_table {
    const struct allocator *allocator;
    _Atomic uint64_t (*places)[CLIENT_DENIAL_WAYS]; /* tag.place of denials[set * ways + way] */
    struct client_denial *denials;
    _Atomic uint64_t age;      /* denials of an earlier one are forgotten */
    _Atomic int64_t last_ns;   /* none lasts longer */
    _Atomic int64_t forgot_ns; /* what was asked before is not remembered */
};

/* 0 or TG_ENOMEM. */
MUST_USE int client_denial_init(struct client_denial_table *table,
                                const struct allocator *allocator);
void client_denial_fini(struct client_denial_table *table);

/* Whether a check of `cost` tokens of the tag's key is known to be denied; then *decision is that
 * denial, its times as of now. Any thread. */
bool client_denial_find(const struct client_denial_table *table, const struct client_tag *tag,
                        uint64_t cost, int64_t now_ns, tg_decision_t *decision);
/* Whether any denial may be remembered at all: a cheap look. Any thread. */
static inline bool client_denial_any(const struct client_denial_table *table)
{
    return atomic_load_explicit(&table->last_ns, memory_order_relaxed) != 0;
}

/* The keeper's, one thread at a time, from here on. */

/* Remembers that a check of `cost`, asked for at `asked_ns`, was denied at `now_ns`. */
void client_denial_put(struct client_denial_table *table, const struct client_tag *tag,
                       uint64_t cost, const tg_decision_t *decision, int64_t asked_ns,
                       int64_t now_ns);
/* Forgets all: something was given back, or may have been. */
void client_denial_forget(struct client_denial_table *table, int64_t now_ns);
/* Forgets one. */
void client_denial_drop(struct client_denial_table *table, const struct client_tag *tag);
/* Asserts that what is remembered may be given; for tests. */
void client_denial_check_invariants(const struct client_denial_table *table);
/* Lets client_denial_any be false again when all have lapsed. */
void client_denial_tick(struct client_denial_table *table, int64_t now_ns);

#endif
