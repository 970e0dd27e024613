/* daemon.h - the whole node: start in order, run, stop in order.
 *
 *   config -> log, clock -> store, identity, incarnation -> sockets -> control loop
 *          -> (a cluster is known) -> shards restored, disk and shard threads -> ready
 *
 * Stop (SIGTERM, SIGINT): deciding passes to replicas, everything is written, threads end, the
 * store closes. Membership stays: it is a restart, not a farewell.
 */
#ifndef NODE_RUNTIME_START_DAEMON_H
#define NODE_RUNTIME_START_DAEMON_H

#include "node/runtime/config/config.h"

/* --check-config: compiles the rules as well, says "configuration ok" or what is wrong; returns the
 * exit code. Touches nothing else. */
int daemon_check(const struct config *config);
/* Runs the node until it is told to stop; returns the exit code. */
int daemon_run(const struct config *config);

#endif
