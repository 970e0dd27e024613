/* event_log.h - what has come about lately, for people who look: a bounded list of sentences.
 *
 *   a sentence, once ----event_log_add-----> told
 *   all that lasts ------event_log_follow--> begun, for what was not there at the last look
 *                                            over, for what was
 *
 *      id   microseconds since 1970, or one more than the event before, if that is more
 *
 * So ids rise, also from one life of the process to the next, and who was told up to one of them
 * goes on behind it.
 *
 * EVENTS-1  Ids rise from each event to the next. At most EVENTS_MAX events are kept, the newest.
 * EVENTS-2  What lasts is begun once, when it has lasted for a second, and over once, whatever its
 *           sentence becomes meanwhile. What lasts no second is no event.
 * EVENTS-3  Nobody misses an event without being told so (event_log_missed): who names an event
 *           that is none of these, of a former life or to come, is told all that are kept.
 *
 * Pure; zeroed to begin with. One thread.
 */
#ifndef NODE_CLUSTER_MODEL_EVENT_LOG_H
#define NODE_CLUSTER_MODEL_EVENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define EVENT_LASTS_NS INT64_C(1000000000)
enum { EVENTS_MAX = 256, EVENTS_LAST_MAX = 32, EVENT_SAYS_LEN = 320, EVENT_CODE_LEN = 32 };

enum event_log_kind { EVENT_LOG_TOLD, EVENT_LOG_BEGUN, EVENT_LOG_OVER, EVENT_LOG_KINDS };
extern const char *const event_kind_names[EVENT_LOG_KINDS]; /* "told", "begun", "over" */

struct event {
    uint64_t id;
    uint64_t time_ms;          /* since 1970 */
    uint64_t lasted_ms;        /* of what is over */
    uint8_t kind;              /* enum event_log_kind */
    bool grave;                /* what begins, or is over, makes a cluster unhealthy */
    char code[EVENT_CODE_LEN]; /* of a condition; "": of none */
    char says[EVENT_SAYS_LEN];
};

/* What lasts. `name` tells one from the others. */
struct event_lasting {
    uint64_t name; /* not 0 */
    int64_t since_ns;
    bool told;
    bool grave;
    char code[EVENT_CODE_LEN];
    char says[EVENT_SAYS_LEN];
};

struct event_log {
    uint64_t last_id;
    uint64_t lost_id; /* the newest that is not kept any more; 0: all are */
    uint32_t first;
    uint32_t count;
    uint32_t lasting_count;
    struct event events[EVENTS_MAX];
    struct event_lasting lasting[EVENTS_LAST_MAX];
};

/* Adds a sentence, at `unix_ns`. A longer one is cut. */
void event_log_add(struct event_log *log, int64_t unix_ns, const char *says);
/* Nothing is known of what came about before. */
void event_log_begin(struct event_log *log, int64_t unix_ns);
/* Takes all that lasts, at most EVENTS_LAST_MAX; since_ns and told are filled in. `all`: there is
 * no more, so that what is not among them is over. */
void event_log_follow(struct event_log *log, int64_t unix_ns, const struct event_lasting *now,
                      uint32_t count, bool all);
/* The oldest event behind that id, or NULL; behind one to come, the oldest of all. */
const struct event *event_log_after(const struct event_log *log, uint64_t id);
/* Whether events behind that id are not kept any more. 0, of somebody new, misses nothing. */
bool event_log_missed(const struct event_log *log, uint64_t id);
/* The id behind which so many events are, or all of them if there are fewer. */
uint64_t event_log_newest(const struct event_log *log, uint32_t count);
/* Asserts EVENTS-1. */
void event_log_check_invariants(const struct event_log *log);

#endif
