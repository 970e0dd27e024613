/* descriptor_reader.h - the domains of a document. */
#ifndef NODE_POLICY_DESCRIPTORS_DESCRIPTOR_READER_H
#define NODE_POLICY_DESCRIPTORS_DESCRIPTOR_READER_H

#include "base/limit.h"
#include "node/policy/model/policy.h"
#include "node/policy/readers/yaml_reader.h"

struct descriptor_source {
    uint32_t first; /* the node of the first domain; the others follow by `next` */
    bool theirs;    /* they are files of envoyproxy/ratelimit, read as it reads them */
    bool merge;     /* a domain may stand twice */
    bool all_or_nothing;
};

/* Whether the text is of files of envoyproxy/ratelimit: no document has `rules`, and one has a
 * domain or descriptors. */
bool policy_is_envoy_form(const struct yaml_reader *reader);
/* Reads such a text into `policy`; policy->listed is not taken yet. As policy_read_file. */
MUST_USE int policy_read_envoy_form(struct policy *policy, const struct yaml_reader *reader);
/* How many nodes the domains may have, at most DESCRIPTORS_MAX + 1: so many rules, too. What is of
 * another shape is told when it is read. */
uint32_t policy_count_domains(const struct yaml_reader *reader, uint32_t first);
/* Reads domains into `policy`: their nodes, and a rule behind those of policy->listed for each
 * limit. As policy_read_file. */
MUST_USE int policy_read_domains(struct policy *policy, const struct yaml_reader *reader,
                                 const struct descriptor_source *source);
/* The limit of so many requests (1 or more) in windows of so many seconds (1 to 10 years). More
 * than LIMIT_RATE_MAX a second is that. */
struct limit descriptor_limit(uint64_t requests, uint64_t window_s);

#endif
