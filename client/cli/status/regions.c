/* regions.c - status --regions: what a node knows of each region, and what is out on lease.
 *
 * How far and how fresh regions are is the asked node's word. Tokens on lease are on many nodes, so
 * all members that are in reach are asked what they hold, all at once:
 *
 *   a member of the asked node's region    held of keys of REGION  --> REGION's `held`
 *   a member of REGION                     held of keys of ours    --> REGION's `lent`
 *
 * and the counters of `leases` are added up over the members of the asked node's region. A lease
 * lasts a second, so of a region out of reach nothing is out any more; who cannot be asked is named
 * in `not_counted`.
 */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mp_walk.h"
#include "client/cli/session/members.h"
#include "client/cli/status/status.h"

enum {
    REGIONS_MAX = 64,
    COUNTERS_MAX = 16,
    MISSING_MAX = 16,
    ADDED_LEN = 64, /* bytes that a row or a name has more, and for longer numbers */
};

struct region {
    char name[CLI_MEMBER_LEN];
    uint64_t held, held_keys, lent, lent_keys;
};

struct regions {
    const struct cli_answer *shown;
    char own[CLI_MEMBER_LEN];
    struct region regions[REGIONS_MAX];
    uint32_t count;
    uint64_t leases[COUNTERS_MAX]; /* in the order of the answer that is shown */
    const char *missing[MISSING_MAX];
    uint32_t missing_count;
    pthread_mutex_t lock; /* of the sums, while members answer */
};

static uint64_t number_of(const struct cli_answer *answer, size_t row, const char *name)
{
    const struct mp_token *value = cli_answer_value(answer, row, name);
    return value != NULL && value->type == MP_UINT ? value->uint : 0;
}

/* The token of a field of the whole answer; 0 if it has none. */
static size_t field_at(const struct cli_answer *answer, const char *name)
{
    const struct mp_token *value = answer->count > 0 && answer->tokens[0].type == MP_MAP
                                       ? cli_answer_value(answer, 0, name)
                                       : NULL;
    return value != NULL ? (size_t)(value - answer->tokens) : 0;
}

static struct region *region_of(struct regions *regions, const struct mp_token *name)
{
    char text[CLI_MEMBER_LEN];
    mp_text_of(name, text, sizeof text);
    uint32_t at = 0;
    while (at < regions->count && strcmp(regions->regions[at].name, text) != 0)
        at++;
    ASSERT(at <= regions->count && regions->count <= REGIONS_MAX);
    if (at == REGIONS_MAX)
        return NULL;
    if (at == regions->count)
        memcpy(regions->regions[regions->count++].name, text, sizeof text);
    return &regions->regions[at];
}

/* ---- adding ---------------------------------------------------------------------------------- */

static void add_leases(struct regions *regions, const struct cli_answer *answer)
{
    const size_t shown = field_at(regions->shown, "leases");
    const size_t told = field_at(answer, "leases");
    if (shown == 0 || told == 0 || regions->shown->tokens[shown].type != MP_MAP ||
        answer->tokens[told].type != MP_MAP)
        return;
    size_t at = shown + 1;
    for (uint32_t i = 0; i < regions->shown->tokens[shown].count && i < COUNTERS_MAX; i++) {
        char name[CLI_MEMBER_LEN];
        ASSERT(at < regions->shown->count); /* a map is whole: mp_parse saw to it */
        mp_text_of(&regions->shown->tokens[at], name, sizeof name);
        regions->leases[i] += number_of(answer, told, name);
        at = cli_token_next(regions->shown, cli_token_next(regions->shown, at));
    }
}

static void add_answer(struct regions *regions, const struct cli_answer *answer)
{
    const struct mp_token *own = cli_answer_value(answer, 0, "region");
    const size_t list = field_at(answer, "regions");
    if (own == NULL || list == 0 || answer->tokens[list].type != MP_ARRAY)
        return;
    const bool ours = cli_token_is(own, regions->own);
    size_t row = list + 1;
    for (uint32_t i = 0; i < answer->tokens[list].count && row < answer->count; i++) {
        const struct mp_token *name = cli_answer_value(answer, row, "name");
        const bool lent = !ours && name != NULL && cli_token_is(name, regions->own);
        struct region *region = ours || lent ? region_of(regions, ours ? name : own) : NULL;
        if (region != NULL && ours) {
            region->held += number_of(answer, row, "held");
            region->held_keys += number_of(answer, row, "held_keys");
        } else if (region != NULL) {
            region->lent += number_of(answer, row, "held");
            region->lent_keys += number_of(answer, row, "held_keys");
        }
        row = cli_token_next(answer, row);
    }
    if (ours)
        add_leases(regions, answer);
}

static bool ask_member(struct cli *there, const struct cli_member *member, void *argument)
{
    struct regions *regions = argument;
    struct cli_answer answer;
    (void)member;
    const int code = cli_answer_ask(there, "regions", NULL, there->timeout_ms, &answer);
    if (code == 0 && answer.tokens[0].type == MP_MAP) {
        (void)pthread_mutex_lock(&regions->lock);
        add_answer(regions, &answer);
        (void)pthread_mutex_unlock(&regions->lock);
    }
    cli_answer_fini(&answer);
    return code == 0;
}

/* Adds up what all members say; of the asked node that is said already. */
static void ask_members(const struct cli *cli, struct cli_members *members, struct regions *regions)
{
    const struct mp_token *node = cli_answer_value(regions->shown, 0, "node");
    for (size_t i = 0; node != NULL && i < members->count; i++) {
        struct cli_member *member = &members->list[i];
        if (member->asked && cli_token_is(node, member->name)) {
            add_answer(regions, regions->shown);
            member->asked = false;
            break;
        }
    }
    cli_members_ask(cli, members, ask_member, regions);
    for (size_t i = 0; i < members->count; i++) {
        const struct cli_member *member = &members->list[i];
        if (member->asked && !member->answered && regions->missing_count < MISSING_MAX)
            regions->missing[regions->missing_count++] = member->name;
    }
}

/* ---- showing --------------------------------------------------------------------------------- */

static void put_number(struct mp_writer *writer, const char *name, uint64_t number)
{
    mp_put_str(writer, name);
    mp_put_uint(writer, number);
}

static void put_tokens(struct mp_writer *writer, const struct cli_answer *answer, size_t from,
                       size_t end)
{
    for (; from < end; from++)
        cli_put_token(writer, &answer->tokens[from]);
}

/* A row, with what is held and lent in all behind its fields. */
static void put_row(struct mp_writer *writer, struct regions *regions, size_t row)
{
    const struct cli_answer *shown = regions->shown;
    const struct region *region = region_of(regions, cli_answer_value(shown, row, "name"));
    const uint32_t pairs = shown->tokens[row].count;
    uint32_t own = cli_answer_value(shown, row, "held") != NULL;
    own += cli_answer_value(shown, row, "held_keys") != NULL;
    size_t at = row + 1;
    ASSERT(own <= pairs);
    mp_put_map(writer, pairs - own + 4);
    for (uint32_t i = 0; i < pairs; i++) {
        const size_t end = cli_token_next(shown, cli_token_next(shown, at));
        if (!cli_token_is(&shown->tokens[at], "held") &&
            !cli_token_is(&shown->tokens[at], "held_keys"))
            put_tokens(writer, shown, at, end);
        at = end;
    }
    put_number(writer, "held", region != NULL ? region->held : 0);
    put_number(writer, "held_keys", region != NULL ? region->held_keys : 0);
    put_number(writer, "lent", region != NULL ? region->lent : 0);
    put_number(writer, "lent_keys", region != NULL ? region->lent_keys : 0);
}

static void put_rows(struct mp_writer *writer, struct regions *regions, size_t list)
{
    const uint32_t count = regions->shown->tokens[list].count;
    size_t row = list + 1;
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        const size_t end = cli_token_next(regions->shown, row);
        if (regions->shown->tokens[row].type == MP_MAP)
            put_row(writer, regions, row);
        else
            put_tokens(writer, regions->shown, row, end);
        row = end;
    }
}

static void put_leases(struct mp_writer *writer, const struct regions *regions, size_t map)
{
    const uint32_t count = regions->shown->tokens[map].count;
    size_t at = map + 1;
    mp_put_map(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        const size_t value = cli_token_next(regions->shown, at);
        const size_t end = cli_token_next(regions->shown, value);
        put_tokens(writer, regions->shown, at, i < COUNTERS_MAX ? value : end);
        if (i < COUNTERS_MAX)
            mp_put_uint(writer, regions->leases[i]);
        at = end;
    }
}

static void put_all(struct mp_writer *writer, void *from)
{
    struct regions *regions = from;
    const struct cli_answer *shown = regions->shown;
    const size_t list = field_at(shown, "regions");
    const size_t leases = field_at(shown, "leases");
    size_t at = 1;
    mp_put_map(writer, shown->tokens[0].count + 1);
    for (uint32_t i = 0; i < shown->tokens[0].count; i++) {
        const size_t value = cli_token_next(shown, at);
        const size_t end = cli_token_next(shown, value);
        const bool rows = value == list && shown->tokens[value].type == MP_ARRAY;
        const bool sums = value == leases && shown->tokens[value].type == MP_MAP;
        put_tokens(writer, shown, at, rows || sums ? value : end);
        if (rows)
            put_rows(writer, regions, value);
        else if (sums)
            put_leases(writer, regions, value);
        at = end;
    }
    ASSERT(at == shown->count && regions->missing_count <= MISSING_MAX);
    mp_put_str(writer, "not_counted");
    mp_put_array(writer, regions->missing_count);
    for (uint32_t i = 0; i < regions->missing_count; i++)
        mp_put_str(writer, regions->missing[i]);
}

static int show(struct cli *cli, struct regions *regions)
{
    const size_t room = cli_answer_room(regions->shown) + REGIONS_MAX * 2 * ADDED_LEN +
                        (size_t)MISSING_MAX * (CLI_MEMBER_LEN + ADDED_LEN);
    return cli_answer_show_made(cli, room, put_all, regions);
}

int cli_regions_show(struct cli *cli, const struct cli_answer *answer)
{
    struct regions regions = {.shown = answer, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct cli_members members;
    if (answer->count == 0 || answer->tokens[0].type != MP_MAP)
        return cli_answer_show(cli, answer);
    mp_text_of(cli_answer_value(answer, 0, "region"), regions.own, sizeof regions.own);
    int status = cli_members_read(cli, &members);
    if (status == CLI_EXIT_OK) {
        ask_members(cli, &members, &regions);
        status = show(cli, &regions);
    }
    cli_members_fini(&members);
    return status;
}
