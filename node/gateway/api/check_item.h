/* check_item.h - one check as JSON states it, for the client protocol.
 *
 *   {"attributes": {"user": "ada", "api": "/login"}, "cost": 1}      by the rules
 *   {"key": "ada", "rate": "5/60s", "burst": 5, "algorithm": "token_bucket"}      by an own limit
 *
 *   cost       how many tokens; 1 if it is not said; not of reset
 *   at_most    of check, peek, lease: take what there is, up to the cost
 *   lease_id   of release and renew: which lease
 *   used       of release and renew: how many tokens of the lease were used
 *   explain    of check and peek, one alone: tell all limits that it meets
 *   ttl        of reserve: for how long, "60s" if it is not said
 *   hold_id    of commit and cancel: which reservation
 *   actual     of commit: how many tokens were really used
 *
 * A field that is null is one that is not there. What is unknown, given twice, or out of place is
 * refused, and named. Pure.
 */
#ifndef NODE_GATEWAY_API_CHECK_ITEM_H
#define NODE_GATEWAY_API_CHECK_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limit.h"
#include "client/protocol/wire.h"
#include "node/gateway/api/json_reader.h"

struct check_item {
    uint8_t operation;  /* enum operation, with WIRE_AT_MOST */
    unsigned seen;      /* fields that were given */
    uint64_t cost;      /* of release and renew: the lease; of commit and cancel: the reservation */
    uint64_t used;      /* of reserve: for how many ms, 0: the default */
    bool explain;       /* tell all limits that it meets */
    struct limit limit; /* of an own limit; then count is 1, the key's */
    uint32_t count;
    struct wire_text names[WIRE_ATTRIBUTES_MAX];
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
};

enum {
    /* Room for the strings of one item that are written with escapes. */
    CHECK_ITEM_ROOM = (WIRE_ATTRIBUTES_MAX + 1) * (WIRE_VALUE_MAX + WIRE_ATTRIBUTE_LEN_MAX)
};

/* Reads an item for the operation, member by member: begin, field for each, end. Each but the first
 * gives false where the reader has failed. */
void check_item_begin(struct check_item *item, enum operation operation);
bool check_item_field(struct check_item *item, struct json_reader *reader, struct wire_text key);
bool check_item_end(struct check_item *item, struct json_reader *reader);
/* All of these for the object that comes next. */
bool check_item_read(struct check_item *item, struct json_reader *reader, enum operation operation);

/* Appends the item. Its number; TG_EFULL, as wire_checks_builder_append. */
MUST_USE int check_item_append(const struct check_item *item, struct wire_checks_builder *builder);

#endif
