/* resp_topology.h - what clients of a Redis cluster, of sentinels and of replicas ask about where
 * they are: CLUSTER, SENTINEL, ROLE, READONLY, READWRITE, ASKING, WAIT, SUBSCRIBE.
 *
 * Any node answers for any key. So a node tells each client that it is the one node of a cluster
 * with all slots, or the master of every name, at the address where the client has reached it. A
 * client that loses it asks the next of the nodes that it was given.
 *
 * Pure. The thread of the connection.
 */
#ifndef NODE_GATEWAY_RESP_TOPOLOGY_H
#define NODE_GATEWAY_RESP_TOPOLOGY_H

#include "node/gateway/resp_command.h"
#include "node/gateway/resp_local.h"
#include "node/gateway/resp_parser.h"

enum { RESP_SLOTS = 16384 /* of a Redis cluster */ };

void resp_topology_cluster(const struct resp_facts *facts, struct resp_peer *peer,
                           const struct resp_request *request);
void resp_topology_sentinel(const struct resp_facts *facts, struct resp_peer *peer,
                            const struct resp_request *request);
void resp_topology_role(struct gateway_out *out);
/* SUBSCRIBE and its kin: nothing is ever published. */
void resp_topology_subscribe(struct resp_peer *peer, const struct resp_command *command,
                             const struct resp_request *request);
/* The slot of a key: CRC16 of what is in its first braces, or of all of it
 * (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). */
uint16_t resp_topology_slot(struct wire_text key);

#endif
