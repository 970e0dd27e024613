/* test_mp.c - msgpack against vectors of another implementation, and against hostile bytes.
 *
 * The vectors were made by Python's msgpack. Inputs are parsed from heap blocks of their exact
 * size, so that under the address sanitizer the first byte read outside of them is an error.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mp.h"
#include "base/random.h"
#include "tests/unit/support_tokens.h"

enum { TOKENS_MAX = 256, DATA_MAX = 4096 };

static size_t from_hex(const char *hex, uint8_t *out)
{
    size_t len = 0;
    unsigned byte;

    for (; hex[2 * len] != '\0'; len++) {
        assert_int_equal(sscanf(hex + 2 * len, "%2x", &byte), 1);
        out[len] = (uint8_t)byte;
    }
    return len;
}

/* Parses `len` bytes from a block of exactly that size; tokens point into *block, to be freed. */
static int parse_exact(const void *data, size_t len, struct mp_token *tokens, size_t tokens_max,
                       uint8_t **block)
{
    *block = malloc(len == 0 ? 1 : len);
    assert_non_null(*block);
    memcpy(*block, data, len);
    return mp_parse(*block, len, tokens, tokens_max);
}

/* The result of parsing alone, for inputs whose tokens do not matter. */
static int parse_result(const void *data, size_t len, size_t tokens_max)
{
    static struct mp_token tokens[TOKENS_MAX];
    uint8_t *block;

    assert_true(tokens_max <= TOKENS_MAX);
    const int result = parse_exact(data, len, tokens, tokens_max, &block);
    free(block);
    return result;
}

static int parse_result_hex(const char *hex)
{
    uint8_t data[DATA_MAX];
    return parse_result(data, from_hex(hex, data), TOKENS_MAX);
}

/* ---- vectors ---- */

struct scalar {
    const char *hex;
    struct mp_token token;
};

static const struct scalar scalars[] = {
    {"c0", {.type = MP_NIL}},
    {"c3", {.type = MP_BOOL, .uint = 1}},
    {"c2", {.type = MP_BOOL, .uint = 0}},
    {"00", {.type = MP_UINT, .uint = 0}},
    {"7f", {.type = MP_UINT, .uint = 127}},
    {"cc80", {.type = MP_UINT, .uint = 128}},
    {"ccff", {.type = MP_UINT, .uint = 255}},
    {"cd0100", {.type = MP_UINT, .uint = 256}},
    {"cdffff", {.type = MP_UINT, .uint = 65535}},
    {"ce00010000", {.type = MP_UINT, .uint = 65536}},
    {"ceffffffff", {.type = MP_UINT, .uint = 4294967295}},
    {"cf0000000100000000", {.type = MP_UINT, .uint = 4294967296}},
    {"cf7fffffffffffffff", {.type = MP_UINT, .uint = INT64_MAX}},
    {"cf8000000000000000", {.type = MP_UINT, .uint = 9223372036854775808ULL}},
    {"cfffffffffffffffff", {.type = MP_UINT, .uint = UINT64_MAX}},
    {"ff", {.type = MP_INT, .sint = -1}},
    {"e0", {.type = MP_INT, .sint = -32}},
    {"d0df", {.type = MP_INT, .sint = -33}},
    {"d080", {.type = MP_INT, .sint = -128}},
    {"d1ff7f", {.type = MP_INT, .sint = -129}},
    {"d18000", {.type = MP_INT, .sint = -32768}},
    {"d2ffff7fff", {.type = MP_INT, .sint = -32769}},
    {"d280000000", {.type = MP_INT, .sint = INT32_MIN}},
    {"d3ffffffff7fffffff", {.type = MP_INT, .sint = (int64_t)INT32_MIN - 1}},
    {"d38000000000000000", {.type = MP_INT, .sint = INT64_MIN}},
    {"cb0000000000000000", {.type = MP_FLOAT, .real = 0.0}},
    {"cb3ff8000000000000", {.type = MP_FLOAT, .real = 1.5}},
    {"cbbfb999999999999a", {.type = MP_FLOAT, .real = -0.1}},
    {"cb7ff0000000000000", {.type = MP_FLOAT, .real = INFINITY}},
};
enum { SCALARS = sizeof(scalars) / sizeof(scalars[0]) };

/* Each scalar of the other implementation is read as what it meant. */
static void scalars_are_read_as_python_wrote_them(void **state)
{
    (void)state;
    for (int i = 0; i < SCALARS; i++) {
        uint8_t data[16];
        struct mp_token token;
        const size_t len = from_hex(scalars[i].hex, data);
        assert_int_equal(mp_parse(data, len, &token, 1), 1);
        assert_int_equal(token.type, scalars[i].token.type);
        assert_int_equal(token.count, 0);
        if (token.type != MP_NIL)
            assert_true(token.uint == scalars[i].token.uint); /* compares the union's bits */
    }
}

/* Ours are the same bytes: the shortest form of each scalar. */
static void scalars_are_written_as_python_writes_them(void **state)
{
    (void)state;
    for (int i = 0; i < SCALARS; i++) {
        uint8_t expected[16], data[16];
        struct mp_writer writer;
        const size_t len = from_hex(scalars[i].hex, expected);
        mp_writer_init(&writer, data, sizeof(data));
        assert_true(tokens_put(&writer, &scalars[i].token));
        assert_false(writer.failed);
        assert_int_equal(writer.len, len);
        assert_memory_equal(data, expected, len);
    }
}

/* Longer forms than necessary are legal, and a single-precision float is a float. */
static void long_forms_and_single_floats_are_read(void **state)
{
    const struct scalar longer[] = {
        {"cc01", {.type = MP_UINT, .uint = 1}},
        {"cf0000000000000001", {.type = MP_UINT, .uint = 1}},
        {"d000", {.type = MP_UINT, .uint = 0}},
        {"d001", {.type = MP_UINT, .uint = 1}},
        {"d10001", {.type = MP_UINT, .uint = 1}},
        {"d200000001", {.type = MP_UINT, .uint = 1}},
        {"d37fffffffffffffff", {.type = MP_UINT, .uint = INT64_MAX}},
        {"d3ffffffffffffffff", {.type = MP_INT, .sint = -1}},
        {"ca3fc00000", {.type = MP_FLOAT, .real = 1.5}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(longer) / sizeof(longer[0]); i++) {
        uint8_t data[16];
        struct mp_token token;
        assert_int_equal(mp_parse(data, from_hex(longer[i].hex, data), &token, 1), 1);
        assert_int_equal(token.type, longer[i].token.type);
        assert_true(token.uint == longer[i].token.uint);
    }
}

struct blob {
    const char *hex;
    enum mp_type type;
    const char *text;
    size_t len;
};

static const struct blob blobs[] = {
    {"a0", MP_STR, "", 0},
    {"a161", MP_STR, "a", 1},
    {"bf78787878787878787878787878787878787878787878787878787878787878", MP_STR,
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 31},
    {"d9207878787878787878787878787878787878787878787878787878787878787878", MP_STR,
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 32},
    {"a5636166c3a9", MP_STR, "caf\xc3\xa9", 5},
    {"da0000", MP_STR, "", 0},
    {"db0000000161", MP_STR, "a", 1},
    {"c400", MP_BIN, "", 0},
    {"c40200ff", MP_BIN, "\x00\xff", 2},
    {"c5000161", MP_BIN, "a", 1},
    {"c60000000161", MP_BIN, "a", 1},
    {"d40501", MP_EXT, "\x01", 1},
    {"d5050102", MP_EXT, "\x01\x02", 2},
    {"d60731323334", MP_EXT, "1234", 4},
    {"d7073132333435363738", MP_EXT, "12345678", 8},
    {"d80630313233343536373839616263646566", MP_EXT, "0123456789abcdef", 16},
    {"c70303616263", MP_EXT, "abc", 3},
    {"c70003", MP_EXT, "", 0},
    {"c800020361ff", MP_EXT, "a\xff", 2},
    {"c9000000010361", MP_EXT, "a", 1},
};

/* Strings, blobs and extensions of every header lie in place in the input. */
static void blobs_point_into_the_input(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(blobs) / sizeof(blobs[0]); i++) {
        uint8_t data[64];
        struct mp_token token;
        const size_t len = from_hex(blobs[i].hex, data);
        assert_int_equal(mp_parse(data, len, &token, 1), 1);
        assert_int_equal(token.type, blobs[i].type);
        assert_int_equal(token.count, blobs[i].len);
        assert_memory_equal(token.data, blobs[i].text, blobs[i].len);
        assert_true(token.data >= data && token.data + token.count <= data + len);
    }
}

/* The example of mp.h, byte for byte in both directions. */
static void nested_values_become_a_flat_list_in_document_order(void **state)
{
    uint8_t expected[16], data[16];
    struct mp_token tokens[8];
    struct mp_writer writer;
    const size_t len = from_hex("920181a161a27879", expected); /* [1, {"a": "xy"}] */

    (void)state;
    mp_writer_init(&writer, data, sizeof(data));
    mp_put_array(&writer, 2);
    mp_put_uint(&writer, 1);
    mp_put_map(&writer, 1);
    mp_put_str(&writer, "a");
    mp_put_str(&writer, "xy");
    assert_int_equal(writer.len, len);
    assert_memory_equal(data, expected, len);

    assert_int_equal(mp_parse(data, len, tokens, 8), 5);
    assert_true(tokens[0].type == MP_ARRAY && tokens[0].count == 2);
    assert_true(tokens[1].type == MP_UINT && tokens[1].uint == 1);
    assert_true(tokens[2].type == MP_MAP && tokens[2].count == 1);
    assert_true(tokens[3].type == MP_STR && tokens[3].count == 1 && tokens[3].data[0] == 'a');
    assert_true(tokens[4].type == MP_STR && memcmp(tokens[4].data, "xy", 2) == 0);
}

/* Python's containers, empty, nested and with 16-bit counts, have as many tokens as values. */
static void containers_of_python_are_counted_whole(void **state)
{
    (void)state;
    assert_int_equal(parse_result_hex("90"), 1);
    assert_int_equal(parse_result_hex("80"), 1);
    assert_int_equal(parse_result_hex("920192029103"), 6);               /* [1,[2,[3]]] */
    assert_int_equal(parse_result_hex("82a16b93c3c0fba162c4020102"), 8); /* a mixture */
    assert_int_equal(parse_result_hex("dc0010000102030405060708090a0b0c0d0e0f"), 17); /* 0..15 */
    assert_int_equal(parse_result_hex("93909180c0"), 5); /* empty ones end like any other value */
    assert_int_equal(parse_result_hex("8190c0"), 3);     /* a container may be a key */
    assert_int_equal(parse_result_hex("dd00000001c0"), 2);
    assert_int_equal(parse_result_hex("df0000000101c0"), 3);
    assert_int_equal(parse_result_hex("82a16101a16102"), 5); /* keys may repeat */
}

/* The headers of long strings, blobs and containers change form where Python's do. */
static void long_lengths_have_pythons_headers(void **state)
{
    static const struct {
        size_t len;
        const char *str, *bin, *array, *map;
    } headers[] = {{255, "d9ff", "c4ff", "dc00ff", "de00ff"},
                   {256, "da0100", "c50100", "dc0100", "de0100"},
                   {65535, "daffff", "c5ffff", "dcffff", "deffff"},
                   {65536, "db00010000", "c600010000", "dd00010000", "df00010000"}};
    static char text[65536];
    static uint8_t data[70000];

    (void)state;
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        const char *const hex[] = {headers[i].str, headers[i].bin, headers[i].array,
                                   headers[i].map};
        for (int kind = 0; kind < 4; kind++) {
            uint8_t header[8];
            struct mp_writer writer;
            const size_t header_len = from_hex(hex[kind], header);
            mp_writer_init(&writer, data, sizeof(data));
            const struct mp_token token = {
                .type = (enum mp_type[]){MP_STR, MP_BIN, MP_ARRAY, MP_MAP}[kind],
                .count = (uint32_t)headers[i].len,
                .data = (const uint8_t *)text};
            assert_true(tokens_put(&writer, &token));
            assert_false(writer.failed);
            assert_int_equal(writer.len, header_len + (kind < 2 ? headers[i].len : 0));
            assert_memory_equal(data, header, header_len);
        }
    }
}

/* ---- refusals ---- */

/* A value must be all there is: nothing, a rest, and the one unassigned byte are malformed. */
static void malformed_input_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mp_parse(NULL, 0, NULL, 0), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("c1"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("91c1"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("0101"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("90c0"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("a161c0"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("920100ff"), TG_EPROTOCOL);
}

/* An ext of 2^32-1 bytes makes the parser's own length wrap to 0; it must not be taken for one. */
static void an_extension_of_maximal_length_is_refused(void **state)
{
    (void)state;
    assert_int_equal(parse_result_hex("c9ffffffff"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("c9ffffffff05"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("c9fffffffe05"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("92c9ffffffff05"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("dbffffffff61"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("c6ffffffff61"), TG_EPROTOCOL);
}

/* A declared count is worth nothing without the elements: it costs one token, not memory. */
static void an_array_of_2_to_the_32_elements_fails_cheaply(void **state)
{
    (void)state;
    assert_int_equal(parse_result_hex("ddffffffff"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("dfffffffff"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("ddffffffffc0c0c0"), TG_EPROTOCOL);
    assert_int_equal(parse_result_hex("dddddddddd"), TG_EPROTOCOL);
    uint8_t data[5 + TOKENS_MAX] = {0xdd, 0xff, 0xff, 0xff, 0xff};
    assert_int_equal(parse_result(data, sizeof(data), TOKENS_MAX), TG_ETOOBIG);
}

/* The caller's bound on tokens is exact: it fits or it is too big, and no token is written past. */
static void more_tokens_than_fit_are_too_big(void **state)
{
    const uint8_t data[] = {0x93, 1, 2, 3};
    struct mp_token tokens[5];

    (void)state;
    for (size_t fit = 0; fit <= 5; fit++) {
        memset(tokens, 0x5a, sizeof(tokens));
        assert_int_equal(mp_parse(data, sizeof(data), tokens, fit), fit >= 4 ? 4 : TG_ETOOBIG);
        const struct mp_token untouched = tokens[4];
        assert_int_equal(untouched.count, 0x5a5a5a5a);
    }
}

/* Nesting up to the parser's stack is fine, one container more is refused. */
static void nesting_is_bounded_by_the_parsers_stack(void **state)
{
    uint8_t data[MP_DEPTH_MAX + 2];

    (void)state;
    memset(data, 0x91, sizeof(data));
    data[MP_DEPTH_MAX] = 0xc0;
    assert_int_equal(parse_result(data, MP_DEPTH_MAX + 1, TOKENS_MAX), MP_DEPTH_MAX + 1);
    data[MP_DEPTH_MAX] = 0x91;
    data[MP_DEPTH_MAX + 1] = 0xc0;
    assert_int_equal(parse_result(data, MP_DEPTH_MAX + 2, TOKENS_MAX), TG_ETOOBIG);
    memset(data, 0x81, sizeof(data)); /* maps as keys of maps */
    assert_int_equal(parse_result(data, sizeof(data), TOKENS_MAX), TG_ETOOBIG);
    memset(data, 0x91, sizeof(data));
    data[MP_DEPTH_MAX] = 0x90; /* an empty one is a container too */
    assert_int_equal(parse_result(data, MP_DEPTH_MAX + 1, TOKENS_MAX), TG_ETOOBIG);
}

/* ---- round trips ---- */

/* A random document: what was put, in order. Containers open while `open` has places left. */
struct document {
    uint8_t data[DATA_MAX];
    struct mp_token put[TOKENS_MAX];
    size_t put_count;
    struct mp_writer writer;
};

static struct mp_token random_token(struct random *random, bool container)
{
    static uint8_t blob[512];
    const uint64_t bits = random_next(random) >> random_below(random, 64);
    struct mp_token token = {.type = (enum mp_type)random_below(random, MP_BIN + 1)};

    if (container) {
        token.type = random_below(random, 2) == 0 ? MP_ARRAY : MP_MAP;
        token.count = (uint32_t)random_below(random, random_below(random, 8) == 0 ? 20 : 4);
        return token;
    }
    blob[random_below(random, sizeof(blob))] = (uint8_t)bits;
    if (token.type == MP_BOOL)
        token.uint = bits & 1;
    else if (token.type == MP_UINT)
        token.uint = bits;
    else if (token.type == MP_INT)
        token.sint = -1 - (int64_t)(bits >> 1);
    else if (token.type == MP_FLOAT)
        token.real = (double)(int64_t)bits / 3;
    else if (token.type != MP_NIL) {
        token.count = (uint32_t)random_below(random, random_below(random, 8) == 0 ? 300 : 40);
        token.data = blob;
    }
    return token;
}

/* Puts values until those that containers still want are all there. */
static void random_document(struct document *document, struct random *random)
{
    uint64_t pending = 1;

    document->put_count = 0;
    mp_writer_init(&document->writer, document->data, sizeof(document->data));
    while (pending > 0) {
        const bool container = pending + document->put_count < 60 && random_below(random, 3) == 0;
        const struct mp_token token = random_token(random, container);
        struct mp_token *kept = &document->put[document->put_count++];
        assert_true(tokens_put(&document->writer, &token));
        *kept = token;
        if (token.type == MP_STR || token.type == MP_BIN) /* keep it where the document is */
            kept->data = document->data + document->writer.len - token.count;
        pending += token.type == MP_MAP ? 2 * token.count : container ? token.count : 0;
        pending--;
    }
}

static void tokens_equal(const struct mp_token *got, const struct mp_token *put)
{
    assert_int_equal(got->type, put->type);
    assert_int_equal(got->count, put->count);
    if (put->type == MP_STR || put->type == MP_BIN)
        assert_memory_equal(got->data, put->data, put->count);
    else if (put->type != MP_NIL && put->type != MP_ARRAY && put->type != MP_MAP)
        assert_true(got->uint == put->uint);
}

/* Whatever is written is read back as the same list, and no prefix of it is a whole value. */
static void random_documents_survive_and_their_prefixes_do_not(void **state)
{
    static struct document document;
    struct mp_token tokens[TOKENS_MAX];
    struct random random;
    size_t prefixes = 0;

    (void)state;
    random_init(&random, 31);
    for (int round = 0; round < 3000; round++) {
        uint8_t *block;
        random_document(&document, &random);
        if (document.writer.failed)
            continue; /* larger than DATA_MAX; the bound has a test of its own */
        const size_t len = document.writer.len;
        const int count = parse_exact(document.data, len, tokens, TOKENS_MAX, &block);
        if (count < 0) { /* only depth can refuse it */
            assert_int_equal(count, TG_ETOOBIG);
            free(block);
            continue;
        }
        assert_int_equal(count, document.put_count);
        for (int i = 0; i < count; i++)
            tokens_equal(&tokens[i], &document.put[i]);
        free(block);
        for (size_t cut = 0; cut < len; cut += 1 + len / 50, prefixes++)
            assert_int_equal(parse_result(document.data, cut, TOKENS_MAX), TG_EPROTOCOL);
    }
    assert_true(prefixes > 10000);
}

/* Every prefix, byte by byte, of a message with each kind of header is refused as truncated. */
static void every_prefix_of_a_message_is_truncated(void **state)
{
    uint8_t data[DATA_MAX];
    const size_t len =
        from_hex("dc0012"                                       /* 18 elements */
                 "c0c37fcc80cd0100ce00010000cf0000000100000000" /* simple and unsigned */
                 "ffd0dfd1ff7fd2ffff7fffd3ffffffff7fffffff"     /* negative */
                 "ca3fc00000cbbfb999999999999a"                 /* floats */
                 "a161c40200ffc70303616263"                     /* blobs */
                 "82a16b93c3c0fba162d5050102",                  /* a map */
                 data);

    (void)state;
    assert_int_equal(parse_result(data, len, TOKENS_MAX), 1 + 18 + 7);
    for (size_t cut = 0; cut < len; cut++)
        assert_int_equal(parse_result(data, cut, TOKENS_MAX), TG_EPROTOCOL);
}

/* ---- the writer's bound ---- */

/* Under every smaller bound the writer fails and stays within it. */
static void a_writer_stops_at_every_bound(void **state)
{
    static struct document document;
    struct random random;

    (void)state;
    random_init(&random, 5);
    do
        random_document(&document, &random);
    while (document.writer.failed || document.writer.len < 100);
    for (size_t capacity = 0; capacity <= document.writer.len; capacity++) {
        uint8_t *block = malloc(capacity + (capacity == 0));
        struct mp_writer writer;
        mp_writer_init(&writer, block, capacity);
        for (size_t i = 0; i < document.put_count; i++)
            assert_true(tokens_put(&writer, &document.put[i]));
        assert_int_equal(writer.failed, capacity < document.writer.len);
        assert_true(writer.len <= capacity);
        assert_memory_equal(block, document.data, writer.len);
        free(block);
    }
}

/* Once failed, a writer takes nothing more, even if it would fit. */
static void a_failed_writer_stays_failed(void **state)
{
    struct mp_writer writer;
    uint8_t data[8];

    (void)state;
    mp_writer_init(&writer, data, sizeof(data));
    mp_put_str(&writer, "longer than eight bytes");
    assert_true(writer.failed);
    const size_t len = writer.len;
    mp_put_nil(&writer);
    mp_put_array(&writer, 0);
    assert_null(mp_reserve_bin(&writer, 0));
    assert_int_equal(writer.len, len);
}

/* Lengths have 32 bits on the wire; more must fail instead of being cut to their low half. */
static void counts_beyond_32_bits_are_refused(void **state)
{
    struct mp_writer writer;
    uint8_t data[64];

    (void)state;
    mp_writer_init(&writer, data, sizeof(data));
    mp_put_array(&writer, (size_t)UINT32_MAX + 2);
    assert_true(writer.failed);
    mp_writer_init(&writer, data, sizeof(data));
    mp_put_map(&writer, (size_t)UINT32_MAX + 1);
    assert_true(writer.failed);
    mp_writer_init(&writer, data, sizeof(data));
    mp_put_bin(&writer, data, (size_t)UINT32_MAX + 3);
    assert_true(writer.failed);
    mp_writer_init(&writer, data, sizeof(data));
    assert_null(mp_reserve_bin(&writer, (size_t)UINT32_MAX + 3));
    assert_true(writer.failed);
    assert_int_equal(writer.len, 0);
}

/* A reserved blob is filled in place and read back like any other. */
static void a_reserved_blob_is_filled_in_place(void **state)
{
    struct mp_writer writer;
    struct mp_token token;
    uint8_t data[8];

    (void)state;
    mp_writer_init(&writer, data, sizeof(data));
    uint8_t *place = mp_reserve_bin(&writer, 6);
    assert_non_null(place);
    memcpy(place, "column", 6);
    assert_false(writer.failed);
    assert_int_equal(mp_parse(data, writer.len, &token, 1), 1);
    assert_true(token.type == MP_BIN && token.count == 6);
    assert_memory_equal(token.data, "column", 6);
    mp_writer_init(&writer, data, sizeof(data));
    assert_null(mp_reserve_bin(&writer, 7)); /* one byte too many for header and body */
    assert_true(writer.failed);
}

/* ---- the cursor ---- */

/* A cursor over the parsed `hex`; its tokens and data live until the next call. */
static struct mp_cursor cursor_over(const char *hex)
{
    static uint8_t data[DATA_MAX];
    static struct mp_token tokens[TOKENS_MAX];
    struct mp_cursor cursor;

    const int count = mp_parse(data, from_hex(hex, data), tokens, TOKENS_MAX);
    assert_true(count > 0);
    mp_cursor_init(&cursor, tokens, (size_t)count);
    return cursor;
}

/* A message is read by asking for what it should hold, and ends exactly at its end. */
static void a_cursor_reads_what_was_written(void **state)
{
    struct mp_cursor cursor = cursor_over("99c0c305fbcb3ff8000000000000a26869c403616263"
                                          "81a16b01"
                                          "c40100");
    char text[3];
    size_t len;

    (void)state;
    assert_int_equal(mp_get_array(&cursor), 9);
    assert_int_equal(mp_peek_type(&cursor), MP_NIL);
    mp_skip(&cursor);
    assert_true(mp_get_bool(&cursor));
    assert_int_equal(mp_get_uint(&cursor), 5);
    assert_int_equal(mp_get_int(&cursor), -5);
    assert_true(mp_get_real(&cursor) == 1.5);
    mp_copy_str(&cursor, text, sizeof(text));
    assert_string_equal(text, "hi");
    assert_memory_equal(mp_get_bin(&cursor, &len), "abc", 3);
    assert_int_equal(len, 3);
    assert_int_equal(mp_get_map(&cursor), 1);
    assert_memory_equal(mp_get_str(&cursor, &len), "k", 1);
    assert_int_equal(len, 1);
    assert_int_equal(mp_get_int(&cursor), 1);
    assert_non_null(mp_get_bin_exact(&cursor, 1));
    assert_false(cursor.failed);
    assert_int_equal(cursor.at, cursor.count);
    assert_int_equal(mp_peek_type(&cursor), MP_NIL);
    (void)mp_get_uint(&cursor);
    assert_true(cursor.failed);
}

/* After a wrong type everything reads as zero or empty, though the right type is there. */
static void a_wrong_type_fails_for_good(void **state)
{
    struct mp_cursor cursor = cursor_over("92a16107");
    char text[4] = "xyz";
    size_t len = 9;

    (void)state;
    assert_int_equal(mp_get_array(&cursor), 2);
    assert_int_equal(mp_get_uint(&cursor), 0);
    assert_true(cursor.failed);
    assert_string_equal(mp_get_str(&cursor, &len), "");
    assert_int_equal(len, 0);
    len = 9;
    assert_non_null(mp_get_bin(&cursor, &len));
    assert_int_equal(len, 0);
    assert_null(mp_get_bin_exact(&cursor, 0));
    mp_copy_str(&cursor, text, sizeof(text));
    assert_string_equal(text, "");
    assert_false(mp_get_bool(&cursor));
    assert_true(mp_get_real(&cursor) == 0);
    assert_int_equal(mp_get_int(&cursor), 0);
    assert_int_equal(mp_get_map(&cursor), 0);
    assert_int_equal(mp_peek_type(&cursor), MP_NIL);
    mp_skip(&cursor);
    assert_int_equal(cursor.at, 1);
}

/* Each getter takes its own type only. */
static void getters_refuse_other_types(void **state)
{
    struct mp_cursor cursor = cursor_over("c0"); /* nil is not false */

    (void)state;
    (void)mp_get_bool(&cursor);
    assert_true(cursor.failed);
    cursor = cursor_over("01"); /* a number is not true */
    (void)mp_get_bool(&cursor);
    assert_true(cursor.failed);
    cursor = cursor_over("ff"); /* a negative number is not unsigned */
    (void)mp_get_uint(&cursor);
    assert_true(cursor.failed);
    cursor = cursor_over("c40161"); /* a blob is not text */
    size_t len;
    (void)mp_get_str(&cursor, &len);
    assert_true(cursor.failed);
    cursor = cursor_over("a161"); /* and text not a blob */
    (void)mp_get_bin(&cursor, &len);
    assert_true(cursor.failed);
    cursor = cursor_over("80");
    (void)mp_get_array(&cursor);
    assert_true(cursor.failed);
    cursor = cursor_over("90");
    (void)mp_get_map(&cursor);
    assert_true(cursor.failed);
}

/* Signed reads take every number that fits, and refuse the one that would turn negative. */
static void signed_reads_take_what_fits(void **state)
{
    struct mp_cursor cursor =
        cursor_over("93cf7fffffffffffffffd38000000000000000cf8000000000000000");

    (void)state;
    (void)mp_get_array(&cursor);
    assert_int_equal(mp_get_int(&cursor), INT64_MAX);
    assert_int_equal(mp_get_int(&cursor), INT64_MIN);
    assert_false(cursor.failed);
    assert_int_equal(mp_get_int(&cursor), 0);
    assert_true(cursor.failed);
}

/* Reals may have been written as whole numbers, as many libraries do. */
static void reals_may_be_written_as_integers(void **state)
{
    struct mp_cursor cursor = cursor_over("9307fbca3fc00000");

    (void)state;
    (void)mp_get_array(&cursor);
    assert_true(mp_get_real(&cursor) == 7);
    assert_true(mp_get_real(&cursor) == -5);
    assert_true(mp_get_real(&cursor) == 1.5);
    assert_false(cursor.failed);
}

/* A key of 32 bytes is 32 bytes, neither 31 nor 33. */
static void a_blob_of_another_length_is_refused(void **state)
{
    (void)state;
    for (size_t len = 2; len <= 4; len++) {
        struct mp_cursor cursor = cursor_over("c403616263");
        const uint8_t *data = mp_get_bin_exact(&cursor, len);
        assert_int_equal(data != NULL, len == 3);
        assert_int_equal(cursor.failed, len != 3);
    }
}

/* A copied string fits with its NUL, and never hides a rest behind one of its own. */
static void a_string_is_copied_whole_or_not_at_all(void **state)
{
    char text[4];
    struct mp_cursor cursor = cursor_over("a3616263");

    (void)state;
    mp_copy_str(&cursor, text, 4);
    assert_false(cursor.failed);
    assert_string_equal(text, "abc");
    cursor = cursor_over("a3616263");
    mp_copy_str(&cursor, text, 3);
    assert_true(cursor.failed);
    assert_string_equal(text, "");
    cursor = cursor_over("a3610063");
    mp_copy_str(&cursor, text, 4);
    assert_true(cursor.failed);
    assert_string_equal(text, "");
}

/* Skipping steps over a whole value, however it is nested, and lands on the next one. */
static void skipping_steps_over_whole_values(void **state)
{
    static const char *const skipped[] = {
        "c0", "90", "80", "920192029103", "82a16b93c3c0fba16290", "a3616263", "8181c0c090"};

    (void)state;
    for (size_t i = 0; i < sizeof(skipped) / sizeof(skipped[0]); i++) {
        char hex[64];
        (void)snprintf(hex, sizeof(hex), "92%s2a", skipped[i]);
        struct mp_cursor cursor = cursor_over(hex);
        (void)mp_get_array(&cursor);
        mp_skip(&cursor);
        assert_int_equal(mp_get_uint(&cursor), 42);
        assert_false(cursor.failed);
        mp_skip(&cursor); /* nothing is left to skip */
        assert_true(cursor.failed);
    }
}

/* ---- hostile bytes ---- */

/* Byte values that open something, so that random input gets deep into the parser. */
static uint8_t hostile_byte(struct random *random)
{
    static const uint8_t openers[] = {0x81, 0x82, 0x91, 0x93, 0xa2, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8,
                                      0xc9, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd8, 0xd9, 0xda, 0xdb,
                                      0xdc, 0xdd, 0xde, 0xdf, 0x00, 0x00, 0x01, 0xff};
    if (random_below(random, 3) == 0)
        return (uint8_t)random_next(random);
    return openers[random_below(random, sizeof(openers))];
}

/* Walks a parsed list as a decoder that asks for random things would. */
static void walk_randomly(struct mp_cursor *cursor, struct random *random)
{
    char text[8];
    size_t len;

    for (int i = 0; i < 10; i++) {
        switch (random_below(random, 8)) {
        case 0:
            (void)mp_get_array(cursor);
            break;
        case 1:
            (void)mp_get_map(cursor);
            break;
        case 2:
            (void)mp_get_int(cursor);
            break;
        case 3:
            (void)mp_get_str(cursor, &len);
            break;
        case 4:
            (void)mp_get_bin_exact(cursor, 1);
            break;
        case 5:
            mp_copy_str(cursor, text, sizeof(text));
            break;
        case 6:
            (void)mp_get_real(cursor);
            break;
        default:
            mp_skip(cursor);
        }
        assert_true(cursor->at <= cursor->count);
    }
}

/* Accepted input has consistent tokens: blobs inside it, and containers that are complete. */
static void check_tokens(const uint8_t *block, size_t len, const struct mp_token *tokens,
                         size_t count)
{
    struct mp_cursor cursor;

    for (size_t i = 0; i < count; i++) {
        if (tokens[i].type == MP_STR || tokens[i].type == MP_BIN || tokens[i].type == MP_EXT)
            assert_true(tokens[i].data >= block && tokens[i].data + tokens[i].count <= block + len);
    }
    mp_cursor_init(&cursor, tokens, count);
    mp_skip(&cursor);
    assert_false(cursor.failed);
    assert_int_equal(cursor.at, count);
}

/* Random bytes are refused or parsed into consistent tokens, within the block and the bound. */
static void hostile_bytes_are_refused_or_consistent(void **state)
{
    enum { LEN_MAX = 24, FIT = 12 };
    struct random random;
    int accepted = 0;

    (void)state;
    random_init(&random, 77);
    for (int round = 0; round < 60000; round++) {
        uint8_t data[LEN_MAX];
        uint8_t *block;
        struct mp_token *tokens = malloc(FIT * sizeof(*tokens));
        const size_t len = (size_t)random_below(&random, LEN_MAX + 1);
        for (size_t i = 0; i < len; i++)
            data[i] = hostile_byte(&random);
        const int count = parse_exact(data, len, tokens, FIT, &block);
        if (count > 0) {
            struct mp_cursor cursor;
            accepted++;
            check_tokens(block, len, tokens, (size_t)count);
            mp_cursor_init(&cursor, tokens, (size_t)count);
            walk_randomly(&cursor, &random);
        } else {
            assert_true(count == TG_EPROTOCOL || count == TG_ETOOBIG);
        }
        free(block);
        free(tokens);
    }
    assert_true(accepted > 500); /* or the loop would have tested only the refusals */
}

/* One flipped bit in a valid message never leads outside of it either. */
static void damaged_documents_are_refused_or_consistent(void **state)
{
    static struct document document;
    struct mp_token tokens[TOKENS_MAX];
    struct random random;

    (void)state;
    random_init(&random, 78);
    for (int round = 0; round < 10000; round++) {
        uint8_t *block;
        random_document(&document, &random);
        const size_t len = document.writer.len;
        document.data[random_below(&random, len)] ^= (uint8_t)(1 << random_below(&random, 8));
        const int count = parse_exact(document.data, len, tokens, TOKENS_MAX, &block);
        if (count > 0)
            check_tokens(block, len, tokens, (size_t)count);
        free(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_read_as_python_wrote_them),
        cmocka_unit_test(scalars_are_written_as_python_writes_them),
        cmocka_unit_test(long_forms_and_single_floats_are_read),
        cmocka_unit_test(blobs_point_into_the_input),
        cmocka_unit_test(nested_values_become_a_flat_list_in_document_order),
        cmocka_unit_test(containers_of_python_are_counted_whole),
        cmocka_unit_test(long_lengths_have_pythons_headers),
        cmocka_unit_test(malformed_input_is_refused),
        cmocka_unit_test(an_extension_of_maximal_length_is_refused),
        cmocka_unit_test(an_array_of_2_to_the_32_elements_fails_cheaply),
        cmocka_unit_test(more_tokens_than_fit_are_too_big),
        cmocka_unit_test(nesting_is_bounded_by_the_parsers_stack),
        cmocka_unit_test(random_documents_survive_and_their_prefixes_do_not),
        cmocka_unit_test(every_prefix_of_a_message_is_truncated),
        cmocka_unit_test(a_writer_stops_at_every_bound),
        cmocka_unit_test(a_failed_writer_stays_failed),
        cmocka_unit_test(counts_beyond_32_bits_are_refused),
        cmocka_unit_test(a_reserved_blob_is_filled_in_place),
        cmocka_unit_test(a_cursor_reads_what_was_written),
        cmocka_unit_test(a_wrong_type_fails_for_good),
        cmocka_unit_test(getters_refuse_other_types),
        cmocka_unit_test(signed_reads_take_what_fits),
        cmocka_unit_test(reals_may_be_written_as_integers),
        cmocka_unit_test(a_blob_of_another_length_is_refused),
        cmocka_unit_test(a_string_is_copied_whole_or_not_at_all),
        cmocka_unit_test(skipping_steps_over_whole_values),
        cmocka_unit_test(hostile_bytes_are_refused_or_consistent),
        cmocka_unit_test(damaged_documents_are_refused_or_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
