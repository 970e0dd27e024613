/* zmtp.c - greeting, handshake and frames of ZeroMQ's protocol; zmtp.h draws the states.
 *
 *   frame   flags 1 | length 1, or 8 of a LONG one, big-endian | body
 *   flags   MORE 1, LONG 2, COMMAND 4; the others are 0
 *   command name length 1 | name | data;   metadata: name length 1 | name | value length 4 | value
 *
 * libzmq as a server does what these bounds forbid: it takes the identity that a client chooses and
 * ends the process if it looks like one of its own, keeps frames that more are to follow without a
 * bound, and asserts on a PING that it reads behind a full queue.
 *
 * ZMTP-1  What a peer is told by does not depend on how its bytes are cut.
 * ZMTP-2  Nothing that a peer says names it: its Identity is skipped.
 * ZMTP-3  A frame is refused by its head, before its body has come. Of what is not complete at most
 *         ZMTP_PENDING_MAX bytes are ever waited for.
 * ZMTP-4  Answered without the shard are at most one READY, ZMTP_PONGS_MAX PONGs a second and one
 *         ERROR, after which the connection ends.
 */
#include "node/gateway/zmtp.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"

enum {
    FLAG_MORE = 1,
    FLAG_LONG = 2,
    FLAG_COMMAND = 4,
    FLAGS = FLAG_MORE | FLAG_LONG | FLAG_COMMAND,
    SIGNATURE_LEN = 10,
    VERSION_AT = 10, /* in a greeting */
    MECHANISM_AT = 12,
    MECHANISM_LEN = 20,
    MAJOR = 3,
    MINOR = 1,
    TTL_LEN = 2,    /* of a PING */
    LENGTH_LEN = 4, /* of the value of a property */
    NAME_MAX = 255,
    ANSWER_MAX = 2 + 1 + 5 + 1 + NAME_MAX /* the longest is an ERROR */
};

#define SECOND_NS INT64_C(1000000000)

static_assert((int)GATEWAY_PUT_HEAD >= (int)ZMTP_HEAD_MAX, "a message's head has room");
static_assert((int)GATEWAY_OUT_LEN >= (int)ZMTP_GREETING_LEN + 2 * (int)ANSWER_MAX,
              "ZMTP-4: a connection's beginning and its end have room");
static_assert((int)ZMTP_COMMAND_MAX <= (int)WIRE_MESSAGE_MAX, "ZMTP-3");

/* A number as ZeroMQ writes it: the byte that counts most comes first. */
static uint64_t get_number(const uint8_t *bytes, size_t len)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* ---- out ------------------------------------------------------------------------------------- */

static void put(struct gateway_out *out, const void *data, size_t len)
{
    if (out->failed || out->capacity - out->len < len) {
        out->failed = true;
        return;
    }
    if (len > 0)
        memcpy(out->data + out->len, data, len);
    out->len += len;
}

static void put_byte(struct gateway_out *out, size_t value)
{
    const uint8_t byte = (uint8_t)value;
    ASSERT(value <= UINT8_MAX);
    put(out, &byte, 1);
}

static void put_command(struct gateway_out *out, const char *name, const void *data, size_t len)
{
    const size_t name_len = strlen(name);
    put_byte(out, FLAG_COMMAND);
    put_byte(out, 1 + name_len + len);
    put_byte(out, name_len);
    put(out, name, name_len);
    put(out, data, len);
}

static void open_peer(void *gate, struct gateway_peer *peer)
{
    uint8_t greeting[ZMTP_GREETING_LEN] = {
        [0] = 0xff, [SIGNATURE_LEN - 1] = 0x7f, [VERSION_AT] = MAJOR, [VERSION_AT + 1] = MINOR};
    (void)gate;
    memcpy(greeting + MECHANISM_AT, "NULL", 4);
    put(&peer->out, greeting, sizeof greeting);
}

/* The connection ends with what is wrong. */
static enum gateway_stop end_with(struct zmtp_gate *gate, struct zmtp_peer *peer,
                                  const char *sentence)
{
    uint8_t data[1 + NAME_MAX];
    const size_t len = strlen(sentence);
    ASSERT(len <= NAME_MAX);
    data[0] = (uint8_t)len;
    memcpy(data + 1, sentence, len);
    if (peer->base.out.capacity - peer->base.out.len >= ANSWER_MAX)
        put_command(&peer->base.out, "ERROR", data, 1 + len);
    gate->stats->protocol_errors++;
    peer->base.closing = true;
    return GATEWAY_AT_END;
}

/* The connection ends without a word: what the peer speaks is not known. */
static enum gateway_stop end(struct zmtp_gate *gate, struct zmtp_peer *peer)
{
    gate->stats->protocol_errors++;
    peer->base.closing = true;
    return GATEWAY_AT_END;
}

/* ---- the greeting ---------------------------------------------------------------------------- */

/* Whether the peer may still turn out to speak the protocol, by as many bytes as there are. Behind
 * the first of ten bytes stands what clients of older versions say of themselves. */
static bool greets(const uint8_t *bytes, size_t len)
{
    static const char mechanism[MECHANISM_LEN] = "NULL";
    if (len > 0 && bytes[0] != 0xff)
        return false;
    if (len >= SIGNATURE_LEN && (bytes[SIGNATURE_LEN - 1] & 1) == 0)
        return false;
    if (len > VERSION_AT && bytes[VERSION_AT] < MAJOR)
        return false;
    const size_t spoken = len > MECHANISM_AT ? len - MECHANISM_AT : 0;
    return memcmp(bytes + MECHANISM_AT, mechanism,
                  spoken < MECHANISM_LEN ? spoken : MECHANISM_LEN) == 0;
}

/* ---- commands -------------------------------------------------------------------------------- */

struct command {
    const uint8_t *name;
    size_t name_len;
    const uint8_t *data;
    size_t len;
};

static bool read_command(const uint8_t *body, size_t len, struct command *out)
{
    if (len == 0 || body[0] == 0 || body[0] > len - 1)
        return false;
    *out = (struct command){.name = body + 1,
                            .name_len = body[0],
                            .data = body + 1 + body[0],
                            .len = len - 1 - body[0]};
    return true;
}

static bool is(const uint8_t *bytes, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(bytes, word, len) == 0;
}

/* Names of metadata are the same in any case. */
static bool is_named(const uint8_t *bytes, size_t len, const char *word)
{
    bool same = len == strlen(word);
    for (size_t i = 0; same && i < len; i++)
        same = (bytes[i] | 0x20) == ((uint8_t)word[i] | 0x20);
    return same;
}

/* The property Socket-Type of the metadata; false if these are malformed or have none. ZMTP-2 */
static bool socket_type(const struct command *command, const uint8_t **type, size_t *type_len)
{
    bool found = false;
    for (size_t at = 0; at < command->len;) {
        const uint8_t *name = command->data + at + 1;
        const size_t name_len = command->data[at];
        if (name_len == 0 || command->len - at < 1 + name_len + LENGTH_LEN)
            return false;
        const uint8_t *value = name + name_len + LENGTH_LEN;
        const size_t len = (size_t)get_number(name + name_len, LENGTH_LEN);
        if (command->len - at - 1 - name_len - LENGTH_LEN < len)
            return false;
        if (!found && is_named(name, name_len, "Socket-Type")) {
            found = true;
            *type = value;
            *type_len = len;
        }
        at += 1 + name_len + LENGTH_LEN + len;
    }
    return found;
}

static enum gateway_stop shake_hands(struct zmtp_gate *gate, struct zmtp_peer *peer,
                                     const struct command *command)
{
    /* The string's own end is the last byte of the length of an empty Identity. */
    static const uint8_t router[] = "\x0bSocket-Type\0\0\0\x06ROUTER\x08Identity\0\0\0";
    const uint8_t *type = NULL;
    size_t len = 0;
    if (is(command->name, command->name_len, "ERROR"))
        return end(gate, peer);
    if (!is(command->name, command->name_len, "READY"))
        return end_with(gate, peer, "expected the command READY");
    if (!socket_type(command, &type, &len))
        return end_with(gate, peer, "expected metadata with a Socket-Type behind READY");
    if (!is(type, len, "DEALER"))
        return end_with(gate, peer, "expected a socket of type DEALER");
    put_command(&peer->base.out, "READY", router, sizeof router);
    peer->state = ZMTP_TRAFFIC;
    peer->base.begun = true;
    return GATEWAY_NEED_BYTES;
}

static void answer_ping(struct zmtp_gate *gate, struct zmtp_peer *peer,
                        const struct command *command)
{
    if (gate->now_ns - peer->pong_ns >= SECOND_NS) {
        peer->pong_ns = gate->now_ns;
        peer->pongs = 0;
    }
    if (command->len < TTL_LEN || command->len > TTL_LEN + ZMTP_CONTEXT_MAX ||
        peer->pongs == ZMTP_PONGS_MAX)
        return; /* ZMTP-4 */
    peer->pongs++;
    put_command(&peer->base.out, "PONG", command->data + TTL_LEN, command->len - TTL_LEN);
}

static enum gateway_stop take_command(struct zmtp_gate *gate, struct zmtp_peer *peer,
                                      const uint8_t *body, size_t len)
{
    struct command command;
    if (!read_command(body, len, &command))
        return end_with(gate, peer, "expected a command with a name");
    if (peer->state == ZMTP_HANDSHAKE)
        return shake_hands(gate, peer, &command);
    if (is(command.name, command.name_len, "PING"))
        answer_ping(gate, peer, &command);
    return GATEWAY_NEED_BYTES; /* others are of no concern here */
}

/* ---- frames ---------------------------------------------------------------------------------- */

struct head {
    uint8_t flags;
    uint8_t len; /* its own */
    uint64_t body;
};

/* False: it is not complete. */
static bool read_head(const uint8_t *bytes, size_t len, struct head *out)
{
    out->flags = len > 0 ? bytes[0] : 0;
    out->len = (out->flags & FLAG_LONG) != 0 ? ZMTP_HEAD_MAX : 2;
    if (len < out->len)
        return false;
    out->body = out->len == 2 ? bytes[1] : get_number(bytes + 1, ZMTP_HEAD_MAX - 1);
    return true;
}

/* What is wrong with a frame of that head; NULL: nothing. */
static const char *fault_of(const struct zmtp_peer *peer, const struct head *head)
{
    const bool command = (head->flags & FLAG_COMMAND) != 0;
    if ((head->flags & ~FLAGS) != 0)
        return "expected flags of MORE, LONG and COMMAND alone";
    if (command && (head->flags & FLAG_MORE) != 0)
        return "expected a command in one frame";
    if (command && head->body > ZMTP_COMMAND_MAX)
        return "expected a command of at most 4096 bytes";
    if (!command && peer->state == ZMTP_HANDSHAKE)
        return "expected the command READY";
    if (head->body > WIRE_MESSAGE_MAX)
        return "expected a message of at most 1048576 bytes";
    return NULL;
}

/* A message of several frames: the shard says in the client's own protocol what is wrong with it,
 * and the connection ends: a moment later, for libzmq drops what the application has not taken by
 * then. */
static enum gateway_stop refuse_more(struct zmtp_gate *gate, struct zmtp_peer *peer, uint64_t token)
{
    if (!gate->message(gate->context, token, "", 0))
        return GATEWAY_NEED_TURN;
    peer->base.ends_late = true;
    return end_with(gate, peer, "expected messages of one frame");
}

/* The frame at the front, whose head is read, and whole but for one that is refused. */
static enum gateway_stop take_frame(struct zmtp_gate *gate, struct zmtp_peer *peer, uint64_t token,
                                    const struct head *head, const uint8_t *body)
{
    gate->stats->commands++;
    if ((head->flags & FLAG_COMMAND) != 0)
        return take_command(gate, peer, body, (size_t)head->body);
    if (!gate->message(gate->context, token, body, (size_t)head->body)) {
        gate->stats->commands--;
        return GATEWAY_NEED_TURN;
    }
    gate->stats->checks++;
    return GATEWAY_NEED_BYTES;
}

static enum gateway_stop take_greeting(struct zmtp_gate *gate, struct zmtp_peer *peer,
                                       const uint8_t *bytes, size_t len, size_t *used)
{
    if (!greets(bytes, len < ZMTP_GREETING_LEN ? len : ZMTP_GREETING_LEN))
        return end(gate, peer);
    if (len < ZMTP_GREETING_LEN)
        return GATEWAY_NEED_BYTES;
    peer->state = ZMTP_HANDSHAKE;
    *used = ZMTP_GREETING_LEN;
    return GATEWAY_NEED_BYTES;
}

static enum gateway_stop take(void *context, struct gateway_peer *base, uint64_t token,
                              const char *data, size_t len, size_t *used)
{
    struct zmtp_gate *gate = context;
    struct zmtp_peer *peer = (struct zmtp_peer *)base;
    const uint8_t *bytes = (const uint8_t *)data;
    enum gateway_stop stop = GATEWAY_NEED_BYTES;
    *used = 0;
    base->need = 0;
    if (peer->state == ZMTP_GREETING && !base->closing)
        stop = take_greeting(gate, peer, bytes, len, used);
    while (!base->closing && stop == GATEWAY_NEED_BYTES && peer->state != ZMTP_GREETING) {
        const uint8_t *front = bytes + *used;
        const size_t left = len - *used;
        struct head head;
        if (base->out.len > ZMTP_UNSENT_MAX || base->out.capacity - base->out.len < ANSWER_MAX)
            return GATEWAY_NEED_ROOM;
        if (!read_head(front, left, &head))
            return GATEWAY_NEED_BYTES;
        const char *fault = fault_of(peer, &head); /* ZMTP-3 */
        if (fault != NULL)
            return end_with(gate, peer, fault);
        if ((head.flags & FLAG_MORE) != 0)
            return refuse_more(gate, peer, token);
        if (left - head.len < head.body) {
            base->need = head.len + (size_t)head.body;
            return GATEWAY_NEED_BYTES;
        }
        stop = take_frame(gate, peer, token, &head, front + head.len);
        if (stop != GATEWAY_NEED_TURN)
            *used += head.len + (size_t)head.body;
    }
    return base->closing ? GATEWAY_AT_END : stop;
}

static void put_message(void *gate, struct gateway_peer *peer, const void *data, size_t len)
{
    uint8_t head[ZMTP_HEAD_MAX] = {0, (uint8_t)len};
    (void)gate;
    if (len > UINT8_MAX) {
        head[0] = FLAG_LONG;
        for (size_t i = 1; i < sizeof head; i++)
            head[i] = (uint8_t)((uint64_t)len >> 8 * (sizeof head - 1 - i));
    }
    put(&peer->out, head, len > UINT8_MAX ? ZMTP_HEAD_MAX : 2);
    put(&peer->out, data, len);
}

static void set_now(void *context, int64_t now_ns)
{
    struct zmtp_gate *gate = context;
    gate->now_ns = now_ns;
}

static_assert(offsetof(struct zmtp_peer, base) == 0, "a peer of ZMTP is one of the gateway");

const struct gateway_codec zmtp_codec = {
    .name = "zmtp",
    .refusal = "",
    .peer_len = sizeof(struct zmtp_peer),
    .pending_max = ZMTP_PENDING_MAX,
    .read_len = 64 << 10,
    .socket_len = 128 << 10,
    .open = open_peer,
    .take = take,
    .now = set_now,
    .put = put_message,
};
