/* figures.h - how one node is doing, in a row of numbers that it tells whoever is asked by people.
 *
 *   report --figures_take--> numbers of now, and rates by the difference to a second ago
 *
 *   asked node    ASK    random number         -->  each living member, once a second while
 *                                                   somebody looks
 *                 TELL   that number, figures  <--
 *
 * A frame is the byte 0xc1, as of join.h, whose types these continue, and one msgpack array:
 *
 *   [version, type, cluster id, sender, address to answer, number, [figure, ...],
 *    [[rule, checks, denied], ...] that answer most,
 *    [[rule, near or denied, denied], ...] that are near their limits most,
 *    [period, [allowed, ...], [denied, ...]] of the last ten minutes]
 *
 * FIGURES-1  The order of figures is that of enum figure, and only grows: what a sender does not
 *            know is missing at the end, and what a receiver does not know is stepped over.
 * FIGURES-2  An answer counts by the number of its question, and for its sender alone.
 *
 * Pure.
 */
#ifndef NODE_CLUSTER_CONTROL_FIGURES_H
#define NODE_CLUSTER_CONTROL_FIGURES_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/configstore/settings_wire.h"
#include "node/cluster/control/control.h"
#include "node/cluster/wire/join.h"

/* Rates are in thousandths a second: they are whole numbers on the wire. */
enum figure {
    FIGURE_UPTIME_MS = 0,
    FIGURE_CHECKS = 1, /* decided there */
    FIGURE_ALLOWED = 2,
    FIGURE_DENIED = 3,
    FIGURE_CHECKS_RATE = 4,
    FIGURE_ALLOWED_RATE = 5,
    FIGURE_DENIED_RATE = 6,
    FIGURE_BUSY_RATE = 7,  /* refused for want of room */
    FIGURE_ACK_P99_US = 8, /* from a grant to the first replica's acknowledgement */
    FIGURE_SLOTS = 9,      /* keys in memory, and the places for them */
    FIGURE_SLOTS_MAX = 10,
    FIGURE_MEMORY_MAX = 11,   /* bytes, --memory */
    FIGURE_FLUSH_LAG_MS = 12, /* age of the oldest change that is not on disk */
    FIGURE_STORE_USED = 13,
    FIGURE_STORE_MOST = 14,
    FIGURE_EPHEMERAL = 15,   /* 1: it keeps nothing on disk */
    FIGURE_OVER_TOKENS = 16, /* could be admitted too much now */
    FIGURE_DECIDES = 17,     /* vnodes */
    FIGURE_CUT_OFF = 18,     /* of them without another replica in reach */
    FIGURE_INCOMPLETE = 19,  /* of them of which a replica has no whole copy */
    FIGURES
};

enum {
    FIGURES_RULES = 5,
    FIGURES_NAME_LEN = POLICY_NAME_LEN_MAX + 1,
    FIGURES_PERIODS = 60,
    FIGURES_PERIOD_S = 10
};

struct figures_rule {
    char name[FIGURES_NAME_LEN];
    uint64_t checks_rate; /* of a second or two, by this rule */
    uint64_t denied_rate;
};

/* What was decided in each of the last periods, which begin with the multiples of 10 s of the
 * cluster's time. */
struct figures_history {
    uint64_t period; /* number of the period behind the last one here; 0: there is none yet */
    uint32_t count;  /* of periods here, the oldest first */
    uint32_t allowed[FIGURES_PERIODS];
    uint32_t denied[FIGURES_PERIODS];
};

struct figures {
    uint64_t values[FIGURES];
    uint32_t rule_count;
    struct figures_rule rules[FIGURES_RULES]; /* that answer most, the first one most often */
    uint32_t pressed_count;
    struct figures_rule
        pressed[FIGURES_RULES]; /* likewise: that deny, or leave less than a fifth */
    struct figures_history history;
};

/* Adds what a rule answers elsewhere to a list of at most `max`, in order; returns how many. */
uint32_t figures_add_rule(struct figures_rule *list, uint32_t count, uint32_t max,
                          const struct figures_rule *rule);

/* Figures of one node, and what its rates are reckoned from; zeroed to begin with. */
struct figures_meter {
    struct figures now;
    int64_t taken_ns; /* when the rates were taken; 0: not yet */
    uint64_t checks;  /* at that time */
    uint64_t allowed;
    uint64_t denied;
    uint64_t busy;
    uint64_t period_allowed; /* when the period began that is not over */
    uint64_t period_denied;
};

/* Takes a report of `now_ns`; rates are of a second at least. */
void figures_take(struct figures_meter *meter, const struct control_report *report, int64_t now_ns);

/* Adds the history of another node; what one of them has not told yet stays out. */
void figures_add_history(struct figures_history *sum, const struct figures_history *of);

struct mp_writer;
/* Puts the figures as a map by name, with rates as numbers a second; returns how many fields. */
enum { FIGURES_FIELDS = FIGURES };
void figures_put(const struct figures *figures, struct mp_writer *writer);

/* As of join.h, far behind what is there. */
enum figures_type { FIGURES_ASK = 68, FIGURES_TELL = 69, FIGURES_TYPE_END };
static_assert((int)FIGURES_ASK > (int)SETTINGS_TYPE_END, "types of control's frames differ");
static_assert(FIGURES == 20, "FIGURES-1: one more is appended, with the next number");

struct figures_frame {
    enum figures_type type;
    uint8_t cluster_id[CONTROL_CLUSTER_ID_LEN];
    uint64_t sender;
    char address[VIEW_TEXT_LEN];
    uint64_t number;
    struct figures figures; /* of a TELL */
};

enum {
    FIGURES_FRAME_MAX =
        512 + 2 * FIGURES_RULES * (POLICY_NAME_LEN_MAX + 32) + 2 * FIGURES_PERIODS * 5 + 32
};

/* Length, or TG_ETOOBIG. */
MUST_USE int figures_encode(const struct figures_frame *frame, void *out, size_t capacity);
/* 0, TG_EPROTOCOL (also: another message of join.h), TG_EVERSION. */
MUST_USE int figures_decode(const void *bytes, size_t len, struct figures_frame *frame);

#endif
