/* grpc_reflection.c - tools are told what the node's own descriptors say.
 *
 * The descriptors are those of the files in proto/, put together when the node is built: a
 * FileDescriptorSet, whose parts are looked through as they are (descriptor.proto has the numbers).
 */
#include "node/gateway/grpc/grpc_reflection.h"

#include <proto/reflection.pb-c.h>
#include <string.h>

#include "base/assert.h"

extern const unsigned char grpc_descriptors[];
extern const unsigned long grpc_descriptors_len;

typedef Grpc__Reflection__V1__ServerReflectionRequest request_t;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_t;

#define ASKS(name)  GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define TELLS(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

enum { BYTES_TYPE = 2 }; /* of a field: bytes, a text or a message */

/* Numbers of descriptor.proto. */
enum {
    SET_FILE = 1,
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    NAME = 1,
    SERVICE_METHOD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4
};

/* Bytes of our own, which are well formed. */
struct piece {
    const uint8_t *data;
    size_t len;
};

static uint64_t take_number(struct piece *piece)
{
    uint64_t value = 0;
    for (unsigned shift = 0; piece->len > 0 && shift < 64; shift += 7) {
        const uint8_t byte = *piece->data++;
        piece->len--;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return value;
}

/* The next field that is bytes; its number, 0: there is none. */
static uint32_t take_field(struct piece *piece, struct piece *out)
{
    while (piece->len > 0) {
        const uint64_t key = take_number(piece);
        const uint64_t value = take_number(piece);
        if ((key & 7) != BYTES_TYPE)
            continue;
        ASSERT(value <= piece->len); /* they are our own */
        *out = (struct piece){piece->data, (size_t)value};
        piece->data += value;
        piece->len -= value;
        return (uint32_t)(key >> 3);
    }
    return 0;
}

static struct piece field_of(struct piece piece, uint32_t number)
{
    struct piece found;
    uint32_t at;
    while ((at = take_field(&piece, &found)) != 0)
        if (at == number)
            return found;
    return (struct piece){NULL, 0};
}

static bool is_text(struct piece piece, const char *text)
{
    return piece.len == strlen(text) && memcmp(piece.data, text, piece.len) == 0;
}

/* What of the symbol is behind that name and its dot; "" if that is all; NULL: it has another one.
 */
static const char *behind(struct piece name, const char *symbol)
{
    if (strncmp(symbol, (const char *)name.data, name.len) != 0)
        return NULL;
    const char *rest = symbol + name.len;
    return *rest == '.' ? rest + 1 : *rest == '\0' ? rest : NULL;
}

/* Whether a part called so, or one within it, is the symbol. Names within it are those of `inner`
 * numbers; 0 ends them. */
static bool part_is(struct piece part, const char *symbol, const uint32_t inner[2])
{
    const char *rest = behind(field_of(part, NAME), symbol);
    struct piece within;
    uint32_t at;
    if (rest == NULL || *rest == '\0')
        return rest != NULL;
    while ((at = take_field(&part, &within)) != 0)
        if ((at == inner[0] || at == inner[1]) && is_text(field_of(within, NAME), rest))
            return true;
    return false;
}

static bool file_tells(struct piece file, const char *symbol)
{
    static const uint32_t of_message[] = {MESSAGE_NESTED, MESSAGE_ENUM};
    static const uint32_t of_service[] = {SERVICE_METHOD, SERVICE_METHOD};
    const char *rest = behind(field_of(file, FILE_PACKAGE), symbol);
    struct piece part;
    uint32_t at;
    if (rest == NULL || *rest == '\0')
        return false;
    while ((at = take_field(&file, &part)) != 0)
        if (((at == FILE_MESSAGE || at == FILE_ENUM) && part_is(part, rest, of_message)) ||
            (at == FILE_SERVICE && part_is(part, rest, of_service)))
            return true;
    return false;
}

/* The file of that name, or the one that tells of the symbol. */
static struct piece find_file(const char *name, const char *symbol)
{
    struct piece all = {grpc_descriptors, grpc_descriptors_len};
    struct piece file;
    while (take_field(&all, &file) == SET_FILE)
        if (name != NULL ? is_text(field_of(file, FILE_NAME), name) : file_tells(file, symbol))
            return file;
    return (struct piece){NULL, 0};
}

static void tell_error(struct grpc_call *call, response_t *response, const char *text)
{
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    error.error_code = GRPC_NOT_FOUND;
    error.error_message = (char *)(uintptr_t)text;
    response->message_response_case = TELLS(ERROR_RESPONSE);
    response->error_response = &error;
    grpc_say(call, &response->base);
}

static void tell_file(struct grpc_call *call, response_t *response, struct piece file)
{
    Grpc__Reflection__V1__FileDescriptorResponse files =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData bytes = {.len = file.len, .data = (uint8_t *)(uintptr_t)file.data};
    if (file.data == NULL) {
        tell_error(call, response, "there is no such file or symbol");
        return;
    }
    files.n_file_descriptor_proto = 1;
    files.file_descriptor_proto = &bytes;
    response->message_response_case = TELLS(FILE_DESCRIPTOR_RESPONSE);
    response->file_descriptor_response = &files;
    grpc_say(call, &response->base);
}

/* The services of the table of methods, each once: methods of one stand together. */
static void tell_services(struct grpc_call *call, response_t *response)
{
    char names[GRPC_SERVICES_MAX][GRPC_TEXT_LEN];
    Grpc__Reflection__V1__ServiceResponse services[GRPC_SERVICES_MAX];
    Grpc__Reflection__V1__ServiceResponse *list[GRPC_SERVICES_MAX];
    Grpc__Reflection__V1__ListServiceResponse all =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    for (size_t i = 0; i < call->facts->method_count; i++) {
        const char *path = call->facts->methods[i].path + 1;
        const size_t len = strcspn(path, "/");
        if (all.n_service > 0 && strlen(names[all.n_service - 1]) == len &&
            strncmp(names[all.n_service - 1], path, len) == 0)
            continue;
        ASSERT(all.n_service < GRPC_SERVICES_MAX && len < GRPC_TEXT_LEN);
        memcpy(names[all.n_service], path, len);
        names[all.n_service][len] = '\0';
        grpc__reflection__v1__service_response__init(&services[all.n_service]);
        services[all.n_service].name = names[all.n_service];
        list[all.n_service] = &services[all.n_service];
        all.n_service++;
    }
    all.service = list;
    response->message_response_case = TELLS(LIST_SERVICES_RESPONSE);
    response->list_services_response = &all;
    grpc_say(call, &response->base);
}

enum grpc_verdict grpc_reflection(struct grpc_call *call)
{
    const request_t *request = (const request_t *)call->request;
    response_t response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    response.valid_host = request->host;
    response.original_request = (request_t *)(uintptr_t)request;
    bool *begun = call->context;
    if (!*begun)
        (void)grpc_begin(call);
    *begun = true;
    switch (request->message_request_case) {
    case ASKS(FILE_BY_FILENAME):
        tell_file(call, &response, find_file(request->file_by_filename, NULL));
        break;
    case ASKS(FILE_CONTAINING_SYMBOL):
        tell_file(call, &response, find_file(NULL, request->file_containing_symbol));
        break;
    case ASKS(LIST_SERVICES):
        tell_services(call, &response);
        break;
    default:
        tell_error(call, &response, "there are no extensions");
    }
    return GRPC_GOES_ON;
}
