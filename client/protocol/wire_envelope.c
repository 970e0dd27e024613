/* wire_envelope.c - what the first bytes of a frame say.
 *
 * The envelope is read straight from the first bytes, without parsing the body:
 *
 *   9x | dc nn nn | dd nn nn nn nn     array head
 *   version  type  session  [seq]      unsigned integers, any width
 *
 * so that a node can refuse a bad or huge body by an ERROR with the right session and seq.
 *
 * ENVELOPE-1  [version, type, session] is the same in every version, and so are HELLO and ERROR, so
 *             that two releases that share no version can still tell each other so.
 * ENVELOPE-2  HELLO, WELCOME and GOODBYE carry no seq; all others have it as their fourth element.
 */
#include "client/protocol/wire_envelope.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

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
    ASSERT(width >= 1 && width <= sizeof *value && *at <= len);
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
    return type != WIRE_HELLO && type != WIRE_WELCOME && type != WIRE_GOODBYE; /* ENVELOPE-2 */
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

size_t wire_envelope_head_len(const void *frame, size_t len)
{
    size_t at = 0;
    uint64_t count;

    return head_array(frame, len, &at, &count) ? at : 0;
}
