/* policy_errors.h - all that is wrong with a rules file, so that it is mended in one go. */
#ifndef NODE_POLICY_COMPILE_POLICY_ERRORS_H
#define NODE_POLICY_COMPILE_POLICY_ERRORS_H

#include "node/policy/model/policy.h"

enum {
    POLICY_ERRORS_MAX = 20,
    POLICY_ERRORS_PUT_MAX = 64 + POLICY_ERRORS_MAX * (sizeof(struct policy_error) + 64)
};

struct policy_errors {
    uint32_t count; /* of the list; never 0 for a text that policy_compile_zoned refuses */
    uint32_t more;  /* that have no room in it */
    struct policy_error list[POLICY_ERRORS_MAX]; /* in the order of lines */
};

/* Compiles the text once more, and goes on behind each part that is refused. What is said of a part
 * that hangs on a refused one is left out. Not for the check path: it allocates. */
void policy_errors_find(const char *text, size_t len, const struct allocator *allocator,
                        const struct policy_zones *zones, struct policy_errors *out);
/* The same of a document, packed or not (packed.h). */
void packed_errors_find(const void *bytes, size_t len, const struct allocator *allocator,
                        const struct policy_zones *zones, struct policy_errors *out);

struct mp_writer;
/* Writes two fields: "errors", an array of {"line", "column", "message"}, and "more". Together at
 * most POLICY_ERRORS_PUT_MAX bytes. NULL: none. */
void policy_errors_put(struct mp_writer *writer, const struct policy_errors *errors);

#endif
