/* tidegated.c - tidegated(8), tidegated.yaml(5) and its example, from the table of options. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "deploy/manual/manual.h"
#include "node/runtime/config/config_option.h"

enum { TERM_LEN = 96, PROSE_LEN = 1024, WIDTH = 78 };

/* The option's meaning, its values and its default, as one paragraph. A switch takes no value as a
 * flag, but one in the file. */
static void describe(const struct config_option *option, bool flag, char out[PROSE_LEN])
{
    const char *initial = option->initial != NULL ? option->initial : option->derived;
    char expected[CONFIG_WHY_LEN];
    int len = snprintf(out, PROSE_LEN, "%c%s.", toupper((unsigned char)option->help[0]),
                       option->help + 1);
    const bool bare = flag && option->kind == CONFIG_KIND_SWITCH;
    if (option->kind == CONFIG_KIND_UNSUPPORTED || option->flag_only || bare)
        return;
    len += snprintf(out + len, PROSE_LEN - (size_t)len, " Expected: %s.",
                    config_option_expected(option, expected));
    if (initial != NULL && initial[0] != '\0')
        (void)snprintf(out + len, PROSE_LEN - (size_t)len, " Default: %s.", initial);
    else if (option->kind == CONFIG_KIND_SWITCH)
        (void)snprintf(out + len, PROSE_LEN - (size_t)len, " Default: false.");
}

static void begin_list(struct page *page)
{
    if (page->format == PAGE_MARKDOWN)
        cli_text_str(page->text, "\n");
}

void manual_tidegated(struct page *page, const struct page_release *release)
{
    char term[TERM_LEN];
    char prose[PROSE_LEN];
    size_t count;
    const struct config_option *options = config_options(&count);
    page_title(page, "tidegated", 8, config_summary, release);
    page_section(page, "Synopsis");
    page_code(page, "tidegated [--config FILE] [options]\n");
    page_section(page, "Description");
    page_prose(page, config_without_arguments);
    page_prose(page, "`--flag VALUE` and `--flag=VALUE` mean the same. A flag overrides the file "
                     "that `--config` names, `tidegated.yaml`(5).\n");
    page_section(page, "Options");
    begin_list(page);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(term, sizeof term, "--%s%s%s", options[i].name,
                       options[i].value != NULL ? " " : "",
                       options[i].value != NULL ? options[i].value : "");
        describe(&options[i], true, prose);
        page_term(page, term, prose);
    }
    page_section(page, "Signals");
    page_prose(page, config_signals);
    page_section(page, "Exit status");
    begin_list(page);
    const struct config_exit *exits = config_exits(&count);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(term, sizeof term, "%d", exits[i].status);
        page_term(page, term, exits[i].meaning);
    }
    page_section(page, "See also");
    page_prose(page, "`tidegated.yaml`(5), `tidegate-rules`(5), `tidegate`(1)\n");
}

void manual_options(struct page *page, const struct page_release *release)
{
    char name[CONFIG_NAME_MAX];
    char prose[PROSE_LEN];
    size_t count;
    const struct config_option *options = config_options(&count);
    page_title(page, "tidegated.yaml", 5, "the configuration of a node of a Tidegate cluster",
               release);
    page_section(page, "Description");
    page_prose(page,
               "A YAML file with one map: the options of `tidegated`(8), with underscores for "
               "dashes. `tidegated --config FILE` reads the file, flags override it, and "
               "`tidegated --config FILE --check-config` says what is wrong with it, as "
               "FILE:LINE:COLUMN.\n");
    page_section(page, "Example");
    page_code(page, "name: n1\n"
                    "bind: 10.0.0.1\n"
                    "insecure: true\n"
                    "seed:\n"
                    "  - 10.0.0.2:7602\n"
                    "  - 10.0.0.3:7602\n"
                    "data: /var/lib/tidegate\n"
                    "memory: 2G\n");
    page_section(page, "Keys");
    begin_list(page);
    for (size_t i = 0; i < count; i++) {
        if (options[i].flag_only || options[i].kind == CONFIG_KIND_UNSUPPORTED)
            continue;
        describe(&options[i], false, prose);
        page_term(page, config_option_name(&options[i], '_', name), prose);
    }
    page_section(page, "See also");
    page_prose(page, "`tidegated`(8), `tidegate-rules`(5)\n");
}

/* ---- the example ----------------------------------------------------------------------------- */

/* A comment of several lines, and the key at its default, which is commented out, too. */
static void add_example(struct cli_text *text, const struct config_option *option)
{
    char name[CONFIG_NAME_MAX];
    char prose[PROSE_LEN];
    struct cli_text lines;
    describe(option, false, prose);
    cli_text_init(&lines);
    cli_text_wrap(&lines, prose, strlen(prose), 0, 0, WIDTH);
    cli_text_str(text, "\n");
    for (const char *next = lines.data != NULL ? lines.data : ""; *next != '\0';) {
        const size_t len = strcspn(next, "\n") + 1;
        cli_text_str(text, "# ");
        cli_text_add(text, next, len);
        next += len;
    }
    cli_text_fini(&lines);
    (void)config_option_name(option, '_', name);
    if (option->initial != NULL)
        cli_text_format(text, "%s: %s\n", name,
                        option->initial[0] != '\0' ? option->initial : "\"\"");
    else if (option->kind == CONFIG_KIND_SWITCH)
        cli_text_format(text, "%s: false\n", name);
    else if (option->kind == CONFIG_KIND_SEED || option->kind == CONFIG_KIND_HOSTS ||
             option->kind == CONFIG_KIND_NETWORK)
        cli_text_format(text, "#%s:\n#  - %s\n", name, option->value);
    else
        cli_text_format(text, "#%s: %s\n", name, option->value);
}

void manual_options_example(struct cli_text *text)
{
    size_t count;
    const struct config_option *options = config_options(&count);
    cli_text_str(text,
                 "# tidegated.yaml - every option of tidegated, at its default; those without "
                 "one are commented out.\n"
                 "# `tidegated --config FILE --check-config` checks a file like this one.\n");
    for (size_t i = 0; i < count; i++)
        if (!options[i].flag_only && options[i].kind != CONFIG_KIND_UNSUPPORTED)
            add_example(text, &options[i]);
}
