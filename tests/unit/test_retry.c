/* test_retry.c - a repeated request finds its first answer for two seconds, and no other one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/dedup/retry.h"

#define NOW_NS INT64_C(1700000000000000000)
#define MS_NS  INT64_C(1000000)

static const struct hash_key hash_key = {{3, 1, 4, 1, 5, 9, 2, 6}};
static const struct retry_key first = {.session = 77, .seq = 5, .item = 2, .part = 1};

static int set_up(void **state)
{
    static struct retry_memory memory;

    *state = &memory;
    return retry_init(&memory, alloc_heap(), &hash_key, RETRY_SETS);
}

static int tear_down(void **state)
{
    retry_fini(*state);
    return 0;
}

/* RETRY-1: this is what keeps a repeated request from being charged twice. */
static void an_answer_is_recalled_with_its_verdict(void **state)
{
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;

    retry_prefetch(memory, retry_tag(memory, &first));
    assert_false(retry_recall(memory, &first, 1, NOW_NS, &entry));
    retry_remember(memory, &first, 1, true, 3, 42, NOW_NS);
    retry_prefetch(memory, retry_tag(memory, &first));
    assert_true(retry_recall(memory, &first, 1, NOW_NS, &entry));
    assert_true(entry.allowed);
    assert_int_equal(entry.limit_index, 3);
    assert_int_equal(entry.granted, 42);
    retry_remember(memory, &first, 1, false, 1, 0, NOW_NS); /* the last word counts */
    assert_true(retry_recall(memory, &first, 1, NOW_NS, &entry));
    assert_false(entry.allowed);
    assert_int_equal(entry.limit_index, 1);
    assert_int_equal(entry.granted, 0);
    assert_int_equal(memory->dropped, 0);
}

/* `attempt` gives up what it was told of. True if others still hold it, or it held nothing. */
static bool release(struct retry_memory *memory, uint16_t attempt, int64_t now_ns)
{
    struct retry_memory_entry entry;
    uint32_t index;
    const enum retry_hold hold = retry_held(memory, &first, attempt, now_ns, &entry, &index);
    retry_let_go(memory, &first, attempt, 0, now_ns);
    return hold != RETRY_HELD_ALONE;
}

/* RETRY-1: two seconds is what callers are promised, and what bounds the memory's use. */
static void an_answer_is_recalled_for_two_seconds_and_then_forgotten(void **state)
{
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;

    retry_remember(memory, &first, 1, true, 0, 1, NOW_NS);
    assert_true(retry_recall(memory, &first, 1, NOW_NS + RETRY_KEEP_NS - MS_NS, &entry));
    assert_true(retry_recall(memory, &first, 1, NOW_NS + RETRY_KEEP_NS, &entry));
    assert_false(retry_recall(memory, &first, 1, NOW_NS + RETRY_KEEP_NS + MS_NS, &entry));
    assert_true(release(memory, 1, NOW_NS + RETRY_KEEP_NS + MS_NS));
}

/* The clock of entries has 32 bits of milliseconds; its turn must lose nothing. */
static void the_turn_of_the_millisecond_clock_is_survived(void **state)
{
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;
    const int64_t turn_ns = (INT64_C(400) << 32) * MS_NS;

    retry_remember(memory, &first, 1, true, 0, 1, turn_ns - MS_NS);
    assert_true(retry_recall(memory, &first, 1, turn_ns + 1000 * MS_NS, &entry));
    assert_false(retry_recall(memory, &first, 1, turn_ns + 2000 * MS_NS, &entry));
}

/* Items and parts of one request are decided apart, so each has an answer of its own. */
static void another_session_sequence_item_or_part_is_another_request(void **state)
{
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;
    struct retry_key others[6];

    for (uint32_t i = 0; i < 6; i++)
        others[i] = first;
    others[0].session++;
    others[1].seq++;
    others[2].item++;
    others[3].part++;
    others[4].item = 1; /* item and part lie side by side in the tag */
    others[4].part = 2;
    others[5].session = first.seq;
    others[5].seq = first.session;
    retry_remember(memory, &first, 1, true, 0, 100, NOW_NS);
    for (uint32_t i = 0; i < 6; i++) {
        assert_false(retry_recall(memory, &others[i], 1, NOW_NS, &entry));
        retry_remember(memory, &others[i], 1, true, 0, i, NOW_NS);
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(retry_recall(memory, &others[i], 1, NOW_NS, &entry));
        assert_int_equal(entry.granted, i);
    }
    assert_true(retry_recall(memory, &first, 1, NOW_NS, &entry));
    assert_int_equal(entry.granted, 100);
}

/* The key whose only set bit is `bit` of session, sequence, item and part, in that order. */
static struct retry_key one_bit(uint32_t bit)
{
    struct retry_key key = {0};

    if (bit < 64)
        key.session = (uint64_t)1 << bit;
    else if (bit < 128)
        key.seq = (uint64_t)1 << (bit - 64);
    else if (bit < 144)
        key.item = (uint16_t)(1U << (bit - 128));
    else
        key.part = (uint8_t)(1U << (bit - 144));
    return key;
}

/* No bit of a request's identity is left out or falls upon another one. */
static void every_bit_of_the_identity_counts(void **state)
{
    enum { BITS = 64 + 64 + 16 + 8 };
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;

    for (uint32_t bit = 0; bit < BITS; bit++) {
        const struct retry_key key = one_bit(bit);
        assert_false(retry_recall(memory, &key, 1, NOW_NS, &entry));
        retry_remember(memory, &key, 1, true, 0, bit, NOW_NS);
    }
    for (uint32_t bit = 0; bit < BITS; bit++) {
        const struct retry_key key = one_bit(bit);
        assert_true(retry_recall(memory, &key, 1, NOW_NS, &entry));
        assert_int_equal(entry.granted, bit);
    }
}

/* Once the tokens were given back the answer is void: a later attempt is decided afresh. */
static void a_released_answer_is_void(void **state)
{
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;

    assert_true(release(memory, 1, NOW_NS));
    retry_remember(memory, &first, 1, true, 0, 9, NOW_NS);
    assert_false(release(memory, 1, NOW_NS));
    assert_false(retry_recall(memory, &first, 1, NOW_NS, &entry));
}

/* RETRY-2: tokens that several attempts were told of go back when the last of them gives them
 * up. */
static void only_the_last_of_several_attempts_gives_back(void **state)
{
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;

    retry_remember(memory, &first, 1, true, 0, 9, NOW_NS);
    for (uint16_t i = 0; i < 3; i++)
        assert_true(retry_recall(memory, &first, 2 + i, NOW_NS, &entry));
    for (int i = 0; i < 3; i++)
        assert_true(release(memory, (uint16_t)(4 - i), NOW_NS));
    assert_false(release(memory, 1, NOW_NS));
    assert_false(retry_recall(memory, &first, 1, NOW_NS, &entry));
}

/* RETRY-3: who asks again for want of an answer is the same attempt: it claims nothing beside
 * itself, whether it was the first one or a later one, and a look claims nothing at all. */
static void an_attempt_claims_once(void **state)
{
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;

    assert_false(retry_look(memory, &first, NOW_NS, &entry));
    retry_remember(memory, &first, 1, true, 0, 9, NOW_NS);
    assert_true(retry_look(memory, &first, NOW_NS, &entry));
    assert_int_equal(entry.granted, 9);
    for (uint16_t i = 0; i < 8; i++)
        assert_true(retry_recall(memory, &first, 1 + i % 2, NOW_NS, &entry));
    assert_true(release(memory, 1, NOW_NS));
    assert_false(release(memory, 2, NOW_NS));
    assert_false(retry_look(memory, &first, NOW_NS, &entry));
}

/* RETRY-2: a copy that comes late and is decided afresh takes nothing from those who were told of
 * the answer before: what it gives back may be theirs. */
static void a_second_answer_keeps_the_claims_on_the_first(void **state)
{
    struct retry_memory *memory = *state;

    retry_remember(memory, &first, 1, true, 0, 9, NOW_NS);
    retry_remember(memory, &first, 2, true, 0, 9, NOW_NS);
    assert_true(release(memory, 2, NOW_NS));
    assert_false(release(memory, 1, NOW_NS));
    retry_remember(memory, &first, 1, false, 0, 0, NOW_NS); /* of a denial nobody has anything */
    retry_remember(memory, &first, 2, true, 0, 9, NOW_NS);
    assert_false(release(memory, 2, NOW_NS));
}

/* Who was told of nothing gives up nothing: what others hold stays theirs. */
static void who_was_not_told_gives_up_nothing(void **state)
{
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;
    uint32_t index;

    assert_int_equal(retry_held(memory, &first, 1, NOW_NS, &entry, &index), RETRY_HELD_NOT);
    const uint32_t at = retry_remember(memory, &first, 1, true, 0, 9, NOW_NS);
    assert_int_equal(retry_held(memory, &first, 2, NOW_NS, &entry, &index), RETRY_HELD_NOT);
    retry_let_go(memory, &first, 2, 0, NOW_NS);
    assert_int_equal(retry_held(memory, &first, 1, NOW_NS, &entry, &index), RETRY_HELD_ALONE);
    assert_int_equal(index, at);
}

/* What is kept in part is an answer that granted so much; others hold all of it. */
static void an_answer_can_be_given_up_in_part(void **state)
{
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;
    uint32_t index;

    (void)retry_remember(memory, &first, 1, true, 0, 9, NOW_NS);
    retry_let_go(memory, &first, 1, 4, NOW_NS);
    assert_int_equal(retry_held(memory, &first, 1, NOW_NS, &entry, &index), RETRY_HELD_ALONE);
    assert_int_equal(entry.granted, 4);
    retry_let_go(memory, &first, 1, 6, NOW_NS);
    assert_true(retry_recall(memory, &first, 2, NOW_NS, &entry));
    assert_int_equal(entry.granted, 4);
    retry_let_go(memory, &first, 1, 2, NOW_NS);
    assert_int_equal(retry_held(memory, &first, 1, NOW_NS, &entry, &index), RETRY_HELD_SHARED);
    assert_int_equal(entry.granted, 4);
}

/* RETRY-3: more attempts than there is room for never turn to "nobody claims it". */
static void many_claims_are_never_given_back(void **state)
{
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;

    retry_remember(memory, &first, 1, true, 0, 9, NOW_NS);
    for (uint16_t i = 0; i < UINT8_MAX + 1; i++)
        assert_true(retry_recall(memory, &first, 2 + i, NOW_NS, &entry));
    for (int i = 0; i < UINT8_MAX + 2; i++)
        assert_true(release(memory, (uint16_t)(1 + i), NOW_NS));
    retry_remember(memory, &first, 1, true, 0, 9, NOW_NS);
    assert_true(release(memory, 1, NOW_NS));
}

/* Tickets of one node, and equal tickets of two, are attempts of different names. */
static void attempts_differ_by_node_and_by_ticket(void **state)
{
    uint32_t equal = 0;

    (void)state;
    for (uint64_t i = 1; i <= 1000; i++) {
        equal += retry_attempt(1, i << 32) == retry_attempt(1, (i + 1) << 32);
        equal += retry_attempt(i, 7) == retry_attempt(i + 1, 7);
    }
    assert_true(equal <= 2);
    assert_int_equal(retry_attempt(5, 6), retry_attempt(5, 6));
}

static struct retry_key numbered(uint64_t seq)
{
    return (struct retry_key){.session = 1, .seq = seq};
}

/* RETRY-1: every answer lost to a fifth in its set is counted, and none is lost uncounted. */
static void lost_answers_are_exactly_those_counted(void **state)
{
    enum { KEYS = 40000 };
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;
    uint64_t lost = 0;

    for (uint64_t i = 0; i < KEYS; i++) {
        const struct retry_key key = numbered(i);
        retry_remember(memory, &key, 1, true, 0, i, NOW_NS);
        assert_true(retry_recall(memory, &key, 1, NOW_NS, &entry));
        assert_int_equal(entry.granted, i);
    }
    for (uint64_t i = 0; i < KEYS; i++) {
        const struct retry_key key = numbered(i);
        if (!retry_recall(memory, &key, 1, NOW_NS, &entry))
            lost++;
        else
            assert_int_equal(entry.granted, i);
    }
    assert_true(lost > 0);
    assert_int_equal(memory->dropped, lost);
}

/* RETRY-1: the answer that makes room is the oldest of its set, whose caller waits least likely. */
static void the_oldest_answer_of_a_full_set_makes_room(void **state)
{
    enum { KEYS_MAX = 150000, KEYS_A_MS = 100 };
    struct retry_memory *memory = *state;
    struct retry_memory_entry entry;
    uint64_t count = 0;
    uint64_t lost = 0;
    size_t place = 0;

    while (memory->dropped == 0 && count < KEYS_MAX) {
        const struct retry_key key = numbered(count);
        const int64_t at_ns = NOW_NS + (int64_t)(count / KEYS_A_MS) * MS_NS;
        retry_remember(memory, &key, 1, true, 0, count++, at_ns);
    }
    assert_int_equal(memory->dropped, 1);
    const int64_t now_ns = NOW_NS + (int64_t)(count / KEYS_A_MS) * MS_NS;
    for (; lost < count; lost++) {
        const struct retry_key key = numbered(lost);
        if (!retry_recall(memory, &key, 1, now_ns, &entry))
            break;
    }
    assert_true(lost < count);
    while (memory->entries[place].tag == 0 || memory->entries[place].granted != count - 1)
        place++;
    for (size_t i = 0; i < RETRY_WAYS; i++) {
        const struct retry_memory_entry *other =
            &memory->entries[place / RETRY_WAYS * RETRY_WAYS + i];
        assert_int_not_equal(other->tag, 0);
        assert_true(other->granted / KEYS_A_MS >= lost / KEYS_A_MS);
    }
}

/* An answer that was forgotten anyway is not a loss, so it must not raise an alarm. */
static void room_made_by_old_answers_is_not_counted(void **state)
{
    struct retry_memory *memory = *state;
    int64_t now_ns = NOW_NS;

    for (uint64_t i = 0; i < 60000; i++) {
        const struct retry_key key = numbered(i);
        if (i % 2000 == 0)
            now_ns += RETRY_KEEP_NS + MS_NS;
        retry_remember(memory, &key, 1, true, 0, i, now_ns);
    }
    assert_int_equal(memory->dropped, 0);
}

/* A message's answers are noted in one run through memory, and each in a set of its own: else a
 * long message would push out its own first answers. Messages do not begin in the same place. */
static void items_of_a_message_are_noted_in_neighbouring_sets(void **state)
{
    struct retry_memory *memory = *state;
    uint32_t begin[3];

    for (uint64_t message = 0; message < 3; message++) {
        struct retry_key key = {.session = 77, .seq = message, .item = 0};
        begin[message] = retry_remember(memory, &key, 1, true, 0, 1, NOW_NS) / RETRY_WAYS;
        for (uint16_t item = 1; item < 4096; item++) {
            key.item = item;
            const uint32_t at = retry_remember(memory, &key, 1, true, 0, 1, NOW_NS) / RETRY_WAYS;
            assert_int_equal(at, (begin[message] + item) % RETRY_SETS);
        }
    }
    assert_int_not_equal(begin[0], begin[1]);
    assert_int_not_equal(begin[1], begin[2]);
    assert_int_equal(memory->dropped, 0);
}

/* Parts of one item are more than a set holds. */
static void parts_of_an_item_are_in_sets_of_their_own(void **state)
{
    struct retry_memory *memory = *state;

    for (uint8_t part = 0; part < 2 * RETRY_WAYS; part++) {
        const struct retry_key key = {.session = 77, .seq = 1, .item = 9, .part = part};
        retry_remember(memory, &key, 1, true, 0, 1, NOW_NS);
    }
    assert_int_equal(memory->dropped, 0);
}

/* Without memory the shard does not start, rather than start without this promise. */
static void a_failing_allocator_is_reported_and_nothing_leaks(void **state)
{
    struct alloc_failing failing;
    struct retry_memory memory;

    (void)state;
    alloc_failing_init(&failing, 1);
    assert_int_equal(retry_init(&memory, &failing.allocator, &hash_key, RETRY_SETS), TG_ENOMEM);
    retry_fini(&memory);
    assert_int_equal(retry_init(&memory, &failing.allocator, &hash_key, RETRY_SETS), 0);
    assert_true(failing.bytes_live > 0);
    retry_fini(&memory);
    retry_fini(&memory);
    assert_int_equal(failing.bytes_live, 0);
}

#define WITH_MEMORY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_MEMORY(an_answer_is_recalled_with_its_verdict),
        WITH_MEMORY(an_answer_is_recalled_for_two_seconds_and_then_forgotten),
        WITH_MEMORY(the_turn_of_the_millisecond_clock_is_survived),
        WITH_MEMORY(another_session_sequence_item_or_part_is_another_request),
        WITH_MEMORY(every_bit_of_the_identity_counts),
        WITH_MEMORY(a_released_answer_is_void),
        WITH_MEMORY(only_the_last_of_several_attempts_gives_back),
        WITH_MEMORY(an_attempt_claims_once),
        WITH_MEMORY(a_second_answer_keeps_the_claims_on_the_first),
        WITH_MEMORY(who_was_not_told_gives_up_nothing),
        WITH_MEMORY(an_answer_can_be_given_up_in_part),
        WITH_MEMORY(many_claims_are_never_given_back),
        cmocka_unit_test(attempts_differ_by_node_and_by_ticket),
        WITH_MEMORY(lost_answers_are_exactly_those_counted),
        WITH_MEMORY(the_oldest_answer_of_a_full_set_makes_room),
        WITH_MEMORY(room_made_by_old_answers_is_not_counted),
        WITH_MEMORY(items_of_a_message_are_noted_in_neighbouring_sets),
        WITH_MEMORY(parts_of_an_item_are_in_sets_of_their_own),
        cmocka_unit_test(a_failing_allocator_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
