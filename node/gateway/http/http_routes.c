/* http_routes.c - how a path finds its route; http_routes.h has the forms.
 *
 *   /v1/rules/my%20rule      segments: "v1" "rules" "my%20rule"
 *   /v1/rules/{name}         name = "my rule"
 *
 * Two paths that a reader of paths could take for one lead nowhere: nothing is resolved, folded or
 * decoded but what stands for a parameter. So a proxy that lets some paths through and others not
 * is not led past by another spelling.
 *
 * HTTPROUTES-1  Of the routes that a path matches each has another method, unless one takes any.
 */
#include "node/gateway/http/http_routes.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"

/* ---- segments -------------------------------------------------------------------------------- */

/* Decodes a segment of a path. False: it is none that is taken, as the opening comment of the
 * header says. */
static bool decode(struct wire_text segment, char room[HTTP_PARAMETER_LEN], struct wire_text *out)
{
    size_t len = 0;
    for (size_t i = 0; i < segment.len; i++) {
        unsigned char c = (unsigned char)segment.data[i];
        if (c == '%') {
            if (segment.len - i < 3 || hex_digit(segment.data[i + 1]) < 0 ||
                hex_digit(segment.data[i + 2]) < 0)
                return false;
            c = (unsigned char)(hex_digit(segment.data[i + 1]) << 4 |
                                hex_digit(segment.data[i + 2]));
            i += 2;
        }
        if (c < 0x20 || c == 0x7f || c == '/' || c == '\\' || len == HTTP_PARAMETER_LEN)
            return false;
        room[len++] = (char)c;
    }
    *out = (struct wire_text){room, len};
    const bool dots = (len == 1 && room[0] == '.') || (len == 2 && memcmp(room, "..", 2) == 0);
    return len > 0 && !dots;
}

/* The segment that begins at *at, behind a slash; *at is moved to the slash behind it. */
static struct wire_text take_segment(struct wire_text path, size_t *at)
{
    const char *begin = path.data + *at;
    const char *slash = memchr(begin, '/', path.len - *at);
    const size_t len = slash != NULL ? (size_t)(slash - begin) : path.len - *at;
    *at += len;
    return (struct wire_text){begin, len};
}

/* Whether each segment is one that could be taken. */
static bool is_path(struct wire_text path)
{
    char room[HTTP_PARAMETER_LEN];
    struct wire_text ignored;
    size_t at = 0;
    if (path.len == 1 && path.data[0] == '/')
        return true;
    while (at < path.len) {
        at++;
        const struct wire_text segment = take_segment(path, &at);
        if (at == path.len && segment.len == 0)
            return true; /* a slash at the end: there is nothing there, but it is a path */
        if (!decode(segment, room, &ignored))
            return false;
    }
    return true;
}

/* ---- a pattern ------------------------------------------------------------------------------- */

/* What a path is matched into. */
struct found {
    struct http_exchange *exchange;
    char *room;
    uint32_t count; /* of parameters */
};

static bool match_segment(struct wire_text pattern, struct wire_text segment, struct found *found)
{
    if (pattern.data[0] != '{')
        return pattern.len == segment.len && memcmp(pattern.data, segment.data, segment.len) == 0;
    ASSERT(found->count < HTTP_PARAMETERS_MAX);
    const uint32_t at = found->count++;
    return decode(segment, found->room + (size_t)at * HTTP_PARAMETER_LEN,
                  &found->exchange->parameters[at]);
}

static bool match(const char *pattern, struct wire_text path, struct found *found)
{
    const struct wire_text whole = wire_text_of(pattern);
    size_t at = 0;
    size_t to = 0;
    found->count = 0;
    if (path.len == 0 || path.data[0] != '/')
        return false;
    while (to < whole.len) {
        to++;
        const struct wire_text wanted = take_segment(whole, &to);
        if (wanted.len == 3 && memcmp(wanted.data, "...", 3) == 0) {
            found->exchange->rest = (struct wire_text){path.data + at, path.len - at};
            return true;
        }
        if (at == path.len)
            return false;
        at++;
        const struct wire_text segment = take_segment(path, &at);
        if (wanted.len == 0 ? segment.len > 0 : !match_segment(wanted, segment, found))
            return false;
    }
    return at == path.len;
}

/* ---- finding --------------------------------------------------------------------------------- */

static bool takes(const struct http_route *route, enum http1_method method)
{
    return (route->flags & HTTP_ROUTE_ANY) != 0 || route->method == method ||
           (route->method == HTTP1_GET && method == HTTP1_HEAD);
}

static void add_method(struct http_match *out, enum http1_method method)
{
    const char *name = http1_method_name(method);
    const size_t len = strlen(out->allow);
    if (len + strlen(name) + 3 > sizeof out->allow)
        return;
    if (len > 0)
        memcpy(out->allow + len, ", ", 3);
    memcpy(out->allow + len + (len > 0 ? 2 : 0), name, strlen(name) + 1);
}

/* The methods of `methods`, by bits. */
static void put_allow(struct http_match *out, unsigned methods)
{
    out->allow[0] = '\0';
    for (unsigned i = 0; i < HTTP1_TRACE; i++)
        if ((methods >> i & 1) != 0)
            add_method(out, (enum http1_method)i);
}

static unsigned methods_of(const struct http_route *route)
{
    unsigned methods = 1U << HTTP1_OPTIONS;
    for (unsigned i = 0; i < HTTP1_TRACE; i++)
        if (takes(route, (enum http1_method)i))
            methods |= 1U << i;
    return methods;
}

static void refuse(struct http_match *out, unsigned status, const char *detail)
{
    out->route = NULL;
    out->status = (uint16_t)status;
    out->detail = detail;
}

/* No route takes the method; `methods` are those that are taken there, 0: there is nothing. */
static void miss(const struct http1_request *request, unsigned methods, struct http_match *out)
{
    if (methods == 0 && !is_path(request->path))
        refuse(out, 400,
               "the path has an empty or a dot segment, an escaped slash or control character, or "
               "an escape that is none");
    else if (methods == 0)
        refuse(out, 404, "there is nothing at this path");
    else if (request->method == HTTP1_OPTIONS)
        refuse(out, 204, "");
    else
        refuse(out, 405, "what is at this path does not take this method");
    put_allow(out, methods);
}

/* Where routes are looked for. */
struct routes {
    const struct http_route *table;
    size_t count;
    unsigned among;
};

static void find(const struct routes *routes, const struct http1_request *request,
                 struct http_exchange *exchange, char *room, struct http_match *out)
{
    const bool anywhere = request->method == HTTP1_CONNECT || request->path.data[0] == '*';
    unsigned methods = 0;
    for (size_t i = 0; i < routes->count; i++) {
        const struct http_route *route = &routes->table[i];
        struct found found = {.exchange = exchange, .room = room};
        if ((routes->among != 0 && (route->flags & routes->among) == 0) ||
            (!anywhere && !match(route->path, request->path, &found)))
            continue;
        if (!anywhere && takes(route, request->method)) {
            *out = (struct http_match){.route = route};
            return;
        }
        methods |= methods_of(route);
    }
    miss(request, methods, out);
}

void http_route_find_in(const struct http_route *table, size_t count,
                        const struct http1_request *request, struct http_exchange *exchange,
                        char room[HTTP_PARAMETERS_MAX * HTTP_PARAMETER_LEN], struct http_match *out)
{
    find(&(struct routes){table, count, 0}, request, exchange, room, out);
}

void http_route_find(const struct http1_request *request, struct http_exchange *exchange,
                     unsigned among, char room[HTTP_PARAMETERS_MAX * HTTP_PARAMETER_LEN],
                     struct http_match *out)
{
    const struct http_facts *facts = exchange->facts;
    find(&(struct routes){facts->routes, facts->route_count, among}, request, exchange, room, out);
}
