/* messages.h - what is on its way to a node, and is sent again until it is answered or too late.
 * I/O thread only. */
#ifndef CLIENT_LIB_MESSAGES_H
#define CLIENT_LIB_MESSAGES_H

#include <stdint.h>

struct client_call;
struct client_message; /* message.h */
struct tg_client;

/* Takes the queued calls in and places items and messages that wait; sends what can be sent. */
void client_dispatch(struct tg_client *client, struct client_call *queue);
/* A link came up or went down: what was sent over it moves. */
void client_messages_move(struct tg_client *client, uint16_t link);
/* Retries and gives up what is due; sets wake_ns. */
void client_messages_tick(struct tg_client *client);
/* Ends every call that somebody waits for with TG_ECLOSED. */
void client_messages_close(struct tg_client *client);
/* Ends all that is left, and frees it. */
void client_messages_end(struct tg_client *client);
void client_message_free(struct tg_client *client, struct client_message *message);
/* Tells the window of its link what came of it. */
void client_message_answered(struct tg_client *client, struct client_message *message);
void client_message_refused(struct tg_client *client, struct client_message *message);

#endif
