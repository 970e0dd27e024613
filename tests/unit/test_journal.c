/* test_journal.c - the journal: round trips, a naive model, kills, a full disk, damaged records. */
#include "tests/unit/test_store.h"

#include <signal.h>
#include <sys/resource.h>

#include "base/random.h"

enum {
    MODEL_VNODES = 4,
    MODEL_IDS = 400,
    MODEL_STATE_MAX = 40,
    MODEL_BATCH_MAX = 120,
    MODEL_STEPS = 400,
    CRASH_KILLS = 20,
    CRASH_VNODES = 3,
    CRASH_SLOTS = 60, /* per vnode */
    CRASH_ACKS_MAX = 60,
};

static struct store_journal_record promise(uint32_t vnode, uint64_t epoch, uint64_t number,
                                           uint64_t writer)
{
    return (struct store_journal_record){
        .vnode = vnode,
        .kind = STORE_JOURNAL_PROMISE,
        .header = {.epoch = epoch, .number = number, .writer = writer}};
}

static struct store_journal_record header(uint32_t vnode, uint64_t number, uint64_t seq)
{
    return (struct store_journal_record){
        .vnode = vnode,
        .kind = STORE_JOURNAL_HEADER,
        .header = {.epoch = 1, .number = number, .writer = 3, .seq = seq}};
}

static struct store_journal_record slot(uint32_t vnode, uint64_t number, uint64_t expires_ms,
                                        const void *state, size_t len)
{
    return (struct store_journal_record){.vnode = vnode,
                                         .kind = STORE_JOURNAL_SLOT,
                                         .slot = fixture_record(number, expires_ms, state, len)};
}

/* What a scan met. */
struct seen {
    size_t count;
    size_t stop_after; /* 0: never */
    uint64_t promises[8];
    uint64_t writers[8]; /* of the promises */
    uint64_t seqs[8];
    size_t slots[8];
    uint64_t state_sum;
    uint32_t last_vnode;
    int last_kind;
};

static int see(void *context, const struct store_journal_record *record)
{
    struct seen *seen = context;
    assert_true(record->vnode < 8);
    assert_true(seen->count == 0 || record->vnode > seen->last_vnode ||
                (record->vnode == seen->last_vnode && (int)record->kind >= seen->last_kind));
    seen->last_vnode = record->vnode;
    seen->last_kind = (int)record->kind;
    seen->count++;
    if (record->kind == STORE_JOURNAL_PROMISE) {
        seen->promises[record->vnode] = record->header.number;
        seen->writers[record->vnode] = record->header.writer;
    } else if (record->kind == STORE_JOURNAL_HEADER) {
        seen->seqs[record->vnode] = record->header.seq;
    } else {
        seen->slots[record->vnode]++;
        seen->state_sum += record->slot.state[0];
    }
    return seen->count == seen->stop_after ? 7 : 0;
}

static void expect_state(struct store *store, uint32_t vnode, uint64_t number, const char *text)
{
    uint8_t buffer[64];
    struct store_record found;
    const int result =
        store_journal_get(store, vnode, fixture_id(number), buffer, sizeof(buffer), &found);
    if (text == NULL) {
        assert_int_equal(result, TG_ENOTFOUND);
        return;
    }
    assert_int_equal(result, 0);
    assert_int_equal(found.len, strlen(text));
    assert_memory_equal(found.state, text, found.len);
}

/* Promise, header and slots of several vnodes come back after a reopening, in their order. */
static void a_batch_survives_reopening(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    const struct store_journal_record batch[] = {
        slot(5, 1, 900, "a", 1), promise(2, 1, 40, 9),    header(2, 3, 17),
        slot(2, 1, 900, "b", 1), slot(2, 2, 900, "c", 1), header(5, 3, 18),
    };
    fixture_open(f, NULL);
    assert_int_equal(store_journal_write(f->store, batch, 6), 0);
    assert_int_equal(store_journal_write(f->store, NULL, 0), 0);
    store_close(&f->store);
    fixture_open(f, NULL);
    assert_int_equal(store_journal_scan(f->store, see, &seen), 0);
    assert_int_equal(seen.count, 6);
    assert_int_equal(seen.promises[2], 40);
    assert_int_equal(seen.seqs[2], 17);
    assert_int_equal(seen.seqs[5], 18);
    assert_int_equal(seen.slots[2], 2);
    assert_int_equal(seen.state_sum, 'a' + 'b' + 'c');
    expect_state(f->store, 5, 1, "a");
    expect_state(f->store, 2, 2, "c");
    expect_state(f->store, 5, 2, NULL);
    seen = (struct seen){.stop_after = 2};
    assert_int_equal(store_journal_scan(f->store, see, &seen), 7);
    assert_int_equal(seen.count, 2);
}

/* Of several records of one slot in a batch the last counts, and an empty state removes it. */
static void the_last_record_of_a_slot_counts(void **state)
{
    struct fixture *f = *state;
    const struct store_journal_record first[] = {
        slot(1, 1, 900, "old", 3), slot(1, 2, 900, "kept", 4), slot(1, 1, 900, "new", 3)};
    const struct store_journal_record second[] = {
        slot(1, 1, 900, NULL, 0), slot(1, 3, 900, "x", 1), slot(1, 3, 900, NULL, 0),
        slot(1, 4, 900, NULL, 0), slot(1, 4, 900, "y", 1)};
    fixture_open(f, NULL);
    assert_int_equal(store_journal_write(f->store, first, 3), 0);
    expect_state(f->store, 1, 1, "new");
    assert_int_equal(store_journal_write(f->store, second, 5), 0);
    expect_state(f->store, 1, 1, NULL);
    expect_state(f->store, 1, 2, "kept");
    expect_state(f->store, 1, 3, NULL);
    expect_state(f->store, 1, 4, "y");
}

/* A promise below the stored one changes nothing, whichever part of the term is lower. */
static void a_promise_only_rises(void **state)
{
    struct fixture *f = *state;
    const struct store_journal_record high = promise(1, 5, 50, 500);
    const struct store_journal_record lower[] = {promise(1, 4, 99, 999), promise(1, 5, 49, 999),
                                                 promise(1, 5, 50, 499)};
    fixture_open(f, NULL);
    assert_int_equal(store_journal_write(f->store, &high, 1), 0);
    for (size_t i = 0; i < 3; i++) {
        struct seen seen = {0};
        assert_int_equal(store_journal_write(f->store, &lower[i], 1), 0);
        assert_int_equal(store_journal_scan(f->store, see, &seen), 0);
        assert_int_equal(seen.count, 1);
        assert_int_equal(seen.promises[1], 50);
        assert_int_equal(seen.writers[1], 500);
    }
    const struct store_journal_record writer = promise(1, 5, 50, 501);
    struct seen seen = {0};
    assert_int_equal(store_journal_write(f->store, &writer, 1), 0);
    assert_int_equal(store_journal_scan(f->store, see, &seen), 0);
    assert_int_equal(seen.writers[1], 501);
    const struct store_journal_record higher[] = {promise(1, 6, 1, 1), promise(1, 5, 60, 1)};
    memset(&seen, 0, sizeof seen);
    assert_int_equal(store_journal_write(f->store, higher, 2), 0);
    assert_int_equal(store_journal_scan(f->store, see, &seen), 0);
    assert_int_equal(seen.promises[1], 1);
}

/* What was accepted of a term rules out the terms below it, also when what was accepted is dropped.
 */
static void a_dropped_header_leaves_a_promise_of_its_term(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    const struct store_journal_record batch[] = {
        promise(1, 1, 10, 1), header(1, 12, 1), header(2, 5, 2),
        promise(3, 1, 30, 1), header(3, 12, 3),
    };
    fixture_open(f, NULL);
    assert_int_equal(store_journal_write(f->store, batch, 5), 0);
    for (uint32_t vnode = 1; vnode <= 3; vnode++)
        assert_int_equal(store_journal_drop(f->store, vnode), 0);
    assert_int_equal(store_journal_scan(f->store, see, &seen), 0);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.promises[1], 12);
    assert_int_equal(seen.promises[2], 5);
    assert_int_equal(seen.promises[3], 30);
}

/* Dropping a vnode takes its header and slots, and leaves its promise and its neighbours. */
static void a_dropped_vnode_keeps_its_promise(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    const struct store_journal_record batch[] = {
        promise(1, 1, 10, 1),    header(1, 1, 1),      slot(1, 1, 900, "a", 1),
        promise(2, 1, 20, 1),    header(2, 1, 2),      slot(2, 1, 900, "b", 1),
        slot(2, 2, 900, "c", 1), promise(3, 1, 30, 1), header(3, 1, 3),
        slot(3, 1, 900, "d", 1),
    };
    fixture_open(f, NULL);
    assert_int_equal(store_journal_write(f->store, batch, 10), 0);
    assert_int_equal(store_journal_drop(f->store, 2), 0);
    assert_int_equal(store_journal_drop(f->store, 7), 0);
    assert_int_equal(store_journal_scan(f->store, see, &seen), 0);
    assert_int_equal(seen.count, 7);
    assert_int_equal(seen.promises[2], 20);
    assert_int_equal(seen.slots[2], 0);
    assert_int_equal(seen.seqs[2], 0);
    assert_int_equal(seen.slots[1] + seen.slots[3], 2);
}

/* Expired slots go in small portions, whatever lies between them, and the round begins again. */
static void expired_slots_go_in_small_portions(void **state)
{
    struct fixture *f = *state;
    struct store_journal_expiry done = {.round_complete = false};
    struct seen seen = {0};
    uint32_t removed = 0;
    uint32_t calls = 0;
    fixture_open(f, NULL);
    for (uint64_t i = 0; i < 100; i++) {
        const struct store_journal_record batch[] = {
            header((uint32_t)(i % 3), 1, i), promise((uint32_t)(i % 3), 1, i, 1),
            slot((uint32_t)(i % 3), i, i % 2 == 0 ? 500 : 501, "x", 1)};
        assert_int_equal(store_journal_write(f->store, batch, 3), 0);
    }
    for (; !done.round_complete; calls++) {
        assert_int_equal(store_journal_expire(f->store, 500, 10, &done), 0);
        assert_true(done.looked <= 10);
        removed += done.removed;
    }
    assert_int_equal(removed, 50);
    assert_true(calls >= 10);
    assert_int_equal(store_journal_scan(f->store, see, &seen), 0);
    assert_int_equal(seen.count, 50 + 6);
    assert_int_equal(store_journal_expire(f->store, 501, 1000, &done), 0);
    assert_int_equal(done.removed, 50);
    assert_true(done.round_complete);
}

/* A listing gives each living id of the one vnode once, in order, whatever the size of a piece. */
static void a_listing_gives_the_living_ids_of_its_vnode(void **state)
{
    struct fixture *f = *state;
    static struct store_journal_record batch[90];
    fixture_open(f, NULL);
    for (uint64_t i = 0; i < 90; i++) {
        batch[i] = slot((uint32_t)(i % 3), i, i % 5 == 0 ? 100 : 900, "x", 1);
    }
    assert_int_equal(store_journal_write(f->store, batch, 90), 0);
    for (size_t capacity = 1; capacity <= 40; capacity += 13) {
        struct store_listing listing = {.vnode = 1};
        struct hash128 last = {0, 0};
        size_t total = 0;
        while (!listing.complete) {
            struct hash128 ids[40];
            size_t count = 0;
            assert_int_equal(store_journal_list(f->store, &listing, 100, ids, capacity, &count), 0);
            for (size_t i = 0; i < count; i++) {
                assert_true(ids[i].hi > last.hi || (ids[i].hi == last.hi && ids[i].lo > last.lo));
                last = ids[i];
            }
            total += count;
        }
        assert_int_equal(total, 24);
    }
}

/* Many slots are read in one call, each with a result of its own. */
static void many_slots_are_read_at_once(void **state)
{
    struct fixture *f = *state;
    const struct store_journal_record batch[] = {slot(1, 1, 900, "one", 3),
                                                 slot(1, 2, 900, "two", 3)};
    struct store_slot_read reads[] = {{.vnode = 1, .id = fixture_id(2)},
                                      {.vnode = 2, .id = fixture_id(1)},
                                      {.vnode = 1, .id = fixture_id(1)},
                                      {.vnode = 1, .id = fixture_id(2)}};
    uint8_t buffer[7];
    fixture_open(f, NULL);
    assert_int_equal(store_journal_write(f->store, batch, 2), 0);
    assert_int_equal(store_journal_read(f->store, reads, 4, buffer, sizeof(buffer)), 0);
    assert_int_equal(reads[0].result, 0);
    assert_memory_equal(reads[0].record.state, "two", 3);
    assert_int_equal(reads[1].result, TG_ENOTFOUND);
    assert_int_equal(reads[2].result, 0);
    assert_memory_equal(reads[2].record.state, "one", 3);
    assert_int_equal(reads[3].result, TG_ETOOBIG);
}

/* Impossible records are refused before anything of their batch is written. */
static void impossible_records_are_refused_whole(void **state)
{
    struct fixture *f = *state;
    static uint8_t big[STORE_STATE_MAX + 1];
    struct seen seen = {0};
    struct store_journal_record batch[] = {slot(1, 1, 900, "a", 1), slot(65536, 1, 900, "b", 1)};
    fixture_open(f, NULL);
    assert_int_equal(store_journal_write(f->store, batch, 2), TG_EINVALID);
    batch[1] = slot(2, 1, 900, big, sizeof(big));
    assert_int_equal(store_journal_write(f->store, batch, 2), TG_ETOOBIG);
    batch[1].kind = (enum store_journal_kind)3;
    assert_int_equal(store_journal_write(f->store, batch, 2), TG_EINVALID);
    assert_int_equal(store_journal_scan(f->store, see, &seen), 0);
    assert_int_equal(seen.count, 0);
    batch[1] = slot(2, 1, 900, big, STORE_STATE_MAX);
    assert_int_equal(store_journal_write(f->store, batch, 2), 0);
}

/* The journal shares meta's tree with values and identity, and neither sees the other. */
static void values_and_journal_do_not_meet(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    char copy[FIXTURE_DIR_LEN];
    const struct store_journal_record one = slot(0, 1, 900, "a", 1);
    fixture_open(f, NULL);
    assert_int_equal(store_meta_put(f->store, "\2", "value", 5), 0);
    assert_int_equal(store_meta_put(f->store, "\377", "value", 5), 0);
    assert_int_equal(store_journal_write(f->store, &one, 1), 0);
    assert_int_equal(store_journal_scan(f->store, see, &seen), 0);
    assert_int_equal(seen.count, 1);
    (void)snprintf(copy, sizeof(copy), "%s/copy", f->root);
    assert_int_equal(mkdir(copy, 0700), 0);
    assert_int_equal(store_backup(f->store, copy), 0);
    store_close(&f->store);
    (void)snprintf(f->dir, sizeof(f->dir), "%s", copy);
    fixture_open(f, NULL);
    expect_state(f->store, 0, 1, "a");
}

/* ---- model ----------------------------------------------------------------------------------- */

struct model_slot {
    bool present;
    uint64_t expires_ms;
    uint32_t len;
    uint8_t state[MODEL_STATE_MAX];
};

/* The naive model: every (vnode, id) has a place of its own. */
struct model {
    struct model_slot slots[MODEL_VNODES][MODEL_IDS];
    uint64_t promises[MODEL_VNODES]; /* 0: none */
    uint64_t seqs[MODEL_VNODES];     /* 0: no header */
};

struct model_scan {
    const struct model *model;
    uint64_t now_ms;
    size_t live;
    size_t promises;
    size_t headers;
};

static int model_see(void *context, const struct store_journal_record *record)
{
    struct model_scan *scan = context;
    const struct model *model = scan->model;
    if (record->kind == STORE_JOURNAL_PROMISE) {
        assert_int_equal(record->header.number, model->promises[record->vnode]);
        scan->promises++;
    } else if (record->kind == STORE_JOURNAL_HEADER) {
        assert_int_equal(record->header.seq, model->seqs[record->vnode]);
        scan->headers++;
    } else {
        scan->live += record->slot.expires_ms > scan->now_ms;
    }
    return 0;
}

/* Expired slots may linger but must never be wrong; live ones must be there. */
static void model_compare(struct store *store, const struct model *model, uint64_t now_ms)
{
    struct model_scan scan = {.model = model, .now_ms = now_ms};
    size_t live = 0;
    size_t promises = 0;
    size_t headers = 0;
    for (uint32_t vnode = 0; vnode < MODEL_VNODES; vnode++) {
        promises += model->promises[vnode] != 0;
        headers += model->seqs[vnode] != 0;
        for (uint64_t i = 0; i < MODEL_IDS; i++) {
            const struct model_slot *expected = &model->slots[vnode][i];
            uint8_t buffer[MODEL_STATE_MAX];
            struct store_record found;
            const int result =
                store_journal_get(store, vnode, fixture_id(i), buffer, sizeof(buffer), &found);
            const bool must = expected->present && expected->expires_ms > now_ms;
            live += must;
            assert_true(result == 0 || (result == TG_ENOTFOUND && !must));
            if (result == 0) {
                assert_true(expected->present);
                assert_int_equal(found.len, expected->len);
                assert_int_equal(found.expires_ms, expected->expires_ms);
                assert_memory_equal(found.state, expected->state, found.len);
            }
        }
    }
    assert_int_equal(store_journal_scan(store, model_see, &scan), 0);
    assert_int_equal(scan.live, live);
    assert_int_equal(scan.promises, promises);
    assert_int_equal(scan.headers, headers);
}

static struct store_journal_record model_one(struct model *model, struct random *random,
                                             uint64_t now_ms, uint8_t *bytes)
{
    const uint32_t vnode = (uint32_t)random_below(random, MODEL_VNODES);
    const uint64_t kind = random_below(random, 10);
    const uint64_t value = 1 + random_below(random, 1000);
    const uint64_t index = random_below(random, MODEL_IDS);
    struct model_slot *expected = &model->slots[vnode][index];
    if (kind == 0) {
        if (value > model->promises[vnode]) {
            model->promises[vnode] = value;
        }
        return promise(vnode, 1, value, 1);
    }
    if (kind == 1) {
        model->seqs[vnode] = value;
        return header(vnode, 1, value);
    }
    expected->len = (uint32_t)random_below(random, MODEL_STATE_MAX);
    expected->present = expected->len > 0;
    expected->expires_ms = now_ms + random_below(random, 500);
    memset(bytes, (int)random_below(random, 256), MODEL_STATE_MAX);
    memcpy(expected->state, bytes, MODEL_STATE_MAX);
    return slot(vnode, index, expected->expires_ms, bytes, expected->len);
}

static void model_step(struct store *store, struct model *model, struct random *random,
                       uint64_t now_ms)
{
    static struct store_journal_record batch[MODEL_BATCH_MAX];
    static uint8_t bytes[MODEL_BATCH_MAX][MODEL_STATE_MAX];
    const size_t count = random_below(random, MODEL_BATCH_MAX);
    for (size_t i = 0; i < count; i++) {
        batch[i] = model_one(model, random, now_ms, bytes[i]);
    }
    assert_int_equal(store_journal_write(store, batch, count), 0);
    if (random_below(random, 30) == 0) {
        const uint32_t vnode = (uint32_t)random_below(random, MODEL_VNODES);
        memset(model->slots[vnode], 0, sizeof(model->slots[vnode]));
        if (model->seqs[vnode] != 0 && model->promises[vnode] == 0) {
            model->promises[vnode] = 1; /* the number of all headers here */
        }
        model->seqs[vnode] = 0;
        assert_int_equal(store_journal_drop(store, vnode), 0);
    }
    if (random_below(random, 4) == 0) {
        struct store_journal_expiry done;
        assert_int_equal(store_journal_expire(store, now_ms, 100, &done), 0);
    }
}

/* Random batches, drops, expiry and reopenings leave the journal equal to a map of records. */
static void random_histories_equal_a_naive_map(void **state)
{
    struct fixture *f = *state;
    static struct model model;
    const struct store_options options = {.meta_map_bytes = 64 << 10};
    struct random random;
    uint64_t now_ms = 1000;
    random_init(&random, 20261122);
    fixture_open(f, &options);
    for (int step = 1; step <= MODEL_STEPS; step++) {
        model_step(f->store, &model, &random, now_ms);
        now_ms += random_below(&random, 20);
        if (step % 40 == 0) {
            model_compare(f->store, &model, now_ms);
        }
        if (step % 100 == 0) {
            store_close(&f->store);
            fixture_open(f, &options);
        }
    }
}

/* ---- crashes --------------------------------------------------------------------------------- */

/* Writes generation after generation and says on `out` which one the store acknowledged. */
static void crash_child(const char *dir, uint64_t generation, int out)
{
    static struct store_journal_record batch[CRASH_VNODES * (CRASH_SLOTS + 2)];
    struct store *store = NULL;
    char error[STORE_ERROR_LEN];
    if (store_open(dir, NULL, &store, error) != 0) {
        _exit(1);
    }
    for (;; generation++) {
        size_t count = 0;
        for (uint32_t v = 0; v < CRASH_VNODES; v++) {
            batch[count++] = promise(v, 1, generation, 1);
            batch[count++] = header(v, 1, generation);
            for (uint64_t i = 0; i < CRASH_SLOTS; i++) {
                batch[count++] = slot(v, i, STORE_EXPIRES_NEVER, &generation, sizeof(generation));
            }
        }
        if (store_journal_write(store, batch, count) != 0 ||
            write(out, &generation, sizeof(generation)) != sizeof(generation)) {
            _exit(2);
        }
    }
}

struct crash_seen {
    size_t count;
    uint64_t generation;
};

/* Every record of a batch is of the same generation. */
static int crash_see(void *context, const struct store_journal_record *record)
{
    struct crash_seen *seen = context;
    uint64_t generation = 0;
    if (record->kind == STORE_JOURNAL_PROMISE) {
        generation = record->header.number;
    } else if (record->kind == STORE_JOURNAL_HEADER) {
        generation = record->header.seq;
    } else {
        assert_int_equal(record->slot.len, sizeof(generation));
        memcpy(&generation, record->slot.state, sizeof(generation));
    }
    assert_true(seen->count == 0 || generation == seen->generation);
    seen->generation = generation;
    seen->count++;
    return 0;
}

/* Every batch is there whole. */
static uint64_t look_at_batches(struct fixture *f, uint64_t told)
{
    (void)told;
    struct crash_seen seen = {0};
    assert_int_equal(store_journal_scan(f->store, crash_see, &seen), 0);
    assert_int_equal(seen.count, CRASH_VNODES * (CRASH_SLOTS + 2));
    return seen.generation;
}

/* Whenever a writer is killed, every acknowledged batch is there, whole, and nothing is torn. */
static void a_killed_writer_loses_no_acknowledged_batch(void **state)
{
    const struct fixture_kills plan = {6, CRASH_KILLS, CRASH_ACKS_MAX, crash_child,
                                       look_at_batches};
    fixture_survive_kills(*state, &plan);
}

/* With no room for the file to grow a batch is refused whole; what was there stays, and the same
 * batch succeeds once there is room. */
static void a_full_disk_refuses_a_batch_whole(void **state)
{
    struct fixture *f = *state;
    static uint8_t filler[200000];
    static uint8_t buffer[sizeof(filler)];
    struct store_record found;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
    memset(filler, 0x11, sizeof(filler));
    fixture_open(f, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int result = 0;
    uint32_t written = 0;
    struct store_journal_record batch[2];
    while (result == 0 && written < 20) {
        batch[0] = header(written, 1, 1);
        batch[1] = slot(written, 1, 900, filler, sizeof(filler));
        result = store_journal_write(f->store, batch, 2);
        written += result == 0;
    }
    const int again = store_journal_write(f->store, batch, 2);
    const struct store_journal_record little = promise(0, 1, 1, 1);
    const int promised = store_journal_write(f->store, &little, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(result, TG_EFULL);
    assert_int_equal(again, result);
    assert_int_equal(promised, 0);
    assert_true(written >= 2 && written < 10);
    for (uint32_t i = 0; i <= written; i++) {
        const int got =
            store_journal_get(f->store, i, fixture_id(1), buffer, sizeof(buffer), &found);
        assert_int_equal(got, i < written ? 0 : TG_ENOTFOUND);
    }
    assert_int_equal(store_journal_write(f->store, batch, 2), 0);
    store_close(&f->store);
    fixture_open(f, NULL);
    assert_int_equal(
        store_journal_get(f->store, written, fixture_id(1), buffer, sizeof(buffer), &found), 0);
}

/* A damaged record is TG_ECORRUPT with its vnode's number, wherever it is met; its neighbours stay
 * readable. */
static void a_damaged_record_names_its_vnode(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    struct store_listing listing = {.vnode = 5};
    struct store_journal_expiry done;
    struct store_record found;
    struct hash128 ids[4];
    size_t count = 0;
    uint8_t buffer[64];
    const struct store_journal_record batch[] = {slot(4, 1, 900, "neighbour", 9),
                                                 slot(5, 1, 900, "victim of a flip", 16),
                                                 slot(6, 1, 900, "other", 5)};
    fixture_open(f, NULL);
    assert_int_equal(store_journal_write(f->store, batch, 3), 0);
    store_close(&f->store);
    fixture_patch_meta(f, "victim of a flip", "victim of a flap");
    fixture_open(f, NULL);
    assert_int_equal(store_journal_get(f->store, 5, fixture_id(1), buffer, 64, &found),
                     TG_ECORRUPT);
    store_last_error(f->store, f->error);
    assert_non_null(strstr(f->error, "vnode 5"));
    assert_int_equal(store_journal_scan(f->store, see, &seen), TG_ECORRUPT);
    assert_int_equal(store_journal_list(f->store, &listing, 0, ids, 4, &count), TG_ECORRUPT);
    assert_int_equal(store_journal_expire(f->store, 0, 100, &done), TG_ECORRUPT);
    expect_state(f->store, 4, 1, "neighbour");
    expect_state(f->store, 6, 1, "other");
    assert_int_equal(store_journal_write(f->store, &batch[1], 1),
                     0); /* written anew, it is whole */
    expect_state(f->store, 5, 1, "victim of a flip");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_batch_survives_reopening),
        STORE_TEST(the_last_record_of_a_slot_counts),
        STORE_TEST(a_promise_only_rises),
        STORE_TEST(a_dropped_header_leaves_a_promise_of_its_term),
        STORE_TEST(a_dropped_vnode_keeps_its_promise),
        STORE_TEST(expired_slots_go_in_small_portions),
        STORE_TEST(a_listing_gives_the_living_ids_of_its_vnode),
        STORE_TEST(many_slots_are_read_at_once),
        STORE_TEST(impossible_records_are_refused_whole),
        STORE_TEST(values_and_journal_do_not_meet),
        STORE_TEST(random_histories_equal_a_naive_map),
        STORE_TEST(a_killed_writer_loses_no_acknowledged_batch),
        STORE_TEST(a_full_disk_refuses_a_batch_whole),
        STORE_TEST(a_damaged_record_names_its_vnode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
