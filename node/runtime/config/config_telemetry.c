/* config_telemetry.c - see config_telemetry.h.
 *
 *   OTEL_EXPORTER_OTLP_ENDPOINT=http://host:4318  -->  otlp_endpoint  -->  .../v1/traces
 *                                                                          .../v1/metrics
 */
#include "node/runtime/config/config_telemetry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hex.h"
#include "node/runtime/config/config_option.h"

enum { VALUE_LEN = 32 };

/* ---- lists of pairs -------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Percent-decodes, without blanks around it. False: it is too long, or would break a line. */
static bool decode(const char *text, size_t len, char out[CONFIG_PAIR_LEN])
{
    size_t to = 0;
    while (len > 0 && is_blank(*text)) {
        text++;
        len--;
    }
    while (len > 0 && is_blank(text[len - 1]))
        len--;
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)text[i];
        if (c == '%' && i + 2 < len && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
            c = hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]);
            i += 2;
        }
        if (to == CONFIG_PAIR_LEN - 1 || c < ' ' || c == 0x7f)
            return false;
        out[to++] = (char)c;
    }
    out[to] = '\0';
    return true;
}

static bool is_name(const char *name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "!#$&'*+-.^_`|~/";
    return name[0] != '\0' && strspn(name, good) == strlen(name);
}

bool config_pair_next(const char **text, struct config_pair *out)
{
    const char *at = *text;
    const size_t len = strcspn(at, ",");
    const char *equals = memchr(at, '=', len);
    if (equals == NULL)
        return false;
    const size_t name_len = (size_t)(equals - at);
    if (!decode(at, name_len, out->name) || !is_name(out->name) ||
        !decode(equals + 1, len - name_len - 1, out->value))
        return false;
    *text = at + len + (at[len] == ',');
    return true;
}

static int check_pairs(const char *option, const char *text, char error[CONFIG_ERROR_LEN])
{
    struct config_pair pair;
    const char *at = text;
    while (config_pair_next(&at, &pair))
        continue;
    if (*at == '\0')
        return TG_OK;
    /* What is found may be a secret. */
    (void)snprintf(error, CONFIG_ERROR_LEN,
                   "--%s: byte %zu begins no pair; expected NAME=VALUE,NAME=VALUE", option,
                   (size_t)(at - text) + 1);
    return TG_EINVALID;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool is_off(const char *text)
{
    return text[0] == '\0' || strcmp(text, "off") == 0;
}

static int check_url(const char *option, const char *url, char error[CONFIG_ERROR_LEN])
{
    char shown[CONFIG_SHOWN_LEN];
    const bool http = strncasecmp(url, "http://", 7) == 0;
    const bool https = strncasecmp(url, "https://", 8) == 0;
    const char *host = url + (https ? 8 : http ? 7 : 0);
    const size_t host_len = strcspn(host, "/?#");
    const bool user = memchr(host, '@', host_len) != NULL;
    if ((http || https) && host_len > 0 && !user && strpbrk(url, " ?#") == NULL)
        return TG_OK;
    (void)snprintf(error, CONFIG_ERROR_LEN,
                   "--%s: found %s; expected http://HOST:PORT or https://HOST:PORT, with a path or "
                   "not, and without a user",
                   option, user ? "a user" : config_shown(url, shown));
    return TG_EINVALID;
}

/* The address of a signal: its own, or that of all with the signal's path. */
static int derive(const struct config_telemetry *telemetry, const char *option, const char *path,
                  char signal[CONFIG_URL_LEN], char error[CONFIG_ERROR_LEN])
{
    const char *base = telemetry->endpoint;
    size_t len = strlen(base);
    if (signal[0] != '\0' && is_off(signal)) {
        signal[0] = '\0';
        return TG_OK;
    }
    if (signal[0] != '\0')
        return check_url(option, signal, error);
    if (is_off(base))
        return TG_OK;
    if (check_url("otlp-endpoint", base, error) != TG_OK)
        return TG_EINVALID;
    while (len > 0 && base[len - 1] == '/')
        len--;
    if (len + strlen(path) < CONFIG_URL_LEN) {
        memcpy(signal, base, len);
        memcpy(signal + len, path, strlen(path) + 1);
        return TG_OK;
    }
    (void)snprintf(error, CONFIG_ERROR_LEN, "--otlp-endpoint: expected at most %d bytes",
                   (int)(CONFIG_URL_LEN - 1 - (int)strlen(path)));
    return TG_EINVALID;
}

int config_telemetry_check(struct config *config, char error[CONFIG_ERROR_LEN])
{
    struct config_telemetry *telemetry = &config->telemetry;
    int result = derive(telemetry, "otlp-traces", "/v1/traces", telemetry->traces, error);
    if (result == TG_OK)
        result = derive(telemetry, "otlp-metrics", "/v1/metrics", telemetry->metrics, error);
    if (result == TG_OK)
        result = check_pairs("otlp-headers", telemetry->headers, error);
    if (result == TG_OK)
        result = check_pairs("otlp-resource", telemetry->resource, error);
    return result;
}

/* ---- the environment ------------------------------------------------------------------------- */

static const struct variable {
    const char *name;
    const char *option;
    const char *unit; /* behind the number, or NULL */
} variables[] = {
    {"OTEL_EXPORTER_OTLP_ENDPOINT", "otlp-endpoint", NULL},
    {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "otlp-traces", NULL},
    {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "otlp-metrics", NULL},
    {"OTEL_EXPORTER_OTLP_HEADERS", "otlp-headers", NULL},
    {"OTEL_EXPORTER_OTLP_CERTIFICATE", "otlp-ca", NULL},
    {"OTEL_EXPORTER_OTLP_TIMEOUT", "otlp-timeout", "ms"},
    {"OTEL_METRIC_EXPORT_INTERVAL", "otlp-interval", "ms"},
    {"OTEL_SERVICE_NAME", "otlp-service", NULL},
    {"OTEL_RESOURCE_ATTRIBUTES", "otlp-resource", NULL},
    {"OTEL_TRACES_SAMPLER", "trace-sampler", NULL},
    {"OTEL_TRACES_SAMPLER_ARG", "trace-ratio", NULL},
};

/* Of a signal: whether it is exported at all. */
static const struct variable exporters[] = {
    {"OTEL_TRACES_EXPORTER", "otlp-traces", NULL},
    {"OTEL_METRICS_EXPORTER", "otlp-metrics", NULL},
};

/* The value of a variable; an empty one is none. */
static const char *given(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static void ignore(struct config *config, const char *name, const char *why)
{
    struct config_telemetry *telemetry = &config->telemetry;
    if (telemetry->ignored[0] == '\0')
        (void)snprintf(telemetry->ignored, sizeof telemetry->ignored, "%s is ignored: %.400s", name,
                       why);
}

/* A variable is judged by itself: what is wrong in it does not keep the node from starting. */
static bool is_sound(const struct config_option *option, const char *value,
                     char error[CONFIG_ERROR_LEN])
{
    const bool url = strcmp(option->name, "otlp-endpoint") == 0 ||
                     strcmp(option->name, "otlp-traces") == 0 ||
                     strcmp(option->name, "otlp-metrics") == 0;
    const bool pairs =
        strcmp(option->name, "otlp-headers") == 0 || strcmp(option->name, "otlp-resource") == 0;
    if (url)
        return check_url(option->name, value, error) == TG_OK;
    return !pairs || check_pairs(option->name, value, error) == TG_OK;
}

static void take(struct config *config, const struct variable *variable)
{
    const struct config_option *option = config_option_find(variable->option, '-');
    const char *value = given(variable->name);
    char with_unit[VALUE_LEN];
    char why[CONFIG_WHY_LEN];
    char error[CONFIG_ERROR_LEN];
    if (value == NULL)
        return;
    if (variable->unit != NULL) {
        (void)snprintf(with_unit, sizeof with_unit, "%s%s", value, variable->unit);
        value = with_unit;
    }
    if (!is_sound(option, value, error))
        ignore(config, variable->name, error);
    else if (config_option_set(option, config, value, why) != TG_OK)
        ignore(config, variable->name, why);
}

void config_telemetry_environment(struct config *config)
{
    static const char protocol[] = "OTEL_EXPORTER_OTLP_PROTOCOL";
    const char *disabled = given("OTEL_SDK_DISABLED");
    const char *spoken = given(protocol);
    if (disabled != NULL && strcasecmp(disabled, "true") == 0)
        return;
    if (spoken != NULL && strcmp(spoken, "http/json") != 0 &&
        strcmp(spoken, "http/protobuf") != 0) {
        ignore(config, protocol,
               "expected http/json, or http/protobuf, whose collectors take JSON, too; nothing is "
               "pushed to where the environment says");
        return;
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        take(config, &variables[i]);
    for (size_t i = 0; i < sizeof exporters / sizeof *exporters; i++) {
        const char *value = given(exporters[i].name);
        char why[CONFIG_WHY_LEN];
        if (value == NULL || strcmp(value, "otlp") == 0)
            continue;
        if (strcmp(value, "none") != 0)
            ignore(config, exporters[i].name, "expected otlp or none");
        else if (config_option_set(config_option_find(exporters[i].option, '-'), config, "off",
                                   why) != TG_OK)
            ignore(config, exporters[i].name, why);
    }
}
