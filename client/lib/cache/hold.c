/* hold.c - leases of tokens at their holder: taken by any thread, looked after by one.
 *
 * A check of a hot key need not travel. The handle takes a block of tokens out of the key's limit
 * for a second (a lease; PROTOCOL.md), and admits with them by itself. One thread at a time, the
 * keeper, asks for leases and releases them; all others only take.
 *
 *   key --first ask--> ASKED --lease--> HELD --half of tokens or time gone, still hot--> HELD,
 * ASKED |               |                                                | | none          | used
 * up, cold, or its time over     next lease | v               v v (over) <--------(over) HELD with
 * the next one, the old released
 *
 *   state   | generation 32 | tokens left 32 |      one word, changed by compare and swap alone
 *
 * A block of tokens is published by its state and taken out by its state. Everything else that a
 * taker reads is written while the state says that nothing is left.
 *
 * HOLD-1  A take and the end of a block exclude each other: the end leaves nothing, and learns what
 *         was left from the very word that it replaced. So what a release says was used is what was
 *         taken, and nobody takes of it afterwards, nor gives back to it: the generation is another
 *         one.
 * HOLD-2  A take that succeeds found tag and verdict of that block: they change only under another
 *         generation, and who saw a word of the new one (release, acquire) finds the state changed.
 * HOLD-3  The clock is read after the take. If it says less than until_ns, the take was before the
 *         end of the lease, whatever happened to the thread since. If not, the tokens are spent:
 *         nobody admits with them, and they count as used. until_ns is asked_ns + T - T/64 - 1 ms,
 *         reckoned from before the question left. (The clock goes on while a machine is suspended:
 *         what it held is over when it wakes.)
 * HOLD-4  A key has two blocks at most, and two only between two steps of its keeper: the newer is
 *         there before the older goes, so that takers find tokens all the time.
 * HOLD-5  A hold is given to another key only when nothing is on its way about it (`calls`), for
 *         what is on its way refers to its request.
 */
#include "client/lib/cache/hold.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"

enum {
    COLD = 16,  /* tokens in 200 ms: below, a lease is not worth having */
    MEAGRE = 8, /* less than this part of what was asked: not asked again soon */
    GROWTH = 4  /* a lease is at most so many times the last one */
};
static const int64_t ms_ns = 1000000;
static const int64_t demand_ns = 200000000;
static const int64_t pause_ns = 200000000; /* after a meagre grant */

static_assert(CLIENT_HOLDS_MAX % CLIENT_HOLD_WAYS == 0, "whole sets");
static_assert((CLIENT_HOLD_SETS & (CLIENT_HOLD_SETS - 1)) == 0, "a power of two");
static_assert(CLIENT_HOLD_TOKENS_MAX < UINT32_MAX, "left is 32 bits of the state");

/* ---- any thread: who takes does it in line (hold.h) --------------------------------------- */

void client_hold_return(struct client_hold_table *table, uint64_t from, uint32_t cost)
{
    const uint32_t number = (uint32_t)(from >> 32);
    ASSERT(number < 2 * CLIENT_HOLDS_MAX && cost <= CLIENT_HOLD_COST_MAX);
    struct client_hold_block *block = &table->holds[number / 2].blocks[number % 2];
    uint64_t state = atomic_load_explicit(&block->state, memory_order_acquire);

    while (state >> 32 == (uint32_t)from &&
           !atomic_compare_exchange_weak_explicit(&block->state, &state, state + cost,
                                                  memory_order_acq_rel, memory_order_acquire)) {
    }
}

/* ---- the table --------------------------------------------------------------------------- */

int client_hold_init(struct client_hold_table *table, const struct allocator *allocator)
{
    memset(table, 0, sizeof *table);
    table->allocator = allocator;
    table->places = alloc_array(allocator, CLIENT_HOLD_SETS, sizeof *table->places);
    table->holds = alloc_array(allocator, CLIENT_HOLDS_MAX, sizeof *table->holds);
    if (table->places != NULL && table->holds != NULL)
        return 0;
    client_hold_fini(table);
    return TG_ENOMEM;
}

void client_hold_fini(struct client_hold_table *table)
{
    if (table->allocator == NULL)
        return;
    alloc_put(table->allocator, table->places, CLIENT_HOLD_SETS * sizeof *table->places);
    alloc_put(table->allocator, table->holds, CLIENT_HOLDS_MAX * sizeof *table->holds);
    memset(table, 0, sizeof *table);
}

static bool tag_equal(const struct client_tag *a, const struct client_tag *b)
{
    return memcmp(a->word, b->word, sizeof a->word) == 0;
}

struct client_hold *client_hold_find(struct client_hold_table *table, const struct client_tag *tag)
{
    const uint64_t set = tag->place & (CLIENT_HOLD_SETS - 1);

    for (uint32_t way = 0; way < CLIENT_HOLD_WAYS; way++) {
        struct client_hold *hold = &table->holds[set * CLIENT_HOLD_WAYS + way];

        if (hold->used && tag_equal(&hold->tag, tag))
            return hold;
    }
    return NULL;
}

/* Copies bytes into the hold's text, with a NUL behind them. */
static const char *keep_text(struct client_hold *hold, size_t *at, const void *bytes, size_t len)
{
    char *text = hold->text + *at;

    ASSERT(*at + len + 1 <= sizeof hold->text); /* it had a tag */
    if (len != 0)
        memcpy(text, bytes, len);
    text[len] = '\0';
    *at += len + 1;
    return text;
}

static void keep_request(struct client_hold *hold, const tg_request_t *request)
{
    size_t at = 0;

    hold->request = *request;
    hold->request.at_most = 0;
    hold->request.explain = NULL;
    hold->request.explain_max = 0;
    if (request->attribute_count == 0) {
        if (request->key_len == TG_STRLEN)
            hold->request.key_len = strlen(request->key);
        hold->request.key = keep_text(hold, &at, request->key, hold->request.key_len);
        return;
    }
    for (size_t i = 0; i < request->attribute_count; i++) {
        const tg_attribute_t *from = &request->attributes[i];
        tg_attribute_t *to = &hold->attributes[i];

        to->value_len = from->value_len == TG_STRLEN ? strlen(from->value) : from->value_len;
        to->name = keep_text(hold, &at, from->name, strlen(from->name));
        to->value = keep_text(hold, &at, from->value, to->value_len);
    }
    hold->request.attributes = hold->attributes;
}

struct client_hold *client_hold_claim(struct client_hold_table *table, const struct client_tag *tag,
                                      const tg_request_t *request)
{
    const uint64_t set = tag->place & (CLIENT_HOLD_SETS - 1);

    for (uint32_t way = 0; way < CLIENT_HOLD_WAYS; way++) {
        const uint32_t number = (uint32_t)set * CLIENT_HOLD_WAYS + way;
        struct client_hold *hold = &table->holds[number];

        if (hold->used || hold->calls != 0)
            continue;
        ASSERT(hold->blocks[0].lease == 0 && hold->blocks[1].lease == 0 &&
               !hold->asking); /* HOLD-5 */
        hold->used = true;
        hold->number = number;
        hold->tag = *tag;
        keep_request(hold, request);
        atomic_store_explicit(&table->places[set][way], tag->place, memory_order_release);
        (void)atomic_fetch_add(&table->count, 1);
        return hold;
    }
    return NULL;
}

void client_hold_drop(struct client_hold_table *table, struct client_hold *hold)
{
    ASSERT(hold->used && !hold->asking && hold->blocks[0].lease == 0 && hold->blocks[1].lease == 0);
    atomic_store_explicit(
        &table->places[hold->number / CLIENT_HOLD_WAYS][hold->number % CLIENT_HOLD_WAYS], 0,
        memory_order_release);
    (void)atomic_fetch_sub(&table->count, 1);
    hold->used = false;
    hold->ending = false;
    hold->quiet_ns = 0;
    hold->granted_last = 0;
}

struct client_hold *client_hold_due(struct client_hold_table *table)
{
    for (uint32_t i = 0; i < CLIENT_HOLD_DUE_WORDS; i++) {
        uint64_t word = atomic_load_explicit(&table->due[i], memory_order_relaxed);

        while (word != 0) {
            const uint32_t bit = (uint32_t)__builtin_ctzll(word);
            struct client_hold *hold = &table->holds[i * 64 + bit];

            (void)atomic_fetch_and_explicit(&table->due[i], ~(1ULL << bit), memory_order_acquire);
            if (hold->used)
                return hold;
            word &= ~(1ULL << bit);
        }
    }
    return NULL;
}

/* ---- the keeper -------------------------------------------------------------------------- */

static uint32_t left_of(const struct client_hold_block *block)
{
    return (uint32_t)atomic_load_explicit(&block->state, memory_order_acquire);
}

/* Takes out what is left (HOLD-1). Only the keeper ends blocks and fills them, so the generation is
 * known; the number of tokens is that of the very word which is replaced. */
static void end_block(struct client_hold_block *block, struct client_hold_release *out)
{
    ASSERT(block->lease != 0); /* HOLD-1 */
    const uint64_t before = atomic_load_explicit(&block->state, memory_order_relaxed);
    const uint64_t ended = ((before >> 32) + 1) << 32;
    const uint64_t last = atomic_exchange_explicit(&block->state, ended, memory_order_acq_rel);
    ASSERT(last >> 32 == before >> 32 && (uint32_t)last <= block->granted); /* HOLD-1 */

    *out = (struct client_hold_release){block->lease, block->granted - (uint32_t)last};
    block->lease = 0;
}

/* Tokens in 200 ms, at the pace at which they went. */
static uint64_t pace_of(const struct client_hold_block *block, int64_t now_ns)
{
    ASSERT(block->lease != 0);
    const int64_t passed_ns = now_ns - block->since_ns > ms_ns ? now_ns - block->since_ns : ms_ns;

    return sat_muldiv(block->granted - left_of(block), (uint64_t)demand_ns, (uint64_t)passed_ns);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t note_asked(struct client_hold *hold, uint64_t tokens, int64_t now_ns)
{
    ASSERT(!hold->asking);
    hold->asking = true;
    hold->asked = least(tokens, CLIENT_HOLD_TOKENS_MAX);
    hold->asked_ns = now_ns;
    return hold->asked;
}

uint64_t client_hold_ask_first(struct client_hold *hold, uint64_t demand, int64_t now_ns)
{
    return note_asked(hold, demand + demand + demand / 2 + 1, now_ns);
}

void client_hold_step(struct client_hold *hold, int64_t now_ns, struct client_hold_step *out)
{
    struct client_hold_block *older = &hold->blocks[1 - atomic_load(&hold->current)];
    struct client_hold_block *block = &hold->blocks[atomic_load(&hold->current)];

    *out = (struct client_hold_step){.next_ns = INT64_MAX};
    ASSERT(hold->used);
    if (older->lease != 0)
        end_block(older, &out->releases[out->release_count++]); /* HOLD-4 */
    if (block->lease != 0) {
        const uint64_t pace = pace_of(block, now_ns);
        const uint32_t left = left_of(block);
        const bool half = left <= block->granted / 2 || now_ns >= block->half_ns;
        const bool keep = left != 0 && now_ns < atomic_load(&block->until_ns) && !hold->ending &&
                          (now_ns < block->half_ns || pace >= COLD);

        if (half && pace >= COLD && !hold->asking && !hold->ending && now_ns >= hold->quiet_ns)
            out->ask = note_asked(hold, least(pace + pace + pace / 2, GROWTH * hold->granted_last),
                                  now_ns);
        if (!keep)
            end_block(block, &out->releases[out->release_count++]);
        else
            out->next_ns = now_ns < block->half_ns ? block->half_ns : atomic_load(&block->until_ns);
        if (keep && half && !hold->asking && hold->quiet_ns > now_ns &&
            hold->quiet_ns < out->next_ns)
            out->next_ns = hold->quiet_ns;
    }
    out->over = block->lease == 0 && !hold->asking;
}

void client_hold_granted(struct client_hold *hold, uint64_t lease, int64_t lease_ms,
                         const tg_decision_t *decision, int64_t now_ns)
{
    const uint32_t number = 1 - atomic_load(&hold->current);
    struct client_hold_block *block = &hold->blocks[number];
    const uint64_t granted = least(decision->granted, CLIENT_HOLD_TOKENS_MAX);
    const int64_t lasts_ns = lease_ms * ms_ns;
    const uint64_t state = ((atomic_load(&block->state) >> 32) + 1) << 32; /* nothing is left */
    tg_decision_t verdict = *decision;

    ASSERT(hold->asking && block->lease == 0 && left_of(block) == 0 && granted > 0);
    verdict.used = sat_subu(decision->used, granted);
    verdict.granted = granted;
    verdict.lease_id = (uint64_t)(2 * hold->number + number) << 32 | state >> 32;
    verdict.lease_ms = 0;
    verdict.local = 1;
    client_verdict_tag(&block->verdict, &hold->tag);
    client_verdict_put(&block->verdict, &verdict);
    atomic_store_explicit(&block->until_ns, hold->asked_ns + lasts_ns - lasts_ns / 64 - ms_ns,
                          memory_order_release); /* HOLD-3 */
    atomic_store_explicit(&block->told_ns, now_ns, memory_order_release);
    atomic_store_explicit(&block->half, (uint32_t)(granted / 2), memory_order_release);
    block->lease = lease;
    block->granted = granted;
    block->since_ns = now_ns;
    block->half_ns = hold->asked_ns + lasts_ns / 2;
    hold->asking = false;
    hold->granted_last = granted;
    if (granted < hold->asked / MEAGRE)
        hold->quiet_ns = now_ns + pause_ns;
    atomic_store_explicit(&block->state, state | granted, memory_order_release);
    atomic_store_explicit(&hold->current, number, memory_order_release);
}

void client_hold_refused(struct client_hold *hold, int64_t quiet_ns, bool end)
{
    hold->asking = false;
    hold->ending = hold->ending || end;
    if (quiet_ns > hold->quiet_ns)
        hold->quiet_ns = quiet_ns;
}

uint32_t client_hold_used(const struct client_hold *hold, struct client_hold_release uses[2])
{
    uint32_t count = 0;

    for (int i = 0; i < 2; i++) {
        const struct client_hold_block *block = &hold->blocks[i];
        const uint64_t used = block->lease != 0 ? block->granted - left_of(block) : 0;

        if (used != 0)
            uses[count++] = (struct client_hold_release){block->lease, used};
    }
    return count;
}

uint32_t client_hold_end(struct client_hold *hold, struct client_hold_release releases[2])
{
    uint32_t count = 0;

    for (int i = 0; i < 2; i++) {
        if (hold->blocks[i].lease != 0)
            end_block(&hold->blocks[i], &releases[count++]);
    }
    return count;
}

static void check_block(const struct client_hold *hold, const struct client_hold_block *block)
{
    const uint32_t left = left_of(block);

    INVARIANT("HOLD-1", block->lease != 0 || left == 0);
    INVARIANT("HOLD-1", block->lease == 0 || (hold->used && left <= block->granted));
    INVARIANT("HOLD-2", left == 0 || client_verdict_is(&block->verdict, &hold->tag));
}

void client_hold_check_invariants(const struct client_hold_table *table)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < CLIENT_HOLDS_MAX; i++) {
        const struct client_hold *hold = &table->holds[i];
        const uint64_t place = table->places[i / CLIENT_HOLD_WAYS][i % CLIENT_HOLD_WAYS];

        count += hold->used;
        INVARIANT("HOLD-5", place == (hold->used ? hold->tag.place : 0));
        INVARIANT("HOLD-5", !hold->used || hold->number == i);
        INVARIANT("HOLD-4", atomic_load(&hold->current) < 2);
        INVARIANT("HOLD-5", hold->used || !hold->asking);
        check_block(hold, &hold->blocks[0]);
        check_block(hold, &hold->blocks[1]);
    }
    INVARIANT("HOLD-5", count == atomic_load(&table->count));
}
