/* support_tokens.h - msgpack as tests meet it: parsed values written again, and maps by name. */
#ifndef TESTS_UNIT_SUPPORT_TOKENS_H
#define TESTS_UNIT_SUPPORT_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mp.h"

/* Writes one token, in the shortest form. False for an ext, which the writer does not have. */
bool tokens_put(struct mp_writer *writer, const struct mp_token *token);

/* A cursor on all of them. */
struct mp_cursor tokens_open(const struct mp_token *tokens, size_t count);

/* The value of `name` in the map at `map`; fails the test if there is none. */
struct mp_cursor tokens_field(struct mp_cursor map, const char *name);
uint64_t tokens_uint(struct mp_cursor map, const char *name);
/* Asserts that the text `name` of the map is `expected`. */
void tokens_assert_text(struct mp_cursor map, const char *name, const char *expected);

#endif
