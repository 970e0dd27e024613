/* peer_first.c - first answers in a frame, byte by byte; peer_wire.h tells the layout, firsts.h
 * what they are for. Pure.
 */
#include "node/cluster/wire/peer_wire.h"

enum { HEAD_LEN = 7, LEN_AT = 5 };

size_t peer_put_firsts(struct bytes_writer *writer, uint32_t vnode)
{
    const size_t at = writer->len;
    bytes_put_u8(writer, PEER_FIRSTS);
    bytes_put_u32(writer, vnode);
    bytes_put_u16(writer, 0);
    return at;
}

void peer_end_firsts(struct bytes_writer *writer, size_t at)
{
    const size_t len = writer->len - at - HEAD_LEN;
    if (writer->failed)
        return;
    writer->data[at + LEN_AT] = (uint8_t)len;
    writer->data[at + LEN_AT + 1] = (uint8_t)(len >> 8);
}

void peer_put_first(struct bytes_writer *writer, const struct peer_first *first)
{
    bytes_put_u8(writer, first->flags);
    bytes_put_u8(writer, first->limit_index);
    bytes_put_u64(writer, first->tag);
    bytes_put_u32(writer, first->granted);
    bytes_put_u16(writer, first->age_ms);
    bytes_put_u16(writer, first->attempt);
    if ((first->flags & FIRST_SEQ) != 0)
        bytes_put_u32(writer, first->seq);
}

bool peer_first_next(struct bytes_reader *bytes, struct peer_first *first)
{
    const size_t from = bytes->at;
    if (from == bytes->len)
        return false;
    first->flags = bytes_get_u8(bytes);
    first->limit_index = bytes_get_u8(bytes);
    first->tag = bytes_get_u64(bytes);
    first->granted = bytes_get_u32(bytes);
    first->age_ms = bytes_get_u16(bytes);
    first->attempt = bytes_get_u16(bytes);
    first->seq = (first->flags & FIRST_SEQ) != 0 ? bytes_get_u32(bytes) : 0;
    if (!bytes->failed && first->tag != 0 && (first->limit_index & 0x7f) < PEER_LIMITS_MAX)
        return true;
    bytes->at = from; /* it is none: the end is not reached */
    return false;
}
