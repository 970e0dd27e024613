/* digest.c - BLAKE2b-256 from libsodium; see digest.h.
 *
 * DIGEST-1  Equal bytes give equal digests on every machine and in every release: they are kept on
 *           disk.
 *
 * Pure and thread-safe; without sodium_init the portable code is used, with the same result.
 */
#include "base/digest.h"

#include <assert.h>
#include <sodium.h>

#include "base/assert.h"
#include "base/bytes.h"

static_assert(DIGEST_LEN == crypto_generichash_BYTES, "the length that libsodium recommends");

void digest_make(const void *data, size_t len, struct digest *out)
{
    ASSERT(data != NULL || len == 0);
    const int error = crypto_generichash(out->bytes, DIGEST_LEN, data, len, NULL, 0);
    ASSERT(error == 0); /* it has no failure but wrong lengths */
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
    return sodium_memcmp(a->bytes, b->bytes, DIGEST_LEN) == 0;
}

uint64_t digest_word(const struct digest *digest)
{
    return bytes_u64_at(digest->bytes, 0);
}

void digest_format(const struct digest *digest, char out[DIGEST_TEXT_LEN + 1])
{
    (void)sodium_bin2hex(out, DIGEST_TEXT_LEN + 1, digest->bytes, DIGEST_LEN);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool digest_parse(const char *text, size_t len, struct digest *out)
{
    if (len != DIGEST_TEXT_LEN)
        return false;
    for (size_t i = 0; i < DIGEST_LEN; i++) {
        const int high = digit(text[2 * i]);
        const int low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
