/* table_codec.c - a slot's state as bytes, and back.
 *
 *   | version 1 | algorithm 1 | the algorithm's own fields, little-endian |
 *
 * The id is not part of it: whoever ships states ships ids beside them. A decoder reads to the very
 * end: bytes left over are as malformed as bytes missing, and nothing changes on an error.
 */
#include "base/assert.h"
#include "node/limit/table/table_slot.h"

enum { EXPORT_HEADER_LEN = 2 };

/* The kind of state that the slot means: one that a copy left over is a plain one, and new. */
static inline unsigned slot_kind(const struct table *table, const struct slot *slot)
{
    return slot_faded(table, slot) ? slot_algorithm(table, slot) : slot->kind & KIND_ALGORITHM;
}

size_t table_export_len(const struct table *table, uint32_t number)
{
    ASSERT(number < table->slots_end && slot_live(&table->slots[number]));
    const struct slot *slot = &table->slots[number];
    const struct limit_cell cell = slot_state(table, slot);
    const struct limit_ops *ops = algorithm_ops(slot_kind(table, slot));
    return EXPORT_HEADER_LEN + ops->export_len(&table->memory, &cell);
}

/* The length, or TG_ETOOBIG. */
static int put_state(const struct table *table, unsigned kind, const struct limit_ops *ops,
                     const struct limit_cell *cell, struct bytes_writer *writer)
{
    uint8_t *header = bytes_claim(writer, EXPORT_HEADER_LEN);
    if (header == NULL)
        return TG_ETOOBIG;
    header[0] = LIMIT_EXPORT_VERSION;
    header[1] = (uint8_t)kind;
    ops->put(&table->memory, cell, writer);
    return writer->failed ? TG_ETOOBIG : (int)writer->len;
}

int table_export(const struct table *table, uint32_t number, void *buffer, size_t capacity)
{
    ASSERT(number < table->slots_end && slot_live(&table->slots[number]));
    const struct slot *slot = &table->slots[number];
    const struct limit_cell cell = slot_state(table, slot);
    const unsigned kind = slot_kind(table, slot);
    struct bytes_writer writer = {.data = buffer, .capacity = capacity};
    return put_state(table, kind, algorithm_ops(kind), &cell, &writer);
}

uint32_t table_export_dated(const struct table *table, const struct slot *slot, void *buffer,
                            int64_t *expires_ns)
{
    const struct limit_cell cell = slot_state(table, slot);
    const unsigned kind = slot_kind(table, slot);
    const struct limit_ops *ops = algorithm_ops(kind);
    struct bytes_writer writer = {.data = buffer, .capacity = TABLE_EXPORT_MAX};
    const int len = put_state(table, kind, ops, &cell, &writer);
    ASSERT(len > 0);
    *expires_ns = ops->expires(&table->memory, &cell);
    return (uint32_t)len;
}

/* Reads the header. 0, TG_EVERSION or TG_ECORRUPT. */
static int read_header(struct bytes_reader *reader, const struct limit_ops **ops,
                       uint8_t *algorithm)
{
    const uint8_t version = bytes_get_u8(reader);
    *algorithm = bytes_get_u8(reader);
    if (reader->failed)
        return TG_ECORRUPT;
    if (version != LIMIT_EXPORT_VERSION)
        return TG_EVERSION;
    *ops = algorithm_ops(*algorithm);
    return *ops == NULL ? TG_ECORRUPT : 0;
}

int table_check_export(struct bytes_reader *reader, const void *bytes, size_t len,
                       const struct limit_ops **ops, uint8_t *algorithm, int64_t *expires_ns)
{
    bytes_reader_init(reader, bytes, len);
    int rc = read_header(reader, ops, algorithm);
    if (rc != 0)
        return rc;
    struct bytes_reader trial = *reader;
    struct limit_cell unused;
    rc = (*ops)->get(NULL, &trial, &unused, expires_ns);
    return rc != 0 ? rc : bytes_left(&trial) != 0 ? TG_ECORRUPT : 0;
}

unsigned table_export_algorithm(const struct bytes_reader *reader, unsigned kind)
{
    return kind == LIMIT_LEASED ? reader->data[reader->at] : kind;
}

int table_export_expires_ns(const void *bytes, size_t len, int64_t *expires_ns)
{
    struct bytes_reader reader;
    const struct limit_ops *ops;
    uint8_t algorithm;
    return table_check_export(&reader, bytes, len, &ops, &algorithm, expires_ns);
}

/* Decodes into a new cell, making room in the arena once if it is full. */
static int decode_cell(struct table *table, const struct limit_ops *ops,
                       const struct bytes_reader *reader, uint32_t keep, int64_t now_ns,
                       struct limit_cell *cell)
{
    int64_t expires_ns;
    struct bytes_reader first = *reader;
    int rc = ops->get(&table->memory, &first, cell, &expires_ns);
    if (rc != TG_EFULL || !table_make_arena_room(table, keep, now_ns))
        return rc;
    struct bytes_reader second = *reader;
    return ops->get(&table->memory, &second, cell, &expires_ns);
}

int table_import(struct table *table, uint32_t vnode, struct hash128 id, const void *bytes,
                 size_t len, int64_t now_ns, unsigned flags)
{
    ASSERT(vnode < table->vnodes_count);
    struct bytes_reader reader;
    const struct limit_ops *ops;
    uint8_t algorithm;
    int64_t expires_ns;
    int rc = table_check_export(&reader, bytes, len, &ops, &algorithm, &expires_ns);
    if (rc != 0)
        return rc;
    uint32_t number = table_find_to_change(table, id);
    if (number != TABLE_NONE &&
        slot_algorithm(table, &table->slots[number]) != table_export_algorithm(&reader, algorithm))
        return TG_ECORRUPT;
    const bool from_disk = (flags & TABLE_FROM_DISK) != 0;
    /* A state as good as none is news to a journal that may hold an older one. */
    const bool needless = expires_ns <= now_ns && (from_disk || !vnode_journaled(table, vnode) ||
                                                   !table->vnodes[vnode].spilled);
    if (number != TABLE_NONE ? from_disk : needless)
        return 0;
    struct limit_cell cell = {0};
    rc = decode_cell(table, ops, &reader, number, now_ns, &cell);
    if (rc == 0 && number == TABLE_NONE) {
        if (from_disk || table_takes_imports(table))
            number = table_insert(table, id, vnode, algorithm, TABLE_NONE, now_ns);
        rc = number == TABLE_NONE ? TG_EFULL : 0;
    }
    if (rc != 0) {
        ops->release(&table->memory, &cell);
        table->refused += rc == TG_EFULL;
        return rc;
    }
    struct slot *slot = &table->slots[number];
    struct limit_cell old = slot_cell(slot);
    slot_ops(slot)->release(&table->memory, &old);
    slot_set_cell(slot, &cell);
    slot_set_kind(slot, algorithm);
    if (slot_old(table, slot))
        table_old_gone(table, slot->vnode);
    slot->kind = (uint8_t)((slot->kind & ~KIND_COLOUR) | table->vnodes[slot->vnode].colour);
    if (from_disk) {
        slot->dirty |= DIRTY_ON_DISK;
        table->clean++;
        return 0;
    }
    slot->kind |= KIND_LOWERED; /* it may say less than what this node has on disk */
    table_mark_dirty(table, number, table->vnodes[slot->vnode].targets);
    table_settle(table, number);
    return 0;
}
