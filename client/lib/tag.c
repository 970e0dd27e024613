/* tag.c - NH, twice, over the words of a request.
 *
 *   attributes   | count | name len, value len | name ... | value ... | name len, value len | ...
 *   inline       | 1 << 63, key len, align, buckets, algorithm | count | window | burst | key ... |
 *
 *   NH(w) = sum of (w[2i] + k[2i]) * (w[2i + 1] + k[2i + 1])        sums mod 2^64, products 128 bit
 *
 * A table of what this process may admit by itself must not take one key for another, and the
 * values come from anybody. NH is a universal hash: two inputs, whoever chose them, give the same
 * sum for one in 2^64 keys k. The second sum takes its key two words further on, and makes it one
 * in 2^128, as for the ids that nodes know their slots by. It costs one multiplication for 8 bytes.
 *
 * I1  The words determine the request: lengths stand before what they are the length of.
 * I2  What is behind the last word counts as 0, and one word at least differs before.
 */
#include "client/lib/tag.h"

#include <string.h>

#include "base/hash.h"

struct words {
    uint64_t word[CLIENT_TAG_INPUT_WORDS];
    uint32_t count;
};

/* Up to eight bytes as a number; together with their count it says which. */
static inline uint64_t tail_of(const uint8_t *bytes, size_t len)
{
    uint32_t low;
    uint32_t high;

    if (len >= 4) {
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + len - 4, 4);
        return low | (uint64_t)high << 32;
    }
    if (len == 0)
        return 0;
    return bytes[0] | (uint64_t)bytes[len / 2] << 8 | (uint64_t)bytes[len - 1] << 16;
}

static inline bool put_bytes(struct words *words, const void *data, size_t len)
{
    const uint8_t *at = data;

    if (len > (CLIENT_TAG_INPUT_WORDS - (size_t)words->count) * 8)
        return false;
    for (; len > 8; len -= 8, at += 8)
        memcpy(&words->word[words->count++], at, 8);
    if (len != 0)
        words->word[words->count++] = tail_of(at, len);
    return true;
}

static inline bool put_word(struct words *words, uint64_t word)
{
    if (words->count == CLIENT_TAG_INPUT_WORDS)
        return false;
    words->word[words->count++] = word;
    return true;
}

static inline bool put_attribute(struct words *words, const tg_attribute_t *attribute)
{
    size_t name_len;
    size_t value_len;

    if (attribute->name == NULL || (attribute->value == NULL && attribute->value_len != 0))
        return false;
    name_len = strlen(attribute->name);
    value_len = attribute->value_len == TG_STRLEN ? strlen(attribute->value) : attribute->value_len;
    return name_len <= TG_ATTRIBUTE_NAME_MAX && value_len <= TG_VALUE_MAX &&
           put_word(words, name_len | (uint64_t)value_len << 32) &&
           put_bytes(words, attribute->name, name_len) &&
           put_bytes(words, attribute->value, value_len);
}

static inline bool put_inline(struct words *words, const tg_request_t *request)
{
    const tg_limit_t *limit = &request->limit;
    size_t len;

    if (request->key == NULL || limit->buckets > UINT16_MAX ||
        (unsigned)limit->algorithm > UINT8_MAX)
        return false;
    len = request->key_len == TG_STRLEN ? strlen(request->key) : request->key_len;
    if (len > TG_VALUE_MAX)
        return false;
    words->word[0] = 1ULL << 63 | (uint64_t)len << 32 | (uint64_t)(limit->align_first != 0) << 24 |
                     (uint64_t)limit->buckets << 8 | (uint64_t)limit->algorithm;
    words->word[1] = limit->count;
    words->word[2] = limit->window_ns;
    words->word[3] = limit->burst;
    words->count = 4;
    return put_bytes(words, request->key, len);
}

static inline bool put_request(struct words *words, const tg_request_t *request)
{
    words->count = 0;
    if (request->attribute_count == 0)
        return put_inline(words, request);
    if (request->attributes == NULL || request->attribute_count > CLIENT_TAG_ATTRIBUTES_MAX)
        return false;
    words->word[words->count++] = request->attribute_count;
    for (size_t i = 0; i < request->attribute_count; i++) {
        if (!put_attribute(words, &request->attributes[i]))
            return false;
    }
    return true;
}

bool client_tag_of(const struct client_tag_key *key, const tg_request_t *request,
                   struct client_tag *out)
{
    unsigned __int128 first = 0;
    unsigned __int128 second = 0;
    const uint64_t *k = key->word;
    struct words words;

    if (!put_request(&words, request))
        return false;
    if (words.count % 2 != 0)
        words.word[words.count++] = 0; /* the bound is even: there is room */
    for (uint32_t i = 0; i < words.count; i += 2) {
        const uint64_t a = words.word[i];
        const uint64_t b = words.word[i + 1];

        first += (unsigned __int128)(a + k[i]) * (b + k[i + 1]);
        second += (unsigned __int128)(a + k[i + 2]) * (b + k[i + 3]);
    }
    out->word[0] = (uint64_t)first;
    out->word[1] = (uint64_t)(first >> 64);
    out->word[2] = (uint64_t)second;
    out->word[3] = (uint64_t)(second >> 64);
    out->place = hash_mix64(out->word[0] ^ out->word[3]) | 1ULL << 63;
    return true;
}
