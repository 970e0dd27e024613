/* failure.c - ends this process at a failpoint; failure.h tells why.
 *
 * FAILURE-1  A point is visited at most once for a frame, however many records of its kind are in
 *            it.
 * FAILURE-2  The process ends at exactly the n-th visit, whichever threads make the visits.
 */
#include "node/runtime/system/failure.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "node/cluster/wire/peer_wire.h"

enum { NAMES_LEN = 900, POINT_NONE = FAILPOINT_COUNT, VNODES_MAX = 65536 };

/* One row a kind of record: the points at which a frame with such a record is about to leave, has
 * left, has arrived. */
static const struct {
    enum peer_record_type type;
    int points[3];
} rows[] = {
    {PEER_SLOT, {FAILPOINT_SLOT_BEFORE_SEND, FAILPOINT_SLOT_AFTER_SEND, POINT_NONE}},
    {PEER_ACK, {FAILPOINT_ACK_BEFORE_SEND, POINT_NONE, POINT_NONE}},
    {PEER_HELD, {FAILPOINT_HELD_BEFORE_SEND, POINT_NONE, FAILPOINT_HELD_AFTER_RECEIVE}},
    {PEER_TRANSFER,
     {FAILPOINT_PASS_BEFORE_SEND, FAILPOINT_PASS_AFTER_SEND, FAILPOINT_PASS_AFTER_RECEIVE}},
    {PEER_OPENED, {FAILPOINT_OPENED_BEFORE_SEND, FAILPOINT_OPENED_AFTER_SEND, POINT_NONE}},
    {PEER_WATERMARK, {POINT_NONE, FAILPOINT_MARK_AFTER_SEND, POINT_NONE}},
    {PEER_DIVERGED, {FAILPOINT_DIVERGED_BEFORE_SEND, FAILPOINT_DIVERGED_AFTER_SEND, POINT_NONE}},
    {PEER_MERGED, {FAILPOINT_MERGED_BEFORE_SEND, POINT_NONE, FAILPOINT_MERGED_AFTER_RECEIVE}},
    {PEER_ANSWER, {FAILPOINT_ANSWER_BEFORE_SEND, POINT_NONE, POINT_NONE}},
};

static_assert(FAILPOINT_COUNT < 32, "a frame's points fit into one word");

static void wait_sent(void)
{
    const struct timespec moment = {.tv_nsec = FAILURE_SENT_MS * 1000000L};

    (void)nanosleep(&moment, NULL);
}

/* Whether what was sent shall leave the process before it ends. */
static bool is_after_send(enum failpoint point)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].points[FAILURE_SENT] == (int)point)
            return true;
    return false;
}

static void reach(void *context, enum failpoint point)
{
    struct failure *failure = context;

    ASSERT(failure->point < FAILPOINT_COUNT && point < FAILPOINT_COUNT);
    if (point != failure->point || atomic_fetch_sub(&failure->left, 1) != 1)
        return; /* FAILURE-2; what comes after the end wraps around and is never 1 again */
    if (is_after_send(point))
        wait_sent();
    failure->end();
}

static void end(void)
{
    (void)raise(SIGKILL);
}

static void say_names(const struct log *log, const char *text)
{
    char names[NAMES_LEN];
    size_t len = 0;

    for (int i = 0; i < FAILPOINT_COUNT && len < sizeof names; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, " %s",
                                failpoint_name((enum failpoint)i));
    log_printf(log, LOG_LEVEL_ERROR,
               FAILURE_VARIABLE " is \"%.100s\"; expected NAME:N, with one of:%s", text, names);
}

int failure_init(struct failure *failure, const char *text, const struct log *log)
{
    uint64_t times;

    *failure = (struct failure){.log = log, .end = end};
    failure->failpoints = (struct failpoints){.reach = reach, .context = failure};
    if (failpoint_parse(text, &failure->point, &times) != TG_OK) {
        say_names(log, text);
        return TG_EINVALID;
    }
    atomic_store(&failure->left, times);
    log_printf(log, LOG_LEVEL_WARN,
               FAILURE_VARIABLE ": THIS NODE WILL KILL ITSELF at visit %" PRIu64 " of %s; "
                                "never set it outside a test",
               times, failpoint_name(failure->point));
    return TG_OK;
}

void failure_meta(const struct failpoints *failpoints, bool kept, const char *key)
{
    if (failpoints == NULL)
        return;
    if (strcmp(key, "ring.register") == 0)
        failpoint_reach(failpoints,
                        kept ? FAILPOINT_REGISTER_AFTER_COMMIT : FAILPOINT_REGISTER_BEFORE_COMMIT);
    else if (strcmp(key, "ring.config") == 0)
        failpoint_reach(failpoints,
                        kept ? FAILPOINT_CONFIG_AFTER_COMMIT : FAILPOINT_CONFIG_BEFORE_COMMIT);
}

/* The points of the records in a frame, as bits. */
static uint32_t points_of(enum failure_frame when, const void *frame, size_t len)
{
    struct peer_envelope envelope;
    struct bytes_reader reader;
    struct peer_record record;
    uint32_t points = 0;

    if (peer_decode(frame, len, &envelope) != TG_OK)
        return 0;
    bytes_reader_init(&reader, envelope.records, envelope.len);
    while (peer_next(&reader, VNODES_MAX, &record) == 1)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (peer_says(&record, rows[i].type) && rows[i].points[when] != POINT_NONE)
                points |= UINT32_C(1) << rows[i].points[when];
    return points;
}

void failure_frame(const struct failpoints *failpoints, enum failure_frame when, const void *frame,
                   size_t len)
{
    if (failpoints == NULL)
        return;
    const uint32_t points = points_of(when, frame, len);
    ASSERT(points >> FAILPOINT_COUNT == 0);
    for (int i = 0; i < FAILPOINT_COUNT; i++)
        if ((points & UINT32_C(1) << i) != 0)
            failpoint_reach(failpoints, (enum failpoint)i); /* FAILURE-1 */
}
