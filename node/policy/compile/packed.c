/* packed.c - gzip by zlib, with bounds; see packed.h.
 *
 * zlib asks for memory without saying, when it gives it back, how much that was: each block is
 * begun by its size.
 *
 *     | size, 16 bytes | what zlib gets ... |
 */
#include "node/policy/compile/packed.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "node/policy/compile/policy_compile.h"

enum {
    GZIP_HEAD_LEN = 10,
    GZIP_TAIL_LEN = 8,   /* crc and length */
    GZIP_BITS = 15 + 16, /* the largest window, and the format of gzip */
    GZIP_MEMORY = 9,     /* of what zlib remembers: all of it */
    BLOCK_HEAD_LEN = 16  /* keeps the alignment of the heap's blocks */
};

static_assert(sizeof(size_t) <= BLOCK_HEAD_LEN, "a size fits before the block");
static_assert(POLICY_FILE_LEN_MAX <= UINT32_MAX / 2, "lengths fit those of gzip and zlib");

/* ---- memory ---------------------------------------------------------------------------------- */

static void *get_block(void *context, unsigned count, unsigned size)
{
    const size_t bytes = (size_t)count * size + BLOCK_HEAD_LEN;
    char *block = alloc_get(context, bytes);
    if (block == NULL)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    return block + BLOCK_HEAD_LEN;
}

static void put_block(void *context, void *address)
{
    size_t bytes;
    char *block = (char *)address - BLOCK_HEAD_LEN;
    memcpy(&bytes, block, sizeof bytes);
    alloc_put(context, block, bytes);
}

/* zlib hands the context back as it came. */
static z_stream stream_of(const struct allocator *allocator)
{
    return (z_stream){
        .zalloc = get_block, .zfree = put_block, .opaque = (void *)(uintptr_t)allocator};
}

static bool hold(struct packed *packed, const struct allocator *allocator, size_t len)
{
    *packed = (struct packed){.block = alloc_get(allocator, len), .block_len = len};
    packed->data = packed->block;
    return packed->block != NULL;
}

void packed_fini(struct packed *packed, const struct allocator *allocator)
{
    alloc_put(allocator, packed->block, packed->block_len);
    *packed = (struct packed){.data = NULL};
}

/* ---- packing --------------------------------------------------------------------------------- */

bool packed_is(const void *bytes, size_t len)
{
    const uint8_t *head = bytes;
    return len >= 2 && head[0] == 0x1f && head[1] == 0x8b;
}

size_t packed_text_len(const void *bytes, size_t len)
{
    if (!packed_is(bytes, len))
        return len;
    return len < GZIP_HEAD_LEN + GZIP_TAIL_LEN
               ? 0
               : bytes_u32_at((const uint8_t *)bytes + len - sizeof(uint32_t), 0);
}

/* Runs the stream, which has all its input and room, to its end. */
static int run(z_stream *stream, int (*step)(z_stream *stream, int flush),
               int (*end)(z_stream *stream))
{
    const int result = step(stream, Z_FINISH);
    (void)end(stream);
    if (result == Z_MEM_ERROR)
        return TG_ENOMEM;
    return result == Z_STREAM_END ? 0 : TG_EINVALID;
}

int packed_make(const char *text, size_t len, const struct allocator *allocator, struct packed *out)
{
    z_stream stream = stream_of(allocator);
    ASSERT(len <= POLICY_FILE_LEN_MAX);
    *out = (struct packed){.data = text, .len = len};
    if (len <= POLICY_DOCUMENT_LEN_MAX)
        return 0;
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_BITS, GZIP_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK ||
        !hold(out, allocator, deflateBound(&stream, len))) {
        (void)deflateEnd(&stream);
        return TG_ENOMEM;
    }
    stream.next_in = (z_const Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)len;
    stream.next_out = out->block;
    stream.avail_out = (uInt)out->block_len;
    const int result = run(&stream, deflate, deflateEnd);
    ASSERT(result == 0); /* zlib needs no more memory, and has room */
    ASSERT(stream.total_out <= out->block_len && stream.avail_in == 0);
    out->len = stream.total_out;
    return 0;
}

/* ---- unpacking ------------------------------------------------------------------------------- */

int packed_open(const void *bytes, size_t len, const struct allocator *allocator,
                struct packed *out)
{
    z_stream stream = stream_of(allocator);
    const size_t text_len = packed_text_len(bytes, len);
    *out = (struct packed){.data = bytes, .len = len};
    if (!packed_is(bytes, len))
        return 0;
    *out = (struct packed){.data = NULL};
    if (text_len > POLICY_FILE_LEN_MAX)
        return TG_ETOOBIG; /* PACKED-1 */
    if (len > UINT32_MAX || inflateInit2(&stream, GZIP_BITS) != Z_OK)
        return len > UINT32_MAX ? TG_ETOOBIG : TG_ENOMEM;
    if (!hold(out, allocator, text_len + 1)) {
        (void)inflateEnd(&stream);
        return TG_ENOMEM;
    }
    stream.next_in = (z_const Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)len;
    stream.next_out = out->block;
    stream.avail_out = (uInt)text_len;
    int result = run(&stream, inflate, inflateEnd);
    if (result == 0 && (stream.total_out != text_len || stream.avail_in != 0))
        result = TG_EINVALID;
    ASSERT(stream.total_out <= text_len); /* PACKED-1 */
    out->len = text_len;
    if (result != 0)
        packed_fini(out, allocator);
    return result;
}

static void explain_damage(int code, size_t text_len, struct policy_error *error)
{
    *error = (struct policy_error){.line = 0};
    if (code == TG_ETOOBIG)
        (void)snprintf(error->message, sizeof error->message,
                       "the packed rules have %zu bytes, expected at most %d", text_len,
                       (int)POLICY_FILE_LEN_MAX);
    else if (code == TG_ENOMEM)
        (void)snprintf(error->message, sizeof error->message, "out of memory");
    else
        (void)snprintf(error->message, sizeof error->message,
                       "the packed rules are damaged, expected a whole file of gzip");
}

int packed_compile(const void *bytes, size_t len, const struct allocator *allocator,
                   const struct policy_zones *zones, struct policy **policy,
                   struct policy_error *error)
{
    struct packed text;
    *policy = NULL;
    int result = packed_open(bytes, len, allocator, &text);
    if (result != 0) {
        explain_damage(result, packed_text_len(bytes, len), error);
        return result;
    }
    result = policy_compile_zoned(text.data, text.len, allocator, zones, policy, error);
    packed_fini(&text, allocator);
    return result;
}
