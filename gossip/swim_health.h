/* swim_health.h - how well this node hears others. Internal to gossip/. */
#ifndef GOSSIP_SWIM_HEALTH_H
#define GOSSIP_SWIM_HEALTH_H

#include <stdint.h>

struct swim;
struct swim_message;

/* Worse (above 0) or better; it stays within 0 .. health_max. */
void swim_health_add(struct swim *swim, int delta);
/* Takes round trip and skew from the answer to what was sent to the member at `sent_ns`. */
void swim_measure(struct swim *swim, uint32_t slot, int64_t sent_ns,
                  const struct swim_message *message);

#endif
