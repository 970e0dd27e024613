/* metrics_page.h - this node's figures as a page that Prometheus reads.
 */
#ifndef NODE_CLUSTER_EXPOSITION_METRICS_PAGE_H
#define NODE_CLUSTER_EXPOSITION_METRICS_PAGE_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct control_page;
struct control_report;

/* Makes the page of what is known at once, and of the report. False: it has no room, and its length
 * is 0. */
bool metrics_page_make(const struct control *control, const struct control_report *report,
                       int64_t now_ns, struct control_page *page);

#endif
