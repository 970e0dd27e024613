/* seats.h - the first half of the answer to "who owns a vnode": by seat, not by name. */
#ifndef RING_SEATS_H
#define RING_SEATS_H

#include <stdint.h>

/* Deals `vnodes` arcs (a power of two) to the seats 1..seats_count in order of seat number; see
 * seats.c. owners[vnodes] receives seat numbers; loads[seats_count + 1] how many each seat has. */
void ring_seats_deal(uint16_t *owners, uint32_t *loads, uint32_t seats_count, uint32_t vnodes);

#endif
