/* policy_warnings.h - what good rules probably do not mean: told by `rules validate`. */
#ifndef NODE_POLICY_COMPILE_POLICY_WARNINGS_H
#define NODE_POLICY_COMPILE_POLICY_WARNINGS_H

#include "node/policy/model/policy.h"

enum { POLICY_WARNINGS_MAX = 32, POLICY_WARNING_LEN = 640 };

struct policy_warning {
    uint32_t line; /* of the rule in the file, from 1 */
    char message[POLICY_WARNING_LEN];
};

/* Looks for
 *
 *   - more than POLICY_PARTS_MAX rules with limits that can meet on one request
 *   - soft limits that may be exceeded by nothing, for that is less than one
 *   - keys of files of envoyproxy/ratelimit in a place where they have no effect
 *
 * and writes what it finds, in the order of lines, at most `max`. Their number, or TG_ENOMEM. Not
 * for the check path: it allocates. */
MUST_USE int policy_warnings(const struct policy *policy, const struct allocator *allocator,
                             struct policy_warning *out, size_t max);

struct mp_writer;
/* Writes the field "warnings": an array of {"line", "message"}, each of at most POLICY_WARNING_LEN
 * + 32 bytes. */
void policy_warnings_put(struct mp_writer *writer, const struct policy_warning *warnings,
                         size_t count);

#endif
