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

enum { QUESTION_LEN = 512, SHOWN_LEN = 1024, SHOWN_TOKENS_MAX = 32 };

struct new_token {
    char text[TOKEN_LEN + 1];
    char digest[DIGEST_TEXT_LEN + 1];
    char id[TOKEN_ID_LEN + 1];
};

/* Of a credential that is there: a token has its id, whatever the bits. */
static bool make_token(struct new_token *token, const char *id)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t random[TOKEN_RANDOM_LEN];
    struct digest digest;
    if (!cli_random(random, sizeof random))
        return false;
    for (size_t i = 0; id != NULL && i < TOKEN_ID_LEN; i++)
        random[i] = (uint8_t)(strchr(digits, id[i]) - digits);
    token_write(random, token->text);
    explicit_bzero(random, sizeof random);
    digest_make(token->text, TOKEN_LEN, &digest);
    digest_format(&digest, token->digest);
    memcpy(token->id, token_id(token->text, TOKEN_LEN), TOKEN_ID_LEN);
    token->id[TOKEN_ID_LEN] = '\0';
    return true;
}

static void add_text(struct cli_edit *edit, const char *name, const char *text, size_t len)
{
    ASSERT(edit->field_count < CLI_EDIT_FIELDS_MAX);
    if (text != NULL)
        edit->fields[edit->field_count++] = (struct cli_edit_field){name, text, len, 0};
}

static void add_number(struct cli_edit *edit, const char *name, uint64_t number)
{
    ASSERT(edit->field_count < CLI_EDIT_FIELDS_MAX);
    if (number != 0)
        edit->fields[edit->field_count++] = (struct cli_edit_field){name, NULL, 0, number};
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

/* The token alone where it goes to a file or a program; people are shown whose it is. */
static int show_token(struct cli *cli, const struct new_token *token)
{
    const struct cli_arguments *arguments = cli->arguments;
    uint8_t bytes[SHOWN_LEN];
    struct mp_token tokens[SHOWN_TOKENS_MAX];
    struct mp_writer writer;
    const struct {
        const char *name;
        const char *text;
    } fields[] = {{"token", token->text}, {"id", token->id}};
    mp_writer_init(&writer, bytes, sizeof bytes);
    mp_put_map(&writer, sizeof fields / sizeof *fields);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        mp_put_str(&writer, fields[i].name);
        mp_put_str(&writer, fields[i].text);
    }
    ASSERT(!writer.failed);
    const int count = mp_parse(bytes, writer.len, tokens, SHOWN_TOKENS_MAX);
    ASSERT(count > 0);
    if (arguments->output == CLI_JSON) {
        cli_json(&cli->text, tokens, (size_t)count);
        cli_text_str(&cli->text, "\n");
    } else if (arguments->output == CLI_YAML) {
        cli_yaml(&cli->text, tokens, (size_t)count, false);
    } else {
        cli_text_format(&cli->text, "%s\n", token->text);
        cli_complain("keep it: it is shown this once, and nobody can find it out again");
    }
    explicit_bzero(bytes, sizeof bytes);
    return cli_flush(cli);
}

/* A token that may be in force is shown, too: else nobody would have it. */
static int end(struct cli *cli, int status, const struct new_token *token)
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
    add_text(&edit, "credential", token.id, TOKEN_ID_LEN);
    add_text(&edit, "digest", token.digest, DIGEST_TEXT_LEN);
    add_text(&edit, "name", arguments->name, arguments->name_len);
    add_text(&edit, "roles", arguments->holder.roles, strlen(arguments->holder.roles));
    add_text(&edit, "networks", arguments->holder.networks,
             arguments->holder.networks != NULL ? strlen(arguments->holder.networks) : 0);
    add_number(&edit, "for_ms", arguments->for_ms);
    add_number(&edit, "until_ms", arguments->until_ms);
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
    add_text(&edit, "credential", id, TOKEN_ID_LEN);
    add_text(&edit, "digest", token.digest, DIGEST_TEXT_LEN);
    add_number(&edit, "for_ms", arguments->for_ms);
    status = end(cli, cli_edit(cli, &edit), &token);
    explicit_bzero(&token, sizeof token);
    return status;
}

static int revoke(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    struct cli_edit edit = {.command = "credential.revoke",
                            .note = arguments->note != NULL ? arguments->note : ""};
    add_text(&edit, "credential", arguments->name, arguments->name_len);
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
