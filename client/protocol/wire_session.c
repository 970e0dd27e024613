/* wire_session.c - the messages that are a handful of fields.
 *
 * Columns are in wire_checks.c, wire_build.c and wire_decisions.c; the ring in wire_ring.c; the
 * first three fields, which all messages have, in wire_envelope.c.
 */
#include "client/protocol/wire_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/protocol/wire_envelope.h"
#include "client/protocol/wire_field.h"

enum { SMALL_TOKENS_MAX = 32 + WIRE_EXTRA_TOKENS };

static uint64_t read_session(struct wire_reader *reader)
{
    return wire_read_uint(reader, "session", 1, UINT64_MAX);
}

int wire_encode_hello(const struct wire_hello *hello, void *out, size_t capacity)
{
    struct mp_writer writer;

    if (hello->session == 0 || hello->version_min > hello->version_max ||
        !wire_text_valid(hello->agent, 0, WIRE_AGENT_MAX))
        return TG_EINVALID;
    mp_writer_init(&writer, out, capacity);
    wire_put_head(&writer, WIRE_HELLO, 6);
    mp_put_uint(&writer, hello->session);
    mp_put_uint(&writer, hello->version_min);
    mp_put_uint(&writer, hello->version_max);
    wire_put_text(&writer, hello->agent);
    return wire_put_end(&writer);
}

int wire_decode_hello(const void *frame, size_t len, struct wire_hello *hello, char *error)
{
    struct mp_token tokens[SMALL_TOKENS_MAX];
    struct wire_reader reader;

    if (wire_reader_open(&reader, frame, len, WIRE_HELLO, 6, tokens, SMALL_TOKENS_MAX, error) != 0)
        return reader.status;
    hello->session = read_session(&reader);
    hello->version_min = (uint32_t)wire_read_uint(&reader, "client_version_min", 0, UINT32_MAX);
    hello->version_max =
        (uint32_t)wire_read_uint(&reader, "client_version_max", hello->version_min, UINT32_MAX);
    hello->agent = wire_read_text(&reader, "agent", 0, WIRE_AGENT_MAX);
    return reader.status;
}

int wire_encode_welcome(const struct wire_welcome *welcome, void *out, size_t capacity)
{
    struct mp_writer writer;

    if (welcome->session == 0 || welcome->node_id == 0 || welcome->vnodes == 0 ||
        welcome->vnodes > WIRE_VNODES_MAX || (welcome->vnodes & (welcome->vnodes - 1)) != 0 ||
        welcome->checks_max == 0 || welcome->checks_max > WIRE_CHECKS_MAX ||
        welcome->message_max < WIRE_MESSAGE_MIN || welcome->message_max > WIRE_MESSAGE_MAX ||
        !wire_text_valid(welcome->node_name, 1, WIRE_NAME_MAX) ||
        !wire_text_valid(welcome->software, 0, WIRE_AGENT_MAX))
        return TG_EINVALID;
    mp_writer_init(&writer, out, capacity);
    wire_put_head(&writer, WIRE_WELCOME, 13);
    mp_put_uint(&writer, welcome->session);
    mp_put_uint(&writer, welcome->version);
    mp_put_bin(&writer, welcome->cluster_id, sizeof welcome->cluster_id);
    mp_put_uint(&writer, welcome->node_id);
    wire_put_text(&writer, welcome->node_name);
    mp_put_bin(&writer, welcome->route_key.bytes, HASH_KEY_LEN);
    mp_put_uint(&writer, welcome->vnodes);
    mp_put_uint(&writer, welcome->view_version);
    mp_put_uint(&writer, welcome->checks_max);
    mp_put_uint(&writer, welcome->message_max);
    wire_put_text(&writer, welcome->software);
    return wire_put_end(&writer);
}

int wire_decode_welcome(const void *frame, size_t len, struct wire_welcome *welcome, char *error)
{
    struct mp_token tokens[SMALL_TOKENS_MAX];
    struct wire_reader reader;
    const uint8_t *bytes;

    if (wire_reader_open(&reader, frame, len, WIRE_WELCOME, 13, tokens, SMALL_TOKENS_MAX, error) !=
        0)
        return reader.status;
    welcome->session = read_session(&reader);
    welcome->version = (uint32_t)wire_read_uint(&reader, "version", 1, UINT32_MAX);
    bytes = wire_read_bin(&reader, "cluster_id", sizeof welcome->cluster_id);
    if (bytes != NULL)
        memcpy(welcome->cluster_id, bytes, sizeof welcome->cluster_id);
    welcome->node_id = wire_read_uint(&reader, "node_id", 1, UINT64_MAX);
    welcome->node_name = wire_read_text(&reader, "node_name", 1, WIRE_NAME_MAX);
    bytes = wire_read_bin(&reader, "route_key", HASH_KEY_LEN);
    if (bytes != NULL)
        memcpy(welcome->route_key.bytes, bytes, HASH_KEY_LEN);
    welcome->vnodes = (uint32_t)wire_read_uint(&reader, "vnodes", 1, WIRE_VNODES_MAX);
    if ((welcome->vnodes & (welcome->vnodes - 1)) != 0)
        wire_reader_fail(&reader, TG_EPROTOCOL,
                         "vnodes: found %" PRIu32 ", expected a power of two", welcome->vnodes);
    welcome->view_version = wire_read_uint(&reader, "view_version", 0, UINT64_MAX);
    welcome->checks_max = (uint32_t)wire_read_uint(&reader, "checks_max", 1, WIRE_CHECKS_MAX);
    welcome->message_max =
        (uint32_t)wire_read_uint(&reader, "message_max", WIRE_MESSAGE_MIN, WIRE_MESSAGE_MAX);
    welcome->software = wire_read_text(&reader, "software", 0, WIRE_AGENT_MAX);
    return reader.status;
}

int wire_encode_goodbye(uint64_t session, void *out, size_t capacity)
{
    struct mp_writer writer;

    if (session == 0)
        return TG_EINVALID;
    mp_writer_init(&writer, out, capacity);
    wire_put_head(&writer, WIRE_GOODBYE, 3);
    mp_put_uint(&writer, session);
    return wire_put_end(&writer);
}

int wire_decode_goodbye(const void *frame, size_t len, uint64_t *session, char *error)
{
    struct mp_token tokens[SMALL_TOKENS_MAX];
    struct wire_reader reader;

    if (wire_reader_open(&reader, frame, len, WIRE_GOODBYE, 3, tokens, SMALL_TOKENS_MAX, error) !=
        0)
        return reader.status;
    *session = read_session(&reader);
    return reader.status;
}

int wire_encode_error(const struct wire_error *message, void *out, size_t capacity)
{
    struct mp_writer writer;
    struct wire_text text = message->text;

    if (message->code >= 0)
        return TG_EINVALID;
    if (text.len > WIRE_ERROR_LEN - 1)
        text.len = WIRE_ERROR_LEN - 1;
    mp_writer_init(&writer, out, capacity);
    wire_put_head(&writer, WIRE_ERROR, 6);
    mp_put_uint(&writer, message->session);
    mp_put_uint(&writer, message->seq);
    mp_put_int(&writer, message->code);
    wire_put_text(&writer, text);
    return wire_put_end(&writer);
}

int wire_decode_error(const void *frame, size_t len, struct wire_error *message, char *error)
{
    struct mp_token tokens[SMALL_TOKENS_MAX];
    struct wire_reader reader;

    if (wire_reader_open(&reader, frame, len, WIRE_ERROR, 6, tokens, SMALL_TOKENS_MAX, error) != 0)
        return reader.status;
    /* Session 0 is right here: it answers a frame too broken to tell its session. */
    message->session = wire_read_uint(&reader, "session", 0, UINT64_MAX);
    message->seq = wire_read_uint(&reader, "seq", 0, UINT64_MAX);
    message->code = (int32_t)wire_read_int(&reader, "code", INT32_MIN, -1);
    message->text = wire_read_text(&reader, "text", 0, WIRE_ERROR_LEN - 1);
    return reader.status;
}

int wire_encode_get_ring(const struct wire_get_ring *message, void *out, size_t capacity)
{
    struct mp_writer writer;

    if (message->session == 0)
        return TG_EINVALID;
    mp_writer_init(&writer, out, capacity);
    wire_put_head(&writer, WIRE_GET_RING, 4);
    mp_put_uint(&writer, message->session);
    mp_put_uint(&writer, message->seq);
    return wire_put_end(&writer);
}

int wire_decode_get_ring(const void *frame, size_t len, struct wire_get_ring *message, char *error)
{
    struct mp_token tokens[SMALL_TOKENS_MAX];
    struct wire_reader reader;

    if (wire_reader_open(&reader, frame, len, WIRE_GET_RING, 4, tokens, SMALL_TOKENS_MAX, error) !=
        0)
        return reader.status;
    message->session = read_session(&reader);
    message->seq = wire_read_uint(&reader, "seq", 0, UINT64_MAX);
    return reader.status;
}

void wire_begin_admin(struct mp_writer *writer, uint64_t session, uint64_t seq, const char *command)
{
    wire_put_head(writer, WIRE_ADMIN, 6);
    mp_put_uint(writer, session);
    mp_put_uint(writer, seq);
    mp_put_str(writer, command);
}

void wire_begin_admin_reply(struct mp_writer *writer, uint64_t session, uint64_t seq, int32_t code)
{
    wire_put_head(writer, WIRE_ADMIN_REPLY, 6);
    mp_put_uint(writer, session);
    mp_put_uint(writer, seq);
    mp_put_int(writer, code);
}

/* Takes the value under the cursor both as tokens and as the bytes of the frame's sixth element:
 * tokens do not know their offset, so the five before it are stepped over in the bytes. */
static void take_value(struct wire_reader *reader, const uint8_t *frame, size_t len,
                       struct wire_value *value)
{
    const size_t first = reader->cursor.at;
    size_t at = wire_envelope_head_len(frame, len); /* there is one: the message was parsed */

    if (reader->status != 0)
        return;
    mp_skip(&reader->cursor);
    ASSERT(at > 0 && at <= len && first < reader->cursor.at);
    for (int i = 0; i < 5; i++)
        at += wire_span(frame + at, len - at);
    value->data = frame + at;
    value->len = wire_span(frame + at, len - at);
    value->tokens = reader->cursor.tokens + first;
    value->token_count = reader->cursor.at - first;
    if (value->len == 0 || value->token_count == 0)
        wire_reader_fail(reader, TG_EPROTOCOL, "value: found malformed bytes, expected a value");
}

int wire_decode_admin(const void *frame, size_t len, struct mp_token *tokens, size_t tokens_max,
                      struct wire_admin *admin, char *error)
{
    struct wire_reader reader;

    if (wire_reader_open(&reader, frame, len, WIRE_ADMIN, 6, tokens, tokens_max, error) != 0)
        return reader.status;
    admin->session = read_session(&reader);
    admin->seq = wire_read_uint(&reader, "seq", 0, UINT64_MAX);
    admin->command = wire_read_text(&reader, "command", 1, WIRE_NAME_MAX);
    if (reader.status == 0 && mp_peek_type(&reader.cursor) != MP_MAP)
        wire_reader_fail(&reader, TG_EPROTOCOL, "arguments: found another type, expected a map");
    take_value(&reader, frame, len, &admin->arguments);
    return reader.status;
}

int wire_decode_admin_reply(const void *frame, size_t len, struct mp_token *tokens,
                            size_t tokens_max, struct wire_admin_reply *reply, char *error)
{
    struct wire_reader reader;

    if (wire_reader_open(&reader, frame, len, WIRE_ADMIN_REPLY, 6, tokens, tokens_max, error) != 0)
        return reader.status;
    reply->session = read_session(&reader);
    reply->seq = wire_read_uint(&reader, "seq", 0, UINT64_MAX);
    reply->code = (int32_t)wire_read_int(&reader, "code", INT32_MIN, 0);
    take_value(&reader, frame, len, &reply->value);
    return reader.status;
}
