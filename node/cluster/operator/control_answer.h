/* control_answer.h - what the files that answer operators share (control_admin.c dispatches).
 *
 *     control_admin.c --> control_status.c   status
 *                     --> control_rules.c    rules.list, rules.validate, rules.explain
 *                     --> control_pools.c    pools.list
 *                     --> control_change.c   drain, leave, remove
 *                     --> control_settings_answer.c   rules.show, rules.diff, rules.history,
 *                                            rules.apply, edit.state
 *                     --> control_blocks.c   block, unblock, blocks
 *                     --> control_api_keys.c apikey.create, list, show, revoke, delete
 *                     --> control_credentials.c credential.create, list, show, rotate, revoke
 *                     --> control_quotas.c   quota.set, quota.show, quota.list, quota.delete
 *                     --> control_regions_answer.c   regions, remove of one
 *                     --> (itself)           members, ring, metrics
 *
 * OPERATOR-1  Each answer is exactly one msgpack value after answer_begin, or one sentence by
 *             answer_error.
 * OPERATOR-2  A map says how many fields it has before they are known: who adds a field raises the
 *             count. Tests read each answer as a whole, so a wrong count fails.
 * OPERATOR-3  A list that does not fit into a message, or has more values than a reader takes
 *             (WIRE_ADMIN_TOKENS_MAX), is answered again with half as many rows; whoever asks goes
 *             on behind the last one.
 */
#ifndef NODE_CLUSTER_OPERATOR_CONTROL_ANSWER_H
#define NODE_CLUSTER_OPERATOR_CONTROL_ANSWER_H

#include "base/mp.h"
#include "client/protocol/wire.h"
#include "node/cluster/conditions/conditions.h"
#include "node/cluster/control/control_state.h"
#include "node/policy/index/policy_resolve.h"

struct answer_context {
    struct control *control;
    const struct control_report *report;
    const struct wire_admin *admin;
    struct mp_writer *writer;
    int64_t now_ns;
    uint32_t rows_max; /* of a list (OPERATOR-3) */
    bool lists;
};

/* One field of a map: its name, then its value. A hex value is written as 16 digits. */
void put_field_str(struct mp_writer *writer, const char *name, const char *value);
/* What over-admission is possible now (control_exposure.c). */
void control_put_exposure(const struct control_report *report, struct mp_writer *writer);
struct conditions;
/* What this node should be looked at for though nothing is wrong yet, or any more, and what others
 * tell of themselves. */
void control_put_warnings(const struct answer_context *context, const struct conditions *conditions,
                          struct mp_writer *writer);
void put_field_uint(struct mp_writer *writer, const char *name, uint64_t value);
void put_field_bool(struct mp_writer *writer, const char *name, bool value);
void put_field_hex(struct mp_writer *writer, const char *name, uint64_t value);

/* Begins an answer: its value follows. */
void answer_begin(struct answer_context *context);
/* The whole answer is a TG_E* code and a sentence. */
void answer_error(struct answer_context *context, int code, const char *text);

/* The whole answer is what this node waits for, which cannot answer before. */
void answer_waiting(struct answer_context *context);

/* Where a member stands in this node's ring: who has drained still lives, but nothing is its own.
 * Static storage. */
const char *control_place_in_ring(const struct control *control, const char *region, uint64_t id);
/* Since when its region is out of reach, whatever that said of it last; 0: it is not. */
int64_t control_lost_since(const struct control *control, uint64_t id);
/* Fields `busiest`, `pressed`, `history`; `events`, the last ones (control_events.c). */
void control_put_busiest(const struct answer_context *context);
void control_put_events(const struct answer_context *context);
/* Fields `nodes`, `nodes_more`, `figures_awaited`; `changes` (control_nodes.c). */
void control_put_nodes(const struct answer_context *context);
void control_put_changes(const struct answer_context *context);
/* A field `health`: what is wrong with that member, as an array of codes. */
void control_put_health(const struct answer_context *context, uint64_t id);

/* Whether the answer so far is more than can be sent, or read. */
bool answer_too_large(const struct answer_context *context);
/* Begins an array of so many rows, of which as many are to follow as it returns. */
uint32_t answer_rows(struct answer_context *context, size_t count);
/* Where the list of records of that kind goes on: behind the one of the argument "after". The place
 * is one in the table of settings; *end: behind the last of the kind. */
size_t answer_rows_from(const struct answer_context *context, uint32_t kind, size_t *end);

/* The cursor at the argument `name` of the command; false if it is not given. */
bool answer_argument(const struct answer_context *context, const char *name,
                     struct mp_cursor *cursor);

struct person;
/* What may deny a request before any rule: NULL, or the rule that says so. */
struct control_denial {
    const struct policy_attribute *attributes; /* in their one spelling */
    size_t count;
    const struct settings_text *key;   /* an inline key instead, or NULL */
    const struct policy_rule *refusal; /* of its API key */
    const struct policy_rule *block;
    const struct person *person; /* whose `denied` is what is set for the user; or NULL */
};
/* The block that denies these attributes, or the inline key. */
const struct policy_rule *control_find_denial(const struct answer_context *context,
                                              const struct policy_attribute *attributes,
                                              size_t count, const struct settings_text *key);
/* A value: a map on what denies, by whom, until when and why; nil if nothing does. */
void control_put_denial(const struct answer_context *context, const struct control_denial *denial);

/* Begins the edit that the command asks for by `id`, `author`, `note` and `base`, which are filled
 * in here, and answers how it stands. */
void control_answer_edit(struct answer_context *context, struct control_edit_request *request);

/* The rules of argument `text` or `packed`, compiled, here or before; NULL after it was answered
 * that they cannot be. The caller frees them. `text`: the document, as it is kept. */
struct policy *control_compile_argument(struct answer_context *context, const char *command,
                                        struct settings_text *text);

/* A field whose value is a time for people, in UTC. */
void control_put_time(struct mp_writer *writer, const char *name, uint64_t ms);
/* A text argument, data NULL if there is none; a number, false if there is none. */
struct settings_text control_read_text(const struct answer_context *context, const char *name);
/* A document of rules: argument `text`, or `packed`, bytes as of packed.h. */
struct settings_text control_read_document(const struct answer_context *context);
bool control_read_uint(const struct answer_context *context, const char *name, uint64_t *out);

/* When something is to end, by "until_ms" (0: never, as answers tell it) or "for_ms" from now,
 * which is never 0; *until_ms 0: never. False after it was answered that one of them is no such
 * number, or, with the sentence `over`, that this has passed. */
bool control_read_end(struct answer_context *context, const char *over, uint64_t *until_ms);
/* A flag: true or 1, false or 0 or not given. False after it was answered that it is none. */
bool control_read_flag(struct answer_context *context, const char *name, bool *out);

struct policy_text;
/* A tier that the rules in force know, by "tier"; `out` is left as it is where none is given. False
 * after it was answered what is wrong with it: who has a tier that no rule knows, has no limit. */
bool control_read_tier(struct answer_context *context, struct policy_text *out);

struct own_limits;
/* Own limits of a user or a key: "limits", rates apart by spaces, each of which replaces the one of
 * its window, and "burst". False after it was answered what is wrong with them. */
bool control_read_limits(struct answer_context *context, struct own_limits *own);
/* And two fields of a map: limits, an array of texts; burst, 0: none. */
void control_put_limits(const struct own_limits *own, struct mp_writer *writer);

/* The pools, an array of maps. */
void control_put_pools(const struct control_report *report, struct mp_writer *writer);

void answer_pools(struct answer_context *context);
void answer_status(struct answer_context *context);
void answer_regions(struct answer_context *context);
void answer_events(struct answer_context *context);
void answer_rules(struct answer_context *context);
void answer_validate(struct answer_context *context);
void answer_explain(struct answer_context *context);
void answer_rules_show(struct answer_context *context);
void answer_rules_diff(struct answer_context *context);
void answer_rules_history(struct answer_context *context);
void answer_rules_apply(struct answer_context *context);
void answer_block(struct answer_context *context);
void answer_unblock(struct answer_context *context);
void answer_blocks(struct answer_context *context);
void answer_apikey_create(struct answer_context *context);
void answer_apikey_list(struct answer_context *context);
void answer_apikey_show(struct answer_context *context);
void answer_apikey_revoke(struct answer_context *context);
void answer_apikey_delete(struct answer_context *context);
void answer_credential_create(struct answer_context *context);
void answer_credential_list(struct answer_context *context);
void answer_credential_show(struct answer_context *context);
void answer_credential_rotate(struct answer_context *context);
void answer_credential_revoke(struct answer_context *context);
void answer_quota_set(struct answer_context *context);
void answer_quota_show(struct answer_context *context);
void answer_quota_list(struct answer_context *context);
void answer_quota_delete(struct answer_context *context);
void answer_edit_state(struct answer_context *context);
void answer_drain(struct answer_context *context);
void answer_leave(struct answer_context *context);
void answer_remove(struct answer_context *context);
/* The same for a region. */
void answer_remove_region(struct answer_context *context, const char *region, bool force);

/* Fields of a map: `voters`, the names; `register`, how the register is doing. */
void control_put_voters(const struct control *control, struct mp_writer *writer);
/* Field `settings`: how the configuration store is doing (control_settings_answer.c). */
void control_put_settings(const struct control *control, struct mp_writer *writer);
void control_put_register(const struct control *control, int64_t now_ns, struct mp_writer *writer);

struct policy_diff;
/* Puts the field `counts` of rules.diff: which counts stay, begin anew or end when `new`, a
 * document of that length, follows the newest rules. */
void control_put_counts(const struct answer_context *context, const struct policy *new,
                        size_t new_len, const struct policy_diff *diff);

/* ---- control_clocks.c ---- */
enum { CLOCKS_SHOWN_MAX = 256 };
/* A field of `status`. */
void control_put_clock(const struct control *control, struct mp_writer *writer);

#endif
