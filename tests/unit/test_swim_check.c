/* test_swim_check.c - a membership with one wrong field is seen by swim_check_invariants, which
 * names the invariant that is broken. */
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gossip/swim.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_record.h"
#include "gossip/swim_table.h"
#include "tests/unit/support_death.h"

enum { MEMBERS = 4, SUSPECT = 2 };

static struct swim *swim; /* of the test at hand */
static struct swim_effects out;

static struct swim_record record_of(uint64_t id)
{
    struct swim_record record = {.id = id, .incarnation = 1, .version = 1, .shards = 1};
    (void)snprintf(record.name, sizeof record.name, "n%d", (int)id);
    (void)snprintf(record.gossip, sizeof record.gossip, "127.0.0.1:%d", (int)id);
    return record;
}

/* This node, 1, and three others: 2 is suspect, 3 and 4 live, and 3 is in the ring with this one.
 */
static void whole(void)
{
    static const uint8_t cluster[SWIM_CLUSTER_ID_LEN] = {7};
    static const uint64_t ring[] = {1, 3};
    const struct swim_record self = record_of(1);
    struct swim_options options;
    swim_options_default(&options);
    assert_int_equal(swim_new(&swim, alloc_heap(), &options, &self, cluster, 5), 0);
    swim_effects_clear(&out);
    swim_tick(swim, 1000000000, &out);
    swim->out = &out;
    for (uint64_t id = 2; id <= MEMBERS; id++) {
        struct swim_item item = {.id = id,
                                 .incarnation = 1,
                                 .state = id == SUSPECT ? SWIM_SUSPECT : SWIM_ALIVE,
                                 .accusers = {3},
                                 .accusers_count = id == SUSPECT ? 1 : 0,
                                 .has_record = true,
                                 .record = record_of(id)};
        assert_null(swim_apply(swim, &item, false, 3));
    }
    swim_events_flush(swim);
    swim->out = NULL;
    swim_ring(swim, ring, 2);
    swim_check_invariants(swim);
}

static void check(void *checked)
{
    swim_check_invariants(checked);
}

static void assert_broken(void (*corrupt)(void), const char *id)
{
    char message[256];
    whole();
    corrupt();
    assert_true(death_by_assert(check, swim, message, sizeof message));
    assert_non_null(strstr(message, id));
    swim_free(&swim);
}

CORRUPTION(a_node_that_suspects_itself_is_seen, "GOSSIP-1",
           swim->slots[SWIM_SELF].member.state = SWIM_SUSPECT)
CORRUPTION(a_living_member_above_its_record_is_seen, "GOSSIP-2",
           swim->slots[2].member.incarnation++)
CORRUPTION(a_suspect_without_an_accuser_is_seen, "GOSSIP-3", swim->slots[1].accusers_count = 0)
CORRUPTION(a_suspect_without_a_deadline_is_seen, "GOSSIP-3", swim->slots[1].deadline_ns = 0)
CORRUPTION(a_member_that_is_probed_twice_a_round_is_seen, "GOSSIP-4",
           swim->order[0] = swim->order[1])
CORRUPTION(a_rumour_that_is_in_no_queue_is_seen, "GOSSIP-4", swim->rumours_len--)
CORRUPTION(a_region_that_counts_wrong_is_seen, "GOSSIP-5",
           swim->regions[SWIM_HOME].members[SWIM_ALIVE]++)
CORRUPTION(a_member_that_the_index_lost_is_seen, "GOSSIP-6",
           memset(swim->index, 0, swim->index_len * sizeof *swim->index))
CORRUPTION(an_event_that_nobody_counts_is_seen, "GOSSIP-7", swim->slots[3].events = 1)
CORRUPTION(a_health_above_its_bound_is_seen, "GOSSIP-8",
           swim->health = swim->options.health_max + 1)
CORRUPTION(effects_that_were_not_given_back_are_seen, "GOSSIP-9", swim->out = &out)
CORRUPTION(two_probes_of_one_member_are_seen, "PROBE-1",
           swim->probe.probes[0] = (struct swim_probe){.used = true, .id = 3};
           swim->probe.probes[5] = swim->probe.probes[0])
CORRUPTION(more_nacks_than_helpers_are_seen, "PROBE-5",
           swim->probe.probes[0] = (struct swim_probe){.used = true, .id = 3, .nacks = 1})
CORRUPTION(a_stranger_that_passes_for_one_of_the_ring_is_seen, "STRANGER-3",
           swim->slots[3].in_ring = true)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_suspects_itself_is_seen),
        cmocka_unit_test(a_living_member_above_its_record_is_seen),
        cmocka_unit_test(a_suspect_without_an_accuser_is_seen),
        cmocka_unit_test(a_suspect_without_a_deadline_is_seen),
        cmocka_unit_test(a_member_that_is_probed_twice_a_round_is_seen),
        cmocka_unit_test(a_rumour_that_is_in_no_queue_is_seen),
        cmocka_unit_test(a_region_that_counts_wrong_is_seen),
        cmocka_unit_test(a_member_that_the_index_lost_is_seen),
        cmocka_unit_test(an_event_that_nobody_counts_is_seen),
        cmocka_unit_test(a_health_above_its_bound_is_seen),
        cmocka_unit_test(effects_that_were_not_given_back_are_seen),
        cmocka_unit_test(two_probes_of_one_member_are_seen),
        cmocka_unit_test(more_nacks_than_helpers_are_seen),
        cmocka_unit_test(a_stranger_that_passes_for_one_of_the_ring_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
