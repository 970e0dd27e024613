/* swim_piggyback.h - what rides along with messages. Internal to gossip/. */
#ifndef GOSSIP_SWIM_PIGGYBACK_H
#define GOSSIP_SWIM_PIGGYBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_writer;
struct swim;

/* Writes the items array: `forced` first (SWIM_SLOT_NONE = none), then rumours by how seldom
 * they were sent, within `budget` bytes; with budget 0 none but `forced`, for addresses where
 * perhaps nobody listens. */
void swim_rumours_put(struct swim *swim, struct mp_writer *writer, size_t budget, uint32_t forced);
/* The parts of it, for a caller that chooses the items: they are written aside, since their number
 * comes first. swim_item_append returns false, and takes nothing, when the item does not fit. */
void swim_items_begin(struct swim *swim, const struct mp_writer *writer, size_t budget,
                      struct mp_writer *items);
bool swim_item_append(struct swim *swim, struct mp_writer *items, uint32_t slot, bool with_record);
void swim_items_end(struct mp_writer *writer, const struct mp_writer *items, uint32_t count);
void swim_gossip_tick(struct swim *swim);

#endif
