/* wire.h - the client protocol's codec: one ZeroMQ frame <-> one message. PROTOCOL.md is the spec.
 *
 * A frame is one msgpack array [version, type, ...] of at most 1 MiB. Whatever comes once per
 * check travels as a column, a `bin` of fixed-width little-endian numbers, so that a batch of n
 * checks costs some twenty msgpack tokens and not 10 n.
 *
 *   frame --wire_peek--> type, session, seq --wire_decode_TYPE--> struct of views into the frame
 *
 * I1  A decoded struct is a view: it lives as long as the frame and the space that were passed.
 * I2  After a decode returned 0 every index, length and enum in the struct is in range, so that
 *     consumers use the columns unchecked; after any other return nothing in it may be used.
 * I3  A refusal writes one sentence to `error` (WIRE_ERROR_LEN bytes, never NULL): which field,
 *     what was found, what was expected. It never quotes a key or a value.
 * I4  Extra elements at the end of an array that has a fixed shape are ignored: a newer minor
 *     release may add them. Another major version is TG_EVERSION.
 * I5  An encode never writes beyond `capacity`; it returns the frame's length (> 0), TG_ETOOBIG
 *     if it did not fit, TG_EINVALID if a field breaks its bound.
 *
 * Pure: no clock, socket, thread, file or heap. Every function is safe on any thread as long as
 * the memory passed to it is the caller's alone.
 */
#ifndef CLIENT_PROTOCOL_WIRE_H
#define CLIENT_PROTOCOL_WIRE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/limit.h"
#include "base/mp.h"
#include "base/vocabulary.h"
#include "client/protocol/identity.h"

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_WELCOME = 2,
    WIRE_GET_RING = 3,
    WIRE_RING = 4,
    WIRE_CHECKS = 5,
    WIRE_DECISIONS = 6,
    WIRE_ERROR = 7,
    WIRE_ADMIN = 8,
    WIRE_ADMIN_REPLY = 9,
    WIRE_GOODBYE = 10,
    WIRE_TYPE_END /* one behind the last */
};

enum {
    WIRE_VERSION = 1,
    WIRE_MESSAGE_MAX = 1 << 20, /* bytes of a frame */
    WIRE_MESSAGE_MIN = 1024,    /* the least message_max that a node may offer */
    WIRE_ERROR_LEN = 256,       /* a sentence with its NUL */

    WIRE_CHECKS_MAX = 4096,   /* items of one CHECKS */
    WIRE_TEMPLATES_MAX = 256, /* templates of one CHECKS */
    WIRE_ATTRIBUTES_MAX = 32, /* attribute names of one template */
    WIRE_ATTRIBUTE_LEN_MAX = 64,
    WIRE_VALUE_MAX = 1024, /* bytes of an attribute value or an inline key */
    WIRE_TIMEOUT_MS_MAX = 3600 * 1000,

    WIRE_TEMPLATES_LEN_MAX = 1 << 16, /* bytes of the encoded templates that a builder makes */

    WIRE_NAME_MAX = 64,          /* bytes of a node or command name */
    WIRE_RULE_MAX = 128,         /* bytes of a rule's name */
    WIRE_AGENT_MAX = 128,        /* bytes of a software description */
    WIRE_WINDOW_MAX = 48,        /* bytes of a window as text, "5/h" */
    WIRE_TEXT_MAX = 256,         /* bytes of a rule's message */
    WIRE_SOURCES_MAX = 1024,     /* distinct sources of one DECISIONS */
    WIRE_SOURCE_NONE = 0xffff,   /* no source: the table was full, or there is none */
    WIRE_EXPLAIN_ITEMS_MAX = 16, /* items of a CHECKS that asks EXPLAIN */
    WIRE_EXPLAIN_ROWS_MAX = 64,  /* limits explained per item */

    WIRE_MEMBERS_MAX = 1024,   /* members of one RING */
    WIRE_SHARDS_MAX = 64,      /* endpoints of one member */
    WIRE_ENDPOINTS_MAX = 4096, /* endpoints of all members */
    WIRE_ENDPOINT_LEN_MAX = 128,
    WIRE_VNODES_MAX = IDENTITY_VNODES_MAX,
    WIRE_MEMBER_NONE = 0xffff, /* a vnode without a known decider */

    WIRE_ADMIN_TOKENS_MAX = 16384, /* suggested token space for ADMIN arguments */
    WIRE_EXTRA_TOKENS = 256        /* room for elements of newer minor releases */
};

#define WIRE_VNODE_NONE UINT32_MAX      /* an item without a vnode (no rule, error) */
#define WIRE_COST_MAX   LIMIT_COUNT_MAX /* 10^15 */
#define WIRE_NEVER_MS   INT64_C(-1)     /* reset, retry or delay that never comes */

enum wire_checks_flags {
    WIRE_FLAG_RETRY = 1,   /* sent before with this (session, seq): give the first answer */
    WIRE_FLAG_EXPLAIN = 2, /* answer every limit that was met */
    WIRE_FLAG_PARTLY = 4,  /* answer at once what is decided, and again when more is */
    WIRE_FLAG_ONCE = 8,    /* it will not be sent again: no answer need be remembered */
    WIRE_FLAGS = WIRE_FLAG_RETRY | WIRE_FLAG_EXPLAIN | WIRE_FLAG_PARTLY | WIRE_FLAG_ONCE
};

enum wire_operation_bits {
    WIRE_OPERATION_MASK = 0x0f, /* enum operation */
    WIRE_AT_MOST = 0x80         /* with check and peek: take what there is, up to the cost */
};

enum wire_decision_flags {
    WIRE_ALLOWED = 1,
    WIRE_DEGRADED = 2,
    WIRE_STEADY = 4, /* a denial that stays one until its retry_after, unless it is refunded */
    WIRE_PENDING = 8 /* not decided yet: another answer to this message follows */
};

static_assert(WIRE_VALUE_MAX <= UINT16_MAX, "value lengths travel as u16");
static_assert((int)WIRE_VALUE_MAX == (int)IDENTITY_VALUE_MAX, "what travels can be counted");
static_assert((int)WIRE_VALUE_MAX == (int)IDENTITY_KEY_MAX, "what travels can be counted");
static_assert((int)WIRE_RULE_MAX == (int)IDENTITY_NAME_MAX, "what is counted can be named");
static_assert(WIRE_SOURCES_MAX < WIRE_SOURCE_NONE, "an index is never mistaken for none");
static_assert(WIRE_MEMBERS_MAX < WIRE_MEMBER_NONE, "an index is never mistaken for none");

/* Bytes without a NUL at their end; `data` may be NULL only if `len` is 0. */
struct wire_text {
    const char *data;
    size_t len;
};

/* The text of a NUL-terminated string; "" for NULL. */
struct wire_text wire_text_of(const char *string);

/* ---- envelope ---------------------------------------------------------------------------- */

struct wire_envelope {
    uint32_t version;
    uint32_t type;    /* may be a number that is no enum wire_type: TG_EUNSUPPORTED for a node */
    uint64_t session; /* 0 if the frame is too broken to tell */
    uint64_t seq;     /* 0 for types without one, or if the frame is too broken to tell */
};

/* Reads the envelope without looking at the body, so that even a bad body can be answered with an
 * ERROR of the right session and seq. Fills what it could read in any case (else zeros).
 * 0, TG_EPROTOCOL, TG_ETOOBIG (over WIRE_MESSAGE_MAX), TG_EVERSION (another major version). */
MUST_USE int wire_peek(const void *frame, size_t len, struct wire_envelope *envelope, char *error);

/* ---- session ----------------------------------------------------------------------------- */

struct wire_hello {
    uint64_t session;     /* chosen at random by the client, non-zero */
    uint32_t version_min; /* protocol versions that the client speaks, inclusive */
    uint32_t version_max;
    struct wire_text agent; /* "libtidegate/1.0.0", <= WIRE_AGENT_MAX */
};

struct wire_welcome {
    uint64_t session;
    uint32_t version; /* the one to use from now on */
    uint8_t cluster_id[16];
    uint64_t node_id; /* non-zero */
    struct wire_text node_name;
    struct hash_key route_key;
    uint32_t vnodes; /* power of two, 1 .. WIRE_VNODES_MAX */
    uint64_t view_version;
    uint32_t checks_max;  /* 1 .. WIRE_CHECKS_MAX: items that this node takes in one CHECKS */
    uint32_t message_max; /* 1024 .. WIRE_MESSAGE_MAX */
    struct wire_text software;
};

MUST_USE int wire_encode_hello(const struct wire_hello *hello, void *out, size_t capacity);
MUST_USE int wire_decode_hello(const void *frame, size_t len, struct wire_hello *hello,
                               char *error);
MUST_USE int wire_encode_welcome(const struct wire_welcome *welcome, void *out, size_t capacity);
MUST_USE int wire_decode_welcome(const void *frame, size_t len, struct wire_welcome *welcome,
                                 char *error);
MUST_USE int wire_encode_goodbye(uint64_t session, void *out, size_t capacity);
MUST_USE int wire_decode_goodbye(const void *frame, size_t len, uint64_t *session, char *error);

struct wire_error {
    uint64_t session;
    uint64_t seq;
    int32_t code;          /* a negative TG_E* */
    struct wire_text text; /* a sentence; cut to WIRE_ERROR_LEN - 1 when encoded */
};

MUST_USE int wire_encode_error(const struct wire_error *message, void *out, size_t capacity);
MUST_USE int wire_decode_error(const void *frame, size_t len, struct wire_error *message,
                               char *error);

/* ---- ring -------------------------------------------------------------------------------- */

struct wire_get_ring {
    uint64_t session;
    uint64_t seq;
};

struct wire_ring_member {
    uint64_t node_id; /* non-zero */
    struct wire_text name;
    uint32_t endpoint_first; /* index into endpoints; shard s is endpoint_first + s */
    uint32_t shard_count;    /* 1 .. WIRE_SHARDS_MAX */
};

struct wire_ring {
    uint64_t session;
    uint64_t seq;
    uint64_t view_version;
    uint64_t epoch;
    uint32_t member_count; /* 0 .. WIRE_MEMBERS_MAX */
    uint32_t endpoint_count;
    const struct wire_ring_member *members;
    const struct wire_text *endpoints; /* "HOST:PORT" */
    uint32_t vnode_count;              /* power of two */
    const uint8_t *deciders;           /* vnode_count x u16 LE member index or WIRE_MEMBER_NONE */
};

enum { WIRE_RING_TOKENS_MAX = 16 + WIRE_MEMBERS_MAX * 4 + WIRE_ENDPOINTS_MAX + WIRE_EXTRA_TOKENS };

struct wire_ring_space { /* ~ 250 KiB */
    struct mp_token tokens[WIRE_RING_TOKENS_MAX];
    struct wire_ring_member members[WIRE_MEMBERS_MAX];
    struct wire_text endpoints[WIRE_ENDPOINTS_MAX];
};

MUST_USE int wire_encode_get_ring(const struct wire_get_ring *message, void *out, size_t capacity);
MUST_USE int wire_decode_get_ring(const void *frame, size_t len, struct wire_get_ring *message,
                                  char *error);
MUST_USE int wire_encode_ring(const struct wire_ring *ring, void *out, size_t capacity);
MUST_USE int wire_decode_ring(const void *frame, size_t len, struct wire_ring_space *space,
                              struct wire_ring *ring, char *error);

/* Member index of the decider of `vnode` (< vnode_count), or WIRE_MEMBER_NONE. */
uint32_t wire_ring_decider(const struct wire_ring *ring, uint32_t vnode);
/* The endpoint of the shard that decides `vnode` on member `member` (< member_count). */
struct wire_text wire_ring_endpoint(const struct wire_ring *ring, uint32_t member, uint32_t vnode);

/* ---- checks ------------------------------------------------------------------------------ */

enum wire_template_kind { WIRE_TEMPLATE_INLINE, WIRE_TEMPLATE_ATTRIBUTES };

/* What the items of a batch have in common: an inline limit (one value each: the key), or the
 * names of attributes (one value each, in the order of the names). */
struct wire_template {
    enum wire_template_kind kind;
    uint32_t value_count; /* 1 for INLINE, the number of names for ATTRIBUTES */
    struct limit limit;   /* INLINE: passed limit_validate */
    struct wire_text names[WIRE_ATTRIBUTES_MAX]; /* ATTRIBUTES: distinct, not empty */
};

struct wire_checks {
    uint64_t session;
    uint64_t seq;
    uint32_t flags;      /* enum wire_checks_flags; unknown bits are cleared */
    uint32_t timeout_ms; /* 1 .. WIRE_TIMEOUT_MS_MAX: how long the client still waits */
    uint32_t count;      /* 1 .. WIRE_CHECKS_MAX */
    uint32_t template_count;
    const struct wire_template *templates;
    const uint8_t *operations;     /* count x u8 */
    const uint8_t *costs;          /* count x u64 LE, each <= WIRE_COST_MAX, or a lease (below) */
    const uint8_t *template_index; /* count x u16 LE, each < template_count */
    const uint8_t *values;         /* (u16 LE len | bytes) for each value of each item */
    size_t values_len;
    const uint32_t *value_offset; /* count + 1: item i is values[offset[i] .. offset[i + 1]) */
    const uint8_t *uses; /* count x u64 LE, each <= WIRE_COST_MAX; NULL: all of them are 0 */
};

enum {
    WIRE_CHECKS_TOKENS_MAX = 16 + WIRE_TEMPLATES_MAX * (2 + WIRE_ATTRIBUTES_MAX) + WIRE_EXTRA_TOKENS
};

struct wire_checks_space { /* ~ 300 KiB; one per receiving thread */
    struct mp_token tokens[WIRE_CHECKS_TOKENS_MAX];
    struct wire_template templates[WIRE_TEMPLATES_MAX];
    uint32_t value_offset[WIRE_CHECKS_MAX + 1];
};

/* How many items a CHECKS frame says that it has, for one that is not to be decided: nothing else
 * is looked at. 0 if it does not say. */
uint32_t wire_checks_count(const void *frame, size_t len, struct wire_checks_space *space);
MUST_USE int wire_decode_checks(const void *frame, size_t len, struct wire_checks_space *space,
                                struct wire_checks *checks, char *error);

/* Unchecked access to item `i` < count of decoded checks. */
static inline enum operation wire_checks_operation(const struct wire_checks *checks, uint32_t i)
{
    return (enum operation)(checks->operations[i] & WIRE_OPERATION_MASK);
}
static inline bool wire_checks_at_most(const struct wire_checks *checks, uint32_t i)
{
    return (checks->operations[i] & WIRE_AT_MOST) != 0;
}
/* The cost; of release and renew: the lease that it is about, any number. */
static inline bool wire_names_lease(unsigned operation)
{
    return operation == OPERATION_RELEASE || operation == OPERATION_RENEW;
}
static inline uint64_t wire_checks_cost(const struct wire_checks *checks, uint32_t i)
{
    return bytes_u64_at(checks->costs, i);
}
/* Of release and renew: how many tokens of the lease were used so far. */
static inline uint64_t wire_checks_used(const struct wire_checks *checks, uint32_t i)
{
    return checks->uses == NULL ? 0 : bytes_u64_at(checks->uses, i);
}
static inline const struct wire_template *wire_checks_template(const struct wire_checks *checks,
                                                               uint32_t i)
{
    return &checks->templates[bytes_u16_at(checks->template_index, i)];
}
/* The first value of item `i`: the key of an inline check. */
static inline struct wire_text wire_checks_key(const struct wire_checks *checks, uint32_t i)
{
    const uint8_t *value = checks->values + checks->value_offset[i];
    return (struct wire_text){.data = (const char *)value + 2, .len = bytes_u16_at(value, 0)};
}
/* All values of item `i` into `values` (WIRE_ATTRIBUTES_MAX entries); returns their number. */
uint32_t wire_checks_values(const struct wire_checks *checks, uint32_t i, struct wire_text *values);

/* Builds a CHECKS item by item. The caller gives room for the values at init and the session,
 * seq, flags and time-out at encode, so that one builder serves many messages.
 *
 *   init -> (template -> append)* -> encode [-> encode again for a retry] -> reset -> ... */
struct wire_checks_builder { /* ~ 150 KiB + the values */
    uint32_t count;
    bool states_uses; /* the column of uses is part of the message */
    uint32_t template_count;
    uint32_t template_last; /* the index that `template` found last: batches repeat one */
    size_t templates_len;
    size_t values_len;
    size_t values_capacity;
    size_t len_max; /* WIRE_MESSAGE_MAX; may be lowered to a node's message_max */
    uint8_t *values;
    uint32_t template_offset[WIRE_TEMPLATES_MAX + 1]; /* into templates */
    uint32_t template_values[WIRE_TEMPLATES_MAX];     /* values per item */
    uint8_t operations[WIRE_CHECKS_MAX];
    uint8_t template_index[WIRE_CHECKS_MAX * 2];
    uint8_t costs[WIRE_CHECKS_MAX * 8];
    uint8_t uses[WIRE_CHECKS_MAX * 8]; /* if states_uses */
    uint8_t templates[WIRE_TEMPLATES_LEN_MAX];
};

/* `values` (capacity bytes, at least one largest item for progress) stays the caller's. */
void wire_checks_builder_init(struct wire_checks_builder *builder, void *values, size_t capacity);
void wire_checks_builder_reset(struct wire_checks_builder *builder);
/* The index of an equal template, added if it is new. TG_EFULL when the table is full; TG_EINVALID
 * when a name is empty, repeated or over its bound or the limit is invalid. */
MUST_USE int wire_checks_builder_inline(struct wire_checks_builder *builder,
                                        const struct limit *limit);
MUST_USE int wire_checks_builder_attributes(struct wire_checks_builder *builder,
                                            const struct wire_text *names, uint32_t name_count);
/* Appends an item with one value per value of template `index`. `operation` may carry
 * WIRE_AT_MOST. Returns the item's number, TG_EFULL when it does not fit in this message any
 * more (encode, reset, append again), TG_EINVALID for a field over its bound. */
MUST_USE int wire_checks_builder_append(struct wire_checks_builder *builder, uint32_t index,
                                        uint8_t operation, uint64_t cost,
                                        const struct wire_text *values, uint32_t value_count);
/* The same for RELEASE or RENEW of a lease of which `used` tokens were used. */
MUST_USE int wire_checks_builder_append_used(struct wire_checks_builder *builder, uint32_t index,
                                             uint8_t operation, uint64_t lease, uint64_t used,
                                             const struct wire_text *values, uint32_t value_count);
/* Bytes of the frame that encode would write, at most. */
size_t wire_checks_builder_len(const struct wire_checks_builder *builder);
MUST_USE int wire_checks_builder_encode(const struct wire_checks_builder *builder, uint64_t session,
                                        uint64_t seq, uint32_t flags, uint32_t timeout_ms,
                                        void *out, size_t capacity);

/* Writes the encoded CHECKS `frame` again for a retry: the same items, session and seq, with the
 * RETRY flag and the time that is left. */
MUST_USE int wire_checks_retry(const void *frame, size_t len, uint32_t timeout_ms, void *out,
                               size_t capacity);

/* ---- decisions --------------------------------------------------------------------------- */

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

/* ---- administration ---------------------------------------------------------------------- */

/* The rest of an administrative message is a free msgpack value, given both as bytes (to hand on)
 * and as tokens (to read with a mp_cursor); both are views. */
struct wire_value {
    const uint8_t *data;
    size_t len;
    const struct mp_token *tokens;
    size_t token_count;
};

struct wire_admin {
    uint64_t session;
    uint64_t seq;
    struct wire_text command;    /* "rules.list"; 1 .. WIRE_NAME_MAX bytes */
    struct wire_value arguments; /* a map */
};

struct wire_admin_reply {
    uint64_t session;
    uint64_t seq;
    int32_t code; /* 0 or a negative TG_E*; then the value is a sentence (str) */
    struct wire_value value;
};

/* Each starts the message on a fresh writer; the caller then puts exactly one value (a map for
 * the arguments) and the frame is writer->len bytes if !writer->failed. */
void wire_begin_admin(struct mp_writer *writer, uint64_t session, uint64_t seq,
                      const char *command);
void wire_begin_admin_reply(struct mp_writer *writer, uint64_t session, uint64_t seq, int32_t code);
/* TG_ETOOBIG when the message has more than `tokens_max` tokens. */
MUST_USE int wire_decode_admin(const void *frame, size_t len, struct mp_token *tokens,
                               size_t tokens_max, struct wire_admin *admin, char *error);
MUST_USE int wire_decode_admin_reply(const void *frame, size_t len, struct mp_token *tokens,
                                     size_t tokens_max, struct wire_admin_reply *reply,
                                     char *error);

#endif
