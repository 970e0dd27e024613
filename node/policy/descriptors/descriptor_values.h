/* descriptor_values.h - the values of keys of a domain; `theirs`: as envoyproxy/ratelimit reads
 * them, else as rule_keys.h says. As its readers: what is absent leaves the value as it was, unless
 * it is said otherwise; 0, or TG_EINVALID with the error set. */
#ifndef NODE_POLICY_DESCRIPTORS_DESCRIPTOR_VALUES_H
#define NODE_POLICY_DESCRIPTORS_DESCRIPTOR_VALUES_H

#include "node/policy/model/chunks.h"
#include "node/policy/model/descriptors.h"
#include "node/policy/readers/rule_keys.h"

/* A scalar's text, which lives as long as the reader; "" where it is absent. */
MUST_USE int descriptor_text(const struct rule_place *place, unsigned key, struct policy_text *out);
MUST_USE int descriptor_switch(const struct rule_place *place, unsigned key, bool theirs,
                               bool *value);
MUST_USE int descriptor_number(const struct rule_place *place, unsigned key, bool theirs,
                               int64_t *value);
/* The seconds of a unit; 0 where there is none. */
MUST_USE int descriptor_unit(const struct rule_place *place, unsigned key, bool theirs,
                             bool unlimited, int *seconds);
/* A tree as JSON on one line; len 0 where it is absent. TG_ENOMEM as well. */
MUST_USE int descriptor_metadata(struct chunks *chunks, const struct rule_place *place,
                                 unsigned key, struct policy_text *out);

#endif
