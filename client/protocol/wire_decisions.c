/* wire_decisions.c - DECISIONS: columns of answers, and a table of what many answers share.
 *
 *   item           0     1     2     ...
 *   outcomes       |u8   |u8   |u8   |
 *   flags          |u8   |u8   |u8   |       1 allowed, 2 degraded, 4 steady, 8 pending
 *   limit, used, remaining, granted, reset_after_ms, retry_after_ms, delay_ms   8 bytes each
 *   source_index   |u16  |u16  |u16  | --> sources: [rule, window, status, message, node,
 *                                                        shadow_rule, where there is one]
 *   vnode          |u32  |u32  |u32  |
 *
 * DECISIONS-1  Each column has exactly head.count elements; each source index is below source_count
 *              or WIRE_SOURCE_NONE; the explanation has head.count entries of at most
 *              WIRE_EXPLAIN_ROWS_MAX.
 * DECISIONS-2  A message within its bounds always fits: see the static_assert.
 * DECISIONS-3  An outcome that only a newer node knows is read as allow or deny, as the allowed
 *              flag says; a negative time is read as never.
 */
#include "client/protocol/wire_decisions.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "client/protocol/wire_field.h"

enum {
    DECISIONS_FIELDS = 19,
    SOURCE_FIELDS = 5,
    EXPLAIN_FIELDS = 8,
    POOL_FIELDS = 4, /* more of an elastic limit's row */
    ITEM_LEN = 1 + 1 + 7 * 8 + 2 + 4 + 8 + 4,
    SOURCE_LEN =
        1 + 2 * WIRE_RULE_MAX + WIRE_WINDOW_MAX + WIRE_TEXT_MAX + WIRE_NAME_MAX + 5 * 2 + 3,
    EXPLAIN_ROW_LEN = 1 + 2 * WIRE_RULE_MAX + WIRE_WINDOW_MAX + WIRE_NAME_MAX + 4 * 2 + 8 * 9 + 1,
    EXPLAIN_ITEM_LEN = ITEM_LEN + SOURCE_LEN + 3 + WIRE_EXPLAIN_ROWS_MAX * EXPLAIN_ROW_LEN
};

static_assert(256 + WIRE_CHECKS_MAX * ITEM_LEN + WIRE_SOURCES_MAX * SOURCE_LEN <= WIRE_MESSAGE_MAX,
              "DECISIONS-2: decisions within their bounds fit in one message");
static_assert(256 + WIRE_EXPLAIN_ITEMS_MAX * EXPLAIN_ITEM_LEN <= WIRE_MESSAGE_MAX,
              "DECISIONS-2: and so do those that are explained, with one source each");

/* At most `max` bytes, never ending inside a UTF-8 character. */
static struct wire_text cut(struct wire_text text, size_t max)
{
    ASSERT(max > 0);
    if (text.len <= max)
        return text;
    text.len = max;
    while (text.len > 0 && ((uint8_t)text.data[text.len] & 0xc0) == 0x80)
        text.len--;
    return text;
}

static bool text_equal(struct wire_text a, struct wire_text b)
{
    return a.len == b.len && (a.data == b.data || a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool source_equal(const struct wire_source *a, const struct wire_source *b)
{
    return a->status == b->status && text_equal(a->rule, b->rule) &&
           text_equal(a->window, b->window) && text_equal(a->node, b->node) &&
           text_equal(a->message, b->message) && text_equal(a->shadow_rule, b->shadow_rule);
}

/* Length and last bytes: enough to spread real rules, windows and nodes over the chains. */
static uint64_t text_mix(uint64_t hash, struct wire_text text)
{
    uint64_t tail = text.len;

    for (size_t i = text.len > 6 ? text.len - 6 : 0; i < text.len; i++)
        tail = tail << 8 | (uint8_t)text.data[i];
    return hash_mix64(hash ^ tail);
}

void wire_sources_init(struct wire_sources *sources)
{
    sources->count = 0;
    sources->last = 0;
    memset(sources->head, 0xff, sizeof sources->head); /* WIRE_SOURCE_NONE ends a chain */
}

uint16_t wire_sources_add(struct wire_sources *sources, const struct wire_source *source)
{
    const struct wire_source kept = {
        .rule = cut(source->rule, WIRE_RULE_MAX),
        .window = cut(source->window, WIRE_WINDOW_MAX),
        .status = source->status,
        .message = cut(source->message, WIRE_TEXT_MAX),
        .node = cut(source->node, WIRE_NAME_MAX),
        .shadow_rule = cut(source->shadow_rule, WIRE_RULE_MAX),
    };
    uint64_t hash;
    uint16_t *head;

    if (sources->count != 0 && source_equal(&sources->table[sources->last], &kept))
        return sources->last;
    hash = text_mix(text_mix(text_mix(kept.status, kept.rule), kept.window), kept.node);
    if (kept.shadow_rule.len != 0)
        hash = text_mix(hash, kept.shadow_rule);
    head = &sources->head[hash & (WIRE_SOURCE_BUCKETS - 1)];
    for (uint16_t i = *head; i != WIRE_SOURCE_NONE; i = sources->next[i]) {
        if (source_equal(&sources->table[i], &kept)) {
            sources->last = i;
            return i;
        }
    }
    if (sources->count == WIRE_SOURCES_MAX)
        return WIRE_SOURCE_NONE;
    ASSERT(sources->count < WIRE_SOURCES_MAX);
    sources->last = (uint16_t)sources->count++;
    sources->table[sources->last] = kept;
    sources->next[sources->last] = *head;
    *head = sources->last;
    return sources->last;
}

static bool decisions_valid(const struct wire_decisions_head *head,
                            const struct wire_decision_columns *columns,
                            const struct wire_sources *sources, const struct wire_explain *explain)
{
    uint32_t end = 0;

    if (head->session == 0 || head->count == 0 || head->count > WIRE_CHECKS_MAX ||
        sources->count > WIRE_SOURCES_MAX ||
        (explain != NULL && head->count > WIRE_EXPLAIN_ITEMS_MAX))
        return false;
    for (uint32_t i = 0; i < head->count; i++) {
        if (columns->source_index[i] >= sources->count &&
            columns->source_index[i] != WIRE_SOURCE_NONE)
            return false;
    }
    for (uint32_t i = 0; explain != NULL && i < head->count; i++) {
        if (explain->end[i] < end || explain->end[i] - end > WIRE_EXPLAIN_ROWS_MAX)
            return false;
        end = explain->end[i];
    }
    return true;
}

static void put_u16_column(struct mp_writer *writer, const uint16_t *column, uint32_t count)
{
    uint8_t *out = mp_reserve_bin(writer, (size_t)count * 2);

    if (out != NULL)
        wire_set_u16s(out, column, count);
}

static void put_u32_column(struct mp_writer *writer, const uint32_t *column, uint32_t count)
{
    uint8_t *out = mp_reserve_bin(writer, (size_t)count * 4);

    if (out != NULL)
        wire_set_u32s(out, column, count);
}

static void put_u64_column(struct mp_writer *writer, const uint64_t *column, uint32_t count)
{
    uint8_t *out = mp_reserve_bin(writer, (size_t)count * 8);

    if (out != NULL)
        wire_set_u64s(out, column, count);
}

static void put_i64_column(struct mp_writer *writer, const int64_t *column, uint32_t count)
{
    put_u64_column(writer, (const uint64_t *)column, count);
}

static void put_columns(struct mp_writer *writer, const struct wire_decision_columns *columns,
                        uint32_t count)
{
    mp_put_bin(writer, columns->outcomes, count);
    mp_put_bin(writer, columns->flags, count);
    put_u64_column(writer, columns->limit, count);
    put_u64_column(writer, columns->used, count);
    put_u64_column(writer, columns->remaining, count);
    put_u64_column(writer, columns->granted, count);
    put_i64_column(writer, columns->reset_after_ms, count);
    put_i64_column(writer, columns->retry_after_ms, count);
    put_i64_column(writer, columns->delay_ms, count);
    put_u16_column(writer, columns->source_index, count);
    put_u32_column(writer, columns->vnode, count);
}

static void put_explain_row(struct mp_writer *writer, const struct wire_explain_row *row)
{
    const bool elastic = row->pool.len > 0;
    const bool global = elastic && row->pool_global;
    const uint32_t more = global ? POOL_FIELDS + 1 : elastic ? POOL_FIELDS : 0;

    mp_put_array(writer, EXPLAIN_FIELDS + more);
    wire_put_text(writer, cut(row->rule, WIRE_RULE_MAX));
    wire_put_text(writer, cut(row->window, WIRE_WINDOW_MAX));
    mp_put_uint(writer, row->limit);
    mp_put_uint(writer, row->used);
    mp_put_uint(writer, row->remaining);
    mp_put_bool(writer, row->allowed);
    mp_put_int(writer, row->reset_after_ms);
    mp_put_int(writer, row->retry_after_ms);
    if (!elastic)
        return;
    wire_put_text(writer, cut(row->pool, WIRE_RULE_MAX));
    mp_put_uint(writer, row->level);
    mp_put_uint(writer, row->guaranteed);
    mp_put_uint(writer, row->borrowed);
    if (global)
        wire_put_text(writer, cut(row->pool_home, WIRE_NAME_MAX));
}

static void put_explain(struct mp_writer *writer, const struct wire_explain *explain,
                        uint32_t count)
{
    uint32_t row = 0;

    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(explain->end[i] >= row);
        mp_put_array(writer, explain->end[i] - row);
        for (; row < explain->end[i]; row++)
            put_explain_row(writer, &explain->rows[row]);
    }
}

static void put_source(struct mp_writer *writer, const struct wire_source *source)
{
    const bool shadow = source->shadow_rule.len > 0;

    mp_put_array(writer, SOURCE_FIELDS + (shadow ? 1 : 0));
    wire_put_text(writer, source->rule);
    wire_put_text(writer, source->window);
    mp_put_uint(writer, source->status);
    wire_put_text(writer, source->message);
    wire_put_text(writer, source->node);
    if (shadow)
        wire_put_text(writer, source->shadow_rule);
}

int wire_encode_decisions(const struct wire_decisions_head *head,
                          const struct wire_decision_columns *columns,
                          const struct wire_sources *sources, const struct wire_explain *explain,
                          void *out, size_t capacity)
{
    struct mp_writer writer;

    if (!decisions_valid(head, columns, sources, explain))
        return TG_EINVALID;
    mp_writer_init(&writer, out, capacity);
    wire_put_head(&writer, WIRE_DECISIONS,
                  DECISIONS_FIELDS + (head->leased ? 1 + (head->held ? 1 : 0) : 0));
    ASSERT(head->count >= 1 && head->count <= WIRE_CHECKS_MAX);
    mp_put_uint(&writer, head->session);
    mp_put_uint(&writer, head->seq);
    mp_put_uint(&writer, head->view_version);
    mp_put_uint(&writer, head->count);
    put_columns(&writer, columns, head->count);
    mp_put_array(&writer, sources->count);
    for (uint32_t i = 0; i < sources->count; i++)
        put_source(&writer, &sources->table[i]);
    if (explain != NULL)
        put_explain(&writer, explain, head->count);
    else
        mp_put_nil(&writer);
    if (head->leased)
        put_u64_column(&writer, columns->leases, head->count);
    if (head->leased && head->held)
        put_u32_column(&writer, columns->lease_ms, head->count);
    return wire_put_end(&writer);
}

static void read_columns(struct wire_reader *reader, struct wire_decisions *decisions)
{
    const size_t count = decisions->head.count;

    decisions->outcomes = wire_read_bin(reader, "outcomes", count);
    decisions->flags = wire_read_bin(reader, "flags", count);
    decisions->limit = wire_read_bin(reader, "limit", count * 8);
    decisions->used = wire_read_bin(reader, "used", count * 8);
    decisions->remaining = wire_read_bin(reader, "remaining", count * 8);
    decisions->granted = wire_read_bin(reader, "granted", count * 8);
    decisions->reset_after_ms = wire_read_bin(reader, "reset_after_ms", count * 8);
    decisions->retry_after_ms = wire_read_bin(reader, "retry_after_ms", count * 8);
    decisions->delay_ms = wire_read_bin(reader, "delay_ms", count * 8);
    decisions->source_index = wire_read_bin(reader, "source_index", count * 2);
    decisions->vnode = wire_read_bin(reader, "vnode", count * 4);
}

static void read_sources(struct wire_reader *reader, struct wire_decisions_space *space,
                         struct wire_decisions *decisions)
{
    decisions->source_count = wire_read_array(reader, "sources", 0, WIRE_SOURCES_MAX);
    decisions->sources = space->sources;
    for (uint32_t i = 0; i < decisions->source_count && reader->status == 0; i++) {
        struct wire_source *source = &space->sources[i];
        const uint32_t fields = wire_read_array(reader, "source", SOURCE_FIELDS, UINT32_MAX);

        source->rule = wire_read_text(reader, "source.rule", 0, WIRE_RULE_MAX);
        source->window = wire_read_text(reader, "source.window", 0, WIRE_WINDOW_MAX);
        source->status = (uint16_t)wire_read_uint(reader, "source.status", 0, UINT16_MAX);
        source->message = wire_read_text(reader, "source.message", 0, WIRE_TEXT_MAX);
        source->node = wire_read_text(reader, "source.node", 0, WIRE_NAME_MAX);
        const bool shadow = reader->status == 0 && fields > SOURCE_FIELDS &&
                            mp_peek_type(&reader->cursor) != MP_NIL;
        source->shadow_rule = shadow
                                  ? wire_read_text(reader, "source.shadow_rule", 0, WIRE_RULE_MAX)
                                  : wire_text_of("");
        if (reader->status == 0)
            wire_read_extra(reader, fields - SOURCE_FIELDS - (shadow ? 1 : 0));
    }
    for (uint32_t i = 0; reader->status == 0 && i < decisions->head.count; i++) {
        const uint32_t index = bytes_u16_at(decisions->source_index, i);

        if (index >= decisions->source_count && index != WIRE_SOURCE_NONE)
            wire_reader_fail(reader, TG_EPROTOCOL,
                             "source_index[%" PRIu32 "]: found %" PRIu32
                             ", expected below the %" PRIu32 " sources or 65535",
                             i, index, decisions->source_count);
    }
}

/* What a row of `fields` elements says more of an elastic limit; of another one it is left out, and
 * so is the home of a pool that each region has for itself. Returns how many it has read. */
static uint32_t read_pool(struct wire_reader *reader, uint32_t fields, struct wire_explain_row *row)
{
    row->pool = row->pool_home = wire_text_of("");
    row->level = row->guaranteed = row->borrowed = 0;
    row->pool_global = false;
    if (reader->status != 0 || fields < EXPLAIN_FIELDS + POOL_FIELDS ||
        mp_peek_type(&reader->cursor) == MP_NIL)
        return 0;
    row->pool = wire_read_text(reader, "explain.pool", 1, WIRE_RULE_MAX);
    row->level = wire_read_uint(reader, "explain.level", 0, UINT64_MAX);
    row->guaranteed = wire_read_uint(reader, "explain.guaranteed", 0, UINT64_MAX);
    row->borrowed = wire_read_uint(reader, "explain.borrowed", 0, UINT64_MAX);
    if (reader->status != 0 || fields == EXPLAIN_FIELDS + POOL_FIELDS ||
        mp_peek_type(&reader->cursor) == MP_NIL)
        return POOL_FIELDS;
    row->pool_global = true;
    row->pool_home = wire_read_text(reader, "explain.pool_home", 0, WIRE_NAME_MAX);
    return POOL_FIELDS + 1;
}

static void read_explain_row(struct wire_reader *reader, struct wire_explain_row *row)
{
    const uint32_t fields = wire_read_array(reader, "explain row", EXPLAIN_FIELDS, UINT32_MAX);

    row->rule = wire_read_text(reader, "explain.rule", 0, WIRE_RULE_MAX);
    row->window = wire_read_text(reader, "explain.window", 0, WIRE_WINDOW_MAX);
    row->limit = wire_read_uint(reader, "explain.limit", 0, UINT64_MAX);
    row->used = wire_read_uint(reader, "explain.used", 0, UINT64_MAX);
    row->remaining = wire_read_uint(reader, "explain.remaining", 0, UINT64_MAX);
    row->allowed = wire_read_bool(reader, "explain.allowed");
    row->reset_after_ms = wire_read_int(reader, "explain.reset_after_ms", WIRE_NEVER_MS, INT64_MAX);
    row->retry_after_ms = wire_read_int(reader, "explain.retry_after_ms", WIRE_NEVER_MS, INT64_MAX);
    const uint32_t more = read_pool(reader, fields, row);
    if (reader->status == 0)
        wire_read_extra(reader, fields - EXPLAIN_FIELDS - more);
}

static void read_explain(struct wire_reader *reader, struct wire_explain *explain,
                         struct wire_decisions *decisions)
{
    uint32_t row = 0;

    decisions->explain = NULL;
    if (reader->status != 0 || mp_peek_type(&reader->cursor) == MP_NIL)
        return;
    if (decisions->head.count > WIRE_EXPLAIN_ITEMS_MAX) {
        wire_reader_fail(reader, TG_EPROTOCOL,
                         "explain: found it with %" PRIu32 " items, expected at most %d",
                         decisions->head.count, WIRE_EXPLAIN_ITEMS_MAX);
        return;
    }
    (void)wire_read_array(reader, "explain", decisions->head.count, decisions->head.count);
    for (uint32_t i = 0; i < decisions->head.count && reader->status == 0; i++) {
        const uint32_t rows = wire_read_array(reader, "explain item", 0, WIRE_EXPLAIN_ROWS_MAX);

        for (uint32_t k = 0; k < rows && reader->status == 0; k++)
            read_explain_row(reader, &explain->rows[row++]);
        explain->end[i] = row;
    }
    decisions->explain = explain;
}

/* The column is left out, or nil, when no item has a lease. */
static void read_leases(struct wire_reader *reader, uint32_t fields,
                        struct wire_decisions *decisions)
{
    decisions->leases = NULL;
    decisions->lease_ms = NULL;
    decisions->head.leased = false;
    decisions->head.held = false;
    if (reader->status != 0 || fields <= DECISIONS_FIELDS)
        return;
    if (decisions->explain == NULL)
        mp_skip(&reader->cursor); /* the nil in the place of an explanation */
    if (mp_peek_type(&reader->cursor) == MP_NIL)
        return;
    decisions->leases = wire_read_bin(reader, "leases", (size_t)decisions->head.count * 8);
    decisions->head.leased = reader->status == 0;
    if (reader->status != 0 || fields <= DECISIONS_FIELDS + 1 ||
        mp_peek_type(&reader->cursor) == MP_NIL)
        return;
    decisions->lease_ms = wire_read_bin(reader, "lease_ms", (size_t)decisions->head.count * 4);
    decisions->head.held = reader->status == 0;
}

int wire_decode_decisions(const void *frame, size_t len, struct wire_decisions_space *space,
                          struct wire_decisions *decisions, char *error)
{
    struct wire_reader reader;

    if (wire_reader_open(&reader, frame, len, WIRE_DECISIONS, DECISIONS_FIELDS, space->tokens,
                         WIRE_DECISIONS_TOKENS_MAX, error) != 0)
        return reader.status;
    decisions->head.session = wire_read_uint(&reader, "session", 1, UINT64_MAX);
    decisions->head.seq = wire_read_uint(&reader, "seq", 0, UINT64_MAX);
    decisions->head.view_version = wire_read_uint(&reader, "view_version", 0, UINT64_MAX);
    decisions->head.count = (uint32_t)wire_read_uint(&reader, "n", 1, WIRE_CHECKS_MAX);
    read_columns(&reader, decisions);
    read_sources(&reader, space, decisions);
    read_explain(&reader, &space->explain, decisions);
    read_leases(&reader, space->tokens[0].count, decisions);
    return reader.status;
}

static int64_t time_at(const uint8_t *column, uint32_t i)
{
    const int64_t ms = (int64_t)bytes_u64_at(column, i);

    return ms < 0 ? WIRE_NEVER_MS : ms; /* DECISIONS-3 */
}

void wire_decision_at(const struct wire_decisions *decisions, uint32_t i, struct wire_decision *out)
{
    ASSERT(i < decisions->head.count);
    const uint32_t source = bytes_u16_at(decisions->source_index, i);
    const uint8_t outcome = decisions->outcomes[i];

    out->allowed = (decisions->flags[i] & WIRE_ALLOWED) != 0;
    out->degraded = (decisions->flags[i] & WIRE_DEGRADED) != 0;
    out->pending = (decisions->flags[i] & WIRE_PENDING) != 0;
    out->steady = (decisions->flags[i] & WIRE_STEADY) != 0;
    out->in_flight = (decisions->flags[i] & WIRE_IN_FLIGHT) != 0;
    if (outcome < OUTCOME_COUNT)
        out->outcome = (enum outcome)outcome;
    else
        out->outcome = out->allowed ? OUTCOME_ALLOW : OUTCOME_DENY; /* DECISIONS-3 */
    out->limit = bytes_u64_at(decisions->limit, i);
    out->used = bytes_u64_at(decisions->used, i);
    out->remaining = bytes_u64_at(decisions->remaining, i);
    out->granted = bytes_u64_at(decisions->granted, i);
    out->reset_after_ms = time_at(decisions->reset_after_ms, i);
    out->retry_after_ms = time_at(decisions->retry_after_ms, i);
    out->delay_ms = time_at(decisions->delay_ms, i);
    out->lease = decisions->leases == NULL ? 0 : bytes_u64_at(decisions->leases, i);
    out->lease_ms = decisions->lease_ms == NULL ? 0 : bytes_u32_at(decisions->lease_ms, i);
    out->vnode = bytes_u32_at(decisions->vnode, i);
    out->source = source == WIRE_SOURCE_NONE ? NULL : &decisions->sources[source];
}
