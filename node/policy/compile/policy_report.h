/* policy_report.h - an explained request as a msgpack value, the same from a node and offline.
 *
 *   {"action": "limits", "allowed": true, "rule": "", "missing": "", "message": "",
 *    "limits": [{"rule", "window", "algorithm", "exceed_percent", "shadow", "key": ["phone=1"]}],
 *    "rules": [{"name", "priority", "action", "acts", "why", "because"}], "rules_more": 0,
 *    "blocked": nil or {...}}
 *
 * `action` is what the rules alone say: limits (all of `limits` are asked), allow or block (`rule`
 * said so), missing (`rule` insists on the attribute `missing`), unmatched, or overflow (too many
 * rules act: `message` says how many may). `allowed` is what the request gets without its limits.
 */
#ifndef NODE_POLICY_COMPILE_POLICY_REPORT_H
#define NODE_POLICY_COMPILE_POLICY_REPORT_H

#include "base/mp.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy.h"

/* Writes what policy_explain gave, and the key "blocked", behind which the caller puts a value: on
 * what denies the request before any rule (`blocked`), or nil. More than `rules_max` rules are not
 * listed, but for those that act; `rules_more` counts the others. */
void policy_report_put(struct mp_writer *writer, const struct policy *policy,
                       const struct policy_result *result, const struct policy_reason *reasons,
                       bool blocked, size_t rules_max);

#endif
