/* fuzz_mp.c - the msgpack reader, its cursor, and what is shown of a value on the command line.
 *
 * Properties: a parsed value written again parses to the same tokens; a cursor never leaves them,
 * whatever is asked of it; JSON and YAML made of it are read by an independent parser.
 */
#include <yaml.h>

#include "base/mp.h"
#include "base/mp_walk.h"
#include "client/cli/output/document.h"
#include "client/cli/output/table.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/support_tokens.h"

enum { TOKENS_MAX = 512, BYTES_MAX = 1 << 16, GETTERS = 12 };

/* Writes the tokens as they come; false if there is one that cannot be written. */
static bool write_tokens(struct mp_writer *writer, const struct mp_token *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!tokens_put(writer, &tokens[i])) {
            return false;
        }
    }
    return !writer->failed;
}

static void try_again(const struct mp_token *tokens, size_t count)
{
    static uint8_t bytes[BYTES_MAX];
    static struct mp_token again[TOKENS_MAX];
    struct mp_writer writer;
    mp_writer_init(&writer, bytes, sizeof(bytes));
    if (!write_tokens(&writer, tokens, count)) {
        return;
    }
    ASSERT(mp_parse(bytes, writer.len, again, TOKENS_MAX) == (int)count);
    for (size_t i = 0; i < count; i++) {
        ASSERT(again[i].type == tokens[i].type && again[i].count == tokens[i].count);
        if (tokens[i].type == MP_UINT || tokens[i].type == MP_BOOL) {
            ASSERT(again[i].uint == tokens[i].uint);
        }
    }
}

/* Asks a cursor for whatever the bytes say. */
static void try_cursor(const struct mp_token *tokens, size_t count, const uint8_t *asks, size_t len)
{
    struct mp_cursor cursor;
    char text[16];
    size_t text_len = 0;
    mp_cursor_init(&cursor, tokens, count);
    for (size_t i = 0; i < len && i < 4 * TOKENS_MAX; i++) {
        switch (asks[i] % GETTERS) {
        case 0:
            (void)mp_get_array(&cursor);
            break;
        case 1:
            (void)mp_get_map(&cursor);
            break;
        case 2:
            (void)mp_get_uint(&cursor);
            break;
        case 3:
            (void)mp_get_int(&cursor);
            break;
        case 4:
            (void)mp_get_bool(&cursor);
            break;
        case 5:
            (void)mp_get_real(&cursor);
            break;
        case 6:
            (void)mp_get_str(&cursor, &text_len);
            break;
        case 7:
            (void)mp_get_bin(&cursor, &text_len);
            break;
        case 8:
            (void)mp_get_bin_exact(&cursor, asks[i]);
            break;
        case 9:
            mp_copy_str(&cursor, text, sizeof(text));
            break;
        default:
            mp_skip(&cursor);
        }
        ASSERT(cursor.at <= cursor.count);
        if (cursor.failed && asks[i] % 2 == 0) {
            mp_cursor_init(&cursor, tokens + i % count, count - i % count);
        }
    }
}

/* An independent reader finds no error in `text`. */
static void expect_yaml(const struct cli_text *text)
{
    yaml_parser_t parser;
    yaml_event_t event;
    bool done = false;
    ASSERT(!text->failed && yaml_parser_initialize(&parser));
    yaml_parser_set_input_string(&parser, (const unsigned char *)text->data, text->len);
    while (!done) {
        ASSERT(yaml_parser_parse(&parser, &event));
        done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
}

static void try_documents(const struct mp_token *tokens, size_t count)
{
    struct cli_text text;
    cli_text_init(&text);
    ASSERT(mp_value_len(tokens, count) == count);
    cli_json(&text, tokens, count);
    expect_yaml(&text);
    cli_text_clear(&text);
    cli_yaml(&text, tokens, count, false);
    expect_yaml(&text);
    cli_text_clear(&text);
    cli_table_rows(&text, tokens, count, cli_member_columns, true);
    cli_table_rows(&text, tokens, count, NULL, false);
    cli_table_map(&text, tokens, count, false);
    cli_plain(&text, tokens);
    cli_text_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct mp_token tokens[TOKENS_MAX];
    uint8_t *const bytes = fuzz_copy(data, len);
    const int count = mp_parse(bytes, len, tokens, TOKENS_MAX);
    ASSERT(count <= TOKENS_MAX);
    if (count > 0) {
        try_again(tokens, (size_t)count);
        try_cursor(tokens, (size_t)count, bytes, len);
        try_documents(tokens, (size_t)count);
    }
    free(bytes);
    return 0;
}
