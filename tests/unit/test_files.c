/* test_files.c - descriptors that clients cannot take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "node/runtime/system/files.h"

enum { MAX = 120, TAKEN_MAX = 2 * MAX };

struct fixture {
    struct files files;
    struct rlimit before;
    int taken[TAKEN_MAX];
    int count;
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof f);
    *state = &f;
    if (getrlimit(RLIMIT_NOFILE, &f.before) != 0)
        return -1;
    const struct rlimit few = {MAX, f.before.rlim_max};
    files_init(&f.files, MAX);
    return setrlimit(RLIMIT_NOFILE, &few);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    while (f->count > 0)
        (void)close(f->taken[--f->count]);
    files_fini(&f->files);
    return setrlimit(RLIMIT_NOFILE, &f->before);
}

/* Opens as many as there are, and says how many. */
static int take_all(struct fixture *f)
{
    const int before = f->count;
    while (f->count < TAKEN_MAX) {
        const int fd = open("/dev/null", O_RDONLY);
        if (fd < 0) {
            assert_int_equal(errno, EMFILE);
            return f->count - before;
        }
        f->taken[f->count++] = fd;
    }
    fail();
    return 0;
}

static void give(struct fixture *f, int count)
{
    while (count-- > 0)
        (void)close(f->taken[--f->count]);
}

/* A quarter of them is not to be had for whoever opens; when the rest is used, no client is let in,
 * and the quarter is there for others. */
static void a_quarter_is_kept_and_given_when_the_rest_is_used(void **state)
{
    struct fixture *f = *state;
    files_hold(&f->files);
    assert_int_equal(f->files.kept, MAX / 4);
    assert_int_equal(f->files.spare_count, MAX / 4);
    files_look(&f->files, 1, NULL);
    assert_false(f->files.paused);
    assert_true(take_all(f) < MAX - MAX / 4);
    files_look(&f->files, 2, NULL);
    assert_true(f->files.paused);
    assert_int_equal(f->files.pauses, 1);
    assert_int_equal(f->files.spare_count, 0);
    assert_int_equal(take_all(f), MAX / 4);
}

/* They are let in again when as many are free as are kept and some more, and not one earlier. */
static void newcomers_are_let_in_when_enough_is_free_again(void **state)
{
    struct fixture *f = *state;
    const int more = 16;
    files_hold(&f->files);
    (void)take_all(f);
    files_look(&f->files, 1, NULL);
    (void)take_all(f);
    give(f, MAX / 4 + more - 1);
    files_look(&f->files, 2, NULL);
    assert_true(f->files.paused);
    give(f, 1);
    files_look(&f->files, 3, NULL);
    assert_false(f->files.paused);
    assert_int_equal(f->files.spare_count, MAX / 4);
    assert_int_equal(take_all(f), more);
}

/* However many there may be, what is kept has a bound. */
static void what_is_kept_is_bounded(void **state)
{
    struct files files;
    (void)state;
    files_init(&files, 400);
    assert_int_equal(files.kept, 100);
    files_init(&files, 1 << 20);
    assert_int_equal(files.kept, FILES_SPARES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_quarter_is_kept_and_given_when_the_rest_is_used, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(newcomers_are_let_in_when_enough_is_free_again, setup,
                                        teardown),
        cmocka_unit_test(what_is_kept_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
