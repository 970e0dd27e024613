/* usage.c - totals of people and API keys: from the shards into a book, and from there to disk.
 *
 *   shard --+  each second, by message: an empty tally for the one that it has filled
 *   shard --+--> ledger (usage_ledger.h) --> each second a sixteenth of its chunks,
 *   shard --+                                those that changed, in one transaction
 *
 * So a request costs a probe in its shard's own memory, and neither a shard nor the control loop
 * waits for this write, but for what the store keeps meanwhile of promises, rings and settings: it
 * carries out one transaction at a time. A node that is killed forgets what it counted in the last
 * 17 seconds, on a disk that takes longer than a second for a round more; one that stops in order
 * forgets nothing.
 *
 * USAGE-1  A shard that has not given its tally back is not sent another one: there are two of
 *          each.
 * USAGE-2  One round is written at a time; what it is written from is the thread's meanwhile.
 * USAGE-3  What cannot be read or written is said in the log; limits do not depend on it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/usage/usage_ledger.h"
#include "node/policy/people/policy_join.h"
#include "node/runtime/control/daemon_state.h"

enum { ROUND = 64 /* chunks a second */, KEY_LEN = 24 };

/* Chunks on their way to disk (USAGE-2). */
struct usage_round {
    uv_work_t work;
    struct store *store;
    int error;
    size_t count;
    uint32_t chunks[ROUND];
    char keys[ROUND][KEY_LEN];
    struct store_meta_item items[ROUND];
    uint8_t bytes[ROUND][USAGE_CHUNK_LEN_MAX];
};

#define PREFIX   "usage."
#define PAUSE_NS INT64_C(1000000000)

/* ---- the disk -------------------------------------------------------------------------------- */

static int recall(void *context, const char *key, const void *data, size_t len)
{
    struct daemon *daemon = context;
    char *end;
    const unsigned long chunk = strtoul(key + strlen(PREFIX), &end, 10);
    const int error = *end != '\0' || chunk >= USAGE_CHUNKS
                          ? TG_ECORRUPT
                          : usage_ledger_restore(daemon->usage.book, (uint32_t)chunk, data, len);
    if (error != 0)
        log_printf(daemon->log, LOG_LEVEL_WARN, "totals of users and API keys in %s are lost: %s",
                   key, error_message(error));
    return 0;
}

int usage_open(struct daemon *daemon)
{
    struct usage *usage = &daemon->usage;
    usage->book = usage_ledger_new(alloc_heap());
    usage->round = malloc(sizeof *usage->round);
    if (usage->book == NULL || usage->round == NULL)
        return TG_ENOMEM;
    usage->round->work.data = daemon;
    usage->round->store = daemon->store;
    return daemon->store == NULL ? 0 : store_meta_scan(daemon->store, PREFIX, recall, daemon);
}

/* Takes what has changed of the next chunks. */
static void take_round(struct usage *usage)
{
    struct usage_round *round = usage->round;
    ASSERT(!usage->writing); /* USAGE-2 */
    round->count = 0;
    for (uint32_t i = 0; i < ROUND; i++) {
        const uint32_t chunk = (usage->chunk + i) % USAGE_CHUNKS;
        const size_t at = round->count;
        if (!usage_ledger_dirty(usage->book, chunk))
            continue;
        round->count++;
        round->chunks[at] = chunk;
        (void)snprintf(round->keys[at], KEY_LEN, PREFIX "%u", (unsigned)chunk);
        round->items[at] = (struct store_meta_item){
            .key = round->keys[at],
            .data = round->bytes[at],
            .len = usage_ledger_encode(usage->book, chunk, round->bytes[at])};
    }
    usage->chunk = (usage->chunk + ROUND) % USAGE_CHUNKS;
    ASSERT(round->count <= ROUND);
}

/* A thread of libuv, and at the end the control loop's. */
static void write_round(uv_work_t *work)
{
    struct usage_round *round = (struct usage_round *)(void *)work; /* its first member */
    round->error = store_meta_put_many(round->store, round->items, round->count);
}

static void end_round(uv_work_t *work, int status)
{
    struct daemon *daemon = work->data;
    struct usage *usage = &daemon->usage;
    const struct usage_round *round = usage->round;
    ASSERT(status == 0); /* nobody cancels it */
    usage->writing = false;
    if (round->error != 0 && !usage->failed)
        log_printf(daemon->log, LOG_LEVEL_ERROR,
                   "totals of users and API keys cannot be written: %s",
                   error_message(round->error));
    usage->failed = round->error != 0;
    for (size_t i = 0; round->error != 0 && i < round->count; i++)
        usage_ledger_retry(usage->book, round->chunks[i]);
}

static void begin_round(struct daemon *daemon)
{
    struct usage *usage = &daemon->usage;
    if (usage->writing || daemon->store == NULL)
        return;
    take_round(usage);
    if (usage->round->count == 0)
        return;
    usage->writing = true;
    const int error =
        uv_queue_work(&daemon->events.loop, &usage->round->work, write_round, end_round);
    ASSERT(error == 0); /* there is a function to call */
}

/* Writes all that has changed, here. */
static void write_rest(struct daemon *daemon)
{
    struct usage *usage = &daemon->usage;
    while (usage->writing) /* other events only wake the loop */
        (void)uv_run(&daemon->events.loop, UV_RUN_ONCE);
    for (uint32_t i = 0; daemon->store != NULL && i < USAGE_CHUNKS; i += ROUND) {
        take_round(usage);
        write_round(&usage->round->work);
        end_round(&usage->round->work, 0);
    }
}

/* ---- the shards ------------------------------------------------------------------------------ */

/* Sends the shard an empty tally, unless it has not answered the last one (USAGE-1). */
static void ask(struct daemon *daemon, uint32_t shard)
{
    struct usage *usage = &daemon->usage;
    ASSERT(shard < daemon->shard_count);
    if (usage->asked[shard])
        return;
    if (usage->spare[shard] == NULL)
        usage->spare[shard] = usage_tally_new(alloc_heap());
    const struct mailbox_message message = {.kind = MESSAGE_USAGE, .pointer = usage->spare[shard]};
    if (message.pointer == NULL ||
        !mailbox_put(shard_loop_mailbox(daemon->shards[shard]), &message))
        return;
    usage->spare[shard] = NULL;
    usage->begun[shard] = usage->asked[shard] = true;
}

void usage_take(struct daemon *daemon, const struct mailbox_message *message)
{
    struct usage *usage = &daemon->usage;
    struct usage_tally *tally = message->pointer;
    ASSERT(message->shard < CONFIG_SHARDS_MAX);
    usage->asked[message->shard] = false;
    if (tally == NULL)
        return;
    usage_ledger_add(usage->book, tally);
    usage_tally_clear(tally);
    usage_tally_free(&usage->spare[message->shard]);
    ASSERT(usage->spare[message->shard] == NULL); /* USAGE-1 */
    usage->spare[message->shard] = tally;
}

void usage_look(struct daemon *daemon)
{
    struct usage *usage = &daemon->usage;
    const int64_t now_ns = clock_now_ns(&daemon->clock);
    if (now_ns - usage->looked_ns < PAUSE_NS)
        return;
    usage->looked_ns = now_ns;
    const struct policy_joined *joined =
        policy_joined(daemon->rules.joined != NULL ? daemon->rules.joined : policy_empty());
    const bool wanted = joined->people != NULL || joined->api_keys != NULL;
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        if (wanted || !usage->begun[i]) /* before the first record: its first request counts */
            ask(daemon, i);
    begin_round(daemon);
}

/* ---- the end --------------------------------------------------------------------------------- */

void usage_close(struct daemon *daemon)
{
    struct usage *usage = &daemon->usage;
    struct mailbox_message message;
    while (daemon->mailbox.messages != NULL && mailbox_take(&daemon->mailbox, &message)) {
        if (message.kind == MESSAGE_USAGE)
            usage_take(daemon, &message);
        else
            free(message.pointer); /* nobody waits for an answer any more */
    }
    for (uint32_t i = 0; i < daemon->shard_count; i++) {
        message = (struct mailbox_message){.kind = MESSAGE_USAGE, .shard = i};
        while ((message.pointer = shard_loop_usage(daemon->shards[i])) != NULL)
            usage_take(daemon, &message);
    }
    if (usage->book != NULL && usage->round != NULL)
        write_rest(daemon);
    for (uint32_t i = 0; i < CONFIG_SHARDS_MAX; i++)
        usage_tally_free(&usage->spare[i]);
    usage_ledger_free(&usage->book);
    free(usage->round);
}
