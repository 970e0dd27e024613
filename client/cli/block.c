/* block.c - block, unblock, blocks: who is denied at once, until a time, with a reason. */
#include <string.h>

#include "client/cli/answer.h"
#include "client/cli/edit.h"

static void add_text(struct cli_edit *edit, const char *name, const char *text)
{
    if (text != NULL)
        edit->fields[edit->field_count++] = (struct cli_edit_field){name, text, strlen(text), 0};
}

static void add_number(struct cli_edit *edit, const char *name, uint64_t number)
{
    if (number != 0)
        edit->fields[edit->field_count++] = (struct cli_edit_field){name, NULL, 0, number};
}

static int list(struct cli *cli)
{
    struct cli_answer answer;
    const int code = cli_answer_ask(cli, "blocks", NULL, cli->timeout_ms, &answer);
    const int status =
        code == 0 ? cli_answer_show(cli, &answer) : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

int cli_block(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    struct cli_edit edit = {.command = cli_command_name(arguments->command), .note = ""};
    if (arguments->command == CLI_BLOCKS)
        return list(cli);
    add_text(&edit, "what", arguments->target);
    add_text(&edit, "key", arguments->key);
    add_text(&edit, "reason", arguments->reason);
    add_number(&edit, "for_ms", arguments->for_ms);
    add_number(&edit, "until_ms", arguments->until_ms);
    return cli_edit(cli, &edit);
}
