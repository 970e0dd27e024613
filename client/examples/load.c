/* load.c - a load generator: sends a steady, skewed mix of checks and reports what became of it.
 *
 *   cc load.c -o load -pthread $(pkg-config --cflags --libs tidegate)
 *   ./load ENDPOINTS SECONDS SEED NAME:KEYS:PER_SECOND:WHAT ...
 *
 * Each stream NAME asks PER_SECOND times a second about one of KEYS keys. WHAT is either
 * `api=/search,user=u*`, attributes for the cluster's rules with * standing for the key's number,
 * or a rate such as `10/s`, a limit of the caller's own under the key `NAME-number`. Keys are
 * drawn by Zipf's law (key k about 1/(k + 1) as often as key 0), as real traffic is.
 *
 *      this thread                              the library's thread
 *   every tick: what is due --> tg_check_async --> answers --> finish(): counts, slot is free
 *        ^                                                       |
 *        +------------------- free slots <-----------------------+
 *
 * The load is open: a slow answer does not delay the next question, until all slots are taken.
 *
 * EXAMPLELOAD-1  A slot, with the requests and decisions in it, is untouched between tg_check_async
 *                and its callback. What a request points to (its key) lives until after tg_close.
 * EXAMPLELOAD-2  Counts are touched under the lock only.
 * EXAMPLELOAD-3  `sent_ns` is read before the question leaves, the time of the answer after it
 *                came, both from the machine's one wall clock: the moment of the decision lies
 *                between the two, also when several of these processes are compared.
 *
 * Output, one line each, times in ns since 1970 (0 = never):
 *   key NAME NUMBER SENT ALLOWED DENIED UNDECIDED FIRST_SENT LAST_ANSWER
 *       FIRST_DENIED_ANSWER LAST_DENIED_SENT DENIED_GAP
 *   latency MICROSECONDS COUNT      (so many took at most that long)
 *   run FIRST_SENT LAST_ANSWER DEGRADED
 * DENIED_GAP is the longest time there can have been from one denial of the key to the next.
 * Exit status: 0, 2 the cluster cannot be asked, 3 bad arguments.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidegate.h>
#include <time.h>

enum {
    STREAMS_MAX = 16,
    KEYS_MAX = 100000,
    ATTRIBUTES_MAX = 4,
    KEY_TEXT_LEN = 128,
    SLOTS = 512,     /* messages without an answer */
    SLOT_CHECKS = 64 /* checks a message */
};
#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_US INT64_C(1000)
#define TICK_NS   INT64_C(1000000)

/* Latencies in us, kept to 1 part in 16: 16 buckets for each power of two. */
enum { BUCKET_BITS = 4, BUCKETS = (65 - BUCKET_BITS) << BUCKET_BITS };

struct key {
    char text[KEY_TEXT_LEN]; /* the value, or the inline key, that makes this key itself */
    tg_attribute_t attributes[ATTRIBUTES_MAX];
    tg_request_t request;
    uint64_t sent;
    uint64_t allowed;
    uint64_t denied;
    uint64_t undecided;
    int64_t first_sent_ns;
    int64_t last_answer_ns;
    int64_t first_denied_answer_ns;
    int64_t last_denied_sent_ns;
    int64_t denied_sent_ns; /* of the denial that came last */
    int64_t denied_gap_ns;
};

struct stream {
    const char *name;
    struct key *keys;
    double *shares; /* shares[k]: how much of the stream goes to keys 0 .. k; the last is 1 */
    unsigned key_count;
    double per_second;
    double due; /* checks, with a fraction */
};

struct slot {
    struct load *load;
    int64_t sent_ns;
    size_t count;
    struct key *keys[SLOT_CHECKS];
    tg_request_t requests[SLOT_CHECKS];
    tg_decision_t decisions[SLOT_CHECKS];
};

struct load {
    tg_client_t *client;
    struct stream streams[STREAMS_MAX];
    unsigned stream_count;
    uint64_t random;
    struct slot slots[SLOTS];

    pthread_mutex_t lock; /* of everything below, and of the keys' counts */
    pthread_cond_t freed;
    struct slot *free[SLOTS];
    unsigned free_count;
    uint64_t latencies[BUCKETS];
    uint64_t degraded;
    int64_t first_sent_ns;
    int64_t last_answer_ns;
};

static int64_t clock_ns(clockid_t id)
{
    struct timespec now;

    (void)clock_gettime(id, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* ---- which key is next ----------------------------------------------------------------------- */

/* A number in [0, 1): splitmix64, the same sequence for the same seed everywhere. */
static double draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void set_shares(struct stream *stream)
{
    double sum = 0;

    for (unsigned k = 0; k < stream->key_count; k++)
        stream->shares[k] = sum += 1.0 / (k + 1);
    for (unsigned k = 0; k < stream->key_count; k++)
        stream->shares[k] /= sum;
}

/* The first key whose share reaches beyond the number drawn. */
static struct key *pick(struct stream *stream, uint64_t *random)
{
    const double at = draw(random);
    unsigned low = 0;
    unsigned high = stream->key_count - 1;

    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        if (stream->shares[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return &stream->keys[low];
}

/* ---- answers, on the library's thread ---------------------------------------------------------
 */

static unsigned bucket_of(int64_t us)
{
    const uint64_t value = us > 0 ? (uint64_t)us : 0;
    unsigned shift = 0;

    while (value >> shift >= 2u << BUCKET_BITS)
        shift++;
    return (shift << BUCKET_BITS) + (unsigned)(value >> shift);
}

/* The largest number of microseconds in a bucket. */
static uint64_t bucket_end(unsigned bucket)
{
    const unsigned shift = bucket < 2u << BUCKET_BITS ? 0 : (bucket >> BUCKET_BITS) - 1;

    return (((uint64_t)bucket - ((uint64_t)shift << BUCKET_BITS) + 1) << shift) - 1;
}

/* Two denials that follow each other here were decided at most this far apart. */
static void count_denial(struct key *key, int64_t sent_ns, int64_t answer_ns)
{
    if (key->denied++ == 0) {
        key->first_denied_answer_ns = answer_ns;
    } else {
        const int64_t from_ns = sent_ns < key->denied_sent_ns ? sent_ns : key->denied_sent_ns;
        if (answer_ns - from_ns > key->denied_gap_ns)
            key->denied_gap_ns = answer_ns - from_ns;
    }
    key->denied_sent_ns = sent_ns;
    if (sent_ns > key->last_denied_sent_ns)
        key->last_denied_sent_ns = sent_ns;
}

/* `decision` is NULL if the question was not even taken. */
static void count_answer(struct load *load, struct key *key, const tg_decision_t *decision,
                         int64_t sent_ns, int64_t answer_ns)
{
    if (key->sent++ == 0 || sent_ns < key->first_sent_ns)
        key->first_sent_ns = sent_ns;
    key->last_answer_ns = answer_ns;
    if (decision == NULL || decision->error != 0 || decision->outcome == TG_BUSY ||
        decision->outcome == TG_ERROR) {
        key->undecided++;
        return;
    }
    if (decision->allowed)
        key->allowed++;
    else
        count_denial(key, sent_ns, answer_ns);
    load->degraded += decision->degraded != 0;
    load->latencies[bucket_of((answer_ns - sent_ns) / NS_PER_US)]++;
}

static void finish(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    const int64_t answer_ns = clock_ns(CLOCK_REALTIME);
    struct slot *slot = argument;
    struct load *load = slot->load;

    (void)code; /* each decision has its own */
    (void)pthread_mutex_lock(&load->lock);
    for (size_t i = 0; i < count; i++)
        count_answer(load, slot->keys[i], decisions != NULL ? &decisions[i] : NULL, slot->sent_ns,
                     answer_ns);
    load->last_answer_ns = answer_ns;
    load->free[load->free_count++] = slot;
    (void)pthread_cond_signal(&load->freed);
    (void)pthread_mutex_unlock(&load->lock);
}

/* ---- questions --------------------------------------------------------------------------------
 */

static struct slot *take_slot(struct load *load)
{
    struct slot *slot;

    (void)pthread_mutex_lock(&load->lock);
    while (load->free_count == 0)
        (void)pthread_cond_wait(&load->freed, &load->lock);
    slot = load->free[--load->free_count];
    (void)pthread_mutex_unlock(&load->lock);
    slot->count = 0;
    return slot;
}

static void send_slot(struct slot *slot)
{
    slot->sent_ns = clock_ns(CLOCK_REALTIME);
    if (tg_check_async(slot->load->client, slot->requests, slot->count, slot->decisions, finish,
                       slot) != 0)
        finish(slot, 0, NULL, slot->count); /* not taken: there will be no callback */
}

/* Asks what has become due since the last tick. */
static void send_due(struct load *load, double elapsed_s)
{
    struct slot *slot = NULL;

    for (unsigned s = 0; s < load->stream_count; s++) {
        struct stream *stream = &load->streams[s];
        for (stream->due += stream->per_second * elapsed_s; stream->due >= 1; stream->due -= 1) {
            if (slot == NULL)
                slot = take_slot(load);
            slot->keys[slot->count] = pick(stream, &load->random);
            slot->requests[slot->count] = slot->keys[slot->count]->request;
            if (++slot->count == SLOT_CHECKS) {
                send_slot(slot);
                slot = NULL;
            }
        }
    }
    if (slot != NULL)
        send_slot(slot);
}

static void run(struct load *load, double seconds)
{
    const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    const int64_t end_ns = start_ns + (int64_t)(seconds * (double)NS_PER_S);
    int64_t now_ns = start_ns;

    load->first_sent_ns = clock_ns(CLOCK_REALTIME);
    while (now_ns < end_ns) {
        const int64_t tick_ns = now_ns + TICK_NS;
        const struct timespec tick = {.tv_sec = tick_ns / NS_PER_S, .tv_nsec = tick_ns % NS_PER_S};
        const int64_t before_ns = now_ns;
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &tick, NULL);
        now_ns = clock_ns(CLOCK_MONOTONIC);
        send_due(load, (double)(now_ns - before_ns) / (double)NS_PER_S);
    }
    /* Every call ends within its deadline, so this does too. */
    (void)pthread_mutex_lock(&load->lock);
    while (load->free_count < SLOTS)
        (void)pthread_cond_wait(&load->freed, &load->lock);
    (void)pthread_mutex_unlock(&load->lock);
}

/* ---- arguments --------------------------------------------------------------------------------
 */

/* `text` as a positive number. */
static int read_number(const char *text, double max, double *out)
{
    char *end = NULL;

    *out = text != NULL ? strtod(text, &end) : 0;
    return text != NULL && end != text && *end == '\0' && *out > 0 && *out <= max ? 0 : -1;
}

/* `what` is name=value,name=value: fills *key, with `number` for the star. */
static int make_request(struct key *key, const char *stream_name, unsigned number, char **names,
                        char **values, size_t count, const tg_limit_t *limit)
{
    int used = snprintf(key->text, sizeof key->text, "%s-%u", stream_name, number);

    for (size_t i = 0; i < count; i++) {
        const char *star = strchr(values[i], '*');
        key->attributes[i] = (tg_attribute_t){names[i], values[i], TG_STRLEN};
        if (star != NULL) {
            used = snprintf(key->text, sizeof key->text, "%.*s%u%s", (int)(star - values[i]),
                            values[i], number, star + 1);
            key->attributes[i].value = key->text;
        }
    }
    key->request =
        count > 0 ? tg_request(key->attributes, count) : tg_request_inline(key->text, limit);
    return used > 0 && (size_t)used < sizeof key->text ? 0 : -1;
}

static int read_what(struct stream *stream, char *what)
{
    char *names[ATTRIBUTES_MAX];
    char *values[ATTRIBUTES_MAX];
    tg_limit_t limit = {0};
    size_t count = 0;

    if (strchr(what, '=') == NULL && tg_limit_parse(what, &limit, NULL, 0) != 0)
        return -1;
    while (limit.count == 0 && what != NULL) {
        if (count == ATTRIBUTES_MAX)
            return -1;
        values[count] = strsep(&what, ",");
        names[count] = strsep(&values[count], "=");
        if (values[count] == NULL)
            return -1;
        count++;
    }
    for (unsigned k = 0; k < stream->key_count; k++)
        if (make_request(&stream->keys[k], stream->name, k, names, values, count, &limit) != 0)
            return -1;
    return 0;
}

/* "NAME:KEYS:PER_SECOND:WHAT"; `text` is cut up and stays in use. */
static int read_stream(struct stream *stream, char *text)
{
    double keys;

    stream->name = strsep(&text, ":");
    if (read_number(strsep(&text, ":"), KEYS_MAX, &keys) != 0 ||
        read_number(strsep(&text, ":"), 1e6, &stream->per_second) != 0 || text == NULL)
        return -1;
    stream->key_count = (unsigned)keys;
    stream->keys = calloc(stream->key_count, sizeof *stream->keys);
    stream->shares = calloc(stream->key_count, sizeof *stream->shares);
    if (stream->key_count == 0 || stream->keys == NULL || stream->shares == NULL)
        return -1;
    set_shares(stream);
    return read_what(stream, text);
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static void print_counts(const struct load *load)
{
    for (unsigned s = 0; s < load->stream_count; s++) {
        const struct stream *stream = &load->streams[s];
        for (unsigned k = 0; k < stream->key_count; k++) {
            const struct key *key = &stream->keys[k];
            if (key->sent == 0)
                continue;
            printf("key %s %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, stream->name, k,
                   key->sent, key->allowed, key->denied, key->undecided);
            printf(" %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                   key->first_sent_ns, key->last_answer_ns, key->first_denied_answer_ns,
                   key->last_denied_sent_ns, key->denied_gap_ns);
        }
    }
    for (unsigned b = 0; b < BUCKETS; b++)
        if (load->latencies[b] > 0)
            printf("latency %" PRIu64 " %" PRIu64 "\n", bucket_end(b), load->latencies[b]);
    printf("run %" PRId64 " %" PRId64 " %" PRIu64 "\n", load->first_sent_ns, load->last_answer_ns,
           load->degraded);
}

/* Opens the handle and asks one question that charges nothing, so that a cluster which does not
 * answer is noticed before the load begins. */
static int connect_client(struct load *load, const char *endpoints)
{
    char error[256] = "";
    tg_options_t options = tg_options();
    tg_decision_t decision;
    int code;

    options.agent = "load";
    options.no_leases = 1; /* every check is to reach a node: that is what is measured */
    options.no_denials = 1;
    options.error = error;
    options.error_size = sizeof error;
    load->client = tg_open(endpoints, &options);
    if (load->client == NULL) {
        fprintf(stderr, "load: %s\n", error);
        return 3;
    }
    code = tg_peek(load->client, &load->streams[0].keys[0].request, &decision);
    if (code == 0)
        return 0;
    tg_error_detail(load->client, error, sizeof error);
    fprintf(stderr, "load: %s: %s\n", tg_strerror(code), error);
    return 2;
}

static void free_load(struct load *load)
{
    tg_close(&load->client);
    for (unsigned s = 0; s < load->stream_count; s++) {
        free(load->streams[s].keys);
        free(load->streams[s].shares);
    }
    (void)pthread_cond_destroy(&load->freed);
    (void)pthread_mutex_destroy(&load->lock);
    free(load);
}

int main(int argc, char **argv)
{
    struct load *load = calloc(1, sizeof *load);
    double seconds = 0;
    double seed = 0;
    int status = 3;

    if (load == NULL)
        return 2;
    (void)pthread_mutex_init(&load->lock, NULL);
    (void)pthread_cond_init(&load->freed, NULL);
    for (unsigned i = 0; i < SLOTS; i++) {
        load->slots[i].load = load;
        load->free[load->free_count++] = &load->slots[i];
    }
    if (argc >= 5 && argc - 4 <= STREAMS_MAX && read_number(argv[2], 3600, &seconds) == 0 &&
        read_number(argv[3], 1e9, &seed) == 0)
        status = 0;
    for (int i = 4; i < argc && status == 0; i++)
        status = read_stream(&load->streams[load->stream_count++], argv[i]) == 0 ? 0 : 3;
    if (status != 0)
        fprintf(stderr, "usage: load ENDPOINTS SECONDS SEED NAME:KEYS:PER_SECOND:WHAT ...\n");
    load->random = (uint64_t)seed;
    if (status == 0)
        status = connect_client(load, argv[1]);
    if (status == 0) {
        run(load, seconds);
        print_counts(load);
    }
    free_load(load);
    return status;
}
