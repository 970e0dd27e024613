/* endpoints.h - the list of endpoints that a program gives to tg_open. Pure. */
#ifndef CLIENT_LIB_ENDPOINTS_H
#define CLIENT_LIB_ENDPOINTS_H

#include <stddef.h>

#include "base/error.h"
#include "client/protocol/wire.h"

enum {
    CLIENT_ENDPOINTS_MAX = 64,
    CLIENT_ENDPOINT_LEN = sizeof "tcp://" + WIRE_ENDPOINT_LEN_MAX /* with its NUL */
};

struct client_endpoints {
    size_t count;
    char text[CLIENT_ENDPOINTS_MAX][CLIENT_ENDPOINT_LEN];
};

/* Reads "tcp://HOST:PORT,tcp://HOST:PORT"; blanks around commas are allowed, repeats dropped.
 * "HOST:PORT" without a scheme means tcp. TG_EINVALID with a sentence in `error`. */
MUST_USE int client_endpoints_parse(struct client_endpoints *endpoints, const char *list,
                                    char *error, size_t error_size);
/* "tcp://" before a "HOST:PORT" of the ring. */
void client_endpoint_of(struct wire_text address, char out[CLIENT_ENDPOINT_LEN]);

#endif
