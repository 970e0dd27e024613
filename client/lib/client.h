/* client.h - the handle's inside: which thread owns which part, and how a call travels through it.
 * Internal.
 *
 *   callers' threads              |  the I/O thread
 *                                 |
 *   tg_check ... -> call --queue--+--> items --route--> per link --> messages --> sockets
 *                   ^             |                                                |
 *                   +-- semaphore +<------- call complete <--- pending by seq <----+
 *
 * Whoever drives takes turns (loop.c): the I/O thread, or a lone waiting caller while nothing else
 * is going on, which saves two changes of thread. Whatever calls are queued when a turn begins
 * share messages: under load many calls make one message, alone a call leaves at once. No timer
 * delays anything.
 *
 *   driver:  THREAD --nothing live--> NONE --lone waiting call--> CALLER --its call ended--> NONE
 *              ^                       |                             |
 *              +--- other work --------+-----------------------------+
 *
 * CLIENT-1  What `struct client_driver` holds belongs to the driver, one thread at a time:
 *           `shared.driver` changes only under `shared.lock`, which is the fence that ZeroMQ asks
 *           for when a socket changes threads. "I/O thread" in this folder means the driver.
 * CLIENT-2  A message is retried as a whole under its own (session, seq): the same items in the
 *           same order, so that a node that knows it gives the first answer.
 * CLIENT-3  A call completes exactly once. It stays allocated while items refer to it
 *           (`items_out`), but after completion nobody writes to the caller's memory.
 * CLIENT-4  Callbacks run on the handle's own thread: a caller drives only while no asynchronous
 *           call is outstanding, and leaves a queue that holds one to the thread.
 * CLIENT-5  in_flight <= in_flight_max, of callers' requests, and lease_calls <=
 *           CLIENT_LEASE_CALLS_MAX, of those of leases.c: both bound items, messages and memory,
 *           and neither takes the other's.
 */
#ifndef CLIENT_LIB_CLIENT_H
#define CLIENT_LIB_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

#include "base/error.h"

#include "client/include/tidegate.h"
#include "client/lib/cache/denial.h"
#include "client/lib/cache/heat.h"
#include "client/lib/cache/hold.h"
#include "client/lib/cache/tag.h"
#include "client/lib/endpoints.h"
#include "client/lib/intern.h"
#include "client/lib/items.h"
#include "client/lib/link.h"
#include "client/lib/pending.h"
#include "client/lib/request.h"
#include "client/lib/route.h"
#include "client/protocol/wire.h"

enum {
    CLIENT_LINKS_MAX = 512,
    CLIENT_DETAIL_LEN = 512,
    CLIENT_AGENT_MAX = 100,
    CLIENT_RECEIVE_MAX = 256,   /* messages read from one link before the others get a turn */
    CLIENT_CHECKS_LEAST = 512,  /* before what is asked at once is split into messages, */
    CLIENT_CHECKS_SHARE = 4,    /* each with one of so many checks: MESSAGES-4 */
    CLIENT_STALL_MS = 1000,     /* how long a link that let a message time out is avoided */
    CLIENT_RING_PAUSE_MS = 100, /* between two questions for the ring */
    CLIENT_BACKOFF_MS = 20,     /* before a node that cannot decide now is asked again */
    CLIENT_PARKED_MS = 1000,    /* a parked handle looks after its connections so often */
    CLIENT_RESEND_MS = 5,       /* before a message that no link would take is offered again */
    CLIENT_IN_FLIGHT_MAX = 1 << 24,
    CLIENT_LEASE_CALLS_MAX = 4 * CLIENT_HOLDS_MAX, /* at the close: two to release, one asked for */
    CLIENT_WAIT_SHARE = 4, /* an answer may take so much of its time: 1 in so many; window.h */
    CLIENT_UNDECIDED = -1, /* an outcome beyond the vocabulary: there is no decision yet */
    CLIENT_POLL_FIRST = 1  /* of the links; before it is the eventfd */
};

struct client_call;    /* call.h */
struct client_message; /* message.h */

enum client_driven_by {
    CLIENT_DRIVER_THREAD,
    CLIENT_DRIVER_CALLER,
    CLIENT_DRIVER_NONE /* nothing is live: the thread is parked, and any caller may drive */
};

/* What the driver waits for: the eventfd, then monitor and socket of each link that is open. */
struct client_polls {
    zmq_pollitem_t items[CLIENT_POLL_FIRST + 2 * CLIENT_LINKS_MAX];
    uint16_t links[CLIENT_LINKS_MAX]; /* whose items[1 + 2 * i] and the next one are */
    uint16_t count;                   /* of links */
    bool stale;                       /* one was opened or closed */
};

/* The message that is built. */
struct client_building {
    struct wire_checks_builder builder;
    struct client_template_cache cache;
    struct client_item items[WIRE_CHECKS_MAX];
    uint32_t count;
    uint32_t max; /* MESSAGES-4 */
    bool explain;
};

/* What any thread may touch: first under `lock`, then by atomic operations alone. */
struct client_shared {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t driver_changed;
    enum client_driven_by driver;
    struct client_call *queue_first;
    struct client_call *queue_last;
    bool closing;
    int64_t parked_ns; /* the parked thread looks around by then */
    int wake_fd;       /* the lock's part ends before it */
    atomic_size_t in_flight;
    atomic_size_t asynchronous;     /* calls with a callback, queued or live */
    atomic_bool checked;            /* by tests: each turn ends with client_check_invariants */
    char detail[CLIENT_DETAIL_LEN]; /* under `lock`; here it keeps what is written often apart */
    _Atomic int64_t tick_ns;        /* of the coarse clock, when last looked at */
    _Atomic int64_t ahead_ns;       /* client_now_ns then, less that */
    struct client_hold_table holds; /* any thread looks; its keeper is the driver */
    struct client_denial_table denials; /* the same */
};

/* Constant from the return of tg_open on. */
struct client_config {
    int timeout_ms;
    int try_timeout_ms;
    size_t in_flight_max;
    size_t items_max; /* of callers and leases together */
    tg_on_failure_t on_failure;
    bool no_leases;
    bool no_denials;
    struct client_tag_key tag_key;
    struct client_keys keys;
    char agent[CLIENT_AGENT_MAX + 1];
    uint64_t session;
    unsigned forks; /* of this process when the handle was opened */
    struct client_endpoints endpoints;
};

/* The driver's, as CLIENT-1 says. */
struct client_driver {
    void *context;
    struct client_link links[CLIENT_LINKS_MAX];
    uint16_t link_count; /* highest number in use + 1 */
    uint16_t preferred;  /* the link that answered last */
    uint64_t monitor_names;
    struct client_polls polls;

    int64_t now_ns;           /* of this turn */
    int64_t wake_ns;          /* no deadline or try ends before it */
    int64_t holds_next_ns;    /* no hold is to be looked at before, unless a taker says so */
    int64_t leases_end_ns;    /* not 0: the handle closes, and waits for releases until then */
    struct client_call *live; /* not completed */
    struct client_call *asked_first; /* of them, those of leases.c that wait to be started */
    struct client_call *asked_last;
    size_t lease_calls;          /* live ones of leases.c */
    struct client_items items;   /* that are not part of a message yet */
    struct client_queue waiting; /* those that no link could take yet */
    struct client_message *messages;
    struct client_pending pending;
    struct client_route route;
    struct client_intern intern;
    struct client_heat heat;
    bool cluster_known;
    uint8_t cluster_id[16];
    int64_t ring_asked_ns;
    uint64_t ring_seq; /* of the last GET_RING */
};

/* The driver's, too: nothing in it outlives the function that fills it. */
struct client_scratch {
    struct client_building building;
    uint8_t values[WIRE_MESSAGE_MAX];
    uint8_t frame[WIRE_MESSAGE_MAX];
    struct client_source sources[WIRE_SOURCES_MAX];
    union {
        struct wire_decisions_space decisions;
        struct wire_ring_space ring;
        struct mp_token admin[WIRE_ADMIN_TOKENS_MAX];
    } space;
};

struct tg_client {
    struct client_shared shared;
    struct client_config config;
    struct client_driver driver;
    struct client_scratch scratch;
};

/* Whether the operation may make room, so that what was denied before it may be allowed after. */
static inline bool client_gives_back(int operation)
{
    return operation == TG_REFUND || operation == TG_RESET || operation == TG_RELEASE ||
           operation == TG_COMMIT || operation == TG_CANCEL;
}

/* The driver's next turn comes no later than that. */
static inline void client_wake_by(struct tg_client *client, int64_t when_ns)
{
    if (when_ns < client->driver.wake_ns)
        client->driver.wake_ns = when_ns;
}

#endif
