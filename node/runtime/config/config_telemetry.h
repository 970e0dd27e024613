/* config_telemetry.h - where traces and metrics are pushed, by the project's and OpenTelemetry's
 * names; for the configuration and what is made of it. */
#ifndef NODE_RUNTIME_CONFIG_CONFIG_TELEMETRY_H
#define NODE_RUNTIME_CONFIG_CONFIG_TELEMETRY_H

#include "node/runtime/config/config.h"

/* Sets what variables of the environment say (OTEL_...), over the defaults. One that is wrong is
 * ignored, and telemetry.ignored says so: such variables are often meant for other programs. */
void config_telemetry_environment(struct config *config);
/* Derives the address of each signal, and checks what one option alone cannot tell. */
MUST_USE int config_telemetry_check(struct config *config, char error[CONFIG_ERROR_LEN]);

/* One NAME=VALUE of a list with commas between them; the value is percent-decoded. */
enum { CONFIG_PAIR_LEN = 1024 };
struct config_pair {
    char name[CONFIG_PAIR_LEN];
    char value[CONFIG_PAIR_LEN];
};
/* Takes the pair at *text and goes behind it. False: there is none, or it is no pair, and *text
 * stays where it is. */
bool config_pair_next(const char **text, struct config_pair *out);

#endif
