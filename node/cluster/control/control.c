/* control.c - membership and ring configuration joined; control.h is the contract.
 *
 *             no cluster known                       JOINED effect
 *   start ----------------------> SEEKING ---------------------------> JOINED
 *     |      greet the seeds        |  met a cluster: JOIN -> ADMIT       |
 *     |                             |  nobody has one, and we may:        | members,
 * configurations,
 *     +---- identity stored --------+--- create ----------------------->  | proposals
 *
 * Several nodes started at once that seed each other and may all create a cluster end in one:
 * each waits CONTROL_SEEK_NS for others, and only the one of the lowest id that was met creates.
 */
#include "node/cluster/control/control.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/control/control_state.h"

/* Tell random numbers from gossip's. */
#define REGISTER_SEED UINT64_C(0x7265676973746572)
#define CONTROL_SEED  UINT64_C(0x636f6e74726f6c)
#define SETTINGS_SEED UINT64_C(0x73657474696e6773)

/* Between looks at edits that wait for others. */
#define EDITS_LOOK_NS (10 * CONTROL_MS)

static_assert(sizeof(struct effect) < 256, "effects stay small: bytes lie in the arena");

/* ---- effects --------------------------------------------------------------------------------- */

/* Writes the gossip addresses of all members, one a line; returns their length. */
static size_t put_peers(struct control *control)
{
    size_t len = 0;
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL) {
        const size_t address_len = strlen(member->record.gossip);
        if (member->record.id == control->options.node_id || member->state == SWIM_LEFT ||
            len + address_len + 1 > JOIN_FRAME_MAX)
            continue;
        memcpy(control->bytes + len, member->record.gossip, address_len);
        control->bytes[len + address_len] = '\n';
        len += address_len + 1;
    }
    return len;
}

/* So that a restart finds them without seeds. */
static void keep_peers(struct control *control, struct effects *effects)
{
    control_keep(CONTROL_PEERS_KEY, control->bytes, put_peers(control), effects);
}

size_t control_peers(struct control *control, const uint8_t **addresses)
{
    *addresses = control->bytes;
    return control->config->to_count > 1 ? put_peers(control) : 0;
}

/* Hands on what gossip wants done, in its order: durable first, then sent. */
static bool take_gossip(struct control *control, struct effects *effects)
{
    struct swim_effects *gossip = &control->gossip;
    const bool changed = gossip->events_count > 0;
    if (gossip->persist_incarnation != 0)
        effects_add(effects, EFFECT_INCARNATION)->target = gossip->persist_incarnation;
    for (size_t i = 0; i < gossip->sends_count; i++) {
        const struct swim_send *send = &gossip->sends[i];
        memcpy(effects_reserve(effects, send->len), gossip->bytes + send->offset, send->len);
        struct effect *effect = effects_add(effects, EFFECT_SEND_GOSSIP);
        memcpy(effect->address, send->address, sizeof effect->address);
        effects_commit(effects, effect, send->len);
    }
    for (size_t i = 0; i < gossip->events_count; i++)
        control->peers_due = control->peers_due || gossip->events[i].kind == SWIM_EVENT_JOINED;
    if (control->peers_due && !control->disk_full) {
        control->peers_due = false;
        keep_peers(control, effects); /* once for all: each is a sync of the disk */
    }
    control->view_due = control->view_due || changed;
    return changed;
}

/* ---- what this node says of itself ----------------------------------------------------------- */

static void describe(const struct control *control, struct swim_record *record)
{
    const struct control_options *options = &control->options;
    memset(record, 0, sizeof *record);
    record->id = options->node_id;
    record->incarnation = options->incarnation;
    record->rules_digest = control->rules_digest;
    record->ring_epoch = control->config->epoch;
    record->settled_epoch = control->settled_epoch;
    record->settings_version = control->settings->version;
    record->settings_digest = control->settings->digest.lo;
    record->weight = options->weight;
    record->shards = options->shards;
    record->protocol_min = 1;
    record->protocol_max = 1;
    record->flags = (control->creating ? CONTROL_FLAG_BOOTSTRAP : 0U) |
                    (control->departure != CONTROL_STAYS ? CONTROL_FLAG_DRAINING : 0U) |
                    (control->disk_full ? CONTROL_FLAG_FULL : 0U) |
                    (control->stopping ? CONTROL_FLAG_STOPS : 0U) |
                    (control->confirmed ? CONTROL_FLAG_TIMED : 0U) |
                    (control->settings->mixed ? CONTROL_FLAG_MIXED : 0U) | CONTROL_FLAG_REGIONS |
                    CONTROL_FLAG_PROVES | CONTROL_FLAG_FIGURES | health_flags(control->health.told);
    memcpy(record->name, options->name, sizeof record->name);
    memcpy(record->region, options->region, sizeof record->region);
    memcpy(record->zone, options->zone, sizeof record->zone);
    memcpy(record->gossip, options->gossip, sizeof record->gossip);
    memcpy(record->peer, options->peer, sizeof record->peer);
    memcpy(record->client, options->client, sizeof record->client);
    memcpy(record->software, options->version, sizeof record->software);
}

void control_tell_self(struct control *control)
{
    struct swim_record record;
    describe(control, &record);
    const int error = swim_update_self(control->swim, &record);
    ASSERT(error == 0);
    control->view_due = true;
}

/* ---- getting a cluster ----------------------------------------------------------------------- */

static void joined(struct control *control, struct effects *effects)
{
    ASSERT(!control->joined); /* CONTROL-6: once */
    const int error = swim_set_cluster(control->swim, control->identity.cluster_id);
    ASSERT(error == 0);
    control->joined = true;
    control->joined_ns = control->now_ns;
    control->creating = false;
    effects_add(effects, EFFECT_JOINED);
    control_tell_self(control);
}

static void create_cluster(struct control *control, struct effects *effects)
{
    control->identity = control->options.identity;
    joined(control, effects);
    control_create_ring(control, 0, effects);
}

static bool has_cluster(const uint8_t *cluster_id)
{
    static const uint8_t none[CONTROL_CLUSTER_ID_LEN];
    return memcmp(cluster_id, none, sizeof none) != 0;
}

static void seek(struct control *control, struct effects *effects)
{
    for (size_t i = 0; i < control->gossip.met_count; i++) {
        const struct swim_met *met = &control->gossip.met[i];
        control_note_seed(control, met);
        if (has_cluster(met->cluster_id)) {
            if (control->now_ns - control->asked_ns < CONTROL_ASK_NS ||
                !control_region_admits(control, &met->record))
                continue;
            struct join_message message = {.type = JOIN_JOIN, .sender = control->options.node_id};
            memcpy(message.address, control->options.gossip, sizeof message.address);
            memcpy(message.region, control->options.region, sizeof message.region);
            control_send_join(&message, met->record.gossip, effects);
            control->asked_ns = control->now_ns;
            control->join_asked = met->record.id;
            control->lower_seen_ns = control->now_ns; /* there is one: do not create another */
        } else if ((met->record.flags & CONTROL_FLAG_BOOTSTRAP) != 0 &&
                   met->record.id < control->options.node_id) {
            control->lower_seen_ns = control->now_ns;
        }
    }
    const bool alone = control->options.seed_count == 0 && !control->options.seeds_pending;
    const bool waited = control->now_ns - control->started_ns >= CONTROL_SEEK_NS &&
                        control->now_ns - control->lower_seen_ns >= CONTROL_SEEK_NS;
    if (control->creating && (alone || waited))
        create_cluster(control, effects);
}

static void admit(struct control *control, const struct join_message *request,
                  struct effects *effects)
{
    const bool ours = control_region_ours(control, request->region, request->sender);
    int len = 0; /* the ring is of no use in another region, and there may be none yet */
    if (ours && control->config->epoch > 0)
        len = ring_config_encode(control->config, control->bytes, CONTROL_CONFIG_LEN_MAX);
    if (len < 0 || (!ours && !control_region_all_know(control)))
        return;
    struct join_message message = {
        .type = JOIN_ADMIT,
        .sender = control->options.node_id,
        .identity = control->identity,
        .config = control->bytes,
        .config_len = (size_t)len,
    };
    memcpy(message.cluster_id, control->identity.cluster_id, sizeof message.cluster_id);
    memcpy(message.address, control->options.gossip, sizeof message.address);
    memcpy(message.region, control->options.region, sizeof message.region);
    control_send_join(&message, request->address, effects);
}

static void receive_join(struct control *control, const void *frame, size_t len,
                         struct effects *effects)
{
    struct join_message message;
    if (control_receive_register(control, frame, len, effects) ||
        control_receive_settings(control, frame, len, effects) ||
        control_receive_figures(control, frame, len, effects) ||
        join_decode(frame, len, &message) != 0)
        return;
    const bool ours = control->joined && memcmp(message.cluster_id, control->identity.cluster_id,
                                                CONTROL_CLUSTER_ID_LEN) == 0;
    switch (message.type) {
    case JOIN_JOIN:
        if (control->joined && control_may_answer(control, message.sender, message.address))
            admit(control, &message, effects);
        break;
    case JOIN_ADMIT:
        if (control->joined || !has_cluster(message.cluster_id) ||
            message.sender != control->join_asked) /* nobody asked for it */
            break;
        control->identity = message.identity;
        joined(control, effects);
        if (control_region_ours(control, message.region, message.sender))
            control_take_config(control, &message, true, effects);
        control_ask_settings(control, message.address, effects);
        break;
    case JOIN_FETCH:
        /* CONTROL-3, CONTROL-5 */
        if (ours && control_region_takes(control, message.region, message.sender) &&
            control_may_answer(control, message.sender, message.address))
            control_tell_config(control, message.address, &message.identity.secret, effects);
        break;
    case JOIN_CONFIG:
        if (ours && control_region_takes(control, message.region, message.sender))
            control_take_config(control, &message, false, effects);
        break;
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int take_memory(struct control *control)
{
    const struct allocator *allocator = control->allocator;
    control->config = alloc_get(allocator, sizeof *control->config);
    control->next = alloc_get(allocator, sizeof *control->next);
    control->tokens = alloc_array(allocator, RING_CONFIG_TOKENS_MAX, sizeof *control->tokens);
    control->bytes = alloc_get(allocator, JOIN_FRAME_MAX);
    control->members = alloc_array(allocator, VIEW_MEMBERS_MAX * 2, sizeof *control->members);
    control->candidates = alloc_array(allocator, SWIM_MEMBERS_MAX, sizeof *control->candidates);
    const struct register_options votes = {
        .node_id = control->options.node_id,
        .boot = control->options.incarnation,
        .seed = control->options.seed ^ REGISTER_SEED,
    };
    const struct settings_options settings = {
        .node_id = control->options.node_id,
        .boot = control->options.incarnation,
        .seed = control->options.seed ^ SETTINGS_SEED,
        .log_max = control->options.settings_log_max,
        .items_max = control->options.settings_items_max,
    };
    int error = register_new(allocator, &votes, &control->ballots);
    if (error == 0)
        error = settings_new(allocator, &settings, &control->settings);
    const bool ok = error == 0 && control->config != NULL && control->next != NULL &&
                    control->tokens != NULL && control->bytes != NULL && control->members != NULL &&
                    control->candidates != NULL;
    return ok ? 0 : TG_ENOMEM;
}

static int start_gossip(struct control *control)
{
    struct swim_options options;
    struct swim_record record;
    static const uint8_t none[CONTROL_CLUSTER_ID_LEN];
    swim_options_default(&options);
    describe(control, &record);
    int error =
        swim_new(&control->swim, control->allocator, &options, &record,
                 control->joined ? control->identity.cluster_id : none, control->options.seed);
    for (uint32_t i = 0; error == 0 && i < control->options.seed_count; i++)
        error = swim_add_seed(control->swim, control->options.seeds[i]);
    return error;
}

/* Adds the stored addresses of earlier members as seeds; what does not fit is found by gossip. */
static void add_stored_peers(struct control *control)
{
    const uint8_t *at = control->options.peers;
    size_t left = at == NULL ? 0 : control->options.peers_len;
    while (left > 0) {
        const uint8_t *end = memchr(at, '\n', left);
        const size_t len = end == NULL ? left : (size_t)(end - at);
        char address[SWIM_ADDRESS_LEN];
        if (len > 0 && len < sizeof address) {
            memcpy(address, at, len);
            address[len] = '\0';
            if (swim_add_seed(control->swim, address) != 0)
                return;
        }
        const size_t step = len < left ? len + 1 : len;
        at += step;
        left -= step;
    }
}

int control_recall(struct control *control, const struct control_stored *stored)
{
    if (stored->config != NULL) {
        if (ring_config_decode(control->config, stored->config, stored->config_len, control->tokens,
                               RING_CONFIG_TOKENS_MAX) != 0)
            return TG_ECORRUPT;
        register_follow(control->ballots, control->config);
    }
    if (stored->ballots == NULL)
        return 0;
    return register_restore(control->ballots, control->now_ns, stored->ballots,
                            stored->ballots_len);
}

int control_new(const struct allocator *allocator, const struct control_options *options,
                int64_t now_ns, struct control **out)
{
    *out = NULL;
    if (options->node_id == 0 || options->weight < RING_WEIGHT_MIN ||
        options->weight > RING_WEIGHT_MAX || !ring_vnodes_valid(options->identity.vnodes) ||
        options->identity.replicas < 1 || options->identity.replicas > VIEW_REPLICATION_MAX)
        return TG_EINVALID;
    struct control *control = alloc_get(allocator, sizeof *control);
    if (control == NULL)
        return TG_ENOMEM;
    control->allocator = allocator;
    control->options = *options;
    random_init(&control->random, options->seed ^ CONTROL_SEED);
    control->identity = options->identity;
    control->joined = options->has_identity;
    control->creating =
        !options->has_identity &&
        (options->bootstrap || (options->seed_count == 0 && !options->seeds_pending));
    control->now_ns = now_ns;
    control->started_ns = now_ns;
    control->joined_ns = now_ns;
    control->view_version = (uint64_t)now_ns; /* above those of an earlier process */
    const struct control_stored stored = {options->config, options->config_len, options->ballots,
                                          options->ballots_len};
    int error = take_memory(control);
    if (error == 0)
        error = control_recall(control, &stored);
    if (error == 0)
        error = start_gossip(control);
    if (error == 0)
        error = cluster_time_new(allocator, options->node_id, &control->time);
    if (error != 0) {
        control_free(&control);
        return error;
    }
    control_tell_ring(control);
    add_stored_peers(control);
    control->view_due = control->joined;
    *out = control;
    return 0;
}

void control_free(struct control **pointer)
{
    struct control *control = *pointer;
    *pointer = NULL;
    if (control == NULL)
        return;
    const struct allocator *allocator = control->allocator;
    swim_free(&control->swim);
    register_free(&control->ballots);
    settings_free(&control->settings);
    view_free(&control->known);
    cluster_time_free(&control->time);
    alloc_put(allocator, control->config, sizeof *control->config);
    alloc_put(allocator, control->next, sizeof *control->next);
    alloc_put(allocator, control->tokens, RING_CONFIG_TOKENS_MAX * sizeof *control->tokens);
    alloc_put(allocator, control->bytes, JOIN_FRAME_MAX);
    alloc_put(allocator, control->candidates, SWIM_MEMBERS_MAX * sizeof *control->candidates);
    alloc_put(allocator, control->members, VIEW_MEMBERS_MAX * 2 * sizeof *control->members);
    alloc_put(allocator, control, sizeof *control);
}

/* That this node has settled is news that a change of the ring waits for. */
static void retell(struct control *control)
{
    if (control->config->epoch == 0 || ring_config_is_stable(control->config) ||
        control->now_ns - control->retold_ns < CONTROL_RETELL_NS)
        return;
    control->retold_ns = control->now_ns;
    swim_retell_self(control->swim);
}

/* After every event: what gossip asks for, then what follows from the new state. */
static void settle(struct control *control, struct effects *effects)
{
    (void)take_gossip(control, effects);
    if (!control->joined)
        seek(control, effects);
    else
        control_look_foreign(control);
    swim_effects_clear(&control->gossip);
    control_move_health(control);
    if (!control->joined || control->leaving)
        return;
    control_clock_judge(control);
    retell(control);
    control_look_twin(control);
    control_move_gather(control, effects);
    control_move_settings(control, effects);
    control_move_region(control, effects);
    control_move_config(control, effects);
}

void control_receive(struct control *control, int64_t now_ns, const void *frame, size_t len,
                     struct effects *effects)
{
    control->now_ns = now_ns;
    control_edits_note(control, true);
    if (join_is(frame, len))
        receive_join(control, frame, len, effects);
    else
        (void)swim_receive(control->swim, now_ns, frame, len, &control->gossip);
    settle(control, effects);
}

void control_tick(struct control *control, int64_t now_ns, struct effects *effects)
{
    control->now_ns = now_ns;
    control_edits_note(control, true);
    swim_tick(control->swim, now_ns, &control->gossip);
    settle(control, effects);
}

int64_t control_next_deadline(const struct control *control)
{
    const bool votes = !control->leaving && !control->disk_full;
    const int64_t gossip_ns = swim_next_deadline(control->swim);
    const int64_t register_ns = register_next_deadline(control->ballots);
    int64_t due_ns = control->now_ns + 100 * CONTROL_MS;
    const int64_t look_ns = control->looked_ns + CONTROL_LOOK_NS;
    if (control->look_due && look_ns > control->now_ns && look_ns < due_ns)
        due_ns = look_ns;
    due_ns = gossip_ns < due_ns ? gossip_ns : due_ns;
    const int64_t votes_ns = register_next_deadline(control->settings->ballots);
    due_ns = votes_ns < due_ns && votes ? votes_ns : due_ns;
    const int64_t edits_ns = control->now_ns + EDITS_LOOK_NS;
    due_ns = edits_ns < due_ns && control_edits_wait(control) ? edits_ns : due_ns;
    return register_ns < due_ns && votes ? register_ns : due_ns;
}

void control_add_seed(struct control *control, const char *address)
{
    struct control_options *options = &control->options;
    const int error = swim_add_seed(control->swim, address);
    ASSERT(error == 0 || error == TG_EFULL || error == TG_EINVALID);
    for (uint32_t i = 0; i < options->seed_count; i++)
        if (strcmp(options->seeds[i], address) == 0)
            return;
    if (error == 0 && options->seed_count < CONTROL_SEEDS_MAX)
        (void)snprintf(options->seeds[options->seed_count++], VIEW_TEXT_LEN, "%s", address);
}

const struct ring_config *control_config(const struct control *control)
{
    return control->config;
}

const struct control_identity *control_identity(const struct control *control)
{
    return control->joined ? &control->identity : NULL;
}

void control_settled(struct control *control, uint64_t epoch)
{
    if (epoch <= control->settled_epoch)
        return;
    control->settled_epoch = epoch;
    control_tell_self(control);
}

void control_rules(struct control *control, uint64_t version, uint64_t digest)
{
    control->rules_digest = digest;
    control->rules_version = version;
    control->rules_error[0] = '\0';
    control_tell_self(control);
}

void control_rules_refused(struct control *control, uint64_t version, const char *why)
{
    (void)snprintf(control->rules_error, sizeof control->rules_error, "version %u: %s",
                   settings_version_shown(version), why);
}

bool control_rules_known(const struct control *control, struct settings_entry *out)
{
    const struct settings_entry *entry =
        settings_table_last(&control->settings->table, SETTINGS_RULES);
    if (entry != NULL)
        *out = *entry;
    return entry != NULL;
}

bool control_settings_known(const struct control *control)
{
    return control->joined && control->settings->version > 0 &&
           !control->settings->copying.active && !control_settings_behind(control);
}

bool control_settings_awaited(const struct control *control, int64_t now_ns)
{
    return (control->settings->version == 0 || control_settings_coming(control)) &&
           now_ns - control->joined_ns < CONTROL_SETTINGS_WAIT_NS;
}

int control_restore_settings(struct control *control, const char *key, const void *bytes,
                             size_t len)
{
    return settings_restore(control->settings, control->now_ns, key, bytes, len);
}

int control_settings_restored(struct control *control)
{
    const int error = settings_restored(control->settings);
    if (error == 0)
        control_tell_self(control);
    if (control->disk_full)
        control_edits_refuse(control);
    return error;
}

bool control_rules_due(struct control *control, struct settings_entry *out)
{
    struct settings *settings = control->settings;
    const bool mixed = settings->mixed && settings->rules_told != 0;
    if (mixed || control_settings_coming(control) || /* what came so far may be of long ago */
        !control_rules_known(control, out) || out->version == settings->rules_told)
        return false;
    settings->rules_told = out->version;
    return true;
}

void control_rules_missed(struct control *control)
{
    control->settings->rules_told = control->rules_version; /* 0: mixed ones, too, as at a start */
}

bool control_kind_due(struct control *control, uint32_t kind)
{
    struct settings *settings = control->settings;
    ASSERT(kind < SETTINGS_KINDS);
    const bool due = settings->kind_since[kind] != settings->kind_told[kind];
    settings->kind_told[kind] = settings->kind_since[kind];
    return due;
}

void control_kind_missed(struct control *control, uint32_t kind)
{
    ASSERT(kind < SETTINGS_KINDS);
    control->settings->kind_told[kind]--; /* whatever it is now, it is another */
}

void control_spread(struct control *control, uint64_t rules)
{
    static const uint32_t kinds[] = {SETTINGS_BLOCK, SETTINGS_API_KEY, SETTINGS_QUOTA,
                                     SETTINGS_CREDENTIAL};
    const struct settings *settings = control->settings;
    struct settings_entry newest;
    control->spreads = true;
    if (control_rules_known(control, &newest) && newest.version != rules)
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (settings->kind_told[kinds[i]] != settings->kind_since[kinds[i]])
            return;
    control->spread_version = settings->version;
}

const struct settings_entry *control_setting_next(const struct control *control, uint32_t kind,
                                                  size_t *cursor)
{
    static const struct settings_text none = {.data = "", .len = 0};
    const struct settings_table *table = &control->settings->table;
    if (*cursor == 0)
        *cursor = settings_table_at(table, kind, &none);
    return *cursor < table->count && table->records[*cursor]->entry.kind == kind
               ? &table->records[(*cursor)++]->entry
               : NULL;
}

bool control_stop(struct control *control)
{
    if (!control->stopping && control->joined) {
        control->stopping = true;
        control_tell_self(control);
    }
    return swim_told(control->swim);
}

void control_suspect(struct control *control, uint64_t node)
{
    swim_probe_now(control->swim, node);
}

bool control_departed(struct control *control, int64_t now_ns)
{
    if (control->departure != CONTROL_LEAVES || control->config->epoch == 0 ||
        ring_config_find(control->config, control->options.node_id) != NULL)
        return false;
    if (control->departed_ns == 0)
        control->departed_ns = now_ns;
    return now_ns - control->departed_ns >= CONTROL_FAREWELL_NS;
}

bool control_leave(struct control *control, int64_t now_ns, struct effects *effects)
{
    control->now_ns = now_ns;
    if (!control->leaving)
        swim_leave(control->swim, now_ns, &control->gossip);
    control->leaving = true;
    settle(control, effects);
    return swim_leave_done(control->swim);
}

void control_check_invariants(const struct control *control)
{
    char sentence[RING_SENTENCE_LEN];
    swim_check_invariants(control->swim);
    register_check_invariants(control->ballots);
    settings_check_invariants(control->settings);
    cluster_time_check_invariants(control->time);
    INVARIANT("CONTROL-1",
              control->config->epoch == 0 || ring_config_validate(control->config, sentence) == 0);
    INVARIANT("CONTROL-6", !control->creating || !control->joined);
    INVARIANT("CONTROL-1",
              control->known == NULL || control->known->epoch <= control->config->epoch);
    INVARIANT("CONTROL-6", control->settled_epoch <= control->config->epoch || !control->joined);
    INVARIANT("CONTROL-7", control->proof.said_count <= CONTROL_PROOF_MAX);
    INVARIANT("CONTROL-7", control->gather.count <= GATHER_MAX);
    INVARIANT("HEALTH-4", control->health.told >> HEALTH_TROUBLES == 0);
    INVARIANT("CONTROL-7", control->regions.count <= VIEW_REGIONS_MAX);
    if (control->known != NULL)
        view_check_invariants(control->known);
}
