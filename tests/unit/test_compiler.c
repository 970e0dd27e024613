/* test_compiler.c - the thread that compiles rules: what waits, what goes first, what is not done
 * twice. A gate in its allocator holds it at the beginning of a compilation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pthread.h>
#include <semaphore.h>

#include <cmocka.h>

#include "node/runtime/control/compiler.h"

enum { WAIT_S = 20, TEXT_LEN = 160 };

struct fixture {
    struct compiler *compiler;
    struct compiler_options options;
    struct allocator allocator;
    pthread_mutex_t gate;
    sem_t at_gate; /* posted when the thread wants memory */
    sem_t done;
    bool told; /* at_gate, since the gate was closed */
};

static void *gated_get(void *context, size_t bytes)
{
    struct fixture *f = context;
    if (!f->told) {
        f->told = true;
        (void)sem_post(&f->at_gate);
    }
    (void)pthread_mutex_lock(&f->gate);
    (void)pthread_mutex_unlock(&f->gate);
    return alloc_get(alloc_heap(), bytes);
}

static void plain_put(void *context, void *block, size_t bytes)
{
    (void)context;
    alloc_put(alloc_heap(), block, bytes);
}

static void on_done(void *context)
{
    struct fixture *f = context;
    (void)sem_post(&f->done);
}

static void wait_on(sem_t *semaphore)
{
    struct timespec deadline;
    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += WAIT_S;
    assert_int_equal(sem_timedwait(semaphore, &deadline), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || pthread_mutex_init(&f->gate, NULL) != 0 || sem_init(&f->at_gate, 0, 0) != 0 ||
        sem_init(&f->done, 0, 0) != 0)
        return -1;
    *state = f;
    f->allocator = (struct allocator){gated_get, plain_put, f};
    f->options =
        (struct compiler_options){.allocator = &f->allocator, .wake = on_done, .context = f};
    return compiler_new(&f->options, &f->compiler);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    compiler_free(&f->compiler);
    (void)pthread_mutex_destroy(&f->gate);
    (void)sem_destroy(&f->at_gate);
    (void)sem_destroy(&f->done);
    free(f);
    return 0;
}

static struct compiler_job *job_of(enum compiler_purpose purpose, uint64_t version, unsigned rate)
{
    char text[TEXT_LEN];
    const int len = snprintf(text, sizeof text,
                             "rules:\n- {name: a, key: [user], limits: [{rate: %u/h}]}\n", rate);
    struct compiler_job *job = compiler_job_new(purpose, text, (size_t)len);
    assert_non_null(job);
    job->version = version;
    return job;
}

static void ask(struct fixture *f, enum compiler_purpose purpose, uint64_t version, unsigned rate)
{
    assert_true(compiler_ask(f->compiler, job_of(purpose, version, rate)));
}

/* The next job that is done, which must be this one. */
static struct compiler_job *take(struct fixture *f, enum compiler_purpose purpose, uint64_t version)
{
    wait_on(&f->done);
    struct compiler_job *job = compiler_take(f->compiler);
    assert_non_null(job);
    assert_int_equal(job->purpose, purpose);
    assert_int_equal(job->version, version);
    return job;
}

static void take_and_free(struct fixture *f, enum compiler_purpose purpose, uint64_t version)
{
    struct compiler_job *job = take(f, purpose, version);
    assert_int_equal(job->error, 0);
    assert_non_null(job->policy);
    compiler_job_free(&job);
}

/* Closes the gate, and has the thread stand before it with this question. */
static void hold(struct fixture *f)
{
    (void)pthread_mutex_lock(&f->gate);
    f->told = false;
    ask(f, COMPILER_QUESTION, 100, 999);
    wait_on(&f->at_gate);
}

static void let_go(struct fixture *f)
{
    (void)pthread_mutex_unlock(&f->gate);
}

/* Of rules that are to be in force the newest alone is compiled after what is at hand, and before
 * whatever else was asked earlier. */
static void of_rules_that_wait_the_newest_wins_and_goes_first(void **state)
{
    struct fixture *f = *state;
    hold(f);
    ask(f, COMPILER_QUESTION, 1, 5);
    ask(f, COMPILER_FILE, 2, 6);
    ask(f, COMPILER_FILE, 3, 7);
    ask(f, COMPILER_RULES, 4, 8);
    ask(f, COMPILER_RULES, 5, 9);
    assert_null(compiler_take(f->compiler));
    let_go(f);
    take_and_free(f, COMPILER_QUESTION, 100);
    take_and_free(f, COMPILER_RULES, 5);
    take_and_free(f, COMPILER_FILE, 3);
    take_and_free(f, COMPILER_QUESTION, 1);
    assert_null(compiler_take(f->compiler));
}

/* So many questions are taken, those under way included; one more stays its owner's, until an
 * answer has been fetched. Rules are never refused. */
static void questions_that_are_too_many_are_refused(void **state)
{
    struct fixture *f = *state;
    hold(f);
    for (unsigned i = 1; i < COMPILER_QUESTIONS_MAX; i++)
        ask(f, COMPILER_QUESTION, i, i);
    struct compiler_job *more = job_of(COMPILER_QUESTION, 50, 50);
    assert_false(compiler_ask(f->compiler, more));
    ask(f, COMPILER_RULES, 60, 60);
    let_go(f);
    take_and_free(f, COMPILER_QUESTION, 100);
    assert_true(compiler_ask(f->compiler, more));
    take_and_free(f, COMPILER_RULES, 60);
    for (unsigned i = 1; i < COMPILER_QUESTIONS_MAX; i++)
        take_and_free(f, COMPILER_QUESTION, i);
    take_and_free(f, COMPILER_QUESTION, 50);
}

/* A text that has just been compiled is not compiled again, whoever comes with it; another one is,
 * and so is a text that was refused. */
static void a_text_that_comes_again_is_compiled_once(void **state)
{
    struct fixture *f = *state;
    ask(f, COMPILER_QUESTION, 1, 5);
    struct compiler_job *first = take(f, COMPILER_QUESTION, 1);
    ask(f, COMPILER_RULES, 2, 5);
    struct compiler_job *second = take(f, COMPILER_RULES, 2);
    assert_ptr_equal(first->policy, second->policy);
    ask(f, COMPILER_RULES, 3, 6);
    struct compiler_job *third = take(f, COMPILER_RULES, 3);
    assert_ptr_not_equal(third->policy, second->policy);
    compiler_job_free(&first);
    assert_int_equal(policy_rule_count(second->policy), 1); /* it has a share of its own */
    compiler_job_free(&second);
    compiler_job_free(&third);
}

/* An operator's question comes back with what the rules probably do not mean, which takes time. */
static void a_question_comes_back_with_its_warnings(void **state)
{
    static const char text[] = "rules:\n- {name: a, key: [user], mode: {soft: {exceed: 10%}}, "
                               "limits: [{rate: 5/h}]}\n";
    struct fixture *f = *state;
    for (enum compiler_purpose purpose = COMPILER_RULES; purpose <= COMPILER_QUESTION; purpose++) {
        struct compiler_job *job = compiler_job_new(purpose, text, sizeof text - 1);
        assert_true(compiler_ask(f->compiler, job));
        job = take(f, purpose, 0);
        assert_int_equal(job->error, 0);
        assert_int_equal(job->warning_count, purpose == COMPILER_QUESTION);
        if (purpose == COMPILER_QUESTION)
            assert_int_equal(job->warnings[0].line, 2);
        compiler_job_free(&job);
    }
}

/* What does not compile comes back with its place and what was expected. */
static void an_error_comes_back_with_its_place(void **state)
{
    static const char text[] = "rules:\n- {name: a, key: user}\n";
    struct fixture *f = *state;
    for (unsigned i = 0; i < 2; i++) {
        struct compiler_job *job = compiler_job_new(COMPILER_FILE, text, sizeof text - 1);
        assert_true(compiler_ask(f->compiler, job));
        job = take(f, COMPILER_FILE, 0);
        assert_int_equal(job->error, TG_EINVALID);
        assert_null(job->policy);
        assert_int_equal(job->place.line, 2);
        assert_non_null(strstr(job->place.message, "expected"));
        compiler_job_free(&job);
    }
}

/* Ending it frees what waits, what is done, and what is kept. (Leaks are the sanitizer's to tell.)
 */
static void an_end_frees_what_nobody_took(void **state)
{
    struct fixture *f = *state;
    ask(f, COMPILER_RULES, 1, 5);
    wait_on(&f->done);
    hold(f);
    ask(f, COMPILER_RULES, 2, 6);
    ask(f, COMPILER_QUESTION, 3, 7);
    let_go(f);
    compiler_free(&f->compiler);
    assert_null(f->compiler);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(of_rules_that_wait_the_newest_wins_and_goes_first),
        ROW(questions_that_are_too_many_are_refused),
        ROW(a_text_that_comes_again_is_compiled_once),
        ROW(a_question_comes_back_with_its_warnings),
        ROW(an_error_comes_back_with_its_place),
        ROW(an_end_frees_what_nobody_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
