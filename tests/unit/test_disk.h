/* test_disk.h - what the tests of the storage threads share: a store in a temporary directory, the
 * threads over it, and something for them to wake. */
#ifndef TESTS_UNIT_TEST_DISK_H
#define TESTS_UNIT_TEST_DISK_H

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "node/runtime/disk/disk_lane.h"
#include "tests/unit/support_scratch.h"

enum { SHARDS = 2, PLANE = 32768, WAIT_S = 20, STATE_LEN = 24 };

/* What a shard's loop is to the disk: something to wake. */
struct fixture {
    char root[SCRATCH_PATH_LEN];
    struct store *store;
    struct clock clock;
    struct disk *disk;
    struct log log;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    uint32_t wakes[SHARDS];
    uint32_t errors; /* log lines */
    uint32_t infos;
};

static inline void wake(void *context, uint32_t shard)
{
    struct fixture *f = context;

    (void)pthread_mutex_lock(&f->lock);
    f->wakes[shard]++;
    (void)pthread_cond_broadcast(&f->woken);
    (void)pthread_mutex_unlock(&f->lock);
}

static inline void count_line(void *context, enum log_level level, const char *line)
{
    struct fixture *f = context;

    (void)line;
    (void)pthread_mutex_lock(&f->lock);
    f->errors += level == LOG_LEVEL_ERROR;
    f->infos += level == LOG_LEVEL_INFO;
    (void)pthread_mutex_unlock(&f->lock);
}

static inline void start_disk(struct fixture *f)
{
    const struct disk_options options = {.allocator = alloc_heap(),
                                         .store = f->store,
                                         .shard_count = SHARDS,
                                         .vnodes = PLANE,
                                         .clock = &f->clock,
                                         .log = &f->log,
                                         .wake = wake,
                                         .context = f};

    assert_int_equal(disk_new(&options, &f->disk), 0);
}

static inline void open_store(struct fixture *f, const struct store_options *options)
{
    char dir[SCRATCH_PATH_LEN + 8];
    char error[STORE_ERROR_LEN];

    (void)snprintf(dir, sizeof(dir), "%s/data", f->root);
    if (store_open(dir, options, &f->store, error) != 0)
        fail_msg("%s", error);
}

static inline int setup(void **state)
{
    static struct fixture fixture;

    memset(&fixture, 0, sizeof(fixture));
    fixture.log = (struct log){.write = count_line, .context = &fixture};
    *state = &fixture;
    return scratch_folder(fixture.root, "tidegate-disk") != 0 || clock_init(&fixture.clock) != 0 ||
           pthread_mutex_init(&fixture.lock, NULL) != 0 ||
           pthread_cond_init(&fixture.woken, NULL) != 0;
}

static inline int remove_one(const char *path, const struct stat *status, int kind,
                             struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;

    disk_free(&f->disk);
    store_close(&f->store);
    (void)pthread_cond_destroy(&f->woken);
    (void)pthread_mutex_destroy(&f->lock);
    return nftw(f->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Polls until there is a result for the shard; fails after WAIT_S. */
static inline struct disk_result wait_result(struct fixture *f, uint32_t shard)
{
    struct disk_result result;
    struct timespec deadline;

    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += WAIT_S;
    for (;;) {
        (void)pthread_mutex_lock(&f->lock);
        const uint32_t before = f->wakes[shard];
        (void)pthread_mutex_unlock(&f->lock);
        if (disk_poll(f->disk, shard, &result)) {
            disk_check_invariants(f->disk);
            return result;
        }
        (void)pthread_mutex_lock(&f->lock);
        int waited = 0;
        while (f->wakes[shard] == before && waited == 0)
            waited = pthread_cond_timedwait(&f->woken, &f->lock, &deadline);
        (void)pthread_mutex_unlock(&f->lock);
        if (waited == ETIMEDOUT)
            fail_msg("no result for shard %u", (unsigned)shard);
    }
}

static inline struct hash128 id_of(uint32_t number)
{
    return (struct hash128){.lo = hash_mix64(number * 2 + 1), .hi = hash_mix64(number * 2 + 2)};
}

#endif
