/* descriptor_format.h - domains, written as a document of ours. */
#ifndef NODE_POLICY_READERS_DESCRIPTOR_FORMAT_H
#define NODE_POLICY_READERS_DESCRIPTOR_FORMAT_H

#include "node/policy/model/descriptors.h"
#include "node/policy/model/policy.h"

/* Writes the rule of a descriptor as a document of its domain and path alone, on one line as JSON,
 * and a NUL. As policy_format_rule, which calls it. */
MUST_USE int policy_format_descriptor(const struct policy_rule *rule, char *out, size_t capacity);
/* Writes all domains of a policy as a document, without its other rules: it compiles to the same
 * ones. Returns its length; what is beyond `capacity` is counted alone. */
size_t policy_format_domains(const struct policy *policy, char *out, size_t capacity);

#endif
