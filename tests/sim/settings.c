/* settings.c - operators who change settings all the time, through any node, and what must hold.
 *
 * Every fraction of a second one of them puts or removes one of a few records, based on what the
 * node that is asked has, or on nothing; a change in three meets another one of the same record.
 *
 * SIMSETTINGS-1  One history: two nodes that are at one version are of one digest, for ever, which
 *                covers all changes before.
 * SIMSETTINGS-2  When a version is first met anywhere, a majority of the voters that the one before
 *                it names has it on disk, as accepted or applied; but for the first of a lineage.
 * SIMSETTINGS-3  An edit that was told as done is in the history of every node that comes to rest
 *                later, unless a new lineage was forced since.
 * SIMSETTINGS-4  At rest all nodes that run have the same version, the same digest and the same
 *                records, whatever became of their disks.
 * SIMSETTINGS-5  A node never goes back to a lower version, unless its disk was put back.
 * SIMSETTINGS-6  No record of a node is followed by an older version of it, but by a copy of all
 *                records.
 * SIMSETTINGS-7  At rest regions have as many voters each, but for one: so the loss of one that has
 *                fewer stops no edit, nor, where there are three, that of any.
 * SIMSETTINGS-8  An edit that was told as one that changed nothing, unavailable or in conflict, is
 *                in the history of no node, then or later.
 *
 * A disk of which an old copy was restored breaks its promises: after that SIMSETTINGS-1 to
 * SIMSETTINGS-3, and SIMSETTINGS-8, are not judged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp.h"
#include "node/cluster/control/control_state.h"
#include "tests/sim/sim.h"

enum { EDIT_MIN_MS = 20, EDIT_MAX_MS = 500, RECORD_TOKENS = 16 };

static const struct settings *settings_of(const struct node *node)
{
    return node->control->settings;
}

static bool any_rewound(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->all_count; i++)
        if (sim->nodes[i].rewound)
            return true;
    return false;
}

static struct settings_past *past_of(struct sim *sim, uint64_t version)
{
    for (uint32_t i = sim->settings_count; i > 0; i--)
        if (sim->settings[i - 1].version == version)
            return &sim->settings[i - 1];
    return NULL;
}

/* ---- SIMSETTINGS-1, SIMSETTINGS-2, SIMSETTINGS-5, SIMSETTINGS-6
 * ---------------------------------------------------------------------------
 */

/* Whether the disk has accepted a value for this version, or applied it or a later one. */
static bool holds(const struct node *node, uint64_t version)
{
    const struct disk_meta head = disk_get_meta(&node->disk, "settings.head");
    const struct disk_meta votes = disk_get_meta(&node->disk, "settings.register");
    struct mp_token tokens[RECORD_TOKENS];
    struct mp_cursor cursor;
    if (head.bytes != NULL && mp_parse(head.bytes, head.len, tokens, RECORD_TOKENS) > 0 &&
        tokens[2].uint >= version)
        return true;
    if (votes.bytes == NULL)
        return false;
    const int count = mp_parse(votes.bytes, votes.len, tokens, RECORD_TOKENS);
    ASSERT(count > 0);
    mp_cursor_init(&cursor, tokens, (size_t)count);
    (void)mp_get_array(&cursor);
    (void)mp_get_uint(&cursor);
    const bool same = mp_get_uint(&cursor) == version;
    for (uint32_t i = 0; i < 3; i++)
        (void)mp_get_uint(&cursor);
    return same && mp_get_uint(&cursor) != 0;
}

/* SIMSETTINGS-2: `before` is the version before this one. */
static void check_majority(struct sim *sim, const struct node *node, uint64_t version,
                           const struct settings_past *before)
{
    uint32_t holders = 0;
    for (uint32_t i = 0; i < before->voters.count; i++) {
        const int at = node_by_id(sim, before->voters.ids[i]);
        holders += at >= 0 && sim->nodes[at].id == before->voters.ids[i] &&
                   holds(&sim->nodes[at], version);
    }
    if (holders < before->voters.count / 2 + 1)
        sim_fail(sim, "node %u has settings %llu, which %u of %u voters have on disk", node->index,
                 (unsigned long long)version, holders, before->voters.count);
}

static void note_version(struct sim *sim, const struct node *node)
{
    const struct settings *settings = settings_of(node);
    const uint64_t version = settings->version;
    const struct settings_past *before = past_of(sim, version - 1);
    if (before != NULL && !any_rewound(sim))
        check_majority(sim, node, version, before);
    if (sim->settings_count == SIM_SETTINGS_MAX) { /* the oldest are forgotten */
        sim->settings_count /= 2;
        memmove(sim->settings, sim->settings + SIM_SETTINGS_MAX - sim->settings_count,
                sim->settings_count * sizeof *sim->settings);
    }
    sim->settings[sim->settings_count++] =
        (struct settings_past){version, settings->digest, settings->voters};
    sim->coverage.settings_versions++;
    if (before == NULL && version > 1) { /* SETTINGS-7: what it did not have is gone with it */
        sim->settings_done_count = 0;
        sim->coverage.settings_lineages++;
    }
}

/* SIMSETTINGS-6; `copied`: all records may be others. */
static void check_records(struct sim *sim, struct node *node, bool copied)
{
    for (uint32_t i = 0; i < SIM_SETTINGS_NAMES; i++) {
        const char name[] = {'k', (char)('0' + i)};
        const struct settings_text text = {name, sizeof name};
        const struct settings_entry *entry =
            settings_table_find(&settings_of(node)->table, SETTINGS_POOL, &text);
        uint64_t *seen = &node->settings_seen[i];
        if (entry == NULL)
            continue;
        if (entry->version < *seen && !copied)
            sim_fail(sim, "node %u has version %llu of %.2s, and had %llu of it before",
                     node->index, (unsigned long long)entry->version, name,
                     (unsigned long long)*seen);
        *seen = entry->version;
    }
}

/* SIMSETTINGS-8, of the changes that came after `version`. */
static void check_refused(struct sim *sim, const struct node *node, uint64_t version)
{
    const struct settings_log *log = &settings_of(node)->log;
    for (uint32_t i = log->count; i > 0 && !any_rewound(sim); i--) {
        const struct settings_logged *made = &log->changes[(log->first + i - 1) % SETTINGS_LOG_MAX];
        if (made->version <= version)
            return;
        for (uint32_t k = 0; k < sim->settings_refused_count && k < SIM_EDITS_MAX; k++)
            if (hash128_equal(made->id, sim->settings_refused[k]))
                sim_fail(sim, "settings %llu are an edit that was told as one that changed nothing",
                         (unsigned long long)made->version);
    }
}

void settings_check(struct sim *sim, struct node *node)
{
    const struct settings *settings = settings_of(node);
    if (settings->version == node->settings_version)
        return;
    if (settings->version < node->settings_version && !node->rewound)
        sim_fail(sim, "node %u went back to settings %llu", node->index,
                 (unsigned long long)settings->version); /* SIMSETTINGS-5 */
    check_refused(sim, node, node->settings_version);
    node->settings_version = settings->version;
    const struct settings_past *past = past_of(sim, settings->version);
    const bool apart = past != NULL && !hash128_equal(past->digest, settings->digest);
    if (past == NULL)
        note_version(sim, node);
    if (apart && !any_rewound(sim))
        sim_fail(sim, "node %u has other settings %llu than others had", node->index,
                 (unsigned long long)settings->version); /* SIMSETTINGS-1 */
    sim->coverage.settings_apart += apart;
    check_records(sim, node, settings->copied != node->settings_copied);
    sim->coverage.settings_copies += settings->copied - node->settings_copied;
    node->settings_copied = settings->copied;
}

/* ---- operators ------------------------------------------------------------------------------- */

static struct node *some_node(struct sim *sim)
{
    const bool remote = sim->nodes[sim->node_count].member;
    const uint32_t count = remote ? sim->all_count : sim->node_count;
    struct node *node = &sim->nodes[random_below(sim_stream(sim, STREAM_SETTINGS), count)];
    return node->up && sim->now_ns >= node->paused_until_ns ? node : NULL;
}

static void ask(struct sim *sim)
{
    struct random *random = sim_stream(sim, STREAM_SETTINGS);
    struct node *node = some_node(sim);
    char name[16];
    char value[32];
    if (node == NULL || sim->settings_asked_count == SIM_EDITS_MAX)
        return;
    (void)snprintf(name, sizeof name, "k%u", (unsigned)random_below(random, SIM_SETTINGS_NAMES));
    (void)snprintf(value, sizeof value, "%016llx", (unsigned long long)random_next(random));
    const struct settings_text name_text = {name, strlen(name)};
    const struct settings_entry *current =
        settings_current(settings_of(node), SETTINGS_POOL, &name_text);
    const uint64_t have = current != NULL ? current->version : 0;
    const struct control_edit_request request = {
        .id = {random_next(random), random_next(random)},
        .kind = SETTINGS_POOL,
        .removes = random_below(random, 4) == 0,
        .based_on = random_below(random, 3) == 0 ? SETTINGS_ANY : have,
        .name = name_text,
        .value = {value, strlen(value)},
        .author = {"sim", 3},
        .note = {"", 0},
    };
    if (control_edit(node->control, shell_clock(sim, node), &request) != 0)
        return;
    shell_control_tick_at(sim, node, sim->now_ns + 1);
    sim->settings_asked[sim->settings_asked_count++] =
        (struct settings_asked){request.id, node->index, node->boots};
}

/* SIMSETTINGS-3: what was told as done has to stay. */
static void note_done(struct sim *sim, uint64_t version)
{
    const struct settings_past *past = past_of(sim, version);
    if (past == NULL || any_rewound(sim))
        return;
    if (sim->settings_done_count == SIM_EDITS_MAX)
        sim->settings_done_count = 0;
    sim->settings_done[sim->settings_done_count++] = *past;
}

/* SIMSETTINGS-8. */
static void note_refused(struct sim *sim, struct hash128 id)
{
    sim->settings_refused[sim->settings_refused_count++ % SIM_EDITS_MAX] = id;
    for (uint32_t i = 0; i < sim->all_count; i++)
        if (sim->nodes[i].up)
            check_refused(sim, &sim->nodes[i], 0);
}

/* Looks how the edits ended that were asked for; those of a process that has ended are forgotten.
 */
static void look(struct sim *sim)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < sim->settings_asked_count; i++) {
        const struct settings_asked asked = sim->settings_asked[i];
        const struct node *node = &sim->nodes[asked.node];
        if (!node->up || node->boots != asked.boots)
            continue;
        const struct settings_edit *edit = control_edit_find(node->control, asked.id);
        if (edit == NULL)
            continue;
        if (edit->state == SETTINGS_EDIT_WAITS) {
            sim->settings_asked[left++] = asked;
            continue;
        }
        sim->coverage.settings_edits += edit->state == SETTINGS_EDIT_DONE;
        sim->coverage.settings_conflicts += edit->state == SETTINGS_EDIT_CONFLICT;
        sim->coverage.settings_refused += edit->state == SETTINGS_EDIT_UNAVAILABLE;
        sim->coverage.settings_doubts += edit->state == SETTINGS_EDIT_DOUBT;
        if (edit->state == SETTINGS_EDIT_CONFLICT || edit->state == SETTINGS_EDIT_UNAVAILABLE)
            note_refused(sim, asked.id);
        if (edit->state == SETTINGS_EDIT_DONE && edit->changed)
            note_done(sim, edit->version);
    }
    sim->settings_asked_count = left;
}

void settings_operate(struct sim *sim)
{
    look(sim);
    if (sim->now_ns < sim->settings_next_ns)
        return;
    ask(sim);
    sim->settings_next_ns =
        sim->now_ns + random_between(sim_stream(sim, STREAM_SETTINGS), EDIT_MIN_MS * SIM_MS,
                                     EDIT_MAX_MS * SIM_MS);
}

/* ---- at rest --------------------------------------------------------------------------------- */

static bool same_records(const struct settings_table *a, const struct settings_table *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct settings_entry *x = &a->records[i]->entry;
        const struct settings_entry *y = &b->records[i]->entry;
        if (settings_compare(x->kind, &x->name, y->kind, &y->name) != 0 ||
            x->version != y->version || x->value.len != y->value.len ||
            memcmp(x->value.data, y->value.data, x->value.len) != 0)
            return false;
    }
    return true;
}

/* SIMSETTINGS-3. */
static void check_done(struct sim *sim, uint64_t version)
{
    for (uint32_t i = 0; i < sim->settings_done_count; i++) {
        const struct settings_past *done = &sim->settings_done[i];
        const struct settings_past *past = past_of(sim, done->version);
        if (done->version > version || (past != NULL && !hash128_equal(past->digest, done->digest)))
            sim_fail(sim, "settings %llu were told as done, and at rest all are at %llu",
                     (unsigned long long)done->version, (unsigned long long)version);
    }
    sim->settings_done_count = 0;
}

static bool has_settings(const struct node *node)
{
    return node->up && node->disk.now.has_identity;
}

/* One that runs, or NULL. */
static const struct node *some_with_settings(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->all_count; i++)
        if (has_settings(&sim->nodes[i]))
            return &sim->nodes[i];
    return NULL;
}

static bool same_version(const struct settings *a, const struct settings *b)
{
    return a->version == b->version && hash128_equal(a->digest, b->digest) && !b->copying.active;
}

/* Records are looked at only when all are at one version: who has just copied them while others
 * made changes has some that are newer than its version says (SETTINGS-6). */
bool settings_agree(struct sim *sim, char *why)
{
    const struct node *first = some_with_settings(sim);
    if (first == NULL)
        return true;
    const struct settings *a = settings_of(first);
    for (uint32_t i = first->index; i < sim->all_count; i++) {
        const struct node *node = &sim->nodes[i];
        if (!has_settings(node) || same_version(a, settings_of(node)))
            continue;
        (void)snprintf(why, SIM_WHY_LEN, "nodes %u and %u have settings %llx and %llx",
                       first->index, i, (unsigned long long)a->version,
                       (unsigned long long)settings_of(node)->version);
        return false;
    }
    for (uint32_t i = first->index; i < sim->all_count; i++)
        if (has_settings(&sim->nodes[i]) &&
            !same_records(&a->table, &settings_of(&sim->nodes[i])->table))
            sim_fail(sim, "nodes %u and %u are at settings %llu and have other records",
                     first->index, i, (unsigned long long)a->version); /* SIMSETTINGS-4 */
    if (!any_rewound(sim))
        check_done(sim, a->version);
    return true;
}

bool settings_spread(const struct sim *sim, char *why)
{
    const struct register_voters *voters = &settings_of(&sim->nodes[sim->node_count])->voters;
    uint32_t counts[SIM_REGIONS_MAX] = {0};
    uint32_t most = 0;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < voters->count; i++) {
        const int at = node_by_id(sim, voters->ids[i]);
        if (at >= 0)
            counts[node_region(sim, &sim->nodes[at])]++;
    }
    for (uint32_t region = 0; region < sim->options.regions; region++) {
        most = counts[region] > most ? counts[region] : most;
        least = counts[region] < least ? counts[region] : least;
    }
    (void)snprintf(why, SIM_WHY_LEN, "of %u voters of the settings a region has %u, another %u",
                   voters->count, most, least);
    return most <= least + 1; /* SIMSETTINGS-7 */
}
