/* clock.h - the time by which this library waits. Any thread. */
#ifndef CLIENT_LIB_CLOCK_H
#define CLIENT_LIB_CLOCK_H

#include <stdint.h>

/* Monotonic time, in which suspended machines grow older: others do not wait for them. */
int64_t client_now_ns(void);

#endif
