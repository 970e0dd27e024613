/* auth_request.c - attributes out of a proxy's question; auth_request.h has the rules. */
#include "node/gateway/api/auth_request.h"

#include <string.h>

#include "base/assert.h"
#include "node/gateway/http/http_query.h"
#include "node/policy/model/policy_ip.h"
#include "node/policy/model/policy_path.h"

enum { STATUS_OK = 200, STATUS_NO_CONTENT = 204, STATUS_FORBIDDEN = 403 };

/* ---- endpoints ------------------------------------------------------------------------------- */

static const struct auth_endpoints defaults = {
    .count = 3,
    .at = {{.name = "default", .allow = STATUS_NO_CONTENT},
           {.name = "nginx", .allow = STATUS_NO_CONTENT, .deny = STATUS_FORBIDDEN},
           {.name = "envoy", .allow = STATUS_OK, .original = AUTH_ITSELF}}};

void auth_defaults(struct auth_endpoints *endpoints)
{
    *endpoints = defaults;
}

const struct auth_endpoint *auth_find(const struct auth_endpoints *endpoints, struct wire_text name)
{
    if (endpoints == NULL)
        endpoints = &defaults;
    for (uint32_t i = 0; i < endpoints->count; i++)
        if (strlen(endpoints->at[i].name) == name.len &&
            memcmp(endpoints->at[i].name, name.data, name.len) == 0)
            return &endpoints->at[i];
    return NULL;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* The authority of an absolute URI; without data if it has none. */
static struct wire_text host_of(struct wire_text uri)
{
    const size_t origin = policy_path_origin(uri.data, uri.len);
    size_t from = origin;
    while (from > 0 && uri.data[from - 1] != '/')
        from--;
    return (struct wire_text){origin > 0 ? uri.data + from : NULL, origin - from};
}

size_t auth_path(struct wire_text uri, char *out)
{
    const size_t end = policy_path_end(uri.data, uri.len);
    size_t from = policy_path_origin(uri.data, end);
    size_t len = 0;
    out[len++] = '/';
    for (; from < end; from++)
        if (uri.data[from] != '/' || out[len - 1] != '/')
            out[len++] = uri.data[from];
    return policy_path_put(out, len, out);
}

/* ---- who asks -------------------------------------------------------------------------------- */

/* The last header field of that name: a proxy that adds to what a caller sent adds behind it. */
static struct wire_text last_field(const struct http1_request *request, const char *name)
{
    const struct wire_text wanted = wire_text_of(name);
    for (uint32_t i = request->header_count; i > 0; i--)
        if (http1_same(request->headers[i - 1].name, wanted))
            return request->headers[i - 1].value;
    return (struct wire_text){NULL, 0};
}

static struct wire_text first_known(struct wire_text a, struct wire_text b)
{
    return a.data != NULL && a.len > 0 ? a : b;
}

/* Looks at the addresses of one field from the right. False: the caller's is found, in *ip. */
static bool walk_field(struct wire_text field, const struct networks *trusted, struct policy_ip *ip)
{
    size_t end = field.len;
    while (end > 0) {
        struct policy_ip hop;
        size_t from = end;
        while (from > 0 && field.data[from - 1] != ',')
            from--;
        const struct wire_text text = {field.data + from, end - from};
        if (!policy_ip_parse(text.data, text.len, &hop))
            return false; /* no proxy that is trusted writes that: what is left of it is a lie */
        *ip = hop;
        if (!networks_hold(trusted, &hop))
            return false;
        end = from > 0 ? from - 1 : 0;
    }
    return true;
}

/* The caller's address: that of the other end, or, of a trusted proxy, what it was told. */
static void find_caller(const struct http1_request *request, const struct networks *trusted,
                        struct policy_ip *ip)
{
    const struct wire_text wanted = wire_text_of("X-Forwarded-For");
    for (uint32_t i = request->header_count; i > 0; i--)
        if (http1_same(request->headers[i - 1].name, wanted) &&
            !walk_field(request->headers[i - 1].value, trusted, ip))
            return;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void add(struct auth_request *out, const char *name, struct wire_text value)
{
    if (out->count == WIRE_ATTRIBUTES_MAX)
        return;
    if (value.len > WIRE_VALUE_MAX) { /* cut, it would meet other rules */
        out->untold = name;
        value.len = WIRE_VALUE_MAX;
    }
    out->names[out->count] = wire_text_of(name);
    out->values[out->count++] = value;
}

/* Adds what the caller has written at the end of the room. */
static void add_room(struct auth_request *out, const char *name, size_t len)
{
    const struct wire_text value = {out->room + out->room_used, len};
    ASSERT(len <= sizeof out->room - out->room_used);
    out->room_used += (uint32_t)len;
    add(out, name, value);
}

static void add_host(struct auth_request *out, struct wire_text host)
{
    char *room = out->room + out->room_used;
    size_t len = 0;
    const char *close =
        host.len > 0 && host.data[0] == '[' ? memchr(host.data, ']', host.len) : NULL;
    const size_t skip = close != NULL ? (size_t)(close - host.data) : 0;
    const char *colon = host.len > skip ? memchr(host.data + skip, ':', host.len - skip) : NULL;
    const size_t end = colon != NULL ? (size_t)(colon - host.data) : host.len;
    if (end > AUTH_HOST_MAX)
        out->untold = "host";
    for (; len < end && len < AUTH_HOST_MAX; len++) {
        const char c = host.data[len];
        room[len] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    if (len > 1 && room[len - 1] == '.')
        len--; /* the root of names says nothing */
    if (len > 0)
        add_room(out, "host", len);
}

static struct wire_text query_of(struct wire_text uri)
{
    const char *mark = uri.len > 0 ? memchr(uri.data, '?', uri.len) : NULL;
    if (mark == NULL)
        return (struct wire_text){NULL, 0};
    const size_t len = uri.len - (size_t)(mark + 1 - uri.data);
    const char *hash = memchr(mark + 1, '#', len);
    return (struct wire_text){mark + 1, hash != NULL ? (size_t)(hash - mark - 1) : len};
}

/* Adds the parameters that the endpoint lists: the last one of each name, as most readers of forms
 * take it. */
static void add_queries(struct auth_request *out, const struct auth_endpoint *endpoint,
                        struct wire_text query)
{
    for (uint32_t i = 0; i < endpoint->query_count; i++) {
        const struct wire_text wanted = wire_text_of(endpoint->queries[i] + sizeof "query." - 1);
        struct http_query pairs = {.left = query};
        struct wire_text name;
        struct wire_text value;
        struct wire_text last = {NULL, 0};
        char *room = out->room + out->room_used;
        size_t left = sizeof out->room - out->room_used;
        enum http_query_found found;
        while ((found = http_query_next(&pairs, room, left, &name, &value)) != HTTP_QUERY_END) {
            if (found == HTTP_QUERY_BAD)
                out->untold = "query"; /* what one reader drops another one keeps */
            if (found == HTTP_QUERY_BAD || name.len != wanted.len ||
                memcmp(name.data, wanted.data, name.len) != 0)
                continue;
            memmove(room, value.data, value.len); /* the name is not needed any more */
            last = (struct wire_text){room, value.len};
            room += value.len;
            left -= value.len;
        }
        if (last.data != NULL)
            add(out, endpoint->queries[i], last);
        out->room_used = (uint32_t)(room - out->room);
    }
}

void auth_read(const struct auth_endpoint *endpoint, const struct http1_request *request,
               struct wire_text rest, const char *address, const struct networks *trusted,
               struct auth_request *out)
{
    struct policy_ip ip;
    const bool believed = networks_trust(trusted, address, &ip);
    struct wire_text uri = rest;
    struct wire_text query = request->query;
    struct wire_text method = request->method_name;
    struct wire_text host = request->host;
    out->count = out->room_used = 0;
    out->untold = NULL;
    if (believed)
        find_caller(request, trusted, &ip);
    if (believed && endpoint->original == AUTH_FORWARDED) {
        uri = first_known(last_field(request, "X-Forwarded-Uri"), rest);
        method = first_known(last_field(request, "X-Forwarded-Method"), method);
        host = first_known(last_field(request, "X-Forwarded-Host"), host);
    } else if (believed && endpoint->original == AUTH_ORIGINAL) {
        uri = first_known(last_field(request, "X-Original-URL"),
                          first_known(last_field(request, "X-Original-URI"), rest));
        method = first_known(last_field(request, "X-Original-Method"), method);
        host = first_known(host_of(uri), host);
    }
    if (uri.data != rest.data)
        query = query_of(uri);
    if (ip.len != 0)
        add_room(out, "ip", policy_ip_put(&ip, out->room + out->room_used));
    add(out, "method", method);
    add_room(out, "api", auth_path(uri, out->room + out->room_used));
    add_host(out, host);
    for (uint32_t i = 0; believed && i < endpoint->header_count; i++) {
        const struct wire_text value = last_field(request, endpoint->headers[i].field);
        if (value.data != NULL && value.len > 0)
            add(out, endpoint->headers[i].attribute, value);
    }
    add_queries(out, endpoint, query);
}
