/* policy_internal.h - what a compiled policy is made of; for the files of this folder only.
 *
 *   struct policy --> rules[rule_count]   where each is, in acting order ("rank")
 *                 --> index               (attribute, text) -> which of them to look at
 *                       plan | rule, plan | rule, ..   its plan says when it acts (policy_plan.h)
 *
 * All of it lives in the policy's chunks and, but for the count of those who share it, is never
 * changed after compilation.
 */
#ifndef NODE_POLICY_POLICY_INTERNAL_H
#define NODE_POLICY_POLICY_INTERNAL_H

#include <stdatomic.h>

#include "node/policy/attribute_kind.h"
#include "node/policy/chunks.h"
#include "node/policy/policy.h"
#include "node/policy/policy_index.h"
#include "node/policy/policy_join.h"
#include "node/policy/policy_pattern.h"
#include "node/policy/yaml_reader.h"

enum { POLICY_MEMORY_MAX = 512 * 1024 * 1024 /* of one compiled policy */ };
static_assert(POLICY_RULES_MAX + POLICY_TIERS_MAX <= UINT16_MAX, "a rank fits");

struct policy {
    struct chunks chunks;    /* everything below, and this struct's own allocator */
    _Atomic uint32_t shares; /* how often policy_free leaves it in place */
    struct policy *base;     /* whose rules these are, if it is joined of them; or NULL */
    struct policy_joined joined;
    const struct allocator *joiner; /* of a joined policy, which is its own; else NULL */
    struct policy_rule *listed;     /* in file order, as they were read */
    struct policy_rule **rules;     /* by rank; once the index is built, those behind their plans */
    size_t rule_count;
    struct policy_pool *pools; /* by name */
    size_t pool_count;
    const struct attribute_kinds *kinds; /* NULL: those of a file that says nothing */
    bool unmatched_deny;
    uint64_t digest;
    struct policy_index index;
};

/* Frees a joined policy, but not the rules that it shares (policy_join.c). */
void policy_free_joined(struct policy *policy);
/* Reads the whole file into `policy->listed`, in file order. 0, TG_EINVALID or TG_ENOMEM; the
 * sentence is in the reader's error for TG_EINVALID. */
/* policy_compile_zoned; what is refused is listed in `all`, unless that is NULL. policy.c. */
MUST_USE int policy_compile_collecting(const char *text, size_t len,
                                       const struct allocator *allocator,
                                       const struct policy_zones *zones, struct policy **out,
                                       struct policy_error *error, struct yaml_reader_errors *all);
MUST_USE int policy_read_file(struct policy *policy, const struct yaml_reader *reader);
/* Whether the file is of the older form, {"api": ...}; and reads it as policy_read_file does. */
bool policy_is_older_form(const struct yaml_reader *reader);
MUST_USE int policy_read_older_file(struct policy *policy, const struct yaml_reader *reader);
/* Reads one rule of the file at `node` into the zeroed `rule`. */
MUST_USE int policy_read_rule(struct policy *policy, const struct yaml_reader *reader,
                              uint32_t node, struct policy_rule *rule);
/* Reads the tier called `name`, a key of the file's `tiers`, as a rule. */
MUST_USE int policy_read_tier(struct policy *policy, const struct yaml_reader *reader,
                              uint32_t name, struct policy_rule *rule);
/* Reads the file's `pools` mapping into `policy`. Before any rule is read. */
MUST_USE int policy_read_pools(struct policy *policy, const struct yaml_reader *reader,
                               uint32_t node);
/* Reads a rule's `limits` list into `rule`. */
MUST_USE int policy_read_limits(struct policy *policy, const struct yaml_reader *reader,
                                uint32_t node, struct policy_rule *rule);
/* Reads a limit's `align` and `timezone`, either of which may be NONE; `rate` is that of the limit.
 * Fills in limit->align, and `window` and `calendar` if it is one of the calendar. */
MUST_USE int policy_read_align(struct chunks *chunks, const struct yaml_reader *reader,
                               uint32_t align, uint32_t timezone, uint32_t rate,
                               struct limit *limit, char *window, struct policy_calendar *calendar);
/* Finds the zones of all calendar limits, each once. Errors as those of reading. */
MUST_USE int policy_bind_zones(struct policy *policy, const struct policy_zones *zones,
                               struct yaml_reader_error *error);
/* Reads "10%" at `node`: a whole number from 1 to `max`. */
MUST_USE int policy_read_percent(const struct yaml_reader *reader, uint32_t node, const char *what,
                                 uint32_t max, uint16_t *out);
/* Reads a mode, of a rule or of a limit; its pool is one of the policy's. */
MUST_USE int policy_read_mode(const struct policy *policy, const struct yaml_reader *reader,
                              uint32_t node, const char *what, struct policy_mode *mode);
/* Sets the limit's mode. */
void policy_set_mode(struct limit *limit, const struct policy_mode *mode, uint8_t class);
/* Reads the file's `attributes` mapping into `policy`. Before any rule is read. */
MUST_USE int policy_read_attributes(struct policy *policy, const struct yaml_reader *reader,
                                    uint32_t node);
/* Reads a rule's `match` mapping into `rule`. */
MUST_USE int policy_read_match(struct policy *policy, const struct yaml_reader *reader,
                               uint32_t node, struct policy_rule *rule);
/* Puts the one spelling of a kind in place of a value or pattern to match, which `node` says of
 * `attribute`. Refuses one that no request can have. */
MUST_USE int policy_spell_match(struct chunks *chunks, const struct yaml_reader *reader,
                                uint32_t node, const char *attribute, enum attribute_kind kind,
                                struct policy_text *value);
/* Checks an attribute's name at `node`: 1..64 of a-z 0-9 _ . - */
MUST_USE int policy_check_attribute(const struct yaml_reader *reader, uint32_t node,
                                    const char *what);
/* Reads a scope, and the name of a region with its number; NONE leaves what there is. */
MUST_USE int policy_read_scope(const struct yaml_reader *reader,
                               const struct yaml_reader_field *field, const char *what,
                               uint8_t *scope);
MUST_USE int policy_read_home(struct chunks *chunks, const struct yaml_reader *reader,
                              const struct yaml_reader_field *field, const char *what,
                              struct policy_text *home, uint64_t *region);
/* Refuses a field that has an effect with scope global only. */
MUST_USE int policy_refuse_local(const struct yaml_reader *reader,
                                 const struct yaml_reader_field *field, const char *what);
/* Copies a printable text of min..max bytes from `node`. */
MUST_USE int policy_read_text(struct chunks *chunks, const struct yaml_reader *reader,
                              uint32_t node, const char *what, size_t len_min, size_t len_max,
                              struct policy_text *out);

/* Orders two texts by bytes, as memcmp does, a prefix first. */
int policy_text_compare(const struct policy_text *a, const struct policy_text *b);
static inline bool policy_text_equal(const struct policy_text *a, const struct policy_text *b)
{
    return policy_text_compare(a, b) == 0;
}
static inline bool policy_text_is(const struct policy_text *text, const char *word)
{
    const struct policy_text other = {word, __builtin_strlen(word)};
    return policy_text_equal(text, &other);
}

#endif
