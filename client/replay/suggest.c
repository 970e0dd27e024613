/* suggest.c - the smallest limit that would have denied at most a share of the callers; suggest.h.
 *
 * A key whose costs add up to no more than the capacity is never denied, whatever the algorithm:
 * most keys are passed over by that alone. The others are replayed up to their first denial.
 *
 * SUGGEST-1  What is suggested was tried: `denied` is a count, not an estimate.
 * SUGGEST-2  A limit that is tried passes limit_validate.
 */
#include "client/replay/suggest.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/quantity.h"
#include "base/sat.h"
#include "node/limit/engine/engine.h"

/* The events of one key. */
struct span {
    uint32_t from;
    uint32_t count;
    uint64_t cost; /* all of them together */
};

struct trial {
    const struct suggest *suggest;
    const struct calendar_zone *zone; /* of a calendar limit, else NULL */
    struct table *table;
    struct span *spans;
    uint32_t span_count;
    uint64_t denied_max;
};

int suggest_init(struct suggest *suggest, const struct allocator *allocator, uint32_t max)
{
    *suggest = (struct suggest){.allocator = allocator, .max = max};
    suggest->events = alloc_array(allocator, max, sizeof *suggest->events);
    return suggest->events == NULL ? TG_ENOMEM : TG_OK;
}

void suggest_fini(struct suggest *suggest)
{
    if (suggest->allocator != NULL)
        alloc_put(suggest->allocator, suggest->events, suggest->max * sizeof *suggest->events);
    suggest->events = NULL;
}

void suggest_add(struct suggest *suggest, uint32_t rule, uint64_t key, int64_t now_ns,
                 uint64_t cost)
{
    suggest->cut = suggest->cut || suggest->count == suggest->max;
    if (suggest->count == suggest->max)
        return;
    suggest->events[suggest->count++] =
        (struct suggest_event){now_ns, key, rule, cost > UINT32_MAX ? UINT32_MAX : (uint32_t)cost};
}

static int compare_events(const void *a, const void *b)
{
    const struct suggest_event *x = a;
    const struct suggest_event *y = b;
    if (x->rule != y->rule)
        return x->rule < y->rule ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->now_ns < y->now_ns ? -1 : x->now_ns > y->now_ns;
}

/* The first event of `rule` or of one behind it. */
static uint32_t first_of(const struct suggest *suggest, uint64_t rule)
{
    uint32_t low = 0;
    uint32_t high = suggest->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (suggest->events[middle].rule < rule)
            low = middle + 1;
        else
            high = middle;
    }
    ASSERT(low <= suggest->count);
    return low;
}

/* Cuts the rule's events into keys. With `spans` NULL it only counts them. */
static uint32_t cut_spans(const struct suggest *suggest, uint32_t rule, struct span *spans)
{
    const uint32_t end = first_of(suggest, (uint64_t)rule + 1);
    uint32_t count = 0;
    for (uint32_t i = first_of(suggest, rule); i < end;) {
        struct span span = {.from = i};
        const uint64_t key = suggest->events[i].key;
        for (; i < end && suggest->events[i].key == key; i++) {
            span.cost = sat_addu(span.cost, suggest->events[i].cost);
            span.count++;
        }
        if (spans != NULL)
            spans[count] = span;
        count++;
    }
    return count;
}

/* The limit with another count, and its burst in proportion. False if there is no such limit. */
static bool scale(const struct limit *limit, uint64_t count, struct limit *out)
{
    ASSERT(count >= 1 && limit->count >= 1);
    char ignored[QUANTITY_ERROR_LEN];
    *out = *limit;
    out->count = count;
    if (limit->burst != 0) {
        out->burst = sat_muldiv(limit->burst, count, limit->count);
        out->burst = out->burst == 0 ? 1 : out->burst;
    }
    return limit_validate(out, ignored) == 0; /* SUGGEST-2 */
}

/* Whether the limit denies one of the key's events. Leaves no state behind. */
static bool denies(const struct trial *trial, const struct span *span, const struct limit *limit)
{
    static const struct hash128 id = {1, 1};
    struct limit_decision decision = {.allowed = 1};
    struct limit placed = *limit;
    for (uint32_t i = 0; i < span->count && decision.allowed; i++) {
        const struct suggest_event *event = &trial->suggest->events[span->from + i];
        if (trial->zone != NULL)
            calendar_place(trial->zone, event->now_ns, &placed);
        engine_one(trial->table, id, 0, &placed, event->cost, OPERATION_CHECK, LIMIT_LOADED,
                   event->now_ns, &decision);
    }
    const bool denied = !decision.allowed;
    /* Dropped, not reset: a state that was reset has seen the time, and the next key begins
     * earlier. */
    const uint32_t slot = table_lookup(trial->table, id);
    if (slot != TABLE_NONE)
        table_drop(trial->table, slot);
    return denied;
}

/* How many keys the limit denies; stops when there are too many. */
static uint64_t count_denied(const struct trial *trial, const struct limit *limit)
{
    const uint64_t capacity = limit_capacity(limit);
    uint64_t denied = 0;
    for (uint32_t i = 0; i < trial->span_count && denied <= trial->denied_max; i++)
        denied += trial->spans[i].cost > capacity && denies(trial, &trial->spans[i], limit);
    return denied;
}

/* A count under which no key can be denied, or the largest that the limit may have. */
static uint64_t enough(const struct trial *trial, const struct limit *limit)
{
    uint64_t cost = 1;
    for (uint32_t i = 0; i < trial->span_count; i++)
        cost = trial->spans[i].cost > cost ? trial->spans[i].cost : cost;
    const uint64_t capacity = limit_capacity(limit);
    uint64_t high = capacity < limit->count
                        ? sat_addu(sat_muldiv_up(cost, limit->count, capacity), limit->count)
                        : cost;
    struct limit tried;
    if (scale(limit, high, &tried))
        return high;
    uint64_t low = 0; /* the largest valid count lies between */
    while (low + 1 < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (scale(limit, middle, &tried))
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void find(const struct trial *trial, const struct limit *limit, struct suggestion *out)
{
    struct limit tried;
    uint64_t low = 0; /* denies too many */
    uint64_t high = enough(trial, limit);
    if (high == 0 || !scale(limit, high, &tried) || count_denied(trial, &tried) > trial->denied_max)
        return;
    while (low + 1 < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (scale(limit, middle, &tried) && count_denied(trial, &tried) <= trial->denied_max)
            high = middle;
        else
            low = middle;
    }
    (void)scale(limit, high, &tried);
    out->count = tried.count;
    out->burst = tried.burst;
    out->denied = count_denied(trial, &tried); /* SUGGEST-1 */
}

int suggest_find(struct suggest *suggest, uint32_t rule, const struct limit *limit,
                 const struct calendar_zone *zone, uint64_t ppm, struct suggestion *out)
{
    struct trial trial = {.suggest = suggest, .zone = zone};
    if (!suggest->sorted)
        qsort(suggest->events, suggest->count, sizeof *suggest->events, compare_events);
    suggest->sorted = true;
    trial.span_count = cut_spans(suggest, rule, NULL);
    *out = (struct suggestion){.keys = trial.span_count};
    trial.denied_max = sat_muldiv(trial.span_count, ppm, SUGGEST_PPM);
    const size_t len = trial.span_count + (size_t)1;
    trial.spans = alloc_array(suggest->allocator, len, sizeof *trial.spans);
    int result = trial.spans == NULL ? TG_ENOMEM : TG_OK;
    if (result == TG_OK)
        result = table_new(&trial.table, suggest->allocator, TABLE_MEMORY_MIN, 1);
    if (result == TG_OK) {
        (void)cut_spans(suggest, rule, trial.spans);
        find(&trial, limit, out);
    }
    table_free(&trial.table);
    alloc_put(suggest->allocator, trial.spans, len * sizeof *trial.spans);
    return result;
}
