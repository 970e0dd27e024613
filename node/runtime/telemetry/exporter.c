/* exporter.c - see exporter.h. */
#include "node/runtime/telemetry/exporter.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/random.h"
#include "node/runtime/config/config_telemetry.h"
#include "node/runtime/telemetry/collector.h"
#include "node/runtime/telemetry/metric_json.h"

#define NS_PER_S      INT64_C(1000000000)
#define GATHER_NS     (NS_PER_S / 2)   /* between two looks at the rings */
#define PAUSE_MAX_NS  (30 * NS_PER_S)  /* after failures, */
#define PAUSE_TOLD_NS (600 * NS_PER_S) /* and at most what a collector may ask for */
#define NEVER         INT64_MAX

enum {
    SPANS_BATCH = 512,
    SPANS_ROOM = 1 << 20, /* of a message; what does not fit is in the next one */
    PAGE_ROOM = 3 << 20,
    DOUBLINGS_MAX = 5,
    ROUND_MAX = 64 /* messages: more than all rings of the last round hold */
};

/* One kind of what is pushed. */
struct signal {
    const char *what; /* in the log */
    const char *url;  /* "": it is off */
    char *body;
    size_t capacity;
    size_t len;     /* of the message on its way; 0: there is none */
    uint32_t items; /* spans, or one page */
    uint32_t attempts;
    uint32_t failures; /* since the collector took one */
    bool more;         /* it had a whole round's */
    int64_t next_ns;   /* it is not asked before, of the monotonic clock */
    enum telemetry_figure sent;
    enum telemetry_figure failed;
    enum telemetry_figure dropped;
};

struct exporter {
    struct exporter_options options;
    struct collector *collector;
    struct random random;
    struct signal spans;
    struct signal pages;
    struct resource_json resource;
    char agent[128];
    pthread_t thread;
    bool started;
    _Atomic bool stopping;
    _Atomic int64_t until_ns; /* of the monotonic clock, once it is stopping */
    pthread_mutex_t lock;     /* of what follows */
    pthread_cond_t work;
    char *page; /* the newest one, or NULL */
    size_t page_len;
};

static int64_t mono_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void count(struct exporter *exporter, enum telemetry_figure figure, uint64_t more)
{
    (void)atomic_fetch_add_explicit(&exporter->options.figures[figure], more, memory_order_relaxed);
}

bool exporter_again(uint16_t status)
{
    return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

int64_t exporter_pause_ns(uint32_t failures, int64_t told_ns, uint64_t random)
{
    ASSERT(failures > 0);
    if (told_ns > 0)
        return told_ns < PAUSE_TOLD_NS ? told_ns : PAUSE_TOLD_NS;
    const uint32_t doublings = failures - 1 < DOUBLINGS_MAX ? failures - 1 : DOUBLINGS_MAX;
    const int64_t most_ns = NS_PER_S << doublings;
    const int64_t bound_ns = most_ns < PAUSE_MAX_NS ? most_ns : PAUSE_MAX_NS;
    return bound_ns / 2 + (int64_t)(random % (uint64_t)(bound_ns / 2 + 1)); /* not all at once */
}

/* ---- who tells ------------------------------------------------------------------------------- */

static bool is_named(const char *list, const char *name)
{
    struct config_pair pair;
    while (config_pair_next(&list, &pair))
        if (strcmp(pair.name, name) == 0)
            return true;
    return false;
}

/* Attributes that the configuration names go before those that are known here. */
static void make_resource(struct exporter *exporter)
{
    const struct config *config = exporter->options.config;
    const struct config_telemetry *telemetry = &config->telemetry;
    const char *service = telemetry->service[0] != '\0' ? telemetry->service : NULL;
    const char *own[][2] = {{"service.version", exporter->options.version},
                            {"service.instance.id", config->name},
                            {"tidegate.region", config->region},
                            {"tidegate.zone", config->zone[0] != '\0' ? config->zone : NULL}};
    struct json_text *json = &exporter->resource.text;
    struct config_pair pair;
    bool first = true;
    *json = (struct json_text){.data = exporter->resource.room, .capacity = RESOURCE_JSON_LEN};
    (void)snprintf(exporter->resource.version, sizeof exporter->resource.version, "%s",
                   exporter->options.version);
    json_put(json, "\"resource\":{\"attributes\":[");
    if (service == NULL && !is_named(telemetry->resource, "service.name"))
        service = "tidegate";
    if (service != NULL) {
        json_put_attribute(json, true, "service.name", service);
        first = false;
    }
    for (const char *at = telemetry->resource; config_pair_next(&at, &pair);) {
        if (is_named(at, pair.name) || (service != NULL && strcmp(pair.name, "service.name") == 0))
            continue; /* the last one of a name counts */
        json_put_attribute(json, first, pair.name, pair.value);
        first = false;
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i][1] != NULL && !is_named(telemetry->resource, own[i][0]))
            json_put_attribute(json, false, own[i][0], own[i][1]);
    json_put(json, "]}");
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Puts what the rings have into a message. False: they have nothing. */
static bool gather_spans(struct exporter *exporter)
{
    struct signal *signal = &exporter->spans;
    struct json_text json = {.data = signal->body, .capacity = signal->capacity - SPAN_JSON_TAIL};
    uint32_t items = 0;
    span_json_begin(&json, &exporter->resource);
    for (uint32_t i = 0; i < exporter->options.ring_count && !json.failed; i++) {
        struct span_ring *ring = exporter->options.rings[i];
        const struct trace_span *span;
        while (items < SPANS_BATCH && (span = span_ring_first(ring)) != NULL) {
            const size_t before = json.len;
            span_json_put(&json, items == 0, span);
            if (json.failed) {
                json.len = before; /* the next message begins with it */
                break;
            }
            span_ring_drop(ring);
            items++;
        }
    }
    if (items == 0)
        return false;
    json.failed = false;
    json.capacity += SPAN_JSON_TAIL;
    span_json_end(&json);
    ASSERT(!json.failed);
    signal->len = json.len;
    signal->items = items;
    signal->attempts = 0;
    return true;
}

static bool take_page(struct exporter *exporter)
{
    struct signal *signal = &exporter->pages;
    struct json_text json = {.data = signal->body, .capacity = signal->capacity};
    (void)pthread_mutex_lock(&exporter->lock);
    char *page = exporter->page;
    const size_t len = exporter->page_len;
    exporter->page = NULL;
    (void)pthread_mutex_unlock(&exporter->lock);
    if (page == NULL)
        return false;
    const int error =
        metric_json_put(&json, &exporter->resource, page, len, exporter->options.started_ns,
                        clock_now_ns(exporter->options.clock));
    free(page);
    if (error != 0) {
        count(exporter, signal->failed, 1);
        return false;
    }
    signal->len = json.len;
    signal->items = 1;
    signal->attempts = 0;
    return true;
}

/* The message has ended. */
static void settle(struct exporter *exporter, struct signal *signal, enum telemetry_figure figure,
                   uint64_t items)
{
    count(exporter, figure, items);
    signal->len = 0;
    signal->items = 0;
}

/* Told when it begins, and when it ends. */
static void tell(const struct exporter *exporter, const struct signal *signal,
                 const struct collector_answer *answer)
{
    if (signal->failures != 1)
        return;
    if (answer->status != 0)
        log_printf(exporter->options.log, LOG_LEVEL_WARN,
                   "%s are not taken by the collector at %s: status %u", signal->what, signal->url,
                   (unsigned)answer->status);
    else
        log_printf(exporter->options.log, LOG_LEVEL_WARN, "%s do not reach the collector at %s: %s",
                   signal->what, signal->url, answer->why);
}

static void note_sent(struct exporter *exporter, struct signal *signal,
                      const struct collector_answer *answer)
{
    const bool spans = signal == &exporter->spans;
    uint64_t rejected = 0;
    if (spans)
        rejected = answer->rejected < signal->items ? answer->rejected : signal->items;
    else if (answer->rejected > 0)
        rejected = 1;
    if (signal->failures > 0)
        log_printf(exporter->options.log, LOG_LEVEL_INFO, "%s are taken by the collector at %s",
                   signal->what, signal->url);
    signal->failures = 0;
    count(exporter, spans ? TELEMETRY_SPANS_REJECTED : TELEMETRY_PUSHES_FAILED, rejected);
    settle(exporter, signal, signal->sent, signal->items - rejected);
}

static void send_message(struct exporter *exporter, struct signal *signal)
{
    struct collector_answer answer;
    signal->attempts++;
    collector_post(exporter->collector, signal->url, signal->body, signal->len, &exporter->stopping,
                   &exporter->until_ns, &answer);
    if (answer.status / 100 == 2) {
        note_sent(exporter, signal, &answer);
        return;
    }
    const bool stopping = atomic_load(&exporter->stopping);
    const bool again = !answer.ended && exporter_again(answer.status); /* EXPORTER-2 */
    signal->failures++;
    tell(exporter, signal, &answer);
    if (again)
        signal->next_ns = mono_ns() + exporter_pause_ns(signal->failures, answer.retry_ns,
                                                        random_next(&exporter->random));
    if (!again || stopping || signal->attempts == EXPORTER_ATTEMPTS) /* EXPORTER-1 */
        settle(exporter, signal, signal->failed, signal->items);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Sends what is due, as many messages as one signal may have before the other one's turn. */
static void push(struct exporter *exporter, struct signal *signal,
                 bool (*make)(struct exporter *exporter))
{
    signal->more = false;
    for (int i = 0; i < ROUND_MAX && signal->url[0] != '\0'; i++) {
        const bool stopping = atomic_load(&exporter->stopping);
        const int64_t now_ns = mono_ns();
        const uint32_t failures = signal->failures;
        if (now_ns >= (stopping ? atomic_load(&exporter->until_ns) : INT64_MAX) ||
            now_ns < (stopping ? 0 : signal->next_ns) || (signal->len == 0 && !make(exporter)))
            return;
        send_message(exporter, signal);
        if (signal->failures > failures)
            return;
    }
    signal->more = true;
}

/* What is left at the end has nobody to take it. */
static void drop_all(struct exporter *exporter)
{
    for (uint32_t i = 0; i < exporter->options.ring_count; i++)
        while (span_ring_first(exporter->options.rings[i]) != NULL) {
            span_ring_drop(exporter->options.rings[i]);
            count(exporter, TELEMETRY_SPANS_DROPPED, 1);
        }
    if (exporter->spans.len > 0)
        settle(exporter, &exporter->spans, exporter->spans.dropped, exporter->spans.items);
    if (exporter->pages.len > 0)
        settle(exporter, &exporter->pages, exporter->pages.dropped, 1);
    count(exporter, TELEMETRY_PUSHES_DROPPED, exporter->page != NULL);
    free(exporter->page);
    exporter->page = NULL;
}

static int64_t due_ns(const struct exporter *exporter, int64_t now_ns)
{
    const struct signal *pages = &exporter->pages;
    int64_t due = exporter->options.ring_count > 0 ? now_ns + GATHER_NS : NEVER;
    if (exporter->spans.more)
        return now_ns;
    if ((pages->len > 0 || exporter->page != NULL) && pages->next_ns < due)
        due = pages->next_ns;
    return due;
}

/* Until something is due, or a page has come, or it is to end. */
static void wait_for_work(struct exporter *exporter)
{
    (void)pthread_mutex_lock(&exporter->lock);
    const int64_t due = due_ns(exporter, mono_ns());
    const struct timespec until = {.tv_sec = due / NS_PER_S, .tv_nsec = due % NS_PER_S};
    const bool had = exporter->page != NULL;
    int error = 0;
    while (!atomic_load(&exporter->stopping) && (exporter->page != NULL) == had && error == 0)
        error = due == NEVER ? pthread_cond_wait(&exporter->work, &exporter->lock)
                             : pthread_cond_timedwait(&exporter->work, &exporter->lock, &until);
    (void)pthread_mutex_unlock(&exporter->lock);
}

static void *run(void *argument)
{
    struct exporter *exporter = argument;
    bool last = false;
    while (!last) {
        last = atomic_load(&exporter->stopping); /* then this is the last round */
        push(exporter, &exporter->spans, gather_spans);
        push(exporter, &exporter->pages, take_page);
        if (!last)
            wait_for_work(exporter);
    }
    drop_all(exporter); /* EXPORTER-3 */
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool set_up(struct signal *signal, size_t room)
{
    signal->capacity = room;
    signal->body = signal->url[0] != '\0' ? malloc(room) : NULL;
    return signal->body != NULL || signal->url[0] == '\0';
}

static int start(struct exporter *exporter)
{
    pthread_condattr_t by_mono;
    if (pthread_condattr_init(&by_mono) != 0)
        return TG_ENOMEM;
    (void)pthread_condattr_setclock(&by_mono, CLOCK_MONOTONIC);
    const bool ok = pthread_mutex_init(&exporter->lock, NULL) == 0 &&
                    pthread_cond_init(&exporter->work, &by_mono) == 0;
    (void)pthread_condattr_destroy(&by_mono);
    if (!ok)
        return TG_ENOMEM;
    exporter->started = pthread_create(&exporter->thread, NULL, run, exporter) == 0;
    return exporter->started ? 0 : TG_EIO;
}

int exporter_new(const struct exporter_options *options, struct exporter **out)
{
    const struct config_telemetry *telemetry = &options->config->telemetry;
    struct exporter *exporter = calloc(1, sizeof *exporter);
    *out = exporter;
    if (exporter == NULL)
        return TG_ENOMEM;
    exporter->options = *options;
    random_init(&exporter->random, options->seed);
    exporter->spans = (struct signal){.what = "traces",
                                      .url = telemetry->traces,
                                      .sent = TELEMETRY_SPANS_SENT,
                                      .failed = TELEMETRY_SPANS_FAILED,
                                      .dropped = TELEMETRY_SPANS_DROPPED};
    exporter->pages = (struct signal){.what = "metrics",
                                      .url = telemetry->metrics,
                                      .sent = TELEMETRY_PUSHES_SENT,
                                      .failed = TELEMETRY_PUSHES_FAILED,
                                      .dropped = TELEMETRY_PUSHES_DROPPED};
    make_resource(exporter);
    (void)snprintf(exporter->agent, sizeof exporter->agent, "tidegated/%s", options->version);
    const struct collector_options collector = {.headers = telemetry->headers,
                                                .ca = telemetry->ca,
                                                .timeout_ns = telemetry->timeout_ns,
                                                .agent = exporter->agent};
    int error =
        set_up(&exporter->spans, SPANS_ROOM) && set_up(&exporter->pages, PAGE_ROOM) ? 0 : TG_ENOMEM;
    if (error == 0)
        error = collector_new(&collector, &exporter->collector);
    if (error == 0)
        error = start(exporter);
    if (error != 0)
        exporter_free(out);
    return error;
}

void exporter_page(struct exporter *exporter, char *page, size_t len)
{
    (void)pthread_mutex_lock(&exporter->lock);
    char *old = exporter->page;
    exporter->page = page;
    exporter->page_len = len;
    (void)pthread_cond_signal(&exporter->work);
    (void)pthread_mutex_unlock(&exporter->lock);
    count(exporter, TELEMETRY_PUSHES_DROPPED, old != NULL);
    free(old);
}

void exporter_end(struct exporter *exporter, int64_t flush_ns)
{
    atomic_store(&exporter->until_ns, mono_ns() + flush_ns);
    (void)pthread_mutex_lock(&exporter->lock);
    atomic_store(&exporter->stopping, true);
    (void)pthread_cond_signal(&exporter->work);
    (void)pthread_mutex_unlock(&exporter->lock);
    collector_wake(exporter->collector);
}

void exporter_free(struct exporter **pointer)
{
    struct exporter *exporter = *pointer;
    *pointer = NULL;
    if (exporter == NULL)
        return;
    if (exporter->started) {
        if (!atomic_load(&exporter->stopping))
            exporter_end(exporter, 0);
        (void)pthread_join(exporter->thread, NULL);
        (void)pthread_mutex_destroy(&exporter->lock);
        (void)pthread_cond_destroy(&exporter->work);
    }
    collector_free(&exporter->collector);
    free(exporter->spans.body);
    free(exporter->pages.body);
    free(exporter->page);
    free(exporter);
}
