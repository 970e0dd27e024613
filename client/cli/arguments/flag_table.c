/* flag_table.c - every flag once for each meaning that it has: name, value, commands, help, field.
 *
 *   {CLI_FLAG_COST, "cost", .., COSTED, "N", NUMBER(cost, 0, TG_COST_MAX), "tokens of one ..."}
 *
 * See command_table.h for what the table is used for.
 */
#include <assert.h>

#include "base/assert.h"
#include "base/vocabulary.h"
#include "client/cli/arguments/command_table.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/rights/rights.h"

#define CLI_REPEAT_MAX UINT64_C(1000000000)

/* ---- sets of commands ------------------------------------------------------------------------ */

#define ASKING                                                                                     \
    (CLI_SET(CLI_CHECK) | CLI_SET(CLI_PEEK) | CLI_SET(CLI_HIT) | CLI_SET(CLI_REFUND) |             \
     CLI_SET(CLI_RESET) | CLI_SET(CLI_LEASE) | CLI_SET(CLI_RESERVE))
#define NAMING   (CLI_SET(CLI_RELEASE) | CLI_SET(CLI_RENEW)) /* a lease */
#define SETTLING (CLI_SET(CLI_COMMIT) | CLI_SET(CLI_CANCEL))
#define KEYED    (ASKING | NAMING | SETTLING | CLI_SET(CLI_OWNER))
#define LEASING  (NAMING | CLI_SET(CLI_LEASE))
#define COSTED   (ASKING & ~CLI_SET(CLI_RESET))
#define WATCHED  (CLI_SET(CLI_STATUS) | CLI_SET(CLI_MEMBERS) | CLI_SET(CLI_RING))
#define CHANGING (CLI_SET(CLI_DRAIN) | CLI_SET(CLI_LEAVE) | CLI_SET(CLI_REMOVE))
#define APPLYING                                                                                   \
    (CLI_SET(CLI_RULES_APPLY) | CLI_SET(CLI_RULES_DELETE) | CLI_SET(CLI_RULES_ROLLBACK) |          \
     CLI_SET(CLI_POOLS_SET))
#define BLOCKING (CLI_SET(CLI_BLOCK) | CLI_SET(CLI_UNBLOCK))
#define QUOTING  (CLI_SET(CLI_QUOTA_SET) | CLI_SET(CLI_QUOTA_DELETE)) /* quotas change */
#define KEYING                                                                                     \
    (CLI_SET(CLI_APIKEY_CREATE) | CLI_SET(CLI_APIKEY_REVOKE) | CLI_SET(CLI_APIKEY_DELETE))
#define VOUCHING                                                                                   \
    (CLI_SET(CLI_TOKEN_CREATE) | CLI_SET(CLI_CREDENTIAL_ROTATE) | CLI_SET(CLI_CREDENTIAL_REVOKE))
#define LIMITING (CLI_SET(CLI_QUOTA_SET) | CLI_SET(CLI_APIKEY_CREATE)) /* own limits */
#define EVERY    (CLI_SET(CLI_COMMAND_COUNT) - 1)

static_assert(CLI_COMMAND_COUNT < 64, "a set of commands is 64 bits");

/* ---- the table ------------------------------------------------------------------------------- */

#define AT(field)              .offset = offsetof(struct cli_arguments, field)
#define SWITCH(field)          .kind = CLI_VALUE_SWITCH, AT(field)
#define TEXT(field)            .kind = CLI_VALUE_TEXT, AT(field)
#define BYTES(field, most)     .kind = CLI_VALUE_TEXT, AT(field), .min = 1, .max = (most)
#define NUMBER(field, low, up) .kind = CLI_VALUE_NUMBER, AT(field), .min = (low), .max = (up)
#define CHOICE(field, words)   .kind = CLI_VALUE_CHOICE, AT(field), .choices = (words)

#define SPACE_ALGORITHM(name, number, text) " " text
static const char algorithms[] = ALGORITHM_MAP(SPACE_ALGORITHM);

static const struct cli_flag_row rows[] = {
    {CLI_FLAG_ENDPOINT, "endpoint", 'e', .commands = EVERY, .value = "tcp://HOST:PORT[,...]",
     TEXT(endpoints), .proposal = "tcp://127.0.0.1:7600",
     .help = "nodes to ask (default $TIDEGATE_ENDPOINT, else tcp://127.0.0.1:7600)"},
    {CLI_FLAG_OUTPUT, "output", 'o', .commands = EVERY, .value = "table|json|yaml",
     CHOICE(output, "table json yaml"), .help = "form of the answer (default table)"},
    {CLI_FLAG_TIMEOUT, "timeout", .commands = EVERY, .value = "DURATION",
     .help = "how long to wait for an answer: 250ms, 1s (default 1s)"},
    {CLI_FLAG_HELP, "help", 'h', .commands = EVERY, .help = "this help"},
    {CLI_FLAG_VERSION, "version", .commands = EVERY, .help = "the version of this program"},

    {CLI_FLAG_KEY, "key", .commands = KEYED, .value = "K",
     .help = "instead: one counter by this name (it may be empty, as that of a Redis client may), "
             "with the limit given here"},
    {CLI_FLAG_RATE, "rate", .commands = KEYED, .value = "COUNT/PERIOD",
     .help = "its limit: 5/60s, 30/24h, 100/minute"},
    {CLI_FLAG_BURST, "burst", .commands = KEYED, .value = "B",
     .help = "of a bucket: how many at once (default: the rate's count)"},
    {CLI_FLAG_ALGORITHM, "algorithm", .commands = LEASING, .value = "A", .choices = algorithms + 1,
     .help = "what is leased: places of concurrency (the default), or tokens of another algorithm"},
    {CLI_FLAG_ALGORITHM, "algorithm", .commands = KEYED & ~LEASING, .value = "A",
     .choices = algorithms + 1,
     .help =
         "how it counts:\n"
         "sliding_log, sliding_buckets\tnever more than COUNT in any PERIOD, wherever it begins\n"
         "concurrency\tnever more than COUNT at any moment\n"
         "fixed_window\tnever more in one of its windows, but up to twice COUNT in a PERIOD "
         "across the end of one\n"
         "sliding_window\tnearly: it takes what came before to be spread evenly\n"
         "token_bucket (default), leaky_bucket\tup to the burst and COUNT in a PERIOD\n"},
    {CLI_FLAG_COST, "cost", .commands = COSTED, .value = "N", NUMBER(cost, 0, TG_COST_MAX),
     .help = "tokens of one request (default 1)"},
    {CLI_FLAG_AT_MOST, "at-most",
     .commands = CLI_SET(CLI_CHECK) | CLI_SET(CLI_PEEK) | CLI_SET(CLI_LEASE), SWITCH(at_most),
     .help = "take what there is, up to the cost; 'granted' says how many"},
    {CLI_FLAG_LEASE, "lease", .commands = NAMING, .value = "ID",
     .help = "the lease, as the admission gave it"},
    {CLI_FLAG_USED, "used", .commands = NAMING, .value = "N", NUMBER(used, 0, TG_COST_MAX),
     .help = "of a lease of tokens: how many were used"},
    {CLI_FLAG_TTL, "ttl", .commands = CLI_SET(CLI_RESERVE), .value = "DURATION",
     .help = "for how long it is held, 1s to 1h (default 60s)"},
    {CLI_FLAG_HOLD, "hold", .commands = SETTLING, .value = "ID",
     .help = "the reservation, as the admission gave it"},
    {CLI_FLAG_ACTUAL, "actual", .commands = CLI_SET(CLI_COMMIT), .value = "N",
     NUMBER(used, 0, TG_COST_MAX), .help = "how many tokens were really used"},
    {CLI_FLAG_REPEAT, "repeat", .commands = ASKING, .value = "N", NUMBER(repeat, 1, CLI_REPEAT_MAX),
     .help = "N requests one after the other, each shown"},
    {CLI_FLAG_EXPLAIN, "explain", .commands = ASKING, SWITCH(explain),
     .help = "show every limit that was met, each with its state"},

    {CLI_FLAG_NODE, "node", .commands = CLI_SET(CLI_STATUS), .value = "NAME", TEXT(node),
     .help = "all that is known of one node; REGION/NAME where two are called so"},
    {CLI_FLAG_ALL, "all", .commands = CLI_SET(CLI_STATUS), SWITCH(all),
     .help = "and every counter of the node that is asked"},
    {CLI_FLAG_ALL, "all", .commands = CLI_SET(CLI_MEMBERS), SWITCH(all),
     .help = "those that have left or were removed, too"},
    {CLI_FLAG_WAIT, "wait", .commands = CLI_SET(CLI_STATUS), .value = "healthy",
     .choices = "healthy",
     .help = "waits until the cluster is healthy, at most --timeout (here 30s by default)"},
    {CLI_FLAG_MEMBERS, "members", .commands = CLI_SET(CLI_STATUS), .value = "N|all",
     .proposal = "all",
     .help = "all: a line for each node, else those that are well stand in one of many; N: with "
             "--wait healthy, at least so many live, of all regions"},
    {CLI_FLAG_REGIONS, "regions", .commands = CLI_SET(CLI_STATUS), SWITCH(regions),
     .help = "what the node knows of each region"},
    {CLI_FLAG_WATCH, "watch", .commands = WATCHED, SWITCH(watch),
     .help = "show it again every second, until interrupted"},
    {CLI_FLAG_FOLLOW, "follow", .commands = CLI_SET(CLI_EVENTS), SWITCH(watch),
     .help = "go on with those that come, until interrupted"},

    {CLI_FLAG_RULES, "rules", .commands = CLI_SET(CLI_RULES_EXPLAIN), .value = "FILE", TEXT(file),
     .file = true,
     .help = "the rules of this file instead (- for standard input): no node is asked"},
    {CLI_FLAG_RULES, "rules", .commands = CLI_SET(CLI_REPLAY), .value = "FILE", TEXT(file),
     .file = true, .help = "the rules to try; - for standard input"},
    {CLI_FLAG_DOMAIN, "domain", .commands = CLI_SET(CLI_RULES_EXPLAIN), .value = "D",
     TEXT(domains.domain), .help = "of a descriptor: what the proxy asks for"},
    {CLI_FLAG_DESCRIPTOR, "descriptor", .commands = CLI_SET(CLI_RULES_EXPLAIN),
     .value = "K=V[,K2=V2...]", TEXT(domains.descriptor),
     .help = "its entries, instead of attributes; a \\ stands before a comma or = that is a part "
             "of one"},
    {CLI_FLAG_MERGE, "merge", .commands = CLI_SET(CLI_RULES_IMPORT), SWITCH(domains.merge),
     .help = "a domain that stands in several files is one with the descriptors of all"},
    {CLI_FLAG_CHARGE, "charge", .commands = CLI_SET(CLI_RULES_IMPORT), .value = "each|all",
     CHOICE(domains.charge, "each all"),
     .help = "what several descriptors of a request are charged: each for itself, denied ones too "
             "(the default), or none unless all allow"},
    {CLI_FLAG_OF_VERSION, "of-version", .commands = CLI_SET(CLI_RULES_SHOW), .value = "VERSION",
     NUMBER(version, 1, UINT32_MAX), .help = "an older version, of `tidegate rules history`"},

    {CLI_FLAG_NAME, "name", .commands = CLI_SET(CLI_APIKEY_CREATE), .value = "TEXT",
     BYTES(name, API_KEY_NAME_LEN_MAX), .help = "what people call the key"},
    {CLI_FLAG_OWNER, "owner", .commands = CLI_SET(CLI_APIKEY_CREATE), .value = "USER",
     BYTES(holder.owner, API_KEY_OWNER_LEN_MAX),
     .help = "the user of its requests, whatever they say"},
    {CLI_FLAG_OWNER, "owner", .commands = CLI_SET(CLI_APIKEY_LIST), .value = "USER",
     BYTES(holder.owner, API_KEY_OWNER_LEN_MAX), .help = "the keys of this user alone"},
    {CLI_FLAG_ROLE, "role", .commands = CLI_SET(CLI_TOKEN_CREATE), .value = "ROLES",
     BYTES(holder.roles, RIGHTS_TEXT_LEN),
     .help = "what it may do: check, adjust, inline, observe, "
             "operate, admin; several with commas between"},
    {CLI_FLAG_NETWORK, "network", .commands = CLI_SET(CLI_TOKEN_CREATE), .value = "CIDR[,CIDR...]",
     TEXT(holder.networks),
     .help = "where it may be used from, such as 10.0.0.0/8; else everywhere"},
    {CLI_FLAG_TIER, "tier", .commands = CLI_SET(CLI_APIKEY_CREATE), .value = "TIER",
     BYTES(holder.tier, API_KEY_TIER_LEN_MAX), .help = "the tier of its requests"},
    {CLI_FLAG_TIER, "tier", .commands = CLI_SET(CLI_QUOTA_SET), .value = "T", TEXT(quota.tier),
     .help = "the tier of his requests, whatever they say themselves"},
    {CLI_FLAG_LIMIT, "limit", .commands = CLI_SET(CLI_APIKEY_CREATE), .value = "RATE",
     .repeats = true,
     .help = "a limit of its own, beside all that rules say, such as 500/h: of a second, minute, "
             "hour, day, week, month or year; each is a token_bucket"},
    {CLI_FLAG_LIMIT, "limit", .commands = CLI_SET(CLI_QUOTA_SET), .value = "RATE", .repeats = true,
     .help = "replaces the limit of the same window in his plan, the limits of his tier (or of a "
             "rule of group tier): a count per second, minute, hour, day, week, month or year; "
             "another window is added"},
    {CLI_FLAG_BURST, "burst", .commands = CLI_SET(CLI_APIKEY_CREATE), .value = "N",
     NUMBER(quota.burst, 1, TG_COST_MAX), .help = "of all limits of its own"},
    {CLI_FLAG_BURST, "burst", .commands = CLI_SET(CLI_QUOTA_SET), .value = "N",
     NUMBER(quota.burst, 1, TG_COST_MAX), .help = "of the buckets of his plan"},
    {CLI_FLAG_BLOCK, "block", .commands = CLI_SET(CLI_QUOTA_SET), .value = "REASON",
     TEXT(quota.block),
     .help = "deny his requests, status 403, with the reason as the message, until --unblock"},
    {CLI_FLAG_KEY, "key", .commands = BLOCKING, .value = "K",
     .help = "instead: an inline key, which may be empty"},
    {CLI_FLAG_FOR, "for", .commands = CLI_SET(CLI_BLOCK), .value = "DURATION",
     .help = "it lifts itself after this time: 1h (never 0)"},
    {CLI_FLAG_FOR, "for", .commands = CLI_SET(CLI_APIKEY_CREATE), .value = "DURATION",
     .help = "it ends by itself after this time: 90d"},
    {CLI_FLAG_FOR, "for", .commands = CLI_SET(CLI_TOKEN_CREATE), .value = "DURATION",
     .help = "it ends by itself after this time: 365d"},
    {CLI_FLAG_FOR, "for", .commands = CLI_SET(CLI_CREDENTIAL_ROTATE), .value = "DURATION",
     .help = "how long the token before is good yet: 24h; without it, not at all"},
    {CLI_FLAG_FOR, "for", .commands = CLI_SET(CLI_QUOTA_SET), .value = "DURATION",
     .help = "how long the block lasts: 1h"},
    {CLI_FLAG_UNTIL, "until", .commands = CLI_SET(CLI_BLOCK), .value = "TIME",
     .help = "it lifts itself then: 2026-12-31T18:00:00Z (UTC), or with a zone (+01:00), or a day "
             "alone, which must exist"},
    {CLI_FLAG_UNTIL, "until", .commands = CLI_SET(CLI_APIKEY_CREATE), .value = "TIME",
     .help = "it ends by itself then: 2026-12-31T18:00:00Z (UTC)"},
    {CLI_FLAG_UNTIL, "until", .commands = CLI_SET(CLI_TOKEN_CREATE), .value = "TIME",
     .help = "it ends by itself then: 2026-12-31T18:00:00Z (UTC)"},
    {CLI_FLAG_UNTIL, "until", .commands = CLI_SET(CLI_QUOTA_SET), .value = "TIME",
     .help = "when the block ends: 2026-12-31T18:00:00Z (UTC)"},
    {CLI_FLAG_REASON, "reason", .commands = CLI_SET(CLI_BLOCK), .value = "TEXT", TEXT(reason),
     .help = "the message of the denial"},
    {CLI_FLAG_UNBLOCK, "unblock", .commands = CLI_SET(CLI_QUOTA_SET), SWITCH(quota.unblock),
     .help = "lift the block"},
    {CLI_FLAG_NOTES, "notes", .commands = CLI_SET(CLI_QUOTA_SET), .value = "TEXT",
     TEXT(quota.notes), .help = "kept with the record; --note is why this change is made"},
    {CLI_FLAG_CLEAR, "clear", .commands = CLI_SET(CLI_QUOTA_SET), SWITCH(quota.clear),
     .help = "forget what the record says, and begin anew"},
    {CLI_FLAG_AFTER, "after", .commands = CLI_SET(CLI_APIKEY_LIST), .value = "ID",
     BYTES(after, API_KEY_NAME_LEN_MAX), .help = "go on behind this id"},
    {CLI_FLAG_AFTER, "after", .commands = CLI_SET(CLI_CREDENTIAL_LIST), .value = "ID",
     BYTES(after, API_KEY_NAME_LEN_MAX), .help = "go on behind this id"},
    {CLI_FLAG_AFTER, "after", .commands = CLI_SET(CLI_QUOTA_LIST), .value = "USER",
     BYTES(after, TG_VALUE_MAX), .help = "go on behind this user"},

    {CLI_FLAG_RATE, "rate", .commands = CLI_SET(CLI_POOLS_SET), .value = "RATE",
     .help = "of each region, such as 10000/s; a new pool needs it"},
    {CLI_FLAG_LOAD_MAX, "load-max", .commands = CLI_SET(CLI_POOLS_SET), .value = "X",
     .help = "borrowing stops at this reported load, above 0 to 1"},
    {CLI_FLAG_RESERVE, "reserve", .commands = CLI_SET(CLI_POOLS_SET), .value = "P%",
     .help = "of the rate, for class critical alone; 0% takes it away"},
    {CLI_FLAG_SCOPE, "scope", .commands = CLI_SET(CLI_POOLS_SET), .value = "S",
     .choices = "region global", .help = "region, or global: one rate for all regions"},
    {CLI_FLAG_HOME, "home", .commands = CLI_SET(CLI_POOLS_SET), .value = "REGION",
     .help = "that lends of a global pool; one is chosen by hash without it"},
    {CLI_FLAG_LOAD, "load", .commands = CLI_SET(CLI_POOLS_REPORT), .value = "X",
     .help = "from 0, idle, to 1"},

    {CLI_FLAG_DRY_RUN, "dry-run", .commands = APPLYING, SWITCH(dry_run),
     .help = "show the difference, and change nothing"},
    {CLI_FLAG_DRY_RUN, "dry-run", .commands = CLI_SET(CLI_QUOTA_SET), SWITCH(dry_run),
     .help = "show the record as it would be, and change nothing"},
    {CLI_FLAG_YES, "yes", 'y', .commands = APPLYING | CLI_SET(CLI_BLOCK), SWITCH(yes),
     .help = "do not ask; needed without a terminal"},
    {CLI_FLAG_FORCE, "force", .commands = CLI_SET(CLI_APIKEY_DELETE), SWITCH(force),
     .help = "delete the last one, too"},
    {CLI_FLAG_REGION, "region", .commands = CLI_SET(CLI_REMOVE), .value = "REGION",
     .help = "instead: a region that is gone for good"},
    {CLI_FLAG_FORCE, "force", .commands = CLI_SET(CLI_REMOVE), SWITCH(force),
     .help = "also where most voters are gone for good; see below"},
    {CLI_FLAG_NO_WAIT, "no-wait", .commands = CHANGING, SWITCH(no_wait),
     .help = "return at once; what was begun goes on"},
    {CLI_FLAG_NOTE, "note", .commands = APPLYING | KEYING | VOUCHING | QUOTING, .value = "TEXT",
     TEXT(note), .help = "why it is changed; kept with the change"},
    {CLI_FLAG_AUTHOR, "author", .commands = APPLYING | BLOCKING | KEYING | VOUCHING | QUOTING,
     .value = "NAME", TEXT(author), .help = "who changes it (default: you, on this host)"},

    {CLI_FLAG_FORMAT, "format", .commands = CLI_SET(CLI_REPLAY), .value = "F",
     .choices = "auto combined xff json",
     .help = "auto (default), combined, xff (last quoted field: X-Forwarded-For), json"},
    {CLI_FLAG_MAP, "map", .commands = CLI_SET(CLI_REPLAY), .value = "NAME=FIELD", .repeats = true,
     .help = "attribute NAME is this field: query.user, claims.sub"},
    {CLI_FLAG_SET, "set", .commands = CLI_SET(CLI_REPLAY), .value = "NAME=VALUE", .repeats = true,
     .help = "attribute NAME is this on every line"},
    {CLI_FLAG_PROXIES, "proxies", .commands = CLI_SET(CLI_REPLAY), .value = "N",
     .help = "the caller is the Nth address of X-Forwarded-For from the right, as N proxies of "
             "yours add (default: the first address)"},
    {CLI_FLAG_TIME_FIELD, "time-field", .commands = CLI_SET(CLI_REPLAY), .value = "FIELD",
     .help = "JSON: seconds or milliseconds since 1970, or RFC 3339 (default: time, timestamp, ts "
             "and other usual names)"},
    {CLI_FLAG_COST_FIELD, "cost-field", .commands = CLI_SET(CLI_REPLAY), .value = "FIELD",
     .help = "what a request costs, such as bytes (default: each costs 1)"},
    {CLI_FLAG_REORDER, "reorder", .commands = CLI_SET(CLI_REPLAY), .value = "DURATION",
     .help = "how far lines may be out of order (default 10s, at most 600s; 0: they are taken in "
             "the order in which they stand)"},
    {CLI_FLAG_SPREAD, "spread", .commands = CLI_SET(CLI_REPLAY),
     .help = "set requests of one whole second evenly over it, in their order"},
    {CLI_FLAG_TOP, "top", .commands = CLI_SET(CLI_REPLAY), .value = "N",
     .help = "busiest keys shown of each rule (default 5)"},
    {CLI_FLAG_SUGGEST, "suggest", .commands = CLI_SET(CLI_REPLAY), .value = "SHARE",
     .help = "the smallest limit that denies at most this share of callers: 0.1%"},
};

enum { ROWS = sizeof rows / sizeof *rows };

/* ---- looking --------------------------------------------------------------------------------- */

const struct cli_flag_row *cli_flag_rows(size_t *count)
{
    *count = ROWS;
    return rows;
}

const struct cli_flag_row *cli_flag_row(enum cli_flag flag, enum cli_command command)
{
    ASSERT(flag < CLI_FLAG_COUNT && command < CLI_COMMAND_COUNT);
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].flag == flag && (rows[i].commands & CLI_SET(command)) != 0)
            return &rows[i];
    return NULL;
}

const char *cli_flag_name(enum cli_flag flag)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].flag == flag)
            return rows[i].name;
    return "";
}

bool cli_flag_common(const struct cli_flag_row *row)
{
    return row->commands == EVERY;
}

bool cli_command_changes(enum cli_command command)
{
    return (CHANGING & CLI_SET(command)) != 0;
}
