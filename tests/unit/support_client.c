/* support_client.c - see support_client.h. */
#include "tests/unit/support_client.h"

#include <stdatomic.h>

#include "client/lib/client.h"

tg_client_t *client_open_checked(const char *endpoints, const tg_options_t *options)
{
    tg_client_t *client = tg_open(endpoints, options);

    if (client != NULL)
        atomic_store(&client->shared.checked, true);
    return client;
}
