/* control_settings.c - how settings move between nodes: votes, news, fetching, copying.
 *
 *   register.c: decided --> settings_apply: durable --> NEWS to members, the version in gossip
 *   NEWS, or a record in gossip, of a higher version --> FETCH --> CHANGES or RECORDS
 *
 * What this node itself wants changed is in control_edit.c. Frames that do not fit into the effects
 * are lost on the way: everything here is asked for again.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/consensus/register_wire.h"
#include "node/cluster/control/control_state.h"

enum {
    NEWS_MAX = 64,         /* members that are told at once; others hear it by gossip */
    ARENA_SPARE = 4 << 20, /* of the effects' arena, for what is made durable */
    NEWS_FRAME_LEN = 4096,
};
/* A copy whose source is silent for so long begins anew with another. */
#define COLD_KEYS_SILENCE_NS (1000 * CONTROL_MS)
/* After NEWS a node asks at once, unless it has just asked. */
#define NEWS_PAUSE_NS (20 * CONTROL_MS)
/* The number of a question lives so long, and an older release has so long to answer without it. */
#define NONCE_NS (5000 * CONTROL_MS)
#define OLDER_NS (2000 * CONTROL_MS)

/* ---- frames ---------------------------------------------------------------------------------- */

static void send_frame(struct control *control, struct settings_frame *frame, const char *address,
                       struct effects *effects)
{
    const size_t room =
        frame->item_count > 0 ? (size_t)JOIN_LARGE_FRAME_MAX : (size_t)NEWS_FRAME_LEN;
    if (!effects_fit(effects, room + ARENA_SPARE))
        return;
    memcpy(frame->cluster_id, control->identity.cluster_id, sizeof frame->cluster_id);
    frame->sender = control->options.node_id;
    memcpy(frame->address, control->options.gossip, sizeof frame->address);
    const int len = settings_wire_encode(frame, effects_reserve(effects, room), room);
    ASSERT(len > 0); /* by the bounds of settings_wire.h */
    struct effect *effect = effects_add(effects, EFFECT_SEND_GOSSIP);
    memcpy(effect->address, address, sizeof effect->address);
    effects_commit(effects, effect, (size_t)len);
}

static struct settings_frame *new_frame(struct control *control, enum settings_type type)
{
    struct settings *settings = control->settings;
    struct settings_frame *frame = settings->answer;
    memset(frame, 0, offsetof(struct settings_frame, items));
    frame->type = type;
    frame->version = settings->version;
    frame->digest = settings->digest;
    frame->voters = settings->voters;
    return frame;
}

static void tell_news(struct control *control, const char *address, struct effects *effects)
{
    send_frame(control, new_frame(control, SETTINGS_NEWS), address, effects);
}

void control_settings_changed(struct control *control, struct effects *effects)
{
    size_t cursor = 0;
    uint32_t told = 0;
    const struct swim_member *member;
    while (told < NEWS_MAX && (member = swim_next(control->swim, &cursor)) != NULL) {
        if (member->record.id == control->options.node_id ||
            !control_alive(control, member->record.id) ||
            member->record.settings_version >= control->settings->version)
            continue;
        tell_news(control, member->record.gossip, effects);
        told++;
    }
    control_tell_self(control);
}

void control_ask_settings(struct control *control, const char *address, struct effects *effects)
{
    const struct settings_copying *copying = &control->settings->copying;
    struct settings_frame *frame = new_frame(control, SETTINGS_FETCH);
    if (copying->active)
        frame->from =
            (struct settings_place){copying->next_kind, {copying->next_name, copying->next_len}};
    if (control->settings->nonce == 0 ||
        control->now_ns - control->settings->nonce_ns >= NONCE_NS) {
        control->settings->nonce = random_next(&control->random) | 1;
        control->settings->nonce_ns = control->now_ns;
    }
    frame->nonce = control->settings->nonce;
    control->settings->asked_ns = control->now_ns;
    send_frame(control, frame, address, effects);
}

/* ---- votes ----------------------------------------------------------------------------------- */

void control_take_votes(struct control *control, const struct register_frame *from,
                        struct effects *effects)
{
    struct settings *settings = control->settings;
    const struct register_out *out = &settings->wants;
    control_edits_offer(control);
    if (out->persist) {
        const int len = register_encode(settings->ballots, settings->bytes, JOIN_LARGE_FRAME_MAX);
        ASSERT(len > 0);
        settings_keep(SETTINGS_REGISTER_KEY, settings->bytes, (size_t)len, false, effects);
    }
    const char *address = control_address_of(control, out->fetch_from, from);
    if (address != NULL && control->now_ns - settings->asked_ns >= NEWS_PAUSE_NS &&
        !settings->copying.active)
        control_ask_settings(control, address, effects);
    address = control_address_of(control, out->tell, from);
    if (address != NULL)
        tell_news(control, address, effects);
    for (uint32_t i = 0; i < out->send_count; i++) {
        address = control_address_of(control, out->sends[i].to, from);
        if (address != NULL && effects_fit(effects, JOIN_LARGE_FRAME_MAX + ARENA_SPARE))
            control_send_register(control, &out->sends[i], true, address, effects);
    }
    if (!out->decided)
        return;
    size_t len;
    const uint8_t *value = register_value(settings->ballots, &len);
    if (settings_apply(settings, value, len, false, effects) == 0)
        control_settings_changed(control, effects);
}

void control_receive_vote(struct control *control, const struct register_frame *frame,
                          struct effects *effects)
{
    struct settings *settings = control->settings;
    const struct register_message *message = &frame->message;
    if (message->value_len > 0 && !settings_follows(settings, message->value, message->value_len))
        return; /* SETTINGS-3: no vote for what could not be applied here */
    register_receive(settings->ballots, control->now_ns, message, &settings->wants);
    control_take_votes(control, frame, effects);
}

/* ---- catching up ----------------------------------------------------------------------------- */

/* Notes whether the member that the frame is from has more than this node. */
static void note_more(const struct control *control, const struct settings_frame *frame)
{
    struct settings *settings = control->settings;
    settings->more_ns = frame->version > settings->version ? control->now_ns : 0;
}

bool control_settings_coming(const struct control *control)
{
    const struct settings *settings = control->settings;
    return settings->copying.active ||
           (settings->more_ns != 0 && control->now_ns - settings->more_ns < COLD_KEYS_SILENCE_NS);
}

static void take_changes(struct control *control, const struct settings_frame *frame,
                         struct effects *effects)
{
    struct settings *settings = control->settings;
    const uint64_t before = settings->version;
    const uint32_t count =
        frame->item_count < SETTINGS_APPLY_MAX ? frame->item_count : (uint32_t)SETTINGS_APPLY_MAX;
    int error = settings->copying.active ? TG_EBUSY : 0;
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = settings_apply(settings, frame->items[i].bytes, frame->items[i].len, true, effects);
    if (settings->version == before)
        return;
    settings_end(settings, effects);
    note_more(control, frame);
    control_tell_self(control);
    if (frame->version > settings->version)
        control_ask_settings(control, frame->address, effects);
}

static void take_records(struct control *control, const struct settings_frame *frame,
                         struct effects *effects)
{
    struct settings *settings = control->settings;
    const bool mixed = settings->mixed;
    if (!settings_take_records(settings, control->now_ns, frame, effects))
        return;
    note_more(control, frame);
    /* SETTINGS-6: also that it has no history */
    if (!settings->copying.active || settings->mixed != mixed)
        control_tell_self(control);
    control_ask_settings(control, frame->address, effects);
}

static void take_news(struct control *control, const struct settings_frame *frame,
                      struct effects *effects)
{
    const struct settings *settings = control->settings;
    if (frame->version > settings->version && !settings->copying.active &&
        control->now_ns - settings->asked_ns >= NEWS_PAUSE_NS &&
        control_may_answer(control, frame->sender, frame->address))
        control_ask_settings(control, frame->address, effects);
}

/* Whether this node has asked for what the frame holds: else anybody could write a change into one,
 * and the others would fetch it here. */
static bool asked_for(const struct control *control, const struct settings_frame *frame)
{
    const struct settings *settings = control->settings;
    const struct swim_member *member = swim_find(control->swim, frame->sender);
    if (settings->nonce != 0 && frame->nonce == settings->nonce)
        return true;
    return member != NULL && (member->record.flags & CONTROL_FLAG_PROVES) == 0 &&
           control->now_ns - settings->asked_ns < OLDER_NS;
}

bool control_receive_settings(struct control *control, const void *bytes, size_t len,
                              struct effects *effects)
{
    struct settings *settings = control->settings;
    struct settings_frame *frame = settings->frame;
    if (settings_wire_decode(bytes, len, frame) != 0)
        return false;
    if (!control->joined || memcmp(frame->cluster_id, control->identity.cluster_id,
                                   CONTROL_CLUSTER_ID_LEN) != 0) /* CONTROL-3 */
        return true;
    if (control->disk_full && frame->type != SETTINGS_FETCH)
        return true;
    switch (frame->type) {
    case SETTINGS_NEWS:
        take_news(control, frame, effects);
        break;
    case SETTINGS_FETCH:
        if (control_may_answer(control, frame->sender, frame->address) &&
            settings_answer(settings, frame, settings->answer)) {
            settings->answer->nonce = frame->nonce;
            send_frame(control, settings->answer, frame->address, effects);
        }
        break;
    case SETTINGS_CHANGES:
        if (asked_for(control, frame))
            take_changes(control, frame, effects);
        break;
    case SETTINGS_RECORDS:
        if (asked_for(control, frame))
            take_records(control, frame, effects);
        break;
    case SETTINGS_TYPE_END:
        ASSERT(false);
    }
    return true;
}

/* Any living member whose record names a higher version, so that not everybody asks the same. */
static const struct swim_member *one_ahead(struct control *control)
{
    size_t cursor = 0;
    uint64_t ahead = 0;
    const struct swim_member *member;
    const struct swim_member *chosen = NULL;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if (member->record.settings_version > control->settings->version &&
            control_alive(control, member->record.id) &&
            random_below(&control->random, ++ahead) == 0)
            chosen = member;
    return chosen;
}

static void fetch(struct control *control, struct effects *effects)
{
    struct settings_copying *copying = &control->settings->copying;
    if (copying->active && control->now_ns - copying->heard_ns >= COLD_KEYS_SILENCE_NS)
        copying->active = false;
    if (control->now_ns - control->settings->asked_ns < CONTROL_ASK_NS)
        return;
    const struct swim_member *member =
        copying->active ? swim_find(control->swim, copying->source) : one_ahead(control);
    if (member != NULL)
        control_ask_settings(control, member->record.gossip, effects);
}

void control_move_settings(struct control *control, struct effects *effects)
{
    struct settings *settings = control->settings;
    if (control->disk_full) {
        control_edits_refuse(control);
        return;
    }
    fetch(control, effects);
    if (settings->version > 0) {
        register_tick(settings->ballots, control->now_ns, &settings->wants);
        control_take_votes(control, NULL, effects);
    }
    control_edit_move(control, effects);
}
