/* denial.c - what was denied a moment ago is denied still, until it can be otherwise.
 *
 * A node says of a denial when this cost can succeed at the earliest, and whether that is all that
 * can change it (STEADY in PROTOCOL.md). Until then, and for a second at most, who asks for as much
 * is answered here. So a caller that does not heed retry_after costs the cluster nothing.
 *
 *   places[set] | tag | tag | ... 8 |     one cache line finds the key, or says that it is not
 * there
 *
 * DENIAL-1  A denial is given only for the same request (tag), an equal cost (or DENIAL-5), before
 *           until_ns, and if nothing was forgotten since it was asked for.
 * DENIAL-2  A reader uses what it read only if `version` was even and the same before and after.
 * DENIAL-3  until_ns - told_ns is at most CLIENT_DENIAL_MS: a changed rule, a raised limit, a
 *           refund by somebody else act within that.
 * DENIAL-4  What this handle refunds, resets or releases is seen at once: all denials are
 *           forgotten, as nobody here knows which rules two requests share, and so are those that
 *           were asked for before it and told after. Without an answer it counts as done when it is
 *           given up.
 * DENIAL-5  A higher cost is denied as well, but perhaps for longer, or for ever: it is answered
 *           here only if already the lower one can never succeed.
 */
#include "client/lib/cache/denial.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "client/lib/cache/hold.h"

static_assert((CLIENT_DENIAL_SETS & (CLIENT_DENIAL_SETS - 1)) == 0, "a power of two");

int client_denial_init(struct client_denial_table *table, const struct allocator *allocator)
{
    memset(table, 0, sizeof *table);
    table->allocator = allocator;
    table->places = alloc_array(allocator, CLIENT_DENIAL_SETS, sizeof *table->places);
    table->denials = alloc_array(allocator, CLIENT_DENIALS_MAX, sizeof *table->denials);
    if (table->places != NULL && table->denials != NULL)
        return 0;
    client_denial_fini(table);
    return TG_ENOMEM;
}

void client_denial_fini(struct client_denial_table *table)
{
    if (table->allocator == NULL)
        return;
    alloc_put(table->allocator, table->places, CLIENT_DENIAL_SETS * sizeof *table->places);
    alloc_put(table->allocator, table->denials, CLIENT_DENIALS_MAX * sizeof *table->denials);
    memset(table, 0, sizeof *table);
}

static bool read_denial(const struct client_denial_table *table, const struct client_denial *denial,
                        const struct client_tag *tag, uint64_t cost, int64_t now_ns,
                        tg_decision_t *decision)
{
    const uint64_t version = atomic_load_explicit(&denial->version, memory_order_acquire);
    const int64_t told_ns = atomic_load_explicit(&denial->told_ns, memory_order_acquire);

    if (atomic_load_explicit(&denial->until_ns, memory_order_acquire) <= now_ns ||
        atomic_load_explicit(&denial->cost, memory_order_acquire) > cost ||
        atomic_load_explicit(&denial->age, memory_order_acquire) !=
            atomic_load_explicit(&table->age, memory_order_acquire) ||
        !client_verdict_is(&denial->verdict, tag))
        return false;
    client_verdict_get(&denial->verdict, decision);
    if (decision->retry_after_ms >= 0 &&
        atomic_load_explicit(&denial->cost, memory_order_acquire) != cost)
        return false; /* DENIAL-5 */
    if (version % 2 != 0 || atomic_load_explicit(&denial->version, memory_order_acquire) != version)
        return false; /* DENIAL-2 */
    client_hold_finish(decision, told_ns, now_ns);
    return true;
}

bool client_denial_find(const struct client_denial_table *table, const struct client_tag *tag,
                        uint64_t cost, int64_t now_ns, tg_decision_t *decision)
{
    const uint64_t set = tag->place & (CLIENT_DENIAL_SETS - 1);

    for (uint32_t way = 0; way < CLIENT_DENIAL_WAYS; way++) {
        if (atomic_load_explicit(&table->places[set][way], memory_order_acquire) == tag->place &&
            read_denial(table, &table->denials[set * CLIENT_DENIAL_WAYS + way], tag, cost, now_ns,
                        decision))
            return true;
    }
    return false;
}

/* The tag's own place, else the one whose denial ends first. */
static uint32_t place_for(const struct client_denial_table *table, const struct client_tag *tag)
{
    const uint32_t first = (uint32_t)(tag->place & (CLIENT_DENIAL_SETS - 1)) * CLIENT_DENIAL_WAYS;
    uint32_t best = first;

    for (uint32_t at = first; at < first + CLIENT_DENIAL_WAYS; at++) {
        if (client_verdict_is(&table->denials[at].verdict, tag))
            return at;
        if (atomic_load(&table->denials[at].until_ns) < atomic_load(&table->denials[best].until_ns))
            best = at;
    }
    ASSERT(best >= first && best < first + CLIENT_DENIAL_WAYS);
    return best;
}

/* Whether the denial in the place says more than one of `cost` until `until_ns` would. */
static bool says_more(const struct client_denial_table *table, const struct client_denial *denial,
                      const struct client_tag *tag, uint64_t cost, int64_t now_ns)
{
    return client_verdict_is(&denial->verdict, tag) && atomic_load(&denial->cost) < cost &&
           atomic_load(&denial->until_ns) > now_ns &&
           atomic_load(&denial->age) == atomic_load(&table->age);
}

void client_denial_put(struct client_denial_table *table, const struct client_tag *tag,
                       uint64_t cost, const tg_decision_t *decision, int64_t asked_ns,
                       int64_t now_ns)
{
    ASSERT(asked_ns <= now_ns && cost > 0);
    const uint32_t at = place_for(table, tag);
    struct client_denial *denial = &table->denials[at];
    const int64_t told_ms = decision->retry_after_ms; /* rounded up */
    const int64_t ms = told_ms < 0 || told_ms > CLIENT_DENIAL_MS ? CLIENT_DENIAL_MS : told_ms - 1;
    const int64_t until_ns = asked_ns + ms * 1000000;
    const uint64_t version = atomic_load_explicit(&denial->version, memory_order_relaxed);
    tg_decision_t verdict = *decision;

    verdict.local = 1;
    verdict.lease_id = 0; /* a denial has no lease, whatever a node says */
    verdict.lease_ms = 0;
    if (until_ns <= now_ns || asked_ns <= atomic_load(&table->forgot_ns) ||
        says_more(table, denial, tag, cost, now_ns))
        return;
    ASSERT(version % 2 == 0); /* DENIAL-2: there is one keeper */
    atomic_store_explicit(&denial->version, version + 1, memory_order_release);
    atomic_store_explicit(&denial->until_ns, until_ns, memory_order_release);
    atomic_store_explicit(&denial->told_ns, now_ns, memory_order_release);
    atomic_store_explicit(&denial->cost, cost, memory_order_release);
    atomic_store_explicit(&denial->age, atomic_load(&table->age), memory_order_release);
    client_verdict_tag(&denial->verdict, tag);
    client_verdict_put(&denial->verdict, &verdict);
    atomic_store_explicit(&denial->version, version + 2, memory_order_release);
    atomic_store_explicit(&table->places[at / CLIENT_DENIAL_WAYS][at % CLIENT_DENIAL_WAYS],
                          tag->place, memory_order_release);
    if (until_ns > atomic_load(&table->last_ns))
        atomic_store_explicit(&table->last_ns, until_ns, memory_order_release);
}

void client_denial_forget(struct client_denial_table *table, int64_t now_ns)
{
    (void)atomic_fetch_add(&table->age, 1);
    atomic_store(&table->forgot_ns, now_ns);
    atomic_store(&table->last_ns, 0);
}

void client_denial_drop(struct client_denial_table *table, const struct client_tag *tag)
{
    struct client_denial *denial = &table->denials[place_for(table, tag)];

    if (client_verdict_is(&denial->verdict, tag))
        atomic_store_explicit(&denial->until_ns, 0, memory_order_release);
}

void client_denial_tick(struct client_denial_table *table, int64_t now_ns)
{
    if (atomic_load(&table->last_ns) <= now_ns)
        atomic_store(&table->last_ns, 0);
}

void client_denial_check_invariants(const struct client_denial_table *table)
{
    for (uint32_t i = 0; i < CLIENT_DENIALS_MAX; i++) {
        const struct client_denial *denial = &table->denials[i];
        const int64_t lasts_ns = atomic_load(&denial->until_ns) - atomic_load(&denial->told_ns);
        const uint64_t place =
            atomic_load(&table->places[i / CLIENT_DENIAL_WAYS][i % CLIENT_DENIAL_WAYS]);

        INVARIANT("DENIAL-2", atomic_load(&denial->version) % 2 == 0);
        INVARIANT("DENIAL-3", lasts_ns <= (int64_t)CLIENT_DENIAL_MS * 1000000);
        INVARIANT("DENIAL-4", atomic_load(&denial->age) <= atomic_load(&table->age));
        INVARIANT("DENIAL-1", place == 0 || place % CLIENT_DENIAL_SETS == i / CLIENT_DENIAL_WAYS);
    }
}
