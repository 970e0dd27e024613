/* page_look.c - see page_look.h.
 *
 *   request=api=/login user=ada --> attributes --> a question --> its answer as a table
 *
 * Attributes are apart by blanks; if they are on several lines, a line has one, which may have
 * blanks. Of a long request the form of the answer has nothing: a context keeps few bytes.
 */
#include "node/gateway/page/page_look.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp_walk.h"
#include "client/screen/screen.h"
#include "node/gateway/http/http_query.h"
#include "node/gateway/page/page_frame.h"
#include "node/gateway/page/page_text.h"

enum {
    ROOM = 512 << 10,
    REQUEST_LEN = 4 << 10,
    ERROR_LEN = 160,
    CELL_LEN = 512,
    RULES_SHOWN = 200,
    SEE_LEN = 6
};

/* What the answer needs to know. */
struct looked {
    char see[SEE_LEN];
    char asked[HTTP_CONTEXT_LEN - SEE_LEN]; /* "": it is too long */
};
_Static_assert(sizeof(struct looked) <= HTTP_CONTEXT_LEN, "it has room");

struct question {
    struct looked looked;
    char request[REQUEST_LEN]; /* as it was asked */
    char room[REQUEST_LEN];    /* of one pair of the query */
    uint32_t count;
    struct wire_text names[WIRE_ATTRIBUTES_MAX];
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
    char error[ERROR_LEN];
};

/* ---- the question ---------------------------------------------------------------------------- */

static bool is_text(struct wire_text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

/* Takes `request` and `see` of the query. */
static bool read_query(struct wire_text text, struct question *question)
{
    struct http_query query = {text};
    struct wire_text name;
    struct wire_text value;
    enum http_query_found found;
    while ((found = http_query_next(&query, question->room, sizeof question->room, &name,
                                    &value)) == HTTP_QUERY_PAIR) {
        if (is_text(name, "request") && value.len < sizeof question->request &&
            memchr(value.data, '\0', value.len) == NULL)
            (void)snprintf(question->request, sizeof question->request, "%.*s", (int)value.len,
                           value.data);
        else if (is_text(name, "see") &&
                 (is_text(value, "left") || is_text(value, "rules") || is_text(value, "owner")))
            (void)snprintf(question->looked.see, sizeof question->looked.see, "%.*s",
                           (int)value.len, value.data);
        else
            return false;
    }
    return found == HTTP_QUERY_END && question->looked.see[0] != '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Takes one attribute, NAME=VALUE. */
static bool take_attribute(const char *text, size_t len, struct question *question)
{
    const char *equals = memchr(text, '=', len);
    const size_t name_len = equals != NULL ? (size_t)(equals - text) : 0;
    if (name_len == 0 || name_len > WIRE_ATTRIBUTE_LEN_MAX || len - name_len - 1 > WIRE_VALUE_MAX) {
        (void)snprintf(question->error, sizeof question->error,
                       "found \"%.*s\", expected NAME=VALUE", len < 60 ? (int)len : 60, text);
        return false;
    }
    for (uint32_t i = 0; i < question->count; i++)
        if (question->names[i].len == name_len &&
            memcmp(question->names[i].data, text, name_len) == 0) {
            (void)snprintf(question->error, sizeof question->error, "found %.*s twice",
                           (int)name_len, text);
            return false;
        }
    if (question->count == WIRE_ATTRIBUTES_MAX) {
        (void)snprintf(question->error, sizeof question->error, "expected at most %d attributes",
                       (int)WIRE_ATTRIBUTES_MAX);
        return false;
    }
    question->names[question->count] = (struct wire_text){text, name_len};
    question->values[question->count++] =
        (struct wire_text){text + name_len + 1, len - name_len - 1};
    return true;
}

static bool read_attributes(struct question *question)
{
    const char *at = question->request;
    const char *end = at + strlen(at);
    while (at < end && is_blank(*at))
        at++;
    while (at < end && is_blank(end[-1]))
        end--;
    const bool lines = memchr(at, '\n', (size_t)(end - at)) != NULL;
    while (at < end) {
        const char *from = at;
        while (at < end && !(lines ? *at == '\n' : is_blank(*at)))
            at++;
        const char *until = at;
        while (until > from && is_blank(until[-1]))
            until--;
        while (from < until && is_blank(*from))
            from++;
        if (from < until && !take_attribute(from, (size_t)(until - from), question))
            return false;
        at += at < end;
    }
    if (question->count == 0)
        (void)snprintf(question->error, sizeof question->error,
                       "found no attribute, expected NAME=VALUE");
    return question->count > 0;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static struct page_frame frame_of(const struct http_facts *facts, const char *asked)
{
    return (struct page_frame){.verdict = "Ask", .node = facts->name, .asked = asked};
}

static void begin(struct http_reply *reply, const struct page_frame *frame)
{
    page_begin(reply, frame);
    page_put(reply, "<p><a href=\"/\">back to the cluster</a></p>\n");
    if (frame->asked == NULL || frame->asked[0] == '\0')
        return;
    page_put(reply, "<h2>");
    page_put_text(reply, frame->asked);
    page_put(reply, "</h2>\n");
}

static void put_sentence(struct http_reply *reply, bool ill, const char *label, const char *text)
{
    page_put(reply, ill ? "<div class=\"verdict ill\"><p><b>" : "<div class=\"verdict\"><p><b>");
    page_put_text(reply, label);
    page_put(reply, "</b> ");
    page_put_text(reply, text);
    page_put(reply, "</p></div>\n");
}

/* A page that says what is wrong. */
static void show_error(struct http_reply *reply, const struct http_facts *facts, const char *asked,
                       const char *error)
{
    const struct page_frame frame = frame_of(facts, asked);
    begin(reply, &frame);
    put_sentence(reply, true, "not asked:", error);
    page_end(reply, &frame);
}

static void begin_table(struct http_reply *reply, const char *caption, const char *const *columns)
{
    page_put(reply, "<div class=\"wide\"><table><caption>");
    page_put(reply, caption);
    page_put(reply, "</caption><thead><tr>");
    for (; *columns != NULL; columns++) {
        page_put(reply, "<th scope=\"col\">");
        page_put(reply, *columns);
        page_put(reply, "</th>");
    }
    page_put(reply, "</tr></thead><tbody>\n");
}

static void put_cell(struct http_reply *reply, const char *text)
{
    page_put(reply, "<td>");
    page_put_text(reply, text);
    page_put(reply, "</td>");
}

static void put_text_cell(struct http_reply *reply, struct wire_text text)
{
    page_put(reply, "<td class=\"name\">");
    page_put_bytes(reply, text.data, text.len);
    page_put(reply, "</td>");
}

static void end_table(struct http_reply *reply)
{
    page_put(reply, "</tbody></table></div>\n");
}

/* ---- what is left ---------------------------------------------------------------------------- */

static void put_limit(struct http_reply *reply, const struct wire_explain_row *row)
{
    char word[SCREEN_WORD_LEN];
    page_put(reply, row->allowed ? "<tr>" : "<tr class=\"ill\">");
    put_text_cell(reply, row->rule);
    put_text_cell(reply, row->window);
    put_cell(reply, screen_count(row->limit, word));
    put_cell(reply, screen_count(row->used, word));
    put_cell(reply, screen_count(row->remaining, word));
    put_cell(reply, row->allowed ? "yes" : "no");
    put_cell(reply,
             row->retry_after_ms < 0 ? "never" : screen_span((uint64_t)row->retry_after_ms, word));
    put_cell(reply,
             row->reset_after_ms < 0 ? "never" : screen_span((uint64_t)row->reset_after_ms, word));
    page_put(reply, "</tr>\n");
}

static void answer_left(struct http_completion *completion)
{
    static const char *const columns[] = {"RULE",   "WINDOW",   "LIMIT",       "USED", "LEFT",
                                          "ALLOWS", "AGAIN IN", "ALL BACK IN", NULL};
    const struct looked *looked = completion->context;
    const struct wire_explain *explain = completion->decisions->explain;
    const struct page_frame frame = frame_of(completion->facts, looked->asked);
    struct http_reply *reply = &completion->reply;
    struct wire_decision decision;
    char text[CELL_LEN];
    http_decision(completion, 0, &decision);
    const struct wire_source *source = decision.source;
    (void)snprintf(text, sizeof text, "%s%s%.*s%s%.*s%s", outcome_name(decision.outcome),
                   source != NULL && source->rule.len > 0 ? ", by rule " : "",
                   source != NULL ? (int)source->rule.len : 0,
                   source != NULL ? source->rule.data : "",
                   source != NULL && source->node.len > 0 ? "; decided by " : "",
                   source != NULL ? (int)source->node.len : 0,
                   source != NULL ? source->node.data : "", decision.degraded ? ", degraded" : "");
    begin(reply, &frame);
    put_sentence(reply, !decision.allowed, decision.allowed ? "ALLOWED now:" : "DENIED now:", text);
    if (explain != NULL && explain->end[0] > 0) {
        begin_table(reply, "Limits that count it; nothing was charged by this question", columns);
        for (uint32_t i = 0; i < explain->end[0]; i++)
            put_limit(reply, &explain->rows[i]);
        end_table(reply);
    }
    page_end(reply, &frame);
}

static enum http_verdict ask_left(struct http_exchange *exchange, const struct question *question)
{
    const struct http_ask ask = {
        .count = 1, .room = ROOM, .explain = true, .complete = answer_left};
    void *context;
    const enum http_verdict verdict = http_ask_begin(exchange, &ask, &context);
    if (verdict != HTTP_ASKED)
        return verdict;
    memcpy(context, &question->looked, sizeof question->looked);
    int number =
        wire_checks_builder_attributes(exchange->builder, question->names, question->count);
    if (number >= 0)
        number = wire_checks_builder_append(exchange->builder, (uint32_t)number, OPERATION_PEEK, 1,
                                            question->values, question->count);
    if (number == TG_EFULL)
        return http_ask_full(exchange);
    if (number >= 0)
        return HTTP_ASKED;
    http_ask_cancel(exchange); /* all that the builder bounds was read within its bounds */
    http_problem(&exchange->reply, 400, "an attribute is beyond its bound");
    return HTTP_ANSWERED;
}

/* ---- which rules act, who decides ------------------------------------------------------------ */

static void put_scalar(struct http_reply *reply, const struct mp_token *token)
{
    char text[CELL_LEN] = "";
    if (token->type == MP_BOOL)
        (void)snprintf(text, sizeof text, "%s", token->uint != 0 ? "yes" : "no");
    else if (token->type == MP_UINT)
        (void)screen_count(token->uint, text);
    else
        mp_text_of(token, text, sizeof text);
    page_put_text(reply, text);
}

/* A field of a row: a text, a flag, a number, or a list of these, apart by commas. */
static void put_field(struct http_reply *reply, const struct mp_token *row, size_t count,
                      const char *name)
{
    const struct mp_token *token = mp_find(row, count, name);
    page_put(reply, "<td>");
    if (token != NULL && token->type != MP_ARRAY)
        put_scalar(reply, token);
    for (uint32_t i = 0; token != NULL && token->type == MP_ARRAY && i < token->count; i++) {
        page_put(reply, i > 0 ? ", " : "");
        put_scalar(reply, &token[1 + i]); /* its elements are scalars: a token each */
    }
    page_put(reply, "</td>");
}

/* A table of the maps in a list, with these fields under those columns. */
static void put_list(struct http_reply *reply, const char *caption, const struct mp_token *list,
                     size_t count, const char *const *columns, const char *const *fields)
{
    if (list == NULL || list->type != MP_ARRAY || list->count == 0)
        return;
    begin_table(reply, caption, columns);
    const struct mp_token *row = list + 1;
    for (uint32_t i = 0; i < list->count && i < RULES_SHOWN; i++) {
        const size_t left = count - (size_t)(row - list);
        page_put(reply, "<tr>");
        for (const char *const *field = fields; *field != NULL; field++)
            put_field(reply, row, left, *field);
        page_put(reply, "</tr>\n");
        row += mp_value_len(row, left);
    }
    end_table(reply);
}

static void put_rules(struct http_reply *reply, const struct mp_token *tokens, size_t count)
{
    static const char *const limits[] = {"RULE", "WINDOW", "ALGORITHM", "ON TRIAL", "KEY", NULL};
    static const char *const limit_fields[] = {"rule",   "window", "algorithm",
                                               "shadow", "key",    NULL};
    static const char *const rules[] = {"RULE", "ACTS", "BECAUSE", NULL};
    static const char *const rule_fields[] = {"name", "acts", "because", NULL};
    const struct mp_token *blocked = mp_find(tokens, count, "blocked");
    const struct mp_token *list = mp_find(tokens, count, "limits");
    char action[32];
    mp_text_of(mp_find(tokens, count, "action"), action, sizeof action);
    if (blocked != NULL && blocked->type == MP_MAP)
        put_sentence(reply, true, "blocked", "before any rule is looked at");
    else
        put_sentence(reply, strcmp(action, "deny") == 0,
                     "by the rules:", strcmp(action, "limits") == 0 ? "its limits decide" : action);
    put_list(reply, "Limits that count it", list,
             list != NULL ? count - (size_t)(list - tokens) : 0, limits, limit_fields);
    list = mp_find(tokens, count, "rules");
    put_list(reply, "Rules", list, list != NULL ? count - (size_t)(list - tokens) : 0, rules,
             rule_fields);
}

static void put_owners(struct http_reply *reply, const struct mp_token *tokens, size_t count)
{
    static const char *const columns[] = {"RULE",      "WINDOW",        "DECIDES", "OWNER",
                                          "COPIES AT", "OF THESE DEAD", "VNODE",   NULL};
    static const char *const fields[] = {"rule",     "window", "decider", "owner",
                                         "replicas", "dead",   "vnode",   NULL};
    if (tokens->type == MP_ARRAY && tokens->count == 0)
        put_sentence(reply, false, "nobody:", "no limit counts it");
    put_list(reply, "Who counts and decides", tokens, count, columns, fields);
}

static void answer_admin(struct http_completion *completion)
{
    const struct looked *looked = completion->context;
    const struct wire_value *said = &completion->admin->value;
    const struct page_frame frame = frame_of(completion->facts, looked->asked);
    struct http_reply *reply = &completion->reply;
    char error[CELL_LEN];
    if (completion->admin->code != 0) {
        mp_text_of(said->tokens, error, sizeof error);
        show_error(reply, completion->facts, looked->asked, error);
        return;
    }
    begin(reply, &frame);
    if (strcmp(looked->see, "rules") == 0)
        put_rules(reply, said->tokens, said->token_count);
    else
        put_owners(reply, said->tokens, said->token_count);
    page_end(reply, &frame);
}

static enum http_verdict ask_admin(struct http_exchange *exchange, const struct question *question)
{
    const bool rules = strcmp(question->looked.see, "rules") == 0;
    struct mp_writer *writer;
    void *context;
    const enum http_verdict verdict = http_ask_admin(exchange, rules ? "rules.explain" : "owner",
                                                     ROOM, answer_admin, &context, &writer);
    if (verdict != HTTP_ASKED)
        return verdict;
    memcpy(context, &question->looked, sizeof question->looked);
    mp_put_map(writer, 1);
    mp_put_str(writer, "attributes");
    mp_put_map(writer, question->count);
    for (uint32_t i = 0; i < question->count; i++) {
        mp_put_strn(writer, question->names[i].data, question->names[i].len);
        mp_put_strn(writer, question->values[i].data, question->values[i].len);
    }
    return HTTP_ASKED;
}

/* ---- the handler ----------------------------------------------------------------------------- */

enum http_verdict page_look(struct http_exchange *exchange)
{
    struct question question = {.count = 0};
    enum http_verdict verdict;
    if (!read_query(exchange->request->query, &question)) {
        http_problem(&exchange->reply, 400,
                     "the query: expected request=NAME=VALUE ... and see=left, rules or owner");
        return HTTP_ANSWERED;
    }
    if (strlen(question.request) < sizeof question.looked.asked)
        memcpy(question.looked.asked, question.request, strlen(question.request));
    if (!read_attributes(&question)) {
        if (!http_room(exchange, ROOM, &verdict))
            return verdict;
        show_error(&exchange->reply, exchange->facts, question.request, question.error);
        return HTTP_ANSWERED;
    }
    return strcmp(question.looked.see, "left") == 0 ? ask_left(exchange, &question)
                                                    : ask_admin(exchange, &question);
}
