/* wire.h - the client protocol's codec: one ZeroMQ frame <-> one message. PROTOCOL.md is the spec.
 *
 * A frame is one msgpack array [version, type, ...] of at most 1 MiB. Whatever comes once per
 * check travels as a column, a `bin` of fixed-width little-endian numbers, so that a batch of n
 * checks costs some twenty msgpack tokens and not 10 n.
 *
 *   frame --wire_peek--> type, session, seq --wire_decode_TYPE--> struct of views into the frame
 *
 * WIRE-1  A decoded struct is a view: it lives as long as the frame and the space that were passed.
 * WIRE-2  After a decode returned 0 every index, length and enum in the struct is in range, so that
 *         consumers use the columns unchecked; after any other return nothing in it may be used.
 * WIRE-3  A refusal writes one sentence to `error` (WIRE_ERROR_LEN bytes, never NULL): which field,
 *         what was found, what was expected. It never quotes a key or a value.
 * WIRE-4  Extra elements at the end of an array that has a fixed shape are ignored: a newer minor
 *         release may add them. Another major version is TG_EVERSION.
 * WIRE-5  An encode never writes beyond `capacity`; it returns the frame's length (> 0), TG_ETOOBIG
 *         if it did not fit, TG_EINVALID if a field breaks its bound.
 *
 * Pure: no clock, socket, thread, file or heap. Every function is safe on any thread as long as
 * the memory passed to it is the caller's alone.
 */
#ifndef CLIENT_PROTOCOL_WIRE_H
#define CLIENT_PROTOCOL_WIRE_H

#include "client/protocol/wire_base.h"
#include "client/protocol/wire_checks.h"
#include "client/protocol/wire_decisions.h"
#include "client/protocol/wire_envelope.h"
#include "client/protocol/wire_ring.h"
#include "client/protocol/wire_session.h"

#endif
