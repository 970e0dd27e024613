/* control_disk.c - a disk without room: nothing new is kept, what was kept goes on.
 *
 *   event --> effects --> the disk has no room for a value
 *                           |  what is left of these effects is dropped, frames as well
 *                           v
 *        control_disk_refused: the core becomes what the disk says, as after a restart
 *                           |
 *          FULL: serves on by it; no votes, no edits, no newer ring or settings
 *                           |
 *        control_disk_has_room: asks the others for what it lacks, votes, carries on what it
 *                               has accepted
 *
 * DISKFULL-1  Nothing that the disk refused was told to anybody, shown to an operator or a shard,
 *             or counted: a value precedes in the effects whatever rests on it, and no other event
 *             comes between them and control_disk_refused. So all that is lost is work.
 * DISKFULL-2  An own ballot is used once, although the record of it may be lost (register_forget).
 * DISKFULL-3  An edit that nobody was offered is refused for good; of any other it is said that it
 *             may come about.
 * DISKFULL-4  Members tell in their records that their disks are full, so that all can say who is
 *             missing. That is no reason to begin a new lineage by force: only the dead are. Who
 *             proposes by itself is chosen among the others; yet a transition of the ring does not
 *             end without its members, so it waits for room at those that live (PROPOSE-4).
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/control/control_state.h"

enum { PLACE_LEN = 120 }; /* of a sentence */

bool control_disk_full(const struct control *control)
{
    return control->disk_full;
}

/* ---- back to what is stored ------------------------------------------------------------------ */

int control_disk_refused(struct control *control, int64_t now_ns,
                         const struct control_stored *stored)
{
    control->now_ns = now_ns;
    control->disk_full = true;
    control->peers_due = true;
    control_edits_note(control, false);
    register_forget(control->ballots);
    settings_forget(control->settings);
    memset(control->config, 0, sizeof *control->config);
    const int error = control_recall(control, stored);
    control_tell_ring(control);
    return error;
}

void control_disk_has_room(struct control *control)
{
    if (!control->disk_full)
        return;
    control->disk_full = false;
    control_tell_self(control);
}

/* ---- what is said of it ---------------------------------------------------------------------- */

void control_say_disk_full(const struct control *control, char *out, size_t capacity)
{
    (void)snprintf(out, capacity,
                   "the disk of %s has no room (%.*s), so it cannot take part in a change: make "
                   "room there, or ask another node",
                   control->options.name, PLACE_LEN, control->options.data);
}

/* DISKFULL-4. */
static bool lacks_room(const struct control *control, uint64_t id)
{
    if (id == control->options.node_id)
        return control->disk_full;
    return control_alive(control, id) && (control_flags(control, id) & CONTROL_FLAG_FULL) != 0;
}

/* Whether the voter can keep what it promises. */
static bool can_vote(const struct control *control, uint64_t id)
{
    const bool lives = id == control->options.node_id || control_alive(control, id);
    return lives && !lacks_room(control, id);
}

bool control_voters_full(const struct control *control, const uint64_t *voters, uint32_t count)
{
    uint32_t able = 0;
    uint32_t full = 0;
    for (uint32_t i = 0; i < count; i++) {
        able += can_vote(control, voters[i]);
        full += lacks_room(control, voters[i]);
    }
    return full > 0 && able < count / 2 + 1;
}

void control_say_voters_full(const struct control *control, const uint64_t *voters, uint32_t count,
                             char *out, size_t capacity)
{
    const char *joint = "no room on the disks of voters ";
    int len = 0;
    for (uint32_t i = 0; i < count && len >= 0 && (size_t)len < capacity; i++) {
        const struct swim_member *member = swim_find(control->swim, voters[i]);
        if (!lacks_room(control, voters[i]))
            continue;
        len += snprintf(out + len, capacity - (size_t)len, "%s%s", joint,
                        member != NULL ? member->record.name : "?");
        joint = ", ";
    }
    if (len >= 0 && (size_t)len < capacity)
        (void)snprintf(out + len, capacity - (size_t)len,
                       ": the configuration cannot be changed before there is room in the data "
                       "directories of most voters");
}

/* ---- edits ----------------------------------------------------------------------------------- */

static void refuse(const struct control *control, struct settings_edit *edit)
{
    static const char doubt[] = "; whether this change comes about all the same is not known yet: "
                                "look at the history before you repeat it";
    /* DISKFULL-3 */
    const bool offered =
        control_edit_may_come(control, edit) || register_in_doubt(control->settings->ballots);
    control_edit_end(control, edit, offered ? SETTINGS_EDIT_DOUBT : SETTINGS_EDIT_UNAVAILABLE, 0);
    control_say_disk_full(control, edit->sentence, sizeof edit->sentence - sizeof doubt);
    if (offered)
        memcpy(edit->sentence + strlen(edit->sentence), doubt, sizeof doubt);
}

void control_edits_refuse(struct control *control)
{
    const struct settings *settings = control->settings;
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX; i++) {
        struct settings_edit *edit = &control->settings->edits[i];
        const bool undone = edit->state == SETTINGS_EDIT_DONE && edit->version > settings->version;
        if (edit->state == SETTINGS_EDIT_WAITS || undone)
            refuse(control, edit);
    }
}
