/* swim_health.c - how well this node hears others: its own slowness, round trips, skew of clocks.
 *
 * A node that is slow itself sees everybody else fail (Lifeguard). Local health counts the signs of
 * that, from 0 = well to health_max; time-outs are multiplied by 1 + health.
 */
#include "gossip/swim_health.h"

#include "base/assert.h"
#include "base/sat.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"

enum { SMOOTHING = 8 };

/* The largest difference of clocks that is worth averaging: ten years. */
#define SKEW_MAX_NS (INT64_C(315360000) * 1000000000)

void swim_health_add(struct swim *swim, int delta)
{
    const int64_t health = (int64_t)swim->health + delta;
    if (health < 0)
        swim->health = 0;
    else if (health > (int64_t)swim->options.health_max)
        swim->health = swim->options.health_max;
    else
        swim->health = (uint32_t)health;
    ASSERT(swim->health <= swim->options.health_max); /* GOSSIP-8 */
}

static int64_t smooth(int64_t old_ns, int64_t sample_ns, bool first)
{
    return first ? sample_ns : old_ns + (sample_ns - old_ns) / SMOOTHING;
}

/* The answer was written, we suppose, half a round trip ago; certainly neither before the question
 * nor after it came. */
void swim_measure(struct swim *swim, uint32_t at, int64_t sent_ns,
                  const struct swim_message *message)
{
    ASSERT(at != SWIM_SELF && swim->slots[at].used && sent_ns <= swim->now_ns);
    struct swim_member *member = &swim->slots[at].member;
    struct swim_region *region = &swim->regions[swim->slots[at].region];
    const bool first = member->rtt_ns == 0;
    const int64_t rtt_ns = swim->now_ns > sent_ns ? sat_sub(swim->now_ns, sent_ns) : 1;
    int64_t skew_ns = sat_sub(message->time_ns, sat_add(sent_ns, rtt_ns / 2));

    if (skew_ns > SKEW_MAX_NS)
        skew_ns = SKEW_MAX_NS;
    if (skew_ns < -SKEW_MAX_NS)
        skew_ns = -SKEW_MAX_NS;
    member->rtt_ns = smooth(member->rtt_ns, rtt_ns, first);
    if (member->rtt_ns < 1)
        member->rtt_ns = 1; /* 0 means not measured */
    ASSERT(skew_ns <= SKEW_MAX_NS && skew_ns >= -SKEW_MAX_NS);
    member->skew_ns = smooth(member->skew_ns, skew_ns, first);
    region->rtt_ns = smooth(region->rtt_ns, rtt_ns, region->rtt_ns == 0);
    if (message->timeless)
        return;
    member->clock = (struct swim_clock){.low_ns = sat_sub(message->time_ns, swim->now_ns),
                                        .high_ns = sat_sub(message->time_ns, sent_ns),
                                        .wall_ns = message->wall_ns,
                                        .at_ns = swim->now_ns};
}
