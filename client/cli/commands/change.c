/* change.c - drain, leave, remove: asks a node for a change of the ring, and waits until it is
 * done.
 *
 *   ask --> the node keeps the wish, says how far it is --> ask again ... --> done: show it
 *       \-> it is for another region to do, and says whom to ask there: ask them from then on
 *
 * Asking again changes nothing, so a question without an answer is simply asked once more; and what
 * was asked goes on when the waiting ends early. Only the node that was named drains: after the
 * first answer its id goes along, so that nobody else can take the question for its own.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/cli/commands/commands.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/edit.h"

enum {
    QUESTION_LEN = 512,
    NAME_LEN = 128,
    PAUSE_MS = 200,
    PROGRESS_MS = 1000, /* between two lines that tell how far it is */
    SILENCE_MS = 10000, /* a node that answered before is given up after */
    MOVE_MS = 600000,   /* drain, leave */
    REMOVE_MS = 60000,
};

struct change {
    const char *command;
    int64_t deadline_ms;
    int span_ms;
    bool started;       /* the node has taken the wish */
    bool waited;        /* and was not done at once */
    tg_client_t *there; /* of another region; NULL: the node that was named is asked */
    char region[NAME_LEN];
    char node[NAME_LEN];
    char id[NAME_LEN];
    char author[CLI_AUTHOR_LEN];
    char told[CLI_SENTENCE_LEN]; /* what was told last */
    int64_t told_ms;
    int64_t heard_ms;
    struct cli_answer answer;
};

static bool removes(const struct cli *cli)
{
    return cli->arguments->command == CLI_REMOVE;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int ask(struct cli *cli, struct change *change)
{
    uint8_t bytes[QUESTION_LEN];
    struct mp_writer question;
    mp_writer_init(&question, bytes, sizeof bytes);
    if (removes(cli)) {
        const bool region = cli->arguments->region != NULL;
        mp_put_map(&question, 3);
        mp_put_str(&question, region ? "region" : "node");
        mp_put_str(&question, region                  ? cli->arguments->region
                              : change->there != NULL ? change->id
                                                      : cli->arguments->member);
        mp_put_str(&question, "force");
        mp_put_bool(&question, cli->arguments->force);
    } else {
        mp_put_map(&question, 1U + (change->id[0] != '\0'));
        if (change->id[0] != '\0') {
            mp_put_str(&question, "id");
            mp_put_str(&question, change->id);
        }
    }
    mp_put_str(&question, "author");
    mp_put_str(&question, change->author);
    ASSERT(!question.failed); /* arguments.c bounds what goes in */
    cli_answer_fini(&change->answer);
    struct cli asked = *cli;
    if (change->there != NULL)
        asked.client = change->there;
    return cli_answer_ask(&asked, change->command, &question, cli->timeout_ms, &change->answer);
}

/* Turns to the nodes that the answer names. False: it names none, or they cannot be reached. */
static bool turn_to_region(const struct cli *cli, struct change *change)
{
    char endpoints[CLI_ENDPOINTS_LEN];
    size_t len = 0;
    struct mp_cursor cursor;
    tg_options_t options = tg_options();
    const uint32_t count =
        cli_answer_find(&change->answer, "ask", &cursor) ? mp_get_array(&cursor) : 0;
    for (uint32_t i = 0; i < count && len < sizeof endpoints; i++) {
        char address[NAME_LEN];
        mp_copy_str(&cursor, address, sizeof address);
        len += (size_t)snprintf(endpoints + len, sizeof endpoints - len, "%stcp://%s",
                                i > 0 ? "," : "", cursor.failed ? "" : address);
    }
    if (count == 0 || cursor.failed || len >= sizeof endpoints)
        return false;
    options.timeout_ms = cli->timeout_ms;
    change->there = tg_open(endpoints, &options);
    return change->there != NULL;
}

/* What --force means, before it is done. Returns an exit status. */
static int warn(struct cli *cli)
{
    struct cli_answer answer;
    struct cli_answer part;
    const int code = cli_answer_ask(cli, "status", NULL, cli->timeout_ms, &answer);
    int status = CLI_EXIT_OK;
    const bool region = cli->arguments->region != NULL;
    if (code != 0) {
        status = cli_answer_fail(cli, code, &answer);
    } else {
        struct mp_cursor cursor;
        memset(&part, 0, sizeof part);
        if (cli_answer_find(&answer, region ? "settings" : "register", &cursor)) {
            part.tokens = answer.tokens + cursor.at;
            part.count = answer.count - cursor.at;
        }
        if (cli_answer_true(&part, "frozen"))
            cli_complain("warning: --force begins a new lineage: the members that this node sees "
                         "go on alone, and what members out of reach decide from now on is lost "
                         "when they come back, as is what they alone hold of rules with "
                         "consistency quorum. Never force on two sides of a split");
        else if (!region)
            cli_complain("the ring is not frozen: --force makes a difference only where the change "
                         "does not come to an end without it");
    }
    cli_answer_fini(&answer);
    return status;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell_progress(const struct cli *cli, struct change *change)
{
    char said[CLI_SENTENCE_LEN];
    const struct cli_answer *answer = &change->answer;
    char waits_for[CLI_SENTENCE_LEN / 2];
    cli_answer_text(answer, "waits_for", waits_for, sizeof waits_for);
    if (removes(cli)) {
        if (waits_for[0] == '\0')
            return;
        (void)snprintf(said, sizeof said, "%s: %s", change->node, waits_for);
    } else {
        (void)snprintf(said, sizeof said, "%s: %llu vnodes left%s%s", change->node,
                       (unsigned long long)cli_answer_uint(answer, "vnodes_left"),
                       waits_for[0] != '\0' ? ": " : "", waits_for);
    }
    if (strcmp(said, change->told) == 0 || cli_now_ms() - change->told_ms < PROGRESS_MS)
        return;
    cli_complain("%s", said);
    memcpy(change->told, said, sizeof said);
    change->told_ms = cli_now_ms();
}

static void take_note(struct change *change)
{
    change->started = true;
    change->heard_ms = cli_now_ms();
    cli_answer_text(&change->answer, "node", change->node, sizeof change->node);
    cli_answer_text(&change->answer, "id", change->id, sizeof change->id);
    if (change->node[0] == '\0')
        cli_answer_text(&change->answer, "region", change->node, sizeof change->node);
}

/* Prints how it stands, in words unless another form is wanted. */
static int show(struct cli *cli, const struct change *change, bool done)
{
    struct cli_text *text = &cli->text;
    char message[CLI_SENTENCE_LEN];
    if (cli->arguments->output != CLI_TABLE)
        return cli_answer_show(cli, &change->answer);
    cli_answer_text(&change->answer, "message", message, sizeof message);
    if (done && message[0] != '\0' && !change->waited) { /* there was nothing to do */
        cli_text_shown(text, message, strlen(message));
        cli_text_str(text, "\n");
        return cli_flush(cli);
    }
    cli_text_shown(text, change->node, strlen(change->node));
    if (!done)
        cli_text_str(text, removes(cli) ? " is being removed\n" : " is on its way out\n");
    else if (cli->arguments->region != NULL)
        cli_text_str(text, " is out of the cluster: what it held on lease is spent, and keys that "
                           "it counted are counted anew\n");
    else if (removes(cli))
        cli_text_str(text, " is out of the ring\n");
    else if (cli->arguments->command == CLI_LEAVE)
        cli_text_str(text, " has left the ring, and ends\n");
    else
        cli_text_str(text, " is drained: it holds nothing, and forwards what it is asked\n");
    return cli_flush(cli);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Whether an answer that did not come may come yet. */
static bool may_recover(const struct change *change, int code)
{
    return change->started && cli_exit_of(code) == CLI_EXIT_UNREACHABLE &&
           cli_now_ms() - change->heard_ms < SILENCE_MS;
}

/* Whether the node says that another region is to be asked. */
static bool is_elsewhere(const struct change *change)
{
    char state[NAME_LEN];
    cli_answer_text(&change->answer, "state", state, sizeof state);
    return strcmp(state, "elsewhere") == 0;
}

/* One round; true when it was the last, with the exit status. */
static bool go_on(struct cli *cli, struct change *change, int *status)
{
    const int code = ask(cli, change);
    if (code == 0) {
        take_note(change);
        if (change->there == NULL && is_elsewhere(change)) {
            cli_answer_text(&change->answer, "region", change->region, sizeof change->region);
            if (turn_to_region(cli, change))
                return false;
            cli_complain("%s is of region %s: ask a node of that region", change->node,
                         change->region);
            *status = CLI_EXIT_UNREACHABLE;
            return true;
        }
        const bool done = cli_answer_true(&change->answer, "done");
        if (done || cli->arguments->no_wait) {
            *status = show(cli, change, done);
            return true;
        }
        change->waited = true;
        tell_progress(cli, change);
    } else if (!may_recover(change, code)) {
        *status = cli_answer_fail(cli, code, &change->answer);
        if (change->there != NULL)
            cli_complain("that is what region %s answered, of which %s is", change->region,
                         change->node);
        return true;
    }
    if (cli_now_ms() < change->deadline_ms)
        return false;
    char waits_for[CLI_SENTENCE_LEN / 2];
    cli_answer_text(&change->answer, "waits_for", waits_for, sizeof waits_for);
    cli_complain("%s is not done after %d ms%s%s; it goes on, ask again to wait on",
                 change->command, change->span_ms, waits_for[0] != '\0' ? ": " : "", waits_for);
    *status = CLI_EXIT_DENIED;
    return true;
}

int cli_change(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    struct change change = {.command = cli_command_name(arguments->command)};
    int status = CLI_EXIT_OK;
    if (!removes(cli) && strchr(cli->endpoints, ',') != NULL) {
        cli_complain("'%s' is about one node; expected one endpoint, found %s", change.command,
                     cli->endpoints);
        return CLI_EXIT_INVALID;
    }
    cli_author(NULL, change.author);
    if (arguments->force && (status = warn(cli)) != CLI_EXIT_OK)
        return status;
    change.span_ms = arguments->timeout_ms > 0 ? arguments->timeout_ms
                     : removes(cli)            ? REMOVE_MS
                                               : MOVE_MS;
    change.deadline_ms = cli_now_ms() + change.span_ms;
    while (!go_on(cli, &change, &status))
        cli_pause_ms(PAUSE_MS);
    cli_answer_fini(&change.answer);
    tg_close(&change.there);
    return status;
}
