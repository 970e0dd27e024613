/* table.h - what a node answered, as a table for people.
 *
 * The columns of known answers are chosen here, so that a table stays readable; JSON and YAML
 * (document.h) show every field. An answer of another shape than expected is shown as YAML
 * rather than not at all.
 *
 * Times are for people, too: a number of a field whose name ends with its unit (_ms, _us) is shown
 * as a time of day in UTC or as a span, and a moment that is told as a text as well once.
 *
 *   array of maps   -> one line each under a header
 *   map             -> "field  value" lines, then a table for each array of maps in it;
 *                      one with very many fields is turned on its side; a map of maps is a
 *                      table whose rows begin with their names
 */
#ifndef CLIENT_CLI_OUTPUT_TABLE_H
#define CLIENT_CLI_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mp.h"
#include "client/cli/output/text.h"

/* Fields to show, in order, ended by NULL; fields that no row has are left out. */
extern const char *const cli_member_columns[];
extern const char *const cli_owner_columns[];
extern const char *const cli_rule_columns[];
extern const char *const cli_version_columns[];
extern const char *const cli_block_columns[];
extern const char *const cli_api_key_columns[];
extern const char *const cli_credential_columns[];
extern const char *const cli_quota_columns[];

/* Adds an array of maps. `columns` NULL shows the fields of the first row. */
void cli_table_rows(struct cli_text *text, const struct mp_token *tokens, size_t count,
                    const char *const *columns, bool colour);
/* Adds a map. */
void cli_table_map(struct cli_text *text, const struct mp_token *tokens, size_t count, bool colour);

#endif
