/* support_tokens.c - msgpack as tests meet it; support_tokens.h is the contract. */
#include "tests/unit/support_tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_LEN = 512 };

bool tokens_put(struct mp_writer *writer, const struct mp_token *token)
{
    switch (token->type) {
    case MP_NIL:
        mp_put_nil(writer);
        return true;
    case MP_BOOL:
        mp_put_bool(writer, token->uint != 0);
        return true;
    case MP_UINT:
        mp_put_uint(writer, token->uint);
        return true;
    case MP_INT:
        mp_put_int(writer, token->sint);
        return true;
    case MP_FLOAT:
        mp_put_real(writer, token->real);
        return true;
    case MP_STR:
        mp_put_strn(writer, (const char *)token->data, token->count);
        return true;
    case MP_BIN:
        mp_put_bin(writer, token->data, token->count);
        return true;
    case MP_ARRAY:
        mp_put_array(writer, token->count);
        return true;
    case MP_MAP:
        mp_put_map(writer, token->count);
        return true;
    case MP_EXT:
        break;
    }
    return false;
}

struct mp_cursor tokens_open(const struct mp_token *tokens, size_t count)
{
    struct mp_cursor cursor;
    mp_cursor_init(&cursor, tokens, count);
    return cursor;
}

struct mp_cursor tokens_field(struct mp_cursor map, const char *name)
{
    const uint32_t pairs = mp_get_map(&map);
    for (uint32_t i = 0; i < pairs; i++) {
        size_t len = 0;
        const char *found = mp_get_str(&map, &len);
        if (found != NULL && len == strlen(name) && memcmp(found, name, len) == 0)
            return map;
        mp_skip(&map);
    }
    fail_msg("no field %s", name);
    return map;
}

uint64_t tokens_uint(struct mp_cursor map, const char *name)
{
    struct mp_cursor at = tokens_field(map, name);
    const uint64_t value = mp_get_uint(&at);
    assert_false(at.failed);
    return value;
}

void tokens_assert_text(struct mp_cursor map, const char *name, const char *expected)
{
    char text[TEXT_LEN];
    struct mp_cursor at = tokens_field(map, name);
    mp_copy_str(&at, text, sizeof text);
    assert_false(at.failed);
    assert_string_equal(text, expected);
}
