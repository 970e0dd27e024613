/* api_keys.c - records of keys, and a set of them as one table by digest; see api_keys.h.
 *
 * The table (lookup.h) is by the first word of the digest, and holds ids, owners and tiers. Of
 * records with one digest, which nobody makes, the first is found.
 *
 * Must not: allocate while looking, keep a key itself, or trust a record that comes from elsewhere.
 */
#include "node/policy/people/api_keys.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "node/policy/index/lookup.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/record_text.h"

enum {
    RECORD_VERSION = 1,
    RECORD_FIELDS = 10 /* without own limits */,
    RECORD_TOKENS_MAX = 64,
    STATUS_UNAUTHORIZED = 401
};

static_assert(DIGEST_LEN + API_KEY_NAME_LEN_MAX + API_KEY_OWNER_LEN_MAX + API_KEY_TIER_LEN_MAX +
                      2 * API_KEY_AUTHOR_LEN_MAX + OWN_ENCODED_MAX + (RECORD_FIELDS + 1) * 9 <
                  API_KEY_RECORD_LEN_MAX,
              "the largest record fits");

struct api_keys {
    _Atomic uint32_t shares; /* how often api_keys_free leaves it in place */
    struct lookup table;     /* of struct api_key, by digest */
};

/* ---- keys as text ---------------------------------------------------------------------------- */

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";

static_assert(sizeof alphabet == 32 + 1, "five bits a digit");

bool api_key_id_ok(const char *text, size_t len)
{
    for (size_t i = 0; i < len && len == API_KEY_ID_LEN; i++)
        if (text[i] == '\0' || strchr(alphabet, text[i]) == NULL)
            return false;
    return len == API_KEY_ID_LEN;
}

uint64_t api_key_hash(const char *id, size_t len)
{
    static const struct hash_key key = {{'k', 'e', 'y'}}; /* no user of that name shares it */
    const uint64_t hash = hash64(&key, id, len);
    return hash != 0 ? hash : 1;
}

void api_key_write(const uint8_t random[API_KEY_ID_LEN + API_KEY_SECRET_LEN],
                   char out[API_KEY_LEN + 1])
{
    size_t at = strlen(API_KEY_PREFIX);
    memcpy(out, API_KEY_PREFIX, at);
    for (size_t i = 0; i < API_KEY_ID_LEN + API_KEY_SECRET_LEN; i++) {
        if (i == API_KEY_ID_LEN)
            out[at++] = '_';
        out[at++] = alphabet[random[i] & 31];
    }
    out[at] = '\0';
}

/* ---- records --------------------------------------------------------------------------------- */

enum api_key_state api_key_state(uint64_t expires_ms, uint64_t revoked_ms, uint64_t now_ms)
{
    if (revoked_ms != 0)
        return API_KEY_REVOKED;
    /* APIKEYS-4 */
    return expires_ms != 0 && now_ms >= expires_ms ? API_KEY_EXPIRED : API_KEY_ACTIVE;
}

const char *api_key_state_name(enum api_key_state state)
{
    static const char *const names[] = {
        [API_KEY_ACTIVE] = "active", [API_KEY_EXPIRED] = "expired", [API_KEY_REVOKED] = "revoked"};
    ASSERT(state <= API_KEY_REVOKED);
    return names[state];
}

static void put_own(struct mp_writer *writer, const struct own_limits *own)
{
    uint8_t bytes[OWN_ENCODED_MAX];
    struct bytes_writer encoded;
    bytes_writer_init(&encoded, bytes, sizeof bytes);
    own_limits_put(own, &encoded);
    mp_put_bin(writer, bytes, encoded.len);
}

int api_key_encode(const struct api_key_record *record, void *out, size_t capacity)
{
    struct mp_writer writer;
    mp_writer_init(&writer, out, capacity);
    mp_put_array(&writer, RECORD_FIELDS + 1);
    mp_put_uint(&writer, RECORD_VERSION);
    mp_put_bin(&writer, record->digest.bytes, DIGEST_LEN);
    record_put_text(&writer, &record->name);
    record_put_text(&writer, &record->owner);
    record_put_text(&writer, &record->tier);
    mp_put_uint(&writer, record->created_ms);
    record_put_text(&writer, &record->created_by);
    mp_put_uint(&writer, record->expires_ms);
    mp_put_uint(&writer, record->revoked_ms);
    record_put_text(&writer, &record->revoked_by);
    put_own(&writer, &record->own);
    return writer.failed ? TG_ETOOBIG : (int)writer.len;
}

/* The own limits at the end of a record; false if they cannot be read. */
static bool get_own(struct mp_cursor *cursor, struct own_limits *own)
{
    size_t len = 0;
    struct bytes_reader reader;
    const uint8_t *bytes = mp_get_bin(cursor, &len);
    if (bytes == NULL)
        return false;
    bytes_reader_init(&reader, bytes, len);
    return own_limits_get(&reader, own) == 0 && bytes_left(&reader) == 0;
}

bool api_key_decode(const void *bytes, size_t len, struct api_key_record *out)
{
    struct mp_token tokens[RECORD_TOKENS_MAX];
    struct mp_cursor cursor;
    const int count = mp_parse(bytes, len, tokens, RECORD_TOKENS_MAX);
    mp_cursor_init(&cursor, tokens, count > 0 ? (size_t)count : 0);
    if (count < 0)
        return false;
    const size_t fields = mp_get_array(&cursor);
    if (fields < RECORD_FIELDS || mp_get_uint(&cursor) != RECORD_VERSION)
        return false;
    const uint8_t *digest = mp_get_bin_exact(&cursor, DIGEST_LEN);
    if (digest == NULL)
        return false;
    memcpy(out->digest.bytes, digest, DIGEST_LEN);
    out->name = record_get_text(&cursor, API_KEY_NAME_LEN_MAX);
    out->owner = record_get_text(&cursor, API_KEY_OWNER_LEN_MAX);
    out->tier = record_get_text(&cursor, API_KEY_TIER_LEN_MAX);
    out->created_ms = mp_get_uint(&cursor);
    out->created_by = record_get_text(&cursor, API_KEY_AUTHOR_LEN_MAX);
    out->expires_ms = mp_get_uint(&cursor);
    out->revoked_ms = mp_get_uint(&cursor);
    out->revoked_by = record_get_text(&cursor, API_KEY_AUTHOR_LEN_MAX);
    memset(&out->own, 0, sizeof out->own);
    return (fields == RECORD_FIELDS || get_own(&cursor, &out->own)) && !cursor.failed;
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct policy_text keep(struct api_keys *keys, const struct policy_text *text)
{
    return lookup_keep(&keys->table, text->data, text->len);
}

static void add(struct api_keys *keys, const struct api_key_entry *entry)
{
    struct api_key_record record;
    if (!api_key_decode(entry->value.data, entry->value.len, &record))
        return;
    struct api_key *key = lookup_add(&keys->table);
    *key = (struct api_key){
        .digest = record.digest,
        .id = keep(keys, &entry->id),
        .owner = keep(keys, &record.owner),
        .tier = keep(keys, &record.tier),
        .expires_ms = record.expires_ms,
        .revoked_ms = record.revoked_ms,
        .hash = api_key_hash(entry->id.data, entry->id.len),
        .limited = own_limits_limit(&record.own),
        .own = record.own,
    };
    lookup_file(&keys->table, digest_word(&key->digest));
}

const struct api_key *api_keys_find(const struct api_keys *keys, const char *text, size_t len)
{
    struct digest digest;
    digest_make(text, len, &digest);
    const struct lookup *table = &keys->table;
    const struct api_key *key;
    uint32_t at = lookup_home(table, digest_word(&digest));
    while ((key = lookup_at(table, at)) != NULL && !digest_equal(&key->digest, &digest))
        at = lookup_next(table, at);
    return key;
}

/* ---- the cache ------------------------------------------------------------------------------- */

static_assert((API_KEYS_CACHED & (API_KEYS_CACHED - 1)) == 0, "a place is some bits of a hash");

void api_keys_cache_init(struct api_keys_cache *cache, const struct hash_key *secret)
{
    memset(cache, 0, sizeof *cache);
    cache->secret = *secret;
}

/* As api_keys_find. */
static const struct api_key *find_cached(const struct api_keys *keys, struct api_keys_cache *cache,
                                         const char *text, size_t len)
{
    if (cache == NULL)
        return api_keys_find(keys, text, len);
    const struct hash128 hash = hash128(&cache->secret, text, len);
    const size_t at = hash.lo & (API_KEYS_CACHED - 1);
    if (cache->places[at].key != NULL && hash128_equal(cache->places[at].hash, hash))
        return cache->places[at].key;
    const struct api_key *found = api_keys_find(keys, text, len);
    if (found != NULL) {
        cache->places[at].hash = hash;
        cache->places[at].key = found;
    }
    return found;
}

/* ---- requests -------------------------------------------------------------------------------- */

#define REFUSAL(text)                                                                              \
    {                                                                                              \
        .name = {"", 0}, .group = {"", 0}, .message = {text, sizeof text - 1},                     \
        .act = POLICY_ACT_BLOCK, .status = STATUS_UNAUTHORIZED, .enabled = true                    \
    }

static const struct policy_rule unknown = REFUSAL("API key unknown");

static const struct policy_rule *refusal_of(const struct api_key *key, uint64_t now_ms)
{
    static const struct policy_rule refusals[] = {
        [API_KEY_EXPIRED] = REFUSAL("API key expired"),
        [API_KEY_REVOKED] = REFUSAL("API key revoked"),
    };
    if (key == NULL)
        return &unknown;
    const enum api_key_state state = api_key_state(key->expires_ms, key->revoked_ms, now_ms);
    return state == API_KEY_ACTIVE ? NULL : &refusals[state];
}

static bool is_named(const struct policy_attribute *attribute, const char *name, size_t len)
{
    return attribute->name_len == len && memcmp(attribute->name, name, len) == 0;
}

/* Gives the attribute this value wherever it is, or adds it. */
static void set(struct policy_attribute *attributes, size_t *count, const char *name,
                const struct policy_text *value)
{
    const size_t len = strlen(name);
    bool found = false;
    for (size_t i = 0; i < *count; i++) {
        if (!is_named(&attributes[i], name, len))
            continue;
        attributes[i].value = value->data;
        attributes[i].value_len = value->len;
        found = true;
    }
    ASSERT(found || *count < POLICY_ATTRIBUTES_MAX);
    if (!found)
        attributes[(*count)++] = (struct policy_attribute){name, len, value->data, value->len};
}

const struct policy_rule *api_keys_resolve(const struct api_keys *keys,
                                           struct api_keys_cache *cache,
                                           struct policy_attribute *attributes, size_t *count,
                                           uint64_t now_ms, const struct api_key **key)
{
    static const char name[] = "api_key";
    const struct policy_attribute *given = NULL;
    *key = NULL;
    for (size_t i = 0; i < *count && given == NULL; i++)
        if (is_named(&attributes[i], name, sizeof name - 1) && attributes[i].value_len > 0)
            given = &attributes[i];
    if (given == NULL)
        return NULL;
    const struct api_key *found = find_cached(keys, cache, given->value, given->value_len);
    const struct policy_rule *refusal = refusal_of(found, now_ms);
    *key = found;
    if (refusal != NULL)
        return refusal;
    set(attributes, count, name, &found->id);
    if (found->owner.len > 0)
        set(attributes, count, "user", &found->owner);
    if (found->tier.len > 0)
        set(attributes, count, "tier", &found->tier);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

int api_keys_new(const struct allocator *allocator, const struct api_key_entry *entries,
                 size_t count, struct api_keys **out)
{
    size_t bytes = 0;
    *out = NULL;
    if (count > API_KEYS_SET_MAX)
        return TG_ETOOBIG;
    for (size_t i = 0; i < count; i++) /* a record is longer than the texts of it that are kept */
        bytes += entries[i].id.len + entries[i].value.len + 3;
    struct api_keys *made = alloc_get(allocator, sizeof *made);
    if (made == NULL)
        return TG_ENOMEM;
    const int error = lookup_init(&made->table, allocator, count, sizeof(struct api_key), bytes);
    for (size_t i = 0; error == 0 && i < count; i++)
        add(made, &entries[i]);
    if (error == 0)
        *out = made;
    else
        api_keys_free(&made);
    return error;
}

struct api_keys *api_keys_share(struct api_keys *keys)
{
    atomic_fetch_add(&keys->shares, 1);
    return keys;
}

void api_keys_free(struct api_keys **pointer)
{
    struct api_keys *keys = *pointer;
    *pointer = NULL;
    if (keys == NULL || atomic_fetch_sub(&keys->shares, 1) != 0)
        return;
    const struct allocator *allocator = keys->table.allocator;
    lookup_fini(&keys->table);
    alloc_put(allocator, keys, sizeof *keys);
}

size_t api_keys_count(const struct api_keys *keys)
{
    return keys != NULL ? keys->table.count : 0;
}

static uint64_t hash_of(const void *entry)
{
    const struct api_key *key = entry;
    return digest_word(&key->digest);
}

void api_keys_check_invariants(const struct api_keys *keys)
{
    if (keys == NULL)
        return;
    lookup_check(&keys->table, hash_of);
    for (size_t i = 0; i < keys->table.count; i++) {
        const struct api_key *key = (const void *)(keys->table.entries + i * sizeof *key);
        INVARIANT("APIKEYS-5", key->hash == api_key_hash(key->id.data, key->id.len));
        INVARIANT("APIKEYS-5", key->limited == own_limits_limit(&key->own));
        INVARIANT("APIKEYS-5", key->owner.len <= API_KEY_OWNER_LEN_MAX);
        INVARIANT("APIKEYS-5", key->tier.len <= API_KEY_TIER_LEN_MAX);
    }
}
