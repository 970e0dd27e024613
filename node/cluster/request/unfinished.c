/* unfinished.c - messages whose rules take longer to find than a turn may last.
 *
 *      turn 1                    turn 2                    turn 3
 *   [ message: items 0 .. 6 ] [ items 7 .. 19 | others ] [ items 20 .. 31: answered | others ]
 *
 * UNFINISHED-1  A turn finds rules for `turn_work` (RESOLVE-4), and for one item more. Half of that
 *               is for what is left of earlier turns, so new messages are not kept out by old ones.
 * UNFINISHED-2  Each waiting message gets a slice in turn: one that is costly holds up no cheap one
 *               for longer than a slice.
 * UNFINISHED-3  What is left when there is no room to wait is `busy`, and so is what is left when
 *               the rules have changed, or the client waits no longer (RESOLVE-3).
 * UNFINISHED-4  The message may be repeated while it waits. So what is left is gone on with as if
 *               it were repeated itself: whoever comes first decides, and the other is told the
 *               same.
 */
#include "node/cluster/request/unfinished.h"

#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard_state.h"

int unfinished_init(struct shard *shard)
{
    struct unfinished *unfinished = &shard->unfinished;
    unfinished->list = alloc_array(shard->allocator, UNFINISHED_MAX, sizeof *unfinished->list);
    return unfinished->list != NULL ? 0 : TG_ENOMEM;
}

static struct unfinished_message *at(const struct unfinished *unfinished, uint32_t i)
{
    ASSERT(i < UNFINISHED_MAX);
    return &unfinished->list[(unfinished->first + i) % UNFINISHED_MAX];
}

static void let_go(struct shard *shard, uint8_t *frame, uint32_t len)
{
    ASSERT(len <= shard->unfinished.bytes); /* UNFINISHED-5 */
    shard->unfinished.bytes -= len;
    alloc_put(shard->allocator, frame, len);
}

void unfinished_fini(struct shard *shard)
{
    struct unfinished *unfinished = &shard->unfinished;
    for (uint32_t i = 0; i < unfinished->count; i++)
        let_go(shard, at(unfinished, i)->frame, at(unfinished, i)->len);
    unfinished->count = 0;
    alloc_put(shard->allocator, unfinished->list, UNFINISHED_MAX * sizeof *unfinished->list);
}

/* A frame that outlives the event; NULL without room. */
static uint8_t *copy_of(struct shard *shard)
{
    struct unfinished *unfinished = &shard->unfinished;
    const uint32_t len = shard->message.len;
    if (len > UNFINISHED_BYTES_MAX - unfinished->bytes)
        return NULL;
    uint8_t *frame = alloc_get(shard->allocator, len);
    if (frame == NULL)
        return NULL;
    memcpy(frame, shard->message.frame, len);
    unfinished->bytes += len;
    return frame;
}

/* Puts the message at hand, whose request that is, in the queue. False without room. */
static bool keep(struct shard *shard, uint32_t item, uint32_t index)
{
    struct unfinished *unfinished = &shard->unfinished;
    if (unfinished->count == UNFINISHED_MAX || index == POOL_NONE)
        return false;
    uint8_t *frame = unfinished->frame != NULL ? unfinished->frame : copy_of(shard);
    if (frame == NULL)
        return false;
    unfinished->frame = NULL;
    *at(unfinished, unfinished->count++) =
        (struct unfinished_message){frame, shard->message.len, index, item, shard->message.work};
    return true;
}

bool unfinished_keep(struct shard *shard, uint32_t item)
{
    const uint32_t index = requests_current(shard);
    if (!keep(shard, item, index)) {
        shard->message.work = RESOLVE_WORK_MAX;
        return false;
    }
    struct request *request = pool_at(&shard->requests, index);
    ASSERT(item < request->count); /* UNFINISHED-5 */
    request->pending++;
    for (uint32_t i = item; i < request->count; i++)
        shard->rows[i] = (struct row){.pending_left = 1, .first_pending = POOL_NONE};
    shard->stats.unfinished++;
    return true;
}

/* Makes it the message at hand, with the rows that it had. */
static void take_up(struct shard *shard, const struct unfinished_message *left)
{
    char error[WIRE_ERROR_LEN];
    struct message *message = &shard->message;
    struct request *request = pool_at(&shard->requests, left->request);
    ASSERT(request->pending > 0 && left->item < request->count); /* REQUESTS-7 */
    const int result =
        wire_decode_checks(left->frame, left->len, &shard->checks_space, &message->checks, error);
    ASSERT(result == 0); /* it was read before */
    request->pending--;
    for (uint32_t i = 0; i < request->count; i++) {
        const struct row *block = pool_at(&shard->blocks, request->blocks[i / SHARD_ROW_BLOCK]);
        shard->rows[i] = block[i % SHARD_ROW_BLOCK];
    }
    message->connection = request->connection;
    message->request = left->request;
    message->explained = request->explained;
    message->frame = left->frame;
    message->len = left->len;
    message->work = left->work;
    if (request->policy != shard->policy || shard->now_ns >= request->deadline_ns)
        message->work = RESOLVE_WORK_MAX;     /* UNFINISHED-3 */
    message->checks.flags |= WIRE_FLAG_RETRY; /* UNFINISHED-4 */
    requests_flags(shard);
}

void unfinished_tick(struct shard *shard, struct effects *effects)
{
    struct unfinished *unfinished = &shard->unfinished;
    ASSERT(unfinished->frame == NULL && unfinished->bytes <= UNFINISHED_BYTES_MAX);
    shard->turn_work = 0;
    for (uint32_t n = unfinished->count; n > 0 && shard->turn_work < shard->options.turn_work / 2;
         n--) {
        if (!effects_fit(effects, WIRE_MESSAGE_MAX))
            return;
        const struct unfinished_message left = *at(unfinished, 0);
        unfinished->first = (unfinished->first + 1) % UNFINISHED_MAX;
        unfinished->count--;
        unfinished->frame = left.frame;
        take_up(shard, &left);
        requests_work(shard, left.item, effects);
        if (unfinished->frame != NULL)
            let_go(shard, unfinished->frame, left.len);
        unfinished->frame = NULL;
    }
}
