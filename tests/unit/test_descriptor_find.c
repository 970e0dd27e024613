/* test_descriptor_find.c - which limit a descriptor asks: tables, and what a naive walk of the file
 * says, at a cost that does not grow with the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/descriptors/descriptor_find.h"
#include "node/policy/model/descriptors.h"
#include "node/policy/model/policy.h"
#include "tests/unit/support_effort.h"

enum { ENTRIES_MAX = 20, ROUNDS = EFFORT(200000), TREES = EFFORT(300) };

static const struct hash_key secret = {{7}};

static struct policy *compile(const char *text)
{
    struct policy_error error;
    struct policy *policy;
    if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s\n%s", error.line, error.column, error.message, text);
    return policy;
}

/* A request that is written "k=v,k2=v2"; a key without a value has the empty one. */
struct written {
    char text[512];
    struct descriptor_entry entries[ENTRIES_MAX];
    struct descriptor_request request;
};

static void write_request(struct written *out, const char *domain, const char *text)
{
    (void)snprintf(out->text, sizeof out->text, "%s", text);
    out->request = (struct descriptor_request){
        .domain = {domain, strlen(domain)}, .entries = out->entries, .entry_count = 0};
    for (char *at = out->text; *at != '\0';) {
        struct descriptor_entry *entry = &out->entries[out->request.entry_count++];
        const size_t len = strcspn(at, ",");
        const size_t key = strcspn(at, "=,");
        entry->key = (struct policy_text){at, key};
        entry->value = (struct policy_text){at + key + (key < len), len - key - (key < len)};
        at += len + (at[len] == ',');
    }
}

static void find(const struct policy *policy, const struct descriptor_request *request,
                 struct descriptor_found *found)
{
    char error[DESCRIPTOR_ERROR_LEN];
    if (policy_descriptor_find(policy, request, &secret, found, error) != 0)
        fail_msg("%s", error);
}

static const char *name_of(const struct descriptor_found *found)
{
    switch (found->match) {
    case DESCRIPTOR_NO_DOMAIN:
        return "no domain";
    case DESCRIPTOR_NO_LIMIT:
        return "";
    case DESCRIPTOR_REPLACED:
        return "replaced";
    default:
        return found->rule->name.data;
    }
}

/* ---- matching -------------------------------------------------------------------------------- */

#define MINUTE "rate_limit: {unit: minute, requests_per_unit: 1}"

static const char shop[] = "domain: shop\n"
                           "descriptors:\n"
                           "- {key: a, value: x, " MINUTE "}\n"
                           "- {key: a, value: \"b*\", " MINUTE "}\n"
                           "- {key: a, value: \"bb*\", " MINUTE "}\n"
                           "- {key: a, value: bbb, " MINUTE "}\n"
                           "- {key: a, " MINUTE "}\n"
                           "- {key: w, value: \"*mid*end\", " MINUTE "}\n"
                           "- {key: \"any*\", value: v, " MINUTE "}\n"
                           "- {key: c_d, value: e, " MINUTE "}\n"
                           "- {key: under_, " MINUTE "}\n"
                           "- {key: s, value: \"*\", " MINUTE "}\n"
                           "- key: n\n"
                           "  " MINUTE "\n"
                           "  descriptors:\n"
                           "  - {key: m, value: \"1*\", " MINUTE "}\n"
                           "  - key: m\n"
                           "    descriptors: [{key: o, " MINUTE "}]\n"
                           "- key: n\n"
                           "  value: \"7*\"\n"
                           "  descriptors: [{key: only, " MINUTE "}]\n"
                           "- {key: silent}\n"
                           "- {key: free, rate_limit: {unlimited: true}}\n"
                           "- {key: shut, rate_limit: {unit: day}}\n";

static const struct {
    const char *request;
    const char *rule; /* "": none */
} matches[] = {
    {"a=x", "shop:a=x"},
    {"a=y", "shop:a"},
    {"a=", "shop:a"},
    {"a=bc", "shop:a=b*"},
    {"a=bbc", "shop:a=b*"},  /* the first of the file, not the longest */
    {"a=bbb", "shop:a=bbb"}, /* exact comes before it */
    {"a=b", "shop:a=b*"},    /* a star may be nothing */
    {"a=b*", "shop:a=b*"},
    {"a=X", "shop:a"}, /* letters keep their case */
    {"w=mid-end", "shop:w=*mid*end"},
    {"w=a-mid-b-end", "shop:w=*mid*end"},
    {"w=midend", "shop:w=*mid*end"},
    {"w=miend", ""},
    {"w=end-mid", ""},
    {"anything=v", "shop:any*=v"}, /* in the key as well */
    {"any=v", "shop:any*=v"},
    {"any=x_v", "shop:any*=v"}, /* key and value are one text */
    {"anything=w", ""},
    {"c=d_e", "shop:c_d=e"}, /* so these are one, too */
    {"c_d=e", "shop:c_d=e"},
    {"c=d", ""},
    {"under=", "shop:under_"}, /* KEY_ of an empty value */
    {"under_=x", "shop:under_"},
    {"s=", "shop:s=*"},
    {"s=\xff\x01", "shop:s=*"},
    {"n=1", "shop:n"},
    {"n=1,m=1", "shop:n,m=1*"},
    {"n=1,m=2", ""},     /* it has no limit of its own */
    {"n=1,m=1,o=1", ""}, /* deeper than what its first match goes */
    {"n=1,m=2,o=1", "shop:n,m,o"},
    {"n=1,m=2,o=1,p=1", ""}, /* deeper than the file */
    {"m=1", ""},             /* another order is another descriptor */
    {"n=77", ""},            /* the wildcard comes before the key alone, and has no limit */
    {"n=77,only=1", "shop:n=7*,only"},
    {"n=77,m=1", ""}, /* and no way back */
    {"silent=1", ""},
    {"free=1", "shop:free"},
    {"shut=1", "shop:shut"},
    {"zzz=1", ""},
    {"", ""},
};

static void exact_comes_before_wildcards_in_order_before_the_key_alone(void **state)
{
    struct policy *policy = compile(shop);
    struct descriptor_found found;
    struct written written;
    (void)state;
    for (size_t i = 0; i < sizeof matches / sizeof matches[0]; i++) {
        write_request(&written, "shop", matches[i].request);
        find(policy, &written.request, &found);
        if (strcmp(name_of(&found), matches[i].rule) != 0)
            fail_msg("%s: %s, not %s", matches[i].request, name_of(&found), matches[i].rule);
        write_request(&written, "shop2", matches[i].request);
        find(policy, &written.request, &found);
        assert_int_equal(found.match, DESCRIPTOR_NO_DOMAIN);
        find(policy_empty(), &written.request, &found);
        assert_int_equal(found.match, DESCRIPTOR_NO_DOMAIN);
    }
    write_request(&written, "shop", "free=1");
    find(policy, &written.request, &found);
    assert_int_equal(found.match, DESCRIPTOR_UNLIMITED);
    write_request(&written, "shop", "shut=1");
    find(policy, &written.request, &found);
    assert_int_equal(found.match, DESCRIPTOR_NOTHING);
    assert_int_equal(found.window_s, 86400);
    policy_free(&policy);
}

static void a_limit_that_comes_along_needs_its_domain_alone(void **state)
{
    static const struct descriptor_given given[] = {{60, 5}, {180, 7}, {1, 0}};
    struct policy *policy = compile(shop);
    struct descriptor_found found;
    struct written written;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        write_request(&written, "shop", i == 0 ? "nobody=1,knows=2" : "a=x");
        written.request.given = &given[i];
        find(policy, &written.request, &found);
        assert_int_equal(found.match, i == 2 ? DESCRIPTOR_NOTHING : DESCRIPTOR_LIMITED);
        assert_null(found.descriptor);
        assert_string_equal(found.rule->name.data, "shop:");
        assert_false(found.rule->shadow);
        assert_int_equal(found.requests_per_unit, given[i].requests_per_unit);
        if (i < 2) {
            assert_int_equal(found.limit.window_ns, given[i].window_s * 1000000000);
            assert_int_equal(found.limit.count, given[i].requests_per_unit);
        }
        written.request.domain = (struct policy_text){"other", 5};
        find(policy, &written.request, &found);
        assert_int_equal(found.match, DESCRIPTOR_NO_DOMAIN);
    }
    policy_free(&policy);
}

/* It is counted with the limit of the file where their units are one, as the reference does. */
static void a_limit_that_comes_along_is_counted_by_the_same_path(void **state)
{
    static const struct descriptor_given given = {60, 5};
    struct policy *policy = compile(shop);
    struct descriptor_found own;
    struct descriptor_found along;
    struct written written;
    (void)state;
    write_request(&written, "shop", "a=x");
    find(policy, &written.request, &own);
    written.request.given = &given;
    find(policy, &written.request, &along);
    assert_string_equal(own.path.data, along.path.data);
    assert_string_equal(own.rule->counted.data, along.rule->counted.data);
    assert_int_equal(own.limit.ordinal, along.limit.ordinal);
    policy_free(&policy);
}

static void what_no_request_may_be_is_refused_with_a_sentence(void **state)
{
    static char longest[DESCRIPTOR_GIVEN_LEN_MAX + 1];
    static const struct descriptor_given none = {0, 5};
    struct policy *policy = compile(shop);
    struct descriptor_entry entries[DESCRIPTOR_ENTRIES_MAX + 1] = {{{"a", 1}, {"x", 1}}};
    struct descriptor_request request = {{"shop", 4}, entries, 1, NULL};
    struct descriptor_found found;
    char error[DESCRIPTOR_ERROR_LEN];
    (void)state;
    memset(longest, 'x', sizeof longest);
    for (uint32_t i = 1; i <= DESCRIPTOR_ENTRIES_MAX; i++)
        entries[i] = entries[0];
    const struct {
        struct policy_text domain;
        struct policy_text key;
        struct policy_text value;
        uint32_t count;
        const struct descriptor_given *given;
        const char *sentence;
    } rows[] = {
        {{"", 0}, {"a", 1}, {"x", 1}, 1, NULL, "domain: found nothing; expected a name"},
        {{"shop", 4},
         {"a", 1},
         {"x", 1},
         DESCRIPTOR_ENTRIES_MAX + 1,
         NULL,
         "entries: found 65; expected at most 64"},
        {{"shop", 4},
         {longest, DESCRIPTOR_KEY_LEN_MAX + 1},
         {"x", 1},
         1,
         NULL,
         "entries[0].key: found 257 bytes; expected at most 256"},
        {{"shop", 4},
         {"a", 1},
         {longest, sizeof longest},
         1,
         NULL,
         "entries[0].value: found 8193 bytes; expected at most 8192"},
        {{"shop", 4},
         {"a", 1},
         {"x", 1},
         1,
         &none,
         "limit.unit: found 0 seconds; expected a unit, of at most ten years"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        request.domain = rows[i].domain;
        request.entry_count = rows[i].count;
        request.given = rows[i].given;
        entries[0] = (struct descriptor_entry){rows[i].key, rows[i].value};
        assert_int_equal(policy_descriptor_find(policy, &request, &secret, &found, error),
                         TG_EINVALID);
        assert_string_equal(error, rows[i].sentence);
    }
    policy_free(&policy);
}

/* ---- what is counted ------------------------------------------------------------------------- */

static void a_shared_threshold_is_counted_by_its_pattern(void **state)
{
    struct policy *policy = compile("domain: d\ndescriptors:\n"
                                    "- {key: f, value: \"x*\", share_threshold: true, " MINUTE ",\n"
                                    "   descriptors: [{key: g, " MINUTE "}]}\n"
                                    "- {key: f, value: \"y*\", " MINUTE "}\n");
    static const char *const rows[][2] = {{"f=x1", "f=x*"},         {"f=x2", "f=x*"},
                                          {"f=x2,g=3", "f=x*,g=3"}, {"f=y1", "f=y1"},
                                          {"f=y\\=", "f=y\\\\"},    {"f=y#", "f=y\\#"}};
    struct descriptor_found found;
    struct written written;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_request(&written, "d", rows[i][0]);
        if (i == 4)
            written.entries[0].value.len--; /* without the `=` */
        find(policy, &written.request, &found);
        assert_int_equal(found.match, DESCRIPTOR_LIMITED);
        assert_string_equal(found.path.data, rows[i][1]);
    }
    policy_free(&policy);
}

static void two_paths_are_counted_apart_however_long(void **state)
{
    struct policy *policy = compile("domain: d\ndescriptors:\n- key: a\n  " MINUTE "\n"
                                    "  descriptors: [{key: b, " MINUTE "}]\n");
    static char value[2][4096];
    struct descriptor_found found[2];
    (void)state;
    for (size_t len = 1; len < sizeof value[0]; len = len * 2 + 1) {
        memset(value[0], 'v', len);
        memcpy(value[1], value[0], len);
        value[1][len / 2] = 'w';
        for (int i = 0; i < 2; i++) {
            const struct descriptor_entry entry = {{"a", 1}, {value[i], len}};
            const struct descriptor_request request = {{"d", 1}, &entry, 1, NULL};
            find(policy, &request, &found[i]);
            assert_true(found[i].path.len <= DESCRIPTOR_PATH_LEN_MAX);
            assert_int_equal(found[i].path.data[0] == '#', len + 2 > DESCRIPTOR_PATH_LEN_MAX);
        }
        assert_string_not_equal(found[0].path.data, found[1].path.data);
    }
    /* The border between two entries is a part of it. */
    const size_t len = 500;
    for (int i = 0; i < 2; i++) {
        const struct descriptor_entry entries[] = {{{"a", 1}, {value[0], len - (size_t)i}},
                                                   {{"b", 1}, {value[0], len + (size_t)i}}};
        const struct descriptor_request request = {{"d", 1}, entries, 2, NULL};
        find(policy, &request, &found[i]);
    }
    assert_string_not_equal(found[0].path.data, found[1].path.data);
    policy_free(&policy);
}

static void a_limit_gives_way_to_one_that_replaces_it(void **state)
{
    struct policy *policy =
        compile("domain: d\ndescriptors:\n"
                "- {key: a, rate_limit: {unit: day, requests_per_unit: 1, name: base}}\n"
                "- {key: b, rate_limit: {unlimited: true, name: more, replaces: [{name: base}]}}\n"
                "- {key: c, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: more}, "
                "{name: none}]}}\n"
                "- {key: e, rate_limit: {unit: day, requests_per_unit: 1}}\n");
    static const char *const requests[] = {"a=1", "b=1", "e=1", "c=1"};
    struct descriptor_found found[4];
    struct written written[4];
    (void)state;
    for (size_t count = 1; count <= 4; count++) {
        for (size_t i = 0; i < count; i++) {
            write_request(&written[i], "d", requests[i]);
            find(policy, &written[i].request, &found[i]);
        }
        policy_descriptors_replace(found, count);
        assert_int_equal(found[0].match, count >= 2 ? DESCRIPTOR_REPLACED : DESCRIPTOR_LIMITED);
        if (count >= 2)
            assert_int_equal(found[1].match,
                             count == 4 ? DESCRIPTOR_REPLACED : DESCRIPTOR_UNLIMITED);
        if (count >= 3)
            assert_int_equal(found[2].match, DESCRIPTOR_LIMITED);
    }
    policy_free(&policy);
}

static void counters_are_named_as_the_file_and_its_options_say(void **state)
{
    struct policy *policy =
        compile("domain: d\ndescriptors:\n"
                "- key: a\n  value_to_metric: true\n  descriptors: [{key: b, " MINUTE "}]\n"
                "- {key: w, value: \"x*\", " MINUTE "}\n"
                "- {key: v, value: \"x*\", value_to_metric: true, " MINUTE "}\n"
                "- {key: s, value: \"x*\", share_threshold: true, value_to_metric: true, "
                "detailed_metric: true, " MINUTE "}\n"
                "- key: e\n  descriptors: [{key: f, detailed_metric: true, " MINUTE "}]\n"
                "- {key: ip, value_to_metric: true, " MINUTE "}\n");
    static const char *const rows[][2] = {
        {"a=1,b=2", "d.a_1.b"},     {"w=x1", "d.w_x*"},
        {"v=x1", "d.v_x1"},         {"s=x1", "d.s_x*"},
        {"e=1,f=2", "d.e_1.f_2"},   {"a=:|,b=", "d.a___.b"},
        {"a=,b=", "d.a.b"},         {"ip=10.0.0.1", "d.ip_10_0_0_1"},
        {"ip=1.2.3", "d.ip_1.2.3"}, {"zz=1", ""}};
    struct descriptor_found found;
    struct written written;
    char name[64];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_request(&written, "d", rows[i][0]);
        find(policy, &written.request, &found);
        assert_int_equal(
            policy_descriptor_stat(policy, &written.request, &found, name, sizeof name),
            strlen(rows[i][1]));
        assert_string_equal(name, rows[i][1]);
    }
    policy_free(&policy);
}

/* ---- a naive walk ---------------------------------------------------------------------------- */

/* Every way of cutting the text, tried. */
static bool naive_wild(const char *pattern, size_t plen, const char *text, size_t len)
{
    if (plen == 0)
        return len == 0;
    if (pattern[0] != '*')
        return len > 0 && pattern[0] == text[0] &&
               naive_wild(pattern + 1, plen - 1, text + 1, len - 1);
    for (size_t run = 0; run <= len; run++)
        if (naive_wild(pattern + 1, plen - 1, text + run, len - run))
            return true;
    return false;
}

enum { EXACT, WILD, ALONE, WAYS };

static bool naive_is(const struct descriptor_node *node, const struct descriptor_entry *entry,
                     int way)
{
    char text[1024];
    const int len = snprintf(text, sizeof text, "%.*s_%.*s", (int)entry->key.len, entry->key.data,
                             (int)entry->value.len, entry->value.data);
    const struct policy_text *own = &node->composite;
    const bool star = memchr(own->data, '*', own->len) != NULL;
    if (way == WILD)
        return star && naive_wild(own->data, own->len, text, (size_t)len);
    const size_t wanted = way == ALONE ? entry->key.len : (size_t)len;
    return own->len == wanted && memcmp(own->data, text, wanted) == 0;
}

/* The rule, by testing every element below each match in the order of the file. */
static const struct policy_rule *naive_find(const struct policy *policy,
                                            const struct descriptor_request *request)
{
    const struct descriptors *all = policy_descriptors(policy);
    uint32_t node = all->domains[0].node;
    for (uint32_t i = 0; i < request->entry_count; i++) {
        uint32_t next = DESCRIPTOR_NONE;
        for (int way = 0; way < WAYS && next == DESCRIPTOR_NONE; way++)
            for (uint32_t at = 0; at < all->node_count && next == DESCRIPTOR_NONE; at++)
                if (all->nodes[at].parent == node &&
                    naive_is(&all->nodes[at], &request->entries[i], way))
                    next = at;
        if (next == DESCRIPTOR_NONE)
            return NULL;
        node = next;
    }
    return request->entry_count == 0 ? NULL : all->nodes[node].rule;
}

/* A text of few letters, so that texts are often alike. */
static size_t random_text(struct random *random, char *out, size_t max)
{
    static const char letters[] = "ab_*";
    const size_t len = random_below(random, max + 1);
    for (size_t i = 0; i < len; i++)
        out[i] = letters[random_below(random, sizeof letters - 1)];
    out[len] = '\0';
    return len;
}

/* One level of a random tree, as YAML in flow style; elements that stand twice are left out. */
static size_t random_level(struct random *random, char *out, size_t room, int depth)
{
    char seen[8][16];
    const uint32_t count = 1 + (uint32_t)random_below(random, 6);
    size_t len = (size_t)snprintf(out, room, "[");
    uint32_t written = 0;
    for (uint32_t i = 0; i < count; i++) {
        char key[4];
        char value[8];
        bool twice = false;
        if (random_text(random, key, 2) == 0)
            continue;
        (void)random_text(random, value, 4);
        (void)snprintf(seen[written], sizeof seen[0], "%s%s%s", key, value[0] != '\0' ? "_" : "",
                       value);
        for (uint32_t k = 0; k < written; k++)
            twice |= strcmp(seen[k], seen[written]) == 0;
        if (twice)
            continue;
        len += (size_t)snprintf(out + len, room - len, "%s{key: \"%s\", value: \"%s\"",
                                written++ > 0 ? ", " : "", key, value);
        if (random_below(random, 4) > 0)
            len += (size_t)snprintf(out + len, room - len, ", " MINUTE);
        if (depth > 1 && random_below(random, 3) > 0) {
            len += (size_t)snprintf(out + len, room - len, ", descriptors: ");
            len += random_level(random, out + len, room - len, depth - 1);
        }
        len += (size_t)snprintf(out + len, room - len, "}");
    }
    return len + (size_t)snprintf(out + len, room - len, "]");
}

static void the_index_says_what_a_naive_walk_says(void **state)
{
    static char text[1 << 20];
    struct random random;
    uint32_t met = 0;
    (void)state;
    random_init(&random, 20261127);
    for (int tree = 0; tree < TREES; tree++) {
        const size_t len = (size_t)snprintf(text, sizeof text, "domain: d\ndescriptors: ");
        (void)random_level(&random, text + len, sizeof text - len, 4);
        struct policy *policy = compile(text);
        for (int round = 0; round < ROUNDS / TREES; round++) {
            char texts[4][2][8];
            struct descriptor_entry entries[4];
            struct descriptor_request request = {
                {"d", 1}, entries, (uint32_t)random_below(&random, 5), NULL};
            struct descriptor_found found;
            for (uint32_t i = 0; i < 4; i++) {
                const size_t key = random_text(&random, texts[i][0], 2);
                const size_t value = random_text(&random, texts[i][1], 5);
                entries[i] = (struct descriptor_entry){{texts[i][0], key}, {texts[i][1], value}};
            }
            find(policy, &request, &found);
            const struct policy_rule *rule = naive_find(policy, &request);
            if (found.rule != rule)
                fail_msg("%s: %s, not %s\n%s", texts[0][0], name_of(&found),
                         rule != NULL ? rule->name.data : "", text);
            met += rule != NULL;
        }
        policy_free(&policy);
    }
    assert_true(met > ROUNDS / 50);
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* `width` descriptors at each of four levels below one another: a chain of wildcards, with exact
 * ones and wildcards of other beginnings beside each. */
static struct policy *wide(uint32_t width)
{
    const size_t room = (size_t)width * 4 * 160 + 4096;
    char *text = malloc(room);
    assert_non_null(text);
    size_t len = (size_t)snprintf(text, room, "domain: d\ndescriptors:\n");
    for (int level = 0; level < 4; level++) {
        for (uint32_t i = 0; i + 1 < width; i++)
            len += (size_t)snprintf(text + len, room - len,
                                    i % 2 == 0 ? "%*s- {key: k, value: \"v%u\", " MINUTE "}\n"
                                               : "%*s- {key: k, value: \"w%07u*\", " MINUTE "}\n",
                                    level * 2, "", i);
        len += (size_t)snprintf(text + len, room - len,
                                "%*s- key: k\n%*s  value: \"*z\"\n%*s  %s\n", level * 2, "",
                                level * 2, "", level * 2, "", level < 3 ? "descriptors:" : MINUTE);
    }
    struct policy *policy = compile(text);
    free(text);
    return policy;
}

static void ten_thousand_descriptors_four_deep_cost_what_ten_do(void **state)
{
    static char hostile[5][8192];
    struct policy *few = wide(3);
    struct policy *many = wide(2500);
    uint32_t worst = 0;
    (void)state;
    assert_true(policy_descriptors(many)->node_count > 10000);
    memset(hostile[1], '*', sizeof hostile[1]);
    memset(hostile[2], 'z', sizeof hostile[2]);
    memset(hostile[3], '\xff', sizeof hostile[3]);
    memcpy(hostile[4], "w0000001", 8);
    memset(hostile[4] + 8, 'z', sizeof hostile[4] - 8);
    for (uint32_t i = 0; i < 625; i++) {
        struct descriptor_entry entries[4];
        const struct descriptor_request request = {{"d", 1}, entries, 4, NULL};
        struct descriptor_found of_few;
        struct descriptor_found of_many;
        uint32_t digits = i;
        for (int level = 0; level < 4; level++, digits /= 5)
            entries[level] = (struct descriptor_entry){
                {"k", 1}, {hostile[digits % 5], digits % 5 == 0 ? 0 : sizeof hostile[0]}};
        find(few, &request, &of_few);
        find(many, &request, &of_many);
        assert_int_equal(of_few.match, of_many.match);
        assert_true(of_many.looks <= 4 * 4 && of_many.compared <= 4 * 2);
        assert_true(of_many.looks <= of_few.looks + 4 && of_many.compared <= of_few.compared + 4);
        worst = of_many.looks > worst ? of_many.looks : worst;
    }
    assert_true(worst > 4);
    policy_free(&few);
    policy_free(&many);
}

/* A long value against a pattern of many pieces: found from the left, each byte is looked at once
 * for each piece that it may begin. */
static void many_stars_against_a_long_value_are_no_trap(void **state)
{
    static char text[2048];
    static char value[DESCRIPTOR_GIVEN_LEN_MAX];
    struct descriptor_found found;
    (void)state;
    size_t len =
        (size_t)snprintf(text, sizeof text, "domain: d\ndescriptors:\n- key: k\n  value: \"");
    for (int i = 0; i < 250; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "aa*");
    (void)snprintf(text + len, sizeof text - len, "b\"\n  " MINUTE "\n");
    struct policy *policy = compile(text);
    memset(value, 'a', sizeof value);
    for (int last = 0; last < 2; last++) {
        const struct descriptor_entry entry = {{"k", 1}, {value, sizeof value}};
        const struct descriptor_request request = {{"d", 1}, &entry, 1, NULL};
        value[sizeof value - 1] = last == 0 ? 'a' : 'b';
        for (int i = 0; i < EFFORT(2000); i++)
            find(policy, &request, &found);
        assert_int_equal(found.match, last == 0 ? DESCRIPTOR_NO_LIMIT : DESCRIPTOR_LIMITED);
    }
    policy_free(&policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_comes_before_wildcards_in_order_before_the_key_alone),
        cmocka_unit_test(a_limit_that_comes_along_needs_its_domain_alone),
        cmocka_unit_test(a_limit_that_comes_along_is_counted_by_the_same_path),
        cmocka_unit_test(what_no_request_may_be_is_refused_with_a_sentence),
        cmocka_unit_test(a_shared_threshold_is_counted_by_its_pattern),
        cmocka_unit_test(two_paths_are_counted_apart_however_long),
        cmocka_unit_test(a_limit_gives_way_to_one_that_replaces_it),
        cmocka_unit_test(counters_are_named_as_the_file_and_its_options_say),
        cmocka_unit_test(the_index_says_what_a_naive_walk_says),
        cmocka_unit_test(ten_thousand_descriptors_four_deep_cost_what_ten_do),
        cmocka_unit_test(many_stars_against_a_long_value_are_no_trap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
