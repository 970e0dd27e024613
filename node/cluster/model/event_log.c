/* event_log.c - see event_log.h. */
#include "node/cluster/model/event_log.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

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
    *event = (struct event){.id = log->last_id, .kind = (uint8_t)kind};
    return event;
}

void event_log_add(struct event_log *log, int64_t unix_ns, const char *says)
{
    struct event *event = append(log, unix_ns, EVENT_LOG_TOLD);
    (void)snprintf(event->says, sizeof event->says, "%s", says);
}

/* ---- what lasts ------------------------------------------------------------------------------ */

static bool among(const struct event_lasting *list, uint32_t count, uint64_t name)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].name == name)
            return true;
    return false;
}

static void tell(struct event_log *log, int64_t unix_ns, enum event_log_kind kind,
                 const struct event_lasting *lasting)
{
    struct event *event = append(log, unix_ns, kind);
    event->grave = lasting->grave;
    memcpy(event->code, lasting->code, sizeof event->code);
    memcpy(event->says, lasting->says, sizeof event->says);
    if (kind == EVENT_LOG_OVER && unix_ns > lasting->since_ns)
        event->lasted_ms = (uint64_t)((unix_ns - lasting->since_ns) / MS);
}

void event_log_follow(struct event_log *log, int64_t unix_ns, const struct event_lasting *now,
                      uint32_t count, bool all)
{
    uint32_t kept = 0;
    ASSERT(count <= EVENTS_LAST_MAX);
    for (uint32_t i = 0; i < log->lasting_count; i++) {
        if (!all || among(now, count, log->lasting[i].name))
            log->lasting[kept++] = log->lasting[i];
        else
            tell(log, unix_ns, EVENT_LOG_OVER, &log->lasting[i]);
    }
    log->lasting_count = kept;
    for (uint32_t i = 0; i < count && log->lasting_count < EVENTS_LAST_MAX; i++) {
        ASSERT(now[i].name != 0);
        if (among(log->lasting, log->lasting_count, now[i].name))
            continue; /* EVENTS-2 */
        log->lasting[log->lasting_count] = now[i];
        log->lasting[log->lasting_count].since_ns = unix_ns;
        tell(log, unix_ns, EVENT_LOG_BEGUN, &log->lasting[log->lasting_count++]);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

const struct event *event_log_after(const struct event_log *log, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = log->count;
    while (low < high) { /* EVENTS-1 */
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
    return id != 0 && id < log->lost_id; /* EVENTS-3 */
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
