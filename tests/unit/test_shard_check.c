/* test_shard_check.c - a shard with one wrong field is seen by shard_check_invariants, which names
 * the invariant that is broken.
 *
 * Three shards serve all vnodes. One check waits for the journals of a quorum, one for the leader
 * of its key, which hears nobody. Each corruption is made, and looked at, in a process of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/partition/majority.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"
#include "tests/unit/support_death.h"
#include "tests/unit/support_shard.h"

enum { NODES = 3 };

static const char KEY[] = "counted";

static const char RULES[] =
    "rules:\n"
    "  - {name: kept, match: {api: /kept}, key: [user], consistency: quorum,"
    " limits: [{rate: 10/d, algorithm: fixed_window}]}\n";

struct world {
    struct lab *lab;
    struct shard *leader;   /* of the vnode of KEY */
    struct shard *asked;    /* where the check of KEY waits */
    struct shard *deciding; /* where the decision of a quorum waits */
    struct vnode *vnode;    /* at its leader */
    struct vnode *quorum;
};

static struct world world;

static void find_commit(void)
{
    for (uint32_t at = 0; at < NODES; at++) {
        struct shard *shard = world.lab->shards[at].shard;
        for (uint32_t number = LAB_VNODES; number < shard->vnode_end; number++)
            if (quorum_of(shard, number)->first_pending != POOL_NONE) {
                world.deciding = shard;
                world.quorum = &shard->vnodes[number];
            }
    }
    assert_non_null(world.deciding);
}

static int set_up(void **state)
{
    static const char *const kept[] = {"api=/kept", "user=ada", NULL};
    const struct limit limit = lab_limit(100);
    struct lab *lab = world.lab = lab_new(NODES, 1, NODES);

    (void)state;
    lab_start_all(lab);
    lab_rules(lab, RULES);
    lab_run(lab, 3000 * LAB_MS);
    const uint32_t number = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_leader(lab, number);
    const uint32_t asked = (leader + 1) % NODES;
    world.leader = lab->shards[leader].shard;
    world.asked = lab->shards[asked].shard;
    world.vnode = &world.leader->vnodes[number];
    assert_true(lab_check(lab, leader, KEY, &limit, 1).allowed);
    for (uint32_t at = 0; at < NODES; at++)
        lab->shards[at].journal_ns = -1;
    lab_ask_attributes(lab, 1, kept);
    (void)lab_send(lab, asked, 5000);
    lab_run(lab, 5 * LAB_MS);
    find_commit();
    lab->cut[asked][leader] = true;
    lab_ask(lab, &limit, KEY, OPERATION_CHECK, 1);
    (void)lab_send(lab, asked, 5000);
    assert_true(world.asked->active_count > 0);
    for (uint32_t at = 0; at < NODES; at++)
        shard_check_invariants(lab->shards[at].shard);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lab_free(world.lab);
    return 0;
}

static void corrupt_and_check(void *corrupt)
{
    (*(void (**)(void))corrupt)();
    for (uint32_t at = 0; at < NODES; at++)
        shard_check_invariants(world.lab->shards[at].shard);
}

static void assert_broken(void (*corrupt)(void), const char *id)
{
    char message[256] = "";
    assert_true(death_by_assert(corrupt_and_check, &corrupt, message, sizeof message));
    if (strstr(message, id) == NULL)
        fail_msg("not %s, but %s", id, message);
}

/* The check that waits at the shard that was asked, and its request. */
static struct pending_check *waiting(void)
{
    for (uint32_t at = 0; at < world.asked->active_count; at++) {
        struct pending_check *check = pending_at(world.asked, world.asked->active[at]);
        if (check->status == PENDING_WAITING)
            return check;
    }
    fail();
    return NULL;
}

static struct request *request(void)
{
    return pool_at(&world.asked->requests, waiting()->request);
}

static struct quorum *quorum(void)
{
    return quorum_of(world.deciding, (uint32_t)(world.quorum - world.deciding->vnodes));
}

static struct channel *channel(void)
{
    return &world.leader->peers[0]->channels[CHANNEL_LIVE];
}

static struct lease_cache *cache(void)
{
    return &world.leader->lessee.list[0];
}

/* Another vnode of the leader's than the one of KEY. */
static struct vnode *other(void)
{
    return world.vnode > world.leader->vnodes ? world.vnode - 1 : world.vnode + 1;
}

/* What the shard that was asked has of the vnode of KEY, of which it is a replica. */
static struct vnode *followed(void)
{
    return &world.asked->vnodes[world.vnode - world.leader->vnodes];
}

static void mix_up(struct peer **a, struct peer **b)
{
    struct peer *peer = *a;
    *a = *b;
    *b = peer;
}

static void list_twice(struct vnode_list *list, uint32_t number)
{
    list->count = 2;
    list->list[0] = list->list[1] = number;
}

static void add_load(struct shard *shard)
{
    shard->loads.list[shard->loads.count++] = (struct load){.first_pending = POOL_NONE};
}

static void remember(struct retry_memory *memory, uint32_t index, uint64_t tag)
{
    memory->entries[index].tag = tag;
}

/* ---- peer ------------------------------------------------------------------------------------ */

CORRUPTION(peers_whose_places_were_mixed_up_are_seen, "PEERS-13",
           mix_up(&world.leader->peers[0], &world.leader->peers[1]))
CORRUPTION(a_peer_that_is_in_no_index_is_seen, "PEERS-13", world.leader->peer_count--)
CORRUPTION(an_echo_of_a_time_to_come_is_seen, "PEERS-15",
           world.leader->peers[0]->echo_ns = world.leader->now_ns + 1)
CORRUPTION(a_pass_over_no_vnode_is_seen, "PEERS-16", world.leader->peers[0]->pass.running = true)
CORRUPTION(an_acknowledged_frame_that_was_never_begun_is_seen, "CHANNEL-2",
           channel()->out_acked = channel()->out_seq + 1)
CORRUPTION(more_frames_in_flight_than_are_allowed_are_seen, "CHANNEL-1",
           channel()->out_seq = channel()->out_acked + CHANNEL_FRAMES_MAX + 1)
CORRUPTION(bytes_in_flight_of_no_frame_are_seen, "CHANNEL-3", channel()->out_bytes += 100)

/* ---- partition ------------------------------------------------------------------------------- */

CORRUPTION(a_vnode_that_is_twice_in_the_active_set_is_seen, "PARTITION-1",
           list_twice(&world.leader->active_vnodes, 0))
CORRUPTION(a_vnode_that_owes_a_mark_in_no_list_is_seen, "PARTITION-1",
           world.vnode->watermark_listed = !world.vnode->watermark_listed)
CORRUPTION(a_role_that_counts_wrong_is_seen, "PARTITION-2", world.leader->roles[ROLE_LEADING]--)
CORRUPTION(a_replica_set_with_one_node_twice_is_seen, "PARTITION-3",
           world.vnode->ids[0] = world.vnode->ids[1])
CORRUPTION(a_wrong_rank_is_seen, "PARTITION-3", world.vnode->rank++)
CORRUPTION(a_link_to_a_node_outside_of_the_set_is_seen, "PARTITION-4",
           world.vnode->links[0].node = 99)
CORRUPTION(a_link_to_the_peer_of_another_node_is_seen, "PARTITION-5",
           world.vnode->links[0].peer = world.vnode->links[1].peer)
CORRUPTION(a_mark_that_is_due_to_no_link_is_seen, "PARTITION-6", world.vnode->equal = 0x80)
CORRUPTION(a_leader_that_follows_somebody_is_seen, "PARTITION-7", world.vnode->hint = 0)
CORRUPTION(a_leader_of_a_term_of_another_writer_is_seen, "SHARD-2", world.vnode->term.writer++)
CORRUPTION(a_state_above_the_term_is_seen, "SHARD-4", followed()->state.epoch++)

/* ---- pending, request ------------------------------------------------------------------------ */

CORRUPTION(a_check_that_is_in_no_place_is_seen, "SHARD-3", world.asked->active_count--)
CORRUPTION(a_check_that_names_another_place_is_seen, "PENDINGCHECK-1", waiting()->active_at++)
CORRUPTION(a_check_that_waits_for_no_load_is_seen, "PENDINGCHECK-3",
           waiting()->status = PENDING_LOADING)
CORRUPTION(a_slot_that_is_loaded_twice_is_seen, "PENDINGCHECK-4", add_load(world.asked);
           add_load(world.asked))
CORRUPTION(a_check_of_a_client_that_is_an_undo_is_seen, "PENDINGCHECK-5", waiting()->undo = true)
CORRUPTION(a_check_that_waits_for_no_peer_is_seen, "PENDINGCHECK-6", waiting()->peer = PEER_NONE)
CORRUPTION(a_request_that_waits_for_more_than_there_is_is_seen, "REQUESTS-7", request()->pending++)
CORRUPTION(a_request_with_a_block_too_many_is_seen, "REQUESTS-9",
           request()->count = SHARD_ROW_BLOCK + 1;
           request()->blocks[1] = request()->blocks[0])
CORRUPTION(a_policy_that_nobody_counts_is_seen, "REQUESTS-10",
           world.asked->policies[world.asked->policy].references = 7)
CORRUPTION(a_message_that_was_left_at_hand_is_seen, "REQUESTS-11", world.asked->message.request = 0)
CORRUPTION(bytes_of_no_unfinished_message_are_seen, "UNFINISHED-5",
           world.asked->unfinished.bytes = 1)

/* ---- lease ----------------------------------------------------------------------------------- */

CORRUPTION(an_answer_that_waits_for_replicas_of_no_check_is_seen, "LESSOR-7",
           world.leader->lessor.count = 1)
CORRUPTION(a_lease_that_was_used_beyond_what_it_gave_is_seen, "LESSEE-1", cache()->known = true;
           cache()->used = 1)
CORRUPTION(a_busy_lease_of_no_key_is_seen, "LESSEE-12", cache()->lease = 5)
CORRUPTION(a_claimed_key_that_is_not_counted_is_seen, "ALLOCATION-7",
           world.leader->allocation.busy = 1)

/* ---- quorum ---------------------------------------------------------------------------------- */

CORRUPTION(a_decision_that_is_committed_and_waits_is_seen, "QUORUM-3",
           quorum()->committed_seq += 1000)
CORRUPTION(a_list_of_decisions_with_a_lost_end_is_seen, "QUORUM-12",
           quorum()->last_part = POOL_NONE)
CORRUPTION(a_decision_that_is_not_counted_is_seen, "QUORUM-12",
           world.deciding->quorum.uncommitted--)
CORRUPTION(a_sealed_vnode_that_counts_as_settled_is_seen, "BALLOT-6", quorum()->sealed = true)
CORRUPTION(a_promise_above_what_is_known_is_seen, "BALLOT-1", quorum()->promised.epoch += 7)
CORRUPTION(a_leader_that_campaigns_is_seen, "BALLOT-7",
           quorum()->campaigning = quorum()->moving = true)
CORRUPTION(a_replica_that_holds_more_than_was_decided_is_seen, "QUORUM-4",
           world.quorum->links[0].durable_seq += 1000)
CORRUPTION(a_header_that_is_due_in_no_list_is_seen, "JOURNAL-6", quorum()->header_due = true;
           quorum()->listed = false)
CORRUPTION(slots_of_a_journal_batch_that_is_not_out_are_seen, "JOURNAL-1",
           world.leader->journaling.out = false;
           world.leader->journaling.slot_count = 1)

/* ---- replication, reconcile ------------------------------------------------------------------ */

CORRUPTION(a_replica_that_confirmed_while_it_copies_is_seen, "STREAM-9",
           world.vnode->links[0].confirmed = true;
           world.vnode->links[0].phase = LINK_COPYING)
CORRUPTION(a_mark_of_what_was_never_done_is_seen, "STREAM-12",
           world.vnode->links[0].watermark_seq += 1000)
CORRUPTION(a_replica_that_holds_more_than_was_granted_is_seen, "EXPOSURE-1",
           world.vnode->links[0].granted.held = world.vnode->granted + 1)
CORRUPTION(a_sample_of_a_vnode_that_has_none_is_seen, "EXPOSURE-5", other()->sampled = true)
CORRUPTION(cold_keys_that_were_asked_for_before_they_were_listed_are_seen, "COLDKEYS-5",
           world.leader->cold_keys.next = world.leader->cold_keys.count + 1)
CORRUPTION(a_first_answer_of_a_time_to_come_is_seen, "FIRSTS-6",
           world.leader->firsts.own[0] = world.leader->firsts.end)
CORRUPTION(a_guarded_vnode_that_is_not_counted_is_seen, "MERGE-9", world.leader->merge.guarded++)
CORRUPTION(a_branch_that_goes_to_nobody_is_seen, "MERGE-9", world.vnode->merge.begun = true)
CORRUPTION(a_merge_base_that_is_in_no_list_is_seen, "MERGEBASE-1",
           world.leader->merge.bases.entries++)

/* ---- write-back, dedup, region, pools ---------------------------------------------------------
 */

CORRUPTION(a_batch_of_more_than_the_stage_has_is_seen, "WRITEBACK-5",
           world.leader->writeback.gathered = 1)
CORRUPTION(a_claim_that_is_out_and_did_not_fall_is_seen, "WRITEBACK-3",
           world.vnode->claim_out = true)
CORRUPTION(slots_that_were_dealt_before_they_came_are_seen, "SORTBUFFER-1",
           world.leader->writeback.sort_buffer.dealt = world.leader->writeback.sort_buffer.max + 1)
CORRUPTION(a_rebuild_of_the_filters_of_another_plane_is_seen, "REBUILD-4",
           world.leader->filter_rebuild.listing = true;
           world.leader->filter_rebuild.vnode = LAB_VNODES)
CORRUPTION(a_first_answer_in_the_set_of_another_is_seen, "RETRY-4", world.leader->ticks = 0;
           remember(&world.leader->retries, 0, 1))
CORRUPTION(a_reservation_in_the_chain_of_another_vnode_is_seen, "RESERVE-7",
           world.leader->reserves.heads[3] = 0)
CORRUPTION(a_region_that_is_no_member_s_is_seen, "REMOTE-8", world.leader->remote.regions[0].id++)
CORRUPTION(a_vnode_without_a_home_is_seen, "REMOTE-5", world.leader->remote.homes[2] = 0)
CORRUPTION(a_pool_that_is_owned_twice_is_seen, "POOLS-11",
           world.leader->pools.owned[0].id = world.leader->pools.owned[1].id = 4)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_whose_places_were_mixed_up_are_seen),
        cmocka_unit_test(a_peer_that_is_in_no_index_is_seen),
        cmocka_unit_test(an_echo_of_a_time_to_come_is_seen),
        cmocka_unit_test(a_pass_over_no_vnode_is_seen),
        cmocka_unit_test(an_acknowledged_frame_that_was_never_begun_is_seen),
        cmocka_unit_test(more_frames_in_flight_than_are_allowed_are_seen),
        cmocka_unit_test(bytes_in_flight_of_no_frame_are_seen),
        cmocka_unit_test(a_vnode_that_is_twice_in_the_active_set_is_seen),
        cmocka_unit_test(a_vnode_that_owes_a_mark_in_no_list_is_seen),
        cmocka_unit_test(a_role_that_counts_wrong_is_seen),
        cmocka_unit_test(a_replica_set_with_one_node_twice_is_seen),
        cmocka_unit_test(a_wrong_rank_is_seen),
        cmocka_unit_test(a_link_to_a_node_outside_of_the_set_is_seen),
        cmocka_unit_test(a_link_to_the_peer_of_another_node_is_seen),
        cmocka_unit_test(a_mark_that_is_due_to_no_link_is_seen),
        cmocka_unit_test(a_leader_that_follows_somebody_is_seen),
        cmocka_unit_test(a_leader_of_a_term_of_another_writer_is_seen),
        cmocka_unit_test(a_state_above_the_term_is_seen),
        cmocka_unit_test(a_check_that_is_in_no_place_is_seen),
        cmocka_unit_test(a_check_that_names_another_place_is_seen),
        cmocka_unit_test(a_check_that_waits_for_no_load_is_seen),
        cmocka_unit_test(a_slot_that_is_loaded_twice_is_seen),
        cmocka_unit_test(a_check_of_a_client_that_is_an_undo_is_seen),
        cmocka_unit_test(a_check_that_waits_for_no_peer_is_seen),
        cmocka_unit_test(a_request_that_waits_for_more_than_there_is_is_seen),
        cmocka_unit_test(a_request_with_a_block_too_many_is_seen),
        cmocka_unit_test(a_policy_that_nobody_counts_is_seen),
        cmocka_unit_test(a_message_that_was_left_at_hand_is_seen),
        cmocka_unit_test(bytes_of_no_unfinished_message_are_seen),
        cmocka_unit_test(an_answer_that_waits_for_replicas_of_no_check_is_seen),
        cmocka_unit_test(a_lease_that_was_used_beyond_what_it_gave_is_seen),
        cmocka_unit_test(a_busy_lease_of_no_key_is_seen),
        cmocka_unit_test(a_claimed_key_that_is_not_counted_is_seen),
        cmocka_unit_test(a_decision_that_is_committed_and_waits_is_seen),
        cmocka_unit_test(a_list_of_decisions_with_a_lost_end_is_seen),
        cmocka_unit_test(a_decision_that_is_not_counted_is_seen),
        cmocka_unit_test(a_sealed_vnode_that_counts_as_settled_is_seen),
        cmocka_unit_test(a_promise_above_what_is_known_is_seen),
        cmocka_unit_test(a_leader_that_campaigns_is_seen),
        cmocka_unit_test(a_replica_that_holds_more_than_was_decided_is_seen),
        cmocka_unit_test(a_header_that_is_due_in_no_list_is_seen),
        cmocka_unit_test(slots_of_a_journal_batch_that_is_not_out_are_seen),
        cmocka_unit_test(a_replica_that_confirmed_while_it_copies_is_seen),
        cmocka_unit_test(a_mark_of_what_was_never_done_is_seen),
        cmocka_unit_test(a_replica_that_holds_more_than_was_granted_is_seen),
        cmocka_unit_test(a_sample_of_a_vnode_that_has_none_is_seen),
        cmocka_unit_test(cold_keys_that_were_asked_for_before_they_were_listed_are_seen),
        cmocka_unit_test(a_first_answer_of_a_time_to_come_is_seen),
        cmocka_unit_test(a_guarded_vnode_that_is_not_counted_is_seen),
        cmocka_unit_test(a_branch_that_goes_to_nobody_is_seen),
        cmocka_unit_test(a_merge_base_that_is_in_no_list_is_seen),
        cmocka_unit_test(a_batch_of_more_than_the_stage_has_is_seen),
        cmocka_unit_test(a_claim_that_is_out_and_did_not_fall_is_seen),
        cmocka_unit_test(slots_that_were_dealt_before_they_came_are_seen),
        cmocka_unit_test(a_rebuild_of_the_filters_of_another_plane_is_seen),
        cmocka_unit_test(a_first_answer_in_the_set_of_another_is_seen),
        cmocka_unit_test(a_reservation_in_the_chain_of_another_vnode_is_seen),
        cmocka_unit_test(a_region_that_is_no_member_s_is_seen),
        cmocka_unit_test(a_vnode_without_a_home_is_seen),
        cmocka_unit_test(a_pool_that_is_owned_twice_is_seen),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
