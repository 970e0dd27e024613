/* config_auth.h - the endpoints of /v1/auth in the configuration file.
 *
 *   auth:
 *     nginx: {status: {deny: 403}}                 changes what the endpoint is without that
 *     shop:                                        a further one
 *       status: {allow: 200, deny: 429}
 *       original_request: itself                   or: forwarded, original
 *       headers: legacy                            or: ietf, off; without it those of the node
 *       attributes_from_headers: {user: X-User-Id}
 *       attributes_from_query: [q]                 the attribute query.q
 */
#ifndef NODE_RUNTIME_CONFIG_CONFIG_AUTH_H
#define NODE_RUNTIME_CONFIG_CONFIG_AUTH_H

#include "node/gateway/api/auth_request.h"
#include "node/policy/readers/yaml_reader.h"

/* Reads the mapping at `node` into endpoints that have what they are by default. 0, or TG_EINVALID
 * with the reader's error set. */
MUST_USE int config_auth_read(const struct yaml_reader *reader, uint32_t node,
                              struct auth_endpoints *endpoints);
/* The same from a text, as a flag has it: {nginx: {status: {deny: 403}}}. 0, or TG_EINVALID with
 * what was found and expected in `why`. */
MUST_USE int config_auth_set(const char *text, struct auth_endpoints *endpoints, char *why,
                             size_t why_len);

#endif
