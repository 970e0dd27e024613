/* conditions.c - finds what is wrong with the cluster; conditions.h is the contract.
 *
 * Healthy means that nothing waits to happen, and that no member tells a grave trouble of itself:
 * every member of the ring lives, works by the same configuration and has taken over its vnodes,
 * and takes what is written. So whoever is asked says the same of every node.
 */
#include "node/cluster/conditions/conditions.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { RANK_SELF, RANK_DEAD, RANK_TROUBLE, RANK_WAITS = RANK_TROUBLE + HEALTH_TROUBLES };

struct looking {
    const struct control *control;
    const struct control_report *report;
    struct conditions *out;
};

/* ---- the list -------------------------------------------------------------------------------- */

static bool precedes(const struct condition *a, const struct condition *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank;
    const int names = strcmp(a->node, b->node);
    return names != 0 ? names < 0 : strcmp(a->region, b->region) < 0;
}

/* CONDITIONS-1, CONDITIONS-3: what has no place pushes out the last one, if it precedes that. */
static void add(struct conditions *out, const struct condition *condition)
{
    uint32_t at = out->count;
    out->grave = out->grave || condition->grave;
    if (out->count == CONDITIONS_MAX) {
        out->more++;
        if (!precedes(condition, &out->list[CONDITIONS_MAX - 1]))
            return;
        at--;
    } else {
        out->count++;
    }
    for (; at > 0 && precedes(condition, &out->list[at - 1]); at--)
        out->list[at] = out->list[at - 1];
    out->list[at] = *condition;
}

static void name_it(struct condition *condition, const char *name, const char *region)
{
    (void)snprintf(condition->node, sizeof condition->node, "%s", name);
    (void)snprintf(condition->region, sizeof condition->region, "%s", region);
}

/* What no member tells of itself; `name` "": of nobody alone. */
__attribute__((format(printf, 5, 6))) static void say(struct looking *looking, unsigned rank,
                                                      const char *code, const char *name,
                                                      const char *format, ...)
{
    struct condition condition = {
        .rank = rank, .code = code, .short_form = "", .means = "", .advice = "", .grave = true};
    va_list arguments;
    name_it(&condition, name, looking->control->options.region);
    va_start(arguments, format);
    (void)vsnprintf(condition.says, sizeof condition.says, format, arguments);
    va_end(arguments);
    add(looking->out, &condition);
}

/* ---- troubles that members tell -------------------------------------------------------------- */

/* What this node knows better of itself than that it is so. */
static void say_own(const struct looking *looking, enum health_trouble trouble,
                    struct condition *condition)
{
    const struct control *control = looking->control;
    const char *name = control->options.name;
    char *says = condition->says;
    if (trouble == HEALTH_DISK_FULL && looking->report->storage_closed)
        (void)snprintf(says, CONDITION_LEN,
                       "the store of %s has reached --store-max: new keys are refused", name);
    else if (trouble == HEALTH_DISK_FULL)
        (void)snprintf(says, CONDITION_LEN, "%s cannot write to its disk: no room in %.200s", name,
                       control->options.data);
    else if (trouble == HEALTH_FROZEN)
        control_say_frozen(control, says, CONDITION_LEN);
}

/* What all members of a region tell of one and the same thing is told once: of the own region as
 * this node sees it. */
static uint32_t told_once(const struct looking *looking, const struct swim_member *member,
                          uint32_t troubles)
{
    const bool own = member->record.id == looking->control->options.node_id;
    bool told = !own && !control_remote(looking->control, member);
    for (uint32_t i = 0; !told && !own && i < looking->out->count; i++)
        told = looking->out->list[i].rank == RANK_TROUBLE + HEALTH_FROZEN &&
               strcmp(looking->out->list[i].region, swim_region_name(&member->record)) == 0;
    if (told)
        troubles &= ~HEALTH_BIT(HEALTH_FROZEN);
    if (!control_remote(looking->control, member))
        troubles &= ~HEALTH_BIT(HEALTH_NAME); /* look_for_newcomer */
    return troubles;
}

/* How far the clock is off, if this node has measured that; else its owner said so. */
static void say_clock(const struct control *control, const struct swim_member *member,
                      struct condition *condition)
{
    const struct view_clock clock = control_clock_of(control, member->record.id);
    char sentence[CONDITION_LEN];
    if (control_clock_sentence(member->record.name, &clock, sentence, sizeof sentence))
        memcpy(condition->says, sentence, sizeof sentence);
}

static void look_at_troubles(struct looking *looking, const struct swim_member *member)
{
    const struct control *control = looking->control;
    const bool own = member->record.id == control->options.node_id;
    const uint32_t troubles =
        told_once(looking, member, control_health_of(control, member, looking->report));
    for (int i = 0; i < HEALTH_TROUBLES; i++) {
        const struct health_kind *kind = health_kind((enum health_trouble)i);
        if ((troubles & HEALTH_BIT(i)) == 0)
            continue;
        struct condition condition = {.rank = RANK_TROUBLE + (unsigned)i,
                                      .code = kind->code,
                                      .short_form = kind->short_form,
                                      .means = kind->means,
                                      .advice = kind->advice,
                                      .grave = kind->grave};
        name_it(&condition, member->record.name, swim_region_name(&member->record));
        (void)snprintf(condition.says, sizeof condition.says, "%s %s", member->record.name,
                       kind->says);
        if (own)
            say_own(looking, (enum health_trouble)i, &condition);
        if (i == HEALTH_CLOCK)
            say_clock(control, member, &condition);
        add(looking->out, &condition);
    }
}

/* ---- the ring -------------------------------------------------------------------------------- */

static void look_at_lost(struct looking *looking, const struct ring_member *listed,
                         const struct swim_member *member)
{
    struct condition condition = {.rank = RANK_DEAD,
                                  .code = "not_alive",
                                  .short_form = "no answer",
                                  .means = "every key is answered by its replicas",
                                  .advice = "start it, or `tidegate remove` it if it is gone",
                                  .grave = true};
    name_it(&condition, listed->name, looking->control->options.region);
    if (member != NULL && member->state == SWIM_SUSPECT)
        condition.code = "suspect";
    if (member != NULL)
        condition.since_ns = member->since_ns;
    if (member != NULL && (member->record.flags & CONTROL_FLAG_STOPS) != 0) {
        condition.code = "stopped";
        (void)snprintf(condition.says, sizeof condition.says,
                       "%s was stopped, and is expected to start again", listed->name);
    } else {
        (void)snprintf(condition.says, sizeof condition.says, "%s is not alive", listed->name);
    }
    add(looking->out, &condition);
}

static void look_at_listed(struct looking *looking, const struct ring_member *listed)
{
    const struct control *control = looking->control;
    const struct swim_member *member = swim_find(control->swim, listed->id);
    const bool own = listed->id == control->options.node_id;
    if (member == NULL || member->state != SWIM_ALIVE) {
        look_at_lost(looking, listed, member);
        return;
    }
    const uint64_t epoch = control->config->epoch;
    const uint64_t settled = own ? control->settled_epoch : member->record.settled_epoch;
    if (!own && member->record.ring_epoch != epoch)
        say(looking, RANK_WAITS, "other_ring", listed->name,
            "%s works by another ring configuration", listed->name);
    else if (settled < epoch)
        say(looking, RANK_WAITS, "not_settled", listed->name,
            "%s has not taken over its vnodes yet", listed->name);
    if (!own && member->record.rules_digest != control->rules_digest)
        looking->out->rules_agree = false;
}

/* Whether the dead of another region are still expected is not known here: a warning. */
static void look_remote(struct looking *looking, const struct swim_member *member)
{
    struct condition condition = {.rank = RANK_DEAD,
                                  .code = "not_alive",
                                  .short_form = "no answer",
                                  .means = "every key is answered by its replicas",
                                  .advice = "start it, or `tidegate remove` it if it is gone",
                                  .since_ns = member->since_ns};
    name_it(&condition, member->record.name, swim_region_name(&member->record));
    (void)snprintf(condition.says, sizeof condition.says, "%s of region %s is not alive",
                   condition.node, condition.region);
    add(looking->out, &condition);
}

static bool name_taken(const struct control *control, const struct swim_member *member)
{
    for (uint32_t i = 0; i < control->config->to_count; i++) {
        const struct ring_member *listed = &control->config->to[i];
        const struct swim_member *holder = swim_find(control->swim, listed->id);
        if (strcmp(listed->name, member->record.name) == 0 && holder != NULL &&
            holder->state == SWIM_ALIVE)
            return true;
    }
    return false;
}

/* A member that lives but has no part in the ring, and does not want out, is about to be taken
 * in. */
static void look_for_newcomer(struct looking *looking, const struct swim_member *member)
{
    const struct control *control = looking->control;
    if (control_remote(control, member) || (member->record.flags & CONTROL_FLAG_DRAINING) != 0 ||
        ring_config_find(control->config, member->record.id) != NULL)
        return;
    if (name_taken(control, member))
        say(looking, RANK_TROUBLE + HEALTH_NAME, "name_taken", member->record.name,
            "another living node is called %s too", member->record.name);
    else
        say(looking, RANK_WAITS, "not_in_ring", member->record.name, "%s is not in the ring yet",
            member->record.name);
}

/* ---- the time of all ------------------------------------------------------------------------- */

static void look_at_time(struct looking *looking)
{
    const struct control *control = looking->control;
    struct condition condition = {
        .rank = RANK_TROUBLE + HEALTH_CLOCK,
        .code = "cluster_time_off",
        .short_form = "",
        .means = "it gains on them by half a millisecond a second; windows of a calendar begin "
                 "and end off by as much",
        .advice = "if the wall clocks are right, stop all nodes and start them again together",
    };
    if (cluster_time_divided(control->time))
        say(looking, RANK_TROUBLE + HEALTH_CLOCK, "clocks_divided", "",
            "no majority of the ring agrees on the time within 2 s: nobody stops deciding, set the "
            "clocks");
    if (!control_clock_off(control, condition.says, sizeof condition.says))
        return;
    name_it(&condition, "", control->options.region);
    add(looking->out, &condition);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void look_outside(struct looking *looking)
{
    const struct control *control = looking->control;
    char waits[CONDITION_LEN] = "";
    if (!control->joined) {
        say(looking, RANK_SELF, "not_joined", control->options.name,
            "%s has not joined a cluster yet", control->options.name);
        return;
    }
    control_region_say(control, waits, sizeof waits);
    say(looking, RANK_SELF, "no_ring", "", "%s", waits);
}

void conditions_look(const struct control *control, const struct control_report *report,
                     struct conditions *out)
{
    struct looking looking = {.control = control, .report = report, .out = out};
    char foreign[CONDITION_LEN];
    size_t cursor = 0;
    const struct swim_member *member;
    out->count = 0;
    out->more = 0;
    out->grave = false;
    out->rules_agree = true;
    if (control_foreign_say(control, foreign, sizeof foreign))
        say(&looking, RANK_SELF, "other_cluster", "", "%s", foreign);
    if (!control->joined || control->config->epoch == 0) {
        look_outside(&looking);
        return;
    }
    if (!ring_config_is_stable(control->config))
        say(&looking, RANK_WAITS, "ring_changing", "", "the ring configuration is changing");
    look_at_time(&looking);
    for (uint32_t i = 0; i < control->config->to_count; i++)
        look_at_listed(&looking, &control->config->to[i]);
    while ((member = swim_next(control->swim, &cursor)) != NULL) {
        if (member->state == SWIM_ALIVE) {
            look_at_troubles(&looking, member);
            look_for_newcomer(&looking, member);
        } else if (member->state == SWIM_DEAD && control_remote(control, member)) {
            look_remote(&looking, member);
        }
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

/* A member that is suspected, then dead, has one condition, whatever its code is meanwhile. */
static uint64_t name_of(const struct condition *condition)
{
    static const struct hash_key none = {.bytes = {0}};
    char text[SWIM_NAME_LEN + SWIM_PLACE_LEN + EVENT_CODE_LEN + 16];
    const int len = snprintf(text, sizeof text, "%u %s %s %s", condition->rank,
                             condition->rank == RANK_DEAD ? "" : condition->code, condition->node,
                             condition->region);
    return hash64(&none, text, (size_t)len) | 1;
}

void conditions_tell(const struct control *control, const struct control_report *report,
                     int64_t unix_ns)
{
    static_assert((int)CONDITIONS_MAX <= (int)EVENTS_LAST_MAX, "each condition has a place");
    struct conditions conditions;
    struct event_lasting lasting[CONDITIONS_MAX];
    uint32_t count = 0;
    conditions_look(control, report, &conditions);
    for (uint32_t i = 0; i < conditions.count; i++) {
        const struct condition *condition = &conditions.list[i];
        if (condition->rank >= RANK_WAITS)
            continue;
        struct event_lasting *one = &lasting[count++];
        *one = (struct event_lasting){.name = name_of(condition), .grave = condition->grave};
        (void)snprintf(one->code, sizeof one->code, "%s", condition->code);
        (void)snprintf(one->says, sizeof one->says, "%.*s", EVENT_SAYS_LEN - 1, condition->says);
    }
    const bool all = conditions.more == 0 || count < conditions.count; /* CONDITIONS-1 */
    event_log_follow(report->events, unix_ns, lasting, count, all);
}

/* ---- members that are gone ------------------------------------------------------------------- */

bool control_gone(const struct control *control, enum view_state state, const char *region,
                  uint64_t id)
{
    const bool ours = strcmp(region, control->options.region) == 0;
    return state == VIEW_LEFT || (state == VIEW_DEAD && ours && control->config->epoch > 0 &&
                                  ring_config_find(control->config, id) == NULL);
}

uint32_t control_count_removed(const struct control *control)
{
    uint32_t count = 0;
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        count += member->state == SWIM_DEAD &&
                 control_gone(control, VIEW_DEAD, member->record.region, member->record.id);
    return count;
}
