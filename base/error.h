/* error.h - every error of Tidegate, from one table.
 *
 * A function that can fail returns 0 (or a count) on success and one of these
 * negative codes otherwise. A denial is never an error: it is a decision.
 * The values are part of the wire protocol and of the C API: append, never renumber.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

/* X(name, value, message, retryable) */
#define TG_ERROR_MAP(X)                                                                            \
    X(INVALID, -1, "invalid argument", 0)                                                          \
    X(NOMEM, -2, "out of memory", 0)                                                               \
    X(TIMEOUT, -3, "deadline exceeded", 1)                                                         \
    X(UNREACHABLE, -4, "no endpoint reachable", 1)                                                 \
    X(PROTOCOL, -5, "malformed message", 0)                                                        \
    X(VERSION, -6, "unsupported protocol version", 0)                                              \
    X(TOOBIG, -7, "message or field too large", 0)                                                 \
    X(BUSY, -8, "overloaded, try again later", 1)                                                  \
    X(NOTFOUND, -9, "not found", 0)                                                                \
    X(EXISTS, -10, "already exists", 0)                                                            \
    X(IO, -11, "input/output error", 1)                                                            \
    X(CORRUPT, -12, "stored data is corrupt", 0)                                                   \
    X(FULL, -13, "no space left", 1)                                                               \
    X(CLOSED, -14, "handle is closed", 0)                                                          \
    X(UNAVAILABLE, -15, "no node can decide for this key now", 1)                                  \
    X(UNSUPPORTED, -16, "not supported", 0)                                                        \
    X(ADDRINUSE, -17, "address already in use", 0)                                                 \
    X(CONFLICT, -18, "conflicts with a newer state", 1)

enum tg_error {
    TG_OK = 0,
#define TG_ERROR_ENUM(name, value, message, retryable) TG_E##name = (value),
    TG_ERROR_MAP(TG_ERROR_ENUM)
#undef TG_ERROR_ENUM
};

/* The message of `code`; "unknown error" for a number that is none. Static storage, any thread. */
const char *error_message(int code);
/* The symbolic name ("TG_ETIMEOUT") of `code`, "TG_OK" for 0. Static storage, any thread. */
const char *error_name(int code);
/* 1 if the same call may succeed when it is made again, else 0. */
int error_retryable(int code);

#define MUST_USE __attribute__((warn_unused_result))

#endif
