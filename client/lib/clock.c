/* clock.c - one clock for deadlines, leases and denials.
 *
 * A lease lasts at the node while this machine is suspended. So the clock is the one that goes on
 * meanwhile, and after a resume everything that was held is over.
 */
#include "client/lib/clock.h"

#include <time.h>

int64_t client_now_ns(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        (void)clock_gettime(CLOCK_MONOTONIC, &now); /* a sandbox without it */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
