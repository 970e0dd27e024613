/* detail.c - the sentence behind the last error code: the newest one stands, under the lock. */
#include "client/lib/detail.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "client/lib/client.h"

void client_detail(struct tg_client *client, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)pthread_mutex_lock(&client->shared.lock);
    (void)vsnprintf(client->shared.detail, sizeof client->shared.detail, format, arguments);
    (void)pthread_mutex_unlock(&client->shared.lock);
    va_end(arguments);
}

void client_detail_get(struct tg_client *client, char *out, size_t size)
{
    ASSERT(size > 0);
    (void)pthread_mutex_lock(&client->shared.lock);
    (void)snprintf(out, size, "%s", client->shared.detail);
    (void)pthread_mutex_unlock(&client->shared.lock);
}
