/* token.h - what a caller shows to be known: made by random, and read without looking it up.
 *
 *   tgt_abcdefghijkl_abcdefghijklmnopqrstuvwxyz234567ABCDEFG
 *       |-- id ----| |---------- 160 bits ----------||-sum-|
 *
 * The id is no secret: people and the log name a credential by it. The prefix and the sum are for
 * programs that look for secrets in what is published, and for people: a token that was cut or
 * mistyped is told apart from one that is not known.
 *
 * TOKEN-1  What is read is what was written: any change of one character, and any cut, is no token.
 *
 * Pure.
 */
#ifndef NODE_POLICY_RIGHTS_TOKEN_H
#define NODE_POLICY_RIGHTS_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_PREFIX "tgt_"
enum {
    TOKEN_ID_LEN = 12,
    TOKEN_SECRET_LEN = 32,
    TOKEN_SUM_LEN = 7, /* a CRC of 32 bits of what is before it, five bits each */
    TOKEN_RANDOM_LEN = TOKEN_ID_LEN + TOKEN_SECRET_LEN,
    TOKEN_LEN = sizeof TOKEN_PREFIX - 1 + TOKEN_ID_LEN + 1 + TOKEN_SECRET_LEN + TOKEN_SUM_LEN
};

/* Writes the token whose id and secret are made of these random bytes, five bits of each, and a
 * NUL; or a further one of the credential `id`, unless that is NULL. */
void token_write(const uint8_t random[TOKEN_RANDOM_LEN], const char *id, char out[TOKEN_LEN + 1]);
/* Whether the text begins as a token does, be it one or not. */
bool token_begins(const char *text, size_t len);
/* The id, TOKEN_ID_LEN bytes of `text`; NULL: it is no token. */
const char *token_id(const char *text, size_t len);
/* Whether the text can be the id of a credential. */
bool token_id_ok(const char *text, size_t len);

#endif
