/* operate_read.c - see operate_read.h.
 *
 *   path    /v1/apikeys/{key}        the names in the pattern are those of fields
 *   query   ?after=ada               GET, HEAD, DELETE
 *   body    {"user": "ada", ...}     POST, PUT, PATCH: by the kinds of the fields
 *           rules: ...               or, of application/yaml, the document itself
 *
 * OPERATEREAD-1  A field is told once, and none that the call does not have: what is misspelt is
 *                refused, never passed over.
 */
#include "node/gateway/api/operate_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/quantity.h"
#include "node/gateway/http/http_guard.h"
#include "node/gateway/http/http_query.h"
#include "node/gateway/http/http_routes.h"

enum { SHOWN = 64, NAMES_LEN = 192, SPAN_LEN = 32 };

#define NUMBER_MAX ((UINT64_C(1) << 53) - 1) /* what every reader of JSON keeps exactly */
#define NS_PER_MS  UINT64_C(1000000)

/* What is read, and for what. */
struct reading {
    const struct operate_call *call;
    struct operate_values *out;
    char *error;
};

static bool is_name(struct wire_text text, const char *name)
{
    return text.len == strlen(name) && memcmp(text.data, name, text.len) == 0;
}

/* The field of that name, and its value; NULL: there is none. */
static const struct operate_field *find(const struct reading *reading, struct wire_text name,
                                        struct operate_value **value)
{
    for (uint32_t i = 0; i < reading->call->field_count; i++) {
        *value = &reading->out->of[i];
        if (is_name(name, reading->call->fields[i].name))
            return &reading->call->fields[i];
    }
    for (uint32_t i = 0; i < OPERATE_OF_EDITS; i++) {
        *value = &reading->out->of_edits[i];
        if ((reading->call->flags & OPERATE_EDITS) != 0 && is_name(name, operate_of_edits[i].name))
            return &operate_of_edits[i];
    }
    return NULL;
}

static void add_name(char names[NAMES_LEN], const char *name)
{
    const size_t len = strlen(names);
    (void)snprintf(names + len, NAMES_LEN - len, "%s%s", len > 0 ? ", " : "", name);
}

/* The fields that there are. */
static void list(const struct operate_call *call, char names[NAMES_LEN])
{
    names[0] = '\0';
    for (uint32_t i = 0; i < call->field_count; i++)
        add_name(names, call->fields[i].name);
    for (uint32_t i = 0; (call->flags & OPERATE_EDITS) != 0 && i < OPERATE_OF_EDITS; i++)
        add_name(names, operate_of_edits[i].name);
    if (names[0] == '\0')
        add_name(names, "none");
}

/* ---- texts of path and query ----------------------------------------------------------------- */

static bool refuse(struct reading *reading, const struct operate_field *field,
                   struct wire_text text, const char *expected)
{
    (void)snprintf(reading->error, JSON_ERROR_LEN, "%s: found \"%.*s\", expected %s", field->name,
                   text.len < SHOWN ? (int)text.len : SHOWN, text.data, expected);
    return false;
}

static bool read_number(struct wire_text text, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        const unsigned digit = (unsigned)(text.data[i] - '0');
        if (digit > 9 || *out > (NUMBER_MAX - digit) / 10)
            return false;
        *out = *out * 10 + digit;
    }
    return text.len > 0;
}

/* Sets a field whose value came as a text. */
static bool set_text(struct reading *reading, const struct operate_field *field,
                     struct operate_value *value, struct wire_text text)
{
    value->given = true;
    value->text = text;
    if (field->kind == OPERATE_NUMBER && !read_number(text, &value->number))
        return refuse(reading, field, text, "a whole number");
    value->number = field->kind == OPERATE_FLAG ? is_name(text, "true") : value->number;
    if (field->kind == OPERATE_FLAG && value->number == 0 && !is_name(text, "false"))
        return refuse(reading, field, text, "true or false");
    ASSERT(field->kind <= OPERATE_FLAG); /* others are told in bodies alone */
    return true;
}

static bool read_path(struct reading *reading, const struct http_exchange *exchange,
                      const char *pattern)
{
    uint32_t count = 0;
    for (const char *at = strchr(pattern, '{'); at != NULL; at = strchr(at + 1, '{')) {
        const char *end = strchr(at, '}');
        struct operate_value *value;
        ASSERT(end != NULL && count < HTTP_PARAMETERS_MAX);
        const struct wire_text name = {at + 1, (size_t)(end - at) - 1};
        const struct operate_field *field = find(reading, name, &value);
        ASSERT(field != NULL); /* the table of routes names it so */
        if (!set_text(reading, field, value, exchange->parameters[count++]))
            return false;
    }
    return true;
}

static bool read_query(struct reading *reading, struct wire_text query, char *room, size_t room_len)
{
    char names[NAMES_LEN];
    struct http_query left = {query};
    struct wire_text name;
    struct wire_text text;
    enum http_query_found found;
    while ((found = http_query_next(&left, room, room_len, &name, &text)) == HTTP_QUERY_PAIR) {
        struct operate_value *value;
        const struct operate_field *field = find(reading, name, &value);
        room += name.len + text.len;
        room_len -= name.len + text.len;
        list(reading->call, names);
        if (field == NULL || field->kind > OPERATE_FLAG || value->given) {
            (void)snprintf(reading->error, JSON_ERROR_LEN,
                           "the query: found \"%.*s\"%s, expected each once: %s",
                           name.len < SHOWN ? (int)name.len : SHOWN, name.data,
                           field != NULL && value->given ? " again" : "", names);
            return false;
        }
        if (!set_text(reading, field, value, text))
            return false;
    }
    if (found == HTTP_QUERY_BAD)
        (void)snprintf(reading->error, JSON_ERROR_LEN,
                       "the query: found an escape that is none, or more than fits");
    return found != HTTP_QUERY_BAD;
}

/* ---- values of bodies ------------------------------------------------------------------------ */

static bool read_span(struct json_reader *reader, struct operate_value *value)
{
    char copy[SPAN_LEN];
    char error[QUANTITY_ERROR_LEN];
    uint64_t ns;
    if (!json_take_text(reader, &value->text))
        return false;
    (void)snprintf(copy, sizeof copy, "%.*s",
                   value->text.len < sizeof copy ? (int)value->text.len : (int)sizeof copy,
                   value->text.data);
    if (strlen(copy) != value->text.len || quantity_parse_duration(copy, &ns, error) != 0) {
        json_refuse(reader, "found \"%.*s\", expected a time such as 30s, 5m, 12h or 7d",
                    value->text.len < SHOWN ? (int)value->text.len : SHOWN, value->text.data);
        return false;
    }
    value->number = ns / NS_PER_MS + (ns % NS_PER_MS != 0);
    return true;
}

/* Adds a rate behind a blank. */
static bool add_rate(struct json_reader *reader, struct wire_text rate, struct operate_values *out)
{
    const size_t len = strlen(out->rates);
    if (rate.len == 0 || memchr(rate.data, ' ', rate.len) != NULL ||
        memchr(rate.data, '\0', rate.len) != NULL || len + rate.len + 2 > sizeof out->rates) {
        json_refuse(reader, "found \"%.*s\", expected COUNT/UNIT, and one of each unit",
                    rate.len < SHOWN ? (int)rate.len : SHOWN, rate.data);
        return false;
    }
    (void)snprintf(out->rates + len, sizeof out->rates - len, "%s%.*s", len > 0 ? " " : "",
                   (int)rate.len, rate.data);
    return true;
}

static bool read_rates(struct json_reader *reader, struct operate_values *out,
                       struct operate_value *value)
{
    struct wire_text rate;
    if (!json_open_list(reader))
        return false;
    while (json_next_element(reader))
        if (!json_take_text(reader, &rate) || !add_rate(reader, rate, out))
            return false;
    value->text = wire_text_of(out->rates);
    if (!reader->failed && value->text.len == 0)
        json_refuse(reader, "found no rate, expected one or more; clear forgets what was set");
    return !reader->failed;
}

static bool has_pair(const struct operate_values *out, struct wire_text name)
{
    for (uint32_t i = 0; i < out->pair_count; i++)
        if (out->names[i].len == name.len && memcmp(out->names[i].data, name.data, name.len) == 0)
            return true;
    return false;
}

static bool read_attributes(struct json_reader *reader, struct operate_values *out)
{
    struct wire_text name;
    if (!json_open_object(reader))
        return false;
    while (json_next_member(reader, &name)) {
        if (out->pair_count == WIRE_ATTRIBUTES_MAX)
            json_refuse(reader, "found more than %d attributes", (int)WIRE_ATTRIBUTES_MAX);
        else if (has_pair(out, name))
            json_refuse(reader, "found this attribute twice, expected it once");
        else if (json_take_scalar(reader, &out->values[out->pair_count]))
            out->names[out->pair_count++] = name;
    }
    return !reader->failed;
}

static bool read_value(struct json_reader *reader, const struct operate_field *field,
                       struct operate_values *out, struct operate_value *value)
{
    bool flag = false;
    switch (field->kind) {
    case OPERATE_TEXT:
        return json_take_text(reader, &value->text);
    case OPERATE_NUMBER:
        return json_take_unsigned(reader, NUMBER_MAX, &value->number);
    case OPERATE_FLAG:
        if (!json_take_flag(reader, &flag))
            return false;
        value->number = flag;
        return true;
    case OPERATE_SPAN:
        return read_span(reader, value);
    case OPERATE_RATES:
        return read_rates(reader, out, value);
    case OPERATE_SHARE:
        return json_take_share(reader, &value->share);
    case OPERATE_ATTRIBUTES:
        return read_attributes(reader, out);
    case OPERATE_KINDS:
        break;
    }
    ASSERT(false);
    return false;
}

static bool read_member(struct reading *reading, struct json_reader *reader, struct wire_text name)
{
    char names[NAMES_LEN];
    struct operate_value *value;
    const struct operate_field *field = find(reading, name, &value);
    if (field == NULL) {
        list(reading->call, names);
        json_refuse(reader, "no field of this call; expected %s", names);
    } else if (value->given) {
        json_refuse(reader, "found this field twice, or in the path as well");
    } else if (!json_take_null(reader) && !reader->failed) {
        value->given = read_value(reader, field, reading->out, value);
    }
    return !reader->failed;
}

static bool read_body(struct reading *reading, struct wire_text body, char *room, size_t room_len)
{
    struct json_reader reader;
    struct wire_text name;
    json_reader_begin(&reader, body.data, body.len, room, room_len);
    if (json_open_object(&reader))
        while (json_next_member(&reader, &name))
            if (!read_member(reading, &reader, name))
                break;
    if (json_reader_end(&reader))
        return true;
    (void)snprintf(reading->error, JSON_ERROR_LEN, "%s", reader.error);
    return false;
}

/* ---- documents ------------------------------------------------------------------------------- */

static bool is_word(struct wire_text text, const char *word)
{
    return http1_same(text, wire_text_of(word));
}

static bool read_document(struct reading *reading, const struct http1_request *request)
{
    struct operate_value *text;
    const bool packed = request->encoding.data != NULL && is_word(request->encoding, "gzip");
    if (request->encoding.data != NULL && !packed && !is_word(request->encoding, "identity")) {
        (void)snprintf(reading->error, JSON_ERROR_LEN,
                       "Content-Encoding: found \"%.*s\", expected gzip, or none",
                       request->encoding.len < SHOWN ? (int)request->encoding.len : SHOWN,
                       request->encoding.data);
        return false;
    }
    if (packed && (request->body.len < 2 || memcmp(request->body.data, "\x1f\x8b", 2) != 0)) {
        (void)snprintf(reading->error, JSON_ERROR_LEN,
                       "the body: found no gzip, expected what Content-Encoding says");
        return false;
    }
    if (packed) {
        reading->out->packed = request->body;
        return true;
    }
    const struct operate_field *field = find(reading, wire_text_of("text"), &text);
    ASSERT(field != NULL);
    text->given = true;
    text->text = request->body;
    return true;
}

/* Whether all fields are there that the call needs. */
static bool is_complete(struct reading *reading)
{
    for (uint32_t i = 0; i < reading->call->field_count; i++) {
        const struct operate_field *field = &reading->call->fields[i];
        if (!field->needed || reading->out->of[i].given)
            continue;
        (void)snprintf(reading->error, JSON_ERROR_LEN, "%s: found none, expected %s", field->name,
                       field->says);
        return false;
    }
    return true;
}

/* `document`: that is the body. */
static bool read_target(struct reading *reading, const struct http1_request *request, bool document,
                        char *room, size_t room_len)
{
    if (request->body.len == 0 || document)
        return read_query(reading, request->query, room, room_len);
    (void)snprintf(reading->error, JSON_ERROR_LEN, "the body: expected none, but a query");
    return false;
}

static bool read_fields(struct reading *reading, const struct http1_request *request, char *room,
                        size_t room_len)
{
    if (request->query.len > 0) {
        (void)snprintf(reading->error, JSON_ERROR_LEN, "the query: expected none, but a body");
        return false;
    }
    return request->body.len == 0 || read_body(reading, request->body, room, room_len);
}

bool operate_read(const struct http_exchange *exchange, const struct operate_call *call, char *room,
                  size_t room_len, struct operate_values *out, char error[JSON_ERROR_LEN])
{
    const struct http1_request *request = exchange->request;
    struct reading reading = {.call = call, .out = out, .error = error};
    const bool has_body = request->method == HTTP1_POST || request->method == HTTP1_PUT ||
                          request->method == HTTP1_PATCH;
    const bool document =
        has_body && (call->flags & OPERATE_DOCUMENT) != 0 && http_is_yaml(request);
    memset(out, 0, sizeof *out);
    if (!read_path(&reading, exchange, exchange->route->path))
        return false;
    if (document && !read_document(&reading, request))
        return false;
    if (!has_body || document ? !read_target(&reading, request, document, room, room_len)
                              : !read_fields(&reading, request, room, room_len))
        return false;
    return is_complete(&reading);
}
