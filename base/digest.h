/* digest.h - the digest of a secret that people or programs hold, such as an API key.
 *
 * BLAKE2b-256 of libsodium. Who reads a digest cannot find a secret that was drawn at random from
 * 2^128 or more, so one fast hash is enough: slow ones are for what people can remember, and would
 * cost each request. Not for finding slots: those want a keyed hash (hash.h).
 */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_LEN = 32, DIGEST_TEXT_LEN = 2 * DIGEST_LEN };

struct digest {
    uint8_t bytes[DIGEST_LEN];
};

/* The digest of `len` bytes; the same on every machine. Any thread. */
void digest_make(const void *data, size_t len, struct digest *out);
/* Whether they are equal, in a time that does not depend on where they differ. */
bool digest_equal(const struct digest *a, const struct digest *b);
/* Its first eight bytes, little-endian: as good as any hash of it. */
uint64_t digest_word(const struct digest *digest);
/* Writes it as DIGEST_TEXT_LEN lower-case hexadecimal digits and a NUL, and reads it back; false if
 * `text` is anything else. */
void digest_format(const struct digest *digest, char out[DIGEST_TEXT_LEN + 1]);
bool digest_parse(const char *text, size_t len, struct digest *out);

#endif
