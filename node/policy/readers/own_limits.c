/* own_limits.c - see own_limits.h.
 *
 *   encoded   u8 set of units (a bit each, the highest: burst) | u64 count ..., in the order of
 * units
 */
#include "node/policy/readers/own_limits.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"

#define SECOND_NS  UINT64_C(1000000000)
#define DAY_NS     (86400 * SECOND_NS)
#define YEAR_NS    (365 * DAY_NS)
#define BURST_MAX  (OWN_RATE_MAX * (YEAR_NS / SECOND_NS))
#define EXCEED_MAX (100 + LIMIT_EXCEED_MAX) /* per cent */

enum { BURST_BIT = 0x80, STATUS = 429, ORDINAL_STEP = 8 };

static_assert(OWN_UNITS == 7 && BURST_BIT == 1 << 7,
              "the units and the burst are the bits of a byte, as it is kept: there is none left");
static_assert(BURST_MAX * (uint64_t)EXCEED_MAX / 100 <= LIMIT_COUNT_MAX &&
                  OWN_RATE_MAX * (uint64_t)EXCEED_MAX / 100 <= LIMIT_RATE_MAX,
              "any own limit is one, exceeded by whatever a rule says (OWNLIMITS-2)");
static_assert((int)OWN_UNITS <= (int)ORDINAL_STEP &&
                  (int)OWN_ORDINAL + (int)ORDINAL_STEP * (int)POLICY_LIMITS_MAX <= UINT8_MAX &&
                  (int)POLICY_LIMITS_MAX <= (int)OWN_ORDINAL,
              "limits of a unit are told from one another, and from the others (OWNLIMITS-1)");

static const uint64_t windows_ns[OWN_UNITS] = {
    [OWN_SECOND] = SECOND_NS, [OWN_MINUTE] = 60 * SECOND_NS, [OWN_HOUR] = 3600 * SECOND_NS,
    [OWN_DAY] = DAY_NS,       [OWN_WEEK] = 7 * DAY_NS,       [OWN_MONTH] = 30 * DAY_NS,
    [OWN_YEAR] = YEAR_NS,
};

/* The unit that the window is one of; OWN_UNITS if it is none. */
static enum own_unit unit_of(uint64_t window_ns)
{
    unsigned unit = 0;

    while (unit < OWN_UNITS && windows_ns[unit] != window_ns)
        unit++;
    return (enum own_unit)unit;
}

uint8_t own_limits_ordinal(const struct limit *limit, uint32_t number)
{
    const enum own_unit unit = unit_of(limit->window_ns);
    if (unit == OWN_UNITS || limit->algorithm == ALGORITHM_CONCURRENCY)
        return 0;
    return (uint8_t)(OWN_ORDINAL + unit + ORDINAL_STEP * (number % POLICY_LIMITS_MAX));
}

/* ---- people's form --------------------------------------------------------------------------- */

bool own_limits_limit(const struct own_limits *own)
{
    uint64_t any = 0;

    for (size_t i = 0; i < OWN_UNITS; i++)
        any |= own->counts[i];
    return any != 0;
}

bool own_limits_empty(const struct own_limits *own)
{
    return own->burst == 0 && !own_limits_limit(own);
}

int own_limits_add(struct own_limits *own, const char *text, size_t len, char error[OWN_ERROR_LEN])
{
    char copy[QUANTITY_TEXT_LEN];
    char why[QUANTITY_ERROR_LEN];
    struct quantity_rate rate;

    if (len >= sizeof copy || memchr(text, '\0', len) != NULL) {
        (void)snprintf(error, OWN_ERROR_LEN, "a limit is too long; expected a rate such as 500/h");
        return TG_EINVALID;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (quantity_parse_rate(copy, &rate, why) != TG_OK) {
        (void)snprintf(error, OWN_ERROR_LEN, "limit: %s", why);
        return TG_EINVALID;
    }
    const enum own_unit unit = unit_of(rate.window_ns);
    if (unit == OWN_UNITS) {
        (void)snprintf(error, OWN_ERROR_LEN,
                       "limit %s: expected a window of one second, minute, hour, day, week, month "
                       "or year, such as 500/h",
                       copy);
        return TG_EINVALID;
    }
    if (sat_muldiv_up(rate.count, SECOND_NS, rate.window_ns) > OWN_RATE_MAX) {
        (void)snprintf(error, OWN_ERROR_LEN, "limit %s: expected at most %" PRIu64 " per second",
                       copy, OWN_RATE_MAX);
        return TG_EINVALID;
    }
    if (own->counts[unit] != 0) {
        (void)snprintf(error, OWN_ERROR_LEN, "limit %s: expected one limit of a window", copy);
        return TG_EINVALID;
    }
    own->counts[unit] = rate.count;
    return TG_OK;
}

int own_limits_set_burst(struct own_limits *own, uint64_t burst, char error[OWN_ERROR_LEN])
{
    if (burst < 1 || burst > BURST_MAX) {
        (void)snprintf(error, OWN_ERROR_LEN, "burst %" PRIu64 ": expected 1 to %" PRIu64, burst,
                       BURST_MAX);
        return TG_EINVALID;
    }
    own->burst = burst;
    return TG_OK;
}

void own_limits_format(const struct own_limits *own, enum own_unit unit,
                       char out[QUANTITY_TEXT_LEN])
{
    const struct quantity_rate rate = {own->counts[unit], windows_ns[unit]};

    out[0] = '\0';
    if (rate.count != 0)
        quantity_format_rate(&rate, out);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

void own_limits_put(const struct own_limits *own, struct bytes_writer *writer)
{
    uint8_t set = own->burst != 0 ? BURST_BIT : 0;

    for (unsigned i = 0; i < OWN_UNITS; i++)
        set |= (uint8_t)(own->counts[i] != 0 ? 1u << i : 0);
    bytes_put_u8(writer, set);
    for (unsigned i = 0; i < OWN_UNITS; i++)
        if (own->counts[i] != 0)
            bytes_put_u64(writer, own->counts[i]);
    if (own->burst != 0)
        bytes_put_u64(writer, own->burst);
}

int own_limits_get(struct bytes_reader *reader, struct own_limits *own)
{
    const uint8_t set = bytes_get_u8(reader);
    bool good = true;

    memset(own, 0, sizeof *own);
    for (unsigned i = 0; i < OWN_UNITS; i++) {
        if ((set >> i & 1) == 0)
            continue;
        own->counts[i] = bytes_get_u64(reader);
        good = good && own->counts[i] != 0 &&
               sat_muldiv_up(own->counts[i], SECOND_NS, windows_ns[i]) <= OWN_RATE_MAX;
    }
    if ((set & BURST_BIT) != 0) {
        own->burst = bytes_get_u64(reader);
        good = good && own->burst != 0 && own->burst <= BURST_MAX;
    }
    return good && !reader->failed ? TG_OK : TG_EPROTOCOL;
}

/* ---- on top of a rule ------------------------------------------------------------------------ */

/* The most that a limit of this kind and mode may count (OWNLIMITS-2). */
static uint64_t count_max(const struct limit *limit)
{
    return limit->algorithm == ALGORITHM_SLIDING_LOG
               ? LIMIT_LOG_COUNT_MAX * 100 / (100 + (uint64_t)limit->exceed_percent)
               : LIMIT_COUNT_MAX;
}

/* Gives a bucket the own burst, or that of the rule, but never more than refills in some 36 years:
 * half of what a limit may have, so that it may be exceeded, whichever way that is rounded
 * (OWNLIMITS-2). */
static void set_burst(struct limit *limit, const struct own_limits *own)
{
    const uint64_t most = sat_muldiv(LIMIT_REFILL_MAX_NS / 2, limit->count, limit->window_ns);

    if (!limit_has_burst(limit->algorithm))
        return;
    limit->burst = own->burst != 0 ? own->burst : limit->burst;
    if (limit->burst > most)
        limit->burst = most;
}

uint32_t own_limits_merge(const struct own_limits *own, const struct policy_rule *rule,
                          struct limit out[OWN_MERGED_MAX])
{
    uint32_t count = rule->limit_count;
    unsigned replaced = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct limit *limit = &out[i];
        *limit = rule->limits[i];
        if (limit->algorithm == ALGORITHM_CONCURRENCY) /* OWNLIMITS-3 */
            continue;
        const enum own_unit unit = unit_of(limit->window_ns);
        if (unit != OWN_UNITS && own->counts[unit] != 0) {
            const uint64_t most = count_max(limit);
            limit->count = own->counts[unit] < most ? own->counts[unit] : most;
            replaced |= 1u << unit;
        }
        set_burst(limit, own);
    }
    ASSERT(count <= OWN_MERGED_MAX);
    for (unsigned unit = 0; unit < OWN_UNITS && count < OWN_MERGED_MAX; unit++) {
        if (own->counts[unit] == 0 || (replaced >> unit & 1) != 0)
            continue;
        struct limit *limit = &out[count++];
        *limit = (struct limit){.count = own->counts[unit],
                                .window_ns = windows_ns[unit],
                                .algorithm = ALGORITHM_TOKEN_BUCKET,
                                .ordinal = (uint8_t)(OWN_ORDINAL + unit)};
        policy_set_mode(limit, &rule->mode, rule->class);
        set_burst(limit, own);
    }
    return count;
}

uint32_t own_limits_of(const struct policy_part *part, struct limit out[OWN_MERGED_MAX])
{
    if (part->own != NULL)
        return own_limits_merge(part->own, part->rule, out);
    if (part->rule->limit_count > 0)
        memcpy(out, part->rule->limits, part->rule->limit_count * sizeof *out);
    return part->rule->limit_count;
}

void own_limits_window(const struct policy_rule *rule, const struct limit *merged,
                       char out[QUANTITY_TEXT_LEN])
{
    const struct quantity_rate rate = {merged->count, merged->window_ns};

    for (uint32_t i = 0; i < rule->limit_count; i++) {
        if (rule->limits[i].algorithm != merged->algorithm ||
            rule->limits[i].ordinal != merged->ordinal)
            continue;
        const char *unit = strchr(rule->windows[i], '/');
        if (merged->count == rule->limits[i].count || unit == NULL)
            (void)snprintf(out, QUANTITY_TEXT_LEN, "%s", rule->windows[i]);
        else
            (void)snprintf(out, QUANTITY_TEXT_LEN, "%" PRIu64 "%s", merged->count, unit);
        return;
    }
    quantity_format_rate(&rate, out);
}

/* ---- rules of own limits alone --------------------------------------------------------------- */

static const struct policy_text user_key[] = {{"user", 4}};
static const struct policy_text api_key[] = {{"api_key", 7}};

#define OWN_RULE(written, attribute)                                                               \
    {                                                                                              \
        .name = {written, sizeof(written) - 1}, .counted = {written, sizeof(written) - 1},         \
        .group = {"", 0}, .key = attribute, .key_count = 1, .message = {"", 0}, .status = STATUS,  \
        .act = POLICY_ACT_THROTTLE, .class = POLICY_CLASS_NORMAL,                                  \
        .on_failure = POLICY_FAILURE_CLOSED, .ipv6_prefix = POLICY_IPV6_PREFIX_DEFAULT,            \
        .enabled = true, .plan = true                                                              \
    }

const struct policy_rule *own_limits_user_rule(void)
{
    static const struct policy_rule rule = OWN_RULE("user quota", user_key);
    return &rule;
}

const struct policy_rule *own_limits_key_rule(void)
{
    static const struct policy_rule rule = OWN_RULE("api key", api_key);
    return &rule;
}
