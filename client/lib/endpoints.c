/* endpoints.c - "tcp://HOST:PORT,..." to a bounded table, each refusal with a sentence.
 *
 * ENDPOINTS-1  Every entry is "tcp://" + non-empty host + ":" + port 1..65535, and none comes
 *              twice.
 */
#include "client/lib/endpoints.h"

#include <stdio.h>
#include <string.h>

static const char scheme[] = "tcp://";

static bool port_valid(const char *text)
{
    unsigned long port = 0;
    size_t len = strlen(text);

    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (unsigned long)(text[i] - '0');
    }
    return port >= 1 && port <= 65535;
}

static bool endpoint_valid(const char *endpoint)
{
    const char *host = endpoint + sizeof scheme - 1;
    const char *colon = strrchr(host, ':');

    return colon != NULL && colon != host && strpbrk(host, " \t;/") == NULL &&
           port_valid(colon + 1);
}

static int add(struct client_endpoints *endpoints, const char *text, size_t len, char *error,
               size_t error_size)
{
    char *out = endpoints->text[endpoints->count < CLIENT_ENDPOINTS_MAX ? endpoints->count : 0];
    const bool has_scheme = strncmp(text, scheme, sizeof scheme - 1) == 0;
    const size_t prefix = has_scheme ? 0 : sizeof scheme - 1;

    if (endpoints->count == CLIENT_ENDPOINTS_MAX) {
        (void)snprintf(error, error_size, "endpoints: found more than %d", CLIENT_ENDPOINTS_MAX);
        return TG_EINVALID;
    }
    if (prefix + len >= CLIENT_ENDPOINT_LEN) {
        (void)snprintf(error, error_size, "endpoints: found one of %zu bytes, expected at most %d",
                       len, CLIENT_ENDPOINT_LEN - 1);
        return TG_EINVALID;
    }
    memcpy(out, scheme, prefix);
    memcpy(out + prefix, text, len);
    out[prefix + len] = '\0';
    if (!endpoint_valid(out)) {
        (void)snprintf(error, error_size, "endpoints: found \"%s\", expected tcp://HOST:PORT", out);
        return TG_EINVALID;
    }
    for (size_t i = 0; i < endpoints->count; i++) {
        if (strcmp(endpoints->text[i], out) == 0)
            return 0;
    }
    endpoints->count++;
    return 0;
}

int client_endpoints_parse(struct client_endpoints *endpoints, const char *list, char *error,
                           size_t error_size)
{
    endpoints->count = 0;
    while (list != NULL && *list != '\0') {
        size_t skip = strspn(list, " \t");
        size_t len = strcspn(list, ",");
        size_t end = len;
        int status;

        while (end > skip && (list[end - 1] == ' ' || list[end - 1] == '\t'))
            end--;
        if (skip > end)
            skip = end;
        status = add(endpoints, list + skip, end - skip, error, error_size);
        if (status != 0)
            return status;
        list += len;
        if (*list == ',')
            list++;
    }
    if (endpoints->count != 0)
        return 0;
    (void)snprintf(error, error_size, "endpoints: found none, expected tcp://HOST:PORT[,...]");
    return TG_EINVALID;
}

void client_endpoint_of(struct wire_text address, char out[CLIENT_ENDPOINT_LEN])
{
    memcpy(out, scheme, sizeof scheme - 1);
    memcpy(out + sizeof scheme - 1, address.data, address.len);
    out[sizeof scheme - 1 + address.len] = '\0';
}
