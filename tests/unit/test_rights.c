/* test_rights.c - roles, tokens and credentials: who may do what, and why somebody may not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "node/policy/rights/credentials.h"
#include "node/policy/rights/token.h"

#define NOW_MS 1000000

static struct policy_text text_of(const char *text)
{
    return (struct policy_text){text, strlen(text)};
}

/* ---- roles ----------------------------------------------------------------------------------- */

static void roles_contain_what_they_say(void **state)
{
    (void)state;
    assert_int_equal(rights_of(0), 0);
    assert_int_equal(rights_of(RIGHT_CHECK), RIGHT_CHECK);
    assert_int_equal(rights_of(RIGHT_ADJUST), RIGHT_ADJUST | RIGHT_CHECK);
    assert_int_equal(rights_of(RIGHT_INLINE), RIGHT_INLINE | RIGHT_CHECK);
    assert_int_equal(rights_of(RIGHT_OPERATE), RIGHT_OPERATE | RIGHT_OBSERVE);
    assert_int_equal(rights_of(RIGHT_ADMIN), RIGHTS_ALL & ~RIGHT_NODE);
    assert_int_equal(rights_of(RIGHT_NODE), RIGHT_NODE);
    assert_int_equal(rights_of(RIGHTS_ALL), RIGHTS_ALL);
}

static void roles_are_written_as_they_are_read(void **state)
{
    char text[RIGHTS_TEXT_LEN];
    char error[RIGHTS_EXPECTED_LEN];
    uint8_t roles;
    (void)state;
    for (unsigned given = 0; given <= RIGHTS_ALL; given++) {
        const size_t len = rights_put((uint8_t)given, text);
        assert_int_equal(len, strlen(text));
        assert_int_equal(rights_parse(text, len, &roles, error), 0);
        assert_int_equal(roles, given);
    }
    assert_string_equal(right_name(RIGHT_OBSERVE), "observe");
    static const char *const bad[] = {"",     ",",     "check,",       ",check",
                                      "root", "Check", "check, inline"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(rights_parse(bad[i], strlen(bad[i]), &roles, error), TG_EINVALID);
    assert_non_null(strstr(error, "found role \" inline\"; expected check, adjust"));
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void make_token(uint8_t seed, char out[TOKEN_LEN + 1])
{
    uint8_t random[TOKEN_RANDOM_LEN];
    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (uint8_t)(seed * 31 + i * 7);
    token_write(random, NULL, out);
}

static void a_token_with_any_other_character_is_none(void **state)
{
    char token[TOKEN_LEN + 2];
    (void)state;
    make_token(1, token);
    assert_int_equal(strlen(token), TOKEN_LEN);
    assert_ptr_equal(token_id(token, TOKEN_LEN), token + 4);
    assert_true(token_id_ok(token + 4, TOKEN_ID_LEN));
    for (size_t at = 0; at < TOKEN_LEN; at++) {
        const char was = token[at];
        for (int c = 0; c < 256; c++) {
            token[at] = (char)c;
            assert_int_equal(token_id(token, TOKEN_LEN) != NULL, (char)c == was);
        }
        token[at] = was;
    }
    for (size_t len = 0; len < TOKEN_LEN; len++)
        assert_null(token_id(token, len));
    token[TOKEN_LEN] = 'a';
    assert_null(token_id(token, TOKEN_LEN + 1));
    assert_true(token_begins(token, 4));
    assert_false(token_begins(token, 3));
    assert_false(token_begins("tgk_aaaa", 8));
}

/* ---- records --------------------------------------------------------------------------------- */

static struct credential_record record_of(const char *token)
{
    struct credential_record record = {.name = text_of("web"),
                                       .roles = RIGHT_CHECK | RIGHT_OBSERVE,
                                       .digest_count = 1,
                                       .created_ms = 5,
                                       .created_by = text_of("ops"),
                                       .revoked_by = text_of("")};
    digest_make(token, strlen(token), &record.digests[0].digest);
    return record;
}

static void add_network(struct credential_record *record, const char *text)
{
    assert_int_equal(
        policy_block_parse(text, strlen(text), &record->networks[record->network_count++]),
        POLICY_BLOCK_GOOD);
}

static void a_record_is_read_as_it_was_written(void **state)
{
    char token[TOKEN_LEN + 1];
    uint8_t bytes[CREDENTIAL_RECORD_LEN_MAX];
    struct credential_record read;
    (void)state;
    make_token(2, token);
    struct credential_record record = record_of(token);
    record.digest_count = 2;
    record.digests[1].until_ms = 77;
    record.expires_ms = 1ULL << 60;
    record.revoked_ms = 9;
    record.revoked_by = text_of("root");
    add_network(&record, "10.0.0.0/8");
    add_network(&record, "192.0.2.1/32");
    add_network(&record, "2001:db8::/32");
    const int len = credential_encode(&record, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_true(credential_decode(bytes, (size_t)len, &read));
    assert_int_equal(read.roles, record.roles);
    assert_memory_equal(read.name.data, "web", 3);
    assert_memory_equal(read.digests, record.digests, sizeof read.digests);
    assert_int_equal(read.expires_ms, record.expires_ms);
    assert_int_equal(read.revoked_ms, 9);
    assert_memory_equal(read.revoked_by.data, "root", 4);
    assert_int_equal(read.network_count, 3);
    assert_int_equal(read.networks[1].prefix, 32);
    uint8_t again[CREDENTIAL_RECORD_LEN_MAX];
    assert_int_equal(credential_encode(&read, again, sizeof again), len);
    assert_memory_equal(again, bytes, (size_t)len);
    for (int cut = 0; cut < len; cut++)
        assert_false(credential_decode(bytes, (size_t)cut, &read));
    assert_int_equal(credential_encode(&record, bytes, 40), TG_ETOOBIG);
}

static void the_largest_record_fits(void **state)
{
    char name[CREDENTIAL_AUTHOR_LEN_MAX];
    uint8_t bytes[CREDENTIAL_RECORD_LEN_MAX];
    struct credential_record record = {.digest_count = CREDENTIAL_DIGESTS_MAX};
    (void)state;
    memset(name, 'x', sizeof name);
    record.name = (struct policy_text){name, CREDENTIAL_NAME_LEN_MAX};
    record.created_by = record.revoked_by = (struct policy_text){name, sizeof name};
    record.created_ms = record.expires_ms = record.revoked_ms = UINT64_MAX;
    record.digests[0].until_ms = record.digests[1].until_ms = UINT64_MAX;
    while (record.network_count < CREDENTIAL_NETWORKS_MAX)
        add_network(&record, "2001:db8:1111:1111:1111:1111:1111:1110/127");
    const int len = credential_encode(&record, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_true(credential_decode(bytes, (size_t)len, &record));
    assert_true(credential_name_ok("a.B_9-", 6));
    assert_false(credential_name_ok("", 0));
    assert_false(credential_name_ok("a b", 3));
    assert_false(credential_name_ok(name, CREDENTIAL_NAME_LEN_MAX + 1));
}

/* ---- sets ------------------------------------------------------------------------------------ */

enum { KEPT = 4 };
static struct {
    char tokens[KEPT][TOKEN_LEN + 1];
    uint8_t bytes[KEPT][CREDENTIAL_RECORD_LEN_MAX];
    struct credential_entry entries[KEPT + 1];
    struct credentials *set;
} bench;

static void keep(uint32_t i, const struct credential_record *record)
{
    const int len = credential_encode(record, bench.bytes[i], sizeof bench.bytes[i]);
    assert_true(len > 0);
    bench.entries[i] = (struct credential_entry){{bench.tokens[i] + 4, TOKEN_ID_LEN},
                                                 {(char *)bench.bytes[i], (size_t)len}};
}

/* 0: of networks; 1: ends; 2: is revoked; 3: has a token that is replaced; and one of nonsense. */
static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < KEPT; i++) {
        make_token((uint8_t)(i + 3), bench.tokens[i]);
        struct credential_record record = record_of(bench.tokens[i]);
        if (i == 0) {
            add_network(&record, "10.0.0.0/8");
            add_network(&record, "2001:db8::/32");
        }
        record.expires_ms = i == 1 ? NOW_MS : 0;
        record.revoked_ms = i == 2 ? 1 : 0;
        record.digests[0].until_ms = i == 3 ? NOW_MS : 0;
        keep(i, &record);
    }
    bench.entries[KEPT] = (struct credential_entry){{"aaaaaaaaaaaa", 12}, {"nonsense", 8}};
    assert_int_equal(credentials_new(alloc_heap(), bench.entries, KEPT + 1, &bench.set), 0);
    assert_int_equal(credentials_count(bench.set), KEPT);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    credentials_free(&bench.set);
    return 0;
}

static void expect(uint32_t i, const char *address, uint64_t now_ms,
                   enum credential_verdict verdict)
{
    const struct credential *found;
    struct policy_ip ip = {.len = 0};
    if (address != NULL)
        assert_true(policy_ip_parse(address, strlen(address), &ip));
    assert_int_equal(credentials_judge(bench.set, bench.tokens[i], TOKEN_LEN,
                                       address != NULL ? &ip : NULL, now_ms, &found),
                     verdict);
    assert_int_equal(found != NULL, verdict == CREDENTIAL_GOOD);
    if (found != NULL)
        assert_int_equal(found->rights, RIGHT_CHECK | RIGHT_OBSERVE);
    assert_int_equal(strlen(credential_sentence(verdict)) > 0, verdict != CREDENTIAL_GOOD);
}

static void a_credential_is_judged_by_time_and_place(void **state)
{
    (void)state;
    expect(0, "10.1.2.3", NOW_MS, CREDENTIAL_GOOD);
    expect(0, "2001:db8::1", NOW_MS, CREDENTIAL_GOOD);
    expect(0, "11.1.2.3", NOW_MS, CREDENTIAL_ELSEWHERE);
    expect(0, NULL, NOW_MS, CREDENTIAL_ELSEWHERE);
    expect(1, NULL, NOW_MS - 1, CREDENTIAL_GOOD);
    expect(1, NULL, NOW_MS, CREDENTIAL_EXPIRED);
    expect(2, NULL, NOW_MS, CREDENTIAL_REVOKED);
    expect(3, NULL, NOW_MS - 1, CREDENTIAL_GOOD);
    expect(3, NULL, NOW_MS, CREDENTIAL_EXPIRED);
}

static void of_two_tokens_each_is_good_in_its_time(void **state)
{
    char newer[TOKEN_LEN + 1];
    const struct credential *found;
    (void)state;
    credentials_free(&bench.set);
    make_token(3, newer); /* of one id: what is behind it differs */
    memcpy(bench.tokens[0], newer, sizeof newer);
    struct credential_record record = record_of(newer);
    record.digests[1].until_ms = NOW_MS;
    record.digest_count = 2;
    digest_make("an older one", 12, &record.digests[1].digest);
    keep(0, &record);
    assert_int_equal(credentials_new(alloc_heap(), bench.entries, 1, &bench.set), 0);
    assert_int_equal(credentials_judge(bench.set, newer, TOKEN_LEN, NULL, NOW_MS, &found),
                     CREDENTIAL_GOOD);
    assert_int_equal(credential_still(found, NULL, NOW_MS), CREDENTIAL_GOOD);
}

static void whoever_does_not_know_the_secret_learns_nothing(void **state)
{
    const struct credential *found;
    char guess[TOKEN_LEN + 1];
    static const uint8_t random[TOKEN_RANDOM_LEN] = {1};
    (void)state;
    for (uint32_t i = 0; i < KEPT; i++) { /* the id is right, the rest is not */
        token_write(random, bench.tokens[i] + 4, guess);
        assert_memory_equal(guess, bench.tokens[i], 4 + TOKEN_ID_LEN);
        assert_int_equal(credentials_judge(bench.set, guess, TOKEN_LEN, NULL, NOW_MS, &found),
                         CREDENTIAL_UNKNOWN);
        assert_null(found);
    }
    make_token(20, guess);
    assert_int_equal(credentials_judge(bench.set, guess, TOKEN_LEN, NULL, NOW_MS, &found),
                     CREDENTIAL_UNKNOWN);
    assert_int_equal(credentials_judge(NULL, guess, TOKEN_LEN, NULL, NOW_MS, &found),
                     CREDENTIAL_UNKNOWN);
    assert_int_equal(credentials_judge(bench.set, "tgt_", 4, NULL, NOW_MS, &found),
                     CREDENTIAL_MALFORMED);
}

/* A connection that keeps id and digest is judged as one that shows the token again: the same
 * verdicts, and none by another token's digest or id. */
static void a_kept_digest_is_judged_as_the_token(void **state)
{
    const struct credential *found;
    const struct credential *kept;
    struct digest digests[KEPT];
    struct policy_ip ips[2];
    (void)state;
    assert_true(policy_ip_parse("10.1.2.3", 8, &ips[0]));
    assert_true(policy_ip_parse("11.1.2.3", 8, &ips[1]));
    for (uint32_t i = 0; i < KEPT; i++)
        digest_make(bench.tokens[i], TOKEN_LEN, &digests[i]);
    for (uint32_t i = 0; i < KEPT * 4; i++) {
        const char *token = bench.tokens[i / 4];
        const uint64_t now_ms = NOW_MS - i % 2;
        const struct policy_ip *ip = &ips[i / 2 % 2];
        const enum credential_verdict verdict =
            credentials_judge(bench.set, token, TOKEN_LEN, ip, now_ms, &found);
        assert_int_equal(
            credentials_judge_kept(bench.set, token + 4, &digests[i / 4], ip, now_ms, &kept),
            verdict);
        assert_ptr_equal(kept, found);
    }
    assert_int_equal(
        credentials_judge_kept(bench.set, bench.tokens[0] + 4, &digests[0], &ips[0], NOW_MS, &kept),
        CREDENTIAL_GOOD);
    assert_int_equal(
        credentials_judge_kept(bench.set, bench.tokens[0] + 4, &digests[1], &ips[0], NOW_MS, &kept),
        CREDENTIAL_UNKNOWN);
    assert_null(kept);
    assert_int_equal(
        credentials_judge_kept(bench.set, "aaaaaaaaaaab", &digests[0], &ips[0], NOW_MS, &kept),
        CREDENTIAL_UNKNOWN);
    assert_int_equal(
        credentials_judge_kept(NULL, bench.tokens[0] + 4, &digests[0], &ips[0], NOW_MS, &kept),
        CREDENTIAL_UNKNOWN);
    assert_null(kept);
}

static void a_shared_set_lives_as_long_as_its_last_holder(void **state)
{
    struct credentials *other = credentials_share(bench.set);
    (void)state;
    credentials_free(&bench.set);
    bench.set = other;
    expect(3, NULL, NOW_MS - 1, CREDENTIAL_GOOD);
}

int main(void)
{
#define SET(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles_contain_what_they_say),
        cmocka_unit_test(roles_are_written_as_they_are_read),
        cmocka_unit_test(a_token_with_any_other_character_is_none),
        cmocka_unit_test(a_record_is_read_as_it_was_written),
        cmocka_unit_test(the_largest_record_fits),
        SET(a_credential_is_judged_by_time_and_place),
        SET(of_two_tokens_each_is_good_in_its_time),
        SET(whoever_does_not_know_the_secret_learns_nothing),
        SET(a_kept_digest_is_judged_as_the_token),
        SET(a_shared_set_lives_as_long_as_its_last_holder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
