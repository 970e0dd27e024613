/* test_resolve.c - what finding the rules of a message may cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_shard.h"

/* Asks `items` times for what 5,000 patterns are compared with, none of which holds. */
static void ask_much(struct lab *lab, uint32_t items)
{
    char value[5 + 1000 + 1] = "user=";
    const char *const attributes[] = {value, NULL};
    memset(value + 5, 'a', 1000);
    for (uint32_t i = 0; i < items; i++)
        lab_ask_attributes(lab, 1, attributes);
}

/* A message that would hold up the node is decided so far; the items left are busy, with the
 * reason, and counted. Nothing of them is charged; and repeated, it is told what it was told. */
static void items_beyond_the_work_of_a_message_are_busy_and_charge_nothing(void **state)
{
    enum { ITEMS = 300, PATTERNS = 5000, ROOM = PATTERNS * 192 };
    static char text[ROOM];
    char as[101] = "";
    struct lab *lab = *state;
    uint32_t decided = 0;
    size_t len = (size_t)snprintf(text, ROOM,
                                  "rules:\n- {name: all, key: [user], limits: "
                                  "[{rate: 1000/h}]}\n");
    memset(as, 'a', 100);
    for (int i = 0; i < PATTERNS; i++)
        len +=
            (size_t)snprintf(text + len, ROOM - len,
                             "- {name: r%d, match: {user: '*%sb%d*'}, action: block}\n", i, as, i);
    lab_rules(lab, text);
    ask_much(lab, ITEMS);
    const uint64_t seq = lab_send(lab, 0, 5000);
    while (decided < ITEMS && lab_answer(lab, seq, decided).allowed)
        decided++;
    assert_in_range(decided, 150, 250);
    for (uint32_t i = decided; i < ITEMS; i++) {
        const struct wire_decision decision = lab_answer(lab, seq, i);
        assert_int_equal(decision.outcome, OUTCOME_BUSY);
        assert_int_equal(decision.source->status, 503);
        assert_true(
            lab_text_is(decision.source->message,
                        "looking for the rules of this message's items takes too long; expected "
                        "fewer items, or rules of which few match so much alike"));
        assert_int_equal(decision.retry_after_ms, 1000);
    }
    assert_int_equal(lab_stats(lab, 0).busy, ITEMS - decided);
    lab_forget(lab);
    ask_much(lab, ITEMS);
    lab_send_again(lab, 0, seq, 5000);
    for (uint32_t i = 0; i < ITEMS; i++)
        assert_int_equal(lab_answer(lab, seq, i).outcome,
                         i < decided ? OUTCOME_ALLOW : OUTCOME_BUSY);
    ask_much(lab, 1);
    assert_int_equal(lab_answer(lab, lab_send(lab, 0, 5000), 0).used, decided + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_ONE(items_beyond_the_work_of_a_message_are_busy_and_charge_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
