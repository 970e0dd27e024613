/* resp_command.h - the commands that Redis clients may send here: one table.
 *
 * Pure: static storage, any thread.
 */
#ifndef NODE_GATEWAY_RESP_COMMAND_H
#define NODE_GATEWAY_RESP_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "client/protocol/wire.h"
#include "node/gateway/resp_parser.h"
#include "node/gateway/resp_writer.h"

enum resp_command_id {
    RESP_CL_THROTTLE, /* those up to RESP_UNLINK are answered by the shard, the rest here */
    RESP_TG_CHECK,
    RESP_TG_PEEK,
    RESP_TG_HIT,
    RESP_TG_REFUND,
    RESP_TG_RESET,
    RESP_TG_LOAD,
    RESP_DEL,
    RESP_EXISTS,
    RESP_PTTL,
    RESP_TTL,
    RESP_TYPE,
    RESP_UNLINK, /* the last one that the shard answers */
    RESP_DISCARD,
    RESP_EXEC,
    RESP_MULTI,
    RESP_ACL,
    RESP_ASKING,
    RESP_AUTH,
    RESP_CLIENT,
    RESP_CLUSTER,
    RESP_COMMAND,
    RESP_CONFIG,
    RESP_DBSIZE,
    RESP_ECHO,
    RESP_HELLO,
    RESP_INFO,
    RESP_PING,
    RESP_PSUBSCRIBE,
    RESP_PUNSUBSCRIBE,
    RESP_QUIT,
    RESP_READONLY,
    RESP_READWRITE,
    RESP_RESET,
    RESP_ROLE,
    RESP_SCAN,
    RESP_SELECT,
    RESP_SENTINEL,
    RESP_SUBSCRIBE,
    RESP_UNSUBSCRIBE,
    RESP_WAIT,
    RESP_COMMANDS
};

struct resp_command {
    const char *name; /* in capitals */
    enum resp_command_id id;
    int arity;  /* words with the name; negative: at least so many */
    int8_t key; /* where the first key is, 0: there is none; negative: all from there on */
    const char *summary;
};

/* The command of that name, in any case, or NULL. */
const struct resp_command *resp_command_find(struct wire_text name);
/* Whether the request has as many words as the command takes. */
bool resp_command_fits(const struct resp_command *command, const struct resp_request *request);
/* Error replies, as Redis words them. */
void resp_command_unknown(const struct resp_request *request, struct gateway_out *out);
void resp_command_unfit(const struct resp_command *command, struct gateway_out *out);
/* `name` has not the right that the command needs. */
void resp_command_forbidden(const struct resp_command *command, struct wire_text name,
                            const char *right, struct gateway_out *out);
/* The reply to COMMAND with its subcommands. */
void resp_command_describe(const struct resp_request *request, struct gateway_out *out);

#endif
