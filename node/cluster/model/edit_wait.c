/* edit_wait.c - see edit_wait.h. */
#include "node/cluster/model/edit_wait.h"

#include <string.h>

#include "base/mp_walk.h"
#include "client/protocol/wire.h"

const char edit_wait_state[] = "waiting";

/* Whether the question is to be answered when the edit is decided. */
static bool would_wait(const void *frame, size_t len)
{
    enum { TOKENS = 1024 };
    char error[WIRE_ERROR_LEN];
    struct mp_token tokens[TOKENS];
    struct wire_admin admin;
    if (wire_decode_admin(frame, len, tokens, TOKENS, &admin, error) != 0)
        return false;
    const struct mp_token *wait =
        mp_find(admin.arguments.tokens, admin.arguments.token_count, "wait");
    return wait != NULL && wait->type == MP_BOOL && wait->uint != 0;
}

size_t edit_wait_again(const void *frame, size_t len, const void *reply, size_t reply_len,
                       uint8_t out[EDIT_WAIT_LEN])
{
    enum { TOKENS = 64, STATE_LEN = 16 }; /* an edit has fewer */
    char error[WIRE_ERROR_LEN];
    char state[STATE_LEN];
    struct mp_token tokens[TOKENS];
    struct wire_admin_reply said;
    struct mp_writer writer;
    if (wire_decode_admin_reply(reply, reply_len, tokens, TOKENS, &said, error) != 0 ||
        said.code != 0)
        return 0;
    const struct mp_token *id = mp_find(said.value.tokens, said.value.token_count, "id");
    mp_text_of(mp_find(said.value.tokens, said.value.token_count, "state"), state, sizeof state);
    if (id == NULL || id->type != MP_STR || strcmp(state, edit_wait_state) != 0 ||
        !would_wait(frame, len))
        return 0;
    mp_writer_init(&writer, out, EDIT_WAIT_LEN);
    wire_begin_admin(&writer, said.session, said.seq, "edit.state");
    mp_put_map(&writer, 2);
    mp_put_str(&writer, "id");
    mp_put_strn(&writer, (const char *)id->data, id->count);
    mp_put_str(&writer, "wait");
    mp_put_bool(&writer, true);
    return writer.failed ? 0 : writer.len;
}
