/* peers.h - other shards: whom this shard knows, whether they live, and what is sent to them.
 *
 * peers.c tells how silence is judged and how leases hold (PEERS-1 to PEERS-12). All functions are
 * the shard thread's.
 */
#ifndef NODE_CLUSTER_PEER_PEERS_H
#define NODE_CLUSTER_PEER_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/model/effects.h"
#include "node/cluster/peer/channel.h"
#include "node/cluster/peer/skew.h"
#include "node/cluster/wire/peer_wire.h"

struct shard;

enum { PEER_NONE = UINT16_MAX };

/* One walk over the table that sends complete copies of some vnodes to a peer; handoff.c. */
struct pass {
    bool running;
    bool urgent;     /* somebody waits for one of them to decide: no rate holds it up */
    uint32_t at;     /* the next slot; what is added behind it is a change */
    uint32_t vnodes; /* that it copies */
    uint32_t slots;  /* of these, when it was gathered */
    uint8_t *links;  /* [vnodes]: link + 1 of those that it copies, 0 for others */
};

struct peer {
    uint64_t node;
    uint64_t boot; /* 0: never heard */
    uint16_t shard;
    bool in_view;
    bool closed;         /* its connection ended and nothing was heard since */
    bool refused;        /* and its host takes no new one */
    bool cannot_hear_us; /* it is heard, but does not hear this node (PEERS-6) */
    bool hears_us;       /* it has heard this process */
    bool silent;         /* as judged at the last look */
    bool resigning;      /* it said that it stops soon */
    bool reserves;       /* it reads RESERVED */
    bool leases;         /* it reads leases of tokens (LESSOR-4) */
    bool changes;        /* it reads CHANGE, as its present process has said */
    bool versions;       /* and the version of the rules in a FORWARD */
    uint8_t reads;       /* enum peer_reads, as its newest frame said */
    bool announce_due;   /* it asked which vnodes are decided here */
    uint64_t opened;     /* terms it has opened, as it said last */
    uint64_t known;      /* of those: all up to this one are known here */
    uint32_t told;       /* OPENED records of its announcement so far */
    uint64_t forwarded;  /* parts sent to it to be decided, since it was met */
    int64_t since_ns;
    int64_t heard_ns;
    int64_t heard_behind_ns; /* behind_ns of the shard then (PEERS-12) */
    int64_t late_until_ns;   /* until then it counts as one that comes late (PEERS-11) */
    int64_t ping_ns;         /* the newest sent_ns it told, to be echoed */
    int64_t echo_ns;         /* the newest of our own sent_ns that it echoed (PEERS-4) */
    int64_t echo_seen_ns;    /* the newest that it echoed at all */
    int64_t met_ns;          /* when its process was first heard */
    int64_t age_ns;          /* of echoes when they come: the longest lately */
    int64_t way_ns;          /* the patience that the length of the way alone asks for (PEERS-8) */
    int64_t told_ns;         /* the patience that it was told last (PEERS-8) */
    int64_t kept_ns;         /* a longer one that it was told before, kept until kept_until_ns */
    int64_t kept_until_ns;
    int64_t promised_ns; /* the patience that it told */
    struct peer_clock clock;
    struct channel channels[CHANNELS];
    struct pass pass;
};

/* What the rooms above do when something becomes of a peer. Called at once, in the order of events.
 * The one table there is lies in shard.c. */
struct peer_listener {
    void (*changed)(
        struct shard *shard); /* it is heard again, or has begun to resign, or has not */
    void (*silent)(struct shard *shard, uint16_t peer, struct effects *effects);
    /* It lacks a term that was opened here: it is told of all. How many there were. */
    uint32_t (*announce)(struct shard *shard, uint16_t peer, struct effects *effects);
};

/* When keep-alives are sent (peers.c). */
struct keepalive {
    const struct peer_listener *listener; /* of the rooms above */
    int64_t busy_ns; /* when a client's message or a peer's record came, but keep-alives */
    int64_t next_ping_ns;
    int64_t next_silence_ns; /* when a peer will be silent, or nearly, if it is not heard */
    bool uneasy;             /* a peer is nearly silent */
    bool idle;               /* as judged at the last tick */
};

/* The index of shard `shard` of `node`, or PEER_NONE. */
uint16_t peers_find(const struct shard *shard, uint64_t node, uint16_t peer_shard);
/* Makes the peers match the view: new ones are added, absent ones marked. */
void peers_follow_view(struct shard *shard);
void peers_fini(struct shard *shard);
/* The outbox of the peer's live channel, with room for `len` more bytes. */
struct bytes_writer *peers_outbox(struct shard *shard, uint16_t peer, size_t len,
                                  struct effects *effects);
/* Sends what either outbox holds. */
void peers_flush(struct shard *shard, uint16_t peer, struct effects *effects);
/* Keep-alives, and silence looked at; calls vnodes_peer_silent for peers that fell silent. */
/* How long after a keep-alive the next one is due. */
int64_t peers_interval_ns(const struct shard *shard);
void peers_tick(struct shard *shard, struct effects *effects);
void peers_closed(struct shard *shard, uint16_t peer, bool refused, struct effects *effects);
/* How long the peer may be unheard before it counts as silent (PEERS-8). */
int64_t peers_failure_timeout_ns(const struct shard *shard, uint16_t peer);
/* How much longer than usual an answer of the peer may take because the way is long (PEERS-8). */
int64_t peers_detour_ns(const struct shard *shard, uint16_t peer);
/* Whether what is sent to the peer waits long until it is taken, or its answers here (PEERS-10). */
bool peers_lag(const struct shard *shard, uint16_t peer);
/* Whether nothing but keep-alives may be listened to (PEERS-6). */
bool peers_cannot_hear_us(const struct shard *shard, uint16_t peer);
void peers_ping(struct shard *shard, uint16_t peer, const struct peer_ping *ping);
/* An OPENED came from the peer: `ordinal` of an opening, 0 for a part of an announcement. */
void peers_opened(struct shard *shard, uint16_t peer, uint32_t ordinal);
/* Whether `boot` is a process of the peer that a newer one has replaced (PEERS-9). */
bool peers_former(const struct shard *shard, uint16_t peer, uint64_t boot);
/* Whether `boot` may be a process of the peer, as far as its connection and gossip tell
 * (PEERS-9). */
bool peers_credible(const struct shard *shard, uint16_t peer, uint64_t boot);
/* Notes that a frame of `boot` came from the peer. True if the peer is a new process. */
bool peers_heard(struct shard *shard, uint16_t peer, uint64_t boot);
/* Whether the peer was gone when it was last looked at: unlike peers_silent this changes only at
 * events, and each change marks active the vnodes that it concerns. */
bool peers_gone(const struct shard *shard, uint16_t peer);
/* Whether there is no evidence that the peer lives. */
bool peers_silent(const struct shard *shard, uint16_t peer);
bool peers_silent_node(const struct shard *shard, uint64_t node, uint32_t vnode);
/* The peer that is responsible for `vnode` on `node`, PEER_NONE for this shard or an unknown. */
uint16_t peers_for(const struct shard *shard, uint64_t node, uint32_t vnode);
/* Whether the peer, if it lives, has recently shown that it has not deposed this shard
 * (PEERS-3). */
bool peers_lease_holds(const struct shard *shard, uint16_t peer);
void peers_put_vnode(struct shard *shard, uint16_t peer, enum peer_record_type type,
                     const struct peer_vnode *entry, struct effects *effects);
/* Asserts what peers_check.c says of all peers. */
void peers_check_invariants(const struct shard *shard);

#endif
