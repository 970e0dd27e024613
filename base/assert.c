/* assert.c - the end of a process whose programmer was wrong.
 *
 * A broken guarantee means that the state can no longer be trusted, so the process says
 * where and stops; supervisors restart it and the cluster decides without it meanwhile.
 * It must not allocate, take locks of ours, or try to repair anything.
 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void assert_fail(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
    fflush(stderr);
    abort();
}
