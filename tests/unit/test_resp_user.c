/* test_resp_user.c - Redis clients with tokens: who may ask what, until when, and what a refusal
 * leaves behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/resp_gate_state.h"
#include "node/policy/people/policy_join.h"

enum { PEERS = 4, SESSION = 99, KEPT = 4 };

#define MS     INT64_C(1000000)
#define NOW_MS INT64_C(1700000000000)

#define WRONGPASS "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
#define NOAUTH    "-NOAUTH Authentication required.\r\n"
#define HELLO_NOAUTH                                                                               \
    "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "     \
    "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "     \
    "RESP protocol version at the same time\r\n"
#define NOPERM(user, command, role)                                                                \
    "-NOPERM User " user " has no permissions to run the '" command "' command, which needs the "  \
    "role " role "\r\n"

/* Whose token is which. */
enum { WEB, OPS, LIMITS, LOCAL };

struct bench {
    struct resp_gate *gate;
    struct policy *policy;
    struct resp_peer peers[PEERS];
    char out[PEERS][GATEWAY_OUT_LEN];
    char tokens[KEPT][TOKEN_LEN + 1];
    struct credential_record records[KEPT];
    struct gateway_stats stats;
    const uint8_t *frame;
    size_t frame_len;
};

static struct bench bench;

static struct gateway_peer *find(void *context, uint64_t token)
{
    return &((struct bench *)context)->peers[token].base;
}

static const struct gateway_finder finder = {find, &bench};

/* ---- credentials ----------------------------------------------------------------------------- */

static void make_credential(uint32_t i, const char *name, uint8_t roles)
{
    uint8_t random[TOKEN_RANDOM_LEN];
    struct credential_record *record = &bench.records[i];
    for (size_t k = 0; k < sizeof random; k++)
        random[k] = (uint8_t)((i + 3) * 31 + k * 7);
    token_write(random, NULL, bench.tokens[i]);
    *record = (struct credential_record){.name = {name, strlen(name)},
                                         .roles = roles,
                                         .digest_count = 1,
                                         .created_ms = 5,
                                         .created_by = {"ops", 3},
                                         .revoked_by = {"", 0}};
    digest_make(bench.tokens[i], TOKEN_LEN, &record->digests[0].digest);
}

/* The records are in force from now on, and what was is gone. */
static void put_in_force(void)
{
    static uint8_t bytes[KEPT][CREDENTIAL_RECORD_LEN_MAX];
    struct credential_entry entries[KEPT];
    struct policy_joined with = {.version = 0};
    struct policy *policy;
    for (uint32_t i = 0; i < KEPT; i++) {
        const int len = credential_encode(&bench.records[i], bytes[i], sizeof bytes[i]);
        assert_true(len > 0);
        entries[i] = (struct credential_entry){{bench.tokens[i] + 4, TOKEN_ID_LEN},
                                               {(const char *)bytes[i], (size_t)len}};
    }
    assert_int_equal(credentials_new(alloc_heap(), entries, KEPT, &with.credentials), 0);
    assert_int_equal(policy_join(alloc_heap(), policy_empty(), &with, &policy), 0);
    resp_gate_policy(bench.gate, policy);
    policy_free(&bench.policy);
    bench.policy = policy;
}

static void begin(uint8_t anonymous)
{
    static const struct policy_block local = {.ip = {.len = 4, .bytes = {10}}, .prefix = 8};
    const struct resp_facts facts = {
        .name = "n", .version = "v", .connections_max = PEERS, .anonymous = anonymous};
    memset(&bench, 0, sizeof bench);
    assert_int_equal(resp_gate_new(alloc_heap(), SESSION, &facts, &bench.stats, &bench.gate), 0);
    resp_gate_now(bench.gate, NOW_MS * MS);
    for (uint32_t i = 0; i < PEERS; i++) {
        bench.peers[i].base.id = i + 1;
        (void)snprintf(bench.peers[i].base.address, GATEWAY_ADDRESS_LEN, "10.0.0.%u:5%u", i + 1, i);
        resp_peer_init(&bench.peers[i]);
        bench.peers[i].base.out.data = bench.out[i];
        bench.peers[i].base.out.capacity = GATEWAY_OUT_LEN;
    }
    make_credential(WEB, "web", RIGHT_CHECK);
    make_credential(OPS, "ops", RIGHT_ADJUST | RIGHT_INLINE);
    make_credential(LIMITS, "limits", RIGHT_INLINE);
    make_credential(LOCAL, "local", RIGHT_CHECK);
    bench.records[LOCAL].network_count = 1;
    bench.records[LOCAL].networks[0] = local;
    put_in_force();
}

static int setup(void **state)
{
    (void)state;
    begin(ACCESS_ANONYMOUS);
    return 0;
}

static int setup_closed(void **state)
{
    (void)state;
    begin(0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PEERS; i++)
        resp_gate_close(bench.gate, &bench.peers[i]);
    resp_gate_free(&bench.gate);
    policy_free(&bench.policy);
    return 0;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void submit(void)
{
    bench.frame_len = batches_submit(bench.gate->batches, &bench.frame);
}

/* All of the frame that was submitted last are allowed. */
static void answer(void)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[WIRE_MESSAGE_MAX];
    struct wire_checks checks;
    char error[WIRE_ERROR_LEN];
    if (bench.frame_len == 0)
        return;
    assert_int_equal(wire_decode_checks(bench.frame, bench.frame_len, &space, &checks, error), 0);
    const struct wire_decisions_head head = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    const struct wire_source source = {.rule = wire_text_of("r"), .status = 200};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++) {
        columns.outcomes[i] = OUTCOME_ALLOW;
        columns.flags[i] = WIRE_ALLOWED;
        columns.used[i] = 1;
        columns.source_index[i] = wire_sources_add(&sources, &source);
    }
    const int len = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    assert_true(len > 0);
    batches_answer(bench.gate->batches, reply, (size_t)len, &finder);
    bench.frame_len = 0;
}

static void check_all(void)
{
    batches_check_invariants(bench.gate->batches);
    for (uint32_t i = 0; i < PEERS; i++)
        batches_check_peer(bench.gate->batches, &bench.peers[i].base, i);
}

/* The gate takes all of the text; what waits for others is answered in between if `answers`. */
static void give(uint32_t peer, const char *text, bool answers)
{
    size_t len = strlen(text);
    while (len > 0) {
        size_t used;
        (void)resp_gate_take(bench.gate, &bench.peers[peer], peer, text, len, &used);
        text += used;
        len -= used;
        check_all();
        if (!answers) {
            assert_int_equal(len, 0);
            return;
        }
        submit();
        answer();
    }
    while (!bench.peers[peer].queues && bench.peers[peer].queue.len > 0) { /* what EXEC let go */
        size_t used;
        (void)resp_gate_take(bench.gate, &bench.peers[peer], peer, "", 0, &used);
        submit();
        answer();
    }
}

static void expect(uint32_t peer, const char *wanted)
{
    struct gateway_out *out = &bench.peers[peer].base.out;
    assert_false(out->failed);
    if (out->len != strlen(wanted) || memcmp(out->data, wanted, out->len) != 0)
        fail_msg("peer %u: found \"%.*s\", expected \"%s\"", peer, (int)out->len, out->data,
                 wanted);
    out->len = 0;
}

/* What the peer is answered to commands in which %s is the token of the credential. */
static void expect_of(uint32_t peer, const char *format, uint32_t credential, const char *wanted)
{
    char text[512];
    (void)snprintf(text, sizeof text, format, bench.tokens[credential]);
    give(peer, text, true);
    expect(peer, wanted);
}

static void expect_begins(uint32_t peer, const char *format, uint32_t credential,
                          const char *wanted)
{
    char text[512];
    (void)snprintf(text, sizeof text, format, bench.tokens[credential]);
    give(peer, text, true);
    assert_memory_equal(bench.out[peer], wanted, strlen(wanted));
    bench.peers[peer].base.out.len = 0;
}

#define CHECK   "TG.CHECK api /x\r\n"
#define ALLOWED "*7\r\n:0\r\n:0\r\n:0\r\n:-1\r\n:0\r\n$5\r\nallow\r\n$1\r\nr\r\n"

/* ---- tests ----------------------------------------------------------------------------------- */

static void a_token_has_its_rights_and_no_others(void **state)
{
    static const char *const ways[] = {"AUTH %s\r\n", "AUTH web %s\r\n", "AUTH default %s\r\n"};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        expect_of(i, ways[i], WEB, "+OK\r\n");
        expect_of(i, CHECK, 0, ALLOWED);
        expect_of(i, "TG.HIT u a\r\n", 0, NOPERM("web", "tg.hit", "adjust"));
    }
    expect_begins(3, "HELLO 3 AUTH web %s SETNAME me\r\n", WEB, "%7\r\n$6\r\nserver\r\n");
    expect_of(3, "CLIENT GETNAME\r\nACL WHOAMI\r\n", 0, "$2\r\nme\r\n$3\r\nweb\r\n");
    expect_of(3, "CL.THROTTLE a 15 30 60\r\n", 0, NOPERM("web", "cl.throttle", "inline"));
    expect_of(3, "TG.REFUND u a\r\nTG.RESET u a\r\n", 0,
              NOPERM("web", "tg.refund", "adjust") NOPERM("web", "tg.reset", "adjust"));
    expect_of(3, "TG.LOAD pool 0.5\r\n", 0, NOPERM("web", "tg.load", "adjust"));
    expect_of(3, "DEL a\r\nEXISTS a\r\n", 0,
              NOPERM("web", "del", "adjust") NOPERM("web", "exists", "inline"));
    expect_begins(3, "TG.PEEK u a\r\n", 0, "*7\r\n:0\r\n");
    expect_of(3, "AUTH ops %s\r\n", OPS, "+OK\r\n"); /* in place of what it was */
    expect_of(3, "ACL WHOAMI\r\nDEL a b\r\nEXISTS a\r\n", 0, "$3\r\nops\r\n:2\r\n:1\r\n");
    expect_begins(3, "TG.HIT u a\r\n", 0, "*7\r\n:0\r\n");
    expect_of(3, "AUTH limits %s\r\n", LIMITS, "+OK\r\n");
    expect_begins(3, "CL.THROTTLE a 15 30 60 1\r\n", 0, "*5\r\n:0\r\n");
    expect_of(3, "CL.THROTTLE a 15 30 60 -1\r\n", 0, NOPERM("limits", "cl.throttle", "adjust"));
    expect_of(3, "RESET\r\nACL WHOAMI\r\n", 0, "+RESET\r\n$7\r\ndefault\r\n");
    expect_begins(3, "TG.HIT u a\r\n", 0, "*7\r\n:0\r\n");
}

/* And who was somebody before stays who he was. */
static void what_is_no_good_token_is_a_wrong_password(void **state)
{
    char cut[TOKEN_LEN + 16];
    (void)state;
    expect_of(0, "AUTH web %s\r\n", WEB, "+OK\r\n");
    expect_of(0, "AUTH ops %s\r\n", WEB, WRONGPASS);
    expect_of(0, "AUTH we %s\r\n", WEB, WRONGPASS);
    expect_of(0, "HELLO 3 AUTH ops %s\r\n", WEB, WRONGPASS);
    expect_of(0, "AUTH web x\r\nAUTH eve x\r\nHELLO 2 AUTH eve x\r\n", 0,
              WRONGPASS WRONGPASS WRONGPASS);
    expect_of(0, "AUTH tgt_\r\nAUTH default tgt_x\r\nHELLO 3 AUTH default tgt_x\r\n", 0,
              WRONGPASS WRONGPASS WRONGPASS);
    (void)snprintf(cut, sizeof cut, "AUTH %.*s\r\n", TOKEN_LEN - 1, bench.tokens[WEB]);
    expect_of(0, cut, 0, WRONGPASS);
    bench.records[OPS].revoked_ms = 1;
    put_in_force();
    expect_of(0, "AUTH %s\r\n", OPS, WRONGPASS);
    expect_of(0, "AUTH a b c\r\n", 0, "-ERR syntax error\r\n");
    expect_of(0, "ACL WHOAMI\r\n" CHECK, 0, "$3\r\nweb\r\n" ALLOWED);
    (void)snprintf(bench.peers[1].base.address, GATEWAY_ADDRESS_LEN, "11.0.0.1:5");
    expect_of(1, "AUTH %s\r\n", LOCAL, WRONGPASS);
    expect_of(2, "AUTH %s\r\n", LOCAL, "+OK\r\n");
}

/* As it was before there were tokens, and as Redis has it without a password. */
static void user_default_needs_no_password_with_anonymous_rights(void **state)
{
    (void)state;
    expect_of(0, "AUTH x\r\n", 0,
              "-ERR AUTH <password> called without any password configured for the default user. "
              "Are you sure your configuration is correct?\r\n");
    expect_of(0, "AUTH default x\r\nACL WHOAMI\r\n" CHECK, 0, "+OK\r\n$7\r\ndefault\r\n" ALLOWED);
    expect_begins(0, "HELLO 2 AUTH default x\r\n", 0, "*14\r\n");
    expect_of(0, "AUTH web %s\r\n", WEB, "+OK\r\n");
    expect_of(0, "AUTH default x\r\nACL WHOAMI\r\n", 0, "+OK\r\n$7\r\ndefault\r\n");
    expect_of(0, "ACL\r\nACL LIST\r\n", 0,
              "-ERR wrong number of arguments for 'acl' command; expected WHOAMI\r\n"
              "-ERR expected ACL WHOAMI; credentials are made and ended by operators\r\n");
}

static void without_anonymous_rights_auth_comes_first(void **state)
{
    static const char *const others[] = {CHECK,
                                         "CL.THROTTLE a 1 1 1\r\n",
                                         "DEL a\r\n",
                                         "TG.LOAD p 0\r\n",
                                         "PING\r\n",
                                         "MULTI\r\n",
                                         "EXEC\r\n",
                                         "INFO\r\n",
                                         "COMMAND\r\n",
                                         "CLIENT LIST\r\n",
                                         "ACL WHOAMI\r\n",
                                         "CLUSTER SLOTS\r\n",
                                         "SUBSCRIBE c\r\n",
                                         "GET\r\n",
                                         "NOTHING\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        expect_of(0, others[i], 0, NOAUTH);
    expect_of(0, "HELLO\r\nHELLO 3\r\nHELLO 3 SETNAME x\r\n", 0,
              HELLO_NOAUTH HELLO_NOAUTH HELLO_NOAUTH);
    assert_int_equal(bench.peers[0].base.out.protocol, 2);
    assert_string_equal(bench.peers[0].name, "");
    expect_of(0, "AUTH x\r\nAUTH default x\r\nHELLO 3 AUTH default x\r\n", 0,
              WRONGPASS WRONGPASS WRONGPASS);
    expect_of(0, CHECK "RESET\r\n" CHECK, 0, NOAUTH "+RESET\r\n" NOAUTH);
    expect_begins(0, "HELLO 3 AUTH default %s\r\n", WEB, "%7\r\n");
    expect_of(0, CHECK "PING\r\n", 0, ALLOWED "+PONG\r\n");
    expect_begins(0, "HELLO 2\r\n", 0, "*14\r\n");
    expect_of(0, "RESET\r\n" CHECK, 0, "+RESET\r\n" NOAUTH);
    expect_of(0, "QUIT\r\n", 0, "+OK\r\n");
    assert_true(bench.peers[0].base.closing);
    assert_int_equal(bench.stats.checks, 1);
}

static void anonymous_roles_are_those_of_the_protocol(void **state)
{
    (void)state;
    bench.gate->facts.anonymous = RIGHT_CHECK;
    expect_of(0, CHECK, 0, ALLOWED);
    expect_of(0, "CL.THROTTLE a 15 30 60\r\n", 0, NOPERM("default", "cl.throttle", "inline"));
    expect_of(0, "TG.HIT u a\r\n", 0, NOPERM("default", "tg.hit", "adjust"));
    bench.gate->facts.anonymous = RIGHT_OBSERVE; /* somebody, who may not ask the shard */
    expect_of(0, "PING\r\n" CHECK, 0, "+PONG\r\n" NOPERM("default", "tg.check", "check"));
}

/* The builder, as far as it is part of the message. */
static void expect_same(const struct wire_checks_builder *before)
{
    const struct wire_checks_builder *now = &bench.gate->batches->builder;
    assert_int_equal(now->count, before->count);
    assert_int_equal(now->template_count, before->template_count);
    assert_int_equal(now->templates_len, before->templates_len);
    assert_int_equal(now->values_len, before->values_len);
    assert_int_equal(now->states_uses, before->states_uses);
}

/* Of one who may not there is nothing in the message, and what follows him is what it says. */
static void a_refused_command_leaves_the_batch_as_it_was(void **state)
{
    static struct wire_checks_builder before;
    static struct wire_checks_space space;
    static const uint64_t wanted[3][2] = {{16, 30}, {3, 9}, {1, 1}};
    struct wire_checks checks;
    char error[WIRE_ERROR_LEN];
    (void)state;
    expect_of(1, "AUTH %s\r\n", WEB, "+OK\r\n");
    expect_of(2, "AUTH %s\r\n", LIMITS, "+OK\r\n");
    give(0, "CL.THROTTLE a 15 30 60 1\r\n", false);
    before = bench.gate->batches->builder;
    give(1, "CL.THROTTLE b 2 9 60 1\r\nTG.HIT other x COST 3\r\nDEL b\r\nTTL b\r\n", false);
    expect(1, NOPERM("web", "cl.throttle", "inline") NOPERM("web", "tg.hit", "adjust")
                  NOPERM("web", "del", "adjust") NOPERM("web", "ttl", "inline"));
    expect_same(&before);
    give(0, "CL.THROTTLE c 2 9 60 1\r\n", false); /* the limit that was refused last but two */
    give(1, "EXISTS b\r\n", false);
    expect(1, NOPERM("web", "exists", "inline"));
    give(2, "TYPE d\r\n", false); /* the limit that was refused last */
    give(1, CHECK, false);        /* others' limits are in the message, and are not his */
    submit();
    assert_int_equal(wire_decode_checks(bench.frame, bench.frame_len, &space, &checks, error), 0);
    assert_int_equal(checks.count, 4);
    assert_int_equal(checks.template_count, 4);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(wire_checks_template(&checks, i)->limit.burst, wanted[i][0]);
        assert_int_equal(wire_checks_template(&checks, i)->limit.count, wanted[i][1]);
        assert_int_equal(wire_checks_key(&checks, i).data[0], "acd"[i]);
    }
    answer();
    assert_int_equal(bench.stats.checks, 4);
    expect(1, ALLOWED);
    expect(2, "+string\r\n");
    /* Half of what DEL asks is allowed, and is not asked. */
    give(2, "DEL a b\r\nTG.LOAD p 1\r\n", false);
    submit();
    assert_int_equal(bench.frame_len, 0);
    assert_int_equal(bench.stats.checks, 4);
    expect(2, NOPERM("limits", "del", "adjust") NOPERM("limits", "tg.load", "adjust"));
}

/* A refusal comes in its turn, behind what was asked before it. */
static void a_refusal_waits_for_the_answers_before_it(void **state)
{
    size_t used;
    static const char text[] = CHECK "TG.HIT u a\r\n" CHECK;
    (void)state;
    expect_of(0, "AUTH %s\r\n", WEB, "+OK\r\n");
    assert_int_equal(resp_gate_take(bench.gate, &bench.peers[0], 0, text, strlen(text), &used),
                     GATEWAY_NEED_ANSWER);
    assert_int_equal(used, strlen(CHECK));
    expect(0, "");
    give(0, text + used, true);
    expect(0, ALLOWED NOPERM("web", "tg.hit", "adjust") ALLOWED);
    bench.records[WEB].revoked_ms = 1;
    give(0, CHECK, false);
    put_in_force();
    assert_int_equal(resp_gate_take(bench.gate, &bench.peers[0], 0, CHECK, strlen(CHECK), &used),
                     GATEWAY_NEED_ANSWER);
    expect(0, "");
    give(0, CHECK, true);
    expect(0, ALLOWED NOAUTH);
}

/* Whatever ends it, and although who shows nothing may ask. */
static void a_credential_that_ends_ends_for_living_connections(void **state)
{
    struct credential_record *web = &bench.records[WEB];
    const struct credential_record whole = *web;
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        *web = whole;
        put_in_force();
        resp_gate_now(bench.gate, NOW_MS * MS);
        expect_of(0, "AUTH %s\r\n", WEB, "+OK\r\n");
        expect_of(0, CHECK, 0, ALLOWED);
        if (i == 0) {
            web->revoked_ms = 1;
        } else if (i == 1) {
            web->expires_ms = NOW_MS + 1000;
        } else if (i == 2) {
            web->digests[1] = web->digests[0];
            web->digests[1].until_ms = NOW_MS + 1000;
            digest_make("a newer one", 11, &web->digests[0].digest);
            web->digest_count = 2;
        } else if (i == 3) {
            web->network_count = 1;
            web->networks[0] = (struct policy_block){.ip = {.len = 4, .bytes = {192}}, .prefix = 8};
        } else {
            digest_make("a newer one", 11, &web->digests[0].digest);
        }
        put_in_force();
        if (i == 1 || i == 2) {
            resp_gate_now(bench.gate, (NOW_MS + 999) * MS);
            expect_of(0, CHECK, 0, ALLOWED);
            resp_gate_now(bench.gate, (NOW_MS + 1000) * MS);
        }
        expect_of(0, CHECK "PING\r\nACL WHOAMI\r\n", 0, NOAUTH NOAUTH NOAUTH);
        expect_of(0, "HELLO 3\r\n", 0, HELLO_NOAUTH);
        expect_of(0, "AUTH %s\r\n", WEB, WRONGPASS);
        expect_of(0, CHECK, 0, NOAUTH);
    }
    expect_of(0, "AUTH ops %s\r\n", OPS, "+OK\r\n");
    bench.records[OPS].roles = RIGHT_CHECK;
    put_in_force();
    expect_of(0, "TG.HIT u a\r\n", 0, NOPERM("ops", "tg.hit", "adjust"));
    bench.records[OPS].roles = RIGHT_ADJUST;
    put_in_force();
    expect_begins(0, "TG.HIT u a\r\n", 0, "*7\r\n:0\r\n");
}

static void a_transaction_is_refused_where_a_command_of_it_is(void **state)
{
    (void)state;
    expect_of(0, "AUTH %s\r\n", WEB, "+OK\r\n");
    expect_of(0, "MULTI\r\n" CHECK "TG.HIT u a\r\nDEL a\r\nPING\r\nEXEC\r\n", 0,
              "+OK\r\n+QUEUED\r\n" NOPERM("web", "tg.hit", "adjust")
                  NOPERM("web", "del", "adjust") "+QUEUED\r\n-EXECABORT Transaction discarded "
                                                 "because of previous errors.\r\n");
    assert_int_equal(bench.stats.checks, 0);
    expect_of(0, "MULTI\r\n" CHECK "CL.THROTTLE a\r\nEXEC\r\n", 0,
              "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" ALLOWED
              "-Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> "
              "[<quantity>]\r\n");
    assert_int_equal(bench.stats.checks, 1);
}

/* What ends between MULTI and EXEC ends what was kept; RESET, or EXEC, gets out of it. */
static void a_transaction_ends_with_its_credential(void **state)
{
    (void)state;
    expect_of(0, "AUTH %s\r\n", WEB, "+OK\r\n");
    expect_of(1, "AUTH %s\r\n", OPS, "+OK\r\n");
    expect_of(0, "MULTI\r\n" CHECK, 0, "+OK\r\n+QUEUED\r\n");
    expect_of(1, "MULTI\r\nTG.HIT u a\r\nPING\r\n", 0, "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    bench.records[WEB].revoked_ms = 1;
    bench.records[OPS].roles = RIGHT_CHECK;
    put_in_force();
    expect_of(
        0, CHECK "EXEC\r\nEXEC\r\nRESET\r\n" CHECK, 0,
        NOAUTH
        "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n" NOAUTH
        "+RESET\r\n" ALLOWED);
    expect_of(1, "EXEC\r\n", 0, "*2\r\n" NOPERM("ops", "tg.hit", "adjust") "+PONG\r\n");
    assert_int_equal(bench.stats.checks, 1);
}

/* The same limit is looked at for a transaction, and asked by another peer: it is its own. */
static void looking_at_a_kept_command_leaves_nothing_in_the_batch(void **state)
{
    static struct wire_checks_space space;
    struct wire_checks checks;
    char error[WIRE_ERROR_LEN];
    (void)state;
    give(0, "CL.THROTTLE a 15 30 60 1\r\n", false);
    give(1, "MULTI\r\nCL.THROTTLE b 2 9 60 1\r\nTG.LOAD p 0\r\n", true);
    expect(1, "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    give(2, "MULTI\r\nCL.THROTTLE b 3 9 60 1\r\n", false);
    give(3, "CL.THROTTLE c 3 9 60 1\r\n", false);
    submit();
    assert_int_equal(wire_decode_checks(bench.frame, bench.frame_len, &space, &checks, error), 0);
    assert_int_equal(checks.count, 1);
    assert_int_equal(checks.template_count, 1);
    assert_int_equal(wire_checks_template(&checks, 0)->limit.burst, 4);
    answer();
}

/* It is not known yet whose it is, so that is no wrong password; who needs none goes on. */
static void before_credentials_are_known_a_token_is_not_judged(void **state)
{
    (void)state;
    resp_gate_policy(bench.gate, NULL);
    expect_begins(0, "AUTH %s\r\n", WEB, "-UNAVAILABLE the node does not know the credentials");
    expect_begins(0, "HELLO 3 AUTH web %s\r\n", WEB, "-UNAVAILABLE ");
    expect_of(0, "AUTH tgt_x\r\nAUTH eve x\r\n", 0, WRONGPASS WRONGPASS);
    expect_of(0, CHECK, 0, ALLOWED);
    put_in_force();
    expect_of(0, "AUTH %s\r\n", WEB, "+OK\r\n");
}

int main(void)
{
#define OPEN(name)   cmocka_unit_test_setup_teardown(name, setup, teardown)
#define CLOSED(name) cmocka_unit_test_setup_teardown(name, setup_closed, teardown)
    const struct CMUnitTest tests[] = {
        OPEN(a_token_has_its_rights_and_no_others),
        OPEN(what_is_no_good_token_is_a_wrong_password),
        OPEN(user_default_needs_no_password_with_anonymous_rights),
        CLOSED(without_anonymous_rights_auth_comes_first),
        OPEN(anonymous_roles_are_those_of_the_protocol),
        OPEN(a_refused_command_leaves_the_batch_as_it_was),
        OPEN(a_refusal_waits_for_the_answers_before_it),
        OPEN(a_credential_that_ends_ends_for_living_connections),
        OPEN(a_transaction_is_refused_where_a_command_of_it_is),
        OPEN(a_transaction_ends_with_its_credential),
        OPEN(looking_at_a_kept_command_leaves_nothing_in_the_batch),
        OPEN(before_credentials_are_known_a_token_is_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
