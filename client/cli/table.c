/* table.c - msgpack values as tables; see table.h for the shapes.
 *
 * A row is found again by its place in the tokens: rows[i] is its first token. Looking up a field
 * walks the row, which is short, so no index is built.
 */
#include "client/cli/table.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/document.h"
#include "client/cli/grid.h"

enum {
    FIELD_LEN = 65,      /* a field's name with its NUL; longer ones are cut */
    SIDEWAYS_FIELDS = 14 /* from so many fields on a row becomes a column */
};

const char *const cli_member_columns[] = {
    "name",   "state", "unreachable_since", "ring",    "vnodes", "region", "zone", "client", "peer",
    "gossip", "id",    "incarnation",       "version", NULL};
const char *const cli_owner_columns[] = {"rule",  "window", "vnode",    "owner", "decider",
                                         "epoch", "term",   "replicas", "home",  NULL};
const char *const cli_rule_columns[] = {"priority", "name",   "action", "enabled",
                                        "key",      "limits", "match",  NULL};
const char *const cli_version_columns[] = {"version", "time_ms",  "author", "note",
                                           "bytes",   "in_force", NULL};
const char *const cli_quota_columns[] = {
    "user",           "tier",           "limits",    "burst",  "blocked", "reason", "until",
    "requests_today", "requests_month", "last_seen", "author", "notes",   NULL};
const char *const cli_block_columns[] = {"kind",   "what",   "until", "left_ms",
                                         "reason", "author", NULL};
const char *const cli_api_key_columns[] = {"id",        "name",  "owner",   "tier",       "limits",
                                           "burst",     "state", "created", "created_by", "expires",
                                           "last_used", "total", "revoked", "revoked_by", NULL};

/* ---- finding things -------------------------------------------------------------------------- */

static size_t next_value(const struct mp_token *tokens, size_t at, size_t count)
{
    return at + cli_value_len(tokens + at, count - at);
}

/* The value of a field in the map at `at`, or `count` when it has none. */
static size_t find_field(const struct mp_token *tokens, size_t at, size_t count, const char *name)
{
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

/* ---- cells ----------------------------------------------------------------------------------- */

/* Scalars joined by commas, pairs as "name value"; what lies deeper as JSON. */
static void add_list(struct cli_text *cell, const struct mp_token *tokens, size_t at, size_t count)
{
    const bool map = tokens[at].type == MP_MAP;
    const uint32_t elements = tokens[at].count;
    if (elements == 0)
        cli_text_str(cell, "-");
    at++;
    for (uint32_t i = 0; i < elements && at < count; i++) {
        if (i > 0)
            cli_text_str(cell, map ? ", " : ",");
        if (map) {
            cli_plain(cell, &tokens[at]);
            cli_text_str(cell, " ");
            at = next_value(tokens, at, count);
        }
        if (at < count && is_container(&tokens[at]))
            cli_json(cell, tokens + at, count - at);
        else if (at < count)
            cli_plain(cell, &tokens[at]);
        at = at < count ? next_value(tokens, at, count) : count;
    }
}

/* The value at `at` as a cell; "-" for at == count. */
static void add_cell(struct cli_grid *grid, const struct mp_token *tokens, size_t at, size_t count)
{
    struct cli_text cell;
    cli_text_init(&cell);
    if (at >= count)
        cli_text_str(&cell, "-");
    else if (is_container(&tokens[at]))
        add_list(&cell, tokens, at, count);
    else
        cli_plain(&cell, &tokens[at]);
    if (cell.failed)
        grid->cells.failed = true;
    cli_grid_add(grid, cell.data != NULL ? cell.data : "");
    cli_text_fini(&cell);
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
    for (size_t i = 0; i <= kept; i++) {
        header[i] = field[i] >= 'a' && field[i] <= 'z' ? (char)(field[i] - 'a' + 'A') : field[i];
        if (header[i] == '_' || (header[i] != '\0' && (header[i] < ' ' || header[i] > '~')))
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
        if (tokens[at].type == MP_STR)
            add_column(columns, (const char *)tokens[at].data, tokens[at].count);
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
        for (size_t k = 0; k < columns->count; k++) {
            const size_t at = find_field(tokens, row, end, columns->fields[k]);
            add_cell(&grid, tokens, at < end ? at : count, count);
        }
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
    cli_grid_init(&grid, NULL, rows + 1, colour);
    for (size_t k = 0; k < columns->count; k++) {
        cli_grid_add(&grid, columns->fields[k]);
        size_t row = 1;
        for (size_t i = 0; i < rows; i++) {
            const size_t end = next_value(tokens, row, count);
            const size_t at = find_field(tokens, row, end, columns->fields[k]);
            add_cell(&grid, tokens, at < end ? at : count, count);
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
        add_cell(&grid, tokens, name, count);
        for (size_t k = 1; k < columns.count; k++) {
            const size_t cell = find_field(tokens, row, end, columns.fields[k]);
            add_cell(&grid, tokens, cell < end ? cell : count, count);
        }
        name = end;
    }
    cli_grid_write(&grid, text);
    cli_grid_fini(&grid);
}

/* ---- a map ----------------------------------------------------------------------------------- */

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
        if (value < count && !is_rows(tokens, value, count) &&
            !is_named_rows(tokens, value, count)) {
            cli_text_clear(&name);
            cli_plain(&name, &tokens[at]);
            cli_grid_add(&grid, name.data != NULL ? name.data : "");
            add_cell(&grid, tokens, value, count);
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
