/* rights.h - roles, and what each may do.
 *
 *   role       may
 *   check      check, peek, leases
 *   adjust     hit, refund, reserve and commit, reset a key, tell a pool's load; and check
 *   inline     name the limit itself, instead of a rule; and check
 *   observe    status, members, ring, owner, explain, metrics, usage, the page
 *   operate    blocks, quotas, drain; and observe
 *   admin      rules, API keys, credentials, leave, remove; and all above
 *   node       the protocols between nodes, and nothing above
 *
 * RIGHTS-1  What a role may do contains what it says it contains: nobody has `operate` without
 *           `observe`.
 *
 * Pure.
 */
#ifndef NODE_POLICY_RIGHTS_RIGHTS_H
#define NODE_POLICY_RIGHTS_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A role, and the right of its name. */
enum right {
    RIGHT_CHECK = 1,
    RIGHT_ADJUST = 2,
    RIGHT_INLINE = 4,
    RIGHT_OBSERVE = 8,
    RIGHT_OPERATE = 16,
    RIGHT_ADMIN = 32,
    RIGHT_NODE = 64
};
enum { RIGHTS_ALL = 127, RIGHTS_COUNT = 7, RIGHTS_TEXT_LEN = 64, RIGHTS_EXPECTED_LEN = 192 };

/* What whoever has these roles may do: they, and what they contain. */
uint8_t rights_of(uint8_t roles);
/* "check", or "" of what is not one right. Static storage. */
const char *right_name(enum right right);
/* Reads roles such as "check,inline"; "none" is none. 0, or TG_EINVALID with what was found and
 * what was expected in `error`. */
MUST_USE int rights_parse(const char *text, size_t len, uint8_t *roles,
                          char error[RIGHTS_EXPECTED_LEN]);
/* Writes them so, in the order of the table, and a NUL; returns the length. */
size_t rights_put(uint8_t roles, char out[RIGHTS_TEXT_LEN]);

#endif
