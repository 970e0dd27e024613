/* log_fields.h - from a line of a log to the attributes that the rules ask for.
 *
 * The plan is made once from the rules: only attributes that some rule mentions are looked up.
 * Where an attribute comes from, the first of these that applies:
 *
 *   --set NAME=VALUE     the value, on every line
 *   --map NAME=FIELD     FIELD: query.PARAM, a field's path in JSON, or a name of the table below
 *   its own name         the same, with FIELD = NAME
 *
 *   ip           LOG_CLIENT, else X-Forwarded-For, else LOG_REMOTE; without a port
 *   api, path    the target without its query         target, uri, request_uri   with it
 *   method status user host referer user_agent bytes protocol query remote_addr
 *
 * LOGFIELDS-1  A line has each attribute once; an absent or empty one is left out.
 * LOGFIELDS-2  Values are cut at LOG_VALUE_MAX, which is longer than a request may have: what the
 *              node would refuse, policy_resolve refuses here.
 *
 * Pure; the texts of the options must outlive the plan.
 */
#ifndef CLIENT_REPLAY_LOG_FIELDS_H
#define CLIENT_REPLAY_LOG_FIELDS_H

#include "client/replay/log_line.h"
#include "node/policy/index/policy_resolve.h"

enum {
    LOG_ATTRIBUTES_MAX = 64, /* that rules may mention */
    LOG_PAIRS_MAX = 32,      /* of --map, and of --set */
    LOG_PROXIES_MAX = 16,
    LOG_JSON_PATHS_MAX = 160
};

struct log_pair {
    struct policy_text name;
    struct policy_text value;
};

struct log_options {
    enum log_format format;
    struct log_pair maps[LOG_PAIRS_MAX];
    size_t map_count;
    struct log_pair sets[LOG_PAIRS_MAX];
    size_t set_count;
    struct policy_text time_field; /* of JSON; len 0: the usual names */
    struct policy_text cost_field; /* len 0: every request costs 1 */
    unsigned proxies; /* addresses that proxies in front added to X-Forwarded-For; 0: the first */
};

enum log_origin {
    LOG_FROM_NOWHERE,
    LOG_FROM_CONSTANT,
    LOG_FROM_FIELD, /* a field as it stands */
    LOG_FROM_IP,
    LOG_FROM_API,
    LOG_FROM_QUERY,    /* all of the query */
    LOG_FROM_PARAMETER /* one of its parameters */
};

struct log_attribute {
    struct policy_text name;
    enum log_origin source; /* of a line that is no JSON, or where JSON lacks the path */
    enum log_field field;
    struct policy_text text; /* the constant, or the parameter's name */
    int slot;                /* of the JSON path that comes first, or -1 */
};

struct log_plan {
    struct log_options options;
    size_t count;
    struct log_attribute attributes[LOG_ATTRIBUTES_MAX];
    struct log_attribute cost; /* name.len 0: none */
    size_t path_count;
    size_t slots;
    struct log_json_path paths[LOG_JSON_PATHS_MAX];
};

/* One line as a request. Points into the line, the plan and the scratch. */
struct log_request {
    int64_t time_ns;
    uint64_t cost;
    struct policy_text ip; /* len 0: none */
    bool forwarded;        /* the address is one of X-Forwarded-For */
    bool whole_second;
    size_t count;
    struct policy_attribute attributes[LOG_ATTRIBUTES_MAX];
    uint16_t places[LOG_ATTRIBUTES_MAX]; /* attributes[i] is the plan's attribute places[i] */
};

/* Makes the plan for the rules. 0, or TG_ETOOBIG when they mention too many attributes. */
MUST_USE int log_plan_init(struct log_plan *plan, const struct policy *policy,
                           const struct log_options *options);
/* Whether a name is a field of lines that are no JSON. */
bool log_field_known(const char *name, size_t len);
/* Reads a line without its line's end. 0, or TG_EINVALID with the problem. Empties the scratch. */
MUST_USE int log_plan_read(const struct log_plan *plan, const char *text, size_t len,
                           struct log_scratch *scratch, struct log_request *out,
                           struct log_problem *problem);

#endif
