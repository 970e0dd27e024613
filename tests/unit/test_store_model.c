/* test_store_model.c - the store against a naive map, over random histories; and what write-back
 * costs. */
#include "tests/unit/test_store.h"

#include <time.h>

#include "base/random.h"
#include "tests/unit/support_effort.h"

enum {
    MODEL_VNODES = 3,
    MODEL_IDS = 2500,
    MODEL_STATE_MAX = 40,
    MODEL_BATCH_MAX = 300,
    REOPEN = 80, /* steps from one reopening to the next */
    STEPS = EFFORT(3) * REOPEN,
};

/* The naive model: every (vnode, id) has a place of its own. */
struct model_slot {
    bool present;
    uint64_t expires_ms;
    uint32_t len;
    uint8_t state[MODEL_STATE_MAX];
};

struct model {
    struct model_slot slots[MODEL_VNODES][MODEL_IDS];
    bool has_header[MODEL_VNODES];
    uint64_t seq[MODEL_VNODES];
};

/* Ids that are hashes, and ids that are anything but: neighbours with one high half, ends of the
 * range. */
static struct hash128 model_id(uint64_t index)
{
    if (index % 5 == 1) {
        return (struct hash128){.hi = 77, .lo = index};
    }
    if (index < 2) {
        return index == 0 ? (struct hash128){0, 0} : (struct hash128){UINT64_MAX, UINT64_MAX};
    }
    return fixture_id(index);
}

/* Expired slots may linger in the store but must never be wrong; live ones must be there. */
static void model_compare(struct store *store, const struct model *model, uint64_t now_ms)
{
    static struct store_slot_read reads[MODEL_IDS];
    static uint8_t buffer[MODEL_IDS * MODEL_STATE_MAX];
    for (uint32_t vnode = 0; vnode < MODEL_VNODES; vnode++) {
        for (uint64_t i = 0; i < MODEL_IDS; i++) {
            reads[i] = (struct store_slot_read){.vnode = vnode, .id = model_id(i)};
        }
        assert_int_equal(store_read_slots(store, reads, MODEL_IDS, buffer, sizeof(buffer)), 0);
        for (uint64_t i = 0; i < MODEL_IDS; i++) {
            const struct model_slot *slot = &model->slots[vnode][i];
            const bool live = slot->present && slot->expires_ms > now_ms;
            if (live || reads[i].result != TG_ENOTFOUND) {
                assert_int_equal(reads[i].result, 0);
                assert_true(slot->present);
                assert_int_equal(reads[i].record.len, slot->len);
                assert_memory_equal(reads[i].record.state, slot->state, slot->len);
                assert_int_equal(reads[i].record.expires_ms, slot->expires_ms);
            }
        }
        struct store_vnode_header header;
        const int result = store_vnode_header(store, vnode, &header);
        assert_int_equal(result, model->has_header[vnode] ? 0 : TG_ENOTFOUND);
        assert_true(result != 0 || header.seq == model->seq[vnode]);
    }
}

static void model_write(struct store *store, struct model *model, struct random *random,
                        uint64_t now_ms)
{
    static struct store_record records[MODEL_BATCH_MAX];
    static uint8_t states[MODEL_BATCH_MAX][MODEL_STATE_MAX];
    const uint32_t vnode = (uint32_t)random_below(random, MODEL_VNODES);
    const size_t count = random_below(random, MODEL_BATCH_MAX);
    const struct store_vnode_header header = {.epoch = 1, .seq = random_next(random)};
    const bool drop = random_below(random, 60) == 0;
    if (drop) {
        memset(model->slots[vnode], 0, sizeof(model->slots[vnode]));
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t index = random_below(random, MODEL_IDS);
        struct model_slot *slot = &model->slots[vnode][index];
        slot->expires_ms = now_ms + random_below(random, 2000);
        slot->present = slot->expires_ms > now_ms;
        slot->len = (uint32_t)random_below(random, MODEL_STATE_MAX + 1);
        memset(states[i], (int)random_below(random, 256), MODEL_STATE_MAX);
        memcpy(slot->state, states[i], MODEL_STATE_MAX);
        records[i] = (struct store_record){.id = model_id(index),
                                           .expires_ms = slot->expires_ms,
                                           .state = states[i],
                                           .len = slot->len};
    }
    const struct store_vnode_batch batch = {
        .vnode = vnode, .drop_all = drop, .header = &header, .records = records, .count = count};
    model->has_header[vnode] = true;
    model->seq[vnode] = header.seq;
    assert_int_equal(store_write(store, &batch, 1, now_ms), 0);
}

/* Random writes, resets, drops, purges and reopenings leave the store equal to a map of slots. */
static void random_histories_equal_a_naive_map(void **state)
{
    struct fixture *f = *state;
    static struct model model;
    const struct store_options options = {.state_map_bytes = 256 << 10};
    struct store_purge_result purge;
    struct random random;
    random_init(&random, 20261121);
    fixture_open(f, &options);
    uint64_t now_ms = 1000;
    for (int step = 0; step < STEPS; step++) {
        model_write(f->store, &model, &random, now_ms);
        now_ms += random_below(&random, 50);
        if (random_below(&random, 3) == 0) {
            assert_int_equal(store_purge(f->store, now_ms, 8, NULL, NULL, &purge), 0);
        }
        if (step % 20 == 19) {
            model_compare(f->store, &model, now_ms);
        }
        if (step % REOPEN == REOPEN - 1) {
            store_close(&f->store);
            fixture_open(f, &options);
        }
    }
}

/* ---- cost: TIDEGATE_BENCH=1 runs it with a million keys ---- */

enum {
    COST_KEYS_PER_VNODE = 244,
    COST_VNODES_MAX = 4096,
    COST_STATE_LEN = 16,
    COST_RECORDS_MAX = 100000, /* of one transaction: ~8 MiB with what goes around them */
};

static double cpu_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Writes all keys once, in chunks; CPU seconds. */
static double cost_in_chunks(struct store *store, struct store_record *records, uint32_t vnodes)
{
    static struct store_vnode_batch batches[COST_VNODES_MAX];
    const struct store_vnode_header header = {.epoch = 1};
    const double begin = cpu_seconds();
    size_t count = 0;
    for (uint32_t vnode = 0; vnode < vnodes; vnode++) {
        batches[count++] =
            (struct store_vnode_batch){.vnode = vnode,
                                       .header = &header,
                                       .records = records + (size_t)vnode * COST_KEYS_PER_VNODE,
                                       .count = COST_KEYS_PER_VNODE};
        if (count * COST_KEYS_PER_VNODE >= COST_RECORDS_MAX || vnode + 1 == vnodes) {
            assert_int_equal(store_write(store, batches, count, 1), 0);
            count = 0;
        }
    }
    return cpu_seconds() - begin;
}

/* Writes all keys once, a database record each, vnode by vnode in the order the slots lie in; CPU
 * seconds. */
static double cost_as_records(struct store *store, const struct store_record *records, size_t keys)
{
    static struct store_meta_item items[COST_RECORDS_MAX];
    static char names[COST_RECORDS_MAX][40];
    double seconds = 0;
    for (size_t done = 0; done < keys;) {
        size_t count = 0;
        for (; count < COST_RECORDS_MAX && done < keys; count++, done++) {
            (void)snprintf(names[count], sizeof(names[count]), "%04zx%016llx",
                           done / COST_KEYS_PER_VNODE, (unsigned long long)records[done].id.hi);
            items[count] = (struct store_meta_item){
                .key = names[count], .data = records[done].state, .len = COST_STATE_LEN};
        }
        const double begin = cpu_seconds();
        assert_int_equal(store_meta_put_many(store, items, count), 0);
        seconds += cpu_seconds() - begin;
    }
    return seconds;
}

/* Chunks cost a fraction of the CPU that a record a key costs; the figures are printed on request.
 */
static void chunks_cost_less_than_records(void **state)
{
    struct fixture *f = *state;
    static const uint8_t state_bytes[COST_STATE_LEN] = "fifteen bytes.";
    const bool full = getenv("TIDEGATE_BENCH") != NULL;
    const uint32_t vnodes = full ? COST_VNODES_MAX : 64;
    const size_t keys = (size_t)vnodes * COST_KEYS_PER_VNODE;
    struct store_record *records = calloc(keys, sizeof(*records));
    double chunks = 0;
    double rows = 0;
    struct store_stats stats;
    assert_non_null(records);
    for (size_t i = 0; i < keys; i++) {
        records[i] = fixture_record(i, 5000, state_bytes, COST_STATE_LEN);
    }
    fixture_open(f, NULL);
    for (int round = 0; round < 3; round++) { /* the first creates, the others write back */
        chunks = cost_in_chunks(f->store, records, vnodes);
        if (full) {
            print_message("%zu keys in chunks, round %d: %.3f CPU-s\n", keys, round, chunks);
        }
    }
    for (int round = 0; round < 2; round++) {
        rows = cost_as_records(f->store, records, keys);
        if (full) {
            print_message("%zu keys as records, round %d: %.3f CPU-s\n", keys, round, rows);
        }
    }
    store_stats(f->store, &stats);
    if (full) {
        print_message("state %.1f MB in use (%.1f MB free), %llu chunks and %.1f MB written\n",
                      (double)stats.state_used_bytes / 1e6, (double)stats.state_free_bytes / 1e6,
                      (unsigned long long)stats.chunks_written, (double)stats.bytes_written / 1e6);
        assert_true(chunks * 4 < rows); /* a loaded machine gets some slack */
    }
    assert_int_equal(stats.records_written, 3 * keys);
    assert_true(stats.chunks_written * 50 < stats.records_written);
    free(records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(random_histories_equal_a_naive_map),
        STORE_TEST(chunks_cost_less_than_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
