/* test_tag.c - a request's identity: the same for the same question, another for any other. */
#include "base/error.h"

#include "client/include/tidegate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/lib/cache/tag.h"

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
    one.value_len = (CLIENT_TAG_INPUT_WORDS - 2) * 8; /* count and lengths, name */
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
    exact = calloc(1, CLIENT_TAG_KEY_MAX + 1);
    assert_non_null(exact);
    request = tg_request_inline(exact, &limit);
    request.key_len = CLIENT_TAG_KEY_MAX;
    assert_true(client_tag_of(&key, &request, &tag));
    request.key_len++;
    assert_false(client_tag_of(&key, &request, &tag));
    free(exact);
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

/* The words of a request as tag.c draws them, one after the other. */
struct words {
    uint64_t word[2 * CLIENT_TAG_INPUT_WORDS + 160];
    size_t count;
};

static void put(struct words *words, uint64_t a, uint64_t b)
{
    words->word[words->count++] = a;
    words->word[words->count++] = b;
}

/* Up to 8 bytes: of 4 and more the first and the last four, else the first, middle and last one. */
static uint64_t number_of(const char *text, size_t len)
{
    const uint8_t *byte = (const uint8_t *)text;
    uint64_t number = 0;

    for (size_t i = 0; i < 4 && len >= 4; i++)
        number |= (uint64_t)byte[i] << 8 * i | (uint64_t)byte[len - 4 + i] << (32 + 8 * i);
    if (len != 0 && len < 4)
        number = byte[0] | (uint64_t)byte[len / 2] << 8 | (uint64_t)byte[len - 1] << 16;
    return number;
}

static void put_text(struct words *words, const char *text, size_t len)
{
    for (size_t at = 0; at < len; at += 16) {
        const size_t from = len - at >= 16 || len < 16 ? at : len - 16;
        const size_t last = len - at >= 16 ? at + 8 : len - 8;

        if (len < 8)
            put(words, number_of(text, len), 0);
        else
            put(words, number_of(text + from, 8), number_of(text + last, 8));
    }
}

static void check_sums(const struct words *words, const tg_request_t *request)
{
    unsigned __int128 first = 0;
    unsigned __int128 second = 0;
    struct client_tag tag;

    assert_int_equal(client_tag_of(&key, request, &tag), words->count <= CLIENT_TAG_INPUT_WORDS);
    if (words->count > CLIENT_TAG_INPUT_WORDS)
        return;
    for (size_t i = 0; i < words->count; i += 2) {
        const uint64_t a = words->word[i];
        const uint64_t b = words->word[i + 1];

        first += (unsigned __int128)(a + key.word[i]) * (b + key.word[i + 1]);
        second += (unsigned __int128)(a + key.word[i + 2]) * (b + key.word[i + 3]);
    }
    assert_true(tag.word[0] == (uint64_t)first && tag.word[1] == (uint64_t)(first >> 64));
    assert_true(tag.word[2] == (uint64_t)second && tag.word[3] == (uint64_t)(second >> 64));
}

/* A text of its own, which ends where its memory does but for a NUL, if it is to have one. */
static char *text_of(struct random *random, size_t len, size_t nul)
{
    char *text = malloc(len + nul + (len + nul == 0));

    assert_non_null(text);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)(1 + random_below(random, 255));
    if (nul != 0)
        text[len] = '\0';
    return text;
}

/* For keys of any length the tag is both sums of NH over the words that tag.c tells. */
static void the_tag_of_a_key_is_the_sums_of_its_words(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 7);
    for (size_t len = 0; len <= CLIENT_TAG_KEY_MAX; len++) {
        struct words words = {.count = 0};
        char *text = text_of(&random, len, 0);
        tg_request_t request = {.key = text, .key_len = len, .cost = 1};

        request.limit = (tg_limit_t){(tg_algorithm_t)random_below(&random, 7),
                                     random_next(&random),
                                     random_next(&random),
                                     random_next(&random),
                                     (unsigned)random_below(&random, 241),
                                     (int)len % 2};
        put(&words,
            1ULL << 63 | (uint64_t)len << 32 | (uint64_t)request.limit.align_first << 24 |
                (uint64_t)request.limit.buckets << 8 | (uint64_t)request.limit.algorithm,
            request.limit.count);
        put(&words, request.limit.window_ns, request.limit.burst);
        put_text(&words, text, len);
        check_sums(&words, &request);
        free(text);
    }
}

/* So it is for attributes; those that take more words than there are have none. */
static void the_tag_of_attributes_is_the_sums_of_their_words(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 8);
    for (int round = 0; round < 3000; round++) {
        const size_t count = 1 + random_below(&random, CLIENT_TAG_ATTRIBUTES_MAX);
        tg_attribute_t attributes[CLIENT_TAG_ATTRIBUTES_MAX];
        char *texts[CLIENT_TAG_ATTRIBUTES_MAX][2];
        const tg_request_t request = tg_request(attributes, count);
        struct words words = {.count = 0};

        for (size_t i = 0; i < count; i++) {
            const size_t name_len = random_below(&random, round % 2 != 0 ? 12 : 40);
            const size_t value_len = random_below(&random, round % 3 != 0 ? 40 : 120);

            texts[i][0] = text_of(&random, name_len, 1);
            texts[i][1] = text_of(&random, value_len, 0);
            attributes[i] = (tg_attribute_t){texts[i][0], texts[i][1], value_len};
            put(&words, (uint64_t)count << 48 | (uint64_t)value_len << 32 | name_len,
                number_of(texts[i][0], name_len < 8 ? name_len : 8));
            put_text(&words, texts[i][0] + (name_len > 8 ? 8 : 0), name_len > 8 ? name_len - 8 : 0);
            put_text(&words, texts[i][1], value_len);
        }
        check_sums(&words, &request);
        for (size_t i = 0; i < count; i++) {
            free(texts[i][0]);
            free(texts[i][1]);
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
        cmocka_unit_test(the_tag_of_a_key_is_the_sums_of_its_words),
        cmocka_unit_test(the_tag_of_attributes_is_the_sums_of_their_words),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
