/* page.h - one page of the manual, written once and shown as a man page or as Markdown.
 *
 *   page_section, page_prose, page_term, page_code ...  --PAGE_MAN-->       roff, for man(1)
 *                                                       --PAGE_MARKDOWN-->  a reference page
 *
 * Prose is that of the tables: a paragraph ends with '\n', `term TAB text` is an item of a list,
 * and what stands between backquotes is code.
 *
 * MANPAGE-1  What prose says never becomes a macro of roff: dots and quotes at a line's beginning,
 *            hyphens and backslashes are escaped.
 */
#ifndef DEPLOY_MANUAL_PAGE_H
#define DEPLOY_MANUAL_PAGE_H

#include "client/cli/output/text.h"

enum page_format { PAGE_MAN, PAGE_MARKDOWN };

struct page {
    struct cli_text *text;
    enum page_format format;
    bool opened; /* nothing stands below the heading yet */
};

/* What all pages are told about the release. */
struct page_release {
    const char *version;
    const char *day; /* such as 2026-11-26 */
};

/* The head of the page "name(section)", and what it is about. */
void page_title(struct page *page, const char *name, int section, const char *summary,
                const struct page_release *release);
void page_section(struct page *page, const char *name);
void page_subsection(struct page *page, const char *name);
/* Paragraphs and items. */
void page_prose(struct page *page, const char *prose);
/* A term, shown as code, and what it means. */
void page_term(struct page *page, const char *term, const char *prose);
/* Lines that are shown as they are, each ended by '\n'. */
void page_code(struct page *page, const char *lines);

#endif
