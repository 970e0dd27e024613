/* policy_text.c - comparing texts.
 *
 * Must not: allocate.
 */
#include <string.h>

#include "node/policy/model/policy_internal.h"

int policy_text_compare(const struct policy_text *a, const struct policy_text *b)
{
    const size_t len = a->len < b->len ? a->len : b->len;
    const int order = len == 0 ? 0 : memcmp(a->data, b->data, len);

    if (order != 0)
        return order;
    return (a->len > b->len) - (a->len < b->len);
}
