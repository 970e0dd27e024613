/* auth_request.c - attributes out of a proxy's question; auth_request.h has the rules. */
#include "node/gateway/api/auth_request.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/model/policy_ip.h"

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

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_unreserved(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Bytes of "scheme://" at the front of a URI, whatever the scheme; 0: it begins with a path. */
static size_t scheme_len(struct wire_text uri)
{
    size_t at = 0;
    while (at < uri.len &&
           (is_letter(uri.data[at]) ||
            (at > 0 && uri.data[at] != '\0' && strchr("0123456789+-.", uri.data[at]) != NULL)))
        at++;
    return at > 0 && uri.len - at >= 3 && memcmp(uri.data + at, "://", 3) == 0 ? at + 3 : 0;
}

/* The authority of an absolute URI; without data if it has none. */
static struct wire_text host_of(struct wire_text uri)
{
    const size_t from = scheme_len(uri);
    size_t at = from;
    while (from > 0 && at < uri.len && memchr("/?#", uri.data[at], 3) == NULL)
        at++;
    return (struct wire_text){from > 0 ? uri.data + from : NULL, at - from};
}

/* The path of a URI: what is behind its authority, before its query and fragment. */
static struct wire_text path_of(struct wire_text uri)
{
    const size_t from = scheme_len(uri) + host_of(uri).len;
    size_t at = from;
    while (at < uri.len && uri.data[at] != '?' && uri.data[at] != '#')
        at++;
    return (struct wire_text){uri.data + from, at - from};
}

/* The next letter of a path: an escape of an unreserved one is that one. Bytes that it takes. */
static size_t next_letter(struct wire_text path, size_t at, char out[3], size_t *len)
{
    const int high = path.len - at >= 3 && path.data[at] == '%' ? hex_of(path.data[at + 1]) : -1;
    const int low = high >= 0 ? hex_of(path.data[at + 2]) : -1;
    *len = 1;
    out[0] = path.data[at];
    if (low < 0 && out[0] == '%') { /* with what follows it could be read as an escape */
        memcpy(out + 1, "25", 2);
        *len = 3;
    }
    if (low < 0)
        return 1;
    if (is_unreserved(high << 4 | low)) {
        out[0] = (char)(high << 4 | low);
        return 3;
    }
    static const char digits[] = "0123456789ABCDEF";
    out[1] = digits[high];
    out[2] = digits[low];
    *len = 3;
    return 3;
}

/* A segment has ended, which begins at `from`: of dots alone it is taken back. The path's length;
 * *dots: it was. */
static size_t end_segment(const char *out, size_t from, size_t len, bool *dots)
{
    const bool one = len - from == 1 && out[from] == '.';
    const bool two = len - from == 2 && out[from] == '.' && out[from + 1] == '.';
    *dots = one || two;
    if (!*dots)
        return len;
    if (one || from <= 1)
        return from;
    size_t at = from - 1; /* the slash before the dots */
    while (at > 0 && out[at - 1] != '/')
        at--;
    return at;
}

size_t auth_path(struct wire_text uri, char *out, size_t max)
{
    const struct wire_text path = path_of(uri);
    size_t len = 0;
    size_t from; /* of the segment at hand */
    bool dots;
    ASSERT(max > 3 * uri.len);
    out[len++] = '/';
    from = len;
    for (size_t at = 0; at < path.len;) {
        char letter[3];
        size_t letters;
        at += next_letter(path, at, letter, &letters);
        if (letter[0] != '/' || letters > 1) {
            ASSERT(letters <= max - len);
            memcpy(out + len, letter, letters);
            len += letters;
            continue;
        }
        len = end_segment(out, from, len, &dots);
        if (len > 0 && out[len - 1] != '/') {
            ASSERT(len < max);
            out[len++] = '/';
        }
        from = len;
    }
    return end_segment(out, from, len, &dots);
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
        struct wire_text text = {field.data + from, end - from};
        while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
            text = (struct wire_text){text.data + 1, text.len - 1};
        while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
            text.len--;
        if (text.len == 0 || !networks_read_ip(text, &hop))
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
        out->too_long = name;
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
        out->too_long = "host";
    for (; len < end && len < AUTH_HOST_MAX; len++) {
        const char c = host.data[len];
        room[len] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    if (len > 1 && room[len - 1] == '.')
        len--; /* the root of names says nothing */
    if (len > 0)
        add_room(out, "host", len);
}

/* Decodes a parameter's value, of a form: + is a blank. */
static size_t decode(struct wire_text text, char *out, size_t max)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len && len < max; i++) {
        const int high = text.len - i >= 3 && text.data[i] == '%' ? hex_of(text.data[i + 1]) : -1;
        const int low = high >= 0 ? hex_of(text.data[i + 2]) : -1;
        out[len++] = low >= 0 ? (char)(high << 4 | low) : text.data[i] == '+' ? ' ' : text.data[i];
        i += low >= 0 ? 2 : 0;
    }
    return len;
}

/* The parameter of that name in a query: the last one, as most readers of forms take it. */
static bool find_parameter(struct wire_text query, const char *name, struct wire_text *out)
{
    bool found = false;
    for (size_t at = 0; at < query.len;) {
        const char *from = query.data + at;
        const char *end = memchr(from, '&', query.len - at);
        const size_t len = end != NULL ? (size_t)(end - from) : query.len - at;
        const char *equals = memchr(from, '=', len);
        const size_t name_len = equals != NULL ? (size_t)(equals - from) : len;
        char decoded[AUTH_NAME_LEN];
        const size_t decoded_len =
            decode((struct wire_text){from, name_len}, decoded, sizeof decoded);
        if (decoded_len == strlen(name) && memcmp(decoded, name, decoded_len) == 0) {
            *out = equals != NULL ? (struct wire_text){equals + 1, len - name_len - 1}
                                  : (struct wire_text){from, 0};
            found = true;
        }
        at += len + 1;
    }
    return found;
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

static void add_queries(struct auth_request *out, const struct auth_endpoint *endpoint,
                        struct wire_text query)
{
    for (uint32_t i = 0; i < endpoint->query_count; i++) {
        struct wire_text value;
        if (find_parameter(query, endpoint->queries[i] + sizeof "query." - 1, &value))
            add_room(out, endpoint->queries[i],
                     decode(value, out->room + out->room_used, WIRE_VALUE_MAX + 1));
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
    out->too_long = NULL;
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
    add_room(out, "api", auth_path(uri, out->room + out->room_used, AUTH_PATH_MAX));
    add_host(out, host);
    for (uint32_t i = 0; believed && i < endpoint->header_count; i++) {
        const struct wire_text value = last_field(request, endpoint->headers[i].field);
        if (value.data != NULL && value.len > 0)
            add(out, endpoint->headers[i].attribute, value);
    }
    add_queries(out, endpoint, query);
}
