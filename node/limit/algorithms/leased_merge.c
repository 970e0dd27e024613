/* leased_merge.c - joins what two writers of one key counted, when tokens of it are held.
 *
 * The inner states are joined by their algorithm; the leases, which each side granted within its
 * own limit, by their ids:
 *
 *   mine   a---------|                       base   a---------|   b----|
 *             c----------|                   other  a---------------|          (renewed there)
 *                                                      b----|                  (released here)
 *                                                          d--------|          (new there)
 *   merged    c----------|   a---------------|   d--------|
 *
 * LEASEDMERGE-1  A lease that is new on the other side is out here as well from now on. One that
 *                both have ends with the later of its ends; what the other side was told of its
 *                uses is in its inner state, so it may count twice until the lease ends, and never
 *                not at all.
 * LEASEDMERGE-2  What this side has ended since the base stays ended. What only the other side has
 *                ended stays until its time is over: this side is never lowered. Where nobody has
 *                the base (MERGE-5: all replicas died, and came back with disks of different ages)
 *                nobody knows what this side has ended: what the other one still has out counts
 *                once more, and admits nothing.
 * LEASEDMERGE-3  When they are too many, those that end first become one, which ends with the last
 *                of them and is nobody's: what is out stays out.
 * LEASEDMERGE-4  Leases whose time is over are joined like any other: their tokens are still to be
 *                charged.
 * LEASEDMERGE-5  Of a reservation settled wins: what either side has committed or cancelled is not
 *                out any more, and is charged as often as it was charged. That is once, unless both
 *                sides were told of the commit while they were apart: then it is counted on both.
 *                A commit wins over an undo. When they are too many, what was settled first is
 *                forgotten; then reservations become one, as leases do.
 */
#include <string.h>

#include "node/limit/algorithms/leased.h"

/* The leases of a state in bytes; none, if it is a plain one. The reader is left at the inner
 * state's fields. */
static struct leased_head head_of(struct leased_state *state)
{
    struct leased_head head = {.count = 0};
    if (state->kind == LIMIT_LEASED)
        (void)leased_read_head(&state->bytes, &head); /* it was found valid */
    return head;
}

/* One that is nobody's is known by what it holds. */
static bool is_like(const struct holder *a, const struct holder *b)
{
    return a->id == b->id &&
           (a->id != 0 || (a->until_ns == b->until_ns && a->granted == b->granted));
}

/* `over`: only if it was over by then. */
static bool head_has(const struct leased_head *head, const struct holder *holder, bool over)
{
    struct bytes_reader reader = head->holders;
    for (uint32_t i = 0; i < head->count; i++) {
        const struct holder found = leased_read_holder(&reader);
        if (is_like(&found, holder))
            return !over || holder_is_over(&found);
    }
    return false;
}

static struct holder *find(struct leased *leased, const struct holder *holder)
{
    for (uint32_t i = 0; i < leased->count; i++)
        if (is_like(&leased->holder[i], holder))
            return &leased->holder[i];
    return NULL;
}

static void take_out(struct leased *leased, const struct holder *holder)
{
    leased_take_out(leased, (uint32_t)(holder - leased->holder), 1);
}

/* LEASEDMERGE-3, LEASEDMERGE-5: takes out what stands in the way of a holder of that kind. One that
 * holds something becomes one with it. False: the holder finds no place. */
static bool give_way(struct leased *to, struct holder *holder)
{
    const bool lease = holder->kind == HOLDER_LEASE;
    const bool full = to->count == HOLDERS_MAX;
    struct holder *over = full ? leased_first_of(to, HOLDER_SETTLED) : NULL;
    if ((!full || over != NULL) &&
        (!lease || to->count < LEASES_MAX || leased_count_of(to, HOLDER_LEASE) < LEASES_MAX)) {
        if (over != NULL)
            take_out(to, over);
        return true;
    }
    struct holder *first = leased_first_of(to, (enum holder_kind)holder->kind);
    if (holder_is_over(holder) || first == NULL)
        return false;
    const uint64_t out = holder_out(first) + holder_out(holder);
    *holder = (struct holder){
        .until_ns = first->until_ns > holder->until_ns ? first->until_ns : holder->until_ns,
        .granted = out < LIMIT_USED_MAX ? out : LIMIT_USED_MAX,
        .kind = holder->kind,
    };
    take_out(to, first);
    return true;
}

static void put(struct leased *to, struct holder holder)
{
    if (give_way(to, &holder) &&
        holder_out(&holder) <= LIMIT_USED_MAX - to->out) /* else twice the largest limit is out */
        leased_put_in(to, &holder);
}

/* LEASEDMERGE-5: the other side's is over. Whether that changed anything. */
static bool join_over(struct leased *to, const struct leased_head *base, const struct holder *other)
{
    struct holder *mine = find(to, other);
    if (mine == NULL ? head_has(base, other, true)
                     : mine->kind == HOLDER_LEASE || mine->kind == HOLDER_SETTLED ||
                           mine->kind == other->kind)
        return false;
    if (mine != NULL)
        take_out(to, mine);
    put(to, *other);
    return true;
}

/* What becomes of one lease of the other side (LEASEDMERGE-1, LEASEDMERGE-2). Whether anything
 * did. */
static bool join(struct leased *to, const struct leased_head *base, const struct holder *other)
{
    struct holder *mine = find(to, other);
    const bool shared = head_has(base, other, false);
    if (holder_is_over(other))
        return join_over(to, base, other);
    if (mine == NULL ? shared : mine->kind != other->kind)
        return false;
    if (mine == NULL) {
        put(to, *other);
        return true;
    }
    struct holder most = *mine;
    if (other->until_ns > most.until_ns)
        most.until_ns = other->until_ns;
    if (!shared && holder_out(other) > holder_out(mine)) {
        most.granted = other->granted;
        most.used = other->used;
    }
    if (most.until_ns == mine->until_ns && holder_out(&most) == holder_out(mine))
        return false;
    take_out(to, mine);
    put(to, most);
    return true;
}

/* Room for the leases of both sides, with those of this one in it. NULL: the arena is full. */
static struct leased *begin(struct limit_memory *memory, const struct limit_cell *cell,
                            unsigned kind, uint32_t more, uint32_t *handle)
{
    const struct leased *mine = kind == LIMIT_LEASED ? leased_of(memory, cell) : NULL;
    uint32_t capacity = (mine == NULL ? 0 : mine->count) + more;
    capacity = capacity < HOLDERS_MIN   ? (uint32_t)HOLDERS_MIN
               : capacity < HOLDERS_MAX ? capacity
                                        : (uint32_t)HOLDERS_MAX;
    *handle = arena_take(&memory->arena, leased_len(capacity));
    if (*handle == ARENA_NONE)
        return NULL;
    struct leased *to = arena_at(&memory->arena, *handle);
    *to = (struct leased){.inner = *cell, .algorithm = (uint8_t)kind};
    if (mine != NULL)
        memcpy(to, mine, leased_len(mine->count));
    to->capacity = capacity;
    return to;
}

int leased_merge(struct limit_memory *memory, struct limit_cell *cell, uint8_t *kind,
                 const struct leased_state *base, const struct leased_state *other, int64_t now_ns)
{
    struct leased_state from = *other;
    struct leased_state shared = base == NULL ? (struct leased_state){.kind = 0} : *base;
    const struct leased_head gains = head_of(&from);
    const struct leased_head known = head_of(&shared);
    uint32_t handle;
    struct leased *to = begin(memory, cell, *kind, gains.count, &handle);
    if (to == NULL)
        return TG_EFULL;
    const struct limit_ops *ops = algorithm_ops(to->algorithm);
    int change =
        ops->merge(memory, &to->inner, base == NULL ? NULL : &shared.bytes, &from.bytes, now_ns);
    struct bytes_reader reader = gains.holders;
    for (uint32_t i = 0; change >= 0 && i < gains.count; i++) {
        const struct holder holder = leased_read_holder(&reader);
        if (join(to, &known, &holder))
            change = LIMIT_CHANGED;
    }
    if (change <= 0) {
        arena_give(&memory->arena, handle);
        return change;
    }
    to->drain_ns = sat_add(to->drain_ns, gains.drain_ns);
    if (*kind == LIMIT_LEASED)
        arena_give(&memory->arena, cell->word[2]);
    *cell = (struct limit_cell){.word = {[2] = handle}, .wide = 1};
    *kind = LIMIT_LEASED;
    if (to->count == 0)
        *kind = (uint8_t)leased_unwrap(memory, cell);
    return change;
}
