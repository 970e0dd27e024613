/* screen_read.c - the answer to `status` as a screen; screen.h tells what of. An answer of an older
 * release has less: what is missing stays empty.
 */
#include "client/screen/screen.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp_walk.h"

/* ---- fields of one map ----------------------------------------------------------------------- */

/* A value of the answer: its tokens, and how many there are from there to the answer's end. */
struct row {
    const struct mp_token *tokens;
    size_t count;
};

static const struct mp_token *field(const struct row *row, const char *name)
{
    return mp_find(row->tokens, row->count, name);
}

/* The row that begins at a token of this one. */
static struct row row_at(const struct row *row, const struct mp_token *token)
{
    return (struct row){token, row->count - (size_t)(token - row->tokens)};
}

static uint64_t number(const struct row *row, const char *name)
{
    const struct mp_token *token = field(row, name);
    return token != NULL && token->type == MP_UINT ? token->uint : 0;
}

static int64_t whole(const struct mp_token *token)
{
    if (token->type == MP_UINT)
        return token->uint <= INT64_MAX ? (int64_t)token->uint : INT64_MAX;
    return token->type == MP_INT ? token->sint : 0;
}

static double real(const struct row *row, const char *name)
{
    const struct mp_token *token = field(row, name);
    if (token == NULL)
        return 0;
    return token->type == MP_FLOAT ? token->real : (double)whole(token);
}

static bool truth(const struct row *row, const char *name)
{
    const struct mp_token *token = field(row, name);
    return token != NULL && token->type == MP_BOOL && token->uint != 0;
}

static void text(const struct row *row, const char *name, char *out, size_t capacity)
{
    mp_text_of(field(row, name), out, capacity);
}

/* The map in that field; false if there is none. */
static bool inner(const struct row *row, const char *name, struct row *out)
{
    const struct mp_token *token = field(row, name);
    if (token == NULL || token->type != MP_MAP)
        return false;
    *out = row_at(row, token);
    return true;
}

/* How many elements the array in that field has, with the first one in `out`. */
static uint32_t elements(const struct row *row, const char *name, struct row *out)
{
    const struct mp_token *token = field(row, name);
    if (token == NULL || token->type != MP_ARRAY)
        return 0;
    *out = row_at(row, token + 1);
    return token->count;
}

static void step(struct row *row)
{
    const size_t len = mp_value_len(row->tokens, row->count);
    *row = (struct row){row->tokens + len, row->count - len};
}

static bool is_map(const struct row *row)
{
    return row->count > 0 && row->tokens[0].type == MP_MAP;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void read_condition(const struct row *row, struct screen_condition *out)
{
    out->grave = truth(row, "grave");
    out->for_ms = number(row, "for_ms");
    text(row, "code", out->code, sizeof out->code);
    text(row, "node", out->node, sizeof out->node);
    text(row, "region", out->region, sizeof out->region);
    text(row, "short", out->short_form, sizeof out->short_form);
    text(row, "says", out->says, sizeof out->says);
    text(row, "means", out->means, sizeof out->means);
    text(row, "advice", out->advice, sizeof out->advice);
}

static void read_figures(const struct row *row, struct screen_node *out)
{
    out->told = true;
    out->checks_rate = real(row, "checks_per_s");
    out->allowed_rate = real(row, "allowed_per_s");
    out->denied_rate = real(row, "denied_per_s");
    out->busy_rate = real(row, "busy_per_s");
    out->uptime_ms = number(row, "uptime_ms");
    out->checks = number(row, "checks");
    out->ack_p99_us = number(row, "ack_p99_us");
    out->slots = number(row, "slots");
    out->slots_max = number(row, "slots_max");
    out->memory_max = number(row, "memory_max_bytes");
    out->flush_lag_ms = number(row, "flush_lag_ms");
    out->store_used = number(row, "store_used_bytes");
    out->store_most = number(row, "store_most_bytes");
    out->over_tokens = number(row, "over_tokens");
    out->decides = number(row, "vnodes_deciding");
    out->cut_off = number(row, "vnodes_cut_off");
    out->incomplete = number(row, "vnodes_incomplete");
    out->ephemeral = number(row, "ephemeral") != 0;
}

static void read_troubles(const struct row *row, struct screen_node *out)
{
    struct row code;
    const uint32_t count = elements(row, "health", &code);
    for (uint32_t i = 0; i < count && code.count > 0; i++, step(&code)) {
        char word[32];
        const size_t len = strlen(out->troubles);
        mp_text_of(code.tokens, word, sizeof word);
        (void)snprintf(out->troubles + len, sizeof out->troubles - len, "%s%s", len > 0 ? "," : "",
                       word);
    }
}

static void read_node(const struct row *row, struct screen_node *out)
{
    struct row figures;
    const struct mp_token *skew = field(row, "skew_us");
    text(row, "name", out->name, sizeof out->name);
    text(row, "region", out->region, sizeof out->region);
    text(row, "zone", out->zone, sizeof out->zone);
    text(row, "id", out->id, sizeof out->id);
    text(row, "state", out->state, sizeof out->state);
    text(row, "ring", out->ring, sizeof out->ring);
    text(row, "client", out->client, sizeof out->client);
    text(row, "version", out->version, sizeof out->version);
    text(row, "unreachable_since", out->lost, sizeof out->lost);
    read_troubles(row, out);
    out->state_for_ms = number(row, "state_for_ms");
    out->rtt_us = number(row, "rtt_us");
    out->own = truth(row, "own");
    out->grave = truth(row, "grave");
    out->voter = truth(row, "voter");
    out->skewed = skew != NULL && (skew->type == MP_UINT || skew->type == MP_INT);
    out->skew_us = out->skewed ? whole(skew) : 0;
    if (inner(row, "figures", &figures))
        read_figures(&figures, out);
}

static void read_nodes(const struct row *all, size_t nodes_max, struct screen *screen)
{
    struct row row;
    const uint32_t count = elements(all, "nodes", &row);
    for (uint32_t i = 0; i < count && is_map(&row); i++, step(&row)) {
        if (screen->node_count == nodes_max) {
            screen->nodes_more++;
            continue;
        }
        struct screen_node *node = &screen->nodes[screen->node_count++];
        memset(node, 0, sizeof *node);
        read_node(&row, node);
    }
}

static void read_rule(const struct row *row, struct screen_rule *rule)
{
    text(row, "rule", rule->name, sizeof rule->name);
    rule->checks_rate = real(row, "checks_per_s");
    rule->denied_rate = real(row, "denied_per_s");
}

static void read_lists(const struct row *all, struct screen *screen)
{
    struct row row;
    uint32_t count = elements(all, "conditions", &row);
    for (; screen->condition_count < count && screen->condition_count < SCREEN_CONDITIONS_MAX &&
           is_map(&row);
         step(&row))
        read_condition(&row, &screen->conditions[screen->condition_count++]);
    count = elements(all, "busiest", &row);
    for (; screen->busiest_count < count && screen->busiest_count < SCREEN_CHANGES_MAX &&
           is_map(&row);
         step(&row))
        read_rule(&row, &screen->busiest[screen->busiest_count++]);
    count = elements(all, "pressed", &row);
    for (; screen->pressed_count < count && screen->pressed_count < SCREEN_CHANGES_MAX &&
           is_map(&row);
         step(&row))
        read_rule(&row, &screen->pressed[screen->pressed_count++]);
    count = elements(all, "changes", &row);
    for (;
         screen->change_count < count && screen->change_count < SCREEN_CHANGES_MAX && is_map(&row);
         step(&row)) {
        struct screen_change *change = &screen->changes[screen->change_count++];
        text(&row, "time", change->time, sizeof change->time);
        text(&row, "author", change->author, sizeof change->author);
        text(&row, "says", change->says, sizeof change->says);
        text(&row, "note", change->note, sizeof change->note);
    }
    count = elements(all, "warnings", &row);
    for (; screen->warning_count < count && screen->warning_count < SCREEN_CHANGES_MAX &&
           row.count > 0;
         step(&row))
        mp_text_of(row.tokens, screen->warnings[screen->warning_count++], SCREEN_TEXT_LEN);
}

static uint32_t read_periods(const struct row *row, const char *name,
                             double out[SCREEN_PERIODS_MAX])
{
    struct row at;
    uint32_t known = 0;
    const uint32_t count = elements(row, name, &at);
    for (; known < count && known < SCREEN_PERIODS_MAX && at.count > 0; step(&at), known++) {
        const double rate =
            at.tokens->type == MP_FLOAT ? at.tokens->real : (double)whole(at.tokens);
        out[known] = rate > 0 ? rate : 0;
    }
    return known;
}

static void read_lately(const struct row *all, struct screen *screen)
{
    struct screen_history *history = &screen->history;
    struct screen_event_reader reader;
    struct row row;
    screen_events_begin(all->tokens, all->count, &reader);
    while (screen->event_count < SCREEN_EVENTS_MAX &&
           screen_events_next(&reader, &screen->events[screen->event_count]))
        screen->event_count++;
    if (!inner(all, "history", &row))
        return;
    history->step_ms = number(&row, "step_ms");
    history->until_ms = number(&row, "until_ms");
    const uint32_t allowed = read_periods(&row, "allowed_per_s", history->allowed);
    const uint32_t denied = read_periods(&row, "denied_per_s", history->denied);
    history->count = allowed < denied ? allowed : denied;
}

/* An older release says why in `reasons` alone. */
static void read_reasons(const struct row *all, struct screen *screen)
{
    struct row row;
    const uint32_t count = elements(all, "reasons", &row);
    for (uint32_t i = 0;
         screen->condition_count < count && i < SCREEN_CONDITIONS_MAX && row.count > 0;
         i++, step(&row)) {
        struct screen_condition *condition = &screen->conditions[screen->condition_count++];
        condition->grave = true;
        mp_text_of(row.tokens, condition->says, sizeof condition->says);
    }
}

size_t screen_nodes_in(const struct mp_token *tokens, size_t count)
{
    const struct row all = {tokens, count};
    struct row row;
    return elements(&all, "nodes", &row);
}

void screen_read(const struct mp_token *tokens, size_t count, struct screen_node *nodes,
                 size_t nodes_max, struct screen *screen)
{
    const struct row all = {tokens, count};
    struct row row;
    memset(screen, 0, sizeof *screen);
    screen->nodes = nodes;
    screen->healthy = truth(&all, "healthy");
    screen->conditions_more = (uint32_t)number(&all, "conditions_more");
    screen->stable = truth(&all, "stable");
    text(&all, "node", screen->node, sizeof screen->node);
    text(&all, "cluster_id", screen->cluster, sizeof screen->cluster);
    text(&all, "version", screen->version, sizeof screen->version);
    screen->epoch = number(&all, "epoch");
    screen->vnodes = number(&all, "vnodes_total");
    screen->replicas = number(&all, "replicas");
    screen->nodes_more = number(&all, "nodes_more");
    if (inner(&all, "rules", &row)) {
        screen->rules_agree = truth(&row, "agree");
        screen->rules_version = number(&row, "version");
        screen->rules_count = number(&row, "count");
    }
    if (inner(&all, "handoff", &row)) {
        screen->give = number(&row, "vnodes_to_give");
        screen->receive = number(&row, "vnodes_to_receive");
        screen->left_ms = number(&row, "left_ms");
    }
    if (inner(&all, "members", &row)) {
        screen->alive = number(&row, "alive");
        screen->dead = number(&row, "dead");
    }
    read_lists(&all, screen);
    read_lately(&all, screen);
    if (screen->condition_count == 0)
        read_reasons(&all, screen);
    read_nodes(&all, nodes_max, screen);
}

bool screen_is_ill(const struct screen_node *node)
{
    return strcmp(node->state, "alive") != 0 || node->troubles[0] != '\0' || node->lost[0] != '\0';
}

/* ---- the invariants -------------------------------------------------------------------------- */

/* Whether a text ends inside its field. */
#define ENDS(field) (memchr(field, '\0', sizeof(field)) != NULL)

static void check_node(const struct screen_node *node)
{
    INVARIANT("SCREEN-1", ENDS(node->name) && ENDS(node->region) && ENDS(node->zone));
    INVARIANT("SCREEN-1", ENDS(node->id) && ENDS(node->state) && ENDS(node->ring));
    INVARIANT("SCREEN-1", ENDS(node->client) && ENDS(node->version));
    INVARIANT("SCREEN-1", ENDS(node->lost) && ENDS(node->troubles));
}

static void check_condition(const struct screen_condition *condition)
{
    INVARIANT("SCREEN-1", ENDS(condition->code) && ENDS(condition->node));
    INVARIANT("SCREEN-1", ENDS(condition->region) && ENDS(condition->short_form));
    INVARIANT("SCREEN-1", ENDS(condition->says) && ENDS(condition->means));
    INVARIANT("SCREEN-1", ENDS(condition->advice));
}

void screen_check_invariants(const struct screen *screen)
{
    INVARIANT("SCREEN-1", ENDS(screen->node) && ENDS(screen->cluster) && ENDS(screen->version));
    INVARIANT("SCREEN-1", screen->condition_count <= SCREEN_CONDITIONS_MAX);
    INVARIANT("SCREEN-1", screen->busiest_count <= SCREEN_CHANGES_MAX);
    INVARIANT("SCREEN-1", screen->pressed_count <= SCREEN_CHANGES_MAX);
    INVARIANT("SCREEN-1", screen->event_count <= SCREEN_EVENTS_MAX);
    INVARIANT("SCREEN-1", screen->history.count <= SCREEN_PERIODS_MAX);
    INVARIANT("SCREEN-1", screen->change_count <= SCREEN_CHANGES_MAX);
    INVARIANT("SCREEN-1", screen->warning_count <= SCREEN_CHANGES_MAX);
    INVARIANT("SCREEN-1", screen->nodes != NULL || screen->node_count == 0);
    for (uint32_t i = 0; i < screen->condition_count; i++)
        check_condition(&screen->conditions[i]);
    for (uint32_t i = 0; i < screen->busiest_count; i++)
        INVARIANT("SCREEN-1", ENDS(screen->busiest[i].name));
    for (uint32_t i = 0; i < screen->pressed_count; i++)
        INVARIANT("SCREEN-1", ENDS(screen->pressed[i].name));
    for (uint32_t i = 0; i < screen->event_count; i++)
        INVARIANT("SCREEN-1", ENDS(screen->events[i].kind) && ENDS(screen->events[i].time) &&
                                  ENDS(screen->events[i].says));
    for (uint32_t i = 0; i < screen->change_count; i++)
        INVARIANT("SCREEN-1", ENDS(screen->changes[i].author) && ENDS(screen->changes[i].says) &&
                                  ENDS(screen->changes[i].note));
    for (uint32_t i = 0; i < screen->warning_count; i++)
        INVARIANT("SCREEN-1", ENDS(screen->warnings[i]));
    for (uint32_t i = 0; i < screen->node_count; i++)
        check_node(&screen->nodes[i]);
}
