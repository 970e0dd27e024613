/* swim_rumour.h - the queue of what is still to be told. Internal to gossip/. */
#ifndef GOSSIP_SWIM_RUMOUR_H
#define GOSSIP_SWIM_RUMOUR_H

#include <stdbool.h>
#include <stdint.h>

struct swim;

/* Tells of the member from now on, as if it had been told `transmits` times; once more from the
 * beginning if it is being told. */
void swim_rumour_start(struct swim *swim, uint32_t slot, bool with_record, uint32_t transmits);
void swim_rumour_stop(struct swim *swim, uint32_t slot);
/* Forgets rumours that were told often enough. */
void swim_rumours_retire(struct swim *swim);
/* How often a rumour is told. */
uint32_t swim_retransmit_limit(const struct swim *swim);

#endif
