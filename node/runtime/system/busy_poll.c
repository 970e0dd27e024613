/* busy_poll.c - hits, misses, and how much a miss lets pass. */
#include "node/runtime/system/busy_poll.h"

#include "base/assert.h"

void busy_poll_begin(struct busy_poll *poll)
{
    poll->answered = poll->polls = false;
}

void busy_poll_other(struct busy_poll *poll, int64_t now_ns)
{
    poll->polls = false;
    poll->other_ns = now_ns;
}

static void miss(struct busy_poll *poll)
{
    const uint32_t pass = poll->missed == 0 ? BUSY_POLL_PASS_MIN : poll->missed * 2;
    poll->pass = poll->missed = pass < BUSY_POLL_PASS_MAX ? pass : BUSY_POLL_PASS_MAX;
    ASSERT(poll->pass >= BUSY_POLL_PASS_MIN && poll->pass <= BUSY_POLL_PASS_MAX);
    poll->polls = false;
}

bool busy_poll_on(struct busy_poll *poll, bool found, int64_t now_ns)
{
    if (found) {
        if (poll->polls)
            poll->missed = 0;
        poll->polls = false;
        poll->answered = true;
        return true;
    }
    if (!poll->answered || now_ns - poll->other_ns < BUSY_POLL_ALONE_NS)
        return false;
    if (!poll->polls) {
        if (poll->pass > 0) {
            poll->pass--;
            return false;
        }
        poll->polls = true;
        poll->since_ns = now_ns;
        return true;
    }
    ASSERT(poll->pass == 0 && poll->missed <= BUSY_POLL_PASS_MAX);
    if (now_ns - poll->since_ns < BUSY_POLL_NS)
        return true;
    miss(poll);
    return false;
}
