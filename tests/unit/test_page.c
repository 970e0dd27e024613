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

#include "node/gateway/page/page_parts.h"
#include "tests/unit/support_operator.h"

#define TOKEN OPERATOR_TOKEN
#define IMAGE "<img src=x onerror=alert(1)>"

static struct operator_bench bench;

static int setup(void **state)
{
    (void)state;
    operator_open(&bench);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    operator_close(&bench);
    return 0;
}

static void say(const char *line, const char *authorization)
{
    char request[2048];
    (void)snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", line,
                   authorization);
    operator_say(&bench, request);
}

static bool asked(void)
{
    return bench.asked[0] != '\0';
}

static void expect(const char *part)
{
    operator_expect(&bench, part);
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
    operator_answer(&bench, reply, writer.len);
}

/* The node refuses, in words like an image. */
static void refuse(void)
{
    uint8_t reply[256];
    struct mp_writer writer;
    mp_writer_init(&writer, reply, sizeof reply);
    wire_begin_admin_reply(&writer, bench.admin.session, bench.admin.seq, TG_EINVALID);
    mp_put_str(&writer, IMAGE);
    operator_answer(&bench, reply, writer.len);
}

/* PAGE-1: a rule may be called anything. */
static void whatever_has_a_name_stays_text(void **state)
{
    (void)state;
    say("GET /", OPERATOR_BEARER);
    assert_true(asked());
    answer();
    expect("HTTP/1.1 200 OK\r\n");
    expect("Content-Type: text/html; charset=utf-8\r\n");
    expect("DEGRADED:</b> &lt;img src=x onerror=alert(1)&gt; is not alive");
    expect("<td>&lt;img src=x onerror=alert(1)&gt;</td>");
    expect("release &quot;&#39;&amp;\xef\xbf\xbd\xef\xbf\xbd </p>");
    expect("<tr class=\"ill\">");
    assert_null(strstr(operator_heard(&bench), "<img"));
    assert_null(strstr(operator_heard(&bench), "onclick"));
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
    say("GET /", OPERATOR_BEARER);
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
        assert_int_equal(asked(), passwords[i].good);
        if (passwords[i].good)
            answer();
        else
            expect("WWW-Authenticate: Basic realm=");
        say("GET /v1/status", line);
        assert_false(asked());
        expect("WWW-Authenticate: Bearer realm=");
    }
    say("GET /", "Authorization: Basic !!!\r\n");
    assert_false(asked());
    say("GET /", "");
    assert_false(asked());
    expect("HTTP/1.1 401 Unauthorized\r\n");
}

/* ---- questions on requests ------------------------------------------------------------------- */

static void what_a_form_asks_becomes_the_attributes_of_a_question(void **state)
{
    static const char *const cases[][2] = {
        {"request=api%3D%2Fx+user%3Dada&see=rules",
         "rules.explain {\"attributes\":{\"api\":\"/x\",\"user\":\"ada\"}}"},
        {"see=owner&request=+api=/x++user=a=b+",
         "owner {\"attributes\":{\"api\":\"/x\",\"user\":\"a=b\"}}"},
        {"request=api%3D%2Fx%0D%0Auser%3Dada+l.+%0D%0A&see=owner",
         "owner {\"attributes\":{\"api\":\"/x\",\"user\":\"ada l.\"}}"},
        {"request=user%3D&see=rules", "rules.explain {\"attributes\":{\"user\":\"\"}}"},
        {"request=user%3Dada&see=left", OPERATOR_CHECKS},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        (void)snprintf(line, sizeof line, "GET /look?%s", cases[i][0]);
        say(line, OPERATOR_BEARER);
        assert_string_equal(bench.asked, cases[i][1]);
        if (i + 1 < sizeof cases / sizeof *cases)
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
                                       "see=left&request=%zz", "see=left&request=a%3D1%00"};
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char line[256];
        (void)snprintf(line, sizeof line, "GET /look?%s", pages[i][0]);
        say(line, OPERATOR_BEARER);
        assert_false(asked());
        expect("HTTP/1.1 200 OK\r\n");
        expect("not asked:</b>");
        expect(pages[i][1]);
        expect(page_script);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char line[256];
        (void)snprintf(line, sizeof line, "GET /look?%s", none[i]);
        say(line, OPERATOR_BEARER);
        assert_false(asked());
        expect("HTTP/1.1 400 Bad Request\r\n");
    }
}

static void what_a_node_refuses_stays_text_as_does_what_was_asked(void **state)
{
    (void)state;
    say("GET /look?request=user%3D%3C%2Ftextarea%3E%3Cimg%3E&see=rules", OPERATOR_BEARER);
    assert_true(asked());
    refuse();
    expect("not asked:</b> &lt;img src=x onerror=alert(1)&gt;");
    expect(">user=&lt;/textarea&gt;&lt;img&gt;</textarea>");
    assert_null(strstr(operator_heard(&bench), "<img"));
}

/* ---- live ------------------------------------------------------------------------------------ */

static void the_stream_has_what_the_page_has_a_line_of_data_each(void **state)
{
    (void)state;
    say("GET /live", OPERATOR_BEARER);
    assert_true(asked());
    expect("Content-Type: text/event-stream\r\n");
    bench.peer.base.out.len = 0;
    answer();
    expect("event: DEGRADED\ndata: <div class=\"verdict ill\">");
    expect("&lt;img src=x onerror=alert(1)&gt; is not alive");
    assert_null(strstr(operator_heard(&bench), "<img"));
    const char *event = strstr(operator_heard(&bench), "event:");
    assert_null(memchr(event, '\r', (size_t)(strstr(event, "\n\n") - event)));
    for (const char *line = strstr(operator_heard(&bench), "data: "); strncmp(line, "\n", 1) != 0;
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
