/* client_figures.h - what clients of each protocol did, of all shards, for the node's report. */
#ifndef NODE_RUNTIME_CONTROL_CLIENT_FIGURES_H
#define NODE_RUNTIME_CONTROL_CLIENT_FIGURES_H

#include <stdint.h>

#include "node/cluster/control/control.h"
#include "node/gateway/grpc/grpc_gate.h"
#include "node/runtime/shard/shard_loop.h"

enum { CLIENT_FIGURES = 17, HTTP_FIGURES = 36 };

struct client_figures {
    struct control_figure native[CLIENT_FIGURES];
    struct control_figure redis[CLIENT_FIGURES];
    struct control_figure http[CLIENT_FIGURES + HTTP_FIGURES];
    uint32_t call_count;
    struct control_call calls[(GRPC_METHODS_MAX + 1) * GRPC_STATUSES];
    uint64_t not_accepted; /* connections that the system did not give, of all protocols */
};

/* Sums what the running shards tell. */
void client_figures_collect(struct shard_loop *const *shards, uint32_t count,
                            struct client_figures *out);
/* Has the report point to them: they live as long. */
void client_figures_report(const struct client_figures *figures, struct control_report *report);

#endif
