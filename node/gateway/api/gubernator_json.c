/* gubernator_json.c - see gubernator_json.h. */
#include "node/gateway/api/gubernator_json.h"

#include <string.h>

struct word {
    const char *name;
    int32_t number;
};

static const struct word algorithms[] = {{"TOKEN_BUCKET", GUBERNATOR_TOKEN_BUCKET},
                                         {"LEAKY_BUCKET", GUBERNATOR_LEAKY_BUCKET}};
static const struct word behaviors[] = {
    {"BATCHING", 0},
    {"NO_BATCHING", GUBERNATOR_NO_BATCHING},
    {"GLOBAL", GUBERNATOR_GLOBAL},
    {"DURATION_IS_GREGORIAN", GUBERNATOR_GREGORIAN},
    {"RESET_REMAINING", GUBERNATOR_RESET},
    {"MULTI_REGION", GUBERNATOR_MULTI_REGION},
    {"DRAIN_OVER_LIMIT", GUBERNATOR_DRAIN},
};

static bool same(struct wire_text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A number of an enum, or one of these words. */
static bool take_enum(struct json_reader *reader, const struct word *words, size_t count,
                      int32_t *out)
{
    struct wire_text text;
    int64_t number;
    if (json_next_kind(reader) == JSON_KIND_NUMBER) {
        if (json_take_signed(reader, &number) && (number < INT32_MIN || number > INT32_MAX))
            json_refuse(reader, "found a number beyond 32 bits");
        if (!reader->failed)
            *out = (int32_t)number;
        return !reader->failed;
    }
    if (!json_take_text(reader, &text))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (same(text, words[i].name)) {
            *out = words[i].number;
            return true;
        }
    }
    json_refuse(reader, "found an unknown name, expected one such as %s", words[1].name);
    return false;
}

static bool take_field(struct json_reader *reader, struct gubernator_item *item,
                       struct wire_text key)
{
    if (json_take_null(reader))
        return true;
    if (same(key, "name"))
        return json_take_text(reader, &item->name);
    if (same(key, "unique_key") || same(key, "uniqueKey"))
        return json_take_text(reader, &item->unique_key);
    if (same(key, "hits"))
        return json_take_signed(reader, &item->hits);
    if (same(key, "limit"))
        return json_take_signed(reader, &item->limit);
    if (same(key, "duration"))
        return json_take_signed(reader, &item->duration);
    if (same(key, "burst"))
        return json_take_signed(reader, &item->burst);
    if (same(key, "algorithm"))
        return take_enum(reader, algorithms, sizeof algorithms / sizeof *algorithms,
                         &item->algorithm);
    if (same(key, "behavior"))
        return take_enum(reader, behaviors, sizeof behaviors / sizeof *behaviors, &item->behavior);
    return json_skip(reader);
}

bool gubernator_open(struct json_reader *reader)
{
    struct wire_text key;
    if (!json_open_object(reader))
        return false;
    while (json_next_member(reader, &key)) {
        if (same(key, "requests") && !json_take_null(reader))
            return json_open_list(reader);
        if (!same(key, "requests") && !json_skip(reader))
            return false;
    }
    return false;
}

bool gubernator_read(struct json_reader *reader, struct gubernator_item *item)
{
    struct wire_text key;
    memset(item, 0, sizeof *item);
    reader->room_used = 0;
    if (!json_next_element(reader) || !json_open_object(reader))
        return false;
    while (json_next_member(reader, &key) && take_field(reader, item, key))
        ;
    return !reader->failed;
}

bool gubernator_close(struct json_reader *reader)
{
    struct wire_text key;
    reader->room_used = 0;
    while (reader->depth > 0 && json_next_member(reader, &key)) {
        if (same(key, "requests"))
            json_refuse(reader, "found this field twice, expected it once");
        else
            (void)json_skip(reader);
    }
    return !reader->failed && json_reader_end(reader);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void put_number(struct http_reply *reply, const char *field, int64_t value)
{
    http_put_text(reply, field);
    http_put_integer(reply, value);
    http_put_text(reply, "\"");
}

void gubernator_put(struct http_reply *reply, const struct gubernator_answer *answer)
{
    http_put_text(reply, "{\"status\":\"");
    http_put_text(reply, answer->over ? "OVER_LIMIT\"" : "UNDER_LIMIT\"");
    put_number(reply, ",\"limit\":\"", answer->limit);
    put_number(reply, ",\"remaining\":\"", answer->remaining);
    put_number(reply, ",\"reset_time\":\"", answer->reset_ms);
    http_put_text(reply, ",\"error\":");
    http_put_string(reply, answer->error);
    http_put_text(reply, ",\"metadata\":{");
    if (answer->owner.len > 0) {
        http_put_text(reply, "\"owner\":");
        http_put_string(reply, answer->owner);
    }
    if (answer->region.len > 0) {
        http_put_text(reply, answer->owner.len > 0 ? "," : "");
        http_put_text(reply, "\"" GUBERNATOR_REGION_KEY "\":");
        http_put_string(reply, answer->region);
    }
    http_put_text(reply, "}}");
}
