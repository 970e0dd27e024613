/* links.c - which endpoint has which number, and which of them are connected.
 *
 *   FREE --number--> KNOWN --want--> OPEN --drop--> KNOWN, without a socket --forget--> FREE
 *
 * LINKS-1  The route's table and the messages name links by number, so a number stays an endpoint's
 *          own until nothing refers to it any more: one that is free has no socket and no items.
 */
#include "client/lib/links.h"

#include <string.h>

#include "base/assert.h"
#include "client/lib/client.h"
#include "client/lib/detail.h"

uint16_t client_link_number(struct tg_client *client, const char *endpoint)
{
    uint16_t number = CLIENT_LINK_NONE;

    for (uint16_t i = 0; i < client->driver.link_count; i++) {
        if (strcmp(client->driver.links[i].endpoint, endpoint) == 0)
            return i;
        if (client->driver.links[i].endpoint[0] == '\0' && number == CLIENT_LINK_NONE)
            number = i;
    }
    if (number == CLIENT_LINK_NONE && client->driver.link_count < CLIENT_LINKS_MAX)
        number = client->driver.link_count++;
    if (number == CLIENT_LINK_NONE)
        return number;
    client->driver.links[number] = (struct client_link){
        .checks_max = WIRE_CHECKS_MAX,
        .message_max = WIRE_MESSAGE_MAX,
    };
    const int least_ms = client->config.try_timeout_ms < client->config.timeout_ms
                             ? client->config.try_timeout_ms
                             : client->config.timeout_ms;
    client_window_init(&client->driver.links[number].window, client->config.items_max,
                       (int64_t)least_ms * 1000000 / CLIENT_WAIT_SHARE);
    ASSERT(strlen(endpoint) < CLIENT_ENDPOINT_LEN && number < client->driver.link_count);
    memcpy(client->driver.links[number].endpoint, endpoint, strlen(endpoint) + 1);
    return number;
}

void client_link_want(struct tg_client *client, uint16_t number)
{
    ASSERT(number < client->driver.link_count); /* LINKS-1 */
    struct client_link *link = &client->driver.links[number];

    if (link->socket != NULL || link->refused != 0)
        return;
    if (client_link_open(link, client->driver.context, &client->config.keys,
                         ++client->driver.monitor_names) != 0) {
        link->refused = TG_EIO;
        client_detail(client, "%s: %s", link->endpoint, link->reason);
    }
    client->driver.polls.stale = true;
}

void client_link_drop(struct tg_client *client, uint16_t number)
{
    ASSERT(!client->driver.links[number].configured);
    client_link_close(&client->driver.links[number]);
    client->driver.polls.stale = true;
}

void client_link_forget(struct tg_client *client, uint16_t number)
{
    struct client_link *link = &client->driver.links[number];

    ASSERT(link->socket == NULL && link->queue.count == 0 && !link->configured);
    link->endpoint[0] = '\0';
}
