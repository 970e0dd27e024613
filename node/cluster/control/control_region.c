/* control_region.c - regions: a ring each, and one membership and one configuration store of all.
 *
 *     region eu                                     region us
 *   ring, register, leaders   <-- nothing -->   ring, register, leaders
 *            |                                            |
 *        settings  <--------- one history, one -------> settings
 *            |                   register                 |
 *        members   <------------- gossip ------------>  members
 *
 * A record of the settings, of kind SETTINGS_REGION, names who founds the ring of a region:
 *
 *   first node of us    JOIN at any member --> settings --> no record of us: proposes the record
 *                       with itself as the founder --> decided: creates the ring
 *   the others of us    the same, but there is a record: wait for a member of us that has a ring
 *   who proposes in us  when it has a ring, the record is to name nobody any more
 *
 * FOUNDING-1  A ring is of one region: only its members are taken in, told its configuration, asked
 *             for it and heard in its register (CONTROL-5).
 * FOUNDING-2  A region's ring is created by the node that the settings name, while no living member
 *             of the region has one. Between the record and the ring it may restart. If it dies for
 *             good before that, another takes its place: after as long as dead members stay in a
 *             ring, or when an operator says so. The first epoch is above those of rings by an
 *             earlier record, so if one had come about after all, its members are taken into the
 *             new one.
 * FOUNDING-3  The ring of the cluster's first region is older than records. Its record, which names
 *             nobody, is made by whoever proposes there, as soon as a member of another region is
 *             known; no other region has one before. So a new node never takes a region for new
 *             whose members are out of reach. A cluster of one region has no record.
 * FOUNDING-4  Gossip says of a region what that said last. Where that is long ago, its members may
 *             live, but cannot be reached: they are taken for dead then, as those that are.
 * FOUNDING-5  Older releases take any member into their one ring. So nobody is let in from another
 *             region, and no region founded, before all that live know of regions.
 * FOUNDING-6  A region is removed by removing its record, when none of its members that have a ring
 *             is in reach. Whoever knows that, and hears nothing of it, takes its members for
 *             having left. If it comes back after all, it makes itself a record again (FOUNDING-3)
 *             and goes on.
 * FOUNDING-7  A key whose home a hash says is at home in a region whose record names nobody: that
 *             one has a ring. So all who have the same settings agree where a key is at home
 *             (REMOTE-5).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/control/control_state.h"
#include "node/policy/model/policy.h"

enum { NAMES_MAX = 3, GENERATION_MAX = (1 << 24) - 1, GENERATIONS_MISSED = 1024 };
enum { VALUE_VERSION = 1, VALUE_LEN_MAX = 16, VALUE_TOKENS = 8 };

#define REGION_LOOK_NS (250 * CONTROL_MS) /* between looks at what is to be founded */
/* A region that nobody here has heard of for so long is out of reach: twice as long as its contacts
 * may be apart, and as it takes to take a member for dead. */
#define REGION_LOST_NS (10000 * CONTROL_MS)

/* ---- whose is it ----------------------------------------------------------------------------- */

bool control_remote(const struct control *control, const struct swim_member *member)
{
    return strcmp(member->record.region, control->options.region) != 0;
}

bool control_region_ours(const struct control *control, const char *region, uint64_t sender)
{
    const struct swim_member *member = swim_find(control->swim, sender);
    if (region[0] != '\0')
        return strcmp(region, control->options.region) == 0;
    return member == NULL || !control_remote(control, member);
}

bool control_region_takes(struct control *control, const char *region, uint64_t sender)
{
    const bool ours = control_region_ours(control, region, sender);
    control->strays += !ours;
    return ours;
}

bool control_region_admits(const struct control *control, const struct swim_record *record)
{
    return (record->flags & CONTROL_FLAG_REGIONS) != 0 ||
           strcmp(record->region, control->options.region) == 0;
}

/* Somebody who lives and knows of no regions; NULL: all do. */
static const struct swim_member *one_of_older_release(const struct control *control)
{
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if ((member->record.flags & CONTROL_FLAG_REGIONS) == 0 &&
            control_alive(control, member->record.id))
            return member;
    return NULL;
}

bool control_region_all_know(const struct control *control)
{
    return one_of_older_release(control) == NULL;
}

/* ---- how it is doing ------------------------------------------------------------------------- */

const struct swim_region *control_region_find(const struct control *control, const char *name)
{
    size_t cursor = 0;
    const struct swim_region *region;
    while ((region = swim_region_next(control->swim, &cursor)) != NULL)
        if (strcmp(region->name, name) == 0)
            return region;
    return NULL;
}

int64_t control_region_lost_ns(const struct control *control, const struct swim_member *member)
{
    const struct swim_region *region = control_region_find(control, member->record.region);
    if (!control_remote(control, member) || region == NULL)
        return INT64_MAX;
    const bool heard = region->heard_ns > control->started_ns; /* since this process lives */
    return (heard ? region->heard_ns : control->started_ns) + REGION_LOST_NS;
}

bool control_region_reached(int64_t now_ns, const struct swim_region *region)
{
    return now_ns < region->heard_ns + REGION_LOST_NS;
}

/* ---- records --------------------------------------------------------------------------------- */

/* The value [version, id of the founder], 0: nobody. */
static size_t encode_founder(uint64_t founder, uint8_t out[VALUE_LEN_MAX])
{
    struct mp_writer writer;
    mp_writer_init(&writer, out, VALUE_LEN_MAX);
    mp_put_array(&writer, 2);
    mp_put_uint(&writer, VALUE_VERSION);
    mp_put_uint(&writer, founder);
    ASSERT(!writer.failed);
    return writer.len;
}

/* 0 as well if it cannot be read: then nobody may. */
static uint64_t founder_of(const struct settings_entry *entry)
{
    struct mp_token tokens[VALUE_TOKENS];
    struct mp_cursor cursor;
    const int count = mp_parse(entry->value.data, entry->value.len, tokens, VALUE_TOKENS);
    if (count < 0)
        return 0;
    mp_cursor_init(&cursor, tokens, (size_t)count);
    const bool ours = mp_get_array(&cursor) >= 2 && mp_get_uint(&cursor) == VALUE_VERSION;
    const uint64_t founder = mp_get_uint(&cursor);
    return ours && !cursor.failed ? founder : 0;
}

const struct settings_entry *control_region_record(const struct control *control, const char *name)
{
    const struct settings_text text = {.data = name, .len = strlen(name)};
    return settings_current(control->settings, SETTINGS_REGION, &text);
}

static const struct settings_entry *own_record(const struct control *control)
{
    return control_region_record(control, control->options.region);
}

static size_t count_records(const struct control *control)
{
    static const struct settings_text none = {.data = "", .len = 0};
    const struct settings_table *table = &control->settings->table;
    return settings_table_at(table, SETTINGS_REGION + 1, &none) -
           settings_table_at(table, SETTINGS_REGION, &none);
}

bool control_regions(const struct control *control)
{
    return count_records(control) > 1;
}

static bool has_settings(const struct control *control)
{
    const struct settings *settings = control->settings;
    return settings->version > 0 && !settings->copying.active && !settings->mixed;
}

/* Whether the settings are those of the cluster as it is now, as far as this node can know. */
static bool knows_settings(const struct control *control)
{
    return has_settings(control) && !control_settings_behind(control);
}

/* Has a record changed, unless the last such edit, *id, is under way. */
static void change_record(struct control *control, struct hash128 *id, const char *name,
                          const struct settings_text *value, const char *note)
{
    static const char author[] = "tidegate";
    const struct settings_entry *record = control_region_record(control, name);
    const struct settings_edit *edit = control_edit_find(control, *id);
    if (edit != NULL && edit->state == SETTINGS_EDIT_WAITS)
        return;
    *id = (struct hash128){random_next(&control->random), random_next(&control->random)};
    const struct control_edit_request request = {
        .id = *id,
        .kind = SETTINGS_REGION,
        .removes = value->len == 0,
        .based_on = record != NULL ? record->version : 0,
        .name = {name, strlen(name)},
        .value = *value,
        .author = {author, strlen(author)},
        .note = {note, strlen(note)},
    };
    const int error = control_edit(control, control->now_ns, &request);
    ASSERT(error != TG_EINVALID); /* else it is tried again */
}

static void propose_record(struct control *control, uint64_t founder)
{
    uint8_t bytes[VALUE_LEN_MAX];
    const struct settings_text value = {(const char *)bytes, encode_founder(founder, bytes)};
    change_record(control, &control->region_edit, control->options.region, &value,
                  founder != 0 ? "a region" : "a region's ring");
}

/* FOUNDING-7. What is not known now stays as it was. */
static void list_regions(struct control *control)
{
    const uint64_t since = control->settings->kind_since[SETTINGS_REGION];
    struct view_regions *regions = &control->regions;
    const struct settings_entry *record;
    size_t cursor = 0;
    if ((regions->count > 0 && since == control->regions_since) || !has_settings(control))
        return;
    memset(regions, 0, sizeof *regions);
    while (regions->count < VIEW_REGIONS_MAX &&
           (record = control_setting_next(control, SETTINGS_REGION, &cursor)) != NULL)
        if (founder_of(record) == 0 && record->name.len < VIEW_TEXT_LEN)
            memcpy(regions->names[regions->count++], record->name.data, record->name.len);
    if (regions->count == 0)
        memcpy(regions->names[regions->count++], control->options.region, SWIM_PLACE_LEN);
    ASSERT(regions->count > 0 && regions->count <= VIEW_REGIONS_MAX); /* CONTROL-7 */
    control->regions_since = since;
    control->view_due = true;
}

/* ---- founding -------------------------------------------------------------------------------- */

void control_create_ring(struct control *control, uint64_t generation, struct effects *effects)
{
    struct ring_member self;
    int error = ring_member_init(&self, control->options.node_id, control->options.name,
                                 control->options.zone, control->options.weight);
    if (error == 0)
        error = ring_config_init(control->next, &self, control->identity.vnodes,
                                 control->identity.replicas);
    ASSERT(error == 0); /* options and identity were checked */
    if (generation > 0)
        ring_config_begin(control->next, generation, control->options.node_id);
    (void)control_adopt(control, effects);
    control->looked_ns = control->now_ns; /* it is in force before the next one is proposed */
}

/* Whether a living member of the region has a ring, or is rather than this node to propose itself
 * as the founder of one. */
static bool leave_it_to_another(const struct control *control, bool ring)
{
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if (!control_remote(control, member) && control_alive(control, member->record.id) &&
            (ring ? member->record.ring_epoch > 0 : member->record.id < control->options.node_id))
            return true;
    return false;
}

/* Above that of the ring by an earlier record (FOUNDING-2): changes of the settings are more than
 * those of a ring's lineage, but for an operator's who forces one again and again. */
static uint64_t next_generation(const struct control *control, const struct settings_entry *record)
{
    uint64_t generation = settings_version_shown(record->version);
    size_t cursor = 0;
    const struct swim_member *member;
    const uint64_t most = generation + GENERATIONS_MISSED; /* what is above was made up */
    while ((member = swim_next(control->swim, &cursor)) != NULL) {
        const uint64_t told = ring_config_generation(member->record.ring_epoch);
        if (!control_remote(control, member) && told >= generation && told <= most)
            generation = told + 1;
    }
    return generation < GENERATION_MAX ? generation : GENERATION_MAX;
}

/* Whether this node is to name itself the founder in place of that one; 0: there is none. */
static bool replaces(const struct control *control, uint64_t founder)
{
    const struct control_request *request = &control->request;
    if (founder != 0 && request->remove == founder && control->now_ns <= request->until_ns)
        return control_dead_for(control, founder, 0); /* as an operator wants */
    return !leave_it_to_another(control, false) &&
           (founder == 0 || control_dead_for(control, founder, CONTROL_FORGET_NS));
}

/* Of a node without a ring. */
static void look_for_ring(struct control *control, struct effects *effects)
{
    const uint64_t self = control->options.node_id;
    const struct settings_entry *record = own_record(control);
    if (leave_it_to_another(control, true) || !knows_settings(control) ||
        count_records(control) == 0 || !control_region_all_know(control))
        return;
    const uint64_t founder = record != NULL ? founder_of(record) : 0;
    if (founder == self)
        control_create_ring(control, next_generation(control, record), effects); /* FOUNDING-2 */
    else if ((record == NULL || founder != 0) && replaces(control, founder))
        propose_record(control, self);
}

bool control_region_founder(const struct control *control, uint64_t id)
{
    const struct settings_entry *record = own_record(control);
    return control->config->epoch == 0 && record != NULL && founder_of(record) == id;
}

static bool knows_one_remote(const struct control *control)
{
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if (control_remote(control, member) && control_alive(control, member->record.id))
            return true;
    return false;
}

/* Of the node that proposes for the ring. */
static void look_at_record(struct control *control)
{
    const struct settings_entry *record = own_record(control);
    if (record == NULL ? knows_one_remote(control) : founder_of(record) != 0)
        propose_record(control, 0); /* FOUNDING-2, FOUNDING-3 */
}

/* ---- removing -------------------------------------------------------------------------------- */

/* Whether the member is of the region, and said to be there: its region may be out of reach. */
static bool is_of(const struct swim_member *member, const char *name)
{
    return strcmp(swim_region_name(&member->record), name) == 0 && member->state != SWIM_LEFT;
}

/* FOUNDING-6, of a node that has a ring itself: who founds one may need those that are out of
 * reach. */
static void dismiss_removed(struct control *control)
{
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if (control_remote(control, member) && member->state != SWIM_LEFT &&
            control->now_ns >= control_region_lost_ns(control, member) &&
            control_region_record(control, swim_region_name(&member->record)) == NULL)
            swim_dismiss(control->swim, member->record.id);
}

void control_move_region(struct control *control, struct effects *effects)
{
    list_regions(control);
    if (control->disk_full || control->now_ns - control->region_ns < REGION_LOOK_NS)
        return;
    control->region_ns = control->now_ns;
    if (control->config->epoch == 0) {
        look_for_ring(control, effects);
    } else if (knows_settings(control)) {
        dismiss_removed(control);
        if (propose_by_itself(control))
            look_at_record(control);
    }
}

bool control_region_gone(const struct control *control, const char *name)
{
    size_t cursor = 0;
    const struct swim_member *member;
    if (control_region_record(control, name) != NULL)
        return false;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if (is_of(member, name) && !control_alive(control, member->record.id))
            return false;
    return true;
}

/* Whether members of the region that have a ring are in reach; then the sentence on them. */
static bool say_answering(const struct control *control, const char *name,
                          char sentence[CONTROL_SENTENCE_LEN])
{
    uint32_t count = 0;
    size_t cursor = 0;
    const struct swim_member *member;
    int len = 0;
    while ((member = swim_next(control->swim, &cursor)) != NULL) {
        if (!is_of(member, name) || member->record.ring_epoch == 0 ||
            !control_alive(control, member->record.id))
            continue;
        if (count++ < NAMES_MAX)
            len += snprintf(sentence + len, CONTROL_SENTENCE_LEN - (size_t)len, "%s%s",
                            count > 1 ? ", " : "", member->record.name);
    }
    if (count > 0)
        (void)snprintf(sentence + len, CONTROL_SENTENCE_LEN - (size_t)len,
                       "%s of region %s answered less than ten seconds ago: end all of its nodes "
                       "first; a region that lives would come back by itself",
                       count > NAMES_MAX ? " ..." : "", name);
    return count > 0;
}

/* The first rule in force, or the first pool, that names the region as home; NULL: none does. */
static const char *named_at_home(const struct policy *policy, const char *name, const char **what)
{
    const uint64_t region = policy_region_id(name, strlen(name));
    *what = "rule";
    for (size_t i = 0; policy != NULL && i < policy_rule_count(policy); i++)
        if (policy_rule_at(policy, i)->home_region == region)
            return policy_rule_at(policy, i)->name.data;
    *what = "pool";
    for (size_t i = 0; policy != NULL && i < policy_pool_count(policy); i++)
        if (policy_pool_at(policy, i)->home_region == region)
            return policy_pool_at(policy, i)->name.data;
    return NULL;
}

/* Whether the region is this node's, and has a ring. */
static bool is_own(const struct control *control, const char *name)
{
    return strcmp(name, control->options.region) == 0 && control->config->epoch > 0;
}

static bool refuse_removal(const struct control *control, const char *name,
                           const struct policy *policy, bool force,
                           char sentence[CONTROL_SENTENCE_LEN])
{
    const char *what;
    const char *named = named_at_home(policy, name, &what);
    if (is_own(control, name)) {
        (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                       "%s is the region of the node that was asked: another region removes it",
                       name);
    } else if (say_answering(control, name, sentence)) {
        return true;
    } else if (named != NULL && !force) {
        const bool rule = what[0] == 'r';
        (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                       "%s %s names %s as the home%s: name another region there first, or remove "
                       "it with --force; %s then",
                       what, named, name, rule ? " of its keys" : "",
                       rule ? "on_failure decides" : "nothing is lent");
    } else if (control->disk_full) {
        control_say_disk_full(control, sentence, CONTROL_SENTENCE_LEN);
    } else if (control_settings_frozen(control) && !force) {
        control_say_settings_frozen(control, sentence, CONTROL_SENTENCE_LEN / 2);
        const size_t len = strlen(sentence);
        (void)snprintf(sentence + len, CONTROL_SENTENCE_LEN - len,
                       "; bring them back, or let those that live go on alone with --force");
    } else {
        return false;
    }
    return true;
}

int control_region_remove(struct control *control, int64_t now_ns, const char *name,
                          const struct policy *policy, bool force,
                          char sentence[CONTROL_SENTENCE_LEN])
{
    static const struct settings_text nothing = {.data = "", .len = 0};
    if ((is_own(control, name) || !control_region_gone(control, name)) &&
        refuse_removal(control, name, policy, force, sentence))
        return TG_ECONFLICT;
    (void)snprintf(control->removed, sizeof control->removed, "%s", name);
    if (control_region_record(control, name) == NULL)
        return 0; /* FOUNDING-6 is about to do the rest */
    if (control_settings_frozen(control))
        control->request = (struct control_request){
            .force = true, .settings = true, .until_ns = now_ns + CONTROL_REQUEST_NS};
    else
        change_record(control, &control->removal, name, &nothing, "a region that is gone");
    return 0;
}

const char *control_region_removal(const struct control *control, const char *name)
{
    const struct settings_edit *edit = control_edit_find(control, control->removal);
    if (control_region_record(control, name) == NULL)
        return "";
    if (control_settings_behind(control))
        return "a member has a newer configuration, and is being asked for it";
    return edit != NULL ? edit->sentence : "";
}

/* ---- waiting --------------------------------------------------------------------------------- */

void control_region_say(const struct control *control, char *out, size_t capacity)
{
    const struct settings_entry *record = own_record(control);
    const uint64_t founder = record != NULL ? founder_of(record) : 0;
    const struct swim_member *older = one_of_older_release(control);
    const struct swim_member *member = founder != 0 ? swim_find(control->swim, founder) : NULL;
    const int len =
        snprintf(out, capacity, "region %s has no ring here yet: ", control->options.region);
    if (len < 0 || (size_t)len >= capacity)
        return;
    out += len;
    capacity -= (size_t)len;
    if (older != NULL)
        (void)snprintf(out, capacity, "%s is of an older release", older->record.name);
    else if (member != NULL)
        (void)snprintf(out, capacity, "%s is to found it%s", member->record.name,
                       control_alive(control, founder) ? "" : ", and cannot be reached");
    else if (founder != 0)
        (void)snprintf(out, capacity, "node %016" PRIx64 " is to found it", founder);
    else if (record != NULL)
        (void)snprintf(out, capacity, "none of its members is known to live");
    else
        (void)snprintf(out, capacity, "no majority of the configuration's voters knows of it yet");
}
