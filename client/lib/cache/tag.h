/* tag.h - a request's identity in 256 bits: what is asked about, not how much of it. Pure.
 *
 * Two requests of one tag have the same attributes, names and values, or the same key and limit.
 * Operation, cost and what to explain are no part of it.
 */
#ifndef CLIENT_LIB_CACHE_TAG_H
#define CLIENT_LIB_CACHE_TAG_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

#include "client/include/tidegate.h"

enum {
    CLIENT_TAG_WORDS = 4,
    CLIENT_TAG_INPUT_WORDS = 64, /* of 8 bytes: longer requests have no tag */
    CLIENT_TAG_KEY_MAX = (CLIENT_TAG_INPUT_WORDS - 4) * 8,
    CLIENT_TAG_ATTRIBUTES_MAX = 8 /* nor have those of more */
};

/* Random, and never told: who does not know it cannot find two requests of one tag. */
struct client_tag_key {
    uint64_t word[CLIENT_TAG_INPUT_WORDS + 2];
};

struct client_tag {
    uint64_t word[CLIENT_TAG_WORDS];
    uint64_t place; /* a mix of the words, never 0, to find a table's place by */
};

/* The sums of NH over the words so far: pairs of them, at key[0] and on (tag.c). */
struct client_tag_sums {
    const uint64_t *key; /* of the next pair */
    unsigned __int128 first;
    unsigned __int128 second;
};

static inline __attribute__((always_inline)) void client_tag_pair(struct client_tag_sums *sums,
                                                                  uint64_t a, uint64_t b)
{
    const uint64_t *k = sums->key;

    sums->first += (unsigned __int128)(a + k[0]) * (b + k[1]);
    sums->second += (unsigned __int128)(a + k[2]) * (b + k[3]);
    sums->key = k + 2;
}

static inline uint64_t client_tag_word(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, 8);
    return word;
}

/* Up to seven bytes as a number; together with their count it says which. */
static inline uint64_t client_tag_few(const uint8_t *bytes, size_t len)
{
    uint32_t low;
    uint32_t high;

    if (len >= 4) {
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + len - 4, 4);
        return low | (uint64_t)high << 32;
    }
    return bytes[0] | (uint64_t)bytes[len / 2] << 8 | (uint64_t)bytes[len - 1] << 16;
}

/* Bytes whose count is known. The last pair of 16 and more may tell some of them again. */
static inline __attribute__((always_inline)) void client_tag_text(struct client_tag_sums *sums,
                                                                  const uint8_t *at, size_t len)
{
    if (len >= 16) {
        const uint8_t *end = at + len;

        for (; end - at > 16; at += 16)
            client_tag_pair(sums, client_tag_word(at), client_tag_word(at + 8));
        client_tag_pair(sums, client_tag_word(end - 16), client_tag_word(end - 8));
    } else if (len >= 8) {
        client_tag_pair(sums, client_tag_word(at), client_tag_word(at + len - 8));
    } else if (len != 0) {
        client_tag_pair(sums, client_tag_few(at, len), 0);
    }
}

/* Of the sums; the place is the product of both sums' halves, folded: of a sum, the low bits alone
 * depend on few words' bits. */
static inline __attribute__((always_inline)) void
client_tag_finish(const struct client_tag_sums *sums, struct client_tag *out)
{
    const uint64_t low = (uint64_t)sums->first;
    const uint64_t high = (uint64_t)(sums->first >> 64);
    const uint64_t second_low = (uint64_t)sums->second;
    const uint64_t second_high = (uint64_t)(sums->second >> 64);
    const unsigned __int128 product = (unsigned __int128)(low ^ second_high) * (high ^ second_low);

    *out = (struct client_tag){{low, high, second_low, second_high},
                               ((uint64_t)product ^ (uint64_t)(product >> 64)) | 1ULL << 63};
}

/* Of a request with attributes. */
bool client_tag_attributes(const struct client_tag_key *key, const tg_request_t *request,
                           struct client_tag *out);

/* False if the request has no tag: it is long, or so wrong that it cannot be read. Any thread. In
 * line, as client_hold_take is. */
static inline __attribute__((always_inline)) bool
client_tag_of(const struct client_tag_key *key, const tg_request_t *request, struct client_tag *out)
{
    struct client_tag_sums sums = {.key = key->word};
    const tg_limit_t *limit = &request->limit;
    size_t len = request->key_len;

    if (request->attribute_count != 0)
        return client_tag_attributes(key, request, out);
    if (request->key == NULL || limit->buckets > UINT16_MAX ||
        (unsigned)limit->algorithm > UINT8_MAX)
        return false;
    if (len == TG_STRLEN)
        len = strlen(request->key);
    if (len > CLIENT_TAG_KEY_MAX)
        return false;
    client_tag_pair(&sums,
                    (uint64_t)len << 32 | (uint64_t)(limit->align_first != 0) << 24 |
                        (uint64_t)limit->buckets << 8 | (uint64_t)limit->algorithm | 1ULL << 63,
                    limit->count);
    client_tag_pair(&sums, limit->window_ns, limit->burst);
    client_tag_text(&sums, request->key, len);
    client_tag_finish(&sums, out);
    return true;
}

#endif
