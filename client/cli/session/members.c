/* members.c - asks all members at once; members.h is the contract. */
#include "client/cli/session/members.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mp_walk.h"

/* ---- who there is ---------------------------------------------------------------------------- */

static void take_row(const struct cli_answer *answer, size_t row, struct cli_members *members)
{
    ASSERT(members->count < members->capacity); /* as many rows as the answer has */
    struct cli_member *member = &members->list[members->count];
    const struct mp_token *state =
        answer->tokens[row].type == MP_MAP ? cli_answer_value(answer, row, "state") : NULL;
    if (state == NULL || cli_token_is(state, "left"))
        return;
    mp_text_of(cli_answer_value(answer, row, "name"), member->name, sizeof member->name);
    mp_text_of(cli_answer_value(answer, row, "region"), member->region, sizeof member->region);
    mp_text_of(cli_answer_value(answer, row, "client"), member->address, sizeof member->address);
    mp_text_of(cli_answer_value(answer, row, "unreachable_since"), member->lost,
               sizeof member->lost);
    member->asked = !cli_token_is(state, "dead") && member->lost[0] == '\0';
    members->count++;
}

int cli_members_read(struct cli *cli, struct cli_members *members)
{
    struct cli_answer answer;
    int status = CLI_EXIT_OK;
    *members = (struct cli_members){.list = NULL};
    const int code = cli_answer_ask_list(cli, "members", NULL, cli_behind_id, &answer);
    if (code != 0) {
        status = cli_answer_fail(cli, code, &answer);
    } else if (answer.tokens[0].type == MP_ARRAY) {
        members->capacity = answer.tokens[0].count;
        members->list = alloc_array(alloc_heap(), members->capacity, sizeof *members->list);
        if (members->list == NULL)
            status = cli_fail(cli, TG_ENOMEM, "out of memory");
        for (size_t row = 1; members->list != NULL && row < answer.count;
             row = cli_token_next(&answer, row))
            take_row(&answer, row, members);
    }
    cli_answer_fini(&answer);
    return status;
}

void cli_members_fini(struct cli_members *members)
{
    if (members->list != NULL)
        alloc_put(alloc_heap(), members->list, members->capacity * sizeof *members->list);
    *members = (struct cli_members){.list = NULL};
}

/* ---- asking ---------------------------------------------------------------------------------- */

struct asking {
    const struct cli *cli;
    struct cli_members *members;
    cli_member_ask ask;
    void *argument;
    atomic_size_t next; /* who is asked next, by whichever thread is free */
};

static bool ask_one(const struct asking *asking, const struct cli_member *member)
{
    char endpoint[CLI_ADDRESS_LEN + 8];
    struct cli there = *asking->cli;
    tg_options_t options = tg_options();
    (void)snprintf(endpoint, sizeof endpoint, "tcp://%s", member->address);
    options.timeout_ms = asking->cli->timeout_ms;
    options.in_flight_max = 1;
    there.client = tg_open(endpoint, &options);
    if (there.client == NULL)
        return false;
    const bool answered = asking->ask(&there, member, asking->argument);
    tg_close(&there.client);
    return answered;
}

static void *ask_some(void *argument)
{
    struct asking *asking = argument;
    size_t at;
    while ((at = atomic_fetch_add(&asking->next, 1)) < asking->members->count) {
        struct cli_member *member = &asking->members->list[at];
        ASSERT(!member->answered); /* MEMBERS-2 */
        member->answered = member->asked && ask_one(asking, member);
    }
    return NULL;
}

void cli_members_ask(const struct cli *cli, struct cli_members *members, cli_member_ask ask,
                     void *argument)
{
    struct asking asking = {.cli = cli, .members = members, .ask = ask, .argument = argument};
    pthread_t threads[CLI_MEMBERS_AT_ONCE - 1];
    size_t count = 0;
    atomic_init(&asking.next, 0);
    while (count < CLI_MEMBERS_AT_ONCE - 1 && count + 1 < members->count &&
           pthread_create(&threads[count], NULL, ask_some, &asking) == 0)
        count++;
    ASSERT(count < CLI_MEMBERS_AT_ONCE && (count == 0 || count < members->count));
    (void)ask_some(&asking); /* also where there are no threads to be had */
    while (count > 0)
        (void)pthread_join(threads[--count], NULL);
}
