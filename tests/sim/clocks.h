/* clocks.h - the clocks of a simulated node (clocks.c). */
#ifndef TESTS_SIM_CLOCKS_H
#define TESTS_SIM_CLOCKS_H

#include "tests/sim/sim.h"

/* A process starts: its first cluster time. */
void clocks_start(struct sim *sim, struct node *node);
/* Before a tick of control. */
void clocks_look(struct sim *sim, struct node *node);
/* Before an event: true if the process is to end at once. */
bool clocks_set_back(struct sim *sim, struct node *node);
/* After an event of control: true if the process is to end at once. */
bool clocks_judge(struct sim *sim, struct node *node);
/* The process has ended: one whose time was off starts again. */
void clocks_ended(struct sim *sim, struct node *node);

#endif
