/* leases.h - which keys are leased, renewed and given back. I/O thread only. */
#ifndef CLIENT_LIB_LEASES_H
#define CLIENT_LIB_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client_call;
struct client_message;
struct tg_client;

/* One of the call's requests is about to be asked: if it is a refund or a reset of a key of which
 * tokens are held, says before it what was used of them. */
void client_leases_state(struct tg_client *client, const struct client_call *call, size_t index);
/* Notes what the decision of one item says: message->items[at], just filled in. `steady`: until the
 * time it tells. */
void client_leases_note(struct tg_client *client, const struct client_message *message, uint32_t at,
                        bool steady);
/* Renews and gives back what is due. */
void client_leases_tick(struct tg_client *client);
/* At the end: asks to give back all that is held, and what is still to come. Nothing is held, asked
 * for or remembered any more; the calls about it end within 100 ms. */
void client_leases_end(struct tg_client *client);

#endif
