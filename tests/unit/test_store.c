/* test_store.c - the store's contract, one promise a test. */
#include "tests/unit/test_store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

/* What was written is read back, before and after the store was opened again. */
static void a_record_survives_reopening(void **state)
{
    struct fixture *f = *state;
    uint8_t buffer[64];
    struct store_record found;
    struct store_vnode_header header;
    const struct store_record record = fixture_record(1, 5000, "twelve bytes", 12);
    fixture_open(f, NULL);
    assert_int_equal(fixture_write(f->store, 7, 42, &record, 1, 1000), 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(store_read_slot(f->store, 7, record.id, buffer, sizeof(buffer), &found),
                         0);
        assert_int_equal(found.len, 12);
        assert_memory_equal(found.state, "twelve bytes", 12);
        assert_int_equal(found.expires_ms, 5000);
        assert_int_equal(store_vnode_header(f->store, 7, &header), 0);
        assert_int_equal(header.epoch, 1);
        assert_int_equal(header.number, 2);
        assert_int_equal(header.writer, 3);
        assert_int_equal(header.seq, 42);
        store_close(&f->store);
        fixture_open(f, NULL);
    }
}

/* Neither another vnode nor another id sees a record; a vnode never written has no header. */
static void an_absent_slot_is_not_found(void **state)
{
    struct fixture *f = *state;
    uint8_t buffer[8];
    struct store_record found;
    struct store_vnode_header header;
    const struct store_record record = fixture_record(1, 5000, "x", 1);
    fixture_open(f, NULL);
    assert_int_equal(store_read_slot(f->store, 7, record.id, buffer, 8, &found), TG_ENOTFOUND);
    assert_int_equal(fixture_write(f->store, 7, 1, &record, 1, 0), 0);
    assert_int_equal(store_read_slot(f->store, 8, record.id, buffer, 8, &found), TG_ENOTFOUND);
    assert_int_equal(store_read_slot(f->store, 6, record.id, buffer, 8, &found), TG_ENOTFOUND);
    assert_int_equal(store_read_slot(f->store, 7, fixture_id(2), buffer, 8, &found), TG_ENOTFOUND);
    assert_int_equal(store_vnode_header(f->store, 8, &header), TG_ENOTFOUND);
}

/* A later write of an id replaces the earlier one and leaves its neighbours; within a batch the
 * last one wins. */
static void a_write_replaces_only_its_own_ids(void **state)
{
    struct fixture *f = *state;
    uint8_t buffer[16];
    struct store_record found;
    struct store_record records[50];
    fixture_open(f, NULL);
    for (uint64_t i = 0; i < 50; i++) {
        records[i] = fixture_record(i, STORE_EXPIRES_NEVER, "old", 3);
    }
    assert_int_equal(fixture_write(f->store, 0, 1, records, 50, 0), 0);
    const struct store_record changes[] = {fixture_record(9, 77, "first", 5),
                                           fixture_record(9, 78, "newer", 5)};
    assert_int_equal(fixture_write(f->store, 0, 2, changes, 2, 0), 0);
    for (uint64_t i = 0; i < 50; i++) {
        assert_int_equal(store_read_slot(f->store, 0, fixture_id(i), buffer, 16, &found), 0);
        assert_int_equal(found.len, i == 9 ? 5 : 3);
        assert_memory_equal(found.state, i == 9 ? "newer" : "old", found.len);
        assert_true(found.expires_ms == (i == 9 ? 78 : STORE_EXPIRES_NEVER));
    }
}

/* An expired record removes its slot, and a merge drops its expired neighbours. */
static void expired_records_vanish_with_the_next_write(void **state)
{
    struct fixture *f = *state;
    uint8_t buffer[16];
    struct store_record found;
    const struct store_record first[] = {fixture_record(1, 100, "a", 1),
                                         fixture_record(2, 900, "b", 1),
                                         fixture_record(3, 900, "c", 1)};
    const struct store_record reset = fixture_record(2, 0, NULL, 0);
    fixture_open(f, NULL);
    assert_int_equal(fixture_write(f->store, 0, 1, first, 3, 50), 0);
    assert_int_equal(fixture_write(f->store, 0, 2, &reset, 1, 100), 0);
    assert_int_equal(store_read_slot(f->store, 0, fixture_id(1), buffer, 16, &found), TG_ENOTFOUND);
    assert_int_equal(store_read_slot(f->store, 0, fixture_id(2), buffer, 16, &found), TG_ENOTFOUND);
    assert_int_equal(store_read_slot(f->store, 0, fixture_id(3), buffer, 16, &found), 0);
}

/* drop_all forgets one vnode, header and all, and what the same batch brings is written after that.
 */
static void dropping_a_vnode_leaves_the_others(void **state)
{
    struct fixture *f = *state;
    uint8_t buffer[16];
    struct store_record found;
    struct store_vnode_header header;
    fixture_open(f, NULL);
    for (uint32_t vnode = 4; vnode <= 6; vnode++) {
        for (uint64_t i = 0; i < 400; i++) {
            const struct store_record record = fixture_record(i, 900, "0123456789", 10);
            if (i % 100 == 0) {
                assert_int_equal(fixture_write(f->store, vnode, i, &record, 1, 0), 0);
            }
        }
    }
    const struct store_record fresh = fixture_record(555, 900, "f", 1);
    const struct store_vnode_batch drop = {
        .vnode = 5, .drop_all = true, .records = &fresh, .count = 1};
    assert_int_equal(store_write(f->store, &drop, 1, 0), 0);
    assert_int_equal(store_vnode_header(f->store, 5, &header), TG_ENOTFOUND);
    assert_int_equal(store_read_slot(f->store, 5, fixture_id(100), buffer, 16, &found),
                     TG_ENOTFOUND);
    assert_int_equal(store_read_slot(f->store, 5, fixture_id(555), buffer, 16, &found), 0);
    for (uint32_t vnode = 4; vnode <= 6; vnode += 2) {
        assert_int_equal(store_vnode_header(f->store, vnode, &header), 0);
        assert_int_equal(store_read_slot(f->store, vnode, fixture_id(100), buffer, 16, &found), 0);
    }
}

/* The largest state is stored and read; one byte more is refused and changes nothing. */
static void a_state_has_a_largest_size(void **state)
{
    struct fixture *f = *state;
    static uint8_t big[STORE_STATE_MAX + 1];
    static uint8_t buffer[STORE_STATE_MAX];
    struct store_record found;
    memset(big, 0xab, sizeof(big));
    fixture_open(f, NULL);
    const struct store_record records[] = {fixture_record(1, 900, "x", 1),
                                           fixture_record(2, 900, big, STORE_STATE_MAX),
                                           fixture_record(3, 900, "y", 1)};
    assert_int_equal(fixture_write(f->store, 0, 1, records, 3, 0), 0);
    assert_int_equal(store_read_slot(f->store, 0, fixture_id(2), buffer, sizeof(buffer), &found),
                     0);
    assert_int_equal(found.len, STORE_STATE_MAX);
    assert_memory_equal(found.state, big, STORE_STATE_MAX);
    assert_int_equal(store_read_slot(f->store, 0, fixture_id(2), buffer, 100, &found), TG_ETOOBIG);
    const struct store_record refused = fixture_record(1, 900, big, STORE_STATE_MAX + 1);
    assert_int_equal(fixture_write(f->store, 0, 2, &refused, 1, 0), TG_ETOOBIG);
    assert_int_equal(store_read_slot(f->store, 0, fixture_id(1), buffer, 100, &found), 0);
    assert_int_equal(found.len, 1);
}

/* A batch of reads gives each slot its own result, and says which did not fit. */
static void many_slots_are_read_at_once(void **state)
{
    struct fixture *f = *state;
    uint8_t buffer[5];
    const struct store_record records[] = {fixture_record(1, 900, "aaa", 3),
                                           fixture_record(2, 900, "bbb", 3),
                                           fixture_record(3, 900, "cc", 2)};
    struct store_slot_read reads[] = {{.vnode = 1, .id = fixture_id(1)},
                                      {.vnode = 1, .id = fixture_id(9)},
                                      {.vnode = 1, .id = fixture_id(2)},
                                      {.vnode = 1, .id = fixture_id(3)}};
    fixture_open(f, NULL);
    assert_int_equal(fixture_write(f->store, 1, 1, records, 3, 0), 0);
    assert_int_equal(store_read_slots(f->store, reads, 4, buffer, sizeof(buffer)), 0);
    assert_int_equal(reads[0].result, 0);
    assert_memory_equal(reads[0].record.state, "aaa", 3);
    assert_int_equal(reads[1].result, TG_ENOTFOUND);
    assert_int_equal(reads[2].result, TG_ETOOBIG);
    assert_int_equal(reads[3].result, 0);
    assert_memory_equal(reads[3].record.state, "cc", 2);
}

/* A map far too small grows by itself, also while a reader is at work between the writes. */
static void a_full_map_grows(void **state)
{
    struct fixture *f = *state;
    static uint8_t filler[100000];
    struct store_stats stats;
    struct store_record found;
    static uint8_t buffer[sizeof(filler)];
    const struct store_options options = {.state_map_bytes = 256 << 10};
    fixture_open(f, &options);
    for (uint64_t i = 0; i < 40; i++) {
        const struct store_record record = fixture_record(i, 900, filler, sizeof(filler));
        assert_int_equal(fixture_write(f->store, (uint32_t)i, i, &record, 1, 0), 0);
        assert_int_equal(
            store_read_slot(f->store, 0, fixture_id(0), buffer, sizeof(buffer), &found), 0);
    }
    store_stats(f->store, &stats);
    assert_true(stats.growths >= 3);
    assert_true(stats.state_map_bytes >= 40 * sizeof(filler));
    assert_true(stats.state_used_bytes >= 40 * sizeof(filler));
    assert_true(stats.commits >= 40);
    assert_int_equal(stats.commit_fails, 0);
    assert_true(stats.last_commit_ns > 0);
}

/* At the bound of its map the store says FULL, keeps what it has, and takes writes again once slots
 * expire. */
static void at_its_bound_the_map_is_full_until_something_expires(void **state)
{
    struct fixture *f = *state;
    static uint8_t filler[60000];
    static uint8_t buffer[sizeof(filler)];
    struct store_record found;
    const struct store_options options = {.state_map_bytes = 512 << 10,
                                          .state_map_bytes_max = 1 << 20};
    fixture_open(f, &options);
    int result = 0;
    uint64_t written = 0;
    for (; result == 0 && written < 100; written++) {
        const struct store_record record = fixture_record(written, 900, filler, sizeof(filler));
        result = fixture_write(f->store, (uint32_t)written, 1, &record, 1, 0);
    }
    assert_int_equal(result, TG_EFULL);
    assert_true(written > 5 && written < 20);
    for (uint64_t i = 0; i + 1 < written; i++) {
        assert_int_equal(
            store_read_slot(f->store, (uint32_t)i, fixture_id(i), buffer, sizeof(buffer), &found),
            0);
    }
    const struct store_record later = fixture_record(500, 9000, filler, sizeof(filler));
    assert_int_equal(fixture_write(f->store, 1, 2, &later, 1, 1000), 0);
    assert_int_equal(store_read_slot(f->store, 1, fixture_id(500), buffer, sizeof(buffer), &found),
                     0);
}

struct reading {
    struct store *store;
    atomic_bool stop;
    uint32_t rounds;
    int result;
};

static void *read_until_stopped(void *argument)
{
    struct reading *reading = argument;
    static uint8_t buffer[100000];
    struct store_record found;
    do {
        reading->result =
            store_read_slot(reading->store, 0, fixture_id(0), buffer, sizeof(buffer), &found);
        reading->rounds++;
    } while (!atomic_load(&reading->stop) && reading->result == 0);
    return NULL;
}

/* The map grows although another thread reads all the time, and every read succeeds. */
static void the_map_grows_under_a_reader(void **state)
{
    struct fixture *f = *state;
    static uint8_t filler[100000];
    struct store_stats stats;
    pthread_t thread;
    const struct store_options options = {.state_map_bytes = 512 << 10};
    const struct store_record first = fixture_record(0, 900, filler, sizeof(filler));
    fixture_open(f, &options);
    assert_int_equal(fixture_write(f->store, 0, 1, &first, 1, 0), 0);
    struct reading reading = {.store = f->store};
    assert_int_equal(pthread_create(&thread, NULL, read_until_stopped, &reading), 0);
    for (uint64_t i = 1; i < 60; i++) {
        const struct store_record record = fixture_record(i, 900, filler, sizeof(filler));
        assert_int_equal(fixture_write(f->store, (uint32_t)i, i, &record, 1, 0), 0);
    }
    atomic_store(&reading.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(reading.result, 0);
    assert_true(reading.rounds > 0);
    store_stats(f->store, &stats);
    assert_true(stats.growths >= 3);
}

struct seen {
    uint64_t records;
    uint32_t vnodes;
    uint32_t last_vnode;
    uint32_t headers;
    int stop_after;
};

static int seen_records(void *context, uint32_t vnode, const struct store_vnode_header *header,
                        const struct store_record *records, size_t count, bool last)
{
    struct seen *seen = context;
    seen->records += count;
    for (size_t i = 1; i < count; i++) {
        assert_true(records[i - 1].id.hi < records[i].id.hi);
    }
    if (last) {
        assert_true(seen->vnodes == 0 || vnode > seen->last_vnode);
        seen->vnodes++;
        seen->headers += header != NULL;
        seen->last_vnode = vnode;
    }
    return seen->stop_after != 0 && seen->vnodes == (uint32_t)seen->stop_after ? 17 : 0;
}

/* A scan meets every vnode once, in order, with all its records in order, and stops when told. */
static void a_scan_meets_every_vnode_and_record(void **state)
{
    struct fixture *f = *state;
    struct store_record records[1000];
    struct seen seen = {0};
    fixture_open(f, NULL);
    for (uint64_t i = 0; i < 1000; i++) {
        records[i] = fixture_record(i, 900, "sixteen bytes ..", 16);
    }
    assert_int_equal(fixture_write(f->store, 9, 1, records, 1000, 0), 0);
    assert_int_equal(fixture_write(f->store, 3, 1, records, 1, 0), 0);
    assert_int_equal(fixture_write(f->store, 65535, 1, NULL, 0, 0), 0);
    const struct store_vnode_batch bare = {.vnode = 12, .records = records, .count = 2};
    assert_int_equal(store_write(f->store, &bare, 1, 0), 0);
    assert_int_equal(store_scan(f->store, STORE_VNODE_ALL, seen_records, &seen), 0);
    assert_int_equal(seen.vnodes, 4);
    assert_int_equal(seen.headers, 3);
    assert_int_equal(seen.records, 1003);
    seen = (struct seen){0};
    assert_int_equal(store_scan(f->store, 9, seen_records, &seen), 0);
    assert_int_equal(seen.records, 1000);
    seen = (struct seen){0};
    assert_int_equal(store_scan(f->store, 8, seen_records, &seen), 0);
    assert_int_equal(seen.vnodes, 0);
    seen = (struct seen){.stop_after = 2};
    assert_int_equal(store_scan(f->store, STORE_VNODE_ALL, seen_records, &seen), 17);
    assert_int_equal(seen.last_vnode, 9);
}

/* Lists a vnode in pieces of `capacity`; the ids come in order, and are counted. */
static size_t list_all(struct fixture *f, uint32_t vnode, uint64_t now_ms, size_t capacity)
{
    struct store_listing listing = {.vnode = vnode};
    struct hash128 ids[1000];
    struct hash128 before = {0, 0};
    size_t total = 0;
    while (!listing.complete) {
        size_t count = 0;
        assert_int_equal(store_list(f->store, &listing, now_ms, ids, capacity, &count), 0);
        assert_true(count <= capacity && (listing.complete || count == capacity));
        for (size_t i = 0; i < count; i++) {
            if (total + i > 0)
                assert_true(before.hi < ids[i].hi ||
                            (before.hi == ids[i].hi && before.lo < ids[i].lo));
            before = ids[i];
        }
        total += count;
    }
    return total;
}

/* Pieces of any size give each stored id of the vnode once, in order, and none that expired. */
static void a_listing_gives_every_living_id_once_in_order(void **state)
{
    static const size_t pieces[] = {1, 7, 500, 999, 1000};
    struct fixture *f = *state;
    struct store_record records[1000];
    fixture_open(f, NULL);
    for (uint64_t i = 0; i < 1000; i++) {
        records[i] = fixture_record(i, i % 4 == 0 ? 500 : 900, "sixteen bytes ..", 16);
    }
    records[1].id = (struct hash128){0, 0};
    records[2].id = (struct hash128){UINT64_MAX, UINT64_MAX};
    assert_int_equal(fixture_write(f->store, 9, 1, records, 1000, 0), 0);
    assert_int_equal(fixture_write(f->store, 10, 1, records, 3, 0), 0);
    assert_int_equal(fixture_write(f->store, 12, 1, NULL, 0, 0), 0);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
        assert_int_equal(list_all(f, 9, 0, pieces[i]), 1000);
        assert_int_equal(list_all(f, 9, 500, pieces[i]), 750);
        assert_int_equal(list_all(f, 9, 900, pieces[i]), 0);
        assert_int_equal(list_all(f, 10, 0, pieces[i]), 3);
    }
    assert_int_equal(list_all(f, 8, 0, 10), 0);
    assert_int_equal(list_all(f, 12, 0, 10), 0);
    assert_int_equal(list_all(f, 65535, 0, 10), 0);
}

struct left {
    uint64_t ids[8];
    uint32_t finished[8];
};

static void left_ids(void *context, uint32_t vnode, const struct hash128 *ids, size_t count,
                     bool last)
{
    struct left *left = context;
    assert_true(vnode < 8);
    assert_true(count <= STORE_IDS_MAX);
    for (size_t i = 1; i < count; i++) {
        assert_true(ids[i - 1].hi < ids[i].hi);
    }
    left->ids[vnode] += count;
    left->finished[vnode] += last;
}

/* A purge removes what expired in bounded steps, reports each vnode once a round, and joins the
 * crumbs. */
static void a_purge_goes_round_in_bounded_steps(void **state)
{
    struct fixture *f = *state;
    static struct store_record records[3000];
    struct left left = {{0}, {0}};
    struct seen seen = {0};
    struct store_purge_result purge = {0};
    uint64_t removed = 0;
    uint32_t chunks[2] = {0, 0};
    fixture_open(f, NULL);
    for (uint64_t i = 0; i < 3000; i++) {
        records[i] = fixture_record(i, i % 10 == 0 ? 900 : 100, "sixteen bytes ..", 16);
    }
    for (uint32_t vnode = 1; vnode < 5; vnode++) {
        assert_int_equal(fixture_write(f->store, vnode, 1, records, 3000, 0), 0);
    }
    assert_int_equal(fixture_write(f->store, 6, 1, NULL, 0, 0), 0);
    for (int round = 0; round < 2; round++) {
        int calls = 0;
        memset(&left, 0, sizeof(left));
        do {
            assert_int_equal(store_purge(f->store, 100, 2, left_ids, &left, &purge), 0);
            assert_true(purge.chunks <= 2 + 16);
            removed += purge.removed;
            chunks[round] += purge.chunks;
            assert_true(++calls < 100);
        } while (!purge.round_complete);
        assert_true(round == 1 || calls > 10);
        for (uint32_t vnode = 0; vnode < 8; vnode++) {
            const bool filled = vnode >= 1 && vnode < 5;
            assert_int_equal(left.finished[vnode], filled || vnode == 6);
            assert_int_equal(left.ids[vnode], filled ? 300 : 0);
        }
    }
    assert_int_equal(removed, 4 * 2700);
    assert_true(chunks[1] * 3 < chunks[0]);
    assert_int_equal(store_scan(f->store, STORE_VNODE_ALL, seen_records, &seen), 0);
    assert_int_equal(seen.records, 4 * 300);
}

/* The identity is kept, cannot be replaced by another one, and must make sense. */
static void the_identity_is_written_once(void **state)
{
    struct fixture *f = *state;
    struct store_identity identity;
    assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), 0);
    assert_int_equal(store_identity_get(f->store, &identity), TG_ENOTFOUND);
    struct store_identity wrong = fixture_identity();
    wrong.vnodes = 1000;
    assert_int_equal(store_identity_put(f->store, &wrong), TG_EINVALID);
    store_close(&f->store);
    fixture_open(f, NULL);
    store_close(&f->store);
    fixture_open(f, NULL);
    const struct store_identity expected = fixture_identity();
    assert_int_equal(store_identity_get(f->store, &identity), 0);
    assert_int_equal(identity.node_id, expected.node_id);
    assert_int_equal(identity.vnodes, expected.vnodes);
    assert_int_equal(identity.replicas, expected.replicas);
    assert_memory_equal(identity.cluster_id, expected.cluster_id, STORE_CLUSTER_ID_LEN);
    assert_memory_equal(&identity.secret, &expected.secret, HASH_KEY_LEN);
    assert_memory_equal(&identity.route_key, &expected.route_key, HASH_KEY_LEN);
    wrong = expected;
    wrong.node_id++;
    assert_int_equal(store_identity_put(f->store, &wrong), TG_ECONFLICT);
}

/* No incarnation is given twice, over restarts and refutations. */
static void the_incarnation_only_rises(void **state)
{
    struct fixture *f = *state;
    uint64_t incarnation = 0;
    fixture_open(f, NULL);
    assert_int_equal(store_next_incarnation(f->store, &incarnation), 0);
    assert_int_equal(incarnation, 1);
    assert_int_equal(store_raise_incarnation(f->store, 9), 0);
    assert_int_equal(store_raise_incarnation(f->store, 4), 0);
    store_close(&f->store);
    fixture_open(f, NULL);
    assert_int_equal(store_next_incarnation(f->store, &incarnation), 0);
    assert_int_equal(incarnation, 10);
}

static int count_item(void *context, const char *key, const void *data, size_t len)
{
    uint32_t *count = context;
    assert_true(strncmp(key, "promise/", 8) == 0);
    assert_memory_equal(data, "v", 1);
    assert_int_equal(len, 1);
    ++*count;
    return 0;
}

/* Values are set together, found by prefix, removed, and say their length when the buffer is short.
 */
static void meta_values_are_kept_by_key(void **state)
{
    struct fixture *f = *state;
    char buffer[16];
    size_t len = 0;
    uint32_t count = 0;
    const struct store_meta_item items[] = {{"promise/1", "v", 1},
                                            {"promise/2", "v", 1},
                                            {"ring", "configuration", 13},
                                            {"empty", "", 0}};
    fixture_open(f, NULL);
    assert_int_equal(store_meta_put_many(f->store, items, 4), 0);
    store_close(&f->store);
    fixture_open(f, NULL);
    assert_int_equal(store_meta_get(f->store, "ring", buffer, sizeof(buffer), &len), 0);
    assert_int_equal(len, 13);
    assert_memory_equal(buffer, "configuration", 13);
    assert_int_equal(store_meta_get(f->store, "ring", buffer, 5, &len), TG_ETOOBIG);
    assert_int_equal(len, 13);
    assert_int_equal(store_meta_get(f->store, "empty", buffer, 5, &len), 0);
    assert_int_equal(len, 0);
    assert_int_equal(store_meta_scan(f->store, "promise/", count_item, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(store_meta_put(f->store, "ring", NULL, 0), 0);
    assert_int_equal(store_meta_get(f->store, "ring", buffer, 16, &len), TG_ENOTFOUND);
    assert_int_equal(store_meta_get(f->store, "", buffer, 16, &len), TG_EINVALID);
    const struct store_meta_item half[] = {{"good", "v", 1}, {"", "v", 1}};
    assert_int_equal(store_meta_put_many(f->store, half, 2), TG_EINVALID);
    assert_int_equal(store_meta_get(f->store, "good", buffer, 16, &len), TG_ENOTFOUND);
}

/* A second opener is refused with a message that names the directory, in this process or another.
 */
static void an_open_store_is_locked(void **state)
{
    struct fixture *f = *state;
    struct store *second = NULL;
    int status = 0;
    fixture_open(f, NULL);
    assert_int_equal(store_open(f->dir, NULL, &second, f->error), TG_EEXISTS);
    assert_null(second);
    assert_non_null(strstr(f->error, f->dir));
    assert_non_null(strstr(f->error, "in use by process"));
    const pid_t child = fork();
    if (child == 0) {
        char error[STORE_ERROR_LEN];
        _exit(store_open(f->dir, NULL, &second, error) == TG_EEXISTS ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    store_close(&f->store);
    fixture_open(f, NULL);
}

/* Setting aside moves the state to a fresh sibling, and keeps what the node is and promised, of
 * which the sibling gets a copy. */
static void setting_aside_keeps_whole_meta_values(void **state)
{
    struct fixture *f = *state;
    char moved[FIXTURE_PATH_LEN];
    char path[256];
    bool kept = false;
    uint64_t incarnation = 0;
    struct store_vnode_header header;
    const struct store_record record = fixture_record(1, 900, "x", 1);
    const struct store_journal_record slot = {
        .vnode = 7, .kind = STORE_JOURNAL_SLOT, .slot = fixture_record(7, 900, "accepted", 8)};
    uint8_t buffer[8];
    struct store_record found;
    assert_int_equal(store_set_aside(f->dir, false, &kept, moved, sizeof(moved), f->error),
                     TG_ENOTFOUND);
    for (int number = 1; number <= 2; number++) {
        fixture_open(f, NULL);
        assert_int_equal(store_next_incarnation(f->store, &incarnation), 0);
        assert_int_equal(incarnation, number);
        assert_int_equal(fixture_write(f->store, 5, 1, &record, 1, 0), 0);
        assert_int_equal(store_journal_write(f->store, &slot, 1), 0);
        assert_int_equal(store_set_aside(f->dir, false, &kept, moved, sizeof(moved), f->error),
                         TG_EEXISTS);
        store_close(&f->store);
        assert_int_equal(store_set_aside(f->dir, false, &kept, moved, sizeof(moved), f->error), 0);
        assert_true(kept);
        (void)snprintf(path, sizeof(path), "%s.set-aside-%d", f->dir, number);
        assert_string_equal(moved, path);
        assert_int_equal(store_open(moved, NULL, &f->store, f->error), 0);
        assert_int_equal(store_vnode_header(f->store, 5, &header), 0);
        store_close(&f->store);
        fixture_open(f, NULL); /* the same identity again: there it is */
        assert_int_equal(store_vnode_header(f->store, 5, &header), TG_ENOTFOUND);
        assert_int_equal(store_journal_get(f->store, 7, fixture_id(7), buffer, 8, &found), 0);
        store_close(&f->store);
    }
}

/* If any meta value or journal record is damaged, all of them go: the next store has no identity,
 * because nobody knows what was promised under the old one. */
static void setting_aside_damaged_meta_values_begins_a_new_node(void **state)
{
    struct fixture *f = *state;
    static const char *const victims[] = {"value to damage", "state to damage", "cccccccccccccccc"};
    for (size_t i = 0; i < 3; i++) {
        char moved[FIXTURE_PATH_LEN];
        bool kept = true;
        struct store_identity identity;
        const struct store_journal_record slot = {
            .vnode = 7, .kind = STORE_JOURNAL_SLOT, .slot = fixture_record(7, 900, victims[1], 15)};
        identity = fixture_identity();
        memset(identity.cluster_id, 'c', sizeof(identity.cluster_id));
        assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), 0);
        assert_int_equal(store_identity_put(f->store, &identity), 0);
        assert_int_equal(store_meta_put(f->store, "key", victims[0], 15), 0);
        assert_int_equal(store_journal_write(f->store, &slot, 1), 0);
        store_close(&f->store);
        fixture_patch_meta(f, victims[i], "damaged");
        assert_int_equal(store_set_aside(f->dir, false, &kept, moved, sizeof(moved), f->error), 0);
        assert_false(kept);
        assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), 0);
        assert_int_equal(store_identity_get(f->store, &identity), TG_ENOTFOUND);
        store_close(&f->store);
    }
}

/* A backup taken from an open store opens as a store with the same contents. */
static void a_backup_opens_as_a_store(void **state)
{
    struct fixture *f = *state;
    char copy[FIXTURE_PATH_LEN];
    uint8_t buffer[8];
    struct store_record found;
    const struct store_record record = fixture_record(1, 900, "kept", 4);
    const struct store_record later = fixture_record(2, 900, "late", 4);
    fixture_open(f, NULL);
    assert_int_equal(fixture_write(f->store, 1, 1, &record, 1, 0), 0);
    (void)snprintf(copy, sizeof(copy), "%s/copy", f->root);
    assert_int_equal(mkdir(copy, 0700), 0);
    assert_int_equal(store_backup(f->store, copy), 0);
    assert_int_equal(store_backup(f->store, copy), TG_EEXISTS);
    assert_int_equal(fixture_write(f->store, 1, 2, &later, 1, 0), 0);
    store_close(&f->store);
    (void)snprintf(f->dir, sizeof(f->dir), "%s/copy", f->root);
    fixture_open(f, NULL);
    assert_int_equal(store_read_slot(f->store, 1, fixture_id(1), buffer, 8, &found), 0);
    assert_memory_equal(found.state, "kept", 4);
    assert_int_equal(store_read_slot(f->store, 1, fixture_id(2), buffer, 8, &found), TG_ENOTFOUND);
}

/* Bad arguments are refused before anything is written. */
static void bad_arguments_are_refused(void **state)
{
    struct fixture *f = *state;
    struct store *store = NULL;
    const struct store_record record = fixture_record(1, 900, "x", 1);
    char error[STORE_ERROR_LEN];
    assert_int_equal(store_open("", NULL, &store, error), TG_EINVALID);
    fixture_open(f, NULL);
    assert_int_equal(fixture_write(f->store, 65536, 1, &record, 1, 0), TG_EINVALID);
    store_last_error(f->store, error);
    assert_non_null(strstr(error, "65536"));
    assert_int_equal(store_write(f->store, NULL, 0, 0), 0);
    assert_int_equal(store_maintain(f->store), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_record_survives_reopening),
        STORE_TEST(an_absent_slot_is_not_found),
        STORE_TEST(a_write_replaces_only_its_own_ids),
        STORE_TEST(expired_records_vanish_with_the_next_write),
        STORE_TEST(dropping_a_vnode_leaves_the_others),
        STORE_TEST(a_state_has_a_largest_size),
        STORE_TEST(many_slots_are_read_at_once),
        STORE_TEST(a_full_map_grows),
        STORE_TEST(the_map_grows_under_a_reader),
        STORE_TEST(at_its_bound_the_map_is_full_until_something_expires),
        STORE_TEST(a_scan_meets_every_vnode_and_record),
        STORE_TEST(a_listing_gives_every_living_id_once_in_order),
        STORE_TEST(a_purge_goes_round_in_bounded_steps),
        STORE_TEST(the_identity_is_written_once),
        STORE_TEST(the_incarnation_only_rises),
        STORE_TEST(meta_values_are_kept_by_key),
        STORE_TEST(an_open_store_is_locked),
        STORE_TEST(setting_aside_keeps_whole_meta_values),
        STORE_TEST(setting_aside_damaged_meta_values_begins_a_new_node),
        STORE_TEST(a_backup_opens_as_a_store),
        STORE_TEST(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
