/* test_failure.c - which frames visit which places, and at which visit the process ends. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/cluster/wire/peer_wire.h"
#include "node/runtime/system/failure.h"

enum { FRAME_LEN = 1024 };

struct visits {
    int seen[FAILPOINT_COUNT];
};

static void note(void *context, enum failpoint point)
{
    struct visits *visits = context;
    visits->seen[point]++;
}

/* A frame with an OPENED, two PASS and a HELD. */
static size_t make_frame(uint8_t frame[FRAME_LEN])
{
    uint8_t records[FRAME_LEN];
    struct bytes_writer writer;
    const struct peer_vnode entry = {.vnode = 7, .term = {1, 2, 3}};
    bytes_writer_init(&writer, records, sizeof records);
    peer_put_vnode(&writer, PEER_OPENED, &entry);
    peer_put_vnode(&writer, PEER_PASS, &entry);
    peer_put_vnode(&writer, PEER_PASS, &entry);
    peer_put_vnode(&writer, PEER_HELD, &entry);
    const struct peer_envelope envelope = {
        .node = 1, .boot = 2, .records = records, .len = writer.len};
    const int len = peer_encode(&envelope, frame, FRAME_LEN);
    assert_true(len > 0);
    return (size_t)len;
}

/* The order of a hand-off is told by what is in the frames, and each frame counts once. */
static void a_frame_visits_the_points_of_its_records_once(void **state)
{
    uint8_t frame[FRAME_LEN];
    const size_t len = make_frame(frame);
    struct visits visits = {.seen = {0}};
    const struct failpoints failpoints = {.reach = note, .context = &visits};
    (void)state;

    failure_frame(&failpoints, FAILURE_SENDING, frame, len);
    assert_int_equal(visits.seen[FAILPOINT_PASS_BEFORE_SEND], 1);
    assert_int_equal(visits.seen[FAILPOINT_OPENED_BEFORE_SEND], 1);
    assert_int_equal(visits.seen[FAILPOINT_HELD_BEFORE_SEND], 1);
    assert_int_equal(visits.seen[FAILPOINT_PASS_AFTER_SEND], 0);
    failure_frame(&failpoints, FAILURE_SENT, frame, len);
    assert_int_equal(visits.seen[FAILPOINT_PASS_AFTER_SEND], 1);
    assert_int_equal(visits.seen[FAILPOINT_OPENED_AFTER_SEND], 1);
    assert_int_equal(visits.seen[FAILPOINT_PASS_AFTER_RECEIVE], 0);
    failure_frame(&failpoints, FAILURE_RECEIVED, frame, len);
    assert_int_equal(visits.seen[FAILPOINT_PASS_AFTER_RECEIVE], 1);
    assert_int_equal(visits.seen[FAILPOINT_HELD_AFTER_RECEIVE], 1);
    assert_int_equal(visits.seen[FAILPOINT_PASS_BEFORE_SEND], 1);
    assert_int_equal(visits.seen[FAILPOINT_SLOT_BEFORE_SEND], 0);
}

/* What voters promise and which ring was agreed on are kept under names. */
static void meta_values_visit_the_points_of_their_names(void **state)
{
    struct visits visits = {.seen = {0}};
    const struct failpoints failpoints = {.reach = note, .context = &visits};
    (void)state;

    failure_meta(&failpoints, false, "ring.register");
    assert_int_equal(visits.seen[FAILPOINT_REGISTER_BEFORE_COMMIT], 1);
    failure_meta(&failpoints, true, "ring.register");
    assert_int_equal(visits.seen[FAILPOINT_REGISTER_AFTER_COMMIT], 1);
    failure_meta(&failpoints, true, "ring.config");
    assert_int_equal(visits.seen[FAILPOINT_CONFIG_AFTER_COMMIT], 1);
    failure_meta(&failpoints, true, "gossip.peers");
    failure_meta(NULL, true, "ring.config");
    for (int i = 0; i < FAILPOINT_COUNT; i++)
        assert_true(visits.seen[i] <= 1);
    assert_int_equal(visits.seen[FAILPOINT_REGISTER_BEFORE_COMMIT], 1);
}

/* Bytes from outside must not end or confuse a test run. */
static void a_frame_that_cannot_be_read_visits_nothing(void **state)
{
    uint8_t frame[FRAME_LEN];
    const size_t len = make_frame(frame);
    struct visits visits = {.seen = {0}};
    const struct failpoints failpoints = {.reach = note, .context = &visits};
    (void)state;

    failure_frame(&failpoints, FAILURE_SENDING, frame, len / 4);
    failure_frame(&failpoints, FAILURE_SENDING, "x", 1);
    failure_frame(&failpoints, FAILURE_SENDING, NULL, 0);
    failure_frame(NULL, FAILURE_SENDING, frame, len);
    for (int i = 0; i < FAILPOINT_COUNT; i++)
        assert_int_equal(visits.seen[i], 0);
}

/* Visits the point `visits` times in a child; the signal that ended it, 0 if it ended by itself. */
static int end_of_child(const char *text, int visits)
{
    const pid_t child = fork();
    int status = 0;

    assert_true(child >= 0);
    if (child == 0) {
        struct failure failure;
        if (failure_init(&failure, text, NULL) != TG_OK)
            _exit(1);
        for (int i = 0; i < visits; i++) {
            failpoint_reach(&failure.failpoints, FAILPOINT_META_AFTER_COMMIT);
            failpoint_reach(&failure.failpoints, FAILPOINT_META_BEFORE_COMMIT);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* n says which visit, so that a test can let the start of the node pass. */
static void the_process_is_killed_at_the_nth_visit_and_not_before(void **state)
{
    (void)state;
    assert_int_equal(end_of_child("meta-after-commit:1", 1), SIGKILL);
    assert_int_equal(end_of_child("meta-after-commit:4", 3), 0);
    assert_int_equal(end_of_child("meta-after-commit:4", 4), SIGKILL);
    assert_int_equal(end_of_child("state-after-commit:1", 9), 0);
}

static void keep_line(void *context, enum log_level level, const char *line)
{
    char *kept = context;
    kept[0] = level >= LOG_LEVEL_WARN ? '!' : '.';
    (void)strncpy(kept + 1, line, FRAME_LEN - 2);
}

/* Nobody may run a node that kills itself without knowing it; and who mistypes sees the names. */
static void it_is_said_loudly_and_a_wrong_name_shows_the_right_ones(void **state)
{
    char line[FRAME_LEN] = "";
    const struct log log = {.level = LOG_LEVEL_WARN, .write = keep_line, .context = line};
    struct failure failure;
    (void)state;

    assert_int_equal(failure_init(&failure, "pass-after-send:3", &log), 0);
    assert_int_equal(line[0], '!');
    assert_non_null(strstr(line, "KILL ITSELF"));
    assert_non_null(strstr(line, "pass-after-send"));
    assert_int_equal(failure_init(&failure, "pass:3", &log), TG_EINVALID);
    assert_non_null(strstr(line, "\"pass:3\""));
    for (int i = 0; i < FAILPOINT_COUNT; i++)
        assert_non_null(strstr(line, failpoint_name((enum failpoint)i)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_visits_the_points_of_its_records_once),
        cmocka_unit_test(meta_values_visit_the_points_of_their_names),
        cmocka_unit_test(a_frame_that_cannot_be_read_visits_nothing),
        cmocka_unit_test(the_process_is_killed_at_the_nth_visit_and_not_before),
        cmocka_unit_test(it_is_said_loudly_and_a_wrong_name_shows_the_right_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
