/* pool_edit.c - writes a pool into a rules document; see pool_edit.h.
 *
 *     pools:                          the entry is there:   its value is written anew
 *       api: {rate: 900/s}            the mapping is:       the entry becomes its first
 *     rules: ...                      neither is:           `pools:` becomes the document's first
 * key
 *
 * In a document that is one flow mapping, as JSON is, it is written with quotes, so that it stays
 * JSON.
 *
 * POOLEDIT-1  Whether that was right is not argued but tried: the result has to compile to the same
 *             rules and pools, but for that one, which is as it was asked for. If it does not, the
 *             document is written otherwise, and is left alone.
 */
#include "node/policy/compile/pool_edit.h"
#include "node/policy/compile/policy_compile.h"

#include <stdio.h>
#include <string.h>

#include "node/policy/compile/policy_diff.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/readers/document.h"
#include "node/policy/readers/yaml_reader.h"

enum {
    PPM = 1000000,
    NAME_LEN = 2 * POLICY_NAME_LEN_MAX + 3, /* escaped, in quotes */
    HOME_LEN = 2 * POLICY_REGION_LEN_MAX + 8,
    VALUE_LEN = QUANTITY_TEXT_LEN + HOME_LEN + 128,
    PIECE_LEN = NAME_LEN + VALUE_LEN + 32
};

/* One replacement in the document. */
struct change {
    size_t start;
    size_t end;
    size_t indent;         /* spaces before the piece */
    char piece[PIECE_LEN]; /* what comes there */
};

struct editor {
    struct document document;
    struct yaml_reader *reader;
    char name[NAME_LEN];
    char value[VALUE_LEN];
    bool quoted; /* as JSON */
};

/* ---- what is written ------------------------------------------------------------------------- */

static bool is_plain(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char more[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.-";
    return strchr(letters, name[0]) != NULL && strspn(name, more) == strlen(name);
}

/* The name of a pool or a region, as it may stand in the document. */
static void write_name(const struct editor *editor, const char *name, char *out, size_t capacity)
{
    size_t at = 0;
    if (!editor->quoted && is_plain(name)) {
        (void)snprintf(out, capacity, "%s", name);
        return;
    }
    out[at++] = '"';
    for (; *name != '\0' && at + 4 < capacity; name++) {
        if (*name == '"' || *name == '\\')
            out[at++] = '\\';
        out[at++] = *name;
    }
    out[at++] = '"';
    out[at] = '\0';
}

/* Millionths as the shortest decimal number. */
static void format_load(uint32_t ppm, char out[16])
{
    int len = snprintf(out, 16, "0.%06u", ppm);
    while (len > 3 && out[len - 1] == '0')
        out[--len] = '\0';
}

/* Appends `, NAME: VALUE`. */
static void add_field(struct editor *editor, const char *name, const char *mark, const char *value)
{
    const char *quote = editor->quoted ? "\"" : "";
    const size_t len = strlen(editor->value);
    (void)snprintf(editor->value + len, sizeof editor->value - len, ", %s%s%s: %s%s%s", quote, name,
                   quote, mark, value, mark);
}

static void write_value(struct editor *editor, const struct policy_pool *pool)
{
    char rate[QUANTITY_TEXT_LEN];
    char home[HOME_LEN];
    char load_max[16] = "";
    char reserve[16];
    const char *quote = editor->quoted ? "\"" : "";
    quantity_format_rate(&pool->rate, rate);
    format_load(pool->load_max_ppm, load_max);
    (void)snprintf(reserve, sizeof reserve, "%u%%", (unsigned)pool->reserve_percent);
    write_name(editor, pool->home.data, home, sizeof home);
    (void)snprintf(editor->value, sizeof editor->value, "{%srate%s: %s%s%s", quote, quote, quote,
                   rate, quote);
    if (pool->load_max_ppm < PPM)
        add_field(editor, "load_max", "", load_max);
    if (pool->reserve_percent > 0)
        add_field(editor, "reserve", quote, reserve);
    if (pool->scope == POLICY_SCOPE_GLOBAL)
        add_field(editor, "scope", quote, policy_scope_name(pool->scope));
    if (pool->home.len > 0)
        add_field(editor, "home", "", home);
    const size_t len = strlen(editor->value);
    (void)snprintf(editor->value + len, sizeof editor->value - len, "}");
}

/* ---- where it is written --------------------------------------------------------------------- */

static size_t place_of(const struct editor *editor, uint32_t node, struct document_line *line)
{
    const struct yaml_reader_node *at = yaml_reader_at(editor->reader, node);
    *line = document_line(&editor->document, at->line);
    return document_place(&editor->document, line, at->column);
}

static char char_at(const struct editor *editor, size_t place)
{
    return place < editor->document.len ? editor->document.text[place] : '\0';
}

/* The entry `key` of the pools is there. */
static int replace_entry(const struct editor *editor, uint32_t key, struct change *change)
{
    struct document_line line;
    const size_t value = place_of(editor, yaml_reader_at(editor->reader, key)->next, &line);
    if (char_at(editor, value) == '{') {
        change->start = value;
        change->end = document_brackets_end(&editor->document, value);
        (void)snprintf(change->piece, sizeof change->piece, "%s", editor->value);
        return change->end > value ? 0 : TG_EUNSUPPORTED;
    }
    change->start = place_of(editor, key, &line);
    change->end = document_block_end(&editor->document, &line);
    if (change->start != line.start + line.indent)
        return TG_EUNSUPPORTED;
    (void)snprintf(change->piece, sizeof change->piece, "%s: %s\n", editor->name, editor->value);
    return 0;
}

/* The pools are there, without it. */
static int add_entry(const struct editor *editor, uint32_t pools, struct change *change)
{
    const struct yaml_reader_node *mapping = yaml_reader_at(editor->reader, pools);
    struct document_line line;
    const size_t place = place_of(editor, pools, &line);
    change->start = change->end = place + 1;
    if (char_at(editor, place) == '{') {
        (void)snprintf(change->piece, sizeof change->piece, "%s: %s%s", editor->name, editor->value,
                       mapping->len > 0 ? ", " : "");
        return 0;
    }
    if (mapping->len == 0 || place != line.start + line.indent)
        return TG_EUNSUPPORTED;
    change->start = change->end = line.start;
    change->indent = line.indent;
    (void)snprintf(change->piece, sizeof change->piece, "%s: %s\n", editor->name, editor->value);
    return 0;
}

/* There are no pools yet. */
static int add_pools(const struct editor *editor, struct change *change)
{
    const struct yaml_reader_node *root = yaml_reader_at(editor->reader, editor->reader->root);
    struct document_line line;
    const size_t place = place_of(editor, editor->reader->root, &line);
    change->start = change->end = place + 1;
    if (char_at(editor, place) == '{') {
        (void)snprintf(change->piece, sizeof change->piece, "\"pools\": {%s: %s}%s", editor->name,
                       editor->value, root->len > 0 ? ", " : "");
        return 0;
    }
    if (place != line.start)
        return TG_EUNSUPPORTED;
    change->start = change->end = line.start;
    (void)snprintf(change->piece, sizeof change->piece, "pools:\n  %s: %s\n", editor->name,
                   editor->value);
    return 0;
}

/* The key of that text in a mapping, or YAML_READER_NONE. */
static uint32_t find_key(const struct editor *editor, uint32_t mapping, const char *text)
{
    uint32_t key = yaml_reader_at(editor->reader, mapping)->first;
    while (key != YAML_READER_NONE && strcmp(yaml_reader_at(editor->reader, key)->text, text) != 0)
        key = yaml_reader_at(editor->reader, yaml_reader_at(editor->reader, key)->next)->next;
    return key;
}

static int find_change(struct editor *editor, const struct policy_pool *pool, struct change *change)
{
    struct document_line line;
    const uint32_t root = editor->reader->root;
    const uint32_t pools = document_value(editor->reader, root, "pools");
    editor->quoted = char_at(editor, place_of(editor, root, &line)) == '{';
    write_name(editor, pool->name.data, editor->name, sizeof editor->name);
    write_value(editor, pool);
    if (pools == YAML_READER_NONE)
        return add_pools(editor, change);
    const uint32_t key = find_key(editor, pools, pool->name.data);
    return key != YAML_READER_NONE ? replace_entry(editor, key, change)
                                   : add_entry(editor, pools, change);
}

/* ---- doing it -------------------------------------------------------------------------------- */

static int write_out(const struct document *from, const struct change *change, char *out,
                     size_t capacity, size_t *out_len)
{
    const size_t piece_len = strlen(change->piece);
    const size_t rest = from->len - change->end;
    if (change->start + change->indent + piece_len + rest > capacity)
        return TG_ETOOBIG;
    memcpy(out, from->text, change->start);
    size_t len = change->start;
    memset(out + len, ' ', change->indent);
    len += change->indent;
    memcpy(out + len, change->piece, piece_len);
    len += piece_len;
    memcpy(out + len, from->text + change->end, rest);
    *out_len = len + rest;
    return 0;
}

static int apply(const char *text, size_t len, const struct policy_pool *pool,
                 const struct allocator *allocator, char *out, size_t capacity, size_t *out_len)
{
    struct yaml_reader_error ignored;
    struct yaml_reader reader;
    struct change change = {.start = 0};
    struct editor editor = {.document = {text, len}, .reader = &reader};
    int result = yaml_reader_init_stream(&reader, text, len, allocator, &ignored);
    if (result != 0)
        return result;
    result = find_change(&editor, pool, &change);
    yaml_reader_fini(&reader);
    return result == 0 ? write_out(&editor.document, &change, out, capacity, out_len) : result;
}

static bool same_pool(const struct policy_pool *a, const struct policy_pool *b)
{
    return a != NULL && a->rate.count == b->rate.count && a->rate.window_ns == b->rate.window_ns &&
           a->load_max_ppm == b->load_max_ppm && a->reserve_percent == b->reserve_percent &&
           a->scope == b->scope && a->home.len == b->home.len &&
           memcmp(a->home.data, b->home.data, a->home.len) == 0;
}

/* Whether both have the same but for this pool, and `after` has that (POOLEDIT-1). */
static bool is_right(const struct policy *before, const struct policy *after,
                     const struct policy_pool *pool, const struct allocator *allocator)
{
    struct policy_diff diff = {.rules = {NULL, NULL, NULL}};
    const bool known = policy_pool_find(before, pool->name.data, pool->name.len) != NULL;
    bool right =
        policy_pool_count(after) == policy_pool_count(before) + (known ? 0 : 1) &&
        same_pool(policy_pool_find(after, pool->name.data, pool->name.len), pool) &&
        policy_unmatched_deny(after) == policy_unmatched_deny(before) &&
        attribute_kinds_equal(policy_kinds(after), policy_kinds(before)) &&
        policy_compare(before, after, allocator, 0, &diff) == 0 &&
        diff.counts[POLICY_ADDED] + diff.counts[POLICY_REMOVED] + diff.counts[POLICY_CHANGED] == 0;
    for (size_t i = 0; right && i < policy_pool_count(before); i++) {
        const struct policy_pool *other = policy_pool_at(before, i);
        right = (other->name.len == pool->name.len &&
                 memcmp(other->name.data, pool->name.data, pool->name.len) == 0) ||
                same_pool(policy_pool_find(after, other->name.data, other->name.len), other);
    }
    return right;
}

/* The pool as it is to be. TG_ENOTFOUND: it is new, and has no rate. */
static int make_pool(const struct policy *policy, const struct pool_edit *edit,
                     struct policy_pool *out)
{
    const size_t len = strlen(edit->name);
    const struct policy_pool *now = policy_pool_find(policy, edit->name, len);
    *out = now != NULL ? *now : (struct policy_pool){.load_max_ppm = PPM, .home = {"", 0}};
    out->name = (struct policy_text){edit->name, len};
    if (edit->rate.count != 0)
        out->rate = edit->rate;
    if (edit->load_max_ppm != POOL_EDIT_KEPT)
        out->load_max_ppm = edit->load_max_ppm;
    if (edit->reserve_percent != POOL_EDIT_KEPT)
        out->reserve_percent = (uint16_t)edit->reserve_percent;
    if (edit->scope != POOL_EDIT_KEPT)
        out->scope = (uint8_t)edit->scope;
    if (edit->home != NULL)
        out->home = (struct policy_text){edit->home, strlen(edit->home)};
    else if (out->scope != POLICY_SCOPE_GLOBAL)
        out->home = (struct policy_text){"", 0};
    if (out->scope != POLICY_SCOPE_GLOBAL && out->home.len > 0)
        return TG_ECONFLICT;
    return out->rate.count != 0 ? 0 : TG_ENOTFOUND;
}

int policy_set_pool(const char *text, size_t len, const struct pool_edit *edit,
                    const struct policy_zones *zones, const struct allocator *allocator, char *out,
                    size_t capacity, size_t *out_len)
{
    struct policy_error error;
    struct policy_pool pool;
    struct policy *before;
    struct policy *after = NULL;
    *out_len = 0;
    int result = policy_compile_zoned(text, len, allocator, zones, &before, &error);
    if (result != 0)
        return result;
    result = make_pool(before, edit, &pool);
    if (result == 0)
        result = apply(text, len, &pool, allocator, out, capacity, out_len);
    if (result == 0 &&
        (policy_compile_zoned(out, *out_len, allocator, zones, &after, &error) != 0 ||
         !is_right(before, after, &pool, allocator)))
        result = TG_EUNSUPPORTED;
    policy_free(&before);
    policy_free(&after);
    return result;
}
