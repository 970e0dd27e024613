/* check.h - whether a handle is whole. */
#ifndef CLIENT_LIB_CHECK_H
#define CLIENT_LIB_CHECK_H

struct tg_client;

/* Asserts the invariants that the driver's state can show; O(items x live calls), so for tests.
 * Between two turns, on the thread that drives. */
void client_check_invariants(const struct tg_client *client);

#endif
