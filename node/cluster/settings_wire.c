/* settings_wire.c - the codec of settings_wire.h. Pure. */
#include "node/cluster/settings_wire.h"

#include <string.h>

#include "base/mp.h"

enum { FIELDS = 14, TOKENS_MAX = FIELDS + RING_VOTERS_MAX + SETTINGS_ITEMS_MAX + 32 };

static void put_place(struct mp_writer *writer, const struct settings_place *place)
{
    mp_put_uint(writer, place->kind);
    mp_put_strn(writer, place->name.data != NULL ? place->name.data : "", place->name.len);
}

int settings_wire_encode(const struct settings_frame *frame, void *out, size_t capacity)
{
    struct mp_writer writer;
    if (capacity == 0)
        return TG_ETOOBIG;
    *(uint8_t *)out = JOIN_MARK;
    mp_writer_init(&writer, (uint8_t *)out + 1, capacity - 1);
    mp_put_array(&writer, FIELDS);
    mp_put_uint(&writer, JOIN_VERSION);
    mp_put_uint(&writer, frame->type);
    mp_put_bin(&writer, frame->cluster_id, sizeof frame->cluster_id);
    mp_put_uint(&writer, frame->sender);
    mp_put_str(&writer, frame->address);
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
    return writer.failed ? TG_ETOOBIG : (int)writer.len + 1;
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
    const uint64_t type = mp_get_uint(&cursor);
    const uint8_t *cluster_id = mp_get_bin_exact(&cursor, CONTROL_CLUSTER_ID_LEN);
    frame->sender = mp_get_uint(&cursor);
    mp_copy_str(&cursor, frame->address, sizeof frame->address);
    frame->version = mp_get_uint(&cursor);
    frame->digest.lo = mp_get_uint(&cursor);
    frame->digest.hi = mp_get_uint(&cursor);
    get_voters(&cursor, &frame->voters);
    get_place(&cursor, &frame->from);
    get_place(&cursor, &frame->to);
    get_items(&cursor, frame);
    if (cursor.failed || cluster_id == NULL || type < SETTINGS_NEWS || type >= SETTINGS_TYPE_END ||
        frame->sender == 0 || (type == SETTINGS_RECORDS && frame->voters.count == 0))
        return TG_EPROTOCOL;
    memcpy(frame->cluster_id, cluster_id, CONTROL_CLUSTER_ID_LEN);
    frame->type = (enum settings_type)type;
    return 0;
}
