/* swim_stranger.h - who is not in the ring, or not known at all. Internal to gossip/. */
#ifndef GOSSIP_SWIM_STRANGER_H
#define GOSSIP_SWIM_STRANGER_H

#include <stdbool.h>
#include <stdint.h>

struct swim;
struct swim_message;

/* Who is in the ring, ascending: see swim_ring. */
void swim_stranger_ring(struct swim *swim, const uint64_t *ids, uint32_t count);
bool swim_in_ring(const struct swim *swim, uint64_t id);
/* Whether the member of this region is neither in the ring nor has ever answered this node. */
bool swim_unheard(const struct swim *swim, uint32_t slot);
/* Whether one more member of this region that the ring does not know may be taken in. */
bool swim_stranger_fits(const struct swim *swim);
/* Whether a message may be answered: it is from a known address, or there are not too many of
 * those that are not. */
bool swim_stranger_heard(struct swim *swim, const struct swim_message *message);

#endif
