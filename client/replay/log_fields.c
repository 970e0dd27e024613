/* log_fields.c - from a line of a log to the attributes that the rules ask for; see log_fields.h.
 *
 *   line --log_line_read / log_json_read--> fields --attributes--> struct log_request
 *
 * A JSON line fills the same fields as a combined one, under the names that common programs write
 * (nginx, Apache, Caddy, Traefik, Envoy); what is mapped comes out of the same pass.
 *
 * LOGFIELDS-3  LOGFIELDS-1 and LOGFIELDS-2.
 * LOGFIELDS-4  An address or a path is counted as the node would count it, by the same code
 *              (attribute_kind.h of node/policy); what is taken out of a line is not
 *              changed otherwise.
 */
#include "client/replay/log_fields.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"
#include "client/replay/log_time.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy_path.h"

enum { SLOT_TIME = LOG_FIELDS, SLOT_REQUEST, SLOT_FIXED, SLOTS_MAX = SLOT_FIXED + 66 };
#define SECOND_NS INT64_C(1000000000)

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum log_origin source;
    enum log_field field;
} known[] = {
    {"ip", LOG_FROM_IP, LOG_CLIENT},
    {"api", LOG_FROM_API, LOG_TARGET},
    {"path", LOG_FROM_API, LOG_TARGET},
    {"target", LOG_FROM_FIELD, LOG_TARGET},
    {"uri", LOG_FROM_FIELD, LOG_TARGET},
    {"request_uri", LOG_FROM_FIELD, LOG_TARGET},
    {"query", LOG_FROM_QUERY, LOG_TARGET},
    {"method", LOG_FROM_FIELD, LOG_METHOD},
    {"status", LOG_FROM_FIELD, LOG_STATUS},
    {"user", LOG_FROM_FIELD, LOG_USER},
    {"host", LOG_FROM_FIELD, LOG_HOST},
    {"referer", LOG_FROM_FIELD, LOG_REFERER},
    {"user_agent", LOG_FROM_FIELD, LOG_AGENT},
    {"bytes", LOG_FROM_FIELD, LOG_BYTES},
    {"protocol", LOG_FROM_FIELD, LOG_PROTOCOL},
    {"remote_addr", LOG_FROM_FIELD, LOG_REMOTE},
};
enum { KNOWN = sizeof known / sizeof *known };

/* The names under which JSON logs write the fields; the first of a field wins. */
static const struct {
    const char *path;
    uint16_t slot;
} usual[] = {
    {"time", SLOT_TIME},
    {"timestamp", SLOT_TIME},
    {"@timestamp", SLOT_TIME},
    {"ts", SLOT_TIME},
    {"time_iso8601", SLOT_TIME},
    {"time_local", SLOT_TIME},
    {"msec", SLOT_TIME},
    {"start_time", SLOT_TIME},
    {"StartUTC", SLOT_TIME},
    {"ip", LOG_CLIENT},
    {"client_ip", LOG_CLIENT},
    {"request.client_ip", LOG_CLIENT},
    {"remote_addr", LOG_REMOTE},
    {"remote_ip", LOG_REMOTE},
    {"request.remote_ip", LOG_REMOTE},
    {"ClientHost", LOG_REMOTE},
    {"http_x_forwarded_for", LOG_FORWARDED},
    {"x_forwarded_for", LOG_FORWARDED},
    {"method", LOG_METHOD},
    {"request_method", LOG_METHOD},
    {"request.method", LOG_METHOD},
    {"RequestMethod", LOG_METHOD},
    {"api", LOG_TARGET},
    {"path", LOG_TARGET},
    {"request_uri", LOG_TARGET},
    {"uri", LOG_TARGET},
    {"url", LOG_TARGET},
    {"request.uri", LOG_TARGET},
    {"RequestPath", LOG_TARGET},
    {"request", SLOT_REQUEST},
    {"status", LOG_STATUS},
    {"response_code", LOG_STATUS},
    {"DownstreamStatus", LOG_STATUS},
    {"user", LOG_USER},
    {"remote_user", LOG_USER},
    {"user_id", LOG_USER},
    {"ClientUsername", LOG_USER},
    {"bytes", LOG_BYTES},
    {"body_bytes_sent", LOG_BYTES},
    {"bytes_sent", LOG_BYTES},
    {"size", LOG_BYTES},
    {"host", LOG_HOST},
    {"request.host", LOG_HOST},
    {"RequestHost", LOG_HOST},
    {"referer", LOG_REFERER},
    {"http_referer", LOG_REFERER},
    {"user_agent", LOG_AGENT},
    {"http_user_agent", LOG_AGENT},
};
enum { USUAL = sizeof usual / sizeof *usual };
static_assert(USUAL + LOG_ATTRIBUTES_MAX + 2 <= LOG_JSON_PATHS_MAX, "all paths have room");
static_assert(SLOT_FIXED + LOG_ATTRIBUTES_MAX + 1 <= SLOTS_MAX, "each attribute may have a slot");

static bool text_is(struct policy_text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

static size_t known_at(struct policy_text name)
{
    size_t i = 0;
    while (i < KNOWN && !text_is(name, known[i].name))
        i++;
    return i;
}

bool log_field_known(const char *name, size_t len)
{
    const struct policy_text text = {name, len};
    return known_at(text) < KNOWN;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int add_path(struct log_plan *plan, struct policy_text path, uint16_t slot, uint16_t rank)
{
    ASSERT(plan->path_count < LOG_JSON_PATHS_MAX && path.len <= UINT16_MAX);
    plan->paths[plan->path_count++] =
        (struct log_json_path){path.data, (uint16_t)path.len, slot, rank};
    return slot;
}

/* Where a field of that name comes from. */
static void find_source(struct log_plan *plan, struct policy_text field, bool mapped,
                        struct log_attribute *attribute)
{
    static const char query[] = "query.";
    const size_t query_len = sizeof query - 1;
    const size_t at = known_at(field);
    attribute->slot = -1;
    if (at < KNOWN) {
        attribute->source = known[at].source;
        attribute->field = known[at].field;
    }
    if (field.len > query_len && memcmp(field.data, query, query_len) == 0) {
        attribute->source = LOG_FROM_PARAMETER;
        attribute->text = (struct policy_text){field.data + query_len, field.len - query_len};
    }
    const bool json = plan->options.format == LOG_AUTO || plan->options.format == LOG_JSON;
    if (json && field.len <= UINT16_MAX && (at == KNOWN || mapped))
        attribute->slot = add_path(plan, field, (uint16_t)plan->slots++, 0);
}

static const struct log_pair *find_pair(const struct log_pair *pairs, size_t count,
                                        struct policy_text name)
{
    for (size_t i = 0; i < count; i++)
        if (pairs[i].name.len == name.len && memcmp(pairs[i].name.data, name.data, name.len) == 0)
            return &pairs[i];
    return NULL;
}

/* Plans an attribute that a rule mentions, once. */
static int add_attribute(struct log_plan *plan, struct policy_text name)
{
    const struct log_options *options = &plan->options;
    for (size_t i = 0; i < plan->count; i++) {
        const struct policy_text other = plan->attributes[i].name;
        if (other.len == name.len && memcmp(other.data, name.data, name.len) == 0)
            return TG_OK; /* LOGFIELDS-1 */
    }
    if (plan->count == LOG_ATTRIBUTES_MAX)
        return TG_ETOOBIG;
    struct log_attribute *attribute = &plan->attributes[plan->count++];
    const struct log_pair *set = find_pair(options->sets, options->set_count, name);
    const struct log_pair *map = find_pair(options->maps, options->map_count, name);
    *attribute = (struct log_attribute){.name = name, .slot = -1};
    if (set != NULL) {
        attribute->source = LOG_FROM_CONSTANT;
        attribute->text = set->value;
    } else {
        find_source(plan, map != NULL ? map->value : name, map != NULL, attribute);
    }
    return TG_OK;
}

static int add_rule(struct log_plan *plan, const struct policy_rule *rule)
{
    int result = TG_OK;
    for (size_t i = 0; i < rule->match_count && result == TG_OK; i++)
        result = add_attribute(plan, rule->matches[i].attribute);
    for (size_t i = 0; i < rule->key_count && result == TG_OK; i++)
        result = add_attribute(plan, rule->key[i]);
    return result;
}

int log_plan_init(struct log_plan *plan, const struct policy *policy,
                  const struct log_options *options)
{
    memset(plan, 0, sizeof *plan);
    plan->options = *options;
    plan->slots = SLOT_FIXED;
    for (size_t i = 0; i < USUAL; i++) {
        const struct policy_text path = {usual[i].path, strlen(usual[i].path)};
        if (usual[i].slot != SLOT_TIME || options->time_field.len == 0)
            (void)add_path(plan, path, usual[i].slot, (uint16_t)i);
    }
    if (options->time_field.len > 0)
        (void)add_path(plan, options->time_field, SLOT_TIME, 0);
    if (options->cost_field.len > 0) {
        plan->cost.name = options->cost_field;
        find_source(plan, options->cost_field, true, &plan->cost);
    }
    int result = TG_OK;
    for (size_t i = 0; i < policy_rule_count(policy) && result == TG_OK; i++)
        if (policy_rule_at(policy, i)->enabled)
            result = add_rule(plan, policy_rule_at(policy, i));
    return result;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The address in its one spelling, without what may stand around one; another text as it is, for
 * the rules to judge. */
static struct policy_text spell_address(struct log_scratch *scratch, struct policy_text text)
{
    char spelt[POLICY_IP_TEXT_LEN];
    const size_t len = policy_ip_format(text.data, text.len, 128, spelt);
    if (len == 0 || sizeof scratch->bytes - scratch->used < len ||
        (len == text.len && memcmp(spelt, text.data, len) == 0))
        return text;
    char *const out = memcpy(scratch->bytes + scratch->used, spelt, len);
    scratch->used += len;
    return (struct policy_text){out, len};
}

/* The address that the list names as the caller's: the first, or that which the outermost of
 * `proxies` trusted proxies added (each adds one on the right). */
static struct policy_text pick_forwarded(struct policy_text list, unsigned proxies)
{
    const char *from = list.data;
    const char *to = list.data + list.len;
    if (proxies == 0) {
        const char *const comma = memchr(from, ',', list.len);
        to = comma != NULL ? comma : to;
    }
    for (unsigned i = 0; i < proxies; i++) {
        const char *const comma = memrchr(list.data, ',', (size_t)(to - list.data));
        from = comma != NULL ? comma + 1 : list.data;
        if (comma == NULL || i + 1 == proxies)
            break;
        to = comma;
    }
    return (struct policy_text){from, (size_t)(to - from)};
}

/* Whether it is an address: a last quoted field may as well be a ratio or a time, "3.12", and of a
 * forwarded list the caller writes what it likes, but for what proxies added. */
static bool is_address(struct policy_text text)
{
    char ignored[POLICY_IP_TEXT_LEN];
    return policy_ip_format(text.data, text.len, POLICY_IPV6_PREFIX_DEFAULT, ignored) > 0;
}

static struct policy_text address_of(const struct log_plan *plan, const struct log_line *line,
                                     struct log_scratch *scratch, bool *forwarded)
{
    const struct policy_text list = line->fields[LOG_FORWARDED];
    *forwarded = false;
    if (line->fields[LOG_CLIENT].len > 0)
        return spell_address(scratch, line->fields[LOG_CLIENT]);
    if (list.len > 0 && plan->options.format != LOG_COMBINED) {
        const struct policy_text picked = pick_forwarded(list, plan->options.proxies);
        *forwarded = is_address(picked);
        if (*forwarded)
            return spell_address(scratch, picked);
    }
    return spell_address(scratch, line->fields[LOG_REMOTE]);
}

/* ---- targets --------------------------------------------------------------------------------- */

/* What stands before the '?', or behind it; of "http://host/path?query" the path, which is "/"
 * where there is none. */
static struct policy_text part_of_target(struct policy_text target, bool query)
{
    if (target.len == 0)
        return (struct policy_text){NULL, 0}; /* and it may be nowhere */
    const size_t origin = policy_path_origin(target.data, target.len);
    const char *const from = target.data + origin;
    const char *const end = target.data + target.len;
    const char *const mark = target.len > origin ? memchr(from, '?', target.len - origin) : NULL;
    if (query && mark == NULL)
        return (struct policy_text){NULL, 0};
    if (query)
        return (struct policy_text){mark + 1, (size_t)(end - mark) - 1};
    const size_t len = (size_t)((mark != NULL ? mark : end) - from);
    return len > 0 ? (struct policy_text){from, len} : (struct policy_text){"/", 1};
}

/* The bytes that a parameter's value stands for, at most LOG_VALUE_MAX of them. */
static struct policy_text decode(struct log_scratch *scratch, struct policy_text raw)
{
    if (raw.len == 0 ||
        (memchr(raw.data, '%', raw.len) == NULL && memchr(raw.data, '+', raw.len) == NULL))
        return raw;
    if (sizeof scratch->bytes - scratch->used < LOG_VALUE_MAX)
        return (struct policy_text){NULL, 0};
    char *const start = scratch->bytes + scratch->used;
    size_t len = 0;
    for (size_t i = 0; i < raw.len && len < LOG_VALUE_MAX; i++) {
        const char c = raw.data[i];
        const int high = c == '%' && raw.len - i > 2 ? hex_digit(raw.data[i + 1]) : -1;
        const int low = high >= 0 ? hex_digit(raw.data[i + 2]) : -1;
        start[len++] = low >= 0 ? (char)(high << 4 | low) : c == '+' ? ' ' : c;
        i += low >= 0 ? 2 : 0;
    }
    scratch->used += len;
    return (struct policy_text){start, len};
}

/* The value of the first parameter of that name in the target's query. */
static struct policy_text parameter_of(struct policy_text target, struct policy_text name,
                                       struct log_scratch *scratch)
{
    const struct policy_text query = part_of_target(target, true);
    const char *at = query.data;
    const char *const end = query.len > 0 ? query.data + query.len : query.data;
    while (at < end) {
        const char *mark = memchr(at, '&', (size_t)(end - at));
        mark = mark != NULL ? mark : end;
        const size_t len = (size_t)(mark - at);
        if (len > name.len && at[name.len] == '=' && memcmp(at, name.data, name.len) == 0)
            return decode(scratch, (struct policy_text){at + name.len + 1, len - name.len - 1});
        at = mark < end ? mark + 1 : end;
    }
    return (struct policy_text){NULL, 0};
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int read_json(const struct log_plan *plan, const char *text, size_t len,
                     struct log_scratch *scratch, struct log_line *line,
                     struct log_json_value *values, struct log_problem *problem)
{
    memset(line, 0, sizeof *line);
    line->json = true;
    if (log_json_read(text, len, plan->paths, plan->path_count, scratch, values, plan->slots,
                      problem) != TG_OK)
        return TG_EINVALID;
    for (size_t i = 0; i < LOG_FIELDS; i++)
        line->fields[i] = values[i].text;
    const struct policy_text request = values[SLOT_REQUEST].text;
    if (request.len > 0 && line->fields[LOG_TARGET].len == 0)
        log_line_request(request.data, request.len, line);
    const struct policy_text time = values[SLOT_TIME].text;
    if (time.len == 0)
        return log_refuse(problem, 1,
                          "a field with the time (time, timestamp, ts ..; see --time-field)");
    if (log_time_any(time.data, time.len, &line->time_ns) != TG_OK)
        return log_refuse(
            problem,
            time.data >= text && time.data < text + len ? (size_t)(time.data - text) + 1 : 1,
            "a time in seconds or milliseconds since 1970, or as RFC 3339 has it");
    return TG_OK;
}

static struct policy_text value_of(const struct log_attribute *attribute,
                                   const struct log_line *line, const struct log_json_value *values,
                                   const struct log_request *request, struct log_scratch *scratch)
{
    if (line->json && attribute->slot >= 0 && values[attribute->slot].text.len > 0)
        return values[attribute->slot].text;
    switch (attribute->source) {
    case LOG_FROM_CONSTANT:
        return attribute->text;
    case LOG_FROM_FIELD:
        return line->fields[attribute->field];
    case LOG_FROM_IP:
        return request->ip;
    case LOG_FROM_API:
        return part_of_target(line->fields[LOG_TARGET], false);
    case LOG_FROM_QUERY:
        return part_of_target(line->fields[LOG_TARGET], true);
    case LOG_FROM_PARAMETER:
        return parameter_of(line->fields[LOG_TARGET], attribute->text, scratch);
    case LOG_FROM_NOWHERE:
        break;
    }
    return (struct policy_text){NULL, 0};
}

/* The cost that the line names; a fraction is dropped. */
static int read_cost(const struct log_plan *plan, const struct log_line *line,
                     const struct log_json_value *values, struct log_scratch *scratch,
                     struct log_request *out, struct log_problem *problem)
{
    static const char expected[] = "a whole number in the field of --cost-field";
    out->cost = 1;
    if (plan->cost.name.len == 0)
        return TG_OK;
    const struct policy_text text = value_of(&plan->cost, line, values, out, scratch);
    out->cost = 0;
    if (text.len == 0 && !line->json && plan->cost.field == LOG_BYTES)
        return TG_OK; /* Apache writes no bytes as "-" */
    size_t at = 0;
    for (; at < text.len && text.data[at] >= '0' && text.data[at] <= '9'; at++)
        if (__builtin_mul_overflow(out->cost, 10u, &out->cost) ||
            __builtin_add_overflow(out->cost, (uint64_t)(text.data[at] - '0'), &out->cost))
            return log_refuse(problem, 1, expected);
    if (at == 0 || (at < text.len && text.data[at] != '.'))
        return log_refuse(problem, 1, expected);
    return TG_OK;
}

static void fill_attributes(const struct log_plan *plan, const struct log_line *line,
                            const struct log_json_value *values, struct log_scratch *scratch,
                            struct log_request *out)
{
    out->count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct log_attribute *attribute = &plan->attributes[i];
        const struct policy_text value = value_of(attribute, line, values, out, scratch);
        if (value.len == 0)
            continue;                                                             /* LOGFIELDS-1 */
        const size_t len = value.len < LOG_VALUE_MAX ? value.len : LOG_VALUE_MAX; /* LOGFIELDS-2 */
        out->places[out->count] = (uint16_t)i;
        out->attributes[out->count++] =
            (struct policy_attribute){attribute->name.data, attribute->name.len, value.data, len};
    }
}

int log_plan_read(const struct log_plan *plan, const char *text, size_t len,
                  struct log_scratch *scratch, struct log_request *out, struct log_problem *problem)
{
    const enum log_format format = plan->options.format;
    struct log_json_value values[SLOTS_MAX];
    struct log_line line;
    scratch->used = 0;
    if (len > LOG_LINE_MAX)
        return log_refuse(problem, LOG_LINE_MAX, "a line of at most 64 KiB");
    const bool json = format == LOG_JSON || (format == LOG_AUTO && len > 0 && text[0] == '{');
    const int result = json ? read_json(plan, text, len, scratch, &line, values, problem)
                            : log_line_read(text, len, format == LOG_XFF, scratch, &line, problem);
    if (result != TG_OK)
        return result;
    out->time_ns = line.time_ns;
    out->whole_second = line.time_ns % SECOND_NS == 0;
    out->ip = address_of(plan, &line, scratch, &out->forwarded);
    if (read_cost(plan, &line, values, scratch, out, problem) != TG_OK)
        return TG_EINVALID;
    fill_attributes(plan, &line, values, scratch, out);
    return TG_OK;
}
