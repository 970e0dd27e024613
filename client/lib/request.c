/* request.c - between the public structs and the wire's.
 *
 * REQUEST-1  What client_request_check accepts, the builder accepts, unless the message is full.
 * REQUEST-2  A decision's strings are interned or static: never NULL, never the caller's to free.
 * REQUEST-3  on_failure turns only failures of the moment into decisions; a caller's mistake stays
 *            an error, or a wrong program would silently be allowed for ever.
 * REQUEST-4  tg_decision_t never grows: programs that know it as it is have arrays of it. So a rule
 *            on trial is named behind the end of the message, which is empty then.
 */
#include "client/lib/request.h"
#include "base/assert.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"

static_assert((int)TG_ATTRIBUTES_MAX == (int)WIRE_ATTRIBUTES_MAX, "one bound");
static_assert((int)TG_ATTRIBUTE_NAME_MAX == (int)WIRE_ATTRIBUTE_LEN_MAX, "one bound");
static_assert((int)TG_VALUE_MAX == (int)WIRE_VALUE_MAX, "one bound");
static_assert((int)TG_EXPLAIN_MAX == (int)WIRE_EXPLAIN_ROWS_MAX, "one bound");
static_assert(TG_COST_MAX == WIRE_COST_MAX, "one bound");
static_assert((int)TG_CANCEL + 1 == (int)OPERATION_COUNT, "the same operations");
static_assert((int)TG_CONCURRENCY + 1 == (int)ALGORITHM_COUNT, "the same algorithms");
static_assert((int)TG_ERROR + 1 == (int)OUTCOME_COUNT, "the same outcomes");

static size_t value_len(const tg_attribute_t *attribute)
{
    return attribute->value_len == TG_STRLEN ? strlen(attribute->value) : attribute->value_len;
}

size_t client_request_key_len(const tg_request_t *request)
{
    return request->key_len == TG_STRLEN ? strlen(request->key) : request->key_len;
}

static struct limit limit_of(const tg_limit_t *limit)
{
    return (struct limit){
        .algorithm = (uint8_t)limit->algorithm,
        .count = limit->count,
        .window_ns = limit->window_ns,
        .burst = limit->burst,
        .buckets = (uint8_t)limit->buckets,
        .align = limit->align_first != 0 ? LIMIT_ALIGN_FIRST : LIMIT_ALIGN_EPOCH,
    };
}

static bool limit_equal(const tg_limit_t *a, const tg_limit_t *b)
{
    return a->algorithm == b->algorithm && a->count == b->count && a->window_ns == b->window_ns &&
           a->burst == b->burst && a->buckets == b->buckets && a->align_first == b->align_first;
}

static int check_attributes(const tg_request_t *request, char *error)
{
    const tg_attribute_t *attributes = request->attributes;

    if (attributes == NULL || request->attribute_count > TG_ATTRIBUTES_MAX) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN,
                       "attributes: found %zu, expected 1 to %d and not NULL",
                       request->attribute_count, TG_ATTRIBUTES_MAX);
        return TG_EINVALID;
    }
    for (size_t i = 0; i < request->attribute_count; i++) {
        const size_t name_len = attributes[i].name != NULL ? strlen(attributes[i].name) : 0;

        if (name_len == 0 || name_len > TG_ATTRIBUTE_NAME_MAX) {
            (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN,
                           "attributes[%zu].name: found %zu bytes, expected 1 to %d", i, name_len,
                           TG_ATTRIBUTE_NAME_MAX);
            return TG_EINVALID;
        }
        if ((attributes[i].value == NULL && attributes[i].value_len != 0) ||
            value_len(&attributes[i]) > TG_VALUE_MAX) {
            (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN,
                           "attributes[%zu].value: found %zu bytes%s, expected at most %d and not "
                           "NULL",
                           i, attributes[i].value != NULL ? value_len(&attributes[i]) : 0,
                           attributes[i].value == NULL ? " and NULL" : "", TG_VALUE_MAX);
            return TG_EINVALID;
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(attributes[k].name, attributes[i].name) == 0) {
                (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN,
                               "attributes[%zu].name: found \"%s\" again, expected distinct names",
                               i, attributes[i].name);
                return TG_EINVALID;
            }
        }
    }
    return 0;
}

static int check_inline(const tg_request_t *request, tg_limit_t *valid_limit, char *error)
{
    char sentence[QUANTITY_ERROR_LEN];
    struct limit limit;

    if (request->key == NULL || client_request_key_len(request) > TG_VALUE_MAX) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN,
                       "key: found %zu bytes%s, expected at most %d and not NULL, or attributes",
                       request->key != NULL ? client_request_key_len(request) : 0,
                       request->key == NULL ? " and NULL" : "", TG_VALUE_MAX);
        return TG_EINVALID;
    }
    if (valid_limit->count != 0 && limit_equal(&request->limit, valid_limit))
        return 0;
    if ((unsigned)request->limit.algorithm >= ALGORITHM_COUNT) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN,
                       "limit.algorithm: found %d, expected 0 to %d", (int)request->limit.algorithm,
                       ALGORITHM_COUNT - 1);
        return TG_EINVALID;
    }
    if (request->limit.buckets > UINT8_MAX) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN, "limit.buckets: found %u, expected 2 to %d",
                       request->limit.buckets, LIMIT_BUCKETS_MAX);
        return TG_EINVALID;
    }
    limit = limit_of(&request->limit);
    if (limit_validate(&limit, sentence) != 0) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN, "limit: %s", sentence);
        return TG_EINVALID;
    }
    *valid_limit = request->limit;
    return 0;
}

int client_request_check(const tg_request_t *request, int operation, tg_limit_t *valid_limit,
                         char error[CLIENT_REQUEST_ERROR_LEN])
{
    const int number = operation >= 0 ? operation : (int)request->operation;

    if ((unsigned)number >= OPERATION_COUNT) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN, "operation: found %d, expected 0 to %d",
                       number, OPERATION_COUNT - 1);
        return TG_EINVALID;
    }
    if (request->cost > TG_COST_MAX) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN,
                       "cost: found %" PRIu64 ", expected at most %" PRIu64, request->cost,
                       TG_COST_MAX);
        return TG_EINVALID;
    }
    if (wire_names_lease((unsigned)number) && request->lease_id == 0) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN,
                       "lease_id: found 0, expected that of the decision which gave the %s",
                       number >= OPERATION_RESERVE ? "reservation" : "lease");
        return TG_EINVALID;
    }
    if (number == OPERATION_RESERVE && !wire_ttl_valid(request->used)) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN,
                       "used: found %" PRIu64
                       ", expected how long the reservation lasts, %d to %d ms, or 0",
                       request->used, LIMIT_TTL_MIN_MS, LIMIT_TTL_MAX_MS);
        return TG_EINVALID;
    }
    if (request->used > TG_COST_MAX) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN,
                       "used: found %" PRIu64 ", expected at most %" PRIu64, request->used,
                       TG_COST_MAX);
        return TG_EINVALID;
    }
    if (request->explain == NULL && request->explain_max != 0) {
        (void)snprintf(error, CLIENT_REQUEST_ERROR_LEN, "explain: found NULL, expected entries");
        return TG_EINVALID;
    }
    return request->attribute_count != 0 ? check_attributes(request, error)
                                         : check_inline(request, valid_limit, error);
}

/* Whether the template of `last` serves `request` too. Equal pointers are equal names, as both
 * requests are alive; other pointers may still be equal names, which the builder finds out. */
static bool same_template(const tg_request_t *last, const tg_request_t *request)
{
    if (last == NULL || last->attribute_count != request->attribute_count)
        return false;
    if (request->attribute_count == 0)
        return limit_equal(&last->limit, &request->limit);
    for (size_t i = 0; i < request->attribute_count; i++) {
        if (last->attributes[i].name != request->attributes[i].name)
            return false;
    }
    return true;
}

static int template_of(const tg_request_t *request, struct wire_checks_builder *builder)
{
    struct wire_text names[WIRE_ATTRIBUTES_MAX];
    struct limit limit;

    if (request->attribute_count == 0) {
        limit = limit_of(&request->limit);
        return wire_checks_builder_inline(builder, &limit);
    }
    for (size_t i = 0; i < request->attribute_count; i++)
        names[i] = wire_text_of(request->attributes[i].name);
    return wire_checks_builder_attributes(builder, names, (uint32_t)request->attribute_count);
}

int client_request_append(const tg_request_t *request, int operation,
                          struct client_template_cache *cache, struct wire_checks_builder *builder)
{
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
    const uint8_t number = (uint8_t)(operation >= 0 ? operation : (int)request->operation);
    const bool at_most =
        request->at_most != 0 &&
        (number == OPERATION_CHECK || number == OPERATION_PEEK || number == OPERATION_LEASE);
    uint32_t count = (uint32_t)request->attribute_count;

    ASSERT(number < OPERATION_COUNT && count <= WIRE_ATTRIBUTES_MAX); /* REQUEST-1 */
    if (!same_template(cache->last, request)) {
        const int index = template_of(request, builder);

        if (index < 0)
            return index;
        cache->last = request;
        cache->index = (uint32_t)index;
    }
    for (uint32_t i = 0; i < count; i++)
        values[i] = (struct wire_text){.data = request->attributes[i].value,
                                       .len = value_len(&request->attributes[i])};
    if (count == 0) {
        values[0] =
            (struct wire_text){.data = request->key, .len = client_request_key_len(request)};
        count = 1;
    }
    if (wire_names_lease(number) || number == OPERATION_RESERVE)
        return wire_checks_builder_append_used(builder, cache->index, number,
                                               number == OPERATION_RESERVE ? request->cost
                                                                           : request->lease_id,
                                               request->used, values, count);
    return wire_checks_builder_append(builder, cache->index,
                                      (uint8_t)(number | (at_most ? WIRE_AT_MOST : 0)),
                                      request->cost, values, count);
}

static const char no_message[2] = ""; /* and no rule on trial behind its end (REQUEST-4) */

static const char *message_of(struct client_intern *intern, const struct wire_source *source)
{
    char text[1 + WIRE_RULE_MAX] = "";
    const size_t len = source->shadow_rule.len;

    if (source->message.len != 0)
        return client_intern_get(intern, source->message);
    if (len == 0 || len > WIRE_RULE_MAX)
        return no_message;
    memcpy(text + 1, source->shadow_rule.data, len);
    return client_intern_get(intern, (struct wire_text){text, 1 + len});
}

const char *tg_shadow_rule(const tg_decision_t *decision)
{
    const bool told = decision->outcome == TG_SHADOW_DENIED && decision->message != NULL &&
                      decision->message[0] == '\0';

    return told ? decision->message + 1 : "";
}

void client_source_intern(struct client_intern *intern, const struct wire_source *source,
                          struct client_source *out)
{
    out->rule = client_intern_get(intern, source->rule);
    out->window = client_intern_get(intern, source->window);
    out->message = message_of(intern, source);
    out->node = client_intern_get(intern, source->node);
    out->status = source->status;
}

void client_decision_fill(tg_decision_t *out, const struct wire_decision *decision,
                          const struct client_source *source)
{
    out->allowed = decision->allowed;
    out->outcome = (tg_outcome_t)decision->outcome;
    out->degraded = decision->degraded;
    out->error = 0;
    out->status = source != NULL ? source->status : decision->allowed ? 200 : 429;
    out->rule = source != NULL ? source->rule : "";
    out->window = source != NULL ? source->window : "";
    out->message = source != NULL ? source->message : no_message;
    if (!decision->allowed && out->message[0] == '\0') /* of an older node, or one of too many */
        out->message = outcome_sentence(decision->outcome);
    out->node = source != NULL ? source->node : "";
    out->limit = decision->limit;
    out->used = decision->used;
    out->remaining = decision->remaining;
    out->granted = decision->granted;
    out->reset_after_ms = decision->reset_after_ms;
    out->retry_after_ms = decision->retry_after_ms;
    out->delay_ms = decision->delay_ms;
    out->explain_count = 0;
    out->lease_id = decision->lease;
    out->lease_ms = (int64_t)decision->lease_ms;
    out->local = 0;
}

void client_decision_explain(tg_decision_t *out, const tg_request_t *request,
                             const struct wire_explain *explain, uint32_t i,
                             struct client_intern *intern)
{
    uint32_t row = i == 0 ? 0 : explain->end[i - 1];

    ASSERT(row <= explain->end[i]);
    for (; row < explain->end[i] && out->explain_count < request->explain_max; row++) {
        const struct wire_explain_row *from = &explain->rows[row];

        request->explain[out->explain_count++] = (tg_explain_t){
            .rule = client_intern_get(intern, from->rule),
            .window = client_intern_get(intern, from->window),
            .limit = from->limit,
            .used = from->used,
            .remaining = from->remaining,
            .allowed = from->allowed,
            .reset_after_ms = from->reset_after_ms,
            .retry_after_ms = from->retry_after_ms,
            .pool = client_intern_get(intern, from->pool),
            .level = from->level,
            .guaranteed = from->guaranteed,
            .borrowed = from->borrowed,
            .pool_global = from->pool_global,
            .pool_home = client_intern_get(intern, from->pool_home),
        };
    }
}

static bool of_the_moment(int code)
{
    return code == TG_ETIMEOUT || code == TG_EUNREACHABLE || code == TG_EBUSY ||
           code == TG_EUNAVAILABLE;
}

int client_decision_fail(tg_decision_t *out, int code, tg_on_failure_t on_failure)
{
    const bool decided = on_failure != TG_FAIL_ERROR && of_the_moment(code); /* REQUEST-3 */
    const bool open = decided && on_failure == TG_FAIL_OPEN;

    ASSERT(code < 0);
    *out = (tg_decision_t){
        .allowed = open,
        .outcome = code == TG_EBUSY ? TG_BUSY : TG_ERROR,
        .degraded = decided,
        .error = code,
        .status = open ? 200 : 503,
        .retry_after_ms = decided && !open ? CLIENT_RETRY_MS : 0,
        .rule = "",
        .window = "",
        .message = open ? no_message : error_message(code),
        .node = "",
    };
    return decided ? 0 : code;
}
