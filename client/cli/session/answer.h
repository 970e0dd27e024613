/* answer.h - what a node answers to an administrative question, and how it is printed.
 *
 *   question --tg_admin--> msgpack --parse--> tokens --> JSON, YAML or table
 *
 * An answer is printed as it is (document.h); only tables know which columns they have (table.h).
 */
#ifndef CLIENT_CLI_SESSION_ANSWER_H
#define CLIENT_CLI_SESSION_ANSWER_H

#include "base/mp.h"
#include "client/cli/session/cli.h"
#include "node/policy/compile/packed.h"

struct cli_answer {
    tg_reply_t reply;
    struct mp_token *tokens;
    size_t capacity; /* of tokens */
    size_t count;
    struct packed text;      /* what cli_answer_unpack unpacked */
    struct cli_answer *rest; /* whose tokens are among these: of cli_answer_ask_list */
};

/* Asks; 0 or the code. The answer is to be finished in any case. `question`: NULL for none. */
MUST_USE int cli_answer_ask(struct cli *cli, const char *command, const struct mp_writer *question,
                            int timeout_ms, struct cli_answer *answer);
void cli_answer_fini(struct cli_answer *answer);
/* Writes what a list goes on behind: of the row at that token. False if it has no such fields. */
typedef bool cli_behind(const struct cli_answer *answer, size_t row, struct mp_writer *writer);
/* The same for a list that a node may answer in parts: asks on behind the last row, which `behind`
 * writes as the value of "after", until there are no more. `question`: as many pairs as it has. */
MUST_USE int cli_answer_ask_list(struct cli *cli, const char *command,
                                 const struct mp_writer *question, cli_behind *behind,
                                 struct cli_answer *answer);
/* A `behind` of rows that have fields `id`; `name`; `kind` and `what`. */
cli_behind cli_behind_id;
cli_behind cli_behind_name;
cli_behind cli_behind_block;
/* Makes an answer of what was written, as if a node had sent it; the bytes must outlive it. False
 * without memory, after saying so. */
MUST_USE bool cli_answer_from(const struct mp_writer *writer, struct cli_answer *answer);
/* The room that its tokens take if they are written again, each by cli_put_token. */
size_t cli_answer_room(const struct cli_answer *answer);
/* Writes the answer, a map, as the beginning of one that has `more` pairs, which are to follow. The
 * writer has room for all of it. False if the answer is no map, or one of too many pairs. */
MUST_USE bool cli_answer_extend(const struct cli_answer *answer, uint32_t more,
                                struct mp_writer *writer);
/* Puts a document of rules that came as `packed` in its place as `text`. 0, or an error of
 * packed_open. */
MUST_USE int cli_answer_unpack(struct cli_answer *answer);
/* Complains about `code`, in the node's own words if it sent some. Returns the exit status. */
MUST_USE int cli_answer_fail(struct cli *cli, int code, const struct cli_answer *answer);
/* Prints it as the command and --output want it. Returns the exit status. */
MUST_USE int cli_answer_show(struct cli *cli, const struct cli_answer *answer);
/* The same for an answer that `put` writes, within `room` bytes. */
MUST_USE int cli_answer_show_made(struct cli *cli, size_t room,
                                  void (*put)(struct mp_writer *writer, void *from), void *from);

/* The cursor behind the key `name` of the answer's map; false if there is none. */
bool cli_answer_find(const struct cli_answer *answer, const char *name, struct mp_cursor *cursor);
/* Whether the answer's map says so. */
bool cli_answer_true(const struct cli_answer *answer, const char *name);
uint64_t cli_answer_uint(const struct cli_answer *answer, const char *name); /* 0: none */
/* Copies a text of the answer's map, cut to fit; "" if there is none. */
void cli_answer_text(const struct cli_answer *answer, const char *name, char *out, size_t capacity);

/* Where the value behind the one at token `at` begins. */
size_t cli_token_next(const struct cli_answer *answer, size_t at);
bool cli_token_is(const struct mp_token *token, const char *text);
/* The value of a field of the map at token `row`; NULL if it has none. */
const struct mp_token *cli_answer_value(const struct cli_answer *answer, size_t row,
                                        const char *name);
/* Writes one token as it was read. */
void cli_put_token(struct mp_writer *writer, const struct mp_token *token);

/* Writes one field of a question's map: `attributes`. */
void cli_put_attributes(struct mp_writer *writer, const struct cli_arguments *arguments);

/* Monotonic time, and waiting. */
int64_t cli_now_ms(void);
void cli_pause_ms(int64_t span_ms);

#endif
