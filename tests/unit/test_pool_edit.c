/* test_pool_edit.c - a rules document with a pool set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/policy/compile/pool_edit.h"

#define RULE "  - {name: a, key: [u], limits: [{rate: 1/s}]}\n"

static const struct quantity_rate thousand = {1000, 1000000000};
static const struct quantity_rate none = {0, 0};

static int set(const char *text, const struct pool_edit *edit, char *out, size_t capacity)
{
    size_t len;
    const int result =
        policy_set_pool(text, strlen(text), edit, NULL, alloc_heap(), out, capacity - 1, &len);
    if (result == 0)
        out[len] = '\0';
    return result;
}

static struct pool_edit an_edit(const char *name, struct quantity_rate rate, uint32_t load_max_ppm,
                                uint32_t reserve_percent)
{
    return (struct pool_edit){name, rate, load_max_ppm, reserve_percent, POOL_EDIT_KEPT, NULL};
}

/* The document becomes `wanted` when pool `name` gets that rate. */
static void assert_rated(const char *text, const char *name, const char *wanted)
{
    char out[1024];
    const struct pool_edit edit = an_edit(name, thousand, POOL_EDIT_KEPT, POOL_EDIT_KEPT);
    assert_int_equal(set(text, &edit, out, sizeof out), 0);
    assert_string_equal(out, wanted);
}

/* A pool that is there is written anew where it stands, in either style; the rest stays. */
static void a_pool_that_is_there_is_written_anew(void **state)
{
    (void)state;
    assert_rated("# why\npools:\n  api: {rate: 5/s} # now\n  b: {rate: 7/s}\nrules:\n" RULE, "api",
                 "# why\npools:\n  api: {rate: 1000/s} # now\n  b: {rate: 7/s}\nrules:\n" RULE);
    assert_rated("pools: {api: {rate: 5/s}, b: {rate: 7/s}}\nrules:\n" RULE, "b",
                 "pools: {api: {rate: 5/s}, b: {rate: 1000/s}}\nrules:\n" RULE);
    assert_rated("pools:\n  api:\n    rate: 5/s\n    reserve: 5%\n  # of b\n  b: {rate: 7/s}\n"
                 "rules:\n" RULE,
                 "api",
                 "pools:\n  api: {rate: 1000/s, reserve: 5%}\n  # of b\n  b: {rate: 7/s}\n"
                 "rules:\n" RULE);
}

/* A new pool is the first of those that there are, or the document gets its first ones. */
static void a_new_pool_is_put_before_the_others(void **state)
{
    (void)state;
    assert_rated("rules:\n" RULE "pools:\n    b: {rate: 7/s}\n", "api",
                 "rules:\n" RULE "pools:\n    api: {rate: 1000/s}\n    b: {rate: 7/s}\n");
    assert_rated("pools: {}\nrules:\n" RULE, "api", "pools: {api: {rate: 1000/s}}\nrules:\n" RULE);
    assert_rated("# top\nrules:\n" RULE, "a b\"",
                 "# top\npools:\n  \"a b\\\"\": {rate: 1000/s}\nrules:\n" RULE);
}

/* A document that is JSON stays JSON. */
static void json_stays_json(void **state)
{
    (void)state;
    assert_rated("{\"rules\": []}", "api",
                 "{\"pools\": {\"api\": {\"rate\": \"1000/s\"}}, \"rules\": []}");
    assert_rated("{\"rules\": [], \"pools\": {\"b\": {\"rate\": \"2/s\"}}}", "b",
                 "{\"rules\": [], \"pools\": {\"b\": {\"rate\": \"1000/s\"}}}");
}

/* What is not given stays; all of it can be given; a reserve of 0 and a load of 1 are the defaults.
 */
static void what_is_not_given_stays(void **state)
{
    (void)state;
    char out[1024];
    static const char text[] = "pools: {api: {rate: 9/s, load_max: 0.8, reserve: 5%}}\nrules: []\n";
    struct pool_edit edit = an_edit("api", none, 125000, POOL_EDIT_KEPT);
    assert_int_equal(set(text, &edit, out, sizeof out), 0);
    assert_string_equal(out,
                        "pools: {api: {rate: 9/s, load_max: 0.125, reserve: 5%}}\nrules: []\n");
    edit = an_edit("api", none, 1000000, 0);
    assert_int_equal(set(text, &edit, out, sizeof out), 0);
    assert_string_equal(out, "pools: {api: {rate: 9/s}}\nrules: []\n");
    edit = an_edit("new", thousand, 500000, 10);
    assert_int_equal(set(text, &edit, out, sizeof out), 0);
    assert_non_null(strstr(out, "{new: {rate: 1000/s, load_max: 0.5, reserve: 10%}, api: {rate"));
    edit = an_edit("new", none, 500000, POOL_EDIT_KEPT);
    assert_int_equal(set(text, &edit, out, sizeof out), TG_ENOTFOUND);
}

/* Scope and home stay as they are, too, or become what is asked for; a pool of each region has no
 * home. */
static void a_pool_is_made_global_and_one_of_each_region(void **state)
{
    (void)state;
    char out[1024];
    static const char text[] = "pools: {api: {rate: 9/s, scope: global, home: eu}}\nrules: []\n";
    static const char json[] = "{\"pools\": {\"api\": {\"rate\": \"9/s\"}}, \"rules\": []}";
    struct pool_edit edit = an_edit("api", thousand, POOL_EDIT_KEPT, 5);
    assert_int_equal(set(text, &edit, out, sizeof out), 0);
    assert_string_equal(out, "pools: {api: {rate: 1000/s, reserve: 5%, scope: global, home: eu}}\n"
                             "rules: []\n");
    edit = an_edit("api", none, POOL_EDIT_KEPT, POOL_EDIT_KEPT);
    edit.home = "us \"2\"";
    assert_int_equal(set(text, &edit, out, sizeof out), 0);
    assert_string_equal(out, "pools: {api: {rate: 9/s, scope: global, home: \"us \\\"2\\\"\"}}\n"
                             "rules: []\n");
    assert_int_equal(set(json, &edit, out, sizeof out), TG_ECONFLICT);
    edit.scope = POLICY_SCOPE_GLOBAL;
    edit.home = "us";
    assert_int_equal(set(json, &edit, out, sizeof out), 0);
    assert_string_equal(out, "{\"pools\": {\"api\": {\"rate\": \"9/s\", \"scope\": \"global\", "
                             "\"home\": \"us\"}}, \"rules\": []}");
    edit.scope = POLICY_SCOPE_REGION;
    assert_int_equal(set(text, &edit, out, sizeof out), TG_ECONFLICT);
    edit.home = NULL;
    assert_int_equal(set(text, &edit, out, sizeof out), 0);
    assert_string_equal(out, "pools: {api: {rate: 9/s}}\nrules: []\n");
}

/* What cannot be written into is left alone. */
static void what_cannot_be_written_into_is_left_alone(void **state)
{
    (void)state;
    char out[1024];
    const struct pool_edit edit = an_edit("api", thousand, POOL_EDIT_KEPT, POOL_EDIT_KEPT);
    static const char shared[] = "pools: {b: &p {rate: 5/s}, api: *p}\nrules: []\n";
    static const char older[] = "{\"api\": {\"/v1\": [{\"caller\": \"phone\", "
                                "\"request-count\": 2, \"time\": 6}]}}";
    assert_int_equal(set(shared, &edit, out, sizeof out), TG_EUNSUPPORTED);
    assert_int_equal(set(older, &edit, out, sizeof out), TG_EUNSUPPORTED);
    assert_int_equal(set("rules: 1", &edit, out, sizeof out), TG_EINVALID);
    assert_int_equal(set("rules: []\n", &edit, out, 20), TG_ETOOBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_that_is_there_is_written_anew),
        cmocka_unit_test(a_new_pool_is_put_before_the_others),
        cmocka_unit_test(json_stays_json),
        cmocka_unit_test(what_is_not_given_stays),
        cmocka_unit_test(a_pool_is_made_global_and_one_of_each_region),
        cmocka_unit_test(what_cannot_be_written_into_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
