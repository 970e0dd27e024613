/* test_files.c - descriptors that clients cannot take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/runtime/system/files.h"
#include "node/runtime/system/listener.h"

enum { MAX = 120, TAKEN_MAX = 2 * MAX };

struct fixture {
    struct files files;
    struct rlimit before;
    int taken[TAKEN_MAX];
    int count;
    int listener;
    uint16_t port;
};

static int setup(void **state)
{
    static struct fixture f;
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    f = (struct fixture){.listener = -1};
    *state = &f;
    if (getrlimit(RLIMIT_NOFILE, &f.before) != 0 ||
        listener_open("127.0.0.1", 0, &f.listener) != 0 ||
        getsockname(f.listener, (struct sockaddr *)&address, &len) != 0)
        return -1;
    f.port = ntohs(address.sin_port);
    const struct rlimit few = {MAX, f.before.rlim_max};
    files_init(&f.files, MAX);
    files_watch(&f.files, f.listener);
    return setrlimit(RLIMIT_NOFILE, &few);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    while (f->count > 0)
        (void)close(f->taken[--f->count]);
    files_fini(&f->files);
    listener_close(&f->listener);
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

/* Whether somebody who wants to connect is let in at once. */
static bool is_let_in(const struct fixture *f)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(f->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    const int result = connect(fd, (const struct sockaddr *)&address, sizeof address);
    assert_true(result == 0 || errno == EINPROGRESS);
    const bool in = poll(&wait, 1, 100) == 1 && (wait.revents & (POLLERR | POLLHUP)) == 0;
    (void)close(fd);
    return in;
}

/* A quarter of them is not to be had for whoever opens; when the rest is used, newcomers are
 * dropped and counted, and the quarter is there for others. */
static void a_quarter_is_kept_and_given_when_the_rest_is_used(void **state)
{
    struct fixture *f = *state;
    files_hold(&f->files);
    assert_int_equal(f->files.kept, MAX / 4);
    assert_int_equal(f->files.spare_count, MAX / 4);
    files_look(&f->files, 1, NULL);
    assert_false(f->files.paused);
    assert_true(is_let_in(f));
    assert_true(take_all(f) < MAX - MAX / 4);
    files_look(&f->files, 2, NULL);
    assert_true(f->files.paused);
    assert_int_equal(f->files.pauses, 1);
    assert_int_equal(f->files.spare_count, 0);
    assert_false(is_let_in(f));
    assert_true(files_refused(&f->files) > 0);
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
    assert_false(is_let_in(f));
    give(f, 1);
    files_look(&f->files, 3, NULL);
    assert_false(f->files.paused);
    assert_int_equal(f->files.spare_count, MAX / 4);
    assert_true(is_let_in(f));
    assert_int_equal(take_all(f), more);
}

/* What may wait at the listeners fits into half of what is kept, and is what it was for many. */
static void what_waits_fits_into_what_is_kept(void **state)
{
    struct files files;
    (void)state;
    files_init(&files, 400);
    assert_int_equal(files.kept, 100);
    assert_int_equal(files_backlog(&files, 1), 50);
    assert_int_equal(files_backlog(&files, 4), 12);
    files_init(&files, 1 << 20);
    assert_int_equal(files.kept, FILES_SPARES_MAX);
    assert_int_equal(files_backlog(&files, 1), 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_quarter_is_kept_and_given_when_the_rest_is_used, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(newcomers_are_let_in_when_enough_is_free_again, setup,
                                        teardown),
        cmocka_unit_test(what_waits_fits_into_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
