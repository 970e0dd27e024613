/* support_peer_wire.h - what tests of the records between shards share: bytes read as a peer reads
 * them, and records of pools with a value of its own in each field. */
#ifndef TESTS_UNIT_SUPPORT_PEER_WIRE_H
#define TESTS_UNIT_SUPPORT_PEER_WIRE_H

#include "node/cluster/wire/peer_wire.h"

enum { PEER_WIRE_VNODE = 63 };
extern const uint8_t peer_wire_state[5];
extern const struct hash128 peer_wire_id;
extern const struct peer_reservation peer_wire_reservation;
extern const struct elastic_report peer_wire_report;
extern const struct peer_pool_level peer_wire_level;

extern const struct peer_pool_origin peer_wire_origin;

/* Writes a CHANGE of that slot, without a mark; where it lies. */
size_t peer_wire_put_change(struct bytes_writer *writer);
/* Of a rule that another region counts. */
struct forward peer_wire_global(void);
/* Writes a record about that, or for that region; or of a pool that is lent by it; or FIRSTS. */
void peer_wire_put_remote(struct bytes_writer *writer, uint8_t type, const struct answer *answer);

/* What peer_next says to the first of `len` bytes. They lie at the end of a block of their own, so
 * that a sanitizer sees a read beyond it; what of the record points to bytes ends with the call. */
int peer_wire_next(const void *data, size_t len, uint32_t vnodes, struct peer_record *record);

void peer_wire_assert_guards_equal(const struct guard *a, const struct guard *b);

#endif
