/* support_effort.h - how much random testing a build can afford.
 *
 * A sanitizer makes code ten times slower, and looks for other mistakes than wrong counts: a few
 * rounds through every branch show it what it can see. Other builds do all of them.
 */
#ifndef TESTS_UNIT_SUPPORT_EFFORT_H
#define TESTS_UNIT_SUPPORT_EFFORT_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EFFORT(rounds) ((rounds) / 10 + 1)
#define EFFORT_STRIDE                                                                              \
    17 /* of checks after every event, one in so many; no multiple of what turns */
#else
#define EFFORT(rounds) (rounds)
#define EFFORT_STRIDE  1
#endif

#endif
