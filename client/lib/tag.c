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

/* The sums over the words so far. One that waits for its mate is in neither: words are added as
 * they are read, for a list of them in between would be written and read again. */
struct sums {
    const uint64_t *key;
    unsigned __int128 first;
    unsigned __int128 second;
    uint64_t waiting;
    uint32_t count;
};

static inline void add_pair(struct sums *sums, const uint64_t *k, uint64_t a, uint64_t b)
{
    sums->first += (unsigned __int128)(a + k[0]) * (b + k[1]);
    sums->second += (unsigned __int128)(a + k[2]) * (b + k[3]);
}

/* Where there is room for it. */
static inline void add_word(struct sums *sums, uint64_t word)
{
    if (sums->count % 2 != 0)
        add_pair(sums, &sums->key[sums->count - 1], sums->waiting, word);
    sums->waiting = word;
    sums->count++;
}

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

static inline bool put_bytes(struct sums *sums, const void *data, size_t len)
{
    const uint8_t *at = data;
    uint64_t word;

    if (len > (CLIENT_TAG_INPUT_WORDS - (size_t)sums->count) * 8)
        return false;
    for (; len > 8; len -= 8, at += 8) {
        memcpy(&word, at, 8);
        add_word(sums, word);
    }
    if (len != 0)
        add_word(sums, tail_of(at, len));
    return true;
}

static inline bool put_word(struct sums *sums, uint64_t word)
{
    if (sums->count == CLIENT_TAG_INPUT_WORDS)
        return false;
    add_word(sums, word);
    return true;
}

static inline bool put_attribute(struct sums *sums, const tg_attribute_t *attribute)
{
    size_t name_len;
    size_t value_len;

    if (attribute->name == NULL || (attribute->value == NULL && attribute->value_len != 0))
        return false;
    name_len = strlen(attribute->name);
    value_len = attribute->value_len == TG_STRLEN ? strlen(attribute->value) : attribute->value_len;
    return name_len <= TG_ATTRIBUTE_NAME_MAX && value_len <= TG_VALUE_MAX &&
           put_word(sums, name_len | (uint64_t)value_len << 32) &&
           put_bytes(sums, attribute->name, name_len) &&
           put_bytes(sums, attribute->value, value_len);
}

static inline bool put_inline(struct sums *sums, const tg_request_t *request)
{
    const tg_limit_t *limit = &request->limit;
    size_t len;

    if (request->key == NULL || limit->buckets > UINT16_MAX ||
        (unsigned)limit->algorithm > UINT8_MAX)
        return false;
    len = request->key_len == TG_STRLEN ? strlen(request->key) : request->key_len;
    if (len > TG_VALUE_MAX)
        return false;
    add_word(sums, 1ULL << 63 | (uint64_t)len << 32 | (uint64_t)(limit->align_first != 0) << 24 |
                       (uint64_t)limit->buckets << 8 | (uint64_t)limit->algorithm);
    add_word(sums, limit->count);
    add_word(sums, limit->window_ns);
    add_word(sums, limit->burst);
    return put_bytes(sums, request->key, len);
}

static inline bool put_attributes(struct sums *sums, const tg_request_t *request)
{
    if (request->attributes == NULL || request->attribute_count > CLIENT_TAG_ATTRIBUTES_MAX)
        return false;
    add_word(sums, request->attribute_count);
    for (size_t i = 0; i < request->attribute_count; i++) {
        if (!put_attribute(sums, &request->attributes[i]))
            return false;
    }
    return true;
}

/* The product of both sums' halves, folded: of a sum, the low bits alone depend on few words' bits.
 */
static inline uint64_t mixed(const struct client_tag *tag)
{
    const unsigned __int128 product =
        (unsigned __int128)(tag->word[0] ^ tag->word[3]) * (tag->word[1] ^ tag->word[2]);

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Of the words that were added. */
static inline void finish(struct sums *sums, struct client_tag *out)
{
    if (sums->count % 2 != 0)
        add_word(sums, 0); /* the bound is even: there is room */
    out->word[0] = (uint64_t)sums->first;
    out->word[1] = (uint64_t)(sums->first >> 64);
    out->word[2] = (uint64_t)sums->second;
    out->word[3] = (uint64_t)(sums->second >> 64);
    out->place = mixed(out) | 1ULL << 63;
}

/* Apart from the other, for it needs more registers, which that would save and restore. */
static __attribute__((noinline)) bool tag_attributes(const struct client_tag_key *key,
                                                     const tg_request_t *request,
                                                     struct client_tag *out)
{
    struct sums sums = {.key = key->word};

    if (!put_attributes(&sums, request))
        return false;
    finish(&sums, out);
    return true;
}

bool client_tag_of(const struct client_tag_key *key, const tg_request_t *request,
                   struct client_tag *out)
{
    struct sums sums = {.key = key->word};

    if (request->attribute_count != 0)
        return tag_attributes(key, request, out);
    if (!put_inline(&sums, request))
        return false;
    finish(&sums, out);
    return true;
}
