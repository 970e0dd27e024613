/* descriptor_report.h - what is asked of a descriptor, explained to people, as a msgpack value.
 *
 *   {"domain", "match": "limited|unlimited|nothing|no_limit|no_domain", "rule", "limit": "100/m",
 *    "name", "shadow", "quota", "counted_by", "counter",
 *    "levels": [{"entry": "path=/cart", "met": "path=/c*", "by": "exact|wildcard|key|nothing"}]}
 */
#ifndef NODE_POLICY_DESCRIPTORS_DESCRIPTOR_REPORT_H
#define NODE_POLICY_DESCRIPTORS_DESCRIPTOR_REPORT_H

#include "base/mp.h"
#include "node/policy/descriptors/descriptor_find.h"

/* Writes it, in at most DESCRIPTOR_REPORT_LEN bytes. */
enum { DESCRIPTOR_REPORT_LEN = 64 * 1024 };
void policy_descriptor_report(struct mp_writer *writer, const struct policy *policy,
                              const struct descriptor_request *request,
                              const struct descriptor_found *found);

#endif
