/* swim_table.h - the members, and the rules that decide between two claims. Internal to gossip/. */
#ifndef GOSSIP_SWIM_TABLE_H
#define GOSSIP_SWIM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct swim;
struct swim_item;
struct swim_message;
struct swim_record;

/* Applies one item by the rules of precedence; from_sync: heard by push/pull from `sender`. NULL,
 * or where the owner is to be asked, for the claim is too much to believe. */
const char *swim_apply(struct swim *swim, const struct swim_item *item, bool from_sync,
                       uint64_t sender);
/* What the member itself has just said, asked by this node: that counts, whatever was known. */
void swim_owner_said(struct swim *swim, uint32_t slot, const struct swim_record *record);
/* This node's own accusation after a failed probe. */
void swim_accuse(struct swim *swim, uint32_t slot);
/* The sender's slot if we hold it suspect or dead, so that a reply can say so; else none. */
uint32_t swim_accused_sender(const struct swim *swim, const struct swim_message *message);
/* See swim_dismiss. */
void swim_table_dismiss(struct swim *swim, uint64_t id);
/* Declares dead whose suspicion has run out, forgets expired tombstones. */
void swim_table_tick(struct swim *swim);
int64_t swim_table_deadline(const struct swim *swim);
void swim_events_flush(struct swim *swim);
int64_t swim_suspicion_min_ns(const struct swim *swim);
int64_t swim_suspicion_ns(const struct swim *swim, uint32_t accusers, uint32_t patience);
/* Up to `wanted` (<= SWIM_HELPERS_MAX) random living members of `region` but this node and
 * `except`. */
uint32_t swim_pick(struct swim *swim, uint32_t region, uint32_t wanted, uint32_t except,
                   uint32_t *picked);

#endif
