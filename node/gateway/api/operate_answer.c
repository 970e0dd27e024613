/* operate_answer.c - see operate_answer.h.
 *
 *   code < 0                a problem, its detail the node's sentence
 *   a list                  {"members": [...]}
 *   something with a base   the same with ETag: "BASE"; 304 for whoever has that
 *   an edit   done          200; of an API key 201, with the key
 *             conflict      412 where the request said what it is based on, else 409
 *             unavailable   503     doubt   504
 *             waiting       202, and Location says where it is told of
 *   rules that do not compile, of an edit   400, with line, column and all mistakes
 */
#include "node/gateway/api/operate_answer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp_json.h"
#include "base/mp_walk.h"

enum {
    STATUS_OK = 200,
    STATUS_CREATED = 201,
    STATUS_ACCEPTED = 202,
    STATUS_UNCHANGED = 304,
    STATUS_BAD = 400,
    STATUS_UNFIT = 406,
    STATUS_CONFLICT = 409,
    STATUS_FAILED = 412,
    STATUS_BUSY = 503,
    STATUS_DOUBT = 504,
    TAG_LEN = 24,
    PLACE_LEN = 64
};

static_assert(sizeof(struct operate_asked) <= HTTP_CONTEXT_LEN, "a question keeps it");

/* ---- reading answers ------------------------------------------------------------------------- */

/* What the answer, a map, has under that name, if it is of that type; else NULL. */
static const struct mp_token *find(const struct wire_admin_reply *reply, const char *name,
                                   enum mp_type type)
{
    const struct mp_token *found = mp_find(reply->value.tokens, reply->value.token_count, name);
    return found != NULL && found->type == type ? found : NULL;
}

static struct wire_text text_in(const struct mp_token *token)
{
    if (token == NULL)
        return (struct wire_text){.data = NULL, .len = 0};
    return (struct wire_text){(const char *)token->data, token->count};
}

static struct wire_text text_of(const struct wire_admin_reply *reply, const char *name)
{
    return text_in(find(reply, name, MP_STR));
}

static bool number_of(const struct wire_admin_reply *reply, const char *name, uint64_t *out)
{
    const struct mp_token *found = find(reply, name, MP_UINT);
    *out = found != NULL ? found->uint : 0;
    return found != NULL;
}

/* Whether the flag is there, and false. */
static bool is_false(const struct wire_admin_reply *reply, const char *name)
{
    const struct mp_token *found = find(reply, name, MP_BOOL);
    return found != NULL && found->uint == 0;
}

static bool is_word(struct wire_text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_piece(void *reply, const char *data, size_t len)
{
    http_put(reply, data, len);
}

static void put_value(struct http_reply *reply, const struct mp_token *tokens, size_t count)
{
    const struct mp_sink sink = {put_piece, reply};
    mp_json(&sink, tokens, count);
}

/* A member that the answer has, behind a comma. */
static void put_member(struct http_reply *reply, const struct wire_admin_reply *answer,
                       const char *name)
{
    const struct wire_value *value = &answer->value;
    const struct mp_token *found = mp_find(value->tokens, value->token_count, name);
    if (found == NULL)
        return;
    http_put_text(reply, ",\"");
    http_put_text(reply, name);
    http_put_text(reply, "\":");
    put_value(reply, found, value->token_count - (size_t)(found - value->tokens));
}

static void put_tag(struct http_reply *reply, uint64_t base)
{
    char tag[TAG_LEN];
    (void)snprintf(tag, sizeof tag, "\"%llu\"", (unsigned long long)base);
    http_reply_header(reply, "ETag", tag);
}

/* ---- edits ----------------------------------------------------------------------------------- */

static unsigned status_of(struct wire_text state, const struct operate_asked *asked)
{
    if (is_word(state, "done"))
        return asked->key[0] != '\0' ? STATUS_CREATED : STATUS_OK;
    if (is_word(state, "conflict"))
        return asked->based ? STATUS_FAILED : STATUS_CONFLICT;
    if (is_word(state, "unavailable"))
        return STATUS_BUSY;
    return is_word(state, "doubt") ? STATUS_DOUBT : STATUS_ACCEPTED;
}

/* The key that may yet be made: nothing else ever shows it. */
static void put_key(struct http_reply *reply, const struct operate_asked *asked)
{
    http_put_text(reply, "\"key\":");
    http_put_string(reply, wire_text_of(asked->key));
    http_put_text(reply, ",\"key_id\":");
    http_put_string(reply,
                    (struct wire_text){asked->key + sizeof API_KEY_PREFIX - 1, API_KEY_ID_LEN});
}

/* What became of an edit that is not done. */
static void put_failure(struct http_reply *reply, const struct operate_asked *asked,
                        const struct wire_admin_reply *answer)
{
    static const char *const members[] = {"id", "state", "version"};
    const struct wire_text said = text_of(answer, "message");
    const char *none = "the edit is not decided in time; whether it is made is not known";
    http_problem_body(reply, NULL, said.len > 0 ? said : wire_text_of(none));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        put_member(reply, answer, members[i]);
    if (reply->status == STATUS_DOUBT && asked->key[0] != '\0') {
        http_put_text(reply, ",");
        put_key(reply, asked);
    }
    http_problem_end(reply);
}

static void put_edit(struct http_reply *reply, const struct operate_asked *asked,
                     const struct wire_admin_reply *answer, struct wire_text state)
{
    const unsigned status = status_of(state, asked);
    char place[PLACE_LEN];
    uint64_t base;
    http_reply_begin(reply, status);
    if (status == STATUS_BUSY)
        http_reply_header(reply, "Retry-After", "1");
    if (status >= STATUS_BAD) {
        put_failure(reply, asked, answer);
        return;
    }
    (void)snprintf(place, sizeof place, "/v1/edits/%s", asked->id);
    if (status == STATUS_ACCEPTED)
        http_reply_header(reply, "Location", place);
    else if (number_of(answer, "base", &base))
        put_tag(reply, base);
    http_reply_body(reply, "application/json");
    if (asked->key[0] != '\0') {
        http_put_text(reply, "{");
        put_key(reply, asked);
        put_member(reply, answer, "id");
        put_member(reply, answer, "state");
        put_member(reply, answer, "version");
        http_put_text(reply, "}\n");
    } else {
        put_value(reply, answer->value.tokens, answer->value.token_count);
        http_put_text(reply, "\n");
    }
    http_reply_end(reply);
}

/* ---- all answers ----------------------------------------------------------------------------- */

static void put_refusal(struct http_reply *reply, const struct operate_asked *asked,
                        const struct wire_admin_reply *answer)
{
    static const char packed[] = "the document is too long for this; expected Accept: "
                                 "application/yaml and Accept-Encoding: gzip";
    static const char plain[] = "the document is too long for this; expected its gzip, with "
                                "Content-Type: application/yaml and Content-Encoding: gzip";
    const bool document = (asked->call->flags & OPERATE_DOCUMENT) != 0;
    const bool shown = (asked->call->flags & OPERATE_TAGGED) != 0;
    const struct mp_token *sentence = answer->value.tokens;
    struct wire_text said = text_in(sentence->type == MP_STR ? sentence : NULL);
    unsigned status = http_status_of(answer->code);
    if (document && answer->code == TG_ETOOBIG) {
        said = wire_text_of(shown ? packed : plain);
        status = shown ? STATUS_UNFIT : status;
    }
    http_reply_begin(reply, status);
    if (status == STATUS_BUSY)
        http_reply_header(reply, "Retry-After", "1");
    http_problem_body(reply, NULL, said);
    if (asked->id[0] != '\0' && answer->code == TG_ETIMEOUT) {
        http_put_text(reply, ",\"id\":");
        http_put_string(reply, wire_text_of(asked->id));
        http_put_text(reply, asked->key[0] != '\0' ? "," : "");
        if (asked->key[0] != '\0')
            put_key(reply, asked);
    }
    http_problem_end(reply);
}

/* Rules that were to be applied, and do not compile. */
static void put_mistakes(struct http_reply *reply, const struct wire_admin_reply *answer)
{
    static const char *const members[] = {"line", "column", "errors", "more"};
    char detail[HTTP_ROOM / 4];
    uint64_t line = 0;
    uint64_t column = 0;
    const struct wire_text said = text_of(answer, "message");
    (void)number_of(answer, "line", &line);
    (void)number_of(answer, "column", &column);
    (void)snprintf(detail, sizeof detail, "rules:%llu:%llu: %.*s", (unsigned long long)line,
                   (unsigned long long)column, (int)said.len, said.data);
    http_reply_begin(reply, STATUS_BAD);
    http_problem_body(reply, NULL, wire_text_of(detail));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        put_member(reply, answer, members[i]);
    http_problem_end(reply);
}

/* The document itself; false: the answer has none, or none that who asks can read. */
static bool put_document(struct http_reply *reply, const struct operate_asked *asked,
                         const struct wire_admin_reply *answer)
{
    const struct mp_token *text = find(answer, "text", MP_STR);
    const struct mp_token *packed = asked->gzip ? find(answer, "packed", MP_BIN) : NULL;
    const struct mp_token *document = text != NULL ? text : packed;
    if (document == NULL)
        return false;
    if (document == packed)
        http_reply_header(reply, "Content-Encoding", "gzip");
    http_reply_header(reply, "Vary", "Accept, Accept-Encoding");
    http_reply_body(reply, "application/yaml");
    http_put(reply, document->data, document->count);
    http_reply_end(reply);
    return true;
}

static void put_shown(struct http_reply *reply, const struct operate_asked *asked,
                      const struct wire_admin_reply *answer)
{
    uint64_t base;
    const bool tagged = (asked->call->flags & OPERATE_TAGGED) != 0;
    const bool has_base = tagged && number_of(answer, "base", &base);
    const bool same = has_base && asked->known && asked->version == base;
    http_reply_begin(reply, same ? STATUS_UNCHANGED : STATUS_OK);
    if (has_base)
        put_tag(reply, base);
    if (same) {
        http_reply_end(reply);
        return;
    }
    if (asked->yaml && put_document(reply, asked, answer))
        return;
    http_reply_body(reply, "application/json");
    if (asked->call->list != NULL) {
        http_put_text(reply, "{\"");
        http_put_text(reply, asked->call->list);
        http_put_text(reply, "\":");
    }
    put_value(reply, answer->value.tokens, answer->value.token_count);
    http_put_text(reply, asked->call->list != NULL ? "}\n" : "\n");
    http_reply_end(reply);
}

void operate_answer(struct http_completion *completion)
{
    const struct operate_asked *asked = completion->context;
    const struct wire_admin_reply *answer = completion->admin;
    struct http_reply *reply = &completion->reply;
    ASSERT(answer != NULL && asked->call != NULL);
    const struct wire_text state = text_of(answer, "state");
    const bool edits = (asked->call->flags & OPERATE_EDITS) != 0;
    if (answer->code != 0)
        put_refusal(reply, asked, answer);
    else if (edits && is_false(answer, "ok"))
        put_mistakes(reply, answer);
    else if (edits && state.data != NULL)
        put_edit(reply, asked, answer, state);
    else
        put_shown(reply, asked, answer);
}
