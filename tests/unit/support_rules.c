/* support_rules.c - the rules and requests of support_rules.h. */
#include "tests/unit/support_rules.h"
#include "node/policy/compile/policy_compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RULE_LEN_MAX = 512 };

const char *rules_shape_name(enum rules_shape shape)
{
    static const char *const names[RULES_SHAPES] = {
        [RULES_EXACT] = "exact apis and methods",
        [RULES_PREFIX] = "apis with a trailing *",
        [RULES_MIXED] = "exact, trailing * and customers",
        [RULES_TIERS] = "one api, a tier each",
        [RULES_ATTRIBUTES] = "one api, an attribute each",
        [RULES_IPV4] = "one api, an IPv4 block each",
        [RULES_IPV6] = "one api, an IPv6 block each",
        [RULES_IP_LISTS] = "one api, eight blocks each",
        [RULES_INNER] = "an inner *: /v1/*/item-7",
        [RULES_INNER_REST] = "two stars: /v1/*/item-7/*",
        [RULES_SUFFIX] = "a leading *: *@shop-7.example",
        [RULES_GROUP] = "tiers over a default in a group",
        [RULES_PIECES] = "pieces of segments: /v1/x*7y*",
        [RULES_EVERYONE] = "every rule matches",
    };
    return names[shape];
}

size_t rules_parts(enum rules_shape shape)
{
    return shape == RULES_MIXED ? 2 : shape == RULES_EVERYONE ? 0 : 1;
}

/* The `match` of rule i. */
static void put_match(enum rules_shape shape, size_t i, char out[RULE_LEN_MAX])
{
    const size_t high = i / 256;
    const size_t low = i % 256;
    switch (shape) {
    case RULES_EXACT:
        (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/item-%05zu, method: [GET, POST]}", i);
        break;
    case RULES_PREFIX:
        (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/item-%05zu/*}", i);
        break;
    case RULES_MIXED:
        if (i % 3 == 0)
            (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/item-%05zu, method: [GET, POST]}", i);
        else if (i % 3 == 1)
            (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/item-%05zu/*, method: POST}", i);
        else
            (void)snprintf(out, RULE_LEN_MAX, "{tier: [free, trial], customer: c%05zu, api: /v1/*}",
                           i);
        break;
    case RULES_TIERS:
    case RULES_GROUP:
        (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/pay, tier: t%zu}", i);
        break;
    case RULES_ATTRIBUTES:
        (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/pay, method: POST, shop: s%zu}", i);
        break;
    case RULES_IPV4:
        (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/pay, ip: 10.%zu.%zu.%zu/%zu}", high, low,
                       (size_t)64 * (i % 3), 24 + 2 * (i % 3));
        break;
    case RULES_IPV6:
        (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/pay, ip: \"2001:db8:%zx::/48\"}", i + 1);
        break;
    case RULES_IP_LISTS:
        (void)snprintf(out, RULE_LEN_MAX,
                       "{api: /v1/pay, ip: [10.%zu.%zu.0/24, 11.%zu.%zu.0/24, 12.%zu.%zu.0/28, "
                       "13.%zu.%zu.64/26, \"2001:db8:%zx::/48\", \"2001:db9:%zx:1::/64\", "
                       "\"2001:dba:%zx::/56\", 14.%zu.%zu.7]}",
                       high, low, high, low, high, low, high, low, i + 1, i + 1, i + 1, high, low);
        break;
    case RULES_INNER:
        (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/*/item-%zu}", i);
        break;
    case RULES_INNER_REST:
        (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/*/item-%zu/*}", i);
        break;
    case RULES_SUFFIX:
        (void)snprintf(out, RULE_LEN_MAX, "{email: \"*@shop-%zu.example\"}", i);
        break;
    case RULES_PIECES:
        (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/x*%05zuy*}", i);
        break;
    case RULES_EVERYONE:
    case RULES_SHAPES:
        (void)snprintf(out, RULE_LEN_MAX, "{api: /v1/pay}");
        break;
    }
}

struct policy *rules_policy(enum rules_shape shape, size_t count)
{
    char match[RULE_LEN_MAX];
    const size_t room = 64 + count * RULE_LEN_MAX;
    char *text = malloc(room);
    struct policy_error error;
    struct policy *policy = NULL;
    size_t at = 0;

    if (text == NULL)
        exit(1);
    at += (size_t)snprintf(text, room, "rules:\n");
    for (size_t i = 0; i < count; i++) {
        put_match(shape, i, match);
        at += (size_t)snprintf(text + at, room - at,
                               "- {name: r%zu, %skey: [%s], limits: [{rate: 5/h}], match: %s}\n", i,
                               shape == RULES_GROUP ? "group: g, " : "",
                               shape == RULES_EVERYONE ? "nobody-has-it" : "user",
                               shape == RULES_GROUP && i + 1 == count ? "{}" : match);
    }
    if (policy_compile(text, at, alloc_heap(), &policy, &error) != 0) {
        (void)fprintf(stderr, "%u:%u: %s\n", error.line, error.column, error.message);
        exit(1);
    }
    free(text);
    return policy;
}

static void add(struct rules_request *request, const char *name, const char *value)
{
    request->attributes[request->count++] =
        (struct policy_attribute){name, strlen(name), value, strlen(value)};
}

/* The address that only rule i takes. */
static void put_address(enum rules_shape shape, size_t i, char out[64])
{
    if (shape == RULES_IPV4)
        (void)snprintf(out, 64, "10.%zu.%zu.%zu", i / 256, i % 256, 64 * (i % 3) + 5);
    else if (shape == RULES_IPV6 || i % 2 == 0)
        (void)snprintf(out, 64, "2001:db8:%zx::77", i + 1);
    else
        (void)snprintf(out, 64, "13.%zu.%zu.77", i / 256, i % 256);
}

void rules_request_init(struct rules_request *request, enum rules_shape shape, size_t count,
                        size_t i)
{
    char *const api = request->text[0];
    char *const other = request->text[1];
    const size_t rule = shape == RULES_MIXED ? i % (count / 3) * 3 : i % count;

    request->count = 0;
    (void)snprintf(api, 64, "/v1/pay");
    switch (shape) {
    case RULES_EXACT:
        (void)snprintf(api, 64, "/v1/item-%05zu", rule);
        break;
    case RULES_PREFIX:
        (void)snprintf(api, 64, "/v1/item-%05zu/x", rule);
        break;
    case RULES_MIXED:
        (void)snprintf(api, 64, "/v1/item-%05zu/x", rule + 1);
        (void)snprintf(other, 64, "c%05zu", rule + 2);
        add(request, "customer", other);
        add(request, "tier", "free");
        break;
    case RULES_TIERS:
    case RULES_GROUP:
        (void)snprintf(other, 64, "t%zu", rule);
        add(request, "tier", other);
        break;
    case RULES_ATTRIBUTES:
        (void)snprintf(other, 64, "s%zu", rule);
        add(request, "shop", other);
        break;
    case RULES_IPV4:
    case RULES_IPV6:
    case RULES_IP_LISTS:
        put_address(shape, rule, other);
        add(request, "ip", other);
        break;
    case RULES_INNER:
        (void)snprintf(api, 64, "/v1/shop-%zu/item-%zu", i % 7, rule);
        break;
    case RULES_INNER_REST:
        (void)snprintf(api, 64, "/v1/shop-%zu/item-%zu/x", i % 7, rule);
        break;
    case RULES_SUFFIX:
        (void)snprintf(other, 64, "me@shop-%zu.example", rule);
        add(request, "email", other);
        break;
    case RULES_PIECES:
        (void)snprintf(api, 64, "/v1/xa%05zuyb", rule);
        break;
    case RULES_EVERYONE:
    case RULES_SHAPES:
        break;
    }
    add(request, "api", api);
    add(request, "method", "POST");
    add(request, "user", "u");
}
