/* swim_index.h - from the id of a member to its slot. Internal to gossip/. */
#ifndef GOSSIP_SWIM_INDEX_H
#define GOSSIP_SWIM_INDEX_H

#include <stdint.h>

struct swim;

/* The slot of `id`, or SWIM_SLOT_NONE. */
uint32_t swim_lookup(const struct swim *swim, uint64_t id);
/* Enters a slot whose id is not there yet. */
void swim_index_put(struct swim *swim, uint64_t id, uint32_t slot);
/* Enters all used slots anew: removal is rare (an expired tombstone), so it may. */
void swim_index_rebuild(struct swim *swim);

#endif
