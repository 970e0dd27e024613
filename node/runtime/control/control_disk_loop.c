/* control_disk_loop.c - what the control loop keeps on disk, and what it does when there is no
 * room.
 *
 *   carry_out --> disk_keep --kept--> the next effect
 *                     |
 *                     +--no room--> control goes back to what is stored (node/cluster/
 *                     |             control_disk.c); each second as much is written as was
 *                     |             refused, until that succeeds --> control goes on
 *                     +--else-----> the node stops: what is on disk is not known
 *
 * DISKLOOP-1  After TG_EFULL nothing was changed on disk (STORE-1), so reading it tells what has
 *             been promised. After any other error that is not certain, and a node that might break
 *             a promise is of no use.
 * DISKLOOP-2  A node that does not serve yet has nothing to go on with: it stops in words.
 * DISKLOOP-3  An incarnation that could not be kept is kept later. The process's own is on disk
 *             since its start; a higher one only refutes rumours, and what gossip remembers of it
 *             is refuted again after a restart.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "node/runtime/control/daemon_state.h"

enum { PROBE_LEN_MIN = 4096 };
#define PROBE_KEY "control.probe"
#define PROBE_NS  INT64_C(1000000000)

static void stop(struct daemon *daemon, const char *what, int error)
{
    log_printf(daemon->log, LOG_LEVEL_ERROR, "cannot keep %s: %s; stopping", what,
               error_message(error));
    daemon->end.exit_code = DAEMON_DATA;
    daemon->end.done = true;
}

static void tell_full(struct daemon *daemon, const char *what, size_t len)
{
    if (!control_disk_full(daemon->control))
        log_printf(daemon->log, LOG_LEVEL_ERROR,
                   "no room in %s for %s (%zu bytes): the node serves on, and takes no part in "
                   "changes of the ring and of the configuration until there is",
                   daemon->config->data, what, len);
    daemon->kept_on_disk.refused_len = len < PROBE_LEN_MIN ? (size_t)PROBE_LEN_MIN : len;
    daemon->kept_on_disk.probed_ns = clock_now_ns(&daemon->clock);
}

/* DISKLOOP-1. */
static int go_back(struct daemon *daemon)
{
    ASSERT(daemon->store != NULL && daemon->shard_count > 0); /* DISKLOOP-2 */
    struct daemon_ring ring;
    int error = daemon_recall_ring(daemon, &ring);
    const struct control_stored stored = {ring.config, ring.config_len, ring.ballots,
                                          ring.ballots_len};
    if (error == 0)
        error = control_disk_refused(daemon->control, clock_now_ns(&daemon->clock), &stored);
    if (error == 0)
        error = daemon_recall_settings(daemon);
    daemon_ring_free(&ring);
    return error;
}

bool disk_keep(struct daemon *daemon, const struct effect *effects, size_t count)
{
    size_t len = 0;
    if (daemon->store == NULL)
        return true;
    ASSERT(count > 0 && count <= EFFECTS_KEPT);
    for (size_t i = 0; i < count; i++) {
        daemon->kept_on_disk.items[i] = (struct store_meta_item){
            .key = effects[i].address, .data = effects[i].bytes, .len = effects[i].len};
        len += effects[i].len;
    }
    failure_meta(daemon->failpoints, false, effects[0].address);
    int error = store_meta_put_many(daemon->store, daemon->kept_on_disk.items, count);
    failure_meta(daemon->failpoints, true, effects[0].address);
    if (error == TG_EFULL && daemon->shard_count > 0) { /* DISKLOOP-2 */
        tell_full(daemon, effects[0].address, len);
        error = go_back(daemon);
        if (error == 0)
            return false;
    }
    if (error != 0)
        stop(daemon, effects[0].address, error);
    return error == 0;
}

void disk_keep_incarnation(struct daemon *daemon, uint64_t incarnation)
{
    const int error =
        daemon->store == NULL ? 0 : store_raise_incarnation(daemon->store, incarnation);
    daemon->kept_on_disk.incarnation_due = error != 0 ? incarnation : 0; /* DISKLOOP-3 */
    if (error != 0 && error != TG_EFULL)
        stop(daemon, "the incarnation", error);
}

/* Whether as much can be written as was refused. */
static int probe(struct daemon *daemon)
{
    ASSERT(daemon->kept_on_disk.refused_len >= PROBE_LEN_MIN);
    const size_t len = daemon->kept_on_disk.refused_len < (size_t)STORE_META_VALUE_MAX
                           ? daemon->kept_on_disk.refused_len
                           : (size_t)STORE_META_VALUE_MAX;
    uint8_t *bytes = calloc(1, len);
    if (bytes == NULL)
        return TG_ENOMEM;
    int error = store_meta_put(daemon->store, PROBE_KEY, bytes, len);
    free(bytes);
    if (error == 0)
        error = store_meta_put(daemon->store, PROBE_KEY, NULL, 0);
    return error;
}

void disk_look(struct daemon *daemon)
{
    const bool full = control_disk_full(daemon->control);
    const int64_t now_ns = clock_now_ns(&daemon->clock);
    if ((!full && daemon->kept_on_disk.incarnation_due == 0) ||
        now_ns - daemon->kept_on_disk.probed_ns < PROBE_NS)
        return;
    daemon->kept_on_disk.probed_ns = now_ns;
    if (daemon->kept_on_disk.incarnation_due != 0)
        disk_keep_incarnation(daemon, daemon->kept_on_disk.incarnation_due);
    if (!full || probe(daemon) != 0)
        return;
    log_printf(daemon->log, LOG_LEVEL_INFO, "there is room in %s again", daemon->config->data);
    control_disk_has_room(daemon->control);
    ASSERT(!control_disk_full(daemon->control));
}
