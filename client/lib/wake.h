/* wake.h - how other threads get the driver to look. Any thread. */
#ifndef CLIENT_LIB_WAKE_H
#define CLIENT_LIB_WAKE_H

struct tg_client;

/* Ends the driver's sleep, if there is a driver and it sleeps. */
void client_wake(struct tg_client *client);
/* Sees to it that somebody drives, and looks at what is due. */
void client_nudge(struct tg_client *client);

#endif
