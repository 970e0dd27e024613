/* gubernator.c - see gubernator.h, which has the table. The guide for those who move tells where
 * what is answered here differs from what Gubernator answers, and why
 * (deploy/docs/how-to/moving-from-gubernator.md).
 */
#include "node/gateway/gubernator/gubernator.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/digest.h"
#include "base/hash.h"
#include "base/quantity.h"
#include "base/sat.h"
#include "node/gateway/batches.h"
#include "node/policy/model/calendar.h"

#define NS_PER_MS  INT64_C(1000000)
#define HITS_MASK  ((UINT64_C(1) << 50) - 1)
#define ABOUT_MASK 127U

enum {
    UNITS = 6,
    STATUS_BAD = 400, /* of a decision: what was asked is wrong */
    NEAR_MS = 10000   /* windows of the calendar are longer, and nobody waits for so long */
};

/* What is wrong with an item. */
enum fault {
    FAULT_NO_KEY,
    FAULT_NO_NAME,
    FAULT_NAME,
    FAULT_ALGORITHM,
    FAULT_UNIT,
    FAULT_BURST,
    FAULT_CROWD,
    FAULTS
};

static const char *const faults[FAULTS] = {
    [FAULT_NO_KEY] = "field 'unique_key' cannot be empty",
    [FAULT_NO_NAME] = "field 'namespace' cannot be empty", /* as they call the name */
    [FAULT_NAME] = "field 'name' has a NUL; expected none",
    [FAULT_ALGORITHM] = "field 'algorithm': expected TOKEN_BUCKET or LEAKY_BUCKET",
    [FAULT_UNIT] = "field 'duration': expected 0 to 5, a minute to a year, with the behavior "
                   "DURATION_IS_GREGORIAN",
    [FAULT_BURST] = "field 'burst': takes more than 73 years to drain; expected less",
    [FAULT_CROWD] = "the request has more than 128 different limits; expected this one in another "
                    "request",
};

static const char region_text[] = "counted in each region by itself";

static_assert(WIRE_COST_MAX < UINT64_C(1) << 50, "hits fit a note");
static_assert(GUBERNATOR_TABLE_LEN > GUBERNATOR_LIMITS_MAX, "a place is free");
static_assert(sizeof(struct gubernator_note) == sizeof(uint64_t), "a note is a word");
static_assert(GUBERNATOR_LIMITS_MAX <= ABOUT_MASK + 1 && FAULTS <= ABOUT_MASK + 1,
              "each has a number there");
static_assert(GUBERNATOR_ITEMS_MAX * sizeof(struct gubernator_note) +
                      GUBERNATOR_LIMITS_MAX * sizeof(struct gubernator_told) <=
                  BATCH_NOTES_MAX,
              "notes of the longest request are kept");

/* ---- limits ---------------------------------------------------------------------------------- */

/* The window of the calendar that now is in. */
static void place_unit(const struct gubernator_item *item, int64_t now_ns, struct limit *limit)
{
    static const struct calendar_span span = {.from_s = 0, .offset_s = 0};
    static const struct calendar_zone utc = {.spans = &span, .span_count = 1};
    limit->align = (uint8_t)(LIMIT_ALIGN_MINUTE + item->duration);
    calendar_place(&utc, now_ns, limit);
}

static uint64_t window_of(int64_t duration_ms)
{
    const uint64_t ms = duration_ms < 1 ? 1 : (uint64_t)duration_ms;
    return ms > LIMIT_WINDOW_MAX_NS / NS_PER_MS ? LIMIT_WINDOW_MAX_NS : ms * NS_PER_MS;
}

/* The item's limit, as it is counted, and what is told of it. Less than 0, or what is wrong. */
static int make_limit(const struct gubernator_item *item, int64_t now_ns, struct limit *limit,
                      struct gubernator_told *told)
{
    const bool leaky = item->algorithm == GUBERNATOR_LEAKY_BUCKET;
    const bool unit = (item->behavior & GUBERNATOR_GREGORIAN) != 0;
    char error[QUANTITY_ERROR_LEN];
    *told = (struct gubernator_told){.limit = item->limit};
    *limit = (struct limit){.algorithm = ALGORITHM_FIXED_WINDOW, .align = LIMIT_ALIGN_FIRST};
    if (!leaky && item->algorithm != GUBERNATOR_TOKEN_BUCKET)
        return FAULT_ALGORITHM;
    if (unit && (item->duration < 0 || item->duration >= UNITS))
        return FAULT_UNIT;
    limit->count = item->limit < 1                           ? 1
                   : (uint64_t)item->limit > LIMIT_COUNT_MAX ? LIMIT_COUNT_MAX
                                                             : (uint64_t)item->limit;
    limit->window_ns = window_of(item->duration);
    if (unit)
        place_unit(item, now_ns, limit);
    if ((!unit || leaky) && limit->window_ns < limit->count)
        limit->window_ns = limit->count; /* 10^9 a second */
    const uint64_t end_ns = (uint64_t)(unit ? limit->start_ns : now_ns) + limit->window_ns;
    told->reset_ms = (int64_t)(end_ns / NS_PER_MS);
    limit->start_ns = limit->before_s = 0; /* who receives the check finds them */
    if (leaky) {
        limit->algorithm = ALGORITHM_TOKEN_BUCKET;
        limit->align = LIMIT_ALIGN_EPOCH;
        limit->burst = item->burst < 1                           ? limit->count
                       : (uint64_t)item->burst > LIMIT_COUNT_MAX ? LIMIT_COUNT_MAX
                                                                 : (uint64_t)item->burst;
        told->reset_ms = now_ns / NS_PER_MS;
    }
    if ((item->behavior & GUBERNATOR_RESET) != 0 && !leaky)
        told->reset_ms = 0; /* as they tell it */
    return limit_validate(limit, error) == 0 ? -1 : FAULT_BURST;
}

/* ---- limits of a plan ------------------------------------------------------------------------ */

static struct gubernator_shape shape_of(const struct gubernator_item *item)
{
    const bool leaky = item->algorithm == GUBERNATOR_LEAKY_BUCKET;
    const int32_t behaviors = GUBERNATOR_GREGORIAN | (leaky ? 0 : GUBERNATOR_RESET);
    return (struct gubernator_shape){.limit = item->limit,
                                     .duration = item->duration,
                                     .burst = leaky ? item->burst : 0,
                                     .algorithm = item->algorithm,
                                     .behavior = item->behavior & behaviors};
}

static bool same_shape(const struct gubernator_shape *a, const struct gubernator_shape *b)
{
    return a->limit == b->limit && a->duration == b->duration && a->burst == b->burst &&
           a->algorithm == b->algorithm && a->behavior == b->behavior;
}

static uint32_t hash_of(const struct gubernator_shape *shape)
{
    uint64_t hash = hash_mix64((uint64_t)shape->limit);
    hash = hash_mix64(hash ^ (uint64_t)shape->duration);
    hash = hash_mix64(hash ^ (uint64_t)shape->burst);
    return (uint32_t)(hash ^ (uint32_t)shape->algorithm ^ (uint32_t)shape->behavior);
}

/* A new limit of the plan, in this place of its table. Less than 0, or what is wrong. */
static int add_limit(struct gubernator_plan *plan, const struct gubernator_item *item,
                     const struct gubernator_shape *shape, uint8_t *place)
{
    const uint32_t count = plan->asked.limit_count;
    struct limit limit;
    struct gubernator_told told;
    const int fault = make_limit(item, plan->now_ns, &limit, &told);
    if (fault >= 0)
        return fault;
    if (count == GUBERNATOR_LIMITS_MAX)
        return FAULT_CROWD;
    plan->shapes[count] = *shape;
    plan->limits[count] = limit;
    plan->told[count] = told;
    plan->templates[count] = -1;
    plan->last = count;
    plan->asked.limit_count++;
    *place = (uint8_t)plan->asked.limit_count;
    return -1;
}

/* Finds the item's limit in the plan, or adds it: it is the last one. Less than 0, or what is
 * wrong. */
static int find_limit(struct gubernator_plan *plan, const struct gubernator_item *item)
{
    const struct gubernator_shape shape = shape_of(item);
    if (plan->asked.limit_count > 0 && same_shape(&plan->shapes[plan->last], &shape))
        return -1; /* most are that of the item before */
    uint32_t at = hash_of(&shape) % GUBERNATOR_TABLE_LEN;
    for (; plan->table[at] != 0; at = (at + 1) % GUBERNATOR_TABLE_LEN) {
        const uint32_t number = plan->table[at] - 1U;
        if (same_shape(&plan->shapes[number], &shape)) {
            plan->last = number;
            return -1;
        }
    }
    return add_limit(plan, item, &shape, &plan->table[at]);
}

/* ---- items ----------------------------------------------------------------------------------- */

void gubernator_begin(struct gubernator_plan *plan, int64_t now_ns)
{
    plan->now_ns = now_ns;
    plan->asked = (struct gubernator_asked){0};
    plan->checks = 0;
    plan->last = 0;
    memset(plan->table, 0, sizeof plan->table);
}

/* What is asked of the limit, as `operation` and `cost`. */
static void choose(const struct gubernator_item *item, struct gubernator_note *note,
                   uint8_t *operation, uint64_t *cost)
{
    const bool drains = (item->behavior & GUBERNATOR_DRAIN) != 0;
    const uint64_t hits =
        item->hits < 0 ? UINT64_C(0) - (uint64_t)item->hits : (uint64_t)item->hits;
    const bool far = hits > WIRE_COST_MAX;
    *cost = far ? WIRE_COST_MAX : hits;
    if (note->empty) {
        note->over = item->hits > 0;
        *operation = OPERATION_PEEK;
        *cost = 0;
    } else if ((item->behavior & GUBERNATOR_RESET) != 0) {
        *operation = OPERATION_RESET;
        *cost = 0;
    } else if (item->hits < 0) {
        *operation = OPERATION_REFUND;
    } else if (item->hits == 0) {
        *operation = OPERATION_PEEK;
    } else if (drains) {
        note->drains = true;
        note->hits = *cost & HITS_MASK;
        note->over = far;
        *operation = OPERATION_CHECK | WIRE_AT_MOST;
    } else {
        note->over = far; /* GUBERNATOR-3 */
        *operation = far ? OPERATION_PEEK : OPERATION_CHECK;
        *cost = far ? 0 : hits;
    }
}

static int find_fault(const struct gubernator_item *item)
{
    if (item->unique_key.len == 0)
        return FAULT_NO_KEY;
    if (item->name.len == 0)
        return FAULT_NO_NAME;
    return memchr(item->name.data, '\0', item->name.len) != NULL ? FAULT_NAME : -1;
}

void gubernator_add(struct gubernator_plan *plan, const struct gubernator_item *item)
{
    const uint32_t i = plan->asked.count++;
    const bool unit =
        (item->behavior & GUBERNATOR_GREGORIAN) != 0 && item->algorithm == GUBERNATOR_TOKEN_BUCKET;
    struct gubernator_note note = {.regions = (item->behavior & GUBERNATOR_MULTI_REGION) != 0,
                                   .global = (item->behavior & GUBERNATOR_GLOBAL) != 0,
                                   .empty = item->limit < 1,
                                   .unit = unit};
    ASSERT(i < GUBERNATOR_ITEMS_MAX);
    int fault = find_fault(item);
    if (fault < 0)
        fault = find_limit(plan, item);
    note.failed = fault >= 0;
    note.about = (unsigned)(fault >= 0 ? (uint32_t)fault : plan->last) & ABOUT_MASK;
    if (fault < 0) {
        choose(item, &note, &plan->operations[i], &plan->costs[i]);
        plan->checks++;
    }
    plan->notes[i] = note;
}

/* "gubernator", NUL, name, NUL, unique_key; or a digest of the last three, where they are long: no
 * name is empty or has a NUL (GUBERNATOR-2). */
struct wire_text gubernator_key(struct wire_text name, struct wire_text unique_key,
                                char room[WIRE_VALUE_MAX])
{
    static const char prefix[] = "gubernator"; /* and its NUL */
    size_t len = sizeof prefix;
    memcpy(room, prefix, sizeof prefix);
    if (name.len < WIRE_VALUE_MAX && unique_key.len < WIRE_VALUE_MAX &&
        name.len + 1 + unique_key.len <= WIRE_VALUE_MAX - sizeof prefix) {
        memcpy(room + len, name.data, name.len);
        len += name.len;
        room[len++] = '\0';
        memcpy(room + len, unique_key.data, unique_key.len);
        return (struct wire_text){room, len + unique_key.len};
    }
    struct digest parts[2];
    struct digest whole;
    digest_make(name.data, name.len, &parts[0]);
    digest_make(unique_key.data, unique_key.len, &parts[1]);
    digest_make(parts, sizeof parts, &whole);
    room[len++] = '\0'; /* in the place of a name */
    memcpy(room + len, whole.bytes, DIGEST_LEN);
    return (struct wire_text){room, len + DIGEST_LEN};
}

/* The limit's template in the builder, or as wire_checks_builder_inline. */
static int template_of(struct gubernator_plan *plan, uint32_t limit,
                       struct wire_checks_builder *builder)
{
    if (plan->templates[limit] >= 0)
        return plan->templates[limit];
    const int template = wire_checks_builder_inline(builder, &plan->limits[limit]);
    if (template >= 0)
        plan->templates[limit] = (int16_t) template;
    return template;
}

int gubernator_append(struct gubernator_plan *plan, uint32_t i, struct wire_text name,
                      struct wire_text unique_key, struct wire_checks_builder *builder)
{
    char room[WIRE_VALUE_MAX];
    ASSERT(i < plan->asked.count);
    if (plan->notes[i].failed)
        return 0;
    const int template = template_of(plan, plan->notes[i].about, builder);
    if (template <0)
        return template;
    const struct wire_text key = gubernator_key(name, unique_key, room);
    const int number = wire_checks_builder_append(builder, (uint32_t) template, plan->operations[i],
                                                  plan->costs[i], &key, 1);
    return number < 0 ? number : 0;
}

/* ---- notes ----------------------------------------------------------------------------------- */

static size_t told_len(const struct gubernator_asked *asked)
{
    return asked->limit_count * sizeof(struct gubernator_told);
}

static size_t notes_len(const struct gubernator_asked *asked)
{
    return told_len(asked) + asked->count * sizeof(struct gubernator_note);
}

static bool all_kept(const struct gubernator_asked *asked)
{
    return notes_len(asked) <= GUBERNATOR_KEPT * sizeof(uint64_t);
}

size_t gubernator_more_len(const struct gubernator_plan *plan)
{
    return all_kept(&plan->asked) ? 0 : notes_len(&plan->asked);
}

void gubernator_note(const struct gubernator_plan *plan, struct gubernator_kept *kept, void *more)
{
    const size_t told = told_len(&plan->asked);
    char *notes = all_kept(&plan->asked) ? (char *)kept->notes : more;
    kept->asked = plan->asked;
    memcpy(notes, plan->told, told);
    memcpy(notes + told, plan->notes, plan->asked.count * sizeof(struct gubernator_note));
}

struct gubernator_reader gubernator_answers(const struct gubernator_kept *kept, const void *more,
                                            const struct wire_decisions *decisions, uint32_t first,
                                            int64_t now_ns)
{
    return (struct gubernator_reader){.asked = kept->asked,
                                      .notes = all_kept(&kept->asked) ? kept->notes : more,
                                      .decisions = decisions,
                                      .check = first,
                                      .now_ns = now_ns};
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Why nobody has decided. */
static struct wire_text reason_of(const struct wire_decision *decision)
{
    const struct wire_source *source = decision->source;
    struct wire_text text = source != NULL && source->message.len > 0
                                ? source->message
                                : wire_text_of(outcome_sentence(decision->outcome));
    if (text.len > GUBERNATOR_ERROR_MAX)
        text.len = GUBERNATOR_ERROR_MAX;
    return text;
}

static void tell(const struct gubernator_note *note, const struct gubernator_told *told,
                 const struct wire_decision *decision, int64_t now_ns,
                 struct gubernator_answer *out)
{
    const bool undecided = !decision->allowed && (decision->outcome == OUTCOME_BUSY ||
                                                  decision->outcome == OUTCOME_ERROR);
    if (decision->source != NULL)
        out->owner = decision->source->node;
    if (undecided) {
        out->error = reason_of(decision);
        return;
    }
    out->over =
        note->over || !decision->allowed || (note->drains && decision->granted < note->hits);
    out->limit = told->limit;
    out->remaining = note->empty ? 0 : (int64_t)decision->remaining;
    out->reset_ms = told->reset_ms;
    if (decision->reset_after_ms > 0 && !note->empty) {
        const int64_t now_ms = (now_ns + NS_PER_MS - 1) / NS_PER_MS; /* told late, never early */
        const int64_t reset_ms = sat_add(now_ms, decision->reset_after_ms);
        const int64_t off_ms = sat_sub(reset_ms, told->reset_ms);
        if (!note->unit || off_ms > NEAR_MS || off_ms < -NEAR_MS) /* else rounding, and the way */
            out->reset_ms = reset_ms;
    }
    if (note->regions)
        out->region = wire_text_of(region_text);
}

static void count_fault(struct gubernator_stats *stats, enum fault fault)
{
    if (stats != NULL)
        ++*(fault == FAULT_ALGORITHM ? &stats->algorithm : &stats->invalid);
}

static void count_answer(const struct gubernator_reader *reader, bool global,
                         const struct wire_decision *decision, const struct gubernator_answer *out)
{
    struct gubernator_stats *stats = reader->stats;
    if (stats == NULL)
        return;
    const bool refused = decision->source != NULL && decision->source->status == STATUS_BAD;
    if (out->error.len > 0) {
        ++*(refused                             ? &stats->invalid
            : decision->outcome == OUTCOME_BUSY ? &stats->busy
                                                : &stats->timeout);
        return;
    }
    const bool own = out->owner.len == strlen(reader->self) &&
                     memcmp(out->owner.data, reader->self, out->owner.len) == 0;
    ++*(global ? &stats->global : own ? &stats->local : &stats->forward);
    stats->over += out->over;
}

bool gubernator_next(struct gubernator_reader *reader, struct gubernator_answer *out)
{
    struct gubernator_note note;
    struct gubernator_told told;
    struct wire_decision decision;
    const char *notes = reader->notes;
    if (reader->item == reader->asked.count)
        return false;
    memset(out, 0, sizeof *out);
    memcpy(&note, notes + told_len(&reader->asked) + reader->item * sizeof note, sizeof note);
    reader->item++;
    if (note.failed) {
        out->error = wire_text_of(faults[note.about]);
        count_fault(reader->stats, note.about);
        return true;
    }
    memcpy(&told, notes + note.about * sizeof told, sizeof told);
    wire_decision_at(reader->decisions, reader->check++, &decision);
    tell(&note, &told, &decision, reader->now_ns, out);
    count_answer(reader, note.global, &decision, out);
    return true;
}
