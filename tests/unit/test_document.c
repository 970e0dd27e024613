/* test_document.c - msgpack values as JSON and YAML, and as tables. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <yaml.h>

#include "base/random.h"
#include "client/cli/output/document.h"
#include "client/cli/output/table.h"

enum { BYTES_MAX = 8192, TOKENS_MAX = 4096 };

struct value {
    uint8_t bytes[BYTES_MAX];
    struct mp_writer writer;
    struct mp_token tokens[TOKENS_MAX];
    size_t count;
};

static void start(struct value *value)
{
    mp_writer_init(&value->writer, value->bytes, sizeof value->bytes);
}

static void finish(struct value *value)
{
    assert_false(value->writer.failed);
    const int count = mp_parse(value->bytes, value->writer.len, value->tokens, TOKENS_MAX);
    assert_true(count > 0);
    value->count = (size_t)count;
}

static void json_is(const struct value *value, const char *expected)
{
    struct cli_text text;
    cli_text_init(&text);
    cli_json(&text, value->tokens, value->count);
    assert_string_equal(text.data, expected);
    cli_text_fini(&text);
}

static void yaml_is(const struct value *value, bool item, const char *expected)
{
    struct cli_text text;
    cli_text_init(&text);
    cli_yaml(&text, value->tokens, value->count, item);
    assert_string_equal(text.data, expected);
    cli_text_fini(&text);
}

/* {"name":"n1","list":[1,-2,[],{}],"map":{"a":true,"b":null},"rows":[{"x":1},{"x":2}]} */
static void put_sample(struct value *value)
{
    struct mp_writer *writer = &value->writer;
    start(value);
    mp_put_map(writer, 4);
    mp_put_str(writer, "name");
    mp_put_str(writer, "n1");
    mp_put_str(writer, "list");
    mp_put_array(writer, 4);
    mp_put_uint(writer, 1);
    mp_put_int(writer, -2);
    mp_put_array(writer, 0);
    mp_put_map(writer, 0);
    mp_put_str(writer, "map");
    mp_put_map(writer, 2);
    mp_put_str(writer, "a");
    mp_put_bool(writer, true);
    mp_put_str(writer, "b");
    mp_put_nil(writer);
    mp_put_str(writer, "rows");
    mp_put_array(writer, 2);
    for (uint64_t i = 1; i <= 2; i++) {
        mp_put_map(writer, 1);
        mp_put_str(writer, "x");
        mp_put_uint(writer, i);
    }
    finish(value);
}

/* Scripts compare the text, so it has no spaces and keeps the order of the fields. */
static void json_is_compact_and_in_order(void **state)
{
    struct value value;
    (void)state;
    put_sample(&value);
    json_is(&value, "{\"name\":\"n1\",\"list\":[1,-2,[],{}],\"map\":{\"a\":true,\"b\":null},"
                    "\"rows\":[{\"x\":1},{\"x\":2}]}");
}

/* YAML is indented by two and says the same. */
static void yaml_is_in_blocks(void **state)
{
    struct value value;
    (void)state;
    put_sample(&value);
    yaml_is(&value, false,
            "name: n1\n"
            "list:\n"
            "  - 1\n"
            "  - -2\n"
            "  - []\n"
            "  - {}\n"
            "map:\n"
            "  a: true\n"
            "  b: null\n"
            "rows:\n"
            "  - x: 1\n"
            "  - x: 2\n");
}

/* Decisions that are printed one by one make one sequence together. */
static void an_item_of_yaml_is_indented_behind_its_dash(void **state)
{
    struct value value;
    (void)state;
    start(&value);
    mp_put_map(&value.writer, 2);
    mp_put_str(&value.writer, "a");
    mp_put_uint(&value.writer, 1);
    mp_put_str(&value.writer, "b");
    mp_put_map(&value.writer, 1);
    mp_put_str(&value.writer, "c");
    mp_put_bool(&value.writer, false);
    finish(&value);
    yaml_is(&value, true, "- a: 1\n  b:\n    c: false\n");
}

/* Words that YAML readers take for booleans, numbers or syntax are quoted. */
static void yaml_quotes_what_could_be_something_else(void **state)
{
    static const struct {
        const char *text;
        const char *expected;
    } known[] = {
        {"plain-word_1/x.y", "plain-word_1/x.y\n"},
        {"No", "\"No\"\n"},
        {"y", "\"y\"\n"},
        {"null", "\"null\"\n"},
        {"", "\"\"\n"},
        {"12", "\"12\"\n"},
        {"1e5", "\"1e5\"\n"},
        {"127.0.0.1:7600", "\"127.0.0.1:7600\"\n"},
        {"two words", "\"two words\"\n"},
        {"- x", "\"- x\"\n"},
        {"a\nb", "\"a\\nb\"\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct value value;
        start(&value);
        mp_put_str(&value.writer, known[i].text);
        finish(&value);
        yaml_is(&value, false, known[i].expected);
    }
}

/* DOCUMENT-1: whatever a node says, the output can be read. */
static void unusual_values_stay_valid_json(void **state)
{
    struct value value;
    (void)state;
    start(&value);
    mp_put_map(&value.writer, 6);
    mp_put_uint(&value.writer, 7);
    mp_put_real(&value.writer, 0.1);
    mp_put_str(&value.writer, "nan");
    mp_put_real(&value.writer, (double)NAN);
    mp_put_str(&value.writer, "bin");
    mp_put_bin(&value.writer, "\x01\xff", 2);
    mp_put_str(&value.writer, "bad");
    mp_put_strn(&value.writer, "\xc0\xaf\xe2\x82", 4);
    mp_put_str(&value.writer, "quote");
    mp_put_str(&value.writer, "\"\\\x1b\x7f\xc2\x9b");
    mp_put_str(&value.writer, "most");
    mp_put_uint(&value.writer, UINT64_MAX);
    finish(&value);
    json_is(
        &value,
        "{\"7\":0.1,\"nan\":null,\"bin\":\"01ff\",\"bad\":\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
        "\xef\xbf\xbd\",\"quote\":\"\\\"\\\\\\u001b\\u007f\\u009b\","
        "\"most\":18446744073709551615}");
}

/* U+FFFE and U+FFFF, which YAML does not allow as they are, are escaped; what is beside them is
 * not.
 */
static void noncharacters_are_escaped(void **state)
{
    struct value value;
    (void)state;
    start(&value);
    mp_put_str(&value.writer, "a\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd");
    finish(&value);
    json_is(&value, "\"a\\ufffe\\uffff\xef\xbf\xbd\"");
    yaml_is(&value, false, "\"a\\ufffe\\uffff\xef\xbf\xbd\"\n");
}

/* ---- against independent readers --------------------------------------------------------------
 */

static void put_random_text(struct mp_writer *writer, struct random *random)
{
    char text[12];
    const size_t len = (size_t)random_below(random, sizeof text);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)random_below(random, 4) == 0 ? (char)random_below(random, 256)
                                                     : " a:-\"#0n"[random_below(random, 8)];
    mp_put_strn(writer, text, len);
}

static void put_random_scalar(struct mp_writer *writer, struct random *random)
{
    switch (random_below(random, 6)) {
    case 0:
        mp_put_nil(writer);
        break;
    case 1:
        mp_put_bool(writer, random_below(random, 2) == 0);
        break;
    case 2:
        mp_put_int(writer, (int64_t)random_below(random, 2000) - 1000);
        break;
    default:
        put_random_text(writer, random);
        break;
    }
}

/* A random tree, level by level turned into one pass: `open` counts values still to be written. */
static void put_random_tree(struct value *value, struct random *random)
{
    uint64_t open[MP_DEPTH_MAX];
    bool map[MP_DEPTH_MAX];
    size_t depth = 0;
    unsigned key_number = 0;
    start(value);
    do {
        if (depth > 0 && map[depth - 1]) {
            char key[16];
            (void)snprintf(key, sizeof key, "k%u", key_number++);
            mp_put_str(&value->writer, key);
        }
        if (depth > 0)
            open[depth - 1]--;
        const uint64_t kind = random_below(random, depth == 0 ? 2 : 5);
        const uint64_t count = random_below(random, 4);
        if (depth < 7 && kind < 2) {
            map[depth] = kind == 0;
            open[depth] = count;
            depth++;
            if (kind == 0)
                mp_put_map(&value->writer, count);
            else
                mp_put_array(&value->writer, count);
        } else {
            put_random_scalar(&value->writer, random);
        }
        while (depth > 0 && open[depth - 1] == 0)
            depth--;
    } while (depth > 0);
    finish(value);
}

static bool yaml_is_readable(const struct cli_text *text)
{
    yaml_parser_t parser;
    yaml_document_t document;
    assert_int_equal(yaml_parser_initialize(&parser), 1);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text->data, text->len);
    const bool ok = yaml_parser_load(&parser, &document) == 1;
    if (ok)
        yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return ok;
}

/* Another implementation of each format reads what is written, whatever it is. */
static void other_readers_understand_random_trees(void **state)
{
    enum { ROUNDS = 3000, SEED = 20261121 };
    struct random random;
    static struct value value;
    (void)state;
    random_init(&random, SEED);
    for (int i = 0; i < ROUNDS; i++) {
        struct cli_text json;
        struct cli_text yaml;
        json_error_t error;
        cli_text_init(&json);
        cli_text_init(&yaml);
        put_random_tree(&value, &random);
        cli_json(&json, value.tokens, value.count);
        cli_yaml(&yaml, value.tokens, value.count, i % 2 == 0);
        json_t *read = json_loads(json.data, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        if (read == NULL)
            fail_msg("seed %d round %d: %s in %s", SEED, i, error.text, json.data);
        char *again = json_dumps(read, JSON_COMPACT | JSON_ENCODE_ANY);
        json_t *twice = json_loads(again, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        assert_true(json_equal(read, twice));
        if (!yaml_is_readable(&yaml))
            fail_msg("seed %d round %d: no YAML: %s", SEED, i, yaml.data);
        json_decref(twice);
        json_decref(read);
        free(again);
        cli_text_fini(&json);
        cli_text_fini(&yaml);
    }
}

/* ---- tables ------------------------------------------------------------------------------------
 */

static void put_member(struct mp_writer *writer, const char *name, const char *member_state,
                       uint64_t vnodes)
{
    mp_put_map(writer, 4);
    mp_put_str(writer, "vnodes");
    mp_put_uint(writer, vnodes);
    mp_put_str(writer, "name");
    mp_put_str(writer, name);
    mp_put_str(writer, "state");
    mp_put_str(writer, member_state);
    mp_put_str(writer, "unheard_of");
    mp_put_str(writer, "x");
}

/* Chosen columns come in their order, those that no row has are left out, numbers align right. */
static void rows_become_aligned_columns(void **state)
{
    struct value value;
    struct cli_text text;
    (void)state;
    start(&value);
    mp_put_array(&value.writer, 2);
    put_member(&value.writer, "n1", "alive", 7);
    put_member(&value.writer, "a-longer-name", "dead", 1366);
    finish(&value);
    cli_text_init(&text);
    cli_table_rows(&text, value.tokens, value.count, cli_member_columns, false);
    assert_string_equal(text.data, "NAME           STATE  VNODES\n"
                                   "n1             alive       7\n"
                                   "a-longer-name  dead     1366\n");
    cli_text_fini(&text);
}

/* Colour does not move columns, and appears only when it is asked for. */
static void colour_marks_states_and_keeps_columns(void **state)
{
    struct value value;
    struct cli_text text;
    (void)state;
    start(&value);
    mp_put_array(&value.writer, 1);
    put_member(&value.writer, "n1", "dead", 7);
    finish(&value);
    cli_text_init(&text);
    cli_table_rows(&text, value.tokens, value.count, cli_member_columns, true);
    assert_string_equal(text.data, "NAME  STATE  VNODES\n"
                                   "n1    \033[31mdead\033[0m        7\n");
    cli_text_fini(&text);
}

/* Nobody who names a node or a rule can move the cursor of who looks at it. */
static void a_table_shows_no_control_character(void **state)
{
    struct value value;
    struct cli_text text;
    (void)state;
    start(&value);
    mp_put_array(&value.writer, 1);
    put_member(&value.writer, "\x1b[2J\n\xc2\x9b\xff", "alive", 1);
    finish(&value);
    cli_text_init(&text);
    cli_table_rows(&text, value.tokens, value.count, cli_member_columns, false);
    assert_string_equal(text.data, "NAME     STATE  VNODES\n"
                                   "?[2J??\xef\xbf\xbd  alive       1\n");
    cli_text_fini(&text);
}

/* A status is shown field by field, with a table for each list of things in it. */
static void a_map_becomes_lines_and_tables(void **state)
{
    struct value value;
    struct cli_text text;
    (void)state;
    put_sample(&value);
    cli_text_init(&text);
    cli_table_map(&text, value.tokens, value.count, false);
    assert_string_equal(text.data, "name  n1\n"
                                   "list  1,-2,[],{}\n"
                                   "map   a yes, b -\n"
                                   "\n"
                                   "rows\n"
                                   "X\n"
                                   "1\n"
                                   "2\n");
    cli_text_fini(&text);
}

static void put_number(struct value *value, const char *name, uint64_t number)
{
    mp_put_str(&value->writer, name);
    mp_put_uint(&value->writer, number);
}

static void put_text(struct value *value, const char *name, const char *text)
{
    mp_put_str(&value->writer, name);
    mp_put_str(&value->writer, text);
}

/* Nobody reads milliseconds since 1970: tables show times of day and durations, a moment once, and
 * 0 as none; JSON keeps the numbers. */
static void a_table_shows_times_and_durations(void **state)
{
    struct value value;
    struct cli_text text;
    (void)state;
    start(&value);
    mp_put_map(&value.writer, 8);
    mp_put_str(&value.writer, "rtt_ms");
    mp_put_real(&value.writer, 80.5);
    put_number(&value, "until_ms", 1795903135421);
    put_text(&value, "until", "2026-11-28T21:58:55Z");
    put_number(&value, "time_ms", 1795643935311);
    put_number(&value, "revoked_ms", 0);
    put_number(&value, "flush_lag_ms", 1234);
    put_number(&value, "p50_us", 1250);
    mp_put_str(&value.writer, "handoff");
    mp_put_map(&value.writer, 2);
    put_number(&value, "left_ms", 90000);
    put_number(&value, "bytes", 90000);
    finish(&value);
    cli_text_init(&text);
    cli_table_map(&text, value.tokens, value.count, false);
    assert_string_equal(text.data, "rtt        80.5ms\n"
                                   "until      2026-11-28T21:58:55Z\n"
                                   "time       2026-11-25T21:58:55Z\n"
                                   "revoked    -\n"
                                   "flush_lag  1.234s\n"
                                   "p50        1.25ms\n"
                                   "handoff    left 1m30s, bytes 90000\n");
    cli_text_fini(&text);
    json_is(&value,
            "{\"rtt_ms\":80.5,\"until_ms\":1795903135421,\"until\":\"2026-11-28T21:58:55Z\","
            "\"time_ms\":1795643935311,\"revoked_ms\":0,\"flush_lag_ms\":1234,"
            "\"p50_us\":1250,\"handoff\":{\"left_ms\":90000,\"bytes\":90000}}");
}

/* Of a block without an end nothing is left to wait for, which is no 0; -1 is never. */
static void a_row_without_an_end_has_no_time_left(void **state)
{
    struct value value;
    struct cli_text text;
    (void)state;
    start(&value);
    mp_put_array(&value.writer, 2);
    for (uint64_t row = 0; row < 2; row++) {
        mp_put_map(&value.writer, 4);
        put_text(&value, "what", row == 0 ? "a" : "b");
        put_number(&value, "until_ms", row * 1795903135421);
        put_number(&value, "left_ms", row * 5399952);
        mp_put_str(&value.writer, "retry_after_ms");
        mp_put_int(&value.writer, row == 0 ? -1 : 3600000);
    }
    finish(&value);
    cli_text_init(&text);
    cli_table_rows(&text, value.tokens, value.count, cli_block_columns, false);
    assert_string_equal(text.data, "WHAT          LEFT\n"
                                   "a                -\n"
                                   "b     1h29m59.952s\n");
    cli_text_clear(&text);
    cli_table_rows(&text, value.tokens, value.count, NULL, false);
    assert_string_equal(text.data, "WHAT  UNTIL                         LEFT  RETRY AFTER\n"
                                   "a     -                                -        never\n"
                                   "b     2026-11-28T21:58:55Z  1h29m59.952s           1h\n");
    cli_text_fini(&text);
}

/* A map of maps is a table, each row under its name; a field that a row lacks is a dash. */
static void maps_in_a_map_are_rows_with_names(void **state)
{
    struct value value;
    struct cli_text text;
    (void)state;
    start(&value);
    mp_put_map(&value.writer, 2);
    mp_put_str(&value.writer, "n");
    mp_put_uint(&value.writer, 7);
    mp_put_str(&value.writer, "levels");
    mp_put_map(&value.writer, 2);
    mp_put_str(&value.writer, "one");
    mp_put_map(&value.writer, 2);
    mp_put_str(&value.writer, "tokens");
    mp_put_uint(&value.writer, 12);
    mp_put_str(&value.writer, "why");
    mp_put_str(&value.writer, "a, b");
    mp_put_str(&value.writer, "quorum");
    mp_put_map(&value.writer, 1);
    mp_put_str(&value.writer, "tokens");
    mp_put_uint(&value.writer, 0);
    finish(&value);
    cli_text_init(&text);
    cli_table_map(&text, value.tokens, value.count, false);
    assert_string_equal(text.data, "n  7\n"
                                   "\n"
                                   "levels\n"
                                   "        TOKENS  WHY\n"
                                   "one         12  a, b\n"
                                   "quorum       0  -\n");
    cli_text_fini(&text);
}

/* Twenty counters a shard fit a screen only on their side. */
static void rows_with_very_many_fields_are_turned(void **state)
{
    enum { FIELDS = 20, ROWS = 2 };
    struct value value;
    struct cli_text text;
    (void)state;
    start(&value);
    mp_put_array(&value.writer, ROWS);
    for (uint64_t row = 0; row < ROWS; row++) {
        mp_put_map(&value.writer, FIELDS);
        for (uint64_t i = 0; i < FIELDS; i++) {
            char name[8];
            (void)snprintf(name, sizeof name, "f%02u", (unsigned)i);
            mp_put_str(&value.writer, name);
            mp_put_uint(&value.writer, row * 100 + i);
        }
    }
    finish(&value);
    cli_text_init(&text);
    cli_table_rows(&text, value.tokens, value.count, NULL, false);
    assert_memory_equal(text.data, "f00   0  100\nf01   1  101\n", 26);
    cli_text_fini(&text);
}

/* An answer of an unexpected shape is shown all the same. */
static void what_is_no_table_is_shown_as_yaml(void **state)
{
    struct value value;
    struct cli_text text;
    (void)state;
    put_sample(&value);
    cli_text_init(&text);
    cli_table_rows(&text, value.tokens, value.count, cli_member_columns, false);
    assert_memory_equal(text.data, "name: n1\n", 9);
    cli_text_clear(&text);
    start(&value);
    mp_put_array(&value.writer, 0);
    finish(&value);
    cli_table_rows(&text, value.tokens, value.count, cli_owner_columns, false);
    assert_string_equal(text.data,
                        "RULE  WINDOW  VNODE  OWNER  DECIDER  EPOCH  TERM  REPLICAS  DEAD  HOME\n");
    cli_text_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_compact_and_in_order),
        cmocka_unit_test(yaml_is_in_blocks),
        cmocka_unit_test(an_item_of_yaml_is_indented_behind_its_dash),
        cmocka_unit_test(yaml_quotes_what_could_be_something_else),
        cmocka_unit_test(unusual_values_stay_valid_json),
        cmocka_unit_test(noncharacters_are_escaped),
        cmocka_unit_test(other_readers_understand_random_trees),
        cmocka_unit_test(rows_become_aligned_columns),
        cmocka_unit_test(colour_marks_states_and_keeps_columns),
        cmocka_unit_test(a_table_shows_no_control_character),
        cmocka_unit_test(a_map_becomes_lines_and_tables),
        cmocka_unit_test(a_table_shows_times_and_durations),
        cmocka_unit_test(a_row_without_an_end_has_no_time_left),
        cmocka_unit_test(maps_in_a_map_are_rows_with_names),
        cmocka_unit_test(rows_with_very_many_fields_are_turned),
        cmocka_unit_test(what_is_no_table_is_shown_as_yaml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
