/* swim_doubt.h - claims that are too much to believe: their owner is asked. Internal to gossip/. */
#ifndef GOSSIP_SWIM_DOUBT_H
#define GOSSIP_SWIM_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

struct swim;
struct swim_message;

/* Asks the member at the address what it says itself. */
void swim_doubt(struct swim *swim, uint64_t id, const char *address);
/* Takes a WELCOME that answers this; false: it answers something else. */
bool swim_doubt_answered(struct swim *swim, const struct swim_message *message);
/* Asks the sender of a message that is far below what is known of it. */
void swim_doubt_known(struct swim *swim, const struct swim_message *message);

#endif
