/* policy_compile.h - a rules file becomes a policy, or is refused with the place and the reason. */
#ifndef NODE_POLICY_COMPILE_POLICY_COMPILE_H
#define NODE_POLICY_COMPILE_POLICY_COMPILE_H

#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "node/policy/model/policy.h"

struct yaml_reader_errors;

/* Compiles `len` bytes of YAML (or JSON). On 0 `*out` holds the policy, to be given to policy_free
 * with the same allocator still alive. Otherwise *out is NULL, `error` is filled, and the result is
 * TG_EINVALID (the file is wrong) or TG_ENOMEM. The text need not outlive the call. Not for the
 * check path: it allocates. */
MUST_USE int policy_compile(const char *text, size_t len, const struct allocator *allocator,
                            struct policy **out, struct policy_error *error);
/* The same; time zones other than UTC are asked of `zones`, while compiling. */
MUST_USE int policy_compile_zoned(const char *text, size_t len, const struct allocator *allocator,
                                  const struct policy_zones *zones, struct policy **out,
                                  struct policy_error *error);
/* policy_compile_zoned; what is refused is listed in `all`, unless that is NULL. */
MUST_USE int policy_compile_collecting(const char *text, size_t len,
                                       const struct allocator *allocator,
                                       const struct policy_zones *zones, struct policy **out,
                                       struct policy_error *error, struct yaml_reader_errors *all);

#endif
