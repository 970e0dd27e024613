/* operate_api.c - an operator's call: its question, and in operate_answer.c its answer.
 *
 *   request --operate_read--> values --put--> the command's arguments ... --> operate_answer
 *                               + id, author, base, wait, of an edit
 *
 * An edit has an id, by which it is made once. It is that of the Idempotency-Key, the path, the
 * body and what the edit is based on; without that key no other request has it.
 */
#include "node/gateway/api/operate_api.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/digest.h"
#include "base/mp.h"
#include "node/gateway/api/operate_answer.h"
#include "node/gateway/api/operate_read.h"
#include "node/gateway/http/http_batch.h"
#include "node/gateway/http/http_routes.h"

enum {
    STATUS_BAD = 400,
    SMALL_ROOM = 16 << 10, /* of a response, */
    LARGE_ROOM = 1 << 20,  /* of a list, */
    HUGE_ROOM = 4 << 20,   /* of all that a message has, as JSON */
    ID_DIGITS = 32,        /* of an edit */
    RETRY_KEY_MAX = 256,
    AUTHOR_LEN = 129, /* that of an edit may have, and a NUL */
    TAG_LEN_MAX = 22  /* 20 digits in quotes */
};

/* A question before it is asked. */
struct question {
    const struct operate_call *call;
    struct operate_values values;
    struct operate_asked *asked;
    bool has_base;
    uint64_t base;
    char id[DIGEST_TEXT_LEN + 1]; /* of an edit: the first digits count */
    char author[AUTHOR_LEN];
    char digest[DIGEST_TEXT_LEN + 1]; /* of the API key that is made */
    char error[JSON_ERROR_LEN];
};

/* ---- preconditions --------------------------------------------------------------------------- */

/* Reads `"12"`, as ETag has it. */
static bool read_tag(struct wire_text value, uint64_t *out)
{
    *out = 0;
    if (value.len < 3 || value.len > TAG_LEN_MAX || value.data[0] != '"' ||
        value.data[value.len - 1] != '"')
        return false;
    for (size_t i = 1; i + 1 < value.len; i++) {
        const unsigned digit = (unsigned)(value.data[i] - '0');
        if (digit > 9 || *out > (UINT64_MAX - digit) / 10)
            return false;
        *out = *out * 10 + digit;
    }
    return true;
}

/* If-Match: the version that an edit replaces. If-None-Match: *, there is none yet. */
static bool read_base(const struct wire_text *match, const struct wire_text *none,
                      struct question *question)
{
    const char *wrong = NULL;
    if (match != NULL && none != NULL)
        wrong = "found If-Match and If-None-Match, expected one of them";
    else if (match != NULL && !read_tag(*match, &question->base))
        wrong = "If-Match: expected one ETag of an answer";
    else if (none != NULL && (none->len != 1 || none->data[0] != '*'))
        wrong = "If-None-Match: of an edit expected *";
    question->has_base = question->asked->based = wrong == NULL && (match != NULL || none != NULL);
    if (wrong != NULL)
        (void)snprintf(question->error, sizeof question->error, "%s", wrong);
    return wrong == NULL;
}

/* Reads If-Match and If-None-Match; of what is only shown the latter says which version who asks
 * has, and is passed over where it says anything else. */
static bool read_preconditions(const struct http1_request *request, struct question *question)
{
    static const char *const names[] = {"If-Match", "If-None-Match", "Idempotency-Key"};
    const struct wire_text *match = http1_header(request, "If-Match");
    const struct wire_text *none = http1_header(request, "If-None-Match");
    struct operate_asked *asked = question->asked;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (http1_count(request, names[i]) <= 1)
            continue;
        (void)snprintf(question->error, sizeof question->error, "%s: found it twice, expected once",
                       names[i]);
        return false;
    }
    if ((question->call->flags & OPERATE_EDITS) != 0)
        return read_base(match, none, question);
    if (none == NULL)
        return true;
    const bool weak = none->len > 2 && memcmp(none->data, "W/", 2) == 0;
    const size_t from = weak ? 2 : 0;
    asked->known =
        read_tag((struct wire_text){none->data + from, none->len - from}, &asked->version);
    return true;
}

/* Whether the list in a header has the word, and not with a weight of nothing. */
static bool has_word(const struct http1_request *request, const char *header, const char *word)
{
    const struct wire_text *value = http1_header(request, header);
    const size_t len = strlen(word);
    for (size_t i = 0; value != NULL && i + len <= value->len; i++) {
        if (!http1_same((struct wire_text){value->data + i, len}, wire_text_of(word)))
            continue;
        char rest[16];
        const size_t left = value->len - i - len;
        (void)snprintf(rest, sizeof rest, "%.*s", left < sizeof rest ? (int)left : 15,
                       value->data + i + len);
        const char *weight = strstr(rest, ";q=0");
        return weight == NULL || weight[4] == '.';
    }
    return false;
}

/* ---- edits ----------------------------------------------------------------------------------- */

/* The id of the edit. False: there is a key, and it is none. */
static bool make_id(const struct http_exchange *exchange, struct question *question)
{
    struct {
        struct digest key;
        struct digest target;
        struct digest body;
        uint64_t method;
        uint64_t base;
    } named;
    struct digest digest;
    const struct http1_request *request = exchange->request;
    const struct wire_text *key = http1_header(request, "Idempotency-Key");
    const bool makes = (question->call->flags & OPERATE_MAKES) != 0;
    if (key == NULL) {
        http_ask_secret(exchange, 0, &digest);
    } else if (makes) {
        (void)snprintf(question->error, sizeof question->error,
                       "Idempotency-Key: expected none, for an API key is shown once; if it was "
                       "lost, delete it and make another");
        return false;
    } else if (key->len == 0 || key->len > RETRY_KEY_MAX) {
        (void)snprintf(question->error, sizeof question->error,
                       "Idempotency-Key: expected one, of 1 to %d bytes", (int)RETRY_KEY_MAX);
        return false;
    } else {
        memset(&named, 0, sizeof named);
        digest_make(key->data, key->len, &named.key);
        digest_make(request->target.data, request->target.len, &named.target);
        digest_make(request->body.data, request->body.len, &named.body);
        named.method = (uint64_t)request->method;
        named.base = question->has_base ? question->base : UINT64_MAX;
        digest_make(&named, sizeof named, &digest);
    }
    digest_format(&digest, question->id);
    question->id[ID_DIGITS] = '\0';
    memcpy(question->asked->id, question->id, ID_DIGITS + 1);
    return true;
}

/* Makes an API key: its text for the answer, its digest for the cluster. */
static void make_key(const struct http_exchange *exchange, struct question *question)
{
    uint8_t random[2 * DIGEST_LEN];
    struct digest digest;
    _Static_assert(sizeof random >= API_KEY_ID_LEN + API_KEY_SECRET_LEN, "five bits of each");
    for (uint8_t i = 0; i < 2; i++) {
        http_ask_secret(exchange, (uint8_t)(i + 1), &digest);
        memcpy(random + i * DIGEST_LEN, digest.bytes, DIGEST_LEN);
    }
    api_key_write(random, question->asked->key);
    digest_make(question->asked->key, API_KEY_LEN, &digest);
    digest_format(&digest, question->digest);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void put_text(struct mp_writer *writer, const char *name, const char *text, size_t len)
{
    mp_put_str(writer, name);
    mp_put_strn(writer, text, len);
}

static void put_pairs(struct mp_writer *writer, const struct operate_values *values)
{
    mp_put_map(writer, values->pair_count);
    for (uint32_t i = 0; i < values->pair_count; i++) {
        mp_put_strn(writer, values->names[i].data, values->names[i].len);
        mp_put_strn(writer, values->values[i].data, values->values[i].len);
    }
}

static void put_value(struct mp_writer *writer, const struct operate_field *field,
                      const struct operate_values *values, const struct operate_value *value)
{
    mp_put_str(writer, field->argument != NULL ? field->argument : field->name);
    switch (field->kind) {
    case OPERATE_TEXT:
    case OPERATE_RATES:
        mp_put_strn(writer, value->text.data, value->text.len);
        return;
    case OPERATE_NUMBER:
    case OPERATE_SPAN:
        mp_put_uint(writer, value->number);
        return;
    case OPERATE_FLAG:
        mp_put_bool(writer, value->number != 0);
        return;
    case OPERATE_SHARE:
        mp_put_real(writer, value->share);
        return;
    case OPERATE_ATTRIBUTES:
        put_pairs(writer, values);
        return;
    case OPERATE_KINDS:
        break;
    }
    ASSERT(false);
}

/* id, author, note, base, wait. */
static void put_edit(struct mp_writer *writer, const struct question *question)
{
    const struct operate_value *author = &question->values.of_edits[0];
    const struct operate_value *note = &question->values.of_edits[1];
    put_text(writer, "id", question->id, ID_DIGITS);
    put_text(writer, "author", author->text.data, author->text.len); /* it is signed */
    put_text(writer, "note", note->given ? note->text.data : "", note->given ? note->text.len : 0);
    mp_put_str(writer, "wait");
    mp_put_bool(writer, true);
    if (question->has_base) {
        mp_put_str(writer, "base");
        mp_put_uint(writer, question->base);
    }
}

static void put_arguments(struct mp_writer *writer, const struct question *question)
{
    enum { OF_EDIT = 4 };
    const struct operate_call *call = question->call;
    const struct operate_values *values = &question->values;
    const bool edits = (call->flags & OPERATE_EDITS) != 0;
    const bool makes = (call->flags & OPERATE_MAKES) != 0;
    const bool takes_gzip = (call->flags & (OPERATE_DOCUMENT | OPERATE_TAGGED)) ==
                                (OPERATE_DOCUMENT | OPERATE_TAGGED) &&
                            question->asked->yaml && question->asked->gzip;
    uint32_t count = (edits ? OF_EDIT + (uint32_t)question->has_base : 0U) + (makes ? 2U : 0U);
    count += (values->packed.data != NULL) + (uint32_t)takes_gzip;
    for (uint32_t i = 0; i < call->field_count; i++)
        count += values->of[i].given;
    mp_put_map(writer, count);
    for (uint32_t i = 0; i < call->field_count; i++)
        if (values->of[i].given)
            put_value(writer, &call->fields[i], values, &values->of[i]);
    if (values->packed.data != NULL) {
        mp_put_str(writer, "packed");
        mp_put_bin(writer, values->packed.data, values->packed.len);
    }
    if (takes_gzip) {
        mp_put_str(writer, "packed");
        mp_put_bool(writer, true);
    }
    if (edits)
        put_edit(writer, question);
    if (makes) {
        put_text(writer, "key", question->asked->key + sizeof API_KEY_PREFIX - 1, API_KEY_ID_LEN);
        put_text(writer, "digest", question->digest, DIGEST_TEXT_LEN);
    }
}

/* ---- the handler ----------------------------------------------------------------------------- */

static enum http_verdict refuse(struct http_exchange *exchange, unsigned status, const char *detail)
{
    http_ask_cancel(exchange);
    http_problem(&exchange->reply, status, detail);
    return HTTP_ANSWERED;
}

/* "http 10.0.0.7", and whose token it is: where the request comes from, without its port. */
static void write_author(const struct http_exchange *exchange, char out[AUTHOR_LEN])
{
    const char *address = exchange->peer->base.address;
    const struct credential *credential = exchange->access.credential;
    const char *colon = strrchr(address, ':');
    const int len = colon != NULL ? (int)(colon - address) : (int)strlen(address);
    (void)snprintf(out, AUTHOR_LEN, "%.*s%shttp %.*s",
                   credential != NULL ? (int)credential->name.len : 0,
                   credential != NULL ? credential->name.data : "", credential != NULL ? ", " : "",
                   len, address);
}

/* Whoever shows a credential cannot sign as somebody else alone. False: there is no room. */
static bool add_name(const struct credential *credential, struct operate_value *author,
                     char out[AUTHOR_LEN])
{
    if (credential == NULL)
        return true;
    const int len = snprintf(out, AUTHOR_LEN, "%.*s, for %.*s", (int)credential->name.len,
                             credential->name.data, (int)author->text.len, author->text.data);
    author->text = wire_text_of(out);
    return len < AUTHOR_LEN;
}

/* Says who asks where the request does not: of an edit, and of what is told to a log. */
static bool sign(const struct http_exchange *exchange, struct question *question)
{
    const struct operate_call *call = question->call;
    const struct credential *credential = exchange->access.credential;
    struct operate_value *author =
        (call->flags & OPERATE_EDITS) != 0 ? &question->values.of_edits[0] : NULL;
    for (uint32_t i = 0; i < call->field_count && author == NULL; i++)
        if (strcmp(call->fields[i].name, "author") == 0)
            author = &question->values.of[i];
    if (author == NULL)
        return true;
    if (author->given)
        return add_name(credential, author, question->author);
    *author = (struct operate_value){.given = true, .text = wire_text_of(question->author)};
    return true;
}

enum http_verdict api_operate(struct http_exchange *exchange)
{
    const struct http1_request *request = exchange->request;
    struct question question = {.call = exchange->route->call};
    const struct operate_call *call = question.call;
    struct mp_writer *writer;
    void *context;
    ASSERT(call != NULL);
    const size_t room = (call->flags & OPERATE_HUGE) != 0    ? HUGE_ROOM
                        : (call->flags & OPERATE_LARGE) != 0 ? LARGE_ROOM
                                                             : SMALL_ROOM;
    const enum http_verdict verdict =
        http_ask_admin(exchange, call->command, room, operate_answer, &context, &writer);
    if (verdict != HTTP_ASKED)
        return verdict;
    question.asked = context;
    *question.asked = (struct operate_asked){
        .call = call,
        .yaml = (call->flags & OPERATE_DOCUMENT) != 0 && has_word(request, "Accept", "yaml"),
        .gzip = has_word(request, "Accept-Encoding", "gzip"),
    };
    write_author(exchange, question.author);
    if (!operate_read(exchange, call, exchange->room, HTTP_ADMIN_ROOM, &question.values,
                      question.error) ||
        !read_preconditions(request, &question) ||
        ((call->flags & OPERATE_EDITS) != 0 && !make_id(exchange, &question)))
        return refuse(exchange, STATUS_BAD, question.error);
    if ((call->flags & OPERATE_MAKES) != 0)
        make_key(exchange, &question);
    if (!sign(exchange, &question))
        return refuse(exchange, STATUS_BAD,
                      "author: too long; expected at most 128 bytes with the credential's name");
    put_arguments(writer, &question);
    if (writer->failed)
        return refuse(exchange, 413,
                      "the rules are larger than a message may be; expected them packed: "
                      "Content-Type: application/yaml, Content-Encoding: gzip");
    return HTTP_ASKED;
}
