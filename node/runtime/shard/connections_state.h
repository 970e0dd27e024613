/* connections_state.h - what the files of a loop of connections share; connections.h is for others.
 *
 *   connections.c        turns: events, requests, answers, the end
 *   connection_places.c  which connections there are: places, orders, addresses, states
 *   connection_bytes.c   what they hold: bytes that came, bytes to be sent
 *   connection_end.c     who is at their ends: names, and whom to trust
 *   acceptor.c           how they come: listeners, and what is done when there are too many
 *   connection_proxy.c   of whom they are: what a trusted proxy says first
 */
#ifndef NODE_RUNTIME_SHARD_CONNECTIONS_STATE_H
#define NODE_RUNTIME_SHARD_CONNECTIONS_STATE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "node/runtime/shard/connections.h"
#include "node/runtime/system/busy_poll.h"

enum {
    CONNECTIONS_EVENTS_MAX = 128,      /* sockets that are ready, at once */
    CONNECTIONS_READ_MAX = 64 << 10,   /* bytes of one connection, at once */
    CONNECTIONS_COPY_MAX = 16 << 10,   /* so much that is kept is read on behind a copy of it */
    CONNECTIONS_UNSENT_EACH = 8 << 20, /* answers of one connection */
    CONNECTIONS_BLOCKS = 128,          /* free ones of a length; more go back to the heap */
    CONNECTIONS_BLOCK_SIZES = 6,
    CONNECTIONS_FLUSH_LEN = 64 << 10, /* answers of a turn leave in pieces of so much */
    CONNECTIONS_NONE = UINT32_MAX
};

/* What has to come to its end in time. A connection waits for one thing, since since_ns. */
enum connection_wait {
    CONNECTION_SETTLED, /* for nothing */
    CONNECTION_BEGINS,  /* for what a connection begins with */
    CONNECTION_ASKS,    /* for the rest of a request, or of a transaction */
    CONNECTION_ENDS,    /* for the client to take what it was answered, before it is told so */
    CONNECTION_LEAVES,  /* for the client to close: it was told that no more will come */
    CONNECTION_WAITS
};

/* The orders in which a connection can be: by what it said last; by since_ns, among those that wait
 * for the same; by moved_ns, among those that are blocked. */
enum connection_by { CONNECTION_BY_USE, CONNECTION_BY_WAIT, CONNECTION_BY_BLOCK, CONNECTION_BYS };

struct connection_link {
    uint32_t older;
    uint32_t newer;
};

/* Connections from the one that came into it first to the one that came last. */
struct connection_order {
    uint32_t oldest;
    uint32_t newest;
};

struct connection {
    int fd;              /* -1: the place is free */
    uint32_t generation; /* how often the place was used */
    uint32_t next;       /* in the list of free places, in `dirty` or in `deferred` */
    struct connection_link links[CONNECTION_BYS];
    struct in6_addr address; /* that it is counted by; one of IPv4 is mapped */
    bool dirty;
    bool stalled;  /* something is kept that cannot be taken yet */
    bool sleeps;   /* stalled: until the codec has it found, or the node stops */
    bool deferred; /* it goes on in the next turn */
    bool muted;
    bool blocked;        /* its socket takes no more */
    bool ended;          /* the client sends no more */
    bool shut;           /* it was told that no more will come, or will be */
    bool broken;         /* its socket is of no use any more */
    bool fresh;          /* nothing was taken of it: a proxy may say first for whom it is */
    uint8_t wait;        /* enum connection_wait */
    uint64_t owed;       /* connections.owed_at, when the shard was found to owe it an answer */
    int64_t answered_ns; /* when the shard answered it last */
    int64_t asked_ns; /* when a question of it was passed on that has no answer yet; 0: none was */
    int64_t moved_ns; /* blocked: when its socket last took as much as is progress, */
    size_t moved;     /* and what it has taken since */
    int64_t since_ns;
    int64_t heard_ns; /* when it said something last */
    size_t sent;      /* of out */
    size_t discarded; /* shut: bytes that came all the same */
    char *kept;
    size_t kept_len;
    size_t kept_capacity;
};

/* How many connections an address has. */
struct connection_address {
    struct in6_addr address;
    uint32_t count; /* 0: the place is free */
};

/* Free blocks of one length. */
struct connection_blocks {
    uint32_t count;
    char *free[CONNECTIONS_BLOCKS];
};

/* A list of connections by `next`. */
struct connection_list {
    uint32_t first;
    uint32_t last;
};

struct connections {
    struct connections_options options;
    struct gateway_stats *stats;
    struct busy_poll busy_poll;
    int epoll;
    struct connection *places; /* [options.max] */
    unsigned char *peers;      /* [options.max], `peer_stride` bytes each */
    size_t peer_stride;
    struct connection_address *addresses; /* [address_mask + 1] */
    uint32_t address_mask;
    uint32_t address_max; /* connections of one address */
    uint32_t used_max;    /* places that were ever used */
    uint32_t first_free;
    struct connection_order used; /* the oldest was quiet for longest */
    struct connection_order waits[CONNECTION_WAITS];
    struct connection_order stuck; /* those that are blocked */
    uint32_t quiet_at;             /* where the last look for a quiet one of an address ended */
    uint64_t owed_at;              /* number of the last look for what the shard owes */
    uint32_t owed_count;           /* connections, by it */
    bool owed_known;               /* nothing was taken since */
    struct connection_list dirty;
    struct connection_list deferred;
    uint64_t ids;
    int64_t now_ns;
    int64_t until_ns; /* of the turn */
    uint64_t turns;
    int64_t looked_ns;
    int64_t accept_ns; /* the listeners rest until then; 0: they do not */
    int64_t leave_ns;  /* when it began to leave; 0: it does not */
    int64_t busy_ns;   /* leaving: when there was something to do last */
    int64_t logged_ns;
    int64_t complained_ns; /* of a PROXY header */
    bool full;             /* nothing more is taken in this turn */
    size_t kept_total;
    size_t unsent_total; /* capacity of all `out` */
    int event_at;        /* CONNECTIONS-3: of the next event to be taken */
    int event_count;
    struct epoll_event events[CONNECTIONS_EVENTS_MAX];
    struct connection_blocks blocks[CONNECTIONS_BLOCK_SIZES];
    char input[CONNECTIONS_COPY_MAX + CONNECTIONS_READ_MAX];
};

/* ---- connection_places.c --------------------------------------------------------------------- */

MUST_USE int connection_places_new(struct connections *connections);
void connection_places_free(struct connections *connections);
struct gateway_peer *connection_peer(const struct connections *connections,
                                     const struct connection *connection);
/* Names a connection of one moment: its place, and how often that was used (PLACES-2). */
uint64_t connection_token(const struct connections *connections,
                          const struct connection *connection);
/* The connection of a token, or NULL: it is gone. */
struct connection *connection_of(struct connections *connections, uint64_t token);
/* A free place, or NULL. */
struct connection *connection_take_place(struct connections *connections);
/* Makes a connection of a free place. */
void connection_open(struct connections *connections, struct connection *connection, int fd,
                     const struct in6_addr *address);
/* Closes the socket and frees the place. The connection is in no list, and holds nothing. */
void connection_free_place(struct connections *connections, struct connection *connection);
/* To be closed when it is taken out of `dirty`. */
void connection_break(struct connections *connections, struct connection *connection);
void connection_mark_dirty(struct connections *connections, struct connection *connection);
/* It goes on in the next turn. */
void connection_defer(struct connections *connections, struct connection *connection);
struct connection *connection_take_dirty(struct connections *connections);
/* Those that were deferred may go on. */
void connection_resume(struct connections *connections);
void connection_set_muted(struct connections *connections, struct connection *connection,
                          bool muted);
void connection_set_blocked(struct connections *connections, struct connection *connection,
                            bool blocked);
/* Its socket has taken as much as is progress. */
void connection_moved(struct connections *connections, struct connection *connection);
/* It waits for that from now on, unless it did before. */
void connection_set_wait(struct connections *connections, struct connection *connection,
                         enum connection_wait wait);
/* It is of another address than was thought. */
void connection_readdress(struct connections *connections, struct connection *connection,
                          const struct in6_addr *address);
/* It has said something: others have been quiet for longer. */
void connection_heard(struct connections *connections, struct connection *connection);
/* The next one in that order, or NULL: that which came into it later. */
struct connection *connection_newer(const struct connections *connections,
                                    const struct connection *connection, enum connection_by by);
struct connection *connection_oldest(const struct connections *connections,
                                     const struct connection_order *order);
/* Has the shard say what it owes. */
void connection_look_owed(struct connections *connections);
/* Whether the shard has something of the connection that it will answer: by the last look, or by a
 * new one where something was taken or answered since. */
bool connection_owed(struct connections *connections, const struct connection *connection);
/* How many connections there are of that address. */
uint32_t connection_count_of(const struct connections *connections, const struct in6_addr *address);

/* ---- connection_bytes.c ---------------------------------------------------------------------- */

/* Gives the peer room for replies. False: there is no memory. */
MUST_USE bool connection_ensure_out(struct connections *connections, struct connection *connection);
/* Gives it room for `more` bytes, sending what is there if that helps. False: no room is left, or
 * the connection is broken. */
MUST_USE bool connection_room(struct connections *connections, struct connection *connection,
                              size_t more);
/* Sends what there is. Afterwards it is all sent, or the connection is blocked, or broken. */
void connection_flush(struct connections *connections, struct connection *connection);
void connection_drop_out(struct connections *connections, struct connection *connection);
/* Keeps what is left of `len` bytes at `data`, which is the input or what is kept, behind the first
 * `used`. False: there is no room. */
MUST_USE bool connection_keep(struct connections *connections, struct connection *connection,
                              const char *data, size_t len, size_t used);
void connection_drop_kept(struct connections *connections, struct connection *connection);
/* Where what comes next is to be read to, *len bytes at most: behind a copy of what is kept, which
 * begins the input, or behind what is kept, where that is much. NULL: no room. */
char *connection_input(struct connections *connections, struct connection *connection, size_t *len);
/* Gives back what the connection holds, and its place. It is in no list. */
void connection_close(struct connections *connections, struct connection *connection);
void connection_bytes_free(struct connections *connections);

/* ---- connection_end.c ------------------------------------------------------------------------ */

/* One end of a connection. */
struct connection_end {
    struct in6_addr ip; /* one of IPv4 is mapped */
    uint16_t port;
    bool local; /* a socket of the file system: there is no address */
};

/* "192.0.2.1:5000", "[2001:db8::1]:443", NETWORKS_UNIX. */
void connection_end_text(const struct connection_end *end, char out[GATEWAY_ADDRESS_LEN]);
/* The address by which connections are counted. */
struct in6_addr connection_end_counted(const struct connection_end *end);
bool connection_proxy_trusted(const struct connections *connections,
                              const struct connection_end *end);
/* Whether the connection has to say first for whom it is, and has not. */
bool connection_proxy_waits(const struct connections *connections,
                            const struct connection *connection);
/* ---- acceptor.c ------------------------------------------------------------------------------ */

void acceptor_open(struct connections *connections);
/* Accepts who waits at the listener of that number. */
void acceptor_accept(struct connections *connections, uint32_t number);
/* Whether a token of an event names a listener, and which. */
bool acceptor_is_listener(uint64_t token, uint32_t *number);
/* The listeners have rested, if they do, for long enough (ACCEPTOR-1). */
void acceptor_look(struct connections *connections);
/* Takes in all who wait, then closes the listeners. */
void acceptor_leave(struct connections *connections);
void acceptor_close(struct connections *connections);
/* Whether one more of that address has room: if not, who was quiet for longest ends for it. */
bool acceptor_has_room_of(struct connections *connections, const struct in6_addr *address);

/* ---- connection_proxy.c ---------------------------------------------------------------------- */

/* Takes what a proxy says first, and whatever else a fresh connection begins with. False: nothing
 * may be taken yet, or, where the peer is closing, at all. *used: bytes of a header. */
bool connection_proxy_take(struct connections *connections, struct connection *connection,
                           const char *data, size_t len, size_t *used);

#endif
