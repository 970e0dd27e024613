/* sliding_log.h - the block of a sliding log, shared by its operations and its merge.
 *
 * sliding_log.c says what a log is; log_merge.c joins two. For these two files alone.
 */
#ifndef NODE_LIMIT_ALGORITHMS_SLIDING_LOG_H
#define NODE_LIMIT_ALGORITHMS_SLIDING_LOG_H

#include "node/limit/algorithms/algorithm.h"

enum { LOG_WORDS_MIN = 4, LOG_HEADER_LEN = 32 };

#define LOG_RUN        0x80000000u
#define LOG_TIME_MASK  0x7fffffffu
#define LOG_QUANTA_MAX (UINT64_C(1) << 30)

struct log {
    uint64_t last; /* quanta */
    uint64_t window_ns;
    uint32_t total;
    uint32_t head;
    uint32_t words;
    uint32_t capacity;
    uint32_t ring[];
};

_Static_assert(sizeof(struct log) == LOG_HEADER_LEN, "the header is what the comment says");

/* The oldest event or run, decoded. */
struct log_entry {
    uint64_t time; /* quanta */
    uint32_t events;
    uint32_t words;
};

static inline uint64_t log_quantum_ns(uint64_t window_ns)
{
    uint64_t quantum_ns = 1;
    while (window_ns / quantum_ns > LOG_QUANTA_MAX)
        quantum_ns *= 10;
    return quantum_ns;
}

static inline struct log *log_of(const struct limit_memory *memory, const struct limit_cell *cell)
{
    return cell->wide ? arena_at(&memory->arena, cell->word[2]) : NULL;
}

static inline uint32_t *log_word(struct log *log, uint32_t index)
{
    const uint32_t at = log->head + index;
    return &log->ring[at < log->capacity ? at : at - log->capacity];
}

static inline struct log_entry log_entry(const struct log *log, uint32_t index)
{
    uint32_t at = log->head + index;
    at = at < log->capacity ? at : at - log->capacity;
    const uint32_t word = log->ring[at];
    struct log_entry entry = {.events = 1, .words = 1};
    entry.time = log->last - (((uint32_t)log->last - word) & LOG_TIME_MASK);
    if ((word & LOG_RUN) != 0) {
        entry.events = log->ring[at + 1 < log->capacity ? at + 1 : 0];
        entry.words = 2;
    }
    return entry;
}

static inline int64_t log_time_ns(uint64_t time, uint64_t quantum_ns, uint64_t window_ns)
{
    const unsigned __int128 ns = (unsigned __int128)time * quantum_ns + window_ns;
    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

/* Bytes of a block of `capacity` words. */
static inline size_t log_len(uint32_t capacity)
{
    return LOG_HEADER_LEN + (size_t)capacity * 4;
}

/* The merge of limit_ops (log_merge.c). */
int log_merge(struct limit_memory *memory, struct limit_cell *cell, struct bytes_reader *base,
              struct bytes_reader *other, int64_t now_ns);

#endif
