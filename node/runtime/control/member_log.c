/* member_log.c - the log's account of a cluster: who came, died, came back, left, was forgotten.
 *
 * Somebody who is suspected either refutes it or is dead some seconds later, and only then is a
 * line at `info` worth it. One that stops in order has said so before: it alarms nobody. A node
 * that has just begun takes members of its ring for dead until it has heard of them: these are told
 * when they turn out to be alive.
 */
#include "node/runtime/control/member_log.h"

#include <inttypes.h>

#include "base/assert.h"
#include "node/cluster/control/control.h"

struct teller {
    const struct log *log;
    uint32_t lines;
    uint32_t untold;
};

static bool lives(const struct view_member *member)
{
    return member != NULL && (member->state == VIEW_ALIVE || member->state == VIEW_SUSPECT);
}

static void tell(struct teller *teller, enum log_level level, const struct view_member *member,
                 const char *what)
{
    if (!log_enabled(teller->log, level))
        return;
    ASSERT(teller->lines <= MEMBER_LOG_LINES_MAX);
    if (teller->lines == MEMBER_LOG_LINES_MAX) {
        teller->untold++;
        return;
    }
    teller->lines++;
    log_printf(teller->log, level, "member %s (%016" PRIx64 ", region %s, peer %s) %s",
               member->name, member->id, member->region,
               member->peer[0] != '\0' ? member->peer : "-", what);
}

static void tell_member(struct teller *teller, const struct view_member *before,
                        const struct view_member *now)
{
    const bool stopped = before != NULL && before->stops;
    if (lives(now) && now->stops && !stopped)
        tell(teller, LOG_LEVEL_INFO, now, "stopped, restart expected");
    else if (lives(now) && !now->stops && (!lives(before) || stopped))
        tell(teller, LOG_LEVEL_INFO, now, "is alive");
    else if (now->state == VIEW_DEAD && lives(before) && now->stops)
        tell(teller, stopped ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, now, "stopped, restart expected");
    else if (now->state == VIEW_DEAD && lives(before))
        tell(teller, LOG_LEVEL_WARN, now, "is dead: it did not answer");
    else if (now->state == VIEW_LEFT && before != NULL && before->state != VIEW_LEFT)
        tell(teller, LOG_LEVEL_INFO, now, "has left");
    else if (now->state == VIEW_SUSPECT && before->state != VIEW_SUSPECT)
        tell(teller, LOG_LEVEL_DEBUG, now, "is suspected: it does not answer");
}

/* A clock that is off, or right again; also of this node itself. */
static void tell_clock(const struct log *log, const struct view_member *before,
                       const struct view_member *now)
{
    char sentence[CLOCK_SENTENCE_LEN];
    const bool was = before != NULL && (before->clock.verdict >= CLOCK_ALARM || before->clock.held);
    const bool is = control_clock_sentence(now->name, &now->clock, sentence, sizeof sentence);
    const bool changed = before == NULL || before->clock.verdict != now->clock.verdict ||
                         before->clock.held != now->clock.held;
    if (is && changed)
        log_printf(log, LOG_LEVEL_WARN, "%s", sentence);
    else if (was && now->clock.verdict == CLOCK_FINE)
        log_printf(log, LOG_LEVEL_INFO, "the clock of %s is right again", now->name);
}

void member_log_tell(const struct log *log, const struct view *before, const struct view *now)
{
    struct teller teller = {.log = log};
    ASSERT(now->self < now->member_count); /* VIEW-1 */
    for (uint32_t i = 0; i < now->member_count; i++) {
        const struct view_member *member = &now->members[i];
        tell_clock(log, before != NULL ? view_find(before, member->id) : NULL, member);
        if (i != now->self)
            tell_member(&teller, before != NULL ? view_find(before, member->id) : NULL, member);
    }
    for (uint32_t i = 0; before != NULL && i < before->member_count; i++) {
        if (view_find(now, before->members[i].id) == NULL)
            tell(&teller, LOG_LEVEL_INFO, &before->members[i], "is forgotten");
    }
    if (teller.untold > 0)
        log_printf(log, LOG_LEVEL_INFO,
                   "and so for %" PRIu32 " members more (`tidegate members` lists all)",
                   teller.untold);
}
