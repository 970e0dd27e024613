/* fuzz_swim.c - a live membership core that is told arbitrary messages at arbitrary times.
 *
 *     op = u8 what | ...
 *       message  u16 length, bytes
 *       deliver  u8 which, u8 change, u16 at     a real message, one byte of it changed
 *       time     u16 ms
 *
 * Four cores of one cluster, two in each of two regions, run beside each other, so that messages in
 * flight are real ones; the input decides what is delivered, changed on the way (which also makes
 * up further regions), made up or lost. Property: the invariants of all hold after each event, and
 * what they want sent is within its bounds.
 */
#include <stdio.h>

#include "gossip/swim.h"
#include "tests/fuzz/fuzz.h"

enum { NODES = 4, REGION_NODES = 2, OPS_MAX = 200, KEPT_MAX = 16 };
#define NS_PER_MS INT64_C(1000000)

struct kept {
    uint8_t to;
    size_t len;
    uint8_t bytes[SWIM_MESSAGE_MAX];
};

struct world {
    int64_t now_ns;
    struct swim *nodes[NODES];
    size_t kept_count;
    struct kept kept[KEPT_MAX]; /* messages under way; the oldest give way */
};

static struct world world;
static struct swim_effects effects;

static struct swim_record record_of(uint32_t node)
{
    struct swim_record record = {.id = 0x100 + node,
                                 .incarnation = 3,
                                 .weight = 100,
                                 .shards = 1,
                                 .protocol_min = 1,
                                 .protocol_max = 1};
    (void)snprintf(record.name, sizeof(record.name), "n%u", node);
    (void)snprintf(record.region, sizeof(record.region), "r%u", node / REGION_NODES);
    (void)snprintf(record.gossip, sizeof(record.gossip), "10.0.0.%u:7602", node);
    (void)snprintf(record.peer, sizeof(record.peer), "10.0.0.%u:7601", node);
    (void)snprintf(record.client, sizeof(record.client), "10.0.0.%u:7600", node);
    (void)snprintf(record.software, sizeof(record.software), "1.2.3");
    return record;
}

/* Who listens at an address of record_of; any node where a changed message made one up. */
static uint8_t node_at(const char *address)
{
    const char *const last = strrchr(address, '.');
    return last != NULL ? (uint8_t)((unsigned char)last[1] % NODES) : 0;
}

/* Looks at what node `from` wants done, and keeps its messages. */
static void perform(uint32_t from)
{
    ASSERT(effects.sends_count <= SWIM_SENDS_MAX && effects.events_count <= SWIM_EVENTS_MAX);
    for (size_t i = 0; i < effects.sends_count; i++) {
        const struct swim_send *const send = &effects.sends[i];
        ASSERT(send->len <= SWIM_MESSAGE_MAX && send->offset + send->len <= effects.bytes_len);
        ASSERT(memchr(send->address, '\0', SWIM_ADDRESS_LEN) != NULL);
        struct kept *const kept = &world.kept[world.kept_count++ % KEPT_MAX];
        kept->to = node_at(send->address);
        kept->len = send->len;
        memcpy(kept->bytes, effects.bytes + send->offset, send->len);
    }
    swim_effects_clear(&effects);
    swim_check_invariants(world.nodes[from]);
}

static void tell(uint32_t node, const uint8_t *bytes, size_t len)
{
    uint8_t *const copy = fuzz_copy(bytes, len);
    (void)swim_receive(world.nodes[node], world.now_ns, copy, len, &effects);
    free(copy);
    perform(node);
}

static void pass_time(int64_t ns)
{
    world.now_ns += ns;
    for (uint32_t node = 0; node < NODES; node++) {
        swim_tick(world.nodes[node], world.now_ns, &effects);
        perform(node);
    }
}

/* Delivers a message that is under way, with up to one byte changed and its end cut off. */
static void deliver(struct fuzz_input *input)
{
    const size_t known = world.kept_count < KEPT_MAX ? world.kept_count : KEPT_MAX;
    if (known == 0) {
        return;
    }
    struct kept *const kept = &world.kept[fuzz_u8(input) % known];
    const uint8_t change = fuzz_u8(input);
    const uint16_t at = fuzz_u16(input);
    if (change != 0 && kept->len > 0) {
        kept->bytes[at % kept->len] = (uint8_t)(kept->bytes[at % kept->len] + change);
    }
    tell(kept->to, kept->bytes, change == 1 ? at % (kept->len + 1) : kept->len);
}

static void start(void)
{
    static const uint8_t cluster_id[SWIM_CLUSTER_ID_LEN] = "the one cluster";
    struct swim_options options;
    swim_options_default(&options);
    options.members_max = 16;
    memset(&world, 0, sizeof(world));
    world.now_ns = INT64_C(1700000000000) * NS_PER_MS;
    for (uint32_t node = 0; node < NODES; node++) {
        const struct swim_record record = record_of(node);
        ASSERT(swim_new(&world.nodes[node], alloc_heap(), &options, &record, cluster_id,
                        7 + node) == 0);
    }
    for (uint32_t node = 1; node < NODES; node++) {
        ASSERT(swim_add_seed(world.nodes[node], record_of(0).gossip) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    start();
    pass_time(NS_PER_MS);
    for (int op = 0; op < OPS_MAX && fuzz_more(&input); op++) {
        const uint8_t what = fuzz_u8(&input);
        const uint32_t node = what >> 6;
        size_t got = 0;
        if (what % 4 == 0) {
            const uint8_t *const bytes = fuzz_take(&input, fuzz_u16(&input), &got);
            tell(node, bytes, got);
        } else if (what % 4 == 1) {
            pass_time(fuzz_u16(&input) * NS_PER_MS);
        } else {
            deliver(&input);
        }
    }
    for (uint32_t node = 0; node < NODES; node++) {
        swim_free(&world.nodes[node]);
    }
    return 0;
}
