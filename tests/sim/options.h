/* options.h - what a seed is made of: drawn from the seed, or given by hand.
 *
 * A seed draws everything: how many nodes, vnodes and clients there are, which phases follow one
 * another, how long it is. Each choice can be overridden by an option of the command line, without
 * changing the others; so a failure can be tried again with less, and written down as one line.
 *
 * SIMOPTIONS-1  The line that options_line prints leads to the same run.
 */
#ifndef TESTS_SIM_OPTIONS_H
#define TESTS_SIM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OPTIONS_PHASES_MAX = 16,
    OPTIONS_LINE_LEN = 512,
    OPTIONS_NODES_MIN = 5,
    OPTIONS_REGIONS_MIN = 2,
};

/* Kinds of fault; each can be left out with --no-NAME. */
enum fault {
    FAULT_LOSS,       /* single frames are lost */
    FAULT_REPEAT,     /* frames come twice */
    FAULT_LATE,       /* frames come much later than the next ones */
    FAULT_REORDER,    /* frames overtake others */
    FAULT_RESET,      /* a connection between two living nodes breaks */
    FAULT_CUT,        /* nothing passes between two sides */
    FAULT_ONE_WAY,    /* nothing passes from one side to the other */
    FAULT_SLOW,       /* a link takes 10 to 300 ms */
    FAULT_PAUSE,      /* a process stands still */
    FAULT_CRASH,      /* a process ends */
    FAULT_MID_STEP,   /* a process ends between two effects of one step */
    FAULT_CLOCK,      /* wall clocks are stepped */
    FAULT_DISK_ERROR, /* single commits and reads fail */
    FAULT_DISK_FULL,  /* nothing can be written for a while */
    FAULT_SNAPSHOT,   /* a node comes back with an old copy of its disk */
    FAULT_RING,       /* an operator drains a node, whatever else goes wrong */
    FAULT_END
};

struct options {
    uint64_t seed;
    int trace;      /* 0, or how much is told */
    uint32_t nodes; /* members when the cluster has formed */
    uint32_t spare; /* that may join later */
    uint32_t vnodes;
    uint32_t replicas;
    uint32_t shards; /* of a node, at most */
    uint32_t clients;
    uint32_t items;        /* of a client's message, at most */
    uint32_t keepalive_ms; /* of peers; silence is ten, a lease seven of them */
    uint32_t heartbeat_ms; /* after which a connection that hears nothing breaks */
    uint32_t crowd;        /* requests of phases apart and orphan */
    uint32_t regions;      /* in phases abroad and global */
    uint32_t events;       /* no further phase begins after so many */
    uint32_t until;        /* the run ends after so many, 0 = no; to look at a failure */
    bool formed;           /* begins with a cluster at rest instead of nodes that join */
    bool quorum;           /* clients use keys that majorities keep */
    bool far;              /* links are those of a wide area */
    bool lazy;             /* idle nodes send half as many keep-alives */
    bool slices;           /* a turn finds rules for a few items, and messages wait inside */
    bool narrow;           /* channels to peers hold few frames, and are full at times */
    bool piecemeal;        /* write-back takes many small batches to a round */
    bool bit_by_bit;       /* and many steps to a batch */
    uint32_t faults_off;   /* a bit for each kind */
    uint32_t phase_count;
    uint8_t phases[OPTIONS_PHASES_MAX]; /* between the first and the last */
    bool phases_given;                  /* all of them are gone through, however long it takes */
};

/* What was given by hand. */
struct overrides {
    bool nodes, spare, vnodes, replicas, shards, clients, items, keepalive, heartbeat, crowd,
        regions, events;
    bool formed, far, quorum, phases;
    struct options values;
};

const char *fault_name(enum fault fault);
/* Whether faults of that kind may happen. */
bool options_fault(const struct options *options, enum fault fault);

/* Draws the options of `seed`, then lets what was given by hand win. */
void options_draw(uint64_t seed, const struct overrides *given, struct options *out);
/* Takes one option and perhaps its value. Returns how many words it took, 0 if it is not one of
 * these, -1 if its value is wrong. */
int options_parse(struct overrides *given, const char *word, const char *value);
/* The words that lead to the same run again: "--seed 7 --nodes 5 ...". */
void options_line(const struct overrides *given, uint64_t seed, char out[OPTIONS_LINE_LEN]);

#endif
