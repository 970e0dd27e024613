/* window.h - how many items may be out to one node: no more than it answers in time.
 *
 * An application may ask for more than a node can decide. What is sent beyond that waits: in the
 * node, in TCP, on the way back, until it is given up and sent again, which makes it worse. So a
 * link has a window, and what is beyond it waits here, where it can be refused at once.
 *
 *     asked --> [ waits here ] --> [ out: at most `size` ] --> answered
 *
 * The window follows the time that answers take, by Little's law: `out` items that take r to be
 * answered take the target T if only out * T / r are out. Below T / 2 nothing waits anywhere that
 * matters, and the window opens again by what is answered: it doubles with each round trip.
 *
 * WINDOW-1  `out` is the number of items that were sent and are neither answered nor given up.
 * WINDOW-2  The window never closes below CLIENT_WINDOW_LEAST items, and never opens above `most`.
 * WINDOW-3  A pace is known only of times when something waited here: else it would be the pace of
 *           who asks, not of who answers. It is forgotten a second later: by the pace of a pause,
 *           so little would be asked that nothing would ever wait, and no other pace be known.
 *
 * Pure: time is an argument. I/O thread only.
 */
#ifndef CLIENT_LIB_WINDOW_H
#define CLIENT_LIB_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLIENT_WINDOW_LEAST = 4096 };

struct client_window {
    size_t size;
    size_t most;
    size_t out;
    int64_t target_ns;
    int64_t marked_ns; /* since when `answered` is counted; 0: not at all */
    size_t answered;
    int64_t pace_ns;  /* for 1,024 items; 0: not known */
    int64_t paced_ns; /* when it was measured last */
};

void client_window_init(struct client_window *window, size_t most, int64_t target_ns);
/* How many more items may be sent. */
size_t client_window_room(const struct client_window *window);
void client_window_sent(struct client_window *window, size_t count);
/* A message of `count` items, sent at `sent_ns`, was answered; `waiting` items wait here. */
void client_window_answered(struct client_window *window, size_t count, int64_t sent_ns,
                            int64_t now_ns, size_t waiting);
/* One was refused as too much, or got no answer in time. */
void client_window_refused(struct client_window *window, size_t count);
/* One is not waited for any more. */
void client_window_dropped(struct client_window *window, size_t count);
/* How long an item will take to be answered that comes behind `waiting` others; 0 while that is not
 * known. */
int64_t client_window_wait_ns(const struct client_window *window, size_t waiting);
/* Asserts that the window is within its bounds; for tests. */
void client_window_check_invariants(const struct client_window *window);

#endif
