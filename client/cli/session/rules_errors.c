/* rules_errors.c - what is wrong, or odd, in a text of rules, said as compilers do.
 *
 *   FILE:LINE:COLUMN: message          an error: the text was refused
 *   FILE:LINE: warning: message        the text is good, but probably does not mean it
 *
 * Both come from a node's answer or from node/policy, which judges the same here as there.
 */
#include "client/cli/session/rules_errors.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mp_walk.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/compile/policy_errors.h"
#include "node/policy/compile/policy_warnings.h"
#include "node/zones/zones.h"

enum { PLACE_LEN = 4096 + 512 };

/* Adds FILE:LINE; of a directory the file that the line is of. */
static void add_place(struct cli_text *text, const struct cli_rules_file *file, uint64_t line)
{
    char place[PLACE_LEN];
    (void)rules_source_place(file->path, &file->source, (uint32_t)line, place, sizeof place);
    cli_text_shown(text, place, strlen(place));
}

static void refuse_place(const struct cli_rules_file *file, uint64_t line, uint64_t column,
                         const char *message)
{
    struct cli_text text;
    cli_text_init(&text);
    add_place(&text, file, line);
    cli_text_format(&text, ":%llu: ", (unsigned long long)column);
    cli_text_shown(&text, message, strlen(message));
    cli_text_str(&text, "\n");
    if (!text.failed)
        (void)fwrite(text.data, 1, text.len, stderr);
    cli_text_fini(&text);
}

int cli_refuse_answer(const struct cli_rules_file *file, const struct cli_answer *answer)
{
    struct mp_cursor cursor = {.at = 0};
    char message[POLICY_WARNING_LEN];
    const uint32_t count = cli_answer_find(answer, "errors", &cursor) ? mp_get_array(&cursor) : 0;
    const uint64_t more = cli_answer_uint(answer, "more");
    size_t row = cursor.at;
    if (count == 0) { /* a node of a release that tells the first one */
        cli_answer_text(answer, "message", message, sizeof message);
        refuse_place(file, cli_answer_uint(answer, "line"), cli_answer_uint(answer, "column"),
                     message);
        return CLI_EXIT_INVALID;
    }
    for (uint32_t i = 0; i < count && row < answer->count; i++) {
        if (answer->tokens[row].type != MP_MAP)
            break;
        const struct mp_token *line = cli_answer_value(answer, row, "line");
        const struct mp_token *column = cli_answer_value(answer, row, "column");
        mp_text_of(cli_answer_value(answer, row, "message"), message, sizeof message);
        refuse_place(file, line != NULL && line->type == MP_UINT ? line->uint : 0,
                     column != NULL && column->type == MP_UINT ? column->uint : 0, message);
        row = cli_token_next(answer, row);
    }
    if (more > 0)
        cli_complain("%s: and %llu errors more", file->path, (unsigned long long)more);
    return CLI_EXIT_INVALID;
}

int cli_refuse_text(const struct cli_rules_file *file)
{
    struct policy_errors *errors = alloc_get(alloc_heap(), sizeof *errors);
    if (errors == NULL) {
        cli_complain("out of memory to judge %s", file->path);
        return CLI_EXIT_INVALID;
    }
    policy_errors_find(file->source.text, file->source.len, alloc_heap(), zones_system(), errors);
    for (uint32_t i = 0; i < errors->count; i++)
        refuse_place(file, errors->list[i].line, errors->list[i].column, errors->list[i].message);
    if (errors->more > 0)
        cli_complain("%s: and %u errors more", file->path, errors->more);
    alloc_put(alloc_heap(), errors, sizeof *errors);
    return CLI_EXIT_INVALID;
}

/* ---- warnings -------------------------------------------------------------------------------- */

static void tell_warning(const struct cli_rules_file *file, uint64_t line, const char *message)
{
    struct cli_text text;
    cli_text_init(&text);
    add_place(&text, file, line);
    cli_text_str(&text, ": warning: ");
    cli_text_shown(&text, message, strlen(message));
    cli_text_str(&text, "\n");
    if (!text.failed)
        (void)fwrite(text.data, 1, text.len, stderr);
    cli_text_fini(&text);
}

void cli_warn_answer(const struct cli_rules_file *file, const struct cli_answer *answer)
{
    struct mp_cursor cursor = {.at = 0};
    const uint32_t count = cli_answer_find(answer, "warnings", &cursor) ? mp_get_array(&cursor) : 0;
    size_t row = cursor.at;
    for (uint32_t i = 0; i < count && !cursor.failed && row < answer->count; i++) {
        char message[POLICY_WARNING_LEN];
        if (answer->tokens[row].type != MP_MAP)
            return;
        const struct mp_token *line = cli_answer_value(answer, row, "line");
        mp_text_of(cli_answer_value(answer, row, "message"), message, sizeof message);
        tell_warning(file, line != NULL && line->type == MP_UINT ? line->uint : 0, message);
        row = cli_token_next(answer, row);
    }
}

void cli_warn_rules(const struct cli_rules_file *file)
{
    struct policy_error error;
    struct policy *policy;
    struct policy_warning *found = alloc_array(alloc_heap(), POLICY_WARNINGS_MAX, sizeof *found);
    if (found != NULL && policy_compile_zoned(file->source.text, file->source.len, alloc_heap(),
                                              zones_system(), &policy, &error) == 0) {
        const int count = policy_warnings(policy, alloc_heap(), found, POLICY_WARNINGS_MAX);
        ASSERT(count <= POLICY_WARNINGS_MAX);
        for (int i = 0; i < count; i++)
            tell_warning(file, found[i].line, found[i].message);
        policy_free(&policy);
    }
    alloc_put(alloc_heap(), found, POLICY_WARNINGS_MAX * sizeof *found);
}
