/* wire.c - the envelope, and the messages that are a handful of fields.
 *
 * The envelope is read straight from the first bytes, without parsing the body:
 *
 *   9x | dc nn nn | dd nn nn nn nn     array head
 *   version  type  session  [seq]      unsigned integers, any width
 *
 * so that a node can refuse a bad or huge body by an ERROR with the right session and seq.
 *
 * I1  [version, type, session] is the same in every version, and so are HELLO and ERROR, so that
 *     two releases that share no version can still tell each other so.
 * I2  HELLO, WELCOME and GOODBYE carry no seq; all others have it as their fourth element.
 *
 * Columns are in wire_checks.c, wire_build.c and wire_decisions.c; the ring in wire_ring.c.
 */
#include "client/protocol/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/protocol/wire_field.h"

enum { SMALL_TOKENS_MAX = 32 + WIRE_EXTRA_TOKENS };

/* Reads one msgpack unsigned integer of any width from the front of the frame. */
static bool head_uint(const uint8_t *data, size_t len, size_t *at, uint64_t *value)
{
    size_t width;
    uint8_t byte;

    if (*at >= len)
        return false;
    byte = data[(*at)++];
    *value = byte;
    if (byte < 0x80)
        return true;
    if (byte < 0xcc || byte > 0xcf)
        return false;
    width = (size_t)1 << (byte - 0xcc);
    if (width > len - *at)
        return false;
    *value = 0;
    for (size_t i = 0; i < width; i++)
        *value = *value << 8 | data[(*at)++];
    return true;
}

static bool head_array(const uint8_t *data, size_t len, size_t *at, uint64_t *count)
{
    size_t width;

    if (len == 0)
        return false;
    *at = 1;
    if ((data[0] & 0xf0) == 0x90) {
        *count = data[0] & 0x0fu;
        return true;
    }
    if (data[0] != 0xdc && data[0] != 0xdd)
        return false;
    width = data[0] == 0xdc ? 2 : 4;
    if (width > len - 1)
        return false;
    *count = 0;
    for (size_t i = 0; i < width; i++)
        *count = *count << 8 | data[(*at)++];
    return true;
}

static bool type_has_seq(uint64_t type)
{
    return type != WIRE_HELLO && type != WIRE_WELCOME && type != WIRE_GOODBYE; /* I2 */
}

/* Fills the envelope as far as the bytes go; returns the field that is missing, or NULL. */
static const char *read_envelope(const uint8_t *data, size_t len, struct wire_envelope *envelope)
{
    size_t at = 0;
    uint64_t count = 0;
    uint64_t value;

    if (!head_array(data, len, &at, &count))
        return "message";
    if (count < 1 || !head_uint(data, len, &at, &value) || value > UINT32_MAX)
        return "version";
    envelope->version = (uint32_t)value;
    if (count < 2 || !head_uint(data, len, &at, &value) || value > UINT32_MAX)
        return "type";
    envelope->type = (uint32_t)value;
    if (count < 3 || !head_uint(data, len, &at, &value))
        return "session";
    envelope->session = value;
    if (!type_has_seq(envelope->type))
        return NULL;
    if (count < 4 || !head_uint(data, len, &at, &value))
        return "seq";
    envelope->seq = value;
    return NULL;
}

int wire_peek(const void *frame, size_t len, struct wire_envelope *envelope, char *error)
{
    const char *missing;

    *envelope = (struct wire_envelope){0};
    error[0] = '\0';
    missing = read_envelope(frame, len, envelope);
    if (missing == NULL || strcmp(missing, "session") == 0 || strcmp(missing, "seq") == 0) {
        if (envelope->version != WIRE_VERSION) {
            (void)snprintf(error, WIRE_ERROR_LEN, "version: found %" PRIu32 ", expected %d",
                           envelope->version, WIRE_VERSION);
            return TG_EVERSION;
        }
    }
    if (len > WIRE_MESSAGE_MAX) {
        (void)snprintf(error, WIRE_ERROR_LEN, "message: found %zu bytes, expected at most %d", len,
                       WIRE_MESSAGE_MAX);
        return TG_ETOOBIG;
    }
    if (missing != NULL) {
        (void)snprintf(error, WIRE_ERROR_LEN, "%s: found something else, expected %s", missing,
                       strcmp(missing, "message") == 0 ? "a msgpack array" : "an unsigned integer");
        return TG_EPROTOCOL;
    }
    return 0;
}

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
    size_t at = 0;
    uint64_t count;

    if (reader->status != 0)
        return;
    mp_skip(&reader->cursor);
    (void)head_array(frame, len, &at, &count); /* cannot fail: the message was parsed */
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
