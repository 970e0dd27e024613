/* window.c - window.h tells what it is for.
 *
 *     took < T / 2     size += answered            doubles with a round trip
 *     took > T         size -> out * T / took      but to no less than a half with a round trip
 *     refused          size -> least               likewise
 */
#include "client/lib/window.h"

#include "base/assert.h"

enum {
    PACE_ITEMS = 1024,
    PACE_SHARE = 4,                   /* of a new measurement: 1 in so many */
    PACE_AFTER_NS = 20 * 1000 * 1000, /* how long one takes */
    PACE_KEEP_NS = 1000 * 1000 * 1000 /* how long it is believed */
};

void client_window_init(struct client_window *window, size_t most, int64_t target_ns)
{
    ASSERT(target_ns >= 0);
    *window = (struct client_window){.size = most, .most = most, .target_ns = target_ns};
}

size_t client_window_room(const struct client_window *window)
{
    return window->size > window->out ? window->size - window->out : 0;
}

void client_window_sent(struct client_window *window, size_t count)
{
    window->out += count;
}

static size_t least(const struct client_window *window)
{
    return window->most < CLIENT_WINDOW_LEAST ? window->most : (size_t)CLIENT_WINDOW_LEAST;
}

/* Closes towards `goal`, by half of what was answered: to a half in a round trip, at most. */
static void close_towards(struct client_window *window, size_t goal, size_t count)
{
    const size_t step = count / 2 + 1;
    const size_t lower = window->size > step ? window->size - step : 0;
    if (goal < lower)
        goal = lower;
    if (goal < least(window))
        goal = least(window);
    if (goal < window->size)
        window->size = goal;
}

static void measure(struct client_window *window, size_t count, int64_t now_ns, size_t waiting)
{
    if (waiting == 0) {
        window->marked_ns = 0; /* WINDOW-3 */
        if (now_ns - window->paced_ns > PACE_KEEP_NS)
            window->pace_ns = 0;
        return;
    }
    if (window->marked_ns == 0) {
        window->marked_ns = now_ns;
        window->answered = 0;
        return;
    }
    window->answered += count;
    const int64_t took_ns = now_ns - window->marked_ns;
    if (took_ns < PACE_AFTER_NS)
        return;
    ASSERT(window->answered > 0);
    const int64_t pace_ns = took_ns * PACE_ITEMS / (int64_t)window->answered;
    window->pace_ns += window->pace_ns == 0 ? pace_ns : (pace_ns - window->pace_ns) / PACE_SHARE;
    window->paced_ns = now_ns;
    window->marked_ns = now_ns;
    window->answered = 0;
}

void client_window_answered(struct client_window *window, size_t count, int64_t sent_ns,
                            int64_t now_ns, size_t waiting)
{
    const int64_t took_ns = now_ns - sent_ns;
    const size_t out = window->out;
    ASSERT(out >= count);
    window->out -= count;
    ASSERT(window->size <= window->most); /* WINDOW-2 */
    measure(window, count, now_ns, waiting);
    if (took_ns > window->target_ns) {
        close_towards(window, (size_t)((double)out * (double)window->target_ns / (double)took_ns),
                      count);
    } else if (took_ns < window->target_ns / 2) {
        window->size = count < window->most - window->size ? window->size + count : window->most;
    }
}

void client_window_refused(struct client_window *window, size_t count)
{
    client_window_dropped(window, count);
    close_towards(window, 0, count);
}

void client_window_dropped(struct client_window *window, size_t count)
{
    ASSERT(window->out >= count);
    window->out -= count;
}

int64_t client_window_wait_ns(const struct client_window *window, size_t waiting)
{
    return (int64_t)((double)window->pace_ns * (double)(window->out + waiting) / PACE_ITEMS);
}

void client_window_check_invariants(const struct client_window *window)
{
    INVARIANT("WINDOW-2", window->size <= window->most && window->size >= least(window));
    INVARIANT("WINDOW-3", window->pace_ns >= 0 && window->marked_ns >= 0);
}
