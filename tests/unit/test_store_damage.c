/* test_store_damage.c - what became of the files of a store while nobody had it open. */
#include "tests/unit/test_store.h"

#include <errno.h>

/* What can happen to one of the two files of a store while nobody looks. */
enum damage {
    FILE_GONE,
    FILE_CUT_TO_0,
    FILE_CUT_TO_1,
    FILE_CUT_TO_4095,
    FILE_CUT_TO_4097,
    FILE_CUT_TO_8191,
    FILE_IS_FOLDER,
    FILE_IS_FIFO,
    FOLDER_GONE,
    FOLDER_IS_FILE,
    DAMAGES
};

static void damage_part(const struct fixture *f, const char *part, enum damage damage)
{
    static const off_t lengths[] = {0, 0, 1, 4095, 4097, 8191};
    char folder[FIXTURE_PATH_LEN];
    char file[FIXTURE_PATH_LEN + 16];
    char lock[FIXTURE_PATH_LEN + 16];
    (void)snprintf(folder, sizeof(folder), "%s/%s", f->dir, part);
    (void)snprintf(file, sizeof(file), "%s/data.mdb", folder);
    (void)snprintf(lock, sizeof(lock), "%s/lock.mdb", folder);
    if (damage >= FILE_CUT_TO_0 && damage <= FILE_CUT_TO_8191) {
        assert_int_equal(truncate(file, lengths[damage]), 0);
        return;
    }
    assert_int_equal(unlink(file), 0);
    if (damage == FILE_IS_FOLDER) {
        assert_int_equal(mkdir(file, 0700), 0);
    } else if (damage == FILE_IS_FIFO) {
        assert_int_equal(mkfifo(file, 0600), 0);
    } else if (damage != FILE_GONE) {
        assert_int_equal(unlink(lock), 0);
        assert_int_equal(rmdir(folder), 0);
        const int made = damage == FOLDER_IS_FILE ? creat(folder, 0600) : 0;
        assert_true(made >= 0);
        assert_true(made == 0 || close(made) == 0);
    }
}

/* A store in use: an identity, and a record in the state. */
static void make_used(struct fixture *f)
{
    const struct store_record record = fixture_record(1, 900, "x", 1);
    fixture_open(f, NULL);
    assert_int_equal(fixture_write(f->store, 5, 1, &record, 1, 0), 0);
    store_close(&f->store);
}

static void assert_refused_naming(struct fixture *f, const char *name)
{
    assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), TG_ECORRUPT);
    assert_null(f->store);
    if (strstr(f->error, f->dir) == NULL || strstr(f->error, name) == NULL) {
        fail_msg("names neither %s nor %s: %s", f->dir, name, f->error);
    }
}

/* Missing or empty meta values are noticed also where the state holds nothing yet: keys of
 * consistency `quorum` live beside the meta values alone. */
static void missing_meta_values_are_noticed_beside_an_empty_state(void **state)
{
    struct fixture *f = *state;
    char moved[FIXTURE_PATH_LEN];
    bool kept = true;
    for (enum damage damage = FILE_GONE; damage <= FILE_CUT_TO_0; damage++) {
        fixture_open(f, NULL);
        store_close(&f->store);
        damage_part(f, "meta", damage);
        assert_refused_naming(f, "/meta");
        assert_int_equal(store_set_aside(f->dir, false, &kept, moved, sizeof(moved), f->error), 0);
        assert_false(kept);
    }
}

/* Whatever becomes of the state's file, of length 0 and missing too, the store is not taken for a
 * new one; setting it aside mends it, and the node is who it was. */
static void a_damaged_state_is_refused_and_set_aside(void **state)
{
    struct fixture *f = *state;
    char moved[FIXTURE_PATH_LEN];
    struct store_identity identity;
    for (enum damage damage = 0; damage < DAMAGES; damage++) {
        bool kept = false;
        make_used(f);
        damage_part(f, "state", damage);
        assert_refused_naming(f, "/state");
        assert_refused_naming(f, "/state"); /* and looking has not made it any better */
        assert_int_equal(store_set_aside(f->dir, true, &kept, moved, sizeof(moved), f->error), 0);
        assert_true(kept);
        assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), 0);
        assert_int_equal(store_identity_get(f->store, &identity), 0);
        assert_int_equal(identity.node_id, fixture_identity().node_id);
        store_close(&f->store);
    }
}

/* So are damaged meta values; but what was promised is lost with them, and whoever must not lose
 * it is told so, with nothing moved. */
static void damaged_meta_values_are_refused_and_go_only_if_they_may(void **state)
{
    struct fixture *f = *state;
    char moved[FIXTURE_PATH_LEN];
    struct store_identity identity;
    for (enum damage damage = 0; damage < DAMAGES; damage++) {
        bool kept = true;
        make_used(f);
        damage_part(f, "meta", damage);
        assert_refused_naming(f, "/meta");
        assert_int_equal(store_set_aside(f->dir, true, &kept, moved, sizeof(moved), f->error),
                         TG_ECORRUPT);
        assert_non_null(strstr(f->error, "identity and promises cannot be read"));
        assert_refused_naming(f, "/meta");
        assert_int_equal(store_set_aside(f->dir, false, &kept, moved, sizeof(moved), f->error), 0);
        assert_false(kept);
        assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), 0);
        assert_int_equal(store_identity_get(f->store, &identity), TG_ENOTFOUND);
        store_close(&f->store);
    }
}

static int no_records(void *context, uint32_t vnode, const struct store_vnode_header *header,
                      const struct store_record *records, size_t count, bool last)
{
    (void)context, (void)vnode, (void)header, (void)records, (void)count, (void)last;
    return 0;
}

static void path_in(const struct fixture *f, char out[FIXTURE_PATH_LEN], const char *name)
{
    (void)snprintf(out, FIXTURE_PATH_LEN, "%s/%s", f->dir, name);
}

/* The two files in one another's place, and the one in both places. */
static void swapped_files_are_refused(void **state)
{
    struct fixture *f = *state;
    char moved[FIXTURE_PATH_LEN];
    char paths[3][FIXTURE_PATH_LEN];
    bool kept = true;
    path_in(f, paths[0], "state");
    path_in(f, paths[1], "meta");
    path_in(f, paths[2], "third");
    make_used(f);
    assert_int_equal(rename(paths[0], paths[2]), 0);
    assert_int_equal(rename(paths[1], paths[0]), 0);
    assert_int_equal(rename(paths[2], paths[1]), 0);
    assert_refused_naming(f, "/meta");
    assert_int_equal(store_set_aside(f->dir, false, &kept, moved, sizeof(moved), f->error), 0);
    assert_false(kept);
    make_used(f);
    path_in(f, paths[0], "state/data.mdb");
    path_in(f, paths[1], "meta/data.mdb");
    assert_int_equal(unlink(paths[0]), 0);
    assert_int_equal(link(paths[1], paths[0]), 0);
    assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), 0);
    assert_int_equal(store_scan(f->store, STORE_VNODE_ALL, no_records, NULL), TG_ECORRUPT);
}

/* Only what a start that was killed can have left behind is taken for a new store. */
static void a_start_that_was_killed_begins_again(void **state)
{
    struct fixture *f = *state;
    char path[FIXTURE_PATH_LEN];
    for (int stage = 0; stage < 4; stage++) {
        assert_true(mkdir(f->dir, 0700) == 0 || errno == EEXIST);
        path_in(f, path, "meta");
        if (stage >= 1)
            assert_int_equal(mkdir(path, 0700), 0);
        path_in(f, path, "meta/data.mdb");
        if (stage >= 2)
            assert_int_equal(close(creat(path, 0600)), 0);
        if (stage == 3) { /* meta was begun, and the state was not */
            assert_int_equal(store_open(f->dir, NULL, &f->store, f->error), 0);
            store_close(&f->store);
            assert_int_equal(nftw(f->dir, fixture_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
        }
        fixture_open(f, NULL);
        store_close(&f->store);
        assert_int_equal(nftw(f->dir, fixture_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
    }
}

/* LMDB's files of locks hold nothing that lasts: gone or spoiled, they are made anew. */
static void spoiled_lock_files_do_no_harm(void **state)
{
    static const char *const names[] = {"state/lock.mdb", "meta/lock.mdb", "LOCK"};
    struct fixture *f = *state;
    char path[FIXTURE_PATH_LEN];
    struct store_vnode_header header;
    make_used(f);
    for (int spoil = 0; spoil < 3; spoil++) {
        for (size_t i = 0; i < 3; i++) {
            path_in(f, path, names[i]);
            if (spoil == 0) {
                assert_int_equal(unlink(path), 0);
                continue;
            }
            assert_int_equal(truncate(path, spoil == 1 ? 0 : 777), 0);
            const int file = open(path, O_WRONLY);
            assert_int_equal(pwrite(file, "spoiled!", 8, 3), 8);
            assert_int_equal(close(file), 0);
        }
        fixture_open(f, NULL);
        assert_int_equal(store_vnode_header(f->store, 5, &header), 0);
        store_close(&f->store);
    }
}

/* Runs `body` as somebody who is not the administrator, whom no permission stops. */
static void as_nobody(struct fixture *f, int (*body)(struct fixture *f))
{
    enum { NOBODY = 65534 };
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const bool is_root = geteuid() == 0;
        _exit(is_root && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) ? 99 : body(f));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int says_read_only(struct fixture *f)
{
    struct store *store = NULL;
    char moved[FIXTURE_PATH_LEN];
    bool kept = false;
    if (store_open(f->dir, NULL, &store, f->error) != TG_EIO ||
        strstr(f->error, "is read-only for user") == NULL)
        return 1;
    return store_set_aside(f->dir, true, &kept, moved, sizeof(moved), f->error) == TG_EIO &&
                   strstr(f->error, "is read-only for user") != NULL
               ? 0
               : 2;
}

static int file_says_read_only(struct fixture *f)
{
    struct store *store = NULL;
    return store_open(f->dir, NULL, &store, f->error) == TG_EIO &&
                   strstr(f->error, "data.mdb: is read-only for user") != NULL
               ? 0
               : 1;
}

/* Owned by whom as_nobody runs as, so that only what is asked for is in its way. */
static void give_away(struct fixture *f, mode_t mode)
{
    static const char *const names[] = {
        "",     "LOCK",          "state",        "state/data.mdb", "state/lock.mdb",
        "meta", "meta/data.mdb", "meta/lock.mdb"};
    char path[FIXTURE_PATH_LEN];
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        path_in(f, path, names[i]);
        assert_true(geteuid() != 0 || chown(path, 65534, 65534) == 0);
    }
    assert_int_equal(chmod(f->dir, mode), 0);
    assert_int_equal(chmod(f->root, 0755), 0);
}

/* A directory, or a file in it, that cannot be written is told as just that, and not as damage. */
static void what_is_read_only_is_told_as_that(void **state)
{
    struct fixture *f = *state;
    char path[FIXTURE_PATH_LEN];
    make_used(f);
    give_away(f, 0555);
    as_nobody(f, says_read_only);
    give_away(f, 0755);
    path_in(f, path, "state/data.mdb");
    assert_int_equal(chmod(path, 0444), 0);
    as_nobody(f, file_says_read_only);
}

static int sets_aside_inside(struct fixture *f)
{
    char moved[FIXTURE_PATH_LEN] = "";
    char wanted[FIXTURE_PATH_LEN];
    bool kept = false;
    struct store *store = NULL;
    path_in(f, wanted, "set-aside-1");
    if (store_set_aside(f->dir, true, &kept, moved, sizeof(moved), f->error) != 0 || !kept ||
        strcmp(moved, wanted) != 0)
        return 1;
    if (store_open(f->dir, NULL, &store, f->error) != 0)
        return 2;
    store_close(&store);
    return 0;
}

/* A directory that nothing can be moved out of, a volume say, keeps it inside. */
static void a_store_is_set_aside_where_only_its_own_directory_can_be_written(void **state)
{
    struct fixture *f = *state;
    make_used(f);
    damage_part(f, "state", FILE_CUT_TO_0);
    give_away(f, 0755);
    assert_int_equal(chmod(f->root, 0555), 0);
    as_nobody(f, sets_aside_inside);
    assert_int_equal(chmod(f->root, 0755), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(missing_meta_values_are_noticed_beside_an_empty_state),
        STORE_TEST(a_damaged_state_is_refused_and_set_aside),
        STORE_TEST(damaged_meta_values_are_refused_and_go_only_if_they_may),
        STORE_TEST(swapped_files_are_refused),
        STORE_TEST(a_start_that_was_killed_begins_again),
        STORE_TEST(spoiled_lock_files_do_no_harm),
        STORE_TEST(what_is_read_only_is_told_as_that),
        STORE_TEST(a_store_is_set_aside_where_only_its_own_directory_can_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
