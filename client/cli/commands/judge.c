/* judge.c - rules validate, rules explain: what rules mean, by the code that nodes run.
 *
 *   FILE --policy_compile--> policy --policy_explain--> report --> JSON, YAML or table
 *
 * Both work on a file without any node. A node is asked only if it is named: to validate, because
 * a node of another version may judge otherwise; to explain, because the rules in force are its.
 *
 * JUDGE-1  The answer has one shape, whether a node gave it or it was found here.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/cli/commands/commands.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/rules_errors.h"
#include "client/cli/session/rules_file.h"
#include "client/protocol/wire.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/compile/policy_errors.h"
#include "node/policy/compile/policy_report.h"
#include "node/policy/compile/policy_warnings.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy.h"
#include "node/zones/zones.h"

enum {
    VERDICT_LEN = 1024 + POLICY_ERRORS_PUT_MAX + POLICY_WARNINGS_MAX * (POLICY_WARNING_LEN + 32),
    QUESTION_LEN = TG_ATTRIBUTES_MAX * (TG_ATTRIBUTE_NAME_MAX + TG_VALUE_MAX + 16) + 64,
    REPORT_LEN = 16 * 1024, /* and so much for every rule */
    REPORT_RULE_LEN = 1024
};

bool cli_judges_offline(const struct cli_arguments *arguments)
{
    if (arguments->command == CLI_RULES_IMPORT)
        return true;
    if (arguments->command == CLI_RULES_VALIDATE)
        return arguments->endpoints == NULL;
    return arguments->command == CLI_RULES_EXPLAIN && arguments->file != NULL;
}

/* ---- validate -------------------------------------------------------------------------------- */

static void put_warnings(struct mp_writer *writer, const struct policy *policy)
{
    struct policy_warning *found = alloc_array(alloc_heap(), POLICY_WARNINGS_MAX, sizeof *found);
    const int count =
        found != NULL ? policy_warnings(policy, alloc_heap(), found, POLICY_WARNINGS_MAX) : 0;
    ASSERT(count <= POLICY_WARNINGS_MAX);
    policy_warnings_put(writer, found, count > 0 ? (size_t)count : 0);
    alloc_put(alloc_heap(), found, POLICY_WARNINGS_MAX * sizeof *found);
}

static int judge_rules(struct cli *cli, const struct cli_rules_file *file,
                       const struct cli_answer *answer)
{
    const bool ok = cli_answer_true(answer, "ok");
    int status = CLI_EXIT_OK;
    if (cli->arguments->output != CLI_TABLE) {
        status = cli_answer_show(cli, answer);
    } else if (ok) {
        const uint64_t rules = cli_answer_uint(answer, "rules");
        cli_text_shown(&cli->text, file->path, strlen(file->path));
        cli_text_format(&cli->text, ": ok, %llu %s\n", (unsigned long long)rules,
                        rules == 1 ? "rule" : "rules");
        status = cli_flush(cli);
    }
    if (ok) {
        cli_warn_answer(file, answer);
        return status;
    }
    return cli_refuse_answer(file, answer);
}

/* The verdict on a file, as a node would give it. */
static void put_verdict(struct mp_writer *writer, const struct cli_rules_file *file)
{
    struct policy_error error;
    struct policy *policy;
    char digest[24];
    const int result = policy_compile_zoned(file->source.text, file->source.len, alloc_heap(),
                                            zones_system(), &policy, &error);
    mp_put_map(writer, result == 0 ? 4 : 6);
    mp_put_str(writer, "ok");
    mp_put_bool(writer, result == 0);
    if (result == 0) {
        (void)snprintf(digest, sizeof digest, "%016llx", (unsigned long long)policy_digest(policy));
        mp_put_str(writer, "rules");
        mp_put_uint(writer, policy_rule_count(policy));
        mp_put_str(writer, "digest");
        mp_put_str(writer, digest);
        put_warnings(writer, policy);
        policy_free(&policy);
        return;
    }
    mp_put_str(writer, "line");
    mp_put_uint(writer, error.line);
    mp_put_str(writer, "column");
    mp_put_uint(writer, error.column);
    mp_put_str(writer, "message");
    mp_put_str(writer, error.message);
    struct policy_errors *errors = alloc_get(alloc_heap(), sizeof *errors);
    if (errors != NULL)
        policy_errors_find(file->source.text, file->source.len, alloc_heap(), zones_system(),
                           errors);
    policy_errors_put(writer, errors);
    alloc_put(alloc_heap(), errors, sizeof *errors);
}

static int validate_here(struct cli *cli)
{
    struct cli_rules_file file;
    struct cli_answer answer;
    struct mp_writer writer;
    uint8_t bytes[VERDICT_LEN];
    struct packed packed = {.data = NULL};
    int status = CLI_EXIT_INVALID;
    if (!cli_rules_read(cli->arguments->file, POLICY_FILE_LEN_MAX, &file))
        return status;
    mp_writer_init(&writer, bytes, sizeof bytes);
    put_verdict(&writer, &file);
    if (cli_answer_from(&writer, &answer) &&
        (!cli_answer_true(&answer, "ok") ||
         cli_rules_pack(cli->arguments->file, file.source.text, file.source.len, &packed))) {
        status = judge_rules(cli, &file, &answer);
        packed_fini(&packed, alloc_heap());
    }
    cli_answer_fini(&answer);
    cli_rules_fini(&file);
    return status;
}

static int validate_there(struct cli *cli)
{
    const size_t room = (size_t)POLICY_DOCUMENT_LEN_MAX + 64;
    struct cli_rules_file file;
    struct cli_answer answer;
    struct mp_writer question;
    int status = CLI_EXIT_INVALID;
    struct packed packed = {.data = NULL};
    if (!cli_rules_read(cli->arguments->file, POLICY_FILE_LEN_MAX, &file))
        return status;
    uint8_t *bytes = alloc_get(alloc_heap(), room);
    if (bytes == NULL) {
        cli_complain("out of memory to ask about %s", cli->arguments->file);
    } else if (cli_rules_pack(cli->arguments->file, file.source.text, file.source.len, &packed)) {
        mp_writer_init(&question, bytes, room);
        mp_put_map(&question, 1);
        cli_rules_put(&question, &packed);
        ASSERT(!question.failed); /* by the bound of cli_rules_pack */
        const int timeout_ms =
            cli_rules_timeout(&packed, cli->timeout_ms, cli->arguments->timeout_ms);
        const int code = cli_answer_ask(cli, "rules.validate", &question, timeout_ms, &answer);
        status = code == 0 ? judge_rules(cli, &file, &answer) : cli_answer_fail(cli, code, &answer);
        cli_answer_fini(&answer);
    }
    alloc_put(alloc_heap(), bytes, room);
    packed_fini(&packed, alloc_heap());
    cli_rules_fini(&file);
    return status;
}

/* ---- explain --------------------------------------------------------------------------------- */

static int show_report(struct cli *cli, const struct policy *policy,
                       const struct policy_result *result, const struct policy_reason *reasons,
                       uint8_t *bytes, size_t room)
{
    struct cli_answer answer;
    struct mp_writer writer;
    int status = CLI_EXIT_INVALID;
    mp_writer_init(&writer, bytes, room);
    policy_report_put(&writer, policy, result, reasons, false, SIZE_MAX);
    mp_put_nil(&writer); /* what is blocked, only a node knows */
    if (cli_answer_from(&writer, &answer))
        status = cli_answer_show(cli, &answer);
    cli_answer_fini(&answer);
    return status;
}

/* Each value may be short enough, and all together too long (policy_resolve). */
static void complain_of_bounds(const struct policy_attribute *attributes, size_t count)
{
    char sentence[REPORT_RULE_LEN];
    policy_bounds_format(attributes, count, sentence, sizeof sentence);
    cli_complain("rules explain: %s", sentence);
}

/* Explains the request by a compiled file, and shows it. */
static int explain_by(struct cli *cli, const struct policy *policy)
{
    const struct cli_arguments *arguments = cli->arguments;
    const size_t count = policy_rule_count(policy);
    const size_t room = REPORT_LEN + count * REPORT_RULE_LEN;
    struct policy_attribute attributes[TG_ATTRIBUTES_MAX];
    struct policy_reason *reasons = alloc_array(alloc_heap(), count + 1, sizeof *reasons);
    uint8_t *bytes = alloc_get(alloc_heap(), room);
    struct policy_result result;
    int status = CLI_EXIT_INVALID;
    ASSERT(arguments->attribute_count <= TG_ATTRIBUTES_MAX);
    for (size_t i = 0; i < arguments->attribute_count; i++)
        attributes[i] = (struct policy_attribute){
            arguments->attributes[i].name, strlen(arguments->attributes[i].name),
            arguments->attributes[i].value, strlen(arguments->attributes[i].value)};
    if (reasons == NULL || bytes == NULL) {
        cli_complain("out of memory to explain %zu rules", count);
    } else {
        const int code =
            policy_explain(policy, attributes, arguments->attribute_count, &result, reasons);
        if (code == 0)
            status = show_report(cli, policy, &result, reasons, bytes, room);
        else
            complain_of_bounds(attributes, arguments->attribute_count);
    }
    alloc_put(alloc_heap(), bytes, room);
    alloc_put(alloc_heap(), reasons, (count + 1) * sizeof *reasons);
    return status;
}

static int explain_here(struct cli *cli)
{
    const char *path = cli->arguments->file;
    struct cli_rules_file file;
    struct policy_error error;
    struct policy *policy;
    if (!cli_rules_read(path, POLICY_FILE_LEN_MAX, &file))
        return CLI_EXIT_INVALID;
    const int result = policy_compile_zoned(file.source.text, file.source.len, alloc_heap(),
                                            zones_system(), &policy, &error);
    if (result != 0)
        (void)cli_refuse_text(&file);
    cli_rules_fini(&file);
    if (result != 0)
        return CLI_EXIT_INVALID;
    const int status = explain_by(cli, policy);
    policy_free(&policy);
    return status;
}

static int explain_there(struct cli *cli)
{
    uint8_t bytes[QUESTION_LEN];
    struct cli_answer answer;
    struct mp_writer question;
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, 1);
    cli_put_attributes(&question, cli->arguments);
    ASSERT(!question.failed); /* arguments.c bounds what goes in */
    const int code = cli_answer_ask(cli, "rules.explain", &question, cli->timeout_ms, &answer);
    const int status =
        code == 0 ? cli_answer_show(cli, &answer) : cli_answer_fail(cli, code, &answer);
    cli_answer_fini(&answer);
    return status;
}

int cli_judge(struct cli *cli)
{
    const bool here = cli_judges_offline(cli->arguments);
    if (cli->arguments->command == CLI_RULES_VALIDATE)
        return here ? validate_here(cli) : validate_there(cli);
    return here ? explain_here(cli) : explain_there(cli);
}
