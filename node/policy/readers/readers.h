/* readers.h - what the readers of a rules file share: one function a part of the file.
 *
 * Each reads one node of the tree that yaml_reader.h made of the text. 0, TG_EINVALID or TG_ENOMEM;
 * for TG_EINVALID the sentence, with its place, is in the reader's error.
 */
#ifndef NODE_POLICY_READERS_READERS_H
#define NODE_POLICY_READERS_READERS_H

#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/chunks.h"
#include "node/policy/model/policy.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/rule_keys.h"
#include "node/policy/readers/yaml_reader.h"

/* Reads the whole file into `policy->listed`, in file order. 0, TG_EINVALID or TG_ENOMEM; the
 * sentence is in the reader's error for TG_EINVALID. */
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
/* Reads the `align` and the `timezone` of a limit. Fills in limit->align, and `window` and
 * `calendar` if it is one of the calendar. */
MUST_USE int policy_read_align(struct chunks *chunks, const struct rule_place *place,
                               struct limit *limit, char *window, struct policy_calendar *calendar);
/* Finds the zones of all calendar limits, each once. Errors as those of reading. */
MUST_USE int policy_bind_zones(struct policy *policy, const struct policy_zones *zones,
                               struct yaml_reader_error *error);
/* Reads the mode of a rule or of a limit, which the key has; its pool is one of the policy's. */
MUST_USE int policy_read_mode(const struct policy *policy, const struct rule_place *place,
                              unsigned key, struct policy_mode *mode);
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
/* Reads a scope, and the name of a region with its number; an absent key leaves what there is. */
MUST_USE int policy_read_scope(const struct rule_place *place, unsigned key, uint8_t *scope);
MUST_USE int policy_read_home(struct chunks *chunks, const struct rule_place *place, unsigned key,
                              struct policy_text *home, uint64_t *region);
/* Reads `on_failure`; an absent key is `closed`. */
MUST_USE int policy_read_failure(const struct rule_place *place, unsigned key,
                                 struct policy_rule *rule);
/* Refuses a key that has an effect with scope global only. */
MUST_USE int policy_refuse_local(const struct rule_place *place, unsigned key);
/* Copies the printable text of a key, as its row bounds it; an absent key leaves what there is. */
MUST_USE int policy_read_key_text(struct chunks *chunks, const struct rule_place *place,
                                  unsigned key, struct policy_text *out);
/* Copies a printable text of min..max bytes from `node`. */
MUST_USE int policy_read_text(struct chunks *chunks, const struct yaml_reader *reader,
                              uint32_t node, const char *what, size_t len_min, size_t len_max,
                              struct policy_text *out);

#endif
