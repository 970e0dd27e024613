/* test_clock_first.c - how a node asks for the time before it has any, over loopback.
 *
 * Another node is a thread with a membership of its own and a clock an hour ahead. It answers
 * greetings, or sends what nobody asked for. The wait has an end that the code under test promises.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zmq.h>

#include "gossip/swim.h"
#include "node/runtime/start/clock_first.h"
#include "node/runtime/system/socket.h"

#define S    INT64_C(1000000000)
#define HOUR (3600 * S)

enum { SELF = 1, OTHER = 2, STALE_MAX = 8192, RUBBISH = 4000 };
enum manner {
    ANSWERS, /* each greeting */
    FORGES,  /* answers to greetings that were never sent, all the time */
    FLOODS   /* what is no message, all the time */
};

static const uint8_t cluster[SWIM_CLUSTER_ID_LEN] = "cluster";

struct other {
    void *context;
    void *router;
    char endpoint[VIEW_TEXT_LEN];
    char asker[VIEW_TEXT_LEN]; /* where the node under test listens */
    enum manner manner;
    atomic_bool done;
    atomic_uint sent;
    pthread_t thread;
    struct swim_effects effects;
    struct gossip_out out;
    uint8_t stale[STALE_MAX]; /* an answer to another question */
    size_t stale_len;
};

struct fixture {
    void *context;
    void *router;
    struct gossip_out out;
    struct clock clock;
    struct control_options options;
    struct other other;
};

static void *bind_gossip(void *context, char endpoint[VIEW_TEXT_LEN])
{
    char url[SOCKET_URL_LEN];
    size_t len = sizeof url;
    void *router;
    assert_int_equal(socket_bind(context, SOCKET_GOSSIP, "127.0.0.1", 0, &router), 0);
    assert_int_equal(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, url, &len), 0);
    (void)snprintf(endpoint, VIEW_TEXT_LEN, "%.*s", VIEW_TEXT_LEN - 1, url + strlen("tcp://"));
    return router;
}

/* ---- the other node -------------------------------------------------------------------------- */

static struct swim *member(uint64_t id, const char *address, const uint8_t *cluster_id,
                           uint64_t seed)
{
    struct swim *swim;
    struct swim_options options;
    struct swim_record record = {.id = id, .incarnation = 1, .version = 1};
    (void)snprintf(record.name, sizeof record.name, "n%u", (unsigned)id);
    (void)snprintf(record.gossip, sizeof record.gossip, "%s", address);
    swim_options_default(&options);
    assert_int_equal(swim_new(&swim, alloc_heap(), &options, &record, cluster_id, seed), 0);
    return swim;
}

static int64_t other_now_ns(void)
{
    struct clock clock;
    return clock_init(&clock) == 0 ? clock_now_ns(&clock) + HOUR : 0;
}

/* A valid answer to a greeting of another process of the node that asks. */
static void make_stale(struct other *other)
{
    static const uint8_t none[SWIM_CLUSTER_ID_LEN];
    struct swim_effects *out = &other->effects;
    struct swim *asker = member(SELF, other->asker, none, 99);
    struct swim *asked = member(OTHER, other->endpoint, cluster, 5);
    swim_effects_clear(out);
    assert_int_equal(swim_add_seed(asker, other->endpoint), 0);
    swim_tick(asker, other_now_ns(), out);
    assert_int_equal(out->sends_count, 1);
    memcpy(other->stale, out->bytes + out->sends[0].offset, out->sends[0].len);
    other->stale_len = out->sends[0].len;
    swim_effects_clear(out);
    assert_int_equal(swim_receive(asked, other_now_ns(), other->stale, other->stale_len, out), 0);
    assert_int_equal(out->sends_count, 1);
    memcpy(other->stale, out->bytes + out->sends[0].offset, out->sends[0].len);
    other->stale_len = out->sends[0].len;
    swim_free(&asker);
    swim_free(&asked);
}

static void answer(struct other *other, struct swim *swim)
{
    struct socket_holder holder = {.held = false};
    struct socket_message message;
    struct pollfd readable = {.fd = socket_fd(other->router), .events = POLLIN};
    if (!socket_readable(other->router))
        (void)poll(&readable, 1, 5);
    while (socket_receive(other->router, &holder, &message) > 0) {
        swim_effects_clear(&other->effects);
        (void)swim_receive(swim, other_now_ns(), message.data, message.len, &other->effects);
        for (size_t i = 0; i < other->effects.sends_count; i++) {
            const struct swim_send *send = &other->effects.sends[i];
            if (strcmp(send->address, other->asker) == 0)
                gossip_out_send(&other->out, 0, send->address, other->effects.bytes + send->offset,
                                send->len);
        }
    }
    socket_release(&holder);
}

static void *live(void *context)
{
    struct other *other = context;
    struct swim *swim = member(OTHER, other->endpoint, cluster, 5);
    /* An array of small numbers: well formed, long to read, and no message. */
    uint8_t rubbish[RUBBISH] = {0xdc, (RUBBISH - 3) >> 8, (RUBBISH - 3) & 0xff};
    char url[SOCKET_URL_LEN];
    const int patience_ms = 10;
    void *flood = zmq_socket(other->context, ZMQ_DEALER);
    (void)snprintf(url, sizeof url, "tcp://%s", other->asker);
    (void)zmq_setsockopt(flood, ZMQ_SNDTIMEO, &patience_ms, sizeof patience_ms);
    (void)zmq_setsockopt(flood, ZMQ_LINGER, &(int){0}, sizeof(int));
    (void)zmq_connect(flood, url);
    while (!atomic_load(&other->done)) {
        if (other->manner == ANSWERS)
            answer(other, swim);
        else if (other->manner == FORGES)
            gossip_out_send(&other->out, 0, other->asker, other->stale, other->stale_len);
        else /* waits for room, and so never leaves a moment free */
            (void)zmq_send(flood, rubbish, sizeof rubbish, 0);
        atomic_fetch_add(&other->sent, 1);
    }
    (void)zmq_close(flood);
    swim_free(&swim);
    return NULL;
}

/* ---- the node -------------------------------------------------------------------------------- */

static struct fixture *begin(enum manner manner)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    struct other *other = &f->other;
    assert_int_equal(socket_context_new(64, &f->context), 0);
    assert_int_equal(socket_context_new(64, &other->context), 0);
    assert_int_equal(clock_init(&f->clock), 0);
    gossip_out_init(&f->out, f->context);
    gossip_out_init(&other->out, other->context);
    f->router = bind_gossip(f->context, f->options.gossip);
    other->router = bind_gossip(other->context, other->endpoint);
    memcpy(other->asker, f->options.gossip, sizeof other->asker);
    other->manner = manner;
    make_stale(other);
    f->options.node_id = SELF;
    f->options.incarnation = 1;
    f->options.seed = 7;
    f->options.weight = RING_WEIGHT_DEFAULT;
    f->options.shards = 1;
    f->options.has_identity = true;
    memcpy(f->options.identity.cluster_id, cluster, sizeof cluster);
    (void)snprintf(f->options.name, sizeof f->options.name, "n1");
    (void)snprintf(f->options.region, sizeof f->options.region, SWIM_REGION_DEFAULT);
    (void)snprintf(f->options.seeds[0], sizeof f->options.seeds[0], "%s", other->endpoint);
    f->options.seed_count = 1;
    assert_int_equal(pthread_create(&other->thread, NULL, live, other), 0);
    return f;
}

/* How far its clock was moved, within a second. */
static int64_t moved_by(struct fixture *f)
{
    struct clock before;
    const struct clock_first first = {
        .clock = &f->clock, .gossip = f->router, .out = &f->out, .options = &f->options};
    assert_int_equal(clock_init(&before), 0);
    assert_int_equal(clock_first(&first), 0);
    return clock_now_ns(&f->clock) - clock_now_ns(&before);
}

static void end(struct fixture *f)
{
    atomic_store(&f->other.done, true);
    (void)pthread_join(f->other.thread, NULL);
    gossip_out_fini(&f->out);
    gossip_out_fini(&f->other.out);
    socket_close(&f->router);
    socket_close(&f->other.router);
    socket_context_free(&f->context);
    socket_context_free(&f->other.context);
    free(f);
}

static bool is_about(int64_t ns, int64_t about_ns)
{
    return ns > about_ns - S && ns < about_ns + S;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void a_node_takes_the_time_of_the_one_that_it_asked(void **state)
{
    (void)state;
    struct fixture *f = begin(ANSWERS);
    assert_true(is_about(moved_by(f), HOUR));
    end(f);
}

static void an_answer_that_was_not_asked_for_sets_no_clock(void **state)
{
    (void)state;
    struct fixture *f = begin(FORGES);
    assert_true(is_about(moved_by(f), 0));
    assert_true(atomic_load(&f->other.sent) > 1000); /* there was enough to be taken in by */
    end(f);
}

static void a_flood_of_frames_keeps_no_node_from_starting(void **state)
{
    (void)state;
    struct fixture *f = begin(FLOODS);
    const int64_t began_ns = clock_mono_ns(&f->clock);
    assert_true(is_about(moved_by(f), 0));
    assert_true(clock_mono_ns(&f->clock) - began_ns < 20 * CLOCK_FIRST_NS);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_takes_the_time_of_the_one_that_it_asked),
        cmocka_unit_test(an_answer_that_was_not_asked_for_sets_no_clock),
        cmocka_unit_test(a_flood_of_frames_keeps_no_node_from_starting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
