/* table.c - msgpack values as tables; see table.h for the shapes.
 *
 * A row is found again by its place in the tokens: rows[i] is its first token. Looking up a field
 * walks the row, which is short, so no index is built.
 */
#include "client/cli/output/table.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp_walk.h"
#include "client/cli/output/document.h"
#include "client/cli/output/grid.h"
#include "client/replay/log_time.h"

enum {
    FIELD_LEN = 65,      /* a field's name with its NUL; longer ones are cut */
    SIDEWAYS_FIELDS = 14 /* from so many fields on a row becomes a column */
};

const char *const cli_member_columns[] = {"name",        "state",   "unreachable_since",
                                          "ring",        "health",  "vnodes",
                                          "region",      "zone",    "client",
                                          "peer",        "gossip",  "id",
                                          "incarnation", "version", NULL};
const char *const cli_owner_columns[] = {"rule", "window",   "vnode", "owner", "decider", "epoch",
                                         "term", "replicas", "dead",  "home",  NULL};
const char *const cli_rule_columns[] = {"priority", "name",   "action", "enabled",
                                        "key",      "limits", "match",  NULL};
const char *const cli_version_columns[] = {"version", "time",     "author", "note",
                                           "bytes",   "in_force", NULL};
const char *const cli_quota_columns[] = {
    "user",           "tier",           "limits",    "burst",  "blocked", "reason", "until",
    "requests_today", "requests_month", "last_seen", "author", "notes",   NULL};
const char *const cli_block_columns[] = {"kind",   "what",   "until", "left_ms",
                                         "reason", "author", NULL};
const char *const cli_api_key_columns[] = {"id",        "name",  "owner",   "tier",       "limits",
                                           "burst",     "state", "created", "created_by", "expires",
                                           "last_used", "total", "revoked", "revoked_by", NULL};

const char *const cli_credential_columns[] = {"id",       "name",    "roles",      "networks",
                                              "state",    "created", "created_by", "expires",
                                              "replaced", "revoked", "revoked_by", NULL};

/* ---- finding things -------------------------------------------------------------------------- */

static size_t next_value(const struct mp_token *tokens, size_t at, size_t count)
{
    ASSERT(at <= count);
    return at + mp_value_len(tokens + at, count - at);
}

/* The value of a field in the map at `at`, or `count` when it has none. */
static size_t find_field(const struct mp_token *tokens, size_t at, size_t count, const char *name)
{
    ASSERT(at < count);
    const size_t name_len = strlen(name);
    size_t pairs = tokens[at].type == MP_MAP ? tokens[at].count : 0;
    for (at++; pairs > 0 && at < count; pairs--) {
        const size_t value = next_value(tokens, at, count);
        if (value < count && tokens[at].type == MP_STR && tokens[at].count == name_len &&
            memcmp(tokens[at].data, name, name_len) == 0)
            return value;
        at = value < count ? next_value(tokens, value, count) : count;
    }
    return count;
}

static bool is_container(const struct mp_token *token)
{
    return token->type == MP_ARRAY || token->type == MP_MAP;
}

/* An array of at least one element, all of them maps. */
static bool is_rows(const struct mp_token *tokens, size_t at, size_t count)
{
    ASSERT(at < count);
    if (tokens[at].type != MP_ARRAY || tokens[at].count == 0)
        return false;
    size_t row = at + 1;
    for (uint32_t i = 0; i < tokens[at].count && row < count; i++) {
        if (tokens[row].type != MP_MAP)
            return false;
        row = next_value(tokens, row, count);
    }
    return true;
}

/* A map of maps: rows too, each called by its name. */
static bool is_named_rows(const struct mp_token *tokens, size_t at, size_t count)
{
    ASSERT(at < count);
    if (tokens[at].type != MP_MAP || tokens[at].count == 0)
        return false;
    size_t row = at + 1;
    for (uint32_t i = 0; i < tokens[at].count && row < count; i++) {
        row = next_value(tokens, row, count);
        if (row >= count || tokens[row].type != MP_MAP)
            return false;
        row = next_value(tokens, row, count);
    }
    return true;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* What a number is a number of, as its field's name tells. */
enum unit { UNIT_NONE, UNIT_MOMENT, UNIT_MS, UNIT_US };

enum { SUFFIX_LEN = 3 }; /* "_ms" */

/* The fields whose ms are since 1970; those of others say how long something lasts. */
static const char *const moments[] = {"time_ms",    "until_ms",     "created_ms",   "expires_ms",
                                      "revoked_ms", "last_seen_ms", "last_used_ms", "replaced_ms"};

static bool name_is(const char *name, size_t len, const char *other)
{
    return len == strlen(other) && memcmp(name, other, len) == 0;
}

static enum unit unit_of(const char *name, size_t len)
{
    if (len <= SUFFIX_LEN)
        return UNIT_NONE;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        if (name_is(name, len, moments[i]))
            return UNIT_MOMENT;
    const char *suffix = name + len - SUFFIX_LEN;
    return memcmp(suffix, "_ms", SUFFIX_LEN) == 0   ? UNIT_MS
           : memcmp(suffix, "_us", SUFFIX_LEN) == 0 ? UNIT_US
                                                    : UNIT_NONE;
}

/* How much of a name is shown: its unit stands behind the value. */
static size_t shown_len(const char *name, size_t len)
{
    return unit_of(name, len) == UNIT_NONE ? len : len - SUFFIX_LEN;
}

/* Whether the map at `at` says the same of a moment as a text, under the name without its unit. */
static bool is_told_twice(const struct mp_token *tokens, size_t at, size_t count, const char *name,
                          size_t len)
{
    char text[FIELD_LEN];
    if (unit_of(name, len) != UNIT_MOMENT)
        return false;
    (void)snprintf(text, sizeof text, "%.*s", (int)(len - SUFFIX_LEN), name);
    return find_field(tokens, at, count, text) < count;
}

/* Whether what is left of something in this map is of one without an end. */
static bool is_endless(const struct mp_token *tokens, size_t at, size_t count, const char *name,
                       size_t len)
{
    if (!name_is(name, len, "left_ms"))
        return false;
    const size_t until = find_field(tokens, at, count, "until_ms");
    return until < count && tokens[until].type == MP_UINT && tokens[until].uint == 0;
}

/* Adds a number of milliseconds or microseconds as a time of day or a span. */
static void add_time(struct cli_text *cell, enum unit unit, const struct mp_token *value)
{
    char text[CLI_SPAN_LEN];
    const bool whole = value->type == MP_UINT && value->uint <= INT64_MAX;
    if (unit == UNIT_MOMENT && value->type == MP_UINT && value->uint != 0)
        log_date_format(value->uint, text);
    else if (unit == UNIT_MOMENT)
        (void)snprintf(text, sizeof text, "-");
    else if (unit == UNIT_US && whole)
        cli_span_us(value->uint, text);
    else
        cli_span(whole ? (long long)value->uint : -1, text);
    cli_text_str(cell, text);
}

/* Adds the scalar of a field. */
static void add_scalar(struct cli_text *cell, const char *name, size_t len,
                       const struct mp_token *value)
{
    const enum unit unit = unit_of(name, len);
    if (unit != UNIT_NONE && (value->type == MP_UINT || value->type == MP_INT))
        add_time(cell, unit, value);
    else
        cli_plain(cell, value);
    if (unit != UNIT_NONE && value->type == MP_FLOAT)
        cli_text_str(cell, unit == UNIT_US ? "us" : "ms");
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Adds the name of a field, without the unit that its value is shown with. */
static void add_name(struct cli_text *text, const struct mp_token *name)
{
    if (name->type == MP_STR && name->count > 0)
        cli_text_shown(text, (const char *)name->data,
                       shown_len((const char *)name->data, name->count));
    else
        cli_plain(text, name);
}

/* Scalars joined by commas, pairs as "name value"; what lies deeper as JSON. */
static void add_list(struct cli_text *cell, const struct mp_token *tokens, size_t at, size_t count)
{
    ASSERT(at < count && is_container(&tokens[at]));
    const bool map = tokens[at].type == MP_MAP;
    const uint32_t elements = tokens[at].count;
    if (elements == 0)
        cli_text_str(cell, "-");
    at++;
    for (uint32_t i = 0; i < elements && at < count; i++) {
        const char *name = "";
        size_t name_len = 0;
        if (i > 0)
            cli_text_str(cell, map ? ", " : ",");
        if (map) {
            add_name(cell, &tokens[at]);
            cli_text_str(cell, " ");
            if (tokens[at].type == MP_STR) {
                name = (const char *)tokens[at].data;
                name_len = tokens[at].count;
            }
            at = next_value(tokens, at, count);
        }
        if (at < count && is_container(&tokens[at]))
            cli_json(cell, tokens + at, count - at);
        else if (at < count)
            add_scalar(cell, name, name_len, &tokens[at]);
        at = at < count ? next_value(tokens, at, count) : count;
    }
}

/* The value at `at` as a cell; "-" for at == count. */
static void add_cell(struct cli_grid *grid, const struct mp_token *tokens, const char *name,
                     size_t name_len, size_t at, size_t count)
{
    struct cli_text cell;
    cli_text_init(&cell);
    if (at >= count)
        cli_text_str(&cell, "-");
    else if (is_container(&tokens[at]))
        add_list(&cell, tokens, at, count);
    else
        add_scalar(&cell, name, name_len, &tokens[at]);
    if (cell.failed)
        grid->cells.failed = true;
    cli_grid_add(grid, cell.data != NULL ? cell.data : "");
    cli_text_fini(&cell);
}

/* The field of the map at `row`, which ends at `end`, as a cell. */
static void add_field(struct cli_grid *grid, const struct mp_token *tokens, size_t row, size_t end,
                      const char *name)
{
    const size_t len = strlen(name);
    const size_t at = find_field(tokens, row, end, name);
    const bool shown = at < end && !is_endless(tokens, row, end, name, len);
    add_cell(grid, tokens, name, len, shown ? at : end, end);
}

/* ---- an array of maps ------------------------------------------------------------------------ */

struct columns {
    char fields[CLI_COLUMNS_MAX][FIELD_LEN];
    char headers[CLI_COLUMNS_MAX][FIELD_LEN];
    const char *header_at[CLI_COLUMNS_MAX];
    size_t count;
};

static void add_column(struct columns *columns, const char *name, size_t len)
{
    if (columns->count == CLI_COLUMNS_MAX)
        return;
    char *field = columns->fields[columns->count];
    char *header = columns->headers[columns->count];
    const size_t kept = len < FIELD_LEN ? len : FIELD_LEN - 1;
    memcpy(field, name, kept);
    field[kept] = '\0';
    const size_t named = shown_len(field, kept);
    ASSERT(named <= kept && kept < FIELD_LEN);
    header[named] = '\0';
    for (size_t i = 0; i < named; i++) {
        header[i] = field[i] >= 'a' && field[i] <= 'z' ? (char)(field[i] - 'a' + 'A') : field[i];
        if (header[i] == '_' || header[i] < ' ' || header[i] > '~')
            header[i] = ' ';
    }
    columns->header_at[columns->count] = header;
    columns->count++;
}

static bool any_row_has(const struct mp_token *tokens, size_t count, const char *field)
{
    size_t row = 1;
    for (uint32_t i = 0; i < tokens[0].count && row < count; i++) {
        const size_t end = next_value(tokens, row, count);
        if (find_field(tokens, row, end, field) < end)
            return true;
        row = end;
    }
    return false;
}

static void choose_columns(struct columns *columns, const struct mp_token *tokens, size_t count,
                           const char *const *wanted)
{
    columns->count = 0;
    if (wanted != NULL) {
        for (; *wanted != NULL; wanted++)
            if (tokens[0].count == 0 || any_row_has(tokens, count, *wanted))
                add_column(columns, *wanted, strlen(*wanted));
        return;
    }
    size_t at = 2;
    for (uint32_t i = 0; i < tokens[1].count && at < count; i++) {
        const char *name = (const char *)tokens[at].data;
        if (tokens[at].type == MP_STR &&
            !is_told_twice(tokens, 1, next_value(tokens, 1, count), name, tokens[at].count))
            add_column(columns, name, tokens[at].count);
        at = next_value(tokens, at, count);
        at = at < count ? next_value(tokens, at, count) : count;
    }
}

static void add_upright(struct cli_text *text, const struct mp_token *tokens, size_t count,
                        const struct columns *columns, bool colour)
{
    struct cli_grid grid;
    cli_grid_init(&grid, columns->header_at, columns->count, colour);
    size_t row = 1;
    for (uint32_t i = 0; i < tokens[0].count && row < count; i++) {
        const size_t end = next_value(tokens, row, count);
        for (size_t k = 0; k < columns->count; k++)
            add_field(&grid, tokens, row, end, columns->fields[k]);
        row = end;
    }
    cli_grid_write(&grid, text);
    cli_grid_fini(&grid);
}

/* One line a field, one column a row: for rows with very many fields. */
static void add_sideways(struct cli_text *text, const struct mp_token *tokens, size_t count,
                         const struct columns *columns, bool colour)
{
    struct cli_grid grid;
    const size_t rows =
        tokens[0].count < CLI_COLUMNS_MAX - 1 ? tokens[0].count : CLI_COLUMNS_MAX - 1;
    ASSERT(rows >= 1 && rows < CLI_COLUMNS_MAX); /* is_rows saw to it */
    cli_grid_init(&grid, NULL, rows + 1, colour);
    for (size_t k = 0; k < columns->count; k++) {
        const char *field = columns->fields[k];
        char name[FIELD_LEN];
        (void)snprintf(name, sizeof name, "%.*s", (int)shown_len(field, strlen(field)), field);
        cli_grid_add(&grid, name);
        size_t row = 1;
        for (size_t i = 0; i < rows; i++) {
            const size_t end = next_value(tokens, row, count);
            add_field(&grid, tokens, row, end, field);
            row = end;
        }
    }
    cli_grid_write(&grid, text);
    cli_grid_fini(&grid);
}

void cli_table_rows(struct cli_text *text, const struct mp_token *tokens, size_t count,
                    const char *const *wanted, bool colour)
{
    struct columns columns;
    const bool empty = count > 0 && tokens[0].type == MP_ARRAY && tokens[0].count == 0;
    if (count == 0 || !(is_rows(tokens, 0, count) || (empty && wanted != NULL))) {
        cli_yaml(text, tokens, count, false);
        return;
    }
    choose_columns(&columns, tokens, count, wanted);
    if (columns.count == 0)
        cli_yaml(text, tokens, count, false);
    else if (wanted == NULL && columns.count >= SIDEWAYS_FIELDS)
        add_sideways(text, tokens, count, &columns, colour);
    else
        add_upright(text, tokens, count, &columns, colour);
}

/* The fields of the first row, under its name. */
static void add_named_rows(struct cli_text *text, const struct mp_token *tokens, size_t count,
                           bool colour)
{
    struct columns columns = {.count = 0};
    add_column(&columns, " ", 1);
    size_t at = next_value(tokens, 1, count);
    ASSERT(at < count && tokens[at].type == MP_MAP); /* is_named_rows saw to it */
    const uint32_t fields = tokens[at++].count;
    for (uint32_t i = 0; i < fields && at < count; i++) {
        if (tokens[at].type == MP_STR)
            add_column(&columns, (const char *)tokens[at].data, tokens[at].count);
        at = next_value(tokens, next_value(tokens, at, count), count);
    }
    struct cli_grid grid;
    cli_grid_init(&grid, columns.header_at, columns.count, colour);
    size_t name = 1;
    for (uint32_t i = 0; i < tokens[0].count && name < count; i++) {
        const size_t row = next_value(tokens, name, count);
        const size_t end = next_value(tokens, row, count);
        add_cell(&grid, tokens, "", 0, name, count);
        for (size_t k = 1; k < columns.count; k++)
            add_field(&grid, tokens, row, end, columns.fields[k]);
        name = end;
    }
    cli_grid_write(&grid, text);
    cli_grid_fini(&grid);
}

/* ---- a map ----------------------------------------------------------------------------------- */

/* What people never need: what an edit is based on, which they are shown as a version, and that of
 * a list no more was left out. */
static bool is_for_programs(const char *field, size_t len, const struct mp_token *value)
{
    static const char base[] = "base";
    static const char more[] = "_more";
    const size_t tail = sizeof more - 1;
    const bool counts = len > tail && memcmp(field + len - tail, more, tail) == 0;
    return (len == sizeof base - 1 && memcmp(field, base, len) == 0) ||
           (counts && value->type == MP_UINT && value->uint == 0);
}

static void add_pairs(struct cli_text *text, const struct mp_token *tokens, size_t count,
                      bool colour)
{
    struct cli_grid grid;
    struct cli_text name;
    cli_grid_init(&grid, NULL, 2, colour);
    cli_text_init(&name);
    size_t at = 1;
    for (uint32_t i = 0; i < tokens[0].count && at < count; i++) {
        const size_t value = next_value(tokens, at, count);
        const bool named = tokens[at].type == MP_STR;
        const char *field = named ? (const char *)tokens[at].data : "";
        const size_t len = named ? tokens[at].count : 0;
        if (value < count && !is_for_programs(field, len, &tokens[value]) &&
            !is_rows(tokens, value, count) && !is_named_rows(tokens, value, count) &&
            !is_told_twice(tokens, 0, count, field, len)) {
            cli_text_clear(&name);
            add_name(&name, &tokens[at]);
            cli_grid_add(&grid, name.data != NULL ? name.data : "");
            add_cell(&grid, tokens, field, len, value, count);
        }
        at = value < count ? next_value(tokens, value, count) : count;
    }
    grid.words[1] = true; /* mixed values read better from the left */
    cli_grid_write(&grid, text);
    cli_grid_fini(&grid);
    cli_text_fini(&name);
}

void cli_table_map(struct cli_text *text, const struct mp_token *tokens, size_t count, bool colour)
{
    if (count == 0 || tokens[0].type != MP_MAP) {
        cli_yaml(text, tokens, count, false);
        return;
    }
    add_pairs(text, tokens, count, colour);
    size_t at = 1;
    for (uint32_t i = 0; i < tokens[0].count && at < count; i++) {
        const size_t value = next_value(tokens, at, count);
        const size_t end = value < count ? next_value(tokens, value, count) : count;
        if (value < count && is_rows(tokens, value, count)) {
            cli_text_str(text, "\n");
            cli_plain(text, &tokens[at]);
            cli_text_str(text, "\n");
            cli_table_rows(text, tokens + value, end - value, NULL, colour);
        } else if (value < count && is_named_rows(tokens, value, count)) {
            cli_text_str(text, "\n");
            cli_plain(text, &tokens[at]);
            cli_text_str(text, "\n");
            add_named_rows(text, tokens + value, end - value, colour);
        }
        at = end;
    }
}
