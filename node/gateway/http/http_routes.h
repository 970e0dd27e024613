/* http_routes.h - what a table of what HTTP is answered is made of: method, path, handler.
 *
 * The router, Allow, OPTIONS and the OpenAPI document come of it. A path's pattern is of segments:
 *
 *   /v1/check              these, as they are spelled: no escape stands for a letter
 *   /v1/rules/{name}       any one segment, decoded; not empty, no dots alone, no slash in it
 *   /v1/auth/{name}/...    and whatever follows, or nothing: it is not looked at
 *
 * A path is never resolved: empty segments, dot segments in any spelling, escaped slashes, and
 * escapes that are none are refused with 400, but behind `...`, where they mean nothing here.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP_ROUTES_H
#define NODE_GATEWAY_HTTP_HTTP_ROUTES_H

#include "node/gateway/http/http_exchange.h"

struct operate_call;

enum http_body {
    HTTP_BODY_NONE, /* none is looked at */
    HTTP_BODY_JSON, /* application/json, and nothing else */
    HTTP_BODY_RULES /* or application/yaml, which may be packed by gzip */
};

enum {
    HTTP_ROUTE_PROBE = 1,  /* GET and HEAD tell whoever asks, by any name, from any page */
    HTTP_ROUTE_CHECKS = 2, /* it asks the shard: it may join the batch of requests before it */
    HTTP_ROUTE_ANY = 4,    /* it takes every method, whatever `method` says */
    HTTP_ROUTE_PROXY = 8,  /* a trusted proxy asks, by the name and from the page of its caller */
    HTTP_ROUTE_OPERATOR = 16, /* nobody has the right without a token, wherever he comes from */
    HTTP_ROUTE_PAGE = 32,     /* likewise; a browser may send it as the password of Basic */
    HTTP_ROUTE_ASIDE = 64     /* it is there by a listener aside, too, as probes are */
};

/* Parts of an operation of OpenAPI, each from a comma on to before the next one's. */
struct http_document {
    const char *request;
    const char *answer; /* of the responses, with a comma behind it */
};

struct http_route {
    enum http1_method method; /* that of GET is HEAD's, too */
    const char *path;
    const char *name; /* one word, unique; OpenAPI's operationId */
    const char *summary;
    enum http_body body;
    unsigned flags;
    uint8_t right; /* enum right that is needed before the handler is called; 0: none but those of
                      the checks that it asks for */
    uint8_t (*right_of)(const struct http_route *route); /* the same; NULL: it is `right` */
    http_handler_fn *handle;
    const struct operate_call *call; /* of OPERATOR: which (api/operate_call.h) */
    /* What OpenAPI says of its body and of the answer 200; NULL: what it says of its kind. */
    const struct http_document *document;
};

enum { HTTP_ALLOW_LEN = 80 };

/* What a request's method and path lead to. */
struct http_match {
    const struct http_route *route; /* NULL: nothing */
    uint16_t status;                /* then: 400, 404, 405; or 204 for OPTIONS */
    const char *detail;
    char allow[HTTP_ALLOW_LEN]; /* of 204 and 405 */
};

/* Finds the route, and fills in the exchange's parameters and rest; what is decoded is in
 * `room`. Of several that match the first one is taken. `among`: only routes with one of these
 * flags are there; 0: all are. */
void http_route_find(const struct http1_request *request, struct http_exchange *exchange,
                     unsigned among, char room[HTTP_PARAMETERS_MAX * HTTP_PARAMETER_LEN],
                     struct http_match *out);

/* The same in another table, whose routes are all there: for tests. */
void http_route_find_in(const struct http_route *table, size_t count,
                        const struct http1_request *request, struct http_exchange *exchange,
                        char room[HTTP_PARAMETERS_MAX * HTTP_PARAMETER_LEN],
                        struct http_match *out);

#endif
