/* parts.c - a list that a node answers in parts, put together: see answer.h.
 */
#include <string.h>

#include "base/assert.h"
#include "client/cli/session/answer.h"

enum { AFTER_LEN_MAX = 8192, HEAD_LEN = 8, FEW_ROWS = 64 };

/* ---- the last row ---------------------------------------------------------------------------- */

static bool put_field(const struct cli_answer *answer, size_t row, const char *name,
                      struct mp_writer *writer)
{
    const struct mp_token *value = cli_answer_value(answer, row, name);
    if (value == NULL || value->type != MP_STR)
        return false;
    mp_put_strn(writer, (const char *)value->data, value->count);
    return !writer->failed;
}

bool cli_behind_id(const struct cli_answer *answer, size_t row, struct mp_writer *writer)
{
    return put_field(answer, row, "id", writer);
}

bool cli_behind_name(const struct cli_answer *answer, size_t row, struct mp_writer *writer)
{
    return put_field(answer, row, "name", writer);
}

bool cli_behind_block(const struct cli_answer *answer, size_t row, struct mp_writer *writer)
{
    char text[AFTER_LEN_MAX];
    const struct mp_token *kind = cli_answer_value(answer, row, "kind");
    const struct mp_token *what = cli_answer_value(answer, row, "what");
    if (kind == NULL || what == NULL || kind->type != MP_STR || what->type != MP_STR ||
        (size_t)kind->count + what->count + 1 > sizeof text)
        return false;
    memcpy(text, kind->data, kind->count);
    text[kind->count] = ' ';
    memcpy(text + kind->count + 1, what->data, what->count);
    mp_put_strn(writer, text, (size_t)kind->count + 1 + what->count);
    return !writer->failed;
}

/* ---- asking on ------------------------------------------------------------------------------- */

/* The token at which the last row begins; 0 if the answer is no list, or one of so few rows that a
 * node would not have cut it. */
static size_t last_row(const struct cli_answer *answer)
{
    size_t at = 1;
    if (answer->count < 2 || answer->tokens[0].type != MP_ARRAY ||
        answer->tokens[0].count < FEW_ROWS)
        return 0;
    for (uint32_t i = 1; i < answer->tokens[0].count; i++)
        at = cli_token_next(answer, at);
    return at < answer->count && answer->tokens[at].type == MP_MAP ? at : 0;
}

/* Makes of `asked`, which may be NULL, the question for what is behind the last row. */
static bool ask_behind(const struct mp_writer *asked, const uint8_t *after, size_t after_len,
                       struct mp_writer *question)
{
    enum { TOKENS = 64 };
    struct mp_token tokens[TOKENS];
    struct mp_token value[1];
    const int count = asked == NULL ? 0 : mp_parse(asked->data, asked->len, tokens, TOKENS);
    if (count < 0 || mp_parse(after, after_len, value, 1) != 1)
        return false;
    mp_put_map(question, count > 0 ? tokens[0].count + 1U : 1U);
    for (int at = 1; at < count; at++)
        cli_put_token(question, &tokens[at]);
    mp_put_str(question, "after");
    cli_put_token(question, &value[0]);
    return !question->failed;
}

/* Puts the rows of `part` behind those of `answer`, whose it is from now on. */
static int append(struct cli_answer *answer, struct cli_answer *part)
{
    const size_t count = answer->count + part->count - 1;
    struct mp_token *tokens = alloc_array(alloc_heap(), count, sizeof *tokens);
    struct cli_answer *kept = alloc_get(alloc_heap(), sizeof *kept);
    ASSERT(part->count >= 1 && part->tokens[0].type == MP_ARRAY);
    if (tokens == NULL || kept == NULL) {
        alloc_put(alloc_heap(), tokens, count * sizeof *tokens);
        alloc_put(alloc_heap(), kept, sizeof *kept);
        return TG_ENOMEM;
    }
    memcpy(tokens, answer->tokens, answer->count * sizeof *tokens);
    memcpy(tokens + answer->count, part->tokens + 1, (part->count - 1) * sizeof *tokens);
    tokens[0].count += part->tokens[0].count;
    alloc_put(alloc_heap(), answer->tokens, answer->capacity * sizeof *tokens);
    answer->tokens = tokens;
    answer->capacity = answer->count = count;
    part->rest = answer->rest;
    *kept = *part;
    answer->rest = kept;
    memset(part, 0, sizeof *part);
    return 0;
}

/* Asks for what is behind the row of the answer; *row becomes the last of what came, 0 at the end.
 */
static int ask_on(struct cli *cli, const char *command, const struct mp_writer *question,
                  cli_behind *behind, struct cli_answer *answer, size_t *row)
{
    uint8_t after[AFTER_LEN_MAX + HEAD_LEN];
    uint8_t again[AFTER_LEN_MAX + HEAD_LEN];
    uint8_t asked[2 * AFTER_LEN_MAX];
    struct mp_writer key;
    struct mp_writer same;
    struct mp_writer next;
    struct cli_answer part;
    const size_t from = *row;
    *row = 0;
    mp_writer_init(&key, after, sizeof after);
    mp_writer_init(&same, again, sizeof again);
    mp_writer_init(&next, asked, sizeof asked);
    if (!behind(answer, from, &key) || !ask_behind(question, after, key.len, &next))
        return 0;
    int code = cli_answer_ask(cli, command, &next, cli->timeout_ms, &part);
    const bool more = code == 0 && part.tokens[0].type == MP_ARRAY && part.tokens[0].count > 0;
    const size_t last = more ? last_row(&part) : 0;
    const bool older = last != 0 && behind(&part, last, &same) && same.len == key.len &&
                       memcmp(after, again, key.len) == 0; /* it knows no "after" */
    if (more && !older) {
        *row = last == 0 ? 0 : answer->count + last - 1;
        code = append(answer, &part);
    }
    if (code != 0) { /* the sentence is the part's */
        cli_answer_fini(answer);
        *answer = part;
    } else {
        cli_answer_fini(&part);
    }
    return code;
}

int cli_answer_ask_list(struct cli *cli, const char *command, const struct mp_writer *question,
                        cli_behind *behind, struct cli_answer *answer)
{
    int code = cli_answer_ask(cli, command, question, cli->timeout_ms, answer);
    size_t row = code == 0 ? last_row(answer) : 0;
    while (code == 0 && row != 0)
        code = ask_on(cli, command, question, behind, answer, &row);
    return code;
}
