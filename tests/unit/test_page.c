/* test_page.c - the page of a node: hostile names stay text, and the policy lets its own parts run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "base/digest.h"
#include "base/mp_walk.h"
#include "node/gateway/api/api_routes.h"
#include "node/gateway/http/http_gate.h"
#include "node/gateway/page/page_parts.h"

enum { OUT = 1 << 20, TOKENS = 64, SESSION = 3 };

#define TOKEN  "tga_token"
#define IMAGE  "<img src=x onerror=alert(1)>"
#define BEARER "Authorization: Bearer " TOKEN "\r\n"

struct bench {
    struct http_gate *gate;
    struct http_peer peer;
    struct gateway_stats stats;
    struct digest operators;
    char *out;
    struct wire_admin admin;
    bool asked;
    bool checks; /* the shard: checks, and no command */
};

static struct bench bench;

static struct gateway_peer *find(void *context, uint64_t token)
{
    (void)token;
    return context;
}

static const struct gateway_finder finder = {find, &bench.peer.base};

static int setup(void **state)
{
    (void)state;
    memset(&bench, 0, sizeof bench);
    digest_make(TOKEN, strlen(TOKEN), &bench.operators);
    struct http_facts facts = {.name = "n1", .version = "9", .operators = &bench.operators};
    facts.routes = api_routes(&facts.route_count);
    assert_int_equal(http_gate_new(alloc_heap(), SESSION, &facts, &bench.stats, &bench.gate), 0);
    bench.out = malloc(OUT);
    assert_non_null(bench.out);
    bench.peer.base.out.data = bench.out;
    bench.peer.base.out.capacity = OUT;
    http_gate_open(bench.gate, &bench.peer);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_gate_free(&bench.gate);
    free(bench.out);
    return 0;
}

static void say(const char *line, const char *authorization)
{
    static struct mp_token tokens[TOKENS];
    static uint8_t copy[1024];
    char request[2048];
    char error[WIRE_ERROR_LEN];
    const uint8_t *frame;
    size_t used;
    bench.peer.base.out.len = 0;
    (void)snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", line,
                   authorization);
    (void)http_gate_take(bench.gate, &bench.peer, 0, request, strlen(request), &used);
    assert_int_equal(used, strlen(request));
    const size_t len = http_gate_submit(bench.gate, &frame);
    bench.asked = len > 0;
    if (!bench.asked)
        return;
    memcpy(copy, frame, len);
    bench.checks = wire_decode_admin(copy, len, tokens, TOKENS, &bench.admin, error) != 0;
}

static void asks(const char *command)
{
    assert_true(bench.asked && !bench.checks);
    assert_int_equal(bench.admin.command.len, strlen(command));
    assert_memory_equal(bench.admin.command.data, command, strlen(command));
}

static const char *heard(void)
{
    bench.out[bench.peer.base.out.len] = '\0';
    return bench.out;
}

static void expect(const char *part)
{
    if (strstr(heard(), part) == NULL)
        fail_msg("'%s' is not in: %s", part, heard());
}

static void put(struct mp_writer *writer, const char *name, const char *value)
{
    mp_put_str(writer, name);
    mp_put_str(writer, value);
}

/* A cluster in which everything that has a name is called like an image. */
static void answer(void)
{
    static uint8_t reply[4096];
    struct mp_writer writer;
    mp_writer_init(&writer, reply, sizeof reply);
    wire_begin_admin_reply(&writer, bench.admin.session, bench.admin.seq, 0);
    mp_put_map(&writer, 6);
    put(&writer, "node", IMAGE);
    put(&writer, "version", "\"'&\x1b\xff\n");
    mp_put_str(&writer, "conditions");
    mp_put_array(&writer, 1);
    mp_put_map(&writer, 5);
    mp_put_str(&writer, "grave");
    mp_put_bool(&writer, true);
    put(&writer, "node", IMAGE);
    put(&writer, "says", IMAGE " is not alive");
    put(&writer, "means", IMAGE);
    put(&writer, "advice", IMAGE);
    mp_put_str(&writer, "nodes");
    mp_put_array(&writer, 1);
    mp_put_map(&writer, 5);
    put(&writer, "name", IMAGE);
    put(&writer, "region", IMAGE);
    put(&writer, "state", "dead");
    put(&writer, "version", IMAGE);
    mp_put_str(&writer, "health");
    mp_put_array(&writer, 1);
    mp_put_str(&writer, "not_alive");
    mp_put_str(&writer, "busiest");
    mp_put_array(&writer, 1);
    mp_put_map(&writer, 2);
    put(&writer, "rule", IMAGE);
    mp_put_str(&writer, "checks_per_s");
    mp_put_real(&writer, 2.5);
    mp_put_str(&writer, "changes");
    mp_put_array(&writer, 1);
    mp_put_map(&writer, 4);
    put(&writer, "time", "2026-11-26T20:05:36Z");
    put(&writer, "author", IMAGE);
    put(&writer, "says", IMAGE);
    put(&writer, "note", IMAGE);
    assert_false(writer.failed);
    http_gate_answer(bench.gate, reply, writer.len, &finder);
}

/* The node refuses, in words like an image. */
static void refuse(void)
{
    uint8_t reply[256];
    struct mp_writer writer;
    mp_writer_init(&writer, reply, sizeof reply);
    wire_begin_admin_reply(&writer, bench.admin.session, bench.admin.seq, TG_EINVALID);
    mp_put_str(&writer, IMAGE);
    http_gate_answer(bench.gate, reply, writer.len, &finder);
}

/* PAGE-1: a rule may be called anything. */
static void whatever_has_a_name_stays_text(void **state)
{
    (void)state;
    say("GET /", BEARER);
    asks("status");
    answer();
    expect("HTTP/1.1 200 OK\r\n");
    expect("Content-Type: text/html; charset=utf-8\r\n");
    expect("DEGRADED:</b> &lt;img src=x onerror=alert(1)&gt; is not alive");
    expect("<td>&lt;img src=x onerror=alert(1)&gt;</td>");
    expect("release &quot;&#39;&amp;\xef\xbf\xbd\xef\xbf\xbd </p>");
    expect("<tr class=\"ill\">");
    assert_null(strstr(heard(), "<img"));
    assert_null(strstr(heard(), "onclick"));
}

/* PAGE-2: the digests in the policy are those of the style and the script. */
static void the_policy_names_what_the_page_has(void **state)
{
    const char *const parts[] = {page_style, page_script};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        unsigned char digest[crypto_hash_sha256_BYTES];
        char text[64] = "'sha256-";
        (void)crypto_hash_sha256(digest, (const unsigned char *)parts[i], strlen(parts[i]));
        (void)sodium_bin2base64(text + strlen(text), sizeof text - strlen(text), digest,
                                sizeof digest, sodium_base64_VARIANT_ORIGINAL);
        if (strstr(page_policy, text) == NULL)
            fail_msg("page_policy lacks %s'", text);
    }
    say("GET /", BEARER);
    answer();
    expect("Content-Security-Policy: default-src 'none'; ");
    expect(page_style);
    expect(page_script);
}

/* Only the page may be asked for by what a browser sends by itself. */
static void a_browser_may_have_the_token_as_a_password_for_the_page_alone(void **state)
{
    static const struct {
        const char *plain;
        bool good;
    } passwords[] = {{"admin:" TOKEN, true}, {":" TOKEN, true},
                     {"a:b:" TOKEN, false},  {"admin:" TOKEN "x", false},
                     {TOKEN, false},         {"", false},
                     {"admin:", false}};
    (void)state;
    for (size_t i = 0; i < sizeof passwords / sizeof *passwords; i++) {
        char line[256] = "Authorization: Basic ";
        (void)sodium_bin2base64(line + strlen(line), sizeof line - strlen(line),
                                (const unsigned char *)passwords[i].plain,
                                strlen(passwords[i].plain), sodium_base64_VARIANT_ORIGINAL);
        (void)snprintf(line + strlen(line), sizeof line - strlen(line), "\r\n");
        say("GET /", line);
        assert_int_equal(bench.asked, passwords[i].good);
        if (passwords[i].good)
            answer();
        else
            expect("WWW-Authenticate: Basic realm=");
        say("GET /v1/status", line);
        assert_false(bench.asked);
        expect("WWW-Authenticate: Bearer realm=");
    }
    say("GET /", "Authorization: Basic !!!\r\n");
    assert_false(bench.asked);
    say("GET /", "");
    assert_false(bench.asked);
    expect("HTTP/1.1 401 Unauthorized\r\n");
}

/* ---- questions on requests ------------------------------------------------------------------- */

static void what_a_form_asks_becomes_the_attributes_of_a_question(void **state)
{
    static const struct {
        const char *query;
        const char *command; /* NULL: checks */
        uint32_t count;
        const char *name; /* of the last attribute */
        const char *value;
    } cases[] = {
        {"request=api%3D%2Fx+user%3Dada&see=rules", "rules.explain", 2, "user", "ada"},
        {"see=owner&request=+api=/x++user=a=b+", "owner", 2, "user", "a=b"},
        {"request=api%3D%2Fx%0D%0Auser%3Dada+l.+%0D%0A&see=owner", "owner", 2, "user", "ada l."},
        {"request=user%3D&see=rules", "rules.explain", 1, "user", ""},
        {"request=user%3Dada&see=left", NULL, 1, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        (void)snprintf(line, sizeof line, "GET /look?%s", cases[i].query);
        say(line, BEARER);
        assert_true(bench.asked);
        assert_int_equal(bench.checks, cases[i].command == NULL);
        if (cases[i].command == NULL)
            return;
        asks(cases[i].command);
        const struct wire_value *all = &bench.admin.arguments;
        const struct mp_token *map = mp_find(all->tokens, all->token_count, "attributes");
        assert_non_null(map);
        assert_int_equal(map->count, cases[i].count);
        const struct mp_token *last =
            mp_find(map, all->token_count - (size_t)(map - all->tokens), cases[i].name);
        assert_non_null(last);
        assert_int_equal(last->count, strlen(cases[i].value));
        assert_memory_equal(last->data, cases[i].value, last->count);
        refuse();
    }
}

static void what_is_no_attribute_is_told_on_a_page_and_what_is_no_form_is_refused(void **state)
{
    static const char *const pages[][2] = {
        {"request=ada&see=left", "found &quot;ada&quot;, expected NAME=VALUE"},
        {"request=%3Dx&see=rules", "found &quot;=x&quot;"},
        {"request=++&see=left", "found no attribute"},
        {"see=left", "found no attribute"},
        {"request=a%3D1+a%3D2&see=owner", "found a twice"},
        {"request=%3Cimg&see=left", "found &quot;&lt;img&quot;"},
    };
    static const char *const none[] = {"request=a%3D1", "request=a%3D1&see=all", "see=left&x=1",
                                       "see=left&request=%zz"};
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char line[256];
        (void)snprintf(line, sizeof line, "GET /look?%s", pages[i][0]);
        say(line, BEARER);
        assert_false(bench.asked);
        expect("HTTP/1.1 200 OK\r\n");
        expect("not asked:</b>");
        expect(pages[i][1]);
        expect(page_script);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char line[256];
        (void)snprintf(line, sizeof line, "GET /look?%s", none[i]);
        say(line, BEARER);
        assert_false(bench.asked);
        expect("HTTP/1.1 400 Bad Request\r\n");
    }
}

static void what_a_node_refuses_stays_text_as_does_what_was_asked(void **state)
{
    (void)state;
    say("GET /look?request=user%3D%3C%2Ftextarea%3E%3Cimg%3E&see=rules", BEARER);
    asks("rules.explain");
    refuse();
    expect("not asked:</b> &lt;img src=x onerror=alert(1)&gt;");
    expect(">user=&lt;/textarea&gt;&lt;img&gt;</textarea>");
    assert_null(strstr(heard(), "<img"));
}

/* ---- live ------------------------------------------------------------------------------------ */

static void the_stream_has_what_the_page_has_a_line_of_data_each(void **state)
{
    (void)state;
    say("GET /live", BEARER);
    asks("status");
    expect("Content-Type: text/event-stream\r\n");
    bench.peer.base.out.len = 0;
    answer();
    expect("event: DEGRADED\ndata: <div class=\"verdict ill\">");
    expect("&lt;img src=x onerror=alert(1)&gt; is not alive");
    assert_null(strstr(heard(), "<img"));
    const char *event = strstr(heard(), "event:");
    assert_null(memchr(event, '\r', (size_t)(strstr(event, "\n\n") - event)));
    for (const char *line = strstr(heard(), "data: "); strncmp(line, "\n", 1) != 0;
         line = strchr(line, '\n') + 1)
        assert_memory_equal(line, "data: ", 6);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(whatever_has_a_name_stays_text),
        TEST(the_policy_names_what_the_page_has),
        TEST(a_browser_may_have_the_token_as_a_password_for_the_page_alone),
        TEST(what_a_form_asks_becomes_the_attributes_of_a_question),
        TEST(what_is_no_attribute_is_told_on_a_page_and_what_is_no_form_is_refused),
        TEST(what_a_node_refuses_stays_text_as_does_what_was_asked),
        TEST(the_stream_has_what_the_page_has_a_line_of_data_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
