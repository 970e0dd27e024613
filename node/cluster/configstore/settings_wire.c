/* settings_wire.c - the codec of settings_wire.h. Pure. */
#include "node/cluster/configstore/settings_wire.h"

#include <string.h>

#include "base/mp.h"

enum {
    FIELDS = 14 /* without the number */,
    TOKENS_MAX = FIELDS + RING_VOTERS_MAX + SETTINGS_ITEMS_MAX + 32
};

static void put_place(struct mp_writer *writer, const struct settings_place *place)
{
    mp_put_uint(writer, place->kind);
    mp_put_strn(writer, place->name.data != NULL ? place->name.data : "", place->name.len);
}

int settings_wire_encode(const struct settings_frame *frame, void *out, size_t capacity)
{
    const struct join_head head = {frame->type, frame->cluster_id, frame->sender, frame->address};
    struct mp_writer writer;
    const int error = join_begin(&writer, FIELDS + 1, &head, out, capacity);
    if (error != 0)
        return error;
    mp_put_uint(&writer, frame->version);
    mp_put_uint(&writer, frame->digest.lo);
    mp_put_uint(&writer, frame->digest.hi);
    mp_put_array(&writer, frame->voters.count);
    for (uint32_t i = 0; i < frame->voters.count; i++)
        mp_put_uint(&writer, frame->voters.ids[i]);
    put_place(&writer, &frame->from);
    put_place(&writer, &frame->to);
    mp_put_array(&writer, frame->item_count);
    for (uint32_t i = 0; i < frame->item_count; i++)
        mp_put_bin(&writer, frame->items[i].bytes, frame->items[i].len);
    mp_put_uint(&writer, frame->nonce);
    return join_end(&writer);
}

static void get_place(struct mp_cursor *cursor, struct settings_place *place)
{
    const uint64_t kind = mp_get_uint(cursor);
    place->name.data = mp_get_str(cursor, &place->name.len);
    if (place->name.data == NULL || place->name.len > SETTINGS_NAME_LEN_MAX ||
        kind > SETTINGS_KIND_MAX)
        cursor->failed = true;
    place->kind = (uint32_t)kind;
}

static void get_items(struct mp_cursor *cursor, struct settings_frame *frame)
{
    frame->item_count = mp_get_array(cursor);
    if (frame->item_count > SETTINGS_ITEMS_MAX)
        cursor->failed = true;
    for (uint32_t i = 0; i < frame->item_count && !cursor->failed; i++)
        frame->items[i].bytes = mp_get_bin(cursor, &frame->items[i].len);
}

static void get_voters(struct mp_cursor *cursor, struct register_voters *voters)
{
    voters->count = mp_get_array(cursor);
    if (voters->count > RING_VOTERS_MAX)
        cursor->failed = true;
    for (uint32_t i = 0; i < voters->count && !cursor->failed; i++)
        voters->ids[i] = mp_get_uint(cursor);
}

int settings_wire_decode(const void *bytes, size_t len, struct settings_frame *frame)
{
    struct mp_token tokens[TOKENS_MAX];
    struct mp_cursor cursor;
    const int error = join_open(bytes, len, FIELDS, tokens, TOKENS_MAX, &cursor);
    if (error != 0)
        return error;
    memset(frame, 0, offsetof(struct settings_frame, items));
    const uint64_t type = join_get_head(&cursor, frame->cluster_id, &frame->sender, frame->address);
    frame->version = mp_get_uint(&cursor);
    frame->digest.lo = mp_get_uint(&cursor);
    frame->digest.hi = mp_get_uint(&cursor);
    get_voters(&cursor, &frame->voters);
    get_place(&cursor, &frame->from);
    get_place(&cursor, &frame->to);
    get_items(&cursor, frame);
    if (mp_peek_type(&cursor) == MP_UINT)
        frame->nonce = mp_get_uint(&cursor);
    if (cursor.failed || type < SETTINGS_NEWS || type >= SETTINGS_TYPE_END ||
        (type == SETTINGS_RECORDS && frame->voters.count == 0))
        return TG_EPROTOCOL;
    frame->type = (enum settings_type)type;
    return 0;
}
