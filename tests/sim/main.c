/* main.c - the simulator's program: which seeds are run, and what is told of them.
 *
 *   sim --seeds N [--first F] [--jobs J] [--kept FILE]   kept seeds, then seeds F .. F + N - 1
 *   sim --seed S [-v]... [OPTION]...                     one seed, with a trace
 *   sim --seed S --shrink                                one seed, made as small as it goes
 *
 * OPTION is one of those of options.c: --nodes 5, --phases idle,split, --no-loss ... A failure
 * prints seed, commit and the command that replays it, and then the smallest one that fails.
 * --stop ends at the first failure, --plain does without making it small, --soak tells of progress.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/runner.h"
#include "tests/sim/shrink.h"

enum { TWICE_SEEDS = 3, SHRUNK_MAX = 2, LINE_LEN = 1024, WORDS_MAX = 64 };

struct request {
    uint64_t seed; /* 0: all of first .. first + seeds - 1 */
    uint64_t first;
    uint64_t seeds;
    uint32_t jobs;
    bool stop;
    bool soak;
    bool plain;
    bool shrink;
    const char *kept;   /* a file of seeds that once failed */
    const char *commit; /* what is checked out */
    const char *program;
    struct overrides given;
};

/* ---- telling --------------------------------------------------------------------------------- */

static void tell_replay(const struct request *request, uint64_t seed, const struct overrides *given,
                        const char *what)
{
    char line[OPTIONS_LINE_LEN];
    options_line(given, seed, line);
    printf("  %s: %s %s -v\n", what, request->program, line);
}

static void tell_failure(const struct request *request, uint64_t seed,
                         const struct overrides *given, bool small)
{
    char why[SIM_FAILURE_LEN];
    struct overrides least = *given;
    printf("seed %llu, commit %s\n", (unsigned long long)seed, request->commit);
    tell_replay(request, seed, given, "replay");
    fflush(stdout);
    if (!small || !shrink(seed, &least, why))
        return;
    tell_replay(request, seed, &least, "smallest");
    printf("  which says: %s\n", why);
}

/* ---- kinds of runs --------------------------------------------------------------------------- */

static bool run_one(const struct request *request)
{
    struct options options;
    struct sim_result *result = calloc(1, sizeof *result);
    if (result == NULL)
        return false;
    options_draw(request->seed, &request->given, &options);
    if (request->shrink)
        runner_one(request->seed, &request->given, result);
    else
        sim_run(&options, result);
    const bool ok = result->failure[0] == '\0';
    if (!ok) {
        printf("seed %llu failed: %s\n", (unsigned long long)request->seed, result->failure);
        tell_failure(request, request->seed, &request->given, request->shrink);
    }
    printf("%llu events, trace %016llx\n%d passed, %d failed\n", (unsigned long long)result->events,
           (unsigned long long)result->hash, ok, !ok);
    free(result);
    return ok;
}

/* What kept seeds have met need not be met again. */
static bool run_seeds(const struct request *request, const struct coverage *kept)
{
    struct runner_sum *sum = calloc(1, sizeof *sum);
    struct timespec begin;
    struct timespec end;
    if (sum == NULL)
        return false;
    const struct runner_plan plan = {
        .first = request->first,
        .count = request->seeds,
        .jobs = request->jobs,
        .twice = TWICE_SEEDS,
        .stop_at_first = request->stop,
        .progress = request->soak,
        .given = &request->given,
    };
    clock_gettime(CLOCK_MONOTONIC, &begin);
    runner_run(&plan, sum);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    coverage_print(&sum->coverage, seconds);
    coverage_add(&sum->coverage, kept);
    for (uint32_t i = 0; i < sum->failure_count; i++)
        tell_failure(request, sum->failures[i].seed, &request->given,
                     !request->plain && i < SHRUNK_MAX);
    const bool complete = sum->failed > 0 || coverage_complete(&sum->coverage);
    printf("  traces of all seeds        %016llx\n", (unsigned long long)sum->traces);
    printf("%llu passed, %llu failed, in %.1f s\n", (unsigned long long)sum->passed,
           (unsigned long long)sum->failed, seconds);
    const bool ok = sum->failed == 0 && complete;
    free(sum);
    return ok;
}

/* ---- kept seeds ------------------------------------------------------------------------------ */

/* Reads "--seed 7 --nodes 5 ...  # what it found". False for a line that cannot be read. */
static bool read_kept(char *line, uint64_t *seed, struct overrides *given)
{
    char *words[WORDS_MAX + 1] = {NULL};
    int count = 0;
    line[strcspn(line, "#\n")] = '\0';
    for (char *at = line; *at != '\0' && count < WORDS_MAX;) {
        const size_t len = strcspn(at, " ");
        const bool last = at[len] == '\0';
        if (len > 0)
            words[count++] = at;
        at[len] = '\0';
        at += last ? len : len + 1;
    }
    *seed = 0;
    memset(given, 0, sizeof *given);
    for (int at = 0; at < count;) {
        if (strcmp(words[at], "--seed") == 0 && at + 1 < count) {
            *seed = strtoull(words[at + 1], NULL, 10);
            at += 2;
            continue;
        }
        const int taken = options_parse(given, words[at], words[at + 1]);
        if (taken <= 0)
            return false;
        at += taken;
    }
    return count == 0 || *seed != 0;
}

static bool run_kept(const struct request *request, struct coverage *met)
{
    char line[LINE_LEN];
    uint32_t passed = 0;
    uint32_t failed = 0;
    uint64_t traces = 0;
    FILE *file = request->kept == NULL ? NULL : fopen(request->kept, "r");
    if (file == NULL)
        return request->kept == NULL;
    while (fgets(line, sizeof line, file) != NULL) {
        uint64_t seed;
        struct overrides given;
        struct sim_result result;
        const bool read = read_kept(line, &seed, &given);
        if (!read)
            printf("%s: a line that cannot be read, at %s\n", request->kept, line);
        failed += !read;
        if (!read || seed == 0)
            continue;
        runner_one(seed, &given, &result);
        const bool ok = result.failure[0] == '\0';
        passed += ok;
        traces += runner_trace(seed, result.hash);
        coverage_add(met, &result.coverage);
        failed += !ok;
        if (ok)
            continue;
        printf("kept seed failed: %s\n", result.failure);
        tell_failure(request, seed, &given, false);
    }
    fclose(file);
    printf("%u kept seeds passed, %u failed, traces %016llx\n", passed, failed,
           (unsigned long long)traces);
    return failed == 0;
}

/* ---- the program ----------------------------------------------------------------------------- */

static bool parse_number(const char *text, uint64_t *out)
{
    char *end = NULL;
    if (text == NULL)
        return false;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && *out != 0;
}

/* Returns how many words were taken, 0 if it is no option of a request. */
static int parse_word(struct request *request, const char *word, const char *value)
{
    uint64_t jobs = 0;
    if (strcmp(word, "--stop") == 0 || strcmp(word, "--soak") == 0 ||
        strcmp(word, "--plain") == 0 || strcmp(word, "--shrink") == 0) {
        request->stop = request->stop || strcmp(word, "--stop") == 0;
        request->soak = request->soak || strcmp(word, "--soak") == 0;
        request->plain = request->plain || strcmp(word, "--plain") == 0;
        request->shrink = request->shrink || strcmp(word, "--shrink") == 0;
        return 1;
    }
    if (strcmp(word, "--seed") == 0)
        return parse_number(value, &request->seed) ? 2 : -1;
    if (strcmp(word, "--seeds") == 0)
        return parse_number(value, &request->seeds) ? 2 : -1;
    if (strcmp(word, "--first") == 0)
        return parse_number(value, &request->first) ? 2 : -1;
    if (strcmp(word, "--jobs") == 0) {
        const bool ok = parse_number(value, &jobs) && jobs <= RUNNER_JOBS_MAX;
        request->jobs = (uint32_t)jobs;
        return ok ? 2 : -1;
    }
    if (strcmp(word, "--kept") == 0 && value != NULL)
        request->kept = value;
    else if (strcmp(word, "--commit") == 0 && value != NULL)
        request->commit = value;
    else
        return 0;
    return 2;
}

static bool parse(int argc, char **argv, struct request *request)
{
    for (int at = 1; at < argc;) {
        const char *value = at + 1 < argc ? argv[at + 1] : NULL;
        int taken = parse_word(request, argv[at], value);
        if (taken == 0)
            taken = options_parse(&request->given, argv[at], value);
        if (taken <= 0) {
            fprintf(stderr, "%s: not an option, or not a value for it\n", argv[at]);
            return false;
        }
        at += taken;
    }
    return request->seeds != 0 || request->seed != 0;
}

int main(int argc, char **argv)
{
    struct request request = {.first = 1, .jobs = 1, .commit = "unknown", .program = argv[0]};
    if (!parse(argc, argv, &request)) {
        fprintf(stderr, "usage: %s --seeds N | --seed S [OPTION]...\n", argv[0]);
        return 2;
    }
    if (request.seed != 0)
        return run_one(&request) ? 0 : 1;
    struct coverage met = {.seeds = 0};
    const bool kept = run_kept(&request, &met);
    return run_seeds(&request, &met) && kept ? 0 : 1;
}
