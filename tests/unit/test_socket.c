/* test_socket.c - the node's sockets, its links to peers and its gossip lines, over loopback.
 *
 * Strangers (other frames, own routing ids) are played by plain ZeroMQ sockets. Every wait is for
 * something to happen, with a deadline.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

#include "base/quantity.h"
#include "node/runtime/shard/links.h"
#include "node/runtime/system/gossip_out.h"
#include "node/runtime/system/socket.h"

enum { WAIT_MS = 20000, STEP_MS = 5, SELF = 1, OTHER = 2, OPEN_MAX = 8 };

struct fixture {
    void *context;
    void *router;
    char endpoint[VIEW_TEXT_LEN];
    struct socket_holder holder;
    uint32_t lost;
    uint32_t refused;
    /* Closed by the teardown, because a context waits for all of its sockets: a failed test must
     * not become one that never ends. */
    void *open[OPEN_MAX];
    uint32_t open_count;
    struct links *links;
    struct gossip_out out;
    int reserved; /* a descriptor, or -1 */
};

static void *keep(struct fixture *f, void *socket)
{
    assert_non_null(socket);
    assert_true(f->open_count < OPEN_MAX);
    f->open[f->open_count++] = socket;
    return socket;
}

static void *bind_router(struct fixture *f, enum socket_use use, char *endpoint)
{
    char url[SOCKET_URL_LEN];
    size_t len = sizeof(url);
    void *router;

    assert_int_equal(socket_bind(f->context, use, "127.0.0.1", 0, &router), 0);
    assert_int_equal(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, url, &len), 0);
    const char *from = url + strlen("tcp://");
    assert_true(strlen(from) < VIEW_TEXT_LEN);
    memcpy(endpoint, from, strlen(from) + 1);
    return router;
}

static int setup(void **state)
{
    static struct fixture fixture;

    memset(&fixture, 0, sizeof(fixture));
    fixture.reserved = -1;
    *state = &fixture;
    if (socket_context_new(1024, &fixture.context) != 0)
        return -1;
    gossip_out_init(&fixture.out, fixture.context);
    fixture.router = bind_router(&fixture, SOCKET_PEERS, fixture.endpoint);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    socket_release(&f->holder);
    links_free(&f->links);
    gossip_out_fini(&f->out);
    for (uint32_t i = 0; i < f->open_count; i++)
        socket_close(&f->open[i]);
    socket_close(&f->router);
    if (f->reserved >= 0)
        (void)close(f->reserved);
    socket_context_free(&f->context);
    return 0;
}

/* An address at which nobody listens, and nobody will: the port is taken and refuses. */
static void reserve(struct fixture *f, char *endpoint)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    f->reserved = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(f->reserved >= 0);
    assert_int_equal(bind(f->reserved, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(f->reserved, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(endpoint, VIEW_TEXT_LEN, "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
}

static void wait_for(void *socket, short events)
{
    zmq_pollitem_t item = {.socket = socket, .events = events};

    if (zmq_poll(&item, 1, WAIT_MS) != 1)
        fail_msg("the socket did not become ready");
}

/* A DEALER of the node's, connected. */
static void *connect_dealer(struct fixture *f)
{
    void *dealer;

    assert_int_equal(socket_connect(f->context, SOCKET_PEERS, f->endpoint, &dealer), 0);
    (void)keep(f, dealer);
    assert_int_equal(socket_join(dealer, f->endpoint), 0);
    wait_for(dealer, ZMQ_POLLOUT);
    return dealer;
}

/* A DEALER of a stranger's, with a routing id of its own choice unless that is NULL. */
static void *connect_stranger(struct fixture *f, const char *routing_id)
{
    char url[SOCKET_URL_LEN];
    const int linger = 0;
    void *dealer = keep(f, zmq_socket(f->context, ZMQ_DEALER));

    assert_int_equal(zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof(linger)), 0);
    if (routing_id != NULL)
        assert_int_equal(zmq_setsockopt(dealer, ZMQ_ROUTING_ID, routing_id, strlen(routing_id)), 0);
    (void)snprintf(url, sizeof(url), "tcp://%s", f->endpoint);
    assert_int_equal(zmq_connect(dealer, url), 0);
    return dealer;
}

static struct socket_message receive(struct fixture *f)
{
    struct socket_message message;

    wait_for(f->router, ZMQ_POLLIN);
    assert_int_equal(socket_receive(f->router, &f->holder, &message), 1);
    return message;
}

static void assert_text(const struct socket_message *message, const char *text)
{
    assert_int_equal(message->len, strlen(text));
    assert_memory_equal(message->data, text, message->len);
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* A frame arrives whole, and once. */
static void a_router_receives_frames(void **state)
{
    struct fixture *f = *state;
    struct socket_message message;
    void *dealer = connect_dealer(f);

    assert_true(socket_fd(f->router) >= 0);
    assert_int_equal(socket_send(dealer, "question", 8), 0);
    message = receive(f);
    assert_text(&message, "question");
    assert_false(message.odd);
    assert_false(socket_readable(f->router));
    assert_int_equal(socket_receive(f->router, &f->holder, &message), 0);
}

/* A link to nobody takes nothing. */
static void what_cannot_be_sent_is_an_error_at_once(void **state)
{
    struct fixture *f = *state;
    char nobody[VIEW_TEXT_LEN];
    void *dealer;

    reserve(f, nobody);
    assert_int_equal(socket_connect(f->context, SOCKET_PEERS, nobody, &dealer), 0);
    (void)keep(f, dealer);
    assert_int_equal(socket_join(dealer, nobody), 0);
    assert_int_equal(socket_send(dealer, "x", 1), TG_EBUSY);
    assert_int_equal(socket_join(dealer, "no endpoint"), TG_EINVALID);
}

/* A message of several frames is marked, read away whole, and the next one is whole again. */
static void a_message_of_several_frames_is_odd(void **state)
{
    struct fixture *f = *state;
    struct socket_message message;
    void *stranger = connect_stranger(f, NULL);

    assert_int_equal(zmq_send(stranger, "", 0, ZMQ_SNDMORE), 0); /* as a REQ socket does */
    assert_int_equal(zmq_send(stranger, "b", 1, ZMQ_SNDMORE), 1);
    assert_int_equal(zmq_send(stranger, "c", 1, 0), 1);
    assert_int_equal(zmq_send(stranger, "plain", 5, 0), 5);
    message = receive(f);
    assert_true(message.odd);
    message = receive(f);
    assert_false(message.odd);
    assert_text(&message, "plain");
}

/* Senders that chose their own routing id are not heard, whatever its length; others are. */
static void own_routing_ids_are_dropped(void **state)
{
    struct fixture *f = *state;
    struct socket_message message;
    void *strangers[2] = {connect_stranger(f, "me"), connect_stranger(f, "five!")};

    for (int i = 0; i < 2; i++) {
        assert_int_equal(zmq_send(strangers[i], "a", 1, ZMQ_SNDMORE), 1);
        assert_int_equal(zmq_send(strangers[i], "b", 1, 0), 1);
        wait_for(f->router, ZMQ_POLLIN);
        assert_int_equal(socket_receive(f->router, &f->holder, &message), 0);
    }
    void *dealer = connect_dealer(f);
    assert_int_equal(socket_send(dealer, "known", 5), 0);
    message = receive(f);
    assert_text(&message, "known");
    assert_false(message.odd);
}

/* A monitor tells once that the connection was lost, and nothing before. */
static void a_monitor_tells_a_loss(void **state)
{
    struct fixture *f = *state;
    void *dealer;
    void *monitor;

    assert_int_equal(socket_connect(f->context, SOCKET_PEERS, f->endpoint, &dealer), 0);
    (void)keep(f, dealer);
    assert_int_equal(socket_monitor(f->context, dealer, 1, &monitor), 0);
    (void)keep(f, monitor);
    assert_int_equal(socket_join(dealer, f->endpoint), 0);
    wait_for(dealer, ZMQ_POLLOUT);
    assert_false(socket_lost(monitor));
    socket_close(&f->router);
    wait_for(monitor, ZMQ_POLLIN);
    assert_true(socket_lost(monitor));
    assert_false(socket_lost(monitor));
}

/* A frame above the bound is not read into memory: it costs the sender its connection. */
static void too_long_a_frame_ends_the_connection(void **state)
{
    struct fixture *f = *state;
    static const char long_frame[SOCKET_FRAME_MAX + 1];
    struct socket_message message;
    void *dealer;
    void *monitor;

    assert_int_equal(socket_connect(f->context, SOCKET_PEERS, f->endpoint, &dealer), 0);
    (void)keep(f, dealer);
    assert_int_equal(socket_monitor(f->context, dealer, 2, &monitor), 0);
    (void)keep(f, monitor);
    assert_int_equal(socket_join(dealer, f->endpoint), 0);
    wait_for(dealer, ZMQ_POLLOUT);
    assert_int_equal(socket_send(dealer, long_frame, SOCKET_FRAME_MAX), 0);
    assert_int_equal(receive(f).len, SOCKET_FRAME_MAX);
    assert_int_equal(socket_send(dealer, long_frame, sizeof(long_frame)), 0);
    wait_for(monitor, ZMQ_POLLIN);
    assert_true(socket_lost(monitor));
    assert_int_equal(socket_receive(f->router, &f->holder, &message), 0);
}

/* A heartbeat of libzmq may end the process that reads it, so nobody sends any: TCP notices that a
 * peer has vanished. */
static void who_connects_has_tcp_notice_a_loss_and_sends_no_heartbeats(void **state)
{
    static const struct {
        int option;
        int value;
    } expected[] = {
        {ZMQ_HEARTBEAT_IVL, 0},       {ZMQ_TCP_KEEPALIVE, 1}, {ZMQ_TCP_KEEPALIVE_IDLE, 1},
        {ZMQ_TCP_KEEPALIVE_INTVL, 1}, {ZMQ_TCP_MAXRT, 3000},
    };
    struct fixture *f = *state;
    void *dealer = connect_dealer(f);

    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        int value = -1;
        size_t len = sizeof value;
        assert_int_equal(zmq_getsockopt(dealer, expected[i].option, &value, &len), 0);
        assert_int_equal(value, expected[i].value);
    }
}

/* What is wrong with an address is told apart. */
static void a_bind_tells_what_is_wrong(void **state)
{
    struct fixture *f = *state;
    char error[QUANTITY_ERROR_LEN];
    uint64_t number;
    void *socket;

    assert_int_equal(quantity_parse_uint(strrchr(f->endpoint, ':') + 1, UINT16_MAX, &number, error),
                     0);
    const uint16_t port = (uint16_t)number;

    assert_int_equal(socket_bind(f->context, SOCKET_PEERS, "127.0.0.1", port, &socket),
                     TG_EADDRINUSE);
    assert_null(socket);
    assert_int_equal(socket_bind(f->context, SOCKET_PEERS, "192.0.2.1", port, &socket),
                     TG_EINVALID);
    assert_null(socket);
}

/* What is sent and nobody reads yet must stay with the sender for the most part: libzmq has no
 * bound in bytes, and keeps what it has read of senders that are gone. */
static void few_messages_are_read_ahead(struct fixture *f, enum socket_use use)
{
    enum { LEN = 1 << 16, QUEUE_LEN = 128, MOST = 1800, STUCK_MS = 400 };
    static const char message[LEN];
    const int queue = 10;
    char endpoint[VIEW_TEXT_LEN];
    char url[SOCKET_URL_LEN];
    uint32_t sent = 0;

    (void)keep(f, bind_router(f, use, endpoint));
    void *dealer = keep(f, zmq_socket(f->context, ZMQ_DEALER));
    assert_int_equal(zmq_setsockopt(dealer, ZMQ_SNDHWM, &queue, sizeof queue), 0);
    (void)snprintf(url, sizeof url, "tcp://%s", endpoint);
    assert_int_equal(zmq_connect(dealer, url), 0);
    zmq_pollitem_t item = {.socket = dealer, .events = ZMQ_POLLOUT};
    while (sent < MOST && zmq_poll(&item, 1, sent < QUEUE_LEN ? WAIT_MS : STUCK_MS) == 1)
        sent += zmq_send(dealer, message, LEN, ZMQ_DONTWAIT) == LEN;
    assert_in_range(sent, QUEUE_LEN, 900); /* beside them, what the connection itself holds */
}

/* What comes by gossip may be as long as a frame may be, and from anybody who reaches the port. */
static void few_messages_of_gossip_are_read_ahead(void **state)
{
    few_messages_are_read_ahead(*state, SOCKET_GOSSIP);
}

/* ---- links ----------------------------------------------------------------------------------- */

static void note_loss(void *context, uint64_t node, uint16_t shard, bool refused)
{
    struct fixture *f = context;

    assert_int_equal(node, OTHER);
    assert_int_equal(shard, 0);
    f->lost++;
    f->refused += refused; /* nobody listens there any more */
}

/* A view of this node and one other, which listens at `endpoint`. */
static void make_view(struct view *view, struct view_member members[2], const char *endpoint)
{
    memset(view, 0, sizeof(*view));
    memset(members, 0, 2 * sizeof(*members));
    for (uint32_t i = 0; i < 2; i++) {
        members[i] = (struct view_member){.id = i == 0 ? SELF : OTHER, .shards = 1};
        (void)snprintf(members[i].peer, sizeof(members[i].peer), "%s", endpoint);
    }
    view->members = members;
    view->member_count = 2;
}

/* Sends until a frame comes out of `router`: a link drops while it is not connected. */
static void send_through(struct fixture *f, struct links *links, void *router)
{
    zmq_pollitem_t item = {.socket = router, .events = ZMQ_POLLIN};
    struct socket_message message;

    for (int waited = 0; waited < WAIT_MS; waited += STEP_MS) {
        links_send(links, OTHER, 0, false, "frame", 5);
        if (zmq_poll(&item, 1, STEP_MS) == 1) {
            while (socket_receive(router, &f->holder, &message) > 0)
                assert_text(&message, "frame");
            return;
        }
    }
    fail_msg("nothing came through the link");
}

/* A link is made for another shard, follows its address, and ends when its node leaves. */
static void links_follow_the_view(void **state)
{
    struct fixture *f = *state;
    const struct log silent = {.write = NULL};
    const struct links_options options = {f->context, &silent, SELF, 0, NULL};
    char endpoint[VIEW_TEXT_LEN];
    void *elsewhere = keep(f, bind_router(f, SOCKET_PEERS, endpoint));
    struct view_member members[2];
    struct view view;

    assert_int_equal(links_new(&options, &f->links), 0);
    struct links *links = f->links;
    links_send(links, OTHER, 0, false, "x", 1);
    assert_int_equal(links_dropped(links), 1);
    make_view(&view, members, f->endpoint);
    links_follow(links, &view);
    send_through(f, links, f->router);
    make_view(&view, members, endpoint);
    links_follow(links, &view);
    send_through(f, links, elsewhere);
    const uint64_t dropped = links_dropped(links);
    links_send(links, SELF, 0, false, "x", 1); /* never to itself */
    assert_int_equal(links_dropped(links), dropped + 1);
    members[1].state = VIEW_LEFT;
    links_follow(links, &view);
    links_send(links, OTHER, 0, false, "x", 1);
    assert_int_equal(links_dropped(links), dropped + 2);
    links_free(&f->links);
    assert_null(f->links);
}

/* Nobody listens at the fixture's endpoint any more. */
static void end_listener(struct fixture *f)
{
    socket_close(&f->router);
    for (int waited = 0; socket_listener(f->endpoint) != SOCKET_REFUSES && waited < WAIT_MS;
         waited += STEP_MS)
        (void)zmq_poll(NULL, 0, STEP_MS);
    assert_int_equal(socket_listener(f->endpoint), SOCKET_REFUSES);
}

/* Only where nobody listens a connection is refused; what cannot be known at once is no refusal. */
static void only_a_port_without_a_listener_refuses(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(socket_listener(f->endpoint), SOCKET_LISTENS);
    assert_int_equal(socket_listener("localhost:1"), SOCKET_UNKNOWN); /* a name is not looked up */
    assert_int_equal(socket_listener("nonsense"), SOCKET_UNKNOWN);
    end_listener(f);
}

/* A link that could not be opened, because all sockets were taken, is opened when one is free: no
 * change of the view is needed. */
static void a_link_that_could_not_be_opened_is_tried_again(void **state)
{
    enum { SOCKETS = 8 };
    struct fixture *f = *state;
    const struct log silent = {.write = NULL};
    struct view_member members[2];
    struct view view;
    void *context = NULL;
    void *taken[SOCKETS];
    uint32_t count = 0;

    assert_int_equal(socket_context_new(SOCKETS, &context), 0);
    while (count < SOCKETS && (taken[count] = zmq_socket(context, ZMQ_DEALER)) != NULL)
        count++;
    const struct links_options options = {context, &silent, SELF, 0, NULL};
    assert_int_equal(links_new(&options, &f->links), 0);
    make_view(&view, members, f->endpoint);
    links_follow(f->links, &view);
    while (count > 0)
        socket_close(&taken[--count]);
    int64_t now_ns = 1;
    zmq_pollitem_t item = {.socket = f->router, .events = ZMQ_POLLIN};
    bool came = false;
    for (int waited = 0; !came && waited < WAIT_MS; waited += STEP_MS) {
        links_retry(f->links, now_ns += INT64_C(1000000000));
        links_send(f->links, OTHER, 0, false, "frame", 5);
        came = zmq_poll(&item, 1, STEP_MS) == 1;
    }
    links_free(&f->links);
    socket_context_free(&context);
    assert_true(came);
}

static void poll_until_lost(struct fixture *f)
{
    struct pollfd news = {.fd = links_descriptor(f->links), .events = POLLIN};
    for (int waited = 0; f->lost == 0 && waited < WAIT_MS; waited += STEP_MS)
        if (poll(&news, 1, STEP_MS) == 1)
            links_poll(f->links, true, 1, note_loss, f);
}

/* A connection that is lost is told with its node; one that is given up is not. */
static void a_lost_link_is_told_with_its_node(void **state)
{
    struct fixture *f = *state;
    const struct log silent = {.write = NULL};
    const struct links_options options = {f->context, &silent, SELF, 0, NULL};
    struct view_member members[2];
    struct view view;

    assert_int_equal(links_new(&options, &f->links), 0);
    struct links *links = f->links;
    make_view(&view, members, f->endpoint);
    links_follow(links, &view);
    send_through(f, links, f->router);
    links_poll(links, true, 1, note_loss, f);
    assert_int_equal(f->lost, 0);
    end_listener(f);
    poll_until_lost(f);
    assert_int_equal(f->lost, 1);
    assert_int_equal(f->refused, 1);
}

/* A killed process loses its connections some moments before its host refuses new ones: the host
 * is asked again, at times that are told, and then no more. */
static void a_process_that_is_gone_a_moment_later_is_found_gone(void **state)
{
    struct fixture *f = *state;
    const struct log silent = {.write = NULL};
    const struct links_options options = {f->context, &silent, SELF, 0, NULL};
    const int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct view_member members[2];
    struct view view;

    assert_int_equal(links_new(&options, &f->links), 0);
    make_view(&view, members, f->endpoint);
    links_follow(f->links, &view);
    send_through(f, f->links, f->router);
    assert_true(links_deadline(f->links) == INT64_MAX);
    end_listener(f);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_port = htons((uint16_t)strtoul(strrchr(f->endpoint, ':') + 1, NULL, 10));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 16), 0);
    poll_until_lost(f);
    assert_int_equal(f->refused, 0);
    int64_t now_ns = links_deadline(f->links);
    assert_true(now_ns > 1 && now_ns <= 1000001);
    links_poll(f->links, false, now_ns, note_loss, f);
    assert_int_equal(f->lost, 1);
    (void)close(listener);
    now_ns = links_deadline(f->links);
    links_poll(f->links, false, now_ns - 1, note_loss, f);
    assert_int_equal(f->refused, 0);
    while (links_deadline(f->links) != INT64_MAX && now_ns < 1000000000) {
        now_ns = links_deadline(f->links);
        links_poll(f->links, false, now_ns, note_loss, f);
    }
    assert_in_range(f->refused, 2, 7); /* told again, and not for ever */
    assert_in_range(now_ns, 100000000, 200000000);
}

/* ---- gossip lines ---------------------------------------------------------------------------- */

#define SECOND_NS ((int64_t)1000000000)

/* Gossip that is sent before the connection stands arrives, over one line an address. */
static void gossip_lines_are_made_once_and_tidied(void **state)
{
    struct fixture *f = *state;
    struct gossip_out *out = &f->out;
    struct socket_message message;

    gossip_out_send(out, SECOND_NS, f->endpoint, "first", 5);
    gossip_out_send(out, 2 * SECOND_NS, f->endpoint, "second", 6);
    assert_int_equal(out->count, 1);
    message = receive(f);
    assert_text(&message, "first");
    message = receive(f);
    assert_text(&message, "second");
    gossip_out_tidy(out, 62 * SECOND_NS);
    assert_int_equal(out->count, 1);
    gossip_out_tidy(out, 63 * SECOND_NS);
    assert_int_equal(out->count, 0);
}

/* An address that is none makes no line, and neither does one that is too long. */
static void a_bad_gossip_address_makes_no_line(void **state)
{
    struct fixture *f = *state;
    struct gossip_out *out = &f->out;
    char endless[GOSSIP_ADDRESS_LEN + 1];

    memset(endless, '1', GOSSIP_ADDRESS_LEN);
    endless[GOSSIP_ADDRESS_LEN] = '\0';
    gossip_out_send(out, SECOND_NS, "no address", "x", 1);
    gossip_out_send(out, SECOND_NS, endless, "x", 1);
    assert_int_equal(out->count, 0);
}

/* A line whose queue is full is begun anew: what waited there is old news. */
static void a_stuck_gossip_line_is_closed(void **state)
{
    struct fixture *f = *state;
    struct gossip_out *out = &f->out;
    char nobody[VIEW_TEXT_LEN];
    uint32_t sent = 0;

    reserve(f, nobody);
    do {
        gossip_out_send(out, SECOND_NS, nobody, "x", 1);
        assert_true(++sent < 1000);
    } while (out->count == 1);
    assert_true(sent > 1);
}

/* With all lines in use, the one that was not used for longest makes room. */
static void the_oldest_gossip_line_makes_room(void **state)
{
    struct fixture *f = *state;
    struct gossip_out *out = &f->out;
    char address[GOSSIP_ADDRESS_LEN];
    bool first_kept = false;

    for (int i = 0; i <= GOSSIP_OUT_MAX; i++) {
        (void)snprintf(address, sizeof(address), "127.0.0.1:%d", 1 + i);
        gossip_out_send(out, (i + 2) * SECOND_NS, address, "x", 1);
        if (i == GOSSIP_OUT_MAX - 1) /* the first is used again, so the second is the oldest */
            gossip_out_send(out, (i + 3) * SECOND_NS, "127.0.0.1:1", "x", 1);
    }
    assert_int_equal(out->count, GOSSIP_OUT_MAX);
    for (uint32_t i = 0; i < out->count; i++) {
        assert_string_not_equal(out->lines[i].address, "127.0.0.1:2");
        first_kept = first_kept || strcmp(out->lines[i].address, "127.0.0.1:1") == 0;
    }
    assert_true(first_kept);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_router_receives_frames),
        TEST(what_cannot_be_sent_is_an_error_at_once),
        TEST(few_messages_of_gossip_are_read_ahead),
        TEST(a_message_of_several_frames_is_odd),
        TEST(own_routing_ids_are_dropped),
        TEST(a_monitor_tells_a_loss),
        TEST(too_long_a_frame_ends_the_connection),
        TEST(who_connects_has_tcp_notice_a_loss_and_sends_no_heartbeats),
        TEST(a_bind_tells_what_is_wrong),
        TEST(links_follow_the_view),
        TEST(a_link_that_could_not_be_opened_is_tried_again),
        TEST(only_a_port_without_a_listener_refuses),
        TEST(a_lost_link_is_told_with_its_node),
        TEST(a_process_that_is_gone_a_moment_later_is_found_gone),
        TEST(gossip_lines_are_made_once_and_tidied),
        TEST(a_bad_gossip_address_makes_no_line),
        TEST(a_stuck_gossip_line_is_closed),
        TEST(the_oldest_gossip_line_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
