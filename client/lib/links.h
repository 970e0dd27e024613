/* links.h - the handle's table of links: one number for each endpoint. I/O thread only. */
#ifndef CLIENT_LIB_LINKS_H
#define CLIENT_LIB_LINKS_H

#include <stdint.h>

struct tg_client;

/* The number of the link to an endpoint, made if it is new; CLIENT_LINK_NONE if there is no room.
 */
uint16_t client_link_number(struct tg_client *client, const char *endpoint);
/* Connects the link if it is not. */
void client_link_want(struct tg_client *client, uint16_t number);
/* Disconnects a link for good. Its number is free after client_link_forget: what was sent over the
 * link, or waits for it, moves in between. */
void client_link_drop(struct tg_client *client, uint16_t number);
void client_link_forget(struct tg_client *client, uint16_t number);

#endif
