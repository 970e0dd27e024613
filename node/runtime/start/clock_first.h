/* clock_first.h - the first cluster time of a process: asked of the other members before anything
 * else begins.
 *
 * Everything in a node reckons with a time that never jumps. So what the others' time is has to be
 * known before the membership, the terms and the slots come to life. The node greets its seeds and
 * the members that it knew (HELLO), as one without a cluster would, and takes what they answer:
 * their cluster time, or of those who are starting as well, their wall clocks: first_time.h says
 * what follows. Only answers to its own greetings count. Nobody is waited for longer than
 * CLOCK_FIRST_NS, and a node that knows of nobody takes its own wall clock at once.
 */
#ifndef NODE_RUNTIME_START_CLOCK_FIRST_H
#define NODE_RUNTIME_START_CLOCK_FIRST_H

#include "node/cluster/control/control.h"
#include "node/runtime/system/clock.h"
#include "node/runtime/system/gossip_out.h"

#define CLOCK_FIRST_NS ((int64_t)1000000000)

struct clock_first {
    struct clock *clock;
    void *gossip; /* the ROUTER that is bound */
    struct gossip_out *out;
    const struct control_options *options; /* who this node is, and whom it knew */
    const struct log *log;
};

/* Sets the clock. 0, or TG_ENOMEM. */
MUST_USE int clock_first(const struct clock_first *first);

#endif
