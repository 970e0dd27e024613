/* settings_wire.h - what nodes tell each other of the settings, on the gossip address.
 *
 *   any        NEWS    version                      -->    "I have this one"; gossip says it too
 *   behind     FETCH   version, digest, from        -->    up to date
 *                                                   <--    CHANGES  the changes that follow, or
 *                                                   <--    RECORDS  all records, range by range,
 *                                                          where these are not kept any more
 *
 * A frame is the byte 0xc1, as of join.h, whose types these continue, and one msgpack array:
 *
 *   [version, type, cluster id, sender, address to answer, version, digest: lo, hi, voters: [id
 * ..], from: kind, name, to: kind, name, [item ..], number]
 *
 * The number is random in a FETCH and repeated in its answer, which counts by it; a release that
 * had none ends before it.
 *
 * RECORDS hold every record with from <= (kind, name) < to of the node that sends it; kind 0 as
 * `from` is the beginning, as `to` the end. A FETCH asks for the range that begins at `from`, once
 * it was answered by RECORDS; kind 0: for whatever is best.
 */
#ifndef NODE_CLUSTER_CONFIGSTORE_SETTINGS_WIRE_H
#define NODE_CLUSTER_CONFIGSTORE_SETTINGS_WIRE_H

#include "node/cluster/configstore/settings_change.h"
#include "node/cluster/consensus/register_wire.h"
#include "node/cluster/wire/join.h"

enum {
    SETTINGS_ITEMS_MAX = 256,          /* changes or records of one frame */
    SETTINGS_FRAME_BYTES = 128 << 10,  /* of items, unless one alone is larger */
    SETTINGS_FRAME_OVERHEAD = 4 << 10, /* all but the items */
};

static_assert(JOIN_LARGE_FRAME_MAX >= SETTINGS_CHANGE_LEN_MAX + SETTINGS_FRAME_OVERHEAD,
              "a frame holds the largest change");
static_assert(JOIN_LARGE_FRAME_MAX >=
                  SETTINGS_FRAME_BYTES + SETTINGS_FRAME_OVERHEAD + 5 * SETTINGS_ITEMS_MAX,
              "a frame holds what is sent at once, with the head of each item");

/* Of the frames of join.h, behind those of both registers. */
enum settings_type {
    SETTINGS_NEWS = 36,
    SETTINGS_FETCH = 37,
    SETTINGS_CHANGES = 38,
    SETTINGS_RECORDS = 39,
    SETTINGS_TYPE_END
};
static_assert((int)SETTINGS_NEWS >
                  (int)REGISTER_WIRE_RING + (int)REGISTER_WIRE_SETTINGS + (int)REGISTER_TYPE_END,
              "types of control's frames differ");

struct settings_place {
    uint32_t kind;
    struct settings_text name;
};

struct settings_item {
    const uint8_t *bytes;
    size_t len;
};

struct settings_frame {
    enum settings_type type;
    uint8_t cluster_id[CONTROL_CLUSTER_ID_LEN];
    uint64_t sender;
    char address[VIEW_TEXT_LEN];
    uint64_t version; /* what the sender has */
    struct hash128 digest;
    struct register_voters voters;
    struct settings_place from;
    struct settings_place to;
    uint64_t nonce; /* of the question, and of what answers it; 0: none */
    uint32_t item_count;
    struct settings_item items[SETTINGS_ITEMS_MAX]; /* after decoding, in the frame */
};

/* Length, or TG_ETOOBIG. */
MUST_USE int settings_wire_encode(const struct settings_frame *frame, void *out, size_t capacity);
/* 0, TG_EPROTOCOL (also: another message of join.h), TG_EVERSION. */
MUST_USE int settings_wire_decode(const void *bytes, size_t len, struct settings_frame *frame);

#endif
