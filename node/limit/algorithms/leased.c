/* leased.c - tokens of a limit that are held elsewhere, until a deadline; and such as are reserved
 * for what is not over yet.
 *
 * A lease takes tokens out of a limit and hands them to a holder, who admits requests with them by
 * itself until a deadline. What is held is no part of the algorithm's state: a slot with leases out
 * is an envelope around the plain state, and turns back into that when the last one has ended.
 *
 *      used = inner used + out              allowed iff used + cost <= capacity
 *
 *      lease n tokens    out += n; the inner state stays as it is
 *      end, at time e    out -= n; the inner state is charged, as of e, what was used:
 *                          the deadline passes at e        all of n: expired is spent
 *                          a release at e states u used    u of n; the rest was never charged
 *
 *        |<----------- lease of n ------------>|
 *     ---x----x--x-----------x------------------e----> time     x: uses, at the holder
 *        |<-- each counts in full, as out ---->|<-- as if it had come at e -->
 *
 * So while n tokens are out the inner limit has capacity - n: of a bucket that is burst - n, and
 * its debt drains down to what is out and no further. Were it not so a refill behind the lease's
 * back would double the burst.
 *
 * Nothing here knows an algorithm but by `apply`: what is charged later weighs no less at any later
 * time, in all of them. That is why a use may be counted in full until its lease ends, and as of
 * that moment from then on.
 *
 * LEASED-1  After each admission and each lease inner used + out <= capacity (hits, and limits that
 *           a rule has lowered, apart).
 * LEASED-2  All uses, holders' and others', each at its own time, would have been admitted by a
 *           plain limit of the same parameters: it would have counted none of them for more.
 * LEASED-3  Only a release, or a renewal, that states what was used gives anything back; before the
 *           deadline; once.
 * LEASED-4  A lease is taken, renewed and released by its id alone: repeated, a request for one
 *           finds it and takes no second, a release finds nothing, and a renewal charges only what
 *           was not stated before (`used` counts from the beginning).
 * LEASED-5  Hits, refunds and resets are about the inner state. What is out stays out: after a
 *           reset capacity - out is free.
 * LEASED-6  Of a fixed window a lease ends with the window at the latest, for then its count is
 *           void; of any other the end lies LIMIT_LEASE_SLACK_NS behind what the holder is told: so
 *           far ahead may the clock of a successor be, who takes the table over. A reservation
 *           outlives its window: what is committed counts in the window of the commit, so until
 *           then it is held of each.
 * LEASED-7  The envelope of a live slot has 1 .. capacity holders, by their ends, each as its kind
 *           says; `out` is what is left of all. Its state within is of an algorithm that may lease.
 *
 * A reservation is a holder whose tokens are an estimate. It is settled once:
 *
 *      reserve n, until e   out += n
 *      commit a, at c       out -= n; the inner state is charged a, as of c: what is above n as a
 *                           hit is, down to one further limit of debt
 *      cancel               out -= n
 *      e passes             out -= n: expired is given back; a commit behind that is a hit of a
 *
 * LEASED-8  A reservation is charged once, or never. Settled it holds nothing and is remembered,
 *           LIMIT_SETTLED_NS long: who settles it again changes nothing, whatever he says then. So
 *           is one that was committed though nobody knows it. When HOLDERS_MAX are remembered and
 *           held, what was settled first is forgotten for the next one.
 * LEASED-9  What was undone (its request was denied elsewhere) is never given to a copy of the
 *           request that comes late. It was not settled: a commit charges it.
 *
 * When leases are in the way, what is said of the future is what can be known: `retry_after` is not
 * before some lease has ended, `reset_after` is when all have, and their tokens have drained.
 * Must not be wrapped around concurrency, which has leases of its own (leased_refusal).
 */
#include "node/limit/algorithms/leased.h"

#include <string.h>

#include "base/assert.h"
#include "node/limit/algorithms/window.h"

/* ---- the envelope ---------------------------------------------------------------------------- */

const char *limit_lease_refusal(const struct limit *limit)
{
    if (limit->algorithm == ALGORITHM_LEAKY_BUCKET)
        return "leaky_bucket: a token of a lease has no turn in the queue";
    if (limit->algorithm == ALGORITHM_FIXED_WINDOW && limit->align == LIMIT_ALIGN_FIRST)
        return "fixed_window with align first: nobody knows which use of a lease began the window";
    if (limit->algorithm == ALGORITHM_CONCURRENCY)
        return "concurrency: each admission is a lease already";
    if (limit->exceed_percent != 0 || limit->pool != 0)
        return "mode soft or elastic: a holder cannot tell what is above the limit";
    return NULL;
}

int leased_wrap(struct limit_memory *memory, unsigned algorithm, struct limit_cell *cell)
{
    ASSERT(algorithm < ALGORITHM_COUNT); /* LEASED-7 */
    const uint32_t handle = arena_take(&memory->arena, leased_len(HOLDERS_MIN));
    if (handle == ARENA_NONE)
        return TG_EFULL;
    struct leased *leased = arena_at(&memory->arena, handle);
    *leased =
        (struct leased){.inner = *cell, .capacity = HOLDERS_MIN, .algorithm = (uint8_t)algorithm};
    *cell = (struct limit_cell){.word = {[2] = handle}, .wide = 1};
    return 0;
}

unsigned leased_unwrap(struct limit_memory *memory, struct limit_cell *cell)
{
    ASSERT(cell->wide);
    const struct leased *leased = leased_of(memory, cell);
    const struct limit_cell inner = leased->inner;
    const unsigned algorithm = leased->algorithm;
    arena_give(&memory->arena, cell->word[2]);
    *cell = inner;
    return algorithm;
}

/* ---- holders --------------------------------------------------------------------------------- */

struct holder *leased_find(struct leased *leased, uint64_t id)
{
    for (uint32_t at = leased->count; id != 0 && at > 0; at--)
        if (leased->holder[at - 1].id == id)
            return &leased->holder[at - 1];
    return NULL;
}

void leased_put_in(struct leased *leased, const struct holder *holder)
{
    ASSERT(leased->count < leased->capacity && holder_is_sound(holder)); /* LEASED-7 */
    uint32_t at = leased->count;
    while (at > 0 && leased->holder[at - 1].until_ns > holder->until_ns)
        at--;
    memmove(&leased->holder[at + 1], &leased->holder[at],
            (leased->count - at) * sizeof *leased->holder);
    leased->holder[at] = *holder;
    leased->count++;
    leased->out += holder_out(holder);
}

struct holder *leased_first_of(struct leased *leased, enum holder_kind kind)
{
    for (uint32_t at = 0; at < leased->count; at++) {
        struct holder *holder = &leased->holder[at];
        if (kind == HOLDER_SETTLED ? holder_is_over(holder) : holder->kind == kind)
            return holder;
    }
    return NULL;
}

uint32_t leased_count_of(const struct leased *leased, enum holder_kind kind)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < leased->count; at++)
        count += leased->holder[at].kind == kind;
    return count;
}

void leased_take_out(struct leased *leased, uint32_t at, uint32_t count)
{
    ASSERT(count <= leased->count && at <= leased->count - count);
    for (uint32_t i = at; i < at + count; i++)
        leased->out -= holder_out(&leased->holder[i]);
    memmove(&leased->holder[at], &leased->holder[at + count],
            (leased->count - at - count) * sizeof *leased->holder);
    leased->count -= count;
    ASSERT(leased->count > 0 || leased->out == 0); /* LEASED-7 */
}

static uint32_t index_of(const struct leased *leased, const struct holder *holder)
{
    return (uint32_t)(holder - leased->holder);
}

/* Room for one more of the kind, for put_next: 0, the block may be another one then; TG_EFULL;
 * TG_EBUSY: they are too many. */
static int make_room(struct limit_memory *memory, struct limit_cell *cell, enum holder_kind kind)
{
    struct leased *from = leased_of(memory, cell);
    if (kind == HOLDER_LEASE && from->count >= LEASES_MAX &&
        leased_count_of(from, HOLDER_LEASE) >= LEASES_MAX)
        return TG_EBUSY;
    if (from->count < from->capacity)
        return 0;
    if (from->capacity == HOLDERS_MAX) /* LEASED-8 */
        return leased_first_of(from, HOLDER_SETTLED) != NULL ? 0 : TG_EBUSY;
    uint32_t capacity = 2 * from->capacity;
    capacity = capacity < HOLDERS_MAX ? capacity : HOLDERS_MAX;
    const uint32_t handle = arena_take(&memory->arena, leased_len(capacity));
    if (handle == ARENA_NONE)
        return TG_EFULL;
    struct leased *to = arena_at(&memory->arena, handle);
    memcpy(to, from, leased_len(from->count));
    to->capacity = capacity;
    arena_give(&memory->arena, cell->word[2]);
    cell->word[2] = handle;
    return 0;
}

/* Puts one in for which there is room by now. */
static void put_next(struct leased *leased, const struct holder *holder)
{
    if (leased->count == leased->capacity)
        leased_take_out(leased, index_of(leased, leased_first_of(leased, HOLDER_SETTLED)), 1);
    leased_put_in(leased, holder);
}

/* ---- the inner state ------------------------------------------------------------------------- */

/* The capacity that lets an algorithm charge whatever was granted: so much that a state of it
 * counts twice as many at most, for bytes of a lease that nobody granted must not overflow it. */
static uint64_t boundless_capacity(const struct limit_plan *plan)
{
    const bool coarse = plan->exponent >= WINDOW_COARSE_EXPONENT;
    if (plan->limit.algorithm == ALGORITHM_SLIDING_LOG)
        return LIMIT_LOG_COUNT_MAX;
    if (plan->limit.algorithm == ALGORITHM_FIXED_WINDOW && !coarse)
        return (UINT64_C(1) << 46) - 1;
    return LIMIT_COUNT_MAX;
}

/* Does to the inner state what the limit's capacity has no say in, for that request. */
static int apply_inner(struct limit_memory *memory, struct leased *leased,
                       const struct limit_plan *plan, const struct limit_request *request,
                       enum operation operation, uint64_t cost, int64_t now_ns,
                       struct limit_decision *out)
{
    struct limit_plan boundless = *plan;
    boundless.capacity = boundless_capacity(plan);
    boundless.owes_max = UINT64_MAX;
    const struct limit_request inner = {.cost = cost,
                                        .now_ns = now_ns,
                                        .operation = (uint8_t)operation,
                                        .flags = request->flags & LIMIT_OLDER};
    return plan->ops->apply(memory, &leased->inner, &boundless, &inner, out);
}

/* Charges the inner state as of `now_ns`, or looks at it if there is nothing to charge. */
static int charge(struct limit_memory *memory, struct leased *leased, const struct limit_plan *plan,
                  const struct limit_request *request, uint64_t tokens, int64_t now_ns,
                  struct limit_decision *out)
{
    const enum operation operation = tokens > 0 ? OPERATION_HIT : OPERATION_PEEK;
    return apply_inner(memory, leased, plan, request, operation, tokens, now_ns, out);
}

/* Rewrites an inner state that was kept for another limit (ALGORITHM-7, ALGORITHM-8). */
static int rewrite(struct limit_memory *memory, struct leased *leased,
                   const struct limit_plan *plan, const struct limit_request *request)
{
    struct limit_decision ignored;
    const struct limit_request nothing = {.now_ns = request->now_ns, .operation = OPERATION_CHECK};
    if (!limit_rewrites(request))
        return LIMIT_SAME;
    const int change = plan->ops->apply(memory, &leased->inner, plan, &nothing, &ignored);
    return change < 0 ? LIMIT_SAME : change; /* for want of room it stays as it is */
}

/* The latest end that a holder of the kind can have. */
static int64_t latest_ns(enum holder_kind kind, int64_t now_ns)
{
    static const int64_t longest_ns[] = {
        [HOLDER_LEASE] = LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS,
        [HOLDER_RESERVED] = LIMIT_TTL_MAX_MS * INT64_C(1000000) + LIMIT_LEASE_SLACK_NS,
        [HOLDER_SETTLED] = LIMIT_SETTLED_NS,
        [HOLDER_UNDONE] = LIMIT_SETTLED_NS,
    };
    return sat_add(now_ns, longest_ns[kind]);
}

/* Brings in the ends of holders that came with a wrong clock (ALGORITHM-9); none is given for
 * longer. True if there were some. */
static bool bring_in(struct leased *leased, const struct limit_request *request)
{
    bool some = false;
    if (!limit_rewrites(request))
        return false;
    for (uint32_t at = leased->count; at > 0;) {
        struct holder holder = leased->holder[at - 1];
        const int64_t slack_ns = some ? 0 : LIMIT_AHEAD_NS;
        const int64_t most_ns = latest_ns((enum holder_kind)holder.kind, request->now_ns);
        if (holder.until_ns <= sat_add(latest_ns(HOLDER_LEASE, request->now_ns), slack_ns))
            break; /* so are all before it */
        if (holder.until_ns <= sat_add(most_ns, slack_ns)) {
            at--;
            continue;
        }
        leased_take_out(leased, at - 1, 1); /* it comes in before, or here again */
        holder.until_ns = most_ns;
        leased_put_in(leased, &holder);
        some = true;
    }
    return some;
}

int leased_settle(struct limit_memory *memory, struct limit_cell *cell,
                  const struct limit_plan *plan, const struct limit_request *request)
{
    const int64_t now_ns = request->now_ns;
    struct leased *leased = leased_of(memory, cell);
    struct limit_decision ignored;
    const bool ahead = bring_in(leased, request);
    uint32_t ended = 0;
    int rc = 0;
    for (; ended < leased->count && leased->holder[ended].until_ns <= now_ns; ended++) {
        const struct holder *holder = &leased->holder[ended];
        if (holder->kind != HOLDER_LEASE)
            continue; /* it is given back, or forgotten */
        rc = charge(memory, leased, plan, request, holder_out(holder), holder->until_ns,
                    &ignored); /* LEASED-3 */
        if (rc < 0)
            break;
    }
    leased_take_out(leased, 0, ended);
    if (rc >= 0)
        rc = rewrite(memory, leased, plan, request);
    if (ahead && rc >= 0)
        return LIMIT_LOWERED;
    return rc == LIMIT_SAME && ended > 0 ? LIMIT_CHANGED : rc;
}

/* How long the tokens that are out weigh once they are charged. */
static int64_t drain_ns(const struct limit_plan *plan, uint64_t out)
{
    if (out == 0)
        return 0;
    const uint64_t ns = plan->limit.algorithm == ALGORITHM_TOKEN_BUCKET
                            ? sat_muldiv_up(out, plan->p, plan->q)
                            : 2 * plan->limit.window_ns;
    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

void leased_report(const struct leased *leased, const struct limit_plan *plan, int64_t now_ns,
                   struct limit_decision *out)
{
    out->limit = plan->capacity;
    out->used = sat_addu(out->used, leased->out);
    out->remaining = sat_subu(plan->capacity, out->used);
    if (leased->out == 0)
        return;
    uint32_t last = leased->count - 1;
    while (holder_out(&leased->holder[last]) == 0)
        last--;
    out->notes |= LIMIT_HELD;
    const int64_t last_ns = sat_sub(leased->holder[last].until_ns, now_ns);
    const int64_t from_ns = last_ns > out->reset_after_ns ? last_ns : out->reset_after_ns;
    out->reset_after_ns = sat_add(from_ns, leased->drain_ns);
}

/* How long `cost` will not fit, as far as is known. */
static int64_t retry_ns(struct limit_memory *memory, struct leased *leased,
                        const struct limit_plan *plan, uint64_t cost, int64_t now_ns)
{
    if (cost > plan->capacity)
        return LIMIT_RETRY_NEVER;
    uint64_t out = leased->out;
    uint32_t at = 0;
    while (out > plan->capacity - cost)
        out -= holder_out(&leased->holder[at++]);
    if (at > 0)
        return leased->holder[at - 1].until_ns - now_ns;
    struct limit_plan rest = *plan;
    rest.capacity = plan->capacity - leased->out;
    const struct limit_request peek = {.cost = cost, .now_ns = now_ns, .operation = OPERATION_PEEK};
    struct limit_decision looked;
    const int rc = plan->ops->apply(memory, &leased->inner, &rest, &peek, &looked);
    return rc < 0 || looked.allowed ? 1 : looked.retry_after_ns;
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* What a request finds and what becomes of it. */
struct scene {
    struct limit_memory *memory;
    struct limit_cell *cell;
    const struct limit_plan *plan;
    const struct limit_request *request;
    struct limit_decision *out;
};

static struct leased *leased_in(const struct scene *scene)
{
    return leased_of(scene->memory, scene->cell);
}

/* Completes the decision, which holds what the inner algorithm said of its state. */
static void conclude(const struct scene *scene, bool allowed, uint64_t granted, uint64_t retry_cost)
{
    struct leased *leased = leased_in(scene);
    struct limit_decision *out = scene->out;
    const int64_t now_ns = scene->request->now_ns;
    leased->drain_ns = drain_ns(scene->plan, leased->out);
    leased_report(leased, scene->plan, now_ns, out);
    out->allowed = allowed;
    out->granted = granted;
    out->delay_ns = 0;
    out->retry_after_ns =
        allowed ? 0 : retry_ns(scene->memory, leased, scene->plan, retry_cost, now_ns);
}

/* The operations that are not about leases, by the meaning that they have everywhere. */
static int apply_plain(const struct scene *scene)
{
    const struct limit_request *request = scene->request;
    struct leased *leased = leased_in(scene);
    struct limit_decision *out = scene->out;
    int rc = charge(scene->memory, leased, scene->plan, scene->request, 0, request->now_ns, out);
    if (rc < 0)
        return rc;
    const uint64_t used = sat_addu(out->used, leased->out);
    const struct limit_verdict verdict = limit_judge(used, scene->plan->capacity, request);
    if (verdict.refund != 0)
        rc = apply_inner(scene->memory, leased, scene->plan, scene->request, request->operation,
                         request->cost, request->now_ns, out);
    else
        rc = charge(scene->memory, leased, scene->plan, scene->request, verdict.charge,
                    request->now_ns, out);
    if (rc >= 0)
        conclude(scene, verdict.allowed, verdict.granted, verdict.retry_cost);
    return rc;
}

/* When a lease that begins now ends, and how long the holder is told that it lasts (LEASED-6).
 * False: it would be over at once. */
static bool lease_end(const struct scene *scene, int64_t *until_ns, int64_t *told_ns)
{
    const int64_t now_ns = scene->request->now_ns;
    *told_ns = LIMIT_LEASE_NS;
    *until_ns = sat_add(now_ns, LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS);
    if (scene->plan->limit.algorithm != ALGORITHM_FIXED_WINDOW)
        return true;
    const int64_t last_ns =
        fixed_window_left_ns(scene->memory, &leased_in(scene)->inner, scene->plan, now_ns) - 1;
    if (now_ns + last_ns < *until_ns)
        *until_ns = now_ns + last_ns;
    if (last_ns < *told_ns)
        *told_ns = last_ns;
    return last_ns > 0;
}

/* What a lease of that cost would get: all of it, or at most half of what is left, so that there is
 * something for the next one who asks. */
static uint64_t lease_size(const struct limit_request *request, uint64_t left)
{
    const uint64_t most = left / 2 + left % 2;
    if ((request->flags & LIMIT_AT_MOST) != 0)
        return request->cost < most ? request->cost : most;
    return request->cost <= left ? request->cost : 0;
}

/* The lease that the request names; a reservation is none. */
static struct holder *find_lease(const struct scene *scene)
{
    struct holder *own = leased_find(leased_in(scene), scene->request->lease);
    return own != NULL && own->kind == HOLDER_LEASE ? own : NULL;
}

/* How long what is there is told to last yet: no longer than anew, though the clock of who decided
 * before was ahead. */
static int64_t left_of(const struct scene *scene, const struct holder *own, int64_t most_ns)
{
    const int64_t left_ns = sat_sub(own->until_ns, scene->request->now_ns + LIMIT_LEASE_SLACK_NS);
    return left_ns < 0 ? 0 : left_ns < most_ns ? left_ns : most_ns;
}

static int lease(const struct scene *scene, bool peek)
{
    const struct limit_request *request = scene->request;
    struct holder holder = {.id = request->lease};
    int64_t told_ns;
    int rc = charge(scene->memory, leased_in(scene), scene->plan, scene->request, 0,
                    request->now_ns, scene->out);
    if (rc < 0)
        return rc;
    const struct holder *own = find_lease(scene);
    if (own != NULL) { /* LEASED-4 */
        conclude(scene, true, holder_out(own), 0);
        scene->out->delay_ns = left_of(scene, own, LIMIT_LEASE_NS);
        return LIMIT_SAME;
    }
    const uint64_t used = sat_addu(scene->out->used, leased_in(scene)->out);
    const bool at_most = (request->flags & LIMIT_AT_MOST) != 0;
    const bool lasts = lease_end(scene, &holder.until_ns, &told_ns);
    holder.granted = lasts ? lease_size(request, sat_subu(scene->plan->capacity, used)) : 0;
    const bool allowed = holder.granted > 0 || (request->cost == 0 && lasts);
    if (allowed && !peek && holder.granted > 0) {
        rc = make_room(scene->memory, scene->cell, HOLDER_LEASE);
        if (rc != 0)
            return rc;
        put_next(leased_in(scene), &holder);
    }
    conclude(scene, allowed, holder.granted, at_most ? 1 : request->cost);
    scene->out->delay_ns = holder.granted > 0 ? told_ns : 0;
    return holder.granted > 0 && !peek ? LIMIT_CHANGED : LIMIT_SAME;
}

/* Charges what is stated as used of the lease and was not before. */
static int state_used(const struct scene *scene, struct holder *own)
{
    const uint64_t cost = scene->request->cost;
    const uint64_t stated = cost < own->granted ? cost : own->granted;
    const uint64_t more = sat_subu(stated, own->used);
    struct leased *leased = leased_in(scene);
    const int rc = charge(scene->memory, leased, scene->plan, scene->request, more,
                          scene->request->now_ns, scene->out);
    if (rc < 0)
        return rc;
    own->used += more;
    leased->out -= more;
    return 0;
}

static int release(const struct scene *scene)
{
    struct leased *leased = leased_in(scene);
    struct holder *own = find_lease(scene);
    int rc = own != NULL ? state_used(scene, own)
                         : charge(scene->memory, leased, scene->plan, scene->request, 0,
                                  scene->request->now_ns, scene->out);
    if (rc < 0)
        return rc;
    const uint64_t back = own != NULL ? holder_out(own) : 0;
    if (own != NULL)
        leased_take_out(leased, index_of(leased, own), 1);
    conclude(scene, true, back, 0);
    return own == NULL ? LIMIT_SAME : back > 0 ? LIMIT_LOWERED : LIMIT_CHANGED;
}

static int renew(const struct scene *scene)
{
    struct leased *leased = leased_in(scene);
    struct holder *own = find_lease(scene);
    int64_t until_ns;
    int64_t told_ns;
    if (own == NULL) {
        const int rc = charge(scene->memory, leased, scene->plan, scene->request, 0,
                              scene->request->now_ns, scene->out);
        if (rc >= 0)
            conclude(scene, false, 0, UINT64_MAX); /* never */
        return rc;
    }
    const int rc = state_used(scene, own);
    if (rc < 0)
        return rc;
    struct holder renewed = *own;
    const bool lasts = lease_end(scene, &until_ns, &told_ns);
    if (until_ns > renewed.until_ns)
        renewed.until_ns = until_ns;
    leased_take_out(leased, index_of(leased, own), 1);
    if (holder_out(&renewed) > 0)
        leased_put_in(leased, &renewed);
    conclude(scene, true, holder_out(&renewed), 0);
    scene->out->delay_ns = lasts && holder_out(&renewed) > 0 ? told_ns : 0;
    return LIMIT_CHANGED;
}

/* ---- reservations ---------------------------------------------------------------------------- */

/* Looks at the inner state, and finds the holder that the request names, if any. */
static int look_for(const struct scene *scene, struct holder **own)
{
    const int rc = charge(scene->memory, leased_in(scene), scene->plan, scene->request, 0,
                          scene->request->now_ns, scene->out);
    *own = leased_find(leased_in(scene), scene->request->lease);
    return rc;
}

/* A RESERVE under an id that is known: of what is over, or is a lease, nothing is given. */
static int reserve_again(const struct scene *scene, const struct holder *own)
{
    const bool holds = own->kind == HOLDER_RESERVED;
    conclude(scene, holds, own->granted, 0);
    if (!holds) {
        scene->out->granted = 0;
        scene->out->retry_after_ns = 0;
    } else {
        scene->out->delay_ns = left_of(scene, own, scene->request->ttl_ms * INT64_C(1000000));
    }
    return LIMIT_SAME;
}

static int reserve(const struct scene *scene, bool peek)
{
    const struct limit_request *request = scene->request;
    const int64_t ttl_ns = request->ttl_ms * INT64_C(1000000);
    struct holder *own;
    int rc = look_for(scene, &own);
    if (rc < 0)
        return rc;
    if (own != NULL)
        return reserve_again(scene, own);
    const uint64_t used = sat_addu(scene->out->used, leased_in(scene)->out);
    const bool allowed = request->cost <= sat_subu(scene->plan->capacity, used);
    if (allowed && !peek) {
        const struct holder holder = {
            .id = request->lease,
            .until_ns = sat_add(request->now_ns, ttl_ns + LIMIT_LEASE_SLACK_NS),
            .granted = request->cost,
            .kind = HOLDER_RESERVED,
        };
        rc = make_room(scene->memory, scene->cell, HOLDER_RESERVED);
        if (rc != 0)
            return rc;
        put_next(leased_in(scene), &holder);
    }
    conclude(scene, allowed, allowed ? request->cost : 0, request->cost);
    scene->out->delay_ns = allowed ? ttl_ns : 0;
    return allowed && !peek ? LIMIT_CHANGED : LIMIT_SAME;
}

/* Puts what is remembered of a settled reservation in the place of `own`; NULL: into the room that
 * was made. */
static void settle(struct leased *leased, const struct holder *own,
                   const struct limit_request *request, enum holder_kind kind, uint64_t charged)
{
    const struct holder over = {
        .id = request->lease,
        .until_ns = sat_add(request->now_ns, LIMIT_SETTLED_NS),
        .granted = charged,
        .used = charged,
        .kind = (uint8_t)kind,
    };
    if (own != NULL)
        leased_take_out(leased, index_of(leased, own), 1);
    put_next(leased, &over);
}

/* Room for what is to be remembered of an id that is not known: 0; TG_EBUSY: it is not remembered;
 * TG_EFULL. */
static int room_to_settle(const struct scene *scene, const struct holder *own)
{
    if (own != NULL)
        return 0;
    return scene->request->lease == 0 ? TG_EBUSY
                                      : make_room(scene->memory, scene->cell, HOLDER_SETTLED);
}

/* How many tokens a commit charges: what was reserved in any case, what is above as a hit. */
static uint64_t charged_of(const struct scene *scene, uint64_t held)
{
    const uint64_t actual = scene->request->cost;
    const uint64_t within = actual < held ? actual : held;
    const uint64_t used = sat_addu(scene->out->used, leased_in(scene)->out - held + within);
    return within + limit_debt_room(used, scene->plan->capacity, actual - within);
}

static int commit(const struct scene *scene)
{
    struct holder *own;
    int rc = look_for(scene, &own);
    if (rc < 0)
        return rc;
    if (own != NULL && own->kind == HOLDER_LEASE) {
        conclude(scene, false, 0, UINT64_MAX); /* never: it is released */
        return LIMIT_SAME;
    }
    if (own != NULL && own->kind == HOLDER_SETTLED) { /* LEASED-8 */
        conclude(scene, true, own->used, 0);
        return LIMIT_SAME;
    }
    const uint64_t held = own != NULL ? own->granted : 0;
    const uint64_t tokens = charged_of(scene, held);
    const int room = room_to_settle(scene, own);
    if (room == TG_EFULL)
        return room;
    rc = charge(scene->memory, leased_in(scene), scene->plan, scene->request, tokens,
                scene->request->now_ns, scene->out);
    if (rc < 0)
        return rc;
    if (room == 0)
        settle(leased_in(scene), own, scene->request, HOLDER_SETTLED, tokens);
    conclude(scene, true, tokens, 0);
    return tokens < held ? LIMIT_LOWERED : LIMIT_CHANGED;
}

static int cancel(const struct scene *scene)
{
    const struct limit_request *request = scene->request;
    const enum holder_kind kind = request->cost > 0 ? HOLDER_UNDONE : HOLDER_SETTLED;
    const bool forgets = (request->flags & LIMIT_UNDO) != 0;
    struct holder *own;
    const int rc = look_for(scene, &own);
    if (rc < 0)
        return rc;
    const bool done = own != NULL && (own->kind == HOLDER_LEASE || own->kind == HOLDER_SETTLED ||
                                      (own->kind == HOLDER_UNDONE && kind == HOLDER_UNDONE));
    const uint64_t held = own != NULL && !done ? own->granted : 0;
    const int room = done || forgets ? TG_EBUSY : room_to_settle(scene, own);
    if (room == TG_EFULL)
        return room;
    if (room == 0)
        settle(leased_in(scene), own, request, kind, 0);
    else if (forgets && own != NULL && !done)
        leased_take_out(leased_in(scene), index_of(leased_in(scene), own), 1);
    conclude(scene, true, held, 0);
    return held > 0 ? LIMIT_LOWERED : room == 0 ? LIMIT_CHANGED : LIMIT_SAME;
}

int leased_apply(struct limit_memory *memory, struct limit_cell *cell,
                 const struct limit_plan *plan, const struct limit_request *request,
                 struct limit_decision *out)
{
    const struct scene scene = {memory, cell, plan, request, out};
    const bool peek = request->operation == OPERATION_PEEK;
    if ((request->flags & LIMIT_HOLD) == 0)
        return apply_plain(&scene);
    if (request->operation == OPERATION_RELEASE)
        return release(&scene);
    if (request->operation == OPERATION_RENEW)
        return renew(&scene);
    if (request->operation == OPERATION_COMMIT)
        return commit(&scene);
    if (request->operation == OPERATION_CANCEL)
        return cancel(&scene);
    return request->ttl_ms > 0 ? reserve(&scene, peek) : lease(&scene, peek);
}

void leased_check(const struct limit_memory *memory, const struct limit_cell *cell)
{
    INVARIANT("LEASED-7", cell->wide);
    const struct leased *leased = leased_of(memory, cell);
    uint64_t out = 0;
    int64_t last_ns = 0;
    INVARIANT("LEASED-7", leased->count > 0 && leased->count <= leased->capacity);
    INVARIANT("LEASED-7", leased->capacity <= HOLDERS_MAX);
    INVARIANT("LEASED-7",
              leased->algorithm < ALGORITHM_COUNT && leased->algorithm != ALGORITHM_CONCURRENCY);
    for (uint32_t i = 0; i < leased->count; i++) {
        const struct holder *holder = &leased->holder[i];
        INVARIANT("LEASED-7", holder->until_ns >= last_ns);
        INVARIANT("LEASED-7", holder_is_sound(holder));
        last_ns = holder->until_ns;
        out += holder_out(holder);
    }
    INVARIANT("LEASED-7", leased_count_of(leased, HOLDER_LEASE) <= LEASES_MAX);
    INVARIANT("LEASED-7", out == leased->out && leased->drain_ns >= 0);
    INVARIANT("LEASED-7", leased->inner.wide <= 1);
}
