/* config_codec.c - a ring configuration as msgpack, for the register, the disk and clients.
 *
 *   [1, epoch, vnodes, replicas, [voter...], [member...], nil | [member...]]
 *                                             from         to (nil: the same, stable)
 *   member = [id, weight, [seat...], name, zone_name]
 *
 * RINGCONFIG-4  Equal configurations have equal bytes: sides and voters are sorted, numbers
 *               minimal, a zone's number is not sent, and `to` is nil exactly when stable.
 * RINGCONFIG-5  What decoding accepts keeps every rule of ring_config_validate, and encodes again.
 * RINGCONFIG-6  No count from the bytes is used before it was compared with its bound.
 */
#include <string.h>

#include "base/assert.h"
#include "ring/config.h"

enum { FIELDS = 7, MEMBER_FIELDS = 5 };

static void put_member(struct mp_writer *writer, const struct ring_member *member)
{
    mp_put_array(writer, MEMBER_FIELDS);
    mp_put_uint(writer, member->id);
    mp_put_uint(writer, member->weight);
    mp_put_array(writer, member->seats_count);
    for (uint32_t i = 0; i < member->seats_count; i++) {
        mp_put_uint(writer, member->seats[i]);
    }
    mp_put_str(writer, member->name);
    mp_put_str(writer, member->zone_name);
}

static void put_side(struct mp_writer *writer, const struct ring_member *members, uint32_t count)
{
    ASSERT(count <= RING_MEMBERS_MAX);
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        put_member(writer, &members[i]);
    }
}

int ring_config_encode(const struct ring_config *config, void *data, size_t capacity)
{
    struct mp_writer writer;

    mp_writer_init(&writer, data, capacity);
    ASSERT(config->voters_count >= 1 && config->voters_count <= RING_VOTERS_MAX);
    mp_put_array(&writer, FIELDS);
    mp_put_uint(&writer, RING_CONFIG_VERSION);
    mp_put_uint(&writer, config->epoch);
    mp_put_uint(&writer, config->vnodes);
    mp_put_uint(&writer, config->replicas);
    mp_put_array(&writer, config->voters_count);
    for (uint32_t i = 0; i < config->voters_count; i++) {
        mp_put_uint(&writer, config->voters[i]);
    }
    put_side(&writer, config->from, config->from_count);
    if (ring_config_is_stable(config)) {
        mp_put_nil(&writer);
    } else {
        put_side(&writer, config->to, config->to_count);
    }
    return writer.failed ? TG_ETOOBIG : (int)writer.len;
}

/* A number that must fit 32 bits; anything larger fails the cursor. */
static uint32_t get_u32(struct mp_cursor *cursor)
{
    const uint64_t value = mp_get_uint(cursor);

    if (value > UINT32_MAX) {
        cursor->failed = true;
        return 0;
    }
    return (uint32_t)value;
}

/* An array header of at most `max` elements; a longer one fails the cursor and counts 0. */
static uint32_t get_count(struct mp_cursor *cursor, uint32_t max)
{
    const uint32_t count = mp_get_array(cursor);

    if (cursor->failed || count > max) {
        cursor->failed = true;
        return 0;
    }
    return count;
}

static void get_member(struct mp_cursor *cursor, struct ring_member *member)
{
    memset(member, 0, sizeof *member);
    if (mp_get_array(cursor) != MEMBER_FIELDS) {
        cursor->failed = true;
        return;
    }
    member->id = mp_get_uint(cursor);
    member->weight = get_u32(cursor);
    member->seats_count = (uint16_t)get_count(cursor, RING_SEATS_EACH_MAX);
    for (uint32_t i = 0; i < member->seats_count; i++) {
        const uint32_t seat = get_u32(cursor);
        member->seats[i] = (uint16_t)seat;
        if (seat > RING_SEATS_MAX) {
            cursor->failed = true;
        }
    }
    mp_copy_str(cursor, member->name, sizeof member->name);
    mp_copy_str(cursor, member->zone_name, sizeof member->zone_name);
    if (!cursor->failed) {
        member->zone = ring_zone_hash(member->zone_name);
    }
}

static uint32_t get_side(struct mp_cursor *cursor, struct ring_member *members)
{
    const uint32_t count = get_count(cursor, RING_MEMBERS_MAX);

    for (uint32_t i = 0; i < count && !cursor->failed; i++) {
        get_member(cursor, &members[i]);
    }
    return count;
}

static void get_fields(struct mp_cursor *cursor, struct ring_config *config)
{
    config->epoch = mp_get_uint(cursor);
    config->vnodes = get_u32(cursor);
    config->replicas = get_u32(cursor);
    config->voters_count = get_count(cursor, RING_VOTERS_MAX);
    for (uint32_t i = 0; i < config->voters_count; i++) {
        config->voters[i] = mp_get_uint(cursor);
    }
    config->from_count = get_side(cursor, config->from);
    if (!cursor->failed && mp_peek_type(cursor) == MP_NIL) {
        mp_skip(cursor);
        config->to_count = config->from_count;
        memcpy(config->to, config->from, config->from_count * sizeof config->from[0]);
    } else {
        config->to_count = get_side(cursor, config->to);
        /* A stable configuration spelt out in full would be a second spelling (RINGCONFIG-4). */
        cursor->failed = cursor->failed || ring_config_is_stable(config);
    }
}

int ring_config_decode(struct ring_config *config, const void *data, size_t len,
                       struct mp_token *tokens, size_t tokens_max)
{
    struct mp_cursor cursor;
    const int count = mp_parse(data, len, tokens, tokens_max);

    memset(config, 0, offsetof(struct ring_config, from));
    if (count < 0) {
        return count;
    }
    mp_cursor_init(&cursor, tokens, (size_t)count);
    const uint32_t fields = mp_get_array(&cursor);
    const uint64_t version = mp_get_uint(&cursor);
    if (!cursor.failed && version != RING_CONFIG_VERSION) {
        return TG_EVERSION;
    }
    if (cursor.failed || fields != FIELDS) {
        return TG_EPROTOCOL;
    }
    get_fields(&cursor, config);
    if (cursor.failed || cursor.at != cursor.count || ring_config_validate(config, NULL) < 0) {
        return TG_EPROTOCOL;
    }
    return 0;
}
