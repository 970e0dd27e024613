/* error.c - names, messages and retryability of the error codes.
 *
 * All three functions are generated from TG_ERROR_MAP, so a code cannot exist without its
 * text. A switch rather than a table, because codes come from the wire and any number,
 * known or not, must have an answer.
 *
 * ERROR-1  Every code of the map has its own number (the compiler refuses a duplicate case).
 * ERROR-2  Every returned text is static and never NULL.
 */
#include "base/error.h"

const char *error_message(int code)
{
    switch (code) {
    case TG_OK:
        return "success";
#define ERROR_CASE(name, value, message, retryable)                                                \
    case value:                                                                                    \
        return message;
        TG_ERROR_MAP(ERROR_CASE)
#undef ERROR_CASE
    default:
        return "unknown error";
    }
}

const char *error_name(int code)
{
    switch (code) {
    case TG_OK:
        return "TG_OK";
#define ERROR_CASE(name, value, message, retryable)                                                \
    case value:                                                                                    \
        return "TG_E" #name;
        TG_ERROR_MAP(ERROR_CASE)
#undef ERROR_CASE
    default:
        return "unknown";
    }
}

int error_retryable(int code)
{
    switch (code) {
#define ERROR_CASE(name, value, message, retryable)                                                \
    case value:                                                                                    \
        return retryable;
        TG_ERROR_MAP(ERROR_CASE)
#undef ERROR_CASE
    default:
        return 0;
    }
}
