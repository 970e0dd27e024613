/* edit.c - see edit.h. */
#include "client/cli/session/edit.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/rules_file.h"

enum {
    ID_LEN = 33,
    NOTE_LEN = 256,
    ROOM_BESIDE = 4096,
    PAUSE_MIN_MS = 5,
    PAUSE_MAX_MS = 100,
    WAIT_MS = 8000, /* a node gives an edit up earlier */
};

struct edit_run {
    const struct cli_edit *edit;
    char id[ID_LEN];
    char author[CLI_AUTHOR_LEN];
    uint8_t *bytes;
    size_t room;
    struct cli_answer answer;
};

static bool make_id(char out[ID_LEN])
{
    uint64_t half[2] = {0, 0};
    if (!cli_random(half, sizeof half))
        return false;
    (void)snprintf(out, ID_LEN, "%016" PRIx64 "%016" PRIx64, half[0], half[1]);
    return true;
}

/* user@host, without what would not be taken. */
void cli_author(const char *given, char out[CLI_AUTHOR_LEN])
{
    char host[64] = "";
    const struct passwd *user = getpwuid(geteuid());
    (void)gethostname(host, sizeof host - 1);
    if (given != NULL)
        (void)snprintf(out, CLI_AUTHOR_LEN, "%s", given);
    else
        (void)snprintf(out, CLI_AUTHOR_LEN, "%.60s@%.60s", user != NULL ? user->pw_name : "?",
                       host);
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

static int ask(struct cli *cli, struct edit_run *run)
{
    const struct cli_edit *edit = run->edit;
    struct mp_writer question;
    mp_writer_init(&question, run->bytes, run->room);
    mp_put_map(&question, 3U + edit->field_count + edit->based + (edit->document != NULL));
    mp_put_str(&question, "id");
    mp_put_str(&question, run->id);
    mp_put_str(&question, "author");
    mp_put_str(&question, run->author);
    mp_put_str(&question, "note");
    mp_put_strn(&question, edit->note, strnlen(edit->note, NOTE_LEN));
    if (edit->based) {
        mp_put_str(&question, "base");
        mp_put_uint(&question, edit->base);
    }
    for (uint32_t i = 0; i < edit->field_count; i++) {
        mp_put_str(&question, edit->fields[i].name);
        if (edit->fields[i].text != NULL)
            mp_put_strn(&question, edit->fields[i].text, edit->fields[i].len);
        else
            mp_put_uint(&question, edit->fields[i].number);
    }
    if (edit->document != NULL)
        cli_rules_put(&question, edit->document);
    ASSERT(!question.failed);
    const int timeout_ms =
        edit->document != NULL
            ? cli_rules_timeout(edit->document, cli->timeout_ms, cli->arguments->timeout_ms)
            : cli->timeout_ms;
    return cli_answer_ask(cli, edit->command, &question, timeout_ms, &run->answer);
}

static int ask_state(struct cli *cli, struct edit_run *run)
{
    uint8_t bytes[64];
    struct mp_writer question;
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, 1);
    mp_put_str(&question, "id");
    mp_put_str(&question, run->id);
    return cli_answer_ask(cli, "edit.state", &question, cli->timeout_ms, &run->answer);
}

static bool waits(const struct cli_answer *answer)
{
    char state[32];
    cli_answer_text(answer, "state", state, sizeof state);
    return strcmp(state, "waiting") == 0;
}

/* Prints what became of it. */
static int show(struct cli *cli, const struct cli_edit *edit, const struct cli_answer *answer)
{
    char state[32];
    char message[CLI_SENTENCE_LEN];
    const unsigned long long version = cli_answer_uint(answer, "version");
    cli_answer_text(answer, "state", state, sizeof state);
    cli_answer_text(answer, "message", message, sizeof message);
    const bool done = strcmp(state, "done") == 0;
    int status = CLI_EXIT_OK;
    if (done && edit->quiet)
        return status;
    if (cli->arguments->output != CLI_TABLE) {
        status = cli_answer_show(cli, answer);
    } else if (done && message[0] != '\0') { /* there was nothing to do */
        cli_text_shown(&cli->text, message, strlen(message));
        cli_text_str(&cli->text, "\n");
        status = cli_flush(cli);
    } else if (done) {
        cli_text_format(&cli->text,
                        cli_answer_true(answer, "changed") ? "done: version %llu\n"
                                                           : "nothing to change: version %llu\n",
                        version);
        status = cli_flush(cli);
    }
    if (done)
        return status;
    cli_complain("%s", message[0] != '\0' ? message : "the change is not decided in time");
    return strcmp(state, "conflict") == 0 ? CLI_EXIT_INVALID : CLI_EXIT_UNREACHABLE;
}

/* Whether the node may yet answer, or another one knows it. */
static bool may_recover(int code, bool begun)
{
    return begun && (cli_exit_of(code) == CLI_EXIT_UNREACHABLE || code == TG_ENOTFOUND);
}

static int wait_for(struct cli *cli, struct edit_run *run)
{
    const int64_t deadline_ms = cli_now_ms() + WAIT_MS;
    int64_t pause_ms = PAUSE_MIN_MS;
    bool begun = false;
    int code = ask(cli, run);
    while (cli_now_ms() < deadline_ms &&
           (code == 0 ? waits(&run->answer) : may_recover(code, begun))) {
        begun = true;
        cli_pause_ms(pause_ms);
        pause_ms = 2 * pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS;
        const bool unknown = code == TG_ENOTFOUND; /* another node was asked: tell it */
        cli_answer_fini(&run->answer);
        code = unknown ? ask(cli, run) : ask_state(cli, run);
    }
    if (code != 0)
        return cli_answer_fail(cli, code, &run->answer);
    return show(cli, run->edit, &run->answer);
}

void cli_edit_bytes(struct cli_edit *edit, const char *name, const char *text, size_t len)
{
    ASSERT(edit->field_count < CLI_EDIT_FIELDS_MAX);
    if (text != NULL)
        edit->fields[edit->field_count++] = (struct cli_edit_field){name, text, len, 0};
}

void cli_edit_text(struct cli_edit *edit, const char *name, const char *text)
{
    cli_edit_bytes(edit, name, text, text != NULL ? strlen(text) : 0);
}

void cli_edit_number(struct cli_edit *edit, const char *name, uint64_t number)
{
    ASSERT(edit->field_count < CLI_EDIT_FIELDS_MAX);
    if (number != 0)
        edit->fields[edit->field_count++] = (struct cli_edit_field){name, NULL, 0, number};
}

int cli_edit(struct cli *cli, const struct cli_edit *edit)
{
    struct edit_run run = {.edit = edit, .room = ROOM_BESIDE};
    ASSERT(edit->field_count <= CLI_EDIT_FIELDS_MAX);
    for (uint32_t i = 0; i < edit->field_count; i++)
        run.room += edit->fields[i].len + 64;
    run.room += edit->document != NULL ? edit->document->len : 0;
    run.bytes = alloc_get(alloc_heap(), run.room);
    if (run.bytes == NULL)
        return cli_fail(cli, TG_ENOMEM, "out of memory");
    int status = CLI_EXIT_UNREACHABLE;
    cli_author(cli->arguments->author, run.author);
    if (make_id(run.id))
        status = wait_for(cli, &run);
    cli_answer_fini(&run.answer);
    alloc_put(alloc_heap(), run.bytes, run.room);
    return status;
}
