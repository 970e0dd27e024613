/* sliding_log.c - the exact rolling window: at most `count` events in ANY interval (t - W, t].
 *
 * The times of the events are kept in a ring of 32-bit words in one block of the arena that grows
 * by a quarter at a time. A word is a time in quanta, modulo 2^31, relative to the newest one; the
 * quantum is the power of ten ns that makes a window at most 2^30 quanta (100 ns for a minute,
 * 10 us for an hour). Several events of one moment are a run: two words.
 *
 *   cell   wide, handle in word 2 (all zero: no events)
 *   block  | last 8 | window 8 | total 4 | head 4 | words 4 | capacity 4 | ring of words ... |
 *   word   | 0 | time 31 |   one event
 *          | 1 | time 31 | events 32 |   a run of two or more
 *
 * SLIDINGLOG-1  total is the sum of the events in the ring; times never decrease from head to tail.
 * SLIDINGLOG-2  Times are rounded up: an event may count for one quantum too long, never too short.
 * SLIDINGLOG-3  words <= max(limit's count, LOG_WORDS_MIN): each check's event takes at most one
 *               word. Hits beyond the limit merge into the newest run, which then counts from their
 *               (later) moment.
 * SLIDINGLOG-4  A time that goes back counts as the newest event's: order is kept, nothing expires
 *               early. A newest event that is further ahead than clocks differ is none
 *               (ALGORITHM-9).
 */
#include "node/limit/algorithms/sliding_log.h"

#include <string.h>

static void log_prepare(struct limit_memory *memory, struct limit_plan *plan)
{
    (void)memory;
    plan->quantum_ns = log_quantum_ns(plan->limit.window_ns);
}

/* The index of the newest entry; words > 0. */
static uint32_t log_newest(struct log *log)
{
    if (log->words >= 2 && (*log_word(log, log->words - 2) & LOG_RUN) != 0)
        return log->words - 2;
    return log->words - 1;
}

static void log_drop_oldest(struct log *log, const struct log_entry *entry)
{
    log->head += entry->words;
    if (log->head >= log->capacity)
        log->head -= log->capacity;
    log->words -= entry->words;
    log->total -= entry->events;
}

/* Forgets what has left (now - W, now]. */
static void log_purge(struct log *log, uint64_t quantum_ns, int64_t now_ns)
{
    if (log_time_ns(log->last, quantum_ns, log->window_ns) <= now_ns) {
        log->words = log->total = log->head = 0;
        return;
    }
    while (log->words > 0) {
        const struct log_entry entry = log_entry(log, 0);
        if (log_time_ns(entry.time, quantum_ns, log->window_ns) > now_ns)
            return;
        log_drop_oldest(log, &entry);
    }
}

/* The rule's window has changed: times are rewritten in the new quanta (rounded up,
 * SLIDINGLOG-2). */
static void log_rescale(struct log *log, const struct limit_plan *plan, int64_t now_ns)
{
    const uint64_t old_ns = log_quantum_ns(log->window_ns);
    const uint64_t new_ns = plan->quantum_ns;
    if (plan->limit.window_ns < log->window_ns) {
        log->window_ns = plan->limit.window_ns;
        log_purge(log, old_ns, now_ns); /* so that what stays fits 31 bits of finer quanta */
    }
    log->window_ns = plan->limit.window_ns;
    if (old_ns == new_ns)
        return;
    const uint64_t last = sat_muldiv_up(log->last, old_ns, new_ns);
    for (uint32_t at = 0; at < log->words;) {
        const struct log_entry entry = log_entry(log, at);
        const uint64_t time = sat_muldiv_up(entry.time, old_ns, new_ns);
        uint32_t *word = log_word(log, at);
        /* An event of a clock that then went back far may be too far from last: keep it longer. */
        const uint64_t floor_time = last > LOG_TIME_MASK ? last - LOG_TIME_MASK : 0;
        const uint64_t kept = time > floor_time ? time : floor_time;
        *word = (*word & LOG_RUN) | ((uint32_t)kept & LOG_TIME_MASK);
        at += entry.words;
    }
    log->last = last;
}

static uint32_t log_words_max(const struct limit_plan *plan)
{
    return plan->limit.count > LOG_WORDS_MIN ? (uint32_t)plan->limit.count : LOG_WORDS_MIN;
}

/* Moves the log to a block of `capacity` words. 0 or TG_EFULL. */
static int log_resize(struct limit_memory *memory, struct limit_cell *cell, uint32_t capacity)
{
    const uint32_t handle = arena_take(&memory->arena, log_len(capacity));
    if (handle == ARENA_NONE)
        return TG_EFULL;
    struct log *to = arena_at(&memory->arena, handle);
    struct log *from = log_of(memory, cell);
    if (from == NULL) {
        *to = (struct log){.capacity = capacity};
    } else {
        *to = *from;
        to->head = 0;
        to->capacity = capacity;
        for (uint32_t i = 0; i < from->words; i++)
            to->ring[i] = *log_word(from, i);
        arena_give(&memory->arena, cell->word[2]);
    }
    cell->wide = 1;
    cell->word[2] = handle;
    return 0;
}

/* Room for `words` more, at the limit's bound if need be by merging the newest entries
 * (SLIDINGLOG-3). */
static int log_reserve(struct limit_memory *memory, struct limit_cell *cell,
                       const struct limit_plan *plan, uint32_t words)
{
    const struct log *log = log_of(memory, cell);
    const uint32_t have = log == NULL ? 0 : log->capacity;
    const uint32_t need = (log == NULL ? 0 : log->words) + words;
    if (need <= have)
        return 0;
    const uint32_t most = log_words_max(plan);
    uint32_t capacity = need + need / 4;
    if (capacity < LOG_WORDS_MIN)
        capacity = LOG_WORDS_MIN;
    if (capacity > most)
        capacity = most;
    if (capacity <= have)
        return 0; /* the append will merge */
    return log_resize(memory, cell, capacity);
}

/* Takes the newest entry off and returns its events. */
static uint32_t log_pop_newest(struct log *log)
{
    const uint32_t newest = log_newest(log);
    const struct log_entry entry = log_entry(log, newest);
    log->words = newest;
    log->total -= entry.events;
    return entry.events;
}

static void log_append(struct log *log, const struct limit_plan *plan, uint32_t events,
                       int64_t now_ns)
{
    uint64_t time = ((uint64_t)now_ns + plan->quantum_ns - 1) / plan->quantum_ns;
    if (log->words > 0 && time < log->last)
        time = log->last; /* SLIDINGLOG-4 */
    while (log->words > 0 && log->words + (events > 1 ? 2 : 1) > log->capacity)
        events += log_pop_newest(log);
    log->last = time;
    const uint32_t word = (uint32_t)time & LOG_TIME_MASK;
    if (events > 1) {
        *log_word(log, log->words) = word | LOG_RUN;
        *log_word(log, log->words + 1) = events;
        log->words += 2;
    } else {
        *log_word(log, log->words) = word;
        log->words += 1;
    }
    log->total += events;
}

static void log_refund(struct log *log, uint64_t count)
{
    while (count > 0 && log->words > 0) {
        const uint32_t newest = log_newest(log);
        const struct log_entry entry = log_entry(log, newest);
        if (entry.events <= count) {
            count -= log_pop_newest(log);
            continue;
        }
        const uint32_t left = entry.events - (uint32_t)count;
        log->total -= (uint32_t)count;
        count = 0;
        if (left == 1) {
            *log_word(log, newest) &= LOG_TIME_MASK;
            log->words--;
        } else {
            *log_word(log, newest + 1) = left;
        }
    }
}

/* What of a log counts for the plan's window, whatever window the log was kept for: the entries
 * from word `from` on. */
struct log_view {
    struct log *log; /* NULL: no events */
    uint64_t quantum_ns;
    uint64_t window_ns;
    uint32_t from;
    uint32_t total;
};

static int64_t view_leaves_ns(const struct log_view *view, uint64_t time)
{
    return log_time_ns(time, view->quantum_ns, view->window_ns);
}

static struct log_view log_look(struct log *log, const struct limit_plan *plan, int64_t now_ns)
{
    struct log_view view = {
        .log = log, .quantum_ns = plan->quantum_ns, .window_ns = plan->limit.window_ns};
    if (log == NULL)
        return view;
    if (log->window_ns != view.window_ns)
        view.quantum_ns = log_quantum_ns(log->window_ns);
    view.total = log->total;
    while (view.from < log->words) {
        const struct log_entry entry = log_entry(log, view.from);
        if (view_leaves_ns(&view, entry.time) > now_ns)
            break;
        view.from += entry.words;
        view.total -= entry.events;
    }
    return view;
}

/* How long until enough of the oldest events have left for `cost` to fit. */
static int64_t log_retry(const struct log_view *view, const struct limit_plan *plan, uint64_t cost,
                         int64_t now_ns)
{
    if (cost > plan->capacity)
        return LIMIT_RETRY_NEVER;
    uint64_t left = view->total;
    for (uint32_t at = view->from; view->log != NULL && at < view->log->words;) {
        const struct log_entry entry = log_entry(view->log, at);
        left -= entry.events;
        if (left + cost <= plan->capacity)
            return view_leaves_ns(view, entry.time) - now_ns;
        at += entry.words;
    }
    return 0; /* not reached: with none left everything up to the capacity fits */
}

static int64_t log_reset_ns(const struct log_view *view, int64_t now_ns)
{
    if (view->log == NULL || view->from >= view->log->words)
        return 0;
    const struct log_entry newest = log_entry(view->log, log_newest(view->log));
    return view_leaves_ns(view, newest.time) - now_ns;
}

/* Applies the verdict to the log. 0 or TG_EFULL. */
static int log_take(struct limit_memory *memory, struct limit_cell *cell,
                    const struct limit_plan *plan, const struct limit_verdict *verdict,
                    int64_t now_ns)
{
    if (verdict->charge > 0) {
        const int rc = log_reserve(memory, cell, plan, verdict->charge > 1 ? 2 : 1);
        if (rc != 0)
            return rc;
        struct log *log = log_of(memory, cell);
        log->window_ns = plan->limit.window_ns;
        log_append(log, plan, (uint32_t)verdict->charge, now_ns);
    } else if (verdict->refund > 0 && cell->wide && log_of(memory, cell)->total > 0) {
        struct log *log = log_of(memory, cell);
        log_refund(log, verdict->refund);
        if (log->words == 0)
            algorithm_release_block(memory, cell);
    }
    return 0;
}

/* Brings the log to the plan's window, if the request may (ALGORITHM-7), and drops what has left
 * the window that it has then. True if it is another one: what is left has to be written. */
static bool log_renew(struct log *log, const struct limit_plan *plan,
                      const struct limit_request *request)
{
    const bool renews = limit_rewrites(request) && log->window_ns != plan->limit.window_ns;
    if (renews)
        log_rescale(log, plan, request->now_ns);
    log_purge(log, log_quantum_ns(log->window_ns), request->now_ns);
    return renews && log->total > 0;
}

/* Applies the verdict of a request by older rules: with the quanta and the window of the log. */
static int log_take_older(struct limit_memory *memory, struct limit_cell *cell,
                          const struct limit_plan *plan, const struct limit_verdict *verdict,
                          int64_t now_ns)
{
    struct limit_plan own = *plan;
    own.limit.window_ns = log_of(memory, cell)->window_ns;
    own.quantum_ns = log_quantum_ns(own.limit.window_ns);
    return log_take(memory, cell, &own, verdict, now_ns);
}

/* The moment of the newest event, which was rounded up (SLIDINGLOG-2). */
static int64_t log_begins_ns(const struct log *log)
{
    const uint64_t quantum_ns = log_quantum_ns(log->window_ns);
    return sat_sub(log_time_ns(log->last, quantum_ns, 0), (int64_t)quantum_ns);
}

static int log_apply(struct limit_memory *memory, struct limit_cell *cell,
                     const struct limit_plan *plan, const struct limit_request *request,
                     struct limit_decision *out)
{
    const int64_t now_ns = request->now_ns;
    struct log *log = log_of(memory, cell);
    if (log != NULL && log->words > 0 && limit_ahead(plan, request, log_begins_ns(log)))
        return limit_apply_exhausted(memory, cell, plan, request, out);
    const bool peek = request->operation == OPERATION_PEEK;
    const bool renewed = log != NULL && !peek && log_renew(log, plan, request);
    const uint32_t before = log == NULL ? 0 : log->total;
    struct log_view view = log_look(log, plan, now_ns);
    const uint64_t used = limit_owed(view.total, plan, request);
    const struct limit_verdict verdict = limit_judge(used, plan->capacity, request);
    const uint64_t after = sat_subu(view.total + verdict.charge, verdict.refund);
    const bool other = log != NULL && log->window_ns != plan->limit.window_ns;
    if (!peek) {
        const int rc = other ? log_take_older(memory, cell, plan, &verdict, now_ns)
                             : log_take(memory, cell, plan, &verdict, now_ns);
        if (rc != 0)
            return rc;
        log = log_of(memory, cell);
        view = log_look(log, plan, now_ns);
    }
    limit_report(out, &verdict, limit_owed(after, plan, request), plan->capacity);
    out->reset_after_ns = log_reset_ns(&view, now_ns);
    if (!verdict.allowed)
        out->retry_after_ns = log_retry(&view, plan, verdict.retry_cost, now_ns);
    const uint32_t total = log == NULL ? 0 : log->total;
    if (total == before && !renewed)
        return LIMIT_SAME;
    return total < before ? LIMIT_LOWERED : LIMIT_CHANGED;
}

static void log_mark(const struct limit_memory *memory, const struct limit_cell *cell,
                     const struct limit_plan *plan, struct limit_mark *mark)
{
    const struct log *log = log_of(memory, cell);
    (void)plan;
    mark->place = log->last; /* it was appended just now */
    mark->part = (uint32_t)log_quantum_ns(log->window_ns);
}

/* Takes up to `count` events out of the entry at `at`; returns how many. */
static uint32_t log_take_out(struct log *log, uint32_t at, uint64_t count)
{
    const struct log_entry entry = log_entry(log, at);
    const uint32_t taken = count < entry.events ? (uint32_t)count : entry.events;
    const uint32_t left = entry.events - taken;
    uint32_t gone = 0; /* words */
    if (left == 0) {
        gone = entry.words;
    } else if (left == 1 && entry.words == 2) {
        *log_word(log, at) &= LOG_TIME_MASK;
        at++;
        gone = 1;
    } else {
        *log_word(log, at + 1) = left;
    }
    for (uint32_t i = at; gone > 0 && i + gone < log->words; i++)
        *log_word(log, i) = *log_word(log, i + gone);
    log->words -= gone;
    log->total -= taken;
    return taken;
}

/* A charge is found by its time: events of one moment are all alike. From the newest on, for it is
 * among the newest. */
static int log_undo(struct limit_memory *memory, struct limit_cell *cell,
                    const struct limit_plan *plan, const struct limit_undo *undo)
{
    struct log *log = log_of(memory, cell);
    uint64_t left = undo->cost;
    (void)plan;
    if (log == NULL || (uint32_t)log_quantum_ns(log->window_ns) != undo->mark->part)
        return LIMIT_SAME; /* none, or the rule's window has changed */
    for (uint32_t end = log->words; end > 0 && left > 0;) {
        const bool run = end >= 2 && (*log_word(log, end - 2) & LOG_RUN) != 0;
        const uint32_t at = end - (run ? 2 : 1);
        const uint64_t time = log_entry(log, at).time;
        if (time < undo->mark->place)
            break;
        if (time == undo->mark->place)
            left -= log_take_out(log, at, left);
        end = at;
    }
    if (left == undo->cost)
        return LIMIT_SAME;
    if (log->words == 0)
        algorithm_release_block(memory, cell);
    return LIMIT_LOWERED;
}

static int64_t log_expires(const struct limit_memory *memory, const struct limit_cell *cell)
{
    const struct log *log = log_of(memory, cell);
    if (log == NULL || log->words == 0)
        return 0;
    return log_time_ns(log->last, log_quantum_ns(log->window_ns), log->window_ns);
}

/* | window 8 | last 8 | total 4 | words 4 | words, oldest first |   window 0: no events */
enum { LOG_EXPORT_HEADER_LEN = 24 };

static size_t log_export_len(const struct limit_memory *memory, const struct limit_cell *cell)
{
    const struct log *log = log_of(memory, cell);
    return LOG_EXPORT_HEADER_LEN + (log == NULL ? 0 : (size_t)log->words * 4);
}

static void log_put(const struct limit_memory *memory, const struct limit_cell *cell,
                    struct bytes_writer *writer)
{
    struct log *log = log_of(memory, cell);
    bytes_put_u64(writer, log == NULL ? 0 : log->window_ns);
    bytes_put_u64(writer, log == NULL ? 0 : log->last);
    bytes_put_u32(writer, log == NULL ? 0 : log->total);
    bytes_put_u32(writer, log == NULL ? 0 : log->words);
    for (uint32_t i = 0; log != NULL && i < log->words; i++)
        bytes_put_u32(writer, *log_word(log, i));
}

/* True if the words are whole entries in order whose events sum up to `total` (SLIDINGLOG-1). */
static bool log_words_valid(const uint8_t *words, uint32_t count, uint64_t last, uint32_t total)
{
    uint64_t sum = 0;
    uint32_t age = LOG_TIME_MASK; /* distance to last: never grows */
    for (uint32_t at = 0; at < count; at++) {
        const uint32_t word = bytes_u32_at(words, at);
        const uint32_t back = ((uint32_t)last - word) & LOG_TIME_MASK;
        if (back > age || back > last)
            return false;
        age = back;
        if ((word & LOG_RUN) == 0) {
            sum++;
            continue;
        }
        if (++at == count)
            return false;
        const uint32_t events = bytes_u32_at(words, at);
        if (events < 2 || events > 2 * LIMIT_LOG_COUNT_MAX)
            return false;
        sum += events;
    }
    return sum == total;
}

static int log_get(struct limit_memory *memory, struct bytes_reader *reader,
                   struct limit_cell *cell, int64_t *expires_ns)
{
    const uint64_t window_ns = bytes_get_u64(reader);
    const uint64_t last = bytes_get_u64(reader);
    const uint32_t total = bytes_get_u32(reader);
    const uint32_t words = bytes_get_u32(reader);
    if (reader->failed || words > LIMIT_LOG_COUNT_MAX || total > 2 * LIMIT_LOG_COUNT_MAX)
        return TG_ECORRUPT;
    const uint8_t *entries = bytes_take(reader, (size_t)words * 4);
    if (reader->failed || !log_words_valid(entries, words, last, total))
        return TG_ECORRUPT;
    if (words > 0 && (window_ns < LIMIT_WINDOW_MIN_NS || window_ns > LIMIT_WINDOW_MAX_NS ||
                      last > INT64_MAX / log_quantum_ns(window_ns)))
        return TG_ECORRUPT;
    *expires_ns = words == 0 ? 0 : log_time_ns(last, log_quantum_ns(window_ns), window_ns);
    if (memory == NULL)
        return 0;
    memset(cell, 0, sizeof *cell);
    if (words == 0)
        return 0;
    if (log_resize(memory, cell, words < LOG_WORDS_MIN ? LOG_WORDS_MIN : words) != 0)
        return TG_EFULL;
    struct log *log = log_of(memory, cell);
    log->last = last;
    log->window_ns = window_ns;
    log->total = total;
    log->words = words;
    for (uint32_t i = 0; i < words; i++)
        log->ring[i] = bytes_u32_at(entries, i);
    return 0;
}

const struct limit_ops sliding_log_ops = {
    .prepare = log_prepare,
    .apply = log_apply,
    .expires = log_expires,
    .release = algorithm_release_block,
    .export_len = log_export_len,
    .put = log_put,
    .get = log_get,
    .merge = log_merge,
    .mark = log_mark,
    .undo = log_undo,
};
