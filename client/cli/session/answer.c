/* answer.c - asks a node, reads and prints its answer; answer.h is the contract. */
#include "client/cli/session/answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mp_walk.h"
#include "client/cli/output/document.h"
#include "client/cli/output/table.h"

enum { MS_NS = 1000000, S_MS = 1000 };

/* ---- asking ---------------------------------------------------------------------------------- */

static void release(struct cli_answer *answer)
{
    if (answer->tokens != NULL)
        alloc_put(alloc_heap(), answer->tokens, answer->capacity * sizeof *answer->tokens);
    tg_reply_free(&answer->reply);
    packed_fini(&answer->text, alloc_heap());
}

void cli_answer_fini(struct cli_answer *answer)
{
    struct cli_answer *next;
    release(answer);
    for (struct cli_answer *part = answer->rest; part != NULL; part = next) {
        next = part->rest;
        release(part);
        alloc_put(alloc_heap(), part, sizeof *part);
    }
    memset(answer, 0, sizeof *answer);
}

/* Every value takes a byte at least, so a reply of n bytes has at most n tokens. */
static int read_reply(struct cli_answer *answer)
{
    answer->capacity = answer->reply.len;
    answer->tokens = answer->capacity == 0
                         ? NULL
                         : alloc_array(alloc_heap(), answer->capacity, sizeof *answer->tokens);
    if (answer->tokens == NULL)
        return answer->capacity == 0 ? TG_EPROTOCOL : TG_ENOMEM;
    const int count =
        mp_parse(answer->reply.data, answer->reply.len, answer->tokens, answer->capacity);
    if (count < 0)
        return count;
    ASSERT((size_t)count <= answer->capacity);
    answer->count = (size_t)count;
    return 0;
}

/* Asks; 0 or the code. The answer is to be finished in any case. */
int cli_answer_ask(struct cli *cli, const char *command, const struct mp_writer *question,
                   int timeout_ms, struct cli_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    const int code = tg_admin(cli->client, command, question != NULL ? question->data : NULL,
                              question != NULL ? question->len : 0, timeout_ms, &answer->reply);
    if (answer->reply.data == NULL)
        return code != 0 ? code : TG_EPROTOCOL;
    const int result = read_reply(answer);
    return code != 0 ? code : result;
}

bool cli_answer_from(const struct mp_writer *writer, struct cli_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->capacity = writer->len;
    answer->tokens = alloc_array(alloc_heap(), answer->capacity, sizeof *answer->tokens);
    const int count = answer->tokens == NULL || writer->failed
                          ? TG_ENOMEM
                          : mp_parse(writer->data, writer->len, answer->tokens, answer->capacity);
    if (count < 0) {
        cli_complain("out of memory to put the answer together");
        cli_answer_fini(answer);
        return false;
    }
    ASSERT((size_t)count <= answer->capacity);
    answer->count = (size_t)count;
    return true;
}

size_t cli_answer_room(const struct cli_answer *answer)
{
    enum { HEAD = 9 }; /* a token's bytes beside its text */
    size_t room = 0;
    for (size_t i = 0; i < answer->count; i++) {
        const struct mp_token *token = &answer->tokens[i];
        const bool bytes = token->type == MP_STR || token->type == MP_BIN;
        room += HEAD + (bytes ? token->count : 0);
    }
    return room;
}

/* The bytes of a map that say how many pairs follow; 0 if there is none, or they say more. */
static size_t map_head(const struct cli_answer *answer)
{
    enum { SMALL = 0x80, SMALL_MASK = 0xf0, MEDIUM = 0xde, MEDIUM_LEN = 3 };
    const uint8_t *bytes = answer->reply.data;
    if (answer->count == 0 || answer->tokens[0].type != MP_MAP)
        return 0;
    return (bytes[0] & SMALL_MASK) == SMALL ? 1 : bytes[0] == MEDIUM ? MEDIUM_LEN : 0;
}

bool cli_answer_extend(const struct cli_answer *answer, uint32_t more, struct mp_writer *writer)
{
    const size_t head = map_head(answer);
    if (head == 0)
        return false;
    const size_t len = answer->reply.len - head;
    mp_put_map(writer, answer->tokens[0].count + more);
    ASSERT(!writer->failed && writer->capacity - writer->len >= len);
    memcpy((uint8_t *)writer->data + writer->len, (const uint8_t *)answer->reply.data + head, len);
    writer->len += len;
    return true;
}

/* Complains about `code`, in the node's own words if it sent some. */
int cli_answer_fail(struct cli *cli, int code, const struct cli_answer *answer)
{
    char said[CLI_SENTENCE_LEN] = "";
    if (answer->count == 1 && answer->tokens[0].type == MP_STR)
        (void)snprintf(said, sizeof said, "%.*s", (int)answer->tokens[0].count,
                       (const char *)answer->tokens[0].data);
    return cli_fail(cli, code, said);
}

int cli_answer_unpack(struct cli_answer *answer)
{
    static const char name[] = "text";
    struct mp_cursor cursor;
    if (!cli_answer_find(answer, "packed", &cursor) || mp_peek_type(&cursor) != MP_BIN)
        return 0;
    struct mp_token *value = &answer->tokens[cursor.at];
    ASSERT(cursor.at > 0 && cursor.at < answer->count); /* its name stands before it */
    const int error = packed_open(value->data, value->count, alloc_heap(), &answer->text);
    if (error != 0)
        return error;
    value[0] = (struct mp_token){
        MP_STR, (uint32_t)answer->text.len, {.data = (const uint8_t *)answer->text.data}};
    value[-1] = (struct mp_token){MP_STR, sizeof name - 1, {.data = (const uint8_t *)name}};
    return 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* Each element of an array by itself, one a line. */
static void add_lines(struct cli_text *text, const struct cli_answer *answer)
{
    ASSERT(answer->tokens[0].type == MP_ARRAY);
    size_t at = 1;
    for (uint32_t i = 0; i < answer->tokens[0].count && at < answer->count; i++) {
        cli_json(text, answer->tokens + at, answer->count - at);
        cli_text_str(text, "\n");
        at += mp_value_len(answer->tokens + at, answer->count - at);
    }
}

static void add_table(struct cli *cli, const struct cli_answer *answer)
{
    struct cli_text *text = &cli->text;
    switch (cli->arguments->command) {
    case CLI_MEMBERS:
        cli_table_rows(text, answer->tokens, answer->count, cli_member_columns, cli->colour);
        break;
    case CLI_OWNER:
        cli_table_rows(text, answer->tokens, answer->count, cli_owner_columns, cli->colour);
        break;
    case CLI_RULES_LIST:
        cli_table_rows(text, answer->tokens, answer->count, cli_rule_columns, cli->colour);
        break;
    case CLI_RULES_HISTORY:
        cli_table_rows(text, answer->tokens, answer->count, cli_version_columns, cli->colour);
        break;
    case CLI_APIKEY_LIST:
        cli_table_rows(text, answer->tokens, answer->count, cli_api_key_columns, cli->colour);
        break;
    case CLI_CREDENTIAL_LIST:
        cli_table_rows(text, answer->tokens, answer->count, cli_credential_columns, cli->colour);
        break;
    case CLI_QUOTA_LIST:
        cli_table_rows(text, answer->tokens, answer->count, cli_quota_columns, cli->colour);
        break;
    case CLI_POOLS_LIST:
        cli_table_rows(text, answer->tokens, answer->count, NULL, cli->colour);
        break;
    case CLI_BLOCKS:
        cli_table_rows(text, answer->tokens, answer->count, cli_block_columns, cli->colour);
        break;
    default:
        cli_table_map(text, answer->tokens, answer->count, cli->colour);
        break;
    }
}

int cli_answer_show(struct cli *cli, const struct cli_answer *answer)
{
    ASSERT(answer->count > 0);
    if (cli->arguments->output == CLI_YAML) {
        cli_yaml(&cli->text, answer->tokens, answer->count, false);
    } else if (cli->arguments->output == CLI_TABLE) {
        add_table(cli, answer);
    } else if (cli->arguments->command == CLI_OWNER && answer->tokens[0].type == MP_ARRAY) {
        add_lines(&cli->text, answer);
    } else {
        cli_json(&cli->text, answer->tokens, answer->count);
        cli_text_str(&cli->text, "\n");
    }
    return cli_flush(cli);
}

/* The cursor behind the key `name` of the answer's map; false if there is none. */
bool cli_answer_find(const struct cli_answer *answer, const char *name, struct mp_cursor *cursor)
{
    if (answer->count == 0 || answer->tokens[0].type != MP_MAP)
        return false;
    mp_cursor_init(cursor, answer->tokens, answer->count);
    const uint32_t pairs = mp_get_map(cursor);
    for (uint32_t i = 0; i < pairs && !cursor->failed; i++) {
        if (mp_peek_type(cursor) != MP_STR) {
            mp_skip(cursor);
        } else {
            size_t len;
            const char *key = mp_get_str(cursor, &len);
            if (len == strlen(name) && memcmp(key, name, len) == 0)
                return true;
        }
        mp_skip(cursor);
    }
    return false;
}

bool cli_answer_true(const struct cli_answer *answer, const char *name)
{
    struct mp_cursor cursor;
    return cli_answer_find(answer, name, &cursor) && mp_get_bool(&cursor);
}

uint64_t cli_answer_uint(const struct cli_answer *answer, const char *name)
{
    struct mp_cursor cursor;
    return cli_answer_find(answer, name, &cursor) ? mp_get_uint(&cursor) : 0;
}

void cli_answer_text(const struct cli_answer *answer, const char *name, char *out, size_t capacity)
{
    struct mp_cursor cursor;
    size_t len = 0;
    const char *text = cli_answer_find(answer, name, &cursor) ? mp_get_str(&cursor, &len) : NULL;
    (void)snprintf(out, capacity, "%.*s", text != NULL ? (int)len : 0, text != NULL ? text : "");
}

/* ---- tokens ---------------------------------------------------------------------------------- */

size_t cli_token_next(const struct cli_answer *answer, size_t at)
{
    ASSERT(at <= answer->count);
    return at + mp_value_len(answer->tokens + at, answer->count - at);
}

bool cli_token_is(const struct mp_token *token, const char *text)
{
    return token->type == MP_STR && token->count == strlen(text) &&
           memcmp(token->data, text, token->count) == 0;
}

const struct mp_token *cli_answer_value(const struct cli_answer *answer, size_t row,
                                        const char *name)
{
    ASSERT(row < answer->count);
    return mp_find(answer->tokens + row, answer->count - row, name);
}

void cli_put_token(struct mp_writer *writer, const struct mp_token *token)
{
    switch (token->type) {
    case MP_BOOL:
        mp_put_bool(writer, token->uint != 0);
        break;
    case MP_UINT:
        mp_put_uint(writer, token->uint);
        break;
    case MP_INT:
        mp_put_int(writer, token->sint);
        break;
    case MP_FLOAT:
        mp_put_real(writer, token->real);
        break;
    case MP_STR:
        mp_put_strn(writer, (const char *)token->data, token->count);
        break;
    case MP_BIN:
        mp_put_bin(writer, token->data, token->count);
        break;
    case MP_ARRAY:
        mp_put_array(writer, token->count);
        break;
    case MP_MAP:
        mp_put_map(writer, token->count);
        break;
    case MP_NIL:
    case MP_EXT:
        mp_put_nil(writer);
        break;
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

int64_t cli_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * S_MS + now.tv_nsec / MS_NS;
}

void cli_pause_ms(int64_t span_ms)
{
    struct timespec left = {.tv_sec = span_ms / S_MS, .tv_nsec = span_ms % S_MS * MS_NS};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

void cli_put_attributes(struct mp_writer *writer, const struct cli_arguments *arguments)
{
    ASSERT(arguments->attribute_count <= TG_ATTRIBUTES_MAX);
    mp_put_str(writer, "attributes");
    mp_put_map(writer, arguments->attribute_count);
    for (size_t i = 0; i < arguments->attribute_count; i++) {
        mp_put_str(writer, arguments->attributes[i].name);
        mp_put_strn(writer, arguments->attributes[i].value, arguments->attributes[i].value_len);
    }
}

int cli_answer_show_made(struct cli *cli, size_t room,
                         void (*put)(struct mp_writer *writer, void *from), void *from)
{
    uint8_t *bytes = alloc_get(alloc_heap(), room);
    struct cli_answer made;
    struct mp_writer writer;
    int status = CLI_EXIT_INVALID;
    if (bytes == NULL)
        return cli_fail(cli, TG_ENOMEM, "out of memory");
    mp_writer_init(&writer, bytes, room);
    put(&writer, from);
    ASSERT(writer.len <= room);
    if (cli_answer_from(&writer, &made))
        status = cli_answer_show(cli, &made);
    cli_answer_fini(&made);
    alloc_put(alloc_heap(), bytes, room);
    return status;
}
