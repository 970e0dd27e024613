/* failpoint.c - names of failpoints to numbers and back, from the map of failpoint.h.
 *
 * FAILPOINT-1  Every name parses to its own point, and that point's name is the name again.
 */
#include "base/failpoint.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"

#define NAME(name, text) text,
static const char *const names[] = {FAILPOINT_MAP(NAME)};
#undef NAME

static_assert(sizeof(names) / sizeof(names[0]) == FAILPOINT_COUNT, "each point has one name");

enum { DIGITS_MAX = 9 }; /* of n: far more visits than any run makes */

const char *failpoint_name(enum failpoint point)
{
    ASSERT(point < FAILPOINT_COUNT);
    return names[point];
}

/* The number in `text`, 0 if it is none of 1 .. 10^DIGITS_MAX - 1. */
static uint64_t times_of(const char *text)
{
    uint64_t times = 0;
    size_t digits = 0;

    for (; text[digits] >= '0' && text[digits] <= '9' && digits < DIGITS_MAX; digits++)
        times = times * 10 + (uint64_t)(text[digits] - '0');
    ASSERT(digits <= DIGITS_MAX);
    return text[digits] == '\0' ? times : 0;
}

int failpoint_parse(const char *text, enum failpoint *point, uint64_t *times)
{
    const char *colon = strchr(text, ':');
    const uint64_t number = colon != NULL ? times_of(colon + 1) : 0;

    if (number == 0)
        return TG_EINVALID;
    for (int i = 0; i < FAILPOINT_COUNT; i++) {
        const size_t len = strlen(names[i]);
        if ((size_t)(colon - text) != len || memcmp(names[i], text, len) != 0)
            continue;
        *point = (enum failpoint)i;
        *times = number;
        return TG_OK;
    }
    return TG_EINVALID;
}
