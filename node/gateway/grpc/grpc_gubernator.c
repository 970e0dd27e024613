/* grpc_gubernator.c - see grpc_gubernator.h. The answers are made in the memory of decoded
 * messages. */
#include "node/gateway/grpc/grpc_gubernator.h"

#include <assert.h>
#include <proto/gubernator.pb-c.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/gubernator/gubernator.h"

typedef Pb__Gubernator__GetRateLimitsReq request_list;
typedef Pb__Gubernator__RateLimitReq request_item;
typedef Pb__Gubernator__GetRateLimitsResp response_list;
typedef Pb__Gubernator__RateLimitResp response_item;
typedef Pb__Gubernator__RateLimitResp__MetadataEntry entry;

enum { ENTRIES = 2 }; /* of metadata, at most */

/* A response, with what it points to. */
struct response {
    response_item item;
    entry entries[ENTRIES];
    entry *metadata[ENTRIES];
};

static_assert(sizeof(struct gubernator_kept) <= GRPC_CONTEXT_LEN, "it is kept");

/* ---- answers --------------------------------------------------------------------------------- */

/* A copy with a NUL; NULL: there is no memory. */
static char *copy_of(struct grpc_call *call, struct wire_text text)
{
    char *copy = grpc_take(call, text.len + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return copy;
}

static bool add_entry(struct grpc_call *call, struct response *response, const char *key,
                      struct wire_text value)
{
    static char keys[][sizeof GUBERNATOR_REGION_KEY] = {"owner", GUBERNATOR_REGION_KEY};
    if (value.len == 0)
        return true;
    const size_t i = response->item.n_metadata++;
    ASSERT(i < ENTRIES);
    response->entries[i] = (entry)PB__GUBERNATOR__RATE_LIMIT_RESP__METADATA_ENTRY__INIT;
    response->entries[i].key = keys[strcmp(key, keys[0]) != 0];
    response->entries[i].value = copy_of(call, value);
    response->metadata[i] = &response->entries[i];
    response->item.metadata = response->metadata;
    return response->entries[i].value != NULL;
}

static bool fill(struct grpc_call *call, const struct gubernator_answer *answer,
                 struct response *response)
{
    response->item = (response_item)PB__GUBERNATOR__RATE_LIMIT_RESP__INIT;
    response->item.status =
        answer->over ? PB__GUBERNATOR__STATUS__OVER_LIMIT : PB__GUBERNATOR__STATUS__UNDER_LIMIT;
    response->item.limit = answer->limit;
    response->item.remaining = answer->remaining;
    response->item.reset_time = answer->reset_ms;
    if (answer->error.len > 0)
        response->item.error = copy_of(call, answer->error);
    return response->item.error != NULL && add_entry(call, response, "owner", answer->owner) &&
           add_entry(call, response, GUBERNATOR_REGION_KEY, answer->region);
}

static enum grpc_verdict answer_all(struct grpc_call *call, struct gubernator_reader *reader)
{
    const uint32_t count = reader->asked.count;
    response_list list = PB__GUBERNATOR__GET_RATE_LIMITS_RESP__INIT;
    struct gubernator_answer answer;
    struct response *responses = grpc_take(call, (count + 1) * sizeof *responses);
    list.responses = grpc_take(call, (count + 1) * sizeof *list.responses);
    bool fits = responses != NULL && list.responses != NULL;
    while (fits && gubernator_next(reader, &answer)) {
        struct response *response = &responses[list.n_responses];
        fits = fill(call, &answer, response);
        list.responses[list.n_responses++] = &response->item;
    }
    return fits ? grpc_reply(call, &list.base)
                : grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, "the answer has no room");
}

static void complete(struct grpc_completion *completion)
{
    struct gubernator_reader reader =
        gubernator_answers(completion->call.context, completion->notes, completion->decisions,
                           completion->first, completion->call.now_ns);
    (void)answer_all(&completion->call, &reader);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Goes through the items of a request. A decoded text ends at its first NUL, and would be another
 * key's: where there is one, texts are taken as they came. */
struct items {
    const request_list *list;
    size_t next;
    bool as_came;
    struct grpc_piece rest;
};

static struct items items_of(const struct grpc_call *call)
{
    return (struct items){.list = (const request_list *)call->request,
                          .as_came = call->len > 0 && memchr(call->bytes, 0, call->len) != NULL,
                          .rest = {call->bytes, call->len}};
}

static void take_texts(struct items *items, struct gubernator_item *item)
{
    enum { REQUESTS = 1, NAME = 1, UNIQUE_KEY = 2 }; /* numbers of the .proto */
    struct grpc_piece message = {NULL, 0};
    struct grpc_piece text;
    uint32_t number;
    while ((number = grpc_piece_next(&items->rest, &message)) != 0 && number != REQUESTS)
        ;
    while (number != 0 && (number = grpc_piece_next(&message, &text)) != 0) {
        const struct wire_text came = {(const char *)text.data, text.len};
        if (number == NAME)
            item->name = came;
        else if (number == UNIQUE_KEY)
            item->unique_key = came;
    }
}

static struct gubernator_item fields_of(const request_item *request)
{
    return (struct gubernator_item){.name = wire_text_of(request->name),
                                    .unique_key = wire_text_of(request->unique_key),
                                    .hits = request->hits,
                                    .limit = request->limit,
                                    .duration = request->duration,
                                    .burst = request->burst,
                                    .algorithm = (int32_t)request->algorithm,
                                    .behavior = (int32_t)request->behavior};
}

static bool next_item(struct items *items, struct gubernator_item *out)
{
    if (items->next == items->list->n_requests)
        return false;
    *out = fields_of(items->list->requests[items->next++]);
    if (items->as_came)
        take_texts(items, out);
    return true;
}

/* Nothing is to be asked. */
static enum grpc_verdict answer_at_once(struct grpc_call *call, const struct gubernator_plan *plan)
{
    struct gubernator_kept kept;
    void *more = grpc_take(call, gubernator_more_len(plan) + 1);
    if (more == NULL)
        return grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, "the answer has no room");
    gubernator_note(plan, &kept, more);
    struct gubernator_reader reader = gubernator_answers(&kept, more, NULL, 0, plan->now_ns);
    return answer_all(call, &reader);
}

/* Appends the checks of all items. */
static int append(struct grpc_call *call, struct gubernator_plan *plan)
{
    struct items items = items_of(call);
    struct gubernator_item item;
    int result = 0;
    for (uint32_t i = 0; result == 0 && next_item(&items, &item); i++)
        result = gubernator_append(plan, i, item.name, item.unique_key, call->builder);
    ASSERT(result == 0 || result == TG_EFULL);
    return result;
}

enum grpc_verdict grpc_gubernator_limits(struct grpc_call *call)
{
    struct items items = items_of(call);
    struct gubernator_item item;
    struct gubernator_plan plan;
    if (items.list->n_requests > GUBERNATOR_ITEMS_MAX)
        return grpc_fail(call, GRPC_OUT_OF_RANGE,
                         "Requests.RateLimits list too large; max size is '1000'");
    gubernator_begin(&plan, call->now_ns);
    while (next_item(&items, &item))
        gubernator_add(&plan, &item);
    if (plan.checks == 0)
        return answer_at_once(call, &plan);
    const enum grpc_verdict verdict =
        grpc_ask_noting(call, plan.checks, gubernator_more_len(&plan), complete);
    if (verdict != GRPC_ASKED)
        return verdict;
    if (append(call, &plan) != 0)
        return grpc_ask_full(call);
    gubernator_note(&plan, call->context, call->notes);
    return GRPC_ASKED;
}

/* ---- health ---------------------------------------------------------------------------------- */

enum grpc_verdict grpc_gubernator_health(struct grpc_call *call)
{
    Pb__Gubernator__HealthCheckResp response = PB__GUBERNATOR__HEALTH_CHECK_RESP__INIT;
    char healthy[] = "healthy";
    if (call->facts->waits != NULL)
        return grpc_fail(call, GRPC_UNAVAILABLE, call->facts->waits);
    response.status = healthy;
    response.peer_count = (int32_t)call->facts->members;
    response.advertise_address = copy_of(call, wire_text_of(call->facts->address));
    if (response.advertise_address == NULL)
        return grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, "the answer has no room");
    return grpc_reply(call, &response.base);
}

enum grpc_verdict grpc_gubernator_live(struct grpc_call *call)
{
    Pb__Gubernator__LiveCheckResp response = PB__GUBERNATOR__LIVE_CHECK_RESP__INIT;
    return grpc_reply(call, &response.base);
}
