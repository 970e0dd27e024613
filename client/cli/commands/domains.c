/* domains.c - rules import, and rules explain of a descriptor: what files of another limiter mean,
 * by the code that nodes run.
 *
 *   import   FILE... --joined--> compiled --> printed as a document of ours
 *   explain  FILE, or the document in force, compiled here --> what the descriptor meets
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/cli/commands/commands.h"
#include "client/cli/session/rules_errors.h"
#include "client/cli/session/rules_file.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/descriptors/descriptor_report.h"
#include "node/policy/readers/descriptor_format.h"
#include "node/zones/zones.h"

enum { ERROR_LEN = 4096 + 256 };

/* Compiles a file. NULL after complaining. */
static struct policy *compile(const struct cli_rules_file *file)
{
    struct policy_error error;
    struct policy *policy;
    if (policy_compile_zoned(file->source.text, file->source.len, alloc_heap(), zones_system(),
                             &policy, &error) != 0)
        (void)cli_refuse_text(file);
    return policy;
}

/* ---- import ---------------------------------------------------------------------------------- */

/* Reads all files, each under the path that it was given as. False after complaining. */
static bool read_files(const struct cli_domains *domains, struct rules_source *out)
{
    char error[ERROR_LEN];
    for (size_t i = 0; i < domains->file_count; i++) {
        if (rules_source_add(out, domains->files[i], POLICY_FILE_LEN_MAX, error, sizeof error) == 0)
            continue;
        cli_complain("%s", error);
        return false;
    }
    return true;
}

static int print(struct cli *cli, const struct policy *policy)
{
    const size_t len = policy_format_domains(policy, NULL, 0);
    char *text = alloc_get(alloc_heap(), len);
    if (text == NULL)
        return cli_fail(cli, TG_ENOMEM, "out of memory");
    const size_t written = policy_format_domains(policy, text, len);
    ASSERT(written == len);
    cli_text_add(&cli->text, text, len);
    alloc_put(alloc_heap(), text, len);
    return cli_flush(cli);
}

static int import(struct cli *cli)
{
    const struct cli_domains *domains = &cli->arguments->domains;
    char settings[64];
    struct cli_rules_file file = {.path = ""};
    const int len = snprintf(settings, sizeof settings, "{charge: %s, merge_domains: %s}\n",
                             domains->charge == CLI_CHARGE_ALL ? "all" : "each",
                             domains->merge ? "true" : "false");
    int status = CLI_EXIT_INVALID;
    if (!rules_source_begin(&file.source, settings, (size_t)len))
        return cli_fail(cli, TG_ENOMEM, "out of memory");
    struct policy *policy = read_files(domains, &file.source) ? compile(&file) : NULL;
    if (policy != NULL)
        status = print(cli, policy);
    policy_free(&policy);
    cli_rules_fini(&file);
    return status;
}

/* ---- explain --------------------------------------------------------------------------------- */

/* Takes the next text of a descriptor up to a character of `ends`, which a backslash takes away.
 * Its bytes are moved together in place. Returns what ended it, 0: the end. */
static char take_text(char **at, const char *ends, struct policy_text *out)
{
    char *to = *at;
    char *from = *at;
    out->data = *at;
    while (*from != '\0' && strchr(ends, *from) == NULL) {
        from += from[0] == '\\' && from[1] != '\0';
        *to++ = *from++;
    }
    const char end = *from;
    out->len = (size_t)(to - out->data);
    *at = from + (end != '\0');
    return end;
}

/* The entries of "k=v,k2=v2"; false after complaining. */
static bool take_entries(char *text, struct descriptor_entry *entries, uint32_t *count)
{
    *count = 0;
    for (char end = ','; end == ',';) {
        if (*count == DESCRIPTOR_ENTRIES_MAX) {
            cli_complain("--descriptor: more than %d entries", (int)DESCRIPTOR_ENTRIES_MAX);
            return false;
        }
        struct descriptor_entry *entry = &entries[(*count)++];
        if (take_text(&text, "=,", &entry->key) != '=') {
            cli_complain("--descriptor: found entry %u without '='; expected K=V[,K2=V2...]",
                         (unsigned)*count);
            return false;
        }
        end = take_text(&text, ",", &entry->value);
    }
    return true;
}

static int explain_by(struct cli *cli, const struct policy *policy)
{
    static const struct hash_key none; /* long paths are shortened otherwise by each cluster */
    const struct cli_domains *domains = &cli->arguments->domains;
    struct descriptor_entry entries[DESCRIPTOR_ENTRIES_MAX];
    struct descriptor_found found;
    struct cli_answer answer;
    struct mp_writer writer;
    char error[DESCRIPTOR_ERROR_LEN];
    struct descriptor_request request = {.domain = {domains->domain, strlen(domains->domain)},
                                         .entries = entries};
    const size_t len = strlen(domains->descriptor);
    int status = CLI_EXIT_INVALID;
    char *text = alloc_get(alloc_heap(), len + 1);
    uint8_t *bytes = alloc_get(alloc_heap(), DESCRIPTOR_REPORT_LEN);
    if (text == NULL || bytes == NULL) {
        status = cli_fail(cli, TG_ENOMEM, "out of memory");
    } else if (take_entries(memcpy(text, domains->descriptor, len + 1), entries,
                            &request.entry_count)) {
        if (policy_descriptor_find(policy, &request, &none, &found, error) != 0) {
            cli_complain("--descriptor: %s", error);
        } else {
            mp_writer_init(&writer, bytes, DESCRIPTOR_REPORT_LEN);
            policy_descriptor_report(&writer, policy, &request, &found);
            ASSERT(!writer.failed);
            if (cli_answer_from(&writer, &answer))
                status = cli_answer_show(cli, &answer);
            cli_answer_fini(&answer);
        }
    }
    alloc_put(alloc_heap(), bytes, DESCRIPTOR_REPORT_LEN);
    alloc_put(alloc_heap(), text, len + 1);
    return status;
}

/* The document in force, compiled here. NULL, with the exit status, after complaining. */
static struct policy *compile_there(struct cli *cli, int *status)
{
    struct cli_answer answer;
    struct mp_cursor cursor;
    struct policy_error error;
    struct policy *policy = NULL;
    size_t len = 0;
    const int code = cli_rules_ask(cli, 0, &answer);
    *status = code != 0 ? cli_answer_fail(cli, code, &answer) : CLI_EXIT_INVALID;
    const char *text =
        code == 0 && cli_answer_find(&answer, "text", &cursor) ? mp_get_str(&cursor, &len) : NULL;
    if (text != NULL &&
        policy_compile_zoned(text, len, alloc_heap(), zones_system(), &policy, &error) != 0)
        cli_complain("the rules in force are not understood by this release of tidegate: %s",
                     error.message);
    cli_answer_fini(&answer);
    return policy;
}

static int explain(struct cli *cli)
{
    struct cli_rules_file file;
    struct policy *policy = NULL;
    int status = CLI_EXIT_INVALID;
    if (cli->arguments->file == NULL) {
        policy = compile_there(cli, &status);
    } else if (cli_rules_read(cli->arguments->file, POLICY_FILE_LEN_MAX, &file)) {
        policy = compile(&file);
        cli_rules_fini(&file);
    }
    if (policy != NULL)
        status = explain_by(cli, policy);
    policy_free(&policy);
    return status;
}

int cli_domains(struct cli *cli)
{
    return cli->arguments->command == CLI_RULES_IMPORT ? import(cli) : explain(cli);
}
