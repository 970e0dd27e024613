/* mode_reader.c - the throttling mode of a rule or of one of its limits, and percentages.
 *
 *   mode: hard                      never above the limit
 *   mode: {soft: {exceed: 10%}}     up to a tenth above it, and the answer says so
 *   mode: {elastic: {pool: api}}    above it while the pool has something to spare
 *
 * A mode is kept as what it means to a limit: by how many per cent it may be exceeded, which pool
 * lends to it; nothing of either for hard.
 *
 * I1  A mode that this version does not have is refused by name, never read as a stricter one.
 */
#include <stdio.h>
#include <string.h>

#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

enum mode { MODE_HARD, MODE_SOFT, MODE_ELASTIC };

static const struct yaml_reader_word mode_words[] = {
    {"hard", MODE_HARD}, {"soft", MODE_SOFT}, {"elastic", MODE_ELASTIC}};
enum { MODE_WORDS = sizeof(mode_words) / sizeof(mode_words[0]), WHAT_LEN = 64 };

int policy_read_percent(const struct yaml_reader *reader, uint32_t node, const char *what,
                        uint32_t max, uint16_t *out)
{
    const char *text = NULL;
    uint32_t number = 0;
    size_t len = 0;
    size_t at = 0;

    const int result = yaml_reader_text(reader, node, what, 1, QUANTITY_TEXT_LEN, &text, &len);
    if (result != TG_OK)
        return result;
    for (; at < len && number <= max && text[at] >= '0' && text[at] <= '9'; at++)
        number = number * 10 + (uint32_t)(text[at] - '0');
    if (at == 0 || text[0] == '0' || number > max || strcmp(text + at, "%") != 0)
        return yaml_reader_fail(reader, node, "%s: found \"%s\"; expected 1%% to %u%%", what, text,
                                max);
    *out = (uint16_t)number;
    return TG_OK;
}

/* The {exceed: 10%} of a soft mode. */
static int read_soft(const struct yaml_reader *reader, uint32_t node, const char *what,
                     struct policy_mode *mode)
{
    struct yaml_reader_field fields[] = {{"exceed", YAML_READER_REQUIRED, 0}};
    char field[WHAT_LEN];

    (void)snprintf(field, sizeof(field), "%s.soft", what);
    const int result = yaml_reader_fields(reader, node, field, fields, 1);
    if (result != TG_OK)
        return result;
    (void)snprintf(field, sizeof(field), "%s.soft.exceed", what);
    return policy_read_percent(reader, fields[0].node, field, LIMIT_EXCEED_MAX,
                               &mode->exceed_percent);
}

/* Reads "3x" or "1.5x", up to two places behind the point, as per cent. */
static int read_ceiling(const struct yaml_reader *reader, uint32_t node, const char *what,
                        uint32_t *percent)
{
    const char *text = NULL;
    uint64_t number = 0;
    size_t len = 0;
    size_t at = 0;

    const int result = yaml_reader_text(reader, node, what, 1, QUANTITY_TEXT_LEN, &text, &len);
    if (result != TG_OK)
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
            reader, node,
            "%s: found \"%s\"; expected a factor above 1x and at most %dx, such "
            "as 3x or 1.5x",
            what, text, LIMIT_CEILING_MAX / 100);
    *percent = (uint32_t)number;
    return TG_OK;
}

static int read_pool(const struct policy *policy, const struct yaml_reader *reader, uint32_t node,
                     const char *what, const struct policy_pool **pool)
{
    char shown[YAML_READER_SHOWN_LEN];
    const char *text = NULL;
    size_t len = 0;

    const int result = yaml_reader_text(reader, node, what, 1, POLICY_NAME_LEN_MAX, &text, &len);
    if (result != TG_OK)
        return result;
    *pool = policy_pool_find(policy, text, len);
    if (*pool == NULL)
        return yaml_reader_fail(reader, node, "%s: found %s; expected a name of the file's pools",
                                what, yaml_reader_shown(reader, node, shown));
    return TG_OK;
}

/* The {pool: NAME, ceiling: 3x, weight: N} of an elastic mode. */
static int read_elastic(const struct policy *policy, const struct yaml_reader *reader,
                        uint32_t node, const char *what, struct policy_mode *mode)
{
    struct yaml_reader_field fields[] = {{"pool", YAML_READER_REQUIRED, 0},
                                         {"ceiling", YAML_READER_OPTIONAL, 0},
                                         {"weight", YAML_READER_OPTIONAL, 0}};
    char field[WHAT_LEN];
    int64_t weight = 1;

    (void)snprintf(field, sizeof(field), "%s.elastic", what);
    int result = yaml_reader_fields(reader, node, field, fields, 3);
    (void)snprintf(field, sizeof(field), "%s.elastic.pool", what);
    if (result == TG_OK)
        result = read_pool(policy, reader, fields[0].node, field, &mode->pool);
    (void)snprintf(field, sizeof(field), "%s.elastic.ceiling", what);
    if (result == TG_OK && fields[1].node != YAML_READER_NONE)
        result = read_ceiling(reader, fields[1].node, field, &mode->ceiling_percent);
    (void)snprintf(field, sizeof(field), "%s.elastic.weight", what);
    if (result == TG_OK && fields[2].node != YAML_READER_NONE)
        result = yaml_reader_int(reader, fields[2].node, field, 1, LIMIT_WEIGHT_MAX, &weight);
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

int policy_read_mode(const struct policy *policy, const struct yaml_reader *reader, uint32_t node,
                     const char *what, struct policy_mode *mode)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    const bool mapping = at->kind == YAML_READER_MAPPING && at->len == 1;
    int word = MODE_HARD;

    *mode = (struct policy_mode){0};
    const int result =
        yaml_reader_word(reader, mapping ? at->first : node, what, mode_words, MODE_WORDS, &word);
    if (result != TG_OK)
        return result;
    const uint32_t value = mapping ? yaml_reader_at(reader, at->first)->next : node;
    if (word == MODE_SOFT && mapping)
        return read_soft(reader, value, what, mode);
    if (word == MODE_ELASTIC && mapping)
        return read_elastic(policy, reader, value, what, mode);
    if (word == MODE_SOFT)
        return yaml_reader_fail(reader, node,
                                "%s: found soft without its bound; expected {soft: {exceed: 10%%}}",
                                what);
    if (word == MODE_ELASTIC)
        return yaml_reader_fail(reader, node,
                                "%s: found elastic without its pool; expected {elastic: {pool: "
                                "NAME}}",
                                what);
    if (mapping)
        return yaml_reader_fail(
            reader, node, "%s: found a mapping; expected only soft and elastic to have one", what);
    return TG_OK;
}
