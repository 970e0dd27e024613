/* register_wire.h - the messages of register.h on the gossip address, byte by byte.
 *
 * A frame is the byte 0xc1, as of join.h, whose types these continue, and one msgpack array:
 *
 *   [version, REGISTER_WIRE_RING + type, cluster id, sender, address to answer, epoch,
 *    ballot: number, node, boot,  other: number, node, boot,  value, region of the sender]
 *
 * Those of the settings' register have types that are REGISTER_WIRE_SETTINGS higher.
 */
#ifndef NODE_CLUSTER_CONSENSUS_REGISTER_WIRE_H
#define NODE_CLUSTER_CONSENSUS_REGISTER_WIRE_H

#include <assert.h>

#include "node/cluster/consensus/register.h"
#include "node/cluster/wire/join.h"

/* What is added to a message's type: by its number a frame is told from those of join.h. */
enum { REGISTER_WIRE_RING = 4, REGISTER_WIRE_SETTINGS = 16 };

static_assert(REGISTER_WIRE_SETTINGS >= (int)REGISTER_TYPE_END, "types of both registers differ");
static_assert((int)JOIN_TYPE_LAST <= (int)REGISTER_WIRE_RING,
              "a further type of join.h needs a number behind all frames of control");
static_assert((int)REGISTER_TYPE_END == 6, "older releases know five messages by these numbers");

struct register_frame {
    bool settings; /* of the settings' register, not of the ring's */
    uint8_t cluster_id[CONTROL_CLUSTER_ID_LEN];
    char address[VIEW_TEXT_LEN];     /* the sender's gossip address */
    char region[SWIM_PLACE_LEN];     /* the sender's; "": it does not say */
    struct register_message message; /* after decoding, `value` lies in the frame */
};

/* Length, or TG_ETOOBIG. JOIN_FRAME_MAX bytes hold any of the ring's register,
 * JOIN_LARGE_FRAME_MAX any of the settings'. */
MUST_USE int register_wire_encode(const struct register_frame *frame, void *out, size_t capacity);
/* 0, TG_EPROTOCOL (also: another message of join.h), TG_EVERSION. */
MUST_USE int register_wire_decode(const void *bytes, size_t len, struct register_frame *frame);

#endif
