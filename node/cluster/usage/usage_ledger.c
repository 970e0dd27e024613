/* usage_ledger.c - see usage_ledger.h.
 *
 * Chunks begin without memory and double it. A month is counted from that of March of the year 0,
 * as years that begin in March have their odd day at the end; nobody sees these numbers.
 */
#include "node/cluster/usage/usage_ledger.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/search.h"

enum {
    ENCODING = 1,
    ENTRIES_MIN = 8,
    AHEAD_MAX = 1 /* days, or months: what was counted before a clock was set back by little */
};

#define DAY_MS UINT64_C(86400000)

static_assert((USAGE_CHUNKS & (USAGE_CHUNKS - 1)) == 0, "a chunk is some bits of a hash");
static_assert(USAGE_CHUNKS == 1024 && USAGE_ENTRY_LEN == 72,
              "on disk a hash is looked for in the chunk of that number, in entries so long");
static_assert(USAGE_CHUNK_MAX % ENTRIES_MIN == 0 &&
                  ((USAGE_CHUNK_MAX / ENTRIES_MIN) & (USAGE_CHUNK_MAX / ENTRIES_MIN - 1)) == 0,
              "doubling ends at the bound");

struct entry {
    uint64_t hash;
    uint64_t last_ms;
    uint32_t day; /* that `today` is of, and so the month */
    uint32_t month;
    struct usage_count today;
    struct usage_count this_month;
    struct usage_count ever;
};

struct chunk {
    struct entry *entries;
    uint32_t count;
    uint32_t capacity;
    bool dirty;
};

struct usage_ledger {
    const struct allocator *allocator;
    uint64_t lost;
    struct chunk chunks[USAGE_CHUNKS];
};

struct usage_ledger *usage_ledger_new(const struct allocator *allocator)
{
    struct usage_ledger *book = alloc_get(allocator, sizeof *book);
    if (book != NULL)
        book->allocator = allocator;
    return book;
}

void usage_ledger_free(struct usage_ledger **pointer)
{
    struct usage_ledger *book = *pointer;
    *pointer = NULL;
    if (book == NULL)
        return;
    for (uint32_t i = 0; i < USAGE_CHUNKS; i++)
        alloc_put(book->allocator, book->chunks[i].entries,
                  book->chunks[i].capacity * sizeof *book->chunks[i].entries);
    alloc_put(book->allocator, book, sizeof *book);
}

/* ---- days and months ------------------------------------------------------------------------- */

static uint32_t day_of(uint64_t ms)
{
    const uint64_t day = ms / DAY_MS;
    return day < UINT32_MAX ? (uint32_t)day : UINT32_MAX;
}

/* The number of the month in which the day of Unix time lies. */
static uint32_t month_of(uint32_t unix_day)
{
    const uint64_t day = (uint64_t)unix_day + 719468; /* from the first of March of the year 0 */
    const uint64_t cycle = day / 146097;              /* of 400 years */
    const uint64_t in_cycle = day % 146097;
    const uint64_t year = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
    const uint64_t in_year = in_cycle - (365 * year + year / 4 - year / 100);
    return (uint32_t)(((cycle * 400 + year) * 12) + (5 * in_year + 2) / 153);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static struct chunk *chunk_of(struct usage_ledger *book, uint64_t hash)
{
    return &book->chunks[hash & (USAGE_CHUNKS - 1)];
}

/* Where the hash is, or belongs. */
static uint32_t place_of(const struct chunk *chunk, uint64_t hash)
{
    if (chunk->count == 0)
        return 0;
    return search_place(&chunk->entries->hash, sizeof *chunk->entries, chunk->count, hash);
}

/* Makes room for `count` entries in all; false: there is no memory. */
static bool reserve(struct usage_ledger *book, struct chunk *chunk, uint32_t count)
{
    ASSERT(count <= USAGE_CHUNK_MAX); /* LEDGER-1 */
    uint32_t capacity = chunk->capacity == 0 ? (uint32_t)ENTRIES_MIN : chunk->capacity;
    while (capacity < count)
        capacity *= 2;
    if (capacity == chunk->capacity)
        return true;
    struct entry *entries = alloc_array(book->allocator, capacity, sizeof *entries);
    if (entries == NULL)
        return false;
    if (chunk->count > 0)
        memcpy(entries, chunk->entries, chunk->count * sizeof *entries);
    alloc_put(book->allocator, chunk->entries, chunk->capacity * sizeof *chunk->entries);
    chunk->entries = entries;
    chunk->capacity = capacity;
    return true;
}

static void forget_oldest(struct chunk *chunk)
{
    ASSERT(chunk->count > 0);
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < chunk->count; i++)
        if (chunk->entries[i].last_ms < chunk->entries[oldest].last_ms)
            oldest = i;
    chunk->count--;
    memmove(&chunk->entries[oldest], &chunk->entries[oldest + 1],
            (chunk->count - oldest) * sizeof *chunk->entries);
}

/* The entry of the hash, made if there is none; NULL: there is no memory for it. */
static struct entry *entry_for(struct usage_ledger *book, struct chunk *chunk, uint64_t hash)
{
    uint32_t at = place_of(chunk, hash);
    if (at < chunk->count && chunk->entries[at].hash == hash)
        return &chunk->entries[at];
    if (chunk->count == USAGE_CHUNK_MAX) { /* LEDGER-1 */
        forget_oldest(chunk);
        book->lost++;
        at = place_of(chunk, hash);
    }
    if (!reserve(book, chunk, chunk->count + 1))
        return NULL;
    ASSERT(chunk->count < chunk->capacity && at <= chunk->count); /* LEDGER-1 */
    memmove(&chunk->entries[at + 1], &chunk->entries[at],
            (chunk->count - at) * sizeof *chunk->entries);
    chunk->count++;
    chunk->entries[at] = (struct entry){.hash = hash};
    return &chunk->entries[at];
}

static void add(struct usage_count *count, const struct usage_seen *seen)
{
    count->requests += seen->requests;
    count->exceeded += seen->exceeded;
}

/* Whether what was counted on `then` is not of that day or month: it is over, or lies further ahead
 * than clocks differ by. Then a clock was wrong (LEDGER-3). */
static bool is_other(uint32_t then, uint32_t now)
{
    return then < now || then - now > AHEAD_MAX;
}

/* A tally of one second belongs to the day of its last request. */
static void add_seen(struct entry *entry, const struct usage_seen *seen)
{
    const uint32_t day = day_of(seen->last_ms);
    const uint32_t month = month_of(day);
    if (is_other(entry->month, month)) {
        entry->this_month = (struct usage_count){0, 0};
        entry->month = month;
    }
    if (is_other(entry->day, day)) {
        entry->today = (struct usage_count){0, 0};
        entry->day = day;
        entry->last_ms = seen->last_ms; /* also where it is earlier */
    }
    if (seen->last_ms > entry->last_ms)
        entry->last_ms = seen->last_ms;
    add(&entry->today, seen);
    add(&entry->this_month, seen);
    add(&entry->ever, seen);
}

void usage_ledger_add(struct usage_ledger *book, const struct usage_tally *tally)
{
    book->lost += tally->dropped;
    for (uint32_t i = 0; i < tally->count; i++) {
        const struct usage_seen *seen = &tally->entries[i];
        struct chunk *chunk = chunk_of(book, seen->hash);
        struct entry *entry = entry_for(book, chunk, seen->hash);
        if (entry == NULL) {
            book->lost += seen->requests;
            continue;
        }
        add_seen(entry, seen);
        chunk->dirty = true;
    }
}

struct usage_totals usage_ledger_find(const struct usage_ledger *book, uint64_t hash,
                                      uint64_t now_ms)
{
    struct usage_totals totals = {.last_ms = 0};
    if (book == NULL)
        return totals;
    const struct chunk *chunk = &book->chunks[hash & (USAGE_CHUNKS - 1)];
    const uint32_t at = place_of(chunk, hash);
    if (at == chunk->count || chunk->entries[at].hash != hash)
        return totals;
    const struct entry *entry = &chunk->entries[at];
    totals.ever = entry->ever;
    totals.last_ms = entry->last_ms;
    if (!is_other(entry->day, day_of(now_ms)))
        totals.today = entry->today;
    if (!is_other(entry->month, month_of(day_of(now_ms))))
        totals.month = entry->this_month;
    return totals;
}

uint64_t usage_ledger_lost(const struct usage_ledger *book)
{
    return book->lost;
}

/* ---- the store ------------------------------------------------------------------------------- */

bool usage_ledger_dirty(const struct usage_ledger *book, uint32_t chunk)
{
    ASSERT(chunk < USAGE_CHUNKS);
    return book->chunks[chunk].dirty;
}

static void put_count(struct bytes_writer *writer, const struct usage_count *count)
{
    bytes_put_u64(writer, count->requests);
    bytes_put_u64(writer, count->exceeded);
}

size_t usage_ledger_encode(struct usage_ledger *book, uint32_t number,
                           uint8_t out[USAGE_CHUNK_LEN_MAX])
{
    struct bytes_writer writer;
    struct chunk *chunk = &book->chunks[number];
    ASSERT(number < USAGE_CHUNKS);
    bytes_writer_init(&writer, out, USAGE_CHUNK_LEN_MAX);
    bytes_put_u8(&writer, ENCODING);
    bytes_put_u32(&writer, chunk->count);
    for (uint32_t i = 0; i < chunk->count; i++) {
        const struct entry *entry = &chunk->entries[i];
        bytes_put_u64(&writer, entry->hash);
        bytes_put_u64(&writer, entry->last_ms);
        bytes_put_u32(&writer, entry->day);
        bytes_put_u32(&writer, entry->month);
        put_count(&writer, &entry->today);
        put_count(&writer, &entry->this_month);
        put_count(&writer, &entry->ever);
    }
    ASSERT(!writer.failed);
    chunk->dirty = false;
    return writer.len;
}

void usage_ledger_retry(struct usage_ledger *book, uint32_t chunk)
{
    ASSERT(chunk < USAGE_CHUNKS);
    book->chunks[chunk].dirty = true;
}

static void get_count(struct bytes_reader *reader, struct usage_count *count)
{
    count->requests = bytes_get_u64(reader);
    count->exceeded = bytes_get_u64(reader);
}

static void get_entry(struct bytes_reader *reader, struct entry *entry)
{
    entry->hash = bytes_get_u64(reader);
    entry->last_ms = bytes_get_u64(reader);
    entry->day = bytes_get_u32(reader);
    entry->month = bytes_get_u32(reader);
    get_count(reader, &entry->today);
    get_count(reader, &entry->this_month);
    get_count(reader, &entry->ever);
}

int usage_ledger_restore(struct usage_ledger *book, uint32_t number, const void *bytes, size_t len)
{
    struct bytes_reader reader;
    struct chunk *chunk = &book->chunks[number];
    ASSERT(number < USAGE_CHUNKS && chunk->count == 0);
    bytes_reader_init(&reader, bytes, len);
    const uint8_t version = bytes_get_u8(&reader);
    const uint32_t count = bytes_get_u32(&reader);
    if (version != ENCODING || count > USAGE_CHUNK_MAX ||
        bytes_left(&reader) != (size_t)count * USAGE_ENTRY_LEN)
        return TG_ECORRUPT;
    if (!reserve(book, chunk, count))
        return TG_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct entry *entry = &chunk->entries[i];
        get_entry(&reader, entry);
        const bool follows = i == 0 || entry[-1].hash < entry->hash;
        if (!follows || (entry->hash & (USAGE_CHUNKS - 1)) != number)
            return TG_ECORRUPT;
    }
    chunk->count = count;
    return 0;
}

void usage_ledger_check_invariants(const struct usage_ledger *book)
{
    for (uint32_t number = 0; number < USAGE_CHUNKS; number++) {
        const struct chunk *chunk = &book->chunks[number];
        INVARIANT("LEDGER-1", chunk->count <= chunk->capacity);
        INVARIANT("LEDGER-1", chunk->capacity <= USAGE_CHUNK_MAX);
        for (uint32_t i = 0; i < chunk->count; i++) {
            const struct entry *entry = &chunk->entries[i];
            INVARIANT("LEDGER-2", (entry->hash & (USAGE_CHUNKS - 1)) == number);
            INVARIANT("LEDGER-1", i == 0 || chunk->entries[i - 1].hash < entry->hash);
        }
    }
}
