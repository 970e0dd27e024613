/* recall.c - what the store knows of the ring and the settings, for a control core that begins. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/configstore/settings.h"
#include "node/runtime/control/daemon_state.h"

/* A stored meta value in fresh memory, NULL if there is none. */
int daemon_recall_meta(struct daemon *daemon, const char *key, uint8_t **out, size_t *len)
{
    *out = NULL;
    *len = 0;
    if (daemon->store == NULL)
        return 0;
    const int error =
        store_meta_get(daemon->store, key, daemon->config_bytes, sizeof daemon->config_bytes, len);
    if (error != 0 || *len == 0)
        return error == TG_ENOTFOUND ? 0 : error;
    ASSERT(*len <= sizeof daemon->config_bytes);
    *out = malloc(*len);
    if (*out == NULL)
        return TG_ENOMEM;
    memcpy(*out, daemon->config_bytes, *len);
    return 0;
}

int daemon_recall_ring(struct daemon *daemon, struct daemon_ring *ring)
{
    memset(ring, 0, sizeof *ring);
    const int error = daemon_recall_meta(daemon, "ring.config", &ring->config, &ring->config_len);
    if (error != 0)
        return error;
    ASSERT((ring->config == NULL) == (ring->config_len == 0));
    return daemon_recall_meta(daemon, "ring.register", &ring->ballots, &ring->ballots_len);
}

void daemon_ring_free(struct daemon_ring *ring)
{
    free(ring->config);
    free(ring->ballots);
    memset(ring, 0, sizeof *ring);
}

static int recall_setting(void *context, const char *key, const void *data, size_t len)
{
    struct daemon *daemon = context;
    return control_restore_settings(daemon->control, key, data, len);
}

int daemon_recall_settings(struct daemon *daemon)
{
    if (daemon->store == NULL)
        return 0;
    const int error = store_meta_scan(daemon->store, SETTINGS_PREFIX, recall_setting, daemon);
    return error != 0 ? error : control_settings_restored(daemon->control);
}
