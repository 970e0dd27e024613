/* limit_reader.c - the `limits:` of a rule: rates, algorithms and bursts.
 *
 * Limits of one algorithm are told apart by their ordinal, their position among those of that
 * algorithm in the rule: part of what is counted, so reordering two of them swaps their counts,
 * while changing a rate keeps its count.
 *
 * I1  Every limit that was read passes limit_validate.
 * I2  The ordinals of one algorithm are 0, 1, 2.. in file order.
 */
#include "node/policy/policy_internal.h"

enum limit_field {
    FIELD_RATE,
    FIELD_ALGORITHM,
    FIELD_BURST,
    FIELD_BUCKETS,
    FIELD_ALIGN,
    FIELD_TIMEZONE,
    FIELDS = 7
};

#define ALGORITHM_WORD(name, number, text) {text, number, false},
static const struct yaml_reader_word algorithm_words[] = {
    ALGORITHM_MAP(ALGORITHM_WORD) /* and the names of those that are known but not here: */
    {"concurrency", 0, true},
};
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

static int read_limit(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                      struct limit *limit, char *window, struct policy_calendar *calendar)
{
    struct yaml_reader_field fields[FIELDS] = {
        [FIELD_RATE] = {"rate", YAML_READER_REQUIRED, 0},
        [FIELD_ALGORITHM] = {"algorithm", YAML_READER_OPTIONAL, 0},
        [FIELD_BURST] = {"burst", YAML_READER_OPTIONAL, 0},
        [FIELD_BUCKETS] = {"buckets", YAML_READER_OPTIONAL, 0},
        [FIELD_ALIGN] = {"align", YAML_READER_OPTIONAL, 0},
        [FIELD_TIMEZONE] = {"timezone", YAML_READER_OPTIONAL, 0},
        {"mode", YAML_READER_UNSUPPORTED, 0},
    };
    char sentence[QUANTITY_ERROR_LEN];
    int algorithm = ALGORITHM_TOKEN_BUCKET;
    int64_t burst = 0;
    int64_t buckets = 0;

    int result = yaml_reader_fields(reader, node, "limits", fields, FIELDS);
    if (result == TG_OK)
        result = read_rate(reader, fields[FIELD_RATE].node, limit);
    if (result == TG_OK && fields[FIELD_ALGORITHM].node != YAML_READER_NONE)
        result = yaml_reader_word(reader, fields[FIELD_ALGORITHM].node, "limits.algorithm",
                                  algorithm_words, ALGORITHM_WORDS, &algorithm);
    if (result == TG_OK && fields[FIELD_BURST].node != YAML_READER_NONE)
        result = yaml_reader_int(reader, fields[FIELD_BURST].node, "limits.burst", 1,
                                 (int64_t)LIMIT_COUNT_MAX, &burst);
    if (result == TG_OK && fields[FIELD_BUCKETS].node != YAML_READER_NONE)
        result = yaml_reader_int(reader, fields[FIELD_BUCKETS].node, "limits.buckets",
                                 LIMIT_BUCKETS_MIN, LIMIT_BUCKETS_MAX, &buckets);
    if (result != TG_OK)
        return result;
    if (buckets != 0 && algorithm != ALGORITHM_SLIDING_BUCKETS)
        return yaml_reader_fail(reader, fields[FIELD_BUCKETS].node,
                                "limits.buckets: found with %s; expected it with sliding_buckets "
                                "only",
                                algorithm_name((unsigned)algorithm));
    if (burst != 0 && !limit_has_burst((unsigned)algorithm))
        return yaml_reader_fail(reader, fields[FIELD_BURST].node,
                                "limits.burst: found with %s; expected it with token_bucket and "
                                "leaky_bucket only",
                                algorithm_name((unsigned)algorithm));
    limit->algorithm = (uint8_t)algorithm;
    limit->burst = (uint64_t)burst;
    limit->buckets = (uint8_t)buckets;
    if (limit_validate(limit, sentence) != TG_OK)
        return yaml_reader_fail(reader, fields[FIELD_RATE].node, "limits.rate: %s", sentence);
    const struct quantity_rate rate = {limit->count, limit->window_ns};
    quantity_format_rate(&rate, window);
    return policy_read_align(chunks, reader, fields[FIELD_ALIGN].node, fields[FIELD_TIMEZONE].node,
                             fields[FIELD_RATE].node, limit, window, calendar);
}

int policy_read_limits(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                       struct policy_rule *rule)
{
    uint8_t ordinals[ALGORITHM_COUNT] = {0};

    int result = yaml_reader_list(reader, node, "limits", 1, POLICY_LIMITS_MAX);
    if (result != TG_OK)
        return result;
    const uint32_t count = yaml_reader_at(reader, node)->len;
    struct limit *limits = chunks_get(chunks, count, sizeof(*limits));
    char(*windows)[QUANTITY_TEXT_LEN] = chunks_get(chunks, count, sizeof(*windows));
    struct policy_calendar *calendars = chunks_get(chunks, count, sizeof(*calendars));
    if (limits == NULL || windows == NULL || calendars == NULL)
        return TG_ENOMEM;
    uint32_t element = yaml_reader_at(reader, node)->first;
    for (uint32_t i = 0; i < count; i++) {
        result = read_limit(chunks, reader, element, &limits[i], windows[i], &calendars[i]);
        if (result != TG_OK)
            return result;
        limits[i].ordinal = ordinals[limits[i].algorithm]++; /* I2 */
        if (limit_is_calendar(limits[i].align))
            rule->calendars = calendars;
        element = yaml_reader_at(reader, element)->next;
    }
    rule->limits = limits;
    rule->windows = (const char(*)[QUANTITY_TEXT_LEN])windows;
    rule->limit_count = (uint8_t)count;
    return TG_OK;
}
