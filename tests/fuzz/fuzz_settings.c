/* fuzz_settings.c - changes, records and frames of the settings; a store of them that hears any.
 *
 *     u8 what | bytes                     1, 2, 3, 6: one codec; 4: a block; 7: packed rules
 *     u8 0    | op ...                    a store: op = u8 what | ...
 *       apply     u16 length, change
 *       follow    u8 operations, u8 names: a change that follows the head
 *       records   u16 length, frame       a copy
 *       answer    u16 length, frame       asked by somebody
 *       restore   u8 key, u16 length, value
 *
 * Property: what a codec accepts it writes again, and reads as the same; what was packed unpacks to
 * the same, and what is unpacked has the length that it said, within the bound; the invariants of a
 * store hold after each operation, its version never falls, and what it answers decodes.
 */
#include <stdio.h>

#include "node/cluster/configstore/settings.h"
#include "node/policy/compile/packed.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/people/blocks.h"
#include "node/policy/people/people.h"
#include "tests/fuzz/fuzz.h"

enum { OPS_MAX = 40, ROOM = JOIN_LARGE_FRAME_MAX };

static uint8_t room_a[ROOM];
static uint8_t room_b[ROOM];

static void fuzz_change(const uint8_t *data, size_t len)
{
    struct settings_change change;
    if (settings_change_decode(data, len, &change) != 0)
        return;
    const int once = settings_change_encode(&change, room_a, ROOM);
    ASSERT(once > 0);
    const int error = settings_change_decode(room_a, (size_t)once, &change);
    ASSERT(error == 0);
    const int twice = settings_change_encode(&change, room_b, ROOM);
    ASSERT(twice == once && memcmp(room_a, room_b, (size_t)once) == 0);
}

static void fuzz_entry(const uint8_t *data, size_t len)
{
    struct settings_entry entry;
    if (settings_entry_decode(data, len, &entry) != 0)
        return;
    const int once = settings_entry_encode(&entry, room_a, ROOM);
    ASSERT(once > 0);
    const int error = settings_entry_decode(room_a, (size_t)once, &entry);
    ASSERT(error == 0);
    const int twice = settings_entry_encode(&entry, room_b, ROOM);
    ASSERT(twice == once && memcmp(room_a, room_b, (size_t)once) == 0);
}

static void fuzz_frame(const uint8_t *data, size_t len)
{
    static struct settings_frame frame;
    if (settings_wire_decode(data, len, &frame) != 0)
        return;
    const int once = settings_wire_encode(&frame, room_a, ROOM);
    ASSERT(once > 0);
    const int error = settings_wire_decode(room_a, (size_t)once, &frame);
    ASSERT(error == 0);
    const int twice = settings_wire_encode(&frame, room_b, ROOM);
    ASSERT(twice == once && memcmp(room_a, room_b, (size_t)once) == 0);
}

/* What an operator writes as a block, and whether its name means the same again. */
static void fuzz_block(const uint8_t *data, size_t len)
{
    char name[BLOCKS_NAME_LEN_MAX];
    char again[BLOCKS_NAME_LEN_MAX];
    char error[BLOCKS_ERROR_LEN];
    char *const text = fuzz_text(data, len);
    const bool is_key = len > 0 && data[0] % 2 == 0;
    const int name_len = blocks_name(attribute_kinds_default(), text, len, is_key, name, error);
    if (name_len > 5 && memcmp(name, "cidr ", 5) == 0) {
        const int again_len = blocks_name(attribute_kinds_default(), name + 5, (size_t)name_len - 5,
                                          false, again, error);
        ASSERT(again_len == name_len && memcmp(name, again, (size_t)name_len) == 0);
    } else if (name_len < 0) {
        ASSERT(strlen(error) > 0);
    }
    if (name_len > 0) {
        struct blocks *blocks;
        const struct block block = {{name, (size_t)name_len}, {"why", 3}, 0};
        const int result = blocks_new(alloc_heap(), attribute_kinds_default(), &block, 1, &blocks);
        ASSERT(result == 0);
        const struct policy_attribute asked = {"ip", 2, text, len};
        (void)blocks_find(blocks, &asked, 1, 1);
        ASSERT(!is_key || blocks_find_key(blocks, text, len, 1) != NULL);
        blocks_free(&blocks);
    }
    free(text);
}

/* What unpacks is as long as it said; a larger text of these bytes, packed, with one bit changed or
 * not. */
static void fuzz_packed(const uint8_t *data, size_t len)
{
    static char text[POLICY_DOCUMENT_LEN_MAX + 256];
    struct packed packed;
    struct packed opened;
    if (packed_open(data, len, alloc_heap(), &opened) == 0) {
        ASSERT(opened.len == packed_text_len(data, len) && opened.len <= POLICY_FILE_LEN_MAX);
        packed_fini(&opened, alloc_heap());
    }
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)data[i % (len > 0 ? len : 1)];
    int error = len == 0 ? TG_EINVALID : packed_make(text, sizeof text, alloc_heap(), &packed);
    if (error != 0)
        return;
    const size_t at = (size_t)data[0] * 251 % packed.len;
    uint8_t *bytes = packed.block;
    bytes[at] ^= (uint8_t)(data[len - 1] % 2 << data[len / 2] % 8);
    error = packed_open(packed.data, packed.len, alloc_heap(), &opened);
    ASSERT(data[len - 1] % 2 != 0 || error == 0);
    if (error == 0 && packed_is(packed.data, packed.len)) {
        ASSERT(opened.len == sizeof text && memcmp(opened.data, text, sizeof text) == 0);
        packed_fini(&opened, alloc_heap());
    }
    packed_fini(&packed, alloc_heap());
}

/* A change that follows the head of the store, with operations on few names. */
static size_t follow(const struct settings *settings, struct fuzz_input *input)
{
    static const char *const names[] = {"a", "b", "cc", "d", "e"};
    struct settings_change change;
    memset(&change, 0, sizeof change);
    change.version = settings->version + 1 + fuzz_u8(input) % 2;
    change.before = settings->digest;
    change.voters = (struct register_voters){.count = 1, .ids = {1}};
    change.op_count = fuzz_u8(input) % 7;
    for (uint32_t i = 0; i < change.op_count; i++) {
        const uint8_t what = fuzz_u8(input);
        const char *name = names[what % 5];
        change.ops[i] = (struct settings_op){.kind = 1U + what % 3U,
                                             .name = {name, strlen(name)},
                                             .removes = what > 200,
                                             .value = {name, strlen(name)}};
    }
    const int len = settings_change_encode(&change, room_a, ROOM);
    ASSERT(len > 0);
    return (size_t)len;
}

static void one_op(struct settings *settings, struct fuzz_input *input, struct effects *effects)
{
    static struct settings_frame frame;
    static struct settings_frame answer;
    const uint8_t what = fuzz_u8(input);
    size_t got = 0;
    if (what % 4 == 0) {
        const size_t len = follow(settings, input);
        const int error = settings_apply(settings, room_a, len, what > 128, effects);
        ASSERT(error == 0);
        return;
    }
    const uint8_t *const bytes = fuzz_take(input, fuzz_u16(input), &got);
    uint8_t *const copy = fuzz_copy(bytes, got);
    if (what % 4 == 1) {
        const int error = settings_apply(settings, copy, got, false, effects);
        ASSERT(error <= 0);
    } else if (settings_wire_decode(copy, got, &frame) == 0) {
        if (what % 4 == 2 && frame.type == SETTINGS_RECORDS)
            (void)settings_take_records(settings, 1, &frame, effects);
        else if (settings_answer(settings, &frame, &answer)) {
            const int len = settings_wire_encode(&answer, room_b, ROOM);
            ASSERT(len > 0);
        }
    }
    free(copy);
}

static void fuzz_store(struct fuzz_input *input)
{
    static struct effects effects;
    const struct settings_options options = {.node_id = 1, .boot = 1, .seed = 1, .log_max = 4};
    struct settings *settings;
    if (effects.items == NULL) {
        const int error = effects_init(&effects, alloc_heap());
        ASSERT(error == 0);
    }
    const int made = settings_new(alloc_heap(), &options, &settings);
    ASSERT(made == 0);
    for (int op = 0; op < OPS_MAX && fuzz_more(input); op++) {
        const uint64_t before = settings->version;
        one_op(settings, input, &effects);
        effects_clear(&effects);
        settings_check_invariants(settings);
        ASSERT(settings->version >= before);
    }
    settings_free(&settings);
}

static void fuzz_restore(struct fuzz_input *input)
{
    static const char *const keys[] = {"settings.head", "settings.log.1", "settings.rec.1",
                                       "settings.register", "settings.tomorrow"};
    const struct settings_options options = {.node_id = 1, .boot = 1, .seed = 1};
    struct settings *settings;
    int error = settings_new(alloc_heap(), &options, &settings);
    ASSERT(error == 0);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && error == 0 && fuzz_more(input); i++) {
        size_t got = 0;
        const uint8_t *const bytes = fuzz_take(input, fuzz_u16(input), &got);
        uint8_t *const copy = fuzz_copy(bytes, got);
        error = settings_restore(settings, 1, keys[i], copy, got);
        free(copy);
    }
    if (error == 0 && settings_restored(settings) == 0)
        settings_check_invariants(settings);
    settings_free(&settings);
}

/* A quota record that is read is written again as the same, and can be put in force. */
static void fuzz_quota(const uint8_t *data, size_t len)
{
    uint8_t written[PEOPLE_ENCODED_MAX];
    struct quota quota;
    struct quota again;
    struct people *people = NULL;
    if (quota_decode(data, len, &quota) != 0)
        return;
    const size_t once = quota_encode(&quota, written);
    int error = quota_decode(written, once, &again);
    ASSERT(error == 0 && memcmp(&again.own, &quota.own, sizeof quota.own) == 0);
    ASSERT(again.blocked == quota.blocked && again.until_ms == quota.until_ms);
    ASSERT(again.tier.len == quota.tier.len && again.notes.len == quota.notes.len);
    quota.user = (struct policy_text){"u", 1};
    error = people_new(alloc_heap(), &quota, 1, &people);
    ASSERT(error == 0);
    struct person person = {.denied = NULL};
    struct policy_attribute attributes[POLICY_ATTRIBUTES_MAX] = {{"user", 4, "u", 1}};
    size_t count = 1;
    people_find(people, attributes, &count, 1, &person);
    ASSERT(count == 1 + (size_t)(quota.tier.len > 0));
    ASSERT((person.own != NULL) == !own_limits_empty(&quota.own));
    people_free(&people);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    const uint8_t what = fuzz_u8(&input) % 8;
    size_t got = 0;
    if (what == 0) {
        fuzz_store(&input);
        return 0;
    }
    if (what == 5) {
        fuzz_restore(&input);
        return 0;
    }
    const uint8_t *const rest = fuzz_rest(&input, &got);
    uint8_t *const copy = fuzz_copy(rest, got);
    if (what == 1)
        fuzz_change(copy, got);
    else if (what == 2)
        fuzz_entry(copy, got);
    else if (what == 3)
        fuzz_frame(copy, got);
    else if (what == 4)
        fuzz_block(copy, got);
    else if (what == 6)
        fuzz_quota(copy, got);
    else
        fuzz_packed(copy, got);
    free(copy);
    return 0;
}
