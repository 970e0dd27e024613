/* loop.h - the turns of the driver. */
#ifndef CLIENT_LIB_LOOP_H
#define CLIENT_LIB_LOOP_H

struct client_call;
struct tg_client;

/* Drives until the handle closes: the life of the handle's own thread. */
void client_loop(struct tg_client *client);
/* A caller that became the driver: takes turns until its call ended or others need the thread. */
void client_drive(struct tg_client *client, const struct client_call *call);

#endif
