/* quota.c - quota set, show, list, delete: what is set for one user.
 *
 *   quota show             quota.show ----------------> the record ----+
 *                          peek user=USER, explained -> its limits ----+--> one document
 *                          quota.show of all members -> totals.h ------+
 *   quota set --dry-run    quota.set ----> the record as it would be
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/cli/commands/commands.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/edit.h"
#include "client/cli/session/totals.h"

enum {
    QUESTION_LEN = TG_VALUE_MAX + 64,
    TRIAL_LEN = 4 * TG_VALUE_MAX + CLI_LIMITS_LEN,
    STATE_LEN = TG_EXPLAIN_MAX * 512
};

/* Shows the record as it would be: the same question as a change, answered at once. */
static int try(struct cli *cli, const struct cli_edit *edit)
{
    uint8_t bytes[TRIAL_LEN];
    struct cli_answer answer;
    struct mp_writer question;
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, edit->field_count + 1);
    mp_put_str(&question, "dry_run");
    mp_put_uint(&question, 1);
    for (uint32_t i = 0; i < edit->field_count; i++) {
        const struct cli_edit_field *field = &edit->fields[i];
        mp_put_str(&question, field->name);
        if (field->text != NULL)
            mp_put_strn(&question, field->text, field->len);
        else
            mp_put_uint(&question, field->number);
    }
    if (question.failed)
        return cli_fail(cli, TG_ETOOBIG, "what is to be set is too long");
    const int code = cli_answer_ask(cli, edit->command, &question, cli->timeout_ms, &answer);
    const int status =
        code == 0 ? cli_answer_show(cli, &answer) : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

static int change(struct cli *cli, const char *command)
{
    const struct cli_arguments *arguments = cli->arguments;
    const struct cli_quota *quota = &arguments->quota;
    struct cli_edit edit = {.command = command,
                            .note = arguments->note != NULL ? arguments->note : ""};
    cli_edit_text(&edit, "user", quota->user);
    cli_edit_text(&edit, "tier", quota->tier);
    cli_edit_text(&edit, "limits", quota->limits[0] != '\0' ? quota->limits : NULL);
    cli_edit_number(&edit, "burst", quota->burst);
    cli_edit_text(&edit, "block", quota->block);
    cli_edit_number(&edit, "for_ms", arguments->for_ms);
    cli_edit_number(&edit, "until_ms", arguments->until_ms);
    cli_edit_number(&edit, "unblock", quota->unblock);
    cli_edit_text(&edit, "notes", quota->notes);
    cli_edit_number(&edit, "clear", quota->clear);
    return arguments->dry_run ? try(cli, &edit) : cli_edit(cli, &edit);
}

/* A question with one text, or with nothing. */
static void begin_question(struct mp_writer *question, uint8_t bytes[QUESTION_LEN],
                           const char *name, const char *text)
{
    mp_writer_init(question, bytes, QUESTION_LEN);
    mp_put_map(question, text != NULL);
    if (text != NULL) {
        mp_put_str(question, name);
        mp_put_str(question, text);
    }
    ASSERT(!question->failed); /* arguments.c bounds what goes in */
}

static int list(struct cli *cli)
{
    uint8_t bytes[QUESTION_LEN];
    struct cli_answer answer;
    struct mp_writer question;
    begin_question(&question, bytes, "after", cli->arguments->after);
    const int code = cli_answer_ask(cli, "quota.list", &question, cli->timeout_ms, &answer);
    const int status = code == 0 ? cli_totals_show(cli, "quota.list", "user", &question, &answer)
                                 : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

static void put_number(struct mp_writer *writer, const char *name, int64_t number)
{
    mp_put_str(writer, name);
    mp_put_int(writer, number);
}

static void put_state(struct mp_writer *writer, const tg_explain_t *rows, size_t count)
{
    enum { ROW_FIELDS = 7 };
    mp_put_str(writer, "state");
    mp_put_array(writer, count);
    for (size_t i = 0; i < count; i++) {
        mp_put_map(writer, ROW_FIELDS);
        mp_put_str(writer, "rule");
        mp_put_str(writer, rows[i].rule);
        mp_put_str(writer, "window");
        mp_put_str(writer, rows[i].window);
        put_number(writer, "limit", (int64_t)rows[i].limit);
        put_number(writer, "used", (int64_t)rows[i].used);
        put_number(writer, "remaining", (int64_t)rows[i].remaining);
        put_number(writer, "reset_after_ms", rows[i].reset_after_ms);
        put_number(writer, "retry_after_ms", rows[i].retry_after_ms);
    }
}

/* Shows the record with the state behind its fields. */
static int show_joined(struct cli *cli, const struct mp_writer *question,
                       const struct cli_answer *record, const tg_explain_t *rows, size_t count)
{
    const size_t room = record->reply.len + STATE_LEN;
    uint8_t *bytes = alloc_get(alloc_heap(), room);
    struct cli_answer joined;
    struct mp_writer writer;
    int status = CLI_EXIT_INVALID;
    if (bytes == NULL)
        return cli_fail(cli, TG_ENOMEM, "out of memory");
    mp_writer_init(&writer, bytes, room);
    if (!cli_answer_extend(record, 1, &writer)) {
        cli_complain("the node answered quota.show with something else than a map");
    } else {
        put_state(&writer, rows, count);
        if (cli_answer_from(&writer, &joined))
            status = cli_totals_show(cli, "quota.show", "user", question, &joined);
        cli_answer_fini(&joined);
    }
    alloc_put(alloc_heap(), bytes, room);
    return status;
}

static int show(struct cli *cli)
{
    tg_explain_t rows[TG_EXPLAIN_MAX];
    tg_decision_t decision;
    uint8_t bytes[QUESTION_LEN];
    struct cli_answer record;
    struct mp_writer question;
    begin_question(&question, bytes, "user", cli->arguments->quota.user);
    int code = cli_answer_ask(cli, "quota.show", &question, cli->timeout_ms, &record);
    int status;
    if (code != 0) {
        status = cli_answer_fail(cli, code, &record);
    } else {
        tg_request_t request = tg_request(cli->arguments->attributes, 1);
        request.explain = rows;
        request.explain_max = TG_EXPLAIN_MAX;
        code = tg_peek(cli->client, &request, &decision);
        status = code == 0 ? show_joined(cli, &question, &record, rows, decision.explain_count)
                           : cli_fail(cli, code, "");
    }
    cli_answer_fini(&record);
    return status;
}

int cli_quota(struct cli *cli)
{
    switch (cli->arguments->command) {
    case CLI_QUOTA_SET:
        return change(cli, "quota.set");
    case CLI_QUOTA_DELETE:
        return change(cli, "quota.delete");
    case CLI_QUOTA_LIST:
        return list(cli);
    default:
        ASSERT(cli->arguments->command == CLI_QUOTA_SHOW);
        return show(cli);
    }
}
