/* rules.c - tidegate-rules(5): every key of a rules file, from the table of keys. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "deploy/manual/manual.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/readers/rule_keys.h"

enum { PROSE_LEN = 1024 };

/* A sentence that grows in a fixed buffer. */
struct prose {
    char text[PROSE_LEN];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct prose *prose, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int len = vsnprintf(prose->text + prose->len, PROSE_LEN - prose->len, format, arguments);
    va_end(arguments);
    prose->len += len > 0 && prose->len + (size_t)len < PROSE_LEN ? (size_t)len : 0;
}

static const char *between(uint32_t at, uint32_t count)
{
    return at == 0 ? "" : at + 1 == count ? " or " : ", ";
}

static void add_words(struct prose *prose, const struct rule_key *key)
{
    for (uint32_t i = 0; i < key->word_count; i++) {
        const struct rule_choice *choice = key->choices != NULL ? &key->choices[i] : NULL;
        const char *word = key->words[i].text;
        add(prose, "%s", between(i, key->word_count));
        if (choice == NULL || choice->bare)
            add(prose, "%s", word);
        if (choice != NULL && choice->map != RULE_MAP_NONE)
            add(prose, "%s{%s: %s}", choice->bare ? " or " : "", word,
                rule_map(choice->map)->title);
    }
}

static void add_duration(struct prose *prose, const struct rule_key *key)
{
    add(prose, "a time such as 250ms or 10m");
    if (key->min == 0)
        add(prose, ", or 0s");
    if (key->most != NULL)
        add(prose, ", at most %s", key->most);
}

static void add_kinds(struct prose *prose, const struct rule_key *key)
{
    add(prose, "at most %" PRId64 " names of attributes, each with ", key->max);
    for (uint32_t i = 0; i < ATTRIBUTE_KINDS; i++)
        add(prose, "%s%s", between(i, ATTRIBUTE_KINDS),
            attribute_kind_name((enum attribute_kind)i));
}

/* What the value may be. */
static void add_expected(struct prose *prose, const struct rule_key *key)
{
    const char *of = key->of < RULE_MAPS ? rule_map(key->of)->title : "";
    switch (key->type) {
    case RULE_TYPE_TEXT:
        add(prose, "a text of %" PRId64 " to %" PRId64 " bytes", key->min, key->max);
        break;
    case RULE_TYPE_NAME:
        add(prose, "the name of an attribute");
        break;
    case RULE_TYPE_NUMBER:
        add(prose, "a whole number from %" PRId64 " to %" PRId64, key->min, key->max);
        break;
    case RULE_TYPE_SWITCH:
        add(prose, "true or false");
        break;
    case RULE_TYPE_WORD:
    case RULE_TYPE_CHOICE:
        add_words(prose, key);
        break;
    case RULE_TYPE_RATE:
        add(prose, "COUNT/PERIOD, such as 5/60s, 100/minute or 20000/day");
        break;
    case RULE_TYPE_DURATION:
        add_duration(prose, key);
        break;
    case RULE_TYPE_PERCENT:
        add(prose, "%" PRId64 "%% to %" PRId64 "%%", key->min, key->max);
        break;
    case RULE_TYPE_LOAD:
        add(prose, "a number above 0 and at most 1");
        break;
    case RULE_TYPE_FACTOR:
        add(prose, "a factor above 1x and at most %" PRId64 "x", key->max);
        break;
    case RULE_TYPE_MAP:
        add(prose, "a mapping (%s)", of);
        break;
    case RULE_TYPE_LIST:
        add(prose, "a list of %" PRId64 " to %" PRId64 " mappings (%s)", key->min, key->max, of);
        break;
    case RULE_TYPE_NAMED:
        add(prose, "at most %" PRId64 " names, each with a mapping (%s)", key->max, of);
        break;
    case RULE_TYPE_NAMES:
        add(prose, "a list of %" PRId64 " to %" PRId64 " names of attributes", key->min, key->max);
        break;
    case RULE_TYPE_MATCH:
        add(prose, "at most %" PRId64 " names of attributes, each with a value or a list of values",
            key->max);
        break;
    case RULE_TYPE_KINDS:
        add_kinds(prose, key);
        break;
    case RULE_TYPE_TREE:
        add(prose, "any value");
        break;
    case RULE_TYPE_OLDER:
        add(prose, "paths, each with a list of mappings (%s)", of);
        break;
    }
}

static void add_key(struct page *page, const struct rule_key *key)
{
    struct prose prose = {.len = 0};
    add(&prose, "%s %s: ", key->help, key->required ? "Required" : "Expected");
    add_expected(&prose, key);
    if (key->initial != NULL)
        add(&prose, ". Default: %s", key->initial);
    add(&prose, ". Example: `%s: %s`", key->name, key->example);
    page_term(page, key->name, prose.text);
}

static const char example[] =
    "unmatched: allow\n"
    "pools:\n"
    "  api: {rate: 10000/s, reserve: 5%}\n"
    "tiers:\n"
    "  free: {limits: [{rate: 100/h}]}\n"
    "  premium: {limits: [{rate: 5000/h}]}\n"
    "rules:\n"
    "  - name: office\n"
    "    priority: 900\n"
    "    match: {ip: 192.0.2.0/24}\n"
    "    action: allow\n"
    "  - name: signup-per-phone\n"
    "    priority: 700\n"
    "    match: {api: /signup, method: post}\n"
    "    key: [phone]\n"
    "    limits:\n"
    "      - {rate: 5/h, algorithm: sliding_log}\n"
    "      - {rate: 20/day, algorithm: fixed_window, align: calendar, timezone: Europe/Berlin}\n"
    "    response: {message: too many sign-ups from this number}\n"
    "  - name: search-per-user\n"
    "    match: {api: /search/*}\n"
    "    key: [user]\n"
    "    limits: [{rate: 50/s, burst: 100}]\n"
    "    mode: {elastic: {pool: api, ceiling: 3x}}\n";

void manual_rules(struct page *page, const struct page_release *release)
{
    page_title(page, "tidegate-rules", 5, "the rules of a Tidegate cluster", release);
    page_section(page, "Description");
    page_prose(page,
               "A YAML (or JSON) file that says which requests are counted together, and how "
               "many of them are let through. `tidegate rules validate FILE` says what is "
               "wrong with one, as FILE:LINE:COLUMN; `tidegate rules apply FILE` puts one in "
               "force on every node.\n"
               "Rules are looked at by priority, the highest first, and then in the order of "
               "the file. Of each one that matches:\n"
               "allow\tends the search; limits that were found above it stay.\n"
               "block\tends the search and denies.\n"
               "throttle\tadds its limits, all of which must allow.\n"
               "Of one `group` only the first rule that applies acts. A `shadow` rule changes "
               "nothing for the others.\n"
               "Editors that know JSON Schema check a file by `tidegate-rules.schema.json`, "
               "which is installed beside this page's Markdown: `# yaml-language-server: "
               "$schema=PATH` as the first line says so.\n");
    page_section(page, "Example");
    page_code(page, example);
    for (enum rule_map map = 0; map < RULE_MAPS; map++) {
        const struct rule_map_row *row = rule_map(map);
        page_section(page, row->title);
        page_prose(page, row->help);
        if (page->format == PAGE_MARKDOWN)
            cli_text_str(page->text, "\n");
        for (uint32_t i = 0; i < row->count; i++)
            add_key(page, &row->keys[i]);
    }
    page_section(page, "See also");
    page_prose(page, "`tidegate`(1), `tidegated`(8)\n");
}
