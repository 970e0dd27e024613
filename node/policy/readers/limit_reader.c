/* limit_reader.c - the `limits:` of a rule: rates, algorithms and bursts.
 *
 * LIMITREADER-1  Every limit that was read passes limit_validate.
 * LIMITREADER-2  Which count is whose is not decided here: ordinals.c does that.
 * LIMITREADER-3  A limit without a mode has that of its rule.
 */
#include <string.h>

#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

/* Of a lease, unless the rule says otherwise. */
#define LEASE_TIMEOUT_NS UINT64_C(30000000000)

static int read_rate(const struct rule_place *place, struct limit *limit)
{
    struct quantity_rate rate;
    char sentence[QUANTITY_ERROR_LEN];
    const char *text;
    size_t len;

    const int result = rule_scalar(place, LIMIT_KEY_RATE, &text, &len);
    if (result != TG_OK)
        return result;
    if (quantity_parse_rate(text, &rate, sentence) != TG_OK)
        return yaml_reader_fail(place->reader, place->fields[LIMIT_KEY_RATE].node, "limits.%s",
                                sentence);
    limit->count = rate.count;
    limit->window_ns = rate.window_ns;
    return TG_OK;
}

/* How many may be in flight, and the time-out of their leases: `count` and `timeout`, or both as a
 * rate, "10/30s". */
static int read_flight(const struct rule_place *place, uint32_t node, struct limit *limit)
{
    const struct yaml_reader *reader = place->reader;
    const uint32_t rate = place->fields[LIMIT_KEY_RATE].node;
    const uint32_t count = place->fields[LIMIT_KEY_COUNT].node;
    const uint32_t timeout = place->fields[LIMIT_KEY_TIMEOUT].node;
    char sentence[QUANTITY_ERROR_LEN];
    int64_t number = 0;

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
        return read_rate(place, limit);
    int result = rule_number(place, LIMIT_KEY_COUNT, &number);
    if (result != TG_OK)
        return result;
    limit->count = (uint64_t)number;
    limit->window_ns = LEASE_TIMEOUT_NS;
    result = rule_duration(place, LIMIT_KEY_TIMEOUT, &limit->window_ns);
    if (result == TG_OK && timeout != YAML_READER_NONE && limit_validate(limit, sentence) != TG_OK)
        return yaml_reader_fail(reader, timeout, "limits.timeout: %s", sentence);
    return result;
}

/* How much, of whatever algorithm. */
static int read_amount(const struct rule_place *place, uint32_t node, struct limit *limit)
{
    static const uint8_t flight_only[] = {LIMIT_KEY_COUNT, LIMIT_KEY_TIMEOUT};

    if (limit->algorithm == ALGORITHM_CONCURRENCY)
        return read_flight(place, node, limit);
    if (place->fields[LIMIT_KEY_RATE].node == YAML_READER_NONE)
        return yaml_reader_fail(place->reader, node, "limits: found no key \"rate\"; expected one");
    for (size_t i = 0; i < sizeof flight_only; i++) {
        const struct yaml_reader_field *field = &place->fields[flight_only[i]];
        if (field->node != YAML_READER_NONE)
            return yaml_reader_fail(place->reader, field->node,
                                    "limits.%s: found with %s; expected it with concurrency only",
                                    field->name, algorithm_name(limit->algorithm));
    }
    return read_rate(place, limit);
}

/* A number that belongs to some algorithms alone. */
static int read_detail(const struct rule_place *place, unsigned key, const struct limit *limit,
                       bool belongs, const char *algorithms, int64_t *value)
{
    const uint32_t node = place->fields[key].node;
    char what[RULE_WHAT_LEN];
    *value = 0;
    const int result = rule_number(place, key, value);
    if (result != TG_OK || belongs || node == YAML_READER_NONE)
        return result;
    return yaml_reader_fail(place->reader, node, "%s: found with %s; expected it with %s only",
                            rule_what(place, key, what), algorithm_name(limit->algorithm),
                            algorithms);
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
    const uint32_t rate = fields[LIMIT_KEY_RATE].node;
    if (strncmp(sentence, "burst ", 6) == 0)
        return yaml_reader_fail(reader, fields[LIMIT_KEY_BURST].node, "limits.%s", sentence);
    return yaml_reader_fail(reader, rate != YAML_READER_NONE ? rate : node, "limits.rate: %s",
                            sentence);
}

static int read_limit(struct policy *policy, const struct yaml_reader *reader, uint32_t node,
                      uint8_t class, const struct limit_places *places)
{
    struct yaml_reader_field fields[LIMIT_KEYS];
    const struct rule_place place = {reader, RULE_MAP_LIMIT, NULL, fields};
    struct limit *limit = places->limit;
    char sentence[QUANTITY_ERROR_LEN];
    int algorithm = ALGORITHM_TOKEN_BUCKET;
    int64_t burst = 0;
    int64_t buckets = 0;

    int result = rule_fields(reader, node, RULE_MAP_LIMIT, NULL, fields);
    if (result == TG_OK)
        result = rule_word(&place, LIMIT_KEY_ALGORITHM, &algorithm);
    limit->algorithm = (uint8_t)algorithm;
    if (result == TG_OK)
        result = read_amount(&place, node, limit);
    if (result == TG_OK)
        result = read_detail(&place, LIMIT_KEY_BURST, limit, limit_has_burst(limit->algorithm),
                             "token_bucket and leaky_bucket", &burst);
    if (result == TG_OK)
        result =
            read_detail(&place, LIMIT_KEY_BUCKETS, limit,
                        limit->algorithm == ALGORITHM_SLIDING_BUCKETS, "sliding_buckets", &buckets);
    if (result == TG_OK && fields[LIMIT_KEY_MODE].node != YAML_READER_NONE)
        result = policy_read_mode(policy, &place, LIMIT_KEY_MODE, places->mode);
    if (result != TG_OK)
        return result;
    limit->burst = (uint64_t)burst;
    limit->buckets = (uint8_t)buckets;
    policy_set_mode(limit, places->mode, class);
    if (limit->pool != 0 && limit->algorithm == ALGORITHM_CONCURRENCY)
        return yaml_reader_fail(reader, node,
                                "limits: found concurrency with mode elastic; expected an "
                                "algorithm that lets requests through at a rate");
    if (limit_validate(limit, sentence) != TG_OK)
        return refuse_limit(reader, node, fields, sentence);
    const struct quantity_rate amount = {limit->count, limit->window_ns};
    quantity_format_rate(&amount, places->window);
    return policy_read_align(&policy->chunks, &place, limit, places->window, places->calendar);
}

int policy_read_limits(struct policy *policy, const struct yaml_reader *reader, uint32_t node,
                       struct policy_rule *rule)
{
    const struct rule_key *row = rule_key(RULE_MAP_RULE, RULE_LIMITS);
    int result = yaml_reader_list(reader, node, "limits", (uint32_t)row->min, (uint32_t)row->max);
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
