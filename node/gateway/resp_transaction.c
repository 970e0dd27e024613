/* resp_transaction.c - MULTI, EXEC and DISCARD: commands are kept, and taken when EXEC comes.
 *
 * Each command of a transaction is decided by itself (resp_queue.h).
 */
#include "node/gateway/resp_gate_state.h"

#define QUEUE_FULL  "ERR the transaction is too long: expected at most 65536 bytes and 4096 commands"
#define QUEUES_FULL "BUSY the node has too many transactions open; try again later"

void resp_transaction_end(struct resp_gate *gate, struct resp_peer *peer)
{
    resp_queue_drop(&gate->queues, &peer->queue);
    peer->queues = peer->spoiled = peer->base.open = false;
}

void resp_transaction_take(struct resp_gate *gate, struct resp_peer *peer, enum resp_command_id id)
{
    struct gateway_out *out = &peer->base.out;
    if (id == RESP_MULTI && peer->queues) {
        resp_put_error(out, "ERR MULTI calls can not be nested");
    } else if (id == RESP_MULTI) {
        peer->queues = peer->base.open = true;
        resp_put_simple(out, "OK");
    } else if (!peer->queues) {
        resp_put_error(out,
                       id == RESP_EXEC ? "ERR EXEC without MULTI" : "ERR DISCARD without MULTI");
    } else if (id == RESP_DISCARD) {
        resp_transaction_end(gate, peer);
        resp_put_simple(out, "OK");
    } else if (peer->spoiled) {
        resp_transaction_end(gate, peer);
        resp_put_error(out, "EXECABORT Transaction discarded because of previous errors.");
    } else {
        peer->queues = peer->base.open = false;
        resp_put_array(out, peer->queue.count);
    }
}

bool resp_transaction_keeps(const struct resp_peer *peer, const struct resp_command *command)
{
    return peer->queues &&
           (command == NULL || ((command->id < RESP_DISCARD || command->id > RESP_MULTI) &&
                                command->id != RESP_QUIT && command->id != RESP_RESET));
}

static bool is_subscription(const struct resp_command *command)
{
    return command->id == RESP_SUBSCRIBE || command->id == RESP_PSUBSCRIBE ||
           command->id == RESP_UNSUBSCRIBE || command->id == RESP_PUNSUBSCRIBE;
}

enum took resp_transaction_keep(struct resp_gate *gate, struct resp_peer *peer,
                                const struct resp_command *command, const char *data, size_t len)
{
    struct gateway_out *out = &peer->base.out;
    const bool spoiled = peer->spoiled;
    int error;
    if (peer->base.waiting > 0)
        return TOOK_NOT;
    peer->spoiled = true; /* unless it is kept, and none before it was not */
    if (command == NULL)
        resp_command_unknown(&gate->request, out);
    else if (!resp_command_fits(command, &gate->request))
        resp_command_unfit(command, out);
    else if (is_subscription(command))
        resp_put_error(out, "ERR there is no subscribing in a transaction");
    else if ((error = resp_queue_put(&gate->queues, &peer->queue, data, len)) != 0)
        resp_put_error(out, error == TG_EFULL ? QUEUE_FULL : QUEUES_FULL);
    else {
        peer->spoiled = spoiled;
        resp_put_simple(out, "QUEUED");
    }
    return TOOK;
}
