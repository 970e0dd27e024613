/* block_record.h - a block as the configuration store keeps it. */
#ifndef NODE_CLUSTER_CONFIGSTORE_BLOCK_RECORD_H
#define NODE_CLUSTER_CONFIGSTORE_BLOCK_RECORD_H

#include <stdbool.h>

#include "node/cluster/configstore/settings_table.h"
#include "node/policy/people/blocks.h"

enum { BLOCK_UNTIL_LEN = 8 };

/* Reads a setting of kind SETTINGS_BLOCK; false if it is none. What it points to is the entry's. */
bool control_block_of(const struct settings_entry *entry, struct block *out);

#endif
