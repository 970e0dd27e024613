/* wake.c - the eventfd that ends the driver's sleep, and the condition that ends the thread's. */
#include "client/lib/wake.h"

#include <unistd.h>

#include "client/lib/client.h"

void client_wake(struct tg_client *client)
{
    const uint64_t one = 1;

    (void)!write(client->shared.wake_fd, &one, sizeof one); /* a full counter is awake already */
}

void client_nudge(struct tg_client *client)
{
    (void)pthread_mutex_lock(&client->shared.lock);
    if (client->shared.driver == CLIENT_DRIVER_NONE) {
        client->shared.driver = CLIENT_DRIVER_THREAD;
        (void)pthread_cond_signal(&client->shared.driver_changed);
    }
    (void)pthread_mutex_unlock(&client->shared.lock);
    client_wake(client);
}
