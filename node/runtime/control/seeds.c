/* seeds.c - seeds as written into gossip addresses: a name may stand for many nodes.
 *
 * Resolved at start, and again every few seconds while no cluster was found; the addresses found
 * are tried for ever. A name that does not resolve is logged and left out: the other seeds, and
 * members known from earlier, still count.
 */
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/runtime/control/daemon_state.h"

static uint32_t add(char (*seeds)[VIEW_TEXT_LEN], uint32_t count, const char *host, uint16_t port)
{
    char text[CONFIG_ENDPOINT_LEN];
    struct config_endpoint endpoint = {.port = port};
    (void)snprintf(endpoint.host, sizeof endpoint.host, "%s", host);
    config_endpoint_text(&endpoint, text);
    ASSERT(count <= CONTROL_SEEDS_MAX);
    if (count == CONTROL_SEEDS_MAX || strlen(text) >= VIEW_TEXT_LEN)
        return count;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(seeds[i], text) == 0)
            return count;
    memcpy(seeds[count], text, strlen(text) + 1);
    return count + 1;
}

uint32_t seeds_resolve(const struct config *config, char (*seeds)[VIEW_TEXT_LEN],
                       const struct log *log, char lost[SEEDS_LOST_LEN])
{
    uint32_t count = 0;
    lost[0] = '\0';
    for (uint32_t i = 0; i < config->seed_count; i++) {
        const struct config_endpoint *seed = &config->seeds[i];
        struct addrinfo *list = NULL;
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        const int error = getaddrinfo(seed->host, NULL, &hints, &list);
        if (error != 0) {
            const size_t len = strlen(lost);
            ASSERT(len < SEEDS_LOST_LEN);
            log_printf(log, LOG_LEVEL_WARN, "seed %s: %s", seed->host, gai_strerror(error));
            (void)snprintf(lost + len, SEEDS_LOST_LEN - len, "; seed %s cannot be resolved",
                           seed->host);
            continue;
        }
        for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
            char host[CONFIG_HOST_LEN];
            if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof host, NULL, 0,
                            NI_NUMERICHOST) == 0)
                count = add(seeds, count, host, seed->port);
        }
        freeaddrinfo(list);
    }
    return count;
}
