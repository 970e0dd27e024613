/* register_wire.c - the codec of register_wire.h. Pure. */
#include "node/cluster/consensus/register_wire.h"

#include <assert.h>
#include <string.h>

#include "base/mp.h"

enum { FIELDS = 13, TOKENS_MAX = 32 }; /* fields without the region */

static_assert(JOIN_FRAME_MAX >= REGISTER_VALUE_LEN_MAX + 256, "a frame holds any value");
static_assert(JOIN_LARGE_FRAME_MAX >= REGISTER_CHANGE_LEN_MAX + 256, "a frame holds any change");

int register_wire_encode(const struct register_frame *frame, void *out, size_t capacity)
{
    const struct register_message *message = &frame->message;
    const uint64_t type = (uint64_t)REGISTER_WIRE_RING + message->type +
                          (frame->settings ? REGISTER_WIRE_SETTINGS : 0U);
    const struct join_head head = {type, frame->cluster_id, message->sender, frame->address};
    struct mp_writer writer;
    const int error = join_begin(&writer, FIELDS + 1, &head, out, capacity);
    if (error != 0)
        return error;
    mp_put_uint(&writer, message->epoch);
    register_put_ballot(&writer, &message->ballot);
    register_put_ballot(&writer, &message->other);
    mp_put_bin(&writer, message->value, message->value_len);
    mp_put_str(&writer, frame->region);
    return join_end(&writer);
}

int register_wire_decode(const void *bytes, size_t len, struct register_frame *frame)
{
    struct register_message *message = &frame->message;
    struct mp_token tokens[TOKENS_MAX];
    struct mp_cursor cursor;
    memset(frame, 0, sizeof *frame);
    const int error = join_open(bytes, len, FIELDS, tokens, TOKENS_MAX, &cursor);
    if (error != 0)
        return error;
    uint64_t type = join_get_head(&cursor, frame->cluster_id, &message->sender, frame->address);
    frame->settings = type > (uint64_t)REGISTER_WIRE_RING + REGISTER_WIRE_SETTINGS;
    if (frame->settings)
        type -= REGISTER_WIRE_SETTINGS;
    const size_t value_len_max =
        frame->settings ? (size_t)REGISTER_CHANGE_LEN_MAX : (size_t)REGISTER_VALUE_LEN_MAX;
    message->epoch = mp_get_uint(&cursor);
    register_get_ballot(&cursor, &message->ballot);
    register_get_ballot(&cursor, &message->other);
    message->value = mp_get_bin(&cursor, &message->value_len);
    join_get_region(&cursor, frame->region);
    if (cursor.failed || type <= REGISTER_WIRE_RING ||
        type >= REGISTER_WIRE_RING + REGISTER_TYPE_END || message->ballot.number == 0 ||
        message->ballot.number > REGISTER_NUMBER_MAX ||
        message->other.number > REGISTER_NUMBER_MAX || message->value_len > value_len_max)
        return TG_EPROTOCOL;
    message->type = (enum register_type)(type - REGISTER_WIRE_RING);
    return 0;
}
