/* control_config.c - how the ring configuration moves: agreed on, kept, told, fetched.
 *
 *   propose.c: what is wanted --> register.c: agreed on by the voters --+
 *   CONFIG from others --> control_proof.c: proven ---------------------+--> adopt: durable, told,
 *   a new lineage, by the operator's force -----------------------------+    shown to shards
 *                                                                            (CONTROL-2)
 *
 * What the register wants durable precedes whatever else it wants (REGISTER-2), because effects are
 * carried out in their order.
 */
#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/consensus/register_wire.h"
#include "node/cluster/control/control_state.h"

enum { TELL_MAX = 64 };

static_assert(TELL_MAX * JOIN_FRAME_MAX <= EFFECTS_ARENA_LEN, "all that is told at once fits");
static_assert((int)REGISTER_VALUE_LEN_MAX == (int)CONTROL_CONFIG_LEN_MAX,
              "what is agreed on can be told");
static_assert((int)JOIN_FRAME_MAX >= (int)REGISTER_RECORD_LEN_MAX, "control->bytes holds a record");

/* ---- effects --------------------------------------------------------------------------------- */

void control_send_join(const struct join_message *message, const char *address,
                       struct effects *effects)
{
    ASSERT(message->type >= JOIN_JOIN && message->type <= JOIN_CONFIG);
    const int len = join_encode(message, effects_reserve(effects, JOIN_FRAME_MAX), JOIN_FRAME_MAX);
    if (len < 0)
        return;
    struct effect *effect = effects_add(effects, EFFECT_SEND_GOSSIP);
    memcpy(effect->address, address, sizeof effect->address);
    effects_commit(effects, effect, (size_t)len);
}

void control_keep(const char *key, const void *bytes, size_t len, struct effects *effects)
{
    memcpy(effects_reserve(effects, len), bytes, len);
    struct effect *effect = effects_add(effects, EFFECT_META);
    strncpy(effect->address, key, sizeof effect->address - 1);
    effects_commit(effects, effect, len);
}

/* ---- telling and taking ---------------------------------------------------------------------- */

void control_tell_config(struct control *control, const char *address, const struct hash_key *nonce,
                         struct effects *effects)
{
    if (control->config->epoch == 0) /* who joined through another region has no ring to tell yet */
        return;
    const int len = ring_config_encode(control->config, control->bytes, CONTROL_CONFIG_LEN_MAX);
    if (len < 0)
        return;
    struct join_message message = {
        .type = JOIN_CONFIG,
        .sender = control->options.node_id,
        .config = control->bytes,
        .config_len = (size_t)len,
    };
    memcpy(message.cluster_id, control->identity.cluster_id, sizeof message.cluster_id);
    memcpy(message.region, control->options.region, sizeof message.region);
    if (nonce != NULL) {
        message.identity.secret = *nonce;
        control_proof_testify(control, &message);
    }
    control_send_join(&message, address, effects);
}

/* Tells so many members; in a larger cluster the others hear of the epoch by gossip, and fetch. */
static void tell_all(struct control *control, struct effects *effects)
{
    size_t cursor = 0;
    uint32_t told = 0;
    const struct swim_member *member;
    while (told < TELL_MAX && (member = swim_next(control->swim, &cursor)) != NULL) {
        if (member->record.id == control->options.node_id || control_remote(control, member) ||
            !control_alive(control, member->record.id))
            continue;
        control_tell_config(control, member->record.gossip, NULL, effects);
        told++;
    }
}

/* Ids of both sides, ascending, for gossip: no rumour removes them. */
void control_tell_ring(struct control *control)
{
    const struct ring_config *config = control->config;
    uint64_t *ids = (uint64_t *)(void *)control->bytes; /* 2 x RING_MEMBERS_MAX fit */
    uint32_t count = 0;
    uint32_t from = 0;
    for (uint32_t to = 0; config->epoch > 0 && (to < config->to_count || from < config->from_count);
         count++) {
        const uint64_t one = to < config->to_count ? config->to[to].id : UINT64_MAX;
        const uint64_t other = from < config->from_count ? config->from[from].id : UINT64_MAX;
        ids[count] = one < other ? one : other;
        to += one <= other;
        from += other <= one;
    }
    swim_ring(control->swim, ids, count);
}

bool control_adopt(struct control *control, struct effects *effects)
{
    if (control->next->epoch <= control->config->epoch)
        return false; /* CONTROL-1: a founder that was ended as it began finds its ring on its disk
                       */
    ring_config_copy(control->config, control->next);
    const int len = ring_config_encode(control->config, control->bytes, CONTROL_CONFIG_LEN_MAX);
    ASSERT(len > 0);
    control_keep(CONTROL_CONFIG_KEY, control->bytes, (size_t)len, effects); /* CONTROL-2 */
    register_follow(control->ballots, control->config);
    control_tell_ring(control);
    control_proof_end(control);
    control->changed_ns = control->now_ns;
    control_tell_self(control);
    return true;
}

/* Reads a configuration into control->next; false if it is none for this cluster. */
static bool read_config(struct control *control, const uint8_t *bytes, size_t len)
{
    return ring_config_decode(control->next, bytes, len, control->tokens, RING_CONFIG_TOKENS_MAX) ==
               0 &&
           control->next->vnodes == control->identity.vnodes &&
           control->next->replicas <= VIEW_REPLICATION_MAX;
}

void control_take_config(struct control *control, const struct join_message *message, bool asked,
                         struct effects *effects)
{
    if (!control->disk_full && read_config(control, message->config, message->config_len) &&
        ((asked && control->config->epoch == 0) || control_proof_take(control, message)))
        (void)control_adopt(control, effects);
}

/* ---- agreeing -------------------------------------------------------------------------------- */

const char *control_address_of(const struct control *control, uint64_t node,
                               const struct register_frame *from)
{
    const struct swim_member *member = node != 0 ? swim_find(control->swim, node) : NULL;
    if (member != NULL)
        return member->record.gossip;
    return node != 0 && from != NULL && from->message.sender == node ? from->address : NULL;
}

void control_send_register(struct control *control, const struct register_send *send, bool settings,
                           const char *address, struct effects *effects)
{
    const size_t room = settings ? (size_t)JOIN_LARGE_FRAME_MAX : (size_t)JOIN_FRAME_MAX;
    struct register_frame frame = {.settings = settings, .message = send->message};
    memcpy(frame.cluster_id, control->identity.cluster_id, sizeof frame.cluster_id);
    memcpy(frame.address, control->options.gossip, sizeof frame.address);
    memcpy(frame.region, control->options.region, sizeof frame.region);
    const int len = register_wire_encode(&frame, effects_reserve(effects, room), room);
    if (len < 0)
        return;
    struct effect *effect = effects_add(effects, EFFECT_SEND_GOSSIP);
    memcpy(effect->address, address, sizeof effect->address);
    effects_commit(effects, effect, (size_t)len);
}

/* Hands on what the register wants done, in its order. `from`: the frame it answers, or NULL. */
static void take_register(struct control *control, const struct register_frame *from,
                          struct effects *effects)
{
    const struct register_out *out = &control->wants;
    if (out->persist) {
        const int len = register_encode(control->ballots, control->bytes, JOIN_FRAME_MAX);
        ASSERT(len > 0);
        control_keep(CONTROL_BALLOTS_KEY, control->bytes, (size_t)len, effects);
    }
    if (out->fetch_from != 0)
        control_proof_want(control);
    if (out->tell != 0) {
        const char *address = control_address_of(control, out->tell, from);
        if (address != NULL)
            control_tell_config(control, address, NULL, effects);
    }
    for (uint32_t i = 0; i < out->send_count; i++) {
        const char *address = control_address_of(control, out->sends[i].to, from);
        if (address != NULL)
            control_send_register(control, &out->sends[i], false, address, effects);
    }
    if (!out->decided)
        return;
    size_t len;
    const uint8_t *value = register_value(control->ballots, &len);
    if (read_config(control, value, len) && control_adopt(control, effects))
        tell_all(control, effects);
}

/* Whether what the frame wants voted for, or says was voted for, is a change of the ring as it is:
 * nothing else may come about by a vote, whoever proposes it. */
static bool may_follow(struct control *control, const struct register_message *message)
{
    return message->value_len == 0 || message->epoch != control->config->epoch + 1 ||
           (read_config(control, message->value, message->value_len) &&
            ring_config_follows(control->next, control->config));
}

bool control_receive_register(struct control *control, const void *bytes, size_t len,
                              struct effects *effects)
{
    struct register_frame frame;
    if (register_wire_decode(bytes, len, &frame) != 0)
        return false;
    if (!control->joined || memcmp(frame.cluster_id, control->identity.cluster_id,
                                   CONTROL_CLUSTER_ID_LEN) != 0) /* CONTROL-3 */
        return true;
    if (control->disk_full)
        return true; /* no vote, no proposal */
    if (frame.settings) {
        control_receive_vote(control, &frame, effects);
        return true;
    }
    if (!control_region_takes(control, frame.region, frame.message.sender) || /* CONTROL-5 */
        !may_follow(control, &frame.message))
        return true;
    register_receive(control->ballots, control->now_ns, &frame.message, &control->wants);
    take_register(control, &frame, effects);
    return true;
}

static void propose(struct control *control, struct effects *effects)
{
    control->look_due = control->now_ns - control->looked_ns < CONTROL_LOOK_NS;
    if (control->look_due || control->now_ns - control->proposed_ns < CONTROL_PROPOSE_NS ||
        register_busy(control->ballots))
        return;
    control->looked_ns = control->now_ns;
    if (propose_forced(control)) {
        control->proposed_ns = control->now_ns;
        control->request.force = false;
        if (control_adopt(control, effects))
            tell_all(control, effects);
    } else if (propose_next(control)) {
        if (register_propose(control->ballots, control->now_ns, control->next, &control->wants)) {
            control->proposed_ns = control->now_ns;
            take_register(control, NULL, effects);
        }
    }
}

void control_move_config(struct control *control, struct effects *effects)
{
    if (control->disk_full)
        return;
    control_proof_ask(control, effects);
    if (control->config->epoch == 0)
        return;
    register_tick(control->ballots, control->now_ns, &control->wants);
    take_register(control, NULL, effects);
    propose(control, effects);
}
