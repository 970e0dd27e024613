/* mp.c - msgpack into bounded memory, and out of hostile memory, without allocation.
 *
 * Both directions are msgpack-c's own code; this file only gives them their memory:
 *
 *   writing   msgpack_pack_*  --callback-->  writer_append  -->  caller's buffer
 *   reading   parser template --callbacks->  token_add      -->  caller's token array
 *
 * msgpack-c's usual unpacker allocates an array as large as the sender declares. Its parser
 * template however leaves objects to its callbacks, and ours only append a token. So a
 * declared count costs nothing: every element needs at least one byte of input, which is
 * missed (TG_EPROTOCOL), or one token, which does not fit (TG_ETOOBIG).
 *
 * The parser keeps open containers on a fixed stack:
 *
 *   [1, {"a": "xy"}]      stack         tokens
 *   92                    [2            ARRAY(2)
 *      01                 [1            UINT(1)
 *         81              [1 {1         MAP(1)
 *            a1 61        [1 {1         STR("a")
 *                  a2 ..  (all closed)  STR("xy")
 *
 * MSGPACK-1  Tokens are in document order; a container comes before what it holds.
 * MSGPACK-2  After mp_parse succeeds, every container's elements are all present in the array, so
 *            whoever walks the tokens never runs past their end.
 * MSGPACK-3  STR, BIN and EXT point into the input, never outside it, and never are NULL.
 * MSGPACK-4  A failed writer or cursor stays failed and moves no further.
 *
 * Map keys are not required to be distinct: who reads a map decides what a repeat means.
 * It must not recurse and must not trust a count.
 */
#include "base/mp.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include <msgpack/pack.h>
#include <msgpack/sysdep.h>
#include <msgpack/unpack.h>

#include "base/assert.h"

/* ---- the reader: callbacks of msgpack-c's parser template ---- */

struct token_sink {
    const uint8_t *input; /* stands in for the place of an empty string (MSGPACK-3) */
    struct mp_token *tokens;
    size_t count;
    size_t count_max;
};

static inline int token_add(struct token_sink *sink, struct mp_token token)
{
    if (sink->count == sink->count_max)
        return MSGPACK_UNPACK_NOMEM_ERROR;
    sink->tokens[sink->count++] = token;
    return 0;
}

static inline int token_add_uint(struct token_sink *sink, uint64_t value)
{
    return token_add(sink, (struct mp_token){.type = MP_UINT, .uint = value});
}

static inline int token_add_sint(struct token_sink *sink, int64_t value)
{
    if (value >= 0)
        return token_add_uint(sink, (uint64_t)value);
    return token_add(sink, (struct mp_token){.type = MP_INT, .sint = value});
}

static inline int token_add_bytes(struct token_sink *sink, enum mp_type type, const char *place,
                                  uint32_t len)
{
    const uint8_t *data = len == 0 ? sink->input : (const uint8_t *)place;
    return token_add(sink, (struct mp_token){.type = type, .count = len, .data = data});
}

/* The template wants an object to pass around; the tokens are all we keep, so it is a dummy. */
#define msgpack_unpack_struct(name)       struct mp_template##name
#define msgpack_unpack_func(result, name) static inline result mp_template##name
#define msgpack_unpack_callback(name)     mp_on##name
#define msgpack_unpack_object             char
#define msgpack_unpack_user               struct token_sink

#define MP_ON_VALUE(name, type, add)                                                               \
    static inline int mp_on##name(struct token_sink *sink, type value, char *object)               \
    {                                                                                              \
        *object = 0;                                                                               \
        return add(sink, value);                                                                   \
    }
MP_ON_VALUE(_uint8, uint8_t, token_add_uint)
MP_ON_VALUE(_uint16, uint16_t, token_add_uint)
MP_ON_VALUE(_uint32, uint32_t, token_add_uint)
MP_ON_VALUE(_uint64, uint64_t, token_add_uint)
MP_ON_VALUE(_int8, int8_t, token_add_sint)
MP_ON_VALUE(_int16, int16_t, token_add_sint)
MP_ON_VALUE(_int32, int32_t, token_add_sint)
MP_ON_VALUE(_int64, int64_t, token_add_sint)
#undef MP_ON_VALUE

static inline char mp_on_root(struct token_sink *sink)
{
    (void)sink;
    return 0;
}

static inline int mp_on_double(struct token_sink *sink, double value, char *object)
{
    *object = 0;
    return token_add(sink, (struct mp_token){.type = MP_FLOAT, .real = value});
}

static inline int mp_on_float(struct token_sink *sink, float value, char *object)
{
    return mp_on_double(sink, (double)value, object);
}

static inline int mp_on_nil(struct token_sink *sink, char *object)
{
    *object = 0;
    return token_add(sink, (struct mp_token){.type = MP_NIL});
}

static inline int mp_on_true(struct token_sink *sink, char *object)
{
    *object = 0;
    return token_add(sink, (struct mp_token){.type = MP_BOOL, .uint = 1});
}

static inline int mp_on_false(struct token_sink *sink, char *object)
{
    *object = 0;
    return token_add(sink, (struct mp_token){.type = MP_BOOL, .uint = 0});
}

static inline int mp_on_array(struct token_sink *sink, uint32_t count, char *object)
{
    *object = 0;
    return token_add(sink, (struct mp_token){.type = MP_ARRAY, .count = count});
}

static inline int mp_on_map(struct token_sink *sink, uint32_t count, char *object)
{
    *object = 0;
    return token_add(sink, (struct mp_token){.type = MP_MAP, .count = count});
}

static inline int mp_on_array_item(struct token_sink *sink, const char *array, char item)
{
    (void)sink;
    (void)array;
    (void)item;
    return 0;
}

static inline int mp_on_map_item(struct token_sink *sink, const char *map, char key, char value)
{
    (void)sink;
    (void)map;
    (void)key;
    (void)value;
    return 0;
}

static inline int mp_on_str(struct token_sink *sink, const char *base, const char *place,
                            uint32_t len, char *object)
{
    (void)base;
    *object = 0;
    return token_add_bytes(sink, MP_STR, place, len);
}

static inline int mp_on_bin(struct token_sink *sink, const char *base, const char *place,
                            uint32_t len, char *object)
{
    (void)base;
    *object = 0;
    return token_add_bytes(sink, MP_BIN, place, len);
}

/* `len` counts the type byte, which the token leaves out. The template adds that 1 in 32 bits,
 * so an ext32 that declares 2^32-1 bytes arrives with length 0 and `place` at its header. */
static inline int mp_on_ext(struct token_sink *sink, const char *base, const char *place,
                            uint32_t len, char *object)
{
    (void)base;
    *object = 0;
    if (len == 0)
        return MSGPACK_UNPACK_PARSE_ERROR;
    return token_add_bytes(sink, MP_EXT, place + 1, len - 1);
}

/* The template is not ours to tidy: its conversions and fall-throughs are deliberate. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <msgpack/unpack_define.h>
static_assert(MSGPACK_EMBED_STACK_SIZE == MP_DEPTH_MAX, "the parser's stack is the depth bound");
#include <msgpack/unpack_template.h>
#pragma GCC diagnostic pop

int mp_parse(const void *data, size_t len, struct mp_token *tokens, size_t tokens_max)
{
    struct mp_template_context context;
    size_t consumed = 0;

    if (len == 0)
        return TG_EPROTOCOL;
    context.user = (struct token_sink){
        .input = data,
        .tokens = tokens,
        .count_max = tokens_max < INT_MAX ? tokens_max : INT_MAX,
    };
    mp_template_init(&context);
    const int result = mp_template_execute(&context, data, len, &consumed);
    if (result == MSGPACK_UNPACK_NOMEM_ERROR)
        return TG_ETOOBIG;
    if (result <= 0 || consumed != len) /* malformed, truncated, trailing bytes */
        return TG_EPROTOCOL;
    ASSERT(context.user.count >= 1 && context.user.count <= tokens_max); /* MSGPACK-2 */
    return (int)context.user.count;
}

/* ---- the cursor ---- */

void mp_cursor_init(struct mp_cursor *cursor, const struct mp_token *tokens, size_t count)
{
    ASSERT(tokens != NULL || count == 0);
    *cursor = (struct mp_cursor){.tokens = tokens, .count = count};
}

/* The next token if there is one of any type; else NULL, and failed. */
static const struct mp_token *cursor_next(struct mp_cursor *cursor)
{
    if (cursor->failed || cursor->at == cursor->count) {
        cursor->failed = true;
        return NULL;
    }
    return &cursor->tokens[cursor->at++];
}

static const struct mp_token *cursor_refuse(struct mp_cursor *cursor)
{
    cursor->failed = true;
    return NULL;
}

/* The next token if it is of `type`; else NULL, and failed without moving on. */
static const struct mp_token *cursor_expect(struct mp_cursor *cursor, enum mp_type type)
{
    if (cursor->failed || cursor->at == cursor->count || cursor->tokens[cursor->at].type != type)
        return cursor_refuse(cursor);
    return &cursor->tokens[cursor->at++];
}

enum mp_type mp_peek_type(const struct mp_cursor *cursor)
{
    if (cursor->failed || cursor->at == cursor->count)
        return MP_NIL;
    return cursor->tokens[cursor->at].type;
}

uint32_t mp_get_array(struct mp_cursor *cursor)
{
    const struct mp_token *token = cursor_expect(cursor, MP_ARRAY);
    return token == NULL ? 0 : token->count;
}

uint32_t mp_get_map(struct mp_cursor *cursor)
{
    const struct mp_token *token = cursor_expect(cursor, MP_MAP);
    return token == NULL ? 0 : token->count;
}

uint64_t mp_get_uint(struct mp_cursor *cursor)
{
    const struct mp_token *token = cursor_expect(cursor, MP_UINT);
    return token == NULL ? 0 : token->uint;
}

int64_t mp_get_int(struct mp_cursor *cursor)
{
    if (mp_peek_type(cursor) == MP_UINT) {
        if (cursor->tokens[cursor->at].uint > INT64_MAX) {
            cursor->failed = true;
            return 0;
        }
        return (int64_t)cursor->tokens[cursor->at++].uint;
    }
    const struct mp_token *token = cursor_expect(cursor, MP_INT);
    return token == NULL ? 0 : token->sint;
}

bool mp_get_bool(struct mp_cursor *cursor)
{
    const struct mp_token *token = cursor_expect(cursor, MP_BOOL);
    return token != NULL && token->uint != 0;
}

double mp_get_real(struct mp_cursor *cursor)
{
    const enum mp_type type = mp_peek_type(cursor);

    if (type == MP_UINT)
        return (double)mp_get_uint(cursor);
    if (type == MP_INT)
        return (double)mp_get_int(cursor);
    const struct mp_token *token = cursor_expect(cursor, MP_FLOAT);
    return token == NULL ? 0 : token->real;
}

const char *mp_get_str(struct mp_cursor *cursor, size_t *len)
{
    const struct mp_token *token = cursor_expect(cursor, MP_STR);
    *len = token == NULL ? 0 : token->count;
    return token == NULL ? "" : (const char *)token->data;
}

const uint8_t *mp_get_bin(struct mp_cursor *cursor, size_t *len)
{
    static const uint8_t nothing[1];
    const struct mp_token *token = cursor_expect(cursor, MP_BIN);
    *len = token == NULL ? 0 : token->count;
    return token == NULL ? nothing : token->data;
}

const uint8_t *mp_get_bin_exact(struct mp_cursor *cursor, size_t len)
{
    if (mp_peek_type(cursor) != MP_BIN || cursor->tokens[cursor->at].count != len) {
        cursor->failed = true;
        return NULL;
    }
    return cursor->tokens[cursor->at++].data;
}

void mp_copy_str(struct mp_cursor *cursor, char *out, size_t capacity)
{
    size_t len;

    ASSERT(capacity > 0);
    const char *text = mp_get_str(cursor, &len);
    if (len >= capacity || memchr(text, '\0', len) != NULL) {
        cursor->failed = true;
        len = 0;
    }
    memcpy(out, text, len);
    out[len] = '\0';
}

void mp_skip(struct mp_cursor *cursor)
{
    ASSERT(cursor->at <= cursor->count);
    /* Values still to step over; a container replaces itself by its elements, which MSGPACK-2
     * says are all among the tokens, so the sum cannot wrap. */
    uint64_t pending = 1;

    while (pending > 0 && !cursor->failed) {
        const struct mp_token *token = cursor_next(cursor);
        if (token == NULL)
            return;
        pending--;
        if (token->type == MP_ARRAY)
            pending += token->count;
        else if (token->type == MP_MAP)
            pending += 2 * (uint64_t)token->count;
    }
}

/* ---- the writer ---- */

/* The place of the next `len` bytes, or NULL (and failed) when the bound is reached. */
static uint8_t *writer_claim(struct mp_writer *writer, size_t len)
{
    if (writer->failed || len > writer->capacity - writer->len) {
        writer->failed = true;
        return NULL;
    }
    uint8_t *place = writer->data + writer->len;
    writer->len += len;
    return place;
}

/* The packer's callback: 0 to go on, -1 to stop. */
static int writer_append(void *context, const char *data, size_t len)
{
    uint8_t *place = writer_claim(context, len);
    if (place == NULL)
        return -1;
    if (len != 0)
        memcpy(place, data, len);
    return 0;
}

static struct msgpack_packer begin_value(struct mp_writer *writer)
{
    writer->tokens++;
    return (struct msgpack_packer){.data = writer, .callback = writer_append};
}

/* Lengths and counts have 32 bits on the wire; a larger one must not be cut silently. */
static bool writer_takes(struct mp_writer *writer, size_t count)
{
    if (count > UINT32_MAX)
        writer->failed = true;
    return !writer->failed;
}

void mp_writer_init(struct mp_writer *writer, void *data, size_t capacity)
{
    ASSERT(data != NULL || capacity == 0);
    *writer = (struct mp_writer){.data = data, .capacity = capacity};
}

/* Every result of the packer is the callback's, and that is kept in writer->failed. */

void mp_put_nil(struct mp_writer *writer)
{
    struct msgpack_packer packer = begin_value(writer);
    (void)msgpack_pack_nil(&packer);
}

void mp_put_bool(struct mp_writer *writer, bool value)
{
    struct msgpack_packer packer = begin_value(writer);
    (void)(value ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer));
}

void mp_put_uint(struct mp_writer *writer, uint64_t value)
{
    struct msgpack_packer packer = begin_value(writer);
    (void)msgpack_pack_uint64(&packer, value);
}

void mp_put_int(struct mp_writer *writer, int64_t value)
{
    struct msgpack_packer packer = begin_value(writer);
    (void)msgpack_pack_int64(&packer, value);
}

void mp_put_real(struct mp_writer *writer, double value)
{
    struct msgpack_packer packer = begin_value(writer);
    (void)msgpack_pack_double(&packer, value);
}

void mp_put_str(struct mp_writer *writer, const char *text)
{
    mp_put_strn(writer, text, strlen(text));
}

void mp_put_strn(struct mp_writer *writer, const char *text, size_t len)
{
    ASSERT(text != NULL || len == 0);
    struct msgpack_packer packer = begin_value(writer);
    if (writer_takes(writer, len))
        (void)msgpack_pack_str_with_body(&packer, text, len);
}

void mp_put_bin(struct mp_writer *writer, const void *data, size_t len)
{
    ASSERT(data != NULL || len == 0);
    struct msgpack_packer packer = begin_value(writer);
    if (writer_takes(writer, len))
        (void)msgpack_pack_bin_with_body(&packer, data, len);
}

void mp_put_array(struct mp_writer *writer, size_t count)
{
    struct msgpack_packer packer = begin_value(writer);
    if (writer_takes(writer, count))
        (void)msgpack_pack_array(&packer, count);
}

void mp_put_map(struct mp_writer *writer, size_t pairs)
{
    struct msgpack_packer packer = begin_value(writer);
    if (writer_takes(writer, pairs))
        (void)msgpack_pack_map(&packer, pairs);
}

uint8_t *mp_reserve_bin(struct mp_writer *writer, size_t len)
{
    ASSERT(writer->len <= writer->capacity);
    struct msgpack_packer packer = begin_value(writer);
    if (!writer_takes(writer, len))
        return NULL;
    (void)msgpack_pack_bin(&packer, len);
    return writer_claim(writer, len);
}
