/* test_api_keys.c - records of API keys, sets of them, and what they make of a request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/people/api_keys.h"

enum { KEYS = 400, LOOKS = 20000, NOW_MS = 5000 };

struct made {
    char text[API_KEY_LEN + 1];
    uint8_t record[API_KEY_RECORD_LEN_MAX];
    struct api_key_entry entry;
};

static struct policy_text text_of(const char *text)
{
    return (struct policy_text){text, strlen(text)};
}

static void make(struct made *made, struct random *random, struct api_key_record record)
{
    uint8_t bits[API_KEY_ID_LEN + API_KEY_SECRET_LEN];
    for (size_t i = 0; i < sizeof bits; i++)
        bits[i] = (uint8_t)random_next(random);
    api_key_write(bits, made->text);
    digest_make(made->text, API_KEY_LEN, &record.digest);
    const int len = api_key_encode(&record, made->record, sizeof made->record);
    assert_true(len > 0);
    made->entry = (struct api_key_entry){
        .id = {made->text + strlen(API_KEY_PREFIX), API_KEY_ID_LEN},
        .value = {(const char *)made->record, (size_t)len},
    };
}

static struct api_keys *set_of(const struct made *made, size_t count)
{
    static struct api_key_entry entries[KEYS];
    struct api_keys *keys;
    for (size_t i = 0; i < count; i++)
        entries[i] = made[i].entry;
    assert_int_equal(api_keys_new(alloc_heap(), entries, count, &keys), 0);
    api_keys_check_invariants(keys);
    return keys;
}

static struct policy_attribute attribute(const char *name, const char *value)
{
    return (struct policy_attribute){name, strlen(name), value, strlen(value)};
}

static void assert_value(const struct policy_attribute *attributes, size_t count, const char *name,
                         const char *value)
{
    for (size_t i = 0; i < count; i++)
        if (attributes[i].name_len == strlen(name) &&
            memcmp(attributes[i].name, name, strlen(name)) == 0) {
            assert_int_equal(attributes[i].value_len, strlen(value));
            assert_memory_equal(attributes[i].value, value, strlen(value));
            return;
        }
    fail_msg("no attribute '%s'", name);
}

/* A record comes back as it was written, the longest one too; a torn or a foreign one is none. */
static void a_record_is_read_as_it_is_written(void **state)
{
    static char longest[API_KEY_OWNER_LEN_MAX];
    uint8_t bytes[API_KEY_RECORD_LEN_MAX + 64];
    struct api_key_record read;
    (void)state;
    memset(longest, 'x', sizeof longest);
    const struct api_key_record record = {
        .name = {longest, API_KEY_NAME_LEN_MAX},
        .owner = {longest, API_KEY_OWNER_LEN_MAX},
        .tier = {longest, API_KEY_TIER_LEN_MAX},
        .created_by = {longest, API_KEY_AUTHOR_LEN_MAX},
        .revoked_by = {longest, API_KEY_AUTHOR_LEN_MAX},
        .created_ms = UINT64_MAX,
        .expires_ms = 7,
        .revoked_ms = 8,
        .own = {.counts = {1, 2, 3, 4, 5, 6, 7}, .burst = 8},
    };
    const int len = api_key_encode(&record, bytes, API_KEY_RECORD_LEN_MAX);
    assert_true(len > 0);
    assert_true(api_key_decode(bytes, (size_t)len, &read));
    assert_int_equal(read.name.len, API_KEY_NAME_LEN_MAX);
    assert_int_equal(read.owner.len, API_KEY_OWNER_LEN_MAX);
    assert_int_equal(read.tier.len, API_KEY_TIER_LEN_MAX);
    assert_true(read.created_ms == UINT64_MAX && read.expires_ms == 7 && read.revoked_ms == 8);
    assert_memory_equal(&read.own, &record.own, sizeof read.own);
    for (int i = 0; i < len; i++)
        assert_false(api_key_decode(bytes, (size_t)i, &read));
    bytes[1] = 2; /* of a release that changed the meaning */
    assert_false(api_key_decode(bytes, (size_t)len, &read));
}

/* A record of a release that knew no own limits has none; own limits that cannot be are no record.
 */
static void a_record_without_own_limits_is_read(void **state)
{
    uint8_t bytes[API_KEY_RECORD_LEN_MAX];
    struct api_key_record read;
    const struct api_key_record record = {.created_ms = 5, .own = {.burst = 3}};
    (void)state;
    const int len = api_key_encode(&record, bytes, sizeof bytes);
    const int own_len = 2 + 1 + 8; /* the head of the bin, which units, the burst */
    assert_true(api_key_decode(bytes, (size_t)len, &read));
    assert_int_equal(read.own.burst, 3);
    assert_int_equal(bytes[0], 0x90 + 11);
    bytes[len - own_len + 2] = 0; /* nothing is given, and yet something follows */
    assert_false(api_key_decode(bytes, (size_t)len, &read));
    bytes[0] = 0x90 + 10;
    assert_true(api_key_decode(bytes, (size_t)(len - own_len), &read));
    assert_true(own_limits_empty(&read.own));
}

/* An id is taken for one, and nothing else is. */
static void ids_are_told_from_other_texts(void **state)
{
    (void)state;
    assert_true(api_key_id_ok("abcdefgh2345", 12));
    assert_false(api_key_id_ok("abcdefgh234", 11));
    assert_false(api_key_id_ok("abcdefgh2345a", 13));
    assert_false(api_key_id_ok("abcdefgh2341", 12));
    assert_false(api_key_id_ok("Abcdefgh2345", 12));
    assert_false(api_key_id_ok("abcdefgh234\0", 12));
}

/* A key in force puts its id in its own place, and its owner and tier over those that the request
 * gave: afterwards the key itself is nowhere. */
static void a_key_becomes_its_id_its_owner_and_its_tier(void **state)
{
    static struct made made;
    struct policy_attribute attributes[4 + POLICY_ATTRIBUTES_ADDED_MAX];
    const struct api_key *key;
    struct random random;
    char id[API_KEY_ID_LEN + 1] = "";
    size_t count = 3;
    (void)state;
    random_init(&random, 1);
    make(&made, &random,
         (struct api_key_record){.owner = text_of("ada"), .tier = text_of("premium")});
    memcpy(id, made.entry.id.data, API_KEY_ID_LEN);
    struct api_keys *keys = set_of(&made, 1);
    attributes[0] = attribute("user", "mallory");
    attributes[1] = attribute("api_key", made.text);
    attributes[2] = attribute("api", "/x");
    assert_null(api_keys_resolve(keys, NULL, attributes, &count, NOW_MS, &key));
    assert_non_null(key);
    assert_int_equal(count, 4);
    assert_value(attributes, count, "api_key", id);
    assert_value(attributes, count, "user", "ada");
    assert_value(attributes, count, "tier", "premium");
    assert_value(attributes, count, "api", "/x");
    api_keys_free(&keys);
}

/* A key without owner and tier leaves those of the request; a request without a key, or with an
 * empty one, is left alone. */
static void what_a_key_does_not_say_stays_as_it_was(void **state)
{
    static struct made made;
    struct policy_attribute attributes[3 + POLICY_ATTRIBUTES_ADDED_MAX];
    const struct api_key *key;
    struct random random;
    size_t count = 3;
    (void)state;
    random_init(&random, 2);
    make(&made, &random, (struct api_key_record){.created_ms = 1});
    struct api_keys *keys = set_of(&made, 1);
    attributes[0] = attribute("api_key", made.text);
    attributes[1] = attribute("user", "bob");
    attributes[2] = attribute("tier", "free");
    assert_null(api_keys_resolve(keys, NULL, attributes, &count, NOW_MS, &key));
    assert_value(attributes, count, "user", "bob");
    assert_value(attributes, count, "tier", "free");
    assert_int_equal(count, 3);
    attributes[0] = attribute("api_key", "");
    assert_null(api_keys_resolve(keys, NULL, attributes, &count, NOW_MS, &key));
    assert_null(key);
    attributes[0] = attribute("api_kez", made.text);
    assert_null(api_keys_resolve(keys, NULL, attributes, &count, NOW_MS, &key));
    assert_value(attributes, count, "api_kez", made.text);
    api_keys_free(&keys);
}

/* What is refused says why, with status 401; a key ends by time alone, at its very millisecond. */
static void unknown_expired_and_revoked_keys_are_refused_by_name(void **state)
{
    static struct made made[2];
    struct random random;
    static const struct {
        size_t made;
        uint64_t now_ms;
        const char *message;
    } cases[] = {
        {0, 999, NULL},
        {0, 1000, "API key expired"},
        {1, 1, "API key revoked"},
        {1, 2000, "API key revoked"}, /* also when it has expired since */
        {2, 1, "API key unknown"},
    };
    (void)state;
    random_init(&random, 3);
    make(&made[0], &random, (struct api_key_record){.expires_ms = 1000});
    make(&made[1], &random, (struct api_key_record){.expires_ms = 1000, .revoked_ms = 1});
    struct api_keys *keys = set_of(made, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct policy_attribute attributes[1 + POLICY_ATTRIBUTES_ADDED_MAX];
        const struct api_key *key;
        size_t count = 1;
        attributes[0] = attribute("api_key", cases[i].made < 2 ? made[cases[i].made].text : "tgk_");
        const struct policy_rule *refusal =
            api_keys_resolve(keys, NULL, attributes, &count, cases[i].now_ms, &key);
        assert_int_equal(key != NULL, cases[i].made < 2);
        assert_int_equal(refusal != NULL, cases[i].message != NULL);
        if (refusal == NULL)
            continue;
        assert_string_equal(refusal->message.data, cases[i].message);
        assert_int_equal(refusal->message.len, strlen(cases[i].message));
        assert_int_equal(refusal->status, 401);
        assert_int_equal(refusal->act, POLICY_ACT_BLOCK);
    }
    api_keys_free(&keys);
}

/* Against a list that is searched from its beginning: what was made is found, what differs in one
 * character is not. */
static void every_key_of_a_set_is_found_and_no_other(void **state)
{
    static struct made made[KEYS];
    struct random random;
    (void)state;
    random_init(&random, 4);
    for (size_t i = 0; i < KEYS; i++)
        make(&made[i], &random, (struct api_key_record){.created_ms = i});
    struct api_keys *keys = set_of(made, KEYS);
    assert_int_equal(api_keys_count(keys), KEYS);
    for (size_t i = 0; i < LOOKS; i++) {
        const struct made *near = &made[random_below(&random, KEYS)];
        char text[API_KEY_LEN + 1];
        const bool spoilt = random_below(&random, 2) == 1;
        memcpy(text, near->text, sizeof text);
        if (spoilt)
            text[random_below(&random, API_KEY_LEN)] ^= 1;
        const struct api_key *found = api_keys_find(keys, text, API_KEY_LEN);
        assert_int_equal(found != NULL, !spoilt);
        if (found != NULL)
            assert_memory_equal(found->id.data, near->entry.id.data, API_KEY_ID_LEN);
    }
    api_keys_free(&keys);
}

/* A cache tells of each key what the set tells, whether it was asked before or not, and however
 * many share its places; of a set that it was not begun with it is never asked. */
static void a_cache_tells_what_the_set_tells(void **state)
{
    static struct made made[KEYS];
    static struct api_keys_cache cache;
    const struct hash_key secret = {{7}};
    struct random random;
    (void)state;
    random_init(&random, 7);
    for (size_t i = 0; i < KEYS; i++)
        make(&made[i], &random, (struct api_key_record){.expires_ms = i % 3 == 0 ? NOW_MS : 0});
    struct api_keys *keys = set_of(made, KEYS);
    api_keys_cache_init(&cache, &secret);
    for (size_t i = 0; i < LOOKS; i++) {
        struct policy_attribute cached[1 + POLICY_ATTRIBUTES_ADDED_MAX];
        const struct api_key *expected;
        const struct api_key *found;
        char text[API_KEY_LEN + 1];
        size_t count = 1;
        memcpy(text, made[random_below(&random, KEYS)].text, sizeof text);
        text[API_KEY_LEN - 1] ^= random_below(&random, 4) == 0;
        cached[0] = attribute("api_key", text);
        expected = api_keys_find(keys, text, API_KEY_LEN);
        const uint64_t now_ms = NOW_MS - 1 + random_below(&random, 2);
        const struct policy_rule *refusal =
            api_keys_resolve(keys, &cache, cached, &count, now_ms, &found);
        assert_ptr_equal(found, expected);
        assert_int_equal(refusal == NULL, expected != NULL && (expected->expires_ms == 0 ||
                                                               now_ms < expected->expires_ms));
    }
    api_keys_free(&keys);
}

/* A record that cannot be read is no key, and leaves the others in force. */
static void records_that_cannot_be_read_are_left_out(void **state)
{
    static struct made made[2];
    struct random random;
    (void)state;
    random_init(&random, 5);
    make(&made[0], &random, (struct api_key_record){.created_ms = 1});
    make(&made[1], &random, (struct api_key_record){.created_ms = 2});
    made[0].entry.value.len--;
    struct api_keys *keys = set_of(made, 2);
    assert_int_equal(api_keys_count(keys), 1);
    assert_null(api_keys_find(keys, made[0].text, API_KEY_LEN));
    assert_non_null(api_keys_find(keys, made[1].text, API_KEY_LEN));
    api_keys_free(&keys);
}

/* Without memory nothing is made, and nothing is lost. */
static void a_set_that_finds_no_memory_is_none(void **state)
{
    static struct made made;
    struct random random;
    struct api_keys *keys = NULL;
    struct alloc_failing failing;
    (void)state;
    random_init(&random, 6);
    make(&made, &random, (struct api_key_record){.created_ms = 1});
    for (size_t fail_at = 1; fail_at <= 4; fail_at++) {
        alloc_failing_init(&failing, fail_at);
        assert_int_equal(api_keys_new(&failing.allocator, &made.entry, 1, &keys), TG_ENOMEM);
        assert_null(keys);
        assert_int_equal(failing.bytes_live, 0);
    }
    alloc_failing_init(&failing, 0);
    assert_int_equal(api_keys_new(&failing.allocator, &made.entry, 1, &keys), 0);
    api_keys_free(&keys);
    assert_int_equal(failing.bytes_live, 0);
    assert_int_equal(api_keys_new(alloc_heap(), &made.entry, API_KEYS_SET_MAX + 1, &keys),
                     TG_ETOOBIG);
}

/* A set that is shared is there until all have freed it. */
static void a_shared_set_outlives_who_made_it(void **state)
{
    static struct made made;
    struct random random;
    (void)state;
    random_init(&random, 11);
    make(&made, &random, (struct api_key_record){.created_ms = 1});
    struct api_keys *keys = set_of(&made, 1);
    struct api_keys *shared = api_keys_share(keys);
    api_keys_free(&keys);
    assert_null(keys);
    assert_non_null(api_keys_find(shared, made.text, API_KEY_LEN));
    api_keys_free(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_read_as_it_is_written),
        cmocka_unit_test(a_record_without_own_limits_is_read),
        cmocka_unit_test(ids_are_told_from_other_texts),
        cmocka_unit_test(a_key_becomes_its_id_its_owner_and_its_tier),
        cmocka_unit_test(what_a_key_does_not_say_stays_as_it_was),
        cmocka_unit_test(unknown_expired_and_revoked_keys_are_refused_by_name),
        cmocka_unit_test(every_key_of_a_set_is_found_and_no_other),
        cmocka_unit_test(a_cache_tells_what_the_set_tells),
        cmocka_unit_test(records_that_cannot_be_read_are_left_out),
        cmocka_unit_test(a_set_that_finds_no_memory_is_none),
        cmocka_unit_test(a_shared_set_outlives_who_made_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
