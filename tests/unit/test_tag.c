/* test_tag.c - a request's identity: the same for the same question, another for any other. */
#include "base/error.h"

#include "client/include/tidegate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/lib/tag.h"

static const tg_limit_t limit = {.count = 5, .window_ns = 60000000000};
static struct client_tag_key key;

static int set_up(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 3);
    for (size_t i = 0; i < sizeof key.word / sizeof key.word[0]; i++)
        key.word[i] = random_next(&random);
    return 0;
}

static struct client_tag tag_of(const tg_request_t *request)
{
    struct client_tag tag;

    assert_true(client_tag_of(&key, request, &tag));
    assert_true(tag.place != 0);
    return tag;
}

static bool same(const tg_request_t *a, const tg_request_t *b)
{
    const struct client_tag x = tag_of(a);
    const struct client_tag y = tag_of(b);
    const bool equal = memcmp(x.word, y.word, sizeof x.word) == 0;

    assert_true(!equal || x.place == y.place);
    return equal;
}

/* However a length is given, and whatever is asked about the key, it is the same key. */
static void the_same_question_has_the_same_tag(void **state)
{
    const char copy[] = "user:42";
    const tg_attribute_t names[] = {{"api", "/login", TG_STRLEN}, {"ip", "192.0.2.7", 9}};
    const tg_attribute_t others[] = {{"api", "/login", 6}, {"ip", "192.0.2.7", TG_STRLEN}};
    tg_request_t a = tg_request_inline("user:42", &limit);
    tg_request_t b = tg_request_inline(copy, &limit);

    (void)state;
    b.key_len = 7;
    b.cost = 9;
    b.operation = TG_REFUND;
    b.at_most = 1;
    assert_true(same(&a, &b));
    a = tg_request(names, 2);
    b = tg_request(others, 2);
    assert_true(same(&a, &b));
}

/* Each part of an inline limit, and each byte of the key, makes another tag. */
static void another_limit_or_key_has_another_tag(void **state)
{
    const tg_request_t base = tg_request_inline("user:42", &limit);
    tg_request_t others[8];

    (void)state;
    for (size_t i = 0; i < 8; i++)
        others[i] = base;
    others[0].limit.algorithm = TG_SLIDING_LOG;
    others[1].limit.count++;
    others[2].limit.window_ns++;
    others[3].limit.burst = 1;
    others[4].limit.buckets = 2;
    others[5].limit.align_first = 1;
    others[6].key = "user:43";
    others[7].key_len = 6;
    for (size_t i = 0; i < 8; i++) {
        assert_false(same(&base, &others[i]));
        for (size_t k = 0; k < i; k++)
            assert_false(same(&others[k], &others[i]));
    }
}

/* Bytes that move from one text to its neighbour make another tag. */
static void where_a_text_ends_is_part_of_the_tag(void **state)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    struct client_tag seen[33];

    (void)state;
    for (size_t cut = 0; cut <= 32; cut++) {
        const tg_attribute_t pair[] = {{"a", bytes, cut}, {"b", bytes + cut, 32 - cut}};
        const tg_request_t request = tg_request(pair, 2);

        seen[cut] = tag_of(&request);
        for (size_t i = 0; i < cut; i++)
            assert_memory_not_equal(seen[i].word, seen[cut].word, sizeof seen[i].word);
    }
}

/* Values of every length to the bound, of zeros and of other bytes, all differ; each bit counts. */
static void every_length_and_every_bit_counts(void **state)
{
    char zeros[300] = {0};
    struct client_tag last = {.place = 0};

    (void)state;
    for (size_t len = 0; len < sizeof zeros; len++) {
        const tg_attribute_t one = {"v", zeros, len};
        const tg_request_t request = tg_request(&one, 1);
        const struct client_tag plain = tag_of(&request);

        assert_memory_not_equal(plain.word, last.word, sizeof plain.word);
        last = plain;
        for (size_t bit = 0; bit < len * 8; bit += 7) {
            zeros[bit / 8] = (char)(zeros[bit / 8] ^ 1 << bit % 8);
            const struct client_tag other = tag_of(&request);

            assert_memory_not_equal(plain.word, other.word, sizeof plain.word);
            zeros[bit / 8] = 0;
        }
    }
}

/* What is too long, has too many attributes or cannot be read has no tag, and is not read past its
 * end. */
static void long_and_broken_requests_have_no_tag(void **state)
{
    tg_attribute_t many[CLIENT_TAG_ATTRIBUTES_MAX + 1];
    char *exact = malloc(TG_VALUE_MAX);
    tg_attribute_t one = {"v", exact, TG_VALUE_MAX};
    tg_request_t request = tg_request(&one, 1);
    struct client_tag tag;

    (void)state;
    assert_non_null(exact);
    memset(exact, 'x', TG_VALUE_MAX);
    assert_false(client_tag_of(&key, &request, &tag));
    one.value_len = (CLIENT_TAG_INPUT_WORDS - 3) * 8; /* count, lengths, name */
    assert_true(client_tag_of(&key, &request, &tag));
    one.value_len++;
    assert_false(client_tag_of(&key, &request, &tag));
    free(exact);
    one = (tg_attribute_t){NULL, "v", 1};
    assert_false(client_tag_of(&key, &request, &tag));
    one = (tg_attribute_t){"v", NULL, 1};
    assert_false(client_tag_of(&key, &request, &tag));
    one = (tg_attribute_t){"v", NULL, 0};
    assert_true(client_tag_of(&key, &request, &tag));
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
        many[i] = (tg_attribute_t){"v", "x", 1};
    request = tg_request(many, CLIENT_TAG_ATTRIBUTES_MAX);
    assert_true(client_tag_of(&key, &request, &tag));
    request.attribute_count++;
    assert_false(client_tag_of(&key, &request, &tag));
    request.attributes = NULL;
    assert_false(client_tag_of(&key, &request, &tag));
    request = tg_request_inline(NULL, &limit);
    assert_false(client_tag_of(&key, &request, &tag));
}

/* Each place has numbers of its own: pieces of 8 and of 16 bytes that change places are another
 * key.
 */
static void pieces_in_another_order_have_another_tag(void **state)
{
    const char text[] = "aaaaaaaabbbbbbbbccccccccddddddddeeeeeeeeffffffff";
    enum { LEN = sizeof text - 1 };
    const tg_request_t base = tg_request_inline(text, &limit);

    (void)state;
    for (size_t piece = 8; piece <= 16; piece += 8) {
        for (size_t a = 0; a < LEN; a += piece) {
            for (size_t b = a + piece; b < LEN; b += piece) {
                char other[sizeof text];
                const tg_request_t changed = tg_request_inline(other, &limit);

                memcpy(other, text, sizeof text);
                memcpy(other + a, text + b, piece);
                memcpy(other + b, text + a, piece);
                assert_false(same(&base, &changed));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_question_has_the_same_tag),
        cmocka_unit_test(another_limit_or_key_has_another_tag),
        cmocka_unit_test(where_a_text_ends_is_part_of_the_tag),
        cmocka_unit_test(every_length_and_every_bit_counts),
        cmocka_unit_test(pieces_in_another_order_have_another_tag),
        cmocka_unit_test(long_and_broken_requests_have_no_tag),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
