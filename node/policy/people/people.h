/* people.h - who asks: from the attributes of a request to its user's tier, own limits and verdict.
 *
 * On the way of a request these steps are between its attributes and the rules:
 *
 *   attributes --api_keys_resolve--> user, tier of the key, or a refusal (401)
 *              --blocks_find-------> denied?
 *              --people_find-------> tier of the user's quota record; blocked? own limits?
 *              --policy_resolve----> parts
 *              --people_apply------> the user's own limits on top of his plan, and those of the key
 *
 * A user's plan is the rule of group `tier` that acts and counts by [user] alone: that of his tier,
 * or whatever rule the operator gave that group as a default. Own limits replace those of the same
 * window there (own_limits.h); where no plan acts they are a rule of their own, "user quota". Those
 * of a key are always one, "api key"; it admits nothing that `unmatched: deny` denies. They act as
 * a rule below all others: if an allow or block rule ended the search, they do not.
 *
 * PEOPLE-1  The tier of a quota record is the operator's word: it replaces what the request says,
 *           but not what an API key says, which is the operator's word as well, and nearer.
 * PEOPLE-2  A set of people is made whole and never changed after; any thread may look. A look
 *           costs one hash and one probe for a request with a user, and nothing where nobody has a
 *           record.
 * PEOPLE-3  Nothing is charged or kept here: the same attributes give the same answer.
 * PEOPLE-4  A record has a user, and of own limits and a verdict one each or none, which are no
 *           other record's. A verdict blocks; own limits are not empty.
 */
#ifndef NODE_POLICY_PEOPLE_PEOPLE_H
#define NODE_POLICY_PEOPLE_PEOPLE_H

#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/readers/own_limits.h"

enum {
    PEOPLE_MAX = 100000, /* quota records */
    PEOPLE_NOTES_LEN_MAX = 256,
    PEOPLE_ENCODED_MAX = 1 + 1 + (2 + POLICY_TIER_LEN_MAX) + OWN_ENCODED_MAX + 8 +
                         (2 + POLICY_MESSAGE_LEN_MAX) + (2 + PEOPLE_NOTES_LEN_MAX)
};

/* A user's quota record. */
struct quota {
    struct policy_text user;
    struct policy_text tier; /* len 0: as the request says */
    struct own_limits own;
    bool blocked;
    uint64_t until_ms;         /* blocked: Unix time, 0 = until it is lifted */
    struct policy_text reason; /* blocked: the message of the denial */
    struct policy_text notes;
};

/* Whether the text may be the name of a tier: 1..64 letters, digits and _ . - */
bool people_tier_ok(const char *text, size_t len);
/* Whether a request of that tier meets a rule for its sake: a tier of the rules has that name, or a
 * rule matches it. Looks at all rules: for people who ask. */
bool people_tier_known(const struct policy *policy, const char *text, size_t len);
/* The record's value in the configuration store, whose name there is the user; texts are within
 * their bounds. Returns the length. */
size_t quota_encode(const struct quota *quota, uint8_t out[PEOPLE_ENCODED_MAX]);
/* And back, but for the user, pointing into `bytes`: 0, TG_EPROTOCOL or TG_EVERSION. */
MUST_USE int quota_decode(const void *bytes, size_t len, struct quota *quota);

/* The name under which a user's totals are kept: a hash of his name, never 0. */
uint64_t people_hash(const char *user, size_t len);

struct people;

/* A set of `count` records, copied. 0, TG_ENOMEM, or TG_ETOOBIG (more than PEOPLE_MAX). */
MUST_USE int people_new(const struct allocator *allocator, const struct quota *quotas, size_t count,
                        struct people **out);
/* Another pointer to the same set, to be given to people_free as well. */
struct people *people_share(struct people *people);
/* Frees the set unless it is shared still; NULL is allowed. */
void people_free(struct people **people);
size_t people_count(const struct people *people);
/* Asserts PEOPLE-4 and that each record is found; NULL is allowed. */
void people_check_invariants(const struct people *people);

/* What is known of who asks, beside attributes. Points into the set and the request. */
struct person {
    const struct policy_rule *denied; /* blocked: deny with its status and message; or NULL */
    const struct own_limits *own;     /* of the user, or NULL */
    struct policy_text user;          /* who has them */
    uint64_t user_hash;               /* people_hash of that user, 0: he has no record */
    uint64_t key_hash;                /* api_key_hash of the API key, 0: none */
    bool tiered;                      /* an API key has said which tier it is */
    const struct own_limits *key_own; /* of that key, or NULL */
};

/* Begins with what the request's API key says, which has been resolved; NULL: it has none. */
static inline void people_begin(const struct api_key *key, struct person *person)
{
    *person = (struct person){.denied = NULL};
    if (key == NULL)
        return;
    person->tiered = key->tier.len > 0;
    person->key_hash = key->hash;
    if (key->limited)
        person->key_own = &key->own;
}
/* Looks up the user of a request, after people_begin. Puts the tier of his record among the
 * `*count` attributes, which have room for POLICY_ATTRIBUTES_MAX and are fewer, and sets the rest
 * of `person`. `people` may be NULL. */
void people_find(const struct people *people, struct policy_attribute *attributes, size_t *count,
                 uint64_t now_ms, struct person *person);
/* Puts own limits into what policy_resolve found with the same attributes. */
void people_apply(const struct person *person, const struct policy_attribute *attributes,
                  size_t count, struct policy_result *result);

#endif
