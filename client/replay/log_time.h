/* log_time.h - the ways in which logs write a moment, as nanoseconds since 1970 in UTC.
 *
 *   21/Nov/2026:12:44:22 +0100          nginx $time_local, Apache %t (without the brackets)
 *   2026-11-21T12:44:22.125+01:00       RFC 3339, also with a space for T; no zone means UTC
 *   1795347862  1795347862.125          seconds; from 12 digits on ms, from 15 us, from 18 ns
 *
 * Pure. A moment before 1970 or behind LOG_TIME_MAX is refused: it is a mistake in the log.
 */
#ifndef CLIENT_REPLAY_LOG_TIME_H
#define CLIENT_REPLAY_LOG_TIME_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LOG_TIME_MAX                                                                               \
    INT64_C(4000000000000000000) /* the year 2096; the engine's clock ends there                   \
                                  */

#define LOG_DATE_MAX_S INT64_C(253402300800) /* the end of the year 9999 */

enum { LOG_CLF_LEN = 26, LOG_DATE_LEN = 10 }; /* "21/Nov/2026:12:44:22 +0100", "2026-11-21" */

/* The common log format, exactly LOG_CLF_LEN bytes or longer by a fraction of the second. 0 or
 * TG_EINVALID, *ns then untouched. */
MUST_USE int log_time_clf(const char *text, size_t len, int64_t *ns);
/* Any of the above; `text` is not NUL-terminated. 0 or TG_EINVALID, *ns then untouched. */
MUST_USE int log_time_any(const char *text, size_t len, int64_t *ns);

/* A moment as people write it on a command line, as ms since 1970, never 0: RFC 3339 as above, a
 * date alone, which is its first moment in UTC, or a number as above. NULL, or what is wrong with
 * it, as half a sentence; *ms is untouched then. */
MUST_USE const char *log_time_date(const char *text, size_t len, uint64_t *ms);

/* Writes "2026-11-21T12:44:22Z", the fraction cut off, and a NUL. `out` has LOG_TIME_LEN bytes. */
enum { LOG_TIME_LEN = 24 };
void log_time_format(int64_t ns, char *out);
/* The same of ms; "after 9999" for what is. */
void log_date_format(uint64_t ms, char *out);

#endif
