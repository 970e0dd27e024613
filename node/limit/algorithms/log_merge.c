/* log_merge.c - joins a sliding log with another that grew from the same base.
 *
 * The three logs are walked together in the order of time. At each moment the result has the cell's
 * events and those of the other that the base does not have:
 *
 *     cell    a  b     d        the base's events are in both others, until they expire
 *     base    a  b
 *     other   a  b  c     e
 *     result  a  b  c  d  e     written into a block of its own; the newest are kept if it is full
 *
 * LOGMERGE-1  Two passes over the same steps: the first counts words and events, the second writes
 *             them. On TG_EFULL nothing has changed.
 * LOGMERGE-2  Windows and quanta may differ if the rule has changed: the result takes the longer
 *             window, and times are rounded up, as a change of the rule rounds them
 *             (sliding_log.c). Quanta are powers of ten, so that rounding twice gives what rounding
 *             once does, and the base's are found again.
 * LOGMERGE-3  At most LIMIT_LOG_COUNT_MAX words are kept, which are at least as many events: no
 *             limit asks for more, and what is dropped is older than all of them.
 *
 * What cannot be recognized as the base's (runs that were merged when a log was full, other
 * roundings) counts once more: too much, never too little.
 */
#include <string.h>

#include "node/limit/algorithms/sliding_log.h"

/* One of the logs, at some entry. Words come from a block or from exported bytes. */
struct source {
    const struct log *log;
    const uint8_t *bytes;
    uint64_t last;
    uint64_t window_ns;  /* until when its events count */
    uint64_t quantum_ns; /* of its times */
    uint64_t result_ns;  /* the quantum of the result */
    int64_t now_ns;
    uint32_t words;
    uint32_t at;
    uint64_t time;   /* of the entry, in quanta of the result */
    uint32_t events; /* of the entry; 0 at the end */
};

/* What is known of the result before it is written. */
struct measure {
    uint64_t events;
    uint64_t words;
    uint64_t last;
    bool gained;
};

static uint32_t source_word(const struct source *source, uint32_t index)
{
    if (source->log == NULL)
        return bytes_u32_at(source->bytes, index);
    const uint32_t at = source->log->head + index;
    return source->log->ring[at < source->log->capacity ? at : at - source->log->capacity];
}

static uint64_t rescaled(uint64_t time, uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t latest = INT64_MAX / to_ns;
    const uint64_t scaled = from_ns == to_ns ? time : sat_muldiv_up(time, from_ns, to_ns);
    return scaled < latest ? scaled : latest;
}

/* Goes to the next entry that still counts. */
static void source_next(struct source *source)
{
    source->events = 0;
    while (source->at < source->words && source->events == 0) {
        const uint32_t word = source_word(source, source->at++);
        const uint64_t time = source->last - (((uint32_t)source->last - word) & LOG_TIME_MASK);
        uint32_t events = 1;
        if ((word & LOG_RUN) != 0)
            events = source_word(source, source->at++);
        if (log_time_ns(time, source->quantum_ns, source->window_ns) <= source->now_ns)
            continue;
        source->time = rescaled(time, source->quantum_ns, source->result_ns);
        source->events = events;
    }
}

/* All events of the source at `time`, over which it steps. */
static uint64_t source_take(struct source *source, uint64_t time)
{
    uint64_t events = 0;
    while (source->events > 0 && source->time == time) {
        events += source->events;
        source_next(source);
    }
    return events;
}

static struct source source_of_bytes(struct bytes_reader *reader, int64_t now_ns)
{
    struct source source = {.window_ns = bytes_get_u64(reader), .now_ns = now_ns};
    source.last = bytes_get_u64(reader);
    (void)bytes_get_u32(reader);
    source.words = bytes_get_u32(reader);
    source.bytes = bytes_take(reader, (size_t)source.words * 4);
    source.quantum_ns = source.words == 0 ? 1 : log_quantum_ns(source.window_ns);
    return source;
}

static struct source source_of_log(const struct log *log, int64_t now_ns)
{
    struct source source = {.log = log, .now_ns = now_ns, .quantum_ns = 1};
    if (log == NULL || log->words == 0)
        return source;
    source.window_ns = log->window_ns;
    source.last = log->last;
    source.words = log->words;
    source.quantum_ns = log_quantum_ns(log->window_ns);
    return source;
}

/* The three logs, and where the walk is. */
struct walk {
    struct source mine;
    struct source other;
    struct source base;
    uint64_t window_ns; /* of the result */
};

static void walk_init(struct walk *walk, const struct log *mine, struct bytes_reader *base,
                      struct bytes_reader *other, int64_t now_ns)
{
    memset(walk, 0, sizeof *walk);
    walk->mine = source_of_log(mine, now_ns);
    walk->other = source_of_bytes(other, now_ns);
    if (base != NULL)
        walk->base = source_of_bytes(base, now_ns);
    struct source *sources[] = {&walk->mine, &walk->other, &walk->base};
    walk->window_ns =
        walk->mine.window_ns > walk->other.window_ns ? walk->mine.window_ns : walk->other.window_ns;
    const uint64_t result_ns = walk->window_ns == 0 ? 1 : log_quantum_ns(walk->window_ns);
    if (walk->base.window_ns < walk->mine.window_ns)
        walk->base.window_ns = walk->mine.window_ns; /* this side still has what the base had */
    for (unsigned i = 0; i < 3; i++) {
        sources[i]->result_ns = result_ns;
        source_next(sources[i]);
    }
}

/* The next moment at which the result has events; *gained gets those of the other. 0 at the end. */
static uint64_t walk_next(struct walk *walk, uint64_t *time, uint64_t *gained)
{
    while (walk->mine.events > 0 || walk->other.events > 0) {
        *time = walk->mine.events > 0 ? walk->mine.time : walk->other.time;
        if (walk->other.events > 0 && walk->other.time < *time)
            *time = walk->other.time;
        while (walk->base.events > 0 && walk->base.time < *time)
            source_next(&walk->base);
        const uint64_t mine = source_take(&walk->mine, *time);
        const uint64_t other = source_take(&walk->other, *time);
        *gained = sat_subu(other, source_take(&walk->base, *time));
        if (mine + *gained > 0)
            return mine + *gained;
    }
    return 0;
}

static uint64_t words_for(uint64_t events)
{
    return events == 0 ? 0 : events == 1 ? 1 : 2;
}

static struct measure walk_measure(struct walk walk)
{
    struct measure measure = {0};
    uint64_t time;
    uint64_t gained;
    for (uint64_t events; (events = walk_next(&walk, &time, &gained)) > 0;) {
        measure.events += events;
        measure.words += words_for(events);
        measure.last = time;
        measure.gained = measure.gained || gained > 0;
    }
    return measure;
}

/* How many of `events` at the oldest moment left are kept (LOGMERGE-3); notes in `excess` what
 * went. */
static uint64_t trimmed(struct measure *excess, uint64_t events)
{
    uint64_t kept = sat_subu(events, excess->events);
    excess->events -= events - kept;
    excess->words = sat_subu(excess->words, words_for(events) - words_for(kept));
    const uint64_t words = words_for(kept);
    if (excess->words == 0)
        return kept;
    kept = excess->words < words ? 1 : 0; /* one word may go: then it is one event */
    excess->words -= words - words_for(kept);
    return kept;
}

static void put_events(struct log *log, uint64_t time, uint64_t events)
{
    if (log->last - time > LOG_TIME_MASK)
        time = log->last - LOG_TIME_MASK; /* of a clock that was ahead: keep it longer */
    const uint32_t word = (uint32_t)time & LOG_TIME_MASK;
    if (events == 1) {
        log->ring[log->words++] = word;
    } else {
        log->ring[log->words++] = word | LOG_RUN;
        log->ring[log->words++] = (uint32_t)events;
    }
    log->total += (uint32_t)events;
}

int log_merge(struct limit_memory *memory, struct limit_cell *cell, struct bytes_reader *base,
              struct bytes_reader *other, int64_t now_ns)
{
    struct walk walk;
    walk_init(&walk, log_of(memory, cell), base, other, now_ns);
    const struct measure measure = walk_measure(walk);
    if (!measure.gained)
        return LIMIT_SAME;
    struct measure excess = {.events = sat_subu(measure.events, 2 * LIMIT_LOG_COUNT_MAX),
                             .words = sat_subu(measure.words, LIMIT_LOG_COUNT_MAX)};
    const uint32_t words = (uint32_t)(measure.words - excess.words);
    const uint32_t capacity = words < LOG_WORDS_MIN ? LOG_WORDS_MIN : words;
    const uint32_t handle = arena_take(&memory->arena, log_len(capacity));
    if (handle == ARENA_NONE)
        return TG_EFULL;
    struct log *log = arena_at(&memory->arena, handle);
    *log = (struct log){.capacity = capacity, .last = measure.last, .window_ns = walk.window_ns};
    uint64_t time;
    uint64_t gained;
    for (uint64_t events; (events = walk_next(&walk, &time, &gained)) > 0;) {
        events = trimmed(&excess, events);
        if (events > 0)
            put_events(log, time, events);
    }
    algorithm_release_block(memory, cell);
    cell->wide = 1;
    cell->word[2] = handle;
    return LIMIT_CHANGED;
}
