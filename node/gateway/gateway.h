/* gateway.h - what a loop of connections asks of a protocol.
 *
 *   bytes of a peer --take--> requests --batches.h--> frame for the shard, of many peers' checks
 *                                |                          |
 *                        reply at once (PING ...)           | at once, or later
 *                                v                          v
 *   bytes for a peer <---------- out <----- put, batches.h -+
 *
 * The loop (node/runtime/shard/connections.h) owns sockets and memory, and knows no protocol. A
 * codec knows no socket. A peer is the other end of a connection as far as its protocol is
 * concerned; a token names one, and outlives it.
 *
 * Pure. One thread uses a codec and its peers: that of the connections.
 */
#ifndef NODE_GATEWAY_GATEWAY_H
#define NODE_GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GATEWAY_ADDRESS_LEN = 64, /* of a peer as text, with its NUL; a longer one is cut */
    /* The room that `out` has when something is taken from a peer: bytes of the largest reply that
     * is given at once, and more. */
    GATEWAY_OUT_LEN = 16 << 10,
    GATEWAY_PUT_HEAD = 16 /* what a protocol may put before a message */
};

/* Bytes on their way to a peer. Errors are sticky: what does not fit sets `failed`, and nothing
 * more is written. */
struct gateway_out {
    char *data;
    size_t capacity;
    size_t len;
    uint8_t protocol; /* the version that the peer speaks, as its codec counts */
    bool failed;
};

/* A connection, as far as its protocol is concerned. A codec's own struct begins with it. */
struct gateway_peer {
    uint64_t id;            /* of its process's connections, from 1 on */
    struct gateway_out out; /* where replies to it go */
    uint32_t waiting;       /* requests that were taken and are owed an answer */
    uint32_t reserved;      /* bytes of `out` that their answers may take */
    uint64_t batch;         /* the batch that they are in, or the last one is (batches.h) */
    uint64_t held;          /* the answer that left one of them pending: those behind it wait */
    size_t need;            /* bytes that a request must have before it is worth a look; 0: any */
    size_t room;    /* bytes of `out`, beside what is reserved, that GATEWAY_NEED_ROOM needs */
    bool by_stream; /* answers name their requests, and come in any order */
    bool cramped;   /* so many are not to be had: the request has to be refused */
    bool begun;     /* it has said all that a connection begins with */
    bool early;     /* what it has said of a request is to be more as soon as its beginning */
    bool open;      /* requests hang together that have to be ended: a transaction */
    bool ends_late; /* its end is not told at once: its library would drop what it has unread */
    bool aside;     /* it came by a listener that is not for all that its protocol offers */
    bool trusted;   /* who is at `address` is a proxy whose word on its own clients is taken */
    bool told;      /* it is told what happens when it happens: to be quiet is its way */
    bool closing;   /* nothing is taken any more: it goes when all is answered and sent */
    char address[GATEWAY_ADDRESS_LEN]; /* the other end's */
    char local[GATEWAY_ADDRESS_LEN];   /* where it has reached this node */
};

/* What has been counted since the start, but for `connections`. */
struct gateway_stats {
    uint64_t connections; /* open now */
    uint64_t accepted;
    uint64_t proxied;         /* of these: a trusted proxy told for whom */
    uint64_t refused;         /* closed at once: there were too many */
    uint64_t accept_failures; /* the machine gave no descriptor */
    uint64_t evicted;         /* idle connections closed for a newcomer */
    uint64_t commands;        /* requests of any kind */
    uint64_t checks;          /* of these: for the shard */
    uint64_t batches;         /* in which they came to it */
    uint64_t busy;            /* of these: answered BUSY */
    uint64_t protocol_errors; /* connections closed for what they sent */
    uint64_t slow_readers;    /* connections closed for not reading */
    uint64_t unfinished;      /* connections closed for what they began and did not end */
    uint64_t idle;            /* connections closed for having been quiet for too long */
    uint64_t crowded;         /* connections closed for want of room for what they had sent */
    uint64_t dropped;         /* answers dropped for want of room: their reader does not read */
    uint64_t late;            /* batches given up: no answer came */
    uint64_t polls; /* looks for clients that were about to ask (node/runtime/system/busy_poll.h) */
};

/* Why no more was taken. */
enum gateway_stop {
    GATEWAY_NEED_BYTES,  /* the last request is not complete */
    GATEWAY_NEED_SUBMIT, /* the open batch is full: submit it, then go on */
    GATEWAY_NEED_ANSWER, /* what follows waits for answers to requests of this peer: go on then */
    GATEWAY_NEED_ROOM,   /* `out` is full: send it, then go on */
    GATEWAY_NEED_TURN,   /* this turn has taken enough: go on in the next one */
    GATEWAY_NEED_TIME,   /* go on when the codec has had the peer found */
    GATEWAY_AT_END,      /* the peer is closing */
};

/* Finds the peer of a token; NULL if it is gone. */
struct gateway_finder {
    struct gateway_peer *(*find)(void *context, uint64_t token);
    void *context;
};

/* A protocol. `gate` is the codec's own state for all peers of a loop. */
struct gateway_codec {
    const char *name;    /* in the log */
    const char *refusal; /* what is sent to one too many; may be empty */
    size_t peer_len;     /* of its struct of a peer */
    size_t pending_max;  /* bytes of a request that is not complete, at most */
    size_t read_len;     /* bytes that are read of a peer at once */
    size_t socket_len;   /* bytes of each of its socket's buffers; the kernel doubles it */
    /* The peer has connected: all zero but for id, addresses and `out`, which has GATEWAY_OUT_LEN.
     * A proxy may tell other addresses before the first bytes are taken. */
    void (*open)(void *gate, struct gateway_peer *peer);
    /* Takes requests from the peer's bytes; *used tells how many. `token` names the peer later. */
    enum gateway_stop (*take)(void *gate, struct gateway_peer *peer, uint64_t token,
                              const char *data, size_t len, size_t *used);
    /* The connection has ended: what the peer holds is given back. NULL: it holds nothing. */
    void (*close)(void *gate, struct gateway_peer *peer);
    /* A turn begins or goes on: the time. */
    void (*now)(void *gate, int64_t now_ns);
    /* A message of the shard's for one peer, whose `out` has GATEWAY_PUT_HEAD bytes more room than
     * it is long. NULL: the shard knows no peer of this protocol. */
    void (*put)(void *gate, struct gateway_peer *peer, const void *data, size_t len);
    /* Of a peer whose answers come by stream: writes what it is still to be sent into `out`. True:
     * there is more than that has room for. `last`: nothing more will be read of it. */
    bool (*pump)(void *gate, struct gateway_peer *peer, bool last);
    /* Now and then: has those peers found that are to be gone on with. NULL: none ever are. */
    void (*wake)(void *gate, const struct gateway_finder *finder);
    /* The peer took too long with a request: what it is told before it is closed. NULL: nothing. */
    void (*late)(void *gate, struct gateway_peer *peer);
};

#endif
