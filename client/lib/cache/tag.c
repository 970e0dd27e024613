/* tag.c - NH, twice, over the words of a request, in pairs.
 *
 *   inline       | 1 << 63, key len, align, buckets, algorithm ; count | window ; burst | key ... |
 *   attributes   | count, value len, name len ; 8 bytes of name | name ... | value ... | next one |
 *
 *   text         | 8 bytes ; 8 bytes | ... | the last 16 bytes |    of 16 and more
 *                | first 8 bytes ; last 8 bytes |                   of 8 to 15
 *                | all of it ; 0 |                                  of less
 *
 *   NH(w) = sum of (w[2i] + k[2i]) * (w[2i + 1] + k[2i + 1])        sums mod 2^64, products 128 bit
 *
 * A table of what this process may admit by itself must not take one key for another, and the
 * values come from anybody. NH is a universal hash: two inputs, whoever chose them, give the same
 * sum for one in 2^64 keys k. The second sum takes its key two words further on, and makes it one
 * in 2^128, as for the ids that nodes know their slots by. It costs one multiplication for 8 bytes.
 *
 * A text begins a pair, so that no word waits for its mate: to add them one by one, whichever half
 * of a pair was next, took a quarter longer. What a check by what is held needs of this is in
 * tag.h, in line.
 *
 * TAG-1  The words determine the request: lengths stand before what they are the length of, and
 *        where they are the same, so is what of a text stands where.
 * TAG-2  What is behind the last word counts as 0, and one word at least differs before.
 */
#include "client/lib/cache/tag.h"

#include <string.h>

/* Pairs of words that a text takes. */
static inline size_t pairs_of(size_t len)
{
    return (len + 15) / 16;
}

/* *room: pairs that there is room for. */
static inline bool add_attribute(struct client_tag_sums *sums, size_t *room,
                                 const tg_attribute_t *attribute, uint64_t count)
{
    const uint8_t *name = (const uint8_t *)attribute->name;
    uint64_t begins = 0; /* the name */
    size_t name_len;
    size_t value_len;
    size_t pairs;

    if (name == NULL || (attribute->value == NULL && attribute->value_len != 0))
        return false;
    name_len = strlen(attribute->name);
    value_len = attribute->value_len == TG_STRLEN ? strlen(attribute->value) : attribute->value_len;
    if (name_len > TG_ATTRIBUTE_NAME_MAX || value_len > TG_VALUE_MAX)
        return false;
    pairs = 1 + pairs_of(name_len > 8 ? name_len - 8 : 0) + pairs_of(value_len);
    if (pairs > *room)
        return false;
    *room -= pairs;
    if (name_len != 0)
        begins = name_len >= 8 ? client_tag_word(name) : client_tag_few(name, name_len);
    client_tag_pair(sums, name_len | (uint64_t)value_len << 32 | count << 48, begins);
    if (name_len > 8)
        client_tag_text(sums, name + 8, name_len - 8);
    client_tag_text(sums, attribute->value, value_len);
    return true;
}

bool client_tag_attributes(const struct client_tag_key *key, const tg_request_t *request,
                           struct client_tag *out)
{
    struct client_tag_sums sums = {.key = key->word};
    size_t room = CLIENT_TAG_INPUT_WORDS / 2;

    if (request->attributes == NULL || request->attribute_count > CLIENT_TAG_ATTRIBUTES_MAX)
        return false;
    for (size_t i = 0; i < request->attribute_count; i++) {
        if (!add_attribute(&sums, &room, &request->attributes[i], request->attribute_count))
            return false;
    }
    client_tag_finish(&sums, out);
    return true;
}
