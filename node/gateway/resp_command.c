/* resp_command.c - the table of commands, and the answers of COMMAND, which is this table told.
 *
 * Clients ask it to learn where keys are among the arguments, and people's tools to complete and
 * explain what is typed.
 */
#include "node/gateway/resp_command.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/resp_check.h"

/* What is behind the colon of a summary is what the command expects. */
static const struct resp_command commands[RESP_COMMANDS] = {
    {"CL.THROTTLE", RESP_CL_THROTTLE, -1, 1,
     "Takes tokens from a bucket: key max_burst count period_s [quantity]"},
    {"TG.CHECK", RESP_TG_CHECK, -3, 2,
     "Decides by the rules: attribute value ... [COST n] [PEEK] [MESSAGE]"},
    {"TG.PEEK", RESP_TG_PEEK, -3, 2,
     "Decides likewise, and takes nothing: attribute value ... [COST n] [MESSAGE]"},
    {"TG.HIT", RESP_TG_HIT, -3, 2, "Takes without asking: attribute value ... [COST n] [MESSAGE]"},
    {"TG.REFUND", RESP_TG_REFUND, -3, 2, "Gives back: attribute value ... [COST n] [MESSAGE]"},
    {"TG.RESET", RESP_TG_RESET, -3, 2, "Makes new: attribute value ... [MESSAGE]"},
    {"TG.LOAD", RESP_TG_LOAD, 3, 0, "Reports how loaded a pool is: pool 0..1"},
    {"DEL", RESP_DEL, -2, -1, "Makes keys of CL.THROTTLE new, tells how many were in use: key ..."},
    {"EXISTS", RESP_EXISTS, -2, -1, "Tells how many of the keys are in use: key ..."},
    {"PTTL", RESP_PTTL, 2, 1, "The same as TTL in milliseconds: key"},
    {"TTL", RESP_TTL, 2, 1, "Tells in how many seconds the key will be as new: key"},
    {"TYPE", RESP_TYPE, 2, 1, "Tells string of a key that is in use, else none: key"},
    {"UNLINK", RESP_UNLINK, -2, -1, "The same as DEL: key ..."},
    {"DISCARD", RESP_DISCARD, 1, 0, "Drops what came since MULTI"},
    {"EXEC", RESP_EXEC, 1, 0, "Decides what came since MULTI, each command by itself"},
    {"MULTI", RESP_MULTI, 1, 0, "Keeps the commands that follow until EXEC"},
    {"ACL", RESP_ACL, -2, 0, "Tells who the connection is: WHOAMI"},
    {"ASKING", RESP_ASKING, 1, 0, "Answers OK, for every node answers for every key"},
    {"AUTH", RESP_AUTH, -2, 0, "Authenticates the connection"},
    {"CLIENT", RESP_CLIENT, -2, 0, "Names the connection, and tells of it"},
    {"CLUSTER", RESP_CLUSTER, -2, 0, "Tells of this node as of one that has every slot"},
    {"COMMAND", RESP_COMMAND, -1, 0, "Tells of the commands"},
    {"CONFIG", RESP_CONFIG, -2, 0, "Tells the few settings that clients ask for"},
    {"DBSIZE", RESP_DBSIZE, 1, 0, "Tells how many keys the node has"},
    {"ECHO", RESP_ECHO, 2, 0, "Gives its argument back"},
    {"HELLO", RESP_HELLO, -1, 0, "Chooses the protocol's version"},
    {"INFO", RESP_INFO, -1, 0, "Tells of the node"},
    {"PING", RESP_PING, -1, 0, "Answers PONG, or its argument"},
    {"PSUBSCRIBE", RESP_PSUBSCRIBE, -2, 0, "Listens; nothing is ever published: pattern ..."},
    {"PUNSUBSCRIBE", RESP_PUNSUBSCRIBE, -1, 0, "Ends that: [pattern ...]"},
    {"QUIT", RESP_QUIT, -1, 0, "Closes the connection"},
    {"READONLY", RESP_READONLY, 1, 0, "Answers OK"},
    {"READWRITE", RESP_READWRITE, 1, 0, "Answers OK"},
    {"RESET", RESP_RESET, 1, 0, "Makes the connection as new"},
    {"ROLE", RESP_ROLE, 1, 0, "Tells that this is a master"},
    {"SCAN", RESP_SCAN, -2, 0, "Tells no keys, for a node keeps their hashes alone"},
    {"SELECT", RESP_SELECT, 2, 0, "Chooses one of sixteen databases, each with keys of its own"},
    {"SENTINEL", RESP_SENTINEL, -2, 0, "Tells of this node as of the master of any name"},
    {"SUBSCRIBE", RESP_SUBSCRIBE, -2, 0, "Listens; nothing is ever published: channel ..."},
    {"UNSUBSCRIBE", RESP_UNSUBSCRIBE, -1, 0, "Ends that: [channel ...]"},
    {"WAIT", RESP_WAIT, 3, 0, "Answers 0, for replicas are no concern of clients"},
};

const struct resp_command *resp_command_find(struct wire_text name)
{
    for (size_t i = 0; i < RESP_COMMANDS; i++)
        if (resp_is_word(name, commands[i].name))
            return &commands[i];
    return NULL;
}

bool resp_command_fits(const struct resp_command *command, const struct resp_request *request)
{
    const int words = (int)request->count;
    return command->arity < 0 ? words >= -command->arity : words == command->arity;
}

/* The name as Redis writes it. */
static const char *lower_of(const struct resp_command *command, char out[32])
{
    size_t i = 0;
    for (; command->name[i] != '\0'; i++) {
        const char c = command->name[i];
        ASSERT(i + 1 < 32);
        out[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    out[i] = '\0';
    return out;
}

void resp_command_unknown(const struct resp_request *request, struct gateway_out *out)
{
    enum { SHOWN = 64, TEXT_LEN = 256 };
    char text[TEXT_LEN];
    const struct wire_text name = request->arguments[0];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "ERR unknown command '%.*s', with args beginning with: ",
                                   name.len < SHOWN ? (int)name.len : SHOWN, name.data);
    for (uint32_t i = 1; i < request->count && used < TEXT_LEN - SHOWN; i++) {
        const struct wire_text word = request->arguments[i];
        const int shown = word.len < SHOWN / 2 ? (int)word.len : SHOWN / 2;
        used += (size_t)snprintf(text + used, sizeof text - used, "'%.*s' ", shown, word.data);
    }
    resp_put_error(out, text);
}

void resp_command_unfit(const struct resp_command *command, struct gateway_out *out)
{
    char text[160];
    char name[32];
    const char *colon = strchr(command->summary, ':');
    (void)snprintf(text, sizeof text, "ERR wrong number of arguments for '%s' command%s%s",
                   lower_of(command, name), colon != NULL ? "; expected" : "",
                   colon != NULL ? colon + 1 : "");
    resp_put_error(out, text);
}

void resp_command_forbidden(const struct resp_command *command, struct wire_text name,
                            const char *right, struct gateway_out *out)
{
    char text[RESP_ERROR_LEN_MAX];
    char lower[32];
    (void)snprintf(text, sizeof text,
                   "NOPERM User %.*s has no permissions to run the '%s' command, which needs the "
                   "role %s",
                   (int)name.len, name.data, lower_of(command, lower), right);
    resp_put_error(out, text);
}

/* ---- COMMAND --------------------------------------------------------------------------------- */

/* Name, arity, flags, first key, last key, step, and four lists that are empty here. */
static void put_entry(const struct resp_command *command, struct gateway_out *out)
{
    char name[32];
    const int first = command->key < 0 ? -command->key : command->key;
    const int last = command->key < 0 ? -1 : command->key;
    resp_put_array(out, 10);
    resp_put_text(out, lower_of(command, name));
    resp_put_integer(out, command->arity);
    resp_put_set(out, 1);
    resp_put_simple(out, "fast");
    resp_put_integer(out, first);
    resp_put_integer(out, last);
    resp_put_integer(out, first > 0);
    resp_put_set(out, 0); /* categories */
    resp_put_array(out, 0);
    resp_put_array(out, 0);
    resp_put_array(out, 0);
}

static void put_docs(const struct resp_command *command, struct gateway_out *out)
{
    char name[32];
    resp_put_text(out, lower_of(command, name));
    resp_put_map(out, 3);
    resp_put_text(out, "summary");
    resp_put_text(out, command->summary);
    resp_put_text(out, "since");
    resp_put_text(out, "1.0.0");
    resp_put_text(out, "group");
    resp_put_text(out, command->id <= RESP_TG_LOAD ? "module" : "connection");
}

static void describe_docs(const struct resp_request *request, struct gateway_out *out)
{
    const struct resp_command *found[RESP_ARGUMENTS_MAX];
    size_t count = 0;
    for (uint32_t i = 2; i < request->count; i++) {
        found[count] = resp_command_find(request->arguments[i]);
        count += found[count] != NULL;
    }
    for (size_t i = 0; request->count == 2 && i < RESP_COMMANDS; i++)
        found[count++] = &commands[i];
    resp_put_map(out, count);
    for (size_t i = 0; i < count; i++)
        put_docs(found[i], out);
}

static void describe_some(const struct resp_request *request, struct gateway_out *out)
{
    resp_put_array(out, request->count - 2);
    for (uint32_t i = 2; i < request->count; i++) {
        const struct resp_command *command = resp_command_find(request->arguments[i]);
        if (command == NULL)
            resp_put_null(out);
        else
            put_entry(command, out);
    }
}

static void describe_all(struct gateway_out *out)
{
    resp_put_array(out, RESP_COMMANDS);
    for (size_t i = 0; i < RESP_COMMANDS; i++)
        put_entry(&commands[i], out);
}

static void list_names(struct gateway_out *out)
{
    char name[32];
    resp_put_array(out, RESP_COMMANDS);
    for (size_t i = 0; i < RESP_COMMANDS; i++)
        resp_put_text(out, lower_of(&commands[i], name));
}

void resp_command_describe(const struct resp_request *request, struct gateway_out *out)
{
    const struct wire_text *words = request->arguments;
    if (request->count == 1 || (request->count == 2 && resp_is_word(words[1], "INFO")))
        describe_all(out);
    else if (resp_is_word(words[1], "INFO"))
        describe_some(request, out);
    else if (resp_is_word(words[1], "DOCS"))
        describe_docs(request, out);
    else if (resp_is_word(words[1], "COUNT"))
        resp_put_integer(out, RESP_COMMANDS);
    else if (resp_is_word(words[1], "LIST"))
        list_names(out);
    else
        resp_put_error(out, "ERR unknown subcommand; expected INFO, DOCS, COUNT or LIST");
}
