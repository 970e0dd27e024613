/* resp_local.c - the commands with which clients begin, look around and end.
 *
 * They are answered as Redis 7 answers them, as far as clients depend on it: its words in errors,
 * its fields in HELLO and INFO. Users are the cluster's credentials and `default`
 * (resp_user.h), and there is nothing to configure through this port.
 *
 * RESPLOCAL-1  An answer has at most RESP_LOCAL_MAX bytes. Only a client that has much repeated to
 *              it (COMMAND INFO with a hundred names) could ask for more: it gets an error.
 */
#include "node/gateway/resp_local.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/resp_check.h"
#include "node/gateway/resp_topology.h"
#include "node/gateway/throttle.h"

/* Clients compare this with versions of Redis to learn which commands they may use. */
#define SPOKEN_VERSION "7.0.0"

static_assert(RESP_ECHO_MAX + 32 <= RESP_LOCAL_MAX, "RESPLOCAL-1");

void resp_peer_init(struct resp_peer *peer)
{
    peer->base.out.protocol = 2;
    peer->base.begun = true;
}

/* ---- HELLO, AUTH, ACL ------------------------------------------------------------------------ */

struct resp_users resp_local_users(const struct resp_facts *facts)
{
    return (struct resp_users){facts->policy, facts->anonymous, facts->now_ns};
}

/* Whether it may be a connection's: printable, no blanks, short. */
static bool is_name(struct wire_text name)
{
    for (size_t i = 0; i < name.len && name.len < RESP_NAME_LEN; i++)
        if (name.data[i] < '!' || name.data[i] > '~')
            return false;
    return name.len < RESP_NAME_LEN;
}

static bool take_name(struct resp_peer *peer, struct wire_text name)
{
    if (!is_name(name))
        return false;
    memcpy(peer->name, name.data, name.len);
    peer->name[name.len] = '\0';
    return true;
}

#define BAD_NAME                                                                                   \
    "ERR Client names cannot contain spaces, newlines or special characters, or be longer than "   \
    "63 bytes."

#define NO_HELLO                                                                                   \
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "      \
    "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "     \
    "RESP protocol version at the same time"

static void put_hello(const struct resp_facts *facts, struct resp_peer *peer)
{
    struct gateway_out *out = &peer->base.out;
    resp_put_map(out, 7);
    resp_put_text(out, "server");
    resp_put_text(out, "tidegate");
    resp_put_text(out, "version");
    resp_put_text(out, facts->version);
    resp_put_text(out, "proto");
    resp_put_integer(out, out->protocol);
    resp_put_text(out, "id");
    resp_put_integer(out, (int64_t)peer->base.id);
    resp_put_text(out, "mode");
    resp_put_text(out, "standalone");
    resp_put_text(out, "role");
    resp_put_text(out, "master");
    resp_put_text(out, "modules");
    resp_put_array(out, 0);
}

/* What HELLO asks for. */
struct hello {
    int64_t version;
    const struct wire_text *user; /* and the password behind it; NULL: as it was */
    const struct wire_text *name; /* NULL: likewise */
};

/* NULL, or what is wrong. */
static const char *read_hello(const struct resp_request *request, struct hello *hello)
{
    const struct wire_text *words = request->arguments;
    if (request->count > 1 && !throttle_read_integer(words[1], &hello->version))
        return "ERR Protocol version is not an integer or out of range";
    if (hello->version != 2 && hello->version != 3)
        return "NOPROTO unsupported protocol version";
    for (uint32_t i = 2; i < request->count;) {
        const uint32_t more = request->count - 1 - i;
        if (more >= 2 && resp_is_word(words[i], "AUTH")) {
            hello->user = &words[i + 1];
            i += 3;
        } else if (more >= 1 && resp_is_word(words[i], "SETNAME")) {
            hello->name = &words[i + 1];
            i += 2;
        } else {
            return "ERR Syntax error in HELLO: expected AUTH user password, or SETNAME name";
        }
    }
    return NULL;
}

static bool is_unknown(const struct resp_users *users, const struct resp_peer *peer)
{
    struct access access;
    resp_user_look(users, &peer->user, &access);
    return resp_user_unknown(&access);
}

/* HELLO [version [AUTH user password] [SETNAME name]] */
static void hello(const struct resp_facts *facts, struct resp_peer *peer,
                  const struct resp_request *request)
{
    struct gateway_out *out = &peer->base.out;
    const struct resp_users users = resp_local_users(facts);
    struct hello asked = {.version = out->protocol};
    const char *fault = read_hello(request, &asked);
    if (fault == NULL && asked.name != NULL && !is_name(*asked.name))
        fault = BAD_NAME;
    if (fault == NULL && asked.user != NULL)
        fault = resp_user_auth(&users, peer->base.address, asked.user, asked.user[1], &peer->user);
    if (fault == NULL && is_unknown(&users, peer))
        fault = NO_HELLO;
    if (fault != NULL) {
        resp_put_error(out, fault);
        return;
    }
    if (asked.name != NULL)
        (void)take_name(peer, *asked.name);
    out->protocol = (uint8_t)asked.version;
    put_hello(facts, peer);
}

/* AUTH [user] password */
static void auth(const struct resp_facts *facts, struct resp_peer *peer,
                 const struct resp_request *request)
{
    const struct resp_users users = resp_local_users(facts);
    const struct wire_text *words = request->arguments;
    const bool named = request->count == 3;
    const char *fault = "ERR syntax error";
    if (request->count <= 3)
        fault = resp_user_auth(&users, peer->base.address, named ? &words[1] : NULL,
                               words[named ? 2 : 1], &peer->user);
    if (fault != NULL)
        resp_put_error(&peer->base.out, fault);
    else
        resp_put_simple(&peer->base.out, "OK");
}

/* ACL WHOAMI: of users there is no more to see here than oneself. */
static void acl(const struct resp_facts *facts, const struct resp_peer *peer,
                const struct resp_request *request, struct gateway_out *out)
{
    const struct resp_users users = resp_local_users(facts);
    struct access access;
    resp_user_look(&users, &peer->user, &access);
    const struct wire_text name = resp_user_name(&access);
    if (request->count == 2 && resp_is_word(request->arguments[1], "WHOAMI"))
        resp_put_bulk(out, name.data, name.len);
    else
        resp_put_error(out, "ERR expected ACL WHOAMI; credentials are made and ended by operators");
}

/* ---- CLIENT ---------------------------------------------------------------------------------- */

static void put_client(const struct resp_peer *peer, struct gateway_out *out)
{
    char text[RESP_NAME_LEN + GATEWAY_ADDRESS_LEN + 96];
    const int len =
        snprintf(text, sizeof text, "id=%" PRIu64 " addr=%s name=%s db=%u resp=%u\n", peer->base.id,
                 peer->base.address, peer->name, peer->database, peer->base.out.protocol);
    resp_put_verbatim(out, text, (size_t)len);
}

static void set_name(struct resp_peer *peer, const struct resp_request *request)
{
    if (request->count != 3 || !take_name(peer, request->arguments[2]))
        resp_put_error(&peer->base.out, BAD_NAME);
    else
        resp_put_simple(&peer->base.out, "OK");
}

static void client(struct resp_peer *peer, const struct resp_request *request)
{
    struct gateway_out *out = &peer->base.out;
    const struct wire_text word = request->arguments[1];
    if (resp_is_word(word, "SETNAME")) {
        set_name(peer, request);
    } else if (resp_is_word(word, "GETNAME")) {
        if (peer->name[0] != '\0')
            resp_put_text(out, peer->name);
        else
            resp_put_null(out);
    } else if (resp_is_word(word, "ID")) {
        resp_put_integer(out, (int64_t)peer->base.id);
    } else if (resp_is_word(word, "INFO") || resp_is_word(word, "LIST")) {
        put_client(peer, out);
    } else if (resp_is_word(word, "SETINFO") || resp_is_word(word, "NO-EVICT") ||
               resp_is_word(word, "NO-TOUCH")) {
        resp_put_simple(out, "OK"); /* nothing here depends on them */
    } else {
        resp_put_error(out, "ERR unknown subcommand; expected SETNAME, GETNAME, ID, INFO, LIST, "
                            "SETINFO, NO-EVICT or NO-TOUCH");
    }
}

/* ---- CONFIG ---------------------------------------------------------------------------------- */

/* Whether `text` matches `pattern`, in which '*' is any rest and '?' any byte. */
static bool matches(struct wire_text pattern, const char *text)
{
    size_t at = 0;
    size_t star = SIZE_MAX; /* the last '*' */
    size_t resume = 0;      /* what it has taken so far ends here */
    size_t i = 0;
    while (text[i] != '\0') {
        if (at < pattern.len && pattern.data[at] == '*') {
            star = at++;
            resume = i;
        } else if (at < pattern.len && (pattern.data[at] == '?' || pattern.data[at] == text[i])) {
            at++;
            i++;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            i = ++resume;
        } else {
            return false;
        }
    }
    while (at < pattern.len && pattern.data[at] == '*')
        at++;
    return at == pattern.len;
}

static void config_get(const struct resp_facts *facts, const struct resp_request *request,
                       struct gateway_out *out)
{
    char clients[16];
    char port[16];
    (void)snprintf(clients, sizeof clients, "%" PRIu32, facts->connections_max);
    (void)snprintf(port, sizeof port, "%u", facts->port);
    const char *const settings[][2] = {
        {"appendonly", "no"}, {"databases", "16"}, {"maxclients", clients}, {"maxmemory", "0"},
        {"port", port},       {"save", ""},        {"timeout", "0"},
    };
    enum { SETTINGS = sizeof settings / sizeof *settings };
    bool wanted[SETTINGS] = {false};
    size_t count = 0;
    for (size_t i = 0; i < SETTINGS; i++) {
        for (uint32_t k = 2; k < request->count && !wanted[i]; k++)
            wanted[i] = matches(request->arguments[k], settings[i][0]);
        count += wanted[i];
    }
    resp_put_map(out, count);
    for (size_t i = 0; i < SETTINGS; i++) {
        if (!wanted[i])
            continue;
        resp_put_text(out, settings[i][0]);
        resp_put_text(out, settings[i][1]);
    }
}

static void config(const struct resp_facts *facts, const struct resp_request *request,
                   struct gateway_out *out)
{
    if (request->count >= 3 && resp_is_word(request->arguments[1], "GET"))
        config_get(facts, request, out);
    else
        resp_put_error(out, "ERR expected CONFIG GET pattern; a node is configured by its flags "
                            "and its file");
}

/* ---- INFO ------------------------------------------------------------------------------------ */

struct info {
    char text[2048];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct info *info, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int len =
        vsnprintf(info->text + info->len, sizeof info->text - info->len, format, arguments);
    va_end(arguments);
    ASSERT(len >= 0 && (size_t)len < sizeof info->text - info->len);
    info->len += (size_t)len;
}

static bool section_wanted(const struct resp_request *request, const char *name)
{
    for (uint32_t i = 1; i < request->count; i++) {
        const struct wire_text word = request->arguments[i];
        if (resp_is_word(word, name) || resp_is_word(word, "ALL") ||
            resp_is_word(word, "DEFAULT") || resp_is_word(word, "EVERYTHING"))
            return true;
    }
    return request->count == 1;
}

static void add_stats(const struct gateway_stats *stats, struct info *info)
{
    add(info,
        "# Stats\r\ntotal_connections_received:%" PRIu64 "\r\nrejected_connections:%" PRIu64
        "\r\naccept_failures:%" PRIu64 "\r\ntotal_commands_processed:%" PRIu64 "\r\nchecks:%" PRIu64
        "\r\nbatches:%" PRIu64 "\r\nbusy:%" PRIu64 "\r\nprotocol_errors:%" PRIu64
        "\r\nslow_readers:%" PRIu64 "\r\n\r\n",
        stats->accepted, stats->refused, stats->accept_failures, stats->commands, stats->checks,
        stats->batches, stats->busy, stats->protocol_errors, stats->slow_readers);
}

static void info(const struct resp_facts *facts, const struct resp_request *request,
                 struct gateway_out *out)
{
    struct info info = {.len = 0};
    if (section_wanted(request, "SERVER"))
        add(&info,
            "# Server\r\nredis_version:" SPOKEN_VERSION "\r\nredis_mode:standalone\r\n"
            "tidegate_version:%.32s\r\ntidegate_node:%.64s\r\ntcp_port:%u\r\n"
            "uptime_in_seconds:%" PRId64 "\r\n\r\n",
            facts->version, facts->name, facts->port,
            (facts->now_ns - facts->started_ns) / 1000000000);
    if (section_wanted(request, "CLIENTS"))
        add(&info, "# Clients\r\nconnected_clients:%" PRIu64 "\r\nmaxclients:%" PRIu32 "\r\n\r\n",
            facts->stats->connections, facts->connections_max);
    if (section_wanted(request, "PERSISTENCE"))
        add(&info, "# Persistence\r\nloading:0\r\n\r\n");
    if (section_wanted(request, "STATS"))
        add_stats(facts->stats, &info);
    if (section_wanted(request, "REPLICATION"))
        add(&info, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n");
    if (section_wanted(request, "CLUSTER"))
        add(&info, "# Cluster\r\ncluster_enabled:1\r\n\r\n");
    resp_put_verbatim(out, info.text, info.len);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void give_back(struct wire_text text, struct gateway_out *out)
{
    if (text.len > RESP_ECHO_MAX)
        resp_put_error(out, "ERR the text is longer than 8192 bytes"); /* RESPLOCAL-1 */
    else
        resp_put_bulk(out, text.data, text.len);
}

/* A subscriber of version 2 is answered by an array, for all that it is sent is one. */
static void ping(struct resp_peer *peer, const struct resp_request *request)
{
    struct gateway_out *out = &peer->base.out;
    const bool subscribed = peer->channels > 0 && out->protocol < 3 && request->count <= 2;
    if (subscribed) {
        resp_put_array(out, 2);
        resp_put_text(out, "pong");
        if (request->count == 1)
            resp_put_text(out, "");
        else
            give_back(request->arguments[1], out);
    } else if (request->count > 2)
        resp_put_error(out, "ERR wrong number of arguments for 'ping' command");
    else if (request->count == 2)
        give_back(request->arguments[1], out);
    else
        resp_put_simple(out, "PONG");
}

static void select_database(struct resp_peer *peer, const struct resp_request *request)
{
    struct gateway_out *out = &peer->base.out;
    int64_t number;
    if (!throttle_read_integer(request->arguments[1], &number))
        resp_put_error(out, "ERR value is not an integer or out of range");
    else if (number < 0 || number >= RESP_DATABASES)
        resp_put_error(out, "ERR DB index is out of range");
    else {
        peer->database = (uint8_t)number;
        resp_put_simple(out, "OK");
    }
}

static void reset(struct resp_peer *peer)
{
    peer->base.out.protocol = 2;
    peer->name[0] = '\0';
    peer->database = 0;
    peer->channels = 0;
    peer->user = (struct access_kept){.shown = false};
    resp_put_simple(&peer->base.out, "RESET");
}

static void quit(struct resp_peer *peer)
{
    peer->base.closing = true;
    resp_put_simple(&peer->base.out, "OK");
}

/* What is asked about where the node is among others. */
static void answer_where(const struct resp_facts *facts, struct resp_peer *peer,
                         const struct resp_command *command, const struct resp_request *request)
{
    switch ((int)command->id) {
    case RESP_CLUSTER:
        resp_topology_cluster(facts, peer, request);
        break;
    case RESP_ROLE:
        resp_topology_role(&peer->base.out);
        break;
    case RESP_SENTINEL:
        resp_topology_sentinel(facts, peer, request);
        break;
    case RESP_SUBSCRIBE:
    case RESP_PSUBSCRIBE:
    case RESP_UNSUBSCRIBE:
    case RESP_PUNSUBSCRIBE:
        resp_topology_subscribe(peer, command, request);
        break;
    default:
        ASSERT(false); /* the shard's */
    }
}

static void answer(const struct resp_facts *facts, struct resp_peer *peer,
                   const struct resp_command *command, const struct resp_request *request)
{
    struct gateway_out *out = &peer->base.out;
    switch ((int)command->id) {
    case RESP_ACL:
        acl(facts, peer, request, out);
        break;
    case RESP_ASKING:
    case RESP_READONLY:
    case RESP_READWRITE:
        resp_put_simple(out, "OK");
        break;
    case RESP_AUTH:
        auth(facts, peer, request);
        break;
    case RESP_DBSIZE:
        resp_put_integer(out, facts->keys != NULL ? (int64_t)atomic_load(facts->keys) : 0);
        break;
    case RESP_SCAN:
        resp_put_array(out, 2);
        resp_put_text(out, "0");
        resp_put_array(out, 0);
        break;
    case RESP_WAIT:
        resp_put_integer(out, 0);
        break;
    case RESP_CLIENT:
        client(peer, request);
        break;
    case RESP_COMMAND:
        resp_command_describe(request, out);
        break;
    case RESP_CONFIG:
        config(facts, request, out);
        break;
    case RESP_ECHO:
        give_back(request->arguments[1], out);
        break;
    case RESP_HELLO:
        hello(facts, peer, request);
        break;
    case RESP_INFO:
        info(facts, request, out);
        break;
    case RESP_PING:
        ping(peer, request);
        break;
    case RESP_QUIT:
        quit(peer);
        break;
    case RESP_RESET:
        reset(peer);
        break;
    case RESP_SELECT:
        select_database(peer, request);
        break;
    default:
        answer_where(facts, peer, command, request);
    }
}

void resp_local(const struct resp_facts *facts, struct resp_peer *peer,
                const struct resp_command *command, const struct resp_request *request)
{
    struct gateway_out *out = &peer->base.out;
    const size_t capacity = out->capacity;
    const size_t before = out->len;
    ASSERT(capacity - before >= RESP_LOCAL_MAX);
    out->capacity = before + RESP_LOCAL_MAX;
    answer(facts, peer, command, request);
    if (out->failed) { /* RESPLOCAL-1 */
        out->failed = false;
        out->len = before;
        resp_put_error(out, "ERR the answer is too long; ask for less at a time");
    }
    out->capacity = capacity;
}
