/* verdict.h - a decision that one thread writes and any number read, at any time, without a lock.
 *
 * It is kept in words, each written and read at once. A reader may so find words of two decisions;
 * whoever keeps verdicts has a number beside them by which the reader can tell (hold.c, denial.c).
 * Every store releases and every load acquires: who saw a newer word sees the newer number too.
 */
#ifndef CLIENT_LIB_CACHE_VERDICT_H
#define CLIENT_LIB_CACHE_VERDICT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#include "client/include/tidegate.h"
#include "client/lib/cache/tag.h"

enum { CLIENT_VERDICT_WORDS = sizeof(tg_decision_t) / 8 };
static_assert(sizeof(tg_decision_t) % 8 == 0, "a decision is whole words");

struct client_verdict {
    _Atomic uint64_t tag[CLIENT_TAG_WORDS]; /* of the requests that it is about */
    _Atomic uint64_t word[CLIENT_VERDICT_WORDS];
};

static inline void client_verdict_tag(struct client_verdict *verdict, const struct client_tag *tag)
{
    for (int i = 0; i < CLIENT_TAG_WORDS; i++)
        atomic_store_explicit(&verdict->tag[i], tag->word[i], memory_order_release);
}

static inline void client_verdict_put(struct client_verdict *verdict, const tg_decision_t *decision)
{
    uint64_t word[CLIENT_VERDICT_WORDS];

    memcpy(word, decision, sizeof word);
    for (int i = 0; i < CLIENT_VERDICT_WORDS; i++)
        atomic_store_explicit(&verdict->word[i], word[i], memory_order_release);
}

static inline int client_verdict_is(const struct client_verdict *verdict,
                                    const struct client_tag *tag)
{
    uint64_t differs = 0;

#pragma GCC unroll 16
    for (int i = 0; i < CLIENT_TAG_WORDS; i++)
        differs |= atomic_load_explicit(&verdict->tag[i], memory_order_acquire) ^ tag->word[i];
    return differs == 0;
}

/* Word by word to where it goes: a copy in between would be read in other portions than it was
 * written in, which processors are slow at. */
static inline void client_verdict_get(const struct client_verdict *verdict, tg_decision_t *out)
{
#pragma GCC unroll 16
    for (size_t i = 0; i < CLIENT_VERDICT_WORDS; i++) {
        const uint64_t word = atomic_load_explicit(&verdict->word[i], memory_order_acquire);

        memcpy((char *)out + 8 * i, &word, 8);
    }
}

#endif
