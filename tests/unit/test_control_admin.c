/* test_control_admin.c - what a node answers to its operator; fields are of PROTOCOL.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/protocol/wire.h"
#include "node/cluster/control/control_state.h"
#include "node/policy/compile/policy_compile.h"
#include "tests/unit/support_control.h"
#include "tests/unit/support_tokens.h"

enum { SESSION = 77, SEQ = 5, TOKENS_MAX = 2048, FRAME_LEN = 16384 };

static const char RULES[] = "rules:\n"
                            "  - name: per-user\n"
                            "    key: [user]\n"
                            "    limits: [{rate: 10/s}]\n";

struct answer {
    uint8_t frame[FRAME_LEN];
    struct mp_token tokens[TOKENS_MAX];
    struct wire_admin_reply reply;
    const struct policy *policy; /* the node's; NULL: none */
    uint32_t left_out;           /* peers that its shard has no room for */
    struct shard_pool pool;      /* what its shard knows of one */
};

static void ask_frame(struct net *net, const void *frame, size_t len, struct answer *answer)
{
    const struct shard_stats stats = {
        .checks = 3,
        .peers_left_out = answer->left_out,
        .holding_count = 1,
        .holding = {{policy_region_id("z", 1), 7, 2}},
        .pool_count = 1,
        .pools = {answer->pool},
    };
    char error[WIRE_ERROR_LEN];
    const struct control_report report = {
        .shards = &stats,
        .shard_count = 1,
        .policy = answer->policy != NULL ? answer->policy : policy_empty(),
        .storage = "lmdb",
        .storage_ok = true,
        .started_ns = net->now_ns - 1500 * NET_MS,
    };
    const size_t reply_len = control_admin(net->nodes[0].control, net->now_ns, frame, len, &report,
                                           answer->frame, sizeof answer->frame);
    assert_int_equal(wire_decode_admin_reply(answer->frame, reply_len, answer->tokens, TOKENS_MAX,
                                             &answer->reply, error),
                     0);
}

/* Asks node 0; `text` is the argument of that name, or NULL for none. */
static void ask(struct net *net, const char *command, const char *text, struct answer *answer)
{
    uint8_t frame[1024];
    struct mp_writer writer;
    mp_writer_init(&writer, frame, sizeof frame);
    wire_begin_admin(&writer, SESSION, SEQ, command);
    mp_put_map(&writer, text != NULL);
    if (text != NULL) {
        mp_put_str(&writer, "text");
        mp_put_str(&writer, text);
    }
    assert_false(writer.failed);
    ask_frame(net, frame, writer.len, answer);
    assert_int_equal(answer->reply.session, SESSION);
    assert_int_equal(answer->reply.seq, SEQ);
}

static struct mp_cursor value_of(const struct answer *answer)
{
    return tokens_open(answer->reply.value.tokens, answer->reply.value.token_count);
}

static void assert_fields(struct mp_cursor map, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)tokens_field(map, names[i]);
}

static void assert_text(struct mp_cursor cursor, const char *expected)
{
    char text[256];
    mp_copy_str(&cursor, text, sizeof text);
    assert_false(cursor.failed);
    assert_string_equal(text, expected);
}

/* Scripts and dashboards read status by the names that are documented. */
static void status_has_the_documented_fields(void **state)
{
    static const char *const names[] = {
        "node",    "node_id", "cluster_id",   "version",  "healthy",        "reasons",
        "epoch",   "stable",  "vnodes_total", "replicas", "uptime_ms",      "figures_age_ms",
        "members", "storage", "rules",        "shards",   "over_admission", "acknowledgement",
        "handoff", "pools",   "files",        "warnings", "links_dropped",  "log_lines_dropped"};
    struct net *net = net_cluster(2);
    struct answer answer = {.policy = NULL};
    (void)state;
    ask(net, "status", NULL, &answer);
    assert_int_equal(answer.reply.code, 0);
    const struct mp_cursor map = value_of(&answer);
    assert_fields(map, names, sizeof names / sizeof *names);
    tokens_assert_text(map, "node", "n1");
    tokens_assert_text(map, "node_id", "0000000000000001");
    tokens_assert_text(map, "cluster_id", "a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0");
    struct mp_cursor at = tokens_field(map, "healthy");
    assert_true(mp_get_bool(&at));
    at = tokens_field(map, "reasons");
    assert_int_equal(mp_get_array(&at), 0);
    at = tokens_field(map, "warnings");
    assert_int_equal(mp_get_array(&at), 0);
    at = tokens_field(map, "uptime_ms");
    assert_int_equal(mp_get_uint(&at), 1500);
    at = tokens_field(tokens_field(map, "members"), "alive");
    assert_int_equal(mp_get_uint(&at), 2);
    static const char *const handoff[] = {"vnodes_to_give", "vnodes_to_receive", "bytes_sent",
                                          "bytes_received", "bytes_per_s",       "left_ms"};
    assert_fields(tokens_field(map, "handoff"), handoff, sizeof handoff / sizeof *handoff);
    static const char *const bound[] = {"tokens", "vnodes_cut_off", "vnodes_degraded", "why"};
    const struct mp_cursor levels = tokens_field(map, "over_admission");
    assert_fields(tokens_field(levels, "one"), bound, sizeof bound / sizeof *bound);
    assert_fields(tokens_field(levels, "quorum"), bound, sizeof bound / sizeof *bound);
    tokens_assert_text(tokens_field(levels, "one"), "why", "");
    at = tokens_field(map, "shards");
    assert_int_equal(mp_get_array(&at), 1);
    at = tokens_field(at, "checks");
    assert_int_equal(mp_get_uint(&at), 3);
    net_free(net);
}

static void ask_figures(struct net *net, struct answer *answer)
{
    uint8_t frame[256];
    struct mp_writer writer;
    mp_writer_init(&writer, frame, sizeof frame);
    wire_begin_admin(&writer, SESSION, SEQ, "status");
    mp_put_map(&writer, 1);
    mp_put_str(&writer, "figures");
    mp_put_bool(&writer, true);
    ask_frame(net, frame, writer.len, answer);
}

/* Every node is told with its health and its figures, which are gathered when they are asked for.
 */
static void status_has_a_row_a_node_with_its_health_and_figures(void **state)
{
    static const char *const fields[] = {
        "name",    "id",     "own",    "region",  "zone",   "state",   "state_for_ms",
        "ring",    "voter",  "client", "version", "rtt_us", "skew_us", "unreachable_since",
        "figures", "health", "grave"};
    struct net *net = net_cluster(3);
    struct answer answer = {.policy = NULL};
    const struct shard_stats stats = {.checks = 7};
    const struct control_report report = {.shards = &stats, .shard_count = 1, .storage_ok = true};
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        (void)control_look(net->nodes[i].control, net->now_ns, &report);
    control_trouble(net->nodes[2].control, net->now_ns, HEALTH_BIT(HEALTH_DISK_FULL));
    ask_figures(net, &answer);
    assert_int_equal(tokens_uint(value_of(&answer), "figures_awaited"), 2);
    net_run(net, NET_SECOND);
    ask_figures(net, &answer);
    assert_int_equal(tokens_uint(value_of(&answer), "figures_awaited"), 0);
    struct mp_cursor at = tokens_field(value_of(&answer), "healthy");
    assert_false(mp_get_bool(&at));
    at = tokens_field(value_of(&answer), "conditions");
    assert_int_equal(mp_get_array(&at), 1);
    tokens_assert_text(at, "code", "disk_full");
    at = tokens_field(value_of(&answer), "nodes");
    assert_int_equal(mp_get_array(&at), 3);
    tokens_assert_text(at, "name", "n1");
    assert_fields(at, fields, sizeof fields / sizeof *fields);
    mp_skip(&at);
    tokens_assert_text(at, "name", "n2");
    assert_int_equal(tokens_uint(tokens_field(at, "figures"), "checks"), 7);
    mp_skip(&at);
    tokens_assert_text(at, "name", "n3");
    struct mp_cursor codes = tokens_field(at, "health");
    assert_int_equal(mp_get_array(&codes), 1);
    assert_text(codes, "disk_full");
    codes = tokens_field(at, "grave");
    assert_true(mp_get_bool(&codes));
    assert_int_equal(tokens_uint(tokens_field(at, "figures"), "checks"), 7);
    net_free(net);
}

static void change(struct net *net, uint64_t number, uint32_t kind, const char *name, bool removes)
{
    const struct control_edit_request request = {
        .id = {number, number},
        .kind = kind,
        .removes = removes,
        .based_on = SETTINGS_ANY,
        .name = {name, strlen(name)},
        .value = {"12345678reason", removes ? 0 : 14},
        .author = {"ada@vm", 6},
        .note = {"why", 3},
    };
    assert_int_equal(control_edit(net->nodes[0].control, net->now_ns, &request), 0);
    net_run(net, NET_SECOND);
}

static void status_has_the_last_changes_of_people(void **state)
{
    struct net *net = net_cluster(1);
    struct answer answer = {.policy = NULL};
    (void)state;
    static const char *const users[] = {"eve", "bob", "ann", "joe"};
    for (uint64_t i = 0; i < 4; i++)
        change(net, 1 + i, SETTINGS_QUOTA, users[i], false);
    change(net, 5, SETTINGS_BLOCK, "attr user=mallory", false);
    change(net, 6, SETTINGS_BLOCK, "attr user=mallory", true);
    ask(net, "status", NULL, &answer);
    struct mp_cursor at = tokens_field(value_of(&answer), "changes");
    assert_int_equal(mp_get_array(&at), 5);
    tokens_assert_text(at, "says", "unblocked by user");
    tokens_assert_text(at, "author", "ada@vm");
    tokens_assert_text(at, "note", "why");
    assert_int_equal(tokens_uint(at, "time_ms") / 100000, (uint64_t)net->now_ns / 1000000 / 100000);
    mp_skip(&at);
    tokens_assert_text(at, "says", "blocked by user");
    mp_skip(&at);
    tokens_assert_text(at, "says", "quota of a user set");
    net_free(net);
}

/* An operator waits for healthy before the next node is started: too early would be a lie. */
static void a_newcomer_outside_the_ring_makes_the_cluster_unhealthy(void **state)
{
    struct net *net = net_cluster(2);
    struct answer answer = {.policy = NULL};
    struct control_options options = net_options(net, 3, "n2");
    (void)state;
    net_seed(&options, 0);
    (void)net_start(net, &options);
    net_run(net, 5 * NET_SECOND);
    ask(net, "status", NULL, &answer);
    struct mp_cursor at = tokens_field(value_of(&answer), "healthy");
    assert_false(mp_get_bool(&at));
    at = tokens_field(value_of(&answer), "reasons");
    assert_int_equal(mp_get_array(&at), 1);
    assert_text(at, "another living node is called n2 too");
    net_free(net);
}

/* Nodes that came under ever new names have used up the places that a shard has for peers: the
 * operator is told, and what to do. */
static void a_shard_without_room_for_its_peers_makes_the_node_unhealthy(void **state)
{
    struct net *net = net_cluster(2);
    struct answer answer = {.left_out = 2};
    (void)state;
    ask(net, "status", NULL, &answer);
    struct mp_cursor at = tokens_field(value_of(&answer), "reasons");
    assert_int_equal(mp_get_array(&at), 1);
    assert_text(at, "n1 has no room for all nodes that it has known: restart it");
    net_free(net);
}

/* How old what is known of a region is tells whether its members' states mean anything. */
static void regions_are_listed_the_own_one_first(void **state)
{
    static const char *const fields[] = {
        "name",       "own",     "ring", "in_reach", "unreachable_since",
        "alive",      "suspect", "dead", "left",     "heard_ms",
        "contact_ms", "rtt_ms",  "held", "held_keys"};
    static const char *const names[] = {"r1", "a", "z"};
    struct net *net = net_cluster(2);
    struct answer answer = {.policy = NULL};
    (void)state;
    for (uint32_t i = 1; i < 3; i++) {
        struct control_options options = net_options(net, 10 + i, i == 1 ? "n8" : "n9");
        (void)snprintf(options.region, sizeof options.region, "%s", names[3 - i]);
        net_seed(&options, 0);
        (void)net_start(net, &options);
    }
    net_run(net, 10 * NET_SECOND);
    ask(net, "regions", NULL, &answer);
    tokens_assert_text(value_of(&answer), "region", "r1");
    static const char *const leases[] = {"held",   "taken",    "returned", "allowed",
                                         "denied", "local",    "waited",   "late",
                                         "grants", "withheld", "asked",    "served"};
    assert_fields(tokens_field(value_of(&answer), "leases"), leases,
                  sizeof leases / sizeof *leases);
    struct mp_cursor held = tokens_field(tokens_field(value_of(&answer), "leases"), "held");
    assert_int_equal(mp_get_uint(&held), 0);
    struct mp_cursor at = tokens_field(value_of(&answer), "regions");
    assert_int_equal(mp_get_array(&at), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_fields(at, fields, sizeof fields / sizeof *fields);
        tokens_assert_text(at, "name", names[i]);
        struct mp_cursor field = tokens_field(at, "alive");
        assert_int_equal(mp_get_uint(&field), i == 0 ? 2 : 1);
        field = tokens_field(at, "own");
        assert_int_equal(mp_get_bool(&field), i == 0);
        field = tokens_field(at, "in_reach");
        assert_true(mp_get_bool(&field));
        field = tokens_field(at, "held");
        assert_int_equal(mp_get_uint(&field), i == 2 ? 7 : 0);
        field = tokens_field(at, "held_keys");
        assert_int_equal(mp_get_uint(&field), i == 2 ? 2 : 0);
        mp_skip(&at);
    }
    net_free(net);
}

/* `members` and `ring` are tables: each row has every column. */
static void members_and_ring_list_every_node(void **state)
{
    static const char *const member[] = {
        "name", "id",     "region",      "zone",   "state",      "ring",         "client",
        "peer", "gossip", "incarnation", "vnodes", "ring_epoch", "rules_digest", "version"};
    static const char *const ring[] = {"name", "id", "zone", "weight", "vnodes"};
    struct net *net = net_cluster(2);
    struct answer answer = {.policy = NULL};
    (void)state;
    ask(net, "members", NULL, &answer);
    struct mp_cursor at = value_of(&answer);
    assert_int_equal(mp_get_array(&at), 2);
    assert_fields(at, member, sizeof member / sizeof *member);
    mp_skip(&at);
    assert_fields(at, member, sizeof member / sizeof *member);
    tokens_assert_text(at, "name", "n2");
    tokens_assert_text(at, "state", "alive");
    tokens_assert_text(at, "ring", "member");
    ask(net, "ring", NULL, &answer);
    at = tokens_field(value_of(&answer), "vnodes");
    assert_int_equal(mp_get_uint(&at), NET_VNODES);
    at = tokens_field(value_of(&answer), "stable");
    assert_true(mp_get_bool(&at));
    at = tokens_field(value_of(&answer), "epoch");
    assert_int_equal(mp_get_uint(&at), net_config(net, 0)->epoch);
    at = tokens_field(value_of(&answer), "members");
    assert_int_equal(mp_get_array(&at), 2);
    assert_fields(at, ring, sizeof ring / sizeof *ring);
    net_free(net);
}

/* A node without a cluster has no members to show; it says so instead of showing none. */
static void a_node_without_a_cluster_says_so(void **state)
{
    struct net *net = net_new();
    struct answer answer = {.policy = NULL};
    const struct control_options options = net_options(net, 1, "n1");
    (void)state;
    (void)net_start(net, &options);
    ask(net, "members", NULL, &answer);
    assert_int_equal(answer.reply.code, TG_EUNAVAILABLE);
    ask(net, "ring", NULL, &answer);
    assert_int_equal(answer.reply.code, TG_EUNAVAILABLE);
    ask(net, "status", NULL, &answer);
    struct mp_cursor at = tokens_field(value_of(&answer), "reasons");
    assert_int_equal(mp_get_array(&at), 1);
    assert_text(at, "n1 has not joined a cluster yet");
    net_free(net);
}

/* Rules are tried on a node before they are given to all: the answer says where they are wrong. */
static void rules_are_listed_and_validated(void **state)
{
    static const char *const names[] = {"name",   "priority", "action", "key",
                                        "limits", "enabled",  "rule"};
    struct net *net = net_cluster(1);
    struct answer answer = {.policy = NULL};
    struct policy *policy;
    struct policy_error error;
    (void)state;
    ask(net, "rules.list", NULL, &answer);
    struct mp_cursor at = value_of(&answer);
    assert_int_equal(answer.reply.code, 0);
    assert_int_equal(mp_get_array(&at), 0);
    assert_false(at.failed);
    assert_int_equal(policy_compile(RULES, strlen(RULES), alloc_heap(), &policy, &error), 0);
    answer.policy = policy;
    ask(net, "rules.list", NULL, &answer);
    at = value_of(&answer);
    assert_int_equal(mp_get_array(&at), 1);
    assert_fields(at, names, sizeof names / sizeof *names);
    tokens_assert_text(at, "name", "per-user");
    policy_free(&policy);
    answer.policy = NULL;
    ask(net, "rules.validate", "rules: 5\n", &answer);
    assert_int_equal(answer.reply.code, 0);
    at = tokens_field(value_of(&answer), "ok");
    assert_false(mp_get_bool(&at));
    at = tokens_field(value_of(&answer), "line");
    assert_int_equal(mp_get_uint(&at), 1);
    (void)tokens_field(value_of(&answer), "column");
    (void)tokens_field(value_of(&answer), "message");
    ask(net, "rules.validate", RULES, &answer);
    at = tokens_field(value_of(&answer), "ok");
    assert_true(mp_get_bool(&at));
    at = tokens_field(value_of(&answer), "rules");
    assert_int_equal(mp_get_uint(&at), 1);
    (void)tokens_field(value_of(&answer), "digest");
    ask(net, "rules.validate", NULL, &answer);
    assert_int_equal(answer.reply.code, TG_EINVALID);
    net_free(net);
}

/* Asks node 0 why rules act on `user`; more attributes than there may be if `many`. */
static void ask_explain(struct net *net, const char *user, bool many, struct answer *answer)
{
    const uint32_t count = many ? POLICY_ATTRIBUTES_MAX + 1 : 1;
    uint8_t frame[2048];
    struct mp_writer writer;
    mp_writer_init(&writer, frame, sizeof frame);
    wire_begin_admin(&writer, SESSION, SEQ, "rules.explain");
    mp_put_map(&writer, 1);
    mp_put_str(&writer, "attributes");
    mp_put_map(&writer, count);
    for (uint32_t i = 0; i < count; i++) {
        mp_put_str(&writer, "user");
        mp_put_str(&writer, user);
    }
    assert_false(writer.failed);
    ask_frame(net, frame, writer.len, answer);
}

/* Why a rule acts is told as it is by the command line without a node; nothing out of bounds is
 * taken, and of more rules than fit into a message those that act come first, and how many are left
 * out. */
static void rules_are_explained(void **state)
{
    static const char *const names[] = {"name", "priority", "action", "acts", "why", "because"};
    static const char *const limits[] = {"rule",           "window", "algorithm",
                                         "exceed_percent", "shadow", "key"};
    static char many[FRAME_LEN] = "rules:\n";
    struct net *net = net_cluster(1);
    struct answer answer = {.policy = NULL};
    struct policy *policy;
    struct policy_error error;
    char sentence[512];
    char value[1026] = "";
    (void)state;
    assert_int_equal(policy_compile(RULES, strlen(RULES), alloc_heap(), &policy, &error), 0);
    answer.policy = policy;
    ask_explain(net, "ann", false, &answer);
    assert_int_equal(answer.reply.code, 0);
    tokens_assert_text(value_of(&answer), "action", "limits");
    struct mp_cursor at = tokens_field(value_of(&answer), "limits");
    assert_int_equal(mp_get_array(&at), 1);
    assert_fields(at, limits, sizeof limits / sizeof *limits);
    tokens_assert_text(at, "rule", "per-user");
    at = tokens_field(value_of(&answer), "rules");
    assert_int_equal(mp_get_array(&at), 1);
    assert_fields(at, names, sizeof names / sizeof *names);
    tokens_assert_text(at, "why", "acts");
    ask_explain(net, "ann", true, &answer);
    assert_int_equal(answer.reply.code, TG_EINVALID);
    ask(net, "rules.explain", "no attributes", &answer);
    assert_int_equal(answer.reply.code, TG_EINVALID);
    memset(value, 'v', sizeof value - 1);
    ask_explain(net, value, false, &answer);
    assert_int_equal(answer.reply.code, TG_EINVALID);
    at = value_of(&answer);
    mp_copy_str(&at, sentence, sizeof sentence);
    assert_string_equal(sentence, "rules.explain: attribute \"user\": found a value of 1025 bytes; "
                                  "expected at most 1024");
    policy_free(&policy);

    size_t len = strlen(many);
    for (int i = 0; i < 200; i++)
        len += (size_t)snprintf(many + len, sizeof many - len, "- {name: r%d, action: block}\n", i);
    assert_int_equal(policy_compile(many, len, alloc_heap(), &policy, &error), 0);
    answer.policy = policy;
    ask_explain(net, "ann", false, &answer);
    assert_int_equal(answer.reply.code, 0);
    at = tokens_field(value_of(&answer), "rules");
    const uint32_t listed = mp_get_array(&at);
    at = tokens_field(value_of(&answer), "rules_more");
    assert_true(listed > 0 && listed < 200);
    assert_int_equal(mp_get_uint(&at), 200 - listed);
    policy_free(&policy);
    net_free(net);
}

static void assert_real(struct mp_cursor map, const char *name, double expected)
{
    struct mp_cursor at = tokens_field(map, name);
    const double found = mp_get_real(&at);
    assert_false(at.failed);
    assert_true(found > expected - 1e-9 && found < expected + 1e-9);
}

/* Pools are listed with how they are doing, to the thousandth of a token a second; one that
 * nothing was heard of is idle, and has no load. */
static void pools_are_listed_with_how_they_are_doing(void **state)
{
    static const char rules[] =
        "pools: {web: {rate: 90/m}, api: {rate: 600/s, load_max: 0.8, reserve: 5%, "
        "scope: global}}\nrules: []\n";
    struct net *net = net_cluster(1);
    struct policy *policy;
    struct policy_error error;
    (void)state;
    assert_int_equal(policy_compile(rules, strlen(rules), alloc_heap(), &policy, &error), 0);
    struct answer answer = {.policy = policy,
                            .pool = {.id = policy_pool_find(policy, "api", 3)->id,
                                     .load_ppm = 930000,
                                     .guaranteed = 512345678901,
                                     .borrowed = 2000000000,
                                     .level = {3, 1500000000, 0},
                                     .at_ns = 1,
                                     .home = "eu"}};
    ask(net, "pools.list", NULL, &answer);
    assert_int_equal(answer.reply.code, 0);
    struct mp_cursor at = value_of(&answer);
    assert_int_equal(mp_get_array(&at), 2);
    tokens_assert_text(at, "name", "api");
    tokens_assert_text(at, "rate", "600/s");
    assert_real(at, "load_max", 0.8);
    assert_real(at, "reserve_percent", 5);
    assert_real(at, "guaranteed", 512.346);
    assert_real(at, "borrowed", 2);
    assert_real(at, "level_critical", 0);
    assert_real(at, "level_normal", 1.5);
    assert_real(at, "level_batch", 0);
    assert_real(at, "load", 0.93);
    tokens_assert_text(at, "scope", "global");
    tokens_assert_text(at, "home", "eu");
    struct mp_cursor heard = tokens_field(at, "heard");
    assert_true(mp_get_bool(&heard));
    mp_skip(&at);
    tokens_assert_text(at, "name", "web");
    tokens_assert_text(at, "rate", "90/m");
    assert_real(at, "guaranteed", 0);
    tokens_assert_text(at, "scope", "region");
    tokens_assert_text(at, "home", "");
    heard = tokens_field(at, "heard");
    assert_false(mp_get_bool(&heard));
    struct mp_cursor load = tokens_field(at, "load");
    assert_int_equal(mp_peek_type(&load), MP_NIL);
    ask(net, "status", NULL, &answer);
    at = tokens_field(value_of(&answer), "pools");
    assert_int_equal(mp_get_array(&at), 2);
    tokens_assert_text(at, "name", "api");
    policy_free(&policy);
    net_free(net);
}

/* Refusals are replies too: an operator's tool is never left without an answer. */
static void unknown_and_malformed_commands_are_refused(void **state)
{
    struct net *net = net_cluster(1);
    struct answer answer = {.policy = NULL};
    char sentence[512];
    (void)state;
    ask(net, "statu", NULL, &answer);
    assert_int_equal(answer.reply.code, -16);
    struct mp_cursor at = value_of(&answer);
    mp_copy_str(&at, sentence, sizeof sentence);
    assert_non_null(strstr(sentence, "rules.validate"));
    /* [1, 8, 77, 5, "ring", 0]: the arguments are no map */
    ask_frame(net, "\x96\x01\x08\x4d\x05\xa4ring\x00", 11, &answer);
    assert_int_equal(answer.reply.code, TG_EPROTOCOL);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_has_the_documented_fields),
        cmocka_unit_test(status_has_a_row_a_node_with_its_health_and_figures),
        cmocka_unit_test(status_has_the_last_changes_of_people),
        cmocka_unit_test(a_shard_without_room_for_its_peers_makes_the_node_unhealthy),
        cmocka_unit_test(a_newcomer_outside_the_ring_makes_the_cluster_unhealthy),
        cmocka_unit_test(members_and_ring_list_every_node),
        cmocka_unit_test(regions_are_listed_the_own_one_first),
        cmocka_unit_test(a_node_without_a_cluster_says_so),
        cmocka_unit_test(rules_are_listed_and_validated),
        cmocka_unit_test(pools_are_listed_with_how_they_are_doing),
        cmocka_unit_test(rules_are_explained),
        cmocka_unit_test(unknown_and_malformed_commands_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
