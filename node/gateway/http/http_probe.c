/* http_probe.c - the two probes; http_probe.h tells how they differ. */
#include "node/gateway/http/http_probe.h"

static enum http_verdict answer(struct http_exchange *exchange, const char *status)
{
    struct http_reply *reply = &exchange->reply;
    http_reply_begin(reply, 200);
    http_reply_body(reply, "application/json");
    http_put_text(reply, "{\"status\":");
    http_put_string(reply, wire_text_of(status));
    http_put_text(reply, ",\"name\":");
    http_put_string(reply, wire_text_of(exchange->facts->name));
    http_put_text(reply, "}\n");
    http_reply_end(reply);
    return HTTP_ANSWERED;
}

enum http_verdict http_live(struct http_exchange *exchange)
{
    return answer(exchange, "alive");
}

enum http_verdict http_ready(struct http_exchange *exchange)
{
    if (exchange->facts->waits == NULL)
        return answer(exchange, "ready");
    http_problem_busy(&exchange->reply, exchange->facts->waits);
    return HTTP_ANSWERED;
}
