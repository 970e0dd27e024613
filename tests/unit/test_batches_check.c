/* test_batches_check.c - batches with one wrong field are seen by their checks, which name the
 * invariant that is broken. A gate for Redis clients fills them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/resp_gate_state.h"
#include "tests/unit/support_death.h"

enum { TOKEN = 5 };

static struct resp_gate *gate;
static struct gateway_stats stats;
static struct resp_peer peer;
static struct batches *batches;
static struct batch *submitted;
static char out[GATEWAY_OUT_LEN];

static void say(const char *text)
{
    size_t used;
    assert_int_equal(resp_gate_take(gate, &peer, TOKEN, text, strlen(text), &used),
                     GATEWAY_NEED_BYTES);
}

static void check(void *context)
{
    (void)context;
    batches_check_peer(resp_gate_batches(gate), &peer.base, TOKEN);
    batches_check_invariants(resp_gate_batches(gate));
}

/* A peer waits for two checks in a batch that was submitted; another batch is open, with a check of
 * somebody who is gone. */
static void whole(void)
{
    static const struct resp_facts facts = {
        .anonymous = ACCESS_ANONYMOUS, .name = "n", .version = "v", .connections_max = 1};
    const uint8_t *frame;
    assert_int_equal(resp_gate_new(alloc_heap(), 7, &facts, &stats, &gate), 0);
    for (int i = 0; i < 2; i++) {
        memset(&peer, 0, sizeof peer);
        resp_peer_init(&peer);
        peer.base.out.data = out;
        peer.base.out.capacity = sizeof out;
        say("CL.THROTTLE a 15 30 60 1\r\nTG.CHECK api /x\r\n");
        if (i == 0)
            assert_true(batches_submit(resp_gate_batches(gate), &frame) > 0);
    }
    batches = gate->batches;
    submitted = &batches->batches[0];
    memset(&peer, 0, sizeof peer);
    resp_peer_init(&peer);
    peer.base.out.data = out;
    peer.base.out.capacity = sizeof out;
    peer.base.batch = submitted->seq;
    peer.base.waiting = 2;
    peer.base.reserved = RESP_THROTTLE_MAX + RESP_CHECK_MAX;
    check(NULL);
}

static struct batch_call *call_of_submitted(uint32_t i)
{
    return &((struct item *)(void *)batches->calls)[i].call;
}

static void assert_broken(void (*corrupt)(void), const char *id)
{
    char text[256];

    whole();
    corrupt();
    assert_true(death_by_assert(check, NULL, text, sizeof text));
    assert_non_null(strstr(text, id));
    resp_gate_free(&gate);
}

CORRUPTION(a_client_that_waits_for_no_batch_is_seen, "BATCHES-1", peer.base.batch++)
CORRUPTION(a_client_that_waits_for_more_than_was_taken_is_seen, "BATCHES-1", peer.base.waiting++)
CORRUPTION(an_answer_without_room_is_seen, "BATCHES-2", peer.base.reserved--)
CORRUPTION(replies_in_the_room_of_others_are_seen, "BATCHES-2",
           peer.base.out.len = peer.base.out.capacity - 1)
CORRUPTION(a_batch_that_was_answered_and_is_kept_is_seen, "BATCHES-3",
           call_of_submitted(0)->token = 0;
           call_of_submitted(0)->answered = call_of_submitted(1)->answered = true;
           peer.base.waiting = 0; peer.base.reserved = 0)
CORRUPTION(a_batch_in_another_place_is_seen, "BATCHES-5", batches->batches[1].seq++)
CORRUPTION(a_batch_that_is_free_and_open_is_seen, "BATCHES-5", batches->open = 9)
CORRUPTION(a_batch_that_is_waited_for_and_not_counted_is_seen, "BATCHES-5", batches->waiting--)
CORRUPTION(free_batches_that_are_lost_are_seen, "BATCHES-5",
           batches->first_free = batches->batches[batches->first_free].next_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_waits_for_no_batch_is_seen),
        cmocka_unit_test(a_client_that_waits_for_more_than_was_taken_is_seen),
        cmocka_unit_test(an_answer_without_room_is_seen),
        cmocka_unit_test(replies_in_the_room_of_others_are_seen),
        cmocka_unit_test(a_batch_that_was_answered_and_is_kept_is_seen),
        cmocka_unit_test(a_batch_in_another_place_is_seen),
        cmocka_unit_test(a_batch_that_is_free_and_open_is_seen),
        cmocka_unit_test(a_batch_that_is_waited_for_and_not_counted_is_seen),
        cmocka_unit_test(free_batches_that_are_lost_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
