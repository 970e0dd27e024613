/* mode_reader.c - the throttling mode of a rule or of one of its limits.
 *
 *   mode: hard                      never above the limit
 *   mode: {soft: {exceed: 10%}}     up to a tenth above it, and the answer says so
 *   mode: {elastic: {pool: api}}    above it while the pool has something to spare
 *
 * A mode is kept as what it means to a limit: by how many per cent it may be exceeded, which pool
 * lends to it; nothing of either for hard.
 *
 * MODEREADER-1  A mode that this version does not have is refused by name, never read as a stricter
 *               one.
 */
#include <stdio.h>
#include <string.h>

#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

/* The {exceed: 10%} of a soft mode; `what` is how refusals call the mode. */
static int read_soft(const struct yaml_reader *reader, uint32_t node, const char *what,
                     struct policy_mode *mode)
{
    struct yaml_reader_field fields[SOFT_KEYS];
    char prefix[RULE_WHAT_LEN + sizeof(".elastic")];
    const struct rule_place place = {reader, RULE_MAP_SOFT, prefix, fields};

    (void)snprintf(prefix, sizeof(prefix), "%s.soft", what);
    const int result = rule_fields(reader, node, RULE_MAP_SOFT, prefix, fields);
    return result == TG_OK ? rule_percent(&place, SOFT_EXCEED, &mode->exceed_percent) : result;
}

/* Reads "3x" or "1.5x", up to two places behind the point, as per cent. */
static int read_ceiling(const struct rule_place *place, uint32_t *percent)
{
    const char *text;
    char what[RULE_WHAT_LEN];
    uint64_t number = 0;
    size_t len;
    size_t at = 0;

    const int result = rule_scalar(place, ELASTIC_CEILING, &text, &len);
    if (result != TG_OK || text == NULL)
        return result;
    for (; number <= LIMIT_CEILING_MAX && text[at] >= '0' && text[at] <= '9'; at++)
        number = number * 10 + (uint64_t)(text[at] - '0');
    const bool whole = at > 0;
    unsigned places = 0;
    if (text[at] == '.' && text[at + 1] >= '0' && text[at + 1] <= '9')
        for (at++; places < 2 && text[at] >= '0' && text[at] <= '9'; at++, places++)
            number = number * 10 + (uint64_t)(text[at] - '0');
    for (; places < 2; places++)
        number *= 10;
    if (!whole || strcmp(text + at, "x") != 0 || number <= 100 || number > LIMIT_CEILING_MAX)
        return yaml_reader_fail(
            place->reader, place->fields[ELASTIC_CEILING].node,
            "%s: found \"%s\"; expected a factor above 1x and at most %dx, such "
            "as 3x or 1.5x",
            rule_what(place, ELASTIC_CEILING, what), text, LIMIT_CEILING_MAX / 100);
    *percent = (uint32_t)number;
    return TG_OK;
}

static int read_pool(const struct policy *policy, const struct rule_place *place,
                     const struct policy_pool **pool)
{
    const uint32_t node = place->fields[ELASTIC_POOL].node;
    char shown[YAML_READER_SHOWN_LEN];
    char what[RULE_WHAT_LEN];
    const char *text;
    size_t len;

    const int result = rule_scalar(place, ELASTIC_POOL, &text, &len);
    if (result != TG_OK)
        return result;
    *pool = policy_pool_find(policy, text, len);
    if (*pool == NULL)
        return yaml_reader_fail(
            place->reader, node, "%s: found %s; expected a name of the file's pools",
            rule_what(place, ELASTIC_POOL, what), yaml_reader_shown(place->reader, node, shown));
    return TG_OK;
}

/* The {pool: NAME, ceiling: 3x, weight: N} of an elastic mode. */
static int read_elastic(const struct policy *policy, const struct yaml_reader *reader,
                        uint32_t node, const char *what, struct policy_mode *mode)
{
    struct yaml_reader_field fields[ELASTIC_KEYS];
    char prefix[RULE_WHAT_LEN + sizeof(".elastic")];
    const struct rule_place place = {reader, RULE_MAP_ELASTIC, prefix, fields};
    int64_t weight = 1;

    (void)snprintf(prefix, sizeof(prefix), "%s.elastic", what);
    int result = rule_fields(reader, node, RULE_MAP_ELASTIC, prefix, fields);
    if (result == TG_OK)
        result = read_pool(policy, &place, &mode->pool);
    if (result == TG_OK)
        result = read_ceiling(&place, &mode->ceiling_percent);
    if (result == TG_OK)
        result = rule_number(&place, ELASTIC_WEIGHT, &weight);
    mode->weight = (uint16_t)weight;
    return result;
}

void policy_set_mode(struct limit *limit, const struct policy_mode *mode, uint8_t class)
{
    limit->exceed_percent = mode->exceed_percent;
    limit->pool = mode->pool == NULL ? 0 : mode->pool->id;
    limit->weight = mode->weight;
    limit->ceiling_percent = mode->ceiling_percent;
    limit->class = mode->pool == NULL ? 0 : class;
}

int policy_read_mode(const struct policy *policy, const struct rule_place *place, unsigned key,
                     struct policy_mode *mode)
{
    const struct yaml_reader *reader = place->reader;
    const uint32_t node = place->fields[key].node;
    char what[RULE_WHAT_LEN];
    int word = RULE_MODE_HARD;
    uint32_t map;

    *mode = (struct policy_mode){0};
    const int result = rule_choice(place, key, &word, &map);
    if (result != TG_OK)
        return result;
    const bool mapping = map != YAML_READER_NONE;
    (void)rule_what(place, key, what);
    if (word == RULE_MODE_SOFT && mapping)
        return read_soft(reader, map, what, mode);
    if (word == RULE_MODE_ELASTIC && mapping)
        return read_elastic(policy, reader, map, what, mode);
    if (word == RULE_MODE_SOFT)
        return yaml_reader_fail(reader, node,
                                "%s: found soft without its bound; expected {soft: {exceed: 10%%}}",
                                what);
    if (word == RULE_MODE_ELASTIC)
        return yaml_reader_fail(reader, node,
                                "%s: found elastic without its pool; expected {elastic: {pool: "
                                "NAME}}",
                                what);
    if (mapping)
        return yaml_reader_fail(
            reader, node, "%s: found a mapping; expected only soft and elastic to have one", what);
    return TG_OK;
}
