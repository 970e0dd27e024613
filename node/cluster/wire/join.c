/* join.c - the codec of join.h. Pure. */
#include "node/cluster/wire/join.h"

#include <string.h>

#include "base/mp.h"

enum { FIELDS = 10, TOKENS_MAX = 32 }; /* fields without the region */

int join_begin(struct mp_writer *writer, uint32_t fields, const struct join_head *head, void *out,
               size_t capacity)
{
    if (capacity == 0)
        return TG_ETOOBIG;
    *(uint8_t *)out = JOIN_MARK;
    mp_writer_init(writer, (uint8_t *)out + 1, capacity - 1);
    mp_put_array(writer, fields);
    mp_put_uint(writer, JOIN_VERSION);
    mp_put_uint(writer, head->type);
    mp_put_bin(writer, head->cluster_id, CONTROL_CLUSTER_ID_LEN);
    mp_put_uint(writer, head->sender);
    mp_put_str(writer, head->address);
    return 0;
}

int join_end(const struct mp_writer *writer)
{
    return writer->failed ? TG_ETOOBIG : (int)writer->len + 1;
}

int join_encode(const struct join_message *message, void *out, size_t capacity)
{
    const struct join_head head = {message->type, message->cluster_id, message->sender,
                                   message->address};
    struct mp_writer writer;
    const int error = join_begin(&writer, FIELDS + 1, &head, out, capacity);
    if (error != 0)
        return error;
    mp_put_bin(&writer, message->identity.secret.bytes, HASH_KEY_LEN);
    mp_put_bin(&writer, message->identity.route_key.bytes, HASH_KEY_LEN);
    mp_put_uint(&writer, message->identity.vnodes);
    mp_put_uint(&writer, message->identity.replicas);
    mp_put_bin(&writer, message->config, message->config_len);
    mp_put_str(&writer, message->region);
    return join_end(&writer);
}

static void get_key(struct mp_cursor *cursor, struct hash_key *key)
{
    const uint8_t *bytes = mp_get_bin_exact(cursor, HASH_KEY_LEN);
    if (bytes != NULL)
        memcpy(key->bytes, bytes, HASH_KEY_LEN);
}

int join_open(const void *frame, size_t len, uint32_t fields, struct mp_token *tokens,
              size_t tokens_max, struct mp_cursor *cursor)
{
    if (!join_is(frame, len) || len > JOIN_LARGE_FRAME_MAX)
        return TG_EPROTOCOL;
    const int count = mp_parse((const uint8_t *)frame + 1, len - 1, tokens, tokens_max);
    if (count < 0)
        return TG_EPROTOCOL;
    mp_cursor_init(cursor, tokens, (size_t)count);
    if (mp_get_array(cursor) < fields)
        return TG_EPROTOCOL;
    return mp_get_uint(cursor) == JOIN_VERSION ? 0 : TG_EVERSION;
}

uint64_t join_get_head(struct mp_cursor *cursor, uint8_t cluster_id[CONTROL_CLUSTER_ID_LEN],
                       uint64_t *sender, char address[VIEW_TEXT_LEN])
{
    const uint64_t type = mp_get_uint(cursor);
    const uint8_t *bytes = mp_get_bin_exact(cursor, CONTROL_CLUSTER_ID_LEN);
    if (bytes != NULL)
        memcpy(cluster_id, bytes, CONTROL_CLUSTER_ID_LEN);
    *sender = mp_get_uint(cursor);
    mp_copy_str(cursor, address, VIEW_TEXT_LEN);
    if (*sender == 0)
        cursor->failed = true;
    return type;
}

void join_get_region(struct mp_cursor *cursor, char region[SWIM_PLACE_LEN])
{
    region[0] = '\0';
    if (mp_peek_type(cursor) == MP_STR)
        mp_copy_str(cursor, region, SWIM_PLACE_LEN);
}

int join_decode(const void *frame, size_t len, struct join_message *message)
{
    struct mp_token tokens[TOKENS_MAX];
    struct mp_cursor cursor;
    memset(message, 0, sizeof *message);
    if (len > JOIN_FRAME_MAX)
        return TG_EPROTOCOL;
    const int error = join_open(frame, len, FIELDS, tokens, TOKENS_MAX, &cursor);
    if (error != 0)
        return error;
    const uint64_t type =
        join_get_head(&cursor, message->cluster_id, &message->sender, message->address);
    get_key(&cursor, &message->identity.secret);
    get_key(&cursor, &message->identity.route_key);
    const uint64_t vnodes = mp_get_uint(&cursor);
    const uint64_t replicas = mp_get_uint(&cursor);
    message->config = mp_get_bin(&cursor, &message->config_len);
    join_get_region(&cursor, message->region);
    if (cursor.failed || type < JOIN_JOIN || type > JOIN_TYPE_LAST)
        return TG_EPROTOCOL;
    if (type == JOIN_ADMIT &&
        (!ring_vnodes_valid(vnodes) || replicas < 1 || replicas > VIEW_REPLICATION_MAX))
        return TG_EPROTOCOL;
    memcpy(message->identity.cluster_id, message->cluster_id, CONTROL_CLUSTER_ID_LEN);
    message->identity.vnodes = (uint32_t)vnodes;
    message->identity.replicas = (uint32_t)replicas;
    message->type = (enum join_type)type;
    return 0;
}
