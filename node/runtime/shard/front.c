/* front.c - the clients of one protocol, of which a shard may have none. */
#include "node/runtime/shard/front.h"

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    *(bool *)poll->data = true;
}

int front_open(struct front *front, const struct connections_options *options, uv_loop_t *loop)
{
    if (connections_new(options, &front->connections) != 0)
        return TG_ENOMEM;
    front->due = true;
    front->poll.data = &front->due;
    const int fd = connections_fd(front->connections);
    return uv_poll_init(loop, &front->poll, fd) == 0 &&
                   uv_poll_start(&front->poll, UV_READABLE, on_poll) == 0
               ? 0
               : TG_EIO;
}

bool front_has_work(const struct front *front, int64_t now_ns)
{
    return front->connections != NULL && (front->due || connections_pending(front->connections) ||
                                          connections_due(front->connections, now_ns));
}

void front_turn(struct front *front)
{
    front->due = false;
    connections_turn(front->connections);
}

bool front_is_pending(const struct front *front)
{
    return front->connections != NULL && connections_pending(front->connections);
}

bool front_is_busy(const struct front *front)
{
    return front->due || front_is_pending(front);
}

void front_hurry(struct front *front)
{
    if (front->connections != NULL)
        connections_other(front->connections);
}

void front_leave(const struct front *front)
{
    if (front->connections != NULL)
        connections_leave(front->connections);
}

bool front_waits(const struct front *front)
{
    return front->connections != NULL && connections_waits(front->connections);
}

bool front_has_left(const struct front *front)
{
    return front->connections == NULL || connections_left(front->connections);
}
