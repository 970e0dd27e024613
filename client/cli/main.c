/* main.c - `tidegate`: reads the command line, opens the cluster, runs one command.
 *
 * It decides nothing: the room `arguments` understands, `commands`, `status` and `replay` do. A
 * command that needs no node (help, version, rules of a file, replay) is answered
 * without opening anything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/cli/arguments/help.h"
#include "client/cli/commands/commands.h"
#include "client/cli/replay/replay_report.h"
#include "client/cli/session/cli.h"
#include "client/cli/status/status.h"

static const char endpoint_default[] = "tcp://127.0.0.1:7600";

/* An unset and an empty variable mean the same. */
static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static const char *choose_endpoints(const struct cli_arguments *arguments)
{
    if (arguments->endpoints != NULL)
        return arguments->endpoints;
    const char *configured = environment("TIDEGATE_ENDPOINT");
    return configured != NULL ? configured : endpoint_default;
}

/* Prints why the command line was refused, and for its shape also how it is meant. */
static int refuse(struct cli *cli, int status, const char *sentence)
{
    cli_complain("%s", sentence);
    if (status == CLI_EXIT_USAGE) {
        cli_hint(&cli->text, cli->arguments->command);
        if (!cli->text.failed)
            (void)fwrite(cli->text.data, 1, cli->text.len, stderr);
    }
    return status;
}

static int show_version(struct cli *cli)
{
    char line[CLI_SENTENCE_LEN];
    switch (cli->arguments->output) {
    case CLI_JSON:
        (void)snprintf(line, sizeof line, "{\"version\":\"%s\"}\n", tg_version());
        break;
    case CLI_YAML:
        (void)snprintf(line, sizeof line, "version: \"%s\"\n", tg_version());
        break;
    default:
        (void)snprintf(line, sizeof line, "tidegate %s\n", tg_version());
        break;
    }
    cli_text_str(&cli->text, line);
    return cli_flush(cli);
}

static int run_command(struct cli *cli)
{
    const enum cli_command command = cli->arguments->command;
    if (command <= CLI_CANCEL || command == CLI_QUOTA_RESET)
        return cli_ask(cli);
    if (command >= CLI_QUOTA_SET && command <= CLI_QUOTA_DELETE)
        return cli_quota(cli);
    if (command == CLI_POOLS_LIST || command == CLI_POOLS_REPORT)
        return cli_pools(cli);
    if (command == CLI_RULES_IMPORT || cli->arguments->domains.domain != NULL)
        return cli_domains(cli);
    if (command == CLI_RULES_VALIDATE || command == CLI_RULES_EXPLAIN)
        return cli_judge(cli);
    if ((command >= CLI_RULES_SHOW && command <= CLI_RULES_ROLLBACK) || command == CLI_POOLS_SET)
        return cli_rules(cli);
    if (command == CLI_BLOCK || command == CLI_UNBLOCK || command == CLI_BLOCKS)
        return cli_block(cli);
    if (command >= CLI_APIKEY_CREATE && command <= CLI_APIKEY_DELETE)
        return cli_api_key(cli);
    if (command >= CLI_TOKEN_CREATE && command <= CLI_CREDENTIAL_REVOKE)
        return cli_credential(cli);
    if (command == CLI_EVENTS)
        return cli_events(cli);
    const bool changes = command == CLI_DRAIN || command == CLI_LEAVE || command == CLI_REMOVE;
    return changes ? cli_change(cli) : cli_inspect(cli);
}

static int run_connected(struct cli *cli)
{
    char error[CLI_SENTENCE_LEN] = "";
    char agent[CLI_SENTENCE_LEN];
    tg_options_t options = tg_options();
    (void)snprintf(agent, sizeof agent, "tidegate-cli/%s", tg_version());
    options.timeout_ms = cli->timeout_ms;
    options.agent = agent;
    options.no_leases = 1; /* what is shown is what a node said */
    options.no_denials = 1;
    options.error = error;
    options.error_size = sizeof error;
    cli->client = tg_open(cli->endpoints, &options);
    if (cli->client == NULL) {
        cli_complain("%s", error[0] != '\0' ? error : "the endpoints cannot be used");
        return CLI_EXIT_INVALID;
    }
    const int status = run_command(cli);
    tg_close(&cli->client);
    return status;
}

static int run(struct cli *cli)
{
    switch (cli->arguments->command) {
    case CLI_HELP:
        cli_help(&cli->text, cli->arguments->topic);
        return cli_flush(cli);
    case CLI_VERSION:
        return show_version(cli);
    case CLI_REPLAY:
        return cli_replay_run(cli);
    default:
        return cli_judges_offline(cli->arguments) ? run_command(cli) : run_connected(cli);
    }
}

int main(int argc, char **argv)
{
    struct cli_arguments arguments;
    char sentence[CLI_SENTENCE_LEN];
    struct cli cli = {.arguments = &arguments};
    cli_text_init(&cli.text);
    int status = cli_arguments_parse(&arguments, argc, (const char *const *)argv, sentence);
    cli.endpoints = choose_endpoints(&arguments);
    cli.timeout_ms = arguments.timeout_ms > 0 && !cli_waits(&arguments) ? arguments.timeout_ms
                                                                        : TG_TIMEOUT_MS_DEFAULT;
    cli.terminal = isatty(STDOUT_FILENO) == 1;
    cli.colour = cli.terminal && environment("NO_COLOR") == NULL;
    status = status == CLI_EXIT_OK ? run(&cli) : refuse(&cli, status, sentence);
    cli_text_fini(&cli.text);
    return status;
}
