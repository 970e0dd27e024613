/* api_key.c - apikey create, list, show, revoke, delete: keys that the cluster issues.
 *
 *   create   random bits --> key --digest--> apikey.create     the key is printed, once, and is in
 *                             |                                no message: nodes get its digest
 *                             +--> standard output
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/cli/commands/commands.h"
#include "client/cli/output/document.h"
#include "client/cli/output/table.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/edit.h"
#include "client/cli/session/totals.h"
#include "node/policy/people/api_keys.h"

enum { QUESTION_LEN = 1024, SHOWN_LEN = 4096, MADE_FIELDS = 5 };

struct new_key {
    char text[API_KEY_LEN + 1];
    char digest[DIGEST_TEXT_LEN + 1];
    const char *id; /* API_KEY_ID_LEN bytes of the text */
};

static bool make_key(struct new_key *key)
{
    uint8_t random[API_KEY_ID_LEN + API_KEY_SECRET_LEN];
    struct digest digest;
    if (!cli_random(random, sizeof random))
        return false;
    api_key_write(random, key->text);
    explicit_bzero(random, sizeof random);
    digest_make(key->text, API_KEY_LEN, &digest);
    digest_format(&digest, key->digest);
    key->id = key->text + strlen(API_KEY_PREFIX);
    return true;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* By `text` if it is not NULL, and the rows behind `after` of a list. */
static void begin_question(struct mp_writer *question, uint8_t bytes[QUESTION_LEN],
                           const char *field, const char *text, size_t len, const char *after)
{
    mp_writer_init(question, bytes, QUESTION_LEN);
    mp_put_map(question, (text != NULL ? 1U : 0U) + (after != NULL ? 1U : 0U));
    if (text != NULL) {
        mp_put_str(question, field);
        mp_put_strn(question, text, len);
    }
    if (after != NULL) {
        mp_put_str(question, "after");
        mp_put_str(question, after);
    }
    ASSERT(!question->failed); /* arguments.c bounds what goes in */
}

/* Shows keys, with the totals of all members. */
static int ask_and_show(struct cli *cli, const char *field, const char *text, size_t len)
{
    uint8_t bytes[QUESTION_LEN];
    struct cli_answer answer;
    struct mp_writer question;
    const char *command =
        cli->arguments->command == CLI_APIKEY_LIST ? "apikey.list" : "apikey.show";
    begin_question(&question, bytes, field, text, len, cli->arguments->after);
    const int code = cli_answer_ask(cli, command, &question, cli->timeout_ms, &answer);
    const int status = code == 0 ? cli_totals_show(cli, command, "id", &question, &answer)
                                 : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

/* ---- creating -------------------------------------------------------------------------------- */

static void put_text(struct mp_writer *writer, const char *name, const char *text)
{
    mp_put_str(writer, name);
    mp_put_str(writer, text != NULL ? text : "");
}

struct made {
    const struct new_key *key;
    const struct cli_arguments *arguments;
};

/* The key, and what the cluster keeps of it. */
static void put_made(struct mp_writer *writer, void *from)
{
    const struct made *made = from;
    mp_put_map(writer, MADE_FIELDS);
    put_text(writer, "key", made->key->text);
    mp_put_str(writer, "id");
    mp_put_strn(writer, made->key->id, API_KEY_ID_LEN);
    put_text(writer, "name", made->arguments->name);
    put_text(writer, "owner", made->arguments->holder.owner);
    put_text(writer, "tier", made->arguments->holder.tier);
}

/* Says what the first key changes for requests that come with others. */
static void tell_first(struct cli *cli, const struct new_key *key)
{
    struct cli_answer answer;
    uint8_t bytes[QUESTION_LEN];
    struct mp_writer question;
    begin_question(&question, bytes, "key", key->id, API_KEY_ID_LEN, NULL);
    const int code = cli_answer_ask(cli, "apikey.show", &question, cli->timeout_ms, &answer);
    if (cli->arguments->output == CLI_TABLE)
        cli_complain("keep it: it is shown this once, and nobody can find it out again");
    if (code == 0 && cli_answer_uint(&answer, "keys") == 1)
        cli_complain("it is the first one: from now on requests with an api_key that was not "
                     "issued here are refused (blocked, 401)");
    cli_answer_fini(&answer);
}

static int create(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    struct cli_edit edit = {.command = "apikey.create",
                            .note = arguments->note != NULL ? arguments->note : "",
                            .quiet = true};
    struct new_key key;
    if (!make_key(&key))
        return CLI_EXIT_UNREACHABLE;
    cli_edit_bytes(&edit, "key", key.id, API_KEY_ID_LEN);
    cli_edit_bytes(&edit, "digest", key.digest, DIGEST_TEXT_LEN);
    cli_edit_text(&edit, "name", arguments->name);
    cli_edit_text(&edit, "owner", arguments->holder.owner);
    cli_edit_text(&edit, "tier", arguments->holder.tier);
    if (arguments->quota.limits[0] != '\0')
        cli_edit_text(&edit, "limits", arguments->quota.limits);
    cli_edit_number(&edit, "burst", arguments->quota.burst);
    cli_edit_number(&edit, "for_ms", arguments->for_ms);
    cli_edit_number(&edit, "until_ms", arguments->until_ms);
    int status = cli_edit(cli, &edit);
    if (status == CLI_EXIT_OK) {
        struct made made = {&key, arguments};
        status = cli_answer_show_made(cli, SHOWN_LEN, put_made, &made);
        tell_first(cli, &key);
    }
    explicit_bzero(&key, sizeof key);
    return status;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static int end(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    const bool revokes = arguments->command == CLI_APIKEY_REVOKE;
    struct cli_edit edit = {.command = revokes ? "apikey.revoke" : "apikey.delete",
                            .note = arguments->note != NULL ? arguments->note : ""};
    cli_edit_bytes(&edit, "key", arguments->name, arguments->name_len);
    cli_edit_number(&edit, "force", arguments->force);
    return cli_edit(cli, &edit);
}

int cli_api_key(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    switch (arguments->command) {
    case CLI_APIKEY_CREATE:
        return create(cli);
    case CLI_APIKEY_LIST:
        return ask_and_show(cli, "owner", arguments->holder.owner,
                            arguments->holder.owner != NULL ? strlen(arguments->holder.owner) : 0);
    case CLI_APIKEY_SHOW:
        return ask_and_show(cli, "key", arguments->name, arguments->name_len);
    default:
        return end(cli);
    }
}
