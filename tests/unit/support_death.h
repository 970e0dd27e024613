/* support_death.h - lets a unit test observe an assertion that ends the process.
 *
 * The call under test runs in a child, so the parent lives on to judge how it ended.
 */
#ifndef TESTS_UNIT_SUPPORT_DEATH_H
#define TESTS_UNIT_SUPPORT_DEATH_H

#include <stdbool.h>
#include <stddef.h>

/* Runs `act(context)` in a child process. True if that ended by abort(), as a failed ASSERT does.
 * What it wrote to stderr is in `message` (NUL-terminated, cut at `capacity`); that may be NULL. */
bool death_by_assert(void (*act)(void *context), void *context, char *message, size_t capacity);

#endif
