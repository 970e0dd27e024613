/* test_merge_base.c - what is remembered of slots: found again, replaced, bounded, given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/reconcile/merge_base.h"

enum { VNODES = 4, BYTES = 16 << 10, CELLS = BYTES / 64, MODEL_IDS = 24, LEN_MAX = 200 };

static const struct term FIRST = {1, 1, 1};
static const struct term SECOND = {1, 2, 1};

static int set_up(void **state)
{
    static struct merge_base side;
    *state = &side;
    return merge_base_init(&side, alloc_heap(), BYTES, VNODES);
}

static int tear_down(void **state)
{
    merge_base_fini(*state);
    return 0;
}

static struct hash128 id_of(uint64_t number)
{
    return (struct hash128){number * 64, number}; /* few buckets: chains are walked */
}

static int put(struct merge_base *bases, uint32_t entry, enum merge_base_kind kind,
               const struct term *term, const void *bytes, size_t len)
{
    const struct merge_base_blob blob = {
        .kind = kind, .term = *term, .seq = 7, .event = 9, .len = (uint32_t)len};
    return merge_base_put(bases, entry, &blob, bytes);
}

/* MERGEBASE-2: one blob of a kind and a term; a second one takes its place, and gives its cells
 * back. */
static void a_blob_is_found_and_replaced_by_kind_and_term(void **state)
{
    struct merge_base *bases = *state;
    uint8_t bytes[LEN_MAX];
    uint8_t read[LEN_MAX];
    memset(bytes, 5, sizeof bytes);
    const uint32_t entry = merge_base_add(bases, 1, id_of(3));
    assert_int_equal(merge_base_add(bases, 1, id_of(3)), entry);
    assert_int_equal(merge_base_find(bases, id_of(4)), MERGE_BASE_NONE);
    assert_int_equal(put(bases, entry, MERGE_BASE_STATE, &FIRST, bytes, LEN_MAX), 0);
    assert_int_equal(put(bases, entry, MERGE_BASE_STATE, &SECOND, NULL, 0), 0);
    assert_int_equal(put(bases, entry, MERGE_BASE_CONTRIBUTION, &FIRST, bytes, 61), 0);
    const uint32_t used = bases->cells.used;
    bytes[LEN_MAX - 1] = 6;
    assert_int_equal(put(bases, entry, MERGE_BASE_STATE, &FIRST, bytes, LEN_MAX), 0);
    assert_int_equal(bases->cells.used, used);
    const uint32_t blob = merge_base_blob(bases, entry, MERGE_BASE_STATE, &FIRST);
    assert_int_equal(merge_base_describe(bases, blob).seq, 7);
    assert_int_equal(merge_base_describe(bases, blob).event, 9);
    assert_int_equal(merge_base_read(bases, blob, read), LEN_MAX);
    assert_memory_equal(read, bytes, LEN_MAX);
    assert_int_equal(
        merge_base_read(bases, merge_base_blob(bases, entry, MERGE_BASE_STATE, &SECOND), read), 0);
    assert_int_equal(merge_base_blob(bases, entry, MERGE_BASE_CONTRIBUTION, &SECOND),
                     MERGE_BASE_NONE);
    merge_base_drop(bases, entry, MERGE_BASE_STATE, &FIRST);
    assert_int_equal(merge_base_blob(bases, entry, MERGE_BASE_STATE, &FIRST), MERGE_BASE_NONE);
}

/* MERGEBASE-3: what finds no room changes nothing; what is removed leaves room. */
static void a_full_table_refuses_and_keeps_what_it_has(void **state)
{
    struct merge_base *bases = *state;
    uint8_t bytes[LEN_MAX] = {1};
    uint8_t read[LEN_MAX];
    uint32_t count = 0;
    uint32_t entry = merge_base_add(bases, 0, id_of(0));
    while (entry != MERGE_BASE_NONE &&
           put(bases, entry, MERGE_BASE_STATE, &FIRST, bytes, LEN_MAX) == 0)
        entry = merge_base_add(bases, 0, id_of(++count));
    assert_in_range(count, CELLS / 7, CELLS / 6);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(merge_base_read(bases,
                                         merge_base_blob(bases, merge_base_find(bases, id_of(i)),
                                                         MERGE_BASE_STATE, &FIRST),
                                         read),
                         LEN_MAX);
    const uint32_t first = merge_base_find(bases, id_of(0));
    assert_int_equal(put(bases, first, MERGE_BASE_STATE, &FIRST, bytes, LEN_MAX), TG_EFULL);
    assert_memory_equal(read, bytes, LEN_MAX);
    merge_base_remove_vnode(bases, 0);
    assert_int_equal(bases->cells.used, 0);
    assert_int_equal(bases->entries, 0);
}

/* One entry is bounded too, in blobs and in bytes. */
static void an_entry_has_a_bounded_number_of_blobs_and_bytes(void **state)
{
    struct merge_base *bases = *state;
    static uint8_t large[MERGE_BASE_ENTRY_BYTES_MAX + 1];
    const uint32_t entry = merge_base_add(bases, 0, id_of(1));
    size_t bytes;
    assert_int_equal(put(bases, entry, MERGE_BASE_STATE, &FIRST, large, sizeof large), TG_EFULL);
    for (uint64_t i = 0; i < MERGE_BASE_BLOBS_MAX; i++) {
        const struct term term = {1, i, 1};
        assert_int_equal(put(bases, entry, MERGE_BASE_STATE, &term, large, 1), 0);
    }
    assert_int_equal(put(bases, entry, MERGE_BASE_CONTRIBUTION, &FIRST, large, 1), TG_EFULL);
    assert_int_equal(put(bases, entry, MERGE_BASE_STATE, &FIRST, large, 2), 0);
    assert_int_equal(merge_base_count(bases, entry, &bytes), MERGE_BASE_BLOBS_MAX);
    assert_int_equal(bytes, MERGE_BASE_BLOBS_MAX + 1);
}

/* A naive table: for each id, whether it is there, and the length of its base. */
struct model {
    bool present[MODEL_IDS];
    int len[MODEL_IDS]; /* -1: no base */
};

static void assert_is_model(const struct merge_base *bases, const struct model *model)
{
    uint8_t read[LEN_MAX];
    uint32_t listed = 0;
    uint32_t present = 0;
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        for (uint32_t at = merge_base_first(bases, vnode); at != MERGE_BASE_NONE;
             at = merge_base_next(bases, at)) {
            assert_int_equal(merge_base_id(bases, at).hi % VNODES, vnode);
            listed++;
        }
    for (uint64_t i = 0; i < MODEL_IDS; i++) {
        const uint32_t entry = merge_base_find(bases, id_of(i));
        present += model->present[i];
        assert_int_equal(entry != MERGE_BASE_NONE, model->present[i]);
        if (entry == MERGE_BASE_NONE)
            continue;
        const uint32_t blob = merge_base_blob(bases, entry, MERGE_BASE_STATE, &FIRST);
        assert_int_equal(blob != MERGE_BASE_NONE, model->len[i] >= 0);
        if (blob == MERGE_BASE_NONE)
            continue;
        assert_int_equal(merge_base_read(bases, blob, read), model->len[i]);
        for (int n = 0; n < model->len[i]; n++)
            assert_int_equal(read[n], (uint8_t)(i + (uint64_t)n));
    }
    assert_int_equal(listed, present);
    assert_int_equal(bases->entries, present);
}

/* MERGEBASE-1, MERGEBASE-2 over random histories against a naive table. */
static void it_is_what_a_naive_table_is(void **state)
{
    struct merge_base *bases = *state;
    struct model model = {.len = {0}};
    struct random random;
    uint8_t bytes[LEN_MAX];
    random_init(&random, 5);
    for (uint32_t step = 0; step < 20000; step++) {
        const uint64_t i = random_below(&random, MODEL_IDS);
        const uint32_t vnode = (uint32_t)(i % VNODES);
        const size_t len = random_below(&random, LEN_MAX);
        for (size_t n = 0; n < len; n++)
            bytes[n] = (uint8_t)(i + n);
        const uint64_t what = random_below(&random, 10);
        uint32_t entry = merge_base_find(bases, id_of(i));
        if (what < 7) {
            if (entry == MERGE_BASE_NONE) {
                entry = merge_base_add(bases, vnode, id_of(i));
                model.len[i] = -1;
            }
            model.present[i] = entry != MERGE_BASE_NONE;
            if (entry != MERGE_BASE_NONE &&
                put(bases, entry, MERGE_BASE_STATE, &FIRST, bytes, len) == 0)
                model.len[i] = (int)len;
        } else if (what < 9 && entry != MERGE_BASE_NONE) {
            merge_base_remove(bases, entry);
            model.present[i] = false;
        } else if (random_below(&random, 20) == 0) {
            merge_base_remove_vnode(bases, vnode);
            for (uint64_t n = vnode; n < MODEL_IDS; n += VNODES)
                model.present[n] = false;
        }
        assert_is_model(bases, &model);
    }
}

/* Without memory there is no table, and nothing leaks. */
static void no_memory_is_an_error_and_no_leak(void **state)
{
    (void)state;
    for (size_t fail_at = 1; fail_at <= 4; fail_at++) {
        struct alloc_failing failing;
        struct merge_base side;
        alloc_failing_init(&failing, fail_at);
        assert_int_equal(merge_base_init(&side, &failing.allocator, BYTES, VNODES), TG_ENOMEM);
        assert_int_equal(failing.bytes_live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_blob_is_found_and_replaced_by_kind_and_term, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_full_table_refuses_and_keeps_what_it_has, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_entry_has_a_bounded_number_of_blobs_and_bytes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(it_is_what_a_naive_table_is, set_up, tear_down),
        cmocka_unit_test(no_memory_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
