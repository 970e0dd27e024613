/* test_rule_removal.c - a rules document without one of its rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/policy/compile/policy_compile.h"
#include "node/policy/compile/rule_removal.h"

static const char document[] = "# all of it\n"
                               "unmatched: deny\n"
                               "rules:\n"
                               "  # about a\n"
                               "  - name: a\n"
                               "    key: [user]   # who\n"
                               "    limits:\n"
                               "      - {rate: 5/h}\n"
                               "\n"
                               "  # about b\n"
                               "  - name: b\n"
                               "    key: [user]\n"
                               "    limits: [{rate: 6/h}]\n"
                               "  - {name: c, key: [user], limits: [{rate: 7/h}]}\n";

static uint32_t line; /* of the rule that was to go last */

static int remove_rule(const char *text, const char *name, char *out, size_t capacity)
{
    size_t len;
    const struct policy_text wanted = {name, strlen(name)};
    const int result = policy_remove_rule(text, strlen(text), &wanted, NULL, alloc_heap(), out,
                                          capacity - 1, &len, &line);
    if (result == 0)
        out[len] = '\0';
    return result;
}

/* The lines of the rule go, and nothing else: comments, order and the other rules stay as written.
 */
static void only_the_lines_of_the_rule_go(void **state)
{
    (void)state;
    char out[1024];
    assert_int_equal(remove_rule(document, "a", out, sizeof out), 0);
    assert_string_equal(out, "# all of it\nunmatched: deny\nrules:\n  # about a\n\n  # about b\n"
                             "  - name: b\n    key: [user]\n    limits: [{rate: 6/h}]\n"
                             "  - {name: c, key: [user], limits: [{rate: 7/h}]}\n");
    assert_int_equal(remove_rule(document, "c", out, sizeof out), 0);
    assert_non_null(strstr(out, "rate: 6/h"));
    assert_null(strstr(out, "name: c"));
}

/* Without its last rule a document still says so: an empty list. */
static void without_the_last_rule_the_list_is_empty(void **state)
{
    (void)state;
    char out[1024];
    struct policy *policy;
    struct policy_error error;
    assert_int_equal(
        remove_rule("rules:\n- name: a\n  key: [u]\n  limits: [{rate: 1/s}]\nunmatched: deny\n",
                    "a", out, sizeof out),
        0);
    assert_int_equal(policy_compile(out, strlen(out), alloc_heap(), &policy, &error), 0);
    assert_int_equal(policy_rule_count(policy), 0);
    assert_true(policy_unmatched_deny(policy));
    policy_free(&policy);
}

/* The rules that tiers become are no elements of the list: it is empty without them. */
static void beside_tiers_the_list_may_become_empty(void **state)
{
    (void)state;
    char out[1024];
    static const char tiers[] = "tiers: {free: {limits: [{rate: 1/s}]}}\nrules:\n"
                                "- {name: a, key: [u], limits: [{rate: 1/s}]}\n";
    assert_int_equal(remove_rule(tiers, "a", out, sizeof out), 0);
    assert_string_equal(out, "tiers: {free: {limits: [{rate: 1/s}]}}\nrules:\n  []\n");
    assert_int_equal(remove_rule(tiers, "tier free", out, sizeof out), TG_EUNSUPPORTED);
}

/* Another rule may take from the lines of the one that goes, and would then take something else. */
static void a_cut_that_would_change_another_rule_is_refused(void **state)
{
    (void)state;
    char out[1024];
    static const char anchors[] = "rules:\n"
                                  "- {name: a, key: [u], limits: &l [{rate: 1/s}]}\n"
                                  "- {name: b, key: [u], limits: &l [{rate: 2/s}]}\n"
                                  "- {name: c, key: [u], limits: *l}\n";
    assert_int_equal(remove_rule(anchors, "b", out, sizeof out), TG_EUNSUPPORTED);
    assert_int_equal(remove_rule(anchors, "a", out, sizeof out), 0);
    assert_int_equal(remove_rule(anchors, "c", out, sizeof out), 0);
}

/* In flow style, as in JSON, the braces of the rule go with one comma, and nothing else. */
static void in_flow_style_the_braces_go_with_a_comma(void **state)
{
    (void)state;
    char out[1024];
    static const char flow[] =
        "unmatched: deny\nrules: [{name: a, key: [u], limits: [{rate: 1/s}]},\n"
        "  {name: \"b}\", key: [u], match: {api: '/x,]it''s{', path: it's/*}, limits: [{rate: "
        "2/s}]}, # it's {the last\n"
        "  {name: c, key: [u], limits: [{rate: 3/s}]}\n]\n";
    static const char json[] = "{\"rules\": [{\"name\": \"\xc3\xa4 \\\"\", \"key\": [\"u\"], "
                               "\"limits\": [{\"rate\": \"1/s\"}]},{\"name\":\"b\", "
                               "\"key\":[\"u\"], \"limits\": [{\"rate\":\"1/s\"}]}]}";
    assert_int_equal(remove_rule(flow, "a", out, sizeof out), 0);
    assert_int_equal(line, 2);
    assert_ptr_equal(strstr(out, "unmatched: deny\nrules: [{name: \"b}\""), out);
    assert_int_equal(remove_rule(flow, "b}", out, sizeof out), 0);
    assert_non_null(strstr(out, "{rate: 1/s}]},\n  # it's {the last\n  {name: c"));
    assert_int_equal(remove_rule(flow, "c", out, sizeof out), 0);
    assert_non_null(strstr(out, "limits: [{rate: 2/s}]}, # it's"));
    assert_int_equal(remove_rule(json, "b", out, sizeof out), 0);
    assert_non_null(strstr(out, "\"1/s\"}]}]}"));
    assert_int_equal(remove_rule(json, "\xc3\xa4 \"", out, sizeof out), 0);
    assert_ptr_equal(strstr(out, "{\"rules\": [{\"name\":\"b\""), out);
    assert_int_equal(
        remove_rule("rules: [ {name: a, key: [u], limits: [{rate: 1/s}]} ]", "a", out, sizeof out),
        0);
    assert_string_equal(out, "rules: [  ]");
}

/* What cannot be taken out, or does not compile, is refused and not guessed at; the line is told.
 */
static void what_cannot_be_taken_out_is_left_alone(void **state)
{
    (void)state;
    char out[1024];
    static const char joined[] = "rules:\n  - {name: a, key: [u], limits: [&l {rate: 1/s}]}\n"
                                 "  - {name: b, key: [u], limits: [*l]}\n";
    static const char shared[] = "rules: [{name: a, key: [u], limits: [&l {rate: 1/s}]},\n"
                                 "  {name: b, key: [u], limits: [*l]}]\n";
    static const char older[] = "{\"api\": {\"/v1\": [{\"caller\": \"phone\", "
                                "\"request-count\": 2, \"time\": 6}]}}";
    assert_int_equal(remove_rule(joined, "a", out, sizeof out), TG_EUNSUPPORTED); /* b needs a */
    assert_int_equal(line, 2);
    assert_int_equal(remove_rule(joined, "b", out, sizeof out), 0);
    assert_int_equal(remove_rule(shared, "a", out, sizeof out), TG_EUNSUPPORTED);
    assert_int_equal(remove_rule(shared, "b", out, sizeof out), 0);
    assert_int_equal(remove_rule(older, "/v1:phone", out, sizeof out), TG_EUNSUPPORTED);
    assert_int_equal(remove_rule(document, "d", out, sizeof out), TG_ENOTFOUND);
    assert_int_equal(remove_rule("rules: 1", "a", out, sizeof out), TG_EINVALID);
    assert_int_equal(remove_rule(document, "a", out, 64), TG_ETOOBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_lines_of_the_rule_go),
        cmocka_unit_test(without_the_last_rule_the_list_is_empty),
        cmocka_unit_test(beside_tiers_the_list_may_become_empty),
        cmocka_unit_test(a_cut_that_would_change_another_rule_is_refused),
        cmocka_unit_test(in_flow_style_the_braces_go_with_a_comma),
        cmocka_unit_test(what_cannot_be_taken_out_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
