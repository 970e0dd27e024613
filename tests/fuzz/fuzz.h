/* fuzz.h - what the fuzz targets share: an input taken apart, and a check that does not sleep.
 *
 * A target reads numbers and pieces from the input until it is used up; reading behind the end
 * gives zeros and empty pieces, so every input means something. Targets hold their findings by
 * ASSERT of base/assert.h, which ends the process in every build.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* libFuzzer's entry. 0: keep the input if it reached something new. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct fuzz_input {
    const uint8_t *data;
    size_t len;
    size_t at;
};

static inline struct fuzz_input fuzz_open(const uint8_t *data, size_t len)
{
    return (struct fuzz_input){.data = data, .len = len};
}

static inline bool fuzz_more(const struct fuzz_input *input)
{
    return input->at < input->len;
}

static inline uint8_t fuzz_u8(struct fuzz_input *input)
{
    return input->at < input->len ? input->data[input->at++] : 0;
}

static inline uint16_t fuzz_u16(struct fuzz_input *input)
{
    const uint8_t low = fuzz_u8(input);
    return (uint16_t)(low | fuzz_u8(input) << 8);
}

static inline uint64_t fuzz_u64(struct fuzz_input *input)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) {
        value |= (uint64_t)fuzz_u8(input) << (8 * i);
    }
    return value;
}

/* Up to `want` bytes of what is left; *got says how many. */
static inline const uint8_t *fuzz_take(struct fuzz_input *input, size_t want, size_t *got)
{
    const uint8_t *const piece = input->data + input->at;
    *got = input->len - input->at < want ? input->len - input->at : want;
    input->at += *got;
    return piece;
}

/* The rest of the input. */
static inline const uint8_t *fuzz_rest(struct fuzz_input *input, size_t *got)
{
    return fuzz_take(input, input->len, got);
}

/* A NUL-terminated copy, so that reading behind it is found. The caller's to free. */
static inline char *fuzz_text(const uint8_t *data, size_t len)
{
    char *const text = malloc(len + 1);
    ASSERT(text != NULL);
    if (len > 0) {
        memcpy(text, data, len);
    }
    text[len] = '\0';
    return text;
}

/* A copy that ends where its block ends, so that reading behind it is found. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t len)
{
    uint8_t *const copy = malloc(len == 0 ? 1 : len);
    ASSERT(copy != NULL);
    if (len > 0) {
        memcpy(copy, data, len);
    }
    return copy;
}

#endif
