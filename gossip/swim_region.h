/* swim_region.h - the regions: who is in them, and what this node knows of each. Internal to
 * gossip/. */
#ifndef GOSSIP_SWIM_REGION_H
#define GOSSIP_SWIM_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_writer;
struct swim;
struct swim_record;
struct swim_region;

/* The name of the region a record places its member in. */
const char *swim_region_of(const struct swim_record *record);
bool swim_region_used(const struct swim_region *region);
/* Whether a member with this record has a place; false when it needs one region too many. */
bool swim_region_fits(const struct swim *swim, const struct swim_record *record);
/* Puts a slot into the region its record names, which must fit; takes it out of its region. */
void swim_region_enter(struct swim *swim, uint32_t slot);
void swim_region_leave(struct swim *swim, uint32_t slot);
/* Whether the member in `slot` (SWIM_SLOT_NONE: no) is of another region. */
bool swim_slot_abroad(const struct swim *swim, uint32_t slot);
uint32_t swim_region_living(const struct swim_region *region);
/* Living members of this node's region but this node; of all regions. */
uint32_t swim_others(const struct swim *swim);
uint32_t swim_others_anywhere(const struct swim *swim);
/* A member of region `at` spoke to this node now. */
void swim_region_contact(struct swim *swim, uint32_t at);
/* The ages that go with a message, and come with one from the member in slot `sender`. */
void swim_ages_put(struct swim *swim, struct mp_writer *writer);
void swim_ages_take(struct swim *swim, uint32_t sender, const uint8_t *ages, size_t ages_len);

#endif
