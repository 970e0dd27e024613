/* event_log.c - see event_log.h. */
#include "node/cluster/model/event_log.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

#define US INT64_C(1000)
#define MS (1000 * US)

const char *const event_kind_names[EVENT_LOG_KINDS] = {"told", "begun", "over"};

/* Place of the event that is the `at`-th oldest one. */
static uint32_t place(const struct event_log *log, uint32_t at)
{
    return (log->first + at) % EVENTS_MAX;
}

/* A new event, the oldest one's place if there is none other. */
static struct event *append(struct event_log *log, int64_t unix_ns, enum event_log_kind kind)
{
    const uint64_t now_us = unix_ns > 0 ? (uint64_t)(unix_ns / US) : 0;
    if (log->count == EVENTS_MAX) {
        log->lost_id = log->events[log->first].id;
        log->first = place(log, 1);
        log->count--;
    }
    ASSERT(log->count < EVENTS_MAX); /* EVENTS-1 */
    struct event *event = &log->events[place(log, log->count++)];
    log->last_id = now_us > log->last_id ? now_us : log->last_id + 1;
    *event = (struct event){.id = log->last_id, .time_ms = now_us / 1000, .kind = (uint8_t)kind};
    return event;
}

/* Copies a text, cut behind a whole letter. */
static void copy_text(char out[EVENT_SAYS_LEN], const char *text)
{
    size_t len = 0;
    (void)snprintf(out, EVENT_SAYS_LEN, "%s", text);
    for (size_t step = 1; step > 0 && out[len] != '\0'; len += step)
        step = utf8_len(out + len, strlen(out + len));
    out[len] = '\0';
}

void event_log_begin(struct event_log *log, int64_t unix_ns)
{
    log->last_id = log->lost_id = unix_ns > 0 ? (uint64_t)(unix_ns / US) : 0;
}

void event_log_add(struct event_log *log, int64_t unix_ns, const char *says)
{
    struct event *event = append(log, unix_ns, EVENT_LOG_TOLD);
    copy_text(event->says, says);
}

/* ---- what lasts ------------------------------------------------------------------------------ */

static const struct event_lasting *find(const struct event_lasting *list, uint32_t count,
                                        uint64_t name)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].name == name)
            return &list[i];
    return NULL;
}

static void tell(struct event_log *log, int64_t unix_ns, enum event_log_kind kind,
                 const struct event_lasting *lasting)
{
    struct event *event = append(log, unix_ns, kind);
    event->grave = lasting->grave;
    memcpy(event->code, lasting->code, sizeof event->code);
    copy_text(event->says, lasting->says);
    if (kind == EVENT_LOG_OVER && unix_ns > lasting->since_ns)
        event->lasted_ms = (uint64_t)((unix_ns - lasting->since_ns) / MS);
}

/* Keeps those that last, and tells of the others that they are over. */
static void keep(struct event_log *log, int64_t unix_ns, const struct event_lasting *now,
                 uint32_t count, bool all)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < log->lasting_count; i++) {
        if (!all || find(now, count, log->lasting[i].name) != NULL)
            log->lasting[kept++] = log->lasting[i];
        else if (log->lasting[i].told)
            tell(log, unix_ns, EVENT_LOG_OVER, &log->lasting[i]);
    }
    log->lasting_count = kept;
}

void event_log_follow(struct event_log *log, int64_t unix_ns, const struct event_lasting *now,
                      uint32_t count, bool all)
{
    ASSERT(count <= EVENTS_LAST_MAX);
    keep(log, unix_ns, now, count, all);
    for (uint32_t i = 0; i < count && log->lasting_count < EVENTS_LAST_MAX; i++) {
        ASSERT(now[i].name != 0);
        if (find(log->lasting, log->lasting_count, now[i].name) != NULL)
            continue;
        log->lasting[log->lasting_count] = now[i];
        log->lasting[log->lasting_count].told = false;
        log->lasting[log->lasting_count++].since_ns = unix_ns;
    }
    for (uint32_t i = 0; i < log->lasting_count; i++) { /* EVENTS-2 */
        struct event_lasting *lasting = &log->lasting[i];
        if (lasting->told || unix_ns - lasting->since_ns < EVENT_LASTS_NS)
            continue;
        lasting->told = true;
        tell(log, unix_ns, EVENT_LOG_BEGUN, lasting);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

const struct event *event_log_after(const struct event_log *log, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = id <= log->last_id ? log->count : 0; /* EVENTS-3 */
    while (low < high) {                                 /* EVENTS-1 */
        const uint32_t middle = (low + high) / 2;
        if (log->events[place(log, middle)].id > id)
            high = middle;
        else
            low = middle + 1;
    }
    return low < log->count ? &log->events[place(log, low)] : NULL;
}

uint64_t event_log_newest(const struct event_log *log, uint32_t count)
{
    return log->count > count ? log->events[place(log, log->count - count - 1)].id : 0;
}

bool event_log_missed(const struct event_log *log, uint64_t id)
{
    return (id != 0 && id < log->lost_id) || id > log->last_id; /* EVENTS-3 */
}

void event_log_check_invariants(const struct event_log *log)
{
    uint64_t before = log->lost_id;
    INVARIANT("EVENTS-1", log->count <= EVENTS_MAX && log->first < EVENTS_MAX);
    for (uint32_t i = 0; i < log->count; i++) {
        INVARIANT("EVENTS-1", log->events[place(log, i)].id > before);
        before = log->events[place(log, i)].id;
    }
    INVARIANT("EVENTS-1", log->count == 0 || before == log->last_id);
    INVARIANT("EVENTS-1", log->lasting_count <= EVENTS_LAST_MAX);
}
