/* block.c - block, unblock, blocks: who is denied at once, until a time, with a reason. */
#include <string.h>

#include "base/assert.h"
#include "client/cli/commands/commands.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/edit.h"
#include "node/policy/model/policy_ip.h"

static int list(struct cli *cli)
{
    struct cli_answer answer;
    const int code = cli_answer_ask_list(cli, "blocks", NULL, cli_behind_block, &answer);
    const int status =
        code == 0 ? cli_answer_show(cli, &answer) : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

/* Whether a block of addresses has everybody in it. One of IPv6 that begins with so many zeros has
 * all of IPv4, too, whose addresses are IPv4-mapped ones to a block. */
static bool is_everybody(const char *target)
{
    enum { ZEROS_MAPPED = 80 };
    static const struct policy_ip zero = {.len = 0};
    struct policy_block block;
    const char *text = strncmp(target, "ip=", 3) == 0 ? target + 3 : target;
    return policy_block_parse(text, strlen(text), &block) == POLICY_BLOCK_GOOD &&
           block.prefix <= (block.ip.len == POLICY_IPV6_LEN ? ZEROS_MAPPED : 0) &&
           memcmp(block.ip.bytes, zero.bytes, sizeof zero.bytes) == 0;
}

int cli_block(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    struct cli_edit edit = {.command = cli_command_name(arguments->command), .note = ""};
    if (arguments->command == CLI_BLOCKS)
        return list(cli);
    if (arguments->command == CLI_BLOCK && arguments->target != NULL &&
        is_everybody(arguments->target)) {
        const int status = cli_confirm(cli,
                                       "This denies everybody who has an address. Block them "
                                       "all?",
                                       "");
        if (status != CLI_EXIT_OK)
            return status;
    }
    cli_edit_text(&edit, "what", arguments->target);
    cli_edit_text(&edit, "key", arguments->key);
    cli_edit_text(&edit, "reason", arguments->reason);
    cli_edit_number(&edit, "for_ms", arguments->for_ms);
    cli_edit_number(&edit, "until_ms", arguments->until_ms);
    return cli_edit(cli, &edit);
}
