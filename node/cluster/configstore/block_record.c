/* block_record.c - a block as the configuration store keeps it: its end, 8 bytes, and its reason.
 */
#include "node/cluster/configstore/block_record.h"

#include "base/bytes.h"

bool control_block_of(const struct settings_entry *entry, struct block *out)
{
    if (entry->value.len < BLOCK_UNTIL_LEN)
        return false;
    out->name = (struct policy_text){entry->name.data, entry->name.len};
    out->until_ms = bytes_u64_at((const uint8_t *)entry->value.data, 0);
    out->reason = (struct policy_text){entry->value.data + BLOCK_UNTIL_LEN,
                                       entry->value.len - BLOCK_UNTIL_LEN};
    return true;
}
