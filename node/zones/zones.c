/* zones.c - the spans of a time zone, asked of GLib; see zones.h.
 *
 * GLib tells which interval of a zone a moment is in, and the interval's offset, but not where it
 * ends. So the time from 1970 to 2096 is walked in steps that no interval is shorter than in
 * practice, and each change that a step passes is found by halving:
 *
 *     |  step  |  step  |  step  |
 *     +1 h ---------|+2 h -------------      the change is somewhere in the second step
 *
 * ZONES-1  Spans are in the order of time, and neighbours differ in their offset.
 * ZONES-2  A name is one of the zone database, whose names all begin with a capital: GLib would
 *          also read rules in the form of POSIX, which look like misspelt names, and whatever else
 *          lies beside the zones (the machine's own localtime, right/ with leap seconds, lists that
 *          are no zones).
 */
#include "node/zones/zones.h"

#include <glib.h>
#include <stdbool.h>
#include <string.h>

#define FIRST_S INT64_C(0)          /* 1970 */
#define LAST_S  INT64_C(4070000000) /* 2098: the windows of all times that are decided upon */

enum { STEP_S = 4 * 86400 };

/* A digit in a name without a slash: one of these four, or none of the database (ZONES-2). */
static bool of_database(const char *name)
{
    static const char *const with_digits[] = {"EST5EDT", "CST6CDT", "MST7MDT", "PST8PDT"};

    if (name[0] < 'A' || name[0] > 'Z')
        return false;
    if (strchr(name, '/') != NULL || strpbrk(name, "0123456789") == NULL)
        return true;
    for (size_t i = 0; i < sizeof with_digits / sizeof *with_digits; i++)
        if (strcmp(name, with_digits[i]) == 0)
            return true;
    return false;
}

static int32_t offset_at(GTimeZone *zone, int64_t utc_s)
{
    const int interval = g_time_zone_find_interval(zone, G_TIME_TYPE_UNIVERSAL, utc_s);
    return interval < 0 ? 0 : g_time_zone_get_offset(zone, interval);
}

/* The first moment in (from, to] with the offset of `to`. */
static int64_t change_between(GTimeZone *zone, int64_t from_s, int64_t to_s)
{
    const int32_t after = offset_at(zone, to_s);
    while (to_s - from_s > 1) {
        const int64_t middle_s = from_s + (to_s - from_s) / 2;
        if (offset_at(zone, middle_s) == after)
            to_s = middle_s;
        else
            from_s = middle_s;
    }
    return to_s;
}

static uint32_t spans_of(void *context, const char *name, struct calendar_span *out, uint32_t max)
{
    (void)context;
    GTimeZone *zone = of_database(name) ? g_time_zone_new_identifier(name) : NULL;
    if (zone == NULL || max == 0) {
        if (zone != NULL)
            g_time_zone_unref(zone);
        return 0;
    }
    uint32_t count = 1;
    out[0] = (struct calendar_span){INT64_MIN, offset_at(zone, FIRST_S)};
    for (int64_t at_s = FIRST_S; at_s < LAST_S && count < max; at_s += STEP_S) {
        const int64_t next_s = at_s + STEP_S;
        const int32_t offset_s = offset_at(zone, next_s);
        if (offset_s != out[count - 1].offset_s)
            out[count++] = (struct calendar_span){change_between(zone, at_s, next_s), offset_s};
    }
    g_time_zone_unref(zone);
    return count;
}

const struct policy_zones *zones_system(void)
{
    static const struct policy_zones zones = {.context = NULL, .spans = spans_of};
    return &zones;
}
