/* inspect.c - members, ring, owner, rules list, status --wait: asks a node and prints what it
 * says.
 *
 * A node's answer is printed as it is (answer.h), but for a status (status.c); what this file knows
 * of that is only `healthy`, `reasons` and the living of `members`.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp.h"
#include "client/cli/commands/commands.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/cli.h"
#include "client/cli/status/status.h"

enum {
    QUESTION_LEN = TG_ATTRIBUTES_MAX * (TG_ATTRIBUTE_NAME_MAX + TG_VALUE_MAX + 16) + 64,
    WAIT_MS_DEFAULT = 30000,
    WORDS_LEN = 48,
    ALL_LEN = 16,
    PAUSE_MIN_MS = 50,
    PAUSE_MAX_MS = 200,
    WATCH_PAUSE_MS = 1000
};

/* ---- asking once, watching ------------------------------------------------------------------- */

static int ask_and_show(struct cli *cli, const char *command, const struct mp_writer *question)
{
    struct cli_answer answer;
    const int code = strcmp(command, "members") == 0
                         ? cli_answer_ask_list(cli, command, question, cli_behind_id, &answer)
                     : strcmp(command, "rules.list") == 0
                         ? cli_answer_ask_list(cli, command, question, cli_behind_name, &answer)
                         : cli_answer_ask(cli, command, question, cli->timeout_ms, &answer);
    if (code == 0 && cli->arguments->watch && cli->terminal)
        cli_text_str(&cli->text, "\033[H\033[2J"); /* the answer replaces the one before */
    const int status = code != 0                 ? cli_answer_fail(cli, code, &answer)
                       : cli->arguments->regions ? cli_regions_show(cli, &answer)
                                                 : cli_answer_show(cli, &answer);
    cli_answer_fini(&answer);
    return status;
}

/* Goes on when a node does not answer: people watch to see it come back. */
static int watch(struct cli *cli, const char *command, const struct mp_writer *question)
{
    for (;;) {
        const int status = ask_and_show(cli, command, question);
        if (status != CLI_EXIT_OK && status != CLI_EXIT_UNREACHABLE)
            return status;
        cli_pause_ms(WATCH_PAUSE_MS);
        if (!cli->terminal && status == CLI_EXIT_OK && cli->arguments->output != CLI_JSON)
            cli_text_str(&cli->text, cli->arguments->output == CLI_YAML ? "---\n" : "\n");
    }
}

/* ---- status --wait --------------------------------------------------------------------------- */

/* What the rounds of waiting have found out so far. */
struct waiting {
    int64_t deadline_ms;
    int span_ms;
    struct cli_answer last; /* the newest answer, with count 0 while there is none */
};

/* Asks once more. Returns the code; a failure forgets the last answer only if the node had its full
 * time to answer, since the last question before the deadline may have had none. */
static int wait_round(struct cli *cli, struct waiting *waiting)
{
    struct cli_answer answer;
    const int64_t left_ms = waiting->deadline_ms - cli_now_ms();
    const bool full = left_ms >= TG_TIMEOUT_MS_DEFAULT;
    const int timeout_ms = full ? TG_TIMEOUT_MS_DEFAULT : left_ms > 0 ? (int)left_ms : 1;
    ASSERT(timeout_ms > 0 && timeout_ms <= TG_TIMEOUT_MS_DEFAULT);
    const int code = cli_answer_ask(cli, "status", NULL, timeout_ms, &answer);
    if (code == 0 || full || cli_exit_of(code) != CLI_EXIT_UNREACHABLE) {
        cli_answer_fini(&waiting->last);
        waiting->last = answer;
    } else {
        cli_answer_fini(&answer);
    }
    return code;
}

/* How many members the node sees alive, of all regions. */
static uint64_t alive_of(const struct cli_answer *answer)
{
    struct mp_cursor cursor;
    if (!cli_answer_find(answer, "members", &cursor) || mp_peek_type(&cursor) != MP_MAP)
        return 0;
    const struct mp_token *alive = cli_answer_value(answer, cursor.at, "alive");
    return alive != NULL && alive->type == MP_UINT ? alive->uint : 0;
}

/* Whether the node says what is waited for. A first node is healthy by itself, before any other has
 * heard of it: how many are meant, only the user knows. */
static bool is_awaited(const struct cli *cli, const struct cli_answer *answer)
{
    return cli_answer_true(answer, "healthy") && alive_of(answer) >= cli->arguments->members;
}

static void add_found(struct cli_text *found, const char *words, size_t len)
{
    cli_text_str(found, found->len > 0 ? "; " : "");
    cli_text_add(found, words, len);
}

/* What the node said instead of what is waited for. */
static void add_reasons(struct cli_text *found, const struct cli *cli,
                        const struct cli_answer *answer)
{
    struct mp_cursor cursor;
    const unsigned long long alive = alive_of(answer);
    if (alive < cli->arguments->members) {
        char words[WORDS_LEN];
        (void)snprintf(words, sizeof words, "%llu alive", alive);
        add_found(found, words, strlen(words));
    }
    const uint32_t reasons =
        cli_answer_find(answer, "reasons", &cursor) ? mp_get_array(&cursor) : 0;
    for (uint32_t i = 0; i < reasons && !cursor.failed; i++) {
        size_t len;
        const char *reason = mp_get_str(&cursor, &len);
        if (!cursor.failed)
            add_found(found, reason, len);
    }
}

/* Says what was waited for, and what was found; `answer`: NULL if there was none. */
static void complain_in_vain(const struct cli *cli, const struct cli_answer *answer, int waited_ms)
{
    const unsigned long long members = cli->arguments->members;
    char wanted[WORDS_LEN] = "";
    struct cli_text found;
    cli_text_init(&found);
    if (members > 0)
        (void)snprintf(wanted, sizeof wanted, " with %llu members", members);
    if (answer != NULL)
        add_reasons(&found, cli, answer);
    const char *nothing = answer != NULL ? "the node gives no reason" : "no node told its status";
    cli_complain("the cluster is not healthy%s after %d ms: %s", wanted, waited_ms,
                 found.len > 0 ? found.data : nothing);
    cli_text_fini(&found);
}

/* Prints how the waiting ended; `code` is that of the last round. */
static int end_waiting(struct cli *cli, const struct waiting *waiting, int code)
{
    const struct cli_answer *last = &waiting->last;
    const bool answered = code == 0 || (last->count > 0 && last->tokens[0].type == MP_MAP);
    if (!answered) {
        const int failed = cli_answer_fail(cli, code, last);
        if (failed == CLI_EXIT_UNREACHABLE)
            complain_in_vain(cli, NULL, waiting->span_ms);
        return failed;
    }
    const int status = cli_status_show(cli, last);
    if (is_awaited(cli, last))
        return status;
    complain_in_vain(cli, last, waiting->span_ms);
    return CLI_EXIT_DENIED;
}

static int wait_healthy(struct cli *cli)
{
    struct waiting waiting = {.span_ms = cli->arguments->timeout_ms > 0 ? cli->arguments->timeout_ms
                                                                        : WAIT_MS_DEFAULT};
    waiting.deadline_ms = cli_now_ms() + waiting.span_ms;
    int64_t next_ms = PAUSE_MIN_MS;
    int code;
    for (;;) {
        code = wait_round(cli, &waiting);
        const bool hopeless = code != 0 && cli_exit_of(code) != CLI_EXIT_UNREACHABLE;
        const int64_t left_ms = waiting.deadline_ms - cli_now_ms();
        if (hopeless || left_ms <= 0 || (code == 0 && is_awaited(cli, &waiting.last)))
            break;
        cli_pause_ms(left_ms < next_ms ? left_ms : next_ms);
        next_ms = next_ms * 2 < PAUSE_MAX_MS ? next_ms * 2 : PAUSE_MAX_MS;
    }
    const int status = end_waiting(cli, &waiting, code);
    cli_answer_fini(&waiting.last);
    return status;
}

/* ---- owner ----------------------------------------------------------------------------------- */

static int owner(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    uint8_t bytes[QUESTION_LEN];
    struct mp_writer question;
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, 1);
    if (arguments->key != NULL) {
        mp_put_str(&question, "key");
        mp_put_str(&question, arguments->key);
    } else {
        cli_put_attributes(&question, arguments);
    }
    ASSERT(!question.failed); /* arguments.c bounds what goes in */
    return ask_and_show(cli, "owner", &question);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

int cli_inspect(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    uint8_t bytes[ALL_LEN];
    struct mp_writer question;
    const struct mp_writer *asked = NULL; /* about everything that there is by default */
    if (arguments->all) {
        mp_writer_init(&question, bytes, sizeof bytes);
        mp_put_map(&question, 1);
        mp_put_str(&question, "all");
        mp_put_bool(&question, true);
        asked = &question;
    }
    switch (arguments->command) {
    case CLI_OWNER:
        return owner(cli);
    case CLI_RULES_LIST:
        return ask_and_show(cli, "rules.list", NULL);
    default:
        break;
    }
    if (arguments->wait_healthy)
        return wait_healthy(cli);
    if (arguments->command == CLI_STATUS && !arguments->regions)
        return cli_status(cli);
    const char *command = arguments->regions ? "regions" : cli_command_name(arguments->command);
    return arguments->watch ? watch(cli, command, asked) : ask_and_show(cli, command, asked);
}
