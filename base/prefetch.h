/* prefetch.h - asks memory for what is read soon, so that who reads it need not wait as long.
 *
 * __builtin_prefetch alone has no effect that the compiler knows of: gcc takes a function that does
 * nothing else for one without any, and drops the calls of it. The empty statement is such an
 * effect, and costs nothing.
 */
#ifndef BASE_PREFETCH_H
#define BASE_PREFETCH_H

#include <stdint.h>

enum { PREFETCH_LINE = 64 }; /* bytes that come at once: of a cache line */

/* Asks for the line in which `at` is; any address will do. */
static inline void prefetch(const void *at)
{
    __builtin_prefetch(at);
    __asm__ volatile("");
}

/* The same of what is written soon. */
static inline void prefetch_to_write(const void *at)
{
    __builtin_prefetch(at, 1);
    __asm__ volatile("");
}

/* The first place from `at` on where a line begins; of NULL, NULL. */
static inline void *prefetch_line_of(void *at)
{
    const uintptr_t over = (uintptr_t)at % PREFETCH_LINE;
    return over == 0 ? at : (unsigned char *)at + (PREFETCH_LINE - over);
}

#endif
