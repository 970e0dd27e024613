/* screen.h - a cluster at a glance, from one node's answer to `status`: for terminals and the page.
 *
 *   answer (msgpack) --screen_read--> struct screen --> client/cli/status    lines of text
 *                                                   --> node/gateway/page    HTML
 *
 * Both have the same figures and the same sentences, for there is one place where they come from.
 *
 * SCREEN-1  Whatever a node answered, each list has as many entries as it has room for at most, and
 *           each text ends inside its field.
 *
 * Pure. Any thread, on the caller's memory.
 */
#ifndef CLIENT_SCREEN_SCREEN_H
#define CLIENT_SCREEN_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mp.h"

enum {
    SCREEN_NAME_LEN = 64,
    SCREEN_TEXT_LEN = 400,
    SCREEN_CONDITIONS_MAX = 32,
    SCREEN_CHANGES_MAX = 5,
    SCREEN_EVENTS_MAX = 8,
    SCREEN_PERIODS_MAX = 60
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
    char time[24]; /* "2026-11-26T20:05:36Z" */
    char author[SCREEN_NAME_LEN];
    char says[160];
    char note[160];
};

/* What came about. */
struct screen_event {
    uint64_t id;        /* rises from event to event */
    uint64_t lasted_ms; /* of what is over */
    bool grave;
    char kind[8];  /* "told", "begun", "over" */
    char time[24]; /* as of a change */
    char says[SCREEN_TEXT_LEN];
};

/* What was decided a second, by all nodes, in each of the last periods, the oldest first. */
struct screen_history {
    uint64_t step_ms;
    uint64_t until_ms; /* when the last one ended, since 1970 */
    uint32_t count;
    double allowed[SCREEN_PERIODS_MAX];
    double denied[SCREEN_PERIODS_MAX];
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
    struct screen_rule pressed[SCREEN_CHANGES_MAX]; /* that deny, or leave less than a fifth, most;
                                                       checks_rate is how often */
    uint32_t pressed_count;
    struct screen_history history;
    struct screen_event events[SCREEN_EVENTS_MAX]; /* the last ones, the oldest first */
    uint32_t event_count;
    struct screen_change changes[SCREEN_CHANGES_MAX];
    uint32_t change_count;
    char warnings[SCREEN_CHANGES_MAX][SCREEN_TEXT_LEN]; /* of the node that is asked */
    uint32_t warning_count;
    struct screen_node *nodes; /* the caller's; the own region first */
    uint32_t node_count;
    uint64_t nodes_more; /* that the answer, or the caller, had no room for */
};

/* How many nodes the answer lists. */
size_t screen_nodes_in(const struct mp_token *tokens, size_t count);
/* Fills the screen from an answer to `status`, of whatever release; `nodes` has room for so many.
 */
void screen_read(const struct mp_token *tokens, size_t count, struct screen_node *nodes,
                 size_t nodes_max, struct screen *screen);
/* Asserts SCREEN-1. */
void screen_check_invariants(const struct screen *screen);
/* Whether a node has troubles of its own, or does not answer. */
bool screen_is_ill(const struct screen_node *node);

/* ---- screen_lines.c: what is said ---- */

enum screen_line {
    SCREEN_WELL, /* the verdict, */
    SCREEN_ILL,  /* or that */
    SCREEN_LINE  /* all else; the label is "" where it is that of the line before */
};

struct screen_sink {
    void (*line)(void *context, enum screen_line kind, const char *label, const char *text);
    void *context;
};

/* The verdict, what it means, what to do, and the cluster: what stands before the table of nodes;
 */
void screen_say(const struct screen_sink *sink, const struct screen *screen);
/* what stands behind it: the busiest rules, the last changes; */
void screen_say_more(const struct screen_sink *sink, const struct screen *screen);
/* and all that is known of one node. */
void screen_say_node(const struct screen_sink *sink, const struct screen *screen,
                     const struct screen_node *node);
/* The node that is called NAME, or REGION/NAME; NULL: none, or several. */
const struct screen_node *screen_find(const struct screen *screen, const char *name);

/* ---- screen_events.c: what came about lately ---- */

struct screen_event_reader {
    const struct mp_token *tokens;
    size_t count;
    uint32_t left;
};
/* The list `events` of an answer to `events` or `status`, one after the other. */
void screen_events_begin(const struct mp_token *tokens, size_t count,
                         struct screen_event_reader *reader);
bool screen_events_next(struct screen_event_reader *reader, struct screen_event *event);
/* What the event says, in one sentence. */
enum { SCREEN_EVENT_LEN = SCREEN_TEXT_LEN + 64 };
void screen_event_say(const struct screen_event *event, char out[SCREEN_EVENT_LEN]);
/* The most that was decided in a period. */
double screen_history_most(const struct screen_history *history);
/* The history as a line of blocks, of the height of what was decided; "" if there is none. */
enum { SCREEN_LINE_LEN = 3 * SCREEN_PERIODS_MAX / 2 + 1 };
void screen_history_line(const struct screen_history *history, char out[SCREEN_LINE_LEN]);

/* ---- screen_cells.c: the table of nodes ---- */

enum screen_column {
    SCREEN_REGION,
    SCREEN_NAME,
    SCREEN_STATE,
    SCREEN_UP,
    SCREEN_CHECKS,
    SCREEN_DENIED,
    SCREEN_ACK,
    SCREEN_MEMORY,
    SCREEN_DISK,
    SCREEN_CLOCK,
    SCREEN_NOTE,
    SCREEN_COLUMNS
};
enum { SCREEN_CELL_LEN = 200 };

/* What stands in the column for the node; NULL: its header. */
void screen_cell(const struct screen *screen, const struct screen_node *node,
                 enum screen_column column, char out[SCREEN_CELL_LEN]);

/* ---- screen_words.c: numbers for people; each returns `out` ---- */

enum { SCREEN_WORD_LEN = 32 };
const char *screen_span(uint64_t ms, char out[SCREEN_WORD_LEN]);      /* "2h31m", "0.4s" */
const char *screen_count(uint64_t number, char out[SCREEN_WORD_LEN]); /* "12,031" */
const char *screen_rate(double rate, char out[SCREEN_WORD_LEN]);      /* "0.3", "12,031" */
const char *screen_bytes(uint64_t bytes, char out[SCREEN_WORD_LEN]);  /* "256M" */
const char *screen_us(uint64_t us, char out[SCREEN_WORD_LEN]);        /* "0.9ms" */
const char *screen_skew(int64_t us, char out[SCREEN_WORD_LEN]);       /* "+2ms", "-1h0m" */

#endif
