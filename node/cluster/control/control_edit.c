/* control_edit.c - what this node wants changed in the settings: edits of operators, and upkeep.
 *
 *   WAITS --judged--> DONE         its change is decided, or nothing would change
 *     |      |------> CONFLICT     what it is based on has changed (SETTINGS-4)
 *     |  proposed, again and again, on top of whatever was decided meanwhile
 *     +--> UNAVAILABLE             no majority of the voters can be reached, or keep it
 *     |                            (SETTINGS-5)
 *     +--> DOUBT                   offered to voters, and nobody knows in time; asked again later,
 *                                  the log says
 *
 * Upkeep is done by the lowest-id living member of the ring, or of several regions by the lowest-id
 * living voter: the first change of a cluster, voters that follow those of the ring or of the
 * regions, blocks that ended; by any, that nodes of one version are alike. An operator's force is
 * the node's that he asked.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "node/cluster/configstore/block_record.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/control/control_state.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/blocks.h"
#include "node/policy/people/people.h"
#include "node/policy/rights/credential.h"

enum { RULES_NAME_LEN = 17 };

#define EDIT_NS        (3000 * CONTROL_MS)  /* until an edit is given up */
#define EDIT_FROZEN_NS (1500 * CONTROL_MS)  /* the same while no majority lives */
#define EDIT_KEPT_NS   (60000 * CONTROL_MS) /* how long its outcome can be asked for */
#define EDIT_TOLD_NS   (500 * CONTROL_MS)   /* the same at least, whoever wants its place */
#define SWEEP_NS       (30000 * CONTROL_MS) /* between looks for blocks that ended */
#define SWEPT_AFTER_NS (60000 * CONTROL_MS) /* a block is kept so long after its end */

/* ---- voters ---------------------------------------------------------------------------------- */

bool control_settings_frozen(const struct control *control)
{
    const struct register_voters *voters = &control->settings->voters;
    uint32_t living = 0;
    for (uint32_t i = 0; i < voters->count; i++)
        living +=
            voters->ids[i] == control->options.node_id || control_alive(control, voters->ids[i]);
    return living < voters->count / 2 + 1;
}

void control_say_settings_frozen(const struct control *control, char *out, size_t capacity)
{
    const struct register_voters *voters = &control->settings->voters;
    const char *joint = "";
    int len = snprintf(out, capacity, "the configuration cannot be changed now: of its %u voters ",
                       voters->count);
    for (uint32_t i = 0; i < voters->count && len >= 0 && (size_t)len < capacity; i++) {
        const uint64_t id = voters->ids[i];
        if (id == control->options.node_id || control_alive(control, id))
            continue;
        const struct swim_member *member = swim_find(control->swim, id);
        if (member != NULL)
            len += snprintf(out + len, capacity - (size_t)len, "%s%s", joint, member->record.name);
        else /* `remove` takes it as well */
            len += snprintf(out + len, capacity - (size_t)len, "%s%016" PRIx64, joint, id);
        joint = ", ";
    }
    if (len >= 0 && (size_t)len < capacity)
        (void)snprintf(out + len, capacity - (size_t)len, " cannot be reached");
}

static bool same_voters(const struct register_voters *voters, const struct register_voters *others)
{
    if (voters->count != others->count)
        return false;
    for (uint32_t i = 0; i < voters->count; i++) {
        bool found = false;
        for (uint32_t j = 0; j < others->count; j++)
            found = found || voters->ids[i] == others->ids[j];
        if (!found)
            return false;
    }
    return true;
}

/* Who does upkeep: in one region, who proposes for its ring; of several, the voter of the lowest id
 * that lives and has room. */
static bool leads(const struct control *control)
{
    const struct register_voters *voters = &control->settings->voters;
    uint64_t lowest = UINT64_MAX;
    if (!control_regions(control))
        return propose_by_itself(control);
    for (uint32_t i = 0; i < voters->count; i++) {
        const uint64_t id = voters->ids[i];
        const bool able =
            id == control->options.node_id ||
            (control_alive(control, id) && (control_flags(control, id) & CONTROL_FLAG_FULL) == 0);
        lowest = able && id < lowest ? id : lowest;
    }
    return lowest == control->options.node_id;
}

static void ring_voters(const struct ring_config *config, struct register_voters *voters)
{
    voters->count = config->voters_count;
    memcpy(voters->ids, config->voters, config->voters_count * sizeof *config->voters);
}

/* Whether the records are mixed, and somebody has a history that is to be copied instead
 * (SETTINGS-6): a change on top of what is here would have no vote but the own, and stand in the
 * way of theirs. */
static bool has_to_copy(const struct control *control)
{
    const struct settings *settings = control->settings;
    size_t cursor = 0;
    const struct swim_member *member;
    while (settings->mixed && (member = swim_next(control->swim, &cursor)) != NULL)
        if (member->record.id != control->options.node_id &&
            member->record.settings_version >= settings->version &&
            (member->record.flags & CONTROL_FLAG_MIXED) == 0 &&
            control_alive(control, member->record.id))
            return true;
    return false;
}

/* ---- making changes -------------------------------------------------------------------------- */

static struct settings_text text_of(const char *text)
{
    return (struct settings_text){.data = text, .len = strlen(text)};
}

/* A change without operations that follows the head. */
static struct settings_change next_change(const struct control *control, const char *note)
{
    const struct settings *settings = control->settings;
    struct settings_change change;
    memset(&change, 0, sizeof change);
    change.version = settings->version + 1;
    change.voters = settings->voters;
    change.before = settings->digest;
    change.time_ms = control->now_ns / CONTROL_MS;
    change.author = text_of("tidegate");
    change.note = text_of(note);
    return change;
}

/* False while the register is busy, or backs off. */
static bool propose(struct control *control, const struct settings_change *change,
                    struct effects *effects)
{
    struct settings *settings = control->settings;
    const int len = settings_change_encode(change, settings->value, SETTINGS_CHANGE_LEN_MAX);
    ASSERT(len > 0); /* by the bounds of settings_change.h */
    if (!register_propose_value(settings->ballots, control->now_ns, settings->value, (size_t)len,
                                &settings->wants))
        return false;
    settings->attempt = change->id;
    control_take_votes(control, NULL, effects);
    return true;
}

/* Makes the change without asking anybody. */
static void decree(struct control *control, const struct settings_change *change,
                   struct effects *effects)
{
    struct settings *settings = control->settings;
    const int len = settings_change_encode(change, settings->value, SETTINGS_CHANGE_LEN_MAX);
    ASSERT(len > 0);
    if (settings_apply(settings, settings->value, (size_t)len, false, effects) == 0)
        control_settings_changed(control, effects);
}

/* ---- edits ----------------------------------------------------------------------------------- */

static struct settings_text part(const struct settings_edit *edit, size_t offset, size_t len)
{
    ASSERT(offset + len <= edit->bytes_len);
    return (struct settings_text){.data = (const char *)edit->bytes + offset, .len = len};
}

static struct settings_text name_of(const struct settings_edit *edit)
{
    return part(edit, 0, edit->name_len);
}

static struct settings_text value_of(const struct settings_edit *edit)
{
    return part(edit, edit->name_len, edit->value_len);
}

const struct settings_edit *control_edit_find(const struct control *control, struct hash128 id)
{
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX; i++) {
        const struct settings_edit *edit = &control->settings->edits[i];
        if (edit->state != SETTINGS_EDIT_FREE && hash128_equal(edit->id, id))
            return edit;
    }
    return NULL;
}

bool control_edit_known(const struct control *control, struct hash128 id)
{
    const struct settings_edit *edit = control_edit_find(control, id);
    return edit != NULL && edit->state != SETTINGS_EDIT_UNAVAILABLE &&
           edit->state != SETTINGS_EDIT_CONFLICT;
}

static void release(struct control *control, struct settings_edit *edit)
{
    alloc_put(control->allocator, edit->bytes, edit->bytes_len);
    memset(edit, 0, sizeof *edit);
}

/* Whether the place of the edit may be given away: the log says what came of it, or whoever waits
 * for it has been told. */
static bool may_forget(const struct settings_edit *edit, int64_t now_ns)
{
    return (edit->state == SETTINGS_EDIT_DONE && edit->changed) ||
           (edit->state != SETTINGS_EDIT_WAITS && now_ns - edit->ended_ns >= EDIT_TOLD_NS);
}

/* The place of what the edit was before, a free one, or that of the edit that ended first; NULL if
 * there is none (SETTINGS-8). `len`: its bytes. */
static struct settings_edit *find_place(struct control *control, int64_t now_ns, struct hash128 id,
                                        size_t len)
{
    struct settings_edit *oldest = NULL;
    struct settings_edit *unused = NULL;
    struct settings_edit *again = NULL;
    size_t bytes = len;
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX; i++) {
        struct settings_edit *edit = &control->settings->edits[i];
        bytes += edit->bytes_len;
        if (edit->state == SETTINGS_EDIT_FREE)
            unused = unused != NULL ? unused : edit;
        else if (hash128_equal(edit->id, id))
            again = edit;
        else if (may_forget(edit, now_ns) && (oldest == NULL || edit->ended_ns < oldest->ended_ns))
            oldest = edit;
    }
    if (bytes > SETTINGS_EDITS_BYTES_MAX)
        return NULL;
    if (again == NULL && unused != NULL)
        return unused;
    struct settings_edit *place = again != NULL ? again : oldest;
    if (place != NULL)
        release(control, place);
    return place;
}

static void append(struct settings_edit *edit, size_t *at, const struct settings_text *text)
{
    ASSERT(*at + text->len <= edit->bytes_len); /* all texts were counted */
    if (text->len > 0)
        memcpy(edit->bytes + *at, text->data, text->len);
    *at += text->len;
}

int control_edit(struct control *control, int64_t now_ns,
                 const struct control_edit_request *request)
{
    size_t at = 0;
    if (request->value.len > SETTINGS_VALUE_LEN_MAX)
        return TG_ETOOBIG;
    if (request->name.len == 0 || !settings_text_ok(&request->name, SETTINGS_NAME_LEN_MAX) ||
        !settings_text_ok(&request->author, SETTINGS_AUTHOR_LEN_MAX) ||
        !settings_text_ok(&request->note, SETTINGS_NOTE_LEN_MAX))
        return TG_EINVALID;
    if (control_edit_known(control, request->id))
        return 0;
    const size_t len = request->name.len + request->value.len + request->author.len +
                       request->note.len + request->beside.len;
    struct settings_edit *edit = find_place(control, now_ns, request->id, len);
    if (edit == NULL)
        return TG_EBUSY; /* SETTINGS-8 */
    uint8_t *bytes = alloc_get(control->allocator, len);
    if (bytes == NULL)
        return TG_ENOMEM;
    *edit = (struct settings_edit){
        .state = SETTINGS_EDIT_WAITS,
        .id = request->id,
        .kind = request->kind,
        .removes = request->removes,
        .keeps_last = request->keeps_last,
        .based_on = request->based_on,
        .started_ns = now_ns,
        .name_len = request->name.len,
        .value_len = request->value.len,
        .author_len = request->author.len,
        .note_len = request->note.len,
        .beside_len = request->beside.len,
        .beside_of = request->beside_of,
        .bytes = bytes,
        .bytes_len = len,
    };
    append(edit, &at, &request->name);
    append(edit, &at, &request->value);
    append(edit, &at, &request->author);
    append(edit, &at, &request->note);
    append(edit, &at, &request->beside);
    return 0;
}

bool control_edit_may_come(const struct control *control, const struct settings_edit *edit)
{
    const uint64_t version = control->settings->version;
    return edit->offered > version || edit->offering > version;
}

void control_edit_end(const struct control *control, struct settings_edit *edit,
                      enum settings_edit_state state, uint64_t version)
{
    if (hash128_equal(control->settings->attempt, edit->id)) /* SETTINGS-5 */
        register_withdraw(control->settings->ballots);
    edit->state = state;
    edit->version = version;
    edit->ended_ns = control->now_ns;
    alloc_put(control->allocator, edit->bytes, edit->bytes_len); /* only the outcome is kept */
    edit->bytes = NULL;
    edit->bytes_len = 0;
}

static void say_conflict(struct settings_edit *edit, const struct settings_entry *current)
{
    if (current == NULL)
        (void)snprintf(edit->sentence, sizeof edit->sentence,
                       "what this change is based on has been removed meanwhile; look at it as it "
                       "is, and change that");
    else
        (void)snprintf(edit->sentence, sizeof edit->sentence,
                       "changed meanwhile, by %.*s: it is of version %u now, and this change is "
                       "based on version %u; look at it as it is, and change that",
                       (int)current->author.len, current->author.data,
                       settings_version_shown(current->version),
                       settings_version_shown(edit->based_on));
}

static size_t count_kind(const struct settings *settings, uint32_t kind)
{
    static const struct settings_text none = {.data = "", .len = 0};
    return settings_table_at(&settings->table, kind + 1, &none) -
           settings_table_at(&settings->table, kind, &none);
}

/* Whether there is no room for the record, `fresh` if it is none yet; then a sentence on it. What
 * is found here holds when the change is decided, for that is of the version after this one. */
static bool say_full(const struct settings *settings, struct settings_edit *edit, bool fresh,
                     size_t value_len)
{
    static const struct {
        uint32_t kind;
        size_t max;
        const char *what;
    } bounds[] = {{SETTINGS_BLOCK, BLOCKS_MAX, "blocks"},
                  {SETTINGS_API_KEY, API_KEYS_MAX, "API keys"},
                  {SETTINGS_CREDENTIAL, CREDENTIALS_MAX, "credentials"},
                  {SETTINGS_QUOTA, PEOPLE_MAX, "users with quotas"}};
    const struct settings_table *table = &settings->table;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (!fresh || edit->kind != bounds[i].kind ||
            count_kind(settings, edit->kind) < bounds[i].max)
            continue;
        (void)snprintf(edit->sentence, sizeof edit->sentence,
                       "there are as many %s as there may be: %zu", bounds[i].what, bounds[i].max);
        return true;
    }
    if ((!fresh || table->count < SETTINGS_RECORDS_MAX) &&
        table->bytes + value_len <= SETTINGS_BYTES_MAX)
        return false;
    (void)snprintf(edit->sentence, sizeof edit->sentence,
                   "the configuration store is full: %zu records of %zu bytes", table->count,
                   table->bytes);
    return true;
}

/* Whether the edit would remove the last record of a kind that is to have one; then a sentence on
 * it. */
static bool say_last(const struct settings *settings, struct settings_edit *edit)
{
    const bool last = edit->keeps_last && count_kind(settings, edit->kind) == 1;
    if (last)
        (void)snprintf(edit->sentence, sizeof edit->sentence,
                       "this is the last one: it is removed only by force");
    return last;
}

/* Says that there was nothing to remove: whoever wanted that has perhaps named something else. */
static void say_nothing(struct settings_edit *edit)
{
    static const char *const sentences[SETTINGS_KINDS] = {
        [SETTINGS_BLOCK] = "nothing was blocked by that name: `tidegate blocks` lists what is",
        [SETTINGS_API_KEY] = "there was no such key: `tidegate apikey list` lists those there are",
        [SETTINGS_QUOTA] = "nothing was set for that user: `tidegate quota list` lists for whom",
    };
    if (edit->kind < SETTINGS_KINDS && sentences[edit->kind] != NULL)
        (void)snprintf(edit->sentence, sizeof edit->sentence, "%s", sentences[edit->kind]);
}

/* SETTINGS-4. True if the edit is still to be proposed. */
static bool judge(struct control *control, struct settings_edit *edit)
{
    const struct settings *settings = control->settings;
    const struct settings_text name = name_of(edit);
    const struct settings_text value = value_of(edit);
    const uint64_t made = settings_log_find(&settings->log, edit->id);
    const struct settings_entry *current = settings_current(settings, edit->kind, &name);
    const uint64_t have = current != NULL ? current->version : 0;
    const bool same = edit->removes
                          ? current == NULL
                          : current != NULL && settings_text_equal(&current->value, &value);
    edit->changed = made != 0;
    if (made != 0 || same) {
        if (made == 0 && edit->removes)
            say_nothing(edit);
        control_edit_end(control, edit, SETTINGS_EDIT_DONE, made != 0 ? made : have);
        return false;
    }
    if (edit->offered != 0 && edit->offered <= settings->log.floor_version) { /* SETTINGS-6 */
        control_edit_end(control, edit, SETTINGS_EDIT_DOUBT, 0);
        (void)snprintf(edit->sentence, sizeof edit->sentence,
                       "this node has no history of the time when voters had the change: look "
                       "whether it was made before you repeat it");
        return false;
    }
    if (control_edit_may_come(control, edit))
        return true; /* whatever it meets: it is for the voters to say */
    if (edit->based_on != SETTINGS_ANY && edit->based_on != have) {
        control_edit_end(control, edit, SETTINGS_EDIT_CONFLICT, have);
        say_conflict(edit, current);
        return false;
    }
    if (edit->removes ? say_last(settings, edit)
                      : say_full(settings, edit, current == NULL, value.len)) {
        control_edit_end(control, edit,
                         edit->removes ? SETTINGS_EDIT_CONFLICT : SETTINGS_EDIT_UNAVAILABLE, 0);
        return false;
    }
    return true;
}

/* Removes versions of the rules that are too many, the oldest first, as `added` bytes come. */
static void forget_rules(const struct settings *settings, size_t added,
                         struct settings_change *change)
{
    static const struct settings_text none = {.data = "", .len = 0};
    const struct settings_table *table = &settings->table;
    const size_t first = settings_table_at(table, SETTINGS_RULES, &none);
    const size_t end = settings_table_at(table, SETTINGS_RULES + 1, &none);
    size_t bytes = added;
    for (size_t i = first; i < end; i++)
        bytes += table->records[i]->bytes;
    for (size_t i = first; i < end && change->op_count < SETTINGS_OPS_MAX; i++) {
        if (end - i + 1 <= SETTINGS_RULES_KEPT && bytes <= SETTINGS_RULES_KEPT_BYTES)
            return;
        bytes -= table->records[i]->bytes;
        change->ops[change->op_count++] = (struct settings_op){
            .kind = SETTINGS_RULES, .name = table->records[i]->entry.name, .removes = true};
    }
}

/* What is kept beside the rules changes with them; unless other rules came in between: then every
 * node matches the new ones with what was kept beside the last (control_ordinals.c). */
static void put_beside(const struct settings *settings, const struct settings_edit *edit,
                       struct settings_change *change)
{
    const struct settings_text name = text_of("rules");
    const struct settings_entry *newest = settings_table_last(&settings->table, SETTINGS_RULES);
    if (edit->beside_of != (newest != NULL ? newest->version : 0))
        return;
    const size_t at = edit->name_len + edit->value_len + edit->author_len + edit->note_len;
    if (edit->beside_len == 0 &&
        settings_table_find(&settings->table, SETTINGS_ORDINALS, &name) == NULL)
        return;
    change->ops[change->op_count++] =
        (struct settings_op){.kind = SETTINGS_ORDINALS,
                             .name = name,
                             .removes = edit->beside_len == 0,
                             .value = part(edit, at, edit->beside_len)};
}

static bool propose_edit(struct control *control, struct settings_edit *edit,
                         struct effects *effects)
{
    char rules_name[RULES_NAME_LEN];
    struct settings_change change = next_change(control, "");
    struct settings_op *op = &change.ops[change.op_count++];
    change.id = edit->id;
    change.author = part(edit, edit->name_len + edit->value_len, edit->author_len);
    change.note = part(edit, edit->name_len + edit->value_len + edit->author_len, edit->note_len);
    *op = (struct settings_op){
        .kind = edit->kind,
        .name = name_of(edit),
        .removes = edit->removes,
        .value = value_of(edit),
    };
    if (edit->kind == SETTINGS_RULES) {
        (void)snprintf(rules_name, sizeof rules_name, "%016" PRIx64, change.version);
        op->name = text_of(rules_name);
        put_beside(control->settings, edit, &change);
        forget_rules(control->settings, edit->value_len, &change);
    }
    return propose(control, &change, effects);
}

/* Gives up what takes too long (SETTINGS-5). */
static void look_at_time(struct control *control, struct settings_edit *edit)
{
    const int64_t age_ns = control->now_ns - edit->started_ns;
    const struct register_voters *voters = &control->settings->voters;
    const bool frozen = control->settings->version > 0 && control_settings_frozen(control);
    const bool full = control_voters_full(control, voters->ids, voters->count);
    const bool may_come = control_edit_may_come(control, edit);
    if (age_ns < ((frozen || full) && !may_come ? EDIT_FROZEN_NS : EDIT_NS))
        return;
    control_edit_end(control, edit, may_come ? SETTINGS_EDIT_DOUBT : SETTINGS_EDIT_UNAVAILABLE, 0);
    if (full)
        control_say_voters_full(control, voters->ids, voters->count, edit->sentence,
                                sizeof edit->sentence / 2);
    else if (frozen)
        control_say_settings_frozen(control, edit->sentence, sizeof edit->sentence / 2);
    else
        (void)snprintf(edit->sentence, sizeof edit->sentence, "%s",
                       control->settings->version > 0 && !has_to_copy(control)
                           ? "the voters of the configuration do not agree in time"
                           : "this node does not know the cluster's configuration yet");
    if (!may_come)
        return;
    const size_t len = strlen(edit->sentence);
    (void)snprintf(edit->sentence + len, sizeof edit->sentence - len,
                   "; whether the change comes about is not known yet: look at the history before "
                   "you repeat it");
}

/* True if something was proposed. */
static bool move_edits(struct control *control, struct effects *effects)
{
    struct settings *settings = control->settings;
    const bool known = settings->version > 0 && !has_to_copy(control);
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX; i++) {
        const uint32_t at = (settings->proposing + i) % SETTINGS_EDITS_MAX;
        struct settings_edit *edit = &settings->edits[at];
        if (edit->state == SETTINGS_EDIT_FREE)
            continue;
        if (edit->state != SETTINGS_EDIT_WAITS) {
            if (control->now_ns - edit->ended_ns >= EDIT_KEPT_NS)
                release(control, edit);
            continue;
        }
        if (known && !judge(control, edit))
            continue;
        look_at_time(control, edit);
        if (edit->state == SETTINGS_EDIT_WAITS && known && !register_busy(settings->ballots) &&
            !control_settings_frozen(control) && propose_edit(control, edit, effects)) {
            settings->proposing = (at + 1) % SETTINGS_EDITS_MAX;
            if (edit->state == SETTINGS_EDIT_WAITS)
                (void)judge(control, edit); /* where this node alone decides, it is done */
            return true;
        }
    }
    return false;
}

void control_edits_offer(struct control *control)
{
    struct settings *settings = control->settings;
    const bool offers = register_offers(settings->ballots) || settings->wants.decided;
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX && offers; i++)
        if (hash128_equal(settings->edits[i].id, settings->attempt))
            settings->edits[i].offering = settings->version + 1;
}

void control_edits_note(struct control *control, bool said)
{
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX; i++) {
        struct settings_edit *edit = &control->settings->edits[i];
        if (edit->offering != 0 && said)
            edit->offered = edit->offering;
        edit->offering = 0;
    }
}

bool control_edits_wait(const struct control *control)
{
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX; i++)
        if (control->settings->edits[i].state == SETTINGS_EDIT_WAITS)
            return true;
    return false;
}

/* ---- upkeep ---------------------------------------------------------------------------------- */

static bool nobody_has_settings(const struct control *control)
{
    const struct ring_config *config = control->config;
    for (uint32_t i = 0; i < config->to_count; i++) {
        const uint64_t id = config->to[i].id;
        const struct swim_member *member = swim_find(control->swim, id);
        if (id != control->options.node_id &&
            (member == NULL || member->state != SWIM_ALIVE || member->record.settings_version != 0))
            return false;
    }
    return true;
}

/* The first change of a cluster; whoever makes it of the same ring makes the same. */
static void found(struct control *control, struct effects *effects)
{
    if (!ring_config_is_stable(control->config) || !nobody_has_settings(control))
        return;
    struct settings_change change = next_change(control, "the first version");
    change.version = 1;
    change.time_ms = 0;
    change.id =
        settings_change_digest(control->identity.cluster_id, sizeof control->identity.cluster_id);
    ring_voters(control->config, &change.voters);
    decree(control, &change, effects);
}

/* The voters that the settings shall have. False if that is not known, or it is not the time: a
 * change that they cannot accept would be in the way of all others. */
static bool voters_wanted(const struct control *control, struct register_voters *voters)
{
    if (control_regions(control)) {
        voters->count = voters_choose_regions(control, voters->ids);
        return voters->count > 0;
    }
    ring_voters(control->config, voters);
    return !voters_frozen(control);
}

/* SETTINGS-1. */
static bool follow_ring(struct control *control, struct effects *effects)
{
    struct register_voters wanted;
    if (!voters_wanted(control, &wanted) || same_voters(&control->settings->voters, &wanted))
        return false;
    struct settings_change change = next_change(
        control, control_regions(control) ? "voters of all regions" : "voters of the ring");
    change.voters = wanted;
    return propose(control, &change, effects);
}

static bool block_ended(const struct settings_entry *entry, int64_t now_ns)
{
    struct block block;
    return control_block_of(entry, &block) && block.until_ms != 0 &&
           block.until_ms < (uint64_t)((now_ns - SWEPT_AFTER_NS) / CONTROL_MS);
}

/* Removes blocks whose end has passed; they have not blocked since. */
static bool sweep(struct control *control, struct effects *effects)
{
    static const struct settings_text none = {.data = "", .len = 0};
    struct settings *settings = control->settings;
    const struct settings_table *table = &settings->table;
    if (control->now_ns - settings->swept_ns < SWEEP_NS || !control_clock_sure(control))
        return false;
    struct settings_change change = next_change(control, "blocks that ended");
    const size_t end = settings_table_at(table, SETTINGS_BLOCK + 1, &none);
    for (size_t i = settings_table_at(table, SETTINGS_BLOCK, &none);
         i < end && change.op_count < SETTINGS_OPS_MAX; i++) {
        const struct settings_entry *entry = &table->records[i]->entry;
        if (block_ended(entry, control->now_ns))
            change.ops[change.op_count++] =
                (struct settings_op){.kind = SETTINGS_BLOCK, .name = entry->name, .removes = true};
    }
    if (change.op_count < SETTINGS_OPS_MAX) /* else there may be more */
        settings->swept_ns = control->now_ns;
    return change.op_count > 0 && propose(control, &change, effects);
}

/* SETTINGS-3. */
static bool rejoin(struct control *control, struct effects *effects)
{
    const struct settings *settings = control->settings;
    size_t cursor = 0;
    bool apart = false;
    const struct swim_member *member;
    while (!apart && (member = swim_next(control->swim, &cursor)) != NULL)
        apart = member->record.id != control->options.node_id &&
                member->record.settings_version == settings->version &&
                member->record.settings_digest != settings->digest.lo &&
                control_alive(control, member->record.id);
    if (!apart)
        return false;
    const struct settings_change change = next_change(control, "one history again");
    return propose(control, &change, effects);
}

/* The version that begins the next lineage (SETTINGS-7). */
static uint64_t next_lineage(const struct control *control)
{
    const uint64_t version = control->settings->version;
    const uint64_t maker = hash_mix64(control->options.node_id) & 0xff;
    const uint64_t generation = (version >> 40) + 1;
    return generation << 40 | maker << 32 | ((version + 1) & UINT32_MAX);
}

bool control_settings_behind(const struct control *control)
{
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if (control_alive(control, member->record.id) &&
            member->record.settings_version > control->settings->version)
            return true;
    return false;
}

/* Whether the voters of the ring, that are to go on alone, vote on the settings as well: in one
 * region they are the same but while they change. */
static bool ring_is_forced(const struct control *control)
{
    return !control_regions(control) && voters_frozen(control) &&
           control->now_ns - control->settings->forced_ns >= CONTROL_REQUEST_NS;
}

/* SETTINGS-7. True if it was done. */
static bool force(struct control *control, struct effects *effects)
{
    const uint64_t leaving = control->request.remove;
    if (!control->request.force || control->now_ns > control->request.until_ns ||
        (!control_settings_frozen(control) && !ring_is_forced(control)) ||
        control_settings_behind(control))
        return false;
    struct settings_change change = next_change(control, "forced: a new lineage");
    uint64_t *ids = change.voters.ids;
    change.version = next_lineage(control);
    change.voters.count = control_regions(control)
                              ? voters_choose_regions_living(control, leaving, ids)
                              : voters_choose_living(control, leaving, ids);
    if (change.voters.count > 0)
        decree(control, &change, effects);
    control->settings->forced_ns = control->now_ns;
    return change.voters.count > 0;
}

void control_edit_move(struct control *control, struct effects *effects)
{
    struct settings *settings = control->settings;
    if (settings->version == 0 && propose_by_itself(control))
        found(control, effects);
    if (settings->version > 0 && force(control, effects))
        return;
    if (move_edits(control, effects) || settings->version == 0 ||
        control->now_ns - settings->led_ns < CONTROL_PROPOSE_NS ||
        register_busy(settings->ballots) || control_settings_frozen(control))
        return;
    settings->led_ns = control->now_ns;
    if (has_to_copy(control) || rejoin(control, effects) || !leads(control))
        return;
    if (!follow_ring(control, effects))
        (void)sweep(control, effects);
}
