/* fuzz_log.c - logs: times, lines of every format, JSON beside an independent parser, and whole
 * replays in little memory.
 *
 *   byte 0: what to try  | byte 1: format and flags | the rest: text, lines of a log
 *
 * Properties: a time that was read is written and read as the same second; fields of an accepted
 * line are as long as the line at most; a refusal has a place within the line and a sentence; what
 * jansson accepts is accepted, with the same values; the sums of a replay add up, whatever its log.
 */
#include <jansson.h>

#include "client/replay/log_time.h"
#include "client/replay/replay.h"
#include "node/limit/table/table.h"
#include "node/policy/compile/policy_compile.h"
#include "tests/fuzz/fuzz.h"

enum { KINDS = 4, KEYS_MAX = 32, TEXT_MAX = 4096, WAITING_MAX = 8, DEPTH_OF_OURS = 32 };

static const char rules[] =
    "rules:\n"
    "  - {name: allow, priority: 2, match: {api: /static/*}, action: allow}\n"
    "  - {name: block, priority: 1, match: {ip: 10.0.0.1}, action: block}\n"
    "  - {name: two, key: [ip, user], limits: [{rate: 2/10s, algorithm: sliding_log}, {rate: "
    "5/min}]}\n"
    "  - {name: watch, shadow: true, key: [api], limits: [{rate: 1/s, algorithm: fixed_window}]}\n"
    "  - {name: must, match: {method: POST}, key: [query.u], missing: deny, count_denied: true, "
    "limits: [{rate: 3/s, algorithm: sliding_window}]}\n";

static struct log_scratch scratch;
static struct log_plan plan;

static struct policy *get_policy(void)
{
    static struct policy *policy;
    struct policy_error error;
    if (policy == NULL) {
        const int result = policy_compile(rules, sizeof rules - 1, alloc_heap(), &policy, &error);
        ASSERT(result == 0);
    }
    return policy;
}

static struct policy_text text_of(const char *word)
{
    return (struct policy_text){word, strlen(word)};
}

static struct log_options make_options(uint8_t choice)
{
    struct log_options options = {.format = (enum log_format)(choice & 3)};
    options.proxies = choice >> 2 & 3;
    if ((choice & 16) != 0)
        options.cost_field = text_of("bytes");
    if ((choice & 32) != 0)
        options.maps[options.map_count++] = (struct log_pair){text_of("user"), text_of("a.b")};
    if ((choice & 64) != 0)
        options.sets[options.set_count++] = (struct log_pair){text_of("method"), text_of("POST")};
    return options;
}

static void try_time(const char *text, size_t len)
{
    char shown[LOG_TIME_LEN];
    int64_t ns = -1;
    int64_t again = -1;
    if (log_time_any(text, len, &ns) != 0) {
        ASSERT(ns == -1);
        return;
    }
    ASSERT(ns >= 0 && ns <= LOG_TIME_MAX);
    log_time_format(ns, shown);
    ASSERT(log_time_any(shown, strlen(shown), &again) == 0);
    ASSERT(again == ns - ns % 1000000000);
}

static void try_date(const char *text, size_t len)
{
    char shown[LOG_TIME_LEN];
    uint64_t ms = 7;
    uint64_t again = 0;
    if (log_time_date(text, len, &ms) != NULL) {
        ASSERT(ms == 7);
        return;
    }
    ASSERT(ms > 0 && ms < LOG_DATE_MAX_S * UINT64_C(1000));
    log_date_format(ms, shown);
    ASSERT(ms < 1000 || log_time_date(shown, strlen(shown), &again) == NULL);
    ASSERT(again == ms - ms % 1000);
}

static void try_line(const char *text, size_t len, uint8_t choice)
{
    const struct log_options options = make_options(choice);
    struct log_request request;
    struct log_problem problem = {0, NULL};
    ASSERT(log_plan_init(&plan, get_policy(), &options) == 0);
    if (log_plan_read(&plan, text, len, &scratch, &request, &problem) != 0) {
        ASSERT(problem.expected != NULL && problem.column >= 1 && problem.column <= len + 1);
        return;
    }
    ASSERT(request.count <= plan.count && scratch.used <= sizeof scratch.bytes);
    ASSERT(request.time_ns >= 0 && request.time_ns <= LOG_TIME_MAX);
    for (size_t i = 0; i < request.count; i++) {
        ASSERT(request.attributes[i].value_len >= 1);
        ASSERT(request.attributes[i].value_len <= LOG_VALUE_MAX);
        ASSERT(i == 0 || request.places[i] > request.places[i - 1]);
    }
}

/* How deep the value is nested, up to a bound; the parser beside ours bounds it by 2048. */
static size_t depth_of(const char *text, size_t len)
{
    size_t depth = 0;
    size_t max = 0;
    for (size_t i = 0; i < len; i++) {
        depth += text[i] == '{' || text[i] == '[';
        max = depth > max ? depth : max;
        depth -= depth > 0 && (text[i] == '}' || text[i] == ']');
    }
    return max;
}

static void try_json(const char *text, size_t len)
{
    static const struct log_json_path paths[] = {{"a", 1, 0, 0}, {"o.b", 3, 1, 0}};
    struct log_json_value values[2];
    struct log_problem problem = {0, NULL};
    json_error_t error;
    scratch.used = 0;
    const int result = log_json_read(text, len, paths, 2, &scratch, values, 2, &problem);
    ASSERT(result == 0 || (problem.expected != NULL && problem.column <= len + 1));
    json_t *root = memchr(text, '\n', len) != NULL
                       ? NULL
                       : json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(root) && depth_of(text, len) <= DEPTH_OF_OURS) {
        const json_t *value = json_object_get(root, "a");
        ASSERT(result == 0);
        const size_t value_len = json_string_length(value);
        if (json_is_string(value) && value_len > 0 && strcmp(json_string_value(value), "-") != 0) {
            ASSERT(values[0].text.len == value_len);
            ASSERT(memcmp(values[0].text.data, json_string_value(value), value_len) == 0);
        }
    }
    json_decref(root);
}

static void check_sums(const struct replay *replay)
{
    const struct replay_totals *totals = replay_totals(replay);
    uint64_t outcomes = 0;
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        outcomes += totals->outcomes[i];
    ASSERT(totals->requests + totals->refused == totals->lines);
    ASSERT(outcomes == totals->requests && totals->allowed <= totals->requests);
    ASSERT(replay_all(replay)->requests == totals->requests);
    for (size_t i = 0; i < policy_rule_count(get_policy()); i++) {
        const struct replay_rule *rule = replay_rule(replay, i);
        ASSERT(rule->denied <= rule->requests && rule->requests <= totals->requests);
        ASSERT(rule->callers_denied <= rule->callers);
        for (uint32_t k = 0; k < rule->top_count; k++) {
            const struct caller *caller = replay_caller(replay, rule->top[k]);
            ASSERT(caller->denied <= caller->requests && caller->requests <= rule->requests);
            ASSERT(caller->held == 0 && replay_value(replay, caller, 0).data != NULL);
        }
    }
}

static void try_replay(const char *text, size_t len, uint8_t choice)
{
    struct replay *replay;
    struct replay_options options = replay_options();
    struct replay_record record;
    struct log_problem problem;
    options.policy = get_policy();
    options.allocator = alloc_heap();
    options.log = make_options(choice);
    options.spread = (choice & 128) != 0;
    options.keys_max = KEYS_MAX;
    options.text_max = TEXT_MAX;
    options.waiting_max = WAITING_MAX;
    options.engine_bytes = TABLE_MEMORY_MIN;
    options.reorder_ns = 1000000000;
    ASSERT(replay_new(&replay, &options) == 0);
    int result = 0;
    for (size_t at = 0; at < len && result == 0;) {
        const char *const end = memchr(text + at, '\n', len - at);
        const size_t line_len = end != NULL ? (size_t)(end - text) - at : len - at;
        result = replay_read(replay, text + at, line_len, &record, &problem);
        if (result == 0)
            result = replay_take(replay, &record);
        else if (result == TG_EINVALID)
            result = 0;
        at += line_len + 1;
    }
    /* So little room for texts may be used up by the keys of one request; a program has 64 MiB. */
    if (result == 0 && replay_finish(replay) == 0)
        check_sums(replay);
    replay_free(&replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    const uint8_t kind = fuzz_u8(&input) % KINDS;
    const uint8_t choice = fuzz_u8(&input);
    size_t rest_len = 0;
    const uint8_t *const rest = fuzz_rest(&input, &rest_len);
    char *const text = (char *)fuzz_copy(rest, rest_len);
    if (kind == 0) {
        try_time(text, rest_len);
        try_date(text, rest_len);
    } else if (kind == 1)
        try_line(text, rest_len, choice);
    else if (kind == 2)
        try_json(text, rest_len);
    else
        try_replay(text, rest_len, choice);
    free(text);
    return 0;
}
