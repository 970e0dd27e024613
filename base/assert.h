/* assert.h - assertions that stay on in release builds.
 *
 * ASSERT states what a programmer must have guaranteed. Bad input from outside is
 * never asserted: it returns an error that names the place and what was expected.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

/* Prints the failed expression and its place on stderr, then aborts. */
_Noreturn void assert_fail(const char *expression, const char *file, int line);

#define ASSERT(expression) ((expression) ? (void)0 : assert_fail(#expression, __FILE__, __LINE__))

/* The same of a numbered invariant, for x_check_invariants: what is printed begins with its id. */
#define INVARIANT(id, expression)                                                                  \
    ((expression) ? (void)0 : assert_fail(id ": " #expression, __FILE__, __LINE__))

#endif
