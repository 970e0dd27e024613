/* test_header.c - tidegate.h stands alone and says the same as the floor.
 *
 * This file includes the public header first and nothing of base, as users' programs do.
 */
#include "client/include/tidegate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* The library answers from base's table, the constants are the header's. */
static void error_codes_are_those_of_the_floor(void **state)
{
    static const struct {
        int code;
        const char *name;
    } codes[] = {
        {TG_EINVALID, "TG_EINVALID"},
        {TG_ENOMEM, "TG_ENOMEM"},
        {TG_ETIMEOUT, "TG_ETIMEOUT"},
        {TG_EUNREACHABLE, "TG_EUNREACHABLE"},
        {TG_EPROTOCOL, "TG_EPROTOCOL"},
        {TG_EVERSION, "TG_EVERSION"},
        {TG_ETOOBIG, "TG_ETOOBIG"},
        {TG_EBUSY, "TG_EBUSY"},
        {TG_ENOTFOUND, "TG_ENOTFOUND"},
        {TG_EEXISTS, "TG_EEXISTS"},
        {TG_EIO, "TG_EIO"},
        {TG_ECORRUPT, "TG_ECORRUPT"},
        {TG_EFULL, "TG_EFULL"},
        {TG_ECLOSED, "TG_ECLOSED"},
        {TG_EUNAVAILABLE, "TG_EUNAVAILABLE"},
        {TG_EUNSUPPORTED, "TG_EUNSUPPORTED"},
        {TG_EADDRINUSE, "TG_EADDRINUSE"},
        {TG_ECONFLICT, "TG_ECONFLICT"},
    };
    const int count = sizeof codes / sizeof codes[0];

    (void)state;
    for (int i = 0; i < count; i++) {
        assert_int_equal(codes[i].code, -1 - i);
        assert_string_equal(tg_error_name(codes[i].code), codes[i].name);
        assert_true(strlen(tg_strerror(codes[i].code)) > 4);
    }
    /* A code that the floor has and the header lacks would have a name here. */
    assert_string_equal(tg_error_name(-1 - count), "unknown");
    assert_string_equal(tg_strerror(0), "ok");
    assert_int_equal(tg_retryable(TG_EBUSY), 1);
    assert_int_equal(tg_retryable(TG_EINVALID), 0);
}

/* Numbers on the wire and numbers in the header have the same words. */
static void outcomes_and_algorithms_have_their_words(void **state)
{
    tg_algorithm_t algorithm = TG_TOKEN_BUCKET;

    (void)state;
    assert_string_equal(tg_outcome_name(TG_ALLOW), "allow");
    assert_string_equal(tg_outcome_name(TG_SOFT_EXCEEDED), "soft_exceeded");
    assert_string_equal(tg_outcome_name(TG_ELASTIC_BORROWED), "elastic_borrowed");
    assert_string_equal(tg_outcome_name(TG_SHADOW_DENIED), "shadow_denied");
    assert_string_equal(tg_outcome_name(TG_NO_RULE), "no_rule");
    assert_string_equal(tg_outcome_name(TG_DENY), "deny");
    assert_string_equal(tg_outcome_name(TG_BLOCKED), "blocked");
    assert_string_equal(tg_outcome_name(TG_BUSY), "busy");
    assert_string_equal(tg_outcome_name(TG_ERROR), "error");
    assert_string_equal(tg_algorithm_name(TG_SLIDING_WINDOW), "sliding_window");
    assert_int_equal(tg_algorithm_parse("sliding_log", &algorithm), 0);
    assert_int_equal(algorithm, TG_SLIDING_LOG);
    assert_int_equal(tg_algorithm_parse("fixed_window", &algorithm), 0);
    assert_int_equal(algorithm, TG_FIXED_WINDOW);
    assert_int_equal(tg_algorithm_parse("guess", &algorithm), TG_EINVALID);
}

/* What a request starts out as: one token, check. */
static void a_rate_makes_an_inline_request(void **state)
{
    char error[200] = "";
    tg_limit_t limit;
    tg_request_t request;

    (void)state;
    assert_int_equal(tg_limit_parse("5/60s", &limit, error, sizeof error), 0);
    assert_int_equal(limit.count, 5);
    assert_int_equal(limit.window_ns, 60000000000ULL);
    request = tg_request_inline("k", &limit);
    assert_int_equal(request.cost, 1);
    assert_int_equal(request.operation, TG_CHECK);
    assert_int_equal(tg_limit_parse("5 per hour", &limit, error, sizeof error), TG_EINVALID);
    assert_true(strlen(error) > 10);
    assert_int_equal(tg_limit_parse(NULL, &limit, NULL, 0), TG_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_codes_are_those_of_the_floor),
        cmocka_unit_test(outcomes_and_algorithms_have_their_words),
        cmocka_unit_test(a_rate_makes_an_inline_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
