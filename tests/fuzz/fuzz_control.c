/* fuzz_control.c - a small cluster of control cores, one of which hears arbitrary frames.
 *
 *     op = u8 what | ...
 *       frame     u16 length, bytes
 *       time      u8 x 10 ms
 *       join      to whom; type, sender, region, whose cluster, address, configuration
 *       register  type, sender, whose, epoch, ballots, configuration
 *       admin     u16 length, bytes
 *       region    u8 name, u16 length, bytes       its record becomes that; of no bytes: it goes
 *       lost      whether anything is heard of the other region
 *
 * Property: the invariants of every core hold after each event (support_control.c looks), among
 * them that epochs never fall and that what is told is on disk; an ADMIN frame is always answered.
 */
#include "node/cluster/configstore/settings.h"
#include "node/cluster/consensus/register_wire.h"
#include "node/cluster/wire/join.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/support_control.h"

enum { NODES = 3, OPS_MAX = 60 }; /* the last one is of a region of its own */

/* The configuration in force with another epoch, encoded into `out`. */
static size_t other_config(struct net *net, struct fuzz_input *input, uint8_t *out, size_t capacity)
{
    struct ring_config *const changed = malloc(sizeof(*changed));
    ASSERT(changed != NULL);
    ring_config_copy(changed, net_config(net, 0));
    if (changed->epoch == 0) { /* there is no ring yet */
        free(changed);
        return 0;
    }
    changed->epoch += fuzz_u8(input);
    const int len = ring_config_encode(changed, out, capacity);
    free(changed);
    return len > 0 ? (size_t)len : 0;
}

static void tell_join(struct net *net, struct fuzz_input *input, uint32_t at)
{
    static const char *const regions[] = {"", "r1", "far", "elsewhere"};
    static uint8_t config[1 << 12];
    struct join_message message;
    size_t got = 0;
    memset(&message, 0, sizeof(message));
    message.type = (enum join_type)(1 + fuzz_u8(input) % JOIN_CONFIG);
    message.sender = fuzz_u8(input);
    const char *const region = regions[fuzz_u8(input) % 4];
    memcpy(message.region, region, strlen(region) + 1);
    const struct control_identity *const own = control_identity(net->nodes[0].control);
    if (own != NULL && fuzz_u8(input) % 4 != 0) {
        memcpy(message.cluster_id, own->cluster_id, sizeof(message.cluster_id));
        message.identity = *own;
    }
    const uint8_t *const address = fuzz_take(input, fuzz_u8(input) % VIEW_TEXT_LEN, &got);
    memcpy(message.address, address, got);
    const uint8_t *const bytes = fuzz_take(input, fuzz_u16(input) % sizeof(config), &got);
    memcpy(config, bytes, got);
    message.config = config;
    message.config_len = got;
    if (message.type == JOIN_CONFIG && got == 0) {
        message.config_len = other_config(net, input, config, sizeof(config));
    }
    uint8_t frame[sizeof(config) + 512];
    const int len = join_encode(&message, frame, sizeof(frame));
    if (len > 0) {
        net_tell(net, at, frame, (size_t)len);
    }
}

static void tell_register(struct net *net, struct fuzz_input *input)
{
    static uint8_t value[1 << 12];
    static uint8_t bytes[1 << 13];
    struct register_frame frame;
    const struct control_identity *const own = control_identity(net->nodes[0].control);
    memset(&frame, 0, sizeof(frame));
    if (own == NULL) {
        return;
    }
    memcpy(frame.cluster_id, own->cluster_id, sizeof(frame.cluster_id));
    memcpy(frame.address, net->nodes[1].options.gossip, sizeof(frame.address));
    frame.message.type =
        (enum register_type)(REGISTER_PREPARE + fuzz_u8(input) % (REGISTER_TYPE_END - 1));
    frame.message.sender = 1 + fuzz_u8(input) % 3;
    frame.settings = fuzz_u8(input) % 2 != 0;
    frame.message.epoch =
        (frame.settings ? 2 : net_config(net, 0)->epoch) + fuzz_u8(input) % 3; /* few versions */
    frame.message.ballot =
        (struct register_ballot){1 + fuzz_u8(input) % 16U, fuzz_u8(input) % 3, 1};
    frame.message.other = (struct register_ballot){fuzz_u8(input) % 16U, fuzz_u8(input) % 3, 1};
    if (fuzz_u8(input) % 2 == 0) {
        frame.message.value = value;
        frame.message.value_len = other_config(net, input, value, sizeof(value));
    }
    const int len = register_wire_encode(&frame, bytes, sizeof(bytes));
    ASSERT(len > 0);
    net_tell(net, 0, bytes, (size_t)len);
}

static void ask_admin(struct net *net, struct fuzz_input *input)
{
    static uint8_t reply[1 << 20];
    static const struct control_report report = {.storage = "lmdb", .storage_ok = true};
    struct control_report full = report;
    size_t got = 0;
    const uint8_t *const bytes = fuzz_take(input, fuzz_u16(input), &got);
    uint8_t *const frame = fuzz_copy(bytes, got);
    full.policy = policy_empty();
    full.started_ns = net->now_ns;
    const size_t len =
        control_admin(net->nodes[0].control, net->now_ns, frame, got, &full, reply, sizeof(reply));
    ASSERT(len > 0 && len <= sizeof(reply));
    free(frame);
}

/* A record of a region, as a node of any release may have written it. */
static void edit_region(struct net *net, struct fuzz_input *input)
{
    static const char *const names[] = {"r1", "far", "gone", "a region of a very, very long name"};
    const char *name = names[fuzz_u8(input) % (sizeof(names) / sizeof(names[0]))];
    size_t got = 0;
    const uint8_t *const bytes = fuzz_take(input, fuzz_u16(input), &got);
    const struct control_edit_request request = {
        .id = {(uint64_t)net->now_ns, net->sent},
        .kind = SETTINGS_REGION,
        .removes = got == 0,
        .based_on = SETTINGS_ANY,
        .name = {name, strlen(name)},
        .value = {(const char *)bytes, got},
        .author = {"", 0},
        .note = {"", 0},
    };
    const int error = control_edit(net->nodes[0].control, net->now_ns, &request);
    ASSERT(error == 0 || error == TG_EBUSY);
    net_run(net, 200 * NET_MS);
}

/* One node that creates a cluster, and two that are about to join it. The memory for effects is
 * kept: taking it anew for each input would cost more than the input does. */
static struct net *begin(void)
{
    static struct net *net;
    if (net == NULL) {
        net = net_new();
    }
    for (uint32_t i = 0; i < net->count; i++) {
        control_free(&net->nodes[i].control);
        free(net->nodes[i].config);
        free(net->nodes[i].peers);
        free(net->nodes[i].ballots);
        for (uint32_t v = 0; v < net->nodes[i].value_count; v++) {
            free(net->nodes[i].values[v].bytes);
        }
        free(net->nodes[i].values);
        memset(&net->nodes[i], 0, sizeof(net->nodes[i]));
    }
    for (size_t i = 0; i < net->frame_count; i++) {
        free(net->frames[i].bytes);
    }
    net->frame_count = 0;
    net->count = 0;
    net->now_ns = INT64_C(1700000000) * NET_SECOND;
    for (uint32_t i = 0; i < NODES; i++) {
        const char name[] = {'n', (char)('1' + i), '\0'};
        struct control_options options = net_options(net, i + 1, name);
        if (i > 0) {
            net_seed(&options, 0);
        }
        if (i == NODES - 1) {
            memcpy(options.region, "far", sizeof("far"));
        }
        (void)net_start(net, &options);
    }
    net_run(net, 2 * net->step_ns);
    return net;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    struct net *const net = begin();
    for (int op = 0; op < OPS_MAX && fuzz_more(&input); op++) {
        const uint8_t what = fuzz_u8(&input);
        size_t got = 0;
        if (what % 8 == 0) {
            const uint8_t *const bytes = fuzz_take(&input, fuzz_u16(&input), &got);
            uint8_t *const frame = fuzz_copy(bytes, got);
            net_tell(net, what >> 7, frame, got);
            free(frame);
        } else if (what % 8 <= 2) {
            net_run(net, (1 + fuzz_u8(&input) % 50) * 10 * NET_MS);
        } else if (what % 8 == 3) {
            tell_join(net, &input, (what >> 3) % NODES);
        } else if (what % 8 <= 5) {
            tell_register(net, &input);
        } else if (what % 8 == 6) {
            ask_admin(net, &input);
        } else if (what >> 7 != 0) {
            net->nodes[NODES - 1].cut = !net->nodes[NODES - 1].cut;
            net->step_ns = 100 * NET_MS;
            net_run(net, 12 * NET_SECOND); /* long enough to be out of reach */
            net->step_ns = 10 * NET_MS;
        } else {
            edit_region(net, &input);
        }
    }
    return 0;
}
