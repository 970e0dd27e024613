/* test_settings_table.c - records and changes in memory, against a naive model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/configstore/settings_table.h"

enum { NAMES = 40, ROUNDS = 100000, CHECK_EVERY = 5000 };

static struct settings_text text(const char *bytes)
{
    return (struct settings_text){.data = bytes, .len = strlen(bytes)};
}

/* Puts and removals in any order of versions end as those with the highest version say. */
static void the_newest_version_of_a_record_wins(void **state)
{
    (void)state;
    uint64_t put_at[NAMES] = {0};
    struct settings_table table;
    struct random random;
    random_init(&random, 3);
    settings_table_init(&table, alloc_heap());
    for (int i = 1; i <= ROUNDS; i++) {
        const uint32_t at = (uint32_t)random_below(&random, NAMES);
        const uint64_t version = 1 + random_below(&random, (uint64_t)i);
        char name[16];
        char value[32];
        (void)snprintf(name, sizeof name, "n%u", at / 2);
        (void)snprintf(value, sizeof value, "%llu", (unsigned long long)version);
        const uint32_t kind = 1 + at % 2;
        const struct settings_text name_text = text(name);
        const struct settings_entry entry = {
            .kind = kind, .name = name_text, .version = version, .value = text(value)};
        if (random_below(&random, 4) == 0) {
            const bool removed = settings_table_remove(&table, kind, &name_text, version);
            assert_int_equal(removed, put_at[at] != 0 && put_at[at] < version);
            put_at[at] = removed ? 0 : put_at[at];
        } else {
            assert_int_equal(settings_table_put(&table, &entry), 0);
            put_at[at] = version > put_at[at] ? version : put_at[at];
        }
        const struct settings_entry *found = settings_table_find(&table, kind, &name_text);
        assert_int_equal(found != NULL ? found->version : 0, put_at[at]);
        if (i % CHECK_EVERY == 0)
            settings_table_check_invariants(&table);
    }
    settings_table_fini(&table);
    assert_int_equal(table.bytes, 0);
}

/* The last record of a kind is that of the highest name, whatever other kinds there are. */
static void the_last_of_a_kind_is_found(void **state)
{
    (void)state;
    struct settings_table table;
    settings_table_init(&table, alloc_heap());
    assert_null(settings_table_last(&table, 2));
    const char *const names[] = {"b", "a", "c"};
    for (uint32_t kind = 1; kind <= 3; kind += 2)
        for (uint32_t i = 0; i < 3; i++) {
            const struct settings_entry entry = {
                .kind = kind, .name = text(names[i]), .version = 1};
            assert_int_equal(settings_table_put(&table, &entry), 0);
        }
    assert_null(settings_table_last(&table, 2));
    assert_memory_equal(settings_table_last(&table, 1)->name.data, "c", 1);
    assert_memory_equal(settings_table_last(&table, 3)->name.data, "c", 1);
    settings_table_fini(&table);
}

static void add(struct settings_log *log, uint64_t version, struct hash128 before, uint64_t id)
{
    uint8_t bytes[512];
    const struct settings_change change = {
        .version = version,
        .voters = {.count = 1, .ids = {1}},
        .before = before,
        .id = {.lo = id, .hi = 0},
    };
    const int len = settings_change_encode(&change, bytes, sizeof bytes);
    assert_true(len > 0);
    while (settings_log_surplus(log) != 0)
        settings_log_drop(log);
    assert_int_equal(settings_log_add(log, &change, bytes, (size_t)len), 0);
}

/* The log gives what follows a version it knows with its digest, and nothing to one of another
 * history or from before its floor. */
static void the_log_knows_what_follows(void **state)
{
    (void)state;
    enum { CHANGES = 50, KEPT = 8 };
    static struct settings_log log;
    struct hash128 digests[CHANGES + 1] = {{0}};
    bool known;
    settings_log_init(&log, alloc_heap(), KEPT);
    for (uint64_t version = 1; version <= CHANGES; version++) {
        add(&log, version, digests[version - 1], 100 + version);
        digests[version] = log.changes[(log.first + log.count - 1) % SETTINGS_LOG_MAX].digest;
        settings_log_check_invariants(&log);
    }
    assert_int_equal(log.count, KEPT);
    for (uint64_t version = 0; version <= CHANGES; version++) {
        const struct settings_logged *next =
            settings_log_after(&log, version, digests[version], &known);
        assert_int_equal(known, version >= CHANGES - KEPT);
        assert_int_equal(next != NULL ? next->version : 0,
                         known && version < CHANGES ? version + 1 : 0);
        assert_null(settings_log_after(&log, version, (struct hash128){9, 9}, &known));
        assert_false(known);
        assert_int_equal(settings_log_find(&log, (struct hash128){100 + version, 0}),
                         version > CHANGES - KEPT ? version : 0);
    }
    settings_log_fini(&log);
}

/* Changes are kept up to their bytes as well, the newest always. */
static void large_changes_are_kept_up_to_their_bytes(void **state)
{
    (void)state;
    enum { FIT = 7, PART = SETTINGS_LOG_BYTES_MAX / (FIT + 1), CHANGES = 2 * FIT };
    static uint8_t bytes[PART + 1024];
    static char value[PART];
    static struct settings_log log;
    static struct settings_change change;
    struct hash128 before = {0};
    settings_log_init(&log, alloc_heap(), SETTINGS_LOG_MAX);
    memset(value, 'v', sizeof value);
    for (uint64_t version = 1; version <= CHANGES; version++) {
        change = (struct settings_change){
            .version = version,
            .voters = {.count = 1, .ids = {1}},
            .before = before,
            .author = text("ada"),
            .note = text(""),
            .op_count = 1,
            .ops = {{.kind = 1, .name = text("a"), .value = {value, sizeof value}}},
        };
        const int len = settings_change_encode(&change, bytes, sizeof bytes);
        assert_true(len > 0);
        assert_int_equal(settings_log_add(&log, &change, bytes, (size_t)len), 0);
        before = settings_change_digest(bytes, (size_t)len);
        while (settings_log_surplus(&log) != 0)
            settings_log_drop(&log);
        assert_true(log.bytes <= SETTINGS_LOG_BYTES_MAX);
        assert_int_equal(log.count, version < FIT ? version : FIT);
        settings_log_check_invariants(&log);
    }
    settings_log_fini(&log);
}

/* Without memory a record or a change is refused, and what was there stays. */
static void without_memory_nothing_changes(void **state)
{
    (void)state;
    struct alloc_failing failing;
    struct settings_table table;
    for (size_t fail_at = 1; fail_at <= 3; fail_at++) {
        alloc_failing_init(&failing, fail_at);
        settings_table_init(&table, &failing.allocator);
        int error = 0;
        for (uint32_t i = 0; i < 2; i++) {
            const struct settings_entry entry = {
                .kind = 1, .name = text(i == 0 ? "a" : "b"), .version = 1, .value = text("x")};
            const int result = settings_table_put(&table, &entry);
            error = error != 0 ? error : result;
        }
        assert_int_equal(error, TG_ENOMEM);
        settings_table_check_invariants(&table);
        settings_table_fini(&table);
        assert_int_equal(failing.bytes_live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_version_of_a_record_wins),
        cmocka_unit_test(the_last_of_a_kind_is_found),
        cmocka_unit_test(the_log_knows_what_follows),
        cmocka_unit_test(large_changes_are_kept_up_to_their_bytes),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
