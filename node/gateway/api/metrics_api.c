/* metrics_api.c - see metrics_api.h. */
#include "node/gateway/api/metrics_api.h"

#include "base/mp.h"

/* The longest text: 201 rules of 128 characters, 256 nodes, and all else. */
enum { ROOM = 512 << 10 };

#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"

static void answer(struct http_completion *completion)
{
    const struct wire_admin_reply *admin = completion->admin;
    struct mp_cursor cursor;
    size_t len = 0;
    mp_cursor_init(&cursor, admin->value.tokens, admin->value.token_count);
    const char *text = admin->code == 0 ? mp_get_str(&cursor, &len) : NULL;
    if (text == NULL) {
        http_problem_busy(&completion->reply, "the node cannot tell its metrics now");
        return;
    }
    http_reply_begin(&completion->reply, 200);
    http_reply_body(&completion->reply, TEXT_TYPE);
    http_put(&completion->reply, text, len);
    http_reply_end(&completion->reply);
}

enum http_verdict api_metrics(struct http_exchange *exchange)
{
    void *context;
    struct mp_writer *writer;
    const enum http_verdict verdict =
        http_ask_admin(exchange, "metrics", ROOM, answer, &context, &writer);
    if (verdict == HTTP_ASKED)
        mp_put_map(writer, 0);
    return verdict;
}
