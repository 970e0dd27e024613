/* client.h - the handle's inside: who owns which field, and how a call travels through it.
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
 * I1  Sockets, links, items, messages, the route and the interned texts belong to the driver, one
 *     thread at a time: `driver` changes only under `lock`, which is the fence that ZeroMQ asks
 *     for when a socket changes threads. Below, "I/O thread" means the driver.
 *     Shared are only the queue and `detail` (under `lock`), two atomic counts and the eventfd.
 * I2  A message is retried as a whole under its own (session, seq): the same items in the same
 *     order, so that a node that knows it gives the first answer.
 * I3  A call completes exactly once. It stays allocated while items refer to it
 *     (`items_out`), but after completion nobody writes to the caller's memory.
 * I4  Callbacks run on the handle's own thread: a caller drives only while no asynchronous call
 *     is outstanding, and leaves a queue that holds one to the thread.
 * I5  in_flight <= in_flight_max, of callers' requests, and lease_calls <= CLIENT_LEASE_CALLS_MAX,
 *     of those of leases.c: both bound items, messages and memory, and neither takes the other's.
 */
#ifndef CLIENT_LIB_CLIENT_H
#define CLIENT_LIB_CLIENT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <zmq.h>

#include "base/error.h"

#include "client/include/tidegate.h"
#include "client/lib/denial.h"
#include "client/lib/endpoints.h"
#include "client/lib/heat.h"
#include "client/lib/hold.h"
#include "client/lib/intern.h"
#include "client/lib/items.h"
#include "client/lib/link.h"
#include "client/lib/pending.h"
#include "client/lib/request.h"
#include "client/lib/route.h"
#include "client/lib/tag.h"
#include "client/protocol/wire.h"

enum {
    CLIENT_LINKS_MAX = 512,
    CLIENT_DETAIL_LEN = 512,
    CLIENT_AGENT_MAX = 100,
    CLIENT_RECEIVE_MAX = 256,   /* messages read from one link before the others get a turn */
    CLIENT_CHECKS_LEAST = 512,  /* before what is asked at once is split into messages, */
    CLIENT_CHECKS_SHARE = 4,    /* each with one of so many checks: I4 of messages.c */
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

/* What one call of the API asks: requests, or one administrative command. */
struct client_call {
    struct client_call *next; /* in the queue, then among the live calls */
    struct client_call *prev;
    const tg_request_t *requests;
    tg_decision_t *decisions;
    size_t count;        /* of requests; 0 for administration */
    int operation;       /* replaces the requests' own; negative = theirs */
    const char *command; /* administration */
    const void *arguments;
    size_t arguments_len;
    tg_reply_t reply;
    int64_t deadline_ns;
    size_t undecided; /* I/O thread: requests without a decision */
    size_t items_out; /* I/O thread: items and messages that refer to this call */
    size_t failed_at; /* index of the first request without a decision that counts as one */
    int code;         /* 0, or its error */
    bool sent;        /* a message with one of its requests left this host */
    bool crowded;     /* one of them waits for a window that is full */
    bool done;
    struct client_hold *hold; /* asked for here, about its lease (leases.c); nobody waits */
    tg_callback_t callback;   /* asynchronous calls */
    void *argument;
    sem_t completed;   /* waiting calls */
    atomic_int owners; /* the I/O thread and, if it waits, the caller: the last one frees it */
};

/* A message that may still be sent (again): in `pending` under its seq, and in a list. */
struct client_message {
    struct client_message *next;
    struct client_message *prev;
    struct client_call *admin; /* administration: its call */
    uint64_t seq;
    uint16_t link; /* where it was sent last, or CLIENT_LINK_NONE */
    bool sent;     /* at least once: the next time carries RETRY */
    bool explain;
    uint16_t window;     /* the link whose window counts it, or CLIENT_LINK_NONE */
    int64_t sent_ns;     /* for the last time */
    int64_t asked_ns;    /* before it left for the first time */
    int64_t deadline_ns; /* the last one of its items' */
    int64_t try_ns;      /* when to try elsewhere */
    uint8_t *frame;
    size_t frame_len;
    uint32_t count;
    struct client_item items[];
};

enum client_driver {
    CLIENT_DRIVER_THREAD,
    CLIENT_DRIVER_CALLER,
    CLIENT_DRIVER_NONE /* nothing is live: the thread is parked, whoever comes may drive */
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
    uint32_t max; /* I4 of messages.c */
    bool explain;
};

struct tg_client {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t driver_changed;
    enum client_driver driver;       /* under lock */
    struct client_call *queue_first; /* under lock */
    struct client_call *queue_last;
    bool closing;                   /* under lock */
    char detail[CLIENT_DETAIL_LEN]; /* under lock */
    int64_t parked_ns;              /* under lock: the parked thread looks around by then */
    int wake_fd;
    atomic_size_t in_flight;
    atomic_size_t asynchronous; /* calls with a callback, queued or live */

    int timeout_ms; /* constant from here ... */
    int try_timeout_ms;
    size_t in_flight_max;
    tg_on_failure_t on_failure;
    bool no_leases;
    bool no_denials;
    struct client_tag_key tag_key;
    struct client_keys keys;
    char agent[CLIENT_AGENT_MAX + 1];
    uint64_t session;
    unsigned forks;                    /* of this process when the handle was opened */
    struct client_endpoints endpoints; /* ... to here */

    _Atomic int64_t tick_ns;  /* any thread: of the coarse clock, when last looked at */
    _Atomic int64_t ahead_ns; /* client_now_ns then, less that */

    struct client_hold_table holds;     /* any thread looks; its keeper is the I/O thread */
    struct client_denial_table denials; /* the same */

    void *context;
    struct client_link links[CLIENT_LINKS_MAX];
    uint16_t link_count; /* highest number in use + 1 */
    uint16_t preferred;  /* the link that answered last */
    uint64_t monitor_names;
    struct client_polls polls;

    int64_t now_ns;            /* of this turn */
    int64_t wake_ns;           /* no deadline or try ends before it */
    int64_t holds_next_ns;     /* no hold is to be looked at before, unless a taker says so */
    int64_t leases_end_ns;     /* not 0: the handle closes, and waits for releases until then */
    struct client_call *live;  /* not completed */
    size_t lease_calls;        /* of them, those of leases.c */
    struct client_items items; /* that are not part of a message yet */
    size_t items_max;
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

    struct client_building building; /* scratch of the I/O thread from here on */
    uint8_t values[WIRE_MESSAGE_MAX];
    uint8_t frame[WIRE_MESSAGE_MAX];
    struct client_source sources[WIRE_SOURCES_MAX];
    union {
        struct wire_decisions_space decisions;
        struct wire_ring_space ring;
        struct mp_token admin[WIRE_ADMIN_TOKENS_MAX];
    } space;
};

/* Whether the operation may make room, so that what was denied before it may be allowed after. */
static inline bool client_gives_back(int operation)
{
    return operation == TG_REFUND || operation == TG_RESET || operation == TG_RELEASE;
}

/* Monotonic time, in which suspended machines grow older: others do not wait for them. */
int64_t client_now_ns(void);
/* Keeps a sentence for tg_error_detail. Any thread. */
void client_detail(struct tg_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Makes somebody drive, and look at what is due. Any thread. */
void client_nudge(struct tg_client *client);

/* local.c: any thread. */
/* tg_check: decides without asking, if that can be; else it is client_check_asked. */
int client_local_check(struct tg_client *client, const tg_request_t *request,
                       tg_decision_t *decision);
/* The same for many; returns how many were decided. The others' outcome is CLIENT_UNDECIDED. Then
 * client_local_end: to keep what was taken of leases for them, or to give it back. */
size_t client_local_decide(struct tg_client *client, const tg_request_t *requests, size_t count,
                           int operation, tg_decision_t *decisions);
void client_local_end(struct tg_client *client, const tg_request_t *requests, size_t count,
                      tg_decision_t *decisions, bool keep);

/* leases.c: I/O thread only. */
/* One of the call's requests is asked, answered, or has failed: if it may make room, what is asked
 * after it is decided after it, not by a denial that is older. */
void client_leases_give_back(struct tg_client *client, const struct client_call *call,
                             size_t index);
/* One of the call's requests is about to be asked: if it is a refund or a reset of a key of which
 * tokens are held, says before it what was used of them. */
void client_leases_state(struct tg_client *client, const struct client_call *call, size_t index);
/* Notes what the decision of one item says: message->items[at], just filled in. `steady`: until the
 * time it tells. */
void client_leases_note(struct tg_client *client, const struct client_message *message, uint32_t at,
                        bool steady);
/* A call of leases.c has ended. */
void client_leases_answered(struct tg_client *client, const struct client_call *call);
/* Renews and gives back what is due. */
void client_leases_tick(struct tg_client *client);
/* At the end: asks to give back all that is held, and what is still to come. Nothing is held, asked
 * for or remembered any more; the calls about it end within 100 ms. */
void client_leases_end(struct tg_client *client);

/* call.c: I/O thread only, but for room, reserve and drop. */
/* Whether so many more requests would not be too many now: a look that reserves nothing. */
bool client_call_room(const struct tg_client *client, size_t count);
/* Counts `count` more requests in flight; false if that would be too many. */
bool client_call_reserve(struct tg_client *client, size_t count);
/* One more of its decisions was filled in; with the last one the call completes. */
void client_call_decided(struct tg_client *client, struct client_call *call);
/* The same for one that has none: fills it by `code` and on_failure. */
void client_call_fail(struct tg_client *client, struct client_call *call, uint32_t index, int code);
/* Fails whatever it still lacks and completes it. */
void client_call_end(struct tg_client *client, struct client_call *call, int code);
/* Takes one reference of an item or message away. */
void client_call_release(struct client_call *call);
/* Gives up one owner's claim; the last one frees it. Any thread. */
void client_call_drop(struct client_call *call);

/* messages.c: I/O thread only. */
/* Takes a call in: it is live, and its items wait to be sent. */
void client_call_start(struct tg_client *client, struct client_call *call);
/* Takes the queued calls in and places items and messages that wait; sends what can be sent. */
void client_dispatch(struct tg_client *client, struct client_call *queue);
/* A link came up or went down: what was sent over it moves. */
void client_messages_move(struct tg_client *client, uint16_t link);
/* Retries and gives up what is due; sets wake_ns. */
void client_messages_tick(struct tg_client *client);
/* Ends every call that somebody waits for with TG_ECLOSED. */
void client_messages_close(struct tg_client *client);
/* Ends all that is left, and frees it. */
void client_messages_end(struct tg_client *client);
void client_message_free(struct tg_client *client, struct client_message *message);
/* Tells the window of its link what came of it. */
void client_message_answered(struct tg_client *client, struct client_message *message);
void client_message_refused(struct tg_client *client, struct client_message *message);

/* answers.c: I/O thread only. */
void client_answer(struct tg_client *client, uint16_t link, const void *frame, size_t len);
void client_hello(struct tg_client *client, uint16_t link);
/* `view_version`: what the node of this link says it has. Each node counts its own, so it is only
 * compared with what the same node said before. */
void client_ask_ring(struct tg_client *client, uint16_t link, uint64_t view_version);

/* loop.c */
void *client_loop(void *client);
/* tidegate.c: asks one check and waits for its decision. Any thread. */
int client_check_asked(struct tg_client *client, const tg_request_t *request,
                       tg_decision_t *decision);
/* tidegate.c: the calling thread is the handle's from now on, until it ends. */
void client_enter(const struct tg_client *client);
/* A caller that became the driver: takes turns until its call ended or others need the thread. */
void client_drive(struct tg_client *client, const struct client_call *call);
/* The number of the link to an endpoint, made if it is new; CLIENT_LINK_NONE if there is no room.
 */
uint16_t client_link_number(struct tg_client *client, const char *endpoint);
/* Connects the link if it is not. */
void client_link_want(struct tg_client *client, uint16_t link);
void client_link_drop(struct tg_client *client, uint16_t link);

#endif
