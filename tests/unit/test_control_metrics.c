/* test_control_metrics.c - the page of metrics: its lines, its bounds, that nothing is there twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/protocol/wire.h"
#include "node/cluster/control/control_state.h"
#include "node/cluster/metrics/metric_text.h"
#include "node/cluster/shard/shard_told.h"
#include "node/policy/compile/policy_compile.h"
#include "tests/unit/support_control.h"
#include "tests/unit/support_tokens.h"

enum { FRAME_LEN = 1 << 20, LINES_MAX = 8192 };

static uint8_t frame[FRAME_LEN];
static char page[FRAME_LEN + 1];
static struct shard_told told;
static struct control_page made;

static const struct control_figure http[] = {{"h2_connections", 1},
                                             {"h2_streams", 2},
                                             {"h2_refused", 3},
                                             {"h2_cut", 4},
                                             {"h2_late", 5},
                                             {"h2_floods", 6},
                                             {"h2_aged", 7},
                                             {"h2_unanswered", 8},
                                             {"gubernator_local", 20},
                                             {"gubernator_forward", 21},
                                             {"gubernator_global", 22},
                                             {"gubernator_over", 23},
                                             {"gubernator_invalid", 24},
                                             {"gubernator_algorithm", 25},
                                             {"gubernator_too_large", 26},
                                             {"gubernator_timeout", 27},
                                             {"gubernator_busy", 28}};
static const struct control_call calls[] = {{"a.B/C", "OK", 9},
                                            {"other", "UNIMPLEMENTED", 10},
                                            {"pb.gubernator.V1/GetRateLimits", "OK", 11},
                                            {"pb.gubernator.V1/GetRateLimits", "INTERNAL", 12},
                                            {"pb.gubernator.V1/GetRateLimits", "UNAVAILABLE", 13},
                                            {"pb.gubernator.V1/LiveCheck", "OK", 0}};

static enum metrics_compat compat;
static bool keeps; /* the next question is one of several at once */

/* Has the node answer `metrics`, into a message of so many bytes; the text is in `page` then.
 * Returns the answer's code. */
static int ask(struct net *net, const struct policy *policy, const struct shard_stats *stats,
               size_t capacity)
{
    uint8_t asked[128];
    char error[WIRE_ERROR_LEN];
    struct mp_writer writer;
    struct mp_token tokens[8];
    struct wire_admin_reply reply;
    const struct control_report report = {.shards = stats,
                                          .shard_count = 1,
                                          .policy = policy,
                                          .storage = "lmdb",
                                          .storage_ok = true,
                                          .memory_max = 1000,
                                          .flush_lag_ns = 1500 * NET_MS,
                                          .started_ns = net->now_ns,
                                          .told = &told,
                                          .http = http,
                                          .http_count = sizeof http / sizeof *http,
                                          .calls = calls,
                                          .call_count = sizeof calls / sizeof *calls,
                                          .rules_unread = 7,
                                          .metrics_compat = compat,
                                          .page = &made};
    made.len = keeps ? made.len : 0;
    keeps = false;
    mp_writer_init(&writer, asked, sizeof asked);
    wire_begin_admin(&writer, 1, 2, "metrics");
    mp_put_map(&writer, 0);
    const size_t len = control_admin(net->nodes[0].control, net->now_ns, asked, writer.len, &report,
                                     frame, capacity);
    assert_int_equal(wire_decode_admin_reply(frame, len, tokens, 8, &reply, error), 0);
    page[0] = '\0';
    if (reply.code != 0)
        return reply.code;
    struct mp_cursor value = tokens_open(reply.value.tokens, reply.value.token_count);
    size_t text_len;
    const char *text = mp_get_str(&value, &text_len);
    assert_non_null(text);
    memcpy(page, text, text_len);
    page[text_len] = '\0';
    return 0;
}

static void assert_line(const char *line)
{
    const size_t len = strlen(line);
    for (const char *at = page; (at = strstr(at, line)) != NULL; at++)
        if ((at == page || at[-1] == '\n') && at[len] == '\n')
            return;
    fail_msg("no line: %s", line);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Prometheus refuses a page that has a series twice, whole. */
static void assert_no_series_is_there_twice(void)
{
    static char copy[FRAME_LEN + 1];
    static char *lines[LINES_MAX];
    size_t count = 0;
    memcpy(copy, page, sizeof copy);
    char *next = NULL;
    for (char *line = strtok_r(copy, "\n", &next); line != NULL;
         line = strtok_r(NULL, "\n", &next)) {
        char *value = strrchr(line, ' ');
        if (line[0] == '#')
            continue;
        assert_non_null(value);
        *value = '\0';
        assert_true(count < LINES_MAX);
        lines[count++] = line;
    }
    qsort(lines, count, sizeof *lines, compare);
    for (size_t i = 1; i < count; i++)
        if (strcmp(lines[i - 1], lines[i]) == 0)
            fail_msg("twice: %s", lines[i]);
}

static struct policy *compile(const char *text)
{
    struct policy *policy;
    struct policy_error error;
    assert_int_equal(policy_compile(text, strlen(text), alloc_heap(), &policy, &error), 0);
    return policy;
}

static void what_clients_of_http_2_and_grpc_did_is_told_by_reason_and_method(void **state)
{
    static const struct shard_stats none;
    static const char *const lines[] = {
        "tidegate_http2_connections_total 1",
        "tidegate_http2_streams_total 2",
        "tidegate_http2_resets_total{reason=\"refused\"} 3",
        "tidegate_http2_resets_total{reason=\"cancelled\"} 4",
        "tidegate_http2_resets_total{reason=\"late\"} 5",
        "tidegate_http2_goaways_total{reason=\"flood\"} 6",
        "tidegate_http2_goaways_total{reason=\"age\"} 7",
        "tidegate_http2_goaways_total{reason=\"silent\"} 8",
        "tidegate_grpc_requests_total{method=\"a.B/C\",status=\"OK\"} 9",
        "tidegate_grpc_requests_total{method=\"other\",status=\"UNIMPLEMENTED\"} 10",
        "tidegate_rules_reload_failures_total 7",
        "tidegate_connections{protocol=\"http\"} 0",
        "tidegate_requests_total{protocol=\"redis\"} 0"};
    struct net *net = net_cluster(1);
    (void)state;
    memset(&told, 0, sizeof told);
    assert_int_equal(ask(net, policy_empty(), &none, FRAME_LEN), 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_line(lines[i]);
    net_free(net);
}

/* Where they are not asked for, no name of others is told. */
static void what_gubernator_tells_is_told_by_its_names_where_that_is_asked_for(void **state)
{
    static const struct shard_stats stats = {.slots = 3, .checks_pending = 4};
    static const char *const lines[] = {
        "gubernator_getratelimit_counter{calltype=\"local\"} 20",
        "gubernator_getratelimit_counter{calltype=\"forward\"} 21",
        "gubernator_getratelimit_counter{calltype=\"global\"} 22",
        "gubernator_over_limit_counter 23",
        "gubernator_check_error_counter{error=\"Invalid request\"} 24",
        "gubernator_check_error_counter{error=\"Invalid algorithm\"} 25",
        "gubernator_check_error_counter{error=\"Request too large\"} 26",
        "gubernator_check_error_counter{error=\"Timeout\"} 27",
        "gubernator_check_error_counter{error=\"Busy\"} 28",
        "gubernator_cache_size 3",
        "gubernator_concurrent_checks_counter 4",
        "gubernator_grpc_request_counts{status=\"success\","
        "method=\"/pb.gubernator.V1/GetRateLimits\"} 11",
        "gubernator_grpc_request_counts{status=\"failed\","
        "method=\"/pb.gubernator.V1/GetRateLimits\"} 25",
        "gubernator_grpc_request_counts{status=\"success\","
        "method=\"/pb.gubernator.V1/LiveCheck\"} 0",
        "gubernator_grpc_request_counts{status=\"failed\","
        "method=\"/pb.gubernator.V1/LiveCheck\"} 0",
        "# TYPE gubernator_getratelimit_counter counter",
        "# TYPE gubernator_cache_size gauge",
        "# TYPE gubernator_concurrent_checks_counter gauge"};
    struct net *net = net_cluster(1);
    (void)state;
    memset(&told, 0, sizeof told);
    assert_int_equal(ask(net, policy_empty(), &stats, FRAME_LEN), 0);
    assert_null(strstr(page, "\ngubernator_"));
    assert_null(strstr(page, "# HELP gubernator_"));
    compat = METRICS_COMPAT_GUBERNATOR;
    const int code = ask(net, policy_empty(), &stats, FRAME_LEN);
    compat = METRICS_COMPAT_OFF;
    assert_int_equal(code, 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_line(lines[i]);
    assert_line("tidegate_keys 3");
    assert_null(strstr(page, "request_counts{status=\"success\",method=\"/a.B/C\"}"));
    assert_no_series_is_there_twice();
    net_free(net);
}

static void each_metric_is_told_with_its_help_from_the_start(void **state)
{
    static const struct shard_stats none;
    struct net *net = net_cluster(2);
    char head[1024];
    (void)state;
    memset(&told, 0, sizeof told);
    assert_int_equal(ask(net, policy_empty(), &none, FRAME_LEN), 0);
    for (int i = 0; i < METRICS; i++) {
        const struct metric *metric = metric_of((enum metric_id)i);
        (void)snprintf(head, sizeof head, "# HELP %s %s", metric->name, metric->help);
        assert_line(head);
        (void)snprintf(head, sizeof head, "# TYPE %s %s", metric->name,
                       metric_type_name(metric->type));
        assert_line(head);
    }
    (void)snprintf(head, sizeof head, "tidegate_node_info{node=\"n1\",region=\"%s\",zone=\"%s\"} 1",
                   net->nodes[0].options.region, net->nodes[0].options.zone);
    assert_line(head);
    assert_line("tidegate_checks_total{protocol=\"http\",outcome=\"deny\"} 0");
    assert_line("tidegate_check_duration_seconds_bucket{protocol=\"redis\",le=\"0.00005\"} 0");
    assert_line("tidegate_check_duration_seconds_count{protocol=\"redis\"} 0");
    assert_line("tidegate_rule_decisions_total{rule=\"other\",outcome=\"denied\"} 0");
    assert_line("tidegate_members{state=\"alive\"} 2");
    assert_line("tidegate_register_voters{state=\"alive\"} 1");
    assert_line("tidegate_register_has_majority 1");
    assert_line("tidegate_trouble{trouble=\"disk_full\"} 0");
    assert_line("tidegate_healthy 1");
    assert_line("tidegate_flush_age_seconds 1.5");
    assert_no_series_is_there_twice();
    net_free(net);
}

/* A flood of questions has one page made a turn: gossip is not kept waiting by who scrapes. */
static void who_asks_at_the_same_time_is_told_the_same_page(void **state)
{
    static const struct shard_stats few = {.slots = 1};
    static const struct shard_stats more = {.slots = 2};
    struct net *net = net_cluster(1);
    (void)state;
    memset(&told, 0, sizeof told);
    assert_int_equal(ask(net, policy_empty(), &few, FRAME_LEN), 0);
    assert_line("tidegate_keys 1");
    keeps = true;
    assert_int_equal(ask(net, policy_empty(), &more, FRAME_LEN), 0);
    assert_line("tidegate_keys 1");
    assert_int_equal(ask(net, policy_empty(), &more, FRAME_LEN), 0);
    assert_line("tidegate_keys 2");
    net_free(net);
}

static void figures_of_shards_and_clients_are_told(void **state)
{
    static const struct shard_stats stats = {.slots = 3,
                                             .slots_max = 10,
                                             .shed = 4,
                                             .over_tokens = 17,
                                             .allowed = 6,
                                             .vnodes_leading = 9,
                                             .handoff = {.give = 2}};
    struct net *net = net_cluster(2);
    (void)state;
    memset(&told, 0, sizeof told);
    told.answered.by[ANSWERED_REDIS].outcomes[OUTCOME_DENY] = 5;
    told.answered.by[ANSWERED_REDIS].degraded = 3;
    told.answered.by[ANSWERED_REDIS].times[0] = 2;
    told.answered.by[ANSWERED_REDIS].times[ANSWERED_BOUNDS] = 1;
    told.answered.by[ANSWERED_REDIS].sum_ns = 2500 * (uint64_t)NET_MS;
    told.peer_count = 1;
    told.peers[0] = (struct shard_told_peer){.node = 2, .forwarded = 8, .lag_ns = 250 * NET_MS};
    assert_int_equal(ask(net, policy_empty(), &stats, FRAME_LEN), 0);
    assert_line("tidegate_checks_total{protocol=\"redis\",outcome=\"deny\"} 5");
    assert_line("tidegate_degraded_decisions_total{protocol=\"redis\"} 3");
    assert_line("tidegate_check_duration_seconds_bucket{protocol=\"redis\",le=\"0.00005\"} 2");
    assert_line("tidegate_check_duration_seconds_bucket{protocol=\"redis\",le=\"1\"} 2");
    assert_line("tidegate_check_duration_seconds_bucket{protocol=\"redis\",le=\"+Inf\"} 3");
    assert_line("tidegate_check_duration_seconds_sum{protocol=\"redis\"} 2.5");
    assert_line("tidegate_forwarded_checks_total{peer=\"n2\"} 8");
    assert_line("tidegate_replication_lag_seconds{peer=\"n2\"} 0.25");
    assert_line("tidegate_keys 3");
    assert_line("tidegate_memory_used_bytes 300");
    assert_line("tidegate_shed_checks_total 4");
    assert_line("tidegate_over_admission_bound 17");
    assert_line("tidegate_decisions_total{outcome=\"allowed\"} 6");
    assert_line("tidegate_vnodes{role=\"deciding\"} 9");
    assert_line("tidegate_handoff_pending_vnodes{direction=\"give\"} 2");
    net_free(net);
}

static void names_of_rules_stay_values_of_labels_and_none_is_there_twice(void **state)
{
    static const struct shard_stats none;
    struct net *net = net_cluster(1);
    struct policy *policy =
        compile("rules:\n"
                "  - {name: other, key: [u], limits: [{rate: 1/s}]}\n"
                "  - {name: \"a\\\"} 1\\\\n\", key: [u], limits: [{rate: 1/s}]}\n");
    (void)state;
    memset(&told, 0, sizeof told);
    answered_follow(&told.answered, policy);
    told.answered.rules[0].fates[ANSWERED_DENIED] = 2;
    told.answered.rules[1].fates[ANSWERED_DENIED] = 3;
    told.answered.rules[2].fates[ANSWERED_DENIED] = 4;
    assert_int_equal(ask(net, policy, &none, FRAME_LEN), 0);
    assert_line("tidegate_rule_decisions_total{rule=\"a\\\"} 1\\\\n\",outcome=\"denied\"} 3");
    assert_line("tidegate_rule_decisions_total{rule=\"other\",outcome=\"denied\"} 6");
    assert_line("tidegate_rules 2");
    assert_no_series_is_there_twice();
    policy_free(&policy);
    net_free(net);
}

/* What is bounded fits a message, and what HTTP has room for; in less room, the answer says so. */
static void the_longest_page_fits_and_nothing_is_cut(void **state)
{
    static const struct shard_stats none;
    struct net *net = net_cluster(1);
    (void)state;
    memset(&told, 0, sizeof told);
    told.answered.rule_count = ANSWERED_RULES_MAX;
    for (int i = 0; i < ANSWERED_RULES_MAX; i++) {
        struct answered_rule *rule = &told.answered.rules[i];
        memset(rule->name, '"', POLICY_NAME_LEN_MAX);
        (void)snprintf(rule->name, 4, "%03d", i);
        rule->name[3] = '"';
        memset(rule->fates, 0xff, sizeof rule->fates);
    }
    told.peer_count = SHARD_TOLD_PEERS_MAX;
    for (uint64_t i = 0; i < SHARD_TOLD_PEERS_MAX; i++)
        told.peers[i] = (struct shard_told_peer){UINT64_MAX - i, UINT64_MAX, INT64_MAX};
    assert_int_equal(ask(net, policy_empty(), &none, FRAME_LEN), 0);
    assert_true(strlen(page) < CONTROL_PAGE_MAX - 65536);
    assert_line("tidegate_forwarded_checks_total{peer=\"ffffffffffffff00\"} 18446744073709551615");
    assert_no_series_is_there_twice();
    assert_int_equal(ask(net, policy_empty(), &none, 4096), TG_ETOOBIG);
    net_free(net);
}

/* ---- the text -------------------------------------------------------------------------------- */

static const char *written(const char *value, size_t capacity, bool *failed)
{
    static char room[512];
    struct metric_text text;
    const struct metric_labels labels = {{{"rule", value}}};
    metric_text_init(&text, room, capacity);
    text.metric = metric_of(METRIC_KEYS);
    metric_put(&text, &labels, 1);
    *failed = text.failed;
    room[text.len] = '\0';
    return room;
}

static void whatever_a_value_is_it_stays_one(void **state)
{
    bool failed;
    (void)state;
    assert_string_equal(written("a\nb", 500, &failed), "tidegate_keys{rule=\"a\\nb\"} 1\n");
    assert_string_equal(written("\\\"", 500, &failed), "tidegate_keys{rule=\"\\\\\\\"\"} 1\n");
    assert_string_equal(written("\xc3\xa4\xff", 500, &failed),
                        "tidegate_keys{rule=\"\xc3\xa4\xef\xbf\xbd\"} 1\n");
    assert_false(failed);
    (void)written("abc", 20, &failed);
    assert_true(failed);
}

static void times_are_exact_seconds(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {{0, "tidegate_keys 0\n"},
                 {1, "tidegate_keys 0.000000001\n"},
                 {-1500000000, "tidegate_keys -1.5\n"},
                 {20000000000, "tidegate_keys 20\n"},
                 {INT64_MIN, "tidegate_keys -9223372036.854775808\n"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char room[128];
        struct metric_text text;
        metric_text_init(&text, room, sizeof room - 1);
        text.metric = metric_of(METRIC_KEYS);
        metric_put_ns(&text, NULL, cases[i].ns);
        room[text.len] = '\0';
        assert_string_equal(room, cases[i].text);
    }
}

/* METRIC-1 */
static void names_are_as_prometheus_wants_them(void **state)
{
    (void)state;
    for (int i = 0; i < METRICS_ALL; i++) {
        const struct metric *metric = metric_of((enum metric_id)i);
        const size_t len = strlen(metric->name);
        const bool total = len > 6 && strcmp(metric->name + len - 6, "_total") == 0;
        assert_int_equal(strncmp(metric->name, "gubernator_", 11) == 0, i >= METRICS);
        if (i < METRICS)
            assert_int_equal(total, metric->type == METRIC_COUNTER);
        assert_int_equal(strspn(metric->name, "abcdefghijklmnopqrstuvwxyz0123456789_"), len);
        assert_int_equal(metric->help[strlen(metric->help) - 1], '.');
        assert_null(strchr(metric->help, '\n'));
        assert_null(strchr(metric->help, '\\'));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(metric->name, metric_of((enum metric_id)k)->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_clients_of_http_2_and_grpc_did_is_told_by_reason_and_method),
        cmocka_unit_test(what_gubernator_tells_is_told_by_its_names_where_that_is_asked_for),
        cmocka_unit_test(each_metric_is_told_with_its_help_from_the_start),
        cmocka_unit_test(who_asks_at_the_same_time_is_told_the_same_page),
        cmocka_unit_test(figures_of_shards_and_clients_are_told),
        cmocka_unit_test(names_of_rules_stay_values_of_labels_and_none_is_there_twice),
        cmocka_unit_test(the_longest_page_fits_and_nothing_is_cut),
        cmocka_unit_test(whatever_a_value_is_it_stays_one),
        cmocka_unit_test(times_are_exact_seconds),
        cmocka_unit_test(names_are_as_prometheus_wants_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
