/* request.h - between the public structs and the wire's: check a request, append it, give its
 * decision. Pure; not thread-safe beyond its arguments. */
#ifndef CLIENT_LIB_REQUEST_H
#define CLIENT_LIB_REQUEST_H

#include "base/error.h"

#include "client/include/tidegate.h"
#include "client/lib/intern.h"
#include "client/protocol/wire.h"

enum { CLIENT_REQUEST_ERROR_LEN = 256 };

/* 0, or TG_EINVALID with a sentence in `error`. `operation` replaces the request's own unless
 * negative. `valid_limit` remembers the limit that was found valid last (zero it first), since
 * batches repeat one. */
MUST_USE int client_request_check(const tg_request_t *request, int operation,
                                  tg_limit_t *valid_limit, char error[CLIENT_REQUEST_ERROR_LEN]);

/* Bytes of an inline request's key. */
size_t client_request_key_len(const tg_request_t *request);

/* Remembers the template of the request appended last; zero it with each builder reset. */
struct client_template_cache {
    const tg_request_t *last; /* NULL = none */
    uint32_t index;
};

/* Appends a request that was checked with the same `operation`. The builder's results. */
MUST_USE int client_request_append(const tg_request_t *request, int operation,
                                   struct client_template_cache *cache,
                                   struct wire_checks_builder *builder);

/* The texts of one source, interned. */
struct client_source {
    const char *rule;
    const char *window;
    const char *message;
    const char *node;
    int status;
};

void client_source_intern(struct client_intern *intern, const struct wire_source *source,
                          struct client_source *out);
/* `source` may be NULL. */
void client_decision_fill(tg_decision_t *out, const struct wire_decision *decision,
                          const struct client_source *source);
/* Copies the explanation of item `i` into the request's own entries. */
void client_decision_explain(tg_decision_t *out, const tg_request_t *request,
                             const struct wire_explain *explain, uint32_t i,
                             struct client_intern *intern);
/* When to ask again what a failure of the moment has denied: nobody knows, but not at once. */
enum { CLIENT_RETRY_MS = 1000 };
/* What `code` < 0 gives under `on_failure`: fills *out; returns 0 if that is a decision, else code.
 */
int client_decision_fail(tg_decision_t *out, int code, tg_on_failure_t on_failure);

#endif
