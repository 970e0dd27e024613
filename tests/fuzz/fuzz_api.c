/* fuzz_api.c - bodies of JSON, and requests that a proxy asks about.
 *
 *   byte 0: what to try, which operation  | the rest: a body, or a URI and addresses
 *
 * Properties: an item that was read is taken by the builder of messages, whose decoder of the other
 * end takes what it encodes; what was refused has a sentence; what the reader takes, jansson takes;
 * a normalised path stays as it is, and has no empty or dot segment.
 */
#include <jansson.h>

#include "node/gateway/api/auth_request.h"
#include "node/gateway/api/check_item.h"
#include "tests/fuzz/fuzz.h"

enum { VALUES_LEN = 1 << 20, KINDS = 3 };

static struct wire_checks_builder builder;
static struct wire_checks_space space;
static uint8_t values[VALUES_LEN];
static uint8_t frame[WIRE_MESSAGE_MAX];

/* The shard takes what the builder has. */
static void send_item(const struct check_item *item)
{
    struct wire_checks checks;
    char error[WIRE_ERROR_LEN];
    wire_checks_builder_init(&builder, values, sizeof values);
    const int number = check_item_append(item, &builder);
    ASSERT(number == 0 || number == TG_EFULL);
    if (number != 0)
        return;
    const int len = wire_checks_builder_encode(&builder, 1, 1, 0, 1000, frame, sizeof frame);
    ASSERT(len > 0);
    ASSERT(wire_decode_checks(frame, (size_t)len, &space, &checks, error) == 0);
    ASSERT(checks.count == 1);
}

static void try_item(const char *text, size_t len, enum operation operation)
{
    static char room[CHECK_ITEM_ROOM];
    struct json_reader reader;
    struct check_item item;
    json_error_t error;
    json_reader_begin(&reader, text, len, room, sizeof room);
    const bool taken = check_item_read(&item, &reader, operation) && json_reader_end(&reader);
    ASSERT(taken == !reader.failed);
    ASSERT(taken || (reader.error[0] != '\0' && strlen(reader.error) < JSON_ERROR_LEN));
    if (!taken)
        return;
    json_t *value = json_loadb(text, len, JSON_ALLOW_NUL, &error);
    ASSERT(value != NULL || strstr(error.text, "too big") != NULL);
    json_decref(value);
    send_item(&item);
}

static void try_path(const char *uri, size_t len)
{
    static char once[AUTH_PATH_MAX];
    static char twice[AUTH_PATH_MAX + 1];
    if (len > HTTP1_HEAD_MAX)
        return;
    const size_t one = auth_path((struct wire_text){uri, len}, once);
    const size_t two = auth_path((struct wire_text){once, one}, twice);
    ASSERT(one > 0 && once[0] == '/' && one == two && memcmp(once, twice, one) == 0);
    for (size_t i = 0; i + 1 < one; i++)
        ASSERT(once[i] != '/' || once[i + 1] != '/');
    ASSERT(one < 3 || memcmp(once + one - 3, "/..", 3) != 0);
}

/* A request of the input's bytes as a proxy sends it; its fields may say anything. */
static void try_request(const char *text, size_t len, uint8_t choice)
{
    static char room[HTTP1_BODY_MAX];
    static struct auth_request found;
    static struct http1_request request;
    static const char *const addresses[] = {"10.0.0.1:5", "[2001:db8::1]:5", "unix", "192.0.2.1:5"};
    struct http1_progress progress = {0};
    struct http1_refusal refusal;
    struct auth_endpoints endpoints;
    struct networks trusted = {.local = (choice & 64) != 0};
    char expected[NETWORKS_EXPECTED_LEN];
    ASSERT(networks_add(&trusted, "10.0.0.0/8", expected) == 0);
    auth_defaults(&endpoints);
    struct auth_endpoint *endpoint = &endpoints.at[choice % endpoints.count];
    endpoint->header_count = endpoint->query_count = 1;
    memcpy(endpoint->headers[0].attribute, "user", 5);
    memcpy(endpoint->headers[0].field, "X-User", 7);
    memcpy(endpoint->queries[0], "query.q", 8);
    if (http1_parse(&progress, text, len, room, &request, &refusal) <= 0)
        return;
    auth_read(endpoint, &request, request.path, addresses[choice >> 4 & 3], &trusted, &found);
    ASSERT(found.count >= 2 && found.count <= WIRE_ATTRIBUTES_MAX);
    wire_checks_builder_init(&builder, values, sizeof values);
    const int template = wire_checks_builder_attributes(&builder, found.names, found.count);
    ASSERT(template == 0);
    ASSERT(wire_checks_builder_append(&builder, 0, OPERATION_CHECK, 1, found.values, found.count) ==
           0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    const uint8_t choice = fuzz_u8(&input);
    size_t left;
    const uint8_t *rest = fuzz_rest(&input, &left);
    char *text = (char *)fuzz_copy(rest, left);
    if (choice % KINDS == 0)
        try_item(text, left, (enum operation)(choice / KINDS % OPERATION_COUNT));
    else if (choice % KINDS == 1)
        try_path(text, left);
    else
        try_request(text, left, choice / KINDS);
    free(text);
    return 0;
}
