/* join.h - the messages by which a node gets its cluster and every node its configuration.
 *
 *     newcomer                       member
 *       GREET (by SWIM, no cluster)  ...        learns that a cluster is there
 *       JOIN   id, address, region   -->
 *                               <--  ADMIT      cluster id, secret, route key, V, R, address: the
 *                                               settings are asked for there at once; to one of the
 *                                               own region, the configuration
 *     any of the region
 *       FETCH  id, address      -->             "your record names an epoch that I lack"
 *                               <--  CONFIG     cluster id, configuration
 *
 * A frame is the byte 0xc1, which msgpack never uses, and one msgpack array, whose head is the same
 * in all types: [version, type, cluster id, sender, address to answer, ...]. The last value is the
 * sender's region; those of a release that had only one end before it.
 */
#ifndef NODE_CLUSTER_WIRE_JOIN_H
#define NODE_CLUSTER_WIRE_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mp.h"
#include "gossip/swim.h"
#include "node/cluster/model/identity.h"
#include "node/cluster/model/view.h"

enum {
    JOIN_MARK = 0xc1,
    JOIN_VERSION = 1,
    JOIN_FRAME_MAX = CONTROL_CONFIG_LEN_MAX + 512,
    JOIN_LARGE_FRAME_MAX = 1 << 20, /* of those that carry settings (settings_wire.h) */
};

enum join_type { JOIN_JOIN = 1, JOIN_ADMIT = 2, JOIN_FETCH = 3, JOIN_CONFIG = 4 };
enum { JOIN_TYPE_LAST = JOIN_CONFIG };

struct join_message {
    enum join_type type;
    uint8_t cluster_id[CONTROL_CLUSTER_ID_LEN]; /* zero in a JOIN */
    uint64_t sender;
    char address[VIEW_TEXT_LEN];      /* of the sender: JOIN, ADMIT, FETCH */
    struct control_identity identity; /* ADMIT */
    const uint8_t *config;            /* ADMIT, CONFIG: in place in the frame */
    size_t config_len;
    char region[SWIM_PLACE_LEN]; /* the sender's; "": it does not say */
};

/* What every frame begins with. The pointers are the caller's. */
struct join_head {
    uint64_t type;
    const uint8_t *cluster_id; /* CONTROL_CLUSTER_ID_LEN bytes */
    uint64_t sender;
    const char *address;
};

/* Begins a frame of `fields` values with its head; what is missing the caller puts into `writer`.
 * 0 or TG_ETOOBIG. */
MUST_USE int join_begin(struct mp_writer *writer, uint32_t fields, const struct join_head *head,
                        void *out, size_t capacity);
/* The length of the frame that is in the writer, or TG_ETOOBIG. */
MUST_USE int join_end(const struct mp_writer *writer);
/* Length, or TG_ETOOBIG. */
MUST_USE int join_encode(const struct join_message *message, void *out, size_t capacity);
/* Parses a frame of at least `fields` values into the caller's tokens, and reads up to behind its
 * version. 0, TG_EPROTOCOL, TG_EVERSION. */
MUST_USE int join_open(const void *frame, size_t len, uint32_t fields, struct mp_token *tokens,
                       size_t tokens_max, struct mp_cursor *cursor);
/* Reads the rest of the head behind join_open, and returns the type. Nobody as the sender, and what
 * is longer than its place, fail the cursor. */
uint64_t join_get_head(struct mp_cursor *cursor, uint8_t cluster_id[CONTROL_CLUSTER_ID_LEN],
                       uint64_t *sender, char address[VIEW_TEXT_LEN]);
/* The region, if there is one more value. */
void join_get_region(struct mp_cursor *cursor, char region[SWIM_PLACE_LEN]);
/* 0, TG_EPROTOCOL, TG_EVERSION. */
MUST_USE int join_decode(const void *frame, size_t len, struct join_message *message);
/* Whether the frame is one of these (and not SWIM's). */
static inline bool join_is(const void *frame, size_t len)
{
    return len > 0 && *(const uint8_t *)frame == JOIN_MARK;
}

#endif
