/* fuzz_shard.c - a whole shard among arbitrary clients and peers.
 *
 *     op = u8 what | ...
 *       client   u16 length, bytes                    a client's frame
 *       records  u16 length, bytes                    in a frame of a member
 *       frame    u16 length, bytes                    a peer's frame
 *       vnode    u8 from, type, vnode, role, terms    one likely record
 *       in another region   u8 operation, cost, vnode, key ...   what another region asks for, or
 * tells check    u8 key, operation, cost, limit       a client's frame that is right; the cost of
 * release and renew says of which message load     u8 result, u16 length, bytes         what the
 * disk holds answer                                        what peers that work would say now time
 * u8 ms
 *
 * Shard 0 runs; the other members of the ring, and those of another region, are ghosts in whose
 * name the input speaks. Property: the shard's invariants hold, every queue is within its bound,
 * and what it sends can be decoded.
 */
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include "base/quantity.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/dedup/lease_id.h"
#include "node/cluster/shard_state.h"
#include "node/policy/compile/policy_compile.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/support_shard.h"

enum {
    NODES = 6,
    REGION_NODES = 3, /* the first ones */
    FROM_REMOTE = 32,
    OPS_MAX = 100,
    ARENA_LEN = 256 << 20,
    ARENA_ALIGN = 16,
    ARENA_GAP = 64,
};

static const char *const rules =
    "pools: {far: {rate: 9/s, scope: global, home: r1}, near: {rate: 9/s, scope: global, home: "
    "r0}}\n"
    "rules:\n"
    "- {name: log, match: {api: /a}, key: [user], limits: [{rate: 5/h, algorithm: sliding_log}],"
    " mode: {elastic: {pool: far}}}\n"
    "- {name: two, match: {api: /b*}, key: [user, ip], limits: [{rate: 3/s}, {rate: 9/m}],"
    " mode: {elastic: {pool: near}}}\n"
    "- {name: no, match: {api: /c}, action: block}\n"
    "- {name: jobs, match: {api: /d}, key: [user],"
    " limits: [{count: 2, algorithm: concurrency, timeout: 90ms}, {rate: 99/h}]}\n"
    "- {name: all, match: {api: /q}, key: [user], limits: [{rate: 9/h}], consistency: quorum}\n"
    "- {name: far, match: {api: /e}, key: [user], limits: [{rate: 9/s}], scope: global, home: r1}\n"
    "- {name: near, match: {api: /f}, key: [user], limits: [{rate: 9/s}], scope: global, home: "
    "r0}\n";

static void tell_client(struct lab *lab, const uint8_t *bytes, size_t len)
{
    uint8_t *const frame = fuzz_copy(bytes, len);
    shard_client(lab->shards[0].shard, lab->now_ns, LAB_CONNECTION, frame, len, &lab->effects);
    lab_perform(lab, 0);
    free(frame);
}

static void tell_peer(struct lab *lab, const uint8_t *bytes, size_t len)
{
    uint8_t *const frame = fuzz_copy(bytes, len);
    shard_peer(lab->shards[0].shard, lab->now_ns, frame, len, &lab->effects);
    lab_perform(lab, 0);
    free(frame);
}

/* The records in a frame of ghost `from`. */
static void tell_records(struct lab *lab, uint8_t from, const uint8_t *records, size_t len)
{
    static uint8_t frame[(1 << 16) + PEER_ENVELOPE_MAX];
    const uint32_t ghost =
        (from & FROM_REMOTE) != 0 ? (uint32_t)REGION_NODES : 1U + from % (REGION_NODES - 1);
    const struct peer_envelope envelope = {.node = lab->shards[ghost].node,
                                           .boot = 1 + from / 128,
                                           .bulk = (from & 64) != 0,
                                           .records = records,
                                           .len = len};
    const int written = peer_encode(&envelope, frame, sizeof(frame));
    ASSERT(written > 0);
    tell_peer(lab, frame, (size_t)written);
}

static struct term some_term(struct fuzz_input *input, const struct lab *lab)
{
    const uint8_t number = fuzz_u8(input);
    return (struct term){.epoch = lab->config->epoch + (number == 255),
                         .number = number,
                         .writer = lab->shards[number % REGION_NODES].node};
}

static void tell_vnode(struct lab *lab, struct fuzz_input *input)
{
    uint8_t bytes[PEER_RECORD_MAX];
    struct bytes_writer writer;
    const uint8_t from = fuzz_u8(input);
    const enum peer_record_type types[] = {
        PEER_WATERMARK, PEER_HELD,     PEER_LACK,   PEER_STALE,        PEER_QUERY, PEER_REPORT,
        PEER_PULL,      PEER_TRANSFER, PEER_OPENED, PEER_DIVERGED_END, PEER_MERGED};
    const enum peer_record_type type = types[fuzz_u8(input) % (sizeof(types) / sizeof(types[0]))];
    struct peer_vnode entry = {.vnode = fuzz_u8(input) % (2 * LAB_VNODES)}; /* both planes */
    entry.role = fuzz_u8(input) % ROLE_END;
    entry.term = some_term(input, lab);
    entry.state = some_term(input, lab);
    entry.seq = fuzz_u16(input);
    entry.sync = fuzz_u8(input);
    entry.asks = (entry.seq & 1) != 0;
    entry.holds_newer = (entry.seq & 2) != 0;
    entry.flags = (entry.seq & 4) != 0 ? ENTRY_PROMISED : 0;
    bytes_writer_init(&writer, bytes, sizeof(bytes));
    peer_put_vnode(&writer, type, &entry);
    ASSERT(!writer.failed);
    tell_records(lab, from, bytes, writer.len);
}

/* Another region tells of a pool: the first one is at home there, the second one here. */
static void put_pool(struct bytes_writer *writer, const struct lab *lab, const struct forward *from)
{
    const struct shard *shard = lab->shards[0].shard;
    const struct policy *policy = shard->policies[shard->policy].policy;
    struct peer_pool_level level = {.pool = policy_pool_at(policy, from->vnode % 2)->id,
                                    .load_ppm = PEER_LOAD_UNKNOWN,
                                    .echo_ns = lab->now_ns - (int64_t)from->cost * LAB_MS};
    const struct peer_pool_origin origin = {.home = shard->remote.own,
                                            .node = lab->shards[REGION_NODES].node,
                                            .shard = (uint16_t)(from->used == 255),
                                            .sent_ns = level.echo_ns};
    const struct elastic_report report = {
        .pool = level.pool, .guaranteed = from->used << 30, .borrowed = from->cost << 30};
    level.level.budget = level.level.spare = level.level.level[0] = from->used << 30;
    peer_put_pool_level(writer, &level);
    peer_put_pool_report(writer, &origin, &report, (uint32_t)from->cost * 4000,
                         (uint32_t)from->used);
}

/* Another region asks for a key that is at home here, or not. */
static void tell_remote(struct lab *lab, struct fuzz_input *input)
{
    uint8_t bytes[PEER_RECORD_MAX];
    struct bytes_writer writer;
    struct forward forward = {.limit_count = 1, .wait_ms = 100};
    forward.operation = fuzz_u8(input) % OPERATION_COUNT;
    forward.cost = fuzz_u8(input);
    forward.used = fuzz_u8(input);
    forward.vnode = fuzz_u8(input) % LAB_VNODES;
    forward.ids[0] = (struct hash128){fuzz_u8(input) % 4, 7};
    forward.limits[0] = lab_limit(1 + fuzz_u8(input));
    forward.retry = (struct retry_key){LAB_SESSION + 1, 1 + fuzz_u8(input), 0, 0};
    forward.ticket = fuzz_u8(input);
    const uint8_t flags = fuzz_u8(input);
    bytes_writer_init(&writer, bytes, sizeof(bytes));
    if (flags == 253) {
        put_pool(&writer, lab, &forward);
        tell_records(lab, FROM_REMOTE, bytes, writer.len);
        return;
    }
    const bool holds = forward.operation >= OPERATION_LEASE;
    const bool reserves = forward.operation == OPERATION_RESERVE;
    forward.home = lab->shards[0].shard->remote.own + (flags == 255);
    forward.flags = (uint8_t)((holds ? FORWARD_HOLD : 0) | (flags & 1 ? FORWARD_RETRY : 0));
    if (reserves)
        forward.used += LIMIT_TTL_MIN_MS;
    if (wire_names_lease(forward.operation))
        forward.cost = decide_lease_of(lab->shards[0].shard, &forward.retry);
    peer_put_remote_ask(&writer, &forward);
    ASSERT(!writer.failed);
    tell_records(lab, FROM_REMOTE, bytes, writer.len);
}

/* The lease that the item of an earlier message was given, if it was given one. */
static uint64_t some_lease(const struct lab *lab, uint8_t number)
{
    const struct retry_key key = {LAB_SESSION, 1 + number % (lab->seq + 1), 0, 0};
    return decide_lease_of(lab->shards[0].shard, &key);
}

static void ask(struct lab *lab, struct fuzz_input *input)
{
    const char key[] = {'k', (char)('a' + fuzz_u8(input) % 8), '\0'};
    const uint8_t operation = fuzz_u8(input);
    const uint8_t number = fuzz_u8(input);
    const uint8_t chosen = fuzz_u8(input);
    const uint8_t plain = operation % OPERATION_COUNT;
    const bool may_take_less =
        plain == OPERATION_CHECK || plain == OPERATION_PEEK || plain == OPERATION_LEASE;
    const uint8_t asked = may_take_less ? plain | (operation & WIRE_AT_MOST) : plain;
    const bool names = wire_names_lease(plain);
    const uint64_t cost = names ? some_lease(lab, number) : number;
    if (chosen % 4 == 0) {
        static const char *const apis[] = {"api=/a", "api=/bc", "api=/q",
                                           "api=/d", "api=/e",  "api=/f"};
        const char *const attributes[] = {apis[chosen / 4 % 6], "user=u", "ip=10.1.1.1", NULL};
        lab_ask_attributes_as(lab, asked, cost, attributes);
    } else {
        struct limit limit = lab_limit(1 + chosen);
        limit.algorithm = (uint8_t)(chosen % ALGORITHM_COUNT);
        char sentence[QUANTITY_ERROR_LEN];
        if (limit_validate(&limit, sentence) != 0) {
            return;
        }
        if (names) {
            lab_ask_used(lab, &limit, key, asked, cost, number);
        } else {
            lab_ask(lab, &limit, key, asked, cost);
        }
    }
    (void)lab_send(lab, 0, 1 + operation);
}

/* Answers the oldest load with what the input says the disk holds. */
static void answer_load(struct lab *lab, struct fuzz_input *input)
{
    const uint8_t result = fuzz_u8(input);
    size_t got = 0;
    const uint8_t *const bytes = fuzz_take(input, fuzz_u16(input), &got);
    if (lab->load_count == 0) {
        return;
    }
    const struct lab_load load = lab->loads[--lab->load_count];
    uint8_t *const state = fuzz_copy(bytes, got);
    shard_loaded(lab->shards[0].shard, lab->now_ns, load.vnode, load.id,
                 result % 3 == 0   ? 0
                 : result % 3 == 1 ? TG_ENOTFOUND
                                   : TG_EIO,
                 state, got, &lab->effects);
    lab_perform(lab, 0);
    free(state);
}

/* What a peer that works says to one record. */
static void put_reply(struct bytes_writer *writer, const struct lab *lab,
                      const struct peer_record *record)
{
    struct peer_vnode entry = record->vnode;
    if (record->type == PEER_PING) {
        const struct peer_ping ping = {
            .sent_ns = lab->now_ns, .echo_ns = record->ping.sent_ns, .leases = true};
        peer_put_ping(writer, &ping);
    } else if (record->type == PEER_QUERY) {
        entry.role = ROLE_REPLICA;
        peer_put_vnode(writer, PEER_REPORT, &entry);
    } else if (record->type == PEER_WATERMARK && entry.asks) {
        peer_put_vnode(writer, PEER_HELD, &entry);
    } else if (record->type == PEER_REMOTE_PING && record->remote_ping.sent_ns != 0) {
        peer_put_remote_ping(writer, 0, record->remote_ping.sent_ns);
    } else if (record->type == PEER_REMOTE_POOL_REPORT) {
        struct peer_pool_level level = {.pool = record->pool_report.pool,
                                        .load_ppm = PEER_LOAD_UNKNOWN,
                                        .echo_ns = record->pool_report.origin.sent_ns};
        level.level.level[0] = level.level.level[1] = level.level.budget = level.level.budget_open =
            level.level.spare = UINT64_C(9000000000);
        peer_put_pool_level(writer, &level);
    } else if (record->type == PEER_REMOTE_ASK) {
        const struct answer answer = {.status = ANSWER_DECIDED,
                                      .allowed = true,
                                      .limit = 9,
                                      .granted = 1 + record->forward.cost % 7,
                                      .delay_ns = LIMIT_LEASE_NS};
        peer_put_remote_answer(writer, record->forward.ticket, &answer);
    }
}

/* Every peer answers what it was sent, as one that works: else no term would be opened and nothing
 * of consistency quorum decided. */
static void answer_as_peers(struct lab *lab)
{
    static uint8_t replies[1 << 16];
    for (; lab->frame_next < lab->frame_count; lab->frame_next++) {
        const struct lab_frame *const frame = &lab->frames[lab->frame_next];
        struct peer_envelope envelope;
        struct peer_record record;
        struct bytes_reader reader;
        struct bytes_writer writer;
        ASSERT(peer_decode(frame->bytes, frame->len, &envelope) == 0);
        bytes_reader_init(&reader, envelope.records, envelope.len);
        bytes_writer_init(&writer, replies, sizeof(replies));
        while (peer_next(&reader, 2 * LAB_VNODES, &record) > 0) {
            put_reply(&writer, lab, &record);
        }
        if (writer.len > 0 && !writer.failed) {
            tell_records(lab,
                         frame->to < REGION_NODES ? (uint8_t)(frame->to - 1) : (uint8_t)FROM_REMOTE,
                         replies, writer.len);
        }
    }
}

/* Time passes; the journal takes 0 to 3 ms for a batch, and refuses one in so many. */
static void pass_time(struct lab *lab, uint8_t ms)
{
    struct lab_journal *const journal = lab->shards[0].journal;
    lab->now_ns += ms * LAB_MS;
    if (journal->out && lab->now_ns >= journal->done_ns) {
        lab_journal_end(lab, 0, ms % 16 != 15);
    }
    lab_tick(lab, 0);
    if (!journal->out && shard_journal_due(lab->shards[0].shard)) {
        shard_journal_gather(lab->shards[0].shard, lab->now_ns, &journal->batch);
        journal->out = true;
        journal->done_ns = lab->now_ns + ms % 4 * LAB_MS;
    }
}

static void step(struct lab *lab, struct fuzz_input *input)
{
    const uint8_t what = fuzz_u8(input);
    const uint8_t from = what >> 4;
    size_t got = 0;
    switch (what % 8) {
    case 0:
        tell_client(lab, input->data + input->at, 0);
        tell_client(lab, fuzz_take(input, fuzz_u16(input), &got), got);
        break;
    case 1: {
        const uint8_t *const records = fuzz_take(input, fuzz_u16(input), &got);
        tell_records(lab, from, records, got);
        break;
    }
    case 2: {
        const uint8_t *const frame = fuzz_take(input, fuzz_u16(input), &got);
        tell_peer(lab, frame, got);
        break;
    }
    case 3:
        answer_load(lab, input);
        break;
    case 4:
        ask(lab, input);
        break;
    case 7:
        answer_as_peers(lab);
        break;
    case 5:
        pass_time(lab, fuzz_u8(input));
        break;
    default:
        if ((what & 8) != 0)
            tell_remote(lab, input);
        else
            tell_vnode(lab, input);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A shard takes some 40 MiB at its start and touches little of it. Blocks of one mapping, which is
 * emptied at once, cost a hundredth of what the heap of the address sanitizer costs; the gaps
 * between them are poisoned, so that it still sees who leaves a block. */
struct arena {
    uint8_t *base;
    size_t used;
};

static void *arena_get(void *context, size_t bytes)
{
    struct arena *const arena = context;
    uint8_t *const block = arena->base + arena->used;
    const size_t taken = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    ASSERT(arena->used + taken + ARENA_GAP <= ARENA_LEN);
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
    ASAN_POISON_MEMORY_REGION(block + bytes, taken - bytes + ARENA_GAP);
    arena->used += taken + ARENA_GAP;
    return block;
}

static void arena_put(void *context, void *block, size_t bytes)
{
    (void)context, (void)block, (void)bytes; /* all blocks go together */
}

static void arena_reset(struct arena *arena)
{
    if (arena->base == NULL) {
        arena->base = mmap(NULL, ARENA_LEN, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ASSERT(arena->base != MAP_FAILED);
    }
    ASSERT(madvise(arena->base, arena->used, MADV_DONTNEED) == 0); /* reads as zeros again */
    arena->used = 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void empty_journal(struct lab_journal *journal)
{
    for (size_t i = 0; i < journal->slot_count; i++) {
        free(journal->slots[i].bytes);
    }
    journal->slot_count = 0;
    journal->out = false;
    memset(journal->promised, 0, sizeof(journal->promised));
    memset(journal->state, 0, sizeof(journal->state));
    memset(journal->seq, 0, sizeof(journal->seq));
}

/* The laboratory as it was when it was new. */
static struct lab *begin(void)
{
    static struct lab *lab;
    static struct policy *policy;
    static struct arena arena;
    static const struct allocator allocator = {
        .get = arena_get, .put = arena_put, .context = &arena};
    struct policy_error error;
    if (lab == NULL) {
        lab = lab_new(NODES, 1, REGION_NODES);
        lab_regions(lab, REGION_NODES, REGION_NODES, 0);
        lab->large = true; /* the invariants are looked at below */
        ASSERT(policy_compile(rules, strlen(rules), alloc_heap(), &policy, &error) == 0);
    }
    lab_stop(lab, 0);
    empty_journal(lab->shards[0].journal);
    arena_reset(&arena);
    for (size_t i = 0; i < lab->frame_count; i++) {
        free(lab->frames[i].bytes);
    }
    for (size_t i = 0; i < lab->reply_count; i++) {
        free(lab->replies[i].bytes);
    }
    lab->frame_count = lab->frame_next = lab->reply_count = lab->load_count = 0;
    lab->seq = lab->view_version = 0;
    lab->now_ns = LAB_START_NS;
    lab->shards[0].options.boot = 1;
    ASSERT(shard_new(&allocator, &lab->shards[0].options, lab->now_ns, &lab->shards[0].shard) == 0);
    lab_view_all(lab);
    shard_policy(lab->shards[0].shard, policy);
    return lab;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    struct lab *const lab = begin();
    for (int op = 0; op < OPS_MAX && fuzz_more(&input); op++) {
        step(lab, &input);
    }
    lab->now_ns += 2000 * LAB_MS;
    lab_tick(lab, 0);
    shard_check_invariants(lab->shards[0].shard); /* once: it takes longer than all the steps */
    const struct shard_stats stats = lab_stats(lab, 0);
    ASSERT(stats.checks_pending <= SHARD_PENDING_MAX && stats.slots <= stats.slots_max);
    for (size_t i = 0; i < lab->frame_count; i++) {
        struct peer_envelope envelope;
        ASSERT(peer_decode(lab->frames[i].bytes, lab->frames[i].len, &envelope) == 0);
    }
    return 0;
}
