/* test_grpc_gubernator.c - items of Gubernator from bytes and answers to bytes, beside protobuf-c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <proto/gubernator.pb-c.h>

#include "base/random.h"
#include "node/gateway/grpc/grpc_gubernator_wire.h"

enum { ITEMS = 3, MESSAGE_MAX = 1024, MUTANTS = 300000 };

static bool same_text(struct wire_text text, const char *other)
{
    return text.len == strlen(other) && memcmp(text.data, other, text.len) == 0;
}

/* Decoded texts end at their first NUL. */
static bool same_until_nul(struct wire_text text, const char *other)
{
    const char *nul = text.len > 0 ? memchr(text.data, 0, text.len) : NULL;
    return same_text(
        (struct wire_text){text.data, nul != NULL ? (size_t)(nul - text.data) : text.len}, other);
}

static bool same_item(const struct gubernator_item *item, const Pb__Gubernator__RateLimitReq *other)
{
    return same_until_nul(item->name, other->name) &&
           same_until_nul(item->unique_key, other->unique_key) && item->hits == other->hits &&
           item->limit == other->limit && item->duration == other->duration &&
           item->burst == other->burst && item->algorithm == (int32_t)other->algorithm &&
           item->behavior == (int32_t)other->behavior;
}

struct verdict {
    bool same;  /* as many items, with the same fields */
    bool here;  /* it is a message, as it is read here, */
    bool there; /* and as protobuf-c does */
};

static struct verdict compare(const uint8_t *bytes, size_t len)
{
    Pb__Gubernator__GetRateLimitsReq *other =
        pb__gubernator__get_rate_limits_req__unpack(NULL, len, bytes);
    struct grpc_piece rest = {bytes, len};
    struct gubernator_item item;
    size_t count = 0;
    bool same = true;
    int found;
    while ((found = grpc_gubernator_read(&rest, &item)) > 0) {
        same = same && (other == NULL ||
                        (count < other->n_requests && same_item(&item, other->requests[count])));
        count++;
    }
    same = same && (found != 0 || other == NULL || count == other->n_requests);
    const struct verdict verdict = {same, found == 0, other != NULL};
    if (other != NULL)
        pb__gubernator__get_rate_limits_req__free_unpacked(other, NULL);
    return verdict;
}

static size_t make_message(uint8_t bytes[MESSAGE_MAX])
{
    Pb__Gubernator__RateLimitReq items[ITEMS];
    Pb__Gubernator__RateLimitReq *requests[ITEMS];
    Pb__Gubernator__GetRateLimitsReq list = PB__GUBERNATOR__GET_RATE_LIMITS_REQ__INIT;
    static char name[] = "logins", key[] = "of somebody";
    for (size_t i = 0; i < ITEMS; i++) {
        items[i] = (Pb__Gubernator__RateLimitReq)PB__GUBERNATOR__RATE_LIMIT_REQ__INIT;
        items[i].name = name;
        items[i].unique_key = key;
        items[i].hits = i == 1 ? INT64_MIN : (int64_t)i;
        items[i].limit = INT64_MAX;
        items[i].duration = 60000;
        items[i].algorithm = (Pb__Gubernator__Algorithm)(i % 2);
        items[i].behavior = (Pb__Gubernator__Behavior)(i == 2 ? -1 : 32);
        items[i].burst = 300;
        items[i].created_at = 5;
        requests[i] = &items[i];
    }
    list.n_requests = ITEMS;
    list.requests = requests;
    assert_true(pb__gubernator__get_rate_limits_req__get_packed_size(&list) <= MESSAGE_MAX);
    return pb__gubernator__get_rate_limits_req__pack(&list, bytes);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void items_are_those_that_protobuf_c_reads(void **state)
{
    uint8_t bytes[MESSAGE_MAX];
    (void)state;
    const size_t len = make_message(bytes);
    for (size_t i = 0; i <= len; i++) {
        const struct verdict verdict = compare(bytes, i);
        assert_true(verdict.same && verdict.here == verdict.there);
        assert_true(verdict.here || i < len);
    }
}

/* No mutant has metadata, in which nobody looks. Numbers beyond 64 bits, and of fields beyond 32,
 * are refused here, and protobuf-c takes their low ones. */
static void mutants_of_a_message_are_read_as_protobuf_c_reads_them(void **state)
{
    enum { METADATA_KEY = 9 << 3 | GRPC_BYTES };
    uint8_t whole[MESSAGE_MAX], bytes[MESSAGE_MAX];
    struct random random;
    uint32_t ones = 0, stricter = 0;
    (void)state;
    const size_t len = make_message(whole);
    random_init(&random, 14);
    for (uint32_t i = 0; i < MUTANTS; i++) {
        memcpy(bytes, whole, len);
        for (uint64_t left = random_below(&random, 4); left > 0; left--)
            bytes[random_below(&random, len)] = (uint8_t)random_next(&random);
        const size_t cut = random_below(&random, 4) == 0 ? random_below(&random, len + 1) : len;
        if (memchr(bytes, METADATA_KEY, cut) != NULL)
            continue;
        const struct verdict verdict = compare(bytes, cut);
        if (!verdict.same || (verdict.here && !verdict.there))
            fail_msg("mutant %u is another message", i);
        ones += verdict.here;
        stricter += verdict.there && !verdict.here;
    }
    assert_in_range(ones, MUTANTS / 4, MUTANTS);
    assert_in_range(stricter, 0, MUTANTS / 100);
}

static void read_one(const char *bytes, size_t len, struct gubernator_item *item)
{
    struct grpc_piece rest = {(const uint8_t *)bytes, len};
    assert_int_equal(grpc_gubernator_read(&rest, item), 1);
    assert_int_equal(grpc_gubernator_read(&rest, item), 0);
}

#define READ(bytes, item) read_one(bytes, sizeof(bytes) - 1, item)

static void texts_have_their_nul_and_the_last_of_a_field_counts(void **state)
{
    struct gubernator_item item;
    (void)state;
    READ("\x0a\x0f\x0a\1a\x12\3k\0x\x18\1\x18\5\x0a\1b", &item);
    assert_true(same_text(item.name, "b"));
    assert_int_equal(item.unique_key.len, 3);
    assert_memory_equal(item.unique_key.data, "k\0x", 3);
    assert_int_equal(item.hits, 5);
}

static void what_nobody_looks_at_is_passed_by(void **state)
{
    struct gubernator_item item;
    (void)state;
    /* Field 5 of the request; metadata, created_at, and fields 15 and 16 of the item. */
    READ("\x2a\1z\x0a\x17\x4a\2\x0a\0\x50\7\x79"
         "12345678\x85\1"
         "1234\x18\2",
         &item);
    assert_int_equal(item.hits, 2);
    assert_int_equal(item.name.len, 0);
    assert_int_equal(item.limit, 0);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void write_one(const struct gubernator_answer *answer)
{
    static const struct wire_text none = {"", 0};
    uint8_t bytes[GUBERNATOR_RESPONSE_MAX];
    const size_t len = (size_t)(grpc_gubernator_write(answer, bytes) - bytes);
    assert_true(len <= sizeof bytes);
    Pb__Gubernator__GetRateLimitsResp *list =
        pb__gubernator__get_rate_limits_resp__unpack(NULL, len, bytes);
    assert_non_null(list);
    assert_int_equal(list->n_responses, 1);
    const Pb__Gubernator__RateLimitResp *response = list->responses[0];
    assert_int_equal(response->status, answer->over);
    assert_int_equal(response->limit, answer->limit);
    assert_int_equal(response->remaining, answer->remaining);
    assert_int_equal(response->reset_time, answer->reset_ms);
    assert_true(same_text(answer->error, response->error));
    const struct wire_text values[] = {answer->owner, answer->region, none};
    static const char *const keys[] = {"owner", "multi_region"};
    size_t at = 0;
    for (size_t i = 0; i < response->n_metadata; i++, at++) {
        while (values[at].len == 0 && at < 2)
            at++;
        assert_string_equal(response->metadata[i]->key, keys[at]);
        assert_true(same_text(values[at], response->metadata[i]->value));
    }
    assert_int_equal(response->n_metadata, (answer->owner.len > 0) + (answer->region.len > 0));
    assert_int_equal(protobuf_c_message_get_packed_size(&list->base), len); /* no field is a 0 */
    pb__gubernator__get_rate_limits_resp__free_unpacked(list, NULL);
}

static void answers_are_read_by_protobuf_c_as_they_are(void **state)
{
    static char longest[GUBERNATOR_ERROR_MAX];
    struct gubernator_answer answer = {0};
    (void)state;
    answer.error = answer.owner = answer.region = wire_text_of("");
    write_one(&answer);
    answer.over = true;
    answer.limit = 100;
    answer.reset_ms = INT64_C(1700000000000);
    answer.owner = wire_text_of("n1");
    write_one(&answer);
    answer.region = wire_text_of("of some region");
    write_one(&answer);
    memset(longest, 'x', sizeof longest);
    answer.limit = answer.remaining = answer.reset_ms = INT64_MIN;
    answer.error = (struct wire_text){longest, sizeof longest};
    answer.owner = answer.region = (struct wire_text){longest, WIRE_NAME_MAX};
    write_one(&answer);
    answer.owner = wire_text_of("");
    write_one(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_those_that_protobuf_c_reads),
        cmocka_unit_test(mutants_of_a_message_are_read_as_protobuf_c_reads_them),
        cmocka_unit_test(texts_have_their_nul_and_the_last_of_a_field_counts),
        cmocka_unit_test(what_nobody_looks_at_is_passed_by),
        cmocka_unit_test(answers_are_read_by_protobuf_c_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
