/* bench_node.c - what a check costs a node without its sockets: frame in, frame out.
 *
 * One shard of a node alone gets messages of inline checks over a working set of keys, as its loop
 * would give them to it, ticks every few messages, and is relieved of its dirty slots twice a
 * second of virtual time by a disk that takes no time. So what is told here is the part of promise
 * S2 that is not ZeroMQ, TCP or LMDB; a profile of this program is one of the decider's thread.
 *
 * With several shards each has a thread, its own keys and nothing that another one writes, as in a
 * node: what they decide together in the time of the slowest, beside one, tells what they share
 * after all. Medians of several rounds. Usage: bench_node [keys] [rounds] [checks a message, 0: the
 * usual ones] [shards].
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "client/protocol/wire.h"
#include "node/cluster/shard/shard.h"
#include "ring/config.h"

enum {
    VNODES = 4096,
    ROUND_CHECKS = 2000000,
    ROUNDS_MAX = 31,
    SHARDS_MAX = 16,
    KEY_LEN = 8,
    TICK_MESSAGES = 4,
    WRITES_MAX = 1 << 20,
    BYTES_PER_WRITE = 64,
    SETTLE_MS = 3000,
    FRAME_ROOM = 1 << 17,
    ROUTE_KEY = 5 /* each of its bytes */
};
#define MS UINT64_C(1000000)

struct frame {
    uint8_t *bytes;
    size_t len;
};

struct bench {
    struct shard *shard;
    struct view *view;
    struct effects effects;
    struct shard_writes writes;
    struct frame *frames;
    uint32_t frame_count;
    uint32_t next;
    uint64_t seq;
    int64_t now_ns;
    uint32_t number; /* of `shards` */
    uint32_t shards;
    uint32_t items;  /* a message */
    double round_ns; /* a check, in the last round */
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *memory(size_t count, size_t size)
{
    void *found = calloc(count, size);
    if (found == NULL) {
        (void)fprintf(stderr, "no memory\n");
        exit(1);
    }
    return found;
}

static void expect(bool so, const char *what)
{
    if (so)
        return;
    (void)fprintf(stderr, "bench_node: %s\n", what);
    exit(1);
}

/* ---- a node alone ---------------------------------------------------------------------------- */

static struct view *view_of_one(uint64_t id, uint32_t shards)
{
    struct ring_member member;
    struct ring_config *config = memory(1, sizeof *config);
    struct view_member members[1] = {{.id = id, .state = VIEW_ALIVE, .shards = (uint16_t)shards}};
    struct view *view;
    expect(ring_member_init(&member, id, "n1", "z1", RING_WEIGHT_DEFAULT) == 0 &&
               ring_config_init(config, &member, VNODES, 1) == 0,
           "a ring of one");
    (void)snprintf(members[0].name, sizeof members[0].name, "n1");
    (void)snprintf(members[0].client, sizeof members[0].client, "10.0.0.1:7600");
    expect(view_new(alloc_heap(), 1, members, 1, id, config, &view) == 0, "a view");
    free(config);
    return view;
}

static void tick(struct bench *bench)
{
    shard_tick(bench->shard, bench->now_ns, &bench->effects);
    effects_clear(&bench->effects);
    if (!shard_write_due(bench->shard, bench->now_ns))
        return;
    shard_gather(bench->shard, bench->now_ns, &bench->writes);
    if (bench->writes.count > 0)
        shard_written(bench->shard, bench->now_ns, true);
}

static void start_node(struct bench *bench, uint64_t keys)
{
    struct shard_options options;
    shard_options_default(&options);
    options.node_id = 1;
    options.boot = 1;
    options.incarnation = 1;
    options.shard = (uint16_t)bench->number;
    options.shards = (uint16_t)bench->shards;
    options.vnodes = VNODES;
    options.memory_bytes = (size_t)keys * 64 + (64u << 20);
    memset(options.secret.bytes, 3, sizeof options.secret.bytes);
    memset(options.route_key.bytes, ROUTE_KEY, sizeof options.route_key.bytes);
    (void)snprintf(options.name, sizeof options.name, "n1");
    expect(effects_init(&bench->effects, alloc_heap()) == 0 &&
               shard_new(alloc_heap(), &options, bench->now_ns, &bench->shard) == 0,
           "a shard");
    bench->writes.capacity = WRITES_MAX;
    bench->writes.bytes_capacity = (size_t)WRITES_MAX * BYTES_PER_WRITE;
    bench->writes.writes = memory(WRITES_MAX, sizeof *bench->writes.writes);
    bench->writes.headers = memory(VNODES, sizeof *bench->writes.headers);
    bench->writes.bytes = memory(WRITES_MAX, BYTES_PER_WRITE);
    bench->view = view_of_one(options.node_id, bench->shards);
    shard_view(bench->shard, bench->now_ns, bench->view, &bench->effects);
    for (int i = 0; i < SETTLE_MS; i++) {
        bench->now_ns += (int64_t)MS;
        tick(bench);
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static void key_text(uint32_t key, char text[KEY_LEN + 1])
{
    (void)snprintf(text, KEY_LEN + 1, "k%07" PRIu32, key % 10000000);
}

/* Whether the shard decides the key. */
static bool decides(const struct bench *bench, uint32_t key)
{
    struct hash_key route_key;
    struct identity identity;
    char text[KEY_LEN + 1];
    key_text(key, text);
    memset(route_key.bytes, ROUTE_KEY, sizeof route_key.bytes);
    expect(identity_inline(&identity, text, KEY_LEN) == 0, "a key");
    return identity_vnode(&route_key, &identity, VNODES) % bench->shards == bench->number;
}

static void append(struct wire_checks_builder *builder, int template, uint32_t key)
{
    char text[KEY_LEN + 1];
    key_text(key, text);
    const struct wire_text value = {text, KEY_LEN};
    expect(wire_checks_builder_append(builder, (uint32_t) template, OPERATION_CHECK, 1, &value,
                                      1) >= 0,
           "a check");
}

/* Every key of the shard once, in an order drawn once. */
static void make_frames(struct bench *bench, uint32_t keys)
{
    const uint32_t items = bench->items;
    const struct limit limit = {.count = 100000, .window_ns = 86400000 * MS}; /* none is as new */
    struct wire_checks_builder *builder = memory(1, sizeof *builder);
    uint8_t *values = memory(1, FRAME_ROOM);
    uint32_t *order = memory(keys, sizeof *order);
    struct random random;
    random_init(&random, 1);
    uint32_t count = 0;
    for (uint32_t key = 0; key < keys; key++) {
        if (!decides(bench, key))
            continue;
        const uint32_t at = (uint32_t)((random_next(&random) >> 32) * (count + 1) >> 32);
        order[count++] = order[at];
        order[at] = key;
    }
    wire_checks_builder_init(builder, values, FRAME_ROOM);
    expect(count >= items, "a message's worth of keys for each shard");
    bench->frames = memory(count / items, sizeof *bench->frames);
    bench->frame_count = count / items;
    for (uint32_t f = 0; f < bench->frame_count; f++) {
        wire_checks_builder_reset(builder);
        const int template = wire_checks_builder_inline(builder, &limit);
        for (uint32_t i = 0; i < items; i++)
            append(builder, template, order[f * items + i]);
        struct frame *frame = &bench->frames[f];
        frame->bytes = memory(1, wire_checks_builder_len(builder) + 64);
        const int len =
            wire_checks_builder_encode(builder, UINT64_MAX, UINT64_MAX, 0, 1000, frame->bytes,
                                       wire_checks_builder_len(builder) + 64);
        expect(len > 0, "a message");
        frame->len = (size_t)len;
    }
    free(order);
    free(values);
    free(builder);
}

static void number(struct frame *frame, uint64_t seq)
{
    enum { SEQ_AT = 12 }; /* array, version, type, session */
    seq |= UINT64_C(1) << 63;
    for (int i = 0; i < 8; i++)
        frame->bytes[SEQ_AT + 1 + i] = (uint8_t)(seq >> (56 - 8 * i));
}

static void *run_round(void *argument)
{
    struct bench *bench = argument;
    const uint32_t items = bench->items;
    const uint32_t messages = ROUND_CHECKS / items;
    const double start = seconds();
    for (uint32_t n = 0; n < messages; n++) {
        struct frame *frame = &bench->frames[bench->next];
        bench->next = bench->next + 1 == bench->frame_count ? 0 : bench->next + 1;
        number(frame, ++bench->seq);
        bench->now_ns += (int64_t)items * 200;
        shard_client(bench->shard, bench->now_ns, 7, frame->bytes, frame->len, &bench->effects);
        expect(bench->effects.count == 1, "one answer to a message");
        effects_clear(&bench->effects);
        if (n % TICK_MESSAGES == 0)
            tick(bench);
    }
    bench->round_ns = (seconds() - start) * 1e9 / ((double)messages * items);
    return NULL;
}

/* A round of all shards at once: nanoseconds of the slowest, for a check of each. */
static double round_of(struct bench *benches, uint32_t shards)
{
    pthread_t threads[SHARDS_MAX];
    double slowest = 0;
    for (uint32_t i = 1; i < shards; i++)
        expect(pthread_create(&threads[i], NULL, run_round, &benches[i]) == 0, "a thread");
    (void)run_round(&benches[0]);
    for (uint32_t i = 1; i < shards; i++)
        (void)pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < shards; i++)
        if (benches[i].round_ns > slowest)
            slowest = benches[i].round_ns;
    return slowest;
}

static void end_node(struct bench *bench)
{
    struct shard_stats *stats = memory(1, sizeof *stats);
    shard_stats(bench->shard, stats);
    expect(stats->allowed == stats->checks && stats->busy == 0,
           "every check is decided, and allowed");
    for (uint32_t f = 0; f < bench->frame_count; f++)
        free(bench->frames[f].bytes);
    free(bench->frames);
    free(bench->writes.writes);
    free(bench->writes.headers);
    free(bench->writes.bytes);
    shard_free(&bench->shard);
    view_free(&bench->view);
    effects_fini(&bench->effects);
    free(stats);
}

static void run(uint32_t keys, unsigned rounds, uint32_t items, uint32_t shards)
{
    struct bench *benches = memory(shards, sizeof *benches);
    double found[ROUNDS_MAX];
    for (uint32_t i = 0; i < shards; i++) {
        benches[i].now_ns = INT64_C(1700000000000000000);
        benches[i].number = i;
        benches[i].shards = shards;
        benches[i].items = items;
        start_node(&benches[i], keys / shards);
        make_frames(&benches[i], keys);
    }
    (void)round_of(benches, shards); /* every key gets its slot */
    for (unsigned i = 0; i < rounds; i++)
        found[i] = round_of(benches, shards);
    qsort(found, rounds, sizeof *found, compare);
    for (uint32_t i = 0; i < shards; i++)
        end_node(&benches[i]);
    printf("messages of %4" PRIu32 ": %6.1f ns a check, %5.2f M/s (least %.1f ns)", items,
           found[rounds / 2], (double)shards * 1e3 / found[rounds / 2], found[0]);
    if (shards > 1)
        printf(", %" PRIu32 " shards", shards);
    (void)putchar('\n');
    free(benches);
}

int main(int argc, char **argv)
{
    const uint32_t keys = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
    const unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 5;
    const uint32_t items = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    const uint32_t shards = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1;
    const uint32_t usual[] = {64, 256, 1000};
    if (rounds < 1 || rounds > ROUNDS_MAX || items > WIRE_CHECKS_MAX || keys < 1000 ||
        keys < items || shards < 1 || shards > SHARDS_MAX) {
        (void)fprintf(stderr,
                      "usage: bench_node [keys >= 1000] [rounds 1..%d] [checks a message] "
                      "[shards 1..%d]\n",
                      ROUNDS_MAX, SHARDS_MAX);
        return 64;
    }
    for (size_t i = 0; i < (items > 0 ? 1 : sizeof usual / sizeof *usual); i++)
        run(keys, rounds, items > 0 ? items : usual[i], shards);
    return 0;
}
