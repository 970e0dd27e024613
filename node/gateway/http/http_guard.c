/* http_guard.c - what http_guard.h tells of: Host, Origin, Sec-Fetch-Site, token, Content-Type.
 *
 * HTTPGUARD-1  What a page of another origin can make a browser send is refused before any handler
 *              sees it, unless it is a GET or HEAD of a probe.
 * HTTPGUARD-2  Nobody reaches a call of operators but by a token whose roles say so, or by that of
 *              the node's admin.cred.
 * HTTPGUARD-3  What is asked of the shard has the rights that it needs (ACCESS-1).
 */
#include "node/gateway/http/http_guard.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "node/gateway/http/http_batch.h"
#include "node/gateway/networks.h"
#include "node/policy/rights/token.h"

enum { IPV4_PARTS = 4, PLAIN_MAX = 1024 };

#define LITERAL(literal)                                                                           \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }
#define IS_WORD(text, literal) http1_same((text), (struct wire_text)LITERAL(literal))

/* The host without its port, and without the brackets of IPv6. The parser saw to its form. */
static struct wire_text without_port(struct wire_text host)
{
    if (host.len > 0 && host.data[0] == '[') {
        const char *end = memchr(host.data, ']', host.len);
        const size_t len = end != NULL ? (size_t)(end - host.data) : host.len;
        return (struct wire_text){host.data + 1, len - 1};
    }
    const char *colon = host.len > 0 ? memchr(host.data, ':', host.len) : NULL;
    return (struct wire_text){host.data, colon != NULL ? (size_t)(colon - host.data) : host.len};
}

/* 127.0.0.0/8 as four numbers: a browser takes other spellings apart before it sends them. */
static bool is_loopback_v4(struct wire_text host)
{
    unsigned parts = 0;
    size_t at = 0;
    while (at < host.len) {
        unsigned number = 0;
        const size_t first = at;
        while (at < host.len && host.data[at] >= '0' && host.data[at] <= '9' && at - first < 3)
            number = number * 10 + (unsigned)(host.data[at++] - '0');
        if (at == first || number > 255 || (parts == 0 && number != 127))
            return false;
        parts++;
        if (at < host.len && (host.data[at] != '.' || parts == IPV4_PARTS))
            return false;
        at += at < host.len;
    }
    return parts == IPV4_PARTS;
}

static bool is_loopback(struct wire_text host)
{
    return IS_WORD(host, "localhost") || IS_WORD(host, "::1") || is_loopback_v4(host);
}

static bool may_be_named(struct wire_text host, const struct http_facts *facts,
                         const struct gateway_peer *peer)
{
    const struct wire_text name = without_port(host);
    if (is_loopback(name) || http1_same(name, without_port(wire_text_of(peer->local))))
        return true;
    for (uint32_t i = 0; i < facts->name_count; i++)
        if (http1_same(name, wire_text_of(facts->names[i])) || strcmp(facts->names[i], "*") == 0)
            return true;
    return false;
}

/* Whether the page that asks is the node's own, as far as its browser tells. */
static bool is_own(const struct http1_request *request)
{
    const struct wire_text site = request->fetch_site;
    struct wire_text origin = request->origin;
    if (site.data != NULL && !IS_WORD(site, "same-origin") && !IS_WORD(site, "none"))
        return false;
    if (origin.data == NULL)
        return true;
    static const struct wire_text schemes[] = {LITERAL("http://"), LITERAL("https://")};
    for (size_t i = 0; i < 2; i++) {
        const size_t len = schemes[i].len;
        if (origin.len <= len || !http1_same((struct wire_text){origin.data, len}, schemes[i]))
            continue;
        const struct wire_text host = {origin.data + len, origin.len - len};
        return request->host.data != NULL && http1_same(host, request->host);
    }
    return false;
}

/* "application/json", with parameters or not. */
static bool is_json(const struct http1_request *request)
{
    static const char json[] = "application/json";
    const struct wire_text type = request->content_type;
    const size_t len = sizeof json - 1;
    if (type.len < len || !IS_WORD(((struct wire_text){type.data, len}), "application/json"))
        return false;
    if (request->encoding.data != NULL && !IS_WORD(request->encoding, "identity"))
        return false;
    return type.len == len || strchr("; \t", type.data[len]) != NULL;
}

bool http_is_yaml(const struct http1_request *request)
{
    struct wire_text type = request->content_type;
    for (size_t i = 0; i < type.len; i++)
        if (strchr("; \t", type.data[i]) != NULL)
            type.len = i;
    return IS_WORD(type, "application/yaml") || IS_WORD(type, "application/x-yaml") ||
           IS_WORD(type, "text/yaml");
}

/* Whether the body is of a type that the route takes. */
static bool is_taken(const struct http1_request *request, const struct http_route *route)
{
    if (route->body == HTTP_BODY_NONE || is_json(request))
        return true;
    if (route->body == HTTP_BODY_RULES && http_is_yaml(request))
        return true;
    return (route->flags & HTTP_ROUTE_OPERATOR) != 0 && request->body.len == 0;
}

/* What stands behind the scheme in Authorization; false: it is another one. */
static bool take_scheme(const struct http1_request *request, const char *scheme,
                        struct wire_text *rest)
{
    const struct wire_text *value = http1_header(request, "Authorization");
    const size_t len = strlen(scheme);
    if (value == NULL || http1_count(request, "Authorization") != 1 || value->len <= len + 1 ||
        value->data[len] != ' ' ||
        !http1_same((struct wire_text){value->data, len}, wire_text_of(scheme)))
        return false;
    size_t at = len + 1;
    while (at < value->len && value->data[at] == ' ')
        at++;
    *rest = (struct wire_text){value->data + at, value->len - at};
    return true;
}

static bool is_operators(const struct http_facts *facts, struct wire_text token)
{
    struct digest digest;
    if (facts->operators == NULL || token.len == 0)
        return false;
    digest_make(token.data, token.len, &digest);
    return digest_equal(&digest, facts->operators);
}

/* The password of `Authorization: Basic ...`, into `plain`, whatever the user is called. */
static struct wire_text password_of(struct wire_text text, char plain[PLAIN_MAX])
{
    size_t len = 0;
    if (sodium_base642bin((unsigned char *)plain, PLAIN_MAX, text.data, text.len, NULL, &len, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0)
        return (struct wire_text){"", 0};
    const char *colon = memchr(plain, ':', len);
    return colon != NULL ? (struct wire_text){colon + 1, len - (size_t)(colon + 1 - plain)}
                         : (struct wire_text){"", 0};
}

/* What the request shows. Of what a proxy passes on Authorization is its caller's, and none of
 * ours. Only of the page it may be the password that a browser sends by itself: such it sends for
 * other pages, too. */
static struct wire_text shown_by(const struct http1_request *request,
                                 const struct http_route *route, char plain[PLAIN_MAX])
{
    const struct wire_text *own = http1_header(request, "Tidegate-Token");
    struct wire_text text;
    if (own != NULL)
        return *own;
    if ((route->flags & HTTP_ROUTE_PROXY) == 0 && take_scheme(request, "Bearer", &text))
        return text;
    if ((route->flags & HTTP_ROUTE_PAGE) != 0 && take_scheme(request, "Basic", &text))
        return password_of(text, plain);
    return (struct wire_text){"", 0};
}

static bool is_probe(const struct http1_request *request, const struct http_route *route)
{
    return route != NULL && (route->flags & HTTP_ROUTE_PROBE) != 0 &&
           (request->method == HTTP1_GET || request->method == HTTP1_HEAD);
}

/* Whether a trusted proxy asks: its Host and Origin are those of its caller. */
static bool is_proxys(const struct http_route *route, const struct http_facts *facts,
                      const struct gateway_peer *peer)
{
    struct policy_ip ip;
    return route != NULL && (route->flags & HTTP_ROUTE_PROXY) != 0 &&
           networks_trust(facts->trusted, peer->address, &ip);
}

/* The right that the route needs itself. Whoever may ask nothing of the shard is not listened to.
 */
static uint8_t needed_by(const struct http_route *route, const struct access *access)
{
    const uint8_t any = RIGHT_CHECK | RIGHT_ADJUST;
    if (route->right_of != NULL)
        return route->right_of(route);
    if ((route->flags & HTTP_ROUTE_CHECKS) != 0 && route->right == 0)
        return (access->rights & any) == 0 ? RIGHT_CHECK : 0;
    return route->right;
}

static void refuse(const struct access *access, uint8_t needed, struct http_stats *stats,
                   struct http_guarded *out)
{
    const bool known = access->shown && access->verdict == CREDENTIAL_GOOD;
    access_sentence(access, needed, out->text);
    out->status = known ? 403 : 401;
    out->needed = needed;
    out->detail = out->text;
    out->counter = &stats->unauthorized;
}

/* Who asks, and whether he may ask that at all. */
static void guard_access(struct http_exchange *exchange, const struct http_route *route, bool early,
                         struct http_stats *stats, struct http_guarded *out)
{
    static const uint8_t token_only = HTTP_ROUTE_OPERATOR | HTTP_ROUTE_PAGE;
    char plain[PLAIN_MAX];
    const struct http_facts *facts = exchange->facts;
    const bool closed = (route->flags & token_only) != 0;
    struct wire_text shown = shown_by(exchange->request, route, plain);
    if (closed && is_operators(facts, shown)) {
        exchange->access.rights = rights_of(RIGHT_ADMIN);
        return;
    }
    if (!closed && !token_begins(shown.data, shown.len))
        shown.len = 0; /* it is none of ours: Authorization may be meant for somebody else */
    access_judge(facts->policy, closed ? 0 : facts->anonymous, shown, exchange->peer->base.address,
                 exchange->now_ns, &exchange->access);
    if (early && exchange->access.shown && token_begins(shown.data, shown.len))
        return; /* whose it is will be known: nothing is answered before but that */
    const uint8_t needed = needed_by(route, &exchange->access);
    if (exchange->access.verdict != CREDENTIAL_GOOD ||
        access_missing(&exchange->access, needed)[0] != '\0')
        refuse(&exchange->access, needed, stats, out);
    if (closed && out->status == 401 && !exchange->access.shown)
        (void)snprintf(
            out->text, sizeof out->text,
            "expected Authorization: Bearer and a token with the role %s, or that of the "
            "node's admin.cred",
            right_name((enum right)needed));
}

bool http_guard_checks(const struct http_exchange *exchange,
                       const struct wire_checks_builder *builder, uint32_t from,
                       struct http_stats *stats, struct http_guarded *out)
{
    const uint8_t needed = access_needs(builder, from);
    if (access_missing(&exchange->access, needed)[0] == '\0')
        return false;
    refuse(&exchange->access, needed, stats, out);
    return true;
}

void http_guard(struct http_exchange *exchange, const struct http_route *route, bool early,
                struct http_stats *stats, struct http_guarded *out)
{
    const struct http1_request *request = exchange->request;
    const struct http_facts *facts = exchange->facts;
    const struct gateway_peer *peer = &exchange->peer->base;
    out->status = 0;
    out->counter = NULL;
    out->needed = 0;
    if (is_probe(request, route))
        return;
    if (!is_proxys(route, facts, peer)) {
        if (request->host.data != NULL && !may_be_named(request->host, facts, peer)) {
            out->status = 421;
            out->detail = "Host names neither loopback nor a name of --http-name";
            out->counter = &stats->hosts;
        } else if (!is_own(request)) {
            out->status = 403;
            out->detail = "the request is of a page of another origin (Origin, Sec-Fetch-Site)";
            out->counter = &stats->origins;
        }
    }
    if (out->status == 0 && route != NULL && !peer->aside)
        guard_access(exchange, route, early, stats, out);
    if (out->status == 0 && route != NULL && !is_proxys(route, facts, peer) &&
        !is_taken(request, route)) {
        out->status = 415;
        out->detail = "expected Content-Type: application/json, without Content-Encoding";
        out->counter = &stats->types;
    }
}
