/* rule_keys.h - the one table of the keys of a rules file: name, type, range, default, meaning.
 *
 *   rule_keys.c --+--> *_reader.c       which keys a mapping may have, and what each may be
 *                 +--> deploy/manual    tidegate-rules(5), the reference page, the JSON Schema
 *
 * RULEKEYS-1  The keys of a mapping stand in the order of their enumeration below.
 * RULEKEYS-2  What the table says of a value is what its reader accepts; more that depends on other
 *             keys (a burst of a fixed window) is refused by the reader alone.
 */
#ifndef NODE_POLICY_READERS_RULE_KEYS_H
#define NODE_POLICY_READERS_RULE_KEYS_H

#include "node/policy/readers/yaml_reader.h"

/* The mappings of a file whose keys are fixed. */
enum rule_map {
    RULE_MAP_FILE,
    RULE_MAP_RULE,
    RULE_MAP_LIMIT,
    RULE_MAP_RESPONSE,
    RULE_MAP_SOFT,
    RULE_MAP_ELASTIC,
    RULE_MAP_LOCAL,
    RULE_MAP_POOL,
    RULE_MAP_TIER,
    RULE_MAP_OLDER_FILE,
    RULE_MAP_OLDER_LIMIT,
    RULE_MAP_DOMAIN,
    RULE_MAP_DESCRIPTOR,
    RULE_MAP_RATE_LIMIT,
    RULE_MAP_REPLACES,
    RULE_MAP_NONE, /* and the number of them */
    RULE_MAPS = RULE_MAP_NONE
};

enum {
    FILE_UNMATCHED,
    FILE_RULES,
    FILE_POOLS,
    FILE_TIERS,
    FILE_ATTRIBUTES,
    FILE_DOMAINS,
    FILE_CHARGE,
    FILE_MERGE,
    FILE_KEYS
};
enum {
    RULE_NAME,
    RULE_ENABLED,
    RULE_PRIORITY,
    RULE_GROUP,
    RULE_MATCH,
    RULE_KEY,
    RULE_LIMITS,
    RULE_MODE,
    RULE_CLASS,
    RULE_CONSISTENCY,
    RULE_SCOPE,
    RULE_HOME,
    RULE_WAN_WAIT,
    RULE_ON_FAILURE,
    RULE_ACTION,
    RULE_COUNT_DENIED,
    RULE_SHADOW,
    RULE_MISSING,
    RULE_RESPONSE,
    RULE_IPV6_PREFIX,
    RULE_KEYS
};
enum {
    LIMIT_KEY_RATE,
    LIMIT_KEY_ALGORITHM,
    LIMIT_KEY_BURST,
    LIMIT_KEY_BUCKETS,
    LIMIT_KEY_ALIGN,
    LIMIT_KEY_TIMEZONE,
    LIMIT_KEY_COUNT,
    LIMIT_KEY_TIMEOUT,
    LIMIT_KEY_MODE,
    LIMIT_KEYS
};
enum { RESPONSE_STATUS, RESPONSE_MESSAGE, RESPONSE_RETRY_AFTER, RESPONSE_KEYS };
enum { SOFT_EXCEED, SOFT_KEYS };
enum { ELASTIC_POOL, ELASTIC_CEILING, ELASTIC_WEIGHT, ELASTIC_KEYS };
enum { LOCAL_SHARE, LOCAL_KEYS };
enum { POOL_RATE, POOL_LOAD_MAX, POOL_RESERVE, POOL_SCOPE, POOL_HOME, POOL_KEYS };
enum { TIER_LIMITS, TIER_KEYS };
enum { OLDER_API, OLDER_FILE_KEYS };
enum { OLDER_CALLER, OLDER_COUNT, OLDER_TIME, OLDER_LIMIT_KEYS };

enum { DOMAIN_NAME, DOMAIN_DESCRIPTORS, DOMAIN_ON_FAILURE, DOMAIN_MESSAGE, DOMAIN_KEYS };
enum {
    DESCRIPTOR_KEY,
    DESCRIPTOR_VALUE,
    DESCRIPTOR_RATE_LIMIT,
    DESCRIPTOR_DESCRIPTORS,
    DESCRIPTOR_SHADOW_MODE,
    DESCRIPTOR_QUOTA_MODE,
    DESCRIPTOR_SHARE_THRESHOLD,
    DESCRIPTOR_VALUE_TO_METRIC,
    DESCRIPTOR_DETAILED_METRIC,
    DESCRIPTOR_METADATA,
    DESCRIPTOR_MESSAGE,
    DESCRIPTOR_KEYS
};
enum {
    RATE_LIMIT_UNIT,
    RATE_LIMIT_REQUESTS,
    RATE_LIMIT_UNLIMITED,
    RATE_LIMIT_NAME,
    RATE_LIMIT_REPLACES,
    RATE_LIMIT_KEYS
};
enum { REPLACES_NAME, REPLACES_KEYS };

enum rule_type {
    RULE_TYPE_TEXT,     /* of min..max bytes */
    RULE_TYPE_NAME,     /* of an attribute */
    RULE_TYPE_NUMBER,   /* whole, min..max */
    RULE_TYPE_SWITCH,   /* true or false */
    RULE_TYPE_WORD,     /* one of words */
    RULE_TYPE_RATE,     /* COUNT/PERIOD */
    RULE_TYPE_DURATION, /* a number and a unit; with min 0 also none at all */
    RULE_TYPE_PERCENT,  /* min% to max% */
    RULE_TYPE_LOAD,     /* above 0, at most 1 */
    RULE_TYPE_FACTOR,   /* such as 1.5x, above 1, at most max */
    RULE_TYPE_MAP,      /* a mapping `of` */
    RULE_TYPE_LIST,     /* of min..max mappings `of` */
    RULE_TYPE_NAMED,    /* min..max names, each with a mapping `of` */
    RULE_TYPE_CHOICE,   /* a word, or {WORD: mapping}: see choices */
    RULE_TYPE_NAMES,    /* a list of min..max names of attributes */
    RULE_TYPE_MATCH,    /* names of attributes, each with a value or a list of values */
    RULE_TYPE_KINDS,    /* names of attributes, each with a kind */
    RULE_TYPE_TREE,     /* whatever */
    RULE_TYPE_OLDER     /* names of paths, each with a list of mappings `of` */
};

enum rule_mode { RULE_MODE_HARD, RULE_MODE_SOFT, RULE_MODE_ELASTIC };
enum rule_charge { RULE_CHARGE_EACH, RULE_CHARGE_ALL };
enum rule_align { RULE_ALIGN_EPOCH, RULE_ALIGN_FIRST, RULE_ALIGN_CALENDAR };

/* What a word of RULE_TYPE_CHOICE may stand with. */
struct rule_choice {
    bool bare;         /* the word alone */
    enum rule_map map; /* {WORD: mapping}; NONE: never */
};

struct rule_key {
    const char *name;
    bool required;
    enum rule_type type;
    int64_t min;
    int64_t max;
    const char *most; /* of RULE_TYPE_DURATION: what refusals say of max, which is in ns */
    const struct yaml_reader_word *words;
    uint32_t word_count;
    const struct rule_choice *choices; /* for each word */
    enum rule_map of;
    const char *initial; /* what it is where the file does not say; NULL: nothing */
    const char *help;    /* a sentence */
    const char *example; /* a value, as YAML */
};

struct rule_map_row {
    const char *what;   /* how refusals call the mapping */
    const char *prefix; /* and begin the name of its keys; "": the name alone */
    const char *title;
    const char *help;
    const struct rule_key *keys;
    uint32_t count;
};

/* Static storage. */
const struct rule_map_row *rule_map(enum rule_map map);
const struct rule_key *rule_key(enum rule_map map, unsigned key);

/* ---- reading --------------------------------------------------------------------------------- */

/* A mapping that is being read. */
struct rule_place {
    const struct yaml_reader *reader;
    enum rule_map map;
    const char *what; /* begins the names of keys in refusals; NULL: as the table says */
    const struct yaml_reader_field *fields;
};

/* Reads the mapping into `fields`, one for each of its keys; `what` names it, NULL: as the table
 * does. As yaml_reader_fields. */
MUST_USE int rule_fields(const struct yaml_reader *reader, uint32_t node, enum rule_map map,
                         const char *what, struct yaml_reader_field *fields);

/* Each reads the value of a key as the table says; where the key is absent the value stays. 0, or
 * TG_EINVALID with the error set. */
MUST_USE int rule_number(const struct rule_place *place, unsigned key, int64_t *value);
MUST_USE int rule_switch(const struct rule_place *place, unsigned key, bool *value);
MUST_USE int rule_word(const struct rule_place *place, unsigned key, int *number);
/* The word of RULE_TYPE_CHOICE, written alone or with a mapping; *map: the node of that, or NONE.
 */
MUST_USE int rule_choice(const struct rule_place *place, unsigned key, int *number, uint32_t *map);
MUST_USE int rule_duration(const struct rule_place *place, unsigned key, uint64_t *ns);
MUST_USE int rule_percent(const struct rule_place *place, unsigned key, uint16_t *percent);
/* The text of a scalar of min..max bytes, as yaml_reader_text; NULL where it is absent. */
MUST_USE int rule_scalar(const struct rule_place *place, unsigned key, const char **text,
                         size_t *len);

enum { RULE_WHAT_LEN = 64 };
/* How refusals call the key. Returns `out`. */
const char *rule_what(const struct rule_place *place, unsigned key, char out[RULE_WHAT_LEN]);

#endif
