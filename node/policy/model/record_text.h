/* record_text.h - texts of records that the configuration store keeps as MessagePack.
 *
 * Pure. What is read is borrowed.
 */
#ifndef NODE_POLICY_MODEL_RECORD_TEXT_H
#define NODE_POLICY_MODEL_RECORD_TEXT_H

#include "base/mp.h"
#include "node/policy/model/policy.h"

static inline void record_put_text(struct mp_writer *writer, const struct policy_text *text)
{
    mp_put_strn(writer, text->data != NULL ? text->data : "", text->len);
}

/* "" and a failed cursor, if there is none, or one of more than `len_max` bytes. */
static inline struct policy_text record_get_text(struct mp_cursor *cursor, size_t len_max)
{
    struct policy_text text;
    text.data = mp_get_str(cursor, &text.len);
    if (text.data == NULL || text.len > len_max) {
        cursor->failed = true;
        text = (struct policy_text){"", 0};
    }
    return text;
}

#endif
