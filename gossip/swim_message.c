/* swim_message.c - the frame of a gossip message.
 *
 * One msgpack array, at most SWIM_MESSAGE_MAX bytes. Elements that a newer release appends, to
 * the frame, to a body or to an item, are stepped over; an unknown kind still delivers its items.
 *
 *   [format, cluster_id (BIN 16), kind, seq, sender_id, sender_incarnation, sender_address,
 *    time_ns, target_id, body, items, ages (BIN n x 6), wall, ...]
 *
 * time_ns is the sender's cluster time, and wall its wall clock minus that; it is nil of a node
 * that has no cluster time yet, whose time_ns is its wall clock. Older releases end at the items,
 * or at the ages if they know of several regions (else these are empty): their time is their wall
 * clock.
 *
 *   kind      body                          kind       body
 *   PING      []                            SYNC       [salt, hashes (BIN 64 x u32)]
 *   ACK       [subject_id]                  DIGEST     [mask, entries (BIN n x 33)]
 *   PING_REQ  [subject_id, address]         WANT       [0, ids (BIN n x u64)]
 *   NACK      [subject_id]                  RECORDS    []
 *   GOSSIP    []                            HELLO, WELCOME  [record]
 *
 *   entry = id u64, incarnation u64, record incarnation u64, record version u64, state u8 (LE)
 *
 * Replies go to sender_address. target_id says for whom the message is, so that a ping which
 * reaches another node on a reused address is not answered in the dead one's name.
 *
 * MESSAGE-1  swim_message_parse accepts a message only if all of it, every item included, is well
 *            formed; so what comes after cannot fail half-way.
 * MESSAGE-2  A message is started only if the longest one fits, so it never fails while being
 *            written.
 */
#include "gossip/swim_message.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/sat.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_record.h"
#include "gossip/swim_region.h"

enum { FRAME_FIELDS = 11, FRAME_FIELDS_AGES = 12, FRAME_FIELDS_WALL = 13, FORMAT = 1 };

#define SEQ_SALT UINT64_C(0x717565737469)

/* Whoever is asked hears the question's number. Nobody is to tell the next one by it, for that
 * would do to answer in the name of another. */
void swim_seq_init(struct swim *swim, uint64_t seed)
{
    const uint64_t words[2] = {random_next(&swim->random), hash_mix64(seed + SEQ_SALT)};
    static_assert(sizeof words == HASH_KEY_LEN, "two words are a key");
    memcpy(swim->frame.seq_key.bytes, words, sizeof words);
}

uint64_t swim_seq(struct swim *swim)
{
    const uint64_t number = ++swim->frame.seq_count;
    ASSERT(number != 0);
    return hash64(&swim->frame.seq_key, &number, sizeof number) | UINT64_C(1) << 63;
}

bool swim_room(const struct swim *swim)
{
    return swim->out->sends_count < SWIM_SENDS_MAX &&
           SWIM_SEND_BYTES_MAX - swim->out->bytes_len >= SWIM_MESSAGE_MAX;
}

bool swim_message_begin(struct swim *swim, struct mp_writer *writer, enum swim_kind kind,
                        uint64_t seq, uint64_t target)
{
    ASSERT(swim->out != NULL && kind >= SWIM_PING && kind <= SWIM_WELCOME);
    static const uint8_t none[SWIM_CLUSTER_ID_LEN];
    const struct swim_member *self = &swim->slots[SWIM_SELF].member;
    if (!swim_room(swim))
        return false;
    mp_writer_init(writer, swim->out->bytes + swim->out->bytes_len,
                   SWIM_MESSAGE_MAX - SWIM_TAIL_MAX);
    mp_put_array(writer, FRAME_FIELDS_WALL);
    mp_put_uint(writer, FORMAT);
    /* Who is greeted shall tell its cluster, and not join the greeter's. */
    mp_put_bin(writer, kind == SWIM_HELLO ? none : swim->cluster_id, SWIM_CLUSTER_ID_LEN);
    mp_put_uint(writer, kind);
    mp_put_uint(writer, seq);
    mp_put_uint(writer, self->record.id);
    mp_put_uint(writer, self->incarnation);
    mp_put_str(writer, self->record.gossip);
    mp_put_int(writer, swim->timeless ? sat_add(swim->now_ns, swim->wall_ns) : swim->now_ns);
    mp_put_uint(writer, target);
    swim->frame.abroad = swim_slot_abroad(swim, swim_lookup(swim, target));
    return true;
}

void swim_message_end(struct swim *swim, struct mp_writer *writer, const char *address)
{
    ASSERT(swim_room(swim)); /* MESSAGE-2: since the message was begun */
    struct swim_effects *out = swim->out;
    struct swim_send *send = &out->sends[out->sends_count++];
    writer->capacity = SWIM_MESSAGE_MAX;
    swim_ages_put(swim, writer);
    if (swim->timeless)
        mp_put_nil(writer);
    else
        mp_put_int(writer, swim->wall_ns);
    ASSERT(!writer->failed); /* MESSAGE-2 */
    ASSERT(writer->len <= SWIM_MESSAGE_MAX && out->bytes_len + writer->len <= sizeof out->bytes);
    memcpy(send->address, address, SWIM_ADDRESS_LEN);
    send->offset = (uint32_t)out->bytes_len;
    send->len = (uint32_t)writer->len;
    out->bytes_len += writer->len;
    swim->stats.sent++;
    swim->stats.sent_bytes += writer->len;
    if (swim->frame.abroad) {
        swim->stats.abroad_sent++;
        swim->stats.abroad_sent_bytes += writer->len;
    }
}

bool swim_hello(struct swim *swim, const char *address, uint64_t seq)
{
    struct mp_writer writer;
    if (!swim_message_begin(swim, &writer, SWIM_HELLO, seq, 0))
        return false;
    mp_put_array(&writer, 1);
    swim_record_put(&writer, &swim->slots[SWIM_SELF].member.record);
    mp_put_array(&writer, 0);
    swim_message_end(swim, &writer, address);
    return true;
}

/* The least number of elements a body of `kind` has. */
static uint32_t body_fields(uint64_t kind)
{
    switch (kind) {
    case SWIM_ACK:
    case SWIM_NACK:
    case SWIM_HELLO:
    case SWIM_WELCOME:
        return 1;
    case SWIM_PING_REQ:
    case SWIM_SYNC:
    case SWIM_DIGEST:
    case SWIM_WANT:
        return 2;
    default:
        return 0;
    }
}

static void get_address(struct mp_cursor *cursor, char *address)
{
    mp_copy_str(cursor, address, SWIM_ADDRESS_LEN);
    if (!cursor->failed && !swim_address_ok(address))
        cursor->failed = true;
}

/* Bytes that are a whole number of `unit` long elements. */
static void get_bytes(struct mp_cursor *cursor, struct swim_message *message, size_t unit)
{
    message->number = mp_get_uint(cursor);
    message->bytes = mp_get_bin(cursor, &message->bytes_len);
    if (!cursor->failed && message->bytes_len % unit != 0)
        cursor->failed = true;
}

static void parse_body(struct mp_cursor *cursor, struct swim_message *message)
{
    const uint32_t count = mp_get_array(cursor);
    const uint32_t fields = body_fields(message->kind);
    if (count < fields)
        cursor->failed = true;
    switch (message->kind) {
    case SWIM_ACK:
    case SWIM_NACK:
        message->number = mp_get_uint(cursor);
        break;
    case SWIM_PING_REQ:
        message->number = mp_get_uint(cursor);
        get_address(cursor, message->subject);
        break;
    case SWIM_SYNC:
        get_bytes(cursor, message, SWIM_SUMMARY_LEN);
        if (message->bytes_len != SWIM_SUMMARY_LEN)
            cursor->failed = true;
        break;
    case SWIM_DIGEST:
        get_bytes(cursor, message, SWIM_ENTRY_LEN);
        break;
    case SWIM_WANT:
        get_bytes(cursor, message, sizeof(uint64_t));
        break;
    case SWIM_HELLO:
    case SWIM_WELCOME:
        swim_record_get(cursor, &message->record);
        break;
    default:
        break;
    }
    ASSERT(message->bytes_len <= SWIM_MESSAGE_MAX);
    for (uint32_t i = fields; i < count && !cursor->failed; i++)
        mp_skip(cursor);
}

/* Reads every item once, only to see that it can be read (MESSAGE-1). */
static void parse_items(struct mp_cursor *cursor, struct swim_message *message)
{
    struct swim_item item;
    message->items_count = mp_get_array(cursor);
    message->items = *cursor;
    for (uint32_t i = 0; i < message->items_count && !cursor->failed; i++)
        swim_item_get(cursor, &item);
}

static void parse_ages(struct mp_cursor *cursor, struct swim_message *message)
{
    message->ages = mp_get_bin(cursor, &message->ages_len);
    if (!cursor->failed && message->ages_len % SWIM_AGE_LEN != 0)
        cursor->failed = true;
}

static void parse_wall(struct mp_cursor *cursor, struct swim_message *message)
{
    if (mp_peek_type(cursor) == MP_NIL) {
        mp_skip(cursor);
        message->timeless = true;
    } else {
        message->wall_ns = mp_get_int(cursor);
    }
}

int swim_message_parse(struct swim *swim, const void *bytes, size_t len,
                       struct swim_message *message)
{
    struct mp_cursor cursor;
    memset(message, 0, sizeof *message);
    if (len > SWIM_MESSAGE_MAX)
        return TG_ETOOBIG;
    const int count = mp_parse(bytes, len, swim->frame.tokens, SWIM_TOKENS_MAX);
    if (count < 0)
        return count;
    mp_cursor_init(&cursor, swim->frame.tokens, (size_t)count);
    const uint32_t fields = mp_get_array(&cursor);
    if (fields < FRAME_FIELDS)
        return TG_EPROTOCOL;
    const uint64_t format = mp_get_uint(&cursor);
    if (!cursor.failed && format != FORMAT)
        return TG_EVERSION;
    const uint8_t *cluster_id = mp_get_bin_exact(&cursor, SWIM_CLUSTER_ID_LEN);
    if (cluster_id != NULL)
        memcpy(message->cluster_id, cluster_id, SWIM_CLUSTER_ID_LEN);
    message->kind = mp_get_uint(&cursor);
    message->seq = mp_get_uint(&cursor);
    message->sender = mp_get_uint(&cursor);
    message->incarnation = mp_get_uint(&cursor);
    get_address(&cursor, message->address);
    message->time_ns = mp_get_int(&cursor);
    message->target = mp_get_uint(&cursor);
    parse_body(&cursor, message);
    parse_items(&cursor, message);
    if (fields >= FRAME_FIELDS_AGES)
        parse_ages(&cursor, message);
    if (fields >= FRAME_FIELDS_WALL)
        parse_wall(&cursor, message);
    if (cursor.failed || message->sender == 0)
        return TG_EPROTOCOL;
    return 0;
}
