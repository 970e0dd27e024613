/* test_replay_arguments.c - what `tidegate replay` was asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/cli/arguments/arguments.h"

enum { ARGUMENTS_MAX = 400 };

static struct cli_arguments out;
static char sentence[CLI_SENTENCE_LEN];

/* Parses "replay " and `line`, cut at single spaces. */
static int parse(const char *line)
{
    static char words[16384];
    const char *argv[ARGUMENTS_MAX] = {"tidegate", "replay"};
    int argc = 2;
    (void)snprintf(words, sizeof words, "%s", line);
    for (char *at = words; *at != '\0';) {
        argv[argc++] = at;
        at += strcspn(at, " ");
        if (*at == ' ')
            *at++ = '\0';
    }
    sentence[0] = '\0';
    return cli_arguments_parse(&out, argc, argv, sentence);
}

static void refuses(const char *line, int status, const char *words)
{
    if (parse(line) != status || strstr(sentence, words) == NULL)
        fail_msg("\"%s\" gives \"%s\"; expected \"%s\"", line, sentence, words);
}

static void expect(struct policy_text text, const char *wanted)
{
    assert_int_equal(text.len, strlen(wanted));
    assert_memory_equal(text.data, wanted, text.len);
}

/* Every flag, in any place, and several logs. */
static void all_flags_are_understood(void **state)
{
    (void)state;
    assert_int_equal(
        parse("a.log --rules r.yaml b.log.gz --format json --map user=claims.sub --map "
              "phone=query.p --set tier=free --time-field at --cost-field bytes --proxies 2 "
              "--reorder 1500ms --spread --top 9 --suggest 0.25% - -o json"),
        CLI_EXIT_OK);
    const struct cli_replay *replay = &out.replay;
    assert_int_equal(out.command, CLI_REPLAY);
    assert_int_equal(out.output, CLI_JSON);
    assert_int_equal(replay->file_count, 3);
    assert_string_equal(replay->files[1], "b.log.gz");
    assert_string_equal(replay->files[2], "-");
    assert_string_equal(replay->rules, "r.yaml");
    assert_int_equal(replay->log.format, LOG_JSON);
    assert_int_equal(replay->log.map_count, 2);
    expect(replay->log.maps[1].name, "phone");
    expect(replay->log.maps[1].value, "query.p");
    expect(replay->log.sets[0].value, "free");
    expect(replay->log.time_field, "at");
    expect(replay->log.cost_field, "bytes");
    assert_int_equal(replay->log.proxies, 2);
    assert_int_equal(replay->reorder_ns, 1500000000);
    assert_true(replay->spread);
    assert_int_equal(replay->top, 9);
    assert_true(replay->suggest);
    assert_int_equal(replay->suggest_ppm, 2500);
}

/* Without flags: the format is found out, lines may be ten seconds out of order. */
static void the_defaults_are_those_of_the_help(void **state)
{
    (void)state;
    assert_int_equal(parse("a.log --rules r.yaml"), CLI_EXIT_OK);
    assert_int_equal(out.replay.log.format, LOG_AUTO);
    assert_int_equal(out.replay.reorder_ns, INT64_C(10000000000));
    assert_int_equal(out.replay.top, 5);
    assert_false(out.replay.suggest);
    assert_false(out.replay.spread);
}

/* What is wrong is named, with what was expected. */
static void mistakes_are_named(void **state)
{
    (void)state;
    refuses("", CLI_EXIT_USAGE, "needs a LOGFILE");
    refuses("a.log", CLI_EXIT_USAGE, "needs --rules");
    refuses("- --rules -", CLI_EXIT_USAGE, "named twice");
    refuses("- - --rules r", CLI_EXIT_USAGE, "named twice");
    refuses("a --rules r --format clf", CLI_EXIT_INVALID, "expected auto, combined, xff or json");
    refuses("a --rules r --map user", CLI_EXIT_INVALID, "expected NAME=FIELD");
    refuses("a --rules r --map user=", CLI_EXIT_INVALID, "expected NAME=FIELD");
    refuses("a --rules r --map User=x", CLI_EXIT_INVALID, "a-z 0-9");
    refuses("a --rules r --set =x", CLI_EXIT_INVALID, "expected NAME=VALUE");
    refuses("a --rules r --set a=1 --set a=2", CLI_EXIT_INVALID, "'a' twice");
    refuses("a --rules r --format xff --map user=claims.sub", CLI_EXIT_INVALID, "is no field");
    refuses("a --rules r --format combined --cost-field cost", CLI_EXIT_INVALID, "is no field");
    refuses("a --rules r --proxies 0", CLI_EXIT_INVALID, "1 or more");
    refuses("a --rules r --proxies 17", CLI_EXIT_INVALID, "--proxies");
    refuses("a --rules r --top 0", CLI_EXIT_INVALID, "1 or more");
    refuses("a --rules r --reorder 10", CLI_EXIT_INVALID, "--reorder");
    refuses("a --rules r --reorder 601s", CLI_EXIT_INVALID, "expected 0 to 600s");
    refuses("a --rules r --suggest lots", CLI_EXIT_INVALID, "such as 0.1%");
    refuses("a --rules r --suggest 101%", CLI_EXIT_INVALID, "such as 0.1%");
    refuses("a --rules r --suggest 1%%", CLI_EXIT_INVALID, "such as 0.1%");
    refuses("a --rules r --cost 3", CLI_EXIT_USAGE, "does not take --cost");
    refuses("a --rules r --rules s", CLI_EXIT_USAGE, "given twice");
    assert_int_equal(parse("a --rules r --reorder 0 --suggest 0"), CLI_EXIT_OK);
    assert_int_equal(out.replay.reorder_ns, 0);
    assert_int_equal(parse("a --rules r --reorder 0s"), CLI_EXIT_OK);
    assert_int_equal(out.replay.reorder_ns, 0);
    assert_int_equal(parse("a --rules r --format xff --map user=query.user --cost-field bytes"),
                     CLI_EXIT_OK);
}

/* Too many files or pairs are refused by number, not cut. */
static void too_many_are_refused(void **state)
{
    (void)state;
    char line[4096] = "--rules r";
    size_t len = strlen(line);
    for (int i = 0; i < CLI_LOGS_MAX + 1; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, " f%d", i);
    refuses(line, CLI_EXIT_INVALID, "257 files; expected at most 256");
    len = (size_t)snprintf(line, sizeof line, "a --rules r");
    for (int i = 0; i < LOG_PAIRS_MAX + 1; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, " --map a%d=b", i);
    refuses(line, CLI_EXIT_INVALID, "33 times --map; expected at most 32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_flags_are_understood),
        cmocka_unit_test(the_defaults_are_those_of_the_help),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(too_many_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
