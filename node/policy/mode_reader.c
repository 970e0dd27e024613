/* mode_reader.c - the throttling mode of a rule or of one of its limits, and percentages.
 *
 *   mode: hard                      never above the limit
 *   mode: {soft: {exceed: 10%}}     up to a tenth above it, and the answer says so
 *
 * A mode is kept as what it means to a limit: by how many per cent it may be exceeded, 0 for hard.
 *
 * I1  A mode that this version does not have is refused by name, never read as a stricter one.
 */
#include <stdio.h>
#include <string.h>

#include "node/policy/policy_internal.h"

enum mode { MODE_HARD, MODE_SOFT, MODE_ELASTIC };

static const struct yaml_reader_word mode_words[] = {
    {"hard", MODE_HARD, false}, {"soft", MODE_SOFT, false}, {"elastic", MODE_ELASTIC, true}};
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
                     uint16_t *exceed_percent)
{
    struct yaml_reader_field fields[] = {{"exceed", YAML_READER_REQUIRED, 0}};
    char field[WHAT_LEN];

    (void)snprintf(field, sizeof(field), "%s.soft", what);
    const int result = yaml_reader_fields(reader, node, field, fields, 1);
    if (result != TG_OK)
        return result;
    (void)snprintf(field, sizeof(field), "%s.soft.exceed", what);
    return policy_read_percent(reader, fields[0].node, field, LIMIT_EXCEED_MAX, exceed_percent);
}

int policy_read_mode(const struct yaml_reader *reader, uint32_t node, const char *what,
                     uint16_t *exceed_percent)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    const bool mapping = at->kind == YAML_READER_MAPPING && at->len == 1;
    int mode = MODE_HARD;

    *exceed_percent = 0;
    const int result =
        yaml_reader_word(reader, mapping ? at->first : node, what, mode_words, MODE_WORDS, &mode);
    if (result != TG_OK)
        return result;
    if (mode == MODE_SOFT && mapping)
        return read_soft(reader, yaml_reader_at(reader, at->first)->next, what, exceed_percent);
    if (mode == MODE_SOFT)
        return yaml_reader_fail(reader, node,
                                "%s: found soft without its bound; expected {soft: {exceed: 10%%}}",
                                what);
    if (mapping)
        return yaml_reader_fail(reader, node, "%s: found a mapping; expected only soft to have one",
                                what);
    return TG_OK;
}
