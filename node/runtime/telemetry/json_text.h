/* json_text.h - JSON written piece by piece into a room, for the collector.
 *
 * JSONTEXT-1  Nothing is written beyond the room: what does not fit sets `failed`, and nothing more
 *             is written.
 * JSONTEXT-2  A string has no byte that ends it, no control character, and UTF-8 alone.
 *
 * Pure.
 */
#ifndef NODE_RUNTIME_TELEMETRY_JSON_TEXT_H
#define NODE_RUNTIME_TELEMETRY_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_text {
    char *data;
    size_t capacity;
    size_t len;
    bool failed;
};

void json_put(struct json_text *json, const char *text);
void json_put_bytes(struct json_text *json, const char *data, size_t len);
/* A string, with its quotes. */
void json_put_string(struct json_text *json, const char *data, size_t len);
/* A number in quotes, as OTLP has those of 64 bits. */
void json_put_unsigned(struct json_text *json, uint64_t value);
void json_put_integer(struct json_text *json, int64_t value);
/* {"key":"...","value":{"stringValue":"..."}} with a comma before it unless `first`; and so on. */
void json_put_attribute(struct json_text *json, bool first, const char *key, const char *value);
void json_put_attribute_integer(struct json_text *json, bool first, const char *key, int64_t value);
void json_put_attribute_bool(struct json_text *json, bool first, const char *key, bool value);

#endif
