/* admin.c - what a client asks a shard besides checks: who are you, where is what.
 *
 * HELLO and GET_RING teach a client the route key and which shard decides which vnode; `owner`
 * answers the same for one key, to people. These need the shard's own knowledge of terms; and
 * `pools.report` is to be told where pools are owned, which is a matter of terms too. All
 * other commands are about the node as a whole and are handed to the control core as an effect.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/people.h"

static void send_frame(uint64_t connection, int len, struct effects *effects)
{
    ASSERT(len > 0);
    struct effect *effect = effects_add(effects, EFFECT_SEND_CLIENT);
    effect->target = connection;
    effects_commit(effects, effect, (size_t)len);
}

void admin_hello(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                 struct effects *effects)
{
    enum { WELCOME_LEN = 1024 };
    char error[WIRE_ERROR_LEN];
    struct wire_hello hello;
    const int result = wire_decode_hello(frame, len, &hello, error);
    if (result != 0) {
        requests_refuse(shard, connection, frame, len, result, error, effects);
        return;
    }
    if (hello.version_min > WIRE_VERSION || hello.version_max < WIRE_VERSION) {
        requests_refuse(shard, connection, frame, len, TG_EVERSION,
                        "no protocol version in common: this node speaks version 1", effects);
        return;
    }
    struct wire_welcome welcome = {
        .session = hello.session,
        .version = WIRE_VERSION,
        .node_id = shard->options.node_id,
        .node_name = wire_text_of(shard->options.name),
        .vnodes = shard->options.vnodes,
        .view_version = shard->view != NULL ? shard->view->version : 0,
        .checks_max = WIRE_CHECKS_MAX,
        .message_max = WIRE_MESSAGE_MAX,
        .software = wire_text_of(shard->options.version),
    };
    memcpy(welcome.cluster_id, shard->options.cluster_id, sizeof welcome.cluster_id);
    welcome.route_key = shard->options.route_key;
    send_frame(connection,
               wire_encode_welcome(&welcome, effects_reserve(effects, WELCOME_LEN), WELCOME_LEN),
               effects);
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* Members that can be asked, with the endpoint of each shard. Returns how many. */
static uint32_t list_members(struct shard *shard, struct wire_ring_member *members,
                             struct wire_text *endpoints, uint32_t *endpoint_count,
                             uint16_t *index_of)
{
    uint32_t count = 0;
    *endpoint_count = 0;
    for (uint32_t m = 0; m < shard->view->member_count; m++) {
        const struct view_member *member = &shard->view->members[m];
        index_of[m] = WIRE_MEMBER_NONE;
        if (view_is_remote(shard->view, member) || member->shards == 0 ||
            count == WIRE_MEMBERS_MAX || *endpoint_count + member->shards > SHARD_ENDPOINTS_MAX)
            continue;
        const uint32_t first = *endpoint_count;
        for (uint16_t s = 0; s < member->shards; s++) {
            char *text = shard->admin.texts[*endpoint_count];
            if (view_shard_endpoint(member->client, s, text) != 0)
                break;
            endpoints[(*endpoint_count)++] = wire_text_of(text);
        }
        if (*endpoint_count - first != member->shards) {
            *endpoint_count = first;
            continue;
        }
        index_of[m] = (uint16_t)count;
        members[count++] = (struct wire_ring_member){
            .node_id = member->id,
            .name = wire_text_of(member->name),
            .endpoint_first = first,
            .shard_count = member->shards,
        };
    }
    return count;
}

static void list_leaders(struct shard *shard, const uint16_t *index_of, uint8_t *out)
{
    for (uint32_t number = 0; number < shard->options.vnodes; number++) {
        const struct view_member *member = view_find(shard->view, vnodes_leader(shard, number));
        const uint16_t at =
            member == NULL ? (uint16_t)WIRE_MEMBER_NONE : index_of[member - shard->view->members];
        out[number * 2] = (uint8_t)at;
        out[number * 2 + 1] = (uint8_t)(at >> 8);
    }
}

void admin_ring(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                struct effects *effects)
{
    char error[WIRE_ERROR_LEN];
    struct wire_get_ring message;
    const int result = wire_decode_get_ring(frame, len, &message, error);
    if (result != 0 || shard->view == NULL) {
        requests_refuse(shard, connection, frame, len, result != 0 ? result : TG_EUNAVAILABLE,
                        result != 0 ? error : "this node has not joined a cluster yet", effects);
        return;
    }
    struct wire_ring ring = {
        .session = message.session,
        .seq = message.seq,
        .view_version = shard->view->version,
        .epoch = shard->view->epoch,
        .members = shard->admin.members,
        .endpoints = shard->admin.endpoints,
        .vnode_count = shard->options.vnodes,
        .deciders = shard->state,
    };
    ring.member_count = list_members(shard, shard->admin.members, shard->admin.endpoints,
                                     &ring.endpoint_count, shard->admin.index_of);
    list_leaders(shard, shard->admin.index_of, shard->state);
    send_frame(
        connection,
        wire_encode_ring(&ring, effects_reserve(effects, WIRE_MESSAGE_MAX), WIRE_MESSAGE_MAX),
        effects);
}

/* ---- owner ----------------------------------------------------------------------------------- */

struct owner_question {
    struct wire_text key; /* inline; len 0 if attributes were given */
    struct policy_attribute attributes[POLICY_ATTRIBUTES_MAX];
    size_t attribute_count;
};

/* {"key": "..."} or {"attributes": {"name": "value"}}. */
static bool read_question(const struct wire_value *arguments, struct owner_question *out)
{
    struct mp_cursor cursor;
    memset(out, 0, sizeof *out);
    mp_cursor_init(&cursor, arguments->tokens, arguments->token_count);
    const uint32_t pairs = mp_get_map(&cursor);
    for (uint32_t i = 0; i < pairs && !cursor.failed; i++) {
        size_t len;
        const char *name = mp_get_str(&cursor, &len);
        if (len == 3 && memcmp(name, "key", 3) == 0) {
            out->key.data = mp_get_str(&cursor, &out->key.len);
        } else if (len == 10 && memcmp(name, "attributes", 10) == 0) {
            const uint32_t count = mp_get_map(&cursor);
            if (count > POLICY_ATTRIBUTES_GIVEN_MAX)
                return false;
            for (uint32_t k = 0; k < count; k++) {
                struct policy_attribute *attribute = &out->attributes[k];
                attribute->name = mp_get_str(&cursor, &attribute->name_len);
                attribute->value = mp_get_str(&cursor, &attribute->value_len);
            }
            out->attribute_count = count;
        } else {
            mp_skip(&cursor);
        }
    }
    return !cursor.failed && (out->key.data != NULL) != (out->attribute_count > 0);
}

static void put_name(const struct shard *shard, uint64_t id, struct mp_writer *writer)
{
    const struct view_member *member = view_find(shard->view, id);
    mp_put_str(writer, member != NULL ? member->name : "");
}

/* Those of the replicas that gossip holds for dead, or that have left. */
static void put_dead(const struct shard *shard, const struct vnode *vnode, struct mp_writer *writer)
{
    uint64_t dead[VIEW_REPLICAS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < vnode->id_count; i++) {
        const struct view_member *member = view_find(shard->view, vnode->ids[i]);
        if (member == NULL || member->state == VIEW_DEAD || member->state == VIEW_LEFT)
            dead[count++] = vnode->ids[i];
    }
    mp_put_str(writer, "dead");
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++)
        put_name(shard, dead[i], writer);
}

/* One row, about the vnode of the identity in shard->identity; in the plane of quorum, if this
 * shard has taken that up. What another region counts has no such plane here. */
static void put_owner(struct shard *shard, const struct policy_rule *rule, const char *window,
                      struct mp_writer *writer)
{
    const bool quorum = rule != NULL && rule->consistency == POLICY_CONSISTENCY_QUORUM;
    const uint32_t ring_vnode =
        identity_vnode(&shard->options.route_key, &shard->identity, shard->options.vnodes);
    const bool remote = rule != NULL && remote_home(shard, rule, ring_vnode) != 0;
    const bool other_plane = quorum && !remote && shard->vnode_end > shard->options.vnodes;
    const uint32_t number = ring_vnode + (other_plane ? shard->options.vnodes : 0);
    const struct vnode *vnode = &shard->vnodes[number];
    mp_put_map(writer, 10);
    mp_put_str(writer, "rule");
    mp_put_str(writer, rule != NULL ? rule->name.data : "");
    mp_put_str(writer, "window");
    mp_put_str(writer, window);
    mp_put_str(writer, "vnode");
    mp_put_uint(writer, ring_vnode);
    mp_put_str(writer, "epoch");
    mp_put_uint(writer, vnode->term.epoch);
    mp_put_str(writer, "term");
    mp_put_uint(writer, vnode->term.number);
    mp_put_str(writer, "owner");
    put_name(shard, vnode->id_count > 0 ? vnode->ids[0] : 0, writer);
    mp_put_str(writer, "decider");
    put_name(shard, vnodes_leader(shard, number), writer);
    mp_put_str(writer, "replicas");
    mp_put_array(writer, vnode->id_count);
    for (uint32_t i = 0; i < vnode->id_count; i++)
        put_name(shard, vnode->ids[i], writer);
    put_dead(shard, vnode, writer);
    mp_put_str(writer, "home");
    mp_put_str(writer, remote_home_name(shard, rule, ring_vnode));
}

static bool put_owners_of_rules(struct shard *shard, struct owner_question *question,
                                struct mp_writer *writer)
{
    struct policy_result result;
    const struct api_key *key = NULL;
    const struct policy_slot *slot = &shard->policies[shard->policy];
    const uint64_t now_ms = (uint64_t)(shard->now_ns / MS);
    struct limit limits[OWN_MERGED_MAX];
    struct person person;
    uint32_t rows = 0;
    if (slot->api_keys != NULL &&
        api_keys_resolve(slot->api_keys, NULL, question->attributes, &question->attribute_count,
                         now_ms, &key) != NULL) {
        mp_put_array(writer, 0); /* refused: nothing of it is counted anywhere */
        return true;
    }
    people_begin(key, &person);
    people_find(slot->people, question->attributes, &question->attribute_count, now_ms, &person);
    if (policy_resolve(slot->policy, question->attributes, question->attribute_count, &result) != 0)
        return false;
    people_apply(&person, question->attributes, question->attribute_count, &result);
    for (uint32_t i = 0; i < result.part_count; i++)
        rows += own_limits_of(&result.parts[i], limits);
    mp_put_array(writer, rows);
    for (uint32_t i = 0; i < result.part_count; i++) {
        const struct policy_rule *rule = result.parts[i].rule;
        struct identity_value values[POLICY_KEY_ATTRIBUTES_MAX];
        for (uint32_t k = 0; k < rule->key_count; k++)
            values[k] = (struct identity_value){result.parts[i].values[k].data,
                                                result.parts[i].values[k].len};
        if (identity_rule(&shard->identity, rule->counted.data, rule->counted.len, values,
                          rule->key_count) != 0)
            return false;
        const uint32_t count = own_limits_of(&result.parts[i], limits);
        for (uint32_t k = 0; k < count; k++) {
            char window[QUANTITY_TEXT_LEN];
            own_limits_window(rule, &limits[k], window);
            put_owner(shard, rule, window, writer);
        }
    }
    return true;
}

enum { BOUNDS_LEN = 256 };

static void refuse_question(struct shard *shard, uint64_t connection,
                            const struct wire_admin *admin, const struct owner_question *question,
                            struct effects *effects)
{
    char bounds[BOUNDS_LEN];
    char sentence[BOUNDS_LEN + 16];
    if (question->key.data != NULL)
        (void)snprintf(bounds, sizeof bounds, "key: found %zu bytes; expected 1 to %d",
                       question->key.len, IDENTITY_KEY_MAX);
    else
        policy_bounds_format(question->attributes, question->attribute_count, bounds,
                             sizeof bounds);
    (void)snprintf(sentence, sizeof sentence, "owner: %s", bounds);
    requests_error(shard, connection, admin->session, admin->seq, TG_EINVALID, sentence, effects);
}

static void answer_owner(struct shard *shard, uint64_t connection, const struct wire_admin *admin,
                         struct effects *effects)
{
    struct owner_question question;
    struct mp_writer writer;
    if (!read_question(&admin->arguments, &question)) {
        requests_error(shard, connection, admin->session, admin->seq, TG_EINVALID,
                       "owner: expected {\"key\": text} or {\"attributes\": {name: value}}",
                       effects);
        return;
    }
    mp_writer_init(&writer, effects_reserve(effects, WIRE_MESSAGE_MAX), WIRE_MESSAGE_MAX);
    wire_begin_admin_reply(&writer, admin->session, admin->seq, 0);
    bool ok = true;
    if (question.key.data != NULL) {
        ok = identity_inline(&shard->identity, question.key.data, question.key.len) == 0;
        mp_put_array(&writer, 1);
        put_owner(shard, NULL, "", &writer);
    } else {
        ok = put_owners_of_rules(shard, &question, &writer);
    }
    if (!ok || writer.failed)
        refuse_question(shard, connection, admin, &question, effects);
    else
        send_frame(connection, (int)writer.len, effects);
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* {"pool": "...", "load": 0.9} as the pool's name and millionths. */
static bool read_load(const struct wire_value *arguments, struct wire_text *name, uint32_t *ppm)
{
    struct mp_cursor cursor;
    double load = -1;
    *name = (struct wire_text){NULL, 0};
    mp_cursor_init(&cursor, arguments->tokens, arguments->token_count);
    const uint32_t pairs = mp_get_map(&cursor);
    for (uint32_t i = 0; i < pairs && !cursor.failed; i++) {
        size_t len;
        const char *key = mp_get_str(&cursor, &len);
        if (len == 4 && memcmp(key, "pool", 4) == 0)
            name->data = mp_get_str(&cursor, &name->len);
        else if (len == 4 && memcmp(key, "load", 4) == 0)
            load = mp_get_real(&cursor);
        else
            mp_skip(&cursor);
    }
    if (cursor.failed || name->len == 0 || !(load >= 0 && load <= 1))
        return false;
    *ppm = (uint32_t)(load * PEER_LOAD_MAX + 0.5);
    return true;
}

static void answer_load(struct shard *shard, uint64_t connection, const struct wire_admin *admin,
                        struct effects *effects)
{
    struct wire_text name;
    struct mp_writer writer;
    uint32_t ppm;
    if (!read_load(&admin->arguments, &name, &ppm)) {
        requests_error(shard, connection, admin->session, admin->seq, TG_EINVALID,
                       "pools.report: expected {\"pool\": name, \"load\": a number from 0 to 1}",
                       effects);
        return;
    }
    const struct policy_pool *pool =
        policy_pool_find(shard->policies[shard->policy].policy, name.data, name.len);
    if (pool == NULL) {
        requests_error(shard, connection, admin->session, admin->seq, TG_ENOTFOUND,
                       "pools.report: the rules have no pool of that name", effects);
        return;
    }
    pools_load(shard, pool->id, ppm);
    mp_writer_init(&writer, effects_reserve(effects, WIRE_MESSAGE_MAX), WIRE_MESSAGE_MAX);
    wire_begin_admin_reply(&writer, admin->session, admin->seq, 0);
    mp_put_map(&writer, 3);
    mp_put_str(&writer, "pool");
    mp_put_str(&writer, pool->name.data);
    mp_put_str(&writer, "load");
    mp_put_real(&writer, (double)ppm / PEER_LOAD_MAX);
    mp_put_str(&writer, "valid_ms");
    mp_put_uint(&writer, POOLS_LOAD_NS / MS);
    send_frame(connection, (int)writer.len, effects);
}

static bool is_command(const struct wire_admin *admin, const char *name)
{
    return admin->command.len == strlen(name) &&
           memcmp(admin->command.data, name, admin->command.len) == 0;
}

void admin_command(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                   struct effects *effects)
{
    char error[WIRE_ERROR_LEN];
    struct wire_admin admin;
    const int result =
        wire_decode_admin(frame, len, shard->admin.tokens,
                          sizeof shard->admin.tokens / sizeof *shard->admin.tokens, &admin, error);
    if (result != 0) {
        requests_refuse(shard, connection, frame, len, result, error, effects);
        return;
    }
    if (is_command(&admin, "owner") && shard->view != NULL) {
        answer_owner(shard, connection, &admin, effects);
        return;
    }
    if (is_command(&admin, "pools.report")) {
        answer_load(shard, connection, &admin, effects);
        return;
    }
    memcpy(effects_reserve(effects, len), frame, len);
    struct effect *effect = effects_add(effects, EFFECT_ADMIN);
    effect->target = connection;
    effects_commit(effects, effect, len);
}
