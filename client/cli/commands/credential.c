/* credential.c - token create; credential list, show, rotate, revoke: who may do what.
 *
 *   create, rotate   random bits --> token --digest--> the cluster     the token is printed, once,
 *                                     |                                and is in no message
 *                                     +--> standard output
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/digest.h"
#include "client/cli/commands/commands.h"
#include "client/cli/output/document.h"
#include "client/cli/output/table.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/edit.h"
#include "node/policy/rights/rights.h"
#include "node/policy/rights/token.h"

enum { QUESTION_LEN = 512, SHOWN_LEN = 1024 };

struct new_token {
    char text[TOKEN_LEN + 1];
    char digest[DIGEST_TEXT_LEN + 1];
    char id[TOKEN_ID_LEN + 1];
};

/* `id`: of a credential that is there; NULL: of a new one. */
static bool make_token(struct new_token *token, const char *id)
{
    uint8_t random[TOKEN_RANDOM_LEN];
    struct digest digest;
    if (!cli_random(random, sizeof random))
        return false;
    token_write(random, id, token->text);
    explicit_bzero(random, sizeof random);
    digest_make(token->text, TOKEN_LEN, &digest);
    digest_format(&digest, token->digest);
    memcpy(token->id, token_id(token->text, TOKEN_LEN), TOKEN_ID_LEN);
    token->id[TOKEN_ID_LEN] = '\0';
    return true;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int ask(struct cli *cli, const char *command, const char *field, const char *text,
               size_t len, struct cli_answer *answer)
{
    uint8_t bytes[QUESTION_LEN];
    struct mp_writer question;
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, text != NULL);
    if (text != NULL) {
        mp_put_str(&question, field);
        mp_put_strn(&question, text, len);
    }
    ASSERT(!question.failed); /* the arguments are bounded */
    return cli_answer_ask(cli, command, &question, cli->timeout_ms, answer);
}

static int ask_and_show(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    const bool lists = arguments->command == CLI_CREDENTIAL_LIST;
    const char *text = lists ? arguments->after : arguments->name;
    struct cli_answer answer;
    const int code =
        ask(cli, lists ? "credential.list" : "credential.show", lists ? "after" : "credential",
            text, lists ? (text != NULL ? strlen(text) : 0) : arguments->name_len, &answer);
    const int status =
        code == 0 ? cli_answer_show(cli, &answer) : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void put_made(struct mp_writer *writer, void *from)
{
    const struct new_token *token = from;
    mp_put_map(writer, 2);
    mp_put_str(writer, "token");
    mp_put_str(writer, token->text);
    mp_put_str(writer, "id");
    mp_put_str(writer, token->id);
}

/* The token alone, for people, files and programs; with its id where it is asked for in a form. */
static int show_token(struct cli *cli, struct new_token *token)
{
    if (cli->arguments->output != CLI_TABLE)
        return cli_answer_show_made(cli, SHOWN_LEN, put_made, token);
    cli_text_format(&cli->text, "%s\n", token->text);
    cli_complain("keep it: it is shown this once, and nobody can find it out again");
    return cli_flush(cli);
}

/* A token that may be in force is shown, too: else nobody would have it. */
static int end(struct cli *cli, int status, struct new_token *token)
{
    if (status == CLI_EXIT_OK)
        return show_token(cli, token);
    if (status == CLI_EXIT_UNREACHABLE || status == CLI_EXIT_DENIED) {
        cli_complain("perhaps this token is in force later; `tidegate credential list` tells");
        (void)show_token(cli, token);
    }
    return status;
}

static int create(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    struct cli_edit edit = {.command = "credential.create",
                            .note = arguments->note != NULL ? arguments->note : "",
                            .quiet = true};
    struct new_token token;
    if (!make_token(&token, NULL))
        return CLI_EXIT_UNREACHABLE;
    cli_edit_bytes(&edit, "credential", token.id, TOKEN_ID_LEN);
    cli_edit_bytes(&edit, "digest", token.digest, DIGEST_TEXT_LEN);
    cli_edit_bytes(&edit, "name", arguments->name, arguments->name_len);
    cli_edit_text(&edit, "roles", arguments->holder.roles);
    cli_edit_text(&edit, "networks", arguments->holder.networks);
    cli_edit_number(&edit, "for_ms", arguments->for_ms);
    cli_edit_number(&edit, "until_ms", arguments->until_ms);
    const int status = end(cli, cli_edit(cli, &edit), &token);
    explicit_bzero(&token, sizeof token);
    return status;
}

/* The id of the credential that is named; false after the reason was told. */
static bool find_id(struct cli *cli, char id[TOKEN_ID_LEN + 1], int *status)
{
    const struct cli_arguments *arguments = cli->arguments;
    struct cli_answer answer;
    const int code =
        ask(cli, "credential.show", "credential", arguments->name, arguments->name_len, &answer);
    *status = code == 0 ? CLI_EXIT_UNREACHABLE : cli_answer_fail(cli, code, &answer);
    id[0] = '\0';
    if (code == 0)
        cli_answer_text(&answer, "id", id, TOKEN_ID_LEN + 1);
    const bool found = token_id_ok(id, strlen(id));
    cli_answer_fini(&answer);
    return found;
}

static int rotate(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    struct cli_edit edit = {.command = "credential.rotate",
                            .note = arguments->note != NULL ? arguments->note : "",
                            .quiet = true};
    char id[TOKEN_ID_LEN + 1];
    struct new_token token;
    int status;
    if (!find_id(cli, id, &status))
        return status;
    if (!make_token(&token, id))
        return CLI_EXIT_UNREACHABLE;
    cli_edit_bytes(&edit, "credential", id, TOKEN_ID_LEN);
    cli_edit_bytes(&edit, "digest", token.digest, DIGEST_TEXT_LEN);
    cli_edit_number(&edit, "for_ms", arguments->for_ms);
    status = end(cli, cli_edit(cli, &edit), &token);
    explicit_bzero(&token, sizeof token);
    return status;
}

static int revoke(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    struct cli_edit edit = {.command = "credential.revoke",
                            .note = arguments->note != NULL ? arguments->note : ""};
    cli_edit_bytes(&edit, "credential", arguments->name, arguments->name_len);
    return cli_edit(cli, &edit);
}

int cli_credential(struct cli *cli)
{
    switch (cli->arguments->command) {
    case CLI_TOKEN_CREATE:
        return create(cli);
    case CLI_CREDENTIAL_ROTATE:
        return rotate(cli);
    case CLI_CREDENTIAL_REVOKE:
        return revoke(cli);
    default:
        return ask_and_show(cli);
    }
}
