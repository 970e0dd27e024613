/* test_disk.c - the storage threads over a real store: order, bounds, failures, and what survives.
 */
#include "tests/unit/test_disk.h"

#include <dirent.h>
#include <limits.h>
#include <sys/resource.h>

/* ---- batches as shard_gather makes them ------------------------------------------------------ */

struct batch {
    struct shard_writes writes;
    struct shard_write *items;
    struct shard_write_header *headers;
    uint8_t *bytes;
};

static void batch_new(struct batch *batch, uint32_t items, uint32_t headers, size_t bytes)
{
    batch->items = calloc(items, sizeof(*batch->items));
    batch->headers = calloc(headers, sizeof(*batch->headers));
    batch->bytes = calloc(bytes, 1);
    assert_true(batch->items != NULL && batch->headers != NULL && batch->bytes != NULL);
    batch->writes = (struct shard_writes){.writes = batch->items,
                                          .capacity = items,
                                          .headers = batch->headers,
                                          .bytes = batch->bytes,
                                          .bytes_capacity = bytes};
}

static void batch_free(struct batch *batch)
{
    free(batch->items);
    free(batch->headers);
    free(batch->bytes);
}

/* A record whose state is its number, repeated as often as fits. */
static void batch_add(struct batch *batch, uint32_t vnode, uint32_t number, uint32_t len)
{
    struct shard_writes *writes = &batch->writes;

    assert_true(writes->count < writes->capacity);
    assert_true(writes->bytes_capacity - writes->bytes_len >= len);
    for (uint32_t i = 0; i + sizeof(number) <= len; i += (uint32_t)sizeof(number))
        memcpy(writes->bytes + writes->bytes_len + i, &number, sizeof(number));
    writes->writes[writes->count++] = (struct shard_write){.vnode = vnode,
                                                           .id = id_of(number),
                                                           .expires_ms = STORE_EXPIRES_NEVER,
                                                           .offset = (uint32_t)writes->bytes_len,
                                                           .len = len};
    writes->bytes_len += len;
}

static void batch_add_header(struct batch *batch, uint32_t vnode, uint64_t seq)
{
    batch->headers[batch->writes.header_count++] = (struct shard_write_header){
        .vnode = vnode, .state = {.epoch = 1, .number = 2, .writer = 3}, .seq = seq};
}

/* Writes one record of the vnode with a header, and waits. */
static bool write_one(struct fixture *f, uint32_t shard, uint32_t vnode, uint32_t number,
                      uint64_t seq)
{
    struct batch batch;

    batch_new(&batch, 1, 1, STATE_LEN);
    batch_add(&batch, vnode, number, STATE_LEN);
    batch_add_header(&batch, vnode, seq);
    disk_write(f->disk, shard, &batch.writes);
    const struct disk_result result = wait_result(f, shard);
    assert_int_equal(result.kind, DISK_WRITTEN);
    batch_free(&batch);
    return result.ok;
}

static struct disk_result load_one(struct fixture *f, uint32_t shard, uint32_t vnode,
                                   uint32_t number)
{
    assert_int_equal(disk_load(f->disk, shard, vnode, id_of(number)), 0);
    const struct disk_result result = wait_result(f, shard);
    assert_int_equal(result.kind, DISK_LOADED);
    assert_int_equal(result.vnode, vnode);
    assert_true(hash128_equal(result.id, id_of(number)));
    return result;
}

static void assert_state(const struct disk_result *result, uint32_t number, uint32_t len)
{
    uint32_t found;

    assert_int_equal(result->result, 0);
    assert_int_equal(result->len, len);
    memcpy(&found, result->bytes, sizeof(found));
    assert_int_equal(found, number);
    memcpy(&found, result->bytes + len - sizeof(found), sizeof(found));
    assert_int_equal(found, number);
}

/* How nice the thread of that name is; it has to be there. */
static int niceness_of(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    int found = INT_MAX;

    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[sizeof "/proc/self/task//comm" + sizeof task->d_name];
        char comm[32] = "";

        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(comm, sizeof comm, file) != NULL && strncmp(comm, name, strlen(name)) == 0)
            found = getpriority(PRIO_PROCESS, (id_t)strtoul(task->d_name, NULL, 10));
        (void)fclose(file);
    }
    (void)closedir(tasks);
    assert_int_not_equal(found, INT_MAX);
    return found;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Where processors are short, checks are decided before slots are written back; what a check waits
 * for, a load or a promise, is not put off. */
static void the_writer_steps_back_behind_those_who_decide_and_the_reader_does_not(void **state)
{
    struct fixture *f = *state;
    const int own = getpriority(PRIO_PROCESS, 0);

    open_store(f, NULL);
    start_disk(f);
    assert_true(write_one(f, 0, 2, 100, 7)); /* so its thread has begun */
    (void)load_one(f, 0, 2, 100);
    const int writer = niceness_of("disk-writer");
    assert_int_equal(writer, own + 5 < 19 ? own + 5 : 19);
    assert_int_equal(niceness_of("disk-reader"), own);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), own);
}

/* Each shard gets its own results: what it wrote is found, what nobody wrote is absent. */
static void two_shards_write_and_load_their_own(void **state)
{
    struct fixture *f = *state;
    struct store_vnode_header header;
    struct disk_stats stats;

    open_store(f, NULL);
    start_disk(f);
    assert_true(write_one(f, 0, 2, 100, 7));
    assert_true(write_one(f, 1, 3, 101, 8));
    struct disk_result result = load_one(f, 0, 2, 100);
    assert_state(&result, 100, STATE_LEN);
    result = load_one(f, 1, 3, 101);
    assert_state(&result, 101, STATE_LEN);
    result = load_one(f, 0, 2, 101);
    assert_int_equal(result.result, TG_ENOTFOUND);
    result = load_one(f, 1, 5, 101);
    assert_int_equal(result.result, TG_ENOTFOUND);
    assert_int_equal(store_vnode_header(f->store, 3, &header), 0);
    assert_int_equal(header.epoch, 1);
    assert_int_equal(header.number, 2);
    assert_int_equal(header.writer, 3);
    assert_int_equal(header.seq, 8);
    disk_stats(f->disk, &stats);
    assert_int_equal(stats.writes, 2);
    assert_int_equal(stats.records, 2);
    assert_int_equal(stats.loads, 4);
    assert_int_equal(stats.loads_found, 2);
    assert_false(stats.failing);
    assert_true(stats.last_commit_unix_ns > 0 && stats.last_commit_ns > 0);
    assert_false(disk_poll(f->disk, 0, &result));
}

/* A batch larger than a transaction arrives whole, and a vnode cut in two has its header. */
static void a_large_batch_is_written_in_chunks(void **state)
{
    enum { LEN = 250000, RECORDS = 80, VNODES = 3 };
    struct fixture *f = *state;
    struct batch batch;
    struct disk_stats stats;
    struct store_vnode_header header;

    open_store(f, NULL);
    start_disk(f);
    batch_new(&batch, RECORDS, VNODES, (size_t)RECORDS * LEN);
    for (uint32_t i = 0; i < RECORDS; i++)
        batch_add(&batch, i * VNODES / RECORDS, i, LEN);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        batch_add_header(&batch, vnode, 1000 + vnode);
    disk_write(f->disk, 0, &batch.writes);
    assert_true(wait_result(f, 0).ok);
    disk_stats(f->disk, &stats);
    assert_int_equal(stats.records, RECORDS);
    assert_true(stats.transactions >= (size_t)RECORDS * LEN / DISK_CHUNK_LEN);
    for (uint32_t i = 0; i < RECORDS; i += 13) {
        const struct disk_result result = load_one(f, 0, i * VNODES / RECORDS, i);
        assert_state(&result, i, LEN);
    }
    for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
        assert_int_equal(store_vnode_header(f->store, vnode, &header), 0);
        assert_int_equal(header.seq, 1000 + vnode);
    }
    batch_free(&batch);
}

/* WRITEBACK-3: between two transactions of a vnode whose claim fell its header claims nothing: a
 * crash there would leave slots of two histories under the old claim. Other claims stay true, for
 * what is stored of them is newer than they say. */
static void no_piece_of_a_vnode_is_written_under_a_claim_that_fell(void **state)
{
    enum { VNODE = 2, BIG = DISK_CHUNK_LEN + 4 };
    struct fixture *f = *state;
    struct store_vnode_header header;

    open_store(f, NULL);
    start_disk(f);
    for (uint32_t fell = 0; fell < 2; fell++) {
        struct batch batch;
        assert_true(write_one(f, 0, VNODE, 1, 50));
        batch_new(&batch, 2, 1, BIG + STATE_LEN);
        batch_add(&batch, VNODE, 10 + fell, STATE_LEN);
        batch_add(&batch, VNODE, 20, BIG); /* no transaction takes it: the writer stops there */
        batch_add_header(&batch, VNODE, 60);
        batch.headers[0].fell = fell != 0;
        disk_write(f->disk, 0, &batch.writes);
        assert_false(wait_result(f, 0).ok);
        const struct disk_result result = load_one(f, 0, VNODE, 10 + fell);
        assert_state(&result, 10 + fell, STATE_LEN);
        assert_int_equal(store_vnode_header(f->store, VNODE, &header), 0);
        assert_int_equal(header.seq, fell != 0 ? 0 : 50);
        assert_int_equal(header.epoch, fell != 0 ? 0 : 1);
        assert_int_equal(header.writer, fell != 0 ? 0 : 3);
        batch.writes.count = 1; /* without it the batch is whole */
        disk_write(f->disk, 0, &batch.writes);
        assert_true(wait_result(f, 0).ok);
        assert_int_equal(store_vnode_header(f->store, VNODE, &header), 0);
        assert_int_equal(header.seq, 60);
        assert_int_equal(header.epoch, 1);
        batch_free(&batch);
    }
}

/* A header without records (a vnode whose slots all expired) is written, wherever it lies. */
static void headers_without_records_are_written(void **state)
{
    struct fixture *f = *state;
    struct batch batch;
    struct store_vnode_header header;

    open_store(f, NULL);
    start_disk(f);
    batch_new(&batch, 1, 3, STATE_LEN);
    batch_add(&batch, 4, 1, STATE_LEN);
    batch_add_header(&batch, 2, 22);
    batch_add_header(&batch, 4, 44);
    batch_add_header(&batch, 6, 66);
    disk_write(f->disk, 0, &batch.writes);
    assert_true(wait_result(f, 0).ok);
    for (uint32_t vnode = 2; vnode <= 6; vnode += 2) {
        assert_int_equal(store_vnode_header(f->store, vnode, &header), 0);
        assert_int_equal(header.seq, vnode * 11);
    }
    const struct disk_result result = load_one(f, 0, 4, 1);
    assert_state(&result, 1, STATE_LEN);
    batch_free(&batch);
}

/* Every load out is answered once, big states included, and one more than the bound is refused. */
static void loads_are_bounded_and_all_answered(void **state)
{
    enum { LEN = 200000, BIG = 8 };
    struct fixture *f = *state;
    struct batch batch;
    bool answered[DISK_LOADS_MAX + DISK_REFUSED_MAX] = {false};
    uint32_t refused = 0;

    open_store(f, NULL);
    start_disk(f);
    batch_new(&batch, BIG, 1, (size_t)BIG * LEN);
    for (uint32_t i = 0; i < BIG; i++)
        batch_add(&batch, 0, i, LEN);
    batch_add_header(&batch, 0, 1);
    disk_write(f->disk, 0, &batch.writes);
    assert_true(wait_result(f, 0).ok);
    for (uint32_t i = 0; i < DISK_LOADS_MAX; i++)
        assert_int_equal(disk_load(f->disk, 0, 0, id_of(i)), 0);
    for (uint32_t i = 0; i < DISK_REFUSED_MAX; i++)
        assert_int_equal(disk_load(f->disk, 0, 0, id_of(DISK_LOADS_MAX + i)), 0);
    assert_int_equal(disk_load(f->disk, 0, 0, id_of(0)), TG_EBUSY);
    assert_int_equal(disk_load(f->disk, 1, 0, id_of(0)), 0);
    for (uint32_t i = 0; i < DISK_LOADS_MAX + DISK_REFUSED_MAX; i++) {
        const struct disk_result result = wait_result(f, 0);
        uint32_t number = 0;
        while (number < DISK_LOADS_MAX + DISK_REFUSED_MAX &&
               !hash128_equal(result.id, id_of(number)))
            number++;
        assert_true(number < DISK_LOADS_MAX + DISK_REFUSED_MAX);
        assert_false(answered[number]);
        answered[number] = true;
        refused += result.result == TG_EBUSY;
        if (number >= DISK_LOADS_MAX)
            assert_int_equal(result.result, TG_EBUSY);
        else if (number < BIG)
            assert_state(&result, number, LEN);
        else
            assert_int_equal(result.result, TG_ENOTFOUND);
    }
    assert_int_equal(refused, DISK_REFUSED_MAX);
    const struct disk_result other = wait_result(f, 1);
    assert_state(&other, 0, LEN);
    const struct disk_result again = load_one(f, 0, 0, 3);
    assert_state(&again, 3, LEN);
    batch_free(&batch);
}

/* Writes of many vnodes come mixed; each vnode's arrive, with its header, the last one of an id. */
static void writes_come_in_any_order(void **state)
{
    enum { RECORDS = 3000, VNODES = 64 };
    struct fixture *f = *state;
    struct batch batch;
    struct store_vnode_header header;

    open_store(f, NULL);
    start_disk(f);
    batch_new(&batch, RECORDS + 1, VNODES, (size_t)(RECORDS + 1) * STATE_LEN);
    for (uint32_t i = 0; i < RECORDS; i++)
        batch_add(&batch, i * 37 % VNODES, i, STATE_LEN);
    batch_add(&batch, 5 * 37 % VNODES, 7777, STATE_LEN);
    batch.items[RECORDS].id = id_of(5); /* number 5 again, with another state */
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        batch_add_header(&batch, vnode, 100 + vnode);
    disk_write(f->disk, 0, &batch.writes);
    assert_true(wait_result(f, 0).ok);
    for (uint32_t i = 0; i < RECORDS; i += 11) {
        const struct disk_result result = load_one(f, 0, i * 37 % VNODES, i);
        assert_state(&result, i, STATE_LEN);
    }
    const struct disk_result again = load_one(f, 0, 5 * 37 % VNODES, 5);
    assert_state(&again, 7777, STATE_LEN);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
        assert_int_equal(store_vnode_header(f->store, vnode, &header), 0);
        assert_int_equal(header.seq, 100 + vnode);
    }
    batch_free(&batch);
}

/* Every id of the vnode comes once, in pieces, and a load is answered while the listing is out. */
static void a_listing_comes_in_bounded_pieces_between_loads(void **state)
{
    enum { RECORDS = 2 * DISK_LIST_IDS + 100, OTHERS = 50 };
    struct fixture *f = *state;
    struct batch batch;
    struct disk_stats stats;
    static bool listed[RECORDS];
    uint32_t pieces = 0;
    uint32_t loads = 0;
    bool last = false;

    memset(listed, 0, sizeof(listed));
    open_store(f, NULL);
    start_disk(f);
    batch_new(&batch, RECORDS + OTHERS, 1, (size_t)(RECORDS + OTHERS) * STATE_LEN);
    for (uint32_t i = 0; i < RECORDS + OTHERS; i++)
        batch_add(&batch, i < RECORDS ? 6 : 7, i, STATE_LEN);
    disk_write(f->disk, 0, &batch.writes);
    assert_true(wait_result(f, 0).ok);
    disk_list(f->disk, 0, 6);
    while (!last || loads > 0) {
        if (!last && loads == 0) {
            assert_int_equal(disk_load(f->disk, 0, 7, id_of(RECORDS)), 0);
            loads++;
        }
        const struct disk_result result = wait_result(f, 0);
        if (result.kind == DISK_LOADED) {
            assert_int_equal(result.result, 0);
            loads--;
            continue;
        }
        assert_int_equal(result.kind, DISK_LISTED);
        assert_int_equal(result.vnode, 6);
        assert_int_equal(result.result, 0);
        assert_true(result.count <= DISK_LIST_IDS);
        assert_false(last);
        for (size_t i = 0; i < result.count; i++) {
            uint32_t number = 0;
            while (number < RECORDS && !hash128_equal(result.ids[i], id_of(number)))
                number++;
            assert_true(number < RECORDS);
            assert_false(listed[number]);
            listed[number] = true;
        }
        pieces++;
        last = result.last;
    }
    for (uint32_t i = 0; i < RECORDS; i++)
        assert_true(listed[i]);
    assert_int_equal(pieces, 3);
    disk_list(f->disk, 0, 9); /* the next one, of a vnode without records */
    const struct disk_result empty = wait_result(f, 0);
    assert_true(empty.kind == DISK_LISTED && empty.last && empty.count == 0);
    disk_stats(f->disk, &stats);
    assert_int_equal(stats.listings, 2);
    batch_free(&batch);
}

/* A record whose time is over is left out of a listing, purged or not. */
static void what_expired_is_not_listed(void **state)
{
    struct fixture *f = *state;
    struct batch batch;

    open_store(f, NULL);
    batch_new(&batch, 2, 1, 2 * STATE_LEN);
    batch_add(&batch, 3, 1, STATE_LEN);
    batch_add(&batch, 3, 2, STATE_LEN);
    const struct store_record records[2] = {
        {.id = id_of(1), .expires_ms = 1000, .state = batch.bytes, .len = STATE_LEN},
        {.id = id_of(2), .expires_ms = STORE_EXPIRES_NEVER, .state = batch.bytes, .len = STATE_LEN},
    };
    const struct store_vnode_batch long_ago = {.vnode = 3, .records = records, .count = 2};
    assert_int_equal(store_write(f->store, &long_ago, 1, 0), 0);
    start_disk(f);
    disk_list(f->disk, 1, 3);
    const struct disk_result result = wait_result(f, 1);
    assert_int_equal(result.kind, DISK_LISTED);
    assert_int_equal(result.count, 1);
    assert_true(result.last && hash128_equal(result.ids[0], id_of(2)));
    batch_free(&batch);
}

/* Drops and writes of a shard keep their order: dropped then written is there, written then
 * dropped is gone, and other vnodes stay. */
static void drops_keep_their_place_among_writes(void **state)
{
    struct fixture *f = *state;
    struct batch batch;
    struct disk_stats stats;

    open_store(f, NULL);
    start_disk(f);
    for (uint32_t vnode = 10; vnode < 14; vnode++)
        assert_true(write_one(f, 0, vnode, vnode, 1));
    disk_drop(f->disk, 0, 10);
    disk_drop(f->disk, 0, 11);
    assert_true(write_one(f, 0, 11, 500, 2));
    batch_new(&batch, 1, 1, STATE_LEN);
    batch_add(&batch, 12, 600, STATE_LEN);
    disk_write(f->disk, 0, &batch.writes);
    disk_drop(f->disk, 0, 12); /* after the write, whether that is queued, running or done */
    assert_true(wait_result(f, 0).ok);
    assert_true(write_one(f, 0, 13, 700, 2)); /* whatever was to go before it has gone */
    assert_int_equal(load_one(f, 0, 10, 10).result, TG_ENOTFOUND);
    assert_int_equal(load_one(f, 0, 11, 11).result, TG_ENOTFOUND);
    assert_int_equal(load_one(f, 0, 11, 500).result, 0);
    assert_int_equal(load_one(f, 0, 12, 12).result, TG_ENOTFOUND);
    assert_int_equal(load_one(f, 0, 12, 600).result, TG_ENOTFOUND);
    assert_int_equal(load_one(f, 0, 13, 13).result, 0);
    disk_stats(f->disk, &stats);
    assert_int_equal(stats.drops, 3);
    batch_free(&batch);
}

/* A store that cannot take more says so once, keeps what it has, and serves again. */
static void a_full_store_fails_the_batch_and_recovers(void **state)
{
    enum { LEN = 100000, RECORDS = 40 };
    const struct store_options small = {.state_map_bytes = 1 << 20, .state_map_bytes_max = 1 << 20};
    struct fixture *f = *state;
    struct batch batch;
    struct disk_stats stats;

    open_store(f, &small);
    start_disk(f);
    assert_true(write_one(f, 0, 1, 1, 5));
    batch_new(&batch, RECORDS, 1, (size_t)RECORDS * LEN);
    for (uint32_t i = 0; i < RECORDS; i++)
        batch_add(&batch, 1, 1000 + i, LEN);
    batch_add_header(&batch, 1, 6);
    for (int i = 0; i < 3; i++) {
        disk_write(f->disk, 0, &batch.writes);
        const struct disk_result result = wait_result(f, 0);
        assert_int_equal(result.kind, DISK_WRITTEN);
        assert_false(result.ok);
    }
    disk_stats(f->disk, &stats);
    assert_true(stats.failing);
    assert_int_equal(stats.write_fails, 3);
    assert_int_equal(load_one(f, 0, 1, 1).result, 0);
    assert_int_equal(load_one(f, 0, 1, 1000).result, TG_ENOTFOUND);
    assert_true(write_one(f, 1, 1, 2, 7));
    disk_stats(f->disk, &stats);
    assert_false(stats.failing);
    disk_free(&f->disk); /* its threads have said all they had to say */
    assert_int_equal(f->errors, 1);
    assert_int_equal(f->infos, 1);
    batch_free(&batch);
}

/* What was handed over before the end is on disk after it, drops included. */
static void free_finishes_what_is_queued(void **state)
{
    struct fixture *f = *state;
    struct batch batches[SHARDS];
    uint8_t buffer[STATE_LEN];
    struct store_record found;

    open_store(f, NULL);
    start_disk(f);
    assert_true(write_one(f, 0, 20, 1, 1));
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        batch_new(&batches[shard], 1, 1, STATE_LEN);
        batch_add(&batches[shard], 30 + shard, 40 + shard, STATE_LEN);
        batch_add_header(&batches[shard], 30 + shard, 1);
        disk_write(f->disk, shard, &batches[shard].writes);
    }
    disk_drop(f->disk, 0, 20);
    assert_int_equal(disk_load(f->disk, 1, 20, id_of(1)), 0);
    disk_free(&f->disk);
    assert_null(f->disk);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        assert_int_equal(
            store_read_slot(f->store, 30 + shard, id_of(40 + shard), buffer, STATE_LEN, &found), 0);
        batch_free(&batches[shard]);
    }
    assert_int_equal(store_read_slot(f->store, 20, id_of(1), buffer, STATE_LEN, &found),
                     TG_ENOTFOUND);
}

/* Without a store nothing starts, and what a shard may still ask is answered at once. */
static void an_ephemeral_disk_keeps_nothing(void **state)
{
    struct fixture *f = *state;
    struct disk_result result;
    struct disk_stats stats;

    start_disk(f);
    disk_drop(f->disk, 1, 5);
    assert_int_equal(disk_load(f->disk, 0, 1, id_of(1)), TG_ENOTFOUND);
    assert_false(disk_poll(f->disk, 0, &result));
    disk_stats(f->disk, &stats);
    assert_int_equal(stats.writes, 0);
    assert_int_equal(f->wakes[0] + f->wakes[1], 0);
}

/* Whichever request for memory fails, nothing is left behind and no thread runs. */
static void running_out_of_memory_at_start_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct alloc_failing failing;
    size_t fail_at = 1;
    int result = TG_ENOMEM;

    open_store(f, NULL);
    for (; result != 0 && fail_at < 20; fail_at++) {
        alloc_failing_init(&failing, fail_at);
        const struct disk_options options = {.allocator = &failing.allocator,
                                             .store = f->store,
                                             .shard_count = SHARDS,
                                             .clock = &f->clock,
                                             .wake = wake,
                                             .context = f};
        result = disk_new(&options, &f->disk);
        assert_true(result == 0 || (result == TG_ENOMEM && f->disk == NULL));
        assert_true(result == 0 || failing.bytes_live == 0);
    }
    assert_int_equal(result, 0);
    assert_true(fail_at > 6);
    disk_free(&f->disk);
    assert_int_equal(failing.bytes_live, 0);
    const struct disk_options none = {.allocator = alloc_heap(), .shard_count = 0};
    const struct disk_options many = {.allocator = alloc_heap(),
                                      .shard_count = DISK_SHARDS_MAX + 1};
    assert_int_equal(disk_new(&none, &f->disk), TG_EINVALID);
    assert_int_equal(disk_new(&many, &f->disk), TG_EINVALID);
}

/* The bitmap behind the drops is a set: members in order, none lost at the edges of words. */
static void a_set_of_vnodes_keeps_its_members(void **state)
{
    static const uint32_t members[] = {0, 63, 64, 127, 4095, 65535};
    enum { MEMBERS = sizeof(members) / sizeof(members[0]) };
    static struct disk_set set;
    static struct disk_set other;
    uint32_t at = 0;

    (void)state;
    assert_int_equal(disk_set_next(&set, 0), DISK_VNODES_MAX);
    for (int i = MEMBERS - 1; i >= 0; i--) {
        disk_set_add(&set, members[i]);
        disk_set_add(&set, members[i]);
    }
    assert_int_equal(set.count, MEMBERS);
    disk_set_add(&other, 64);
    disk_set_move(&other, &set);
    assert_int_equal(set.count, 0);
    assert_int_equal(disk_set_next(&set, 0), DISK_VNODES_MAX);
    for (uint32_t i = 0; i < MEMBERS; i++, at++) {
        at = disk_set_next(&other, at);
        assert_int_equal(at, members[i]);
    }
    assert_int_equal(disk_set_next(&other, at), DISK_VNODES_MAX);
    disk_set_remove(&other, 63);
    disk_set_remove(&other, 63);
    assert_int_equal(other.count, MEMBERS - 1);
    assert_int_equal(disk_set_next(&other, 1), 64);
}

#define DISK_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DISK_TEST(two_shards_write_and_load_their_own),
        DISK_TEST(a_large_batch_is_written_in_chunks),
        DISK_TEST(headers_without_records_are_written),
        DISK_TEST(no_piece_of_a_vnode_is_written_under_a_claim_that_fell),
        DISK_TEST(loads_are_bounded_and_all_answered),
        DISK_TEST(writes_come_in_any_order),
        DISK_TEST(a_listing_comes_in_bounded_pieces_between_loads),
        DISK_TEST(what_expired_is_not_listed),
        DISK_TEST(drops_keep_their_place_among_writes),
        DISK_TEST(a_full_store_fails_the_batch_and_recovers),
        DISK_TEST(free_finishes_what_is_queued),
        DISK_TEST(an_ephemeral_disk_keeps_nothing),
        DISK_TEST(running_out_of_memory_at_start_leaves_nothing),
        DISK_TEST(the_writer_steps_back_behind_those_who_decide_and_the_reader_does_not),
        cmocka_unit_test(a_set_of_vnodes_keeps_its_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
