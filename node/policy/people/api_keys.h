/* api_keys.h - keys that a cluster has issued: from the attribute `api_key` to user and tier.
 *
 *   tgk_ABCDEFGHIJKL_abcdefghijklmnopqrstuvwxyz234567      the key, which only its holder has
 *       |--- id ---| |---------- 160 bits ----------|
 *
 * A key is made where it is shown, once; the cluster keeps its digest (base/digest.h) under its id,
 * which is no secret: people and counters name a key by it.
 *
 *   attributes of a request              ... as rules, blocks and counters see them
 *   api_key=tgk_ABC.._abc.. --digest-->  api_key=ABC..   user=its owner   tier=its tier
 *                             |
 *                             +--> no such key, revoked, expired: blocked, status 401
 *
 * APIKEYS-1  A set of keys is made whole and never changed after; any thread may look.
 * APIKEYS-2  A look costs one digest and one probe of a table, and for a key that was used lately
 *            one keyed hash and one comparison; where no key was ever issued, `api_key` is an
 *            attribute like any other, and costs nothing.
 * APIKEYS-3  Once a set has been asked, the key itself is in no attribute any more: it is neither
 *            counted nor told to anybody.
 * APIKEYS-4  A key ends by time alone: whether or not anybody has changed its record.
 * APIKEYS-5  A key's `hash` is that of its id, and it is `limited` if it has a rate of its own.
 *
 * What keeps others from guessing: 160 random bits. The digest of what a caller sends cannot be
 * steered, so the time that a probe takes tells nothing of the keys there are; digests are compared
 * in constant time nevertheless. Whether an id exists is no secret. The cache remembers keys by a
 * keyed hash of 128 bits, not by themselves: whoever reads a node's memory finds no key there that
 * is not just being used, and whoever does not know the secret can neither make two texts of one
 * hash nor learn from the time that a look takes. Keys that do not exist are not remembered, so
 * that nobody crowds out those that do.
 *
 * Record, as the settings keep it under its id (node/cluster/operator/control_api_keys.c):
 *
 *   [1, digest, name, owner, tier, created_ms, created_by, expires_ms, revoked_ms, revoked_by,
 *    own limits as own_limits_put writes them]
 *
 * A record that ends before its own limits has none; what further releases append is skipped.
 */
#ifndef NODE_POLICY_PEOPLE_API_KEYS_H
#define NODE_POLICY_PEOPLE_API_KEYS_H

#include "base/digest.h"
#include "base/hash.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy.h"
#include "node/policy/readers/own_limits.h"

enum {
    API_KEYS_MAX = 100000,       /* that a cluster keeps, those revoked included */
    API_KEYS_SET_MAX = 1 << 20,  /* of one set: whatever the settings may hold */
    API_KEY_ID_LEN = 12,         /* of a-z 2-7 */
    API_KEY_SECRET_LEN = 32,     /* the same: 160 bits */
    API_KEY_NAME_LEN_MAX = 128,  /* what people call it */
    API_KEY_OWNER_LEN_MAX = 256, /* the attribute `user` */
    API_KEY_TIER_LEN_MAX = 128,  /* the attribute `tier` */
    API_KEY_AUTHOR_LEN_MAX = 128,
    API_KEY_RECORD_LEN_MAX = 1536,
    API_KEYS_CACHED = 1024, /* a power of two */
};

#define API_KEY_PREFIX "tgk_"
enum { API_KEY_LEN = sizeof API_KEY_PREFIX - 1 + API_KEY_ID_LEN + 1 + API_KEY_SECRET_LEN };

struct api_key_record {
    struct digest digest;
    struct policy_text name;
    struct policy_text owner;      /* len 0: none */
    struct policy_text tier;       /* len 0: that of the request, or of the owner */
    struct policy_text created_by; /* who revoked it, below: operators */
    struct policy_text revoked_by;
    uint64_t created_ms; /* Unix time, as all of these */
    uint64_t expires_ms; /* 0: never */
    uint64_t revoked_ms; /* 0: it is not */
    struct own_limits own;
};

enum api_key_state { API_KEY_ACTIVE, API_KEY_EXPIRED, API_KEY_REVOKED };

/* Whether a key of these times may be used at `now_ms`. */
enum api_key_state api_key_state(uint64_t expires_ms, uint64_t revoked_ms, uint64_t now_ms);
/* "active", "expired", "revoked". Static storage. */
const char *api_key_state_name(enum api_key_state state);
/* Whether the text can be the id of a key. */
bool api_key_id_ok(const char *text, size_t len);
/* The name under which a key's totals are kept: a hash of its id, never 0. */
uint64_t api_key_hash(const char *id, size_t len);
/* Writes the key whose id and secret are made of these random bytes, five bits of each, and a NUL.
 */
void api_key_write(const uint8_t random[API_KEY_ID_LEN + API_KEY_SECRET_LEN],
                   char out[API_KEY_LEN + 1]);
/* The length of the record in `out`, or TG_ETOOBIG. */
MUST_USE int api_key_encode(const struct api_key_record *record, void *out, size_t capacity);
/* False if it is none; texts point into `bytes`. */
bool api_key_decode(const void *bytes, size_t len, struct api_key_record *out);

/* One key as requests meet it; lives as long as its set. */
struct api_key {
    struct digest digest;
    struct policy_text id;
    struct policy_text owner;
    struct policy_text tier;
    uint64_t expires_ms;
    uint64_t revoked_ms;
    uint64_t hash; /* api_key_hash of the id */
    bool limited;  /* there is a rate of its own */
    struct own_limits own;
};

struct api_keys;

/* What a set is made of: a record and the id under which it is kept. */
struct api_key_entry {
    struct policy_text id;
    struct policy_text value; /* as api_key_encode wrote it */
};

/* A set of `count` keys, copied; entries that cannot be read are left out: their keys are refused
 * as unknown. 0, TG_ENOMEM, or TG_ETOOBIG (more than API_KEYS_SET_MAX). */
MUST_USE int api_keys_new(const struct allocator *allocator, const struct api_key_entry *entries,
                          size_t count, struct api_keys **out);
/* Another pointer to the same set, to be given to api_keys_free as well. */
struct api_keys *api_keys_share(struct api_keys *keys);
/* Frees the set unless it is shared still; NULL is allowed. */
void api_keys_free(struct api_keys **keys);
size_t api_keys_count(const struct api_keys *keys);
/* Asserts APIKEYS-5 and that each key is found; NULL is allowed. */
void api_keys_check_invariants(const struct api_keys *keys);

/* The key that is written so, whatever its state, or NULL. */
const struct api_key *api_keys_find(const struct api_keys *keys, const char *text, size_t len);

/* Keys of one set that were used lately. One thread's. */
struct api_keys_cache {
    struct hash_key secret;
    struct {
        struct hash128 hash; /* of the key as it is written */
        const struct api_key *key;
    } places[API_KEYS_CACHED];
};

/* Forgets all: before a cache is used with another set, as keys of the old one may be gone. */
void api_keys_cache_init(struct api_keys_cache *cache, const struct hash_key *secret);

/* Resolves the key of a request in place (APIKEYS-3): `attributes` has room for
 * POLICY_ATTRIBUTES_ADDED_MAX more than *count; `cache` may be NULL. Returns NULL and the key, or
 * NULL if the request names none; else the refusal, as a rule: then the attributes are not to be
 * used. */
const struct policy_rule *api_keys_resolve(const struct api_keys *keys,
                                           struct api_keys_cache *cache,
                                           struct policy_attribute *attributes, size_t *count,
                                           uint64_t now_ms, const struct api_key **key);

#endif
