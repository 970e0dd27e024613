/* swim_probe.h - asking members whether they live. Internal to gossip/. */
#ifndef GOSSIP_SWIM_PROBE_H
#define GOSSIP_SWIM_PROBE_H

#include <stdint.h>

struct swim;
struct swim_message;

void swim_probe_tick(struct swim *swim);
int64_t swim_probe_deadline(const struct swim *swim);
void swim_probe_receive(struct swim *swim, const struct swim_message *message);
/* Moves all waits for answers by `by_ns`: this node, not the others, was late. */
void swim_probe_delay(struct swim *swim, int64_t by_ns);

#endif
