/* log_json.c - one JSON object a line: the values at the paths that are wanted; see log_line.h.
 *
 * A single pass without a tree: the path to where the reader stands is kept as text, and each
 * scalar's path is looked up among the wanted ones. What is inside a list has no path.
 *
 *   {"request": {"uri": "/a", "hosts": ["x"]}, "status": 200}
 *     path        request.uri = "/a"              status = 200
 *
 * LOGJSON-1  No recursion: open objects and lists are a stack of DEPTH_MAX.
 * LOGJSON-2  Nothing is read at or behind text + len, and the whole line is one object.
 */
#include <string.h>

#include "client/replay/log_line.h"

enum { DEPTH_MAX = 32, PATH_MAX_LEN = 256 };

struct level {
    bool list;
    bool in_list; /* it, or one around it, is a list */
    uint16_t path_len;
};

struct reader {
    const char *start;
    const char *at;
    const char *end;
    size_t depth;
    struct level levels[DEPTH_MAX];
    size_t path_len;
    bool path_cut; /* too long to be one that is wanted */
    char path[PATH_MAX_LEN];
    struct log_scratch *scratch;
};

static int refuse_at(const struct reader *reader, struct log_problem *problem, const char *expected)
{
    return log_refuse(problem, (size_t)(reader->at - reader->start) + 1, expected);
}

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r'))
        reader->at++;
}

static bool take(struct reader *reader, char wanted)
{
    skip_space(reader);
    if (reader->at == reader->end || *reader->at != wanted)
        return false;
    reader->at++;
    return true;
}

/* ---- strings --------------------------------------------------------------------------------- */

/* The bytes between the quotes at the cursor, escapes and all. */
static bool read_raw(struct reader *reader, struct policy_text *out, bool *escaped)
{
    *escaped = false;
    if (!take(reader, '"'))
        return false;
    const char *const from = reader->at;
    for (; reader->at < reader->end && *reader->at != '"'; reader->at++) {
        if (*reader->at == '\\') {
            *escaped = true;
            reader->at++;
        }
    }
    if (reader->at >= reader->end) {
        reader->at = reader->end;
        return false;
    }
    *out = (struct policy_text){from, (size_t)(reader->at - from)};
    reader->at++;
    return true;
}

/* Four hexadecimal digits, or -1. */
static long read_hex4(const char *at, const char *end)
{
    long value = 0;
    if (end - at < 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        const char c = at[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *put_utf8(char *out, unsigned long code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3f));
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    }
    return out;
}

/* The escape \uXXXX whose u is at `at`, or a pair of them; *taken counts from the u on. A lone half
 * of a pair becomes U+FFFD. */
static char *put_unicode(char *out, const char *at, const char *end, size_t *taken)
{
    const long code = read_hex4(at + 1, end);
    *taken = code < 0 ? 1 : 5;
    if (code < 0)
        return put_utf8(out, 0xfffd);
    if (code < 0xd800 || code > 0xdfff)
        return put_utf8(out, (unsigned long)code);
    const bool pair = code < 0xdc00 && end - at >= 11 && at[5] == '\\' && at[6] == 'u';
    const long low = pair ? read_hex4(at + 7, end) : -1;
    if (low < 0xdc00 || low > 0xdfff)
        return put_utf8(out, 0xfffd);
    *taken = 11;
    return put_utf8(out, 0x10000UL + ((unsigned long)(code - 0xd800) << 10) +
                             (unsigned long)(low - 0xdc00));
}

/* Resolves the escapes into the scratch. Never longer than what is written, but for a lone half of
 * a pair cut short, which takes 3 bytes for its 2. */
static struct policy_text unescape(struct log_scratch *scratch, struct policy_text raw)
{
    static const char letters[] = "bfnrt";
    static const char meanings[] = "\b\f\n\r\t";
    if (raw.len + raw.len / 2 > sizeof scratch->bytes - scratch->used)
        return raw;
    char *const start = scratch->bytes + scratch->used;
    char *out = start;
    const char *const end = raw.data + raw.len;
    for (const char *at = raw.data; at < end;) {
        if (*at != '\\' || at + 1 == end) {
            *out++ = *at++;
            continue;
        }
        at++;
        size_t taken = 1;
        const char *const letter = memchr(letters, *at, sizeof letters - 1);
        if (*at == 'u')
            out = put_unicode(out, at, end, &taken);
        else
            *out++ = letter != NULL ? meanings[letter - letters] : *at;
        at += taken;
    }
    scratch->used += (size_t)(out - start);
    return (struct policy_text){start, (size_t)(out - start)};
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* Makes the path that of `key` inside the innermost object. */
static void enter_key(struct reader *reader, struct policy_text key)
{
    const struct level *level = &reader->levels[reader->depth - 1];
    size_t len = level->path_len;
    reader->path_cut = level->in_list || len + 1 + key.len > PATH_MAX_LEN;
    if (reader->path_cut)
        return;
    if (len > 0)
        reader->path[len++] = '.';
    memcpy(reader->path + len, key.data, key.len);
    reader->path_len = len + key.len;
}

struct wanted {
    const struct log_json_path *paths;
    size_t count;
    struct log_json_value *values;
};

/* Gives a scalar to the slot that wants its path. */
static void keep(struct reader *reader, const struct wanted *wanted, struct policy_text text,
                 bool escaped)
{
    if (reader->path_cut || reader->levels[reader->depth - 1].list)
        return;
    for (size_t i = 0; i < wanted->count; i++) {
        const struct log_json_path *path = &wanted->paths[i];
        struct log_json_value *value = &wanted->values[path->slot];
        if (path->len != reader->path_len || path->rank >= value->rank ||
            memcmp(path->path, reader->path, path->len) != 0)
            continue;
        value->text = escaped ? unescape(reader->scratch, text) : text;
        value->rank = path->rank;
        if (value->text.len == 0 || (value->text.len == 1 && value->text.data[0] == '-'))
            *value =
                (struct log_json_value){.rank = UINT16_MAX}; /* LOGLINE-2: the next name may do */
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '+';
}

/* A number, true, false or null. */
static bool read_plain(struct reader *reader, struct policy_text *out)
{
    const char *const from = reader->at;
    while (reader->at < reader->end && is_word(*reader->at))
        reader->at++;
    *out = (struct policy_text){from, (size_t)(reader->at - from)};
    if (out->len == 4 && (memcmp(from, "null", 4) == 0 || memcmp(from, "true", 4) == 0)) {
        out->len = from[0] == 'n' ? 0 : 4;
        return true;
    }
    if (out->len == 5 && memcmp(from, "false", 5) == 0)
        return true;
    const bool number = out->len > 0 && (from[0] == '-' ? out->len > 1 : true) &&
                        ((from[0] >= '0' && from[0] <= '9') || from[0] == '-');
    if (!number)
        reader->at = from;
    return number;
}

static int open_level(struct reader *reader, bool list, struct log_problem *problem)
{
    if (reader->depth == DEPTH_MAX)
        return refuse_at(reader, problem, "at most 32 objects and lists inside each other");
    const bool around = reader->depth > 0 && reader->levels[reader->depth - 1].in_list;
    reader->at++;
    reader->levels[reader->depth++] =
        (struct level){list, list || around || (reader->depth > 0 && reader->path_cut),
                       (uint16_t)reader->path_len};
    return TG_OK;
}

/* One value, or the opening of one that holds others. */
static int read_value(struct reader *reader, const struct wanted *wanted,
                      struct log_problem *problem)
{
    struct policy_text text;
    bool escaped = false;
    skip_space(reader);
    if (reader->at < reader->end && (*reader->at == '{' || *reader->at == '['))
        return open_level(reader, *reader->at == '[', problem);
    if (reader->at < reader->end && *reader->at == '"') {
        if (!read_raw(reader, &text, &escaped))
            return refuse_at(reader, problem, "the end of this string");
    } else if (!read_plain(reader, &text)) {
        return refuse_at(reader, problem, "a JSON value");
    }
    keep(reader, wanted, text, escaped);
    return TG_OK;
}

/* The next member of the innermost object or list, or its end. `first`: nothing came before. */
static int read_member(struct reader *reader, bool first, const struct wanted *wanted,
                       struct log_problem *problem)
{
    struct policy_text key;
    bool escaped;
    const struct level level = reader->levels[reader->depth - 1];
    if (take(reader, level.list ? ']' : '}')) {
        reader->depth--;
        return TG_OK;
    }
    if (!first && !take(reader, ','))
        return refuse_at(reader, problem, level.list ? "a comma or ]" : "a comma or }");
    if (level.list)
        return read_value(reader, wanted, problem);
    if (!read_raw(reader, &key, &escaped))
        return refuse_at(reader, problem, "a key in quotes");
    if (!take(reader, ':'))
        return refuse_at(reader, problem, "a colon behind the key");
    enter_key(reader, key);
    return read_value(reader, wanted, problem);
}

int log_json_read(const char *text, size_t len, const struct log_json_path *paths,
                  size_t path_count, struct log_scratch *scratch, struct log_json_value *values,
                  size_t slots, struct log_problem *problem)
{
    struct reader reader;
    const struct wanted wanted = {paths, path_count, values};
    reader.start = reader.at = text;
    reader.end = text + len;
    reader.depth = reader.path_len = 0;
    reader.path_cut = false;
    reader.scratch = scratch;
    for (size_t i = 0; i < slots; i++)
        values[i] = (struct log_json_value){.rank = UINT16_MAX};
    skip_space(&reader);
    if (reader.at == reader.end || *reader.at != '{')
        return refuse_at(&reader, problem, "a JSON object, {\"field\": value, ...}");
    if (open_level(&reader, false, problem) != TG_OK)
        return TG_EINVALID;
    size_t depth_before = 0;
    while (reader.depth > 0) {
        const bool first = reader.depth > depth_before;
        depth_before = reader.depth;
        if (read_member(&reader, first, &wanted, problem) != TG_OK)
            return TG_EINVALID;
    }
    skip_space(&reader);
    return reader.at == reader.end ? TG_OK : refuse_at(&reader, problem, "the end of the line");
}
