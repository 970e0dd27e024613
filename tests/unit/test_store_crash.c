/* test_store_crash.c - kills, full disks and damaged files. */
#include "tests/unit/test_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/bytes.h"
#include "base/random.h"
#include "storage/chunk.h"

enum {
    CRASH_KILLS = 20,
    CRASH_VNODES = 4,
    CRASH_KEYS = 300, /* per vnode */
    CRASH_ACKS_MAX = 40,
};

/* Writes generation after generation and says on `out` which one the store acknowledged. */
static void crash_child(const char *dir, uint64_t generation, int out)
{
    struct store *store = NULL;
    char error[STORE_ERROR_LEN];
    static struct store_record records[CRASH_KEYS];
    if (store_open(dir, NULL, &store, error) != 0) {
        _exit(1);
    }
    for (;; generation++) {
        struct store_vnode_batch batches[CRASH_VNODES];
        const struct store_vnode_header header = {.epoch = 1, .seq = generation};
        uint8_t bytes[8];
        memcpy(bytes, &generation, sizeof(bytes));
        for (uint64_t i = 0; i < CRASH_KEYS; i++) {
            records[i] = fixture_record(i, STORE_EXPIRES_NEVER, bytes, sizeof(bytes));
        }
        for (uint32_t v = 0; v < CRASH_VNODES; v++) {
            batches[v] = (struct store_vnode_batch){
                .vnode = v, .header = &header, .records = records, .count = CRASH_KEYS};
        }
        if (store_write(store, batches, CRASH_VNODES, 1) != 0 ||
            store_meta_put(store, "generation", bytes, sizeof(bytes)) != 0 ||
            write(out, &generation, sizeof(generation)) != sizeof(generation)) {
            _exit(2);
        }
    }
}

struct crash_seen {
    uint64_t generation;
    uint64_t records;
    uint32_t vnodes;
};

/* All of a vnode's records are of the generation that its header names, and all vnodes of the same.
 */
static int crash_records(void *context, uint32_t vnode, const struct store_vnode_header *header,
                         const struct store_record *records, size_t count, bool last)
{
    struct crash_seen *seen = context;
    assert_true(vnode < CRASH_VNODES);
    assert_non_null(header);
    if (seen->vnodes == 0 && seen->records == 0) {
        seen->generation = header->seq;
    }
    assert_int_equal(header->seq, seen->generation);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(records[i].len, 8);
        assert_memory_equal(records[i].state, &seen->generation, 8);
    }
    seen->records += count;
    seen->vnodes += last;
    return 0;
}

/* Every vnode is there whole, and so is the value that was written last. */
static uint64_t look_at_records(struct fixture *f, uint64_t told)
{
    struct crash_seen seen = {0};
    uint64_t last = 0;
    size_t len = 0;
    assert_int_equal(store_scan(f->store, STORE_VNODE_ALL, crash_records, &seen), 0);
    assert_int_equal(seen.vnodes, CRASH_VNODES);
    assert_int_equal(seen.records, CRASH_VNODES * CRASH_KEYS);
    assert_int_equal(store_meta_get(f->store, "generation", &last, 8, &len), 0);
    assert_true(last == told || last == told + 1);
    return seen.generation;
}

/* Whenever a writer is killed, every acknowledged batch is there, whole, and nothing is torn. */
static void a_killed_writer_loses_nothing_acknowledged(void **state)
{
    const struct fixture_kills plan = {5, CRASH_KILLS, CRASH_ACKS_MAX, crash_child,
                                       look_at_records};
    fixture_survive_kills(*state, &plan);
}

/* With no room for the file to grow, a write says FULL, what was there stays, and the same write
 * succeeds once there is. */
static void a_full_disk_is_an_error_that_passes(void **state)
{
    struct fixture *f = *state;
    static uint8_t filler[200000];
    static uint8_t buffer[sizeof(filler)];
    struct store_record found;
    struct rlimit before;
    uint64_t incarnation = 0;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
    memset(filler, 0x11, sizeof(filler));
    fixture_open(f, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int result = 0;
    uint32_t written = 0;
    while (result == 0 && written < 20) {
        const struct store_record record = fixture_record(written, 900, filler, sizeof(filler));
        result = fixture_write(f->store, written, 1, &record, 1, 0);
        written += result == 0;
    }
    const struct store_record refused = fixture_record(written, 900, filler, sizeof(filler));
    const int again = fixture_write(f->store, written, 1, &refused, 1, 0);
    const int meta = store_next_incarnation(f->store, &incarnation);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(result, TG_EFULL);
    assert_int_equal(again, result);
    assert_int_equal(meta, 0);
    assert_true(written >= 2 && written < 10);
    for (uint32_t i = 0; i < written; i++) {
        assert_int_equal(
            store_read_slot(f->store, i, fixture_id(i), buffer, sizeof(buffer), &found), 0);
        assert_memory_equal(found.state, filler, sizeof(filler));
    }
    assert_int_equal(fixture_write(f->store, written, 1, &refused, 1, 0), 0);
    store_close(&f->store);
    fixture_open(f, NULL);
    assert_int_equal(
        store_read_slot(f->store, written, fixture_id(written), buffer, sizeof(buffer), &found), 0);
}

/* Fills a store so that its state file has branch, leaf, overflow and free pages, and closes it. */
static void damage_prepare(struct fixture *f, char *path, size_t capacity)
{
    static struct store_record records[2000];
    for (uint64_t i = 0; i < 2000; i++) {
        records[i] = fixture_record(i, 900, "sixteen bytes ..", 16);
    }
    fixture_open(f, NULL);
    for (uint32_t vnode = 0; vnode < 12; vnode++) {
        assert_int_equal(fixture_write(f->store, vnode, 1, records, 2000, 0), 0);
    }
    assert_int_equal(fixture_write(f->store, 3, 2, records, 1000, 0), 0);
    store_close(&f->store);
    (void)snprintf(path, capacity, "%s/state/data.mdb", f->dir);
}

static int damage_scan(void *context, uint32_t vnode, const struct store_vnode_header *header,
                       const struct store_record *records, size_t count, bool last)
{
    uint64_t *total = context;
    (void)vnode, (void)header, (void)records, (void)last;
    *total += count;
    return 0;
}

/* A file cut anywhere is refused with its name, or still whole; it is never a signal. */
static void a_truncated_file_is_refused(void **state)
{
    struct fixture *f = *state;
    char path[FIXTURE_PATH_LEN];
    struct stat status;
    int refused = 0;
    damage_prepare(f, path, sizeof(path));
    assert_int_equal(stat(path, &status), 0);
    for (off_t len = status.st_size - 4096; len > 0; len -= status.st_size / 9) {
        assert_int_equal(truncate(path, len), 0);
        const int result = store_open(f->dir, NULL, &f->store, f->error);
        if (result == 0) {
            uint64_t total = 0;
            assert_int_equal(store_scan(f->store, STORE_VNODE_ALL, damage_scan, &total), 0);
            assert_int_equal(total, 12 * 2000);
            store_close(&f->store);
            continue;
        }
        refused++;
        assert_int_equal(result, TG_ECORRUPT);
        assert_non_null(strstr(f->error, path));
    }
    assert_true(refused >= 6);
}

/* Files of garbage, and a directory in place of a file, are refused. */
static void garbage_is_refused(void **state)
{
    struct fixture *f = *state;
    char path[FIXTURE_PATH_LEN];
    uint8_t noise[16384];
    struct random random;
    damage_prepare(f, path, sizeof(path));
    random_init(&random, 3);
    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (uint8_t)random_next(&random);
    }
    for (size_t len = 1; len <= sizeof(noise); len = len * 5 + 100) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(noise, 1, len, file), len);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), TG_ECORRUPT);
        assert_non_null(strstr(f->error, path));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), TG_ECORRUPT);
}

/* Overwrites `count` bytes at random places with random bytes, keeping the old ones in `undo`. */
static void damage_flip(int file, off_t size, struct random *random, bool undo)
{
    static off_t places[4];
    static uint8_t old[4];
    for (int i = 0; i < 4; i++) {
        if (undo) {
            assert_int_equal(pwrite(file, &old[3 - i], 1, places[3 - i]), 1);
            continue;
        }
        /* Half of them in page headers and the first nodes, where they hurt most. */
        const off_t at = (off_t)random_below(random, (uint64_t)size);
        places[i] = i % 2 == 0 ? at : at / 4096 * 4096 + at % 64;
        assert_int_equal(pread(file, &old[i], 1, places[i]), 1);
        const uint8_t flipped = (uint8_t)(old[i] ^ (1 + random_below(random, 255)));
        assert_int_equal(pwrite(file, &flipped, 1, places[i]), 1);
    }
}

struct damage_seen {
    uint64_t records;
    bool wrong;
};

static int damage_verify(void *context, uint32_t vnode, const struct store_vnode_header *header,
                         const struct store_record *records, size_t count, bool last)
{
    struct damage_seen *seen = context;
    (void)header, (void)last;
    seen->wrong |= vnode >= 12;
    for (size_t i = 0; i < count; i++) {
        seen->wrong |= records[i].len != 16 || memcmp(records[i].state, "sixteen bytes ..", 16);
    }
    seen->records += count;
    return 0;
}

/* Bytes changed at random are either noticed (TG_ECORRUPT) or harmless: no record is ever wrong. */
static void flipped_bytes_are_never_served(void **state)
{
    struct fixture *f = *state;
    char path[FIXTURE_PATH_LEN];
    struct random random;
    struct stat status;
    int noticed = 0;
    damage_prepare(f, path, sizeof(path));
    assert_int_equal(stat(path, &status), 0);
    random_init(&random, 11);
    for (int round = 0; round < 150; round++) {
        struct damage_seen seen = {0};
        const int file = open(path, O_RDWR);
        assert_true(file >= 0);
        damage_flip(file, status.st_size, &random, false);
        int result = store_open(f->dir, NULL, &f->store, f->error);
        if (result == 0) {
            result = store_scan(f->store, STORE_VNODE_ALL, damage_verify, &seen);
            assert_false(seen.wrong);
        }
        if (result == 0) {
            assert_true(seen.records <= 12 * 2000);
        } else {
            assert_true(result == TG_ECORRUPT || result == TG_EVERSION);
            noticed++;
        }
        store_close(&f->store);
        damage_flip(file, status.st_size, &random, true);
        assert_int_equal(close(file), 0);
    }
    assert_true(noticed > 75);
    fixture_open(f, NULL);
}

/* A damaged chunk names its vnode, and the other vnodes are still read. */
static void a_damaged_chunk_names_its_vnode(void **state)
{
    struct fixture *f = *state;
    char path[FIXTURE_PATH_LEN];
    char error[STORE_ERROR_LEN];
    uint8_t page[4096];
    uint8_t buffer[16];
    struct store_record found;
    const struct store_record one = fixture_record(1, 900, "needle in vnode5", 16);
    const struct store_record other = fixture_record(1, 900, "vnode 6", 7);
    fixture_open(f, NULL);
    assert_int_equal(fixture_write(f->store, 5, 1, &one, 1, 0), 0);
    assert_int_equal(fixture_write(f->store, 6, 1, &other, 1, 0), 0);
    store_close(&f->store);
    (void)snprintf(path, sizeof(path), "%s/state/data.mdb", f->dir);
    const int file = open(path, O_RDWR);
    for (off_t at = 0; pread(file, page, sizeof(page), at) == sizeof(page); at += 4096) {
        uint8_t *needle = memmem(page, sizeof(page), "needle", 6);
        if (needle != NULL) {
            assert_int_equal(pwrite(file, "NEEDLE", 6, at + (needle - page)), 6);
        }
    }
    assert_int_equal(close(file), 0);
    fixture_open(f, NULL);
    assert_int_equal(store_read_slot(f->store, 5, fixture_id(1), buffer, 16, &found), TG_ECORRUPT);
    store_last_error(f->store, error);
    assert_non_null(strstr(error, "vnode 5"));
    assert_non_null(strstr(error, f->dir));
    assert_int_equal(fixture_write(f->store, 5, 2, &one, 1, 0), TG_ECORRUPT);
    assert_int_equal(store_read_slot(f->store, 6, fixture_id(1), buffer, 16, &found), 0);
}

/* Changes `from` to `to` wherever the meta file has it. */
static void meta_patch(const struct fixture *f, const void *from, const void *to, size_t len)
{
    char path[FIXTURE_PATH_LEN];
    uint8_t page[4096];
    int found = 0;
    (void)snprintf(path, sizeof(path), "%s/meta/data.mdb", f->dir);
    const int file = open(path, O_RDWR);
    for (off_t at = 0; pread(file, page, sizeof(page), at) == sizeof(page); at += 4096) {
        uint8_t *place = memmem(page, sizeof(page), from, len);
        if (place != NULL) {
            assert_int_equal(pwrite(file, to, len, at + (place - page)), (ssize_t)len);
            found++;
        }
    }
    assert_int_equal(close(file), 0);
    assert_true(found > 0);
}

/* Where in the file the size of the first entry of LMDB's free list is kept (pages.c draws it). */
static off_t free_entry_at(int file)
{
    uint8_t page[4096];
    off_t meta = 0;
    for (off_t at = 0; at <= 4096; at += 4096) {
        uint64_t txn[2];
        assert_int_equal(pread(file, &txn[0], 8, meta + 144), 8);
        assert_int_equal(pread(file, &txn[1], 8, at + 144), 8);
        meta = txn[1] > txn[0] ? at : meta;
    }
    uint64_t root = 0;
    assert_int_equal(pread(file, &root, 8, meta + 80), 8);
    assert_int_equal(pread(file, page, sizeof(page), (off_t)root * 4096), (ssize_t)sizeof(page));
    assert_int_equal(bytes_u16_at(page + 10, 0), 2); /* a leaf */
    return (off_t)root * 4096 + bytes_u16_at(page + 16, 0);
}

/* An entry of the free list without even a count is damage; nothing behind its page is read. */
static void an_empty_free_list_entry_is_refused(void **state)
{
    struct fixture *f = *state;
    char path[FIXTURE_PATH_LEN];
    const uint32_t none = 0;
    damage_prepare(f, path, sizeof(path));
    const int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, &none, 4, free_entry_at(file)), 4);
    assert_int_equal(close(file), 0);
    assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), TG_ECORRUPT);
    assert_non_null(strstr(f->error, "free list entry of 0 bytes"));
}

/* A damaged identity is refused by name; so is state without any identity. */
static void a_damaged_or_missing_identity_is_refused(void **state)
{
    struct fixture *f = *state;
    char path[FIXTURE_PATH_LEN];
    const struct store_record record = fixture_record(1, 900, "x", 1);
    uint8_t damaged[16];
    const struct store_identity identity = fixture_identity();
    memcpy(damaged, identity.secret.bytes, sizeof(damaged));
    damaged[7] ^= 1;
    fixture_open(f, NULL);
    assert_int_equal(fixture_write(f->store, 5, 1, &record, 1, 0), 0);
    store_close(&f->store);
    meta_patch(f, identity.secret.bytes, damaged, sizeof(damaged));
    assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), TG_ECORRUPT);
    assert_non_null(strstr(f->error, f->dir));
    assert_non_null(strstr(f->error, "identity"));
    (void)snprintf(path, sizeof(path), "%s/meta/data.mdb", f->dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), TG_ECORRUPT);
    assert_non_null(strstr(f->error, "meta/data.mdb: is missing"));
}

/* Bytes of the stored format: a checksum over key and value, and the number. */
static void format_bytes(uint8_t out[12], uint32_t format)
{
    struct bytes_writer writer;
    uint8_t value[4];
    bytes_writer_init(&writer, value, sizeof(value));
    bytes_put_u32(&writer, format);
    bytes_writer_init(&writer, out, 12);
    bytes_put_u64(&writer, chunk_checksum(chunk_checksum(0, "\0format", 7), value, 4));
    bytes_put(&writer, value, sizeof(value));
}

/* A store of another format is refused with both numbers, not called damaged. */
static void another_format_is_refused(void **state)
{
    struct fixture *f = *state;
    uint8_t ours[12];
    uint8_t theirs[12];
    format_bytes(ours, STORE_FORMAT);
    format_bytes(theirs, 9);
    fixture_open(f, NULL);
    store_close(&f->store);
    meta_patch(f, ours, theirs, sizeof(ours));
    assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), TG_EVERSION);
    assert_non_null(strstr(f->error, f->dir));
    assert_non_null(strstr(f->error, "format 9"));
    assert_non_null(strstr(f->error, "format 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_killed_writer_loses_nothing_acknowledged),
        STORE_TEST(a_full_disk_is_an_error_that_passes),
        STORE_TEST(a_truncated_file_is_refused),
        STORE_TEST(garbage_is_refused),
        STORE_TEST(flipped_bytes_are_never_served),
        STORE_TEST(a_damaged_chunk_names_its_vnode),
        STORE_TEST(an_empty_free_list_entry_is_refused),
        STORE_TEST(a_damaged_or_missing_identity_is_refused),
        STORE_TEST(another_format_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
