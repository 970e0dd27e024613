/* config_set.c - one option's text into its field of struct config, or a sentence why not.
 *
 *   "64M" --kind, range--> memory_bytes        "off" --> client.off
 *
 * CONFIGSET-1  A setter that refuses leaves the field as it was, and says what was found and
 *              expected.
 *
 * Must not: look at two options at once (config_check.c does).
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/quantity.h"
#include "node/gateway/access.h"
#include "node/runtime/config/config_auth.h"
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

/* A size with the largest unit that tells it whole. */
static const char *size_text(uint64_t bytes, char out[QUANTITY_TEXT_LEN])
{
    static const char units[] = "KMG";
    unsigned unit = bytes > 0 ? 2 : 0;
    while (unit > 0 && (bytes & ((UINT64_C(1) << (10 * (unit + 1))) - 1)) != 0)
        unit--;
    (void)snprintf(out, QUANTITY_TEXT_LEN, "%" PRIu64 "%c", bytes >> (10 * (unit + 1)),
                   units[unit]);
    return out;
}

/* "one, two or three" */
static void list_words(const char *const *words, char out[CONFIG_WHY_LEN])
{
    size_t len = 0;
    for (size_t i = 0; words[i] != NULL && len < CONFIG_WHY_LEN; i++) {
        const char *between = i == 0 ? "" : words[i + 1] != NULL ? ", " : " or ";
        const int more = snprintf(out + len, CONFIG_WHY_LEN - len, "%s%s", between, words[i]);
        len += more > 0 ? (size_t)more : 0;
    }
}

const char *config_option_expected(const struct config_option *option, char out[CONFIG_WHY_LEN])
{
    static const char *const fixed[] = {
        [CONFIG_KIND_SWITCH] = "true or false",
        [CONFIG_KIND_HOST] = "an IP address or a host's name, without port",
        [CONFIG_KIND_ENDPOINT] = "HOST:PORT (an IPv6 address in brackets)",
        [CONFIG_KIND_LISTEN] = "HOST:PORT (an IPv6 address in brackets), unix:PATH",
        [CONFIG_KIND_RATIO] = "a number from 0 to 1, with at most six places",
        [CONFIG_KIND_SEED] = "HOST:PORT of a member's gossip (an IPv6 address in brackets)",
        [CONFIG_KIND_HOSTS] = "an IP address or a host's name, without port, or *",
        [CONFIG_KIND_TOLD] = "HOST:PORT that clients reach (an IPv6 address in brackets)",
        [CONFIG_KIND_NETWORK] = NETWORKS_TEXT,
        [CONFIG_KIND_AUTH] = "a mapping of endpoints, as {nginx: {status: {deny: 403}}}",
        [CONFIG_KIND_ROLES] = "none, or some of check, adjust, inline, observe with commas between",
        [CONFIG_KIND_LEVEL] = "debug, info, warn or error",
        [CONFIG_KIND_VERSION] = NULL,
    };
    char min[QUANTITY_TEXT_LEN];
    char max[QUANTITY_TEXT_LEN];
    const bool port = option->kind == CONFIG_KIND_PORT;

    out[0] = '\0';
    switch (option->kind) {
    case CONFIG_KIND_NUMBER:
    case CONFIG_KIND_PORT:
        (void)snprintf(out, CONFIG_WHY_LEN, "a whole number from %" PRIu64 " to %" PRIu64,
                       port ? 1 : option->min, port ? UINT16_MAX : option->max);
        break;
    case CONFIG_KIND_SIZE:
        (void)snprintf(out, CONFIG_WHY_LEN, "a size from %s to %s", size_text(option->min, min),
                       size_text(option->max, max));
        break;
    case CONFIG_KIND_DURATION:
        quantity_format_duration(option->min, min);
        quantity_format_duration(option->max, max);
        (void)snprintf(out, CONFIG_WHY_LEN, "a time from %s to %s", min, max);
        break;
    case CONFIG_KIND_PATH:
    case CONFIG_KIND_FILE:
        (void)snprintf(out, CONFIG_WHY_LEN, "a path of 1 to %d bytes", CONFIG_PATH_LEN - 1);
        break;
    case CONFIG_KIND_NAME:
        (void)snprintf(out, CONFIG_WHY_LEN,
                       "%" PRIu64 " to %" PRIu64 " of the characters a-z A-Z 0-9 . _ -",
                       option->min, option->max);
        break;
    case CONFIG_KIND_TEXT:
        (void)snprintf(out, CONFIG_WHY_LEN, "%" PRIu64 " to %" PRIu64 " bytes of printable ASCII",
                       option->min, option->max);
        break;
    case CONFIG_KIND_WORD:
        list_words(option->words, out);
        break;
    default:
        if (fixed[option->kind] != NULL)
            (void)snprintf(out, CONFIG_WHY_LEN, "%s%s", fixed[option->kind],
                           option->may_be_off ? ", or off" : "");
        break;
    }
    return out;
}

/* found "text"; expected what the option takes. */
static int refuse_value(const struct config_option *option, const char *text,
                        char why[CONFIG_WHY_LEN])
{
    char expected[CONFIG_WHY_LEN];
    return refuse(why, text, "%s", config_option_expected(option, expected));
}

static int set_switch(const struct config_option *option, bool *field, const char *text,
                      char why[CONFIG_WHY_LEN])
{
    const bool value = strcmp(text, "true") == 0;

    if (!value && strcmp(text, "false") != 0)
        return refuse_value(option, text, why);
    *field = value;
    return TG_OK;
}

static int parse_number(const struct config_option *option, const char *text, uint64_t min,
                        uint64_t max, uint64_t *value, char why[CONFIG_WHY_LEN])
{
    char error[QUANTITY_ERROR_LEN];
    const bool good = quantity_parse_uint(text, max, value, error) == TG_OK && *value >= min;
    return good ? TG_OK : refuse_value(option, text, why);
}

static int set_number(const struct config_option *option, uint32_t *field, const char *text,
                      char why[CONFIG_WHY_LEN])
{
    uint64_t value;
    const int result = parse_number(option, text, option->min, option->max, &value, why);

    if (result == TG_OK)
        *field = (uint32_t)value;
    return result;
}

static int set_port(const struct config_option *option, uint16_t *field, const char *text,
                    char why[CONFIG_WHY_LEN])
{
    uint64_t value;
    const int result = parse_number(option, text, 1, UINT16_MAX, &value, why);

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
        return refuse_value(option, text, why);
    *field = bytes;
    return TG_OK;
}

static int set_duration(const struct config_option *option, int64_t *field, const char *text,
                        char why[CONFIG_WHY_LEN])
{
    char error[QUANTITY_ERROR_LEN];
    uint64_t ns;

    if (quantity_parse_wait(text, &ns, error) != TG_OK) { /* the range says whether it may be 0 */
        (void)snprintf(why, CONFIG_WHY_LEN, "%s", error);
        return TG_EINVALID;
    }
    if (ns < option->min || ns > option->max)
        return refuse_value(option, text, why);
    *field = (int64_t)ns;
    return TG_OK;
}

static int set_path(const struct config_option *option, char *field, const char *text,
                    char why[CONFIG_WHY_LEN])
{
    const size_t len = strlen(text);

    if (len == 0 || len >= CONFIG_PATH_LEN)
        return refuse_value(option, text, why);
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
        return refuse_value(option, text, why);
    memcpy(field, text, len + 1);
    return TG_OK;
}

static int set_host(const struct config_option *option, char *field, const char *text,
                    char why[CONFIG_WHY_LEN])
{
    const size_t full = strlen(text);
    const bool bracketed = full > 2 && text[0] == '[' && text[full - 1] == ']';
    const char *host = bracketed ? text + 1 : text;
    const size_t len = bracketed ? full - 2 : full;

    if (!config_host_valid(host, len))
        return refuse_value(option, text, why);
    memcpy(field, host, len);
    field[len] = '\0';
    return TG_OK;
}

static int set_endpoint(struct config_endpoint *field, const char *text, char why[CONFIG_WHY_LEN])
{
    struct config_endpoint endpoint = {.off = true};

    if (strcmp(text, "off") != 0 && config_endpoint_parse(text, &endpoint) != TG_OK)
        return refuse(why, text, "HOST:PORT (an IPv6 address in brackets)");
    *field = endpoint;
    return TG_OK;
}

static struct config_listen *listen_of(const struct config_option *option, struct config *config)
{
    return (void *)((unsigned char *)config + option->more);
}

/* "unix:/run/tidegate.sock": an absolute path, for the node may be started anywhere. */
static int parse_place(const char *text, struct config_place *out)
{
    static const char unix_word[] = "unix:";
    const char *path = text + sizeof unix_word - 1;

    *out = (struct config_place){.path = ""};
    if (strncmp(text, unix_word, sizeof unix_word - 1) != 0)
        return config_endpoint_parse(text, &out->endpoint);
    if (path[0] != '/' || path[1] == '\0' || strlen(path) >= sizeof out->path)
        return TG_EINVALID;
    (void)snprintf(out->path, sizeof out->path, "%s", path);
    return TG_OK;
}

/* The first HOST:PORT is where others are told to come; what follows, and sockets of the file
 * system, are further places. */
static int add_listen(const struct config_option *option, struct config *config, const char *text,
                      char why[CONFIG_WHY_LEN])
{
    struct config_endpoint *first = (void *)((unsigned char *)config + option->offset);
    struct config_listen *more = listen_of(option, config);
    struct config_place place;
    const bool off = strcmp(text, "off") == 0;

    if (!off && parse_place(text, &place) != TG_OK)
        return refuse_value(option, text, why);
    if (first->off || (off && (first->port != 0 || more->count > 0)))
        return refuse(why, text, "off alone, or places to listen at");
    if (off) {
        first->off = true;
    } else if (first->port == 0 && place.path[0] == '\0') {
        *first = place.endpoint;
    } else {
        if (more->count == CONFIG_LISTEN_MAX)
            return refuse(why, text, "at most %d places beside the first", CONFIG_LISTEN_MAX);
        more->at[more->count++] = place;
    }
    return TG_OK;
}

bool config_option_repeats(const struct config_option *option)
{
    return option->kind == CONFIG_KIND_SEED || option->kind == CONFIG_KIND_LISTEN ||
           option->kind == CONFIG_KIND_HOSTS || option->kind == CONFIG_KIND_NETWORK;
}

void config_option_clear(const struct config_option *option, struct config *config)
{
    ASSERT(config_option_repeats(option));
    if (option->kind == CONFIG_KIND_SEED) {
        config->seed_count = 0;
        return;
    }
    if (option->kind == CONFIG_KIND_HOSTS) {
        config->http.names.count = 0;
        return;
    }
    if (option->kind == CONFIG_KIND_NETWORK) {
        config->between.trusted_proxies = (struct networks){.count = 0};
        return;
    }
    *(struct config_endpoint *)(void *)((unsigned char *)config + option->offset) =
        (struct config_endpoint){.off = false};
    listen_of(option, config)->count = 0;
}

static int add_seed(const struct config_option *option, struct config *config, const char *text,
                    char why[CONFIG_WHY_LEN])
{
    struct config_endpoint seed;

    if (config_endpoint_parse(text, &seed) != TG_OK || config_host_is_wildcard(seed.host))
        return refuse_value(option, text, why);
    if (config->seed_count == CONFIG_SEEDS_MAX)
        return refuse(why, text, "at most %d seeds", CONFIG_SEEDS_MAX);
    config->seeds[config->seed_count++] = seed;
    return TG_OK;
}

static int add_host(const struct config_option *option, struct config_hosts *field,
                    const char *text, char why[CONFIG_WHY_LEN])
{
    if (field->count == CONFIG_HOSTS_MAX)
        return refuse(why, text, "at most %d names", CONFIG_HOSTS_MAX);
    const int result = set_host(option, field->at[field->count], text, why);
    field->count += result == TG_OK;
    return result;
}

/* An address that is told to others: it fits where they are told. */
static int set_told(const struct config_option *option, struct config_endpoint *field,
                    const char *text, char why[CONFIG_WHY_LEN])
{
    struct config_endpoint endpoint;

    if (config_endpoint_parse(text, &endpoint) != TG_OK || config_host_is_wildcard(endpoint.host))
        return refuse_value(option, text, why);
    if (strlen(text) >= CONFIG_ADDRESS_LEN)
        return refuse(why, text, "HOST:PORT of at most %d bytes", CONFIG_ADDRESS_LEN - 1);
    *field = endpoint;
    return TG_OK;
}

static int add_network(struct networks *field, const char *text, char why[CONFIG_WHY_LEN])
{
    char expected[NETWORKS_EXPECTED_LEN];
    return networks_add(field, text, expected) == 0 ? TG_OK : refuse(why, text, "%s", expected);
}

static_assert(sizeof(enum config_proxy_protocol) == sizeof(unsigned) &&
                  sizeof(enum config_log_format) == sizeof(unsigned) &&
                  sizeof(enum decision_headers) == sizeof(unsigned) &&
                  sizeof(enum ratelimit_fields) == sizeof(unsigned) &&
                  sizeof(enum metrics_compat) == sizeof(unsigned),
              "an enum is set by its number");

/* What is found may be a secret: it is not shown. */
static int set_text(const struct config_option *option, char *field, const char *text,
                    char why[CONFIG_WHY_LEN])
{
    char expected[CONFIG_WHY_LEN / 2];
    const size_t len = strlen(text);
    bool good = len >= option->min && len <= option->max;
    for (size_t i = 0; i < len && good; i++)
        good = text[i] >= ' ' && text[i] <= '~';
    if (good) {
        memcpy(field, text, len + 1);
        return TG_OK;
    }
    (void)config_option_expected(option, why);
    (void)snprintf(expected, sizeof expected, "%s", why);
    (void)snprintf(why, CONFIG_WHY_LEN, "found %zu bytes, or other ones; expected %s", len,
                   expected);
    return TG_EINVALID;
}

/* "0.25": at most PLACES digits behind the point. */
static int set_ratio(const struct config_option *option, uint32_t *field, const char *text,
                     char why[CONFIG_WHY_LEN])
{
    enum { PLACES = 6 };
    const char *at = text;
    uint32_t value = *at == '1';
    unsigned places = 0;
    at += *at == '0' || *at == '1';
    const bool begun = at > text;
    const bool point = *at == '.';
    at += point;
    for (; point && places < PLACES && *at >= '0' && *at <= '9'; places++)
        value = value * 10 + (uint32_t)(*at++ - '0');
    for (unsigned i = places; i < PLACES; i++)
        value *= 10;
    if (*at != '\0' || value > TRACE_RATIO_ALL || (!begun && places == 0) || (point && places == 0))
        return refuse_value(option, text, why);
    *field = value;
    return TG_OK;
}

static int set_word(const struct config_option *option, void *field, const char *text,
                    char why[CONFIG_WHY_LEN])
{
    for (unsigned i = 0; option->words[i] != NULL; i++) {
        if (strcmp(text, option->words[i]) == 0) {
            memcpy(field, &i, sizeof i);
            return TG_OK;
        }
    }
    return refuse_value(option, text, why);
}

/* Who is not known has no roles that change what all others get. */
static int set_roles(const struct config_option *option, uint8_t *field, const char *text,
                     char why[CONFIG_WHY_LEN])
{
    char error[RIGHTS_EXPECTED_LEN];
    uint8_t roles;
    if (rights_parse(text, strlen(text), &roles, error) != TG_OK ||
        (roles & ~ACCESS_ANONYMOUS) != 0)
        return refuse_value(option, text, why);
    *field = roles;
    return TG_OK;
}

int config_option_set(const struct config_option *option, struct config *config, const char *text,
                      char why[CONFIG_WHY_LEN])
{
    void *field = (unsigned char *)config + option->offset;

    switch (option->kind) {
    case CONFIG_KIND_SWITCH:
        return set_switch(option, field, text, why);
    case CONFIG_KIND_NUMBER:
        return set_number(option, field, text, why);
    case CONFIG_KIND_PORT:
        return set_port(option, field, text, why);
    case CONFIG_KIND_SIZE:
        return set_size(option, field, text, why);
    case CONFIG_KIND_DURATION:
        return set_duration(option, field, text, why);
    case CONFIG_KIND_PATH:
    case CONFIG_KIND_FILE:
        return set_path(option, field, text, why);
    case CONFIG_KIND_NAME:
        return set_name(option, field, text, why);
    case CONFIG_KIND_TEXT:
        return set_text(option, field, text, why);
    case CONFIG_KIND_RATIO:
        return set_ratio(option, field, text, why);
    case CONFIG_KIND_HOST:
        return set_host(option, field, text, why);
    case CONFIG_KIND_ENDPOINT:
        return set_endpoint(field, text, why);
    case CONFIG_KIND_LISTEN:
        return add_listen(option, config, text, why);
    case CONFIG_KIND_SEED:
        return add_seed(option, config, text, why);
    case CONFIG_KIND_HOSTS:
        return add_host(option, field, text, why);
    case CONFIG_KIND_TOLD:
        return set_told(option, field, text, why);
    case CONFIG_KIND_NETWORK:
        return add_network(field, text, why);
    case CONFIG_KIND_AUTH:
        return config_auth_set(text, field, why, CONFIG_WHY_LEN);
    case CONFIG_KIND_LEVEL:
        return log_level_parse(text, field) == TG_OK ? TG_OK : refuse_value(option, text, why);
    case CONFIG_KIND_ROLES:
        return set_roles(option, field, text, why);
    case CONFIG_KIND_WORD:
        return set_word(option, field, text, why);
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
