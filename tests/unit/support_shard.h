/* support_shard.h - shards of a small cluster, joined by a network made of memory and virtual time.
 *
 *     lab_ask ... lab_send --> shard_client --+
 *     lab_run: a tick each millisecond -------+--> effects --> log of frames --> shard_peer
 *                                             +--> replies, loads, disk
 *
 * Every frame between shards is kept in a log until lab_forget, delivered or not, so a test can
 * both drop frames and read what was said. A node that is listed in the ring but not started is a
 * ghost: nothing is delivered to it, and a test may speak in its name (lab_speak).
 *
 * The journals of consistency quorum survive lab_stop, and are given back by lab_create. A batch is
 * written within a step, or takes as long as a test says.
 *
 * LABSHARD-1  Nothing happens but by a call of these functions, and only those that run let time
 *             pass.
 * LABSHARD-2  After every event the shard that took it has kept its invariants. (Under a sanitizer,
 *             after some of them: support_effort.h.)
 */
#ifndef TESTS_UNIT_SUPPORT_SHARD_H
#define TESTS_UNIT_SUPPORT_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/protocol/wire.h"
#include "node/cluster/shard/shard.h"
#include "node/cluster/shard/test_probe.h"
#include "node/cluster/wire/peer_wire.h"

#define LAB_MS       INT64_C(1000000)
#define LAB_START_NS (INT64_C(1700000000) * 1000 * LAB_MS)

enum {
    LAB_SHARDS_MAX = 6,
    LAB_VNODES = 16,
    LAB_KEY_LEN = 24,
    LAB_SESSION = 77,
    LAB_CONNECTION = 500, /* + number of the shard that was asked */
    LAB_NONE = 255,
    LAB_POLICIES_MAX = 8,
    LAB_REMOTE_MAX = 4,
    LAB_REMOTE = 0x2000, /* the id of the first member in another region */
};

struct lab_frame {
    uint32_t from; /* numbers of shards */
    uint32_t to;
    bool delivered; /* else: dropped, or still under way */
    bool done;      /* delivered or dropped */
    int64_t due_ns; /* when it arrives */
    size_t len;
    uint8_t *bytes;
};

struct lab_reply {
    uint32_t at;
    uint64_t seq;
    unsigned type; /* of its envelope */
    size_t len;
    uint8_t *bytes;
};

/* What a shard asked of its disk: a slot, or the ids of a vnode. */
struct lab_load {
    uint32_t at;
    uint32_t vnode;
    struct hash128 id;
};

/* What survives the process of a shard: its journal, and the batch on its way there. */
struct lab_slot {
    uint32_t vnode;
    struct hash128 id;
    size_t len;
    uint8_t *bytes;
};

struct lab_journal {
    struct term promised[2 * LAB_VNODES];
    struct term state[2 * LAB_VNODES];
    uint64_t seq[2 * LAB_VNODES];
    struct lab_slot *slots;
    size_t slot_count;
    bool out; /* a batch is being written */
    int64_t done_ns;
    struct shard_journal batch;
    struct shard_journal_record records[SHARD_JOURNAL_RECORDS_MIN * 8];
    uint8_t bytes[SHARD_JOURNAL_BYTES_MIN];
};

struct lab_shard {
    uint64_t node;
    struct lab_journal *journal;
    int64_t journal_ns; /* how long a batch takes; a negative one never ends */
    bool journal_fails; /* batches are refused */
    struct shard_options options;
    struct shard *shard; /* NULL: not running */
    struct view *view;
};

struct lab {
    void *context; /* the test's own */
    int64_t now_ns;
    uint32_t count; /* of shards; those of node n are n * shards_each .. */
    uint32_t nodes;
    uint32_t shards_each;
    uint64_t view_version;
    struct lab_shard shards[LAB_SHARDS_MAX];
    struct ring_config *config;
    struct ring_config *config_next;
    /* Regions: node n is of region n / region_nodes, if that is not 0, and each has a ring. */
    uint32_t region_nodes;
    struct ring_config *region_configs[LAB_SHARDS_MAX];
    int64_t wan_ns;         /* the way from one to another */
    uint32_t regions_known; /* the first so many have a ring, as views say; 0: they do not say */
    struct effects effects;
    /* the network */
    struct lab_frame *frames;
    size_t frame_count;
    size_t frame_next;  /* the first one that is still under way */
    uint32_t performed; /* events whose effects were carried out */
    bool large;         /* LABSHARD-2 is looked at by the test itself, because it takes long */
    bool cut[LAB_SHARDS_MAX][LAB_SHARDS_MAX];
    bool dead[LAB_SHARDS_MAX]; /* nodes that the views to come give up */
    uint32_t remote;           /* members of another region, LAB_REMOTE, in the views to come */
    unsigned drop_type;        /* frames that hold a record of this type are lost; 0: none */
    /* what else the shards wanted */
    struct lab_reply *replies;
    size_t reply_count;
    struct lab_load loads[64];
    size_t load_count;
    struct lab_load lists[64];
    size_t list_count;
    size_t admin_count;
    size_t dropped_vnodes;
    struct lab_disks
        *disks; /* support_disk.h; NULL: what is gathered and loaded is up to the test */
    /* the message being made, and the answer being read */
    uint64_t seq;
    uint64_t next_boot;
    struct wire_checks_builder builder;
    uint8_t values[1 << 19];
    uint8_t frame[WIRE_MESSAGE_MAX];
    struct wire_decisions_space space;
    struct wire_decisions decisions;
    struct policy *policies[LAB_POLICIES_MAX];
    uint32_t policy_count;
    /* the frame that a ghost says */
    struct bytes_writer records;
    uint8_t record_bytes[1 << 16];
};

/* A lab of `nodes` nodes in one stable ring, of which none is started. */
struct lab *lab_new(uint32_t nodes, uint32_t shards_each, uint32_t replicas);
/* Makes regions r0, r1 .. of so many nodes each, before any is started. They have rings of their
 * own, so what is told of leaders and replicas below is not for them. */
void lab_regions(struct lab *lab, uint32_t region_nodes, uint32_t replicas, int64_t wan_ns);
void lab_free(struct lab *lab);

/* Fixtures: a lab in *state of one node, or of three that all hold every vnode, started and
 * settled; the end of a lab checks the invariants of whoever still runs. */
int lab_set_up_one(void **state);
int lab_set_up_three(void **state);
int lab_tear_down(void **state);
#define LAB_TEST(name, set_up) cmocka_unit_test_setup_teardown(name, set_up, lab_tear_down)
#define LAB_TEST_ONE(name)     LAB_TEST(name, lab_set_up_one)
#define LAB_TEST_THREE(name)   LAB_TEST(name, lab_set_up_three)

/* Starts shard `at` as a new process that knows nothing, without a view / with one. */
void lab_create(struct lab *lab, uint32_t at);
void lab_start(struct lab *lab, uint32_t at);
/* Tells all others that their connections to the shard were closed, as they see when its process
 * has ended. */
void lab_closed(struct lab *lab, uint32_t gone);
/* Starts all, and runs until every vnode is decided and held by all replicas. */
void lab_start_all(struct lab *lab);
/* The process ends without a word; so does the batch that was on its way to its journal. */
void lab_stop(struct lab *lab, uint32_t at);
/* Gives shard `at` a view of the present configuration. */
void lab_view(struct lab *lab, uint32_t at);
/* Gives every running shard a view of the present configuration. */
void lab_view_all(struct lab *lab);
/* Node `node` as a member of the ring, which it may have left. */
void lab_member(struct ring_member *member, uint32_t node);
/* Makes `config_next` the configuration. */
void lab_adopt(struct lab *lab);

/* Gives a policy to every running shard; it is the lab's from now on. */
void lab_policy(struct lab *lab, struct policy *policy);
/* Compiles rules and gives them to every running shard. */
const struct policy *lab_rules(struct lab *lab, const char *text);

/* Lets that time pass in steps of a millisecond: frames are delivered, everyone ticks. */
void lab_run(struct lab *lab, int64_t ns);
/* Runs until `done(lab, context)` holds; fails the test after `limit_ns`. */
void lab_until(struct lab *lab, bool (*done)(struct lab *lab, void *context), void *context,
               int64_t limit_ns);
/* Runs until every vnode is decided by the first running node of its replica set and synced. */
void lab_settle(struct lab *lab);
/* Delivers what is under way without letting time pass. */
void lab_deliver(struct lab *lab);
/* Ends the batch that shard `at` has out, if it has one: written or not. */
void lab_journal_end(struct lab *lab, uint32_t at, bool ok);
/* Lets one shard tick now. */
void lab_tick(struct lab *lab, uint32_t at);
/* Time passes, and nobody does anything: a pause of all processes. */
void lab_pause(struct lab *lab, int64_t ns);
/* Carries out the effects that a direct call of shard `at` left in lab->effects. */
void lab_perform(struct lab *lab, uint32_t at);

/* A client tells one of them how loaded what the pool protects is. */
void lab_report_load(struct lab *lab, uint32_t at, uint32_t pool, uint32_t load_ppm);

/* What the shards said: how many records of `type` went from one to the other since the log was
 * last emptied, and the last of them. LAB_NONE stands for anyone. */
uint32_t lab_said(const struct lab *lab, uint32_t from, uint32_t to, enum peer_record_type type,
                  struct peer_record *last);
void lab_forget(struct lab *lab);

/* Ghosts. lab_speak sends what was written into lab->records in the name of shard `from`. */
void lab_speak(struct lab *lab, uint32_t from, uint32_t to);
/* All shards that do not run give `to` a sign of life each millisecond, about `vnode`. */
void lab_ghosts_live(struct lab *lab, uint32_t to, uint32_t vnode, uint32_t ms);

/* Keys and places. */
uint32_t lab_vnode_of(const struct lab *lab, const char *key);
struct hash128 lab_slot_of(const struct lab *lab, const char *key, uint8_t algorithm);
/* A key of `vnode`; different for different `number`. */
void lab_key(const struct lab *lab, uint32_t vnode, uint32_t number, char out[LAB_KEY_LEN]);
/* "NAME=value" whose counter under `rule` is of a vnode that shard `at` owns. */
void lab_attribute(const struct lab *lab, const char *rule, const char *name, uint32_t at,
                   char out[LAB_KEY_LEN]);
/* The shard that is at `rank` in the replica set of `vnode`. */
uint32_t lab_replica(const struct lab *lab, uint32_t vnode, uint32_t rank);
/* A vnode whose preferred owner is shard `at`. */
uint32_t lab_vnode_owned(const struct lab *lab, uint32_t at);
/* The shard that decides the vnode, LAB_NONE when none or several say so. */
uint32_t lab_leader(const struct lab *lab, uint32_t vnode);
enum shard_role lab_role(const struct lab *lab, uint32_t at, uint32_t vnode);
struct shard_stats lab_stats(const struct lab *lab, uint32_t at);

/* Checks. Items gather until they are sent; lab_send returns the message's seq. */
void lab_ask(struct lab *lab, const struct limit *limit, const char *key, uint8_t operation,
             uint64_t cost);
/* The same for a lease of which `used` tokens were used: to be released or renewed. */
void lab_ask_used(struct lab *lab, const struct limit *limit, const char *key, uint8_t operation,
                  uint64_t lease, uint64_t used);
/* Attributes as "name=value" texts, NULL at the end. */
void lab_ask_attributes(struct lab *lab, uint64_t cost, const char *const *attributes);
void lab_ask_attributes_as(struct lab *lab, uint8_t operation, uint64_t cost,
                           const char *const *attributes);
void lab_ask_attributes_used(struct lab *lab, uint8_t operation, uint64_t lease, uint64_t used,
                             const char *const *attributes);
uint64_t lab_send(struct lab *lab, uint32_t at, uint32_t timeout_ms);
/* The same, and every limit that was met is to be told. */
uint64_t lab_send_explained(struct lab *lab, uint32_t at, uint32_t timeout_ms);
/* The same with these WIRE_FLAG_. */
uint64_t lab_send_flagged(struct lab *lab, uint32_t at, uint32_t flags, uint32_t timeout_ms);
/* Gives shard `at` the client's frame that was encoded into lab->frame; `len` is what that gave. */
void lab_client(struct lab *lab, uint32_t at, int len);
/* The message sent last (or any, by its seq), as its caller would repeat it. */
void lab_send_again(struct lab *lab, uint32_t at, uint64_t seq, uint32_t timeout_ms);
/* Whether a reply to `seq` has come; its decisions are then in lab->decisions. */
bool lab_answered(struct lab *lab, uint64_t seq);
/* How many replies to `seq` have come. */
uint32_t lab_answers(struct lab *lab, uint64_t seq);
/* Runs until the reply is there, and gives its item `item`. */
struct wire_decision lab_answer(struct lab *lab, uint64_t seq, uint32_t item);
/* The last reply, whatever it is; or as the ERROR that it must be. */
const struct lab_reply *lab_last_reply(const struct lab *lab);
struct wire_error lab_last_error(const struct lab *lab);
/* All of that for one inline check. */
struct wire_decision lab_check(struct lab *lab, uint32_t at, const char *key,
                               const struct limit *limit, uint64_t cost);
/* What is used of the limit by the key, as shard `at` says, by a peek. */
uint64_t lab_used(struct lab *lab, uint32_t at, const char *key, const struct limit *limit);

/* `count` an hour, in a fixed window: nothing comes back while a test runs. */
struct limit lab_limit(uint64_t count);
bool lab_text_is(struct wire_text text, const char *expected);

#endif
