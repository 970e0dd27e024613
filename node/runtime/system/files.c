/* files.c - keeps descriptors from clients; files.h tells how.
 *
 * FILES-1  While it is not paused, `kept` descriptors are spares (as many as could be had): whoever
 *          accepts, they are not taken.
 * FILES-2  While it is paused, no client is accepted: who comes waits in the kernel's queue.
 * FILES-3  It is let in again only when the spares can be held and as many as MARGIN are left.
 */
#include "node/runtime/system/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

enum {
    MARGIN = 8,
    CHUNK = 256, /* descriptors that are looked at together */
};

#define LOG_NS INT64_C(10000000000)

void files_init(struct files *files, uint32_t max)
{
    memset(files, 0, sizeof *files);
    files->max = max;
    files->kept = max / 4 < FILES_SPARES_MAX ? max / 4 : FILES_SPARES_MAX;
    ASSERT(files->kept <= FILES_SPARES_MAX && files->kept <= max); /* FILES-1 */
}

static void give_spares(struct files *files)
{
    while (files->spare_count > 0)
        (void)close(files->spares[--files->spare_count]);
}

void files_fini(struct files *files)
{
    give_spares(files);
}

void files_hold(struct files *files)
{
    while (files->spare_count < files->kept) {
        const int spare = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (spare < 0)
            return;
        ASSERT(spare > STDERR_FILENO && files->spare_count < FILES_SPARES_MAX); /* FILES-1 */
        files->spares[files->spare_count++] = spare;
    }
}

/* How many descriptors are free, up to `enough`. They are given out lowest first, so as long as a
 * low one is free, nearly all above it are. */
static uint32_t count_free(const struct files *files, uint32_t enough)
{
    struct pollfd chunk[CHUNK];
    uint32_t found = 0;
    const int lowest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (lowest < 0)
        return 0;
    (void)close(lowest);
    for (uint32_t at = (uint32_t)lowest; at < files->max && found < enough; at += CHUNK) {
        const uint32_t left = files->max - at;
        const uint32_t count = left < CHUNK ? left : CHUNK;
        for (uint32_t i = 0; i < count; i++)
            chunk[i] = (struct pollfd){.fd = (int)(at + i)};
        if (poll(chunk, count, 0) < 0)
            return enough;
        for (uint32_t i = 0; i < count; i++)
            found += (chunk[i].revents & POLLNVAL) != 0;
    }
    return found < enough ? found : enough;
}

static void pause_clients(struct files *files, int64_t now_ns, const struct log *log)
{
    atomic_store(&files->paused, true);
    give_spares(files);              /* FILES-2 */
    ASSERT(files->spare_count == 0); /* FILES-2 */
    files->pauses++;
    if (files->logged_ns != 0 && now_ns - files->logged_ns < LOG_NS)
        return;
    files->logged_ns = now_ns;
    log_printf(log, LOG_LEVEL_WARN,
               "all but the last %" PRIu32 " of the %" PRIu32
               " files that this process may open are in use: no further client is let in until "
               "some leave; those are for peers, gossip and the disk (ulimit -n, LimitNOFILE)",
               files->kept, files->max);
}

void files_look(struct files *files, int64_t now_ns, const struct log *log)
{
    if (!atomic_load(&files->paused)) {
        if (count_free(files, MARGIN) < MARGIN)
            pause_clients(files, now_ns, log);
        return;
    }
    const uint32_t enough = files->kept + 2 * MARGIN; /* FILES-3 */
    if (count_free(files, enough) < enough)
        return;
    files_hold(files);
    atomic_store(&files->paused, false);
}
