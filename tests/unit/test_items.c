/* test_items.c - the library's queues of items in blocks. */
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/lib/items.h"

enum { ITEMS = 1000, QUEUES = 5 };

/* A queue as a plain array. */
struct model {
    uint32_t items[ITEMS];
    size_t count;
};

static struct client_items new_pool(void)
{
    struct client_items items;

    assert_int_equal(client_items_init(&items, alloc_heap(), ITEMS, QUEUES), 0);
    return items;
}

static void push(struct client_items *items, struct client_queue *queue, uint32_t index)
{
    assert_true(client_items_push(items, queue, (struct client_item){.index = index, .hint = 7}));
}

static uint32_t pop(struct client_items *items, struct client_queue *queue)
{
    struct client_item item;

    assert_true(client_items_pop(items, queue, &item));
    assert_int_equal(item.hint, 7);
    return item.index;
}

static void model_join(struct model *to, struct model *from)
{
    memmove(to->items + from->count, to->items, to->count * sizeof *to->items);
    memcpy(to->items, from->items, from->count * sizeof *from->items);
    to->count += from->count;
    from->count = 0;
}

/* Links fail: what waited for them waits for any, and leaves as soon as there is one. */
static void join_some(struct client_items *items, struct client_queue *queues, struct model *models,
                      struct random *random)
{
    for (size_t i = 1; i < QUEUES; i++) {
        if (random_below(random, 2) == 0)
            continue;
        client_items_join(items, &queues[0], &queues[i]);
        model_join(&models[0], &models[i]);
    }
    while (models[0].count != 0)
        assert_int_equal(pop(items, &queues[0]), models[0].items[--models[0].count]);
}

static void push_or_pop(struct client_items *items, struct client_queue *queue, struct model *model,
                        struct random *random, uint32_t number)
{
    if (random_below(random, 2) == 0 && items->room > 0) {
        push(items, queue, number);
        memmove(model->items + 1, model->items, model->count * sizeof *model->items);
        model->items[0] = number;
        model->count++;
    } else if (model->count != 0) {
        assert_int_equal(pop(items, queue), model->items[--model->count]);
    }
}

/* Against plain arrays, the newest first. */
static void items_come_back_in_the_order_they_were_added_or_joined(void **state)
{
    struct client_items items = new_pool();
    struct client_queue queues[QUEUES] = {{.count = 0}};
    static struct model models[QUEUES];
    struct random random;

    (void)state;
    memset(models, 0, sizeof models);
    random_init(&random, 11);
    for (uint32_t number = 0; number < 200000; number++) {
        const size_t at = random_below(&random, QUEUES);
        size_t all = 0;

        if (random_below(&random, 500) == 0)
            join_some(&items, queues, models, &random);
        else
            push_or_pop(&items, &queues[at], &models[at], &random, number);
        for (size_t i = 0; i < QUEUES; i++) {
            assert_int_equal(queues[i].count, models[i].count);
            all += models[i].count;
        }
        assert_int_equal(items.room, ITEMS - all);
    }
    client_items_fini(&items);
}

static void a_pool_takes_as_many_items_as_it_was_made_for(void **state)
{
    struct client_items items = new_pool();
    struct client_queue queues[QUEUES] = {{.count = 0}};
    struct client_item item = {.index = 0};

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < ITEMS; i++)
            push(&items, &queues[i % QUEUES], i);
        assert_false(client_items_push(&items, &queues[0], item));
        assert_int_equal(queues[0].count, ITEMS / QUEUES);
        for (uint32_t i = 0; i < ITEMS; i++)
            assert_int_equal(pop(&items, &queues[i % QUEUES]), i);
        assert_false(client_items_pop(&items, &queues[0], &item));
    }
    client_items_fini(&items);
}

/* Blocks that came back are taken before others are touched. */
static void a_queue_that_is_always_short_touches_one_block(void **state)
{
    struct client_items items = new_pool();
    struct client_queue queue = {.count = 0};

    (void)state;
    for (uint32_t i = 0; i < 10 * CLIENT_BLOCK_ITEMS; i++) {
        push(&items, &queue, i);
        assert_int_equal(pop(&items, &queue), i);
    }
    assert_int_equal(items.fresh, 1);
    client_items_fini(&items);
}

/* Joined so often that each block holds one item: then blocks end before the room does. */
static void without_a_block_nothing_is_added_and_nothing_lost(void **state)
{
    struct client_items items = new_pool();
    struct client_queue all = {.count = 0};
    struct client_queue one = {.count = 0};
    uint32_t added = 0;

    (void)state;
    while (client_items_push(&items, &one, (struct client_item){.index = added, .hint = 7})) {
        client_items_join(&items, &all, &one);
        added++;
    }
    assert_int_equal(added, items.block_count);
    assert_int_equal(one.count, 0);
    assert_int_equal(items.room, ITEMS - added);
    for (uint32_t i = 0; i < added; i++)
        assert_int_equal(pop(&items, &all), i);
    push(&items, &one, 1);
    client_items_fini(&items);
}

static void an_item_soon_to_come_is_told_within_two_blocks(void **state)
{
    struct client_items items = new_pool();
    struct client_queue queue = {.count = 0};

    (void)state;
    assert_null(client_items_soon(&items, &queue, 0));
    for (uint32_t i = 0; i < CLIENT_BLOCK_ITEMS + 1; i++)
        push(&items, &queue, i);
    assert_int_equal(pop(&items, &queue), 0);
    assert_int_equal(client_items_soon(&items, &queue, 0)->index, 1);
    assert_int_equal(client_items_soon(&items, &queue, 5)->index, 6);
    assert_int_equal(client_items_soon(&items, &queue, CLIENT_BLOCK_ITEMS - 1)->index,
                     CLIENT_BLOCK_ITEMS);
    assert_null(client_items_soon(&items, &queue, CLIENT_BLOCK_ITEMS));
    client_items_fini(&items);
}

static void memory_that_is_not_there_is_told(void **state)
{
    struct alloc_failing failing;
    struct client_items items;

    (void)state;
    alloc_failing_init(&failing, 1);
    assert_int_equal(client_items_init(&items, &failing.allocator, ITEMS, QUEUES), TG_ENOMEM);
    client_items_fini(&items);
    assert_int_equal(failing.bytes_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_back_in_the_order_they_were_added_or_joined),
        cmocka_unit_test(a_pool_takes_as_many_items_as_it_was_made_for),
        cmocka_unit_test(a_queue_that_is_always_short_touches_one_block),
        cmocka_unit_test(without_a_block_nothing_is_added_and_nothing_lost),
        cmocka_unit_test(an_item_soon_to_come_is_told_within_two_blocks),
        cmocka_unit_test(memory_that_is_not_there_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
