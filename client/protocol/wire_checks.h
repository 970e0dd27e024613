/* wire_checks.h - CHECKS: a batch of requests as columns, decoded and built. */
#ifndef CLIENT_PROTOCOL_WIRE_CHECKS_H
#define CLIENT_PROTOCOL_WIRE_CHECKS_H

#include "base/bytes.h"
#include "base/limit.h"
#include "base/mp.h"
#include "base/vocabulary.h"
#include "client/protocol/wire_base.h"

enum wire_template_kind { WIRE_TEMPLATE_INLINE, WIRE_TEMPLATE_ATTRIBUTES, WIRE_TEMPLATE_RULES };

/* A limit of a domain's descriptors, by name (node/policy/model/descriptors.h). */
struct wire_rule {
    struct wire_text name; /* of the rule; of a limit that comes with the request, of its domain */
    uint32_t node;         /* where it was found: it is looked for there first */
    uint64_t count;        /* of a limit that comes with the request: so many .. */
    uint64_t window_s;     /* .. in so many seconds; 0: it is the rule's own */
};

/* What the items of a batch have in common: an inline limit (one value each: the key), the names of
 * attributes (one value each, in the order of the names), or rules (for each the value that it is
 * counted by). */
struct wire_template {
    enum wire_template_kind kind;
    uint32_t value_count; /* 1 for INLINE, else the number of names or rules */
    struct limit limit;   /* INLINE: passed limit_validate */
    struct wire_text names[WIRE_ATTRIBUTES_MAX]; /* ATTRIBUTES: distinct, not empty */
    struct wire_rule rules[WIRE_RULES_MAX];      /* RULES: in bounds, and nothing else is known */
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
    WIRE_CHECKS_TOKENS_MAX = 16 + WIRE_TEMPLATES_MAX * (2 + WIRE_RULES_MAX * 5) + WIRE_EXTRA_TOKENS
};
static_assert((int)WIRE_RULES_MAX * 5 >= (int)WIRE_ATTRIBUTES_MAX, "tokens of any template fit");

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
/* The cost; of release and renew the lease that it is about, of commit and cancel the reservation:
 * any number. */
static inline bool wire_names_lease(unsigned operation)
{
    return operation == OPERATION_RELEASE || operation == OPERATION_RENEW ||
           operation == OPERATION_COMMIT || operation == OPERATION_CANCEL;
}
/* Whether a reservation may be asked for so many ms; 0: LIMIT_TTL_DEFAULT_MS. */
static inline bool wire_ttl_valid(uint64_t ttl_ms)
{
    return ttl_ms == 0 || limit_ttl_fits(ttl_ms);
}
static inline uint64_t wire_checks_cost(const struct wire_checks *checks, uint32_t i)
{
    return bytes_u64_at(checks->costs, i);
}
/* Of release and renew how many tokens of the lease were used so far, of commit how many were used,
 * of reserve how many ms it lasts. */
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
    uint32_t template_hash[WIRE_TEMPLATES_MAX];       /* of the encoded bytes, to look them up */
    bool template_limits[WIRE_TEMPLATES_MAX];         /* whether it names a limit itself */
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
MUST_USE int wire_checks_builder_rules(struct wire_checks_builder *builder,
                                       const struct wire_rule *rules, uint32_t rule_count);
/* Appends an item with one value per value of template `index`. `operation` may carry
 * WIRE_AT_MOST. Returns the item's number, TG_EFULL when it does not fit in this message any
 * more (encode, reset, append again), TG_EINVALID for a field over its bound. */
MUST_USE int wire_checks_builder_append(struct wire_checks_builder *builder, uint32_t index,
                                        uint8_t operation, uint64_t cost,
                                        const struct wire_text *values, uint32_t value_count);
/* The same for RELEASE or RENEW of a lease of which `used` tokens were used; COMMIT and CANCEL of a
 * reservation; and RESERVE of `lease` tokens for `used` ms. */
MUST_USE int wire_checks_builder_append_used(struct wire_checks_builder *builder, uint32_t index,
                                             uint8_t operation, uint64_t lease, uint64_t used,
                                             const struct wire_text *values, uint32_t value_count);
/* Bytes of the frame that encode would write, at most. */
/* Whether check `item` names its limit itself, instead of a rule of the node's. */
bool wire_checks_builder_names_limit(const struct wire_checks_builder *builder, uint32_t item);
size_t wire_checks_builder_len(const struct wire_checks_builder *builder);
MUST_USE int wire_checks_builder_encode(const struct wire_checks_builder *builder, uint64_t session,
                                        uint64_t seq, uint32_t flags, uint32_t timeout_ms,
                                        void *out, size_t capacity);

/* Writes the encoded CHECKS `frame` again for a retry: the same items, session and seq, with the
 * RETRY flag and the time that is left. */
MUST_USE int wire_checks_retry(const void *frame, size_t len, uint32_t timeout_ms, void *out,
                               size_t capacity);

#endif
