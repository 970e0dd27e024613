/* rule_removal.h - a rules document without one of its rules, all else left as it was written.
 *
 * Pure; not for the check path: it compiles.
 */
#ifndef NODE_POLICY_COMPILE_RULE_REMOVAL_H
#define NODE_POLICY_COMPILE_RULE_REMOVAL_H

#include "node/policy/model/policy.h"

/* Writes the document without the rule `name` into `out`, and its length into `out_len`; `line` is
 * where the rule stands. 0, TG_ENOTFOUND (there is no such rule), TG_EINVALID (the document does
 * not compile), TG_ETOOBIG, or TG_EUNSUPPORTED: it cannot be taken out as it is written, because
 * another rule uses what it names (&x), or it is of the older form. */
MUST_USE int policy_remove_rule(const char *text, size_t len, const struct policy_text *name,
                                const struct policy_zones *zones, const struct allocator *allocator,
                                char *out, size_t capacity, size_t *out_len, uint32_t *line);

#endif
