/* zones.h - what the system knows of time zones, as tables for node/policy.
 *
 * The zone database is the system's (tzdata), read by GLib. Asked only while rules are compiled.
 */
#ifndef NODE_ZONES_ZONES_H
#define NODE_ZONES_ZONES_H

#include "node/policy/model/policy.h"

/* Zones of the system, over the years that a limit can live in. Any thread. */
const struct policy_zones *zones_system(void);

#endif
