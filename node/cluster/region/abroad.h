/* abroad.h - other regions, as a shard sees them: which one counts a key, who is asked there, and
 * whether it answers (abroad.c).
 *
 * Part of shard_state.h, for the files of node/cluster alone.
 */
#ifndef NODE_CLUSTER_REGION_ABROAD_H
#define NODE_CLUSTER_REGION_ABROAD_H

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
    ABROAD_REGIONS_MAX = 32, /* the first ones by id: everywhere the same */
    ABROAD_LINES_MAX = 16,   /* shards that something is gathered for at a time */
    ABROAD_LINE_LEN = 32 << 10,
};

#define ABROAD_NOWHERE UINT64_MAX         /* a region that is none */
#define ABROAD_PING_NS INT64_C(500000000) /* while rules of scope global are in force */
/* So long, at least, an answer is waited for; then the next member is asked. */
#define ABROAD_PATIENCE_NS INT64_C(100000000)
#define ABROAD_LOST_NS     INT64_C(400000000) /* at least; then the region is out of reach */
#define ABROAD_RTT_NS      INT64_C(100000000) /* as long as none was measured */
/* So long nobody counts a key whose home has changed: until everybody knows, and then until leases
 * of the old home have ended. */
#define ABROAD_MOVED_NS (INT64_C(2500000000) + LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS)

/* One region, the own one among them. */
struct abroad_region {
    uint64_t id;           /* policy_region_id of its name */
    uint32_t member;       /* of the view: one of it, for its name */
    uint64_t contact;      /* the node that is asked, 0: there is none */
    uint16_t shard;        /* of that node */
    uint32_t turn;         /* rises with each one that did not answer */
    int64_t turned_ns;     /* when it was chosen */
    int64_t heard_ns;      /* when an answer came; 0: never */
    int64_t unanswered_ns; /* since when one is waited for; 0: none is */
    int64_t next_ping_ns;
    int64_t rtt_ns; /* 0: not known */
};

/* What is gathered for a shard of another region. */
struct abroad_line {
    uint64_t node;
    uint16_t shard;
    struct bytes_writer outbox;
};

struct abroad {
    struct abroad_region *regions; /* [ABROAD_REGIONS_MAX], by id */
    uint32_t count;
    uint64_t own;
    uint64_t *homes; /* [vnodes]: of rules that name none */
    bool *moved;     /* [vnodes]: its home has changed lately (A6) */
    int64_t moved_until_ns;
    bool known;     /* the homes are of regions that the view knew */
    uint8_t *bytes; /* of the lines */
    struct abroad_line lines[ABROAD_LINES_MAX];
};

/* 0 or TG_ENOMEM. */
MUST_USE int abroad_init(struct shard *shard);
void abroad_fini(struct shard *shard);
void abroad_follow_view(struct shard *shard);
/* The region that counts a key of the rule, if that is not this one; else 0. */
uint64_t abroad_home(const struct shard *shard, const struct policy_rule *rule, uint32_t vnode);
/* The name of that region, be it this one; "" if the rule is no global one. */
const char *abroad_home_name(const struct shard *shard, const struct policy_rule *rule,
                             uint32_t vnode);
/* The region that has the rate of the pool for all, be it this one: 0 if each has it for itself,
 * ABROAD_NOWHERE while none does. */
uint64_t abroad_pool_home(const struct shard *shard, const struct policy_pool *pool);
/* Its name; "" if there is none, or it is not known. */
const char *abroad_pool_home_name(const struct shard *shard, const struct policy_pool *pool);
/* The region of a node of another region; 0 for any other node. */
uint64_t abroad_region_of(const struct shard *shard, uint64_t node);
/* The other regions that have a ring, as homes are chosen among. Their number, with ids in `out`.
 */
uint32_t abroad_others(const struct shard *shard, uint64_t out[ABROAD_REGIONS_MAX]);
/* What goes to the node that is asked in that region, with room for `len` bytes; NULL if there is
 * none, or the region is out of reach. Or to any shard of another region. */
struct bytes_writer *abroad_outbox(struct shard *shard, uint64_t region, size_t len,
                                   struct effects *effects);
struct bytes_writer *abroad_outbox_of(struct shard *shard, uint64_t node, uint16_t to, size_t len,
                                      struct effects *effects);
/* How long the way there and back is, as far as known. */
int64_t abroad_rtt_ns(const struct shard *shard, uint64_t region);
/* Whether the region has not answered for so long that nothing is asked of it. */
bool abroad_lost(const struct shard *shard, uint64_t region);
/* Whether an answer of it came since then. */
bool abroad_heard_since(const struct shard *shard, uint64_t region, int64_t since_ns);

/* The slot in which it does. */
struct hash128 abroad_local_id(struct hash128 id);

void abroad_answer(struct shard *shard, uint32_t part, const struct answer *answer,
                   struct effects *effects);
void abroad_explain(struct shard *shard, uint32_t part, const struct peer_state *states,
                    uint32_t count, struct effects *effects);

void abroad_tick(struct shard *shard, struct effects *effects);
/* Sends what was gathered. */
void abroad_flush(struct shard *shard, struct effects *effects);

/* The region of that id, NULL: none is known. */
struct abroad_region *abroad_find(const struct shard *shard, uint64_t id);
uint64_t abroad_region_of_member(const struct view_member *member);
/* What goes to that shard, with room for one more record. */
struct bytes_writer *abroad_record(struct shard *shard, uint64_t node, uint16_t to,
                                   struct effects *effects);
/* Something was asked of the region / an answer of it came. */
void abroad_await(struct shard *shard, struct abroad_region *region);
void abroad_hear(struct shard *shard, struct abroad_region *region);
/* How long an answer is waited for until another member is asked. */
int64_t abroad_patience_ns(const struct abroad_region *region);

#endif
