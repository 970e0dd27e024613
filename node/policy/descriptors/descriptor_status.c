/* descriptor_status.c - see descriptor_status.h. */
#include "node/policy/descriptors/descriptor_status.h"

#include "base/assert.h"
#include "base/sat.h"

enum { PPM = 1000000 };

struct descriptor_hits descriptor_hits_of(uint32_t request_addend, bool set, uint64_t own_addend,
                                          bool negative)
{
    struct descriptor_hits hits = {DESCRIPTOR_CHARGE, request_addend > 0 ? request_addend : 1};
    if (set)
        hits.cost = own_addend;
    if (hits.cost == 0)
        hits.use = DESCRIPTOR_LOOK;
    else if (negative)
        hits.use = DESCRIPTOR_REFUND;
    return hits;
}

/* A window as a unit, or as so many of the largest one that it is a multiple of. */
static enum descriptor_unit unit_of(uint64_t window_s, uint32_t *multiplier)
{
    static const struct {
        uint32_t seconds;
        enum descriptor_unit unit;
    } units[] = {
        {365 * 86400, DESCRIPTOR_UNIT_YEAR}, {30 * 86400, DESCRIPTOR_UNIT_MONTH},
        {7 * 86400, DESCRIPTOR_UNIT_WEEK},   {86400, DESCRIPTOR_UNIT_DAY},
        {3600, DESCRIPTOR_UNIT_HOUR},        {60, DESCRIPTOR_UNIT_MINUTE},
        {1, DESCRIPTOR_UNIT_SECOND},
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        *multiplier = (uint32_t)(window_s / units[i].seconds);
        if (*multiplier > 0 && window_s % units[i].seconds == 0)
            return units[i].unit;
    }
    return DESCRIPTOR_UNIT_UNKNOWN;
}

static uint32_t fit(uint64_t number)
{
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

/* A look is over where denied requests that were counted have gone above the limit. */
static bool is_denied(const struct descriptor_found *found, const struct descriptor_hits *hits,
                      const struct descriptor_decision *decision)
{
    if (found->match == DESCRIPTOR_NOTHING)
        return hits->use == DESCRIPTOR_CHARGE;
    ASSERT(decision != NULL);
    if (hits->use == DESCRIPTOR_LOOK)
        return decision->used > found->limit.count;
    return hits->use == DESCRIPTOR_CHARGE && !decision->allowed;
}

struct descriptor_status descriptor_status_of(const struct descriptor_found *found,
                                              const struct descriptor_hits *hits,
                                              const struct descriptor_decision *decision,
                                              uint64_t now_s)
{
    struct descriptor_status status = {.name = {"", 0}};
    const struct descriptor *descriptor = found->descriptor;
    const bool nothing = found->match == DESCRIPTOR_NOTHING;
    if (found->match == DESCRIPTOR_UNLIMITED)
        status.limit_remaining = UINT32_MAX;
    if (descriptor != NULL && found->match != DESCRIPTOR_REPLACED)
        status.quota = descriptor->quota;
    if (found->match != DESCRIPTOR_LIMITED && !nothing)
        return status;
    const bool denied = is_denied(found, hits, decision);
    status.limited = true;
    status.name = descriptor != NULL ? descriptor->name : status.name;
    status.requests_per_unit = found->requests_per_unit;
    status.unit = unit_of(found->window_s, &status.unit_multiplier);
    status.reset_s = (uint32_t)(found->window_s - now_s % found->window_s);
    status.over = denied && !found->rule->shadow;
    status.shadow_denied = denied && found->rule->shadow;
    status.limit_remaining = nothing || denied ? 0 : fit(decision->remaining);
    return status;
}

bool descriptor_statuses_over(const struct descriptor_status *statuses, size_t count,
                              bool all_quota)
{
    size_t quotas = 0;
    size_t quotas_over = 0;
    for (size_t i = 0; i < count; i++) {
        const bool quota = all_quota || statuses[i].quota;
        if (!quota && statuses[i].over)
            return true;
        quotas += quota;
        quotas_over += quota && statuses[i].over;
    }
    return quotas > 0 && quotas_over == quotas;
}

struct descriptor_counts descriptor_counts_of(uint64_t limit, uint64_t before, uint64_t hits,
                                              uint32_t near_ppm)
{
    const uint64_t after = sat_addu(before, hits);
    const uint64_t near = limit / PPM * near_ppm + limit % PPM * near_ppm / PPM;
    const uint64_t from = before > near ? before : near;
    struct descriptor_counts counts = {0, 0, 0};
    ASSERT(near_ppm <= PPM);
    if (after > limit) {
        counts.over = before >= limit ? hits : after - limit;
        counts.near = before >= limit ? 0 : limit - from;
        return counts;
    }
    counts.within = hits;
    counts.near = after > near ? after - from : 0;
    return counts;
}
