/* tag.h - a request's identity in 256 bits: what is asked about, not how much of it. Pure.
 *
 * Two requests of one tag have the same attributes, names and values, or the same key and limit.
 * Operation, cost and what to explain are no part of it.
 */
#ifndef CLIENT_LIB_TAG_H
#define CLIENT_LIB_TAG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#include "client/include/tidegate.h"

enum {
    CLIENT_TAG_WORDS = 4,
    CLIENT_TAG_INPUT_WORDS = 64,  /* of 8 bytes: longer requests have no tag */
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

/* False if the request has no tag: it is long, or so wrong that it cannot be read. Any thread. */
bool client_tag_of(const struct client_tag_key *key, const tg_request_t *request,
                   struct client_tag *out);

#endif
