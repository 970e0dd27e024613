/* test_disk_check.c - lanes of the storage threads, and a mailbox, with one wrong field are seen by
 * their x_check_invariants, which name the invariant that is broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/runtime/disk/disk_lane.h"
#include "node/runtime/system/mailbox.h"
#include "tests/unit/support_death.h"

enum { LANES = 2 };

static struct lane lanes[LANES];
static struct lane *const lane = &lanes[1];
static struct disk disk;
static struct mailbox mailbox;
static struct shard_writes writes;
static char block[1];

/* A disk whose threads stand still: a batch of writes is out, a drop waits for it; of five loads
 * two are queued, and one of a batch of three was polled; a piece of a listing is there. */
static void whole_disk(void)
{
    memset(lanes, 0, sizeof lanes);
    memset(&disk, 0, sizeof disk);
    disk.options.store = (struct store *)(void *)block; /* some: it is not opened */
    disk.options.shard_count = LANES;
    disk.lanes = lanes;
    assert_int_equal(pthread_mutex_init(&disk.lock, NULL), 0);
    lane->shard = 1;
    lane->write_state = WRITE_RUNNING;
    lane->writes = &writes;
    disk_set_add(&lane->drops_later, 77);
    lane->read_state = READ_READY;
    lane->read_count = 3;
    lane->read_polled = 1;
    lane->queue_count = 2;
    lane->loads_out = 4;
    lane->list_state = LIST_READY;
    atomic_store(&lane->ready, 3);
    disk_check_invariants(&disk);
}

/* Two messages that hand something over, behind the end of the ring. */
static void whole_mailbox(void)
{
    static struct mailbox_message messages[MAILBOX_MESSAGES_MAX];
    static const struct mailbox_message question = {
        .kind = MESSAGE_ADMIN, .pointer = block, .len = 1};
    static const struct mailbox_message rules = {.kind = MESSAGE_POLICY, .pointer = block};

    memset(messages, 0, sizeof messages);
    mailbox = (struct mailbox){.messages = messages, .first = MAILBOX_MESSAGES_MAX - 1, .count = 2};
    assert_int_equal(pthread_mutex_init(&mailbox.lock, NULL), 0);
    messages[MAILBOX_MESSAGES_MAX - 1] = question;
    messages[0] = rules;
    mailbox_check_invariants(&mailbox);
}

static void check(void *context)
{
    (void)context;
    disk_check_invariants(&disk);
    mailbox_check_invariants(&mailbox);
}

static void assert_broken(void (*corrupt)(void), const char *id)
{
    char text[256];

    whole_disk();
    whole_mailbox();
    corrupt();
    assert_true(death_by_assert(check, NULL, text, sizeof text));
    assert_non_null(strstr(text, id));
}

CORRUPTION(a_load_that_nobody_counts_is_seen, "DISK-6", lane->queue_count++)
CORRUPTION(a_load_that_is_out_and_nowhere_is_seen, "DISK-6", lane->loads_out++)
CORRUPTION(more_loads_polled_than_were_read_are_seen, "DISK-6", lane->read_polled = 4)
CORRUPTION(a_drop_that_waits_for_no_write_is_seen, "DISK-7", lane->write_state = WRITE_DONE)
CORRUPTION(a_drop_of_the_journal_that_waits_for_no_batch_is_seen, "DISK-7",
           disk_set_add(&lane->journal_drops_later, 3))
CORRUPTION(a_result_that_no_shard_would_poll_is_seen, "DISK-8", atomic_store(&lane->ready, 0))
CORRUPTION(a_lane_of_another_shard_is_seen, "DISK-8", lane->shard = 0)
CORRUPTION(a_batch_that_is_out_and_forgotten_is_seen, "DISK-9", lane->writes = NULL)
CORRUPTION(a_set_that_counts_its_vnodes_wrong_is_seen, "DISK-9", lane->drops_later.count++)
CORRUPTION(more_letters_than_there_are_places_are_seen, "MAILBOX-1",
           mailbox.count = MAILBOX_MESSAGES_MAX + 1)
CORRUPTION(a_letter_that_hands_over_nothing_is_seen, "MAILBOX-1",
           mailbox.messages[0].pointer = NULL)
CORRUPTION(questions_in_the_room_that_is_kept_are_seen, "MAILBOX-2",
           for (uint32_t i = 0; i < MAILBOX_MESSAGES_MAX; i++)
               mailbox.messages[i] = mailbox.messages[MAILBOX_MESSAGES_MAX - 1];
           mailbox.count = MAILBOX_MESSAGES_MAX)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_that_nobody_counts_is_seen),
        cmocka_unit_test(a_load_that_is_out_and_nowhere_is_seen),
        cmocka_unit_test(more_loads_polled_than_were_read_are_seen),
        cmocka_unit_test(a_drop_that_waits_for_no_write_is_seen),
        cmocka_unit_test(a_drop_of_the_journal_that_waits_for_no_batch_is_seen),
        cmocka_unit_test(a_result_that_no_shard_would_poll_is_seen),
        cmocka_unit_test(a_lane_of_another_shard_is_seen),
        cmocka_unit_test(a_batch_that_is_out_and_forgotten_is_seen),
        cmocka_unit_test(a_set_that_counts_its_vnodes_wrong_is_seen),
        cmocka_unit_test(more_letters_than_there_are_places_are_seen),
        cmocka_unit_test(a_letter_that_hands_over_nothing_is_seen),
        cmocka_unit_test(questions_in_the_room_that_is_kept_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
