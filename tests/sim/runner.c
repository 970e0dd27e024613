/* runner.c - workers and what they report, through memory that they share; runner.h draws it.
 *
 * Each worker has a slot: the seed it is at, and the coverage so far. When a worker ends by a
 * signal, the seed in its slot has failed, and another worker goes on in its place.
 *
 * SIMRUNNER-1  A seed that takes more than SEED_TIMEOUT_S of processor time has failed: the
 *              worker's timer ends it. It waits for nothing, so a machine that is busy, or stands
 *              still, is not its fault.
 */
#include "tests/sim/runner.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

enum { SEED_TIMEOUT_S = 120, PROGRESS_S = 60, FRESH_BYTES = 128 << 10 };

struct slot {
    pid_t worker;
    uint64_t seed; /* 0: none */
    uint64_t passed;
    uint64_t traces; /* their sum, each mixed with its seed */
    struct coverage coverage;
};

struct board {
    _Atomic uint64_t next;
    _Atomic uint64_t failed;
    _Atomic uint32_t failure_count;
    struct runner_failure failures[RUNNER_FAILURES_MAX];
    struct sim_result result;
    struct slot slots[RUNNER_JOBS_MAX];
};

static struct board *board_new(void)
{
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(board != MAP_FAILED);
    return board;
}

static void note_failure(struct board *board, uint64_t seed, uint64_t events, uint32_t phases,
                         const char *why)
{
    atomic_fetch_add(&board->failed, 1);
    const uint32_t at = atomic_fetch_add(&board->failure_count, 1);
    if (at < RUNNER_FAILURES_MAX) {
        struct runner_failure *failure = &board->failures[at];
        failure->events = events;
        failure->phases = phases;
        snprintf(failure->why, sizeof failure->why, "%s", why);
        failure->seed = seed;
    }
    printf("seed %llu failed: %s\n", (unsigned long long)seed, why);
    fflush(stdout);
}

/* ---- a worker -------------------------------------------------------------------------------- */

/* SIMRUNNER-1; none if it is 0. */
static void limit_time(time_t seconds)
{
    const struct itimerval end = {.it_value = {.tv_sec = seconds}};
    const int error = setitimer(ITIMER_PROF, &end, NULL);
    ASSERT(error == 0);
}

static void run_seed(const struct runner_plan *plan, struct board *board, struct slot *slot,
                     uint64_t seed)
{
    struct options options;
    struct sim_result *result = calloc(2, sizeof *result);
    ASSERT(result != NULL);
    options_draw(seed, plan->given, &options);
    limit_time(SEED_TIMEOUT_S);
    sim_run(&options, &result[0]);
    if (seed - plan->first < plan->twice && result[0].failure[0] == '\0') {
        sim_run(&options, &result[1]);
        if (result[0].hash != result[1].hash)
            snprintf(result[0].failure, sizeof result[0].failure,
                     "two runs differ: the simulation is not deterministic");
    }
    limit_time(0);
    coverage_add(&slot->coverage, &result[0].coverage);
    slot->traces += runner_trace(seed, result[0].hash);
    if (result[0].failure[0] == '\0')
        slot->passed++;
    else
        note_failure(board, seed, result[0].events, result[0].phases, result[0].failure);
    free(result);
}

/* A node takes tens of megabytes when it starts, for bounds that are made for real load, and uses
 * little of it. Pages that come fresh from the system are zero already; ones that malloc keeps from
 * the node before would all have to be cleared. */
static void use_fresh_pages(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, FRESH_BYTES);
}

static void work(const struct runner_plan *plan, struct board *board, struct slot *slot)
{
    use_fresh_pages();
    for (;;) {
        const uint64_t at = atomic_fetch_add(&board->next, 1);
        if (at >= plan->count || (plan->stop_at_first && atomic_load(&board->failed) > 0))
            break;
        slot->seed = plan->first + at;
        run_seed(plan, board, slot, slot->seed);
        slot->seed = 0;
    }
    fflush(stdout);
    _exit(0);
}

static void hire(const struct runner_plan *plan, struct board *board, struct slot *slot)
{
    fflush(stdout);
    const pid_t worker = fork();
    ASSERT(worker >= 0);
    if (worker == 0)
        work(plan, board, slot);
    slot->worker = worker;
}

/* ---- the program ----------------------------------------------------------------------------- */

static void on_alarm(int number)
{
    (void)number; /* only interrupts the wait */
}

static void wake_each_minute(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    (void)sigaction(SIGALRM, &action, NULL);
    const struct itimerval every = {{PROGRESS_S, 0}, {PROGRESS_S, 0}};
    (void)setitimer(ITIMER_REAL, &every, NULL);
}

static void tell_progress(const struct runner_plan *plan, struct board *board, time_t begin)
{
    struct coverage sum = {0};
    uint64_t lowest = plan->first + atomic_load(&board->next);
    for (uint32_t i = 0; i < plan->jobs; i++) {
        coverage_add(&sum, &board->slots[i].coverage);
        if (board->slots[i].seed != 0 && board->slots[i].seed < lowest)
            lowest = board->slots[i].seed;
    }
    const double seconds = difftime(time(NULL), begin);
    printf("%6.0f s: %llu of %llu seeds, %llu failed, %.0f events/s; go on with FIRST=%llu\n",
           seconds, (unsigned long long)sum.seeds, (unsigned long long)plan->count,
           (unsigned long long)atomic_load(&board->failed),
           (double)sum.events / (seconds > 0 ? seconds : 1), (unsigned long long)lowest);
    fflush(stdout);
}

/* A worker has ended. True if another one takes its place. */
static bool fired(const struct runner_plan *plan, struct board *board, struct slot *slot,
                  int status)
{
    char why[SIM_FAILURE_LEN];
    if (slot->seed == 0)
        return false;
    snprintf(why, sizeof why,
             WIFSIGNALED(status) ? "the process ended by signal %d"
                                 : "the process ended with status %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    note_failure(board, slot->seed, 0, 0, why);
    slot->seed = 0;
    hire(plan, board, slot);
    return true;
}

static void wait_for_all(const struct runner_plan *plan, struct board *board)
{
    const time_t begin = time(NULL);
    for (uint32_t working = plan->jobs; working > 0;) {
        int status;
        const pid_t ended = waitpid(-1, &status, 0);
        if (ended < 0) {
            ASSERT(errno == EINTR);
            if (plan->progress)
                tell_progress(plan, board, begin);
            continue;
        }
        for (uint32_t i = 0; i < plan->jobs; i++)
            if (board->slots[i].worker == ended && !fired(plan, board, &board->slots[i], status))
                working--;
    }
}

void runner_run(const struct runner_plan *plan, struct runner_sum *sum)
{
    struct board *board = board_new();
    memset(sum, 0, sizeof *sum);
    for (uint32_t i = 0; i < plan->jobs; i++)
        hire(plan, board, &board->slots[i]);
    wake_each_minute();
    wait_for_all(plan, board);
    const struct itimerval never = {{0, 0}, {0, 0}};
    (void)setitimer(ITIMER_REAL, &never, NULL);
    for (uint32_t i = 0; i < plan->jobs; i++) {
        sum->passed += board->slots[i].passed;
        sum->traces += board->slots[i].traces;
        coverage_add(&sum->coverage, &board->slots[i].coverage);
    }
    sum->failed = atomic_load(&board->failed);
    sum->failure_count = atomic_load(&board->failure_count);
    if (sum->failure_count > RUNNER_FAILURES_MAX)
        sum->failure_count = RUNNER_FAILURES_MAX;
    memcpy(sum->failures, board->failures, sizeof sum->failures);
    munmap(board, sizeof *board);
}

void runner_one(uint64_t seed, const struct overrides *given, struct sim_result *result)
{
    struct board *board = board_new();
    fflush(stdout);
    const pid_t worker = fork();
    ASSERT(worker >= 0);
    if (worker == 0) {
        struct options options;
        options_draw(seed, given, &options);
        limit_time(SEED_TIMEOUT_S);
        sim_run(&options, &board->result);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    while (waitpid(worker, &status, 0) < 0)
        ASSERT(errno == EINTR);
    *result = board->result;
    munmap(board, sizeof *board);
    if (WIFSIGNALED(status))
        snprintf(result->failure, sizeof result->failure, "the process ended by signal %d",
                 WTERMSIG(status));
}
