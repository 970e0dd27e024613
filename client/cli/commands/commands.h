/* commands.h - what each command does; main.c chooses.
 *
 *   cli_ask()     --tg_call---> a node      check peek hit refund reset lease release renew
 *   cli_judge()   --node/policy             rules validate, rules explain: no node is asked
 *   all others    --tg_admin--> a node      what it says is shown as it came
 *
 * Each returns an enum cli_exit (CLI-2).
 */
#ifndef CLIENT_CLI_COMMANDS_COMMANDS_H
#define CLIENT_CLI_COMMANDS_COMMANDS_H

#include "client/cli/session/answer.h"
#include "client/cli/session/cli.h"

/* ---- ask.c ---- */

/* check, peek, hit, refund, reset: asks and prints each decision. Returns the exit status. */
MUST_USE int cli_ask(struct cli *cli);
/* Adds a decision's JSON, the interface that scripts read, without a line's end; with `explain`
 * (decision->explain_count rows, or NULL) it has one field more, of that name. Pure. */
void cli_decision_json(struct cli_text *text, const tg_decision_t *decision,
                       const tg_explain_t *explain);
/* The same as one element of a YAML sequence. Pure. */
void cli_decision_yaml(struct cli_text *text, const tg_decision_t *decision,
                       const tg_explain_t *explain);

/* ---- inspect.c ---- */

/* status, members, ring, owner, rules list. Returns the exit status. */
MUST_USE int cli_inspect(struct cli *cli);

/* ---- judge.c ---- */

/* Whether the command needs no node. Pure. */
bool cli_judges_offline(const struct cli_arguments *arguments);
/* rules validate, rules explain. Returns the exit status. */
MUST_USE int cli_judge(struct cli *cli);

/* ---- domains.c ---- */

/* rules import, rules explain of a descriptor. Returns the exit status. */
MUST_USE int cli_domains(struct cli *cli);

/* ---- rules.c ---- */

/* Asks for the newest document of rules (`version` 0) or an older one. 0, TG_ENOTFOUND (there is
 * none) or another code of a call. */
MUST_USE int cli_rules_ask(struct cli *cli, uint64_t version, struct cli_answer *answer);
/* rules show, diff, apply, delete, history, rollback. Returns the exit status. */
MUST_USE int cli_rules(struct cli *cli);

/* ---- block.c ---- */

/* block, unblock, blocks. Returns the exit status. */
MUST_USE int cli_block(struct cli *cli);

/* ---- api_key.c ---- */

/* apikey create, list, show, revoke, delete. Returns the exit status. */
MUST_USE int cli_api_key(struct cli *cli);

/* ---- credential.c ---- */

/* token create; credential list, show, rotate, revoke. Returns the exit status. */
MUST_USE int cli_credential(struct cli *cli);

/* ---- quota.c ---- */

/* quota set, show, list, delete. Returns the exit status. */
MUST_USE int cli_quota(struct cli *cli);

/* ---- change.c ---- */

/* drain, leave, remove. Returns the exit status. */
MUST_USE int cli_change(struct cli *cli);

/* ---- pools.c ---- */

/* pools list, pools report. Returns the exit status. */
MUST_USE int cli_pools(struct cli *cli);

#endif
