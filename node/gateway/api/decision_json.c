/* decision_json.c - decisions in JSON and in header fields; decision_json.h has their forms. */
#include "node/gateway/api/decision_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "base/vocabulary.h"

#define NS_PER_S UINT64_C(1000000000)

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
    NAME_LEN = 2 * WIRE_RULE_MAX + 3, /* quoted, each letter escaped */
    FIELD_LEN = NAME_LEN + 80
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

static void put_text(struct http_reply *reply, const char *name, struct wire_text value)
{
    http_put_text(reply, name);
    http_put_string(reply, value);
}

static void put_count(struct http_reply *reply, const char *name, uint64_t value)
{
    http_put_text(reply, name);
    http_put_unsigned(reply, value);
}

static void put_time(struct http_reply *reply, const char *name, int64_t ms)
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

void decision_put(struct http_reply *reply, const struct wire_decision *decision, unsigned manner)
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
    http_put_text(reply, "}");
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

/* The rule's name as a String of RFC 9651: what is no letter of it becomes '?'. An own limit has
 * none. */
static void name_of(const struct wire_source *source, char out[NAME_LEN])
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
    out[len] = '\0';
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
    char field[FIELD_LEN];
    const bool in_flight = decision->lease != 0 && decision->lease_ms == 0;
    const uint64_t window_s = in_flight ? 0 : window_of(source);
    const uint64_t wait_s =
        seconds_of(decision->allowed ? decision->reset_after_ms : decision->retry_after_ms);
    name_of(source, name);
    int len = snprintf(field, sizeof field, "%s;" POLICY_QUOTA "=%" PRIu64, name,
                       bounded(decision->limit));
    if (window_s > 0)
        (void)snprintf(field + len, sizeof field - (size_t)len, ";" POLICY_WINDOW "=%" PRIu64,
                       window_s);
    else if (in_flight)
        (void)snprintf(field + len, sizeof field - (size_t)len,
                       ";" POLICY_UNIT "=\"" UNIT_IN_FLIGHT "\"");
    http_reply_header(reply, "RateLimit-Policy", field);
    len = snprintf(field, sizeof field, "%s;" LIMIT_LEFT "=%" PRIu64, name,
                   bounded(decision->remaining));
    if (wait_s > 0 && !in_flight)
        (void)snprintf(field + len, sizeof field - (size_t)len, ";" LIMIT_RESET "=%" PRIu64,
                       wait_s);
    http_reply_header(reply, "RateLimit", field);
}

static void put_legacy(struct http_reply *reply, const struct wire_decision *decision)
{
    http_reply_header_integer(reply, "X-RateLimit-Limit", decision->limit);
    http_reply_header_integer(reply, "X-RateLimit-Remaining", decision->remaining);
    http_reply_header_integer(
        reply, "X-RateLimit-Reset",
        seconds_of(decision->allowed ? decision->reset_after_ms : decision->retry_after_ms));
}

void decision_put_headers(struct http_reply *reply, const struct wire_decision *decision,
                          enum decision_headers kind)
{
    const struct wire_source source = source_of(decision);
    const uint64_t retry_s = seconds_of(decision->retry_after_ms);
    if (decision->limit > 0 && kind == DECISION_IETF)
        put_ietf(reply, decision, &source);
    else if (decision->limit > 0 && kind == DECISION_LEGACY)
        put_legacy(reply, decision);
    if (decision_status(decision) == STATUS_UNAVAILABLE || (!decision->allowed && retry_s > 0))
        http_reply_header_integer(reply, "Retry-After", retry_s > 0 ? retry_s : 1);
}
