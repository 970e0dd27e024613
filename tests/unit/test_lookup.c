/* test_lookup.c - a set that is filled once: what was filed is found, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/policy/index/lookup.h"

enum { ENTRIES = 1000, HASHES = 50, TEXT_LEN = 16 };

struct entry {
    uint64_t hash;
    struct policy_text name;
};

static const struct entry *find(const struct lookup *lookup, uint64_t hash, const char *name)
{
    const struct entry *entry;
    uint32_t at = lookup_home(lookup, hash);
    while ((entry = lookup_at(lookup, at)) != NULL && strcmp(entry->name.data, name) != 0)
        at = lookup_next(lookup, at);
    return entry;
}

/* Even where many have one hash, and the table is as full as it may be. */
static void what_was_filed_is_found_under_its_hash(void **state)
{
    struct lookup lookup;
    struct random random;
    char name[TEXT_LEN];
    (void)state;
    random_init(&random, 1);
    assert_int_equal(lookup_init(&lookup, alloc_heap(), ENTRIES, sizeof(struct entry),
                                 (size_t)ENTRIES * TEXT_LEN),
                     0);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const int len = snprintf(name, sizeof name, "entry-%u", i);
        struct entry *entry = lookup_add(&lookup);
        assert_int_equal(entry->hash, 0);
        entry->hash = random_below(&random, HASHES) * UINT64_C(0x9e3779b97f4a7c15);
        entry->name = lookup_keep(&lookup, name, (size_t)len);
        lookup_file(&lookup, entry->hash);
    }
    assert_int_equal(lookup.count, ENTRIES);
    random_init(&random, 1);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const uint64_t hash = random_below(&random, HASHES) * UINT64_C(0x9e3779b97f4a7c15);
        snprintf(name, sizeof name, "entry-%u", i);
        const struct entry *entry = find(&lookup, hash, name);
        assert_non_null(entry);
        assert_int_equal(entry->hash, hash);
        assert_int_equal(entry->name.len, strlen(name));
        assert_null(find(&lookup, hash, "nobody"));
    }
    lookup_fini(&lookup);
}

static void in_an_empty_set_nothing_is_found(void **state)
{
    struct lookup lookup;
    (void)state;
    assert_int_equal(lookup_init(&lookup, alloc_heap(), 0, sizeof(struct entry), 0), 0);
    for (uint64_t hash = 0; hash < 20; hash++)
        assert_null(lookup_at(&lookup, lookup_home(&lookup, hash)));
    lookup_fini(&lookup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_filed_is_found_under_its_hash),
        cmocka_unit_test(in_an_empty_set_nothing_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
