/* grpc_gubernator.c - see grpc_gubernator.h. The answers are made in the memory of decoded
 * messages. */
#include "node/gateway/grpc/grpc_gubernator.h"

#include <assert.h>
#include <proto/gubernator.pb-c.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/grpc/grpc_gubernator_wire.h"

/* By what an item is counted; borrowed from the request. */
struct names {
    struct wire_text name;
    struct wire_text unique_key;
};

static_assert(sizeof(struct gubernator_kept) <= GRPC_CONTEXT_LEN, "it is kept");
static_assert((int)GUBERNATOR_ITEMS_MAX * (int)GUBERNATOR_RESPONSE_MAX <= (int)GRPC_REPLY_MAX,
              "the longest answer is one");

/* ---- answers --------------------------------------------------------------------------------- */

static enum grpc_verdict fail_room(struct grpc_call *call)
{
    return grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, "the answer has no room");
}

static enum grpc_verdict answer_all(struct grpc_call *call, struct gubernator_reader *reader)
{
    const size_t most = (size_t)reader->asked.count * GUBERNATOR_RESPONSE_MAX;
    uint8_t *responses = grpc_take(call, most);
    uint8_t *end = responses;
    reader->stats = call->facts->gubernator;
    reader->self = call->facts->name;
    struct gubernator_answer answer;
    if (responses == NULL)
        return fail_room(call);
    while (gubernator_next(reader, &answer))
        end = grpc_gubernator_write(&answer, end);
    return grpc_reply_bytes(call, (struct grpc_piece){responses, (size_t)(end - responses)});
}

static void complete(struct grpc_completion *completion)
{
    struct gubernator_reader reader =
        gubernator_answers(completion->call.context, completion->notes, completion->decisions,
                           completion->first, completion->call.now_ns);
    (void)answer_all(&completion->call, &reader);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Nothing is to be asked. */
static enum grpc_verdict answer_at_once(struct grpc_call *call, const struct gubernator_plan *plan)
{
    struct gubernator_kept kept;
    void *more = grpc_take(call, gubernator_more_len(plan));
    if (more == NULL)
        return fail_room(call);
    gubernator_note(plan, &kept, more);
    struct gubernator_reader reader = gubernator_answers(&kept, more, NULL, 0, plan->now_ns);
    return answer_all(call, &reader);
}

/* Plans all items. 1; 0: there are too many; less than 0: the message is none. */
static int make_plan(const struct grpc_call *call, struct gubernator_plan *plan,
                     struct names *names)
{
    struct grpc_piece rest = {call->bytes, call->len};
    struct gubernator_item item;
    int found;
    gubernator_begin(plan, call->now_ns);
    while ((found = grpc_gubernator_read(&rest, &item)) > 0) {
        if (plan->asked.count == GUBERNATOR_ITEMS_MAX)
            return 0;
        names[plan->asked.count] = (struct names){item.name, item.unique_key};
        gubernator_add(plan, &item);
    }
    return found == 0 ? 1 : -1;
}

/* Appends the checks of all items. */
static int append(const struct grpc_call *call, struct gubernator_plan *plan,
                  const struct names *names)
{
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < plan->asked.count; i++)
        result = gubernator_append(plan, i, names[i].name, names[i].unique_key, call->builder);
    ASSERT(result == 0 || result == TG_EFULL);
    return result;
}

enum grpc_verdict grpc_gubernator_limits(struct grpc_call *call)
{
    struct names *names = grpc_take(call, GUBERNATOR_ITEMS_MAX * sizeof *names);
    struct gubernator_plan plan;
    ASSERT(names != NULL); /* the first of this memory */
    const int made = make_plan(call, &plan, names);
    if (made < 0)
        return grpc_fail_message(call);
    if (made == 0) {
        if (call->facts->gubernator != NULL)
            call->facts->gubernator->too_large++;
        return grpc_fail(call, GRPC_OUT_OF_RANGE,
                         "Requests.RateLimits list too large; max size is '1000'");
    }
    if (plan.checks == 0)
        return answer_at_once(call, &plan);
    const enum grpc_verdict verdict =
        grpc_ask_noting(call, plan.checks, gubernator_more_len(&plan), complete);
    if (verdict != GRPC_ASKED)
        return verdict;
    if (append(call, &plan, names) != 0)
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
    const size_t size = strlen(call->facts->address) + 1;
    response.advertise_address = grpc_take(call, size);
    if (response.advertise_address == NULL)
        return fail_room(call);
    memcpy(response.advertise_address, call->facts->address, size);
    return grpc_reply(call, &response.base);
}

enum grpc_verdict grpc_gubernator_live(struct grpc_call *call)
{
    Pb__Gubernator__LiveCheckResp response = PB__GUBERNATOR__LIVE_CHECK_RESP__INIT;
    return grpc_reply(call, &response.base);
}
