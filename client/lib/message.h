/* message.h - one message of checks, or one command, until it is answered or too late. */
#ifndef CLIENT_LIB_MESSAGE_H
#define CLIENT_LIB_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/items.h"

struct client_call;

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

#endif
