/* wire_base.h - the numbers and bounds of the client protocol, and a text. */
#ifndef CLIENT_PROTOCOL_WIRE_BASE_H
#define CLIENT_PROTOCOL_WIRE_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limit.h"
#include "client/protocol/identity.h"

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_WELCOME = 2,
    WIRE_GET_RING = 3,
    WIRE_RING = 4,
    WIRE_CHECKS = 5,
    WIRE_DECISIONS = 6,
    WIRE_ERROR = 7,
    WIRE_ADMIN = 8,
    WIRE_ADMIN_REPLY = 9,
    WIRE_GOODBYE = 10,
    WIRE_TYPE_END /* one behind the last */
};

enum {
    WIRE_VERSION = 1,
    WIRE_MESSAGE_MAX = 1 << 20, /* bytes of a frame */
    WIRE_MESSAGE_MIN = 1024,    /* the least message_max that a node may offer */
    WIRE_ERROR_LEN = 256,       /* a sentence with its NUL */

    WIRE_CHECKS_MAX = 4096,   /* items of one CHECKS */
    WIRE_TEMPLATES_MAX = 256, /* templates of one CHECKS */
    WIRE_ATTRIBUTES_MAX = 32, /* attribute names of one template */
    WIRE_ATTRIBUTE_LEN_MAX = 64,
    WIRE_RULES_MAX = 8,    /* rules that one template names */
    WIRE_VALUE_MAX = 1024, /* bytes of an attribute value or an inline key */
    WIRE_TIMEOUT_MS_MAX = 3600 * 1000,

    WIRE_TEMPLATES_LEN_MAX = 1 << 16, /* bytes of the encoded templates that a builder makes */

    WIRE_NAME_MAX = 64,          /* bytes of a node or command name */
    WIRE_RULE_MAX = 128,         /* bytes of a rule's name */
    WIRE_AGENT_MAX = 128,        /* bytes of a software description */
    WIRE_WINDOW_MAX = 48,        /* bytes of a window as text, "5/h" */
    WIRE_TEXT_MAX = 256,         /* bytes of a rule's message */
    WIRE_SOURCES_MAX = 1024,     /* distinct sources of one DECISIONS */
    WIRE_SOURCE_NONE = 0xffff,   /* no source: the table was full, or there is none */
    WIRE_EXPLAIN_ITEMS_MAX = 16, /* items of a CHECKS that asks EXPLAIN */
    WIRE_EXPLAIN_ROWS_MAX = 64,  /* limits explained per item */

    WIRE_MEMBERS_MAX = 1024,   /* members of one RING */
    WIRE_SHARDS_MAX = 64,      /* endpoints of one member */
    WIRE_ENDPOINTS_MAX = 4096, /* endpoints of all members */
    WIRE_ENDPOINT_LEN_MAX = 128,
    WIRE_VNODES_MAX = IDENTITY_VNODES_MAX,
    WIRE_MEMBER_NONE = 0xffff, /* a vnode without a known decider */

    WIRE_ADMIN_TOKENS_MAX = 16384, /* suggested token space for ADMIN arguments */
    WIRE_EXTRA_TOKENS = 256        /* room for elements of newer minor releases */
};

#define WIRE_VNODE_NONE UINT32_MAX      /* an item without a vnode (no rule, error) */
#define WIRE_COST_MAX   LIMIT_COUNT_MAX /* 10^15 */
#define WIRE_NEVER_MS   INT64_C(-1)     /* reset, retry or delay that never comes */

enum wire_checks_flags {
    WIRE_FLAG_RETRY = 1,   /* sent before with this (session, seq): give the first answer */
    WIRE_FLAG_EXPLAIN = 2, /* answer every limit that was met */
    WIRE_FLAG_PARTLY = 4,  /* answer at once what is decided, and again when more is */
    WIRE_FLAG_ONCE = 8,    /* it will not be sent again: no answer need be remembered */
    WIRE_FLAGS = WIRE_FLAG_RETRY | WIRE_FLAG_EXPLAIN | WIRE_FLAG_PARTLY | WIRE_FLAG_ONCE
};

enum wire_operation_bits {
    WIRE_OPERATION_MASK = 0x0f, /* enum operation */
    WIRE_AT_MOST = 0x80         /* with check and peek: take what there is, up to the cost */
};

enum wire_decision_flags {
    WIRE_ALLOWED = 1,
    WIRE_DEGRADED = 2,
    WIRE_STEADY = 4,    /* a denial that stays one until its retry_after, unless it is refunded */
    WIRE_PENDING = 8,   /* not decided yet: another answer to this message follows */
    WIRE_IN_FLIGHT = 16 /* the limit that decided counts what is in flight */
};

static_assert(WIRE_VALUE_MAX <= UINT16_MAX, "value lengths travel as u16");
static_assert((int)OPERATION_COUNT <= (int)WIRE_OPERATION_MASK + 1, "an operation fits its bits");
static_assert((int)WIRE_VALUE_MAX == (int)IDENTITY_VALUE_MAX, "what travels can be counted");
static_assert((int)WIRE_VALUE_MAX == (int)IDENTITY_KEY_MAX, "what travels can be counted");
static_assert((int)WIRE_RULE_MAX == (int)IDENTITY_NAME_MAX, "what is counted can be named");
static_assert(WIRE_SOURCES_MAX < WIRE_SOURCE_NONE, "an index is never mistaken for none");
static_assert(WIRE_MEMBERS_MAX < WIRE_MEMBER_NONE, "an index is never mistaken for none");

/* Bytes without a NUL at their end; `data` may be NULL only if `len` is 0. */
struct wire_text {
    const char *data;
    size_t len;
};

/* The text of a NUL-terminated string; "" for NULL. */
struct wire_text wire_text_of(const char *string);

#endif
