/* limit_reader.c - the `limits:` of a rule: rates, algorithms and bursts.
 *
 * I1  Every limit that was read passes limit_validate.
 * I2  Which count is whose is not decided here: ordinals.c does that.
 * I3  A limit without a mode has that of its rule.
 */
#include <string.h>

#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

enum limit_field {
    FIELD_RATE,
    FIELD_ALGORITHM,
    FIELD_BURST,
    FIELD_BUCKETS,
    FIELD_ALIGN,
    FIELD_TIMEZONE,
    FIELD_COUNT,
    FIELD_TIMEOUT,
    FIELD_MODE,
    FIELDS
};

/* Of a lease, unless the rule says otherwise. */
#define LEASE_TIMEOUT_NS UINT64_C(30000000000)

#define ALGORITHM_WORD(name, number, text) {text, number},
static const struct yaml_reader_word algorithm_words[] = {ALGORITHM_MAP(ALGORITHM_WORD)};
enum { ALGORITHM_WORDS = sizeof(algorithm_words) / sizeof(algorithm_words[0]) };

static int read_rate(const struct yaml_reader *reader, uint32_t node, struct limit *limit)
{
    struct quantity_rate rate;
    char sentence[QUANTITY_ERROR_LEN];
    const char *text;
    size_t len;

    const int result =
        yaml_reader_text(reader, node, "limits.rate", 1, QUANTITY_TEXT_LEN, &text, &len);
    if (result != TG_OK)
        return result;
    if (quantity_parse_rate(text, &rate, sentence) != TG_OK)
        return yaml_reader_fail(reader, node, "limits.%s", sentence);
    limit->count = rate.count;
    limit->window_ns = rate.window_ns;
    return TG_OK;
}

/* How many may be in flight, and the time-out of their leases: `count` and `timeout`, or both as a
 * rate, "10/30s". */
static int read_flight(const struct yaml_reader *reader, uint32_t node,
                       const struct yaml_reader_field *fields, struct limit *limit)
{
    const uint32_t rate = fields[FIELD_RATE].node;
    const uint32_t count = fields[FIELD_COUNT].node;
    const uint32_t timeout = fields[FIELD_TIMEOUT].node;
    char sentence[QUANTITY_ERROR_LEN];
    const char *text;
    size_t len;
    int64_t number;

    if ((rate == YAML_READER_NONE) == (count == YAML_READER_NONE))
        return yaml_reader_fail(reader, node,
                                "limits: found concurrency with %s; expected either count, how "
                                "many may be in flight, or rate",
                                rate == YAML_READER_NONE ? "neither rate nor count"
                                                         : "both rate and count");
    if (rate != YAML_READER_NONE && timeout != YAML_READER_NONE)
        return yaml_reader_fail(reader, timeout,
                                "limits.timeout: found beside rate, which has one; expected it "
                                "with count");
    if (rate != YAML_READER_NONE)
        return read_rate(reader, rate, limit);
    int result =
        yaml_reader_int(reader, count, "limits.count", 1, (int64_t)LIMIT_LEASES_MAX, &number);
    if (result != TG_OK)
        return result;
    limit->count = (uint64_t)number;
    limit->window_ns = LEASE_TIMEOUT_NS;
    if (timeout == YAML_READER_NONE)
        return TG_OK;
    result = yaml_reader_text(reader, timeout, "limits.timeout", 1, QUANTITY_TEXT_LEN, &text, &len);
    if (result == TG_OK && quantity_parse_duration(text, &limit->window_ns, sentence) != TG_OK)
        return yaml_reader_fail(reader, timeout, "limits.timeout: %s", sentence);
    if (result == TG_OK && limit_validate(limit, sentence) != TG_OK)
        return yaml_reader_fail(reader, timeout, "limits.timeout: %s", sentence);
    return result;
}

/* How much, of whatever algorithm. */
static int read_amount(const struct yaml_reader *reader, uint32_t node,
                       const struct yaml_reader_field *fields, struct limit *limit)
{
    static const uint8_t flight_only[] = {FIELD_COUNT, FIELD_TIMEOUT};

    if (limit->algorithm == ALGORITHM_CONCURRENCY)
        return read_flight(reader, node, fields, limit);
    if (fields[FIELD_RATE].node == YAML_READER_NONE)
        return yaml_reader_fail(reader, node, "limits: found no key \"rate\"; expected one");
    for (size_t i = 0; i < sizeof flight_only; i++) {
        const struct yaml_reader_field *field = &fields[flight_only[i]];
        if (field->node != YAML_READER_NONE)
            return yaml_reader_fail(reader, field->node,
                                    "limits.%s: found with %s; expected it with concurrency only",
                                    field->name, algorithm_name(limit->algorithm));
    }
    return read_rate(reader, fields[FIELD_RATE].node, limit);
}

/* A number that belongs to some algorithms alone. */
static int read_detail(const struct yaml_reader *reader, const struct yaml_reader_field *field,
                       const char *what, const struct limit *limit, bool belongs,
                       const char *algorithms, int64_t min, int64_t max, int64_t *value)
{
    *value = 0;
    if (field->node == YAML_READER_NONE)
        return TG_OK;
    const int result = yaml_reader_int(reader, field->node, what, min, max, value);
    if (result != TG_OK || belongs)
        return result;
    return yaml_reader_fail(reader, field->node, "%s: found with %s; expected it with %s only",
                            what, algorithm_name(limit->algorithm), algorithms);
}

/* Where what is read of a limit goes. */
struct limit_places {
    struct limit *limit;
    struct policy_mode *mode; /* that of the rule, unless it has one of its own */
    struct policy_calendar *calendar;
    char *window;
};

/* Places a sentence of limit_validate at the field that it is about. */
static int refuse_limit(const struct yaml_reader *reader, uint32_t node,
                        const struct yaml_reader_field *fields, const char *sentence)
{
    const uint32_t rate = fields[FIELD_RATE].node;
    if (strncmp(sentence, "burst ", 6) == 0)
        return yaml_reader_fail(reader, fields[FIELD_BURST].node, "limits.%s", sentence);
    return yaml_reader_fail(reader, rate != YAML_READER_NONE ? rate : node, "limits.rate: %s",
                            sentence);
}

static int read_limit(struct policy *policy, const struct yaml_reader *reader, uint32_t node,
                      uint8_t class, const struct limit_places *places)
{
    struct yaml_reader_field fields[FIELDS] = {
        [FIELD_RATE] = {"rate", YAML_READER_OPTIONAL, 0},
        [FIELD_ALGORITHM] = {"algorithm", YAML_READER_OPTIONAL, 0},
        [FIELD_BURST] = {"burst", YAML_READER_OPTIONAL, 0},
        [FIELD_BUCKETS] = {"buckets", YAML_READER_OPTIONAL, 0},
        [FIELD_ALIGN] = {"align", YAML_READER_OPTIONAL, 0},
        [FIELD_TIMEZONE] = {"timezone", YAML_READER_OPTIONAL, 0},
        [FIELD_COUNT] = {"count", YAML_READER_OPTIONAL, 0},
        [FIELD_TIMEOUT] = {"timeout", YAML_READER_OPTIONAL, 0},
        [FIELD_MODE] = {"mode", YAML_READER_OPTIONAL, 0},
    };
    struct limit *limit = places->limit;
    char sentence[QUANTITY_ERROR_LEN];
    int algorithm = ALGORITHM_TOKEN_BUCKET;
    int64_t burst = 0;
    int64_t buckets = 0;

    int result = yaml_reader_fields(reader, node, "limits", fields, FIELDS);
    if (result == TG_OK && fields[FIELD_ALGORITHM].node != YAML_READER_NONE)
        result = yaml_reader_word(reader, fields[FIELD_ALGORITHM].node, "limits.algorithm",
                                  algorithm_words, ALGORITHM_WORDS, &algorithm);
    limit->algorithm = (uint8_t)algorithm;
    if (result == TG_OK)
        result = read_amount(reader, node, fields, limit);
    if (result == TG_OK)
        result = read_detail(reader, &fields[FIELD_BURST], "limits.burst", limit,
                             limit_has_burst(limit->algorithm), "token_bucket and leaky_bucket", 1,
                             (int64_t)LIMIT_COUNT_MAX, &burst);
    if (result == TG_OK)
        result = read_detail(reader, &fields[FIELD_BUCKETS], "limits.buckets", limit,
                             limit->algorithm == ALGORITHM_SLIDING_BUCKETS, "sliding_buckets",
                             LIMIT_BUCKETS_MIN, LIMIT_BUCKETS_MAX, &buckets);
    if (result == TG_OK && fields[FIELD_MODE].node != YAML_READER_NONE)
        result =
            policy_read_mode(policy, reader, fields[FIELD_MODE].node, "limits.mode", places->mode);
    if (result != TG_OK)
        return result;
    limit->burst = (uint64_t)burst;
    limit->buckets = (uint8_t)buckets;
    policy_set_mode(limit, places->mode, class);
    if (limit->pool != 0 && limit->algorithm == ALGORITHM_CONCURRENCY)
        return yaml_reader_fail(reader, node,
                                "limits: found concurrency with mode elastic; expected an "
                                "algorithm that lets requests through at a rate");
    const uint32_t rate = fields[FIELD_RATE].node;
    if (limit_validate(limit, sentence) != TG_OK)
        return refuse_limit(reader, node, fields, sentence);
    const struct quantity_rate amount = {limit->count, limit->window_ns};
    quantity_format_rate(&amount, places->window);
    return policy_read_align(&policy->chunks, reader, fields[FIELD_ALIGN].node,
                             fields[FIELD_TIMEZONE].node, rate, limit, places->window,
                             places->calendar);
}

int policy_read_limits(struct policy *policy, const struct yaml_reader *reader, uint32_t node,
                       struct policy_rule *rule)
{
    int result = yaml_reader_list(reader, node, "limits", 1, POLICY_LIMITS_MAX);
    if (result != TG_OK)
        return result;
    const uint32_t count = yaml_reader_at(reader, node)->len;
    struct chunks *chunks = &policy->chunks;
    struct limit *limits = chunks_get(chunks, count, sizeof(*limits));
    struct policy_mode *modes = chunks_get(chunks, count, sizeof(*modes));
    char(*windows)[QUANTITY_TEXT_LEN] = chunks_get(chunks, count, sizeof(*windows));
    struct policy_calendar *calendars = chunks_get(chunks, count, sizeof(*calendars));
    if (limits == NULL || windows == NULL || modes == NULL || calendars == NULL)
        return TG_ENOMEM;
    uint32_t element = yaml_reader_at(reader, node)->first;
    for (uint32_t i = 0; i < count; i++) {
        const struct limit_places places = {&limits[i], &modes[i], &calendars[i], windows[i]};
        modes[i] = rule->mode; /* unless it has a mode of its own */
        if (!yaml_reader_goes_on(reader, read_limit(policy, reader, element, rule->class, &places),
                                 &result))
            return result;
        if (limit_is_calendar(limits[i].align))
            rule->calendars = calendars;
        element = yaml_reader_at(reader, element)->next;
    }
    if (result != TG_OK)
        return result;
    rule->limits = limits;
    rule->modes = modes;
    rule->windows = (const char(*)[QUANTITY_TEXT_LEN])windows;
    rule->limit_count = (uint8_t)count;
    return TG_OK;
}
