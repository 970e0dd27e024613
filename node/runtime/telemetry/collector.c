/* collector.c - see collector.h.
 *
 * COLLECTOR-1  A message takes at most its timeout, whatever the collector does.
 * COLLECTOR-2  Of an answer's body at most COLLECTOR_ANSWER_MAX bytes are taken; libcurl bounds its
 *              head.
 */
#include "node/runtime/telemetry/collector.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/quantity.h"
#include "node/gateway/api/json_reader.h"
#include "node/runtime/config/config_telemetry.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

enum { POLL_MS = 1000, HEADER_LEN = 4096 + CONFIG_PAIR_LEN };

struct collector {
    struct collector_options options;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    bool global;
    size_t len;
    char body[COLLECTOR_ANSWER_MAX];
};

static int64_t mono_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* COLLECTOR-2 */
static size_t take_body(char *data, size_t size, size_t count, void *context)
{
    struct collector *collector = context;
    const size_t len = size * count;
    if (len > sizeof collector->body - collector->len)
        return 0;
    memcpy(collector->body + collector->len, data, len);
    collector->len += len;
    return len;
}

static bool add_header(struct collector *collector, const char *line)
{
    struct curl_slist *more = curl_slist_append(collector->headers, line);
    if (more != NULL)
        collector->headers = more;
    return more != NULL;
}

static bool add_headers(struct collector *collector)
{
    struct config_pair pair;
    char line[HEADER_LEN];
    const char *at = collector->options.headers;
    bool ok = add_header(collector, "Content-Type: application/json") &&
              add_header(collector, "Expect:"); /* nobody waits to be told to go on */
    while (ok && config_pair_next(&at, &pair)) {
        (void)snprintf(line, sizeof line, "%s: %s", pair.name, pair.value);
        ok = add_header(collector, line);
    }
    return ok;
}

static bool set_up(struct collector *collector)
{
    CURL *easy = collector->easy;
    const long timeout_ms = (long)(collector->options.timeout_ns / NS_PER_MS);
    bool ok = curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
              curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
              curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
              curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK &&
              curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms) == CURLE_OK &&
              curl_easy_setopt(easy, CURLOPT_USERAGENT, collector->options.agent) == CURLE_OK &&
              curl_easy_setopt(easy, CURLOPT_HTTPHEADER, collector->headers) == CURLE_OK &&
              curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
              curl_easy_setopt(easy, CURLOPT_WRITEDATA, collector) == CURLE_OK;
    if (ok && collector->options.ca[0] != '\0')
        ok = curl_easy_setopt(easy, CURLOPT_CAINFO, collector->options.ca) == CURLE_OK;
    return ok;
}

int collector_new(const struct collector_options *options, struct collector **out)
{
    struct collector *collector = calloc(1, sizeof *collector);
    *out = collector;
    if (collector == NULL)
        return TG_ENOMEM;
    collector->options = *options;
    collector->global = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    if (collector->global) {
        collector->multi = curl_multi_init();
        collector->easy = curl_easy_init();
    }
    if (collector->multi != NULL && collector->easy != NULL && add_headers(collector) &&
        set_up(collector))
        return 0;
    collector_free(out);
    return TG_EIO;
}

void collector_free(struct collector **pointer)
{
    struct collector *collector = *pointer;
    *pointer = NULL;
    if (collector == NULL)
        return;
    if (collector->easy != NULL)
        curl_easy_cleanup(collector->easy);
    if (collector->multi != NULL)
        (void)curl_multi_cleanup(collector->multi);
    curl_slist_free_all(collector->headers);
    if (collector->global)
        curl_global_cleanup();
    free(collector);
}

static bool is(struct wire_text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

/* A count in quotes, as OTLP has it, or as a number; 0 if it is none. */
static uint64_t count_of(struct wire_text text)
{
    char digits[QUANTITY_TEXT_LEN];
    char why[QUANTITY_ERROR_LEN];
    uint64_t count = 0;
    (void)snprintf(digits, sizeof digits, "%.*s", (int)text.len, text.data);
    return quantity_parse_uint(digits, UINT64_MAX, &count, why) == 0 ? count : 0;
}

uint64_t collector_rejected(const char *body, size_t len)
{
    struct json_reader reader;
    struct wire_text key;
    struct wire_text value;
    char room[COLLECTOR_WHY_LEN];
    uint64_t count = 0;
    json_reader_begin(&reader, body, len, room, sizeof room);
    if (!json_open_object(&reader))
        return 0;
    while (json_next_member(&reader, &key)) {
        if (!is(key, "partialSuccess"))
            json_refuse(&reader, "is not known");
        if (!json_open_object(&reader))
            return count;
        while (json_next_member(&reader, &key) && json_take_scalar(&reader, &value))
            if (is(key, "rejectedSpans") || is(key, "rejectedDataPoints"))
                count = count_of(value);
    }
    return count;
}

static void read_answer(struct collector *collector, CURLcode result, struct collector_answer *out)
{
    long status = 0;
    curl_off_t after_s = 0;
    (void)curl_easy_getinfo(collector->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(collector->easy, CURLINFO_RETRY_AFTER, &after_s);
    out->status = status > 0 && status < 1000 ? (uint16_t)status : 0;
    out->retry_ns = after_s > 0 && after_s < INT64_MAX / NS_PER_S ? after_s * NS_PER_S : 0;
    if (out->status / 100 == 2)
        out->rejected = collector_rejected(collector->body, collector->len);
    if (result != CURLE_OK)
        (void)snprintf(out->why, sizeof out->why, "%s", curl_easy_strerror(result));
}

/* Until it is done, or is to be given up. */
static bool carry(struct collector *collector, const _Atomic bool *stopping,
                  const _Atomic int64_t *until_ns, CURLcode *result)
{
    int running = 1;
    int left;
    while (true) {
        if (curl_multi_perform(collector->multi, &running) != CURLM_OK)
            return false;
        if (running == 0)
            break;
        const bool ends = atomic_load(stopping);
        const int64_t left_ms = (atomic_load(until_ns) - mono_ns()) / NS_PER_MS;
        if (ends && left_ms <= 0)
            return false;
        const int wait_ms = ends && left_ms < POLL_MS ? (int)left_ms + 1 : POLL_MS;
        if (curl_multi_poll(collector->multi, NULL, 0, wait_ms, NULL) != CURLM_OK)
            return false;
    }
    const CURLMsg *message = curl_multi_info_read(collector->multi, &left);
    if (message == NULL || message->msg != CURLMSG_DONE)
        return false;
    *result = message->data.result;
    return true;
}

void collector_post(struct collector *collector, const char *url, const char *data, size_t len,
                    const _Atomic bool *stopping, const _Atomic int64_t *until_ns,
                    struct collector_answer *out)
{
    CURLcode result = CURLE_OK;
    CURL *easy = collector->easy;
    *out = (struct collector_answer){.ended = true};
    collector->len = 0;
    if (curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, data) != CURLE_OK ||
        curl_multi_add_handle(collector->multi, easy) != CURLM_OK) {
        (void)snprintf(out->why, sizeof out->why, "the message cannot be prepared");
        return;
    }
    if (carry(collector, stopping, until_ns, &result)) {
        out->ended = false;
        read_answer(collector, result, out);
    }
    (void)curl_multi_remove_handle(collector->multi, easy);
}

void collector_wake(struct collector *collector)
{
    (void)curl_multi_wakeup(collector->multi);
}
