/* rules_source.h - a file of rules, or a directory of them, read whole. */
#ifndef NODE_SOURCES_RULES_SOURCE_H
#define NODE_SOURCES_RULES_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

/* The text, in memory of malloc. */
struct rules_source {
    char *text;
    size_t len;
    bool joined; /* it is of a directory: rules_join.h */
};

/* Reads `path`, at most `len_max` bytes; "-" is standard input. Of a directory the files *.yaml and
 * *.yml that are not hidden, in the order of their names, each as rules_join.h says; one at least.
 * 0, or TG_EINVALID or TG_ENOMEM with a sentence that names the path; nothing is held then. */
MUST_USE int rules_source_read(const char *path, size_t len_max, struct rules_source *out,
                               char *error, size_t capacity);
/* Whether the path leads to a directory. */
bool rules_source_is_directory(const char *path);
/* A source that begins with these bytes; false: no memory. */
MUST_USE bool rules_source_begin(struct rules_source *out, const char *text, size_t len);
/* Puts a file, or the files of a directory, behind what `out` has, each called by its path. As
 * rules_source_read; `out` stays what it was, or has some of them. */
MUST_USE int rules_source_add(struct rules_source *out, const char *path, size_t len_max,
                              char *error, size_t capacity);
void rules_source_fini(struct rules_source *source);

/* Tells a change of a file, or of the files of a directory, from outside: their names, and of each
 * what the system says of whatever its name leads to: where it lies, its length, when it was last
 * written or changed. Equal stamps: nothing has changed. Never all 0. What cannot be looked at has
 * a stamp, too. Reads no file. */
struct hash128 rules_source_stamp(const char *path);

/* Writes "PATH:LINE", of a directory "PATH/FILE:LINE", for a line of the text. Returns `out`. */
const char *rules_source_place(const char *path, const struct rules_source *source, uint32_t line,
                               char *out, size_t capacity);

#endif
