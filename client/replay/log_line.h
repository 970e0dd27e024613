/* log_line.h - one line of an access log as the fields that rules may ask for.
 *
 *   combined  203.0.113.7 - ada [21/Nov/2026:12:44:22 +0100] "GET /a?q=1 HTTP/1.1" 200 512
 *             "referer" "agent"
 *   xff       the same and a last quoted field: the addresses of X-Forwarded-For
 *   vhost     the same as combined or xff, with `name:port` before the address (Apache's
 *             vhost_combined)
 *   json      one object a line; nested fields are named a.b.c
 *
 * What stands behind the fields of `combined` without quotes (a request time, say) is passed over.
 *
 * LOGLINE-1  The result points into the line, the scratch or static storage, and needs all three.
 * LOGLINE-2  A field that is absent, "-" or empty has length 0.
 * LOGLINE-3  A refusal says where in the line something else was expected, and what.
 *
 * Pure; any bytes may come.
 */
#ifndef CLIENT_REPLAY_LOG_LINE_H
#define CLIENT_REPLAY_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "node/policy/model/policy.h"

enum {
    LOG_LINE_MAX = 64 * 1024,                           /* bytes of a line that is understood */
    LOG_VALUE_MAX = POLICY_VALUE_LEN_MAX + 1,           /* cut behind what a rule may count by */
    LOG_SCRATCH_LEN = LOG_LINE_MAX + 64 * LOG_VALUE_MAX /* unescaped copies */
};

enum log_format { LOG_AUTO, LOG_COMBINED, LOG_XFF, LOG_JSON };

enum log_field {
    LOG_CLIENT,    /* the caller's address, where a log names it as such */
    LOG_REMOTE,    /* the address of whoever opened the connection */
    LOG_FORWARDED, /* X-Forwarded-For as it came */
    LOG_USER,
    LOG_METHOD,
    LOG_TARGET, /* path and query */
    LOG_PROTOCOL,
    LOG_STATUS,
    LOG_BYTES,
    LOG_REFERER,
    LOG_AGENT,
    LOG_HOST,
    LOG_FIELDS
};

struct log_line {
    bool json; /* which of the two it was */
    int64_t time_ns;
    struct policy_text fields[LOG_FIELDS];
};

/* Where a line went wrong: the byte, from 1, and a sentence of static storage. */
struct log_problem {
    size_t column;
    const char *expected;
};

/* Room for what has to be unescaped; emptied by who reads the next line. */
struct log_scratch {
    size_t used;
    char bytes[LOG_SCRATCH_LEN];
};

/* Records the problem; always TG_EINVALID. */
int log_refuse(struct log_problem *problem, size_t column, const char *expected);

/* Reads a line of any of the formats but json, without its line's end. `want_forwarded` makes a
 * last quoted field a requirement. 0 or TG_EINVALID. */
MUST_USE int log_line_read(const char *text, size_t len, bool want_forwarded,
                           struct log_scratch *scratch, struct log_line *out,
                           struct log_problem *problem);

/* Takes "GET /a HTTP/1.1" apart; what is not of that shape leaves the fields empty. */
void log_line_request(const char *text, size_t len, struct log_line *out);

/* ---- log_json.c ---- */

/* A wanted path ("request.uri") and the slot its value goes to. Of several paths of one slot the
 * one with the lowest rank wins. */
struct log_json_path {
    const char *path;
    uint16_t len;
    uint16_t slot;
    uint16_t rank;
};

struct log_json_value {
    struct policy_text text; /* a string's bytes, else as written; len 0: absent or null */
    uint16_t rank;           /* UINT16_MAX: absent */
};

/* Reads one object. values[0 .. slots - 1] are filled. Numbers and booleans are given as written,
 * lists are passed over. 0 or TG_EINVALID. */
MUST_USE int log_json_read(const char *text, size_t len, const struct log_json_path *paths,
                           size_t path_count, struct log_scratch *scratch,
                           struct log_json_value *values, size_t slots,
                           struct log_problem *problem);

#endif
