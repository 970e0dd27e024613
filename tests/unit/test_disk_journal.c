/* test_disk_journal.c - the journal thread over a real store: group commit, order, a full disk. */
#include "tests/unit/test_disk.h"

#include <signal.h>
#include <sys/resource.h>

enum { RECORDS_MAX = 64, BIG_LEN = 300000, BIG_RECORDS = 10, FILE_LEN_MAX = 1 << 20 };

/* A batch as a shard gathers it. */
struct batch {
    struct shard_journal journal;
    struct shard_journal_record records[RECORDS_MAX];
    uint8_t *bytes;
};

static void batch_new(struct batch *batch, size_t bytes)
{
    batch->bytes = calloc(bytes, 1);
    assert_non_null(batch->bytes);
    batch->journal = (struct shard_journal){.records = batch->records,
                                            .capacity = RECORDS_MAX,
                                            .bytes = batch->bytes,
                                            .bytes_capacity = bytes};
}

static struct shard_journal_record *batch_next(struct batch *batch, uint32_t vnode,
                                               enum shard_journal_kind kind)
{
    assert_true(batch->journal.count < RECORDS_MAX);
    struct shard_journal_record *record = &batch->records[batch->journal.count++];
    *record = (struct shard_journal_record){.vnode = vnode, .kind = (uint8_t)kind};
    return record;
}

/* A slot whose state is `len` bytes of its number. */
static void batch_slot(struct batch *batch, uint32_t vnode, uint32_t number, uint32_t len)
{
    struct shard_journal *journal = &batch->journal;
    struct shard_journal_record *record = batch_next(batch, vnode, JOURNAL_SLOT);

    assert_true(journal->bytes_capacity - journal->bytes_len >= len);
    record->id = id_of(number);
    record->expires_ms = STORE_EXPIRES_NEVER;
    record->offset = (uint32_t)journal->bytes_len;
    record->len = len;
    memset(journal->bytes + journal->bytes_len, (int)number, len);
    journal->bytes_len += len;
}

static void expect_slot(struct fixture *f, uint32_t vnode, uint32_t number, uint32_t len)
{
    static uint8_t buffer[BIG_LEN];
    struct store_record found;
    const int result =
        store_journal_get(f->store, vnode, id_of(number), buffer, sizeof(buffer), &found);

    assert_int_equal(result, len == 0 ? TG_ENOTFOUND : 0);
    if (len == 0)
        return;
    assert_int_equal(found.len, len);
    assert_int_equal(buffer[0], (uint8_t)number);
    assert_int_equal(buffer[len - 1], (uint8_t)number);
}

static bool wait_journaled(struct fixture *f, uint32_t shard)
{
    const struct disk_result result = wait_result(f, shard);

    assert_int_equal(result.kind, DISK_JOURNALED);
    return result.ok;
}

/* Queues batches of both shards so that the thread meets them at the same moment. */
static void queue_both(struct fixture *f, struct batch *batches)
{
    (void)pthread_mutex_lock(&f->disk->lock);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        f->disk->lanes[shard].journal = &batches[shard].journal;
        f->disk->lanes[shard].journal_state = WRITE_QUEUED;
    }
    (void)pthread_cond_signal(&f->disk->journal_work);
    (void)pthread_mutex_unlock(&f->disk->lock);
}

static uint64_t seen_promise;
static uint64_t seen_seq;

static int see(void *context, const struct store_journal_record *record)
{
    (void)context;
    if (record->kind == STORE_JOURNAL_PROMISE)
        seen_promise = record->header.number;
    if (record->kind == STORE_JOURNAL_HEADER)
        seen_seq = record->header.seq;
    return 0;
}

/* When a batch's result is polled, its promise, header and slots are on disk. */
static void a_polled_batch_is_on_disk(void **state)
{
    struct fixture *f = *state;
    struct batch batch;
    struct disk_stats stats;

    open_store(f, NULL);
    start_disk(f);
    batch_new(&batch, 100);
    batch_next(&batch, PLANE + 7, JOURNAL_PROMISE)->term = (struct term){1, 77, 3};
    batch_slot(&batch, PLANE + 7, 5, 20);
    struct shard_journal_record *header = batch_next(&batch, PLANE + 7, JOURNAL_HEADER);
    header->term = (struct term){1, 70, 3};
    header->seq = 4711;
    assert_true(disk_journal(f->disk, 1, &batch.journal));
    assert_true(wait_journaled(f, 1));
    expect_slot(f, PLANE + 7, 5, 20);
    assert_int_equal(store_journal_scan(f->store, see, NULL), 0);
    assert_int_equal(seen_promise, 77);
    assert_int_equal(seen_seq, 4711);
    disk_stats(f->disk, &stats);
    assert_int_equal(stats.journal_batches, 1);
    assert_int_equal(stats.journal_records, 3);
    assert_int_equal(stats.writes, 0);
    assert_true(stats.last_commit_unix_ns > 0);
    free(batch.bytes);
}

/* Batches of several shards that wait at the same time share one transaction. */
static void batches_that_wait_together_share_a_transaction(void **state)
{
    struct fixture *f = *state;
    struct batch batches[SHARDS];
    struct disk_stats stats;

    open_store(f, NULL);
    start_disk(f);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        batch_new(&batches[shard], 100);
        batch_slot(&batches[shard], PLANE + shard, shard + 1, 10);
    }
    queue_both(f, batches);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        assert_true(wait_journaled(f, shard));
        expect_slot(f, PLANE + shard, shard + 1, 10);
        free(batches[shard].bytes);
    }
    disk_stats(f->disk, &stats);
    assert_int_equal(stats.journal_transactions, 1);
    assert_int_equal(stats.journal_batches, 2);
}

/* Drops happen in the order in which they were asked for, batches between them. */
static void drops_and_batches_keep_their_order(void **state)
{
    struct fixture *f = *state;
    struct batch first;
    struct batch second;

    open_store(f, NULL);
    start_disk(f);
    for (int round = 0; round < 20; round++) {
        batch_new(&first, 100);
        batch_new(&second, 100);
        batch_slot(&first, PLANE + 4, 1, 10);
        batch_slot(&first, PLANE + 6, 1, 10);
        batch_slot(&second, PLANE + 4, 2, 10);
        assert_true(disk_journal(f->disk, 0, &first.journal));
        disk_drop(f->disk, 0, PLANE + 4);
        assert_true(wait_journaled(f, 0));
        assert_true(disk_journal(f->disk, 0, &second.journal));
        assert_true(wait_journaled(f, 0));
        expect_slot(f, PLANE + 4, 1, 0);
        expect_slot(f, PLANE + 4, 2, 10);
        expect_slot(f, PLANE + 6, 1, 10);
        free(first.bytes);
        free(second.bytes);
    }
}

/* Loads, listings and drops reach the state or the journal by the number of the vnode. */
static void each_plane_has_its_own_records(void **state)
{
    struct fixture *f = *state;
    struct batch batch;
    struct shard_write write = {
        .vnode = 3, .id = id_of(1), .expires_ms = STORE_EXPIRES_NEVER, .len = 5};
    uint8_t bytes[5] = "state";
    struct shard_writes writes = {
        .writes = &write, .count = 1, .capacity = 1, .bytes = bytes, .bytes_len = 5};
    struct disk_result result;
    bool seen[2] = {false, false};

    open_store(f, NULL);
    start_disk(f);
    batch_new(&batch, 100);
    batch_slot(&batch, PLANE + 3, 1, 10);
    batch_slot(&batch, PLANE + 3, 2, 10);
    assert_true(disk_journal(f->disk, 0, &batch.journal));
    assert_true(wait_journaled(f, 0));
    disk_write(f->disk, 0, &writes);
    assert_int_equal(wait_result(f, 0).kind, DISK_WRITTEN);
    assert_int_equal(disk_load(f->disk, 0, PLANE + 3, id_of(1)), 0);
    assert_int_equal(disk_load(f->disk, 0, 3, id_of(1)), 0);
    for (int i = 0; i < 2; i++) {
        result = wait_result(f, 0);
        assert_int_equal(result.kind, DISK_LOADED);
        assert_int_equal(result.result, 0);
        assert_int_equal(result.len, result.vnode == 3 ? 5 : 10);
        assert_int_equal(result.bytes[0], result.vnode == 3 ? 's' : 1);
        seen[result.vnode == 3] = true;
    }
    assert_true(seen[0] && seen[1]);
    disk_list(f->disk, 0, PLANE + 3);
    result = wait_result(f, 0);
    assert_int_equal(result.count, 2);
    disk_drop(f->disk, 0, 3);
    disk_list(f->disk, 0, PLANE + 3);
    result = wait_result(f, 0);
    assert_int_equal(result.count, 2);
    free(batch.bytes);
}

/* A batch that does not fit on the disk fails alone: the other shard's, queued with it, is kept.
 * The failure is counted and told once, and over when there is room. */
static void a_batch_that_does_not_fit_fails_alone(void **state)
{
    struct fixture *f = *state;
    struct batch batches[SHARDS];
    struct disk_stats stats;
    struct rlimit before;

    open_store(f, NULL);
    start_disk(f);
    batch_new(&batches[0], (size_t)BIG_LEN * BIG_RECORDS);
    batch_new(&batches[1], 100);
    for (uint32_t i = 0; i < BIG_RECORDS; i++)
        batch_slot(&batches[0], PLANE, i + 1, BIG_LEN);
    batch_slot(&batches[1], PLANE + 1, 1, 10);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {.rlim_cur = FILE_LEN_MAX, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int round = 0; round < 2; round++) {
        queue_both(f, batches);
        const bool big = wait_journaled(f, 0);
        const bool little = wait_journaled(f, 1);
        if (big || !little)
            (void)setrlimit(RLIMIT_FSIZE, &before);
        assert_false(big);
        assert_true(little);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    disk_stats(f->disk, &stats);
    assert_int_equal(stats.journal_fails, 2);
    assert_int_equal(stats.journal_batches, 2);
    expect_slot(f, PLANE, 1, 0);
    expect_slot(f, PLANE + 1, 1, 10);
    assert_true(f->errors >= 1);
    assert_true(disk_journal(f->disk, 0, &batches[0].journal));
    assert_true(wait_journaled(f, 0));
    expect_slot(f, PLANE, BIG_RECORDS, BIG_LEN);
    disk_stats(f->disk, &stats);
    assert_false(stats.journal_failing);
    free(batches[0].bytes);
    free(batches[1].bytes);
}

/* What is queued at the stop is finished, drops behind a batch included. */
static void stopping_finishes_what_is_queued(void **state)
{
    struct fixture *f = *state;
    struct batch batch;

    open_store(f, NULL);
    start_disk(f);
    batch_new(&batch, 100);
    batch_slot(&batch, PLANE + 4, 1, 10);
    batch_slot(&batch, PLANE + 6, 1, 10);
    assert_true(disk_journal(f->disk, 0, &batch.journal));
    disk_drop(f->disk, 0, PLANE + 4);
    disk_free(&f->disk);
    expect_slot(f, PLANE + 4, 1, 0);
    expect_slot(f, PLANE + 6, 1, 10);
    free(batch.bytes);
}

/* Without a store a batch is as durable as it will ever be: there is nothing to wait for. */
static void an_ephemeral_disk_takes_no_batch(void **state)
{
    struct fixture *f = *state;
    struct shard_journal journal = {.count = 0};
    struct disk_result result;

    start_disk(f);
    assert_false(disk_journal(f->disk, 0, &journal));
    assert_false(disk_poll(f->disk, 0, &result));
    disk_drop(f->disk, 0, PLANE + 1);
}

#define DISK_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DISK_TEST(a_polled_batch_is_on_disk),
        DISK_TEST(batches_that_wait_together_share_a_transaction),
        DISK_TEST(drops_and_batches_keep_their_order),
        DISK_TEST(each_plane_has_its_own_records),
        DISK_TEST(a_batch_that_does_not_fit_fails_alone),
        DISK_TEST(stopping_finishes_what_is_queued),
        DISK_TEST(an_ephemeral_disk_takes_no_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
