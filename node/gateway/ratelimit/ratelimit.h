/* ratelimit.h - what a proxy asks of a domain's descriptors: from them to checks, and back to
 * statuses.
 *
 *   domain, descriptors --ratelimit_find--> state: what is kept until the decision
 *        |                                    | items > 0
 *        |                  ratelimit_append--+--> checks ... the shard decides
 *        v                                                        |
 *   statuses <--ratelimit_settle--- state, decisions <------------+
 *
 * Each descriptor that has a limit is a check of its own (`charge: each`), or those that cost the
 * same are one (`charge: all`). Those without a limit are answered from the state alone.
 *
 * RATELIMIT-1  A state tells all that a status needs: the rules may change until the decision.
 * RATELIMIT-2  Nothing is asked of a request that is refused.
 *
 * Pure. The messages are those of ../grpc/grpc_ratelimit.c.
 */
#ifndef NODE_GATEWAY_RATELIMIT_RATELIMIT_H
#define NODE_GATEWAY_RATELIMIT_RATELIMIT_H

#include "client/protocol/wire.h"
#include "node/policy/descriptors/descriptor_find.h"
#include "node/policy/descriptors/descriptor_status.h"

enum {
    RATELIMIT_ENTRIES_MAX = 1024,                    /* of a request */
    RATELIMIT_DESCRIPTORS_MAX = 64,                  /* of a request */
    RATELIMIT_ERROR_LEN = DESCRIPTOR_ERROR_LEN + 32, /* a sentence with its NUL */
    RATELIMIT_NAME_LEN_MAX = 128, /* of a limit, as it is told; a longer one is cut */
    RATELIMIT_TEXTS_LEN =
        7936, /* of names, messages, the domain and metadata: these may be left out */
    RATELIMIT_METADATA_LEN = 4 * RATELIMIT_TEXTS_LEN, /* bytes of the Struct that is told */
    RATELIMIT_NO_ITEM = 0xff
};

/* What is done with hits. */
enum ratelimit_manner {
    RATELIMIT_CHECK,   /* they are charged, if they may be */
    RATELIMIT_LOOK,    /* whether they might be is told */
    RATELIMIT_REPORT,  /* they are charged, whatever the limit */
    RATELIMIT_RESERVE, /* `cost` of each limit is held, of all or none */
    RATELIMIT_COMMIT   /* `used` is charged, in the place of reservation `cost` */
};

struct ratelimit_descriptor {
    struct descriptor_entry *entries;
    uint32_t entry_count;
    struct descriptor_hits hits;
    bool has_given;
    struct descriptor_given given;
};

struct ratelimit_request {
    struct policy_text domain;
    const struct ratelimit_descriptor *descriptors;
    uint32_t count;
    enum ratelimit_manner manner;
    uint64_t cost; /* RESERVE, COMMIT: instead of the descriptors' hits */
    uint64_t used; /* COMMIT; of RESERVE the ms that it is held, 0: a minute */
};

/* What is kept of a descriptor. */
struct ratelimit_kept {
    uint64_t cost;
    uint64_t limit; /* that is counted against */
    uint32_t window_s;
    uint32_t requests_per_unit;
    uint16_t name_at; /* in the texts of the state */
    uint16_t metadata_at;
    uint16_t metadata_len; /* 0: it has none */
    uint16_t message_at;
    uint16_t message_len; /* likewise */
    uint8_t name_len;
    uint8_t match; /* enum descriptor_match */
    uint8_t use;   /* enum descriptor_use */
    uint8_t item;  /* of the checks, or NO_ITEM */
    uint8_t row;   /* of what is explained of that item: `all` */
    bool quota;
    bool shadow;
};

/* What is kept of a request; `count` of the above stand behind it, and then the texts. */
struct ratelimit_state {
    _Alignas(struct ratelimit_kept) uint16_t texts_len;
    uint16_t domain_at;
    uint16_t domain_len; /* 0: no metadata is to be told */
    uint8_t count;
    uint8_t items;
    uint8_t manner; /* enum ratelimit_manner */
    bool all;       /* `charge: all`: rows are read */
};

/* What was found, for the checks; points into the policy and the request. */
struct ratelimit_found {
    struct descriptor_found found[RATELIMIT_DESCRIPTORS_MAX];
    struct ratelimit_state state;
    struct ratelimit_kept kept[RATELIMIT_DESCRIPTORS_MAX];
    char texts[RATELIMIT_TEXTS_LEN];
};

/* A request that is read piece by piece, and what is found of it. Texts are borrowed. */
struct ratelimit_asking {
    struct ratelimit_request request;
    struct ratelimit_descriptor descriptors[RATELIMIT_DESCRIPTORS_MAX];
    struct descriptor_entry entries[RATELIMIT_ENTRIES_MAX];
    uint32_t entry_count;
    struct ratelimit_found found;
    char error[RATELIMIT_ERROR_LEN];
};

void ratelimit_begin(struct ratelimit_asking *asking, enum ratelimit_manner manner);
/* The next descriptor, to be filled in; what is beyond the bound is counted alone. */
struct ratelimit_descriptor *ratelimit_descriptor(struct ratelimit_asking *asking);
/* Entries and the limit of the last one. False: asking->error says why not. `unit` is a number of
 * envoy.type.v3.RateLimitUnit. */
bool ratelimit_entry(struct ratelimit_asking *asking, struct policy_text key,
                     struct policy_text value);
bool ratelimit_limit(struct ratelimit_asking *asking, uint32_t requests, uint32_t unit,
                     uint32_t multiplier);

/* Finds what is asked. `policy` NULL: nothing has rules yet. 0, or TG_EINVALID with a sentence in
 * `error`. */
MUST_USE int ratelimit_find(const struct policy *policy, const struct ratelimit_request *request,
                            const struct hash_key *secret, struct ratelimit_found *found,
                            char error[RATELIMIT_ERROR_LEN]);
/* Bytes of the state; and writes it to as many. */
size_t ratelimit_state_len(const struct ratelimit_found *found);
void ratelimit_state_put(const struct ratelimit_found *found, void *out);
/* Appends found->state.items checks. 0, or TG_EFULL. */
MUST_USE int ratelimit_append(const struct ratelimit_found *found,
                              const struct ratelimit_request *request,
                              struct wire_checks_builder *builder);

enum {
    RATELIMIT_STATE_MAX = sizeof(struct ratelimit_state) +
                          RATELIMIT_DESCRIPTORS_MAX * sizeof(struct ratelimit_kept) +
                          RATELIMIT_TEXTS_LEN
};

struct ratelimit_answer {
    struct descriptor_status statuses[RATELIMIT_DESCRIPTORS_MAX];
    uint32_t count;
    bool over;
    struct policy_text message; /* of the first limit that denies and has one, or len 0; its bytes
                                   are the state's */
    size_t metadata_len;        /* 0: none of those that are within their limits has metadata */
    uint8_t metadata[RATELIMIT_METADATA_LEN]; /* {domain, metadata} as a Struct: of several
                                                 descriptors' keys the first one's count */
    const struct wire_decision *failed;       /* not NULL: nothing else holds, nobody has decided */
    struct wire_decision failure;
};
/* What is answered at `now_s`, Unix time. `decisions` from the check `first` on; NULL where the
 * state has no item. */
void ratelimit_settle(const struct ratelimit_state *state, const struct wire_decisions *decisions,
                      uint32_t first, uint64_t now_s, struct ratelimit_answer *answer);

/* Which header fields proxies are asked to add to responses. */
enum ratelimit_fields { RATELIMIT_FIELDS_OFF, RATELIMIT_FIELDS_DRAFT, RATELIMIT_FIELDS_LEGACY };
enum { RATELIMIT_FIELDS_COUNT = 3, RATELIMIT_FIELD_LEN = 12 };
/* What a configuration calls these: off, draft, legacy; and NULL. */
extern const char *const ratelimit_fields_words[];
struct ratelimit_field {
    const char *name; /* static */
    char value[RATELIMIT_FIELD_LEN];
};
/* Limit, remaining and reset, whole numbers, of the limit of which the least is left, or of the
 * last one that denies. How many there are: 0 or all three. */
uint32_t ratelimit_fields_of(const struct ratelimit_answer *answer, enum ratelimit_fields kind,
                             struct ratelimit_field out[RATELIMIT_FIELDS_COUNT]);

#endif
