/* control_state.h - the private state of the control core (control.c, control_admin.c). */
#ifndef NODE_CLUSTER_CONTROL_STATE_H
#define NODE_CLUSTER_CONTROL_STATE_H

#include "base/random.h"
#include "node/cluster/control.h"
#include "node/cluster/join.h"

#define CONTROL_MS ((int64_t)1000000)
/* How long a bootstrapping node that has seeds looks for somebody else's cluster first. */
#define CONTROL_SEEK_NS (1500 * CONTROL_MS)
#define CONTROL_ASK_NS  (250 * CONTROL_MS) /* between repeated JOINs and FETCHes */
/* A member must be seen alive this long before it is taken into the ring. */
#define CONTROL_ADMIT_NS (300 * CONTROL_MS)
/* A member that has been dead this long is taken out of the ring; coming back, it joins anew. */
#define CONTROL_FORGET_NS (600000 * CONTROL_MS)

struct control {
    const struct allocator *allocator;
    struct control_options options;
    struct control_identity identity;
    struct swim *swim;
    struct swim_effects gossip;
    bool joined;
    bool creating; /* may create a cluster when nobody else does */
    bool view_due;
    bool leaving;
    uint64_t view_version;
    uint64_t rules_digest;
    uint64_t settled_epoch;
    int64_t now_ns;
    int64_t started_ns;
    int64_t asked_ns;
    int64_t proposed_ns;
    int64_t lower_seen_ns;      /* when a bootstrapping node of lower id was met last */
    struct ring_config *config; /* epoch 0: none yet */
    struct ring_config *next;   /* scratch */
    struct mp_token *tokens;    /* RING_CONFIG_TOKENS_MAX */
    uint8_t *bytes;             /* JOIN_FRAME_MAX */
    struct view_member *members;
};

/* Flags of a member record. */
enum { CONTROL_FLAG_BOOTSTRAP = 1 };

/* Whether gossip holds `id` for living (alive or suspect). */
bool control_alive(const struct control *control, uint64_t id);
/* Makes the next configuration in control->next. False if none is wanted, or if it is not for this
 * node to propose it. */
bool propose_next(struct control *control);

#endif
