/* swim_sync.h - push/pull: what two nodes know differently. Internal to gossip/. */
#ifndef GOSSIP_SWIM_SYNC_H
#define GOSSIP_SWIM_SYNC_H

#include <stdbool.h>
#include <stdint.h>

struct swim;
struct swim_message;

void swim_sync_tick(struct swim *swim);
void swim_sync_receive(struct swim *swim, const struct swim_message *message);
int64_t swim_sync_deadline(const struct swim *swim);
/* Sends what pages fit the effects; whether any are left. */
void swim_jobs_run(struct swim *swim);
bool swim_jobs_waiting(const struct swim *swim);

#endif
