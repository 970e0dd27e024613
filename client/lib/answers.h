/* answers.h - what comes back from the nodes, and the questions about the cluster itself. I/O
 * thread only. */
#ifndef CLIENT_LIB_ANSWERS_H
#define CLIENT_LIB_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

struct tg_client;

void client_answer(struct tg_client *client, uint16_t link, const void *frame, size_t len);
void client_hello(struct tg_client *client, uint16_t link);

#endif
