/* ask.c - check, peek, hit, refund, reset, lease, release and renew: one request after the other,
 * each shown at once.
 *
 * A decision is first put into msgpack and then printed by document.c, as every answer is: so
 * the order and the names of the JSON fields stand in one place, put_decision.
 *
 * The first request that gets no decision ends the run: those behind it would wait as long.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp.h"
#include "client/cli/cli.h"
#include "client/cli/document.h"
#include "client/cli/grid.h"
#include "client/protocol/wire.h"

enum {
    DECISION_FIELDS = 15, /* and lease_id, where there is one */
    DECISION_TOKENS = 2 * (DECISION_FIELDS + 1) + 1,
    LEASE_LEN = 17, /* as text */
    /* names and numbers need less than half of it */
    DECISION_LEN = 1024 + WIRE_RULE_MAX + WIRE_WINDOW_MAX + WIRE_TEXT_MAX + WIRE_NAME_MAX
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

static void put_decision(struct mp_writer *writer, const tg_decision_t *decision)
{
    mp_put_map(writer, DECISION_FIELDS + (decision->lease_id != 0 ? 1 : 0));
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
    if (decision->lease_id != 0) {
        char lease[LEASE_LEN];
        format_lease(decision->lease_id, lease);
        put_text(writer, "lease_id", lease);
    }
}

static void add_document(struct cli_text *text, const tg_decision_t *decision, bool yaml)
{
    uint8_t bytes[DECISION_LEN];
    struct mp_token tokens[DECISION_TOKENS];
    struct mp_writer writer;
    mp_writer_init(&writer, bytes, sizeof bytes);
    put_decision(&writer, decision);
    const int count =
        writer.failed ? TG_ETOOBIG : mp_parse(bytes, writer.len, tokens, DECISION_TOKENS);
    if (count < 0)
        text->failed = true; /* the library bounds its texts, so this would be its mistake */
    else if (yaml)
        cli_yaml(text, tokens, (size_t)count, true);
    else
        cli_json(text, tokens, (size_t)count);
}

void cli_decision_json(struct cli_text *text, const tg_decision_t *decision)
{
    add_document(text, decision, false);
}

void cli_decision_yaml(struct cli_text *text, const tg_decision_t *decision)
{
    add_document(text, decision, true);
}

/* ---- as a table ------------------------------------------------------------------------------ */

static const char *const decision_headers[] = {"ALLOWED", "OUTCOME",   "RULE",    "WINDOW", "LIMIT",
                                               "USED",    "REMAINING", "GRANTED", "RETRY",  "RESET",
                                               "NODE",    "DEGRADED",  "MESSAGE", "LEASE"};

enum { DECISION_COLUMNS = sizeof decision_headers / sizeof *decision_headers };

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
    add_text_cell(grid, decision->message);
    if (lease) {
        char text[LEASE_LEN];
        format_lease(decision->lease_id, text);
        add_text_cell(grid, decision->lease_id != 0 ? text : "");
    }
}

/* Rows come one by one: columns whose values grow start with room for what usually comes. */
static void init_grid(struct cli_grid *grid, bool leases, bool colour)
{
    static const size_t usual[DECISION_COLUMNS] = {0, 7, 0, 0, 0, 5, 0, 0, 6, 6, 0, 0, 0, 0};
    const size_t columns = leases ? DECISION_COLUMNS : DECISION_COLUMNS - 1;
    cli_grid_init(grid, decision_headers, columns, colour);
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
        return TG_RESET;
    case CLI_LEASE:
        return TG_LEASE;
    case CLI_RELEASE:
        return TG_RELEASE;
    case CLI_RENEW:
        return TG_RENEW;
    default:
        ASSERT(command == CLI_CHECK);
        return TG_CHECK;
    }
}

static tg_request_t make_request(const struct cli_arguments *arguments)
{
    tg_request_t request = arguments->key != NULL
                               ? tg_request_inline(arguments->key, &arguments->limit)
                               : tg_request(arguments->attributes, arguments->attribute_count);
    request.operation = operation_of(arguments->command);
    request.cost = arguments->cost;
    request.at_most = arguments->at_most;
    request.lease_id = arguments->lease_id;
    return request;
}

static int show(struct cli *cli, struct cli_grid *grid, const tg_decision_t *decision)
{
    if (cli->arguments->output == CLI_JSON) {
        cli_decision_json(&cli->text, decision);
        cli_text_str(&cli->text, "\n");
    } else if (cli->arguments->output == CLI_YAML) {
        cli_decision_yaml(&cli->text, decision);
    } else {
        add_row(grid, cli->arguments->command == CLI_LEASE, decision);
        cli_grid_write(grid, &cli->text);
    }
    return cli_flush(cli);
}

int cli_ask(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    const tg_request_t request = make_request(arguments);
    struct cli_grid grid;
    int status = CLI_EXIT_OK;
    bool denied = false;
    init_grid(&grid, arguments->command == CLI_LEASE, cli->colour);
    for (uint64_t i = 0; i < arguments->repeat && status == CLI_EXIT_OK; i++) {
        tg_decision_t decision;
        const int code = tg_call(cli->client, &request, &decision);
        if (code != 0) {
            status = cli_fail(cli, code, "");
            break;
        }
        denied = denied || !decision.allowed;
        status = show(cli, &grid, &decision);
    }
    cli_grid_fini(&grid);
    return status == CLI_EXIT_OK && denied ? CLI_EXIT_DENIED : status;
}
