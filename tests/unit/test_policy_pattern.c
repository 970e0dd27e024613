/* test_policy_pattern.c - a match says what going back byte by byte says, at a cost that is counted
 * in steps, not timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/model/policy_pattern.h"
#include "tests/unit/support_effort.h"

enum { ROUNDS = EFFORT(EFFORT(2000000)), LONG_ROUNDS = EFFORT(20000), FORMS = 9 };

/* What is right, tried in every way: the rest of a pattern against the rest of a text. */
static bool naive(const char *pattern, size_t plen, const char *text, size_t len)
{
    if (plen == 0)
        return len == 0;
    if (pattern[0] != '*')
        return len > 0 && pattern[0] == text[0] && naive(pattern + 1, plen - 1, text + 1, len - 1);
    if (plen == 1)
        return true;
    for (size_t run = 1; run <= len && text[run - 1] != '/'; run++)
        if (naive(pattern + 1, plen - 1, text + run, len - run))
            return true;
    return false;
}

static bool naive_of_path(const char *pattern, size_t plen, const char *text, size_t len)
{
    char longer[64];
    if (naive(pattern, plen, text, len))
        return true;
    memcpy(longer, text, len);
    longer[len] = '/';
    return plen > 2 && memcmp(pattern + plen - 2, "/*", 2) == 0 &&
           naive(pattern, plen, longer, len + 1);
}

/* The same by going back to the latest star alone, in steps that are no fewer: for long ones. */
static bool going_back(const struct policy_text *pattern, const struct policy_text *text,
                       bool is_path)
{
    const bool folds = is_path && policy_pattern_folds(pattern);
    size_t p = 0;
    size_t t = 0;
    size_t star_p = SIZE_MAX;
    size_t star_t = 0;
    for (;;) {
        if (p + 1 == pattern->len && pattern->data[p] == '*')
            return true;
        if (t == text->len && (p == pattern->len || (folds && p + 2 == pattern->len)))
            return true;
        const bool star = p < pattern->len && pattern->data[p] == '*';
        if (star && t < text->len && text->data[t] != '/') {
            star_p = ++p;
            star_t = ++t;
        } else if (!star && p < pattern->len && t < text->len &&
                   pattern->data[p] == text->data[t]) {
            p++;
            t++;
        } else {
            if (star_p == SIZE_MAX || star_t == text->len || text->data[star_t] == '/')
                return false;
            p = star_p;
            t = ++star_t;
        }
    }
}

static size_t random_text(struct random *random, const char *alphabet, size_t len, char *out)
{
    const size_t letters = strlen(alphabet);
    for (size_t i = 0; i < len; i++)
        out[i] = alphabet[random_below(random, letters)];
    return len;
}

/* Both ways of the matcher: as it comes, and with the places of the text learned before. */
static void check(const struct policy_text *pattern, const struct policy_text *text, bool is_path,
                  bool expected)
{
    static struct policy_pattern_space space;
    policy_pattern_begin(&space);
    const bool first = policy_pattern_match(pattern, text, is_path, &space);
    space.data = text->data;
    space.len = text->len + 1; /* of another text: it is learned at the first mismatch */
    const bool learned = policy_pattern_match(pattern, text, is_path, &space);
    if (first != expected || learned != expected)
        fail_msg("pattern %.*s, %s %.*s: %d, %d when it is learned; expected %d", (int)pattern->len,
                 pattern->data, is_path ? "path" : "text", (int)text->len, text->data, first,
                 learned, expected);
}

static void a_pattern_holds_what_trying_every_run_says(void **state)
{
    struct random random;
    uint64_t held = 0;
    (void)state;
    random_init(&random, 1);
    for (int round = 0; round < ROUNDS; round++) {
        char pattern[16];
        char text[16];
        const size_t plen = random_text(&random, "aab/**", 1 + random_below(&random, 9), pattern);
        const size_t len = random_text(&random, "aab/", random_below(&random, 12), text);
        const struct policy_text of_pattern = {pattern, plen};
        const struct policy_text of_text = {text, len};
        const bool plain = naive(pattern, plen, text, len);
        check(&of_pattern, &of_text, false, plain);
        check(&of_pattern, &of_text, true, naive_of_path(pattern, plen, text, len));
        held += plain;
    }
    assert_in_range(held, ROUNDS / 50, ROUNDS / 2);
}

/* Beyond blocks and rows: texts up to the longest, and patterns made of them, one byte changed or
 * none. */
static void a_long_pattern_holds_what_going_back_says(void **state)
{
    struct random random;
    uint64_t held = 0;
    (void)state;
    random_init(&random, 2);
    for (int round = 0; round < LONG_ROUNDS; round++) {
        char text[POLICY_VALUE_LEN_MAX];
        char pattern[POLICY_VALUE_LEN_MAX];
        const size_t len = random_text(&random, round % 2 == 0 ? "ab" : "aaaaaaaaaaaaaaaaaaab/",
                                       1 + random_below(&random, POLICY_VALUE_LEN_MAX), text);
        size_t plen = 0;
        for (size_t i = 0; i < len;) {
            const size_t taken = 1 + random_below(&random, 200);
            pattern[plen++] = '*';
            i += taken / 4 + 1;
            for (size_t k = 0; k < taken && i < len; k++)
                pattern[plen++] = text[i++];
        }
        if (plen < sizeof(pattern) && random_below(&random, 2) == 0)
            pattern[plen++] = '*';
        if (random_below(&random, 2) == 0)
            pattern[random_below(&random, plen)] = "ab*/"[random_below(&random, 4)];
        const struct policy_text of_pattern = {pattern, plen};
        const struct policy_text of_text = {text, len};
        const bool expected = going_back(&of_pattern, &of_text, false);
        check(&of_pattern, &of_text, false, expected);
        check(&of_pattern, &of_text, true, going_back(&of_pattern, &of_text, true));
        held += expected;
    }
    assert_in_range(held, LONG_ROUNDS / 20, LONG_ROUNDS);
}

/* --- steps ------------------------------------------------------------------------------- */

/* Patterns and texts that are made for going back. */
static size_t put_form(int form, size_t len, char *out)
{
    size_t at = 0;
    out[at++] = '*';
    while (at < len)
        switch (form) {
        case 0: /* many a, and at the end what the text lacks */
            out[at] = at + 1 == len ? 'b' : 'a';
            at++;
            break;
        case 1: /* at the begin */
            out[at] = at == 1 ? 'b' : 'a';
            at++;
            break;
        case 2: /* in the middle */
            out[at] = at == len / 2 ? 'b' : 'a';
            at++;
            break;
        case 3: /* a star behind every second byte */
            out[at] = at % 2 == 1 ? 'a' : '*';
            at++;
            break;
        case 4: /* behind every ninth */
            out[at] = at % 9 == 0 ? '*' : 'a';
            at++;
            break;
        case 5: /* periods */
            out[at] = at % 30 == 0 || at + 1 == len ? 'b' : 'a';
            at++;
            break;
        case 6: /* periods, and too short a one at the end */
            out[at] = at % 30 == 0 || at + 7 == len ? 'b' : 'a';
            at++;
            break;
        case 7: /* the same letters in turn, but for one */
            out[at] = (at % 2 == 0) != (at + 3 == len) ? 'b' : 'a';
            at++;
            break;
        default: /* a piece for each row of places */
            out[at] = at % 58 == 0 ? '*' : 'a';
            at++;
        }
    out[at++] = '*'; /* else the last piece has one place alone */
    return at;
}

static void put_text(int form, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++)
        switch (form) {
        case 0:
            out[i] = 'a';
            break;
        case 1:
            out[i] = i % 30 == 0 ? 'b' : 'a';
            break;
        case 2:
            out[i] = i % 2 == 0 ? 'b' : 'a';
            break;
        case 3:
            out[i] = i % 58 == 57 ? 'b' : 'a';
            break;
        default:
            out[i] = i + 1 == len ? 'b' : 'a';
        }
}

static void a_match_takes_five_steps_a_byte_at_most(void **state)
{
    static struct policy_pattern_space space;
    double most = 0;
    (void)state;
    for (int form = 0; form < FORMS; form++)
        for (int of = 0; of < 5; of++)
            for (size_t plen = 2; plen < POLICY_VALUE_LEN_MAX; plen += 7)
                for (size_t len = POLICY_VALUE_LEN_MAX; len > 300; len -= 103) {
                    char pattern[POLICY_VALUE_LEN_MAX];
                    char text[POLICY_VALUE_LEN_MAX];
                    const struct policy_text of_pattern = {pattern, put_form(form, plen, pattern)};
                    const struct policy_text of_text = {text, len};
                    put_text(of, len, text);
                    policy_pattern_begin(&space);
                    const bool held = policy_pattern_match(&of_pattern, &of_text, false, &space);
                    assert_int_equal(held, going_back(&of_pattern, &of_text, false));
                    if (space.steps >
                        POLICY_PATTERN_STEPS_FIRST + POLICY_PATTERN_STEPS_EACH * (plen + len))
                        fail_msg("form %d of %zu, text %d of %zu: %llu steps", form, plen, of, len,
                                 (unsigned long long)space.steps);
                    const double each = (double)space.steps / (double)(plen + len);
                    most = each > most ? each : most;
                }
    print_message("at most %.2f steps a byte\n", most);
}

/* 5,000 rules whose pattern is *aaa..(100)bN*, and a value of 1,000 a. */
static void five_thousand_patterns_of_one_long_piece_are_few_steps_each(void **state)
{
    enum { RULES = 5000, LEN = 1000 };
    static char file[RULES * 256];
    static char value[LEN];
    char as[101];
    struct policy *policy;
    struct policy_error error;
    struct policy_result result;
    size_t at = (size_t)snprintf(file, sizeof(file), "rules:\n");
    (void)state;
    memset(as, 'a', 100);
    as[100] = '\0';
    memset(value, 'a', LEN);
    for (int i = 0; i < RULES; i++)
        at += (size_t)snprintf(file + at, sizeof(file) - at,
                               "- {name: r%d, match: {user: '*%sb%d*'}, key: [user], "
                               "limits: [{rate: 1/s}]}\n",
                               i, as, i);
    assert_int_equal(policy_compile(file, at, alloc_heap(), &policy, &error), 0);
    const struct policy_attribute user = {"user", 4, value, LEN};
    assert_int_equal(policy_resolve(policy, &user, 1, &result), 0);
    print_message("%u rules, %llu steps\n", result.compared, (unsigned long long)result.steps);
    assert_int_equal(result.action, POLICY_UNMATCHED);
    assert_int_equal(result.compared, RULES);
    assert_in_range(result.steps, 1, (uint64_t)RULES * 2 * 106);
    policy_free(&policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_holds_what_trying_every_run_says),
        cmocka_unit_test(a_long_pattern_holds_what_going_back_says),
        cmocka_unit_test(a_match_takes_five_steps_a_byte_at_most),
        cmocka_unit_test(five_thousand_patterns_of_one_long_piece_are_few_steps_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
