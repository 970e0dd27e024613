/* token.c - see token.h. */
#include "node/policy/rights/token.h"

#include <string.h>
#include <zlib.h>

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";

enum {
    PREFIX_LEN = sizeof TOKEN_PREFIX - 1,
    SECRET_AT = PREFIX_LEN + TOKEN_ID_LEN + 1,
    SUM_AT = SECRET_AT + TOKEN_SECRET_LEN
};

static bool are_digits(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\0' || strchr(alphabet, text[i]) == NULL)
            return false;
    return true;
}

static void put_sum(const char *text, char out[TOKEN_SUM_LEN])
{
    const uLong sum = crc32(crc32(0, NULL, 0), (const Bytef *)text, SUM_AT);
    for (unsigned i = 0; i < TOKEN_SUM_LEN; i++)
        out[i] = alphabet[sum >> 5 * i & 31];
}

void token_write(const uint8_t random[TOKEN_RANDOM_LEN], const char *id, char out[TOKEN_LEN + 1])
{
    size_t at = PREFIX_LEN;
    memcpy(out, TOKEN_PREFIX, PREFIX_LEN);
    for (size_t i = 0; i < TOKEN_RANDOM_LEN; i++) {
        if (i == TOKEN_ID_LEN)
            out[at++] = '_';
        out[at++] = alphabet[random[i] & 31];
    }
    if (id != NULL)
        memcpy(out + PREFIX_LEN, id, TOKEN_ID_LEN);
    put_sum(out, out + SUM_AT);
    out[TOKEN_LEN] = '\0';
}

bool token_begins(const char *text, size_t len)
{
    return len >= PREFIX_LEN && memcmp(text, TOKEN_PREFIX, PREFIX_LEN) == 0;
}

const char *token_id(const char *text, size_t len)
{
    char sum[TOKEN_SUM_LEN];
    if (len != TOKEN_LEN || !token_begins(text, len) || text[SECRET_AT - 1] != '_' ||
        !are_digits(text + PREFIX_LEN, TOKEN_ID_LEN) ||
        !are_digits(text + SECRET_AT, TOKEN_SECRET_LEN))
        return NULL;
    put_sum(text, sum);
    return memcmp(sum, text + SUM_AT, TOKEN_SUM_LEN) == 0 ? text + PREFIX_LEN : NULL;
}

bool token_id_ok(const char *text, size_t len)
{
    return len == TOKEN_ID_LEN && are_digits(text, len);
}
