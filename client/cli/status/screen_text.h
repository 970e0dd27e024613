/* screen_text.h - what `tidegate status` shows: a cluster at a glance, from one node's answer.
 *
 *   answer (msgpack) --screen_read--> struct screen --screen_write--> text
 *
 *   DEGRADED: n2 is not alive, for 3m12s                      what is wrong, one line each
 *             n3 has no room on its disk
 *   means     every key is answered by its replicas           what it leads to
 *   do        n2: start it, or `tidegate remove` it           what to do, by node
 *   cluster   f9d3..4bc0 as n1 sees it; ring 14 settled; rules version 6
 *   keys      kept by 3 nodes; over-admission now 41; voters 2 of 3, ...
 *
 *   NODE  STATE  UP     CHECKS/S  DENIED  ACK P99  MEMORY    DISK         CLOCK  NOTE
 *   n1    alive  2h31m    12,031    8.1%    0.9ms  31%/256M  0.4s behind  +2ms
 *
 *   busiest   search-per-user 18,200/s (11% denied), signup-per-phone 31/s (64% denied)
 *   changed   20:05:36 root@vm blocked user=mallory (abuse)
 *
 * SCREENTEXT-1  No line is longer than the width; what does not fit ends in "..".
 * SCREENTEXT-2  Zeros and what is not known are left out, or "-" in a table.
 * SCREENTEXT-3  Without `colour` there are no control codes. What nodes said is made safe to show
 *               (TEXT-2).
 * SCREENTEXT-4  Of many nodes those that are well are summed up in one row, unless all are wanted.
 */
#ifndef CLIENT_CLI_STATUS_SCREEN_TEXT_H
#define CLIENT_CLI_STATUS_SCREEN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/output/text.h"
#include "client/screen/screen.h"

enum {
    SCREEN_WIDTH = 100,
    SCREEN_ROWS = 12,   /* of so many nodes none is summed up */
    SCREEN_ILL_MAX = 20 /* rows of nodes that are ill, where others are summed up */
};

struct screen_options {
    size_t width;
    bool colour;
    bool all_nodes;
};

/* Adds the screen. Pure. */
void screen_write(struct cli_text *out, const struct screen *screen,
                  const struct screen_options *options);
/* Adds all that is known of one node. Pure. */
void screen_write_node(struct cli_text *out, const struct screen *screen,
                       const struct screen_node *node, const struct screen_options *options);

/* ---- screen_table.c ---- */

void screen_write_table(struct cli_text *out, const struct screen *screen,
                        const struct screen_options *options);
/* Adds what is in `line`, cut to the width, and ends it (SCREEN-1). */
void screen_line(struct cli_text *out, const char *line, size_t width);

#endif
