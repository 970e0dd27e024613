/* policy_path.h - the one spelling of a path, for the files of this folder and client/replay.
 *
 * Callers spell one path in many ways, and a server behind them reads all of them alike: with a
 * query, with %7E for ~, with /./ and /../, with // or a slash at the end. policy_path_put writes
 * what they have in common.
 */
#ifndef NODE_POLICY_POLICY_PATH_H
#define NODE_POLICY_POLICY_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Whether policy_path_put would change nothing, as one scan can tell: false also for a path with an
 * escape that stays. */
bool policy_path_is_plain(const char *text, size_t len);
/* Writes the one spelling of a path of 1 byte or more into `out`, which has room for `len` bytes.
 * Returns its length, from 1 to `len`. */
size_t policy_path_put(const char *text, size_t len, char *out);
/* How long the "scheme://host" is that the text begins with; 0 if there is none. */
size_t policy_path_origin(const char *text, size_t len);
/* Where a query or a fragment begins; `len` if there is none. */
size_t policy_path_end(const char *text, size_t len);

#endif
