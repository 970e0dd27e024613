/* test_screen.c - what `tidegate status` shows, to the letter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/cli/status/screen_text.h"

enum { NODES_MAX = 64 };

static struct screen screen;
static struct screen_node nodes[NODES_MAX];
static const struct screen_options plain = {.width = SCREEN_WIDTH};

static void name_it(char *out, const char *text)
{
    (void)snprintf(out, SCREEN_NAME_LEN, "%s", text);
}

static struct screen_node *add_node(const char *region, const char *name)
{
    struct screen_node *node = &nodes[screen.node_count++];
    memset(node, 0, sizeof *node);
    name_it(node->name, name);
    name_it(node->region, region);
    (void)snprintf(node->state, sizeof node->state, "alive");
    (void)snprintf(node->ring, sizeof node->ring, "member");
    (void)snprintf(node->version, sizeof node->version, "0.1.0");
    node->voter = screen.node_count <= 3;
    node->told = true;
    node->skewed = true;
    node->uptime_ms = 9060000;
    node->checks_rate = 12031.2;
    node->denied_rate = 974.5;
    node->ack_p99_us = 910;
    node->slots = 31;
    node->slots_max = 100;
    node->memory_max = 256 << 20;
    node->flush_lag_ms = 400;
    node->decides = 4096 / 3 + 1;
    return node;
}

static struct screen_condition *add_condition(const char *code, const char *node, const char *says,
                                              const char *means, const char *advice)
{
    struct screen_condition *condition = &screen.conditions[screen.condition_count++];
    memset(condition, 0, sizeof *condition);
    condition->grave = true;
    name_it(condition->node, node);
    name_it(condition->region, "eu");
    (void)snprintf(condition->code, sizeof condition->code, "%s", code);
    (void)snprintf(condition->says, sizeof condition->says, "%s", says);
    (void)snprintf(condition->means, sizeof condition->means, "%s", means);
    (void)snprintf(condition->advice, sizeof condition->advice, "%s", advice);
    screen.healthy = false;
    return condition;
}

static void begin(void)
{
    memset(&screen, 0, sizeof screen);
    screen.nodes = nodes;
    screen.healthy = true;
    screen.stable = true;
    screen.rules_agree = true;
    name_it(screen.node, "n1");
    (void)snprintf(screen.cluster, sizeof screen.cluster, "f9d31111222233334444555566664bc0");
    (void)snprintf(screen.version, sizeof screen.version, "0.1.0");
    screen.epoch = 14;
    screen.vnodes = 4096;
    screen.replicas = 3;
    screen.rules_version = 6;
    screen.alive = 3;
}

static void trio(void)
{
    begin();
    (void)add_node("eu", "n1");
    add_node("eu", "n2")->skew_us = 2100;
    add_node("eu", "n3")->skew_us = -1500;
}

static uint32_t lines_of(const char *text, size_t width)
{
    uint32_t lines = 0;
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1, lines++)
        assert_true(cli_utf8_count(text, (size_t)(end - text)) <= width);
    assert_string_equal(text, "");
    return lines;
}

/* Returns how many lines there are, none of them too long, and without a control code. */
static uint32_t expect(const struct screen_options *options, const char *expected)
{
    struct cli_text text;
    cli_text_init(&text);
    screen_check_invariants(&screen);
    screen_write(&text, &screen, options);
    cli_text_check_invariants(&text);
    if (expected != NULL)
        assert_string_equal(text.data, expected);
    const uint32_t lines = lines_of(text.data, options->width);
    assert_null(strchr(text.data, '\033'));
    cli_text_fini(&text);
    return lines;
}

static void a_healthy_cluster_is_told_in_few_lines(void **state)
{
    (void)state;
    trio();
    screen.busiest[0] = (struct screen_rule){"search-per-user", 18200, 2002};
    screen.busiest[1] = (struct screen_rule){"allow-health", 3.25, 0};
    screen.busiest_count = 2;
    screen.changes[screen.change_count++] =
        (struct screen_change){"2025-11-26T20:25:36Z", "root@vm", "blocked user=mallory", "abuse"};
    assert_true(
        expect(&plain,
               "HEALTHY:  3 nodes, all answer, nothing to do\n"
               "cluster   f9d3..4bc0 as n1 sees it; ring 14 settled; rules version 6\n"
               "keys      every key is answered, and kept by 3 nodes\n"
               "\n"
               "NODE  STATE  UP     CHECKS/S  DENIED  ACK P99  MEMORY    DISK         CLOCK  NOTE\n"
               "n1    alive  2h31m    12,031    8.1%    0.9ms  31%/256M  0.4s behind  0ms\n"
               "n2    alive  2h31m    12,031    8.1%    0.9ms  31%/256M  0.4s behind  +2ms\n"
               "n3    alive  2h31m    12,031    8.1%    0.9ms  31%/256M  0.4s behind  -1ms\n"
               "\n"
               "busiest   search-per-user 18,200/s (11% denied), allow-health 3.2/s\n"
               "changed   2025-11-26 20:25:36 root@vm blocked user=mallory (abuse)\n"
               "more      --node NAME, --all, --watch, -o json; tidegate members, events\n") <= 15);
}

static void bad_day(void)
{
    trio();
    screen.alive = 2;
    struct screen_condition *dead =
        add_condition("not_alive", "n2", "n2 is not alive", "every key is answered by its replicas",
                      "start it, or `tidegate remove` it if it is gone");
    dead->for_ms = 192000;
    struct screen_condition *full =
        add_condition("disk_full", "n3", "n3 has no room on its disk, or has reached --store-max",
                      "keys that exist are counted; new ones are refused there",
                      "make room in its data directory, or raise --store-max");
    (void)snprintf(full->short_form, sizeof full->short_form, "disk full");
    struct screen_condition *clock =
        add_condition("clock_off", "n1", "n1 has a clock that differs from the cluster's",
                      "its windows would begin and end at other times",
                      "mend its time service (chronyc tracking)");
    (void)snprintf(clock->short_form, sizeof clock->short_form, "clock off");
    (void)snprintf(nodes[0].troubles, sizeof nodes[0].troubles, "clock_off");
    (void)snprintf(nodes[1].state, sizeof nodes[1].state, "dead");
    nodes[1].state_for_ms = 192000;
    nodes[1].told = false;
    (void)snprintf(nodes[2].troubles, sizeof nodes[2].troubles, "memory_full,disk_full");
    nodes[2].incomplete = 2047;
    nodes[2].over_tokens = 41;
    nodes[0].decides = 2049;
    nodes[2].decides = 2047;
}

static void ten_minutes_and_rules_near_their_limits_are_a_line_each(void **state)
{
    (void)state;
    trio();
    screen.history = (struct screen_history){.step_ms = 10000, .count = SCREEN_PERIODS_MAX};
    for (uint32_t i = 0; i < SCREEN_PERIODS_MAX; i++) {
        screen.history.allowed[i] = i / 8;
        screen.history.denied[i] = i / 8;
    }
    screen.pressed[screen.pressed_count++] = (struct screen_rule){"login", 31, 20};
    screen.pressed[screen.pressed_count++] = (struct screen_rule){"search", 2, 0};
    struct cli_text text;
    cli_text_init(&text);
    screen_write(&text, &screen, &plain);
    assert_non_null(strstr(text.data, "\n10 min    \u2581\u2581\u2581\u2581\u2582\u2582\u2582"
                                      "\u2582\u2583\u2583\u2583\u2583\u2584\u2584\u2584\u2584"
                                      "\u2585\u2585\u2585\u2585\u2586\u2586\u2586\u2586\u2587"
                                      "\u2587\u2587\u2587\u2588\u2588 14/s at most\n"
                                      "near      login 31/s (65% denied), search 2.0/s\n"));
    (void)lines_of(text.data, plain.width);
    cli_text_fini(&text);
    screen.history.count = 1; /* too short for a line of two periods a block */
    (void)expect(&plain, NULL);
}

static void events_say_what_began_what_is_over_and_what_was_told(void **state)
{
    char line[SCREEN_EVENT_LEN];
    struct screen_event event = {.kind = "begun", .says = "n2 is not alive"};
    (void)state;
    screen_event_say(&event, line);
    assert_string_equal(line, "begun: n2 is not alive");
    (void)snprintf(event.kind, sizeof event.kind, "over");
    event.lasted_ms = 192000;
    screen_event_say(&event, line);
    assert_string_equal(line, "over after 3m12s: n2 is not alive");
    (void)snprintf(event.kind, sizeof event.kind, "new");
    screen_event_say(&event, line);
    assert_string_equal(line, "n2 is not alive");
}

static void the_first_lines_of_a_bad_day_say_what_is_wrong(void **state)
{
    (void)state;
    bad_day();
    (void)expect(
        &plain,
        "DEGRADED: n2 is not alive, for 3m12s\n"
        "          n3 has no room on its disk, or has reached --store-max\n"
        "          n1 has a clock that differs from the cluster's\n"
        "means     n2: every key is answered by its replicas\n"
        "          n3: keys that exist are counted; new ones are refused there\n"
        "          n1: its windows would begin and end at other times\n"
        "do        n2: start it, or `tidegate remove` it if it is gone\n"
        "          n3: make room in its data directory, or raise --store-max\n"
        "          n1: mend its time service (chronyc tracking)\n"
        "cluster   f9d3..4bc0 as n1 sees it; ring 14 settled; rules version 6\n"
        "keys      every key is answered; 2,047 of 4,096 vnodes lack a copy; over-admission now <= "
        "41\n"
        "voters    2 of 3 answer: lose one more and nothing can be changed\n"
        "\n"
        "NODE  STATE  UP     CHECKS/S  DENIED  ACK P99  MEMORY    DISK         CLOCK  NOTE\n"
        "n1    alive  2h31m    12,031    8.1%    0.9ms  31%/256M  0.4s behind  0ms    clock off\n"
        "n2    DEAD   -             -       -        -  -         -            -      no answer "
        "for "
        "3m12s\n"
        "n3    alive  2h31m    12,031    8.1%    0.9ms  31%/256M  FULL         -1ms\n"
        "\n"
        "more      --node NAME, --all, --watch, -o json; tidegate members, events\n");
}

/* Of fifty the three that are ill have a line each; what is wrong with several is said once. */
static void of_fifty_nodes_those_that_are_well_are_summed_up(void **state)
{
    char name[SCREEN_NAME_LEN];
    char says[2 * SCREEN_NAME_LEN];
    struct screen_options all = plain;
    (void)state;
    begin();
    screen.alive = 50;
    for (int i = 1; i <= 50; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        add_node("eu", name)->decides = i == 1 ? 4096 - 49 * 81 : 81;
    }
    for (int i = 7; i <= 27; i += 10) {
        (void)snprintf(name, sizeof name, "n%d", i);
        (void)snprintf(says, sizeof says, "%s cannot write to its disk", name);
        (void)add_condition("disk_failing", name, says, "its replicas keep it", "look at its disk");
        (void)snprintf(nodes[i - 1].troubles, sizeof nodes[i - 1].troubles, "disk_failing");
    }
    assert_true(
        expect(&plain,
               "DEGRADED: n7 (and n17, n27) cannot write to its disk\n"
               "means     n7, n17, n27: its replicas keep it\n"
               "do        n7, n17, n27: look at its disk\n"
               "cluster   f9d3..4bc0 as n1 sees it; ring 14 settled; rules version 6\n"
               "keys      every key is answered, and kept by 3 nodes\n"
               "\n"
               "NODE       STATE  UP     CHECKS/S  DENIED  ACK P99  MEMORY    DISK         CLOCK  "
               "NOTE\n"
               "n7         alive  2h31m    12,031    8.1%    0.9ms  31%/256M  FAILING      0ms\n"
               "n17        alive  2h31m    12,031    8.1%    0.9ms  31%/256M  FAILING      0ms\n"
               "n27        alive  2h31m    12,031    8.1%    0.9ms  31%/256M  FAILING      0ms\n"
               "47 others  alive  2h31m   565,466    8.1%    0.9ms  31%/12G   0.4s behind  0ms\n"
               "\n"
               "more      --node NAME, --all, --watch, -o json; tidegate members, events\n") < 20);
    all.all_nodes = true;
    assert_true(expect(&all, NULL) > 50);
}

static void regions_are_told_apart(void **state)
{
    (void)state;
    begin();
    screen.alive = 4;
    screen.replicas = 2;
    (void)add_node("eu", "n1");
    (void)add_node("eu", "n2");
    nodes[0].decides = nodes[1].decides = 2048;
    screen.give = 1200;
    screen.left_ms = 80000;
    for (int i = 0; i < 2; i++) {
        struct screen_node *node = add_node("us", i == 0 ? "n1" : "n2");
        (void)snprintf(node->ring, sizeof node->ring, "abroad");
        node->voter = false;
        node->skew_us = 40000;
    }
    (void)expect(
        &plain,
        "HEALTHY:  4 nodes, all answer, nothing to do\n"
        "cluster   f9d3..4bc0 as n1 sees it; ring 14 settled; rules version 6\n"
        "keys      every key is answered, and kept by 2 nodes\n"
        "moving    n1 gives 1,200 vnodes and receives 0, done in 1m20s\n"
        "regions   eu 2 of 2 alive, us 2 of 2 alive\n"
        "\n"
        "REGION  NODE  STATE  UP     CHECKS/S  DENIED  ACK P99  MEMORY    DISK         CLOCK  "
        "NOTE\n"
        "eu      n1    alive  2h31m    12,031    8.1%    0.9ms  31%/256M  0.4s behind  0ms\n"
        "eu      n2    alive  2h31m    12,031    8.1%    0.9ms  31%/256M  0.4s behind  0ms\n"
        "us      n1    alive  2h31m    12,031    8.1%    0.9ms  31%/256M  0.4s behind  +40ms\n"
        "us      n2    alive  2h31m    12,031    8.1%    0.9ms  31%/256M  0.4s behind  +40ms\n"
        "\n"
        "more      --node NAME, --all, --watch, -o json; tidegate members, events\n");
    assert_null(screen_find(&screen, "n1"));
    assert_ptr_equal(screen_find(&screen, "us/n1"), &nodes[2]);
    assert_null(screen_find(&screen, "ap/n1"));
}

/* Nothing that a node says moves the cursor, and no name pushes the figures out of the screen. */
static void long_and_wild_names_fit(void **state)
{
    (void)state;
    trio();
    (void)snprintf(nodes[1].name, sizeof nodes[1].name, "%063d", 7);
    (void)snprintf(nodes[2].name, sizeof nodes[2].name, "\033[2Jn\303\266rd");
    (void)add_condition("not_alive", nodes[1].name, nodes[1].name, "", "");
    (void)expect(&plain, NULL);
    struct screen_options narrow = {.width = 60};
    (void)expect(&narrow, NULL);
}

static void of_very_many_reasons_the_first_ones_are_said(void **state)
{
    (void)state;
    trio();
    for (int i = 0; i < SCREEN_CONDITIONS_MAX; i++)
        (void)add_condition("x", "n2", "something is wrong", "it means little", "do little");
    assert_true(expect(&plain, NULL) < 25);
}

static void colours_are_for_terminals_and_end_in_their_line(void **state)
{
    const struct screen_options coloured = {.width = SCREEN_WIDTH, .colour = true};
    struct cli_text text;
    (void)state;
    bad_day();
    cli_text_init(&text);
    screen_write(&text, &screen, &coloured);
    assert_memory_equal(text.data, "\033[1;31mDEGRADED:\033[0m n2", 22);
    for (const char *at = text.data, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        const char *last = NULL;
        for (const char *code = at; (code = strstr(code, "\033[")) != NULL && code < end; code++)
            last = code;
        assert_true(last == NULL || strncmp(last, "\033[0m", 4) == 0);
    }
    cli_text_fini(&text);
}

/* Out of memory nothing is written: neither a row, nor the end of the colour of one. */
static void a_screen_without_memory_is_none(void **state)
{
    const struct screen_options coloured = {.width = SCREEN_WIDTH, .colour = true};
    struct cli_text text;
    (void)state;
    bad_day();
    cli_text_init(&text);
    text.failed = true;
    screen_write(&text, &screen, &coloured);
    assert_int_equal(text.len, 0);
    cli_text_check_invariants(&text);
    cli_text_fini(&text);
}

static void a_node_that_has_not_joined_has_a_screen_too(void **state)
{
    (void)state;
    memset(&screen, 0, sizeof screen);
    name_it(screen.node, "n1");
    (void)add_condition("not_joined", "n1", "n1 has not joined a cluster yet", "", "");
    screen.alive = 1;
    (void)expect(&plain,
                 "DEGRADED: n1 has not joined a cluster yet\n"
                 "nodes     1 alive\n"
                 "more      --node NAME, --all, --watch, -o json; tidegate members, events\n");
}

static void one_node_is_told_in_detail(void **state)
{
    struct cli_text text;
    (void)state;
    bad_day();
    cli_text_init(&text);
    (void)snprintf(nodes[2].client, sizeof nodes[2].client, "10.0.0.3:7600");
    (void)snprintf(nodes[2].id, sizeof nodes[2].id, "00000000000000a3");
    nodes[2].state_for_ms = 9000000;
    nodes[2].store_used = 5 << 20;
    nodes[2].store_most = UINT64_C(10) << 30;
    nodes[2].rtt_us = 250;
    screen_write_node(&text, &screen, screen_find(&screen, "n3"), &plain);
    assert_string_equal(text.data,
                        "node      n3, region eu: alive for 2h30m\n"
                        "wrong     n3 has no room on its disk, or has reached --store-max\n"
                        "means     keys that exist are counted; new ones are refused there\n"
                        "do        make room in its data directory, or raise --store-max\n"
                        "is        member, votes, release 0.1.0, id 00000000000000a3\n"
                        "asked at  10.0.0.3:7600\n"
                        "up        2h31m\n"
                        "checks    12,031 a second, 975 of them denied; 0 since it started\n"
                        "replicas  acknowledge within 0.9ms (p99)\n"
                        "memory    31 keys of 100 that fit into 256M\n"
                        "disk      5M of 10G used; 0.4s behind\n"
                        "vnodes    decides 2,047\n"
                        "          0 without another replica in reach, 2,047 that not every "
                        "replica holds\n"
                        "above     limits up to 41 tokens could be admitted now\n"
                        "clock     -1ms against n1, 0.2ms away\n");
    cli_text_fini(&text);
}

static void numbers_are_short(void **state)
{
    char word[SCREEN_WORD_LEN];
    (void)state;
    assert_string_equal(screen_span(0, word), "0.0s");
    assert_string_equal(screen_span(9999, word), "9.9s");
    assert_string_equal(screen_span(59999, word), "59s");
    assert_string_equal(screen_span(192000, word), "3m12s");
    assert_string_equal(screen_span(86399000, word), "23h59m");
    assert_string_equal(screen_span(100 * UINT64_C(3600000), word), "4d4h");
    assert_string_equal(screen_count(0, word), "0");
    assert_string_equal(screen_count(999, word), "999");
    assert_string_equal(screen_count(1000, word), "1,000");
    assert_string_equal(screen_count(UINT64_MAX, word), "18,446,744,073,709,551,615");
    assert_string_equal(screen_rate(0.26, word), "0.3");
    assert_string_equal(screen_rate(12030.6, word), "12,031");
    assert_string_equal(screen_bytes(1023, word), "1023B");
    assert_string_equal(screen_bytes(1536, word), "1.5K");
    assert_string_equal(screen_bytes(UINT64_MAX, word), "16E");
    assert_string_equal(screen_us(910, word), "0.9ms");
    assert_string_equal(screen_us(2500000, word), "2.5s");
    assert_string_equal(screen_skew(-999, word), "0ms");
    assert_string_equal(screen_skew(3600000000, word), "+1h0m");
    assert_string_equal(screen_skew(INT64_MIN, word), "-106751991d4h");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_cluster_is_told_in_few_lines),
        cmocka_unit_test(ten_minutes_and_rules_near_their_limits_are_a_line_each),
        cmocka_unit_test(events_say_what_began_what_is_over_and_what_was_told),
        cmocka_unit_test(the_first_lines_of_a_bad_day_say_what_is_wrong),
        cmocka_unit_test(of_fifty_nodes_those_that_are_well_are_summed_up),
        cmocka_unit_test(regions_are_told_apart),
        cmocka_unit_test(long_and_wild_names_fit),
        cmocka_unit_test(of_very_many_reasons_the_first_ones_are_said),
        cmocka_unit_test(colours_are_for_terminals_and_end_in_their_line),
        cmocka_unit_test(a_screen_without_memory_is_none),
        cmocka_unit_test(a_node_that_has_not_joined_has_a_screen_too),
        cmocka_unit_test(one_node_is_told_in_detail),
        cmocka_unit_test(numbers_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
