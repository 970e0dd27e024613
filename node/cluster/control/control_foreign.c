/* control_foreign.c - a seed that answers for another cluster than this node's.
 *
 * A data directory was taken to the wrong place, or a seed names the wrong one. Both clusters keep
 * apart (CONTROL-3), so without a word the node would wait for its own for ever, or serve alone.
 *
 * FOREIGN-1  Only an address that was configured counts, and only the answer to a greeting that
 *            this node has just sent there: addresses known from earlier may belong to anybody by
 *            now.
 * FOREIGN-2  It ends the node only soon after its start, and only while it has heard nobody of its
 *            own cluster: a node that served well is not ended by what somebody starts elsewhere.
 */
#include <stdio.h>
#include <string.h>

#include "node/cluster/control/control_state.h"

/* A node that hears nobody of its own for so long after a seed was found to be another's gives up;
 * and when that is found later than so long after its start, it goes on. */
#define FOREIGN_WAIT_NS   (5000 * CONTROL_MS)
#define FOREIGN_BEGIN_NS  (60000 * CONTROL_MS)
#define FOREIGN_RECENT_NS (15000 * CONTROL_MS) /* seeds are greeted more often than that */

static bool is_configured(const struct control *control, const char *address)
{
    for (uint32_t i = 0; i < control->options.seed_count; i++)
        if (strcmp(control->options.seeds[i], address) == 0)
            return true;
    return false;
}

static void note(struct control *control, const struct swim_met *met)
{
    struct control_foreign *foreign = &control->foreign;
    if (foreign->first_ns == 0)
        foreign->first_ns = control->now_ns;
    foreign->last_ns = control->now_ns;
    (void)snprintf(foreign->seed, sizeof foreign->seed, "%s", met->seed);
    (void)snprintf(foreign->name, sizeof foreign->name, "%s", met->record.name);
    memcpy(foreign->cluster_id, met->cluster_id, sizeof foreign->cluster_id);
}

void control_look_foreign(struct control *control)
{
    size_t cursor = 0;
    const struct swim_member *member;
    for (size_t i = 0; i < control->gossip.met_count; i++)
        if (is_configured(control, control->gossip.met[i].seed)) /* FOREIGN-1 */
            note(control, &control->gossip.met[i]);
    while (!control->accompanied && (member = swim_next(control->swim, &cursor)) != NULL)
        control->accompanied =
            member->state == SWIM_ALIVE && member->record.id != control->options.node_id;
}

static void put_hex(const uint8_t *bytes, char out[2 * CONTROL_CLUSTER_ID_LEN + 1])
{
    for (size_t i = 0; i < CONTROL_CLUSTER_ID_LEN; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

bool control_foreign_say(const struct control *control, char *out, size_t capacity)
{
    char theirs[2 * CONTROL_CLUSTER_ID_LEN + 1];
    char ours[2 * CONTROL_CLUSTER_ID_LEN + 1];
    const struct control_foreign *foreign = &control->foreign;
    if (foreign->first_ns == 0 || control->now_ns - foreign->last_ns > FOREIGN_RECENT_NS)
        return false;
    put_hex(foreign->cluster_id, theirs);
    put_hex(control->identity.cluster_id, ours);
    (void)snprintf(out, capacity, "seed %s (%s) is of cluster %s, this node of cluster %s",
                   foreign->seed, foreign->name, theirs, ours);
    return true;
}

bool control_misplaced(const struct control *control)
{
    const struct control_foreign *foreign = &control->foreign;
    return control->options.has_identity && !control->accompanied && foreign->first_ns != 0 &&
           foreign->first_ns - control->started_ns < FOREIGN_BEGIN_NS &&
           foreign->last_ns - foreign->first_ns >= FOREIGN_WAIT_NS; /* FOREIGN-2 */
}
