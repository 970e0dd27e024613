/* pools.c - pools list, pools report: how the pools of elastic limits are doing, and how loaded
 * what they protect is.
 */
#include <string.h>

#include "base/assert.h"
#include "client/cli/commands/commands.h"
#include "client/cli/session/answer.h"

enum { QUESTION_LEN = 512 };

static int ask_and_show(struct cli *cli, const char *command, const struct mp_writer *question)
{
    struct cli_answer answer;
    const int code = cli_answer_ask(cli, command, question, cli->timeout_ms, &answer);
    const int status =
        code == 0 ? cli_answer_show(cli, &answer) : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

int cli_pools(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    uint8_t bytes[QUESTION_LEN];
    struct mp_writer question;
    if (arguments->command == CLI_POOLS_LIST)
        return ask_and_show(cli, "pools.list", NULL);
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, 2);
    mp_put_str(&question, "pool");
    mp_put_str(&question, arguments->report.pool);
    mp_put_str(&question, "load");
    mp_put_real(&question, arguments->report.load);
    ASSERT(!question.failed); /* arguments.c bounds what goes in */
    return ask_and_show(cli, "pools.report", &question);
}
