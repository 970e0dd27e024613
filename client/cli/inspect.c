/* inspect.c - status, members, ring, owner and rules: asks a node and prints what it says.
 *
 * A node's answer is printed as it is (answer.h); what this file knows of it is only `healthy` and
 * `reasons` of a status, and `ok` of a validation.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mp.h"
#include "client/cli/answer.h"
#include "client/cli/cli.h"
#include "client/protocol/wire.h"

enum {
    RULES_LEN_MAX = WIRE_MESSAGE_MAX - 1024, /* a file must fit into one message */
    QUESTION_LEN = TG_ATTRIBUTES_MAX * (TG_ATTRIBUTE_NAME_MAX + TG_VALUE_MAX + 16) + 64,
    WAIT_MS_DEFAULT = 30000,
    PAUSE_MIN_MS = 50,
    PAUSE_MAX_MS = 200,
    WATCH_PAUSE_MS = 1000
};

/* ---- asking once, watching ------------------------------------------------------------------- */

static int ask_and_show(struct cli *cli, const char *command, const struct mp_writer *question)
{
    struct cli_answer answer;
    const int code = cli_answer_ask(cli, command, question, cli->timeout_ms, &answer);
    if (code == 0 && cli->arguments->watch && cli->terminal)
        cli_text_str(&cli->text, "\033[H\033[2J"); /* the answer replaces the one before */
    const int status =
        code == 0 ? cli_answer_show(cli, &answer) : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

/* Goes on when a node does not answer: people watch to see it come back. */
static int watch(struct cli *cli, const char *command)
{
    for (;;) {
        const int status = ask_and_show(cli, command, NULL);
        if (status != CLI_EXIT_OK && status != CLI_EXIT_UNREACHABLE)
            return status;
        cli_pause_ms(WATCH_PAUSE_MS);
        if (!cli->terminal && status == CLI_EXIT_OK && cli->arguments->output != CLI_JSON)
            cli_text_str(&cli->text, cli->arguments->output == CLI_YAML ? "---\n" : "\n");
    }
}

/* ---- status --wait --------------------------------------------------------------------------- */

static void complain_unhealthy(const struct cli_answer *answer, int waited_ms)
{
    struct mp_cursor cursor;
    struct cli_text text;
    const char *joint = "";
    cli_text_init(&text);
    const uint32_t reasons =
        cli_answer_find(answer, "reasons", &cursor) ? mp_get_array(&cursor) : 0;
    for (uint32_t i = 0; i < reasons && !cursor.failed; i++) {
        size_t len;
        const char *reason = mp_get_str(&cursor, &len);
        cli_text_str(&text, joint);
        if (!cursor.failed)
            cli_text_add(&text, reason, len);
        joint = "; ";
    }
    cli_complain("the cluster is not healthy after %d ms: %s", waited_ms,
                 text.len > 0 ? text.data : "the node gives no reason");
    cli_text_fini(&text);
}

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
    const int code = cli_answer_ask(cli, "status", NULL, timeout_ms, &answer);
    if (code == 0 || full || cli_exit_of(code) != CLI_EXIT_UNREACHABLE) {
        cli_answer_fini(&waiting->last);
        waiting->last = answer;
    } else {
        cli_answer_fini(&answer);
    }
    return code;
}

/* Prints how the waiting ended; `code` is that of the last round. */
static int end_waiting(struct cli *cli, const struct waiting *waiting, int code)
{
    const struct cli_answer *last = &waiting->last;
    const bool answered = code == 0 || (last->count > 0 && last->tokens[0].type == MP_MAP);
    if (!answered)
        return cli_answer_fail(cli, code, last);
    const int status = cli_answer_show(cli, last);
    if (cli_answer_true(last, "healthy"))
        return status;
    complain_unhealthy(last, waiting->span_ms);
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
        if (hopeless || left_ms <= 0 || (code == 0 && cli_answer_true(&waiting.last, "healthy")))
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
        mp_put_str(&question, "attributes");
        mp_put_map(&question, arguments->attribute_count);
        for (size_t i = 0; i < arguments->attribute_count; i++) {
            mp_put_str(&question, arguments->attributes[i].name);
            mp_put_strn(&question, arguments->attributes[i].value,
                        arguments->attributes[i].value_len);
        }
    }
    ASSERT(!question.failed); /* arguments.c bounds what goes in */
    return ask_and_show(cli, "owner", &question);
}

/* ---- rules validate -------------------------------------------------------------------------- */

/* Reads the whole file; `text` has RULES_LEN_MAX + 1 bytes. The length, or -1 after complaining. */
static long read_rules(const char *path, char *text)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (file == NULL) {
        cli_complain("cannot open %s: %s", path, strerror(errno));
        return -1;
    }
    const size_t len = fread(text, 1, RULES_LEN_MAX + 1, file);
    const bool bad = ferror(file) != 0;
    const int error = errno;
    if (!is_stdin)
        (void)fclose(file);
    if (bad)
        cli_complain("cannot read %s: %s", path, strerror(error));
    else if (len > RULES_LEN_MAX)
        cli_complain("%s is larger than %d bytes", path, (int)RULES_LEN_MAX);
    return bad || len > RULES_LEN_MAX ? -1 : (long)len;
}

/* Says what a refused file needs, as compilers do, so that editors jump there. */
static int refuse_rules(const char *path, const struct cli_answer *answer)
{
    struct mp_cursor cursor;
    size_t len = 0;
    const char *message = "";
    const uint64_t line = cli_answer_find(answer, "line", &cursor) ? mp_get_uint(&cursor) : 0;
    const uint64_t column = cli_answer_find(answer, "column", &cursor) ? mp_get_uint(&cursor) : 0;
    if (cli_answer_find(answer, "message", &cursor))
        message = mp_get_str(&cursor, &len);
    struct cli_text text;
    cli_text_init(&text);
    cli_text_shown(&text, path, strlen(path));
    cli_text_format(&text, ":%llu:%llu: ", (unsigned long long)line, (unsigned long long)column);
    cli_text_shown(&text, message, message != NULL ? len : 0);
    cli_text_str(&text, "\n");
    if (!text.failed)
        (void)fwrite(text.data, 1, text.len, stderr);
    cli_text_fini(&text);
    return CLI_EXIT_INVALID;
}

static int judge_rules(struct cli *cli, const struct cli_answer *answer)
{
    const char *path = cli->arguments->file;
    const bool ok = cli_answer_true(answer, "ok");
    int status = CLI_EXIT_OK;
    if (cli->arguments->output != CLI_TABLE) {
        status = cli_answer_show(cli, answer);
    } else if (ok) {
        struct mp_cursor cursor;
        const uint64_t rules = cli_answer_find(answer, "rules", &cursor) ? mp_get_uint(&cursor) : 0;
        cli_text_shown(&cli->text, path, strlen(path));
        cli_text_format(&cli->text, ": ok, %llu %s\n", (unsigned long long)rules,
                        rules == 1 ? "rule" : "rules");
        status = cli_flush(cli);
    }
    return ok ? status : refuse_rules(path, answer);
}

static int validate(struct cli *cli)
{
    enum { ROOM = RULES_LEN_MAX + 64 };
    struct cli_answer answer;
    struct mp_writer question;
    char *text = alloc_get(alloc_heap(), RULES_LEN_MAX + 1);
    uint8_t *bytes = alloc_get(alloc_heap(), ROOM);
    int status = CLI_EXIT_INVALID;
    long len = -1;
    if (text == NULL || bytes == NULL)
        cli_complain("out of memory to read %s", cli->arguments->file);
    else
        len = read_rules(cli->arguments->file, text);
    if (len >= 0) {
        mp_writer_init(&question, bytes, ROOM);
        mp_put_map(&question, 1);
        mp_put_str(&question, "text");
        mp_put_strn(&question, text, (size_t)len);
        ASSERT(!question.failed);
        const int code = cli_answer_ask(cli, "rules.validate", &question, cli->timeout_ms, &answer);
        status = code == 0 ? judge_rules(cli, &answer) : cli_answer_fail(cli, code, &answer);
        cli_answer_fini(&answer);
    }
    alloc_put(alloc_heap(), bytes, ROOM);
    alloc_put(alloc_heap(), text, RULES_LEN_MAX + 1);
    return status;
}

/* ---- dispatch -------------------------------------------------------------------------------- */

int cli_inspect(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    switch (arguments->command) {
    case CLI_OWNER:
        return owner(cli);
    case CLI_RULES_LIST:
        return ask_and_show(cli, "rules.list", NULL);
    case CLI_RULES_VALIDATE:
        return validate(cli);
    default:
        break;
    }
    if (arguments->wait_healthy)
        return wait_healthy(cli);
    const char *command = cli_command_name(arguments->command);
    return arguments->watch ? watch(cli, command) : ask_and_show(cli, command, NULL);
}
