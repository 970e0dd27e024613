/* lease_id.c - the names of leases: the same for every attempt of one request (DECIDE-11). */
#include "node/cluster/dedup/lease_id.h"
#include "base/bytes.h"
#include "node/cluster/shard_state.h"

/* DECIDE-11 */
uint64_t decide_lease_of(const struct shard *shard, const struct retry_key *key)
{
    uint8_t bytes[18];
    struct bytes_writer writer;
    bytes_writer_init(&writer, bytes, sizeof bytes);
    bytes_put_u64(&writer, key->session);
    bytes_put_u64(&writer, key->seq);
    bytes_put_u16(&writer, key->item);
    const uint64_t id = hash64(&shard->options.secret, bytes, writer.len);
    return id == 0 ? 1 : id;
}

uint64_t decide_lease(const struct shard *shard, const struct forward *forward)
{
    const bool named =
        forward->operation == OPERATION_RELEASE || forward->operation == OPERATION_RENEW ||
        forward->operation == OPERATION_COMMIT || forward->operation == OPERATION_CANCEL;
    return named ? forward->cost : decide_lease_of(shard, &forward->retry);
}
