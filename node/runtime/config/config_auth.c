/* config_auth.c - endpoints of /v1/auth out of the configuration file; config_auth.h has the form.
 */
#include "node/runtime/config/config_auth.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "node/gateway/api/decision_json.h"

enum { STATUS_MIN = 200, STATUS_MAX = 599, DENY_MIN = 400 };

static const char name_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

/* A text of letters that paths, header fields and attributes have alike. */
static int read_name(const struct yaml_reader *reader, uint32_t node, const char *what,
                     char out[AUTH_NAME_LEN])
{
    const char *text;
    size_t len;
    if (yaml_reader_text(reader, node, what, 1, AUTH_NAME_LEN - 1, &text, &len) != 0)
        return TG_EINVALID;
    if (strspn(text, name_letters) != len)
        return yaml_reader_fail(
            reader, node, "%s: found \"%s\", expected letters, digits, - _ and .", what, text);
    memcpy(out, text, len + 1);
    return 0;
}

static int read_status(const struct yaml_reader *reader, uint32_t node,
                       struct auth_endpoint *endpoint)
{
    struct yaml_reader_field fields[] = {{"allow", YAML_READER_OPTIONAL, 0},
                                         {"deny", YAML_READER_OPTIONAL, 0}};
    int64_t status;
    if (yaml_reader_fields(reader, node, "status", fields, 2) != 0)
        return TG_EINVALID;
    if (fields[0].node != YAML_READER_NONE) {
        if (yaml_reader_int(reader, fields[0].node, "allow", STATUS_MIN, 299, &status) != 0)
            return TG_EINVALID;
        endpoint->allow = (uint16_t)status;
    }
    if (fields[1].node != YAML_READER_NONE) {
        if (yaml_reader_int(reader, fields[1].node, "deny", DENY_MIN, STATUS_MAX, &status) != 0)
            return TG_EINVALID;
        endpoint->deny = (uint16_t)status;
    }
    return 0;
}

static int read_original(const struct yaml_reader *reader, uint32_t node,
                         struct auth_endpoint *endpoint)
{
    static const struct yaml_reader_word words[] = {
        {"forwarded", AUTH_FORWARDED}, {"original", AUTH_ORIGINAL}, {"itself", AUTH_ITSELF}};
    int original;
    if (yaml_reader_word(reader, node, "original_request", words, 3, &original) != 0)
        return TG_EINVALID;
    endpoint->original = (uint8_t)original;
    return 0;
}

static int read_kind(const struct yaml_reader *reader, uint32_t node,
                     struct auth_endpoint *endpoint)
{
    static const struct yaml_reader_word words[] = {
        {"ietf", DECISION_IETF}, {"legacy", DECISION_LEGACY}, {"off", DECISION_NO_HEADERS}};
    int kind;
    if (yaml_reader_word(reader, node, "headers", words, 3, &kind) != 0)
        return TG_EINVALID;
    endpoint->header_kind = (uint8_t)kind;
    endpoint->own_header_kind = true;
    return 0;
}

static int read_headers(const struct yaml_reader *reader, uint32_t node,
                        struct auth_endpoint *endpoint)
{
    static const char *const told[] = {"ip", "method", "api", "host"};
    if (yaml_reader_mapping(reader, node, "attributes_from_headers", 0, AUTH_NAMES_MAX) != 0)
        return TG_EINVALID;
    endpoint->header_count = 0;
    uint32_t key = yaml_reader_at(reader, node)->first;
    while (key != YAML_READER_NONE) {
        struct auth_header *header = &endpoint->headers[endpoint->header_count++];
        const uint32_t value = yaml_reader_at(reader, key)->next;
        if (read_name(reader, key, "an attribute", header->attribute) != 0 ||
            read_name(reader, value, "a header field", header->field) != 0)
            return TG_EINVALID;
        for (size_t i = 0; i < sizeof told / sizeof *told; i++)
            if (strcmp(header->attribute, told[i]) == 0)
                return yaml_reader_fail(reader, key,
                                        "attributes_from_headers: found %s, expected another name: "
                                        "it is told by the request itself",
                                        told[i]);
        if (strncmp(header->attribute, "query.", 6) == 0)
            return yaml_reader_fail(reader, key,
                                    "attributes_from_headers: found %s, expected a name that does "
                                    "not begin with query.",
                                    header->attribute);
        key = yaml_reader_at(reader, value)->next;
    }
    return 0;
}

static int read_queries(const struct yaml_reader *reader, uint32_t node,
                        struct auth_endpoint *endpoint)
{
    static const char prefix[] = "query.";
    const size_t len = sizeof prefix - 1;
    if (yaml_reader_list(reader, node, "attributes_from_query", 0, AUTH_NAMES_MAX) != 0)
        return TG_EINVALID;
    endpoint->query_count = 0;
    for (uint32_t item = yaml_reader_at(reader, node)->first; item != YAML_READER_NONE;
         item = yaml_reader_at(reader, item)->next) {
        char name[AUTH_NAME_LEN];
        if (read_name(reader, item, "a parameter of the query", name) != 0)
            return TG_EINVALID;
        if (strlen(name) >= AUTH_NAME_LEN - len)
            return yaml_reader_fail(reader, item,
                                    "attributes_from_query: found a name of %zu "
                                    "bytes, expected at most %zu",
                                    strlen(name), AUTH_NAME_LEN - len - 1);
        for (uint32_t i = 0; i < endpoint->query_count; i++)
            if (strcmp(endpoint->queries[i] + len, name) == 0)
                return yaml_reader_fail(
                    reader, item, "attributes_from_query: found %s twice, expected it once", name);
        char *out = endpoint->queries[endpoint->query_count++];
        memcpy(out, prefix, len);
        memcpy(out + len, name, strlen(name) + 1);
    }
    return 0;
}

static int read_endpoint(const struct yaml_reader *reader, uint32_t node,
                         struct auth_endpoint *endpoint)
{
    enum { STATUS, KIND, ORIGINAL, HEADERS, QUERY, FIELDS };
    struct yaml_reader_field fields[FIELDS] = {{"status", YAML_READER_OPTIONAL, 0},
                                               {"headers", YAML_READER_OPTIONAL, 0},
                                               {"original_request", YAML_READER_OPTIONAL, 0},
                                               {"attributes_from_headers", YAML_READER_OPTIONAL, 0},
                                               {"attributes_from_query", YAML_READER_OPTIONAL, 0}};
    static int (*const readers[FIELDS])(const struct yaml_reader *, uint32_t,
                                        struct auth_endpoint *) = {
        read_status, read_kind, read_original, read_headers, read_queries};
    if (yaml_reader_fields(reader, node, "auth", fields, FIELDS) != 0)
        return TG_EINVALID;
    for (unsigned i = 0; i < FIELDS; i++)
        if (fields[i].node != YAML_READER_NONE && readers[i](reader, fields[i].node, endpoint) != 0)
            return TG_EINVALID;
    return 0;
}

int config_auth_read(const struct yaml_reader *reader, uint32_t node,
                     struct auth_endpoints *endpoints)
{
    if (yaml_reader_mapping(reader, node, "auth", 0, AUTH_ENDPOINTS_MAX) != 0)
        return TG_EINVALID;
    uint32_t key = yaml_reader_at(reader, node)->first;
    while (key != YAML_READER_NONE) {
        char name[AUTH_NAME_LEN];
        const uint32_t value = yaml_reader_at(reader, key)->next;
        if (read_name(reader, key, "an endpoint", name) != 0)
            return TG_EINVALID;
        const struct auth_endpoint *known = auth_find(endpoints, wire_text_of(name));
        if (known == NULL && endpoints->count == AUTH_ENDPOINTS_MAX)
            return yaml_reader_fail(reader, key, "auth: found more than %d endpoints",
                                    (int)AUTH_ENDPOINTS_MAX);
        struct auth_endpoint *endpoint =
            &endpoints->at[known != NULL ? known - endpoints->at : endpoints->count++];
        if (known == NULL) {
            *endpoint = (struct auth_endpoint){.allow = 204};
            memcpy(endpoint->name, name, sizeof name);
        }
        if (read_endpoint(reader, value, endpoint) != 0)
            return TG_EINVALID;
        key = yaml_reader_at(reader, value)->next;
    }
    return 0;
}

int config_auth_set(const char *text, struct auth_endpoints *endpoints, char *why, size_t why_len)
{
    struct yaml_reader_error error = {.line = 0};
    struct yaml_reader reader;
    int result = yaml_reader_init(&reader, text, strlen(text), alloc_heap(), &error);
    auth_defaults(endpoints);
    if (result == 0) {
        if (reader.root != YAML_READER_NONE)
            result = config_auth_read(&reader, reader.root, endpoints);
        yaml_reader_fini(&reader);
    }
    if (result != 0)
        (void)snprintf(why, why_len, "%s", error.message);
    return result == 0 ? 0 : TG_EINVALID;
}
