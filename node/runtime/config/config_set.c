/* config_set.c - one option's text into its field of struct config, or a sentence why not.
 *
 *   "64M" --kind, range--> memory_bytes        "off" --> client.off
 *
 * I1  A setter that refuses leaves the field as it was, and says what was found and expected.
 *
 * Must not: look at two options at once (config_check.c does).
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/quantity.h"
#include "node/runtime/config/config_option.h"

const char *config_shown(const char *text, char out[CONFIG_SHOWN_LEN])
{
    enum { KEPT_MAX = CONFIG_SHOWN_LEN - 6 }; /* two quotes, "..." and NUL */
    size_t at = 0;

    out[at++] = '"';
    for (; at <= KEPT_MAX && text[at - 1] != '\0'; at++) {
        const char c = text[at - 1];
        out[at] = c >= 0x20 && c < 0x7f && c != '"' ? c : '?';
    }
    (void)snprintf(out + at, CONFIG_SHOWN_LEN - at, "%s\"", text[at - 1] == '\0' ? "" : "...");
    return out;
}

/* found "text"; expected ... */
__attribute__((format(printf, 3, 4))) static int refuse(char why[CONFIG_WHY_LEN], const char *text,
                                                        const char *format, ...)
{
    char shown[CONFIG_SHOWN_LEN];
    char expected[CONFIG_WHY_LEN / 2];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(expected, sizeof(expected), format, arguments);
    va_end(arguments);
    (void)snprintf(why, CONFIG_WHY_LEN, "found %s; expected %s", config_shown(text, shown),
                   expected);
    return TG_EINVALID;
}

static int set_switch(bool *field, const char *text, char why[CONFIG_WHY_LEN])
{
    const bool value = strcmp(text, "true") == 0;

    if (!value && strcmp(text, "false") != 0)
        return refuse(why, text, "true or false");
    *field = value;
    return TG_OK;
}

static int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value,
                        char why[CONFIG_WHY_LEN])
{
    char error[QUANTITY_ERROR_LEN];

    if (quantity_parse_uint(text, max, value, error) != TG_OK || *value < min)
        return refuse(why, text, "a whole number from %" PRIu64 " to %" PRIu64, min, max);
    return TG_OK;
}

static int set_number(const struct config_option *option, uint32_t *field, const char *text,
                      char why[CONFIG_WHY_LEN])
{
    uint64_t value;
    const int result = parse_number(text, option->min, option->max, &value, why);

    if (result == TG_OK)
        *field = (uint32_t)value;
    return result;
}

static int set_port(uint16_t *field, const char *text, char why[CONFIG_WHY_LEN])
{
    uint64_t value;
    const int result = parse_number(text, 1, UINT16_MAX, &value, why);

    if (result == TG_OK)
        *field = (uint16_t)value;
    return result;
}

static int set_size(const struct config_option *option, uint64_t *field, const char *text,
                    char why[CONFIG_WHY_LEN])
{
    char error[QUANTITY_ERROR_LEN];
    uint64_t bytes;

    if (quantity_parse_size(text, &bytes, error) != TG_OK) {
        (void)snprintf(why, CONFIG_WHY_LEN, "%s", error);
        return TG_EINVALID;
    }
    if (bytes < option->min || bytes > option->max)
        return refuse(why, text, "a size from %" PRIu64 "M to %" PRIu64 "M", option->min >> 20,
                      option->max >> 20);
    *field = bytes;
    return TG_OK;
}

static int set_duration(const struct config_option *option, int64_t *field, const char *text,
                        char why[CONFIG_WHY_LEN])
{
    char error[QUANTITY_ERROR_LEN];
    char min[QUANTITY_TEXT_LEN];
    char max[QUANTITY_TEXT_LEN];
    uint64_t ns;

    if (quantity_parse_wait(text, &ns, error) != TG_OK) { /* the range says whether it may be 0 */
        (void)snprintf(why, CONFIG_WHY_LEN, "%s", error);
        return TG_EINVALID;
    }
    if (ns < option->min || ns > option->max) {
        quantity_format_duration(option->min, min);
        quantity_format_duration(option->max, max);
        return refuse(why, text, "a time from %s to %s", min, max);
    }
    *field = (int64_t)ns;
    return TG_OK;
}

static int set_path(char *field, const char *text, char why[CONFIG_WHY_LEN])
{
    const size_t len = strlen(text);

    if (len == 0 || len >= CONFIG_PATH_LEN)
        return refuse(why, text, "a path of 1 to %d bytes", CONFIG_PATH_LEN - 1);
    memcpy(field, text, len + 1);
    return TG_OK;
}

static int set_name(const struct config_option *option, char *field, const char *text,
                    char why[CONFIG_WHY_LEN])
{
    const size_t len = strlen(text);
    bool valid = len >= option->min && len <= option->max;

    for (size_t i = 0; valid && i < len; i++) {
        const char c = text[i];
        valid = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '.' || c == '_' || c == '-';
    }
    if (!valid)
        return refuse(why, text, "%" PRIu64 " to %" PRIu64 " of the characters a-z A-Z 0-9 . _ -",
                      option->min, option->max);
    memcpy(field, text, len + 1);
    return TG_OK;
}

static int set_host(char *field, const char *text, char why[CONFIG_WHY_LEN])
{
    const size_t full = strlen(text);
    const bool bracketed = full > 2 && text[0] == '[' && text[full - 1] == ']';
    const char *host = bracketed ? text + 1 : text;
    const size_t len = bracketed ? full - 2 : full;

    if (!config_host_valid(host, len))
        return refuse(why, text, "an IP address or a host's name, without port");
    memcpy(field, host, len);
    field[len] = '\0';
    return TG_OK;
}

static int set_endpoint(const struct config_option *option, struct config_endpoint *field,
                        const char *text, char why[CONFIG_WHY_LEN])
{
    const bool gateway = option->kind == CONFIG_KIND_GATEWAY;
    struct config_endpoint endpoint = {.off = true};

    if (strcmp(text, "off") != 0 && config_endpoint_parse(text, &endpoint) != TG_OK)
        return refuse(why, text, "HOST:PORT (an IPv6 address in brackets)");
    if (gateway && !endpoint.off) {
        (void)snprintf(why, CONFIG_WHY_LEN, "the %s is not supported by this version; expected off",
                       option->help);
        return TG_EINVALID;
    }
    *field = endpoint;
    return TG_OK;
}

static int add_seed(struct config *config, const char *text, char why[CONFIG_WHY_LEN])
{
    struct config_endpoint seed;

    if (config_endpoint_parse(text, &seed) != TG_OK || config_host_is_wildcard(seed.host))
        return refuse(why, text, "HOST:PORT of a member's gossip (an IPv6 address in brackets)");
    if (config->seed_count == CONFIG_SEEDS_MAX)
        return refuse(why, text, "at most %d seeds", CONFIG_SEEDS_MAX);
    config->seeds[config->seed_count++] = seed;
    return TG_OK;
}

static int set_format(enum config_log_format *field, const char *text, char why[CONFIG_WHY_LEN])
{
    if (strcmp(text, "text") == 0)
        *field = CONFIG_LOG_TEXT;
    else if (strcmp(text, "json") == 0)
        *field = CONFIG_LOG_JSON;
    else
        return refuse(why, text, "text or json");
    return TG_OK;
}

int config_option_set(const struct config_option *option, struct config *config, const char *text,
                      char why[CONFIG_WHY_LEN])
{
    void *field = (unsigned char *)config + option->offset;

    switch (option->kind) {
    case CONFIG_KIND_SWITCH:
        return set_switch(field, text, why);
    case CONFIG_KIND_NUMBER:
        return set_number(option, field, text, why);
    case CONFIG_KIND_PORT:
        return set_port(field, text, why);
    case CONFIG_KIND_SIZE:
        return set_size(option, field, text, why);
    case CONFIG_KIND_DURATION:
        return set_duration(option, field, text, why);
    case CONFIG_KIND_PATH:
    case CONFIG_KIND_FILE:
        return set_path(field, text, why);
    case CONFIG_KIND_NAME:
        return set_name(option, field, text, why);
    case CONFIG_KIND_HOST:
        return set_host(field, text, why);
    case CONFIG_KIND_ENDPOINT:
    case CONFIG_KIND_GATEWAY:
        return set_endpoint(option, field, text, why);
    case CONFIG_KIND_SEED:
        return add_seed(config, text, why);
    case CONFIG_KIND_LEVEL:
        return log_level_parse(text, field) == TG_OK
                   ? TG_OK
                   : refuse(why, text, "debug, info, warn or error");
    case CONFIG_KIND_FORMAT:
        return set_format(field, text, why);
    case CONFIG_KIND_UNSUPPORTED:
        (void)snprintf(why, CONFIG_WHY_LEN, "is not supported by this version");
        return TG_EINVALID;
    case CONFIG_KIND_HELP:
    case CONFIG_KIND_VERSION:
        break; /* config_flags_read ends at these */
    }
    ASSERT(option->kind < CONFIG_KIND_HELP); /* an option without value is never set */
    return TG_EINVALID;
}
