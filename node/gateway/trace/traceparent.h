/* traceparent.h - the header field by which whoever asks says which trace a request belongs to.
 *
 *   00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *   version   trace, 32 digits           span, 16 digits  flags
 *
 * As W3C Trace Context, level 2, has it: digits are lower-case; ids that are all zero are none;
 * version ff is none. Of a version that is not known the first four parts are read, and what
 * follows begins with a dash. Of the flags only the one that says `sampled` means something.
 *
 * Pure. Any thread.
 */
#ifndef NODE_GATEWAY_TRACE_TRACEPARENT_H
#define NODE_GATEWAY_TRACE_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACE_ID_BYTES = 16, TRACE_SPAN_BYTES = 8, TRACEPARENT_LEN = 55 };

struct traceparent {
    uint8_t trace[TRACE_ID_BYTES];
    uint8_t span[TRACE_SPAN_BYTES];
    bool sampled;
};

/* Reads the value of the field, without blanks around it. False: it says nothing, and *out is
 * unspecified. */
bool traceparent_read(const char *text, size_t len, struct traceparent *out);

/* Writes bytes as lower-case digits, two each, and a NUL. Returns `out`. */
const char *trace_digits(const uint8_t *bytes, size_t count, char *out);

#endif
