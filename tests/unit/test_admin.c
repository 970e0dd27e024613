/* test_admin.c - what a client learns of a shard besides decisions: HELLO, the ring, owners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_shard.h"
#include "tests/unit/support_tokens.h"

enum { SEQ = 31, TOKENS_MAX = 256, NAME_LEN = 8 };

static const char KEY[] = "counted";

static const char RULES[] =
    "rules:\n"
    "  - {name: kept, match: {api: /kept}, key: [user], consistency: quorum,"
    " limits: [{rate: 10/d, algorithm: fixed_window}]}\n"
    "  - {name: many, key: [user],"
    " limits: [{rate: 10/m, algorithm: fixed_window}, {rate: 90/d, algorithm: fixed_window}]}\n";

/* ---- help ------------------------------------------------------------------------------------ */

static void say_hello(struct lab *lab, uint32_t version_min, uint32_t version_max)
{
    const struct wire_hello hello = {LAB_SESSION, version_min, version_max, wire_text_of("test")};
    lab_client(lab, 0, wire_encode_hello(&hello, lab->frame, sizeof lab->frame));
}

static struct wire_welcome welcome_of(const struct lab *lab)
{
    char error[WIRE_ERROR_LEN];
    struct wire_welcome welcome;
    const struct lab_reply *reply = lab_last_reply(lab);
    assert_int_equal(wire_decode_welcome(reply->bytes, reply->len, &welcome, error), 0);
    return welcome;
}

static void ask_ring(struct lab *lab, uint32_t at)
{
    const struct wire_get_ring question = {LAB_SESSION, SEQ};
    lab_client(lab, at, wire_encode_get_ring(&question, lab->frame, sizeof lab->frame));
}

/* The ring as shard `at` tells it, in the caller's space. */
static struct wire_ring ring_of(struct lab *lab, uint32_t at, struct wire_ring_space *space)
{
    char error[WIRE_ERROR_LEN];
    struct wire_ring ring;
    ask_ring(lab, at);
    const struct lab_reply *reply = lab_last_reply(lab);
    assert_int_equal(wire_decode_ring(reply->bytes, reply->len, space, &ring, error), 0);
    assert_true(ring.session == LAB_SESSION && ring.seq == SEQ);
    return ring;
}

/* Tells shard 0 a load; `load` < 0 leaves it out. Returns the code of the answer. */
static int tell_load(struct lab *lab, const char *pool, double load)
{
    static struct mp_token tokens[TOKENS_MAX];
    char error[WIRE_ERROR_LEN];
    struct wire_admin_reply reply;
    struct mp_writer writer;
    mp_writer_init(&writer, lab->frame, sizeof lab->frame);
    wire_begin_admin(&writer, LAB_SESSION, SEQ, "pools.report");
    mp_put_map(&writer, load < 0 ? 1 : 2);
    mp_put_str(&writer, "pool");
    mp_put_str(&writer, pool);
    if (load >= 0) {
        mp_put_str(&writer, "load");
        mp_put_real(&writer, load);
    }
    lab_client(lab, 0, (int)writer.len);
    const struct lab_reply *bytes = lab_last_reply(lab);
    if (wire_decode_admin_reply(bytes->bytes, bytes->len, tokens, TOKENS_MAX, &reply, error) != 0)
        return lab_last_error(lab).code;
    tokens_assert_text(tokens_open(reply.value.tokens, reply.value.token_count), "pool", pool);
    return reply.code;
}

/* A load is told to whoever owns the pool; one that cannot be, or of no pool, is refused. */
static void a_load_reaches_the_pool_wherever_it_is_told(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, "pools: {web: {rate: 10/s}, api: {rate: 10/s}}\nrules: []\n");
    assert_int_equal(tell_load(lab, "api", 0.25), 0);
    assert_int_equal(tell_load(lab, "web", 1), 0);
    assert_int_equal(tell_load(lab, "db", 0.25), TG_ENOTFOUND);
    assert_int_equal(tell_load(lab, "api", 1.001), TG_EINVALID);
    assert_int_equal(tell_load(lab, "api", -1), TG_EINVALID);
    assert_int_equal(tell_load(lab, "", 0.5), TG_EINVALID);
    lab_run(lab, 1200 * LAB_MS);
    for (uint32_t at = 0; at < 3; at++) {
        const struct shard_stats stats = lab_stats(lab, at);
        assert_int_equal(stats.pools[0].load_ppm, 250000);
        assert_int_equal(stats.pools[1].load_ppm, 1000000);
    }
    lab_run(lab, 5000 * LAB_MS);
    assert_true(lab_stats(lab, 0).pools[0].load_ppm == PEER_LOAD_UNKNOWN);
}

/* Asks shard 0 for owners: of `key`, and of `attributes` ("name", "value" ..., NULL at the end). */
static void ask_owner(struct lab *lab, const char *key, const char *const *attributes)
{
    struct mp_writer writer;
    uint32_t count = 0;
    while (attributes != NULL && attributes[2 * count] != NULL)
        count++;
    mp_writer_init(&writer, lab->frame, sizeof lab->frame);
    wire_begin_admin(&writer, LAB_SESSION, SEQ, "owner");
    mp_put_map(&writer, (key != NULL ? 1u : 0) + (attributes != NULL ? 1u : 0));
    if (key != NULL) {
        mp_put_str(&writer, "key");
        mp_put_str(&writer, key);
    }
    if (attributes != NULL) {
        mp_put_str(&writer, "attributes");
        mp_put_map(&writer, count);
        for (uint32_t i = 0; i < 2 * count; i++)
            mp_put_str(&writer, attributes[i]);
    }
    assert_false(writer.failed);
    lab_client(lab, 0, (int)writer.len);
}

/* A cursor before the first row of the answer, which has `rows`. */
static struct mp_cursor rows_of(const struct lab *lab, uint32_t rows)
{
    static struct mp_token tokens[TOKENS_MAX];
    char error[WIRE_ERROR_LEN];
    struct wire_admin_reply reply;
    const struct lab_reply *bytes = lab_last_reply(lab);
    assert_int_equal(
        wire_decode_admin_reply(bytes->bytes, bytes->len, tokens, TOKENS_MAX, &reply, error), 0);
    assert_true(reply.session == LAB_SESSION && reply.seq == SEQ && reply.code == 0);
    struct mp_cursor cursor = tokens_open(reply.value.tokens, reply.value.token_count);
    assert_int_equal(mp_get_array(&cursor), rows);
    return cursor;
}

static void assert_node(struct mp_cursor row, const char *name, uint32_t at)
{
    char expected[NAME_LEN];
    (void)snprintf(expected, sizeof expected, "n%u", at);
    tokens_assert_text(row, name, expected);
}

static void assert_replicas(const struct lab *lab, struct mp_cursor row, uint32_t vnode)
{
    struct mp_cursor at = tokens_field(row, "replicas");
    assert_int_equal(mp_get_array(&at), 3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        char name[NAME_LEN];
        char expected[NAME_LEN];
        mp_copy_str(&at, name, sizeof name);
        (void)snprintf(expected, sizeof expected, "n%u", lab_replica(lab, vnode, rank));
        assert_string_equal(name, expected);
    }
}

/* ---- hello ----------------------------------------------------------------------------------- */

/* A client routes by what it learns here, so each word of it has to be the node's own. */
static void hello_teaches_the_route_key_and_who_answers(void **state)
{
    struct lab *lab = *state;
    const struct shard_options *options = &lab->shards[0].options;
    say_hello(lab, WIRE_VERSION, WIRE_VERSION + 4);
    const struct wire_welcome welcome = welcome_of(lab);
    assert_int_equal(welcome.session, LAB_SESSION);
    assert_int_equal(welcome.version, WIRE_VERSION);
    assert_memory_equal(welcome.cluster_id, options->cluster_id, sizeof welcome.cluster_id);
    assert_memory_equal(&welcome.route_key, &options->route_key, sizeof welcome.route_key);
    assert_memory_not_equal(&welcome.route_key, &options->secret, sizeof welcome.route_key);
    assert_int_equal(welcome.node_id, options->node_id);
    assert_true(lab_text_is(welcome.node_name, "n0"));
    assert_true(lab_text_is(welcome.software, "1.2.3"));
    assert_int_equal(welcome.vnodes, LAB_VNODES);
    assert_int_equal(welcome.view_version, lab->shards[0].view->version);
    assert_int_equal(welcome.checks_max, WIRE_CHECKS_MAX);
    assert_int_equal(welcome.message_max, WIRE_MESSAGE_MAX);
}

/* Two releases without a common version must not guess at each other's bytes. */
static void a_client_without_a_common_version_is_refused(void **state)
{
    struct lab *lab = *state;
    say_hello(lab, 0, WIRE_VERSION - 1);
    assert_int_equal(lab_last_error(lab).code, TG_EVERSION);
    say_hello(lab, WIRE_VERSION + 1, WIRE_VERSION + 2);
    assert_int_equal(lab_last_error(lab).code, TG_EVERSION);
    assert_int_equal(lab_last_error(lab).session, LAB_SESSION);
}

/* Before it has joined, a node says who it is, and that it knows no ring yet. */
static void a_node_without_a_cluster_says_hello_and_has_no_ring(void **state)
{
    struct lab *lab = lab_new(1, 1, 1);
    (void)state;
    lab_create(lab, 0);
    say_hello(lab, WIRE_VERSION, WIRE_VERSION);
    assert_int_equal(welcome_of(lab).view_version, 0);
    ask_ring(lab, 0);
    assert_int_equal(lab_last_error(lab).code, TG_EUNAVAILABLE);
    assert_int_equal(lab_last_error(lab).seq, SEQ);
    lab_free(lab);
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* Each vnode's entry is the member that decides it, and the endpoint that of the right shard. */
static void the_ring_names_the_shard_that_decides_each_vnode(void **state)
{
    struct lab *lab = lab_new(3, 2, 3);
    struct wire_ring_space *space = malloc(sizeof *space);
    (void)state;
    assert_non_null(space);
    lab_start_all(lab);
    const struct wire_ring ring = ring_of(lab, 1, space);
    assert_int_equal(ring.epoch, lab->config->epoch);
    assert_int_equal(ring.view_version, lab->shards[1].view->version);
    assert_int_equal(ring.member_count, 3);
    assert_int_equal(ring.vnode_count, LAB_VNODES);
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++) {
        const uint32_t at = lab_leader(lab, vnode);
        const uint32_t member = wire_ring_decider(&ring, vnode);
        char expected[VIEW_TEXT_LEN];
        assert_true(member < ring.member_count);
        assert_int_equal(ring.members[member].node_id, lab->shards[at].node);
        (void)snprintf(expected, sizeof expected, "10.0.0.%u:%u", at / 2 + 1, 7410 + at % 2 * 10);
        assert_true(lab_text_is(wire_ring_endpoint(&ring, member, vnode), expected));
    }
    free(space);
    lab_free(lab);
}

/* A client asks nodes of its own region: none of another one decides for it. */
static void the_ring_lists_members_of_the_own_region(void **state)
{
    struct lab *lab = lab_new(2, 1, 2);
    struct wire_ring_space *space = malloc(sizeof *space);
    (void)state;
    assert_non_null(space);
    lab_start_all(lab);
    lab->remote = LAB_REMOTE_MAX;
    lab_view_all(lab);
    assert_int_equal(ring_of(lab, 0, space).member_count, 2);
    free(space);
    lab_free(lab);
}

/* After a take-over the ring names who decides now, not who is wanted. */
static void the_ring_follows_a_take_over(void **state)
{
    struct lab *lab = *state;
    struct wire_ring_space *space = malloc(sizeof *space);
    assert_non_null(space);
    const uint32_t vnode = lab_vnode_owned(lab, 1);
    lab_stop(lab, 1);
    lab_settle(lab);
    lab_run(lab, 200 * LAB_MS); /* the take-over is told to all */
    const struct wire_ring ring = ring_of(lab, 0, space);
    const uint32_t member = wire_ring_decider(&ring, vnode);
    assert_int_equal(ring.members[member].node_id, lab->shards[lab_replica(lab, vnode, 1)].node);
    free(space);
}

/* ---- owners ---------------------------------------------------------------------------------- */

/* Who asks after a crash wants to see both: whose the key is, and who decides it meanwhile. */
static void owner_tells_the_owner_and_who_decides_in_its_place(void **state)
{
    struct lab *lab = *state;
    char key[LAB_KEY_LEN];
    const uint32_t vnode = lab_vnode_owned(lab, 1);
    const uint32_t heir = lab_replica(lab, vnode, 1);
    lab_key(lab, vnode, 0, key);
    ask_owner(lab, key, NULL);
    struct mp_cursor row = rows_of(lab, 1);
    const uint64_t term = tokens_uint(row, "term");
    assert_node(row, "owner", 1);
    assert_node(row, "decider", 1);
    assert_int_equal(tokens_uint(row, "vnode"), vnode);
    assert_int_equal(tokens_uint(row, "epoch"), lab->config->epoch);
    tokens_assert_text(row, "rule", "");
    tokens_assert_text(row, "window", "");
    assert_replicas(lab, row, vnode);
    lab_stop(lab, 1);
    lab_settle(lab);
    lab_run(lab, 200 * LAB_MS);
    ask_owner(lab, key, NULL);
    row = rows_of(lab, 1);
    assert_node(row, "owner", 1);
    assert_node(row, "decider", heir);
    assert_true(tokens_uint(row, "term") > term);
    assert_replicas(lab, row, vnode);
}

/* One row for each limit that a request meets, in the order in which it meets them. */
static void owner_of_attributes_has_a_row_for_each_limit(void **state)
{
    static const char *const attributes[] = {"user", "ann", "api", "/kept", NULL};
    static const char *const rules[] = {"kept", "many", "many"};
    static const char *const windows[] = {"10/d", "10/m", "90/d"};
    struct lab *lab = *state;
    lab_rules(lab, RULES);
    ask_owner(lab, NULL, attributes);
    struct mp_cursor row = rows_of(lab, 3);
    const struct mp_cursor first = row;
    for (uint32_t i = 0; i < 3; i++) {
        tokens_assert_text(row, "rule", rules[i]);
        tokens_assert_text(row, "window", windows[i]);
        assert_replicas(lab, row, (uint32_t)tokens_uint(row, "vnode"));
        mp_skip(&row);
    }
    row = first;
    mp_skip(&row);
    const uint64_t vnode = tokens_uint(row, "vnode");
    mp_skip(&row);
    assert_int_equal(tokens_uint(row, "vnode"), vnode); /* limits of a rule are decided together */
}

static bool all_of_quorum_decided(struct lab *lab, void *context)
{
    (void)context;
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++)
        if (lab_leader(lab, LAB_VNODES + vnode) == LAB_NONE)
            return false;
    return true;
}

/* Keys of consistency quorum are decided in a plane of their own: the row tells that one's term. */
static void owner_of_a_rule_of_quorum_tells_the_term_of_its_plane(void **state)
{
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    struct term one;
    struct term quorum;
    lab_attribute(lab, "kept", "user", 1, user);
    lab_stop(lab, 1); /* its term of the plane of one is a later one from now on */
    lab_settle(lab);
    lab_start(lab, 1);
    lab_settle(lab);
    lab_rules(lab, RULES);
    lab_until(lab, all_of_quorum_decided, NULL, 5000 * LAB_MS);
    const char *const attributes[] = {"user", strchr(user, '=') + 1, "api", "/kept", NULL};
    ask_owner(lab, NULL, attributes);
    const struct mp_cursor row = rows_of(lab, 3);
    const uint32_t vnode = (uint32_t)tokens_uint(row, "vnode");
    assert_true(vnode < LAB_VNODES);
    (void)shard_vnode(lab->shards[0].shard, vnode, &one);
    (void)shard_vnode(lab->shards[0].shard, LAB_VNODES + vnode, &quorum);
    assert_true(one.number != quorum.number);
    assert_int_equal(tokens_uint(row, "term"), quorum.number);
    assert_node(row, "owner", 1);
    assert_node(row, "decider", lab_leader(lab, LAB_VNODES + vnode));
}

/* A question that can be read in two ways, or in none, is refused with what is expected. */
static void owner_without_one_question_is_refused(void **state)
{
    static const char *const attributes[] = {"user", "ann", NULL};
    static const char *const none[] = {NULL};
    char long_key[WIRE_VALUE_MAX + 2];
    struct lab *lab = *state;
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = '\0';
    const struct {
        const char *key;
        const char *const *attributes;
    } questions[] = {
        {NULL, NULL}, {KEY, attributes}, {"", attributes}, {NULL, none}, {long_key, NULL}};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        ask_owner(lab, questions[i].key, questions[i].attributes);
        assert_int_equal(lab_last_error(lab).code, TG_EINVALID);
        assert_int_equal(lab_last_error(lab).seq, SEQ);
    }
}

/* ---- everything else ------------------------------------------------------------------------- */

/* Commands about the node as a whole go to its control core as they came. */
static void other_commands_are_handed_on_unchanged(void **state)
{
    struct lab *lab = *state;
    struct mp_writer writer;
    mp_writer_init(&writer, lab->frame, sizeof lab->frame);
    wire_begin_admin(&writer, LAB_SESSION, SEQ, "members");
    mp_put_map(&writer, 0);
    const size_t replies = lab->reply_count;
    shard_client(lab->shards[0].shard, lab->now_ns, LAB_CONNECTION, lab->frame, writer.len,
                 &lab->effects);
    assert_int_equal(lab->effects.count, 1);
    const struct effect *effect = &lab->effects.items[0];
    assert_int_equal(effect->kind, EFFECT_ADMIN);
    assert_int_equal(effect->target, LAB_CONNECTION);
    assert_int_equal(effect->len, writer.len);
    assert_memory_equal(effect->bytes, lab->frame, writer.len);
    lab_perform(lab, 0);
    assert_int_equal(lab->reply_count, replies);
}

/* A command that is cut short is answered, and goes nowhere. */
static void a_command_that_cannot_be_read_goes_nowhere(void **state)
{
    struct lab *lab = *state;
    struct mp_writer writer;
    mp_writer_init(&writer, lab->frame, sizeof lab->frame);
    wire_begin_admin(&writer, LAB_SESSION, SEQ, "members");
    mp_put_map(&writer, 0);
    lab_client(lab, 0, (int)writer.len - 1);
    assert_int_equal(lab_last_error(lab).code, TG_EPROTOCOL);
    assert_int_equal(lab->admin_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(hello_teaches_the_route_key_and_who_answers),
        LAB_TEST_THREE(a_client_without_a_common_version_is_refused),
        cmocka_unit_test(a_node_without_a_cluster_says_hello_and_has_no_ring),
        cmocka_unit_test(the_ring_names_the_shard_that_decides_each_vnode),
        cmocka_unit_test(the_ring_lists_members_of_the_own_region),
        LAB_TEST_THREE(the_ring_follows_a_take_over),
        LAB_TEST_THREE(owner_tells_the_owner_and_who_decides_in_its_place),
        LAB_TEST_THREE(a_load_reaches_the_pool_wherever_it_is_told),
        LAB_TEST_THREE(owner_of_attributes_has_a_row_for_each_limit),
        LAB_TEST_THREE(owner_of_a_rule_of_quorum_tells_the_term_of_its_plane),
        LAB_TEST_THREE(owner_without_one_question_is_refused),
        LAB_TEST_THREE(other_commands_are_handed_on_unchanged),
        LAB_TEST_THREE(a_command_that_cannot_be_read_goes_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
