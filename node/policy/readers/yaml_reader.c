/* yaml_reader.c - typed getters over the tree, each refusal with its place. See yaml_reader.h.
 *
 * Every sentence has the same shape, so that people learn to read it once:
 *
 *   WHAT: found FOUND; expected EXPECTED
 *
 * YAMLREADER-3  The first error of a reader stays (yaml_reader_fail), and is listed where all are
 *               wanted.
 * YAMLREADER-4  What is quoted is cut and made printable, so a sentence is one line whatever the
 *               file holds.
 *
 * Must not: allocate, or know what any key means.
 */
#include "node/policy/readers/yaml_reader.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum { SHOWN_TEXT_MAX = YAML_READER_SHOWN_LEN - 6 }; /* two quotes, "..." and NUL */

const struct yaml_reader_node *yaml_reader_at(const struct yaml_reader *reader, uint32_t index)
{
    ASSERT(index < reader->node_count);
    return &reader->nodes[index];
}

int yaml_reader_fail(const struct yaml_reader *reader, uint32_t node, const char *format, ...)
{
    struct yaml_reader_errors *all = reader->all;
    struct yaml_reader_error error;
    va_list arguments;

    if (reader->error->message[0] != '\0' && all == NULL)
        return TG_EINVALID; /* YAMLREADER-3 */
    error.line = node == YAML_READER_NONE ? 1 : yaml_reader_at(reader, node)->line;
    error.column = node == YAML_READER_NONE ? 1 : yaml_reader_at(reader, node)->column;
    va_start(arguments, format);
    (void)vsnprintf(error.message, sizeof(error.message), format, arguments);
    va_end(arguments);
    if (reader->error->message[0] == '\0')
        *reader->error = error;
    if (all != NULL && all->count == YAML_READER_ERRORS_MAX)
        all->more++;
    else if (all != NULL)
        all->list[all->count++] = error;
    return TG_EINVALID;
}

bool yaml_reader_goes_on(const struct yaml_reader *reader, int part, int *result)
{
    if (part != TG_OK && *result != TG_ENOMEM)
        *result = part;
    return part == TG_OK || (part == TG_EINVALID && reader->all != NULL);
}

/* A value left out, or YAML's words for it. */
static bool is_nothing(const struct yaml_reader_node *node)
{
    return node->kind == YAML_READER_SCALAR && node->plain &&
           (node->len == 0 || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

bool yaml_reader_is_nothing(const struct yaml_reader *reader, uint32_t index)
{
    return is_nothing(yaml_reader_at(reader, index));
}

/* The bytes of a character at `at` that would end a line or control a terminal, 0 if it does not:
 * U+0000-1F, 7F-9F, 2028 and 2029. */
static size_t unprintable(const char *at, size_t len)
{
    const unsigned char c = (unsigned char)at[0];

    if (c < 0x20 || c == 0x7f)
        return 1;
    if (c == 0xc2 && len >= 2 && (unsigned char)at[1] < 0xa0)
        return 2;
    return len >= 3 && (memcmp(at, "\xe2\x80\xa8", 3) == 0 || memcmp(at, "\xe2\x80\xa9", 3) == 0)
               ? 3
               : 0;
}

/* Quotes a text, of which at most SHOWN_TEXT_MAX bytes of whole characters are kept (YAMLREADER-4).
 * libyaml has checked its encoding. */
static const char *quote(const char *text, size_t len, char *out)
{
    size_t kept = len < SHOWN_TEXT_MAX ? len : SHOWN_TEXT_MAX;
    size_t at = 0;

    while (kept > 0 && kept < len && ((unsigned char)text[kept] & 0xc0) == 0x80)
        kept--;
    out[at++] = '"';
    for (size_t i = 0; i < kept; i++) {
        const size_t bad = unprintable(text + i, kept - i);
        out[at++] = bad == 0 && text[i] != '"' ? text[i] : '?';
        i += bad > 1 ? bad - 1 : 0;
    }
    (void)snprintf(out + at, YAML_READER_SHOWN_LEN - at, "%s\"", len > kept ? "..." : "");
    return out;
}

const char *yaml_reader_shown(const struct yaml_reader *reader, uint32_t node, char *out)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    const char *kind = "nothing";

    if (at->kind == YAML_READER_SCALAR && !is_nothing(at))
        return quote(at->text, at->len, out);
    if (at->kind != YAML_READER_SCALAR)
        kind = at->kind == YAML_READER_LIST ? "a list" : "a mapping";
    (void)snprintf(out, YAML_READER_SHOWN_LEN, "%s", kind);
    return out;
}

/* WHAT: found FOUND; expected EXPECTED. */
static int fail_expected(const struct yaml_reader *reader, uint32_t node, const char *what,
                         const char *expected)
{
    char shown[YAML_READER_SHOWN_LEN];

    return yaml_reader_fail(reader, node, "%s: found %s; expected %s", what,
                            yaml_reader_shown(reader, node, shown), expected);
}

/* A comma-separated list of words in a fixed buffer, "..." where it ends early. */
struct word_list {
    char text[YAML_READER_MESSAGE_LEN];
    size_t len;
};

static void add_word(struct word_list *list, const char *word)
{
    const int written = snprintf(list->text + list->len, sizeof(list->text) - list->len, "%s%s",
                                 list->len == 0 ? "" : ", ", word);
    list->len += (size_t)written;
    if (list->len >= sizeof(list->text))
        list->len = sizeof(list->text) - 1;
}

static void list_fields(const struct yaml_reader_field *fields, size_t count,
                        struct word_list *list)
{
    *list = (struct word_list){.len = 0};
    for (size_t i = 0; i < count; i++)
        add_word(list, fields[i].name);
}

/* Puts one pair of a mapping into the table. */
static int take_pair(const struct yaml_reader *reader, uint32_t key, const char *what,
                     struct yaml_reader_field *fields, size_t count)
{
    const struct yaml_reader_node *node = yaml_reader_at(reader, key);
    char shown[YAML_READER_SHOWN_LEN];
    struct word_list expected;

    (void)quote(node->text, node->len, shown);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, node->text) != 0)
            continue;
        if (fields[i].node != YAML_READER_NONE)
            return yaml_reader_fail(reader, key, "%s: found key %s twice; expected it once", what,
                                    shown);
        fields[i].node = node->next;
        return TG_OK;
    }
    list_fields(fields, count, &expected);
    return yaml_reader_fail(reader, key, "%s: found unknown key %s; expected %s", what, shown,
                            expected.text);
}

int yaml_reader_fields(const struct yaml_reader *reader, uint32_t node, const char *what,
                       struct yaml_reader_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fields[i].node = YAML_READER_NONE;
    if (yaml_reader_at(reader, node)->kind != YAML_READER_MAPPING)
        return fail_expected(reader, node, what, "a mapping");
    int result = TG_OK;
    uint32_t key = yaml_reader_at(reader, node)->first;
    while (key != YAML_READER_NONE) {
        if (!yaml_reader_goes_on(reader, take_pair(reader, key, what, fields, count), &result))
            return result;
        key = yaml_reader_at(reader, yaml_reader_at(reader, key)->next)->next;
    }
    for (size_t i = 0; i < count; i++) {
        if (fields[i].need != YAML_READER_REQUIRED || fields[i].node != YAML_READER_NONE)
            continue;
        if (!yaml_reader_goes_on(reader,
                                 yaml_reader_fail(reader, node,
                                                  "%s: found no key \"%s\"; expected one", what,
                                                  fields[i].name),
                                 &result))
            return result;
    }
    return result;
}

int yaml_reader_text(const struct yaml_reader *reader, uint32_t node, const char *what,
                     size_t len_min, size_t len_max, const char **text, size_t *len)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    char expected[64];

    if (at->kind != YAML_READER_SCALAR || is_nothing(at) || at->len < len_min ||
        at->len > len_max) {
        (void)snprintf(expected, sizeof(expected), "a text of %zu to %zu bytes", len_min, len_max);
        return fail_expected(reader, node, what, expected);
    }
    *text = at->text;
    *len = at->len;
    return TG_OK;
}

/* A decimal number with an optional minus, without spaces. False if it is none or too long. */
static bool scan_int(const char *text, int64_t *value)
{
    const bool negative = text[0] == '-';
    const char *at = text + (negative ? 1 : 0);

    *value = 0;
    if (*at == '\0')
        return false;
    for (; *at != '\0'; at++) {
        if (*at < '0' || *at > '9')
            return false;
        const int64_t digit = *at - '0';
        if (__builtin_mul_overflow(*value, (int64_t)10, value) ||
            __builtin_add_overflow(*value, negative ? -digit : digit, value))
            return false;
    }
    return true;
}

int yaml_reader_int(const struct yaml_reader *reader, uint32_t node, const char *what, int64_t min,
                    int64_t max, int64_t *value)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    char expected[96];
    int64_t number;

    if (at->kind == YAML_READER_SCALAR && at->plain && scan_int(at->text, &number) &&
        number >= min && number <= max) {
        *value = number;
        return TG_OK;
    }
    (void)snprintf(expected, sizeof(expected), "a whole number from %" PRId64 " to %" PRId64, min,
                   max);
    return fail_expected(reader, node, what, expected);
}

int yaml_reader_bool(const struct yaml_reader *reader, uint32_t node, const char *what, bool *value)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);

    if (at->kind == YAML_READER_SCALAR && at->plain) {
        *value = strcmp(at->text, "true") == 0;
        if (*value || strcmp(at->text, "false") == 0)
            return TG_OK;
    }
    return fail_expected(reader, node, what, "true or false");
}

int yaml_reader_word(const struct yaml_reader *reader, uint32_t node, const char *what,
                     const struct yaml_reader_word *words, size_t count, int *number)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    const bool is_text = at->kind == YAML_READER_SCALAR;
    struct word_list expected = {.len = 0};

    for (size_t i = 0; i < count; i++)
        add_word(&expected, words[i].text);
    for (size_t i = 0; is_text && i < count; i++) {
        if (strcmp(words[i].text, at->text) != 0)
            continue;
        *number = words[i].number;
        return TG_OK;
    }
    return fail_expected(reader, node, what, expected.text);
}

int yaml_reader_list(const struct yaml_reader *reader, uint32_t node, const char *what,
                     uint32_t min, uint32_t max)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    char expected[64];

    if (at->kind == YAML_READER_LIST && at->len >= min && at->len <= max)
        return TG_OK;
    (void)snprintf(expected, sizeof(expected), "a list of %" PRIu32 " to %" PRIu32 " elements", min,
                   max);
    if (at->kind != YAML_READER_LIST)
        return fail_expected(reader, node, what, expected);
    return yaml_reader_fail(reader, node, "%s: found a list of %" PRIu32 "; expected %s", what,
                            at->len, expected);
}

/* Whether an earlier key of the mapping has the same text. */
static bool is_repeated(const struct yaml_reader *reader, uint32_t mapping, uint32_t key)
{
    const char *text = yaml_reader_at(reader, key)->text;
    uint32_t other = yaml_reader_at(reader, mapping)->first;

    while (other != key) {
        if (strcmp(yaml_reader_at(reader, other)->text, text) == 0)
            return true;
        other = yaml_reader_at(reader, yaml_reader_at(reader, other)->next)->next;
    }
    return false;
}

int yaml_reader_mapping(const struct yaml_reader *reader, uint32_t node, const char *what,
                        uint32_t min, uint32_t max)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    char shown[YAML_READER_SHOWN_LEN];

    if (at->kind != YAML_READER_MAPPING)
        return fail_expected(reader, node, what, "a mapping");
    if (at->len < min || at->len > max)
        return yaml_reader_fail(reader, node,
                                "%s: found %" PRIu32 " keys; expected %" PRIu32 " to %" PRIu32,
                                what, at->len, min, max);
    uint32_t key = at->first;
    while (key != YAML_READER_NONE) {
        if (is_repeated(reader, node, key)) {
            const struct yaml_reader_node *twice = yaml_reader_at(reader, key);
            return yaml_reader_fail(reader, key, "%s: found key %s twice; expected it once", what,
                                    quote(twice->text, twice->len, shown));
        }
        key = yaml_reader_at(reader, yaml_reader_at(reader, key)->next)->next;
    }
    return TG_OK;
}
