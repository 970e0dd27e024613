/* status.c - `tidegate status`: asks a node how its cluster is, and shows it as a screen.
 *
 *   status --> one node: {"figures": true} --> figures of all members, gathered there
 *      ^                                         |
 *      +-- again, for half a second, while some are awaited
 *
 * The exit status says it, too: 0 healthy, 1 degraded, 2 no answer. Of --node it is that of the one
 * node. JSON and YAML are the node's answer as it is.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/cli/output/document.h"
#include "client/cli/status/counters.h"
#include "client/cli/status/screen_text.h"
#include "client/cli/status/status.h"

enum { QUESTION_LEN = 16, AWAIT_MS = 500, ASK_AGAIN_MS = 40, WATCH_MS = 1000 };

/* ---- asking ---------------------------------------------------------------------------------- */

static int ask_once(struct cli *cli, int timeout_ms, struct cli_answer *answer)
{
    uint8_t bytes[QUESTION_LEN];
    struct mp_writer question;
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, 1);
    mp_put_str(&question, "figures");
    mp_put_bool(&question, true);
    return cli_answer_ask(cli, "status", &question, timeout_ms, answer);
}

/* Asks until the node has heard the figures of all others, or does not any more. */
static int ask(struct cli *cli, struct cli_answer *answer)
{
    const int64_t end_ms = cli_now_ms() + AWAIT_MS;
    int code = ask_once(cli, cli->timeout_ms, answer);
    while (code == 0 && cli_answer_uint(answer, "figures_awaited") > 0 && cli_now_ms() < end_ms) {
        struct cli_answer newer;
        cli_pause_ms(ASK_AGAIN_MS);
        if (ask_once(cli, cli->timeout_ms, &newer) == 0) {
            cli_answer_fini(answer);
            *answer = newer;
        } else {
            cli_answer_fini(&newer);
            break;
        }
    }
    return code;
}

/* ---- showing --------------------------------------------------------------------------------- */

/* One row of the answer's `nodes`, as the node told it. */
static void put_row(struct cli *cli, const struct cli_answer *answer, uint32_t number)
{
    struct mp_cursor cursor;
    if (!cli_answer_find(answer, "nodes", &cursor) || mp_get_array(&cursor) <= number)
        return;
    size_t at = cursor.at;
    while (number-- > 0)
        at = cli_token_next(answer, at);
    ASSERT(at < answer->count); /* an array is whole: mp_parse saw to it */
    const size_t end = cli_token_next(answer, at);
    if (cli->arguments->output == CLI_YAML)
        cli_yaml(&cli->text, answer->tokens + at, end - at, false);
    else
        cli_json(&cli->text, answer->tokens + at, end - at);
    if (cli->arguments->output == CLI_JSON)
        cli_text_str(&cli->text, "\n");
}

static bool is_well(const struct screen *screen, const struct screen_node *node)
{
    for (uint32_t i = 0; i < screen->condition_count; i++)
        if (screen->conditions[i].grave && strcmp(screen->conditions[i].node, node->name) == 0 &&
            strcmp(screen->conditions[i].region, node->region) == 0)
            return false;
    return !node->grave && strcmp(node->state, "alive") == 0;
}

static int show_node(struct cli *cli, const struct cli_answer *answer, const struct screen *screen,
                     const struct screen_options *options)
{
    const char *name = cli->arguments->node;
    const struct screen_node *node = screen_find(screen, name);
    if (node == NULL) {
        char sentence[CLI_SENTENCE_LEN];
        (void)snprintf(sentence, sizeof sentence,
                       "--node %.64s: no member, or several, are called so; expected a name or "
                       "REGION/NAME of `tidegate members`",
                       name);
        return cli_fail(cli, TG_ENOTFOUND, sentence);
    }
    ASSERT(node >= screen->nodes && node < screen->nodes + screen->node_count);
    if (cli->arguments->output == CLI_TABLE)
        screen_write_node(&cli->text, screen, node, options);
    else
        put_row(cli, answer, (uint32_t)(node - screen->nodes));
    const int status = cli_flush(cli);
    return status != CLI_EXIT_OK ? status : is_well(screen, node) ? CLI_EXIT_OK : CLI_EXIT_DENIED;
}

static int show_all(struct cli *cli, const struct cli_answer *answer, const struct screen *screen,
                    const struct screen_options *options)
{
    int status;
    if (cli->arguments->output != CLI_TABLE) {
        status = cli_answer_show(cli, answer);
    } else {
        screen_write(&cli->text, screen, options);
        if (cli->arguments->all)
            counters_write(&cli->text, answer);
        status = cli_flush(cli);
    }
    return status != CLI_EXIT_OK ? status : screen->healthy ? CLI_EXIT_OK : CLI_EXIT_DENIED;
}

int cli_status_show(struct cli *cli, const struct cli_answer *answer)
{
    const struct screen_options options = {
        .width = SCREEN_WIDTH, .colour = cli->colour, .all_nodes = cli->arguments->all_members};
    const size_t count = screen_nodes_in(answer->tokens, answer->count);
    struct screen *screen = alloc_get(alloc_heap(), sizeof *screen);
    struct screen_node *nodes = alloc_array(alloc_heap(), count + 1, sizeof *nodes);
    int status = CLI_EXIT_INVALID;
    if (screen != NULL && nodes != NULL)
        screen_read(answer->tokens, answer->count, nodes, count, screen);
    if (screen == NULL || nodes == NULL)
        status = cli_fail(cli, TG_ENOMEM, "out of memory");
    else if (cli->arguments->node != NULL)
        status = show_node(cli, answer, screen, &options);
    else
        status = show_all(cli, answer, screen, &options);
    alloc_put(alloc_heap(), nodes, (count + 1) * sizeof *nodes);
    alloc_put(alloc_heap(), screen, sizeof *screen);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int ask_and_show(struct cli *cli)
{
    struct cli_answer answer;
    const int code = ask(cli, &answer);
    if (code == 0 && cli->arguments->watch && cli->terminal)
        cli_text_str(&cli->text, "\033[H\033[2J"); /* the screen replaces the one before */
    const int status =
        code != 0 ? cli_answer_fail(cli, code, &answer) : cli_status_show(cli, &answer);
    cli_answer_fini(&answer);
    return status;
}

int cli_status(struct cli *cli)
{
    for (;;) {
        const int64_t begun_ms = cli_now_ms();
        const int status = ask_and_show(cli);
        const bool answered = status == CLI_EXIT_OK || status == CLI_EXIT_DENIED;
        if (!cli->arguments->watch || (!answered && status != CLI_EXIT_UNREACHABLE))
            return status;
        const int64_t left_ms = begun_ms + WATCH_MS - cli_now_ms();
        if (left_ms > 0)
            cli_pause_ms(left_ms);
        if (!cli->terminal && answered && cli->arguments->output != CLI_JSON)
            cli_text_str(&cli->text, cli->arguments->output == CLI_YAML ? "---\n" : "\n");
    }
}
