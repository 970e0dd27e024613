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

/* Why a command on keys cannot be taken; NULL: it can. */
static const char *fault_of_keys(struct resp_gate *gate, const struct resp_peer *peer,
                                 uint32_t checks)
{
    struct wire_text ignored;
    const char *fault = NULL;
    if (checks > BATCH_MAX)
        return "ERR too many keys: expected at most 32 of DEL and UNLINK, and 64 of EXISTS";
    for (uint32_t i = 1; fault == NULL && i < gate->request.count; i++)
        fault = resp_key_of(gate, peer, gate->request.arguments[i], &ignored);
    return fault;
}

static enum ask ask_of(enum resp_command_id id)
{
    return id == RESP_TYPE                       ? ASK_KEY_TYPE
           : id == RESP_TTL                      ? ASK_KEY_TTL
           : id == RESP_PTTL                     ? ASK_KEY_PTTL
           : id == RESP_DEL || id == RESP_UNLINK ? ASK_KEY_NEW
                                                 : ASK_KEY;
}

/* Checks of a key. */
static uint32_t asks_of(const struct item *item)
{
    return item->ask == ASK_KEY_NEW ? 2 : 1;
}

const char *resp_keys_read(struct resp_gate *gate, const struct resp_peer *peer,
                           enum resp_command_id id, struct item *item, uint32_t *checks)
{
    item->ask = (uint8_t)ask_of(id);
    *checks = asks_of(item) * (gate->request.count - 1);
    return fault_of_keys(gate, peer, *checks);
}

static int append(struct resp_gate *gate, uint32_t template, enum operation operation,
                  const struct wire_text *key)
{
    return wire_checks_builder_append(&gate->batches->builder, template, (uint8_t)operation, 0, key,
                                      1);
}

int resp_keys_append(struct resp_gate *gate, const struct resp_peer *peer, const struct item *item)
{
    const int template = resp_batch_template(gate, &any_limit);
    int error = template <0 ? template : 0;
    for (uint32_t i = 1; error >= 0 && i < gate->request.count; i++) {
        struct wire_text key;
        const char *fault = resp_key_of(gate, peer, gate->request.arguments[i], &key);
        ASSERT(fault == NULL); /* resp_keys_read looked */
        error = append(gate, (uint32_t) template, OPERATION_PEEK, &key);
        if (error >= 0 && item->ask == ASK_KEY_NEW)
            error = append(gate, (uint32_t) template, OPERATION_RESET, &key);
    }
    return error < 0 ? error : 0;
}

/* What TTL and PTTL say: until the key's bucket is as new. Seconds are rounded as Redis does. */
static int64_t ttl_of(const struct wire_decision *decision, bool milliseconds)
{
    if (decision->used == 0)
        return NOT_IN_USE;
    const int64_t ms = decision->reset_after_ms;
    return milliseconds ? ms : (ms + 500) / 1000;
}

void resp_keys_answer(const struct item *item, const struct wire_decisions *decisions,
                      struct gateway_out *out)
{
    struct wire_decision decision = {.used = 0};
    const char *fault = NULL;
    int64_t used = 0; /* keys that are in use */
    for (uint32_t i = 0; i < item->call.count; i++) {
        const bool looked = i % asks_of(item) == 0;
        wire_decision_at(decisions, item->call.first + i, &decision);
        const char *found = resp_batch_fault(&decision);
        fault = found != NULL ? found : fault;
        used += looked && decision.used > 0;
    }
    if (fault != NULL)
        resp_put_error(out, fault);
    else if (item->ask == ASK_KEY_TYPE)
        resp_put_simple(out, used > 0 ? "string" : "none");
    else if (item->ask >= ASK_KEY_TTL)
        resp_put_integer(out, ttl_of(&decision, item->ask == ASK_KEY_PTTL));
    else
        resp_put_integer(out, used);
}
