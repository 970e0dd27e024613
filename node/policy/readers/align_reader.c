/* align_reader.c - where the windows of a limit begin: `align` and `timezone`.
 *
 * A window of the calendar is one unit of it: minute, hour, day, week, month or year. Weeks, months
 * and years have no length of their own, so fixed windows of them need the calendar.
 *
 *   limits of all rules --name--> zones, each once --> spans, asked of whoever knows (policy_zones)
 *
 * ALIGNREADER-1  After policy_bind_zones every calendar limit has a zone; one that nobody knows is
 *                an error with the place of its name.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

/* What is a unit of the calendar, and what it is called. */
static const struct {
    uint64_t ns;
    const char *name;
    enum limit_align align;
    bool nominal; /* has no length of its own */
} units[] = {
    {60000000000, "minute", LIMIT_ALIGN_MINUTE, false},
    {3600000000000, "hour", LIMIT_ALIGN_HOUR, false},
    {86400000000000, "day", LIMIT_ALIGN_DAY, false},
    {7 * 86400000000000, "week", LIMIT_ALIGN_WEEK, true},
    {30 * 86400000000000, "month", LIMIT_ALIGN_MONTH, true},
    {365 * 86400000000000, "year", LIMIT_ALIGN_YEAR, true},
};

enum { UNITS = sizeof(units) / sizeof(units[0]) };

/* The index of the rate's unit in `units`, UNITS if it is none of the calendar. */
static unsigned unit_of(const struct yaml_reader *reader, uint32_t rate, uint64_t *number)
{
    uint64_t unit_ns;
    unsigned unit = 0;

    quantity_rate_window(yaml_reader_at(reader, rate)->text, number, &unit_ns);
    while (unit < UNITS && units[unit].ns != unit_ns)
        unit++;
    return unit;
}

static int read_zone_name(struct chunks *chunks, const struct rule_place *place,
                          struct policy_calendar *calendar)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/-";
    const struct yaml_reader *reader = place->reader;
    const uint32_t node = place->fields[LIMIT_KEY_TIMEZONE].node;
    char shown[YAML_READER_SHOWN_LEN];
    const char *text;
    size_t len;

    const int result = rule_scalar(place, LIMIT_KEY_TIMEZONE, &text, &len);
    if (result != TG_OK)
        return result;
    if (strspn(text, allowed) != len || text[0] < 'A')
        return yaml_reader_fail(reader, node,
                                "limits.timezone: found %s; expected a name such as Europe/Berlin",
                                yaml_reader_shown(reader, node, shown));
    calendar->name = (struct policy_text){chunks_copy(chunks, text, len), len};
    return calendar->name.data == NULL ? TG_ENOMEM : TG_OK;
}

static int read_calendar(struct chunks *chunks, const struct rule_place *place, struct limit *limit,
                         char *window, struct policy_calendar *calendar)
{
    const struct yaml_reader *reader = place->reader;
    const uint32_t timezone = place->fields[LIMIT_KEY_TIMEZONE].node;
    const uint32_t rate = place->fields[LIMIT_KEY_RATE].node;
    const uint32_t where =
        timezone != YAML_READER_NONE ? timezone : place->fields[LIMIT_KEY_ALIGN].node;
    uint64_t number;

    const unsigned unit = unit_of(reader, rate, &number);
    if (unit == UNITS || number != 1)
        return yaml_reader_fail(reader, rate,
                                "limits.rate: found a window that is no unit of the calendar; "
                                "expected COUNT/minute, hour, day, week, month or year");
    limit->align = (uint8_t)units[unit].align;
    (void)snprintf(window, QUANTITY_TEXT_LEN, "%" PRIu64 "/%s", limit->count, units[unit].name);
    calendar->line = yaml_reader_at(reader, where)->line;
    calendar->column = yaml_reader_at(reader, where)->column;
    if (timezone != YAML_READER_NONE)
        return read_zone_name(chunks, place, calendar);
    calendar->name = (struct policy_text){"UTC", 3};
    return TG_OK;
}

int policy_read_align(struct chunks *chunks, const struct rule_place *place, struct limit *limit,
                      char *window, struct policy_calendar *calendar)
{
    const struct yaml_reader *reader = place->reader;
    const uint32_t align = place->fields[LIMIT_KEY_ALIGN].node;
    const uint32_t timezone = place->fields[LIMIT_KEY_TIMEZONE].node;
    const uint32_t rate = place->fields[LIMIT_KEY_RATE].node;
    int word = RULE_ALIGN_EPOCH;
    uint64_t number;

    const int result = rule_word(place, LIMIT_KEY_ALIGN, &word);
    if (result != TG_OK)
        return result;
    if (align != YAML_READER_NONE && limit->algorithm != ALGORITHM_FIXED_WINDOW)
        return yaml_reader_fail(reader, align,
                                "limits.align: found with %s; expected it with fixed_window only",
                                algorithm_name(limit->algorithm));
    if (timezone != YAML_READER_NONE && word != RULE_ALIGN_CALENDAR)
        return yaml_reader_fail(reader, timezone,
                                "limits.timezone: found without the calendar; expected it with "
                                "align: calendar only");
    if (word == RULE_ALIGN_CALENDAR)
        return read_calendar(chunks, place, limit, window, calendar);
    if (word == RULE_ALIGN_FIRST)
        limit->align = LIMIT_ALIGN_FIRST;
    if (limit->algorithm != ALGORITHM_FIXED_WINDOW)
        return TG_OK;
    const unsigned unit = unit_of(reader, rate, &number);
    if (unit < UNITS && units[unit].nominal)
        return yaml_reader_fail(reader, rate,
                                "limits.rate: found a fixed_window of a %s, which has no length of "
                                "its own; expected days, or align: calendar",
                                units[unit].name);
    return TG_OK;
}

/* ---- zones ----------------------------------------------------------------------------------- */

struct zones {
    uint32_t count;
    struct policy_text names[POLICY_ZONES_MAX];
    const struct calendar_zone *zones[POLICY_ZONES_MAX];
};

static const struct calendar_span utc_span = {INT64_MIN, 0};
static const struct calendar_zone utc_zone = {&utc_span, 1};

/* A new zone in the policy's memory. NULL without memory; without spans if nobody knows it. */
static const struct calendar_zone *new_zone(struct chunks *chunks, const struct policy_zones *zones,
                                            const struct policy_text *name)
{
    struct calendar_zone *zone = chunks_get(chunks, 1, sizeof(*zone));
    struct calendar_span *spans = chunks_get(chunks, POLICY_ZONE_SPANS_MAX, sizeof(*spans));

    if (zone == NULL || spans == NULL)
        return NULL;
    zone->spans = spans;
    if (zones != NULL)
        zone->span_count = zones->spans(zones->context, name->data, spans, POLICY_ZONE_SPANS_MAX);
    return zone;
}

static int refuse(struct yaml_reader_error *error, const struct policy_calendar *calendar,
                  const char *sentence)
{
    error->line = calendar->line;
    error->column = calendar->column;
    (void)snprintf(error->message, sizeof(error->message), "limits.timezone: %s", sentence);
    return TG_EINVALID;
}

static int bind_zone(struct policy *policy, const struct policy_zones *zones, struct zones *known,
                     struct policy_calendar *calendar, struct yaml_reader_error *error)
{
    char sentence[128];

    if (policy_text_is(&calendar->name, "UTC")) {
        calendar->zone = &utc_zone;
        return TG_OK;
    }
    for (uint32_t i = 0; i < known->count; i++) {
        if (policy_text_equal(&known->names[i], &calendar->name)) {
            calendar->zone = known->zones[i];
            return TG_OK;
        }
    }
    if (known->count == POLICY_ZONES_MAX) {
        (void)snprintf(sentence, sizeof(sentence), "found more than %d different zones",
                       POLICY_ZONES_MAX);
        return refuse(error, calendar, sentence);
    }
    calendar->zone = new_zone(&policy->chunks, zones, &calendar->name);
    if (calendar->zone == NULL)
        return TG_ENOMEM;
    if (calendar->zone->span_count == 0) {
        (void)snprintf(sentence, sizeof(sentence),
                       "found \"%.40s\", which is no time zone known here; expected one such as "
                       "Europe/Berlin",
                       calendar->name.data);
        return refuse(error, calendar, sentence);
    }
    known->names[known->count] = calendar->name;
    known->zones[known->count++] = calendar->zone;
    return TG_OK;
}

int policy_bind_zones(struct policy *policy, const struct policy_zones *zones,
                      struct yaml_reader_error *error)
{
    struct zones known = {.count = 0};

    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct policy_rule *rule = &policy->listed[i];
        /* Read into memory of the policy, which nobody else has seen yet. */
        struct policy_calendar *calendars = (struct policy_calendar *)(uintptr_t)rule->calendars;
        for (size_t k = 0; calendars != NULL && k < rule->limit_count; k++) {
            const int result = calendars[k].name.len == 0
                                   ? TG_OK
                                   : bind_zone(policy, zones, &known, &calendars[k], error);
            if (result != TG_OK)
                return result;
        }
    }
    return TG_OK;
}

void policy_place_calendars(const struct policy_rule *rule, int64_t now_ns, struct limit *limits)
{
    for (size_t i = 0; rule->calendars != NULL && i < rule->limit_count; i++)
        if (rule->calendars[i].zone != NULL)
            calendar_place(rule->calendars[i].zone, now_ns, &limits[i]);
}
