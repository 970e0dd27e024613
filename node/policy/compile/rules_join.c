/* rules_join.c - see rules_join.h. */
#include "node/policy/compile/rules_join.h"

#include <string.h>

static const char mark[] = "--- # ";

static bool ends_with(const char *name, size_t len, const char *end)
{
    const size_t end_len = strlen(end);
    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

bool rules_join_takes(const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || (unsigned char)name[i] >= 0x7f)
            return false;
    return len <= RULES_JOIN_NAME_MAX && name[0] != '.' &&
           (ends_with(name, len, ".yaml") || ends_with(name, len, ".yml"));
}

static size_t put(char *out, size_t capacity, size_t len, const char *text, size_t text_len)
{
    if (text_len <= capacity && len <= capacity - text_len)
        memcpy(out + len, text, text_len);
    return len + text_len;
}

size_t rules_join_add(char *out, size_t capacity, size_t len, const char *name, const char *text,
                      size_t text_len)
{
    static const char bom[] = "\xef\xbb\xbf";
    const size_t skip =
        text_len >= sizeof bom - 1 && memcmp(text, bom, sizeof bom - 1) == 0 ? sizeof bom - 1 : 0;
    len = put(out, capacity, len, mark, sizeof mark - 1);
    len = put(out, capacity, len, name, strlen(name));
    len = put(out, capacity, len, "\n", 1);
    len = put(out, capacity, len, text + skip, text_len - skip);
    if (text_len > skip && text[text_len - 1] != '\n')
        len = put(out, capacity, len, "\n", 1);
    return len;
}

struct rules_join_place rules_join_find(const char *text, size_t len, uint32_t line)
{
    struct rules_join_place place = {NULL, 0, line};
    uint32_t number = 1;
    for (size_t at = 0; at < len && number < line; number++) {
        const char *end = memchr(text + at, '\n', len - at);
        const size_t next = end == NULL ? len : (size_t)(end - text) + 1;
        if (next - at > sizeof mark - 1 && memcmp(text + at, mark, sizeof mark - 1) == 0) {
            place.name = text + at + sizeof mark - 1;
            place.name_len = next - at - (sizeof mark - 1) - (end != NULL);
            place.line = line - number;
        }
        at = next;
    }
    return place;
}
