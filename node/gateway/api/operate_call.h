/* operate_call.h - the table of operators' calls: which command each is, and what it may be told.
 *
 *   PUT /v1/rules   If-Match: "12"   {"text": ...}   -->   rules.apply {id, author, base, text,
 * wait}
 *
 * A route (api_routes.c) names its call. Arguments come from the path, by the names in its pattern,
 * and else from the body of POST, PUT and PATCH, or from the query.
 */
#ifndef NODE_GATEWAY_API_OPERATE_CALL_H
#define NODE_GATEWAY_API_OPERATE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How an argument is written. */
enum operate_kind {
    OPERATE_TEXT,
    OPERATE_NUMBER,     /* a whole one, below 2^53 */
    OPERATE_FLAG,       /* true, false */
    OPERATE_SPAN,       /* "5m"; the command gets milliseconds */
    OPERATE_RATES,      /* a list of "500/h"; the command gets them apart by blanks */
    OPERATE_SHARE,      /* 0 to 1 */
    OPERATE_ATTRIBUTES, /* an object of names and values */
    OPERATE_KINDS
};

struct operate_field {
    const char *name;
    const char *argument; /* what the command calls it; NULL: the same */
    enum operate_kind kind;
    bool needed;
    const char *says;
};

enum operate_flag {
    OPERATE_EDITS = 1,    /* an edit: id, author, note, base and wait are added */
    OPERATE_TAGGED = 2,   /* what is shown has a version: ETag */
    OPERATE_LARGE = 4,    /* the answer may be as long as a list, */
    OPERATE_HUGE = 32,    /* or as a document of rules */
    OPERATE_MAKES = 8,    /* it makes an API key, which the answer alone has */
    OPERATE_DOCUMENT = 16 /* the body, or the answer, may be the rules themselves: YAML */
};

enum { OPERATE_FIELDS_MAX = 16 };

struct operate_call {
    const char *command;
    const char *list; /* what a list is called in the object that is answered; NULL: it is none */
    unsigned flags;
    uint32_t field_count;
    struct operate_field fields[OPERATE_FIELDS_MAX];
};

enum operate_number {
    OPERATE_STATUS,
    OPERATE_MEMBERS,
    OPERATE_RING,
    OPERATE_REGIONS,
    OPERATE_EVENTS,
    OPERATE_OWNER,
    OPERATE_EXPLAIN,
    OPERATE_RULES_SHOW,
    OPERATE_RULES_APPLY,
    OPERATE_RULES_LIST,
    OPERATE_RULES_HISTORY,
    OPERATE_RULES_VERSION,
    OPERATE_RULES_NAMED,
    OPERATE_RULES_VALIDATE,
    OPERATE_RULES_DIFF,
    OPERATE_RULES_ROLLBACK,
    OPERATE_BLOCKS,
    OPERATE_BLOCK,
    OPERATE_UNBLOCK,
    OPERATE_QUOTAS,
    OPERATE_QUOTA,
    OPERATE_QUOTA_SET,
    OPERATE_QUOTA_DELETE,
    OPERATE_KEYS,
    OPERATE_KEY_CREATE,
    OPERATE_KEY,
    OPERATE_KEY_REVOKE,
    OPERATE_KEY_DELETE,
    OPERATE_POOLS,
    OPERATE_POOL_LOAD,
    OPERATE_EDIT,
    OPERATE_DRAIN,
    OPERATE_LEAVE,
    OPERATE_REMOVE,
    OPERATE_CALLS
};

extern const struct operate_call operate_calls[OPERATE_CALLS];

/* What every edit may be told besides. */
extern const struct operate_field operate_of_edits[];
enum { OPERATE_OF_EDITS = 2 };

#endif
