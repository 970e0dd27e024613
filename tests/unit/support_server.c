/* support_server.c - a node that a test scripts. One thread, one ROUTER; notes under a lock. */
#include "tests/unit/support_server.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zmq.h>

#include <cmocka.h>

#include "client/protocol/wire.h"

struct server {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t noted;
    void *context;
    char name[32];
    char endpoint[64];
    bool running;
    bool stop;
    enum server_mode mode;
    uint32_t vnodes;
    uint64_t view_version;
    char even[64];
    char odd[64];
    struct server_note notes[SERVER_NOTES_MAX];
    size_t count;
    size_t rings;
    bool refused_once;
    struct server_leases leases;
    struct server_tally tally;
    uint64_t out[SERVER_LEASES_MAX]; /* tokens of lease i + 1, 0: released */
    int64_t retry_after_ms;
    bool steady;
    void *socket;
    uint8_t identity[256]; /* of the client that is answered */
    size_t identity_len;
    struct wire_checks_space checks_space;
    struct wire_decision_columns columns;
    struct wire_sources sources;
    uint8_t frame[WIRE_MESSAGE_MAX];
};

static void answer(struct server *server, int len)
{
    if (len <= 0)
        return;
    (void)zmq_send(server->socket, server->identity, server->identity_len, ZMQ_SNDMORE);
    (void)zmq_send(server->socket, server->frame, (size_t)len, 0);
}

static void answer_error(struct server *server, uint64_t session, uint64_t seq, int code)
{
    const struct wire_error error = {
        .session = session, .seq = seq, .code = code, .text = wire_text_of("says the test")};

    answer(server, wire_encode_error(&error, server->frame, sizeof server->frame));
}

static void answer_hello(struct server *server, uint64_t session)
{
    struct wire_welcome welcome = {
        .session = session,
        .version = WIRE_VERSION,
        .cluster_id = {1, 2, 3},
        .node_id = 7,
        .node_name = wire_text_of(server->name),
        .route_key = {{9}},
        .vnodes = server->vnodes,
        .view_version = server->view_version,
        .checks_max = WIRE_CHECKS_MAX,
        .message_max = WIRE_MESSAGE_MAX,
        .software = wire_text_of("test"),
    };

    answer(server, wire_encode_welcome(&welcome, server->frame, sizeof server->frame));
}

static void answer_ring(struct server *server, uint64_t session, uint64_t seq)
{
    const struct wire_text endpoints[] = {wire_text_of(server->even), wire_text_of(server->odd)};
    const struct wire_ring_member members[] = {
        {.node_id = 1, .name = wire_text_of("even"), .endpoint_first = 0, .shard_count = 1},
        {.node_id = 2, .name = wire_text_of("odd"), .endpoint_first = 1, .shard_count = 1},
    };
    uint8_t deciders[512];
    struct wire_ring ring = {.session = session,
                             .seq = seq,
                             .view_version = server->view_version,
                             .member_count = 2,
                             .endpoint_count = 2,
                             .members = members,
                             .endpoints = endpoints,
                             .vnode_count = server->vnodes,
                             .deciders = deciders};

    for (uint32_t v = 0; v < server->vnodes; v++) {
        deciders[2 * v] = server->even[0] != '\0' ? (uint8_t)(v % 2) : 0xff;
        deciders[2 * v + 1] = server->even[0] != '\0' ? 0 : 0xff;
    }
    if (server->even[0] == '\0') {
        ring.member_count = 0;
        ring.endpoint_count = 0;
    }
    server->rings++;
    answer(server, wire_encode_ring(&ring, server->frame, sizeof server->frame));
}

/* LEASE: gives what the test said. True if it gave one. */
static bool grant(struct server *server, const struct wire_checks *checks, uint32_t i)
{
    const uint64_t asked = wire_checks_cost(checks, i);
    const uint64_t tokens = asked < server->leases.tokens ? asked : server->leases.tokens;

    server->tally.asked++;
    if (tokens == 0 || server->tally.given == SERVER_LEASES_MAX) {
        server->columns.outcomes[i] = server->leases.outcome;
        server->columns.flags[i] = 0;
        server->columns.granted[i] = 0;
        server->columns.retry_after_ms[i] = server->leases.retry_after_ms;
        return false;
    }
    server->out[server->tally.given++] = tokens;
    server->tally.granted += tokens;
    server->columns.leases[i] = server->tally.given;
    server->columns.lease_ms[i] = server->leases.lease_ms;
    server->columns.granted[i] = tokens;
    server->columns.used[i] = 10 + tokens;
    return true;
}

static void take_back(struct server *server, const struct wire_checks *checks, uint32_t i)
{
    const uint64_t lease = wire_checks_cost(checks, i);
    const uint64_t used = wire_checks_used(checks, i);

    if ((checks->flags & WIRE_FLAG_RETRY) != 0)
        return;
    server->columns.granted[i] = 0;
    if (lease == 0 || lease > server->tally.given || server->out[lease - 1] == 0 ||
        used > server->out[lease - 1]) {
        server->tally.strange++;
        return;
    }
    server->columns.granted[i] = server->out[lease - 1] - used;
    server->out[lease - 1] = 0;
    server->tally.released++;
    server->tally.used += used;
}

static void deny(struct server *server, uint32_t i)
{
    server->columns.outcomes[i] = OUTCOME_DENY;
    server->columns.flags[i] = server->steady ? WIRE_STEADY : 0;
    server->columns.granted[i] = 0;
    server->columns.retry_after_ms[i] = server->retry_after_ms;
}

/* The operations that the server knows more of than to allow them. */
static void decide(struct server *server, const struct wire_checks *checks, uint32_t i,
                   struct wire_decisions_head *head)
{
    const enum operation operation = wire_checks_operation(checks, i);

    server->columns.leases[i] = 0;
    server->columns.lease_ms[i] = 0;
    if (operation == OPERATION_LEASE && grant(server, checks, i))
        head->leased = head->held = true;
    else if (operation == OPERATION_RELEASE)
        take_back(server, checks, i);
    else if (operation == OPERATION_CHECK && server->mode == SERVER_DENY)
        deny(server, i);
}

static void answer_checks(struct server *server, const struct wire_checks *checks)
{
    struct wire_decisions_head head = {.session = checks->session,
                                       .seq = checks->seq,
                                       .view_version = server->view_version,
                                       .count = checks->count};
    const struct wire_source source = {.rule = wire_text_of("rule-of-the-test"),
                                       .window = wire_text_of("5/h"),
                                       .status = 200,
                                       .message = wire_text_of("MESSAGE"),
                                       .node = wire_text_of(server->name)};

    if (server->mode == SERVER_SHORT)
        head.count = checks->count > 1 ? checks->count - 1 : 2;
    wire_sources_init(&server->sources);
    for (uint32_t i = 0; i < head.count; i++) {
        server->columns.outcomes[i] = OUTCOME_ALLOW;
        server->columns.flags[i] = WIRE_ALLOWED;
        server->columns.source_index[i] = wire_sources_add(&server->sources, &source);
        server->columns.vnode[i] = 1; /* an odd one: what attributes are then routed by */
        server->columns.limit[i] = 100;
        server->columns.used[i] = i;
        server->columns.remaining[i] = 100 - i % 100;
        server->columns.granted[i] = i < checks->count ? wire_checks_cost(checks, i) : 0;
        server->columns.reset_after_ms[i] = 1000;
        server->columns.retry_after_ms[i] = 0;
        server->columns.delay_ms[i] = 0;
        if (i < checks->count)
            decide(server, checks, i, &head);
    }
    (void)pthread_cond_broadcast(&server->noted);
    answer(server, wire_encode_decisions(&head, &server->columns, &server->sources, NULL,
                                         server->frame, sizeof server->frame));
}

static void note_checks(struct server *server, const struct wire_checks *checks)
{
    struct server_note *note;
    struct wire_text key;

    if (server->count == SERVER_NOTES_MAX)
        return;
    note = &server->notes[server->count];
    key = wire_checks_key(checks, 0);
    *note = (struct server_note){.session = checks->session,
                                 .seq = checks->seq,
                                 .flags = checks->flags,
                                 .count = checks->count,
                                 .timeout_ms = checks->timeout_ms,
                                 .operation = checks->operations[0],
                                 .cost = wire_checks_cost(checks, 0),
                                 .used = wire_checks_used(checks, 0)};
    memcpy(note->key, key.data, key.len < SERVER_KEY_LEN - 1 ? key.len : SERVER_KEY_LEN - 1);
    server->count++;
    (void)pthread_cond_broadcast(&server->noted);
}

static void take_checks(struct server *server, const void *frame, size_t len)
{
    struct wire_checks checks;
    char error[WIRE_ERROR_LEN];
    enum server_mode mode = server->mode;

    if (wire_decode_checks(frame, len, &server->checks_space, &checks, error) != 0) {
        (void)fprintf(stderr, "the library sent a bad CHECKS: %s\n", error);
        abort();
    }
    note_checks(server, &checks);
    if (server->leases.silent && wire_checks_operation(&checks, 0) == OPERATION_LEASE) {
        server->tally.asked++;
        return;
    }
    if (mode == SERVER_NOT_YET)
        mode = server->refused_once ? SERVER_ANSWER : SERVER_NOT_YET;
    switch (mode) {
    case SERVER_SWALLOW:
        return;
    case SERVER_BUSY:
        answer_error(server, checks.session, checks.seq, TG_EBUSY);
        return;
    case SERVER_NOT_YET:
        server->refused_once = true;
        answer_error(server, checks.session, checks.seq, TG_EUNAVAILABLE);
        return;
    case SERVER_MALFORMED: {
        struct mp_writer writer;

        mp_writer_init(&writer, server->frame, sizeof server->frame);
        mp_put_array(&writer, 5);
        mp_put_uint(&writer, WIRE_VERSION);
        mp_put_uint(&writer, WIRE_DECISIONS);
        mp_put_uint(&writer, checks.session);
        mp_put_uint(&writer, checks.seq);
        mp_put_str(&writer, "noise");
        answer(server, (int)writer.len);
        return;
    }
    default:
        answer_checks(server, &checks);
    }
}

static void take_admin(struct server *server, const void *frame, size_t len)
{
    struct mp_token tokens[64];
    struct wire_admin admin;
    struct mp_writer writer;
    char error[WIRE_ERROR_LEN];
    bool known;

    if (wire_decode_admin(frame, len, tokens, 64, &admin, error) != 0)
        abort();
    if (server->mode == SERVER_SWALLOW) {
        server->count++;
        (void)pthread_cond_broadcast(&server->noted);
        return;
    }
    known = (admin.command.len == 4 && memcmp(admin.command.data, "echo", 4) == 0) ||
            (admin.command.len == 12 && memcmp(admin.command.data, "pools.report", 12) == 0 &&
             memmem(admin.arguments.data, admin.arguments.len,
                    "\xa4pool\xa3"
                    "api",
                    9) != NULL);
    mp_writer_init(&writer, server->frame, sizeof server->frame);
    wire_begin_admin_reply(&writer, admin.session, admin.seq, known ? 0 : TG_ENOTFOUND);
    if (known) {
        memcpy(writer.data + writer.len, admin.arguments.data, admin.arguments.len);
        writer.len += admin.arguments.len;
    } else {
        mp_put_str(&writer, "no such command");
    }
    answer(server, (int)writer.len);
}

static void take(struct server *server, const void *frame, size_t len)
{
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];

    if (wire_peek(frame, len, &envelope, error) != 0)
        abort();
    if (server->mode == SERVER_VERSION)
        answer_error(server, envelope.session, envelope.seq, TG_EVERSION);
    else if (envelope.type == WIRE_HELLO)
        answer_hello(server, envelope.session);
    else if (envelope.type == WIRE_GET_RING)
        answer_ring(server, envelope.session, envelope.seq);
    else if (envelope.type == WIRE_CHECKS)
        take_checks(server, frame, len);
    else if (envelope.type == WIRE_ADMIN)
        take_admin(server, frame, len);
}

static void *serve(void *argument)
{
    struct server *server = argument;
    bool stop = false;

    while (!stop) {
        zmq_msg_t message;
        int len = zmq_recv(server->socket, server->identity, sizeof server->identity, 0);

        (void)pthread_mutex_lock(&server->lock);
        stop = server->stop;
        if (len >= 0) {
            server->identity_len = (size_t)len;
            (void)zmq_msg_init(&message);
            if (zmq_msg_recv(&message, server->socket, 0) >= 0 && !stop)
                take(server, zmq_msg_data(&message), zmq_msg_size(&message));
            (void)zmq_msg_close(&message);
        }
        (void)pthread_mutex_unlock(&server->lock);
    }
    (void)zmq_close(server->socket);
    return NULL;
}

struct server *server_new(const char *name, enum server_mode mode)
{
    struct server *server = calloc(1, sizeof *server);
    const int timeout_ms = 20;
    const int linger_ms = 0;
    size_t len;

    assert_non_null(server);
    server->mode = mode;
    server->vnodes = 16;
    server->view_version = 1;
    server->leases = (struct server_leases){.outcome = OUTCOME_ERROR, .status = 400};
    (void)snprintf(server->name, sizeof server->name, "%s", name);
    (void)pthread_mutex_init(&server->lock, NULL);
    (void)pthread_cond_init(&server->noted, NULL);
    server->context = zmq_ctx_new();
    server->socket = zmq_socket(server->context, ZMQ_ROUTER);
    assert_non_null(server->socket);
    (void)zmq_setsockopt(server->socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    (void)zmq_setsockopt(server->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    assert_int_equal(zmq_bind(server->socket, "tcp://127.0.0.1:*"), 0);
    len = sizeof server->endpoint;
    assert_int_equal(zmq_getsockopt(server->socket, ZMQ_LAST_ENDPOINT, server->endpoint, &len), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    server->running = true;
    return server;
}

void server_stop(struct server *server)
{
    if (!server->running)
        return;
    (void)pthread_mutex_lock(&server->lock);
    server->stop = true;
    (void)pthread_mutex_unlock(&server->lock);
    (void)pthread_join(server->thread, NULL);
    (void)zmq_ctx_term(server->context);
    server->running = false;
}

void server_free(struct server **server)
{
    server_stop(*server);
    (void)pthread_cond_destroy(&(*server)->noted);
    (void)pthread_mutex_destroy(&(*server)->lock);
    free(*server);
    *server = NULL;
}

const char *server_endpoint(const struct server *server)
{
    return server->endpoint;
}

void server_set_mode(struct server *server, enum server_mode mode)
{
    (void)pthread_mutex_lock(&server->lock);
    server->mode = mode;
    (void)pthread_mutex_unlock(&server->lock);
}

void server_set_ring(struct server *server, uint32_t vnodes, uint64_t view_version,
                     const char *even, const char *odd)
{
    (void)pthread_mutex_lock(&server->lock);
    server->vnodes = vnodes;
    server->view_version = view_version;
    (void)snprintf(server->even, sizeof server->even, "%s", even + strlen("tcp://"));
    (void)snprintf(server->odd, sizeof server->odd, "%s", odd + strlen("tcp://"));
    (void)pthread_mutex_unlock(&server->lock);
}

void server_set_leases(struct server *server, const struct server_leases *leases)
{
    (void)pthread_mutex_lock(&server->lock);
    server->leases = *leases;
    (void)pthread_mutex_unlock(&server->lock);
}

struct server_tally server_tally(struct server *server)
{
    struct server_tally tally;

    (void)pthread_mutex_lock(&server->lock);
    tally = server->tally;
    (void)pthread_mutex_unlock(&server->lock);
    return tally;
}

void server_set_denial(struct server *server, int64_t retry_after_ms, bool steady)
{
    (void)pthread_mutex_lock(&server->lock);
    server->retry_after_ms = retry_after_ms;
    server->steady = steady;
    (void)pthread_mutex_unlock(&server->lock);
}

bool server_wait_leases(struct server *server, size_t asked, size_t released)
{
    struct timespec deadline;
    bool reached;

    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += SERVER_WAIT_MS / 1000;
    (void)pthread_mutex_lock(&server->lock);
    while ((server->tally.asked < asked || server->tally.released < released) &&
           pthread_cond_timedwait(&server->noted, &server->lock, &deadline) == 0) {
    }
    reached = server->tally.asked >= asked && server->tally.released >= released;
    (void)pthread_mutex_unlock(&server->lock);
    return reached;
}

bool server_wait(struct server *server, size_t count)
{
    struct timespec deadline;
    bool reached;

    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += SERVER_WAIT_MS / 1000;
    (void)pthread_mutex_lock(&server->lock);
    while (server->count < count &&
           pthread_cond_timedwait(&server->noted, &server->lock, &deadline) == 0) {
    }
    reached = server->count >= count;
    (void)pthread_mutex_unlock(&server->lock);
    return reached;
}

size_t server_count(struct server *server)
{
    size_t count;

    (void)pthread_mutex_lock(&server->lock);
    count = server->count;
    (void)pthread_mutex_unlock(&server->lock);
    return count;
}

size_t server_rings(struct server *server)
{
    size_t rings;

    (void)pthread_mutex_lock(&server->lock);
    rings = server->rings;
    (void)pthread_mutex_unlock(&server->lock);
    return rings;
}

struct server_note server_note(struct server *server, size_t i)
{
    struct server_note note;

    (void)pthread_mutex_lock(&server->lock);
    note = server->notes[i];
    (void)pthread_mutex_unlock(&server->lock);
    return note;
}
