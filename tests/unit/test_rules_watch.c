/* test_rules_watch.c - when a file or directory of rules is read again, and what of it is applied.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <semaphore.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/runtime/control/rules_watch.h"
#include "tests/unit/support_scratch.h"

enum { NODES = 4, EDITS_MAX = 512, CONTENTS = 6, ROUNDS = 2000, WAIT_S = 20 };

static struct hash128 stamp(uint64_t number)
{
    return (struct hash128){number, number};
}

/* ---- when to read ---------------------------------------------------------------------------- */

static void what_is_as_it_was_read_is_not_read(void **state)
{
    struct rules_eye eye = {.read = stamp(1), .seen = stamp(1)};
    (void)state;
    assert_false(rules_eye_look(&eye, stamp(1)));
    assert_false(rules_eye_look(&eye, stamp(1)));
}

static void what_has_changed_is_read_once_it_is_still(void **state)
{
    struct rules_eye eye = {.read = stamp(1), .seen = stamp(1)};
    (void)state;
    assert_false(rules_eye_look(&eye, stamp(2)));
    assert_false(rules_eye_look(&eye, stamp(3)));
    assert_true(rules_eye_look(&eye, stamp(3)));
    assert_true(rules_eye_read(&eye, stamp(3)));
    assert_false(rules_eye_look(&eye, stamp(3)));
}

static void what_changes_while_it_is_read_is_not_whole(void **state)
{
    struct rules_eye eye = {.read = stamp(1), .seen = stamp(2)};
    (void)state;
    assert_true(rules_eye_look(&eye, stamp(2)));
    assert_false(rules_eye_read(&eye, stamp(3)));
    assert_true(rules_eye_look(&eye, stamp(3)));
    assert_true(rules_eye_read(&eye, stamp(3)));
}

static void what_is_back_at_what_was_read_is_left(void **state)
{
    struct rules_eye eye = {.read = stamp(1), .seen = stamp(1)};
    (void)state;
    assert_false(rules_eye_look(&eye, stamp(2)));
    assert_false(rules_eye_look(&eye, stamp(1)));
    assert_false(rules_eye_look(&eye, stamp(1)));
}

static void what_was_handed_over_last_is_not_handed_over_again(void **state)
{
    struct rules_eye eye = {.read = stamp(1), .seen = stamp(1)};
    (void)state;
    assert_true(rules_eye_tell(&eye, stamp(5)));
    assert_false(rules_eye_tell(&eye, stamp(5)));
    assert_true(rules_eye_tell(&eye, stamp(6)));
    assert_true(rules_eye_tell(&eye, stamp(5)));
}

/* ---- what to apply --------------------------------------------------------------------------- */

/* Contents are one character, edits a word of them, oldest first. */
static enum rules_verdict judge_edits(const char *edits, size_t count, const char *was,
                                      const char *is)
{
    struct rules_judge judge = {.was = {was, was != NULL}, .is = {is, 1}};
    for (size_t i = 0; i < count; i++)
        rules_judge_tell(&judge, &(struct rules_text){&edits[i], 1});
    return rules_judge_end(&judge);
}

static enum rules_verdict judge(const char *edits, const char *was, const char *is)
{
    return judge_edits(edits, strlen(edits), was, is);
}

static void what_is_news_is_applied(void **state)
{
    (void)state;
    assert_int_equal(judge("", "a", "b"), RULES_APPLY);
    assert_int_equal(judge("a", "a", "b"), RULES_APPLY);
    assert_int_equal(judge("ab", "a", "c"), RULES_APPLY); /* it has not seen b */
    assert_int_equal(judge("a", NULL, "b"), RULES_APPLY);
}

static void what_another_node_has_applied_is_left(void **state)
{
    (void)state;
    assert_int_equal(judge("ab", "a", "b"), RULES_APPLIED);
    assert_int_equal(judge("ab", "b", "b"), RULES_APPLIED);
}

static void an_older_directory_undoes_nothing(void **state)
{
    (void)state;
    assert_int_equal(judge("abc", "a", "b"), RULES_OLDER);
    assert_int_equal(judge("abc", NULL, "a"), RULES_OLDER);
}

static void whoever_has_the_last_edit_may_go_back(void **state)
{
    (void)state;
    assert_int_equal(judge("abc", "c", "b"), RULES_APPLY);
    assert_int_equal(judge("aba", "a", "b"), RULES_APPLY);
}

/* Nodes see the contents of one source, in order, each late and with gaps of its own: when all have
 * the last one, it is the last edit. */
static void directories_that_end_alike_end_in_the_last_edit(void **state)
{
    static const char contents[CONTENTS] = "abcdef";
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct random random;
        char line[16];
        char edits[EDITS_MAX];
        size_t at[NODES] = {0};
        size_t count = 1;
        random_init(&random, seed);
        for (size_t i = 0; i < sizeof line; i++)
            line[i] = contents[random_below(&random, CONTENTS)];
        edits[0] = line[0];
        for (size_t left = NODES; left > 0;) {
            const size_t node = random_below(&random, NODES);
            if (at[node] == sizeof line - 1)
                continue;
            const size_t from = at[node];
            at[node] += 1 + random_below(&random, sizeof line - 1 - from);
            left -= at[node] == sizeof line - 1;
            if (line[at[node]] == line[from])
                continue; /* nothing has changed for it */
            if (judge_edits(edits, count, &line[from], &line[at[node]]) == RULES_APPLY)
                edits[count++] = line[at[node]];
            assert_true(count < EDITS_MAX);
        }
        if (edits[count - 1] != line[sizeof line - 1])
            print_error("seed %llu\n", (unsigned long long)seed);
        assert_int_equal(edits[count - 1], line[sizeof line - 1]);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

struct fixture {
    char folder[SCRATCH_PATH_LEN];
    char link[SCRATCH_PATH_LEN + 16];
    struct rules_watch *watch;
    sem_t woken;
};

static void on_change(void *context)
{
    struct fixture *f = context;
    (void)sem_post(&f->woken);
}

static void write_file(const struct fixture *f, const char *name, const char *text)
{
    char path[sizeof f->link + 16];
    (void)snprintf(path, sizeof path, "%s/%s", f->folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void take(struct fixture *f, struct rules_watched *out)
{
    struct timespec deadline;
    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += WAIT_S;
    assert_int_equal(sem_timedwait(&f->woken, &deadline), 0);
    assert_true(rules_watch_take(f->watch, out));
}

static void swap_link(const struct fixture *f, const char *to)
{
    char beside[sizeof f->link + 8];
    (void)snprintf(beside, sizeof beside, "%s.new", f->link);
    assert_int_equal(symlink(to, beside), 0);
    assert_int_equal(rename(beside, f->link), 0);
}

static int setup(void **state)
{
    static struct fixture fixture;
    memset(&fixture, 0, sizeof fixture);
    *state = &fixture;
    if (scratch_folder(fixture.folder, "tidegate-watch") != 0)
        return -1;
    (void)snprintf(fixture.link, sizeof fixture.link, "%s/rules.yaml", fixture.folder);
    write_file(&fixture, "one", "1");
    write_file(&fixture, "two", "2");
    swap_link(&fixture, "one");
    const struct rules_watch_options options = {.path = fixture.link,
                                                .len_max = 1000,
                                                .first = rules_source_stamp(fixture.link),
                                                .wake = on_change,
                                                .context = &fixture};
    return sem_init(&fixture.woken, 0, 0) != 0 || rules_watch_new(&options, &fixture.watch) != 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"one", "two", "rules.yaml"};
    rules_watch_free(&f->watch);
    (void)sem_destroy(&f->woken);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[sizeof f->link + 16];
        (void)snprintf(path, sizeof path, "%s/%s", f->folder, names[i]);
        (void)unlink(path);
    }
    return rmdir(f->folder);
}

static void a_link_that_is_turned_is_followed(void **state)
{
    struct fixture *f = *state;
    struct rules_watched read;
    assert_false(rules_watch_take(f->watch, &read));
    swap_link(f, "two");
    take(f, &read);
    assert_false(read.failed);
    assert_int_equal(read.source.len, 1);
    assert_memory_equal(read.source.text, "2", 1);
    rules_source_fini(&read.source);
    assert_false(rules_watch_take(f->watch, &read));
}

static void an_error_is_told_and_then_what_follows(void **state)
{
    struct fixture *f = *state;
    struct rules_watched read;
    assert_int_equal(unlink(f->link), 0);
    take(f, &read);
    assert_true(read.failed);
    assert_non_null(strstr(read.error, "cannot open"));
    swap_link(f, "two");
    take(f, &read);
    assert_memory_equal(read.source.text, "2", 1);
    rules_source_fini(&read.source);
    write_file(f, "one", "3");
    swap_link(f, "one");
    take(f, &read);
    assert_memory_equal(read.source.text, "3", 1);
    rules_source_fini(&read.source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_as_it_was_read_is_not_read),
        cmocka_unit_test(what_has_changed_is_read_once_it_is_still),
        cmocka_unit_test(what_changes_while_it_is_read_is_not_whole),
        cmocka_unit_test(what_is_back_at_what_was_read_is_left),
        cmocka_unit_test(what_was_handed_over_last_is_not_handed_over_again),
        cmocka_unit_test(what_is_news_is_applied),
        cmocka_unit_test(what_another_node_has_applied_is_left),
        cmocka_unit_test(an_older_directory_undoes_nothing),
        cmocka_unit_test(whoever_has_the_last_edit_may_go_back),
        cmocka_unit_test(directories_that_end_alike_end_in_the_last_edit),
        cmocka_unit_test_setup_teardown(a_link_that_is_turned_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(an_error_is_told_and_then_what_follows, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
