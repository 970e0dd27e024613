/* support_log.c - see support_log.h. */
#include "tests/unit/support_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void log_expect_text(struct policy_text found, const char *wanted)
{
    assert_int_equal(found.len, strlen(wanted));
    if (wanted[0] != '\0')
        assert_memory_equal(found.data, wanted, strlen(wanted));
}

void log_expect_refusals(const struct log_refusal *refusals, size_t count,
                         int (*read)(const char *text, struct log_problem *problem))
{
    for (size_t i = 0; i < count; i++) {
        struct log_problem problem = {.column = 0};
        if (read(refusals[i].text, &problem) != TG_EINVALID)
            fail_msg("was not refused: %s", refusals[i].text);
        if (problem.column != refusals[i].column)
            fail_msg("%s: refused at byte %zu, expected %zu", refusals[i].text, problem.column,
                     refusals[i].column);
        if (strstr(problem.expected, refusals[i].expected) == NULL)
            fail_msg("%s: expected %s, expected that to be %s", refusals[i].text, problem.expected,
                     refusals[i].expected);
    }
}
