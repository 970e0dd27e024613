/* skew.h - what a shard sees of clocks: those of its peers in their keep-alives, and jumps
 * of its own.
 *
 * SKEW-1  A keep-alive bounds its sender's cluster time: it was written after ours that it echoes,
 *         and before it came. The narrowest bounds since the last look go to control, which judges.
 * SKEW-2  A peer whose clock has no say (cluster_time.h) is not heard: of its frames nothing is
 *         taken but what its keep-alives say of its clock. So its leases end before it is found
 *         silent, as those of one that was cut off do (PEERS-3). It is told that it was read, in a
 *         field of the envelope that renews no lease: else it would measure nobody any more, and
 *         never learn whose clock is off.
 * SKEW-3  After a jump of its time by 2 s or more a shard is in doubt: it decides nothing, and
 *         takes nothing over, until a peer's keep-alive, of after that, shows that both agree
 *         within 2 s. A pause ends so with the first one. Is the jump that of a clock alone,
 *         control finds so before a second has passed, or there is no majority to say which clock
 *         is right, and nobody stops. Of whom nobody is heard, nobody is in its way.
 * SKEW-4  Meanwhile nothing expires in its memory, nothing is taken of what others count, and
 *         nothing is written: what came by a wrong time would be missing where it claims to hold
 *         it.
 */
#ifndef NODE_CLUSTER_PEER_SKEW_H
#define NODE_CLUSTER_PEER_SKEW_H

#include <stdbool.h>
#include <stdint.h>

struct shard;
struct peer_envelope;
struct peer_ping;

/* Of a peer. */
struct peer_clock {
    int64_t low_ns; /* bounds of its cluster time minus ours */
    int64_t high_ns;
    int64_t wall_ns;  /* its wall clock minus its cluster time */
    uint32_t told;    /* how often, since the last look */
    uint64_t process; /* of which that is */
    uint64_t off;     /* the process whose clock has no say (SKEW-2), 0: none */
    int64_t ping_ns;  /* the newest time that it has told meanwhile, 0: none */
    int64_t seen_ns;  /* the newest of ours that it has read, not listening to us, 0: it listens */
};

/* Of the shard. */
struct skew_watch {
    int64_t wall_ns;  /* this node's wall clock minus its cluster time */
    int64_t doubt_ns; /* since when it is in doubt (SKEW-3); 0: it is not */
    uint16_t next;    /* the peer that is looked at next */
    bool refused;     /* its own clock has no say */
};

/* Notes what a frame says of the sender's clock. True if nothing else of it is to be taken. */
bool skew_frame(struct shard *shard, uint16_t at, const struct peer_envelope *envelope);
void skew_ping(struct shard *shard, uint16_t at, const struct peer_ping *ping);
/* What a frame to the peer tells it of its own time, 0: nothing. */
int64_t skew_seen_ns(const struct shard *shard, uint16_t at);
/* The shard's time went on by `gap_ns` at once. */
void skew_gap(struct shard *shard, int64_t gap_ns);
void skew_tick(struct shard *shard);
void skew_view(struct shard *shard);
/* Whether this shard may decide and take over, as far as its own clock goes. */
bool skew_stands(const struct shard *shard);

#endif
