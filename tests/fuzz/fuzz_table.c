/* fuzz_table.c - states of slots as they come from peers and from disk, for every algorithm.
 *
 *     op = u8 what, u8 key | ...
 *       bring   u16 length, bytes              a made-up state
 *       change  u8 to, u16 at                  a real one, a bit of it changed
 *       merge   u8 base, u16 length, bytes
 *       decide  u8 limit, operation, cost (which is the lease of release and renew)
 *       time    u16 s
 *
 * States are both made up and real ones changed in a byte. Properties: the table's books hold; an
 * accepted state, exported, is accepted again and exported as the same bytes; a decision on any
 * accepted state keeps to its limit's terms.
 */
#include "base/limit.h"
#include "base/quantity.h"
#include "node/limit/engine/engine.h"
#include "node/limit/table/table.h"
#include "tests/fuzz/fuzz.h"

enum { KEYS = 8, VNODES = 2, OPS_MAX = 64, STATE_MAX = 1 << 16 };
#define NS_PER_S INT64_C(1000000000)

static uint8_t state[STATE_MAX];
static uint8_t again[STATE_MAX];
static int64_t now_ns;

static struct hash128 key_of(uint8_t key)
{
    return (struct hash128){.hi = hash_mix64(key % KEYS + 1U), .lo = key % KEYS};
}

static uint32_t vnode_of(uint8_t key)
{
    return key % VNODES;
}

/* The slot's state into `state`; its length, 0 if there is no slot or it is too long. */
static size_t export_of(const struct table *table, uint8_t key)
{
    const uint32_t slot = table_lookup(table, key_of(key));
    if (slot == TABLE_NONE || table_export_len(table, slot) > STATE_MAX) {
        return 0;
    }
    const int len = table_export(table, slot, state, sizeof(state));
    ASSERT(len > 0 && (size_t)len == table_export_len(table, slot));
    return (size_t)len;
}

static void bring(struct table *table, uint8_t key, const uint8_t *bytes, size_t len,
                  unsigned flags)
{
    uint8_t *const copy = fuzz_copy(bytes, len);
    int64_t expires_ns = 0;
    const int readable = table_export_expires_ns(copy, len, &expires_ns);
    const int result = table_import(table, vnode_of(key), key_of(key), copy, len, now_ns, flags);
    ASSERT(result != 0 || readable == 0);
    free(copy);
    const uint32_t slot = table_lookup(table, key_of(key));
    if (result != 0 || slot == TABLE_NONE || (flags & TABLE_FROM_DISK) != 0) {
        return;
    }
    const size_t a = export_of(table, key);
    if (a == 0) {
        return;
    }
    memcpy(again, state, a);
    ASSERT(table_import(table, vnode_of(key), key_of(key), again, a, now_ns, 0) == 0);
    if (table_lookup(table, key_of(key)) != TABLE_NONE) {
        ASSERT(export_of(table, key) == a && memcmp(state, again, a) == 0);
    }
}

static void reserve(struct table *table, uint8_t key, const struct limit *limit, uint64_t cost,
                    uint64_t hold, uint32_t more_ms)
{
    const struct hash128 id = key_of(key);
    const uint32_t vnode = vnode_of(key);
    const uint32_t ttl_ms = LIMIT_TTL_MIN_MS + more_ms;
    const uint8_t operation = OPERATION_RESERVE;
    const uint8_t flags = LIMIT_LOADED | LIMIT_HOLD;
    const struct limit_batch batch = {.count = 1,
                                      .ids = &id,
                                      .vnodes = &vnode,
                                      .limits = &limit,
                                      .costs = &cost,
                                      .operations = &operation,
                                      .flags = &flags,
                                      .leases = &hold,
                                      .ttls_ms = &ttl_ms};
    struct limit_decision got;
    struct limit_decisions out = {
        &got.status,  &got.allowed,        &got.limit,          &got.used,     &got.remaining,
        &got.granted, &got.reset_after_ns, &got.retry_after_ns, &got.delay_ns, &got.notes};
    engine_step(table, &batch, now_ns, &out);
    ASSERT(got.status != LIMIT_DECIDED || got.allowed || got.granted == 0);
}

static void decide(struct table *table, uint8_t key, struct fuzz_input *input)
{
    static const uint64_t counts[] = {1, 3, 100, 65536, 1000000000};
    const uint8_t chosen = fuzz_u8(input);
    const enum operation operation = (enum operation)(fuzz_u8(input) % OPERATION_COUNT);
    struct limit limit = {.count = counts[chosen / 16 % 5],
                          .window_ns = (uint64_t)NS_PER_S * (1 + chosen),
                          .algorithm = chosen % ALGORITHM_COUNT};
    char sentence[QUANTITY_ERROR_LEN];
    struct limit_decision decision;
    if (limit_validate(&limit, sentence) != 0) {
        return;
    }
    const uint64_t cost = fuzz_u8(input);
    const bool in_flight = limit.algorithm == ALGORITHM_CONCURRENCY;
    const bool holds = operation >= OPERATION_LEASE && !in_flight; /* tokens */
    const uint64_t lease = holds ? 1 + fuzz_u8(input) % 4U
                           : operation == OPERATION_RELEASE || operation == OPERATION_RENEW
                               ? cost
                               : (uint64_t)chosen / 16;
    if (operation >= OPERATION_LEASE && in_flight && operation != OPERATION_RELEASE &&
        operation != OPERATION_RENEW) {
        return; /* a shard asks the engine for a check then, or refuses */
    }
    if (operation == OPERATION_RESERVE) {
        reserve(table, key, &limit, cost, lease, fuzz_u8(input));
        return;
    }
    engine_one_leased(table, key_of(key), vnode_of(key), &limit, cost, lease, operation,
                      LIMIT_LOADED | (holds ? LIMIT_HOLD : 0U), now_ns, &decision);
    /* A check whose lease is there already is granted what that holds. */
    if (decision.status == LIMIT_DECIDED && decision.allowed && operation == OPERATION_CHECK &&
        !in_flight) {
        ASSERT(decision.granted <= limit_capacity(&limit) && decision.granted == cost);
    }
}

static void step(struct table *table, struct fuzz_input *input)
{
    const uint8_t what = fuzz_u8(input);
    const uint8_t key = fuzz_u8(input);
    size_t got = 0;
    switch (what % 8) {
    case 0:
    case 1: {
        const uint8_t *const bytes = fuzz_take(input, fuzz_u16(input), &got);
        bring(table, key, bytes, got, what % 8 == 1 ? TABLE_FROM_DISK : 0);
        break;
    }
    case 2:
    case 3: {
        const uint8_t to = fuzz_u8(input);
        const uint16_t at = fuzz_u16(input);
        const size_t len = export_of(table, key);
        if (len > 0) {
            state[at % len] = (uint8_t)(state[at % len] ^ (1U << to % 8));
            bring(table, to, state, what % 16 < 8 ? len : at % (len + 1), 0);
        }
        break;
    }
    case 4: {
        const size_t base_len = export_of(table, fuzz_u8(input));
        const uint8_t *const other = fuzz_take(input, fuzz_u16(input), &got);
        (void)!table_merge(table, vnode_of(key), key_of(key), state, base_len, other, got, now_ns);
        break;
    }
    case 5:
        now_ns += fuzz_u16(input) * NS_PER_S;
        (void)table_step(table, now_ns);
        break;
    default:
        decide(table, key, input);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    struct table *table = NULL;
    now_ns = INT64_C(1700000000) * NS_PER_S;
    ASSERT(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN, VNODES) == 0);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
        table_set_targets(table, vnode, 3);
    }
    for (int op = 0; op < OPS_MAX && fuzz_more(&input); op++) {
        step(table, &input);
    }
    table_check_invariants(table); /* once: it takes longer than all the steps */
    table_free(&table);
    return 0;
}
