/* control_gather.c - asks all members for their figures while somebody looks; gather.h tells how.
 */
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "node/cluster/control/control_state.h"

#define LOOKED_NS (3000 * CONTROL_MS) /* somebody still looks so long after a question */
#define ROUND_NS  (900 * CONTROL_MS)
#define FRESH_NS  (3000 * CONTROL_MS) /* figures are shown for so long */
/* Who has just begun to look may rather wait for so long than be told half of all. */
#define AWAITED_NS (500 * CONTROL_MS)

static struct gather_row *row_of(struct gather *gather, uint64_t id)
{
    for (uint32_t i = 0; i < gather->count; i++)
        if (gather->rows[i].id == id)
            return &gather->rows[i];
    return NULL;
}

static bool asks(const struct control *control, const struct swim_member *member)
{
    return (member->record.flags & CONTROL_FLAG_FIGURES) != 0 &&
           member->record.id != control->options.node_id &&
           (control_remote(control, member) ||
            ring_config_find(control->config, member->record.id) != NULL) &&
           control_alive(control, member->record.id);
}

uint64_t control_figures_number(const struct control *control, uint64_t round, uint64_t id)
{
    uint8_t bytes[16];
    struct bytes_writer writer;
    bytes_writer_init(&writer, bytes, sizeof bytes);
    bytes_put_u64(&writer, round);
    bytes_put_u64(&writer, id);
    return hash64(&control->identity.secret, bytes, writer.len);
}

static void send(struct control *control, struct figures_frame *frame, const char *address,
                 struct effects *effects)
{
    if (!effects_fit(effects, FIGURES_FRAME_MAX))
        return;
    frame->sender = control->options.node_id;
    memcpy(frame->cluster_id, control->identity.cluster_id, sizeof frame->cluster_id);
    memcpy(frame->address, control->options.gossip, sizeof frame->address);
    const int len =
        figures_encode(frame, effects_reserve(effects, FIGURES_FRAME_MAX), FIGURES_FRAME_MAX);
    ASSERT(len > 0);
    struct effect *effect = effects_add(effects, EFFECT_SEND_GOSSIP);
    (void)strncpy(effect->address, address, sizeof effect->address - 1);
    effects_commit(effects, effect, (size_t)len);
}

/* ---- asking ---------------------------------------------------------------------------------- */

void control_gather_look(struct control *control)
{
    struct gather *gather = &control->gather;
    if (control->now_ns >= gather->until_ns) {
        gather->count = 0;
        gather->since_ns = control->now_ns;
    }
    gather->until_ns = control->now_ns + LOOKED_NS;
}

static void ask(struct control *control, const struct swim_member *member, struct effects *effects)
{
    struct gather *gather = &control->gather;
    struct gather_row *row = row_of(gather, member->record.id);
    struct figures_frame frame = {
        .type = FIGURES_ASK,
        .number = control_figures_number(control, gather->number, member->record.id)};
    if (row == NULL && gather->count < GATHER_MAX) {
        row = &gather->rows[gather->count++];
        *row = (struct gather_row){.id = member->record.id};
    }
    if (row == NULL)
        return; /* GATHER-1 */
    row->asked_ns = control->now_ns;
    send(control, &frame, member->record.gossip, effects);
}

void control_move_gather(struct control *control, struct effects *effects)
{
    struct gather *gather = &control->gather;
    const struct swim_member *member;
    if (!gather->round && control->now_ns < gather->until_ns &&
        control->now_ns - gather->round_ns >= ROUND_NS) {
        gather->round = true;
        gather->round_ns = control->now_ns;
        gather->before = gather->number;
        gather->number = random_next(&control->random) | 1;
        gather->cursor = 0;
    }
    for (uint32_t asked = 0; gather->round && asked < GATHER_AT_ONCE;) {
        member = swim_next(control->swim, &gather->cursor);
        gather->round = member != NULL;
        if (member == NULL || !asks(control, member))
            continue;
        ask(control, member, effects);
        asked++;
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void told(struct control *control, const struct figures_frame *frame)
{
    struct gather *gather = &control->gather;
    struct gather_row *row = row_of(gather, frame->sender);
    if (row == NULL || (frame->number != control_figures_number(control, gather->number, row->id) &&
                        frame->number != control_figures_number(control, gather->before, row->id)))
        return; /* FIGURES-2 */
    row->told_ns = control->now_ns;
    row->figures = frame->figures;
}

bool control_receive_figures(struct control *control, const void *bytes, size_t len,
                             struct effects *effects)
{
    struct figures_frame frame;
    if (figures_decode(bytes, len, &frame) != 0)
        return false;
    if (!control->joined ||
        memcmp(frame.cluster_id, control->identity.cluster_id, CONTROL_CLUSTER_ID_LEN) != 0)
        return true;
    if (frame.type == FIGURES_TELL) {
        told(control, &frame);
    } else if (control_may_answer(control, frame.sender, frame.address)) {
        char address[VIEW_TEXT_LEN];
        memcpy(address, frame.address, sizeof address);
        frame.type = FIGURES_TELL;
        frame.figures = control->meter.now;
        control->figures_asked_ns = control->now_ns;
        send(control, &frame, address, effects);
    }
    return true;
}

/* ---- what is known --------------------------------------------------------------------------- */

const struct figures *control_figures_of(const struct control *control, uint64_t id)
{
    const struct gather *gather = &control->gather;
    if (id == control->options.node_id)
        return control->meter.taken_ns != 0 ? &control->meter.now : NULL;
    for (uint32_t i = 0; i < gather->count; i++)
        if (gather->rows[i].id == id && gather->rows[i].told_ns != 0 &&
            control->now_ns - gather->rows[i].told_ns < FRESH_NS)
            return &gather->rows[i].figures;
    return NULL;
}

/* Not by control_figures_awaited, which looks at all members: this is asked again and again. */
bool control_figures_due(const struct control *control)
{
    const struct gather *gather = &control->gather;
    if (control->now_ns - gather->since_ns >= AWAITED_NS)
        return false;
    bool due = gather->round || gather->round_ns < gather->since_ns;
    for (uint32_t i = 0; i < gather->count && !due; i++)
        due = gather->rows[i].told_ns == 0;
    return due;
}

uint32_t control_figures_awaited(const struct control *control)
{
    size_t cursor = 0;
    uint32_t awaited = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        awaited += asks(control, member) && control_figures_of(control, member->record.id) == NULL;
    return awaited;
}
