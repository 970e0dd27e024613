/* grpc_gubernator_wire.h - the items of a GetRateLimitsReq from its bytes, and a RateLimitResp to
 * its bytes (proto/gubernator.proto). They are read and written one by one: a message has up to
 * 1,000, and texts of theirs may have a NUL, at which those end that protobuf-c decodes.
 *
 * Pure.
 */
#ifndef NODE_GATEWAY_GRPC_GRPC_GUBERNATOR_WIRE_H
#define NODE_GATEWAY_GRPC_GRPC_GUBERNATOR_WIRE_H

#include "node/gateway/grpc/grpc_wire.h"
#include "node/gateway/gubernator/gubernator.h"

/* Takes the next item off the request; its texts are borrowed from there. 1; 0: there is none; less
 * than 0: what follows is no such message. */
int grpc_gubernator_read(struct grpc_piece *request, struct gubernator_item *out);

enum { GUBERNATOR_RESPONSE_MAX = 480 };
/* Writes the next of the `responses` of a GetRateLimitsResp, at most GUBERNATOR_RESPONSE_MAX bytes;
 * returns what is behind them. */
uint8_t *grpc_gubernator_write(const struct gubernator_answer *answer, uint8_t *out);

#endif
