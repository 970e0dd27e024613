/* leased_bytes.c - the envelope of leased.h as a state like any other: its life in the table, and
 * as bytes for disk and replicas.
 *
 *   bytes   | algorithm 1 | drain 8 | holders 4 | holders x (id 8 | until 8 | granted 8 | used 8) |
 *           | the inner algorithm's own fields |
 *
 * The kind of a holder stands in the two highest bits of `granted`, which is a count far below
 * them: a node that knows leases alone finds those of other kinds corrupt.
 *
 * It has no `apply`: who decides knows that it is one (engine.c). Leases whose time is over are
 * left in it until then; whoever has them ends them in the same way.
 */
#include "node/limit/algorithms/leased.h"

#include <string.h>

/* What the envelope means to who does not know the limit: never as good as new too early. */
static int64_t whole_expires_ns(int64_t inner_ns, int64_t last_ns, int64_t drain_ns)
{
    return sat_add(inner_ns > last_ns ? inner_ns : last_ns, drain_ns);
}

static int64_t leased_expires(const struct limit_memory *memory, const struct limit_cell *cell)
{
    if (!cell->wide)
        return 0; /* as new */
    const struct leased *leased = leased_of(memory, cell);
    const struct limit_ops *ops = algorithm_ops(leased->algorithm);
    const int64_t inner_ns = ops->expires(memory, &leased->inner);
    if (leased->count == 0)
        return inner_ns;
    return whole_expires_ns(inner_ns, leased->holder[leased->count - 1].until_ns, leased->drain_ns);
}

static void leased_release(struct limit_memory *memory, struct limit_cell *cell)
{
    if (cell->wide) {
        const struct limit_ops *ops = algorithm_ops(leased_unwrap(memory, cell));
        ops->release(memory, cell);
    }
    memset(cell, 0, sizeof *cell);
}

static size_t leased_export_len(const struct limit_memory *memory, const struct limit_cell *cell)
{
    const struct leased *leased = leased_of(memory, cell);
    const struct limit_ops *ops = algorithm_ops(leased->algorithm);
    return LEASED_HEADER_LEN + (size_t)leased->count * HOLDER_LEN +
           ops->export_len(memory, &leased->inner);
}

static void leased_put(const struct limit_memory *memory, const struct limit_cell *cell,
                       struct bytes_writer *writer)
{
    const struct leased *leased = leased_of(memory, cell);
    bytes_put_u8(writer, leased->algorithm);
    bytes_put_i64(writer, leased->drain_ns);
    bytes_put_u32(writer, leased->count);
    for (uint32_t i = 0; i < leased->count; i++) {
        bytes_put_u64(writer, leased->holder[i].id);
        bytes_put_i64(writer, leased->holder[i].until_ns);
        bytes_put_u64(writer, leased->holder[i].granted | (uint64_t)leased->holder[i].kind
                                                              << HOLDER_KIND_SHIFT);
        bytes_put_u64(writer, leased->holder[i].used);
    }
    algorithm_ops(leased->algorithm)->put(memory, &leased->inner, writer);
}

struct holder leased_read_holder(struct bytes_reader *reader)
{
    struct holder holder = {.id = bytes_get_u64(reader)};
    holder.until_ns = bytes_get_i64(reader);
    const uint64_t granted = bytes_get_u64(reader);
    holder.kind = (uint8_t)(granted >> HOLDER_KIND_SHIFT);
    holder.granted = granted & ((UINT64_C(1) << HOLDER_KIND_SHIFT) - 1);
    holder.used = bytes_get_u64(reader);
    return holder;
}

int leased_read_head(struct bytes_reader *reader, struct leased_head *head)
{
    const struct limit limit = {.algorithm = bytes_get_u8(reader)};
    head->algorithm = limit.algorithm;
    head->drain_ns = bytes_get_i64(reader);
    head->count = bytes_get_u32(reader);
    head->last_ns = 0;
    uint64_t out = 0;
    if (reader->failed || head->count == 0 || head->count > HOLDERS_MAX || head->drain_ns < 0 ||
        algorithm_ops(limit.algorithm) == NULL || limit_lease_refusal(&limit) != NULL)
        return TG_ECORRUPT;
    head->holders = *reader;
    for (uint32_t i = 0; i < head->count; i++) {
        const struct holder holder = leased_read_holder(reader);
        if (reader->failed || holder.until_ns < head->last_ns || holder.granted > LIMIT_USED_MAX ||
            !holder_is_sound(&holder))
            return TG_ECORRUPT;
        head->last_ns = holder.until_ns;
        out += holder_out(&holder);
    }
    return out > LIMIT_USED_MAX ? TG_ECORRUPT : 0;
}

static int leased_get(struct limit_memory *memory, struct bytes_reader *reader,
                      struct limit_cell *cell, int64_t *expires_ns)
{
    struct leased_head head;
    int64_t inner_ns;
    struct limit_cell inner = {0};
    int rc = leased_read_head(reader, &head);
    if (rc != 0)
        return rc;
    rc = algorithm_ops(head.algorithm)->get(memory, reader, &inner, &inner_ns);
    if (rc != 0)
        return rc;
    *expires_ns = whole_expires_ns(inner_ns, head.last_ns, head.drain_ns);
    if (memory == NULL)
        return 0;
    const uint32_t handle = arena_take(&memory->arena, leased_len(head.count));
    if (handle == ARENA_NONE) {
        algorithm_ops(head.algorithm)->release(memory, &inner);
        return TG_EFULL;
    }
    struct leased *leased = arena_at(&memory->arena, handle);
    *leased = (struct leased){.inner = inner,
                              .drain_ns = head.drain_ns,
                              .capacity = head.count,
                              .algorithm = head.algorithm};
    for (uint32_t i = 0; i < head.count; i++) {
        const struct holder holder = leased_read_holder(&head.holders);
        leased_put_in(leased, &holder);
    }
    *cell = (struct limit_cell){.word = {[2] = handle}, .wide = 1};
    return 0;
}

int leased_clone(struct limit_memory *memory, const struct limit_cell *cell, struct limit_cell *out)
{
    const size_t len = leased_export_len(memory, cell);
    const uint32_t handle = arena_take(&memory->arena, len);
    if (handle == ARENA_NONE)
        return TG_EFULL;
    struct bytes_writer writer;
    struct bytes_reader reader;
    int64_t ignored;
    bytes_writer_init(&writer, arena_at(&memory->arena, handle), len);
    leased_put(memory, cell, &writer);
    bytes_reader_init(&reader, arena_at(&memory->arena, handle), len);
    const int rc = leased_get(memory, &reader, out, &ignored);
    arena_give(&memory->arena, handle);
    return rc;
}

const struct limit_ops leased_ops = {
    .expires = leased_expires,
    .release = leased_release,
    .export_len = leased_export_len,
    .put = leased_put,
    .get = leased_get,
};
