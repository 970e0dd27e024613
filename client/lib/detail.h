/* detail.h - the sentence behind the last error code. Any thread. */
#ifndef CLIENT_LIB_DETAIL_H
#define CLIENT_LIB_DETAIL_H

#include <stddef.h>

struct tg_client;

/* Keeps a sentence for tg_error_detail. */
void client_detail(struct tg_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Copies the sentence that was kept last; `size` > 0. */
void client_detail_get(struct tg_client *client, char *out, size_t size);

#endif
