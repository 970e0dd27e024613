/* remote_regions.h - other regions, as a shard sees them: which one counts a key, who is asked
 * there, and whether it answers (remote_regions.c).
 *
 * Part of shard_state.h, for the files of node/cluster alone.
 */
#ifndef NODE_CLUSTER_REGION_REMOTE_REGIONS_H
#define NODE_CLUSTER_REGION_REMOTE_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "node/cluster/wire/peer_wire.h"

struct effects;
struct peer_state;
struct policy_pool;
struct policy_rule;
struct shard;
struct view_member;

enum {
    REMOTE_REGIONS_MAX = 32, /* the first ones by id: everywhere the same */
    REMOTE_LINES_MAX = 16,   /* shards that something is gathered for at a time */
    REMOTE_LINE_LEN = 32 << 10,
};

#define REMOTE_NOWHERE UINT64_MAX         /* a region that is none */
#define REMOTE_PING_NS INT64_C(500000000) /* while rules of scope global are in force */
/* So long, at least, an answer is waited for; then the next member is asked. */
#define REMOTE_TIMEOUT_NS INT64_C(100000000)
#define REMOTE_LOST_NS    INT64_C(400000000) /* at least; then the region is out of reach */
#define REMOTE_RTT_NS     INT64_C(100000000) /* as long as none was measured */
/* So long nobody counts a key whose home has changed: until everybody knows, and then until leases
 * of the old home have ended. */
#define REMOTE_MOVED_NS (INT64_C(2500000000) + LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS)

/* One region, the own one among them. */
struct remote_region {
    uint64_t id;           /* policy_region_id of its name */
    uint32_t member;       /* of the view: one of it, for its name */
    uint64_t contact;      /* the node that is asked, 0: there is none */
    uint16_t shard;        /* of that node */
    uint8_t reads;         /* what the contact reads, as far as it has said so (peer_kinds.h) */
    uint32_t turn;         /* rises with each one that did not answer */
    int64_t turned_ns;     /* when it was chosen */
    int64_t heard_ns;      /* when an answer came; 0: never */
    int64_t unanswered_ns; /* since when one is waited for; 0: none is */
    int64_t next_ping_ns;
    int64_t rtt_ns; /* 0: not known */
};

/* What is gathered for a shard of another region. */
struct remote_line {
    uint64_t node;
    uint16_t shard;
    struct bytes_writer outbox;
};

struct remote_regions {
    struct remote_region *regions; /* [REMOTE_REGIONS_MAX], by id */
    uint32_t count;
    uint64_t own;
    uint64_t *homes; /* [vnodes]: of rules that name none */
    bool *moved;     /* [vnodes]: its home has changed lately (REMOTE-6) */
    int64_t moved_until_ns;
    bool known;     /* the homes are of regions that the view knew */
    uint8_t *bytes; /* of the lines */
    struct remote_line lines[REMOTE_LINES_MAX];
};

/* 0 or TG_ENOMEM. */
MUST_USE int remote_init(struct shard *shard);
void remote_fini(struct shard *shard);
void remote_follow_view(struct shard *shard);
/* The region that counts a key of the rule, if that is not this one; else 0. */
uint64_t remote_home(const struct shard *shard, const struct policy_rule *rule, uint32_t vnode);
/* The name of that region, be it this one; "" if the rule is no global one. */
const char *remote_home_name(const struct shard *shard, const struct policy_rule *rule,
                             uint32_t vnode);
/* The region that has the rate of the pool for all, be it this one: 0 if each has it for itself,
 * REMOTE_NOWHERE while none does. */
uint64_t remote_pool_home(const struct shard *shard, const struct policy_pool *pool);
/* Its name; "" if there is none, or it is not known. */
const char *remote_pool_home_name(const struct shard *shard, const struct policy_pool *pool);
/* The region of a node of another region; 0 for any other node. */
uint64_t remote_region_of(const struct shard *shard, uint64_t node);
/* The other regions that have a ring, as homes are chosen among. Their number, with ids in `out`.
 */
uint32_t remote_others(const struct shard *shard, uint64_t out[REMOTE_REGIONS_MAX]);
/* What goes to the node that is asked in that region, with room for `len` bytes; NULL if there is
 * none, or the region is out of reach. Or to any shard of another region. */
struct bytes_writer *remote_outbox(struct shard *shard, uint64_t region, size_t len,
                                   struct effects *effects);
struct bytes_writer *remote_outbox_of(struct shard *shard, uint64_t node, uint16_t to, size_t len,
                                      struct effects *effects);
/* How long the way there and back is, as far as known. */
int64_t remote_rtt_ns(const struct shard *shard, uint64_t region);
/* Whether the region has not answered for so long that nothing is asked of it. */
bool remote_lost(const struct shard *shard, uint64_t region);
/* Whether an answer of it came since then. */
bool remote_heard_since(const struct shard *shard, uint64_t region, int64_t since_ns);

/* The slot in which it does. */
struct hash128 remote_local_id(struct hash128 id);

void remote_answer(struct shard *shard, uint32_t part, const struct answer *answer,
                   struct effects *effects);
void remote_explain(struct shard *shard, uint32_t part, const struct peer_state *states,
                    uint32_t count, struct effects *effects);

void remote_tick(struct shard *shard, struct effects *effects);
/* Sends what was gathered. */
void remote_flush(struct shard *shard, struct effects *effects);

/* The region of that id, NULL: none is known. */
struct remote_region *remote_find(const struct shard *shard, uint64_t id);
uint64_t remote_region_of_member(const struct view_member *member);
/* What goes to that shard, with room for one more record. */
struct bytes_writer *remote_record(struct shard *shard, uint64_t node, uint16_t to,
                                   struct effects *effects);
/* Something was asked of the region / an answer of it came. */
void remote_await(struct shard *shard, struct remote_region *region);
void remote_hear(struct shard *shard, struct remote_region *region);
/* How long an answer is waited for until another member is asked. */
int64_t remote_timeout_ns(const struct remote_region *region);

/* Asserts what remote_regions.c says. */
void remote_check_invariants(const struct shard *shard);

#endif
