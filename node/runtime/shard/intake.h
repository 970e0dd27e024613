/* intake.h - clients' messages that were read and are not decided yet, while there are too many.
 *
 * Who asks for more than a thread can decide would wait longer and longer: in libzmq's queues, in
 * TCP's, in its own. So an overloaded thread reads ahead, keeps what it can decide soon, and has
 * the rest answered `busy` at once, which costs a fraction of deciding it.
 *
 *      socket --read--> put --kept--> queue of its connection --take, in turns--> decided
 *                        |                 c1 [.][.][.][.]
 *                        |                 c2 [.]
 *                     refused --> busy     c3 [.][.]
 *
 * Connections take turns by bytes (deficit round robin: M. Shreedhar and G. Varghese, "Efficient
 * fair queueing using deficit round robin", 1995), so that one that asks little is answered soon
 * whatever the others do. For the same reason it is never refused: only who has more waiting than
 * its share of the room is (dynamic thresholds: A. Choudhury and E. Hahne, 1998).
 *
 * INTAKE-1  Messages of one connection are taken in the order in which they were put.
 * INTAKE-2  What waits would take about INTAKE_WAIT_NS to decide, by the pace of late, and is half
 *           of the places; half as much again at most where many connections have less than their
 *           share, and a first message of each.
 * INTAKE-3  Bounded: INTAKE_MESSAGES_MAX, INTAKE_CONNECTIONS_MAX, INTAKE_BYTES_MAX. Without room
 *           for whatever may come intake_room is false, and nothing more is read: it waits in TCP.
 * INTAKE-4  A connection with something waiting is in the round once, found by its number, and says
 *           how much that is; all together are what is said of all. Each place is free or waits.
 *
 * Places are numbers: the caller keeps the message itself under its place. One thread.
 */
#ifndef NODE_RUNTIME_SHARD_INTAKE_H
#define NODE_RUNTIME_SHARD_INTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    INTAKE_MESSAGES_MAX = 16384,
    INTAKE_CONNECTIONS_MAX = 4096, /* that have something waiting */
    INTAKE_BYTES_MAX = 64 << 20,
    /* More than the quarter of a try (62 ms) for which libtidegate lets messages be under way: what
     * it holds back in time is not refused. */
    INTAKE_WAIT_NS = 80 * 1000 * 1000,
    INTAKE_NONE = UINT16_MAX
};

struct intake;

/* 0 or TG_ENOMEM. */
MUST_USE int intake_new(struct intake **out);
void intake_free(struct intake **intake);

/* Whether one more message, whatever its length, may be put. */
bool intake_room(const struct intake *intake);
/* Takes in a message of `len` bytes: its place, or INTAKE_NONE if it is to be refused. There must
 * be room. */
uint16_t intake_put(struct intake *intake, uint64_t connection, size_t len);

/* Whose turn it is: the place of the message to be decided, which is free from then on, and who
 * sent it; INTAKE_NONE if none waits. */
uint16_t intake_take(struct intake *intake, uint64_t *connection);
/* Calls `fn` for each connection of which a message waits. */
void intake_each(const struct intake *intake, void (*fn)(void *context, uint64_t connection),
                 void *context);
/* Messages that wait. */
uint32_t intake_count(const struct intake *intake);
/* Tells that what was taken since the last call took `ns` to decide: the pace. */
void intake_decided(struct intake *intake, int64_t ns);
/* Asserts INTAKE-3 and INTAKE-4. O(INTAKE_MESSAGES_MAX): for tests. */
void intake_check_invariants(const struct intake *intake);

#endif
