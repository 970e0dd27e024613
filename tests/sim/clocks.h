/* clocks.h - the clocks of a simulated node (clocks.c). */
#ifndef TESTS_SIM_CLOCKS_H
#define TESTS_SIM_CLOCKS_H

#include "tests/sim/sim.h"

/* A process starts: its first cluster time. */
void clocks_start(struct sim *sim, struct node *node);
/* Tells the cores that are there what the wall clock is ahead by. */
void clocks_tell(const struct sim *sim, const struct node *node);
/* Before a tick of control. */
void clocks_look(struct sim *sim, struct node *node);
/* Before an event: true if the process is to end at once. */
bool clocks_set_back(struct sim *sim, struct node *node);
/* After an event of control: true if the process is to end at once. */
bool clocks_judge(struct sim *sim, struct node *node);
/* What a shard had done before an event: clocks_check. */
struct clocks_seen {
    uint64_t refused; /* records of wrong clocks */
    bool off;         /* its own time is; the rest is of such */
    bool writes;
    uint64_t checks;
    uint64_t terms;
    uint64_t slots;
    uint64_t seqs;
};
void clocks_see(const struct sim *sim, const struct node *node, uint8_t shard,
                struct clocks_seen *out);
/* SIMCLOCKS-4 to SIMCLOCKS-6, after the event. */
void clocks_check(struct sim *sim, const struct node *node, const struct event *event,
                  const struct clocks_seen *before);
/* The process has ended: one whose time was off starts again. */
void clocks_ended(struct sim *sim, struct node *node);

#endif
