/* swim_record.c - the bytes of a member record, and of an item that tells about a member.
 *
 * Both are msgpack arrays whose first elements are fixed; a newer release may append
 * elements, which this one steps over.
 *
 *   record  [id, incarnation, version, name, region, zone, gossip, peer, client, software,
 *            weight, vnodes, flags, shards, protocol_min, protocol_max, rules_digest,
 *            ring_epoch, settled_epoch, settings_version, settings_digest, ...]
 *           (an older release ends behind settled_epoch)
 *   item    [id, state, incarnation, age_ms, accusers (BIN of u64 LE), record or nil, ...]
 *
 * RECORD-1  What swim_record_get accepts, swim_record_check accepts: texts are printable and fit,
 *           addresses are HOST:PORT, ids are not 0, incarnations leave room for refutations.
 * RECORD-2  Reading trusts no length; a failure shows in the cursor.
 *
 * It must not decide which of two records holds beyond their stamps (swim_table.c does).
 */
#include "gossip/swim_record.h"

#include <string.h>

#include "base/bytes.h"
#include "base/sat.h"
#include "gossip/swim_internal.h"

enum {
    RECORD_FIELDS_MIN = 19,
    RECORD_FIELDS = 21,
    ITEM_FIELDS = 6,
    NS_PER_MS = 1000000,
    PORT_MAX = 65535
};

/* Texts reach logs and terminals, so control characters are refused here, once. */
static bool text_ok(const char *text, size_t capacity)
{
    const size_t len = strnlen(text, capacity);
    if (len == capacity)
        return false;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f)
            return false;
    }
    return true;
}

bool swim_address_ok(const char *address)
{
    if (!text_ok(address, SWIM_ADDRESS_LEN) || strchr(address, ' ') != NULL)
        return false;
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address || colon[1] == '\0')
        return false;
    uint32_t port = 0;
    for (const char *digit = colon + 1; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9')
            return false;
        port = port * 10 + (uint32_t)(*digit - '0');
        if (port > PORT_MAX)
            return false;
    }
    return port > 0;
}

/* peer and client may be off, hence empty; without a gossip address nobody could answer. */
int swim_record_check(const struct swim_record *record)
{
    const bool stamps_ok = record->id != 0 && record->incarnation <= SWIM_INCARNATION_MAX &&
                           record->version <= SWIM_INCARNATION_MAX;
    const bool texts_ok = text_ok(record->name, sizeof record->name) &&
                          text_ok(record->region, sizeof record->region) &&
                          text_ok(record->zone, sizeof record->zone) &&
                          text_ok(record->software, sizeof record->software);
    const bool addresses_ok = swim_address_ok(record->gossip) &&
                              (record->peer[0] == '\0' || swim_address_ok(record->peer)) &&
                              (record->client[0] == '\0' || swim_address_ok(record->client));
    return stamps_ok && texts_ok && addresses_ok ? 0 : TG_EINVALID;
}

bool swim_record_newer(const struct swim_record *a, const struct swim_record *b)
{
    if (a->incarnation != b->incarnation)
        return a->incarnation > b->incarnation;
    return a->version > b->version;
}

void swim_record_put(struct mp_writer *writer, const struct swim_record *record)
{
    mp_put_array(writer, RECORD_FIELDS);
    mp_put_uint(writer, record->id);
    mp_put_uint(writer, record->incarnation);
    mp_put_uint(writer, record->version);
    mp_put_str(writer, record->name);
    mp_put_str(writer, record->region);
    mp_put_str(writer, record->zone);
    mp_put_str(writer, record->gossip);
    mp_put_str(writer, record->peer);
    mp_put_str(writer, record->client);
    mp_put_str(writer, record->software);
    mp_put_uint(writer, record->weight);
    mp_put_uint(writer, record->vnodes);
    mp_put_uint(writer, record->flags);
    mp_put_uint(writer, record->shards);
    mp_put_uint(writer, record->protocol_min);
    mp_put_uint(writer, record->protocol_max);
    mp_put_uint(writer, record->rules_digest);
    mp_put_uint(writer, record->ring_epoch);
    mp_put_uint(writer, record->settled_epoch);
    mp_put_uint(writer, record->settings_version);
    mp_put_uint(writer, record->settings_digest);
}

static uint64_t get_bounded(struct mp_cursor *cursor, uint64_t max)
{
    const uint64_t value = mp_get_uint(cursor);
    if (value > max)
        cursor->failed = true;
    return cursor->failed ? 0 : value;
}

/* Opens an array of at least `fields` elements; returns how many a newer release appended. */
static uint32_t get_fields(struct mp_cursor *cursor, uint32_t fields)
{
    const uint32_t count = mp_get_array(cursor);
    if (count < fields)
        cursor->failed = true;
    return cursor->failed ? 0 : count - fields;
}

static void skip_extra(struct mp_cursor *cursor, uint32_t extra)
{
    for (uint32_t i = 0; i < extra && !cursor->failed; i++)
        mp_skip(cursor);
}

void swim_record_get(struct mp_cursor *cursor, struct swim_record *record)
{
    memset(record, 0, sizeof *record);
    uint32_t extra = get_fields(cursor, RECORD_FIELDS_MIN);
    record->id = mp_get_uint(cursor);
    record->incarnation = mp_get_uint(cursor);
    record->version = mp_get_uint(cursor);
    mp_copy_str(cursor, record->name, sizeof record->name);
    mp_copy_str(cursor, record->region, sizeof record->region);
    mp_copy_str(cursor, record->zone, sizeof record->zone);
    mp_copy_str(cursor, record->gossip, sizeof record->gossip);
    mp_copy_str(cursor, record->peer, sizeof record->peer);
    mp_copy_str(cursor, record->client, sizeof record->client);
    mp_copy_str(cursor, record->software, sizeof record->software);
    record->weight = (uint32_t)get_bounded(cursor, UINT32_MAX);
    record->vnodes = (uint32_t)get_bounded(cursor, UINT32_MAX);
    record->flags = (uint32_t)get_bounded(cursor, UINT32_MAX);
    record->shards = (uint16_t)get_bounded(cursor, UINT16_MAX);
    record->protocol_min = (uint16_t)get_bounded(cursor, UINT16_MAX);
    record->protocol_max = (uint16_t)get_bounded(cursor, UINT16_MAX);
    record->rules_digest = mp_get_uint(cursor);
    record->ring_epoch = mp_get_uint(cursor);
    record->settled_epoch = mp_get_uint(cursor);
    if (extra >= RECORD_FIELDS - RECORD_FIELDS_MIN) {
        record->settings_version = mp_get_uint(cursor);
        record->settings_digest = mp_get_uint(cursor);
        extra -= RECORD_FIELDS - RECORD_FIELDS_MIN;
    }
    skip_extra(cursor, extra);
    if (!cursor->failed && swim_record_check(record) != 0)
        cursor->failed = true;
}

void swim_item_put(struct mp_writer *writer, const struct swim_slot *slot, bool with_record,
                   int64_t now_ns)
{
    const struct swim_member *member = &slot->member;
    const int64_t age_ns = sat_sub(now_ns, member->since_ns);

    mp_put_array(writer, ITEM_FIELDS);
    mp_put_uint(writer, member->record.id);
    mp_put_uint(writer, member->state);
    mp_put_uint(writer, member->incarnation);
    mp_put_uint(writer, age_ns > 0 ? (uint64_t)age_ns / NS_PER_MS : 0);
    uint8_t *accusers = mp_reserve_bin(writer, slot->accusers_count * sizeof(uint64_t));
    if (accusers != NULL) {
        struct bytes_writer ids;
        bytes_writer_init(&ids, accusers, slot->accusers_count * sizeof(uint64_t));
        for (uint32_t i = 0; i < slot->accusers_count; i++)
            bytes_put_u64(&ids, slot->accusers[i]);
    }
    if (with_record)
        swim_record_put(writer, &member->record);
    else
        mp_put_nil(writer);
}

/* More accusers than we keep are of no use: the time-out is at its shortest by then. */
static void get_accusers(struct mp_cursor *cursor, struct swim_item *item)
{
    size_t len = 0;
    const uint8_t *ids = mp_get_bin(cursor, &len);
    if (cursor->failed)
        return;
    if (len % sizeof(uint64_t) != 0) {
        cursor->failed = true;
        return;
    }
    const size_t count = len / sizeof(uint64_t);
    item->accusers_count = count < SWIM_ACCUSERS_MAX ? (uint32_t)count : SWIM_ACCUSERS_MAX;
    for (uint32_t i = 0; i < item->accusers_count; i++)
        item->accusers[i] = bytes_u64_at(ids, i);
}

/* A record inside an item is its member's, and never newer than the state told with it. */
static bool item_ok(const struct swim_item *item)
{
    if (item->id == 0 || item->incarnation > SWIM_INCARNATION_MAX)
        return false;
    if (!item->has_record)
        return item->state != SWIM_ALIVE;
    if (item->record.id != item->id || item->record.incarnation > item->incarnation)
        return false;
    return item->state != SWIM_ALIVE || item->record.incarnation == item->incarnation;
}

void swim_item_get(struct mp_cursor *cursor, struct swim_item *item)
{
    memset(item, 0, sizeof *item);
    const uint32_t extra = get_fields(cursor, ITEM_FIELDS);
    item->id = mp_get_uint(cursor);
    item->state = (enum swim_state)get_bounded(cursor, SWIM_LEFT);
    item->incarnation = mp_get_uint(cursor);
    const uint64_t age_ms = get_bounded(cursor, INT64_MAX / NS_PER_MS);
    item->age_ns = (int64_t)age_ms * NS_PER_MS;
    get_accusers(cursor, item);
    item->has_record = mp_peek_type(cursor) != MP_NIL;
    if (item->has_record)
        swim_record_get(cursor, &item->record);
    else
        mp_skip(cursor);
    skip_extra(cursor, extra);
    if (!cursor->failed && !item_ok(item))
        cursor->failed = true;
}
