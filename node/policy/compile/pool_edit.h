/* pool_edit.h - a rules document with one of its pools set, all else left as it was written.
 *
 * Pure; not for the check path: it compiles.
 */
#ifndef NODE_POLICY_COMPILE_POOL_EDIT_H
#define NODE_POLICY_COMPILE_POOL_EDIT_H

#include "base/quantity.h"
#include "node/policy/model/policy.h"

#define POOL_EDIT_KEPT UINT32_MAX /* as it is; of a new pool: as if it were not written */

struct pool_edit {
    const char *name;          /* of 1 .. POLICY_NAME_LEN_MAX bytes */
    struct quantity_rate rate; /* count 0: as it is */
    uint32_t load_max_ppm;     /* 1 .. 1000000, or POOL_EDIT_KEPT */
    uint32_t reserve_percent;  /* 0 .. 100, or POOL_EDIT_KEPT */
    uint32_t scope;            /* enum policy_scope, or POOL_EDIT_KEPT; REGION: no home */
    const char *home;          /* 1 .. POLICY_REGION_LEN_MAX bytes; NULL: as it is */
};

/* Writes the document with the pool as `edit` says into `out`, and its length into `out_len`. 0,
 * TG_EINVALID (the document does not compile), TG_ENOTFOUND (there is no such pool, and a new one
 * needs a rate), TG_ECONFLICT (a home for one that is not global), TG_ETOOBIG, TG_ENOMEM, or
 * TG_EUNSUPPORTED: it cannot be put into the document as that is written. */
MUST_USE int policy_set_pool(const char *text, size_t len, const struct pool_edit *edit,
                             const struct policy_zones *zones, const struct allocator *allocator,
                             char *out, size_t capacity, size_t *out_len);

#endif
