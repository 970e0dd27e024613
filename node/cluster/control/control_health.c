/* control_health.c - what is wrong with this node, told to all others, and with them.
 *
 *   report of the runtime --> control_look ---+
 *   what gossip and the ring say -------------+--> health_step --> flags of the own record
 *
 * A clock is judged by who measures it as well (control_clock.c): whoever has the wrong one may be
 * the last to know. All else each node judges itself, at once for its own operator and by health.h
 * for all others: so that whoever is asked tells the same of every node. Nothing else is decided by
 * it.
 */
#include <string.h>

#include "node/cluster/control/control_state.h"

#define LOOK_NS  (100 * CONTROL_MS)
#define ASKED_NS (3000 * CONTROL_MS)
#define AWAY_NS  (1000 * CONTROL_MS) /* "lately", of a key that was turned away */

enum { NEAR_PERCENT = 80, TIGHT_PERCENT = 95 };

static uint32_t bit_if(bool holds, enum health_trouble trouble)
{
    return holds ? HEALTH_BIT(trouble) : 0;
}

static uint32_t troubles_of_shard(const struct shard_stats *stats, int64_t now_ns)
{
    const bool away = stats->turned_away_ns != 0 && now_ns - stats->turned_away_ns < AWAY_NS;
    return bit_if(away, HEALTH_MEMORY) |
           bit_if(stats->quorum.vnodes_undecided > 0, HEALTH_MAJORITY) |
           bit_if(stats->vnodes_recovering > 0, HEALTH_RECOVERING) |
           bit_if(stats->vnodes_incomplete > 0, HEALTH_INCOMPLETE) |
           bit_if(stats->peers_left_out > 0, HEALTH_CROWDED);
}

uint32_t control_troubles_of(const struct control_report *report, int64_t now_ns)
{
    const unsigned percent = report->storage_percent;
    const bool full = report->storage_closed || report->storage_full;
    uint32_t troubles =
        bit_if(full, HEALTH_DISK_FULL) |
        bit_if(!report->storage_ok && !report->storage_full, HEALTH_DISK_FAILING) |
        bit_if(!full && percent >= NEAR_PERCENT && percent < TIGHT_PERCENT, HEALTH_DISK_NEAR) |
        bit_if(!full && percent >= TIGHT_PERCENT, HEALTH_DISK_TIGHT);
    for (uint32_t i = 0; i < report->shard_count; i++)
        troubles |= troubles_of_shard(&report->shards[i], now_ns);
    return troubles;
}

/* Whether a living member of the ring, to which this node does not belong, has its name. */
static bool name_is_taken(const struct control *control)
{
    const struct ring_config *config = control->config;
    if (ring_config_find(config, control->options.node_id) != NULL)
        return false;
    for (uint32_t i = 0; i < config->to_count; i++)
        if (strcmp(config->to[i].name, control->options.name) == 0 &&
            control_alive(control, config->to[i].id))
            return true;
    return false;
}

/* What this node has measured of the clock of a member of its region. */
static bool clock_is_off(const struct control *control, uint64_t id)
{
    const struct view_clock clock = control_clock_of(control, id);
    return clock.held || clock.verdict >= CLOCK_ALARM;
}

/* What the core sees itself. */
static uint32_t own_troubles(const struct control *control)
{
    if (!control->joined || control->config->epoch == 0)
        return 0;
    return bit_if(control->disk_full, HEALTH_DISK_FULL) |
           bit_if(control->rules_error[0] != '\0', HEALTH_RULES) |
           bit_if(voters_frozen(control), HEALTH_FROZEN) |
           bit_if(clock_is_off(control, control->options.node_id), HEALTH_CLOCK) |
           bit_if(name_is_taken(control), HEALTH_NAME);
}

static void step(struct control *control)
{
    control->health_ns = control->now_ns;
    if (health_step(&control->health, control->troubles | own_troubles(control), control->now_ns))
        control_tell_self(control);
}

void control_move_health(struct control *control)
{
    const int64_t age_ns = control->now_ns - control->health_ns;
    if (age_ns >= LOOK_NS || age_ns < 0)
        step(control);
}

void control_trouble(struct control *control, int64_t now_ns, uint32_t troubles)
{
    const bool news = troubles != control->troubles;
    control->now_ns = now_ns;
    control->troubles = troubles;
    if (news)
        step(control);
}

bool control_look(struct control *control, int64_t now_ns, const struct control_report *report)
{
    control_trouble(control, now_ns, control_troubles_of(report, now_ns));
    figures_take(&control->meter, report, now_ns);
    const bool asked =
        control->figures_asked_ns != 0 && now_ns - control->figures_asked_ns < ASKED_NS;
    return control->troubles != 0 || asked;
}

uint32_t control_health_of(const struct control *control, const struct swim_member *member,
                           const struct control_report *report)
{
    const uint32_t flags = member->record.flags;
    const uint32_t told =
        health_of_flags(flags) | bit_if((flags & CONTROL_FLAG_STOPS) != 0, HEALTH_STOPPING);
    if (member->record.id != control->options.node_id)
        return told | bit_if(clock_is_off(control, member->record.id), HEALTH_CLOCK);
    return told | own_troubles(control) | control_troubles_of(report, control->now_ns);
}
