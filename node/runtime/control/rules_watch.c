/* rules_watch.c - see rules_watch.h: two pure parts, and a thread that looks. */
#include "node/runtime/control/rules_watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"

#define NS_PER_S 1000000000

/* ---- when to read ---------------------------------------------------------------------------- */

bool rules_eye_look(struct rules_eye *eye, struct hash128 stamp)
{
    const bool still = hash128_equal(stamp, eye->seen);
    eye->seen = stamp;
    return still && !hash128_equal(stamp, eye->read); /* RULESWATCH-1 */
}

bool rules_eye_read(struct rules_eye *eye, struct hash128 stamp)
{
    const bool whole = hash128_equal(stamp, eye->seen);
    eye->seen = stamp;
    if (whole)
        eye->read = stamp;
    return whole; /* RULESWATCH-1 */
}

bool rules_eye_tell(struct rules_eye *eye, struct hash128 content)
{
    const bool news = !hash128_equal(content, eye->told);
    eye->told = content;
    return news; /* RULESWATCH-2 */
}

/* ---- what to apply --------------------------------------------------------------------------- */

static bool is_same(const struct rules_text *a, const struct rules_text *b)
{
    return a->data != NULL && a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

void rules_judge_tell(struct rules_judge *judge, const struct rules_text *edit)
{
    ASSERT(judge->is.data != NULL && edit->data != NULL);
    judge->followed = is_same(&judge->was, edit);
    judge->last = is_same(&judge->is, edit);
    judge->known = judge->known || judge->last;
}

enum rules_verdict rules_judge_end(const struct rules_judge *judge)
{
    ASSERT(!judge->last || judge->known);
    if (judge->last)
        return RULES_APPLIED;
    return judge->followed || !judge->known ? RULES_APPLY : RULES_OLDER; /* RULESWATCH-4 */
}

/* ---- the thread ------------------------------------------------------------------------------ */

struct rules_watch {
    struct rules_watch_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t work;
    bool stopping;
    bool fresh; /* `found` was not taken */
    struct rules_watched found;
    /* the thread's own */
    struct rules_eye eye;
};

/* Of what was read, by whoever reads: the error or the text. */
static struct hash128 content(const struct rules_watched *read)
{
    static const struct hash_key keys[] = {{{0}}, {{1}}};
    if (read->failed)
        return hash128(&keys[1], read->error, strlen(read->error));
    return hash128(&keys[0], read->source.text, read->source.len);
}

/* Hands it over; what it holds is the watch's then, or freed. */
static void hand_over(struct rules_watch *watch, const struct rules_watched *read)
{
    (void)pthread_mutex_lock(&watch->lock);
    rules_source_fini(&watch->found.source); /* RULESWATCH-3 */
    watch->found = *read;
    watch->fresh = true;
    (void)pthread_mutex_unlock(&watch->lock);
    watch->options.wake(watch->options.context);
}

static void look(struct rules_watch *watch)
{
    const struct rules_watch_options *options = &watch->options;
    struct rules_watched read = {.failed = false};
    if (!rules_eye_look(&watch->eye, rules_source_stamp(options->path)))
        return;
    const int result = rules_source_read(options->path, options->len_max, &read.source, read.error,
                                         sizeof read.error);
    read.failed = result != 0;
    const bool whole =
        result != TG_ENOMEM && rules_eye_read(&watch->eye, rules_source_stamp(options->path));
    if (whole && rules_eye_tell(&watch->eye, content(&read)))
        hand_over(watch, &read);
    else
        rules_source_fini(&read.source);
}

static void *run(void *context)
{
    struct rules_watch *watch = context;
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    (void)pthread_mutex_lock(&watch->lock);
    while (!watch->stopping) {
        const int woken = pthread_cond_timedwait(&watch->work, &watch->lock, &until);
        if (watch->stopping || woken == 0)
            continue;
        (void)pthread_mutex_unlock(&watch->lock);
        look(watch);
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += RULES_WATCH_EVERY_NS / NS_PER_S;
        (void)pthread_mutex_lock(&watch->lock);
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return NULL;
}

/* A condition whose waits end by the clock that nobody sets. */
static bool condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    const bool made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                      pthread_cond_init(condition, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    return made;
}

int rules_watch_new(const struct rules_watch_options *options, struct rules_watch **out)
{
    *out = NULL;
    struct rules_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return TG_ENOMEM;
    watch->options = *options;
    watch->eye = (struct rules_eye){.read = options->first, .seen = options->first};
    const bool locked = pthread_mutex_init(&watch->lock, NULL) == 0;
    const bool waits = locked && condition_init(&watch->work);
    if (waits && pthread_create(&watch->thread, NULL, run, watch) == 0) {
        *out = watch;
        return 0;
    }
    if (waits)
        (void)pthread_cond_destroy(&watch->work);
    if (locked)
        (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
    return TG_ENOMEM;
}

void rules_watch_free(struct rules_watch **pointer)
{
    struct rules_watch *watch = *pointer;
    *pointer = NULL;
    if (watch == NULL)
        return;
    (void)pthread_mutex_lock(&watch->lock);
    watch->stopping = true;
    (void)pthread_cond_signal(&watch->work);
    (void)pthread_mutex_unlock(&watch->lock);
    (void)pthread_join(watch->thread, NULL);
    rules_source_fini(&watch->found.source);
    (void)pthread_cond_destroy(&watch->work);
    (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
}

bool rules_watch_take(struct rules_watch *watch, struct rules_watched *out)
{
    (void)pthread_mutex_lock(&watch->lock);
    const bool fresh = watch->fresh;
    if (fresh) {
        *out = watch->found;
        watch->found.source = (struct rules_source){.text = NULL};
        watch->fresh = false;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return fresh;
}
