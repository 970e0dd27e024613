/* control_region.c - regions: a ring each, and one membership and one configuration store of all.
 *
 *     region eu                                     region us
 *   ring, register, deciders   <-- nothing -->   ring, register, deciders
 *            |                                            |
 *        settings  <--------- one history, one -------> settings
 *            |                   register                 |
 *        members   <------------- gossip ------------>  members
 *
 * A record of the settings, of kind SETTINGS_REGION, names who founds the ring of a region:
 *
 *   first node of us:  JOIN at any member --> settings --> no record of us: proposes the record
 * with itself as the founder --> decided: creates the ring the others of us:  the same, but there
 * is a record: wait for a member of us that has a ring
 *
 * G1  A ring is of one region: only its members are taken in, told its configuration, asked for it
 *     and heard in its register (C5 of control.h).
 * G2  A region's ring is created once: by the node that the settings name, whose disk holds whether
 *     it has done so, and while no living member of the region has one. Between the record and the
 *     ring it may restart.
 * G3  The ring of the cluster's first region is older than records. Its record, which names nobody,
 *     is made by whoever proposes there, as soon as a member of another region is known; no other
 *     region has one before. So a new node never takes a region for new whose members are out of
 *     reach. A cluster of one region has no record.
 * G4  Gossip says of a region what that said last. Where that is long ago, its members may live,
 * but cannot be reached: they are taken for dead then, as those that are. G5  Older releases take
 * any member into their one ring. So nobody is let in from abroad, and no region founded, before
 * all that live know of regions.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/control_state.h"

enum { VALUE_VERSION = 1, VALUE_LEN_MAX = 16, VALUE_TOKENS = 8 };

#define REGION_LOOK_NS (250 * CONTROL_MS) /* between looks at what is to be founded */
/* A region that nobody here has heard of for so long is out of reach: twice as long as its contacts
 * may be apart, and as it takes to take a member for dead. */
#define REGION_LOST_NS (10000 * CONTROL_MS)

/* ---- whose is it ----------------------------------------------------------------------------- */

bool control_abroad(const struct control *control, const struct swim_member *member)
{
    return strcmp(member->record.region, control->options.region) != 0;
}

bool control_region_ours(const struct control *control, const char *region, uint64_t sender)
{
    const struct swim_member *member = swim_find(control->swim, sender);
    if (region[0] != '\0')
        return strcmp(region, control->options.region) == 0;
    return member == NULL || !control_abroad(control, member);
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
    if (!control_abroad(control, member) || region == NULL)
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

static struct settings_text own_name(const struct control *control)
{
    const char *region = control->options.region;
    return (struct settings_text){.data = region, .len = strlen(region)};
}

static const struct settings_entry *own_record(const struct control *control)
{
    const struct settings_text name = own_name(control);
    return settings_current(control->settings, SETTINGS_REGION, &name);
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

/* Whether the settings are those of the cluster as it is now, as far as this node can know. */
static bool knows_settings(const struct control *control)
{
    const struct settings *settings = control->settings;
    return settings->version > 0 && !settings->copying.active && !settings->mixed &&
           !control_settings_behind(control);
}

/* Proposes the record of this region, unless that is under way. */
static void propose_record(struct control *control, uint64_t founder)
{
    uint8_t value[VALUE_LEN_MAX];
    static const char author[] = "tidegate";
    static const char note[] = "a region";
    const struct settings_edit *edit = control_edit_find(control, control->region_edit);
    if (edit != NULL && edit->state == SETTINGS_EDIT_WAITS)
        return;
    control->region_edit =
        (struct hash128){random_next(&control->random), random_next(&control->random)};
    const struct control_edit_request request = {
        .id = control->region_edit,
        .kind = SETTINGS_REGION,
        .name = own_name(control),
        .value = {(const char *)value, encode_founder(founder, value)},
        .author = {author, strlen(author)},
        .note = {note, strlen(note)},
    };
    const int error = control_edit(control, control->now_ns, &request);
    ASSERT(error != TG_EINVALID); /* else it is tried again */
}

/* ---- founding -------------------------------------------------------------------------------- */

void control_create_ring(struct control *control, struct effects *effects)
{
    struct ring_member self;
    int error = ring_member_init(&self, control->options.node_id, control->options.name,
                                 control->options.zone, control->options.weight);
    if (error == 0)
        error = ring_config_init(control->next, &self, control->identity.vnodes,
                                 control->identity.replicas);
    ASSERT(error == 0); /* options and identity were checked */
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
        if (!control_abroad(control, member) && control_alive(control, member->record.id) &&
            (ring ? member->record.ring_epoch > 0 : member->record.id < control->options.node_id))
            return true;
    return false;
}

/* Of a node without a ring. */
static void look_for_ring(struct control *control, struct effects *effects)
{
    const struct settings_entry *record = own_record(control);
    if (leave_it_to_another(control, true) || !knows_settings(control) ||
        count_records(control) == 0 || !control_region_all_know(control))
        return;
    if (record == NULL && !leave_it_to_another(control, false))
        propose_record(control, control->options.node_id);
    else if (record != NULL && founder_of(record) == control->options.node_id)
        control_create_ring(control, effects); /* G2 */
}

static bool knows_one_abroad(const struct control *control)
{
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if (control_abroad(control, member) && control_alive(control, member->record.id))
            return true;
    return false;
}

void control_move_region(struct control *control, struct effects *effects)
{
    if (control->disk_full || control->now_ns - control->region_ns < REGION_LOOK_NS)
        return;
    control->region_ns = control->now_ns;
    if (control->config->epoch == 0)
        look_for_ring(control, effects);
    else if (knows_settings(control) && own_record(control) == NULL && propose_by_itself(control) &&
             knows_one_abroad(control))
        propose_record(control, 0); /* G3 */
}

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
        (void)snprintf(out, capacity, "%s is to found it", member->record.name);
    else if (founder != 0)
        (void)snprintf(out, capacity, "node %016" PRIx64 " is to found it", founder);
    else if (record != NULL)
        (void)snprintf(out, capacity, "none of its members is known to live");
    else
        (void)snprintf(out, capacity, "no majority of the configuration's voters knows of it yet");
}
