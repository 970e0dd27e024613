/* test_settings_change.c - changes, records and frames of the settings, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/configstore/settings_wire.h"

enum { ROOM = 8192, ROUNDS = 20000 };

static struct settings_text text(const char *bytes)
{
    return (struct settings_text){.data = bytes, .len = strlen(bytes)};
}

static struct settings_change sample(void)
{
    struct settings_change change = {
        .version = UINT64_C(7) << 32 | 12,
        .voters = {.count = 3, .ids = {5, 1, UINT64_MAX}},
        .before = {.lo = 1, .hi = UINT64_MAX},
        .id = {.lo = 3, .hi = 4},
        .time_ms = INT64_C(1795267980047),
        .author = text("ada@host"),
        .note = text("z\xc3\xbcrich"),
        .op_count = 2,
    };
    change.ops[0] = (struct settings_op){
        .kind = SETTINGS_RULES, .name = text("000000000000000c"), .value = text("rules: []\n")};
    change.ops[1] = (struct settings_op){
        .kind = SETTINGS_KIND_MAX, .name = text("of a newer release"), .removes = true};
    return change;
}

static struct settings_entry sample_entry(void)
{
    return (struct settings_entry){
        .kind = SETTINGS_BLOCK,
        .name = text("attr user=ada"),
        .version = 9,
        .time_ms = 1,
        .author = text("a"),
        .note = text(""),
        .value = {.data = "\0\1\2\3", .len = 4},
    };
}

static void assert_text(struct settings_text a, struct settings_text b)
{
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
}

/* A change is read as it was written, of kinds that are not known here as well. */
static void a_change_is_read_as_it_was_written(void **state)
{
    (void)state;
    uint8_t bytes[ROOM];
    struct settings_change read;
    const struct settings_change change = sample();
    const int len = settings_change_encode(&change, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_int_equal(settings_change_decode(bytes, (size_t)len, &read), 0);
    assert_int_equal(read.version, change.version);
    assert_int_equal(read.voters.count, 3);
    assert_memory_equal(read.voters.ids, change.voters.ids, 3 * sizeof *read.voters.ids);
    assert_true(hash128_equal(read.before, change.before) && hash128_equal(read.id, change.id));
    assert_int_equal(read.time_ms, change.time_ms);
    assert_text(read.author, change.author);
    assert_text(read.note, change.note);
    assert_int_equal(read.op_count, 2);
    assert_text(read.ops[0].value, change.ops[0].value);
    assert_true(read.ops[1].removes && !read.ops[0].removes);
    assert_int_equal(read.ops[1].kind, SETTINGS_KIND_MAX);
}

/* The largest value, with the longest name, author and note, fits into a change and into a record.
 */
static void the_largest_value_fits(void **state)
{
    (void)state;
    uint8_t *bytes = malloc(SETTINGS_CHANGE_LEN_MAX);
    char *large = malloc(SETTINGS_VALUE_LEN_MAX + 1);
    assert_non_null(bytes);
    assert_non_null(large);
    memset(large, 'x', SETTINGS_VALUE_LEN_MAX + 1);
    struct settings_change change = sample();
    struct settings_change read;
    change.author = (struct settings_text){large, SETTINGS_AUTHOR_LEN_MAX};
    change.note = (struct settings_text){large, SETTINGS_NOTE_LEN_MAX};
    change.ops[0].name = (struct settings_text){large, SETTINGS_NAME_LEN_MAX};
    change.ops[0].value = (struct settings_text){large, SETTINGS_VALUE_LEN_MAX};
    int len = settings_change_encode(&change, bytes, SETTINGS_CHANGE_LEN_MAX);
    assert_true(len > 0);
    assert_int_equal(settings_change_decode(bytes, (size_t)len, &read), 0);
    struct settings_entry entry = sample_entry();
    entry.author = change.author;
    entry.note = change.note;
    entry.name = change.ops[0].name;
    entry.value = change.ops[0].value;
    len = settings_entry_encode(&entry, bytes, SETTINGS_RECORD_LEN_MAX);
    assert_true(len > 0);
    struct settings_entry got;
    assert_int_equal(settings_entry_decode(bytes, (size_t)len, &got), 0);
    entry.author.len = SETTINGS_AUTHOR_LEN_MAX + 1; /* and no more */
    len = settings_entry_encode(&entry, bytes, SETTINGS_RECORD_LEN_MAX);
    assert_int_equal(settings_entry_decode(bytes, (size_t)len, &got), TG_EPROTOCOL);
    free(large);
    free(bytes);
}

/* What no release writes is refused: no voters, the same voter twice, version 0, a control
 * character. */
static void what_nobody_writes_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[ROOM];
    struct settings_change read;
    for (int what = 0; what < 6; what++) {
        struct settings_change change = sample();
        change.voters.count = what == 0 ? 0 : change.voters.count;
        change.voters.ids[1] = what == 1 ? change.voters.ids[0] : change.voters.ids[1];
        change.version = what == 2 ? 0 : change.version;
        change.author = what == 3 ? text("a\033[2J") : change.author;
        change.ops[0].name = what == 4 ? text("") : change.ops[0].name;
        change.ops[0].kind = what == 5 ? 0 : change.ops[0].kind;
        const int len = settings_change_encode(&change, bytes, sizeof bytes);
        assert_true(len > 0);
        assert_int_equal(settings_change_decode(bytes, (size_t)len, &read), TG_EPROTOCOL);
    }
}

/* The digest covers every byte of a change. */
static void the_digest_covers_every_byte(void **state)
{
    (void)state;
    uint8_t bytes[ROOM];
    const struct settings_change change = sample();
    const int len = settings_change_encode(&change, bytes, sizeof bytes);
    const struct hash128 digest = settings_change_digest(bytes, (size_t)len);
    for (int i = 0; i < len; i++) {
        bytes[i] ^= 1;
        assert_false(hash128_equal(digest, settings_change_digest(bytes, (size_t)len)));
        bytes[i] ^= 1;
    }
}

/* A frame is read as it was written, with its ranges and items, and takes no other message for one.
 */
static void frames_are_read_as_they_were_written(void **state)
{
    (void)state;
    uint8_t bytes[ROOM];
    static struct settings_frame frame;
    static struct settings_frame read;
    memset(&frame, 0, sizeof frame);
    frame.type = SETTINGS_RECORDS;
    frame.sender = 3;
    (void)snprintf(frame.address, sizeof frame.address, "10.0.0.1:7602");
    frame.version = 77;
    frame.digest = (struct hash128){1, 2};
    frame.voters = (struct register_voters){.count = 1, .ids = {3}};
    frame.from = (struct settings_place){SETTINGS_BLOCK, text("attr a=b")};
    frame.to = (struct settings_place){SETTINGS_QUOTA, text("x")};
    frame.item_count = 2;
    frame.items[0] = (struct settings_item){(const uint8_t *)"one", 3};
    frame.items[1] = (struct settings_item){(const uint8_t *)"", 0};
    const int len = settings_wire_encode(&frame, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_int_equal(settings_wire_decode(bytes, (size_t)len, &read), 0);
    assert_int_equal(read.type, SETTINGS_RECORDS);
    assert_int_equal(read.version, 77);
    assert_int_equal(read.from.kind, SETTINGS_BLOCK);
    assert_text(read.to.name, frame.to.name);
    assert_int_equal(read.item_count, 2);
    assert_memory_equal(read.items[0].bytes, "one", 3);
    struct join_message join;
    assert_int_equal(join_decode(bytes, (size_t)len, &join), TG_EPROTOCOL);
    bytes[1 + 1] = 99; /* the protocol's version */
    assert_int_equal(settings_wire_decode(bytes, (size_t)len, &read), TG_EVERSION);
}

/* A frame of more items than there is room for is refused, and nothing is written behind them. */
static void a_frame_of_too_many_items_is_refused(void **state)
{
    (void)state;
    static struct {
        struct settings_frame frame;
        uint8_t behind[64];
    } made, read;
    static uint8_t bytes[8 * SETTINGS_ITEMS_MAX];
    made.frame.type = SETTINGS_CHANGES;
    made.frame.sender = 3;
    (void)snprintf(made.frame.address, sizeof made.frame.address, "10.0.0.1:7602");
    made.frame.from.name = text("");
    made.frame.to.name = text("");
    made.frame.voters = (struct register_voters){.count = 1, .ids = {3}};
    for (uint32_t over = 0; over < 2; over++) {
        struct settings_item *items = made.frame.items;
        made.frame.item_count = SETTINGS_ITEMS_MAX + over;
        for (uint32_t i = 0; i < made.frame.item_count; i++)
            items[i] = (struct settings_item){(const uint8_t *)"x", 1};
        const int len = settings_wire_encode(&made.frame, bytes, sizeof bytes);
        assert_true(len > 0);
        memset(read.behind, 0x5a, sizeof read.behind);
        assert_int_equal(settings_wire_decode(bytes, (size_t)len, &read.frame),
                         over == 0 ? 0 : TG_EPROTOCOL);
        for (size_t i = 0; i < sizeof read.behind; i++)
            assert_int_equal(read.behind[i], 0x5a);
    }
}

/* Mangled bytes are refused or read within bounds; what is accepted is written again as it is. */
static void mangled_bytes_are_read_within_bounds(void **state)
{
    (void)state;
    struct random random;
    uint8_t bytes[ROOM];
    uint8_t again[ROOM];
    struct settings_change read;
    struct settings_entry entry;
    random_init(&random, 11);
    for (int i = 0; i < ROUNDS; i++) {
        const struct settings_change change = sample();
        const struct settings_entry record = sample_entry();
        const bool is_change = random_below(&random, 2) == 0;
        const int len = is_change ? settings_change_encode(&change, bytes, sizeof bytes)
                                  : settings_entry_encode(&record, bytes, sizeof bytes);
        for (uint64_t n = 1 + random_below(&random, 3); n > 0; n--)
            bytes[random_below(&random, (uint64_t)len)] = (uint8_t)random_next(&random);
        const size_t cut = 1 + (size_t)random_below(&random, (uint64_t)len);
        uint8_t *copy = malloc(cut);
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        if (is_change && settings_change_decode(copy, cut, &read) == 0) {
            assert_true(settings_change_encode(&read, again, sizeof again) > 0);
            assert_true(read.op_count <= SETTINGS_OPS_MAX);
        } else if (!is_change && settings_entry_decode(copy, cut, &entry) == 0) {
            assert_true(settings_entry_encode(&entry, again, sizeof again) > 0);
        }
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_read_as_it_was_written),
        cmocka_unit_test(the_largest_value_fits),
        cmocka_unit_test(what_nobody_writes_is_refused),
        cmocka_unit_test(the_digest_covers_every_byte),
        cmocka_unit_test(frames_are_read_as_they_were_written),
        cmocka_unit_test(a_frame_of_too_many_items_is_refused),
        cmocka_unit_test(mangled_bytes_are_read_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
