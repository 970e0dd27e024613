/* resp_codec.c - the gate of Redis clients as a protocol of a loop of connections (gateway.h).
 */
#include <assert.h>
#include <stddef.h>

#include "node/gateway/resp_gate.h"

static void codec_open(void *gate, struct gateway_peer *peer)
{
    (void)gate;
    resp_peer_init((struct resp_peer *)peer);
}

static void codec_close(void *gate, struct gateway_peer *peer)
{
    resp_gate_close(gate, (struct resp_peer *)peer);
}

static enum gateway_stop codec_take(void *gate, struct gateway_peer *peer, uint64_t token,
                                    const char *data, size_t len, size_t *used)
{
    return resp_gate_take(gate, (struct resp_peer *)peer, token, data, len, used);
}

static void codec_now(void *gate, int64_t now_ns)
{
    resp_gate_now(gate, now_ns);
}

static_assert(offsetof(struct resp_peer, base) == 0, "a peer of RESP is one of the gateway");

const struct gateway_codec resp_codec = {
    .name = "resp",
    .refusal = "-ERR max number of clients reached\r\n",
    .peer_len = sizeof(struct resp_peer),
    .pending_max = RESP_PENDING_MAX,
    .read_len = 16 << 10,
    .socket_len = 64 << 10,
    .open = codec_open,
    .close = codec_close,
    .take = codec_take,
    .now = codec_now,
};
