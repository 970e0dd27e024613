/* page.c - the two forms of a page; see page.h. */
#include "deploy/manual/page.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 100, TERM_LEN = 160 };

/* ---- roff ------------------------------------------------------------------------------------ */

/* Adds one character so that roff shows it and nothing else (MANPAGE-1). */
static void add_roff_character(struct page *page, char character, bool first)
{
    if (first && (character == '.' || character == '\''))
        cli_text_str(page->text, "\\&");
    if (character == '\\')
        cli_text_str(page->text, "\\e");
    else if (character == '-')
        cli_text_str(page->text, "\\-");
    else
        cli_text_add(page->text, &character, 1);
}

/* Adds words; those between backquotes are bold. */
static void add_roff(struct page *page, const char *words, size_t len)
{
    bool code = false;
    for (size_t i = 0; i < len; i++) {
        if (words[i] == '`') {
            code = !code;
            cli_text_str(page->text, code ? "\\fB" : "\\fR");
        } else {
            add_roff_character(page, words[i], i == 0);
        }
    }
}

static void add_roff_line(struct page *page, const char *words, size_t len)
{
    page->opened = false;
    add_roff(page, words, len);
    cli_text_str(page->text, "\n");
}

static void add_roff_macro(struct page *page, const char *macro, const char *name)
{
    cli_text_format(page->text, "%s \"", macro);
    add_roff(page, name, strlen(name));
    cli_text_str(page->text, "\"\n");
    page->opened = true;
}

/* A paragraph begins, which a heading has begun already. */
static void begin_roff_paragraph(struct page *page)
{
    if (!page->opened)
        cli_text_str(page->text, ".PP\n");
}

/* ---- both ------------------------------------------------------------------------------------ */

void page_title(struct page *page, const char *name, int section, const char *summary,
                const struct page_release *release)
{
    if (page->format == PAGE_MARKDOWN) {
        cli_text_format(page->text, "# %s(%d)\n\n%s - %s\n", name, section, name, summary);
        return;
    }
    cli_text_format(page->text, ".\\\" Made by `make docs` from the tables of the program.\n");
    cli_text_format(page->text, ".TH \"%s\" %d \"%s\" \"Tidegate %s\"\n.nh\n.ad l\n", name, section,
                    release->day, release->version);
    cli_text_str(page->text, ".SH NAME\n");
    add_roff(page, name, strlen(name));
    cli_text_str(page->text, " \\- ");
    add_roff_line(page, summary, strlen(summary));
}

void page_section(struct page *page, const char *name)
{
    if (page->format == PAGE_MARKDOWN) {
        cli_text_format(page->text, "\n## %s\n", name);
        return;
    }
    char upper[TERM_LEN];
    size_t len = 0;
    for (; name[len] != '\0' && len < sizeof upper - 1; len++)
        upper[len] = (char)toupper((unsigned char)name[len]);
    upper[len] = '\0';
    add_roff_macro(page, ".SH", upper);
}

void page_subsection(struct page *page, const char *name)
{
    if (page->format == PAGE_MARKDOWN)
        cli_text_format(page->text, "\n### `%s`\n", name);
    else
        add_roff_macro(page, ".SS", name);
}

/* An item of a list: its term and what it means, `depth` lists deep. */
static void add_item(struct page *page, const char *term, const char *words, size_t len, int depth)
{
    if (page->format == PAGE_MAN) {
        cli_text_str(page->text, ".TP\n.B ");
        add_roff_line(page, term, strlen(term));
        add_roff_line(page, words, len);
        return;
    }
    char lead[2 * TERM_LEN];
    const int written = snprintf(lead, sizeof lead, "%*s- `%s`: ", depth * 2, "", term);
    cli_text_str(page->text, lead);
    cli_text_wrap(page->text, words, len, (size_t)written, (size_t)depth * 2 + 2, WIDTH);
}

static void add_paragraph(struct page *page, const char *words, size_t len)
{
    if (page->format == PAGE_MAN) {
        begin_roff_paragraph(page);
        add_roff_line(page, words, len);
    } else {
        cli_text_str(page->text, "\n");
        cli_text_wrap(page->text, words, len, 0, 0, WIDTH);
    }
}

/* Adds the items and paragraphs from `prose` on. */
static void add_prose(struct page *page, const char *prose, int depth)
{
    bool listed = false;
    for (const char *next = prose; *next != '\0';) {
        char term[TERM_LEN];
        const size_t len = strcspn(next, "\n");
        const char *tab = memchr(next, '\t', len);
        if (tab == NULL) {
            add_paragraph(page, next, len);
        } else {
            const size_t skip = (size_t)(tab - next) + 1;
            (void)snprintf(term, sizeof term, "%.*s", (int)(tab - next), next);
            if (!listed && depth == 0 && page->format == PAGE_MARKDOWN)
                cli_text_str(page->text, "\n");
            add_item(page, term, next + skip, len - skip, depth);
        }
        listed = tab != NULL;
        next += len + (next[len] == '\n');
    }
}

void page_prose(struct page *page, const char *prose)
{
    add_prose(page, prose, 0);
}

void page_term(struct page *page, const char *term, const char *prose)
{
    const size_t len = strcspn(prose, "\n");
    add_item(page, term, prose, len, 0);
    if (prose[len] == '\0' || prose[len + 1] == '\0')
        return;
    if (page->format == PAGE_MAN)
        cli_text_str(page->text, ".RS\n");
    add_prose(page, prose + len + 1, 1);
    if (page->format == PAGE_MAN)
        cli_text_str(page->text, ".RE\n");
}

void page_code(struct page *page, const char *lines)
{
    const bool man = page->format == PAGE_MAN;
    if (man)
        begin_roff_paragraph(page);
    cli_text_str(page->text, man ? ".RS 4\n.nf\n" : "\n```\n");
    for (const char *next = lines; *next != '\0';) {
        const size_t len = strcspn(next, "\n");
        if (man)
            add_roff_line(page, next, len);
        else
            cli_text_add(page->text, next, len + 1);
        next += len + 1;
    }
    cli_text_str(page->text, man ? ".fi\n.RE\n" : "```\n");
}
