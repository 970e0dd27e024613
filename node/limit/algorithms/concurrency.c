/* concurrency.c - at most `count` in flight: each admission is a lease until it is given back.
 *
 *      |<-------- lease a -------->|                 a is released: its place is free at once
 *           |<--------- lease b ------------------>| b is not: it frees its place by itself
 *
 * The limit's window is the time-out of its leases. A lease has an id, which whoever decides
 * derives from the identity of the request (node/cluster/admission/decide.c): a request that is
 * repeated, here or at another leader, finds its lease and takes no second one. The layout is in
 * concurrency.h; states of two writers are merged in lease_merge.c.
 *
 * CONCURRENCY-1  Leases are in the order in which they end; those that have ended lie in front, and
 *                count for nothing from that moment on.
 * CONCURRENCY-2  places is the sum of those of the leases.
 * CONCURRENCY-3  A lease is taken, released and renewed by its id alone, and releasing it twice
 *                frees it once. Id 0 is nobody's: such a lease ends by itself.
 * CONCURRENCY-4  A refund takes from the lease of its own request and from no other. A denied
 *                request is not in flight, so COUNT_DENIED adds none.
 * CONCURRENCY-5  A lease that ends later than the limit's time-out from now, by more than clocks
 *                differ, ends after that time-out (ALGORITHM-9); one that was granted here by a
 *                longer one, after that.
 */
#include <string.h>

#include "node/limit/algorithms/concurrency.h"

#define MS_NS INT64_C(1000000)

enum { NOT_FOUND = -1 };

/* How many leases have ended, and the places that the others hold. */
static uint32_t ended(const struct leases *leases, int64_t now_ns, uint64_t *held)
{
    uint32_t at = 0;
    *held = leases == NULL ? 0 : leases->places;
    for (; leases != NULL && at < leases->count && leases->lease[at].until_ns <= now_ns; at++)
        *held -= leases->lease[at].places;
    return at;
}

/* The lease of that id from `first` on, or NOT_FOUND. Looked for from the youngest. */
static int64_t find(const struct leases *leases, uint32_t first, uint64_t id)
{
    if (leases == NULL || id == 0)
        return NOT_FOUND;
    for (uint32_t at = leases->count; at > first; at--)
        if (leases->lease[at - 1].id == id)
            return at - 1;
    return NOT_FOUND;
}

static void take_out(struct leases *leases, uint32_t at, uint32_t count)
{
    for (uint32_t i = at; i < at + count; i++)
        leases->places -= leases->lease[i].places;
    memmove(&leases->lease[at], &leases->lease[at + count],
            (leases->count - at - count) * sizeof *leases->lease);
    leases->count -= count;
}

/* There is room for it (CONCURRENCY-1). */
static void put_in(struct leases *leases, const struct lease *lease)
{
    uint32_t at = leases->count;
    while (at > 0 && leases->lease[at - 1].until_ns > lease->until_ns)
        at--;
    memmove(&leases->lease[at + 1], &leases->lease[at],
            (leases->count - at) * sizeof *leases->lease);
    leases->lease[at] = *lease;
    leases->count++;
    leases->places += lease->places;
}

/* Room for one more. 0 or TG_EFULL. */
static int reserve(struct limit_memory *memory, struct limit_cell *cell)
{
    const struct leases *from = leases_of(memory, cell);
    const uint32_t count = from == NULL ? 0 : from->count;
    if (from != NULL && count < from->capacity)
        return 0;
    const uint32_t capacity = count < LEASES_MIN ? LEASES_MIN : count + count / 4 + 1;
    const uint32_t handle = arena_take(&memory->arena, leases_len(capacity));
    if (handle == ARENA_NONE)
        return TG_EFULL;
    struct leases *to = arena_at(&memory->arena, handle);
    if (from == NULL) {
        *to = (struct leases){.count = 0};
    } else {
        memcpy(to, from, leases_len(count));
        arena_give(&memory->arena, cell->word[2]);
    }
    to->capacity = capacity;
    cell->wide = 1;
    cell->word[2] = handle;
    return 0;
}

static void concurrency_prepare(struct limit_memory *memory, struct limit_plan *plan)
{
    (void)memory;
    (void)plan;
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* What a request finds: the leases, which of them have ended, and its own. */
struct scene {
    struct leases *leases; /* or NULL */
    uint32_t first;        /* that has not ended */
    uint64_t held;         /* places */
    int64_t own;           /* index, or NOT_FOUND */
};

/* What is to be done: places taken or given back. */
struct deed {
    struct limit_verdict verdict;
    bool renew;
};

static uint64_t own_places(const struct scene *scene)
{
    return scene->own == NOT_FOUND ? 0 : scene->leases->lease[scene->own].places;
}

static struct deed judge(const struct scene *scene, const struct limit_plan *plan,
                         const struct limit_request *request)
{
    struct limit_request plain = *request;
    struct deed deed = {.renew = request->operation == OPERATION_RENEW};
    const uint64_t own = own_places(scene);
    plain.flags &= (uint8_t)~LIMIT_COUNT_DENIED; /* CONCURRENCY-4 */
    if (request->operation <= OPERATION_HIT && own == 0) {
        deed.verdict = limit_judge(scene->held, plan->capacity, &plain);
    } else if (request->operation <= OPERATION_HIT) { /* repeated (CONCURRENCY-3) */
        deed.verdict = (struct limit_verdict){.allowed = true, .granted = own};
    } else if (request->operation == OPERATION_RESET) {
        deed.verdict = (struct limit_verdict){.allowed = true, .refund = UINT64_MAX};
    } else if (request->operation == OPERATION_REFUND) {
        const uint64_t back = request->cost < own ? request->cost : own;
        deed.verdict = (struct limit_verdict){.allowed = true, .refund = back};
    } else if (request->operation == OPERATION_RELEASE) {
        deed.verdict = (struct limit_verdict){.allowed = true, .refund = own, .granted = own};
    } else {
        const bool lost = deed.renew && own == 0;
        deed.verdict = (struct limit_verdict){.allowed = !lost, .granted = own};
    }
    return deed;
}

static int64_t until_ns(const struct limit_plan *plan, const struct limit_request *request)
{
    return sat_add(request->now_ns, (int64_t)plan->limit.window_ns);
}

static uint32_t window_ms(const struct limit_plan *plan)
{
    const uint64_t ms = (plan->limit.window_ns + MS_NS - 1) / MS_NS;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* Gives back `count` places of the request's own lease, or all of everybody. */
static void give_back(struct leases *leases, int64_t own, uint64_t count)
{
    if (count == UINT64_MAX) {
        take_out(leases, 0, leases->count);
        return;
    }
    struct lease *lease = &leases->lease[own];
    if (count == lease->places) {
        take_out(leases, (uint32_t)own, 1);
        return;
    }
    lease->places -= (uint32_t)count;
    leases->places -= count;
}

/* Does the deed. LIMIT_SAME, LIMIT_CHANGED, LIMIT_LOWERED or TG_EFULL (ALGORITHM-3). */
static int act(struct limit_memory *memory, struct limit_cell *cell, const struct limit_plan *plan,
               const struct limit_request *request, const struct scene *scene,
               const struct deed *deed)
{
    struct lease taken = {request->lease, until_ns(plan, request), (uint32_t)deed->verdict.charge,
                          window_ms(plan)};
    if (deed->verdict.charge > 0) {
        if (scene->first > 0)
            take_out(scene->leases, 0, scene->first);
        if (reserve(memory, cell) != 0)
            return TG_EFULL;
        put_in(leases_of(memory, cell), &taken);
        return LIMIT_CHANGED;
    }
    if (deed->verdict.refund > 0 && scene->leases != NULL && scene->held > 0) {
        give_back(scene->leases, scene->own, deed->verdict.refund);
        if (scene->leases->count == 0)
            algorithm_release_block(memory, cell);
        return LIMIT_LOWERED;
    }
    if (deed->renew && scene->own != NOT_FOUND) {
        const struct lease own = scene->leases->lease[scene->own];
        if (own.until_ns >= taken.until_ns)
            return LIMIT_SAME;
        taken.places = own.places;
        take_out(scene->leases, (uint32_t)scene->own, 1);
        put_in(scene->leases, &taken);
        return LIMIT_CHANGED;
    }
    return LIMIT_SAME;
}

/* How long until leases that end by themselves have made room for `cost`. */
static int64_t retry_ns(const struct scene *scene, const struct limit_plan *plan, uint64_t cost,
                        int64_t now_ns)
{
    uint64_t held = scene->held;
    if (cost > plan->capacity)
        return LIMIT_RETRY_NEVER;
    for (uint32_t at = scene->first; at < scene->leases->count; at++) {
        held -= scene->leases->lease[at].places;
        if (held + cost <= plan->capacity)
            return scene->leases->lease[at].until_ns - now_ns;
    }
    return 0; /* not reached: with none held everything up to the capacity fits */
}

static int64_t reset_ns(const struct leases *leases, int64_t now_ns)
{
    if (leases == NULL || leases->count == 0)
        return 0;
    const int64_t last_ns = leases->lease[leases->count - 1].until_ns;
    return last_ns > now_ns ? last_ns - now_ns : 0;
}

/* No lease like this one that was granted by now ends later: by a longer time-out, if it was
 * granted here by that, for a rule that is edited takes no place from whoever has it. */
static int64_t latest_ns(const struct lease *lease, const struct limit_plan *plan,
                         const struct limit_request *request)
{
    const int64_t own_ns = sat_add(request->now_ns, (int64_t)lease->window_ms * MS_NS);
    const int64_t most_ns = until_ns(plan, request);
    return own_ns > most_ns ? own_ns : most_ns;
}

/* Brings in the ends of leases that came with a wrong clock (CONCURRENCY-5). 0 if there are none,
 * or else when the last one ends at the latest; a peek looks only. */
static int64_t bring_in(struct leases *leases, const struct limit_plan *plan,
                        const struct limit_request *request)
{
    const int64_t near_ns = sat_add(until_ns(plan, request), LIMIT_AHEAD_NS);
    int64_t last_ns = until_ns(plan, request);
    bool ahead = false;
    if (leases == NULL || (request->flags & LIMIT_OLDER) != 0)
        return 0;
    for (uint32_t at = leases->count; at > 0 && leases->lease[at - 1].until_ns > near_ns;) {
        struct lease lease = leases->lease[at - 1];
        const int64_t end_ns = latest_ns(&lease, plan, request);
        const bool wrong = lease.until_ns > sat_add(end_ns, LIMIT_AHEAD_NS);
        last_ns = end_ns > last_ns ? end_ns : last_ns;
        ahead = ahead || wrong;
        if (!wrong || !limit_rewrites(request)) {
            at--;
            continue;
        }
        lease.until_ns = end_ns;
        take_out(leases, at - 1, 1);
        put_in(leases, &lease); /* now it is looked at again, or who is in its place */
    }
    return ahead ? last_ns : 0;
}

static int concurrency_apply(struct limit_memory *memory, struct limit_cell *cell,
                             const struct limit_plan *plan, const struct limit_request *request,
                             struct limit_decision *out)
{
    struct scene scene = {.leases = leases_of(memory, cell)};
    const int64_t now_ns = request->now_ns;
    const int64_t ahead_ns = bring_in(scene.leases, plan, request);
    scene.first = ended(scene.leases, now_ns, &scene.held);
    scene.own = find(scene.leases, scene.first, request->lease);
    const struct deed deed = judge(&scene, plan, request);
    const struct limit_verdict *verdict = &deed.verdict;
    const bool peek = request->operation == OPERATION_PEEK;
    int64_t retry_after_ns = 0;
    if (!verdict->allowed)
        retry_after_ns =
            deed.renew ? LIMIT_RETRY_NEVER : retry_ns(&scene, plan, verdict->retry_cost, now_ns);
    const int change = peek ? LIMIT_SAME : act(memory, cell, plan, request, &scene, &deed);
    if (change < 0)
        return change;
    const uint64_t after = sat_subu(scene.held + verdict->charge, verdict->refund);
    limit_report(out, verdict, after, plan->capacity);
    out->retry_after_ns = retry_after_ns;
    out->reset_after_ns = reset_ns(leases_of(memory, cell), now_ns);
    if (__builtin_expect(ahead_ns == 0, 1))
        return change;
    const int64_t most_ns = ahead_ns - now_ns;
    out->retry_after_ns = out->retry_after_ns < most_ns ? out->retry_after_ns : most_ns;
    out->reset_after_ns = out->reset_after_ns < most_ns ? out->reset_after_ns : most_ns;
    return peek ? LIMIT_SAME : LIMIT_LOWERED;
}

static int64_t concurrency_expires(const struct limit_memory *memory, const struct limit_cell *cell)
{
    const struct leases *leases = leases_of(memory, cell);
    return leases == NULL || leases->count == 0 ? 0 : leases->lease[leases->count - 1].until_ns;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static size_t concurrency_export_len(const struct limit_memory *memory,
                                     const struct limit_cell *cell)
{
    const struct leases *leases = leases_of(memory, cell);
    return LEASES_HEADER_LEN + (leases == NULL ? 0 : (size_t)leases->count * LEASE_LEN);
}

static void concurrency_put(const struct limit_memory *memory, const struct limit_cell *cell,
                            struct bytes_writer *writer)
{
    const struct leases *leases = leases_of(memory, cell);
    bytes_put_u32(writer, leases == NULL ? 0 : leases->count);
    for (uint32_t i = 0; leases != NULL && i < leases->count; i++) {
        bytes_put_u64(writer, leases->lease[i].id);
        bytes_put_i64(writer, leases->lease[i].until_ns);
        bytes_put_u32(writer, leases->lease[i].places);
    }
}

static int concurrency_get(struct limit_memory *memory, struct bytes_reader *reader,
                           struct limit_cell *cell, int64_t *expires_ns)
{
    const uint32_t count = bytes_get_u32(reader);
    int64_t last_ns = 0;
    if (reader->failed || count > LEASES_MAX)
        return TG_ECORRUPT;
    struct bytes_reader check = *reader;
    for (uint32_t i = 0; i < count; i++) {
        const struct lease lease = lease_read(&check);
        if (check.failed || lease.until_ns < last_ns || lease.places == 0)
            return TG_ECORRUPT;
        last_ns = lease.until_ns;
    }
    *expires_ns = last_ns;
    if (memory == NULL || count == 0) {
        *reader = check;
        if (memory != NULL)
            memset(cell, 0, sizeof *cell);
        return 0;
    }
    const uint32_t handle = arena_take(&memory->arena, leases_len(count));
    if (handle == ARENA_NONE)
        return TG_EFULL;
    struct leases *leases = arena_at(&memory->arena, handle);
    *leases = (struct leases){.count = 0, .capacity = count};
    for (uint32_t i = 0; i < count; i++) {
        const struct lease lease = lease_read(reader);
        put_in(leases, &lease);
    }
    *cell = (struct limit_cell){.word = {[2] = handle}, .wide = 1};
    return 0;
}

const struct limit_ops concurrency_ops = {
    .prepare = concurrency_prepare,
    .apply = concurrency_apply,
    .expires = concurrency_expires,
    .release = algorithm_release_block,
    .export_len = concurrency_export_len,
    .put = concurrency_put,
    .get = concurrency_get,
    .merge = leases_merge,
};
