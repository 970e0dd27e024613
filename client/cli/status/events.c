/* events.c - `tidegate events`: what came about lately, as the node that is asked saw it.
 *
 *   events {"after": id} --> the node's events behind that id, a line each
 *      ^                       |
 *      +-- --follow: again, ---+ behind the last one
 */
#include <stdio.h>
#include <string.h>

#include "base/mp_walk.h"
#include "client/cli/output/document.h"
#include "client/cli/status/status.h"
#include "client/screen/screen.h"

enum { QUESTION_LEN = 32, FOLLOW_MS = 1000 };

static void put_line(struct cli_text *out, const struct screen_event *event, bool colour)
{
    char line[SCREEN_EVENT_LEN];
    const bool ill = event->grave && strcmp(event->kind, "begun") == 0;
    screen_event_say(event, line);
    cli_text_shown(out, event->time, strlen(event->time));
    cli_text_str(out, colour && ill ? "  \033[1;31m" : "  ");
    cli_text_shown(out, line, strlen(line));
    cli_text_str(out, colour && ill ? "\033[0m\n" : "\n");
}

/* One after the other, as the output wants it. */
static void put_events(struct cli *cli, const struct cli_answer *answer)
{
    struct screen_event_reader reader;
    struct screen_event event;
    screen_events_begin(answer->tokens, answer->count, &reader);
    for (;;) {
        const struct screen_event_reader row = reader;
        if (!screen_events_next(&reader, &event))
            return;
        const size_t len = (size_t)(reader.tokens - row.tokens);
        if (cli->arguments->output == CLI_YAML)
            cli_yaml(&cli->text, row.tokens, len, true);
        else if (cli->arguments->output == CLI_JSON)
            cli_json(&cli->text, row.tokens, len);
        else
            put_line(&cli->text, &event, cli->colour);
        if (cli->arguments->output == CLI_JSON)
            cli_text_str(&cli->text, "\n");
    }
}

/* Shows what is behind *after, which goes on to the last one. */
static int show(struct cli *cli, uint64_t *after)
{
    uint8_t bytes[QUESTION_LEN];
    struct mp_writer question;
    struct cli_answer answer;
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, 1);
    mp_put_str(&question, "after");
    mp_put_uint(&question, *after);
    const int code = cli_answer_ask(cli, "events", &question, cli->timeout_ms, &answer);
    int status = CLI_EXIT_OK;
    if (code != 0) {
        status = cli_answer_fail(cli, code, &answer);
    } else {
        if (cli_answer_true(&answer, "missed"))
            cli_complain("the node does not keep all events any more that came since");
        put_events(cli, &answer);
        *after = cli_answer_uint(&answer, "last");
        status = cli_flush(cli);
    }
    cli_answer_fini(&answer);
    return status;
}

int cli_events(struct cli *cli)
{
    uint64_t after = 0;
    for (;;) {
        const int status = show(cli, &after);
        if (!cli->arguments->watch || (status != CLI_EXIT_OK && status != CLI_EXIT_UNREACHABLE))
            return status;
        cli_pause_ms(FOLLOW_MS);
    }
}
