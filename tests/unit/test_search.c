/* test_search.c - binary search against a walk from the first record on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/search.h"

enum { RECORDS = 40, ROUNDS = 2000 };

struct record {
    uint32_t other;
    uint64_t id;
    uint8_t more[5];
};

static uint32_t walked_place(const struct record *records, uint32_t count, uint64_t id)
{
    uint32_t at = 0;
    while (at < count && records[at].id < id)
        at++;
    return at;
}

/* Any id, also the smallest and the largest there is, has the place that a walk gives it. */
static void an_id_is_found_where_a_walk_finds_it(void **state)
{
    static const uint64_t ends[] = {0, UINT64_MAX};
    struct record records[RECORDS] = {{.id = 0}};
    struct random random;
    (void)state;
    random_init(&random, 6);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t count = (uint32_t)random_below(&random, RECORDS + 1);
        uint64_t id = random_below(&random, 3);
        for (uint32_t i = 0; i < count; i++, id += 1 + random_below(&random, 3))
            records[i].id = i + 1 == RECORDS ? UINT64_MAX : id;
        for (uint32_t i = 0; i < 20; i++) {
            const uint64_t wanted = i < 2 ? ends[i] : random_below(&random, 2 * RECORDS);
            const uint32_t place = walked_place(records, count, wanted);
            const bool there = place < count && records[place].id == wanted;
            assert_int_equal(search_place(&records->id, sizeof *records, count, wanted), place);
            assert_int_equal(search_ids(&records->id, sizeof *records, count, wanted),
                             there ? place : SEARCH_NONE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_found_where_a_walk_finds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
