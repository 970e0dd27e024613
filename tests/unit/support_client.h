/* support_client.h - handles whose driver looks at its own state after each turn. */
#ifndef TESTS_UNIT_SUPPORT_CLIENT_H
#define TESTS_UNIT_SUPPORT_CLIENT_H

#include "base/error.h"

#include "client/include/tidegate.h"

/* tg_open; from then on each turn of the handle ends with client_check_invariants. */
tg_client_t *client_open_checked(const char *endpoints, const tg_options_t *options);

#endif
