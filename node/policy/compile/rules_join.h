/* rules_join.h - several files of rules as one document: each behind a line that names it.
 *
 *   --- # a.yaml
 *   domain: shop          line 2 of the document, line 1 of a.yaml
 *   --- # b.yaml
 *   domain: search        line 4, line 1 of b.yaml
 *
 * A document that says so is of the files of envoyproxy/ratelimit (envoy_form.c), and is kept,
 * compared and rolled back as it is. What begins in one file ends before the next: a line of `---`
 * closes whatever is open, or is an error, which is one of the file before it.
 *
 * Pure.
 */
#ifndef NODE_POLICY_COMPILE_RULES_JOIN_H
#define NODE_POLICY_COMPILE_RULES_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RULES_JOIN_NAME_MAX = 255, RULES_JOIN_FILES_MAX = 1024 };

/* Whether a file of a directory is one of rules: *.yaml or *.yml, not hidden, a printable name. */
bool rules_join_takes(const char *name);
/* Writes the file behind the `len` bytes that `out` has, as far as there is room. Returns the bytes
 * that it has then, more than `capacity` if there was none. */
size_t rules_join_add(char *out, size_t capacity, size_t len, const char *name, const char *text,
                      size_t text_len);

/* Where a line of a joined document stands. */
struct rules_join_place {
    const char *name; /* of the file, in the document; NULL: before all files */
    size_t name_len;
    uint32_t line; /* of the file, from 1 */
};
struct rules_join_place rules_join_find(const char *text, size_t len, uint32_t line);

#endif
