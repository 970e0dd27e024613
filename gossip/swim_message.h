/* swim_message.h - the frame of a gossip message, in and out. Internal to gossip/. */
#ifndef GOSSIP_SWIM_MESSAGE_H
#define GOSSIP_SWIM_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mp.h"
#include "gossip/swim_internal.h"

enum swim_kind {
    SWIM_PING = 1,
    SWIM_ACK = 2,
    SWIM_PING_REQ = 3,
    SWIM_NACK = 4,
    SWIM_GOSSIP = 5,
    SWIM_SYNC = 6,
    SWIM_DIGEST = 7,
    SWIM_WANT = 8,
    SWIM_RECORDS = 9,
    SWIM_HELLO = 10,
    SWIM_WELCOME = 11
};

/* A decoded frame; its pointers and cursors live as long as the input and swim.frame.tokens. */
struct swim_message {
    uint8_t cluster_id[SWIM_CLUSTER_ID_LEN];
    uint64_t kind;
    uint64_t seq;
    uint64_t sender;
    uint64_t incarnation;
    uint64_t target; /* 0 = whoever lives at the address */
    int64_t time_ns; /* its cluster time; of one that has none, its wall clock */
    int64_t wall_ns; /* its wall clock minus that */
    bool timeless;   /* it has no cluster time yet */
    char address[SWIM_ADDRESS_LEN];
    /* body, by kind */
    uint64_t number;                /* subject (ack, ping-req), salt (sync), mask (digest) */
    char subject[SWIM_ADDRESS_LEN]; /* ping-req: where to ping */
    const uint8_t *bytes;           /* sync: summary, digest: entries, want: ids */
    size_t bytes_len;
    struct swim_record record; /* hello, welcome */
    struct mp_cursor items;    /* stands on the first item */
    uint32_t items_count;
    const uint8_t *ages; /* of regions; NULL or empty if the sender knows of one region only */
    size_t ages_len;
};

/* Draws the key of the numbers of questions. */
void swim_seq_init(struct swim *swim, uint64_t seed);
/* The number of a question, never 0, that tells nobody the next one's. */
uint64_t swim_seq(struct swim *swim);

/* Whether the longest message still fits the effects. */
bool swim_room(const struct swim *swim);
/* Starts a message in the effects; false (nothing changed) when they are full. The body follows,
 * then swim_rumours_put or an empty array, then swim_message_end. */
bool swim_message_begin(struct swim *swim, struct mp_writer *writer, enum swim_kind kind,
                        uint64_t seq, uint64_t target);
void swim_message_end(struct swim *swim, struct mp_writer *writer, const char *address);
/* Greets whoever is at the address; false if there is no room. */
bool swim_hello(struct swim *swim, const char *address, uint64_t seq);

/* Takes the bytes apart: 0, TG_EPROTOCOL, TG_ETOOBIG or TG_EVERSION. */
int swim_message_parse(struct swim *swim, const void *bytes, size_t len,
                       struct swim_message *message);

#endif
