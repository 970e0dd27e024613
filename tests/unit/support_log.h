/* support_log.h - what tests of readers of log lines share: texts that are found, and refusals. */
#ifndef TESTS_UNIT_SUPPORT_LOG_H
#define TESTS_UNIT_SUPPORT_LOG_H

#include <stddef.h>

#include "client/replay/log_line.h"

/* What is no line: at which byte, from 1, it ceases to be one, and a part of the sentence that says
 * what is expected there. */
struct log_refusal {
    const char *text;
    size_t column;
    const char *expected;
};

void log_expect_text(struct policy_text found, const char *wanted);
/* `read` gives 0, or TG_EINVALID with the problem. */
void log_expect_refusals(const struct log_refusal *refusals, size_t count,
                         int (*read)(const char *text, struct log_problem *problem));

#endif
