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

/* A test of that name: what is done to a whole state, `...`, breaks the invariant `id`. The program
 * that says so makes the state, and judges it, by its own assert_broken(corrupt, id). */
#define CORRUPTION(name, id, ...)                                                                  \
    static void corrupt_##name(void)                                                               \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        assert_broken(corrupt_##name, id ": ");                                                    \
    }

#endif
