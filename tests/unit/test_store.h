/* test_store.h - what the tests of the store share: a temporary directory and a store in it. */
#ifndef TESTS_UNIT_TEST_STORE_H
#define TESTS_UNIT_TEST_STORE_H

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "storage/internal.h"
#include "storage/store.h"
#include "tests/unit/support_scratch.h"

enum { FIXTURE_DIR_LEN = SCRATCH_PATH_LEN + 8, FIXTURE_PATH_LEN = FIXTURE_DIR_LEN + 32 };

struct fixture {
    char root[SCRATCH_PATH_LEN]; /* removed at the end */
    char dir[FIXTURE_DIR_LEN];   /* the store's */
    struct store *store;
    char error[STORE_ERROR_LEN];
};

static inline struct store_identity fixture_identity(void)
{
    struct store_identity identity = {.node_id = 0x1234, .vnodes = 4096, .replicas = 3};
    memset(identity.cluster_id, 0xc1, sizeof(identity.cluster_id));
    memset(identity.secret.bytes, 0x5e, sizeof(identity.secret.bytes));
    memset(identity.route_key.bytes, 0x70, sizeof(identity.route_key.bytes));
    return identity;
}

static inline int fixture_setup(void **state)
{
    static struct fixture fixture;
    memset(&fixture, 0, sizeof(fixture));
    if (scratch_folder(fixture.root, "tidegate-store") != 0) {
        return -1;
    }
    (void)snprintf(fixture.dir, sizeof(fixture.dir), "%s/data", fixture.root);
    *state = &fixture;
    return 0;
}

static inline int fixture_remove(const char *path, const struct stat *status, int type,
                                 struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

static inline int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->store != NULL) {
        store_check_invariants(fixture->store);
    }
    store_close(&fixture->store);
    return nftw(fixture->root, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* Opens the store and gives a new one its identity. */
static inline void fixture_open(struct fixture *fixture, const struct store_options *options)
{
    const struct store_identity identity = fixture_identity();
    const int result = store_open(fixture->dir, options, &fixture->store, fixture->error);
    if (result != 0) {
        fail_msg("open: %s: %s", error_name(result), fixture->error);
    }
    assert_int_equal(store_identity_put(fixture->store, &identity), 0);
}

static inline struct hash128 fixture_id(uint64_t number)
{
    return (struct hash128){.hi = hash_mix64(number * 2 + 1), .lo = hash_mix64(number * 2 + 2)};
}

static inline struct store_record fixture_record(uint64_t number, uint64_t expires_ms,
                                                 const void *state, size_t len)
{
    return (struct store_record){
        .id = fixture_id(number), .expires_ms = expires_ms, .state = state, .len = (uint32_t)len};
}

/* Writes records into one vnode, with a header of `seq`. */
static inline int fixture_write(struct store *store, uint32_t vnode, uint64_t seq,
                                const struct store_record *records, size_t count, uint64_t now_ms)
{
    const struct store_vnode_header header = {.epoch = 1, .number = 2, .writer = 3, .seq = seq};
    const struct store_vnode_batch batch = {
        .vnode = vnode, .header = &header, .records = records, .count = count};
    return store_write(store, &batch, 1, now_ms);
}

/* Writes `to` over the first bytes of every `from` in the closed store's meta file. */
static inline void fixture_patch_meta(const struct fixture *fixture, const char *from,
                                      const char *to)
{
    char path[FIXTURE_PATH_LEN];
    char page[4096];
    int found = 0;
    (void)snprintf(path, sizeof(path), "%s/meta/data.mdb", fixture->dir);
    const int file = open(path, O_RDWR);
    for (off_t at = 0; pread(file, page, sizeof(page), at) == sizeof(page); at += 4096) {
        const char *place = memmem(page, sizeof(page), from, strlen(from));
        if (place != NULL) {
            assert_int_equal(pwrite(file, to, strlen(to), at + (place - page)),
                             (ssize_t)strlen(to));
            found++;
        }
    }
    assert_int_equal(close(file), 0);
    assert_true(found > 0);
}

/* Runs `writer` in a process of its own until that was acknowledged `acks` times, kills it at once,
 * and returns the last generation it told. A writer writes generation after generation into the
 * store in `dir`, from the one it is given on, tells on `out` which one the store acknowledged, and
 * never returns. */
static inline uint64_t fixture_kill_writer(const char *dir, uint64_t generation, uint64_t acks,
                                           void (*writer)(const char *dir, uint64_t generation,
                                                          int out))
{
    int ends[2];
    int status = 0;
    uint64_t told = generation - 1;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(ends[0]);
        writer(dir, generation, ends[1]);
    }
    (void)close(ends[1]);
    for (uint64_t i = 0; i < acks; i++) {
        assert_int_equal(read(ends[0], &told, sizeof(told)), sizeof(told));
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    while (read(ends[0], &told, sizeof(told)) == sizeof(told)) {
    }
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return told;
}

/* How a writer is killed: `kills` times, each after 1 to `acks_max` acknowledgements. */
struct fixture_kills {
    uint64_t seed;
    int kills;
    uint64_t acks_max;
    void (*writer)(const char *dir, uint64_t generation, int out);
    /* The generation that is in the store, all of it, when `told` was the last one told. */
    uint64_t (*look)(struct fixture *f, uint64_t told);
};

/* Each time the store opens, with the last generation that was told or the one after it. */
static inline void fixture_survive_kills(struct fixture *f, const struct fixture_kills *plan)
{
    struct random random;
    uint64_t next = 1;
    random_init(&random, plan->seed);
    fixture_open(f, NULL);
    store_close(&f->store);
    for (int round = 0; round < plan->kills; round++) {
        const uint64_t acks = 1 + random_below(&random, plan->acks_max);
        const uint64_t told = fixture_kill_writer(f->dir, next, acks, plan->writer);
        fixture_open(f, NULL);
        const uint64_t found = plan->look(f, told);
        assert_true(found == told || found == told + 1);
        next = found + 1;
        store_close(&f->store);
    }
}

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

#endif
