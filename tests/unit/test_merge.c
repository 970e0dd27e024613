/* test_merge.c - after a split every replica holds what both sides counted, once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/shard_state.h"
#include "tests/unit/support_disk.h"
#include "tests/unit/support_effort.h"

enum { LIMIT = 1000, HEAL_MS = 10000 };

static const char KEY[] = "counted";
static const uint8_t algorithms[] = {ALGORITHM_TOKEN_BUCKET, ALGORITHM_FIXED_WINDOW,
                                     ALGORITHM_SLIDING_WINDOW, ALGORITHM_SLIDING_LOG};

static int set_up(void **state)
{
    const int result = lab_set_up_three(state);
    disks_init(*state);
    return result;
}

static int tear_down(void **state)
{
    disks_fini(*state);
    return lab_tear_down(state);
}

/* LIMIT a year: what comes back while a test runs is not a whole token. */
static struct limit limit_of(uint8_t algorithm)
{
    return (struct limit){
        .count = LIMIT,
        .window_ns = UINT64_C(31536000) * 1000000000,
        .algorithm = algorithm,
    };
}

/* Cuts every link between shards of different sides; `sides` has a letter for each shard. */
static void split(struct lab *lab, const char *sides)
{
    for (uint32_t from = 0; from < lab->count; from++)
        for (uint32_t to = 0; to < lab->count; to++)
            lab->cut[from][to] = sides[from] != sides[to];
}

static void heal(struct lab *lab)
{
    memset(lab->cut, 0, sizeof lab->cut);
}

/* The sides of a split in which the owner of `vnode` is alone. */
static void split_owner_off(struct lab *lab, uint32_t vnode)
{
    char sides[LAB_SHARDS_MAX + 1] = "bbbbbb";
    sides[lab_replica(lab, vnode, 0)] = 'a';
    split(lab, sides);
}

static void take(struct lab *lab, uint32_t at, const char *key, const struct limit *limit,
                 uint64_t cost)
{
    assert_true(lab_check(lab, at, key, limit, cost).allowed);
}

/* Who has a part in the split of KEY's vnode. */
struct scene {
    struct limit limit;
    uint32_t vnode;
    uint32_t owner;     /* decides before, and then for its own side */
    uint32_t successor; /* takes over on the other side */
    uint32_t third;     /* follows the successor */
};

static struct scene scene_of(const struct lab *lab, uint8_t algorithm)
{
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    return (struct scene){
        .limit = limit_of(algorithm),
        .vnode = vnode,
        .owner = lab_replica(lab, vnode, 0),
        .successor = lab_replica(lab, vnode, 1),
        .third = lab_replica(lab, vnode, 2),
    };
}

/* The owner takes `base`, which all replicas learn of, and is split off; then it takes 30 for its
 * side alone, and the other side takes 7, through shard `other`. */
static void take_apart(struct lab *lab, const struct scene *scene, uint64_t base, uint32_t other)
{
    take(lab, scene->owner, KEY, &scene->limit, base);
    lab_run(lab, 50 * LAB_MS);
    split_owner_off(lab, scene->vnode);
    lab_run(lab, 500 * LAB_MS);
    take(lab, scene->owner, KEY, &scene->limit, 30);
    take(lab, other, KEY, &scene->limit, 7);
}

static bool no_lineage(struct lab *lab, void *context)
{
    (void)context;
    for (uint32_t at = 0; at < lab->count; at++)
        if (lab->shards[at].shard != NULL && lab_stats(lab, at).guarded != 0)
            return false;
    return true;
}

/* Every replica has the same bytes for the key as its leader, and the leader says `used`. */
static void assert_used(struct lab *lab, const char *key, const struct limit *limit, uint64_t used)
{
    static uint8_t first[1 << 19];
    static uint8_t other[1 << 19];
    const uint32_t vnode = lab_vnode_of(lab, key);
    const struct hash128 id = lab_slot_of(lab, key, limit->algorithm);
    const uint32_t owner = lab_replica(lab, vnode, 0);
    assert_int_equal(lab_used(lab, owner, key, limit), used);
    const int len = probe_slot(lab->shards[owner].shard, id, first, sizeof first);
    for (uint32_t rank = 1; rank < 3; rank++) {
        struct shard *shard = lab->shards[lab_replica(lab, vnode, rank)].shard;
        assert_int_equal(probe_slot(shard, id, other, sizeof other), len);
        assert_memory_equal(other, first, (size_t)len);
    }
}

/* Heals, waits until all is quiet, and looks at what is counted. */
static void heal_and_expect(struct lab *lab, const char *key, const struct limit *limit,
                            uint64_t used)
{
    heal(lab);
    lab_run(lab, 50 * LAB_MS);
    lab_settle(lab);
    lab_until(lab, no_lineage, NULL, HEAL_MS * LAB_MS);
    lab_settle(lab);
    lab_run(lab, 50 * LAB_MS);
    assert_used(lab, key, limit, used);
}

/* The base is counted once, and what each side admitted is added, whatever the algorithm. */
static void a_split_in_two_ends_with_the_sum(void **state)
{
    struct lab *lab = *state;
    for (size_t i = 0; i < sizeof algorithms; i++) {
        const struct scene scene = scene_of(lab, algorithms[i]);
        take_apart(lab, &scene, 100, scene.third);
        heal_and_expect(lab, KEY, &scene.limit, 137);
    }
}

/* Three sides, each with a leader of its own, end with the sum of all three. */
static void a_split_in_three_ends_with_the_sum(void **state)
{
    struct lab *lab = *state;
    for (size_t i = 0; i < sizeof algorithms; i++) {
        const struct limit limit = limit_of(algorithms[i]);
        take(lab, 0, KEY, &limit, 100);
        lab_run(lab, 50 * LAB_MS);
        split(lab, "abc");
        lab_run(lab, 500 * LAB_MS);
        take(lab, 0, KEY, &limit, 30);
        take(lab, 1, KEY, &limit, 7);
        take(lab, 2, KEY, &limit, 5);
        heal_and_expect(lab, KEY, &limit, 142);
    }
}

/* Frames carry slots of many vnodes in turns: each is added to the right one. */
static void branches_of_many_vnodes_in_one_frame_are_told_apart(void **state)
{
    enum { KEYS = 64 };
    struct lab *lab = *state;
    const struct limit limit = limit_of(ALGORITHM_FIXED_WINDOW);
    char key[LAB_KEY_LEN];
    for (uint32_t i = 0; i < KEYS; i++) {
        lab_key(lab, i % LAB_VNODES, i, key);
        take(lab, 0, key, &limit, 100);
    }
    lab_run(lab, 50 * LAB_MS);
    split(lab, "abb");
    lab_run(lab, 500 * LAB_MS);
    for (uint32_t i = 0; i < KEYS; i++) {
        lab_key(lab, i % LAB_VNODES, i, key);
        take(lab, 0, key, &limit, 30);
        take(lab, 1, key, &limit, 7);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        lab_key(lab, i % LAB_VNODES, i, key);
        heal_and_expect(lab, key, &limit, 137);
    }
}

/* ---- who dies, and who returns --------------------------------------------------------------- */

/* What a node has on disk of one key: as if it had just been written. */
struct stored {
    uint32_t vnode;
    struct hash128 id;
    struct term state;
    uint64_t seq;
    size_t len;
    uint8_t bytes[1 << 14];
};

static void store(struct lab *lab, uint32_t at, const char *key, uint8_t algorithm,
                  struct stored *disk)
{
    struct probe_vnode held;
    disk->vnode = lab_vnode_of(lab, key);
    disk->id = lab_slot_of(lab, key, algorithm);
    probe_vnode(lab->shards[at].shard, disk->vnode, &held);
    disk->state = held.state;
    disk->seq = held.seq;
    const int len = probe_slot(lab->shards[at].shard, disk->id, disk->bytes, sizeof disk->bytes);
    assert_true(len >= 0);
    disk->len = (size_t)len;
}

static void start_from(struct lab *lab, uint32_t at, const struct stored *disk)
{
    lab_create(lab, at);
    struct shard *shard = lab->shards[at].shard;
    if (disk->len > 0)
        assert_int_equal(
            shard_restore_slot(shard, disk->vnode, disk->id, disk->bytes, disk->len, lab->now_ns),
            0);
    shard_restore_vnode(shard, disk->vnode, &disk->state, disk->seq);
    lab_view_all(lab);
}

/* A crash is a split of which one side is silent: what no replica had acknowledged returns. */
static void a_crashed_deciders_last_counts_return_with_it(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_of(lab, ALGORITHM_TOKEN_BUCKET);
    struct stored disk;
    take(lab, scene.owner, KEY, &scene.limit, 100);
    lab_run(lab, 50 * LAB_MS);
    split_owner_off(lab, scene.vnode);
    take(lab, scene.owner, KEY, &scene.limit, 30);
    store(lab, scene.owner, KEY, scene.limit.algorithm, &disk);
    lab_stop(lab, scene.owner);
    heal(lab);
    lab_run(lab, 400 * LAB_MS);
    take(lab, scene.successor, KEY, &scene.limit, 7);
    assert_int_equal(lab_used(lab, scene.successor, KEY, &scene.limit), 107);
    start_from(lab, scene.owner, &disk);
    heal_and_expect(lab, KEY, &scene.limit, 137);
    assert_true(lab_stats(lab, scene.owner).handed_over >= 1);
}

static bool has_merged(struct lab *lab, void *context)
{
    return lab_stats(lab, *(const uint32_t *)context).merged_slots > 0;
}

/* A branch that was half handed over when its node crashed is told again, and adds nothing twice.
 */
static void a_branch_survives_a_crash_while_it_is_handed_over(void **state)
{
    struct lab *lab = *state;
    struct scene scene = scene_of(lab, ALGORITHM_SLIDING_LOG);
    struct stored disk;
    take_apart(lab, &scene, 100, scene.successor);
    store(lab, scene.owner, KEY, scene.limit.algorithm, &disk);
    heal(lab);
    lab->drop_type = PEER_MERGED;
    lab_until(lab, has_merged, &scene.successor, HEAL_MS * LAB_MS);
    lab_run(lab, 30 * LAB_MS);
    lab_stop(lab, scene.owner);
    lab->drop_type = 0;
    lab_run(lab, 500 * LAB_MS);
    take(lab, scene.successor, KEY, &scene.limit, 5);
    start_from(lab, scene.owner, &disk);
    heal_and_expect(lab, KEY, &scene.limit, 142);
}

/* The replica that took over dies before the split heals: who follows it knows the bases. */
static void the_sum_is_right_though_the_one_that_took_over_is_gone(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_of(lab, ALGORITHM_FIXED_WINDOW);
    take_apart(lab, &scene, 100, scene.successor);
    lab_run(lab, 50 * LAB_MS);
    lab_stop(lab, scene.successor);
    lab_run(lab, 500 * LAB_MS);
    take(lab, scene.third, KEY, &scene.limit, 5);
    heal(lab);
    lab_run(lab, 1000 * LAB_MS);
    assert_int_equal(lab_used(lab, scene.third, KEY, &scene.limit), 142);
    lab_start(lab, scene.successor);
    heal_and_expect(lab, KEY, &scene.limit, 142);
}

/* The split heals at the moment when the one that took over dies: the deposed one does not take the
 * third's state for its own, but lets it take over, and hands over. */
static void a_deposed_decider_yields_to_the_line_that_went_on(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_of(lab, ALGORITHM_TOKEN_BUCKET);
    take_apart(lab, &scene, 100, scene.successor);
    lab_run(lab, 50 * LAB_MS);
    lab_stop(lab, scene.successor);
    heal(lab);
    lab_run(lab, 1000 * LAB_MS);
    assert_int_equal(lab_used(lab, scene.owner, KEY, &scene.limit), 137);
    lab_start(lab, scene.successor);
    heal_and_expect(lab, KEY, &scene.limit, 137);
}

/* Who took over loses its memory of the cut in a crash, and so do those that followed it: the
 * counts of either side stay. */
static void without_a_memory_of_the_cut_no_side_is_forgotten(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_of(lab, ALGORITHM_TOKEN_BUCKET);
    struct stored disk;
    take_apart(lab, &scene, 100, scene.successor);
    store(lab, scene.successor, KEY, scene.limit.algorithm, &disk);
    lab_stop(lab, scene.successor);
    lab_stop(lab, scene.third);
    start_from(lab, scene.successor, &disk);
    lab_start(lab, scene.third);
    heal_and_expect(lab, KEY, &scene.limit, 130);
    const uint64_t by_successor = lab_stats(lab, scene.successor).merge_fallbacks;
    assert_true(by_successor + lab_stats(lab, scene.owner).merge_fallbacks > 0);
}

/* The one that took over passes deciding on before the split heals: the memory goes along. */
static void a_pass_right_after_a_take_over_takes_the_memory_along(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_of(lab, ALGORITHM_SLIDING_WINDOW);
    take_apart(lab, &scene, 100, scene.successor);
    for (uint32_t i = 0; i < 100 && lab_role(lab, scene.third, scene.vnode) != SHARD_LEADING; i++) {
        (void)shard_resign(lab->shards[scene.successor].shard, lab->now_ns, &lab->effects);
        lab_perform(lab, scene.successor);
        lab_run(lab, 5 * LAB_MS);
    }
    assert_int_equal(lab_role(lab, scene.third, scene.vnode), SHARD_LEADING);
    lab_stop(lab, scene.successor);
    take(lab, scene.third, KEY, &scene.limit, 5);
    heal(lab);
    lab_run(lab, 1000 * LAB_MS);
    assert_int_equal(lab_used(lab, scene.third, KEY, &scene.limit), 142);
    lab_start(lab, scene.successor);
    heal_and_expect(lab, KEY, &scene.limit, 142);
}

static bool has_told_merged(struct lab *lab, void *context)
{
    return lab_said(lab, *(const uint32_t *)context, LAB_NONE, PEER_MERGED, NULL) > 0;
}

/* The node that merges dies when both branches were told, before it wrote their sum or gave it to
 * anybody: the side that lived did not let go of what it counted. */
static void what_the_living_side_counted_outlives_an_heir_that_dies(void **state)
{
    struct lab *lab = *state;
    for (size_t i = 0; i < sizeof algorithms; i++) {
        const struct limit limit = limit_of(algorithms[i]);
        const uint32_t vnode = lab_vnode_of(lab, KEY);
        const uint32_t owner = lab_replica(lab, vnode, 0);
        uint32_t successor = lab_replica(lab, vnode, 1);
        char sides[] = "aaa";
        take(lab, owner, KEY, &limit, 30);
        lab_run(lab, 50 * LAB_MS);
        sides[successor] = 'b';
        split(lab, sides);
        lab_run(lab, 500 * LAB_MS);
        take(lab, owner, KEY, &limit, 15);
        take(lab, successor, KEY, &limit, 10);
        disks_flush(lab, successor);
        disks_stop(lab, successor, true);
        lab_forget(lab);
        heal(lab);
        lab_until(lab, has_told_merged, &successor, HEAL_MS * LAB_MS);
        lab_stop(lab, successor);
        disks_stop(lab, successor, false);
        lab_start(lab, successor);
        heal_and_expect(lab, KEY, &limit, 45); /* MERGE-5: its bases died with the successor */
    }
}

/* ---- what is on disk alone ------------------------------------------------------------------- */

/* The key leaves the memory of shard `at` for its disk. */
static void spill(struct lab *lab, uint32_t at, const char *key, const struct limit *limit)
{
    const uint32_t vnode = lab_vnode_of(lab, key);
    const struct hash128 id = lab_slot_of(lab, key, limit->algorithm);
    struct table *table = lab->shards[at].shard->table;
    disks_flush(lab, at);
    assert_true(disks_have(lab, at, vnode, id));
    assert_int_not_equal(table_lookup(table, id), TABLE_NONE);
    table_drop(table, table_lookup(table, id));
    table_filter_add(table, vnode, id);
}

/* On either side, or on both, the key is on disk alone when the split heals: it is read, and the
 * sum is right. */
static void keys_that_were_spilled_are_merged(void **state)
{
    struct lab *lab = *state;
    for (uint32_t i = 0; i < 3 * sizeof algorithms; i++) {
        const struct limit limit = limit_of(algorithms[i / 3]);
        char key[LAB_KEY_LEN];
        lab_key(lab, i % LAB_VNODES, i, key);
        const uint32_t vnode = lab_vnode_of(lab, key);
        const uint32_t owner = lab_replica(lab, vnode, 0);
        const uint32_t successor = lab_replica(lab, vnode, 1);
        take(lab, owner, key, &limit, 30);
        lab_run(lab, 50 * LAB_MS);
        split_owner_off(lab, vnode);
        lab_run(lab, 500 * LAB_MS);
        take(lab, owner, key, &limit, 15);
        take(lab, successor, key, &limit, 10);
        lab_run(lab, 50 * LAB_MS);
        if (i % 3 != 0)
            spill(lab, owner, key, &limit);
        if (i % 3 != 1)
            spill(lab, successor, key, &limit);
        heal_and_expect(lab, key, &limit, 55);
    }
}

/* A stored key that can never be read again: what the branch counted stays, and merging goes on. */
static void a_slot_that_cannot_be_read_holds_no_merge_up(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = limit_of(ALGORITHM_TOKEN_BUCKET);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t owner = lab_replica(lab, vnode, 0);
    uint32_t successor = lab_replica(lab, vnode, 1);
    take(lab, owner, KEY, &limit, 30);
    lab_run(lab, 50 * LAB_MS);
    split_owner_off(lab, vnode);
    lab_run(lab, 500 * LAB_MS);
    take(lab, owner, KEY, &limit, 15);
    take(lab, successor, KEY, &limit, 10);
    lab_run(lab, 50 * LAB_MS);
    spill(lab, successor, KEY, &limit);
    disks_spoil(lab, successor, vnode, lab_slot_of(lab, KEY, limit.algorithm));
    heal(lab);
    lab_until(lab, has_merged, &successor, HEAL_MS * LAB_MS);
    assert_true(lab_stats(lab, successor).merge_fallbacks > 0);
    heal_and_expect(lab, KEY, &limit, 45);
}

/* ---- what is lost on the way ----------------------------------------------------------------- */

/* Each record of a hand-over is lost for a while: it is told again until it is complete, once. */
static void a_lost_record_of_a_hand_over_is_told_again(void **state)
{
    static const uint8_t types[] = {PEER_LINEAGE, PEER_APART,      PEER_DIVERGED, PEER_DIVERGED_END,
                                    PEER_MERGED,  PEER_MERGE_BASE, PEER_ACK};
    struct lab *lab = *state;
    const struct scene scene = scene_of(lab, ALGORITHM_TOKEN_BUCKET);
    uint64_t used = 0;
    for (size_t i = 0; i < sizeof types; i++) {
        take_apart(lab, &scene, 10, scene.successor);
        heal(lab);
        lab->drop_type = types[i];
        lab_run(lab, 400 * LAB_MS);
        lab->drop_type = 0;
        used += 47;
        heal_and_expect(lab, KEY, &scene.limit, used);
    }
}

/* While only one direction works again nobody decides twice and nothing is lost. */
static void a_split_that_heals_one_way_first_ends_with_the_sum(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_of(lab, ALGORITHM_FIXED_WINDOW);
    uint64_t used = 0;
    for (uint32_t way = 0; way < 2; way++) {
        take_apart(lab, &scene, 10, scene.successor);
        for (uint32_t at = 0; at < 3; at++)
            lab->cut[way == 0 ? scene.owner : at][way == 0 ? at : scene.owner] = false;
        lab_run(lab, 1000 * LAB_MS);
        used += 47;
        heal_and_expect(lab, KEY, &scene.limit, used);
    }
}

/* Splits the scene's owner off, and lets both sides take of so many keys: it 30, its successor 7.
 */
static void split_and_count(struct lab *lab, const struct scene *scene, uint32_t keys)
{
    char key[LAB_KEY_LEN];
    split_owner_off(lab, scene->vnode);
    lab_run(lab, 500 * LAB_MS);
    for (uint32_t i = 0; i < keys; i++) {
        lab_key(lab, scene->vnode, i, key);
        take(lab, scene->owner, key, &scene->limit, 30);
        take(lab, scene->successor, key, &scene->limit, 7);
    }
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* More keys than can be remembered: no side is forgotten, and it is told that not all was added. */
static void beyond_the_side_tables_room_no_side_is_forgotten(void **state)
{
    enum { KEYS = 3000 };
    struct lab *lab = *state;
    const struct scene scene = scene_of(lab, ALGORITHM_TOKEN_BUCKET);
    char key[LAB_KEY_LEN];
    split_and_count(lab, &scene, KEYS);
    assert_true(lab_stats(lab, scene.successor).guarded < KEYS);
    heal(lab);
    lab_run(lab, 50 * LAB_MS);
    lab_settle(lab);
    lab_until(lab, no_lineage, NULL, HEAL_MS * LAB_MS);
    uint32_t sums = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        lab_key(lab, scene.vnode, i, key);
        const uint64_t used = lab_used(lab, scene.owner, key, &scene.limit);
        assert_true(used == 37 || used == 30);
        sums += used == 37;
    }
    assert_in_range(sums, 500, KEYS - 500);
    assert_true(lab_stats(lab, scene.successor).merge_fallbacks >= KEYS - sums);
}

struct sendings {
    uint32_t owner;
    uint32_t vnode;
    uint32_t sync; /* of the newest one */
    uint32_t count;
};

/* Counts the sendings of the owner's branch; true when it is merged. */
static bool count_sendings(struct lab *lab, void *context)
{
    struct sendings *sendings = context;
    const struct vnode *vnode = &lab->shards[sendings->owner].shard->vnodes[sendings->vnode];
    if (vnode->merge.begun && vnode->links[0].sync != sendings->sync) {
        sendings->sync = vnode->links[0].sync;
        sendings->count++;
    }
    return sendings->count > 0 && no_lineage(lab, NULL);
}

/* The same with keys that the successor has on disk alone: what finds no room makes nothing of the
 * rest of a sending void, so that few sendings are enough, however long one takes; and what is told
 * twice is not counted twice, though it could not be remembered the first time. */
static void spilled_keys_beyond_the_side_tables_room_take_few_sendings(void **state)
{
    enum { KEYS = 3000, SENDINGS_MAX = 3 };
    struct lab *lab = *state;
    const struct scene scene = scene_of(lab, ALGORITHM_TOKEN_BUCKET);
    char key[LAB_KEY_LEN];
    split_and_count(lab, &scene, KEYS);
    lab_run(lab, 100 * LAB_MS);
    for (uint32_t i = 0; i < KEYS; i++) {
        lab_key(lab, scene.vnode, i, key);
        spill(lab, scene.successor, key, &scene.limit);
    }
    struct sendings sendings = {.owner = scene.owner, .vnode = scene.vnode};
    heal(lab);
    lab_until(lab, count_sendings, &sendings, HEAL_MS * LAB_MS);
    assert_in_range(sendings.count, 1, SENDINGS_MAX);
    lab_settle(lab);
    for (uint32_t i = 0; i < KEYS; i++) {
        lab_key(lab, scene.vnode, i, key);
        const uint64_t used = lab_used(lab, scene.owner, key, &scene.limit);
        assert_true(used == 37 || used == 30);
    }
}

/* ---- any history ----------------------------------------------------------------------------- */

enum { RANDOM_KEYS = 4, RANDOM_STEPS = 30 };

/* Where a check sent to `at` is decided, it is admitted: nothing is near its limit. */
static void random_take(struct lab *lab, struct random *random, const struct limit *limit,
                        uint64_t used[RANDOM_KEYS])
{
    const uint32_t number = (uint32_t)random_below(random, RANDOM_KEYS);
    const uint32_t at = (uint32_t)random_below(random, lab->count);
    const uint64_t cost = 1 + random_below(random, 3);
    char key[LAB_KEY_LEN];
    lab_key(lab, number, number, key);
    lab_ask(lab, limit, key, OPERATION_CHECK, cost);
    const struct wire_decision decision = lab_answer(lab, lab_send(lab, at, 5000), 0);
    assert_int_equal(decision.outcome, OUTCOME_ALLOW);
    if (decision.allowed)
        used[number] += cost;
}

static void random_split(struct lab *lab, struct random *random)
{
    char sides[LAB_SHARDS_MAX + 1] = "aaaaaa";
    for (uint32_t at = 0; at < lab->count; at++)
        sides[at] = (char)('a' + random_below(random, 3));
    split(lab, sides);
}

/* Splits of any shape, one after the other, healed or not: in the end the sum, on every replica. */
static void any_history_of_splits_ends_with_the_sum(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= EFFORT(12); seed++) {
        struct lab *lab = lab_new(3, 1, 3);
        const struct limit limit = limit_of(algorithms[seed % sizeof algorithms]);
        struct random random;
        uint64_t used[RANDOM_KEYS] = {0};
        random_init(&random, seed);
        disks_init(lab);
        lab_start_all(lab);
        for (uint32_t step = 0; step < RANDOM_STEPS; step++) {
            if (random_below(&random, 4) == 0) {
                lab_run(lab, 50 * LAB_MS); /* what is on its way arrives, so that all is counted */
                random_split(lab, &random);
                lab_run(lab, (int64_t)random_below(&random, 600) * LAB_MS);
            }
            random_take(lab, &random, &limit, used);
        }
        print_message("seed %u\n", (unsigned)seed);
        for (uint32_t number = 0; number < RANDOM_KEYS; number++) {
            char key[LAB_KEY_LEN];
            lab_key(lab, number, number, key);
            heal_and_expect(lab, key, &limit, used[number]);
        }
        disks_fini(lab);
        lab_free(lab);
    }
}

#define MERGE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MERGE_TEST(a_split_in_two_ends_with_the_sum),
        MERGE_TEST(a_split_in_three_ends_with_the_sum),
        MERGE_TEST(branches_of_many_vnodes_in_one_frame_are_told_apart),
        LAB_TEST_THREE(a_crashed_deciders_last_counts_return_with_it),
        LAB_TEST_THREE(a_branch_survives_a_crash_while_it_is_handed_over),
        MERGE_TEST(the_sum_is_right_though_the_one_that_took_over_is_gone),
        MERGE_TEST(a_deposed_decider_yields_to_the_line_that_went_on),
        LAB_TEST_THREE(without_a_memory_of_the_cut_no_side_is_forgotten),
        MERGE_TEST(a_pass_right_after_a_take_over_takes_the_memory_along),
        MERGE_TEST(what_the_living_side_counted_outlives_an_heir_that_dies),
        MERGE_TEST(keys_that_were_spilled_are_merged),
        MERGE_TEST(a_slot_that_cannot_be_read_holds_no_merge_up),
        MERGE_TEST(a_lost_record_of_a_hand_over_is_told_again),
        MERGE_TEST(a_split_that_heals_one_way_first_ends_with_the_sum),
        MERGE_TEST(beyond_the_side_tables_room_no_side_is_forgotten),
        MERGE_TEST(spilled_keys_beyond_the_side_tables_room_take_few_sendings),
        cmocka_unit_test(any_history_of_splits_ends_with_the_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
