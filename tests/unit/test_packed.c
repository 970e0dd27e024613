/* test_packed.c - documents of rules that are kept packed: what comes out is what went in, and
 * bytes that lie or are damaged are refused within the bound of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/random.h"
#include "node/policy/compile/packed.h"
#include "node/policy/compile/policy_compile.h"

enum { RULES = 4900, RULE_LEN_MAX = 400, DAMAGES = 12, BOMB_LEN = POLICY_FILE_LEN_MAX + (1 << 20) };

struct fixture {
    struct alloc_failing heap;
    const struct allocator *allocator;
    char *text;
    size_t len;
    struct packed packed;
};

/* Rules in block style, as people write them. */
static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    alloc_failing_init(&f->heap, 0);
    f->allocator = &f->heap.allocator;
    f->text = malloc((size_t)RULES * RULE_LEN_MAX);
    assert_non_null(f->text);
    struct random random;
    random_init(&random, 7);
    f->len = (size_t)snprintf(f->text, RULE_LEN_MAX, "rules:\n");
    for (unsigned i = 0; i < RULES; i++)
        f->len += (size_t)snprintf(
            f->text + f->len, RULE_LEN_MAX,
            "  # guards what %08x pays for\n"
            "  - name: api-%04u\n"
            "    priority: %u\n"
            "    match:\n"
            "      api: /v%u/items/%06x/*\n"
            "      tenant: %010llx\n"
            "    key: [user, ip]\n"
            "    limits:\n"
            "      - rate: %u/h\n"
            "        burst: %u\n"
            "    on_failure: closed\n",
            (unsigned)random_below(&random, UINT32_MAX), i, (unsigned)random_below(&random, 1000),
            (unsigned)random_below(&random, 4), (unsigned)random_below(&random, 1 << 24),
            (unsigned long long)random_below(&random, UINT64_C(1) << 40),
            1 + (unsigned)random_below(&random, 5000), 1 + (unsigned)random_below(&random, 900));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    packed_fini(&f->packed, f->allocator);
    assert_int_equal(f->heap.bytes_live, 0);
    free(f->text);
    free(f);
    return 0;
}

/* What is opened is what was made, and nothing is held after it. */
static void assert_opens(const struct fixture *f, const char *text, size_t len)
{
    struct packed opened;
    assert_int_equal(packed_open(f->packed.data, f->packed.len, f->allocator, &opened), 0);
    assert_int_equal(opened.len, len);
    assert_int_equal(packed_text_len(f->packed.data, f->packed.len), len);
    assert_memory_equal(opened.data, text, len);
    packed_fini(&opened, f->allocator);
}

/* A large document is packed to a sixth at most, and means what it meant. */
static void a_large_document_is_packed_and_means_the_same(void **state)
{
    struct fixture *f = *state;
    struct policy_error error;
    struct policy *plain;
    struct policy *packed;
    assert_true(f->len > POLICY_DOCUMENT_LEN_MAX);
    assert_int_equal(packed_make(f->text, f->len, f->allocator, &f->packed), 0);
    assert_true(packed_is(f->packed.data, f->packed.len));
    assert_in_range(f->packed.len, 1, f->len / 6);
    assert_opens(f, f->text, f->len);
    assert_int_equal(policy_compile(f->text, f->len, alloc_heap(), &plain, &error), 0);
    assert_int_equal(
        packed_compile(f->packed.data, f->packed.len, alloc_heap(), NULL, &packed, &error), 0);
    assert_int_equal(policy_rule_count(packed), RULES);
    assert_true(policy_digest(plain) == policy_digest(packed));
    policy_free(&plain);
    policy_free(&packed);
}

/* Up to the bound a document is kept as it is written; one byte more is packed. */
static void a_document_within_the_bound_is_left_as_it_is(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(packed_make(f->text, POLICY_DOCUMENT_LEN_MAX, f->allocator, &f->packed), 0);
    assert_ptr_equal(f->packed.data, f->text);
    assert_int_equal(f->packed.len, POLICY_DOCUMENT_LEN_MAX);
    assert_opens(f, f->text, POLICY_DOCUMENT_LEN_MAX);
    assert_int_equal(packed_make(f->text, POLICY_DOCUMENT_LEN_MAX + 1, f->allocator, &f->packed),
                     0);
    assert_true(packed_is(f->packed.data, f->packed.len));
    assert_opens(f, f->text, POLICY_DOCUMENT_LEN_MAX + 1);
}

/* What does not pack is handed out longer than what is kept, for its length to be told. */
static void noise_is_no_shorter_packed(void **state)
{
    struct fixture *f = *state;
    struct random random;
    random_init(&random, 9);
    for (size_t i = 0; i < f->len; i++)
        f->text[i] = (char)random_below(&random, 256);
    assert_int_equal(packed_make(f->text, f->len, f->allocator, &f->packed), 0);
    assert_true(f->packed.len > POLICY_DOCUMENT_LEN_MAX);
    assert_opens(f, f->text, f->len);
}

/* Packs `len` zeros. */
static uint8_t *pack_zeros(size_t len, size_t *out_len)
{
    z_stream stream = {.zalloc = NULL};
    Bytef *zeros = calloc(1, len);
    assert_non_null(zeros);
    assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
    const size_t room = deflateBound(&stream, len);
    uint8_t *out = malloc(room);
    assert_non_null(out);
    stream.next_in = zeros;
    stream.avail_in = (uInt)len;
    stream.next_out = out;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *out_len = stream.total_out;
    assert_int_equal(deflateEnd(&stream), Z_OK);
    free(zeros);
    return out;
}

/* Packed zeros that are said to be `told` bytes are refused so. */
static void assert_lie(const struct fixture *f, uint8_t *bytes, size_t len, uint32_t told,
                       int error)
{
    struct packed opened;
    struct policy *policy;
    struct policy_error place;
    for (unsigned i = 0; i < 4; i++)
        bytes[len - 4 + i] = (uint8_t)(told >> 8 * i);
    assert_int_equal(packed_open(bytes, len, f->allocator, &opened), error);
    assert_null(opened.block);
    assert_int_equal(packed_compile(bytes, len, f->allocator, NULL, &policy, &place), error);
    assert_non_null(strstr(place.message, error == TG_ETOOBIG
                                              ? "expected at most 16777216"
                                              : "damaged, expected a whole file of gzip"));
}

/* A few bytes that would unpack to gigabytes, or to another length than they say, take no more
 * memory than the bound allows: PACKED-1. */
static void what_lies_about_its_length_is_refused(void **state)
{
    const struct fixture *f = *state;
    size_t len;
    uint8_t *bytes = pack_zeros(BOMB_LEN, &len);
    assert_lie(f, bytes, len, BOMB_LEN, TG_ETOOBIG);
    assert_lie(f, bytes, len, UINT32_MAX, TG_ETOOBIG);
    assert_lie(f, bytes, len, POLICY_FILE_LEN_MAX + 1, TG_ETOOBIG);
    assert_lie(f, bytes, len, POLICY_FILE_LEN_MAX, TG_EINVALID);
    assert_lie(f, bytes, len, 0, TG_EINVALID);
    free(bytes);
    bytes = pack_zeros(1 << 16, &len);
    assert_lie(f, bytes, len, (1 << 16) + 1, TG_EINVALID);
    assert_lie(f, bytes, len, (1 << 16) - 1, TG_EINVALID);
    free(bytes);
}

/* A changed bit, a missing end and bytes behind the end are found. */
static void damage_is_found(void **state)
{
    struct fixture *f = *state;
    struct packed opened;
    struct random random;
    random_init(&random, 3);
    assert_int_equal(packed_make(f->text, f->len, f->allocator, &f->packed), 0);
    uint8_t *bytes = f->packed.block;
    const size_t len = f->packed.len;
    for (unsigned i = 0; i < DAMAGES; i++) {
        const size_t at = 10 + random_below(&random, len - 10); /* behind gzip's own head */
        const uint8_t bit = (uint8_t)(1 << random_below(&random, 8));
        bytes[at] ^= bit;
        assert_true(packed_open(bytes, len, f->allocator, &opened) != 0);
        bytes[at] ^= bit;
    }
    for (size_t cut = 0; cut < 64; cut++)
        assert_true(cut < 2 || packed_open(bytes, cut, f->allocator, &opened) != 0);
    assert_true(packed_open(bytes, len - 1, f->allocator, &opened) != 0);
    memcpy(bytes + len, bytes + len - 8, 8); /* the right length, behind a second end */
    assert_int_equal(packed_open(bytes, len + 8, f->allocator, &opened), TG_EINVALID);
    assert_opens(f, f->text, f->len);
}

/* Without memory nothing is held. */
static void without_memory_nothing_is_held(void **state)
{
    struct fixture *f = *state;
    struct packed opened;
    assert_int_equal(packed_make(f->text, f->len, f->allocator, &f->packed), 0);
    const size_t live = f->heap.bytes_live;
    size_t failures = 0;
    for (bool done = false; !done; failures++) {
        f->heap.requests = 0;
        f->heap.fail_at = failures + 1;
        const int error = packed_open(f->packed.data, f->packed.len, f->allocator, &opened);
        done = error == 0;
        assert_true(done || error == TG_ENOMEM);
        packed_fini(&opened, f->allocator);
        assert_int_equal(f->heap.bytes_live, live);
    }
    assert_true(failures > 2);
    packed_fini(&f->packed, f->allocator);
    for (size_t fail_at = 1; fail_at < 4; fail_at++) {
        f->heap.requests = 0;
        f->heap.fail_at = fail_at;
        assert_int_equal(packed_make(f->text, f->len, f->allocator, &f->packed), TG_ENOMEM);
        assert_int_equal(f->heap.bytes_live, 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_large_document_is_packed_and_means_the_same),
        TEST(a_document_within_the_bound_is_left_as_it_is),
        TEST(noise_is_no_shorter_packed),
        TEST(what_lies_about_its_length_is_refused),
        TEST(damage_is_found),
        TEST(without_memory_nothing_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
