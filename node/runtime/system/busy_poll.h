/* busy_poll.h - how long a turn goes on looking for who asks again, when nobody does at the moment.
 *
 * Clients that ask one thing after the other have their next question ready some microseconds after
 * an answer. A thread that sleeps by then has to be woken by the client, which costs both of them
 * more than those microseconds. So a turn that has answered somebody polls for BUSY_POLL_NS before
 * it ends. Where that finds nobody it was lost, and the next occasions are let pass:
 *
 *      nobody asks --> poll --somebody--> hit: polls on each occasion
 *          ^             |
 *          |          nobody, for BUSY_POLL_NS
 *          |             v
 *          +--- miss: 16 occasions are let pass; after another one 32, and so on to 1,024
 *
 * Nor does a thread poll that has had other work within BUSY_POLL_ALONE_NS: of one that takes or
 * sends replicas' changes nobody is waited for.
 *
 * So those who ask seldom cost BUSY_POLL_NS of a thousand requests: 40 ns each.
 *
 * There is no clock here: who looks tells what he found, and when (of a clock that never goes back:
 * CLOCK-1). Anything that a client does is found, not questions alone. One thread.
 */
#ifndef NODE_RUNTIME_SYSTEM_BUSY_POLL_H
#define NODE_RUNTIME_SYSTEM_BUSY_POLL_H

#include <stdbool.h>
#include <stdint.h>

/* About what it costs both sides together to put a thread to sleep and to wake it: 26 us pass from
 * the waking until it runs (tests/bench/README.md), the rest are the system calls around it. */
#define BUSY_POLL_NS INT64_C(40000)

/* A thread that polls has had nothing else to do for so long. What others ask for comes through
 * threads that want a processor as well, and one that never sleeps keeps it from them. */
#define BUSY_POLL_ALONE_NS INT64_C(1000000)

enum {
    BUSY_POLL_PASS_MIN = 16, /* occasions that are let pass after a miss */
    BUSY_POLL_PASS_MAX = 1024,
};

/* All zeros to begin with. */
struct busy_poll {
    bool answered; /* somebody was found in this turn */
    bool polls;
    int64_t since_ns; /* polls: since when */
    int64_t other_ns; /* when the thread had something else to do last */
    uint32_t pass;    /* occasions that are to be let pass yet */
    uint32_t missed;  /* as many did the last miss let pass; 0: there was none since a hit */
};

/* A turn begins. */
void busy_poll_begin(struct busy_poll *poll);
/* The thread had something else to do at `now_ns`: it does not poll for BUSY_POLL_ALONE_NS. */
void busy_poll_other(struct busy_poll *poll, int64_t now_ns);
/* Whether to look once more in this turn after a look that began at `now_ns`, and found somebody
 * who asks, or nobody. */
bool busy_poll_on(struct busy_poll *poll, bool found, int64_t now_ns);

#endif
