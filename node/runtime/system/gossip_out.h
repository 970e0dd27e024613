/* gossip_out.h - DEALERs to gossip addresses, made when needed and closed when idle.
 *
 * One thread: the control loop's.
 */
#ifndef NODE_RUNTIME_SYSTEM_GOSSIP_OUT_H
#define NODE_RUNTIME_SYSTEM_GOSSIP_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { GOSSIP_OUT_MAX = 256, GOSSIP_ADDRESS_LEN = 64 };

struct gossip_out {
    void *context;
    uint32_t count;
    struct gossip_line {
        char address[GOSSIP_ADDRESS_LEN];
        void *dealer;
        int64_t used_ns;
    } lines[GOSSIP_OUT_MAX];
};

void gossip_out_init(struct gossip_out *out, void *context);
void gossip_out_fini(struct gossip_out *out);
/* Sends without waiting; gossip repairs what is lost. */
void gossip_out_send(struct gossip_out *out, int64_t now_ns, const char *address, const void *data,
                     size_t len);
/* Closes what was not used for a minute. */
void gossip_out_tidy(struct gossip_out *out, int64_t now_ns);

#endif
