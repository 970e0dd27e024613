/* test_arguments.c - what the command line of `tidegate` means, and what is refused with which
 * status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/vocabulary.h"
#include "client/cli/arguments/arguments.h"
#include "client/cli/arguments/help.h"

enum { WORDS_MAX = 400 };

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Parses `line`, cut at single spaces; the words live until the next call. */
static int parse(struct cli_arguments *out, const char *line, char *sentence)
{
    static char words[8192];
    const char *argv[WORDS_MAX] = {"tidegate"};
    int argc = 1;
    (void)snprintf(words, sizeof words, "%s", line);
    for (char *at = words; *at != '\0';) {
        argv[argc++] = at;
        at += strcspn(at, " ");
        if (*at == ' ')
            *at++ = '\0';
    }
    sentence[0] = '\0';
    return cli_arguments_parse(out, argc, argv, sentence);
}

static void accepts(struct cli_arguments *out, const char *line)
{
    char sentence[CLI_SENTENCE_LEN];
    const int status = parse(out, line, sentence);
    if (status != CLI_EXIT_OK)
        fail_msg("\"%s\" is refused (%d): %s", line, status, sentence);
}

static void refuses(const char *line, int expected, const char *words)
{
    char sentence[CLI_SENTENCE_LEN];
    struct cli_arguments out;
    const int status = parse(&out, line, sentence);
    if (status != expected || strstr(sentence, words) == NULL)
        fail_msg("\"%s\" gives %d, \"%s\"; expected %d and \"%s\"", line, status, sentence,
                 expected, words);
}

/* Whoever needs a limit that holds in any window learns which algorithms do that. */
static void help_says_which_algorithms_hold_in_any_window(void **state)
{
    struct cli_text text;
    (void)state;
    cli_text_init(&text);
    cli_help(&text, CLI_CHECK);
    assert_non_null(strstr(text.data, "sliding_log, sliding_buckets   never more than COUNT in any "
                                      "PERIOD, wherever it begins\n"));
    for (unsigned i = 0; i < ALGORITHM_COUNT; i++)
        assert_non_null(strstr(text.data, algorithm_name(i)));
    cli_text_fini(&text);
}

/* A Redis client may count the empty key, so it can be asked about, reset and lifted as any. */
static void the_empty_key_is_a_key(void **state)
{
    static const char *const lines[] = {"check --key= --rate 5/s", "reset --key= --rate 5/s",
                                        "owner --key=", "unblock --key="};
    struct cli_arguments out;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        accepts(&out, lines[i]);
        assert_non_null(out.key);
        assert_string_equal(out.key, "");
    }
}

/* Attributes are cut at their first '=', so that a value may hold more of them. */
static void attributes_are_names_and_values(void **state)
{
    struct cli_arguments out;
    (void)state;
    accepts(&out, "check api=/signup phone=+1555 token=a=b= empty=");
    assert_int_equal(out.command, CLI_CHECK);
    assert_int_equal(out.attribute_count, 4);
    assert_string_equal(out.attributes[0].name, "api");
    assert_string_equal((const char *)out.attributes[0].value, "/signup");
    assert_string_equal(out.attributes[2].name, "token");
    assert_string_equal((const char *)out.attributes[2].value, "a=b=");
    assert_int_equal(out.attributes[2].value_len, 4);
    assert_int_equal(out.attributes[3].value_len, 0);
    assert_null(out.key);
    assert_true(out.cost == 1 && out.repeat == 1);
}

/* An inline limit says all that a rule would say. */
static void an_inline_key_brings_its_limit(void **state)
{
    struct cli_arguments out;
    (void)state;
    accepts(&out, "peek --key a=b --rate 30/24h --burst 7");
    assert_int_equal(out.command, CLI_PEEK);
    assert_string_equal(out.key, "a=b");
    assert_true(out.limit.count == 30 && out.limit.window_ns == 86400000000000ULL);
    assert_true(out.limit.burst == 7);
    assert_int_equal(out.limit.algorithm, TG_TOKEN_BUCKET);
    accepts(&out, "hit --key a --rate 5/h --algorithm sliding_log --cost 0 --repeat 3");
    assert_int_equal(out.limit.algorithm, TG_SLIDING_LOG);
    assert_true(out.cost == 0 && out.repeat == 3);
}

/* People write flags where they think of them. */
static void flags_may_stand_anywhere_and_in_any_form(void **state)
{
    static const char *const lines[] = {
        "-e tcp://h:1 -o json --timeout 250ms members",
        "members -e tcp://h:1 -o json --timeout 250ms",
        "--endpoint=tcp://h:1 members --output=json --timeout=250ms",
        "-etcp://h:1 -ojson --timeout 249001us members",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct cli_arguments out;
        accepts(&out, lines[i]);
        assert_int_equal(out.command, CLI_MEMBERS);
        assert_string_equal(out.endpoints, "tcp://h:1");
        assert_int_equal(out.output, CLI_JSON);
        assert_int_equal(out.timeout_ms, 250);
    }
}

/* Behind -- nothing is a flag any more: an attribute may be named -e. */
static void two_dashes_end_the_flags(void **state)
{
    struct cli_arguments out;
    (void)state;
    accepts(&out, "check -- -e=1 --cost=2");
    assert_int_equal(out.attribute_count, 2);
    assert_string_equal(out.attributes[1].name, "--cost");
    assert_true(out.cost == 1);
}

/* Every command is reached by its name, and knows its own operands. */
static void every_command_is_known(void **state)
{
    static const struct {
        const char *line;
        enum cli_command command;
    } known[] = {
        {"check a=b", CLI_CHECK},
        {"peek a=b", CLI_PEEK},
        {"hit a=b", CLI_HIT},
        {"refund a=b", CLI_REFUND},
        {"reset a=b", CLI_RESET},
        {"lease a=b", CLI_LEASE},
        {"release --lease 0123456789abcdef a=b", CLI_RELEASE},
        {"renew --lease 0123456789abcdef a=b", CLI_RENEW},
        {"release --lease 0123456789abcdef --used 40 a=b", CLI_RELEASE},
        {"reserve --cost 40 --ttl 5s a=b", CLI_RESERVE},
        {"commit --hold 0123456789abcdef --actual 40 a=b", CLI_COMMIT},
        {"cancel --hold 0123456789abcdef --key a --rate 5/s", CLI_CANCEL},
        {"status --watch", CLI_STATUS},
        {"status --regions", CLI_STATUS},
        {"members", CLI_MEMBERS},
        {"ring", CLI_RING},
        {"owner a=b", CLI_OWNER},
        {"owner --key a", CLI_OWNER},
        {"owner --key a --rate 5/s --burst 2", CLI_OWNER},
        {"rules list", CLI_RULES_LIST},
        {"rules validate x.yaml", CLI_RULES_VALIDATE},
        {"rules validate -", CLI_RULES_VALIDATE},
        {"rules explain a=b", CLI_RULES_EXPLAIN},
        {"rules explain --domain d --descriptor a=b", CLI_RULES_EXPLAIN},
        {"rules import envoy x.yaml y.yaml --merge --charge all", CLI_RULES_IMPORT},
        {"--rules x.yaml rules explain a=b", CLI_RULES_EXPLAIN},
        {"pools list", CLI_POOLS_LIST},
        {"pools set api --rate 10000/s", CLI_POOLS_SET},
        {"pools report api --load 0.9", CLI_POOLS_REPORT},
        {"drain", CLI_DRAIN},
        {"leave --no-wait", CLI_LEAVE},
        {"remove n3", CLI_REMOVE},
        {"version", CLI_VERSION},
        {"--version", CLI_VERSION},
        {"status --version --timeout 0 --wait x --limit y", CLI_VERSION},
        {"help", CLI_HELP},
        {"-h", CLI_HELP},
    };
    struct cli_arguments out;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        accepts(&out, known[i].line);
        assert_int_equal(out.command, known[i].command);
    }
}

/* What is missing is told before a value that is wrong. */
static void what_is_missing_is_told_first(void **state)
{
    (void)state;
    refuses("release --used x a=b", CLI_EXIT_USAGE, "needs --lease");
    refuses("commit --hold 0123456789abcdef a=b", CLI_EXIT_USAGE, "needs --actual N");
    refuses("commit --actual 5 a=b", CLI_EXIT_USAGE, "'commit' needs --hold ID");
    refuses("cancel --hold 5 a=b", CLI_EXIT_INVALID,
            "--hold is '5'; expected 16 hexadecimal digits");
    refuses("reserve --ttl 5 a=b", CLI_EXIT_INVALID, "--ttl: ");
    refuses("reserve --ttl 2h a=b", CLI_EXIT_INVALID, "--ttl is '2h'; expected 1s to 1h");
    refuses("block --for bogus", CLI_EXIT_USAGE, "needs");
    refuses("quota set ada --for bogus", CLI_EXIT_USAGE, "--block");
    refuses("block user=ada --for bogus", CLI_EXIT_INVALID, "--for");
}

/* What a command is about, and how it is to be done, is read from where it stands. */
static void operands_and_flags_are_read(void **state)
{
    struct cli_arguments out;
    (void)state;
    accepts(&out, "status --wait healthy --timeout 1m");
    assert_true(out.wait_healthy);
    assert_int_equal(out.timeout_ms, 60000);
    accepts(&out, "rules explain a=b c=d --rules r.yaml");
    assert_string_equal(out.file, "r.yaml");
    assert_int_equal(out.attribute_count, 2);
    accepts(&out, "rules explain a=b");
    assert_null(out.file);
    accepts(&out, "pools --load 0.25 report api");
    assert_string_equal(out.report.pool, "api");
    assert_true(out.report.load > 0.249 && out.report.load < 0.251);
    accepts(&out, "pools set api --rate 10000/s --reserve 5%");
    assert_string_equal(out.pool_edit.name, "api");
    assert_true(out.pool_edit.rate.count == 10000 && out.pool_edit.reserve_percent == 5);
    assert_true(out.pool_edit.load_max_ppm == POOL_EDIT_KEPT);
    accepts(&out, "pools set api --load-max 0.8 --yes");
    assert_true(out.pool_edit.rate.count == 0 && out.pool_edit.load_max_ppm == 800000 && out.yes);
    assert_true(out.pool_edit.scope == POOL_EDIT_KEPT && out.pool_edit.home == NULL);
    accepts(&out, "pools set api --scope global --home eu");
    assert_int_equal(out.pool_edit.scope, POLICY_SCOPE_GLOBAL);
    assert_string_equal(out.pool_edit.home, "eu");
    accepts(&out, "pools set api --scope region");
    assert_true(out.pool_edit.scope == POLICY_SCOPE_REGION && out.pool_edit.home == NULL);
    accepts(&out, "pools report api --load 1");
    assert_true(out.report.load > 0.999);
    accepts(&out, "peek a=b --explain");
    assert_true(out.explain);
    accepts(&out, "rules validate -");
    assert_false(out.explain);
    assert_string_equal(out.file, "-");
    accepts(&out, "remove n3 --force --timeout 2s");
    assert_string_equal(out.member, "n3");
    assert_true(out.force && !out.no_wait && cli_waits(&out));
    accepts(&out, "drain --no-wait");
    assert_true(out.no_wait && !cli_waits(&out));
}

/* `help X`, `X --help` and `X -h` ask the same, whatever else stands there. */
static void help_knows_its_topic(void **state)
{
    struct cli_arguments out;
    (void)state;
    accepts(&out, "help check");
    assert_int_equal(out.topic, CLI_CHECK);
    accepts(&out, "check --help");
    assert_int_equal(out.command, CLI_HELP);
    assert_int_equal(out.topic, CLI_CHECK);
    accepts(&out, "rules validate -h");
    assert_int_equal(out.topic, CLI_RULES_VALIDATE);
    accepts(&out, "help rules");
    assert_int_equal(out.topic, CLI_RULES_LIST);
    accepts(&out, "quota --help");
    assert_int_equal(out.command, CLI_HELP);
    assert_int_equal(out.topic, CLI_QUOTA_SET);
    accepts(&out, "nonsense --help");
    assert_int_equal(out.topic, CLI_COMMAND_NONE);
    accepts(&out, "help");
    assert_int_equal(out.topic, CLI_COMMAND_NONE);
    refuses("help nonsense", CLI_EXIT_USAGE, "nonsense");
    refuses("help check more", CLI_EXIT_USAGE, "more");
}

/* Help on one of several commands that begin with the same word names all of them. */
static void help_on_a_group_names_its_commands(void **state)
{
    static const char *const names[] = {"\n  quota set ", "\n  quota show ", "\n  quota reset "};
    struct cli_text text;
    (void)state;
    cli_text_init(&text);
    cli_help(&text, CLI_QUOTA_SET);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(strstr(text.data, names[i]));
    assert_null(strstr(text.data, "\n  rules list "));
    cli_text_fini(&text);
}

/* A wrong shape is a usage error (64): scripts tell it from bad data. */
static void a_wrong_shape_is_a_usage_error(void **state)
{
    static const struct {
        const char *line;
        const char *words;
    } wrong[] = {
        {"", "command is missing"},
        {"-o json", "command is missing"},
        {"chek a=b", "'chek'"},
        {"rules", "history or rollback"},
        {"rules diff", "needs a FILE"},
        {"rules delete", "needs the NAME"},
        {"rules rollback", "needs a VERSION"},
        {"rules history a", "unexpected 'a'"},
        {"rules show a --of-version 3", "exclude each other"},
        {"rules show --yes", "does not take --yes"},
        {"block", "needs attr=value, a CIDR or --key"},
        {"block a=b c=d", "unexpected 'c=d'"},
        {"block a=b --for 1h --until 2026-01-01", "exclude each other"},
        {"unblock a=b --for 1h", "does not take --for"},
        {"blocks a", "unexpected 'a'"},
        {"rules nonsense", "'rules nonsense'"},
        {"check", "needs attributes"},
        {"check a=b --frobnicate", "unknown flag '--frobnicate'"},
        {"check a=b --explain=yes", "takes no value"},
        {"status --explain", "'status' does not take --explain"},
        {"rules list --rules x.yaml", "'rules list' does not take --rules"},
        {"check a=b -x", "unknown flag '-x'"},
        {"check a=b --cost", "--cost needs a value"},
        {"check a=b --cost 1 --cost 2", "--cost is given twice"},
        {"check a=b --at-most=yes", "takes no value"},
        {"check --key a", "needs --rate"},
        {"check --key a --burst 3", "need --rate"},
        {"check --rate 5/s a=b", "need --key"},
        {"check --key a --rate 5/s a=b", "both --key and 'a=b'"},
        {"check a=b --watch", "'check' does not take --watch"},
        {"hit a=b --at-most", "'hit' does not take --at-most"},
        {"reset a=b --cost 2", "'reset' does not take --cost"},
        {"members --wait healthy", "'members' does not take --wait"},
        {"status --wait healthy --watch", "exclude each other"},
        {"status --wait healthy --regions", "exclude each other"},
        {"members extra", "unexpected 'extra'"},
        {"rules validate", "needs a FILE"},
        {"rules validate a b", "unexpected 'b'"},
        {"pools", "'pools' needs list, set or report"},
        {"pools add", "'pools add'; expected list, set or report"},
        {"pools set", "'pools set' needs a NAME"},
        {"pools set api", "needs --rate, --load-max, --reserve, --scope or --home"},
        {"pools set api --load 1", "does not take --load"},
        {"pools report", "needs a NAME"},
        {"pools report --load 0.5", "needs a NAME"},
        {"pools report api", "needs --load"},
        {"pools report api x --load 1", "unexpected 'x' behind 'pools report'"},
        {"pools list --load 1", "'pools list' does not take --load"},
        {"remove", "needs a NODE, a name or an id, or --region"},
        {"remove n2 --region us", "unexpected 'n2' behind 'remove'"},
        {"remove n2 n3", "unexpected 'n3' behind 'remove'"},
        {"drain n2", "unexpected 'n2' behind 'drain'"},
        {"drain --force", "'drain' does not take --force"},
        {"members --no-wait", "'members' does not take --no-wait"},
        {"status --wait", "--wait needs a value"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        refuses(wrong[i].line, CLI_EXIT_USAGE, wrong[i].words);
}

/* The same of what is said of rules that no node is asked about. */
static void a_wrong_shape_of_explain_and_import_is_a_usage_error(void **state)
{
    static const struct {
        const char *line;
        const char *words;
    } wrong[] = {
        {"rules explain", "needs attributes (name=value) or --domain"},
        {"rules explain --domain d", "--domain and --descriptor need each other"},
        {"rules explain --descriptor a=b", "--domain and --descriptor need each other"},
        {"rules explain --domain d --descriptor a=b c=d",
         "unexpected 'c=d' behind 'rules explain'"},
        {"rules import", "needs the form of the files; expected envoy"},
        {"rules import x.yaml", "needs the form of the files; expected envoy"},
        {"rules import envoy", "'rules import envoy' needs a FILE"},
        {"rules validate x.yaml --domain d", "does not take --domain"},
        {"rules explain --rules x.yaml", "needs attributes (name=value)"},
        {"rules explain a=b --rules", "--rules needs a value"},
        {"rules explain a=b --key k", "does not take --key"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        refuses(wrong[i].line, CLI_EXIT_USAGE, wrong[i].words);
}

/* Whoever mistypes a command or a flag is told what was probably meant. */
static void what_was_probably_meant_is_named(void **state)
{
    static const struct {
        const char *line;
        const char *words;
    } wrong[] = {
        {"check a=b --explian", "unknown flag '--explian'; did you mean --explain?"},
        {"check a=b --explian=x", "did you mean --explain?"},
        {"check a=b --costs 2", "unknown flag '--costs'; did you mean --cost?"},
        {"stauts", "unknown command 'stauts'; did you mean 'status'?"},
        {"rule list", "unknown command 'rule'; did you mean 'rules'?"},
        {"rules aply x", "history or rollback; did you mean apply?"},
        {"validate x", "unknown command 'validate'; did you mean 'rules validate'?"},
        {"help membres", "unknown command 'membres'; did you mean 'members'?"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        refuses(wrong[i].line, CLI_EXIT_USAGE, wrong[i].words);
}

/* How many members are waited for is said to who waits. */
static void members_are_waited_for(void **state)
{
    struct cli_arguments out;
    (void)state;
    accepts(&out, "status --members 3 --wait healthy");
    assert_true(out.wait_healthy && out.members == 3);
    accepts(&out, "status --wait healthy");
    assert_int_equal(out.members, 0);
    refuses("status --members 3", CLI_EXIT_USAGE, "--members N needs --wait");
    refuses("status --members all --wait healthy --node n1", CLI_EXIT_USAGE, "--node excludes");
    accepts(&out, "status --members all --node n2");
    assert_true(out.all_members && out.members == 0);
    assert_string_equal(out.node, "n2");
    accepts(&out, "status --all --watch");
    assert_true(out.all && out.watch && out.node == NULL && !out.all_members);
    refuses("members --members 3", CLI_EXIT_USAGE, "'members' does not take --members");
    refuses("status --wait healthy --members 0", CLI_EXIT_INVALID, "--members is 0; expected 1");
    refuses("status --wait healthy --members all", CLI_EXIT_INVALID, "--members");
}

/* What is set for a user is named by flags, the user by his name. */
static void quotas_are_set_by_user(void **state)
{
    static const struct {
        const char *line;
        enum cli_command command;
    } known[] = {
        {"quota set ada --tier free", CLI_QUOTA_SET},
        {"quota set ada --burst 5 --dry-run", CLI_QUOTA_SET},
        {"quota show ada", CLI_QUOTA_SHOW},
        {"quota list", CLI_QUOTA_LIST},
        {"quota delete ada", CLI_QUOTA_DELETE},
        {"quota reset ada", CLI_QUOTA_RESET},
    };
    static const struct {
        const char *line;
        const char *words;
    } wrong[] = {
        {"quota", "'quota' needs set, show, list, delete or reset"},
        {"quota get ada", "'quota get'; expected set, show, list, delete or reset"},
        {"quota set", "'quota set' needs a USER"},
        {"quota reset", "'quota reset' needs a USER"},
        {"quota show a b", "unexpected 'b' behind 'quota show'"},
        {"quota list a", "unexpected 'a' behind 'quota list'"},
        {"quota show a --tier x", "'quota show' does not take --tier"},
        {"quota set a --block x --unblock", "--block and --unblock exclude each other"},
        {"quota set a --for 1h", "--for and --until say when a --block ends"},
    };
    struct cli_arguments out;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        accepts(&out, known[i].line);
        assert_int_equal(out.command, known[i].command);
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        refuses(wrong[i].line, CLI_EXIT_USAGE, wrong[i].words);
    accepts(&out, "quota set ada --limit 500/h --limit 9/day --burst 7 --block unpaid --for 2s");
    assert_string_equal(out.quota.user, "ada");
    assert_string_equal(out.quota.limits, "500/h 9/day");
    assert_string_equal(out.quota.block, "unpaid");
    assert_true(out.quota.burst == 7 && out.for_ms == 2000);
    assert_true(out.quota.tier == NULL && !out.quota.unblock && !out.quota.clear);
    accepts(&out, "quota list --after ada");
    assert_string_equal(out.after, "ada");
    accepts(&out, "apikey list --owner ada --after abcdefghijkl");
    assert_string_equal(out.after, "abcdefghijkl");
}

/* A user to list behind is as long as a user may be: a longer one, or none, is refused. */
static void the_user_to_list_behind_is_bounded(void **state)
{
    char line[TG_VALUE_MAX + 64];
    struct cli_arguments out;
    (void)state;
    const int len = snprintf(line, sizeof line, "quota list --after ");
    memset(line + len, 'a', TG_VALUE_MAX + 1);
    line[len + TG_VALUE_MAX + 1] = '\0';
    refuses(line, CLI_EXIT_INVALID, "--after has 1025 bytes; expected 1 to 1024");
    line[len + TG_VALUE_MAX] = '\0';
    accepts(&out, line);
    assert_int_equal(strlen(out.after), TG_VALUE_MAX);
}

/* A wrong value is invalid input (3), and the sentence says what was expected. */
static void a_wrong_value_is_invalid_input(void **state)
{
    static const struct {
        const char *line;
        const char *words;
    } wrong[] = {
        {"quota set a --burst 0", "--burst"},
        {"pools report api --load 1.5", "--load is '1.5'; expected a number from 0 to 1"},
        {"pools report api --load high", "--load is 'high'"},
        {"pools set api --rate ten", "--rate"},
        {"pools set api --load-max 0", "--load-max is '0'; expected a number above 0"},
        {"pools set api --load-max 1.1", "--load-max is '1.1'"},
        {"pools set api --reserve 101%", "--reserve is '101%'; expected 0% to 100%"},
        {"pools set api --reserve some", "--reserve is 'some'"},
        {"pools set api --scope planet", "--scope is 'planet'; expected region or global"},
        {"pools set api --home 0123456789012345678901234567890x", "--home has 32 bytes"},
        {"pools set api --scope region --home eu", "--home is of a pool with scope global only"},
        {"pools report api --load -1", "--load is '-1'"},
        {"pools report api --load 1e-3", "--load is '1e-3'"},
        {"check --key a --rate 5/60q", "--rate"},
        {"check --key a --rate 0/s", "--rate"},
        {"check --key a --rate 5", "--rate"},
        {"check --key a --rate 2000000000/s", "--rate"},
        {"check --key a --rate 5/s --algorithm gcra", "token_bucket, fixed_window"},
        {"check --key a --rate 5/month --algorithm fixed_window", "align: calendar"},
        {"release --lease 123 a=b", "expected 16 hexadecimal digits"},
        {"release --lease 0123456789abcdef --used -1 a=b", "--used"},
        {"check --key a --rate 5/s --algorithm sliding_log --burst 3", "burst"},
        {"check --key a --rate 5/s --burst 0", "--burst is 0"},
        {"check --key a --rate 5/s --burst x", "--burst"},
        {"check a", "expected name=value"},
        {"check =a", "no name"},
        {"check a=1 b=2 a=3", "'a' is given twice"},
        {"check a=b --cost -1", "--cost"},
        {"check a=b --cost 1.5", "--cost"},
        {"check a=b --cost 1000000000000001", "--cost"},
        {"check a=b --repeat 0", "--repeat is 0"},
        {"members -o xml", "table, json or yaml"},
        {"members --timeout 5", "--timeout"},
        {"members --timeout 0s", "expected 1ms to 1h"},
        {"members --timeout 61m", "expected 1ms to 1h"},
        {"status --wait happy", "expected healthy"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        refuses(wrong[i].line, CLI_EXIT_INVALID, wrong[i].words);
}

/* The bounds of names, values and their number are the protocol's, and reaching them is fine. */
static void bounds_are_taken_and_what_is_beyond_is_refused(void **state)
{
    static char line[4096];
    static char filler[TG_VALUE_MAX + 2];
    char sentence[CLI_SENTENCE_LEN];
    struct cli_arguments out;
    (void)state;
    memset(filler, 'x', sizeof filler - 1);
    for (int over = 0; over <= 1; over++) {
        const int expected = over ? CLI_EXIT_INVALID : CLI_EXIT_OK;
        (void)snprintf(line, sizeof line, "check %.*s=v", TG_ATTRIBUTE_NAME_MAX + over, filler);
        assert_int_equal(parse(&out, line, sentence), expected);
        (void)snprintf(line, sizeof line, "check a=%.*s", TG_VALUE_MAX + over, filler);
        assert_int_equal(parse(&out, line, sentence), expected);
        (void)snprintf(line, sizeof line, "check --rate 5/s --key %.*s", TG_VALUE_MAX + over,
                       filler);
        assert_int_equal(parse(&out, line, sentence), expected);
        size_t len = (size_t)snprintf(line, sizeof line, "check");
        for (int i = 0; i < TG_ATTRIBUTES_MAX + over; i++)
            len += (size_t)snprintf(line + len, sizeof line - len, " a%d=v", i);
        assert_int_equal(parse(&out, line, sentence), expected);
    }
    size_t len = (size_t)snprintf(line, sizeof line, "check");
    for (int i = 0; i < 310; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, " a%d=v", i);
    assert_int_equal(parse(&out, line, sentence), CLI_EXIT_USAGE);
}

/* Changes of rules and blocks are read whole: files, names, versions, ends, authors. */
static void changes_are_read_whole(void **state)
{
    struct cli_arguments out;
    (void)state;
    accepts(&out, "rules apply r.yaml --yes --note why --author ada@desk");
    assert_int_equal(out.command, CLI_RULES_APPLY);
    assert_string_equal(out.file, "r.yaml");
    assert_string_equal(out.author, "ada@desk");
    assert_true(out.yes && !out.dry_run);
    accepts(&out, "rules rollback 12 --dry-run");
    assert_int_equal(out.version, 12);
    accepts(&out, "rules show --of-version 7");
    assert_int_equal(out.version, 7);
    assert_null(out.name);
    accepts(&out, "block user=ada --for 1h --reason noise");
    assert_string_equal(out.target, "user=ada");
    assert_int_equal(out.for_ms, 3600000);
    accepts(&out, "block 10.0.0.0/8 --until 2026-11-21T13:33:07Z");
    assert_int_equal(out.until_ms, 1795267987000);
    accepts(&out, "unblock --key k");
    assert_string_equal(out.key, "k");
    assert_null(out.target);
    refuses("rules rollback twelve", CLI_EXIT_INVALID, "VERSION");
    refuses("block a=b --until tomorrow", CLI_EXIT_INVALID,
            "expected a time like 2026-12-31T18:00:00Z");
    refuses("block a=b --for ever", CLI_EXIT_INVALID, "--for");
    refuses("block user=z --for 0s", CLI_EXIT_INVALID,
            "--for: duration \"0s\": is 0; expected more than 0");
    refuses("quota set a --block x --for 0d", CLI_EXIT_INVALID, "expected more than 0");
    refuses("apikey create --for 0h", CLI_EXIT_INVALID, "expected more than 0");
    refuses("status --timeout 0s", CLI_EXIT_INVALID, "expected 1ms to 1h");
    static const char *const commands[] = {"block a=b", "quota set a --block x", "apikey create"};
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        char line[128];
        (void)snprintf(line, sizeof line, "%s --until 2027-02-30T00:00:00Z", commands[i]);
        refuses(line, CLI_EXIT_INVALID, "--until is '2027-02-30T00:00:00Z': there is no such day");
    }
    accepts(&out, "block --key=");
    assert_string_equal(out.key, "");
    refuses("block a=b --until 0", CLI_EXIT_INVALID, "long over");
    accepts(&out, "block a=b --until 2026-11-21T14:33:07+01:00");
    assert_int_equal(out.until_ms, 1795267987000);
}

/* API keys are named by id, name or the key itself, of which only the id is kept. */
static void api_keys_are_named_without_being_told(void **state)
{
    struct cli_arguments out;
    (void)state;
    accepts(&out, "apikey create --name ci --owner ada --tier gold --for 90d --note why");
    assert_int_equal(out.command, CLI_APIKEY_CREATE);
    assert_string_equal(out.name, "ci");
    assert_string_equal(out.holder.owner, "ada");
    assert_string_equal(out.holder.tier, "gold");
    assert_int_equal(out.for_ms, 90 * UINT64_C(86400000));
    accepts(&out, "apikey create --limit 500/h --limit 7/day --burst 50");
    assert_string_equal(out.quota.limits, "500/h 7/day");
    assert_int_equal(out.quota.burst, 50);
    refuses("apikey list --limit 5/h", CLI_EXIT_USAGE, "does not take --limit");
    accepts(&out, "apikey list --owner ada");
    assert_string_equal(out.holder.owner, "ada");
    accepts(&out, "apikey revoke tgk_abcdefghijkl_abcdefghijklmnopqrstuvwxyz234567");
    assert_int_equal(out.name_len, 12);
    assert_memory_equal(out.name, "abcdefghijkl", 12);
    accepts(&out, "apikey show tgk_");
    assert_int_equal(out.name_len, 4);
    refuses("apikey", CLI_EXIT_USAGE, "'apikey' needs create, list, show, revoke or delete");
    refuses("apikey make", CLI_EXIT_USAGE, "expected create, list, show, revoke or delete");
    refuses("apikey revoke", CLI_EXIT_USAGE, "needs a KEY");
    refuses("apikey show a b", CLI_EXIT_USAGE, "unexpected 'b'");
    refuses("apikey create ci", CLI_EXIT_USAGE, "unexpected 'ci'");
    refuses("apikey revoke a --tier b", CLI_EXIT_USAGE, "does not take --tier");
    refuses("apikey create --until never", CLI_EXIT_INVALID,
            "expected a time like 2026-12-31T18:00:00Z");
}

/* Examples that do not work teach nothing: each line of each example is parsed. */
static void every_example_of_the_help_is_accepted(void **state)
{
    static const char lead[] = "  tidegate ";
    size_t examples = 0;
    (void)state;
    for (enum cli_command topic = 0; topic < CLI_COMMAND_COUNT; topic++) {
        struct cli_text text;
        size_t of_topic = 0;
        cli_text_init(&text);
        cli_help(&text, topic);
        for (const char *at = strstr(text.data, "\nExamples:\n"); at != NULL;
             at = strstr(at + 1, lead)) {
            char line[256];
            struct cli_arguments out;
            if (memcmp(at, lead, strlen(lead)) != 0)
                continue;
            (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(at + strlen(lead), "\n"),
                           at + strlen(lead));
            accepts(&out, line);
            assert_int_equal(out.command, topic);
            of_topic++;
        }
        cli_text_fini(&text);
        assert_true(of_topic > 0);
        examples += of_topic;
    }
    assert_true(examples >= CLI_COMMAND_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_names_and_values),
        cmocka_unit_test(help_says_which_algorithms_hold_in_any_window),
        cmocka_unit_test(the_empty_key_is_a_key),
        cmocka_unit_test(an_inline_key_brings_its_limit),
        cmocka_unit_test(flags_may_stand_anywhere_and_in_any_form),
        cmocka_unit_test(two_dashes_end_the_flags),
        cmocka_unit_test(every_command_is_known),
        cmocka_unit_test(what_is_missing_is_told_first),
        cmocka_unit_test(operands_and_flags_are_read),
        cmocka_unit_test(help_knows_its_topic),
        cmocka_unit_test(help_on_a_group_names_its_commands),
        cmocka_unit_test(a_wrong_shape_is_a_usage_error),
        cmocka_unit_test(a_wrong_shape_of_explain_and_import_is_a_usage_error),
        cmocka_unit_test(what_was_probably_meant_is_named),
        cmocka_unit_test(members_are_waited_for),
        cmocka_unit_test(quotas_are_set_by_user),
        cmocka_unit_test(the_user_to_list_behind_is_bounded),
        cmocka_unit_test(a_wrong_value_is_invalid_input),
        cmocka_unit_test(bounds_are_taken_and_what_is_beyond_is_refused),
        cmocka_unit_test(changes_are_read_whole),
        cmocka_unit_test(api_keys_are_named_without_being_told),
        cmocka_unit_test(every_example_of_the_help_is_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
