/* ask.c - check, peek, hit, refund, reset, leases and reservations: one request after the other,
 * each shown at once.
 *
 * A decision is first put into msgpack and then printed by document.c, as every answer is: so
 * the order and the names of the JSON fields stand in one place, put_decision.
 *
 * The first request that gets no decision ends the run: those behind it would wait as long.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp.h"
#include "client/cli/commands/commands.h"
#include "client/cli/output/document.h"
#include "client/cli/output/grid.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/cli.h"
#include "client/protocol/wire.h"

enum {
    DECISION_FIELDS = 15, /* and shadow_rule, lease_id and lease_ms, where there are */
    LEASE_LEN = 17,       /* as text */
    EXPLAIN_FIELDS = 8,
    POOL_FIELDS = 4, /* more of an elastic limit */
    HOME_FIELDS = 2, /* and if its pool is of all regions */
    ROW_FIELDS = EXPLAIN_FIELDS + POOL_FIELDS + HOME_FIELDS,
    BLOCKED_TOKENS = 64, /* of what blocks, as a node tells it, */
    BLOCKED_LEN = 4096,  /* and its bytes */
    DECISION_TOKENS =
        2 * (DECISION_FIELDS + 4) + 1 + BLOCKED_TOKENS + TG_EXPLAIN_MAX * (2 * ROW_FIELDS + 1),
    /* names and numbers need less than two thirds of it */
    EXPLAIN_LEN = 384 + 2 * WIRE_RULE_MAX + WIRE_WINDOW_MAX + WIRE_NAME_MAX,
    QUESTION_LEN = TG_ATTRIBUTES_MAX * (TG_ATTRIBUTE_NAME_MAX + TG_VALUE_MAX + 16) + 64,
    DECISION_LEN = BLOCKED_LEN + 1024 + 2 * WIRE_RULE_MAX + WIRE_WINDOW_MAX + WIRE_TEXT_MAX +
                   WIRE_NAME_MAX + TG_EXPLAIN_MAX * EXPLAIN_LEN
};

/* ---- one decision ---------------------------------------------------------------------------- */

static void put_text(struct mp_writer *writer, const char *name, const char *value)
{
    mp_put_str(writer, name);
    mp_put_str(writer, value != NULL ? value : "");
}

static void put_uint(struct mp_writer *writer, const char *name, uint64_t value)
{
    mp_put_str(writer, name);
    mp_put_uint(writer, value);
}

static void put_int(struct mp_writer *writer, const char *name, int64_t value)
{
    mp_put_str(writer, name);
    mp_put_int(writer, value);
}

static void put_bool(struct mp_writer *writer, const char *name, bool value)
{
    mp_put_str(writer, name);
    mp_put_bool(writer, value);
}

/* As a text: a number of 64 bits is more than JSON's readers keep. */
static void format_lease(uint64_t lease_id, char out[LEASE_LEN])
{
    (void)snprintf(out, LEASE_LEN, "%016llx", (unsigned long long)lease_id);
}

/* Whether a limit is elastic. */
static bool is_elastic(const tg_explain_t *row)
{
    return row->pool != NULL && row->pool[0] != '\0';
}

/* Whether that, and its pool is one for all regions. */
static bool is_global(const tg_explain_t *row)
{
    return is_elastic(row) && row->pool_global != 0;
}

/* What is told of a row, or of rows of which one is so. */
static size_t fields_of(bool elastic, bool global)
{
    ASSERT(elastic || !global); /* a pool of all regions is a pool */
    return global ? ROW_FIELDS : elastic ? EXPLAIN_FIELDS + POOL_FIELDS : EXPLAIN_FIELDS;
}

/* A rate in thousandths, as a number of tokens a second. */
static void put_rate(struct mp_writer *writer, const char *name, uint64_t rate)
{
    mp_put_str(writer, name);
    mp_put_real(writer, (double)rate / 1000);
}

static void put_explain(struct mp_writer *writer, const tg_explain_t *rows, size_t count)
{
    ASSERT(count <= TG_EXPLAIN_MAX);
    mp_put_str(writer, "explain");
    mp_put_array(writer, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        const bool elastic = is_elastic(&rows[i]);
        const bool global = is_global(&rows[i]);
        mp_put_map(writer, fields_of(elastic, global));
        put_text(writer, "rule", rows[i].rule);
        put_text(writer, "window", rows[i].window);
        put_uint(writer, "limit", rows[i].limit);
        put_uint(writer, "used", rows[i].used);
        put_uint(writer, "remaining", rows[i].remaining);
        put_bool(writer, "allowed", rows[i].allowed != 0);
        put_int(writer, "reset_after_ms", rows[i].reset_after_ms);
        put_int(writer, "retry_after_ms", rows[i].retry_after_ms);
        if (!elastic)
            continue;
        put_text(writer, "pool", rows[i].pool);
        put_rate(writer, "level", rows[i].level);
        put_rate(writer, "guaranteed", rows[i].guaranteed);
        put_rate(writer, "borrowed", rows[i].borrowed);
        if (!global)
            continue;
        put_text(writer, "pool_scope", "global");
        put_text(writer, "pool_home", rows[i].pool_home);
    }
}

/* Whether a rule on trial would have denied. */
static bool has_shadow(const tg_decision_t *decision)
{
    return tg_shadow_rule(decision)[0] != '\0';
}

/* The value of "blocked" in a node's explanation; NULL: there is none. */
static const struct mp_token *blocked_of(const struct cli_answer *answer, size_t *at)
{
    struct mp_cursor cursor;
    if (answer == NULL || !cli_answer_find(answer, "blocked", &cursor) ||
        mp_peek_type(&cursor) != MP_MAP)
        return NULL;
    *at = cursor.at;
    return &answer->tokens[cursor.at];
}

/* `reserves`: what it gives is a reservation, not a lease. */
static void put_decision(struct mp_writer *writer, const tg_decision_t *decision, bool reserves,
                         const tg_explain_t *explain, const struct cli_answer *explained)
{
    size_t at = 0;
    const bool blocked = blocked_of(explained, &at) != NULL;
    mp_put_map(writer, DECISION_FIELDS + (size_t)has_shadow(decision) +
                           (size_t)(decision->lease_id != 0) + (size_t)(decision->lease_ms != 0) +
                           (size_t)(explain != NULL) + (size_t)blocked);
    put_bool(writer, "allowed", decision->allowed != 0);
    put_text(writer, "outcome", tg_outcome_name(decision->outcome));
    put_text(writer, "rule", decision->rule);
    put_text(writer, "window", decision->window);
    put_uint(writer, "limit", decision->limit);
    put_uint(writer, "used", decision->used);
    put_uint(writer, "remaining", decision->remaining);
    put_uint(writer, "granted", decision->granted);
    put_int(writer, "reset_after_ms", decision->reset_after_ms);
    put_int(writer, "retry_after_ms", decision->retry_after_ms);
    put_int(writer, "delay_ms", decision->delay_ms);
    put_int(writer, "status", decision->status);
    put_text(writer, "message", decision->message);
    put_bool(writer, "degraded", decision->degraded != 0);
    put_text(writer, "node", decision->node);
    if (has_shadow(decision))
        put_text(writer, "shadow_rule", tg_shadow_rule(decision));
    if (decision->lease_id != 0) {
        char lease[LEASE_LEN];
        format_lease(decision->lease_id, lease);
        put_text(writer, reserves ? "hold_id" : "lease_id", lease);
    }
    if (decision->lease_ms != 0)
        put_int(writer, reserves ? "hold_ms" : "lease_ms", decision->lease_ms);
    if (explain != NULL)
        put_explain(writer, explain, decision->explain_count);
    if (blocked) {
        const size_t end = cli_token_next(explained, at);
        ASSERT(at < end && end <= explained->count);
        mp_put_str(writer, "blocked");
        for (; at < end; at++)
            cli_put_token(writer, &explained->tokens[at]);
    }
}

/* The decision as msgpack tokens in `bytes`. Their number, or a negative TG_E* code. */
static int tokens_of(const tg_decision_t *decision, bool reserves, const tg_explain_t *explain,
                     const struct cli_answer *explained, uint8_t bytes[DECISION_LEN],
                     struct mp_token tokens[DECISION_TOKENS])
{
    struct mp_writer writer;
    mp_writer_init(&writer, bytes, DECISION_LEN);
    put_decision(&writer, decision, reserves, explain, explained);
    return writer.failed ? TG_ETOOBIG : mp_parse(bytes, writer.len, tokens, DECISION_TOKENS);
}

static void add_document(struct cli_text *text, const tg_decision_t *decision, bool reserves,
                         const tg_explain_t *explain, const struct cli_answer *explained, bool yaml)
{
    uint8_t bytes[DECISION_LEN];
    struct mp_token tokens[DECISION_TOKENS];
    int count = tokens_of(decision, reserves, explain, explained, bytes, tokens);
    if (count < 0 && explained != NULL) /* more than any node of this release tells */
        count = tokens_of(decision, reserves, explain, NULL, bytes, tokens);
    if (count < 0)
        text->failed = true; /* the library bounds its texts, so this would be its mistake */
    else if (yaml)
        cli_yaml(text, tokens, (size_t)count, true);
    else
        cli_json(text, tokens, (size_t)count);
}

void cli_decision_json(struct cli_text *text, const tg_decision_t *decision,
                       const tg_explain_t *explain)
{
    add_document(text, decision, false, explain, NULL, false);
}

void cli_decision_yaml(struct cli_text *text, const tg_decision_t *decision,
                       const tg_explain_t *explain)
{
    add_document(text, decision, false, explain, NULL, true);
}

/* ---- as a table ------------------------------------------------------------------------------ */

static const char *const decision_headers[] = {"ALLOWED", "OUTCOME",   "RULE",    "WINDOW", "LIMIT",
                                               "USED",    "REMAINING", "GRANTED", "RETRY",  "RESET",
                                               "NODE",    "DEGRADED",  "MESSAGE", NULL};

enum { DECISION_COLUMNS = sizeof decision_headers / sizeof *decision_headers };

/* The last column: what the command's decisions name; NULL: nothing. */
static const char *names_of(enum cli_command command)
{
    return command == CLI_LEASE ? "LEASE" : command == CLI_RESERVE ? "HOLD" : NULL;
}

static void add_text_cell(struct cli_grid *grid, const char *value)
{
    struct cli_text cell;
    cli_text_init(&cell);
    if (value == NULL || value[0] == '\0')
        cli_text_str(&cell, "-");
    else
        cli_text_shown(&cell, value, strlen(value));
    if (cell.failed)
        grid->cells.failed = true;
    cli_grid_add(grid, cell.data != NULL ? cell.data : "");
    cli_text_fini(&cell);
}

static void add_uint_cell(struct cli_grid *grid, uint64_t value)
{
    enum { UINT_LEN = 24 };
    char cell[UINT_LEN];
    (void)snprintf(cell, sizeof cell, "%llu", (unsigned long long)value);
    cli_grid_add(grid, cell);
}

static void add_span_cell(struct cli_grid *grid, int64_t span_ms)
{
    char cell[CLI_SPAN_LEN];
    cli_span(span_ms, cell);
    cli_grid_add(grid, cell);
}

/* What was allowed has no message: there the rule on trial is told that would have denied it. */
static void add_message_cell(struct cli_grid *grid, const tg_decision_t *decision)
{
    enum { SHADOW_LEN = sizeof "would be denied by " + WIRE_RULE_MAX };
    char cell[SHADOW_LEN];
    if (!has_shadow(decision)) {
        add_text_cell(grid, decision->message);
        return;
    }
    (void)snprintf(cell, sizeof cell, "would be denied by %s", tg_shadow_rule(decision));
    add_text_cell(grid, cell);
}

static void add_row(struct cli_grid *grid, bool lease, const tg_decision_t *decision)
{
    cli_grid_add(grid, decision->allowed ? "yes" : "no");
    add_text_cell(grid, tg_outcome_name(decision->outcome));
    add_text_cell(grid, decision->rule);
    add_text_cell(grid, decision->window);
    add_uint_cell(grid, decision->limit);
    add_uint_cell(grid, decision->used);
    add_uint_cell(grid, decision->remaining);
    add_uint_cell(grid, decision->granted);
    add_span_cell(grid, decision->retry_after_ms);
    add_span_cell(grid, decision->reset_after_ms);
    add_text_cell(grid, decision->node);
    cli_grid_add(grid, decision->degraded ? "yes" : "no");
    add_message_cell(grid, decision);
    if (lease) {
        char text[LEASE_LEN];
        format_lease(decision->lease_id, text);
        add_text_cell(grid, decision->lease_id != 0 ? text : "");
    }
}

static const char *const explain_headers[] = {
    "  RULE", "WINDOW", "LIMIT", "USED",       "REMAINING", "ALLOWED",    "RETRY",
    "RESET",  "POOL",   "LEVEL", "GUARANTEED", "BORROWED",  "POOL-SCOPE", "POOL-HOME"};

enum { EXPLAIN_COLUMNS = sizeof explain_headers / sizeof *explain_headers };
static_assert((int)EXPLAIN_COLUMNS == (int)ROW_FIELDS, "every field has its column");

static void add_rate_cell(struct cli_grid *grid, uint64_t rate)
{
    enum { RATE_LEN = 32 };
    char cell[RATE_LEN];
    (void)snprintf(cell, sizeof cell, "%.15g", (double)rate / 1000);
    cli_grid_add(grid, cell);
}

/* How the pool of the limit is doing; empty cells if it is not elastic. */
static void add_pool(struct cli_grid *grid, const tg_explain_t *row)
{
    add_text_cell(grid, row->pool);
    if (is_elastic(row)) {
        add_rate_cell(grid, row->level);
        add_rate_cell(grid, row->guaranteed);
        add_rate_cell(grid, row->borrowed);
        return;
    }
    for (uint32_t i = 1; i < POOL_FIELDS; i++)
        add_text_cell(grid, "");
}

/* Where the pool lends; empty cells if each region does. */
static void add_home(struct cli_grid *grid, const tg_explain_t *row)
{
    add_text_cell(grid, is_global(row) ? "global" : "");
    add_text_cell(grid, is_global(row) ? row->pool_home : "");
}

/* The limits that a request met, indented below its line. */
static void add_explain(struct cli *cli, const tg_decision_t *decision, const tg_explain_t *rows)
{
    struct cli_grid grid;
    if (decision->explain_count == 0) {
        cli_text_str(&cli->text, "  it met no limit, or the node had no room to gather them\n");
        return;
    }
    ASSERT(decision->explain_count <= TG_EXPLAIN_MAX);
    bool elastic = false;
    bool global = false;
    for (size_t i = 0; i < decision->explain_count; i++) {
        elastic = elastic || is_elastic(&rows[i]);
        global = global || is_global(&rows[i]);
    }
    cli_grid_init(&grid, explain_headers, fields_of(elastic, global), cli->colour);
    for (size_t i = 0; i < decision->explain_count; i++) {
        struct cli_text name;
        cli_text_init(&name);
        cli_text_str(&name, "  ");
        const char *rule = rows[i].rule[0] != '\0' ? rows[i].rule : "-";
        cli_text_shown(&name, rule, strlen(rule));
        cli_grid_add(&grid, name.data != NULL ? name.data : "");
        cli_text_fini(&name);
        add_text_cell(&grid, rows[i].window);
        add_uint_cell(&grid, rows[i].limit);
        add_uint_cell(&grid, rows[i].used);
        add_uint_cell(&grid, rows[i].remaining);
        cli_grid_add(&grid, rows[i].allowed ? "yes" : "no");
        add_span_cell(&grid, rows[i].retry_after_ms);
        add_span_cell(&grid, rows[i].reset_after_ms);
        if (elastic)
            add_pool(&grid, &rows[i]);
        if (global)
            add_home(&grid, &rows[i]);
    }
    cli_grid_write(&grid, &cli->text);
    cli_grid_fini(&grid);
}

/* Rows come one by one: columns whose values grow start with room for what usually comes. */
static void init_grid(struct cli_grid *grid, const char *names, bool colour)
{
    const char *headers[DECISION_COLUMNS];
    memcpy(headers, decision_headers, sizeof headers);
    headers[DECISION_COLUMNS - 1] = names;
    static const size_t usual[DECISION_COLUMNS] = {0, 7, 0, 0, 0, 5, 0, 0, 10, 10, 0, 0, 0, 0};
    const size_t columns = names != NULL ? DECISION_COLUMNS : DECISION_COLUMNS - 1;
    cli_grid_init(grid, headers, columns, colour);
    for (size_t i = 0; i < columns; i++)
        if (grid->widths[i] < usual[i])
            grid->widths[i] = usual[i];
}

/* ---- asking ---------------------------------------------------------------------------------- */

static tg_operation_t operation_of(enum cli_command command)
{
    switch (command) {
    case CLI_PEEK:
        return TG_PEEK;
    case CLI_HIT:
        return TG_HIT;
    case CLI_REFUND:
        return TG_REFUND;
    case CLI_RESET:
    case CLI_QUOTA_RESET:
        return TG_RESET;
    case CLI_LEASE:
        return TG_LEASE;
    case CLI_RELEASE:
        return TG_RELEASE;
    case CLI_RENEW:
        return TG_RENEW;
    case CLI_RESERVE:
        return TG_RESERVE;
    case CLI_COMMIT:
        return TG_COMMIT;
    case CLI_CANCEL:
        return TG_CANCEL;
    default:
        ASSERT(command == CLI_CHECK);
        return TG_CHECK;
    }
}

static tg_request_t make_request(const struct cli_arguments *arguments, tg_explain_t *explain)
{
    tg_request_t request = arguments->key != NULL
                               ? tg_request_inline(arguments->key, &arguments->limit)
                               : tg_request(arguments->attributes, arguments->attribute_count);
    request.operation = operation_of(arguments->command);
    request.cost = arguments->cost;
    request.at_most = arguments->at_most;
    request.lease_id = arguments->lease_id;
    request.used = arguments->used;
    if (arguments->explain) {
        request.explain = explain;
        request.explain_max = TG_EXPLAIN_MAX;
    }
    return request;
}

/* Asks the node what blocks the request: a decision has the reason alone. Nothing is counted. */
static void ask_blocked(struct cli *cli, struct cli_answer *answer)
{
    uint8_t bytes[QUESTION_LEN];
    struct mp_writer question;
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, 1);
    if (cli->arguments->key != NULL) {
        mp_put_str(&question, "key");
        mp_put_str(&question, cli->arguments->key);
    } else {
        cli_put_attributes(&question, cli->arguments);
    }
    ASSERT(!question.failed); /* arguments.c bounds what goes in */
    if (cli_answer_ask(cli, "rules.explain", &question, cli->timeout_ms, answer) != 0)
        cli_answer_fini(answer); /* an older node, or one that does not answer any more */
}

static void add_said(struct cli_text *text, const struct cli_answer *answer, size_t at,
                     const char *before, const char *name)
{
    const struct mp_token *value = cli_answer_value(answer, at, name);
    if (value == NULL || value->type != MP_STR || value->count == 0)
        return;
    cli_text_str(text, before);
    cli_text_shown(text, (const char *)value->data, value->count);
}

/* "  blocked: user=joe, by root@vm, until 2026-11-26T12:00:00Z: abuse", below its line. */
static void add_blocked(struct cli_text *text, const struct cli_answer *answer)
{
    size_t at;
    if (blocked_of(answer, &at) == NULL) {
        cli_text_str(text, "  it is blocked; the node does not tell by what\n");
        return;
    }
    const struct mp_token *by = cli_answer_value(answer, at, "by");
    const bool quota = by != NULL && cli_token_is(by, "quota");
    const struct mp_token *until = cli_answer_value(answer, at, "until");
    const bool ends = until != NULL && until->type == MP_STR && until->count > 0;
    cli_text_str(text, "  blocked");
    add_said(text, answer, at, quota ? ": what is set for user " : ": ", "what");
    add_said(text, answer, at, ", by ", "author");
    add_said(text, answer, at, ", until ", "until");
    cli_text_str(text, ends ? "" : ", without an end");
    add_said(text, answer, at, ": ", "reason");
    cli_text_str(text, "\n");
}

static int show(struct cli *cli, struct cli_grid *grid, const tg_decision_t *decision,
                const tg_explain_t *explain)
{
    const bool blocked = explain != NULL && decision->outcome == TG_BLOCKED;
    struct cli_answer answer = {.count = 0};
    if (blocked)
        ask_blocked(cli, &answer);
    const bool yaml = cli->arguments->output == CLI_YAML;
    if (cli->arguments->output != CLI_TABLE) {
        add_document(&cli->text, decision, cli->arguments->command == CLI_RESERVE, explain, &answer,
                     yaml);
        cli_text_str(&cli->text, yaml ? "" : "\n");
    } else {
        add_row(grid, names_of(cli->arguments->command) != NULL, decision);
        cli_grid_write(grid, &cli->text);
        if (blocked)
            add_blocked(&cli->text, &answer);
        else if (explain != NULL)
            add_explain(cli, decision, explain);
    }
    cli_answer_fini(&answer);
    return cli_flush(cli);
}

int cli_ask(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    tg_explain_t rows[TG_EXPLAIN_MAX];
    const tg_request_t request = make_request(arguments, rows);
    struct cli_grid grid;
    int status = CLI_EXIT_OK;
    bool denied = false;
    init_grid(&grid, names_of(arguments->command), cli->colour);
    for (uint64_t i = 0; i < arguments->repeat && status == CLI_EXIT_OK; i++) {
        tg_decision_t decision;
        const int code = tg_call(cli->client, &request, &decision);
        if (code != 0) {
            status = cli_fail(cli, code, "");
            break;
        }
        denied = denied || !decision.allowed;
        status = show(cli, &grid, &decision, request.explain);
    }
    cli_grid_fini(&grid);
    return status == CLI_EXIT_OK && denied ? CLI_EXIT_DENIED : status;
}
