/* wire_envelope.h - what the first bytes of a frame say: version, type, session, seq. */
#ifndef CLIENT_PROTOCOL_WIRE_ENVELOPE_H
#define CLIENT_PROTOCOL_WIRE_ENVELOPE_H

#include "client/protocol/wire_base.h"

struct wire_envelope {
    uint32_t version;
    uint32_t type;    /* may be a number that is no enum wire_type: TG_EUNSUPPORTED for a node */
    uint64_t session; /* 0 if the frame is too broken to tell */
    uint64_t seq;     /* 0 for types without one, or if the frame is too broken to tell */
};

/* Reads the envelope without looking at the body, so that even a bad body can be answered with an
 * ERROR of the right session and seq. Fills what it could read in any case (else zeros).
 * 0, TG_EPROTOCOL, TG_ETOOBIG (over WIRE_MESSAGE_MAX), TG_EVERSION (another major version). */
MUST_USE int wire_peek(const void *frame, size_t len, struct wire_envelope *envelope, char *error);

/* How many bytes the head of the outermost array takes; 0 if there is none. */
size_t wire_envelope_head_len(const void *frame, size_t len);

#endif
