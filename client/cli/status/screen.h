/* screen.h - what `tidegate status` shows: a cluster at a glance, from one node's answer.
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
 * SCREEN-1  No line is longer than the width; what does not fit ends in "..".
 * SCREEN-2  Zeros and what is not known are left out, or "-" in a table.
 * SCREEN-3  Without `colour` there are no control codes. What nodes said is made safe to show
 *           (TEXT-2).
 * SCREEN-4  Of many nodes those that are well are summed up in one row, unless all are wanted.
 * SCREEN-5  Whatever a node answered, each list has as many entries as it has room for at most, and
 *           each text ends inside its field.
 */
#ifndef CLIENT_CLI_STATUS_SCREEN_H
#define CLIENT_CLI_STATUS_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "client/cli/output/text.h"
#include "client/cli/session/answer.h"

enum {
    SCREEN_WIDTH = 100,
    SCREEN_NAME_LEN = 64,
    SCREEN_TEXT_LEN = 400,
    SCREEN_CONDITIONS_MAX = 32,
    SCREEN_CHANGES_MAX = 5,
    SCREEN_ROWS = 12,     /* of so many nodes none is summed up */
    SCREEN_ILL_MAX = 20,  /* rows of nodes that are ill, where others are summed up */
    SCREEN_LINES_MAX = 10 /* conditions that are said; how many more is told */
};

struct screen_condition {
    bool grave;
    uint64_t for_ms; /* 0: not known */
    char code[32];
    char node[SCREEN_NAME_LEN];
    char region[SCREEN_NAME_LEN];
    char short_form[32];
    char says[SCREEN_TEXT_LEN];
    char means[160];
    char advice[160];
};

/* Numbers that are 0 and the like may also be unknown: `told` says whether any are known. */
struct screen_node {
    char name[SCREEN_NAME_LEN];
    char region[SCREEN_NAME_LEN];
    char zone[SCREEN_NAME_LEN];
    char id[SCREEN_NAME_LEN];
    char state[16];
    char ring[16];
    char client[128];
    char version[32];
    char lost[40];      /* since when its region is out of reach; "": it is not */
    char troubles[160]; /* codes, apart by commas */
    uint64_t state_for_ms;
    bool own;
    bool voter;
    bool grave; /* it has a trouble with which the cluster is not healthy */
    bool told;
    bool skewed; /* the skew is known */
    int64_t skew_us;
    uint64_t rtt_us;
    double checks_rate;
    double allowed_rate;
    double denied_rate;
    double busy_rate;
    uint64_t uptime_ms;
    uint64_t checks;
    uint64_t ack_p99_us;
    uint64_t slots;
    uint64_t slots_max;
    uint64_t memory_max;
    uint64_t flush_lag_ms;
    uint64_t store_used;
    uint64_t store_most;
    uint64_t over_tokens;
    uint64_t decides;
    uint64_t cut_off;
    uint64_t incomplete;
    bool ephemeral;
};

struct screen_rule {
    char name[160];
    double checks_rate;
    double denied_rate;
};

struct screen_change {
    uint64_t time_ms;
    char author[SCREEN_NAME_LEN];
    char says[160];
    char note[160];
};

struct screen {
    bool healthy;
    bool stable;
    bool rules_agree;
    char node[SCREEN_NAME_LEN];
    char cluster[40];
    char version[32];
    uint64_t epoch;
    uint64_t vnodes;
    uint64_t replicas;
    uint64_t rules_version;
    uint64_t rules_count;
    uint64_t give; /* vnodes on their way from and to the node that is asked */
    uint64_t receive;
    uint64_t left_ms; /* until they are there; 0: not known */
    uint64_t alive;   /* as the node counts, also where it lists none */
    uint64_t dead;
    struct screen_condition conditions[SCREEN_CONDITIONS_MAX];
    uint32_t condition_count;
    uint32_t conditions_more;                       /* which the node did not send */
    struct screen_rule busiest[SCREEN_CHANGES_MAX]; /* rules that answer most */
    uint32_t busiest_count;
    struct screen_change changes[SCREEN_CHANGES_MAX];
    uint32_t change_count;
    char warnings[SCREEN_CHANGES_MAX][SCREEN_TEXT_LEN]; /* of the node that is asked */
    uint32_t warning_count;
    struct screen_node *nodes; /* the own region first */
    uint32_t node_count;
    uint64_t nodes_more; /* that the answer had no room for */
};

struct screen_options {
    size_t width;
    bool colour;
    bool all_nodes;
};

/* Fills the screen from an answer to `status`, of whatever release. 0 or TG_ENOMEM; to be finished
 * in any case. */
MUST_USE int screen_read(const struct cli_answer *answer, struct screen *screen);
void screen_fini(struct screen *screen);
/* Asserts SCREEN-5. */
void screen_check_invariants(const struct screen *screen);

/* Adds the screen. Pure. */
void screen_write(struct cli_text *out, const struct screen *screen,
                  const struct screen_options *options);
/* Adds all that is known of one node. Pure. */
void screen_write_node(struct cli_text *out, const struct screen *screen,
                       const struct screen_node *node, const struct screen_options *options);
/* The node that is called NAME, or REGION/NAME; NULL: none, or several. */
const struct screen_node *screen_find(const struct screen *screen, const char *name);
/* Whether a node has troubles of its own, or does not answer. */
bool screen_is_ill(const struct screen_node *node);

/* ---- screen_table.c ---- */

void screen_write_table(struct cli_text *out, const struct screen *screen,
                        const struct screen_options *options);
/* Adds what is in `line`, cut to the width, and ends it (SCREEN-1). */
void screen_line(struct cli_text *out, const char *line, size_t width);

/* ---- screen_words.c: numbers for people; each returns `out` ---- */

enum { SCREEN_WORD_LEN = 32 };
const char *screen_span(uint64_t ms, char out[SCREEN_WORD_LEN]);      /* "2h31m", "0.4s" */
const char *screen_count(uint64_t number, char out[SCREEN_WORD_LEN]); /* "12,031" */
const char *screen_rate(double rate, char out[SCREEN_WORD_LEN]);      /* "0.3", "12,031" */
const char *screen_bytes(uint64_t bytes, char out[SCREEN_WORD_LEN]);  /* "256M" */
const char *screen_us(uint64_t us, char out[SCREEN_WORD_LEN]);        /* "0.9ms" */
const char *screen_skew(int64_t us, char out[SCREEN_WORD_LEN]);       /* "+2ms", "-1h0m" */

#endif
