/* events_api.c - see events_api.h. A line of no meaning goes out when nothing has come about for
 * ten seconds: proxies end what is quiet, and who has gone is found out by it.
 */
#include "node/gateway/api/events_api.h"

#include <string.h>

#include "base/assert.h"
#include "base/mp_json.h"
#include "base/mp_walk.h"
#include "node/gateway/api/operate_api.h"
#include "node/gateway/http/http_query.h"
#include "node/gateway/http/http_stream.h"

enum { ROOM = 640 << 10, PAIR_LEN = 256, DIGITS_MAX = 19 };

#define QUIET_NS INT64_C(10000000000)

/* What a stream keeps. */
struct telling {
    uint64_t after;   /* the event that it was told last */
    int64_t wrote_ns; /* when something was written last */
};
_Static_assert(sizeof(struct telling) <= HTTP_CONTEXT_LEN, "it has room");

/* ---- which events ---------------------------------------------------------------------------- */

static bool read_id(struct wire_text text, uint64_t *out)
{
    uint64_t number = 0;
    if (text.len == 0 || text.len > DIGITS_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        number = number * 10 + (unsigned)(text.data[i] - '0');
    }
    *out = number;
    return true;
}

/* The event behind which it begins. False, with what is wrong: what was named is none. */
static bool read_after(const struct http1_request *request, uint64_t *after, const char **wrong)
{
    const struct wire_text *last = http1_header(request, "Last-Event-ID");
    struct http_query query = {request->query};
    struct wire_text name;
    struct wire_text value;
    char room[PAIR_LEN];
    enum http_query_found found;
    *after = 0;
    while ((found = http_query_next(&query, room, sizeof room, &name, &value)) != HTTP_QUERY_END) {
        *wrong = "the query: expected after=ID and nothing else, the id of an event";
        if (found == HTTP_QUERY_BAD || name.len != 5 || memcmp(name.data, "after", 5) != 0 ||
            !read_id(value, after))
            return false;
    }
    *wrong = "Last-Event-ID: expected the id of an event";
    return last == NULL || last->len == 0 || read_id(*last, after);
}

static bool wants_stream(const struct http1_request *request)
{
    static const char type[] = "text/event-stream";
    const struct wire_text *accept = http1_header(request, "Accept");
    for (size_t i = 0; accept != NULL && i + sizeof type - 1 <= accept->len; i++)
        if (http1_same((struct wire_text){accept->data + i, sizeof type - 1}, wire_text_of(type)))
            return true;
    return false;
}

/* ---- a turn ---------------------------------------------------------------------------------- */

static void put(void *context, const char *data, size_t len)
{
    http_put(context, data, len);
}

static void put_event(struct http_reply *reply, const struct mp_token *row, size_t count)
{
    const struct mp_sink sink = {put, reply};
    const struct mp_token *id = mp_find(row, count, "id");
    char kind[8];
    mp_text_of(mp_find(row, count, "kind"), kind, sizeof kind);
    http_put_text(reply, "id: ");
    http_put_unsigned(reply, id != NULL && id->type == MP_UINT ? id->uint : 0);
    http_put_text(reply, "\nevent: ");
    http_put_text(reply, kind);
    http_put_text(reply, "\ndata: ");
    mp_json(&sink, row, mp_value_len(row, count)); /* in one line */
    http_put_text(reply, "\n\n");
}

static void put_events(struct http_reply *reply, const struct mp_token *tokens, size_t count)
{
    const struct mp_token *list = mp_find(tokens, count, "events");
    if (list == NULL || list->type != MP_ARRAY)
        return;
    const struct mp_token *row = list + 1;
    for (uint32_t i = 0; i < list->count; i++) {
        const size_t left = count - (size_t)(row - tokens);
        put_event(reply, row, left);
        row += mp_value_len(row, left);
    }
}

static void tell(struct http_completion *completion)
{
    struct telling *telling = completion->stream;
    const struct wire_value *said = &completion->admin->value;
    struct http_reply *reply = &completion->reply;
    if (telling == NULL || completion->admin->code != 0)
        return; /* it is asked again */
    const struct mp_token *last = mp_find(said->tokens, said->token_count, "last");
    const struct mp_token *missed = mp_find(said->tokens, said->token_count, "missed");
    http_chunk_begin(reply);
    if (missed != NULL && missed->type == MP_BOOL && missed->uint != 0)
        http_put_text(reply, "event: missed\ndata: {}\n\n");
    put_events(reply, said->tokens, said->token_count);
    if (reply->out->len == reply->body_at && completion->now_ns - telling->wrote_ns >= QUIET_NS)
        http_put_text(reply, ":\n\n");
    http_chunk_end(reply);
    if (!reply->done)
        return;
    telling->wrote_ns = completion->now_ns;
    if (last != NULL && last->type == MP_UINT)
        telling->after = last->uint;
}

static enum http_verdict go_on(struct http_exchange *exchange)
{
    const struct telling *telling = exchange->stream;
    struct mp_writer *writer;
    void *context;
    const enum http_verdict verdict =
        http_ask_admin(exchange, "events", ROOM, tell, &context, &writer);
    if (verdict != HTTP_ASKED)
        return verdict;
    mp_put_map(writer, 1);
    mp_put_str(writer, "after");
    mp_put_uint(writer, telling->after);
    return HTTP_ASKED;
}

enum http_verdict api_events(struct http_exchange *exchange)
{
    uint64_t after;
    const char *wrong;
    if (!wants_stream(exchange->request))
        return api_operate(exchange);
    if (!read_after(exchange->request, &after, &wrong)) {
        http_problem(&exchange->reply, 400, wrong);
        return HTTP_ANSWERED;
    }
    struct telling *telling = http_stream_begin(exchange, "text/event-stream", go_on);
    *telling = (struct telling){.after = after, .wrote_ns = exchange->now_ns};
    return HTTP_ANSWERED;
}
