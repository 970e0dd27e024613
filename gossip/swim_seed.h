/* swim_seed.h - addresses that are tried for ever. Internal to gossip/. */
#ifndef GOSSIP_SWIM_SEED_H
#define GOSSIP_SWIM_SEED_H

#include <stdbool.h>
#include <stdint.h>

struct swim;
struct swim_message;
struct swim_seed;

/* See swim_add_seed. */
int swim_seed_add(struct swim *swim, const char *address);
/* Keeps the address of a member that is being forgotten among the seeds. */
void swim_seed_remember(struct swim *swim, const char *address);
/* Notes that `id` answered the exchange `seq`. */
void swim_seed_answered(struct swim *swim, uint64_t seq, uint64_t id);
/* Whether a seed needs no attention: it is this node, or a living member answers there. */
bool swim_seed_settled(const struct swim *swim, const struct swim_seed *seed);
/* The seed that this answers for, and when it was asked; NULL: nobody asked for it (SEED-2). */
const struct swim_seed *swim_seed_welcomed(struct swim *swim, const struct swim_message *message,
                                           int64_t *asked_ns);

#endif
