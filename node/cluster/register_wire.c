/* register_wire.c - the codec of register_wire.h. Pure. */
#include "node/cluster/register_wire.h"

#include <assert.h>
#include <string.h>

#include "base/mp.h"
#include "node/cluster/settings_change.h"

enum { FIELDS = 13, TOKENS_MAX = 32 };

static_assert(JOIN_FRAME_MAX >= REGISTER_VALUE_LEN_MAX + 256, "a frame holds any value");
static_assert(JOIN_LARGE_FRAME_MAX >= SETTINGS_CHANGE_LEN_MAX + 256, "a frame holds any change");

int register_wire_encode(const struct register_frame *frame, void *out, size_t capacity)
{
    const struct register_message *message = &frame->message;
    struct mp_writer writer;
    if (capacity == 0)
        return TG_ETOOBIG;
    *(uint8_t *)out = JOIN_MARK;
    mp_writer_init(&writer, (uint8_t *)out + 1, capacity - 1);
    mp_put_array(&writer, FIELDS);
    mp_put_uint(&writer, JOIN_VERSION);
    mp_put_uint(&writer, (uint64_t)JOIN_CONFIG + message->type +
                             (frame->settings ? REGISTER_WIRE_SETTINGS : 0U));
    mp_put_bin(&writer, frame->cluster_id, sizeof frame->cluster_id);
    mp_put_uint(&writer, message->sender);
    mp_put_str(&writer, frame->address);
    mp_put_uint(&writer, message->epoch);
    register_put_ballot(&writer, &message->ballot);
    register_put_ballot(&writer, &message->other);
    mp_put_bin(&writer, message->value, message->value_len);
    return writer.failed ? TG_ETOOBIG : (int)writer.len + 1;
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
    uint64_t type = mp_get_uint(&cursor);
    frame->settings = type > (uint64_t)JOIN_CONFIG + REGISTER_WIRE_SETTINGS;
    if (frame->settings)
        type -= REGISTER_WIRE_SETTINGS;
    const size_t value_len_max =
        frame->settings ? (size_t)SETTINGS_CHANGE_LEN_MAX : (size_t)REGISTER_VALUE_LEN_MAX;
    const uint8_t *cluster_id = mp_get_bin_exact(&cursor, CONTROL_CLUSTER_ID_LEN);
    message->sender = mp_get_uint(&cursor);
    mp_copy_str(&cursor, frame->address, sizeof frame->address);
    message->epoch = mp_get_uint(&cursor);
    register_get_ballot(&cursor, &message->ballot);
    register_get_ballot(&cursor, &message->other);
    message->value = mp_get_bin(&cursor, &message->value_len);
    if (cursor.failed || cluster_id == NULL || type <= JOIN_CONFIG ||
        type >= JOIN_CONFIG + REGISTER_TYPE_END || message->sender == 0 ||
        message->ballot.number == 0 || message->ballot.number > REGISTER_NUMBER_MAX ||
        message->other.number > REGISTER_NUMBER_MAX || message->value_len > value_len_max)
        return TG_EPROTOCOL;
    memcpy(frame->cluster_id, cluster_id, CONTROL_CLUSTER_ID_LEN);
    message->type = (enum register_type)(type - JOIN_CONFIG);
    return 0;
}
