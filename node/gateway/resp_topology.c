/* resp_topology.c - a node as the whole of a Redis cluster, and as every master.
 *
 * RESPTOPOLOGY-1  What is told of an address is what the operator says that clients reach, and
 *                 where he says nothing that at which the client reached this node: behind a
 *                 proxy that tells it, the proxy's.
 */
#include "node/gateway/resp_topology.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/gateway/resp_check.h"

enum { ID_LEN = 41, PORT_LEN = 8, BUS_PORT_ADD = 10000, CHANNELS_MAX = 64, CHANNEL_MAX = 128 };

/* Where this node is, as far as the client is told. */
struct place {
    char host[GATEWAY_ADDRESS_LEN];
    char port[PORT_LEN];
    uint16_t number;
};

/* "127.0.0.1:7603", "[::1]:7603"; a path is none, and told as the port of the table. RESPTOPOLOGY-1
 */
static struct place place_of(const struct resp_facts *facts, const struct resp_peer *peer)
{
    struct place place = {.host = "127.0.0.1", .number = facts->port};
    const char *text = peer->base.local;
    const char *colon = strrchr(text, ':');
    const bool v6 = text[0] == '[';
    unsigned port;
    if (facts->told_host != NULL && facts->told_host[0] != '\0') {
        (void)snprintf(place.host, sizeof place.host, "%s", facts->told_host);
        place.number = facts->told_port;
    } else if (colon != NULL && sscanf(colon + 1, "%u", &port) == 1 && port <= UINT16_MAX) {
        const size_t from = v6 ? 1 : 0;
        const size_t len = (size_t)(colon - text) - 2 * from;
        memcpy(place.host, text + from, len);
        place.host[len] = '\0';
        place.number = (uint16_t)port;
    }
    (void)snprintf(place.port, sizeof place.port, "%u", place.number);
    return place;
}

/* Forty digits of base 16 that name the node, as Redis has them. */
static void write_id(const struct resp_facts *facts, char out[ID_LEN])
{
    (void)snprintf(out, ID_LEN, "%016" PRIx64 "%016" PRIx64 "%08" PRIx32, facts->node_id,
                   facts->node_id, (uint32_t)facts->node_id);
}

/* ---- CLUSTER --------------------------------------------------------------------------------- */

static void put_slots(const struct place *place, const char *id, struct gateway_out *out)
{
    resp_put_array(out, 1);
    resp_put_array(out, 3);
    resp_put_integer(out, 0);
    resp_put_integer(out, RESP_SLOTS - 1);
    resp_put_array(out, 4);
    resp_put_text(out, place->host);
    resp_put_integer(out, place->number);
    resp_put_text(out, id);
    resp_put_array(out, 0);
}

static void put_shards(const struct place *place, const char *id, struct gateway_out *out)
{
    const char *const texts[][2] = {{"id", id},
                                    {"ip", place->host},
                                    {"endpoint", place->host},
                                    {"role", "master"},
                                    {"health", "online"}};
    enum { TEXTS = sizeof texts / sizeof *texts };
    resp_put_array(out, 1);
    resp_put_map(out, 2);
    resp_put_text(out, "slots");
    resp_put_array(out, 2);
    resp_put_integer(out, 0);
    resp_put_integer(out, RESP_SLOTS - 1);
    resp_put_text(out, "nodes");
    resp_put_array(out, 1);
    resp_put_map(out, TEXTS + 2);
    for (size_t i = 0; i < TEXTS; i++) {
        resp_put_text(out, texts[i][0]);
        resp_put_text(out, texts[i][1]);
    }
    resp_put_text(out, "port");
    resp_put_integer(out, place->number);
    resp_put_text(out, "replication-offset");
    resp_put_integer(out, 0);
}

static void put_nodes(const struct place *place, const char *id, struct gateway_out *out)
{
    char text[GATEWAY_ADDRESS_LEN + 192];
    const int len = snprintf(
        text, sizeof text, "%s %s:%s@%u myself,master - 0 0 1 connected 0-%d\n", id, place->host,
        place->port, (place->number + (unsigned)BUS_PORT_ADD) & UINT16_MAX, RESP_SLOTS - 1);
    resp_put_verbatim(out, text, (size_t)len);
}

static void put_cluster_info(struct gateway_out *out)
{
    static const char text[] =
        "cluster_enabled:1\r\ncluster_state:ok\r\ncluster_slots_assigned:16384\r\n"
        "cluster_slots_ok:16384\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\n"
        "cluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\n"
        "cluster_my_epoch:1\r\n";
    resp_put_verbatim(out, text, sizeof text - 1);
}

uint16_t resp_topology_slot(struct wire_text key)
{
    const char *data = key.data;
    size_t len = key.len;
    const char *open = len > 0 ? memchr(data, '{', len) : NULL;
    const char *close =
        open != NULL ? memchr(open + 1, '}', len - (size_t)(open + 1 - data)) : NULL;
    if (close != NULL && close > open + 1) {
        data = open + 1;
        len = (size_t)(close - data);
    }
    uint16_t crc = 0; /* CRC16 of XMODEM */
    for (size_t i = 0; i < len; i++) {
        crc = (uint16_t)(crc ^ (uint16_t)((uint8_t)data[i] << 8));
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)((crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1);
    }
    return crc % RESP_SLOTS;
}

void resp_topology_cluster(const struct resp_facts *facts, struct resp_peer *peer,
                           const struct resp_request *request)
{
    struct gateway_out *out = &peer->base.out;
    const struct wire_text word = request->arguments[1];
    const struct place place = place_of(facts, peer);
    char id[ID_LEN];
    write_id(facts, id);
    if (resp_is_word(word, "SLOTS"))
        put_slots(&place, id, out);
    else if (resp_is_word(word, "SHARDS"))
        put_shards(&place, id, out);
    else if (resp_is_word(word, "NODES"))
        put_nodes(&place, id, out);
    else if (resp_is_word(word, "MYID"))
        resp_put_text(out, id);
    else if (resp_is_word(word, "INFO"))
        put_cluster_info(out);
    else if (resp_is_word(word, "KEYSLOT") && request->count == 3)
        resp_put_integer(out, resp_topology_slot(request->arguments[2]));
    else
        resp_put_error(out, "ERR unknown subcommand; expected SLOTS, SHARDS, NODES, MYID, INFO or "
                            "KEYSLOT key");
}

/* ---- SENTINEL -------------------------------------------------------------------------------- */

/* This node as the master of that name. */
static void put_master(const struct place *place, const char *id, struct wire_text name,
                       struct gateway_out *out)
{
    const char *const texts[][2] = {
        {"ip", place->host},
        {"port", place->port},
        {"runid", id},
        {"flags", "master"},
        {"link-pending-commands", "0"},
        {"link-refcount", "1"},
        {"last-ping-sent", "0"},
        {"last-ok-ping-reply", "0"},
        {"last-ping-reply", "0"},
        {"down-after-milliseconds", "30000"},
        {"role-reported", "master"},
        {"config-epoch", "0"},
        {"num-slaves", "0"},
        {"num-other-sentinels", "0"},
        {"quorum", "1"},
        {"failover-timeout", "180000"},
        {"parallel-syncs", "1"},
    };
    enum { TEXTS = sizeof texts / sizeof *texts };
    resp_put_map(out, TEXTS + 1);
    resp_put_text(out, "name");
    resp_put_bulk(out, name.data, name.len);
    for (size_t i = 0; i < TEXTS; i++) {
        resp_put_text(out, texts[i][0]);
        resp_put_text(out, texts[i][1]);
    }
}

static bool is_listing(struct wire_text word)
{
    return resp_is_word(word, "SENTINELS") || resp_is_word(word, "REPLICAS") ||
           resp_is_word(word, "SLAVES");
}

void resp_topology_sentinel(const struct resp_facts *facts, struct resp_peer *peer,
                            const struct resp_request *request)
{
    enum { NAME_MAX = 1024 };
    struct gateway_out *out = &peer->base.out;
    const struct wire_text word = request->arguments[1];
    const struct wire_text any = {.data = "tidegate", .len = 8};
    const bool named = request->count == 3 && request->arguments[2].len <= NAME_MAX;
    const struct wire_text name = named ? request->arguments[2] : any;
    const struct place place = place_of(facts, peer);
    char id[ID_LEN];
    write_id(facts, id);
    if (named && resp_is_word(word, "GET-MASTER-ADDR-BY-NAME")) {
        resp_put_array(out, 2);
        resp_put_text(out, place.host);
        resp_put_text(out, place.port);
    } else if (named && resp_is_word(word, "MASTER")) {
        put_master(&place, id, name, out);
    } else if (request->count == 2 && resp_is_word(word, "MASTERS")) {
        const struct wire_text usual = {.data = "mymaster", .len = 8};
        resp_put_array(out, 2); /* clients that look for a name in the list find the usual one */
        put_master(&place, id, usual, out);
        put_master(&place, id, any, out);
    } else if (named && is_listing(word)) {
        resp_put_array(out, 0);
    } else if (request->count == 2 && resp_is_word(word, "MYID")) {
        resp_put_text(out, id);
    } else {
        resp_put_error(out, "ERR expected SENTINEL get-master-addr-by-name|master|sentinels|"
                            "replicas|slaves name, masters or myid");
    }
}

void resp_topology_role(struct gateway_out *out)
{
    resp_put_array(out, 3);
    resp_put_text(out, "master");
    resp_put_integer(out, 0);
    resp_put_array(out, 0);
}

/* ---- SUBSCRIBE ------------------------------------------------------------------------------- */

/* Which word the reply has, and how many channels the client has then. */
static void put_subscribed(const char *word, const struct wire_text *channel, uint32_t count,
                           struct gateway_out *out)
{
    resp_put_push(out, 3);
    resp_put_text(out, word);
    if (channel == NULL)
        resp_put_null(out);
    else
        resp_put_bulk(out, channel->data, channel->len);
    resp_put_integer(out, count);
}

void resp_topology_subscribe(struct resp_peer *peer, const struct resp_command *command,
                             const struct resp_request *request)
{
    struct gateway_out *out = &peer->base.out;
    const bool leaves = command->id == RESP_UNSUBSCRIBE || command->id == RESP_PUNSUBSCRIBE;
    const char *word = command->id == RESP_SUBSCRIBE     ? "subscribe"
                       : command->id == RESP_PSUBSCRIBE  ? "psubscribe"
                       : command->id == RESP_UNSUBSCRIBE ? "unsubscribe"
                                                         : "punsubscribe";
    for (uint32_t i = 1; i < request->count; i++)
        if (request->arguments[i].len > CHANNEL_MAX) {
            resp_put_error(out, "ERR the name of a channel has more than 128 bytes");
            return;
        }
    if (!leaves && peer->channels + request->count - 1 > CHANNELS_MAX) {
        resp_put_error(out, "ERR more than 64 channels; nothing is published here");
        return;
    }
    if (request->count == 1) {
        peer->channels = 0;
        put_subscribed(word, NULL, 0, out);
    }
    for (uint32_t i = 1; i < request->count; i++) {
        if (!leaves)
            peer->channels++;
        else if (peer->channels > 0)
            peer->channels--;
        put_subscribed(word, &request->arguments[i], peer->channels, out);
    }
}
