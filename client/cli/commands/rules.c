/* rules.c - rules show, diff, apply, delete, history, rollback, and pools set: the cluster's rules,
 * and their change.
 *
 *   apply FILE --------- text --+
 *   delete NAME    text without-+--> diff shown --> asked --> edit, by an id --> asked until it is
 *   rollback VERSION  old text -+    (--dry-run)    (--yes)                      decided
 *   pools set NAME  text with --+
 *
 * What is changed in a document is changed here, by the code that nodes compile it with: parsing a
 * large one takes a while, and a node has others to answer.
 *
 * A change is based on the version that was shown, and what was made of a document, on the version
 * of that: if somebody else has changed the rules since, it is refused, and nothing is lost. Asked
 * again with its id an edit is not made again, so a question without an answer is simply asked once
 * more.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mp_walk.h"
#include "client/cli/commands/commands.h"
#include "client/cli/output/diff.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/edit.h"
#include "client/cli/session/rules_errors.h"
#include "client/cli/session/rules_file.h"
#include "node/policy/compile/pool_edit.h"
#include "node/policy/compile/rule_removal.h"
#include "node/zones/zones.h"

enum { ROOM_BESIDE = 2048 };

struct document {
    char *text; /* POLICY_FILE_LEN_MAX + 1 bytes */
    size_t len;
    struct packed kept; /* the same as it is sent, which may point into it */
    const char *path;   /* what it is called where it is refused */
    bool joined;        /* it is of a directory */
    bool edited;        /* made of the newest document, which was of version `base`, 0: none */
    uint64_t base;
    char note[64];
};

/* ---- asking ---------------------------------------------------------------------------------- */

int cli_rules_ask(struct cli *cli, uint64_t version, struct cli_answer *answer)
{
    uint8_t bytes[64];
    struct mp_writer question;
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, 1 + (version != 0));
    mp_put_str(&question, "packed");
    mp_put_bool(&question, true);
    if (version != 0) {
        mp_put_str(&question, "version");
        mp_put_uint(&question, version);
    }
    const int code = cli_answer_ask(cli, "rules.show", &question, cli->timeout_ms, answer);
    return code == 0 ? cli_answer_unpack(answer) : code;
}

static int ask_by_name(struct cli *cli, const char *command, const char *name,
                       struct cli_answer *answer)
{
    uint8_t bytes[1024];
    struct mp_writer question;
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, 1);
    mp_put_str(&question, "name");
    mp_put_strn(&question, name, strnlen(name, sizeof bytes / 2));
    ASSERT(!question.failed);
    return cli_answer_ask(cli, command, &question, cli->timeout_ms, answer);
}

static const char *text_of(const struct cli_answer *answer, size_t *len)
{
    struct mp_cursor cursor;
    *len = 0;
    const char *text = cli_answer_find(answer, "text", &cursor) ? mp_get_str(&cursor, len) : NULL;
    return text != NULL ? text : "";
}

/* ---- showing --------------------------------------------------------------------------------- */

static int show(struct cli *cli)
{
    const struct cli_arguments *arguments = cli->arguments;
    struct cli_answer answer;
    struct mp_cursor cursor;
    size_t len;
    int status;
    const int code = arguments->name != NULL
                         ? ask_by_name(cli, "rules.show", arguments->name, &answer)
                         : cli_rules_ask(cli, arguments->version, &answer);
    if (code != 0) {
        status = cli_answer_fail(cli, code, &answer);
    } else if (arguments->output != CLI_TABLE) {
        status = cli_answer_show(cli, &answer);
    } else {
        const char *field = arguments->name != NULL ? "rule" : "text";
        const char *text =
            cli_answer_find(&answer, field, &cursor) ? mp_get_str(&cursor, &len) : NULL;
        if (text != NULL)
            cli_text_add(&cli->text, text, len);
        if (text != NULL && (len == 0 || text[len - 1] != '\n'))
            cli_text_str(&cli->text, "\n");
        status = cli_flush(cli);
    }
    cli_answer_fini(&answer);
    return status;
}

static int history(struct cli *cli)
{
    struct cli_answer answer;
    const int code = cli_answer_ask(cli, "rules.history", NULL, cli->timeout_ms, &answer);
    const int status =
        code == 0 ? cli_answer_show(cli, &answer) : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

/* ---- what is to be applied ------------------------------------------------------------------- */

static int take_text(struct document *document, const struct cli_answer *answer)
{
    const char *text = text_of(answer, &document->len);
    if (document->len > POLICY_FILE_LEN_MAX)
        return TG_ETOOBIG;
    memcpy(document->text, text, document->len);
    return 0;
}

static int read_document(const char *path, struct document *document)
{
    struct cli_rules_file file;
    if (!cli_rules_read(path, POLICY_FILE_LEN_MAX, &file))
        return CLI_EXIT_INVALID;
    ASSERT(file.source.len <= POLICY_FILE_LEN_MAX);
    memcpy(document->text, file.source.text, file.source.len);
    document->path = path;
    document->len = file.source.len;
    document->joined = file.source.joined;
    cli_rules_fini(&file);
    return CLI_EXIT_OK;
}

/* The document as a file that is judged; it points into the document. */
static struct cli_rules_file file_of(const struct document *document)
{
    return (struct cli_rules_file){
        .path = document->path,
        .source = {document->text, document->len, document->joined},
    };
}

/* Says why the document in force was not edited, where that is not the command's own to say.
 * Returns an exit status. */
static int refuse_edit(struct cli *cli, int code)
{
    if (code == TG_ENOMEM)
        return cli_fail(cli, code, "out of memory");
    if (code == TG_ETOOBIG)
        cli_complain("the document with this change is larger than %d bytes",
                     (int)POLICY_FILE_LEN_MAX);
    else
        cli_complain("the rules in force are not understood by this release of tidegate: %s",
                     tg_strerror(code));
    return CLI_EXIT_INVALID;
}

/* Writes the newest document with the pool as the command says. Returns an exit status. */
static int set_pool(struct cli *cli, const char *text, size_t len, struct document *document)
{
    const struct pool_edit *edit = &cli->arguments->pool_edit;
    (void)snprintf(document->note, sizeof document->note, "pool %.40s", edit->name);
    const int code = policy_set_pool(text, len, edit, zones_system(), alloc_heap(), document->text,
                                     POLICY_FILE_LEN_MAX, &document->len);
    if (code == TG_ENOTFOUND)
        return cli_fail(cli, code, "there is no such pool yet; expected --rate for a new one");
    if (code == TG_ECONFLICT)
        return cli_fail(cli, code,
                        "the pool is each region's, and has no home; expected --scope "
                        "global with --home");
    if (code != TG_EUNSUPPORTED)
        return code == 0 ? CLI_EXIT_OK : refuse_edit(cli, code);
    cli_complain("the pool '%.64s' cannot be written into the document as it is; write it yourself "
                 "(`tidegate rules show`) and apply that (`tidegate rules apply`)",
                 edit->name);
    return CLI_EXIT_INVALID;
}

/* Writes the newest document without the rule. Returns an exit status. */
static int remove_rule(struct cli *cli, const char *text, size_t len, struct document *document)
{
    const char *name = cli->arguments->name;
    const struct policy_text rule = {name, strlen(name)};
    uint32_t line;
    (void)snprintf(document->note, sizeof document->note, "without %.40s", name);
    const int code = policy_remove_rule(text, len, &rule, zones_system(), alloc_heap(),
                                        document->text, POLICY_FILE_LEN_MAX, &document->len, &line);
    if (code == TG_ENOTFOUND)
        return cli_fail(cli, code,
                        "no rule is called so; expected a name of `tidegate rules list`");
    if (code != TG_EUNSUPPORTED)
        return code == 0 ? CLI_EXIT_OK : refuse_edit(cli, code);
    cli_complain("the rule, at line %u, cannot be taken out of the document as it is written "
                 "(another rule may use what it names with &, or the document is of the older "
                 "form); take it out yourself (`tidegate rules show`) and apply that",
                 (unsigned)line);
    return CLI_EXIT_INVALID;
}

/* Gets the newest document, and changes it. Returns an exit status. */
static int edit_document(struct cli *cli, struct document *document)
{
    static const char empty[] = "rules: []\n";
    const bool pool = cli->arguments->command == CLI_POOLS_SET;
    struct cli_answer answer;
    size_t len = sizeof empty - 1;
    int status;
    const int code = cli_rules_ask(cli, 0, &answer);
    if (code == 0 || (pool && code == TG_ENOTFOUND)) {
        const char *text = code == 0 ? text_of(&answer, &len) : empty;
        document->edited = true;
        document->base = code == 0 ? cli_answer_uint(&answer, "base") : 0;
        status = pool ? set_pool(cli, text, len, document) : remove_rule(cli, text, len, document);
        ASSERT(status != CLI_EXIT_OK || document->len <= POLICY_FILE_LEN_MAX);
    } else {
        status = cli_answer_fail(cli, code, &answer);
    }
    cli_answer_fini(&answer);
    return status;
}

/* Gets an older version. Returns an exit status. */
static int get_version(struct cli *cli, struct document *document)
{
    const uint64_t version = cli->arguments->version;
    struct cli_answer answer;
    (void)snprintf(document->note, sizeof document->note, "rollback to version %llu",
                   (unsigned long long)version);
    int code = cli_rules_ask(cli, version, &answer);
    if (code == 0)
        code = take_text(document, &answer);
    const int status = code == 0 ? CLI_EXIT_OK : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

/* Gets the document that the command is about. Returns an exit status. */
static int get_document(struct cli *cli, struct document *document)
{
    const struct cli_arguments *arguments = cli->arguments;
    document->path = "rules";
    if (arguments->file != NULL)
        return read_document(arguments->file, document);
    return arguments->command == CLI_RULES_ROLLBACK ? get_version(cli, document)
                                                    : edit_document(cli, document);
}

/* Asks what the document would change, and says so if it does not compile. Returns an exit status.
 */
static int compare(struct cli *cli, const struct document *document, struct cli_answer *answer)
{
    struct mp_writer question;
    uint8_t *bytes = alloc_get(alloc_heap(), (size_t)POLICY_DOCUMENT_LEN_MAX + ROOM_BESIDE);
    if (bytes == NULL)
        return cli_fail(cli, TG_ENOMEM, "out of memory");
    mp_writer_init(&question, bytes, (size_t)POLICY_DOCUMENT_LEN_MAX + ROOM_BESIDE);
    mp_put_map(&question, 1);
    cli_rules_put(&question, &document->kept);
    ASSERT(!question.failed); /* by the bound of cli_rules_pack */
    const int timeout_ms =
        cli_rules_timeout(&document->kept, cli->timeout_ms, cli->arguments->timeout_ms);
    const int code = cli_answer_ask(cli, "rules.diff", &question, timeout_ms, answer);
    alloc_put(alloc_heap(), bytes, (size_t)POLICY_DOCUMENT_LEN_MAX + ROOM_BESIDE);
    if (code != 0)
        return cli_answer_fail(cli, code, answer);
    if (cli_answer_true(answer, "ok"))
        return CLI_EXIT_OK;
    const struct cli_rules_file file = file_of(document);
    return cli_refuse_answer(&file, answer);
}

/* Prints, a line each, which counts of rules that change stay, begin anew or end. */
static void show_counts(struct cli *cli, const struct cli_answer *compared)
{
    char rule[POLICY_NAME_LEN_MAX + 1];
    char limit[QUANTITY_TEXT_LEN + 32];
    char count[32];
    struct mp_cursor cursor;
    if (!cli_answer_find(compared, "counts", &cursor) || mp_peek_type(&cursor) != MP_ARRAY)
        return; /* a node of an older release */
    for (uint32_t left = mp_get_array(&cursor); left > 0 && !cursor.failed; left--) {
        const size_t row = cursor.at;
        mp_skip(&cursor);
        mp_text_of(cli_answer_value(compared, row, "rule"), rule, sizeof rule);
        mp_text_of(cli_answer_value(compared, row, "limit"), limit, sizeof limit);
        mp_text_of(cli_answer_value(compared, row, "count"), count, sizeof count);
        cli_text_format(&cli->text, "  %s: the count of %s %s\n", rule, limit, count);
    }
}

/* Prints the difference to what the cluster has: lines, then how many rules. Returns an exit
 * status. */
static int show_difference(struct cli *cli, const struct document *document,
                           const struct cli_answer *compared)
{
    struct cli_answer newest;
    size_t len = 0;
    if (cli->arguments->output != CLI_TABLE)
        return cli->arguments->command == CLI_RULES_DIFF || cli->arguments->dry_run
                   ? cli_answer_show(cli, compared)
                   : CLI_EXIT_OK;
    const int code = cli_rules_ask(cli, 0, &newest);
    if (code != 0 && code != TG_ENOTFOUND) {
        const int status = cli_answer_fail(cli, code, &newest);
        cli_answer_fini(&newest);
        return status;
    }
    const char *old = code == 0 ? text_of(&newest, &len) : "";
    cli_diff(&cli->text, old, len, document->text, document->len, cli->colour);
    if (cli_answer_true(compared, "same_text"))
        cli_text_format(&cli->text, "no difference to version %llu\n",
                        (unsigned long long)cli_answer_uint(compared, "version"));
    else
        cli_text_format(
            &cli->text, "rules: %u added, %u removed, %u changed%s%s, to version %llu\n",
            (unsigned)cli_answer_uint(compared, "added_count"),
            (unsigned)cli_answer_uint(compared, "removed_count"),
            (unsigned)cli_answer_uint(compared, "changed_count"),
            cli_answer_true(compared, "order_changed") ? ", order changed" : "",
            cli_answer_true(compared, "attributes_changed") ? ", kinds of attributes changed" : "",
            (unsigned long long)cli_answer_uint(compared, "version"));
    show_counts(cli, compared);
    cli_answer_fini(&newest);
    return cli_flush(cli);
}

/* ---- applying -------------------------------------------------------------------------------- */

/* Whether what the document was made of is what it was compared with. False after complaining: it
 * would take back what somebody else has changed in between. */
static bool is_up_to_date(const struct document *document, const struct cli_answer *compared)
{
    if (!document->edited || document->base == cli_answer_uint(compared, "base"))
        return true;
    cli_complain("the rules were changed by somebody else meanwhile, to version %llu; nothing was "
                 "changed: repeat the command",
                 (unsigned long long)cli_answer_uint(compared, "version"));
    return false;
}

static int apply(struct cli *cli, const struct document *document,
                 const struct cli_answer *compared)
{
    const struct cli_arguments *arguments = cli->arguments;
    ASSERT(document->kept.len <= POLICY_DOCUMENT_LEN_MAX);
    struct cli_edit edit = {.command = "rules.apply",
                            .note = arguments->note != NULL ? arguments->note : document->note,
                            .based = true,
                            .base = cli_answer_uint(compared, "base"),
                            .document = &document->kept};
    return cli_edit(cli, &edit);
}

static int change(struct cli *cli, struct document *document)
{
    struct cli_answer compared = {.count = 0};
    int status = get_document(cli, document);
    if (status == CLI_EXIT_OK &&
        !cli_rules_pack(document->path, document->text, document->len, &document->kept))
        status = CLI_EXIT_INVALID;
    if (status == CLI_EXIT_OK)
        status = compare(cli, document, &compared);
    if (status == CLI_EXIT_OK && !is_up_to_date(document, &compared))
        status = CLI_EXIT_INVALID;
    const struct cli_rules_file file = file_of(document);
    if (status == CLI_EXIT_OK)
        cli_warn_rules(&file);
    if (status == CLI_EXIT_OK)
        status = show_difference(cli, document, &compared);
    const bool looks = cli->arguments->command == CLI_RULES_DIFF || cli->arguments->dry_run;
    if (status == CLI_EXIT_OK && !looks) {
        if (!cli_answer_true(&compared, "same_text"))
            status = cli_confirm(cli, "Apply this to the cluster?", ", or --dry-run to look only");
        if (status == CLI_EXIT_OK)
            status = apply(cli, document, &compared);
    }
    cli_answer_fini(&compared);
    return status;
}

int cli_rules(struct cli *cli)
{
    struct document document = {.path = "rules", .note = ""};
    if (cli->arguments->command == CLI_RULES_SHOW)
        return show(cli);
    if (cli->arguments->command == CLI_RULES_HISTORY)
        return history(cli);
    document.text = alloc_get(alloc_heap(), (size_t)POLICY_FILE_LEN_MAX + 1);
    if (document.text == NULL)
        return cli_fail(cli, TG_ENOMEM, "out of memory");
    const int status = change(cli, &document);
    packed_fini(&document.kept, alloc_heap());
    alloc_put(alloc_heap(), document.text, (size_t)POLICY_FILE_LEN_MAX + 1);
    return status;
}
