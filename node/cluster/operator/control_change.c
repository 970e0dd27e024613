/* control_change.c - what operators ask to be changed in the ring: drain, leave, remove.
 *
 * Each of them is a request that the node keeps and pursues; the answer says how far it has come.
 * Whoever waits asks again, which changes nothing but the request's end.
 *
 *   drain, leave   a flag in this node's gossip record, until the process ends: whoever proposes
 *                  takes it out of the ring by an ordinary transition, and nobody takes it in.
 *                  leave: when nothing is left here, the process says good-bye and ends.
 *   remove REGION  control_region.c.
 *   remove         this node proposes the configuration without a dead member, as soon as no
 *                  transition is under way, for CONTROL_REQUEST_NS after it was asked last. By
 *                  force, on a frozen ring or in a transition that stands still, it begins a new
 *                  lineage with the voters that it sees; so for the configuration store, whose
 *                   voters may be lost though the ring is not frozen, or the member out of it.
 */
#include <stdio.h>
#include <string.h>

#include "base/natural.h"
#include "node/cluster/operator/control_answer.h"

enum { ID_DIGITS = 16, ASKED_MAX = 8, NAMES_MAX = 12 };

/* ---- how the register is doing --------------------------------------------------------------- */

void control_put_voters(const struct control *control, struct mp_writer *writer)
{
    mp_put_str(writer, "voters");
    mp_put_array(writer, control->config->voters_count);
    for (uint32_t i = 0; i < control->config->voters_count; i++)
        mp_put_str(writer, control_member_name(control, control->config->voters[i]));
}

void control_put_register(const struct control *control, int64_t now_ns, struct mp_writer *writer)
{
    char reason[CONTROL_SENTENCE_LEN] = "";
    const bool frozen = control->config->epoch > 0 && voters_frozen(control);
    const int64_t since_ns = control->changed_ns != 0 ? control->changed_ns : control->started_ns;
    if (frozen)
        control_say_frozen(control, reason, sizeof reason);
    mp_put_str(writer, "register");
    mp_put_map(writer, 6);
    control_put_voters(control, writer);
    put_field_bool(writer, "frozen", frozen);
    put_field_str(writer, "reason", reason);
    put_field_uint(writer, "lineage", ring_config_lineage(control->config->epoch));
    put_field_uint(writer, "unchanged_ms",
                   now_ns > since_ns ? (uint64_t)(now_ns - since_ns) / 1000000 : 0);
    put_field_uint(writer, "strays", control->strays);
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* A text argument; "" if it is not given. False if it is none, or longer than may be: that is not
 * as if it were not given. */
static bool read_text(const struct answer_context *context, const char *name, char *out,
                      size_t capacity)
{
    struct mp_cursor cursor;
    out[0] = '\0';
    if (!answer_argument(context, name, &cursor))
        return true;
    mp_copy_str(&cursor, out, capacity);
    if (cursor.failed)
        out[0] = '\0';
    return !cursor.failed && out[0] != '\0';
}

/* Who asks, for the log; older command lines do not say. */
static void read_author(const struct answer_context *context, char out[SETTINGS_AUTHOR_LEN_MAX + 1])
{
    const bool given = read_text(context, "author", out, SETTINGS_AUTHOR_LEN_MAX + 1);
    const struct settings_text text = {.data = out, .len = strlen(out)};
    if (!given || text.len == 0 || !settings_text_ok(&text, SETTINGS_AUTHOR_LEN_MAX))
        (void)snprintf(out, SETTINGS_AUTHOR_LEN_MAX + 1, "an operator");
}

static bool read_bool(const struct answer_context *context, const char *name)
{
    struct mp_cursor cursor;
    return answer_argument(context, name, &cursor) && mp_get_bool(&cursor);
}

/* Whether `text` is the id, as it is shown. */
static bool is_id(const char *text, uint64_t id)
{
    char shown[ID_DIGITS + 1];
    (void)snprintf(shown, sizeof shown, "%016llx", (unsigned long long)id);
    return strcmp(text, shown) == 0;
}

static bool joined(struct answer_context *context)
{
    if (context->control->joined && context->control->config->epoch > 0)
        return true;
    answer_waiting(context);
    return false;
}

/* ---- drain and leave ------------------------------------------------------------------------- */

static bool in_ring(const struct control *control)
{
    return ring_config_find(control->config, control->options.node_id) != NULL;
}

static uint64_t vnodes_left(const struct answer_context *context)
{
    const struct control_report *report = context->report;
    uint64_t left = 0;
    for (uint32_t i = 0; i < report->shard_count; i++)
        left += report->shards[i].vnodes_leading + report->shards[i].vnodes_recovering;
    return left;
}

static uint64_t vnodes_held(const struct answer_context *context)
{
    const struct control_report *report = context->report;
    uint64_t held = vnodes_left(context);
    for (uint32_t i = 0; i < report->shard_count; i++)
        held += report->shards[i].vnodes_replica;
    return held;
}

/* Why this node cannot go now; false if it can. */
static bool must_stay(const struct control *control, char sentence[CONTROL_SENTENCE_LEN])
{
    const struct ring_config *config = control->config;
    const char *name = control->options.name;
    uint32_t others = 0;
    if (!in_ring(control))
        return false;
    if (config->to_count == 1 && config->to[0].id == control->options.node_id) {
        (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                       "%s is the last member of the ring: there is nobody to take over", name);
        return true;
    }
    for (uint32_t i = 0; i < config->to_count; i++) {
        const uint64_t id = config->to[i].id;
        others += id != control->options.node_id && control_alive(control, id) &&
                  (control_flags(control, id) & CONTROL_FLAG_DRAINING) == 0;
    }
    if (others == 0) {
        (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                       "%s is the last member of the ring that lives and stays: there is nobody "
                       "to take over",
                       name);
        return true;
    }
    if (voters_frozen(control)) {
        control_say_frozen(control, sentence, CONTROL_SENTENCE_LEN);
        return true;
    }
    return false;
}

/* Who keeps the transition that runs from its end; false: nobody that this node knows of. */
static bool say_who_lags(const struct control *control, char sentence[CONTROL_SENTENCE_LEN])
{
    const struct ring_config *config = control->config;
    for (uint32_t i = 0; i < config->to_count; i++) {
        const uint64_t id = config->to[i].id;
        const struct swim_member *member = swim_find(control->swim, id);
        if (id == control->options.node_id)
            continue;
        if (!control_alive(control, id))
            (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                           "%s does not answer, and is to take over some of it: start it again, "
                           "or `tidegate remove %s`",
                           config->to[i].name, config->to[i].name);
        else if ((member->record.flags & CONTROL_FLAG_FULL) != 0)
            (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                           "the disk of %s has no room, so it cannot take over its part",
                           config->to[i].name);
        else if (member->record.settled_epoch < config->epoch)
            (void)snprintf(sentence, CONTROL_SENTENCE_LEN, "%s has not taken over its part yet",
                           config->to[i].name);
        else
            continue;
        return true;
    }
    return false;
}

/* What the departure waits for; "" for nothing but time. */
static void say_departure(const struct control *control, uint64_t held,
                          char sentence[CONTROL_SENTENCE_LEN])
{
    const struct ring_config *config = control->config;
    sentence[0] = '\0';
    if (must_stay(control, sentence))
        return;
    if (!in_ring(control) && ring_config_is_stable(config)) {
        if (held > 0)
            (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                           "the others are still being given copies of what it holds");
    } else if (control_voters_full(control, config->voters, config->voters_count)) {
        control_say_voters_full(control, config->voters, config->voters_count, sentence,
                                CONTROL_SENTENCE_LEN);
    } else if (ring_config_is_stable(config)) {
        (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                       "the voters have not decided yet that it goes");
    } else if (!say_who_lags(control, sentence)) {
        (void)snprintf(sentence, CONTROL_SENTENCE_LEN, "%s",
                       propose_stands_still(control)
                           ? "the ring configuration is changing, and that does not end: a vnode "
                             "has too few living replicas (`tidegate status`)"
                           : "the ring configuration is changing");
    }
}

int control_depart(struct control *control, enum control_departure departure,
                   char sentence[CONTROL_SENTENCE_LEN])
{
    if (control->departure == CONTROL_STAYS && must_stay(control, sentence))
        return TG_ECONFLICT;
    if (control->departure < departure) {
        control->departure = departure;
        control_tell_self(control);
    }
    return 0;
}

/* Whether the command names another node than this by its id, or nothing that is an id. */
static bool means_another(const struct answer_context *context)
{
    char meant[ID_DIGITS + 1];
    return !read_text(context, "id", meant, sizeof meant) ||
           (meant[0] != '\0' && !is_id(meant, context->control->options.node_id));
}

static void depart(struct answer_context *context, enum control_departure departure)
{
    struct control *control = context->control;
    char sentence[CONTROL_SENTENCE_LEN];
    if (!joined(context))
        return;
    const bool begins = control->departure < departure;
    int error = TG_ECONFLICT;
    if (means_another(context))
        (void)snprintf(sentence, sizeof sentence, "this is %s, not the node that was asked first",
                       control->options.name);
    else
        error = control_depart(control, departure, sentence);
    if (error != 0) {
        answer_error(context, error, sentence);
        return;
    }
    if (begins)
        read_author(context, control->departure_by);
    const bool done = !in_ring(control) && vnodes_held(context) == 0;
    sentence[0] = '\0';
    if (!done)
        say_departure(control, vnodes_held(context), sentence);
    answer_begin(context);
    mp_put_map(context->writer, 7);
    put_field_str(context->writer, "waits_for", sentence);
    put_field_str(context->writer, "node", control->options.name);
    put_field_hex(context->writer, "id", control->options.node_id);
    put_field_str(context->writer, "state",
                  control->departure == CONTROL_LEAVES ? (done ? "left" : "leaving")
                                                       : (done ? "drained" : "draining"));
    put_field_bool(context->writer, "done", done);
    put_field_uint(context->writer, "vnodes_left", vnodes_left(context));
    put_field_uint(context->writer, "epoch", control->config->epoch);
}

void answer_drain(struct answer_context *context)
{
    depart(context, CONTROL_DRAINS);
}

void answer_leave(struct answer_context *context)
{
    depart(context, CONTROL_LEAVES);
}

/* ---- remove ---------------------------------------------------------------------------------- */

/* What an operator means by a text: a name, an id, or a name with its region before it. */
struct meaning {
    const char *text;
    const char *name; /* of whom is meant */
    uint64_t id;      /* 0: nobody yet */
    const char *region;
    const char *other; /* region of another one of that name; NULL: there is none */
};

static bool fits(const struct meaning *meaning, const char *region, const char *name, uint64_t id)
{
    const size_t len = strlen(region);
    return strcmp(meaning->text, name) == 0 || is_id(meaning->text, id) ||
           (strncmp(meaning->text, region, len) == 0 && meaning->text[len] == '/' &&
            strcmp(meaning->text + len + 1, name) == 0);
}

/* The first one of a region counts; one of another region is as likely. */
static void consider(struct meaning *meaning, const char *region, const char *name, uint64_t id)
{
    if (!fits(meaning, region, name, id))
        return;
    if (meaning->id != 0) {
        if (strcmp(meaning->region, region) != 0)
            meaning->other = region;
        return;
    }
    meaning->id = id;
    meaning->name = name;
    meaning->region = region;
}

/* Members of the ring first, then those of its region that gossip knows, then those of others. */
static void consider_members(const struct control *control, struct meaning *meaning)
{
    const struct ring_config *config = control->config;
    const struct swim_member *member;
    for (uint32_t i = 0; i < config->to_count + config->from_count; i++) {
        const struct ring_member *listed =
            i < config->to_count ? &config->to[i] : &config->from[i - config->to_count];
        consider(meaning, control->options.region, listed->name, listed->id);
    }
    for (unsigned remote = 0; remote < 2; remote++) {
        size_t cursor = 0;
        while ((member = swim_next(control->swim, &cursor)) != NULL)
            if (control_remote(control, member) == (remote == 1) &&
                (remote == 0 || member->state != SWIM_LEFT))
                consider(meaning, swim_region_name(&member->record), member->record.name,
                         member->record.id);
    }
}

/* The member of the ring whose name comes next behind `after` (NULL: the first of all). */
static const struct ring_member *next_by_name(const struct ring_config *config,
                                              const struct ring_member *after)
{
    const struct ring_member *next = NULL;
    for (uint32_t i = 0; i < config->to_count; i++) {
        const struct ring_member *member = &config->to[i];
        const int order = after == NULL ? 1 : natural_compare(member->name, after->name);
        const bool behind = order > 0 || (order == 0 && member->id > after->id);
        if (behind && (next == NULL || natural_compare(member->name, next->name) < 0))
            next = member;
    }
    return next;
}

void control_ring_names(const struct ring_config *config, char *out, size_t capacity)
{
    const struct ring_member *member = NULL;
    int len = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < NAMES_MAX && len >= 0 && (size_t)len < capacity &&
                         (member = next_by_name(config, member)) != NULL;
         i++)
        len += snprintf(out + len, capacity - (size_t)len, "%s%s", i > 0 ? ", " : "", member->name);
    if (config->to_count > NAMES_MAX && len >= 0 && (size_t)len < capacity)
        (void)snprintf(out + len, capacity - (size_t)len, " and %u more",
                       config->to_count - NAMES_MAX);
}

/* "NAME is not in the ring; in it are n1, n2, n3" */
static void say_outside(const struct control *control, const char *name, char *out, size_t capacity)
{
    const int len = snprintf(out, capacity, "%s is not in the ring; in it are ", name);
    if (len >= 0 && (size_t)len < capacity)
        control_ring_names(control->config, out + len, capacity - (size_t)len);
}

/* Whom the text means: a member, or who was meant last, or a voter. 0, or an error with a sentence.
 */
static int find_member(const struct control *control, struct meaning *meaning,
                       char sentence[CONTROL_SENTENCE_LEN])
{
    const struct register_voters *voters = &control->settings->voters;
    consider_members(control, meaning);
    if (meaning->other != NULL) {
        (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                       "'%s' may be %s/%s or %s/%s; expected one of these, or an id of `tidegate "
                       "members`",
                       meaning->text, meaning->region, meaning->name, meaning->other,
                       meaning->name);
        return TG_ECONFLICT;
    }
    if (meaning->id == 0 && control->removal_of != 0)
        consider(meaning, control->options.region, control->removal_name, control->removal_of);
    for (uint32_t i = 0; i < voters->count && meaning->id == 0; i++)
        if (is_id(meaning->text, voters->ids[i]))
            consider(meaning, "", "a voter that is gone", voters->ids[i]);
    if (meaning->id != 0)
        return 0;
    char whom[VIEW_TEXT_LEN * 2];
    (void)snprintf(whom, sizeof whom, "no member is called '%s': it", meaning->text);
    say_outside(control, whom, sentence, CONTROL_SENTENCE_LEN);
    return TG_ENOTFOUND;
}

/* Whether the configuration store has lost its voters though the ring may have gone on without
 * them: then only force is of use, also against members that are out of the ring already. */
static bool settings_lost(const struct control *control)
{
    return control->settings->version > 0 && control_settings_frozen(control);
}

/* Whether there is something left to do for the removal. */
static bool removal_due(const struct control *control, uint64_t id, bool force)
{
    return ring_config_find(control->config, id) != NULL || control_region_founder(control, id) ||
           (force && settings_lost(control));
}

/* Why `id` is not removed, whatever is tried; false if nothing speaks against it. */
static bool refuse_removal(const struct control *control, uint64_t id, const char *name, bool force,
                           char sentence[CONTROL_SENTENCE_LEN])
{
    const struct swim_member *member = swim_find(control->swim, id);
    if (member != NULL && control_remote(control, member) && !(force && settings_lost(control))) {
        (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                       "%s is of region %s: ask a node of that region to remove it", name,
                       member->record.region);
    } else if (member != NULL && member->state == SWIM_ALIVE && id != control->options.node_id &&
               ring_config_find(control->config, id) == NULL && !removal_due(control, id, force)) {
        say_outside(control, name, sentence, CONTROL_SENTENCE_LEN / 2);
        const size_t len = strlen(sentence);
        (void)snprintf(sentence + len, CONTROL_SENTENCE_LEN - len,
                       ". It is alive: to end it, ask itself by `tidegate leave`, or stop it");
    } else if (id == control->options.node_id ||
               (member != NULL && member->state == SWIM_ALIVE && control_alive(control, id))) {
        (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                       "%s is alive: ask itself, by `tidegate drain` or `tidegate leave`", name);
    } else if (!removal_due(control, id, force)) {
        return false; /* it is out already */
    } else if (control->disk_full) {
        control_say_disk_full(control, sentence, CONTROL_SENTENCE_LEN);
    } else if (control->config->to_count == 1 && control->config->to[0].id == id) {
        (void)snprintf(sentence, CONTROL_SENTENCE_LEN,
                       "%s is the last member of the ring and cannot be removed", name);
    } else if (control->config->epoch > 0 && voters_frozen(control) && !force) {
        control_say_frozen(control, sentence, CONTROL_SENTENCE_LEN / 2);
        const size_t len = strlen(sentence);
        (void)snprintf(sentence + len, CONTROL_SENTENCE_LEN - len,
                       "; bring them back, or let the living members go on alone with --force");
    } else {
        return false;
    }
    return true;
}

/* What the removal waits for; "" for nothing. */
static const char *waits_for(const struct control *control, uint64_t id)
{
    const struct swim_member *member = swim_find(control->swim, id);
    if (control->config->epoch == 0)
        return "another node is about to found the ring";
    if (control_voters_full(control, control->config->voters, control->config->voters_count))
        return "too many voters of the ring have no room on their disks (`tidegate status` at "
               "each)";
    if (member != NULL && member->state == SWIM_SUSPECT)
        return "it does not answer, but is not known to be dead yet";
    if (propose_stands_still(control))
        return "the ring configuration is changing, and that does not end yet. If most replicas of "
               "a vnode of consistency quorum are gone for good, --force goes on without them";
    if (!ring_config_is_stable(control->config))
        return "the ring configuration is changing";
    if (settings_lost(control) && control_settings_behind(control))
        return "a member has a newer configuration, and is being asked for it";
    return "";
}

int control_remove(struct control *control, int64_t now_ns, uint64_t id, const char *name,
                   bool force, char sentence[CONTROL_SENTENCE_LEN])
{
    const struct swim_member *member = swim_find(control->swim, id);
    if (control->config->epoch == 0 && !removal_due(control, id, force) &&
        control->removal_of != id) {
        control_region_say(control, sentence, CONTROL_SENTENCE_LEN);
        return TG_EUNAVAILABLE;
    }
    if (refuse_removal(control, id, name, force, sentence)) {
        if (control->request.remove == id) /* what was asked for before is refused as well */
            memset(&control->request, 0, sizeof control->request);
        return TG_ECONFLICT;
    }
    if (!removal_due(control, id, force) || (member != NULL && member->state == SWIM_SUSPECT))
        return 0;
    control->removal_of = id;
    (void)snprintf(control->removal_name, sizeof control->removal_name, "%s", name);
    control->request = (struct control_request){
        .remove = id, .force = force, .until_ns = now_ns + CONTROL_REQUEST_NS};
    return 0;
}

/* Whether the member is for another region to remove. */
static bool is_elsewhere(const struct control *control, uint64_t id, bool force)
{
    const struct swim_member *member = swim_find(control->swim, id);
    return member != NULL && control_remote(control, member) && !(force && settings_lost(control));
}

/* Who is to be asked instead: living members of the region. */
static void answer_elsewhere(struct answer_context *context, const struct meaning *meaning)
{
    const struct control *control = context->control;
    struct mp_writer *writer = context->writer;
    const char *asked[ASKED_MAX];
    char sentence[CONTROL_SENTENCE_LEN];
    uint32_t count = 0;
    size_t cursor = 0;
    const struct swim_member *member;
    while (count < ASKED_MAX && (member = swim_next(control->swim, &cursor)) != NULL)
        if (strcmp(swim_region_name(&member->record), meaning->region) == 0 &&
            member->record.id != meaning->id && member->record.client[0] != '\0' &&
            control_alive(control, member->record.id))
            asked[count++] = member->record.client;
    if (count == 0) {
        (void)snprintf(sentence, sizeof sentence,
                       "%s is of region %s, of which no other node is in reach: ask one there; if "
                       "the region is gone for good, `tidegate remove --region %s`",
                       meaning->name, meaning->region, meaning->region);
        answer_error(context, TG_ECONFLICT, sentence);
        return;
    }
    (void)snprintf(sentence, sizeof sentence, "it is of region %s, whose nodes remove it",
                   meaning->region);
    answer_begin(context);
    mp_put_map(writer, 7);
    put_field_str(writer, "node", meaning->name);
    put_field_hex(writer, "id", meaning->id);
    put_field_str(writer, "state", "elsewhere");
    put_field_bool(writer, "done", false);
    put_field_str(writer, "waits_for", sentence);
    put_field_str(writer, "region", meaning->region);
    mp_put_str(writer, "ask");
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++)
        mp_put_str(writer, asked[i]);
}

/* The member or the region that the command names: just one of them. False after it was answered
 * that it does not. */
static bool read_removal(struct answer_context *context, char node[RING_NAME_LEN + SWIM_PLACE_LEN],
                         char region[SWIM_PLACE_LEN])
{
    const char *wrong = NULL;
    if (!read_text(context, "node", node, RING_NAME_LEN + SWIM_PLACE_LEN))
        wrong = "remove: node is no name and no id; expected one of `tidegate members`";
    else if (!read_text(context, "region", region, SWIM_PLACE_LEN))
        wrong = "remove: region is no name of one; expected one of `tidegate status --regions`";
    else if (node[0] != '\0' && region[0] != '\0')
        wrong = "remove: found node and region; expected one of them";
    else if (node[0] == '\0' && region[0] == '\0')
        wrong = "remove: expected {\"node\": name or id} or {\"region\": name}";
    if (wrong != NULL)
        answer_error(context, TG_EINVALID, wrong);
    return wrong == NULL;
}

void answer_remove(struct answer_context *context)
{
    struct control *control = context->control;
    char text[RING_NAME_LEN + SWIM_PLACE_LEN];
    char region[SWIM_PLACE_LEN];
    char sentence[CONTROL_SENTENCE_LEN];
    struct meaning meaning = {.text = text};
    const bool force = read_bool(context, "force");
    if (!read_removal(context, text, region))
        return;
    if (region[0] != '\0') {
        answer_remove_region(context, region, force);
        return;
    }
    if (!control->joined) {
        answer_waiting(context);
        return;
    }
    int error = find_member(control, &meaning, sentence);
    if (error == 0 && is_elsewhere(control, meaning.id, force)) {
        answer_elsewhere(context, &meaning);
        return;
    }
    const uint64_t id = meaning.id;
    if (error == 0)
        error = control_remove(control, context->now_ns, id, meaning.name, force, sentence);
    if (error != 0) {
        answer_error(context, error, sentence);
        return;
    }
    read_author(context, control->removal_by); /* who was refused is nobody's reason */
    const bool done = !removal_due(control, id, force);
    sentence[0] = '\0';
    if (done && control->removal_of != id) /* nobody asked this node to remove it while it was */
        say_outside(control, meaning.name, sentence, sizeof sentence);
    answer_begin(context);
    mp_put_map(context->writer, 8);
    put_field_str(context->writer, "message", sentence);
    put_field_str(context->writer, "node", meaning.name);
    put_field_hex(context->writer, "id", id);
    put_field_str(context->writer, "state", done ? "removed" : "removing");
    put_field_bool(context->writer, "done", done);
    put_field_str(context->writer, "waits_for", done ? "" : waits_for(control, id));
    put_field_uint(context->writer, "epoch", control->config->epoch);
    put_field_uint(context->writer, "lineage", ring_config_lineage(control->config->epoch));
}
