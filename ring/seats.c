/* seats.c - deals the vnodes to numbered seats, so that a join moves the newcomer's share only.
 *
 * The problem. Plain rendezvous hashing moves nothing but the newcomer's share, yet with 41
 * vnodes a node (100 nodes, V = 4096) chance alone leaves the busiest at 1.4 x the mean. A cap
 * repairs that, but every node at its cap must take back or give away a vnode whenever
 * anything changes: a cap of 1.11 x mean was measured to move 1.43 x the ideal (1.21 x in the best
 * variant tried, with stratified scores and stable matching). No choice of cap keeps both
 * promises, because a table that knows only *who* is there cannot know who was there before.
 *
 * The idea. A member keeps the seats it was given when it joined, one for each 50 of weight.
 * Seats are dealt in order, as if they had come one after another, each taking its share
 * evenly from all before it:
 *
 *   seat 1    1 1 1 1 1 1 1 1 1 1 1 1          4096
 *   seat 2    1 2 1 2 2 1 2 1 1 2 1 2          2048 2048
 *   seat 3    1 2 3 2 3 1 2 1 3 2 1 3          1366 1365 1365
 *
 * A join on the next seats runs the same steps and then its own: it moves just the newcomer's
 * share, all of it to the newcomer, and the loads of seats stay within one of each other. Leaving
 * the last seats is the reverse. When a member in the middle leaves, the deal stays as it was
 * and the table (table.c) spreads only the vacant seats' vnodes over the others by
 * rendezvous; whoever joins next takes those seats, and just those vnodes come back.
 *
 * It is still a pure function of the member set; the seats are part of a member's record. All
 * seats are worth the same, whoever sits there, so that no change of weight re-deals.
 *
 * SEATS-1  Every load is floor(V / n) or ceil(V / n).
 * SEATS-2  The deal for n seats is the deal for n - 1 seats followed by one step, so only seat n
 *          gains.
 * SEATS-3  Each step walks the vnodes in an order of its own (a keyed bijection), so that the
 *          vnodes of one seat are scattered over the circle and over all later seats.
 */
#include "ring/seats.h"

#include "base/assert.h"
#include "base/hash.h"

/* A bijection of 0..vnodes-1 keyed by the seat: odd multiplications and shifted XORs. */
static uint32_t walk_at(uint32_t index, uint64_t key, uint32_t vnodes)
{
    ASSERT(index < vnodes && (vnodes & (vnodes - 1)) == 0);
    const uint32_t mask = vnodes - 1;
    const int half = (__builtin_ctz(vnodes) + 1) / 2;
    uint32_t x = (index + (uint32_t)key) & mask;

    x = (x * ((uint32_t)(key >> 16) | 1U)) & mask;
    x ^= x >> half;
    x = (x * ((uint32_t)(key >> 32) | 1U)) & mask;
    x ^= x >> half;
    x = (x * 0x9e3779b1U) & mask;
    return x ^ (x >> half);
}

/* Lets `seat` take up to `wanted` vnodes from donors that hold more than `keep`. */
static uint32_t take(uint16_t *owners, uint32_t *loads, uint32_t seat, uint32_t vnodes,
                     uint32_t wanted, uint32_t keep)
{
    const uint64_t key = hash_mix64(seat * 0x9e3779b97f4a7c15ULL);
    uint32_t taken = 0;

    for (uint32_t i = 0; i < vnodes && taken < wanted; i++) {
        const uint32_t vnode = walk_at(i, key, vnodes);
        const uint32_t donor = owners[vnode];

        if (donor != seat && loads[donor] > keep) {
            owners[vnode] = (uint16_t)seat;
            loads[donor]--;
            loads[seat]++;
            taken++;
        }
    }
    ASSERT(taken <= wanted && loads[seat] <= vnodes);
    return taken;
}

void ring_seats_deal(uint16_t *owners, uint32_t *loads, uint32_t seats_count, uint32_t vnodes)
{
    ASSERT(seats_count >= 1);
    for (uint32_t vnode = 0; vnode < vnodes; vnode++) {
        owners[vnode] = 1;
    }
    for (uint32_t seat = 0; seat <= seats_count; seat++) {
        loads[seat] = 0;
    }
    loads[1] = vnodes;

    for (uint32_t seat = 2; seat <= seats_count; seat++) {
        const uint32_t floor = vnodes / seat;
        const uint32_t ceil = floor + (vnodes % seat == 0 ? 0 : 1);
        /* First relieve those above the share rounded up, then fill this seat up to the share
         * rounded down from those above that (SEATS-1). */
        const uint32_t forced = take(owners, loads, seat, vnodes, ceil, ceil);
        if (forced < floor) {
            (void)take(owners, loads, seat, vnodes, floor - forced, floor);
        }
    }
}
