/* document.h - a msgpack value as JSON or YAML.
 *
 * Whatever a node answers is printed field by field in the order in which it came; so a field
 * that a newer node adds appears without a change here.
 *
 *   tokens of base/mp.h  --cli_json-->  {"name":"n1","vnodes":4096}
 *                        --cli_yaml-->  name: n1
 *                                       vnodes: 4096
 *
 * DOCUMENT-1  The output is valid whatever the value: what is no UTF-8 becomes U+FFFD, bytes become
 *             hex, a number that JSON lacks (NaN) and an extension become null, a key that is no
 *             string is quoted.
 * DOCUMENT-2  Neither recurses; nesting is bounded by MP_DEPTH_MAX as the reader of tokens is.
 */
#ifndef CLIENT_CLI_OUTPUT_DOCUMENT_H
#define CLIENT_CLI_OUTPUT_DOCUMENT_H

#include <stddef.h>

#include "base/mp.h"
#include "client/cli/output/text.h"

/* Adds the value whose first of `count` tokens is `tokens`, on one line, without a line's end. */
void cli_json(struct cli_text *text, const struct mp_token *tokens, size_t count);

/* The same in block style, each line ended. `item` makes it one element of a sequence. */
void cli_yaml(struct cli_text *text, const struct mp_token *tokens, size_t count, bool item);

/* Adds a scalar for a cell of a table: no quotes, yes and no, "-" for nothing. */
void cli_plain(struct cli_text *text, const struct mp_token *token);

#endif
