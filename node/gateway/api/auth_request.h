/* auth_request.h - what a proxy's question says of the request that it is about.
 *
 *   GET /v1/auth/nginx                                the proxy asks,
 *   X-Forwarded-Method: POST                          of this request of a caller
 *   X-Forwarded-Uri: /login?next=/
 *   X-Forwarded-For: 203.0.113.7
 *       --> ip=203.0.113.7  method=POST  api=/login  host=shop.example
 *
 *   POST /v1/auth/envoy/login?next=/                  or the question is the request itself
 *
 * What a caller sends reaches the node through the proxy, so nothing of it chooses what is charged:
 * the endpoint does, whose name the proxy's configuration has and the node's describes. Header
 * fields are read of trusted proxies alone; whoever else asks is the caller.
 *
 *   ip       the address that asks; of a trusted proxy the last one of X-Forwarded-For that is not
 *            of a trusted proxy itself
 *   method   as it was sent
 *   api      the path, normalised (auth_path), without its query
 *   host     in small letters, without a port
 *
 * and what the endpoint's lists name of header fields and of the query. A value of more than
 * WIRE_VALUE_MAX bytes, or a query with escapes that are none, cannot be told to the rules. Pure.
 */
#ifndef NODE_GATEWAY_API_AUTH_REQUEST_H
#define NODE_GATEWAY_API_AUTH_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "client/protocol/wire.h"
#include "node/gateway/http/http1.h"
#include "node/gateway/networks.h"

enum {
    AUTH_ENDPOINTS_MAX = 8,
    AUTH_NAMES_MAX = 12, /* header fields, or parameters of the query, of an endpoint */
    AUTH_NAME_LEN = 65,
    AUTH_HOST_MAX = 256,
    AUTH_PATH_MAX = HTTP1_HEAD_MAX + 1, /* of any that a head has */
    AUTH_ROOM = AUTH_PATH_MAX + HTTP1_HEAD_MAX + AUTH_HOST_MAX + POLICY_IP_TEXT_LEN
};

/* Where the caller's request is told. A proxy sets the fields of one family: those of the other are
 * its caller's. */
enum auth_original {
    AUTH_FORWARDED, /* X-Forwarded-Uri, -Method, -Host */
    AUTH_ORIGINAL,  /* X-Original-URL or -URI, -Method */
    AUTH_ITSELF     /* by the question itself, behind the endpoint's name */
};

/* An attribute, and the header field that it is read from. */
struct auth_header {
    char attribute[AUTH_NAME_LEN];
    char field[AUTH_NAME_LEN];
};

struct auth_endpoint {
    char name[AUTH_NAME_LEN];
    uint16_t allow;       /* the status that lets a request pass */
    uint16_t deny;        /* and that of a denial; 0: the rule's */
    uint8_t original;     /* enum auth_original */
    uint8_t header_kind;  /* enum decision_headers, */
    bool own_header_kind; /* or else those that the node has */
    uint32_t header_count;
    uint32_t query_count;
    struct auth_header headers[AUTH_NAMES_MAX];
    char queries[AUTH_NAMES_MAX][AUTH_NAME_LEN]; /* of `x`: the attribute query.x */
};

/* The endpoints: what a node's configuration adds to, or changes of, auth_defaults. */
struct auth_endpoints {
    uint32_t count;
    struct auth_endpoint at[AUTH_ENDPOINTS_MAX];
};

/* What is known of a request: attributes of a check. */
struct auth_request {
    uint32_t count;
    uint32_t room_used;
    const char *untold; /* what cannot be told to the rules: too long, or escapes that are none */
    struct wire_text names[WIRE_ATTRIBUTES_MAX];
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
    char room[AUTH_ROOM];
};

/* default: 204 and the rule's status; nginx: 403 for denials, for it passes no other one on; envoy:
 * the request itself, and 200, for it takes nothing else for a yes. */
void auth_defaults(struct auth_endpoints *endpoints);
/* The endpoint of that name, or NULL; of no endpoints: of the defaults. */
const struct auth_endpoint *auth_find(const struct auth_endpoints *endpoints,
                                      struct wire_text name);

/* Reads what `request` says; `rest` is what its path has behind the endpoint's name, `address` the
 * other end's. */
void auth_read(const struct auth_endpoint *endpoint, const struct http1_request *request,
               struct wire_text rest, const char *address, const struct networks *trusted,
               struct auth_request *out);

/* Writes the path of `uri` as rules have it (policy_path.h) into `out`, which has a byte more room
 * than the URI is long. Its length. Empty segments go before dot segments are looked at, as servers
 * do that merge slashes: /a//../b is /b. */
size_t auth_path(struct wire_text uri, char *out);

#endif
