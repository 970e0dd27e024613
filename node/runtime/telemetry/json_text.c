/* json_text.c - see json_text.h. */
#include "node/runtime/telemetry/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mp_json.h"

enum { NUMBER_LEN = 24 };

void json_put_bytes(struct json_text *json, const char *data, size_t len)
{
    if (json->failed || len > json->capacity - json->len) {
        json->failed = true; /* JSONTEXT-1 */
        return;
    }
    if (len > 0)
        memcpy(json->data + json->len, data, len);
    json->len += len;
}

void json_put(struct json_text *json, const char *text)
{
    json_put_bytes(json, text, strlen(text));
}

static void put(void *context, const char *data, size_t len)
{
    json_put_bytes(context, data, len);
}

/* JSONTEXT-2 */
void json_put_string(struct json_text *json, const char *data, size_t len)
{
    const struct mp_sink sink = {put, json};
    mp_json_string(&sink, data, len);
}

void json_put_unsigned(struct json_text *json, uint64_t value)
{
    char number[NUMBER_LEN];
    (void)snprintf(number, sizeof number, "\"%" PRIu64 "\"", value);
    json_put(json, number);
}

void json_put_integer(struct json_text *json, int64_t value)
{
    char number[NUMBER_LEN];
    (void)snprintf(number, sizeof number, "\"%" PRId64 "\"", value);
    json_put(json, number);
}

static void begin_attribute(struct json_text *json, bool first, const char *key, const char *kind)
{
    json_put(json, first ? "{\"key\":" : ",{\"key\":");
    json_put_string(json, key, strlen(key));
    json_put(json, ",\"value\":{\"");
    json_put(json, kind);
    json_put(json, "\":");
}

void json_put_attribute(struct json_text *json, bool first, const char *key, const char *value)
{
    begin_attribute(json, first, key, "stringValue");
    json_put_string(json, value, strlen(value));
    json_put(json, "}}");
}

void json_put_attribute_integer(struct json_text *json, bool first, const char *key, int64_t value)
{
    begin_attribute(json, first, key, "intValue");
    json_put_integer(json, value);
    json_put(json, "}}");
}

void json_put_attribute_bool(struct json_text *json, bool first, const char *key, bool value)
{
    begin_attribute(json, first, key, "boolValue");
    json_put(json, value ? "true}}" : "false}}");
}
