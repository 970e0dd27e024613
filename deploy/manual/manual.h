/* manual.h - what is made of the tables: pages, completions, an annotated example, a schema.
 *
 * Each adds one whole file to `text`. Pure but for the heap.
 */
#ifndef DEPLOY_MANUAL_MANUAL_H
#define DEPLOY_MANUAL_MANUAL_H

#include "deploy/manual/page.h"

/* tidegate(1). */
void manual_tidegate(struct page *page, const struct page_release *release);
/* tidegated(8). */
void manual_tidegated(struct page *page, const struct page_release *release);
/* tidegated.yaml(5). */
void manual_options(struct page *page, const struct page_release *release);
/* tidegate-rules(5). */
void manual_rules(struct page *page, const struct page_release *release);
/* tidegate-metrics(7). */
void manual_metrics(struct page *page, const struct page_release *release);
/* A JSON Schema of rules files. */
void manual_schema(struct cli_text *text);
/* tidegated.yaml with every option at its default, each explained. */
void manual_options_example(struct cli_text *text);
/* Completion of the command line. */
void manual_bash(struct cli_text *text);
void manual_zsh(struct cli_text *text);

#endif
