/* usage.c - totals of people and API keys: from the shards into a book, and from there to disk.
 *
 *   shard --+  each second, by letter: an empty tally for the one that it has filled
 *   shard --+--> book (usage_book.h) --> each second a sixteenth of its chunks: those that changed,
 *   shard --+                            in one transaction
 *
 * So a request costs a probe in its shard's own memory, and no shard waits for another or for a
 * disk. A node that is killed forgets what it counted in the last 17 seconds; one that stops in
 * order forgets nothing.
 *
 * I1  A shard that has not given its tally back is not sent another one: there are two of each.
 * I2  What cannot be read or written is said in the log; limits do not depend on it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/cluster/usage_book.h"
#include "node/policy/policy_join.h"
#include "node/runtime/daemon_state.h"

enum { ROUND = 64 /* chunks a second */, KEY_LEN = 24 };

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
                          : usage_book_restore(daemon->usage.book, (uint32_t)chunk, data, len);
    if (error != 0)
        log_printf(daemon->log, LOG_LEVEL_WARN, "totals of users and API keys in %s are lost: %s",
                   key, error_message(error));
    return 0;
}

int usage_open(struct daemon *daemon)
{
    struct usage *usage = &daemon->usage;
    usage->book = usage_book_new(alloc_heap());
    usage->bytes = malloc((size_t)ROUND * USAGE_CHUNK_LEN_MAX);
    if (usage->book == NULL || usage->bytes == NULL)
        return TG_ENOMEM;
    return daemon->store == NULL ? 0 : store_meta_scan(daemon->store, PREFIX, recall, daemon);
}

/* Writes what has changed of the next chunks. */
static void write_round(struct daemon *daemon)
{
    struct usage *usage = &daemon->usage;
    char keys[ROUND][KEY_LEN];
    uint32_t chunks[ROUND];
    size_t count = 0;
    for (uint32_t i = 0; i < ROUND; i++) {
        const uint32_t chunk = (usage->chunk + i) % USAGE_CHUNKS;
        if (!usage_book_dirty(usage->book, chunk))
            continue;
        uint8_t *bytes = usage->bytes + count * USAGE_CHUNK_LEN_MAX;
        chunks[count] = chunk;
        (void)snprintf(keys[count], KEY_LEN, PREFIX "%u", (unsigned)chunk);
        daemon->items[count] = (struct store_meta_item){
            .key = keys[count], .data = bytes, .len = usage_book_encode(usage->book, chunk, bytes)};
        count++;
    }
    usage->chunk = (usage->chunk + ROUND) % USAGE_CHUNKS;
    if (count == 0 || daemon->store == NULL)
        return;
    const int error = store_meta_put_many(daemon->store, daemon->items, count);
    if (error != 0 && !usage->failed)
        log_printf(daemon->log, LOG_LEVEL_ERROR,
                   "totals of users and API keys cannot be written: %s", error_message(error));
    usage->failed = error != 0;
    for (size_t i = 0; error != 0 && i < count; i++)
        usage_book_retry(usage->book, chunks[i]);
}

/* ---- the shards ------------------------------------------------------------------------------ */

/* Sends the shard an empty tally, unless it has not answered the last one (I1). */
static void ask(struct daemon *daemon, uint32_t shard)
{
    struct usage *usage = &daemon->usage;
    if (usage->asked[shard])
        return;
    if (usage->spare[shard] == NULL)
        usage->spare[shard] = usage_tally_new(alloc_heap());
    const struct letter letter = {.kind = LETTER_USAGE, .pointer = usage->spare[shard]};
    if (letter.pointer == NULL || !mailbox_put(shard_loop_mailbox(daemon->shards[shard]), &letter))
        return;
    usage->spare[shard] = NULL;
    usage->begun[shard] = usage->asked[shard] = true;
}

void usage_take(struct daemon *daemon, const struct letter *letter)
{
    struct usage *usage = &daemon->usage;
    struct usage_tally *tally = letter->pointer;
    usage->asked[letter->shard] = false;
    if (tally == NULL)
        return;
    usage_book_add(usage->book, tally);
    usage_tally_clear(tally);
    usage_tally_free(&usage->spare[letter->shard]);
    usage->spare[letter->shard] = tally;
}

void usage_look(struct daemon *daemon)
{
    struct usage *usage = &daemon->usage;
    const int64_t now_ns = clock_now_ns(&daemon->clock);
    if (now_ns - usage->looked_ns < PAUSE_NS)
        return;
    usage->looked_ns = now_ns;
    const struct policy_joined *joined =
        policy_joined(daemon->policy != NULL ? daemon->policy : policy_empty());
    const bool wanted = joined->people != NULL || joined->api_keys != NULL;
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        if (wanted || !usage->begun[i]) /* before the first record: its first request counts */
            ask(daemon, i);
    write_round(daemon);
}

/* ---- the end --------------------------------------------------------------------------------- */

void usage_close(struct daemon *daemon)
{
    struct usage *usage = &daemon->usage;
    struct letter letter;
    while (daemon->mailbox.letters != NULL && mailbox_take(&daemon->mailbox, &letter)) {
        if (letter.kind == LETTER_USAGE)
            usage_take(daemon, &letter);
        else
            free(letter.pointer); /* nobody waits for an answer any more */
    }
    for (uint32_t i = 0; i < daemon->shard_count; i++) {
        letter = (struct letter){.kind = LETTER_USAGE, .shard = i};
        while ((letter.pointer = shard_loop_usage(daemon->shards[i])) != NULL)
            usage_take(daemon, &letter);
    }
    const bool opened = usage->book != NULL && usage->bytes != NULL;
    for (uint32_t i = 0; opened && i < USAGE_CHUNKS; i += ROUND)
        write_round(daemon);
    for (uint32_t i = 0; i < CONFIG_SHARDS_MAX; i++)
        usage_tally_free(&usage->spare[i]);
    usage_book_free(&usage->book);
    free(usage->bytes);
}
