/* decision_json.c - decisions in JSON and in header fields; decision_json.h has their forms. */
#include "node/gateway/api/decision_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "base/vocabulary.h"

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

/* Names are constants: their lengths are then known where they are put. */
#define INLINE inline __attribute__((always_inline))

/* The parameters' letters, by the draft. */
#define POLICY_QUOTA   "q"
#define POLICY_WINDOW  "w"
#define POLICY_UNIT    "qu"
#define LIMIT_LEFT     "r"
#define LIMIT_RESET    "t"
#define UNIT_IN_FLIGHT "concurrent-requests"

enum {
    STATUS_OK = 200,
    STATUS_BAD = 400,
    STATUS_DENIED = 429,
    STATUS_UNAVAILABLE = 503,
    LEASE_LEN = 17,
    NAME_LEN = 2 * WIRE_RULE_MAX + 2 /* quoted, each letter escaped */
};

/* An integer of a structured field has 15 digits at most (RFC 9651). */
#define FIELD_INTEGER_MAX UINT64_C(999999999999999)

static struct wire_source source_of(const struct wire_decision *decision)
{
    return decision->source != NULL ? *decision->source : (struct wire_source){0};
}

static bool undecided(const struct wire_decision *decision)
{
    return !decision->allowed &&
           (decision->outcome == OUTCOME_BUSY || decision->outcome == OUTCOME_ERROR);
}

unsigned decision_status(const struct wire_decision *decision)
{
    const unsigned status = decision->source != NULL ? decision->source->status : 0;
    if (undecided(decision)) /* or what was asked for there is not: 400 */
        return status == STATUS_BAD ? status : STATUS_UNAVAILABLE;
    if (status != 0)
        return status;
    return decision->allowed ? STATUS_OK : STATUS_DENIED;
}

/* ---- the body -------------------------------------------------------------------------------- */

static INLINE void put_text(struct http_reply *reply, const char *name, struct wire_text value)
{
    http_put_text(reply, name);
    http_put_string(reply, value);
}

static INLINE void put_count(struct http_reply *reply, const char *name, uint64_t value)
{
    http_put_text(reply, name);
    http_put_unsigned(reply, value);
}

static INLINE void put_time(struct http_reply *reply, const char *name, int64_t ms)
{
    http_put_text(reply, name);
    http_put_integer(reply, ms);
}

static struct wire_text message_of(const struct wire_decision *decision,
                                   const struct wire_source *source)
{
    if (source->message.len > 0)
        return source->message;
    return wire_text_of(decision->allowed ? "" : outcome_sentence(decision->outcome));
}

static void put_lease(struct http_reply *reply, const struct wire_decision *decision, bool reserved)
{
    char lease[LEASE_LEN];
    if (decision->lease != 0) {
        (void)snprintf(lease, sizeof lease, "%016" PRIx64, decision->lease);
        put_text(reply, reserved ? ",\"hold_id\":" : ",\"lease_id\":", wire_text_of(lease));
    }
    if (decision->lease_ms != 0)
        put_count(reply, reserved ? ",\"hold_ms\":" : ",\"lease_ms\":", decision->lease_ms);
}

/* A rate in thousandths, as a number of tokens a second. */
static void put_rate(struct http_reply *reply, const char *name, uint64_t rate)
{
    const unsigned digits = (unsigned)(rate % 1000);
    const char decimals[] = {'.', (char)('0' + digits / 100), (char)('0' + digits / 10 % 10),
                             (char)('0' + digits % 10)};
    put_count(reply, name, rate / 1000);
    if (digits != 0)
        http_put(reply, decimals, sizeof decimals);
}

static void put_row(struct http_reply *reply, const struct wire_explain_row *row)
{
    put_text(reply, "{\"rule\":", row->rule);
    put_text(reply, ",\"window\":", row->window);
    put_count(reply, ",\"limit\":", row->limit);
    put_count(reply, ",\"used\":", row->used);
    put_count(reply, ",\"remaining\":", row->remaining);
    http_put_text(reply, row->allowed ? ",\"allowed\":true" : ",\"allowed\":false");
    put_time(reply, ",\"reset_after_ms\":", row->reset_after_ms);
    put_time(reply, ",\"retry_after_ms\":", row->retry_after_ms);
    if (row->pool.len > 0) {
        put_text(reply, ",\"pool\":", row->pool);
        put_rate(reply, ",\"level\":", row->level);
        put_rate(reply, ",\"guaranteed\":", row->guaranteed);
        put_rate(reply, ",\"borrowed\":", row->borrowed);
    }
    if (row->pool.len > 0 && row->pool_global)
        put_text(reply, ",\"pool_scope\":\"global\",\"pool_home\":", row->pool_home);
    http_put_text(reply, "}");
}

static void put_fields(struct http_reply *reply, const struct wire_decision *decision,
                       unsigned manner)
{
    const bool brief = (manner & DECISION_BRIEF) != 0;
    const struct wire_source source = source_of(decision);
    http_put_text(reply, decision->allowed ? "{\"allowed\":true" : "{\"allowed\":false");
    put_text(reply, ",\"outcome\":", wire_text_of(outcome_name(decision->outcome)));
    put_text(reply, ",\"rule\":", source.rule);
    put_text(reply, ",\"window\":", source.window);
    put_count(reply, ",\"limit\":", decision->limit);
    put_count(reply, ",\"used\":", decision->used);
    put_count(reply, ",\"remaining\":", decision->remaining);
    put_count(reply, ",\"granted\":", decision->granted);
    put_time(reply, ",\"reset_after_ms\":", decision->reset_after_ms);
    put_time(reply, ",\"retry_after_ms\":", decision->retry_after_ms);
    put_time(reply, ",\"delay_ms\":", decision->delay_ms);
    put_count(reply, ",\"status\":", decision_status(decision));
    put_text(reply, ",\"message\":", brief ? wire_text_of("") : message_of(decision, &source));
    http_put_text(reply, decision->degraded ? ",\"degraded\":true" : ",\"degraded\":false");
    put_text(reply, ",\"node\":", source.node);
    if (source.shadow_rule.len > 0 && !brief)
        put_text(reply, ",\"shadow_rule\":", source.shadow_rule);
    put_lease(reply, decision, (manner & DECISION_RESERVED) != 0);
}

void decision_put(struct http_reply *reply, const struct wire_decision *decision, unsigned manner)
{
    put_fields(reply, decision, manner);
    http_put_text(reply, "}");
}

void decision_put_explained(struct http_reply *reply, const struct wire_decision *decision,
                            const struct wire_explain_row *rows, uint32_t count)
{
    put_fields(reply, decision, 0);
    http_put_text(reply, ",\"explain\":[");
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            http_put_text(reply, ",\n");
        put_row(reply, &rows[i]);
    }
    http_put_text(reply, "]}");
}

/* ---- header fields --------------------------------------------------------------------------- */

/* Whole seconds, rounded up, so that whoever waits so long has waited long enough. */
static uint64_t seconds_of(int64_t ms)
{
    const uint64_t positive = ms > 0 ? (uint64_t)ms : 0;
    return positive / 1000 + (positive % 1000 != 0);
}

static uint64_t bounded(uint64_t value)
{
    return value < FIELD_INTEGER_MAX ? value : FIELD_INTEGER_MAX;
}

/* The rule's name as a String of RFC 9651, and its length: what is no letter of it becomes '?'. An
 * own limit has none. */
static size_t name_of(const struct wire_source *source, char out[NAME_LEN])
{
    const struct wire_text name = source->rule.len > 0 ? source->rule : wire_text_of("key");
    size_t len = 0;
    out[len++] = '"';
    for (size_t i = 0; i < name.len && i < WIRE_RULE_MAX; i++) {
        const char c = name.data[i];
        if (c == '"' || c == '\\')
            out[len++] = '\\';
        out[len++] = (unsigned char)c >= ' ' && (unsigned char)c < 0x7f ? c : '?';
    }
    out[len++] = '"';
    return len;
}

/* The seconds of the limit's window; 0: it is not whole seconds, or has none. */
static uint64_t window_of(const struct wire_source *source)
{
    char text[WIRE_WINDOW_MAX + 1];
    char error[QUANTITY_ERROR_LEN];
    struct quantity_rate rate;
    if (source->window.len == 0 || source->window.len > WIRE_WINDOW_MAX)
        return 0;
    memcpy(text, source->window.data, source->window.len);
    text[source->window.len] = '\0';
    if (quantity_parse_rate(text, &rate, error) != 0 || rate.window_ns % NS_PER_S != 0)
        return 0;
    return rate.window_ns / NS_PER_S;
}

static void put_ietf(struct http_reply *reply, const struct wire_decision *decision,
                     const struct wire_source *source)
{
    char name[NAME_LEN];
    const uint64_t window_s = decision->in_flight ? 0 : window_of(source);
    const uint64_t wait_s =
        seconds_of(decision->allowed ? decision->reset_after_ms : decision->retry_after_ms);
    const size_t len = name_of(source, name);
    http_reply_header_open(reply, "RateLimit-Policy");
    http_put(reply, name, len);
    put_count(reply, ";" POLICY_QUOTA "=", bounded(decision->limit));
    if (window_s > 0)
        put_count(reply, ";" POLICY_WINDOW "=", window_s);
    else if (decision->in_flight)
        http_put_text(reply, ";" POLICY_UNIT "=\"" UNIT_IN_FLIGHT "\"");
    http_reply_header_close(reply);
    http_reply_header_open(reply, "RateLimit");
    http_put(reply, name, len);
    put_count(reply, ";" LIMIT_LEFT "=", bounded(decision->remaining));
    if (wait_s > 0 && !decision->in_flight)
        put_count(reply, ";" LIMIT_RESET "=", wait_s);
    http_reply_header_close(reply);
}

const char *const decision_headers_words[] = {
    [DECISION_IETF] = "ietf", [DECISION_LEGACY] = "legacy", [DECISION_NO_HEADERS] = "off", NULL};

/* The reset is a time, not a wait: when all is there again, or, denied, when to ask again. */
static void put_legacy(struct http_reply *reply, const struct wire_decision *decision,
                       int64_t now_ns)
{
    const int64_t wait_ms = decision->allowed ? decision->reset_after_ms : decision->retry_after_ms;
    const int64_t now_ms = now_ns / NS_PER_MS;
    http_reply_header_integer(reply, "X-RateLimit-Limit", decision->limit);
    http_reply_header_integer(reply, "X-RateLimit-Remaining", decision->remaining);
    if (wait_ms >= 0 && wait_ms <= INT64_MAX - now_ms)
        http_reply_header_integer(reply, "X-RateLimit-Reset", seconds_of(now_ms + wait_ms));
}

void decision_put_headers(struct http_reply *reply, const struct wire_decision *decision,
                          enum decision_headers kind, int64_t now_ns)
{
    const struct wire_source source = source_of(decision);
    const uint64_t retry_s = seconds_of(decision->retry_after_ms);
    if (decision->limit > 0 && kind == DECISION_IETF)
        put_ietf(reply, decision, &source);
    else if (decision->limit > 0 && kind == DECISION_LEGACY)
        put_legacy(reply, decision, now_ns);
    if (decision_status(decision) == STATUS_UNAVAILABLE || (!decision->allowed && retry_s > 0))
        http_reply_header_integer(reply, "Retry-After", retry_s > 0 ? retry_s : 1);
}
