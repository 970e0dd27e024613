/* swim_record.h - the bytes of a member's record, and of an item that tells about a member.
 * Internal to gossip/. */
#ifndef GOSSIP_SWIM_RECORD_H
#define GOSSIP_SWIM_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "gossip/swim_internal.h"

struct mp_cursor;
struct mp_writer;

/* What a message says about one member: its state at an incarnation, and perhaps its record. */
struct swim_item {
    uint64_t id;
    uint64_t incarnation;
    int64_t age_ns; /* how long the sender has seen it in this state */
    uint64_t accusers[SWIM_ACCUSERS_MAX];
    uint32_t accusers_count;
    enum swim_state state;
    bool has_record;
    struct swim_record record;
};

/* 0, or TG_EINVALID. */
int swim_record_check(const struct swim_record *record);
void swim_record_put(struct mp_writer *writer, const struct swim_record *record);
/* Reads and checks one record; failure sets cursor->failed. */
void swim_record_get(struct mp_cursor *cursor, struct swim_record *record);
bool swim_address_ok(const char *address);
/* Whether record `a` is newer than `b` of the same node. */
bool swim_record_newer(const struct swim_record *a, const struct swim_record *b);
void swim_item_put(struct mp_writer *writer, const struct swim_slot *slot, bool with_record,
                   int64_t now_ns);
/* Reads and checks one item; failure sets cursor->failed. */
void swim_item_get(struct mp_cursor *cursor, struct swim_item *item);

#endif
