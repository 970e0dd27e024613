/* vocabulary.h - the words that users write and the wire carries: algorithms, operations, outcomes.
 *
 * Numbers are part of the wire protocol and of the stored state: append, never renumber.
 */
#ifndef BASE_VOCABULARY_H
#define BASE_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

/* X(NAME, number, "text") */
#define ALGORITHM_MAP(X)                                                                           \
    X(TOKEN_BUCKET, 0, "token_bucket")                                                             \
    X(FIXED_WINDOW, 1, "fixed_window")                                                             \
    X(SLIDING_WINDOW, 2, "sliding_window")                                                         \
    X(SLIDING_LOG, 3, "sliding_log")                                                               \
    X(LEAKY_BUCKET, 4, "leaky_bucket")                                                             \
    X(SLIDING_BUCKETS, 5, "sliding_buckets")                                                       \
    X(CONCURRENCY, 6, "concurrency")

#define OPERATION_MAP(X)                                                                           \
    X(CHECK, 0, "check")                                                                           \
    X(PEEK, 1, "peek")                                                                             \
    X(HIT, 2, "hit")                                                                               \
    X(REFUND, 3, "refund")                                                                         \
    X(RESET, 4, "reset")                                                                           \
    X(LEASE, 5, "lease")                                                                           \
    X(RELEASE, 6, "release")                                                                       \
    X(RENEW, 7, "renew")                                                                           \
    X(RESERVE, 8, "reserve")                                                                       \
    X(COMMIT, 9, "commit")                                                                         \
    X(CANCEL, 10, "cancel")

#define OUTCOME_MAP(X)                                                                             \
    X(ALLOW, 0, "allow")                                                                           \
    X(SOFT_EXCEEDED, 1, "soft_exceeded")                                                           \
    X(ELASTIC_BORROWED, 2, "elastic_borrowed")                                                     \
    X(SHADOW_DENIED, 3, "shadow_denied")                                                           \
    X(NO_RULE, 4, "no_rule")                                                                       \
    X(DENY, 5, "deny")                                                                             \
    X(BLOCKED, 6, "blocked")                                                                       \
    X(BUSY, 7, "busy")                                                                             \
    X(ERROR, 8, "error")

#define ALGORITHM_ENUM(name, number, text) ALGORITHM_##name = (number),
#define OPERATION_ENUM(name, number, text) OPERATION_##name = (number),
#define OUTCOME_ENUM(name, number, text)   OUTCOME_##name = (number),
enum algorithm { ALGORITHM_MAP(ALGORITHM_ENUM) ALGORITHM_COUNT };
enum operation { OPERATION_MAP(OPERATION_ENUM) OPERATION_COUNT };
enum outcome { OUTCOME_MAP(OUTCOME_ENUM) OUTCOME_COUNT };
#undef ALGORITHM_ENUM
#undef OPERATION_ENUM
#undef OUTCOME_ENUM

/* The text of a number, NULL for a number that is none. Static storage, any thread. */
const char *algorithm_name(unsigned number);
const char *operation_name(unsigned number);
const char *outcome_name(unsigned number);
/* What is said of a request that was not allowed with that outcome, where nothing more precise is
 * known: never empty, at most 128 bytes. Static storage, any thread. */
const char *outcome_sentence(unsigned number);

/* The number of a text of `len` bytes (not NUL-terminated), or -1. */
int algorithm_parse(const char *text, size_t len);

#endif
