/* resp_keys.c - keys of Redis clients: what they are called here, and the commands on them.
 *
 * A database is a name before the key, so the keys of each are its own; those of number 0 have
 * none, and are the keys that native clients name with the same bucket.
 *
 *   DEL, UNLINK   peek, reset   how many were in use
 *   EXISTS        peek          how many are in use
 *   TYPE          peek          string, or none
 *   TTL, PTTL     peek          until nothing of the bucket is used any more: then it is as new
 *
 * A peek of no tokens tells that time by the rate at which the bucket refills now, whatever limit
 * asks (GCRA-3).
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/resp_gate_state.h"

#define KEY_TOO_LONG    "ERR the key, with its database, has more than 1024 bytes"
#define DATABASE_PREFIX "ERR keys of database 0 do not begin with \"db\", two digits and a NUL"

enum {
    DATABASE_LEN = 5, /* "db07" and a NUL, before a key */
    NOT_IN_USE = -2   /* what TTL says of such a key */
};

/* Whether a key looks as one of another database does inside. */
static bool is_prefixed(struct wire_text key)
{
    const char *data = key.data;
    return key.len >= DATABASE_LEN && memcmp(data, "db", 2) == 0 && data[2] >= '0' &&
           data[2] <= '9' && data[3] >= '0' && data[3] <= '9' && data[4] == '\0';
}

const char *resp_key_of(struct resp_gate *gate, const struct resp_peer *peer, struct wire_text key,
                        struct wire_text *out)
{
    char prefix[DATABASE_LEN + 1];
    *out = key;
    if (key.len > (size_t)WIRE_VALUE_MAX - (peer->database == 0 ? 0 : DATABASE_LEN))
        return KEY_TOO_LONG;
    if (peer->database == 0)
        return is_prefixed(key) ? DATABASE_PREFIX : NULL;
    (void)snprintf(prefix, sizeof prefix, "db%02u", peer->database);
    memcpy(gate->key, prefix, DATABASE_LEN - 1);
    gate->key[DATABASE_LEN - 1] = '\0';
    if (key.len > 0)
        memcpy(gate->key + DATABASE_LEN, key.data, key.len);
    *out = (struct wire_text){.data = gate->key, .len = key.len + DATABASE_LEN};
    return NULL;
}

/* Any limit tells whether a key is in use, and makes it new. */
static const struct limit any_limit = {
    .algorithm = ALGORITHM_TOKEN_BUCKET, .count = 1, .window_ns = 1000000000, .burst = 1};

static int ask_key(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                   struct wire_text name, enum ask ask, bool more)
{
    struct wire_text key;
    const char *fault = resp_key_of(gate, peer, name, &key);
    ASSERT(fault == NULL); /* resp_keys_take looked */
    const int template = resp_batch_template(gate, &any_limit);
    const enum operation operation = ask == ASK_KEY_NEW ? OPERATION_RESET : OPERATION_PEEK;
    if (template <0 || wire_checks_builder_append(&gate->batches->builder, (uint32_t) template,
                                                  (uint8_t)operation, 0, &key, 1) < 0)
        return TG_EFULL;
    const struct item item = {.ask = (uint8_t)ask, .more = more};
    resp_batch_add(gate, peer, token, &item);
    return 0;
}

/* Why a command on keys cannot be taken; NULL: it can. */
static const char *fault_of_keys(struct resp_gate *gate, const struct resp_peer *peer,
                                 uint32_t asks)
{
    struct wire_text ignored;
    const char *fault = NULL;
    if (asks * (gate->request.count - 1) > BATCH_MAX)
        return "ERR too many keys: expected at most 32 of DEL and UNLINK, and 64 of EXISTS";
    for (uint32_t i = 1; fault == NULL && i < gate->request.count; i++)
        fault = resp_key_of(gate, peer, gate->request.arguments[i], &ignored);
    return fault;
}

static enum ask ask_of(enum resp_command_id id)
{
    return id == RESP_TYPE   ? ASK_KEY_TYPE
           : id == RESP_TTL  ? ASK_KEY_TTL
           : id == RESP_PTTL ? ASK_KEY_PTTL
                             : ASK_KEY;
}

/* What asks more than once begins a batch, in which it has room for sure. */
enum took resp_keys_take(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                         enum resp_command_id id)
{
    const bool makes_new = id == RESP_DEL || id == RESP_UNLINK;
    const uint32_t count = gate->request.count - 1;
    const uint32_t asks = makes_new ? 2 : 1;
    const char *fault = fault_of_keys(gate, peer, asks);
    if (fault != NULL) {
        if (peer->base.waiting > 0)
            return TOOK_NOT;
        resp_put_error(&peer->base.out, fault);
        return TOOK;
    }
    if (asks * count > 1 && batches_at_hand(gate->batches)->count > 0)
        return TOOK_NOT;
    for (uint32_t i = 1; i <= count; i++) {
        const struct wire_text name = gate->request.arguments[i];
        const bool last = i == count;
        int error = ask_key(gate, peer, token, name, ask_of(id), makes_new || !last);
        if (error == 0 && makes_new)
            error = ask_key(gate, peer, token, name, ASK_KEY_NEW, !last);
        ASSERT(error == 0 || asks * count == 1);
        if (error != 0)
            return TOOK_NOT;
    }
    return TOOK;
}

/* What TTL and PTTL say: until the key's bucket is as new. Seconds are rounded as Redis does. */
static int64_t ttl_of(const struct wire_decision *decision, bool milliseconds)
{
    if (decision->used == 0)
        return NOT_IN_USE;
    const int64_t ms = decision->reset_after_ms;
    return milliseconds ? ms : (ms + 500) / 1000;
}

void resp_keys_answer(struct resp_peer *peer, const struct item *item,
                      const struct wire_decision *decision, const char *failed)
{
    struct gateway_out *out = &peer->base.out;
    if (failed != NULL)
        peer->failed = failed;
    else
        peer->sum += item->ask != ASK_KEY_NEW && decision->used > 0;
    if (item->more)
        return;
    if (peer->failed != NULL)
        resp_put_error(out, peer->failed);
    else if (item->ask == ASK_KEY_TYPE)
        resp_put_simple(out, peer->sum > 0 ? "string" : "none");
    else if (item->ask >= ASK_KEY_TTL)
        resp_put_integer(out, ttl_of(decision, item->ask == ASK_KEY_PTTL));
    else
        resp_put_integer(out, peer->sum);
    peer->sum = 0;
    peer->failed = NULL;
}
