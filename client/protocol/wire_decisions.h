/* wire_decisions.h - DECISIONS: the answers to a batch, encoded and decoded. */
#ifndef CLIENT_PROTOCOL_WIRE_DECISIONS_H
#define CLIENT_PROTOCOL_WIRE_DECISIONS_H

#include "base/bytes.h"
#include "base/mp.h"
#include "base/vocabulary.h"
#include "client/protocol/wire_base.h"

/* What many decisions of a batch have in common: the rule and window that decided, the status and
 * message it asks for, and the node that decided. */
struct wire_source {
    struct wire_text rule;    /* "" for an inline limit; <= WIRE_RULE_MAX */
    struct wire_text window;  /* "5/h"; <= WIRE_WINDOW_MAX */
    uint16_t status;          /* as HTTP: 200, 429 */
    struct wire_text message; /* <= WIRE_TEXT_MAX */
    struct wire_text node;    /* <= WIRE_NAME_MAX */
    /* The rule on trial that would have denied what was allowed; "" if none. <= WIRE_RULE_MAX */
    struct wire_text shadow_rule;
};

struct wire_explain_row {
    struct wire_text rule;
    struct wire_text window;
    uint64_t limit;
    uint64_t used;
    uint64_t remaining;
    bool allowed;
    int64_t reset_after_ms;
    int64_t retry_after_ms;
    struct wire_text pool; /* of an elastic limit, <= WIRE_RULE_MAX; else "", and zeros follow */
    uint64_t level;        /* thousandths of a token a second, as is what follows */
    uint64_t guaranteed;
    uint64_t borrowed;
    bool pool_global;           /* its rate is one for all regions, of which */
    struct wire_text pool_home; /* this one lends, <= WIRE_NAME_MAX; "": none, or not known */
};

/* Columns that a node fills, in native byte order, one element per item. */
struct wire_decision_columns {              /* ~ 260 KiB */
    uint8_t outcomes[WIRE_CHECKS_MAX];      /* enum outcome */
    uint8_t flags[WIRE_CHECKS_MAX];         /* enum wire_decision_flags */
    uint16_t source_index[WIRE_CHECKS_MAX]; /* from wire_sources_add, or WIRE_SOURCE_NONE */
    uint32_t vnode[WIRE_CHECKS_MAX];        /* or WIRE_VNODE_NONE */
    uint64_t limit[WIRE_CHECKS_MAX];
    uint64_t used[WIRE_CHECKS_MAX];
    uint64_t remaining[WIRE_CHECKS_MAX];
    uint64_t granted[WIRE_CHECKS_MAX];
    int64_t reset_after_ms[WIRE_CHECKS_MAX];
    int64_t retry_after_ms[WIRE_CHECKS_MAX];
    int64_t delay_ms[WIRE_CHECKS_MAX];
    uint64_t leases[WIRE_CHECKS_MAX];   /* if head.leased: the lease that was given, 0 none */
    uint32_t lease_ms[WIRE_CHECKS_MAX]; /* if head.held: how long it lasts, of one of tokens */
};

enum { WIRE_SOURCE_BUCKETS = 1024 }; /* hash chains of the dedup helper; power of two */

/* The sources of one DECISIONS, each once. The texts are kept by pointer: they must live until
 * the message is encoded. */
struct wire_sources { /* ~ 80 KiB */
    uint32_t count;
    uint16_t last; /* the index given last: batches repeat one */
    uint16_t head[WIRE_SOURCE_BUCKETS];
    uint16_t next[WIRE_SOURCES_MAX];
    struct wire_source table[WIRE_SOURCES_MAX];
};

void wire_sources_init(struct wire_sources *sources);
/* The index of an equal source, added if it is new; WIRE_SOURCE_NONE when the table is full (a
 * client then shows no rule for that item). Texts over their bound are cut. */
uint16_t wire_sources_add(struct wire_sources *sources, const struct wire_source *source);

/* The explanation of a message: rows of item i are rows[end[i - 1] .. end[i]), end[-1] = 0. */
struct wire_explain {
    uint32_t end[WIRE_EXPLAIN_ITEMS_MAX];
    struct wire_explain_row rows[WIRE_EXPLAIN_ITEMS_MAX * WIRE_EXPLAIN_ROWS_MAX];
};

struct wire_decisions_head {
    uint64_t session;
    uint64_t seq;
    uint64_t view_version;
    uint32_t count; /* 1 .. WIRE_CHECKS_MAX */
    bool leased;    /* some item was given a lease: their column is part of the message */
    bool held;      /* one of tokens, too: so is the column of how long they last */
};

/* `explain` may be NULL; else head->count <= WIRE_EXPLAIN_ITEMS_MAX. With all bounds kept, and at
 * most one source an item, the frame always fits in WIRE_MESSAGE_MAX. */
MUST_USE int wire_encode_decisions(const struct wire_decisions_head *head,
                                   const struct wire_decision_columns *columns,
                                   const struct wire_sources *sources,
                                   const struct wire_explain *explain, void *out, size_t capacity);

/* Decoded columns are little-endian in place: read them with wire_decision_at. */
struct wire_decisions {
    struct wire_decisions_head head;
    const uint8_t *outcomes;
    const uint8_t *flags;
    const uint8_t *limit;
    const uint8_t *used;
    const uint8_t *remaining;
    const uint8_t *granted;
    const uint8_t *reset_after_ms;
    const uint8_t *retry_after_ms;
    const uint8_t *delay_ms;
    const uint8_t *source_index;
    const uint8_t *vnode;
    const uint8_t *leases;   /* NULL unless head.leased */
    const uint8_t *lease_ms; /* NULL unless head.held */
    uint32_t source_count;
    const struct wire_source *sources;
    const struct wire_explain *explain; /* NULL if none was sent */
};

enum {
    WIRE_DECISIONS_TOKENS_MAX = 32 + WIRE_SOURCES_MAX * 7 +
                                WIRE_EXPLAIN_ITEMS_MAX * (1 + WIRE_EXPLAIN_ROWS_MAX * 14) +
                                WIRE_EXTRA_TOKENS
};

struct wire_decisions_space { /* ~ 560 KiB */
    struct mp_token tokens[WIRE_DECISIONS_TOKENS_MAX];
    struct wire_source sources[WIRE_SOURCES_MAX];
    struct wire_explain explain;
};

MUST_USE int wire_decode_decisions(const void *frame, size_t len,
                                   struct wire_decisions_space *space,
                                   struct wire_decisions *decisions, char *error);

/* One item of decoded decisions. */
struct wire_decision {
    enum outcome outcome;
    bool allowed;
    bool degraded;
    bool pending; /* not decided yet; nothing else of this means anything */
    bool steady;
    bool in_flight; /* limit, used and remaining are places of a limit of concurrency */
    uint64_t limit;
    uint64_t used;
    uint64_t remaining;
    uint64_t granted;
    int64_t reset_after_ms;
    int64_t retry_after_ms;
    int64_t delay_ms;
    uint64_t lease;    /* 0 none */
    uint32_t lease_ms; /* how long it lasts, of one of tokens, from before it was asked for */
    uint32_t vnode;
    const struct wire_source *source; /* NULL for none */
};

/* Item `i` < head.count. */
void wire_decision_at(const struct wire_decisions *decisions, uint32_t i,
                      struct wire_decision *out);

#endif
