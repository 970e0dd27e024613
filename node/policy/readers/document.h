/* document.h - where things stand in the text of a rules document, for those who edit it and leave
 * the rest as it was written.
 *
 * Places are found by the tree of yaml_reader.h, and how far something goes by its indentation or
 * its brackets. That is not a parser: whoever cuts by these has to try the result.
 */
#ifndef NODE_POLICY_READERS_DOCUMENT_H
#define NODE_POLICY_READERS_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/policy/readers/yaml_reader.h"

struct document {
    const char *text;
    size_t len;
};

struct document_line {
    size_t start;
    size_t end;    /* behind its newline */
    size_t indent; /* of its first character that is no space */
    char first;    /* that character; 0: blank */
};

/* The line of that number, from 1; the last one if there are fewer. */
struct document_line document_line(const struct document *document, uint32_t number);
/* Where the character of that column, from 1, of the line begins. */
size_t document_place(const struct document *document, const struct document_line *line,
                      uint32_t column);
/* Behind what begins at the first character of `line` in block style: before the next line that is
 * not deeper, and the comments that belong to that. */
size_t document_block_end(const struct document *document, const struct document_line *line);
/* Behind the bracket that closes the one at `at`; 0 if none does. */
size_t document_brackets_end(const struct document *document, size_t at);
bool document_is_space(char c);

/* The value of that key of a mapping, or YAML_READER_NONE. */
uint32_t document_value(const struct yaml_reader *reader, uint32_t mapping, const char *key);

#endif
