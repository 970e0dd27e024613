/* rules_file.h - a file of rules, read whole. */
#ifndef CLIENT_CLI_RULES_FILE_H
#define CLIENT_CLI_RULES_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct cli_rules_file {
    char *text;
    size_t len;
    size_t capacity; /* of text */
};

/* Reads `path` ("-": standard input), at most `len_max` bytes. False after complaining; then
 * nothing is held. */
bool cli_rules_read(const char *path, size_t len_max, struct cli_rules_file *out);
/* Says that a document is more than a cluster keeps. */
void cli_rules_too_large(const char *path);
void cli_rules_fini(struct cli_rules_file *file);

#endif
