/* shard_stats.h - the counters of a shard, which `status` and the simulator read. */
#ifndef NODE_CLUSTER_SHARD_SHARD_STATS_H
#define NODE_CLUSTER_SHARD_SHARD_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "node/cluster/admission/pools.h"
#include "node/cluster/model/busiest.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/model/lag.h"
#include "node/cluster/model/term.h"
#include "node/cluster/model/view.h"
#include "node/policy/model/policy.h"

enum { SHARD_HOLDINGS_MAX = 32 /* regions; of more than these only the sum is told */ };

/* Of the rules with consistency quorum, and of the vnodes that are kept for them. */
struct shard_quorum_stats {
    uint64_t checks;      /* of shard_stats.checks: decided for such rules */
    uint64_t unavailable; /* refused because no majority could confirm them */
    uint64_t in_doubt;    /* decided, then given up by a change of the leader */
    uint64_t terms;       /* of shard_stats.terms_opened: in the plane of quorum */
    uint64_t uncommitted; /* decisions that wait for a majority, now */
    uint64_t lag_ns;      /* age of the oldest of them, 0 = none */
    uint32_t vnodes;      /* held here of the plane of quorum, 0 = it is not in use */
    uint32_t vnodes_leading;
    uint32_t vnodes_undecided; /* of which this node knows nobody who can decide */
};

/* Of complete copies of vnodes, to and from others. */
struct shard_handoff_stats {
    uint32_t give;    /* vnodes still to be copied or passed to others */
    uint32_t receive; /* vnodes still to be received */
    uint64_t sent;    /* bytes of complete copies, since the start */
    uint64_t received;
    uint64_t rate;   /* bytes a second now, both ways */
    int64_t left_ns; /* estimate until nothing is left; 0: nothing is, -1: not known */
};

/* Tokens of keys that another region counts. */
struct shard_holding {
    uint64_t region; /* by policy_region_id */
    uint64_t tokens;
    uint32_t keys;
};

struct shard_stats {
    int64_t taken_ns;                      /* when these figures were true */
    struct busiest busiest[BUSIEST_KINDS]; /* which rules answer most */

    /* ---- items, as they are decided */
    uint64_t checks; /* items decided here */
    uint64_t allowed;
    uint64_t denied;
    uint64_t borrowed; /* of `allowed`: above an elastic limit */
    uint64_t withheld; /* checks denied at home for what is set aside for other regions */

    /* ---- on their way, and refused */
    uint64_t forwarded;  /* parts sent to a peer */
    uint64_t resent;     /* sent again, or decided here after all: a new term may charge it twice */
    uint64_t moved;      /* forwards that came to the wrong node */
    uint64_t busy;       /* refused for want of room, those of `shed` included */
    uint64_t unfinished; /* messages whose rules took longer than a turn, each turn */
    uint64_t shed;       /* in messages that were refused unread: too much waited already */
    uint64_t expired;    /* not decided within the client's deadline */
    uint64_t no_address; /* values of addresses, `ip` as a rule, that were none: taken as absent */
    uint64_t fallbacks;  /* parts decided in place of others, who were silent */
    uint64_t explains_dropped; /* messages whose limits were not gathered for want of room */
    uint32_t checks_pending;
    uint64_t bad_frames;
    uint64_t clock_refused;  /* records of peers whose clock has no say */
    uint64_t forged_frames;  /* of a process that cannot be the peer's (PEERS-9), and records
                              * whose numbers cannot be what they say (credible.c) */
    uint64_t frames_dropped; /* did not fit in what one step may send */

    /* ---- asked again, and undone */
    uint64_t retries_recalled; /* answered from the retry memory */
    uint64_t retries_dropped;  /* of first answers for who asks again */
    uint64_t retry_lost;       /* of those that replicas are to know: FIRSTS-3 */
    uint64_t several;          /* requests whose rules were decided in several places */
    uint64_t undone;           /* reservations given back, as their leaders acknowledged */
    uint64_t undo_resent;      /* undos sent again, for no acknowledgement came */
    uint64_t undo_lost;        /* reservations that could not be given back in time */
    uint64_t undo_unknown;     /* here as the leader, each once: of nothing that is known. What they
                                * were for stays charged, if it was charged at all */
    uint64_t reserves_dropped; /* of what may have to be undone, for want of room (RETRY-1) */

    /* ---- who decides */
    uint64_t takeovers; /* terms opened after a leader's silence */
    uint64_t terms_opened;
    uint64_t stepped_down; /* gave way to a newer term */
    uint64_t stalls;       /* own pauses long enough to be deposed in */
    uint32_t vnodes_leading;
    uint32_t vnodes_replica;
    uint32_t vnodes_recovering;
    uint32_t vnodes_cut_off; /* decided here, and no other replica with a whole copy is in reach */
    uint32_t vnodes_unconfirmed; /* decided here, and no majority of replicas stands behind it */
    uint32_t vnodes_incomplete;  /* decided here, and some replica has no confirmed copy */
    uint32_t peers_left_out;     /* shards of members that this one has no room to know */

    /* ---- replication, and copies */
    uint64_t slots_replicated;
    uint64_t stale_writes; /* replication refused: old term */
    uint64_t resyncs;      /* replication streams started anew */
    uint64_t copies;       /* complete copies of vnodes begun */
    uint64_t slots_copied; /* slots sent in them, once each */
    struct shard_handoff_stats handoff;
    uint64_t unconfirmed; /* changes not yet acknowledged by any replica, now */
    uint64_t over_tokens; /* granted, and known to no other replica, now */
    struct lag lag;       /* from a grant to the first replica's acknowledgement */

    /* ---- after a split */
    uint64_t merges;          /* branches of a split that were merged here */
    uint64_t merged_slots;    /* slots that something was added to */
    uint64_t merge_fallbacks; /* of which the larger of both was taken, or less, for want of room */
    uint64_t handed_over;     /* vnodes of which a branch was handed over */
    uint64_t guarded;         /* slots remembered to be merged with, now */

    /* ---- memory and disk */
    uint64_t slots;
    uint64_t slots_max;
    uint64_t evicted;
    uint64_t forgotten;        /* slots that were given up while their limits lasted: unreadable */
    uint64_t refused;          /* changes, and states of copies, that found no room */
    int64_t turned_away_ns;    /* when one was last, 0: never */
    uint64_t turned_away;      /* of these: new keys that were over the budget of their rule */
    uint64_t uncounted;        /* tokens that on_failure allowed for want of room, not counted */
    uint64_t room;             /* free places for slots, and those of slots that may leave memory */
    uint64_t loads;            /* slots fetched from disk */
    uint64_t loads_missed;     /* of which the disk held nothing */
    uint64_t disk_copies;      /* vnodes of which keys on disk were sent to replicas */
    uint64_t unreadable;       /* damaged slots and listings that copies and merges passed over */
    uint64_t filter_refreshes; /* filters of what is on disk made anew */
    int64_t flush_lag_ns;      /* age of the oldest change that is not on disk, 0 = none */

    /* ---- consistency quorum */
    struct shard_quorum_stats quorum;
    uint64_t journal_batches;
    uint64_t journal_records;
    uint64_t journal_failures; /* batches that could not be written */

    /* ---- leases of tokens */
    uint64_t leases_granted; /* of tokens, told to who asked (of keys that majorities keep: not) */
    uint64_t leases_refused; /* not asked of the limit: for a while, or for want of room */
    uint64_t leases_tokens;  /* that were leased */
    uint64_t leases_back;    /* of them, given back by releases */
    uint64_t leases_untold;  /* granted, and not known to a majority in time: spent */

    /* ---- consistency any */
    uint64_t any_allowed; /* checks of consistency any, by tokens that were held here */
    uint64_t any_denied;  /* and by a denial that was known */
    uint64_t any_leases;  /* leases that their tokens came with */
    uint64_t any_tokens;  /* of these */
    uint64_t any_back;    /* of them went back, not used */

    /* ---- scope global */
    uint64_t global_allowed; /* checks of scope global, by tokens that this region held */
    uint64_t global_denied;  /* and by what it knew of the home */
    uint64_t global_late;    /* of these: no tokens came in time */
    uint64_t global_waited;  /* checks that waited for another region */
    uint64_t global_local;   /* decided by a share, as the home was out of reach */
    uint64_t global_leases;  /* leases that their tokens came with */
    uint64_t global_tokens;  /* of these */
    uint64_t global_back;    /* of them went back, not used */
    uint64_t remote_asked;   /* sent to other regions */
    uint64_t remote_served;  /* asked here by other regions */
    uint64_t global_held;    /* tokens of keys that other regions count, now */
    uint32_t holding_count;  /* regions whose keys' tokens are held here, now */
    struct shard_holding holding[SHARD_HOLDINGS_MAX];

    /* ---- pools */
    uint64_t pools_lent;            /* requests that pools lent to here */
    uint64_t pools_refused;         /* requests above an elastic limit that got nothing */
    uint64_t pools_no_room;         /* of these: for want of room to meter them */
    uint64_t pools_reports_dropped; /* reports that there was no room for: nothing was lent then */
    uint32_t pools_keys;            /* that asked for more than their limit lately */
    uint32_t pool_count;            /* of the rules in force */
    struct shard_pool pools[POLICY_POOLS_MAX]; /* how they are doing */
};

#endif
