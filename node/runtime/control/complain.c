/* complain.c - what the start of a node says when a step fails; and numbers drawn once. */
#include <sodium.h>

#include "base/assert.h"
#include "node/runtime/control/daemon_state.h"

int daemon_complain(const struct daemon *daemon, int code, const char *sentence)
{
    ASSERT(code != DAEMON_OK); /* whoever complains ends */
    log_printf(daemon->log, LOG_LEVEL_ERROR, "%s", sentence);
    return code;
}

/* Says what is wrong with the store's content, and the way out. What --rebuild has kept, because
 * each byte of it was as it was written, it cannot mend. */
int daemon_complain_corrupt(const struct daemon *daemon, const char *sentence)
{
    log_printf(daemon->log, LOG_LEVEL_ERROR, "%s (%s)", sentence,
               daemon->config->rebuild
                   ? "--rebuild does not help: move the data directory away and start a new node "
                     "with --seed"
                   : "start with --rebuild to set the store aside and refill it from replicas");
    return DAEMON_DATA;
}

uint64_t daemon_random_id(void)
{
    uint64_t id;
    do
        randombytes_buf(&id, sizeof id);
    while (id == 0);
    return id;
}
