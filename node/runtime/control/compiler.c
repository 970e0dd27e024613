/* compiler.c - see compiler.h: jobs under a mutex, one thread that works them off. */
#include "node/runtime/control/compiler.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/compile/ordinals.h"
#include "node/policy/compile/packed.h"

struct job_list {
    struct compiler_job *first;
    struct compiler_job **end; /* where the next one is to be written */
};

struct compiler {
    struct compiler_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* for all but `last` */
    pthread_cond_t work;
    struct job_list waiting[COMPILER_PURPOSES];
    struct job_list done;
    uint32_t questions; /* with the compiler (COMPILER-2) */
    bool stopping;
    /* the thread's own: what was compiled without an error (COMPILER-4) */
    struct compiler_job *last;
};

/* ---- jobs ------------------------------------------------------------------------------------ */

struct compiler_job *compiler_job_new(enum compiler_purpose purpose, const char *text, size_t len)
{
    ASSERT(purpose < COMPILER_PURPOSES && (text != NULL || len == 0));
    struct compiler_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return NULL;
    job->purpose = purpose;
    if (text == NULL)
        return job;
    job->block = malloc(len > 0 ? len : 1);
    if (job->block == NULL) {
        free(job);
        return NULL;
    }
    memcpy(job->block, text, len);
    job->text = job->block;
    job->len = len;
    return job;
}

void compiler_job_free(struct compiler_job **pointer)
{
    struct compiler_job *job = *pointer;
    *pointer = NULL;
    if (job == NULL)
        return;
    policy_free(&job->policy);
    free(job->known);
    free(job->errors);
    free(job->warnings);
    free(job->block);
    free(job);
}

bool compiler_job_know(struct compiler_job *job, const void *bytes, size_t len)
{
    ASSERT(job->known == NULL);
    if (len == 0)
        return true;
    job->known = malloc(len);
    if (job->known == NULL)
        return false;
    memcpy(job->known, bytes, len);
    job->known_len = len;
    return true;
}

static void list_init(struct job_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void list_put(struct job_list *list, struct compiler_job *job)
{
    ASSERT(job->next == NULL && *list->end == NULL); /* COMPILER-1 */
    *list->end = job;
    list->end = &job->next;
}

static struct compiler_job *list_take(struct job_list *list)
{
    ASSERT((list->first == NULL) == (list->end == &list->first)); /* COMPILER-1 */
    struct compiler_job *job = list->first;
    if (job == NULL)
        return NULL;
    list->first = job->next;
    if (list->first == NULL)
        list->end = &list->first;
    job->next = NULL;
    return job;
}

static void list_free(struct job_list *list)
{
    struct compiler_job *job;
    while ((job = list_take(list)) != NULL)
        compiler_job_free(&job);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Makes of a file's text what is kept of it. False, with the job's error, if it cannot be kept. */
static bool pack(struct compiler_job *job)
{
    struct packed packed;
    const size_t len = job->len;
    if (job->purpose != COMPILER_FILE)
        return true;
    job->place = (struct policy_error){.line = 0};
    job->error = packed_make(job->text, len, alloc_heap(), &packed);
    if (job->error != 0) {
        (void)snprintf(job->place.message, sizeof job->place.message, "%s",
                       error_message(job->error));
        return false;
    }
    if (packed.block != NULL) {
        free(job->block);
        job->block = packed.block; /* of the heap, as that was */
        job->text = packed.data;
        job->len = packed.len;
    }
    if (job->len <= POLICY_DOCUMENT_LEN_MAX)
        return true;
    job->error = TG_ETOOBIG;
    (void)snprintf(job->place.message, sizeof job->place.message, PACKED_TOO_LARGE, len, job->len,
                   (int)POLICY_DOCUMENT_LEN_MAX);
    return false;
}

static void compile_packed(const struct compiler_options *options, struct compiler_job *job)
{
    job->error = packed_compile(job->text, job->len, options->allocator, options->zones,
                                &job->policy, &job->place);
    if (job->error == TG_EINVALID && job->purpose != COMPILER_RULES &&
        (job->errors = calloc(1, sizeof *job->errors)) != NULL)
        packed_errors_find(job->text, job->len, options->allocator, options->zones, job->errors);
    if (job->error != 0 || job->known_len == 0)
        return;
    /* What cannot be read leaves positions: better a count exchanged than no rules. */
    const int given = ordinals_give(job->policy, job->known, job->known_len, options->allocator);
    if (given != TG_ENOMEM)
        return;
    policy_free(&job->policy);
    job->error = given;
    (void)snprintf(job->place.message, sizeof job->place.message, "out of memory");
}

void compiler_do(const struct compiler_options *options, struct compiler_job *job)
{
    if (pack(job))
        compile_packed(options, job);
}

static bool is_last(const struct compiler *compiler, const struct compiler_job *job)
{
    const struct compiler_job *last = compiler->last;
    ASSERT(last == NULL || (last->error == 0 && last->policy != NULL)); /* COMPILER-4 */
    return last != NULL && last->len == job->len && last->known_len == job->known_len &&
           memcmp(last->text, job->text, job->len) == 0 &&
           (job->known_len == 0 || memcmp(last->known, job->known, job->known_len) == 0);
}

/* Keeps what was compiled for whoever comes with the same text. */
static void remember(struct compiler *compiler, const struct compiler_job *job)
{
    struct compiler_job *copy = compiler_job_new(job->purpose, job->text, job->len);
    if (copy == NULL || !compiler_job_know(copy, job->known, job->known_len)) {
        compiler_job_free(&copy);
        return;
    }
    ASSERT(job->policy != NULL && job->error == 0);
    copy->policy = policy_share(job->policy);
    compiler_job_free(&compiler->last);
    compiler->last = copy;
}

/* Looks for what the policy probably does not mean; without memory nothing is found. */
static void find_warnings(const struct compiler *compiler, struct compiler_job *job)
{
    if (job->purpose != COMPILER_QUESTION || job->policy == NULL)
        return;
    job->warnings = calloc(POLICY_WARNINGS_MAX, sizeof *job->warnings);
    const int count = job->warnings != NULL
                          ? policy_warnings(job->policy, compiler->options.allocator, job->warnings,
                                            POLICY_WARNINGS_MAX)
                          : 0;
    job->warning_count = count > 0 ? (size_t)count : 0;
    ASSERT(job->warning_count <= POLICY_WARNINGS_MAX);
}

static void compile(struct compiler *compiler, struct compiler_job *job)
{
    if (!pack(job))
        return;
    if (is_last(compiler, job)) {
        job->error = 0;
        job->policy = policy_share(compiler->last->policy);
        return;
    }
    compile_packed(&compiler->options, job);
    ASSERT((job->error == 0) == (job->policy != NULL));
    if (job->error == 0)
        remember(compiler, job);
}

/* The next job by COMPILER-3, or NULL to end; waits for either. The lock is held. */
static struct compiler_job *next_job(struct compiler *compiler)
{
    for (;;) {
        ASSERT(compiler->questions <= COMPILER_QUESTIONS_MAX); /* COMPILER-2 */
        if (compiler->stopping)
            return NULL;
        for (uint32_t i = 0; i < COMPILER_PURPOSES; i++) {
            struct compiler_job *job = list_take(&compiler->waiting[i]);
            if (job != NULL)
                return job;
        }
        (void)pthread_cond_wait(&compiler->work, &compiler->lock);
    }
}

static void *run(void *context)
{
    struct compiler *compiler = context;
    struct compiler_job *job;
    (void)pthread_mutex_lock(&compiler->lock);
    while ((job = next_job(compiler)) != NULL) {
        (void)pthread_mutex_unlock(&compiler->lock);
        compile(compiler, job);
        find_warnings(compiler, job);
        (void)pthread_mutex_lock(&compiler->lock);
        list_put(&compiler->done, job);
        compiler->options.wake(compiler->options.context);
    }
    (void)pthread_mutex_unlock(&compiler->lock);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

int compiler_new(const struct compiler_options *options, struct compiler **out)
{
    *out = NULL;
    struct compiler *compiler = calloc(1, sizeof *compiler);
    if (compiler == NULL)
        return TG_ENOMEM;
    compiler->options = *options;
    for (uint32_t i = 0; i < COMPILER_PURPOSES; i++)
        list_init(&compiler->waiting[i]);
    list_init(&compiler->done);
    const bool locked = pthread_mutex_init(&compiler->lock, NULL) == 0;
    const bool waits = locked && pthread_cond_init(&compiler->work, NULL) == 0;
    if (waits && pthread_create(&compiler->thread, NULL, run, compiler) == 0) {
        *out = compiler;
        return 0;
    }
    if (waits)
        (void)pthread_cond_destroy(&compiler->work);
    if (locked)
        (void)pthread_mutex_destroy(&compiler->lock);
    free(compiler);
    return TG_ENOMEM;
}

void compiler_free(struct compiler **pointer)
{
    struct compiler *compiler = *pointer;
    *pointer = NULL;
    if (compiler == NULL)
        return;
    (void)pthread_mutex_lock(&compiler->lock);
    compiler->stopping = true;
    (void)pthread_cond_signal(&compiler->work);
    (void)pthread_mutex_unlock(&compiler->lock);
    (void)pthread_join(compiler->thread, NULL);
    for (uint32_t i = 0; i < COMPILER_PURPOSES; i++)
        list_free(&compiler->waiting[i]);
    list_free(&compiler->done);
    compiler_job_free(&compiler->last);
    (void)pthread_cond_destroy(&compiler->work);
    (void)pthread_mutex_destroy(&compiler->lock);
    free(compiler);
}

/* ---- the loop's side ------------------------------------------------------------------------- */

bool compiler_ask(struct compiler *compiler, struct compiler_job *job)
{
    struct compiler_job *older = NULL;
    const bool question = job->purpose == COMPILER_QUESTION;
    ASSERT(job->purpose < COMPILER_PURPOSES && job->text != NULL);
    (void)pthread_mutex_lock(&compiler->lock);
    const bool room = !question || compiler->questions < COMPILER_QUESTIONS_MAX;
    if (!question)
        older = list_take(&compiler->waiting[job->purpose]); /* COMPILER-2 */
    if (room)
        list_put(&compiler->waiting[job->purpose], job);
    compiler->questions += room && question;
    (void)pthread_cond_signal(&compiler->work);
    (void)pthread_mutex_unlock(&compiler->lock);
    compiler_job_free(&older);
    return room;
}

struct compiler_job *compiler_take(struct compiler *compiler)
{
    (void)pthread_mutex_lock(&compiler->lock);
    struct compiler_job *job = list_take(&compiler->done);
    ASSERT(job == NULL || job->purpose != COMPILER_QUESTION || compiler->questions > 0);
    if (job != NULL && job->purpose == COMPILER_QUESTION)
        compiler->questions--;
    (void)pthread_mutex_unlock(&compiler->lock);
    return job;
}
