/* operate_call.c - see operate_call.h. Commands are those of client/protocol/PROTOCOL.md. */
#include "node/gateway/api/operate_call.h"

#define TEXT(n, s)                                                                                 \
    {                                                                                              \
        .name = (n), .kind = OPERATE_TEXT, .says = (s)                                             \
    }
#define NEEDED(n, s)                                                                               \
    {                                                                                              \
        .name = (n), .kind = OPERATE_TEXT, .needed = true, .says = (s)                             \
    }
#define NUMBER(n, s)                                                                               \
    {                                                                                              \
        .name = (n), .kind = OPERATE_NUMBER, .says = (s)                                           \
    }
#define FLAG(n, s)                                                                                 \
    {                                                                                              \
        .name = (n), .kind = OPERATE_FLAG, .says = (s)                                             \
    }
#define FOR                                                                                        \
    {                                                                                              \
        .name = "for", .argument = "for_ms", .kind = OPERATE_SPAN, .says = "how long it lasts"     \
    }
#define UNTIL    NUMBER("until_ms", "when it ends, in milliseconds since 1970")
#define AFTER(n) TEXT("after", "behind this " n ": until an answer has none")
#define LIMITS                                                                                     \
    {                                                                                              \
        .name = "limits", .kind = OPERATE_RATES, .says = "own rates, each replaces its window's"   \
    }
#define BURST NUMBER("burst", "of own limits of one bucket")
#define ASKED_ABOUT                                                                                \
    .field_count = 2,                                                                              \
    .fields = {                                                                                    \
        {.name = "attributes", .kind = OPERATE_ATTRIBUTES, .says = "what the rules are asked"},    \
        TEXT("key", "of an own limit, instead"),                                                   \
    }
#define RULES                                                                                      \
    .field_count = 2, .fields = {                                                                  \
                          TEXT("text", "the document of rules, as YAML"),                          \
                          NUMBER("version", "of a document that is kept, instead"),                \
    }
#define BLOCKED                                                                                    \
    TEXT("what", "ATTRIBUTE=VALUE, an address, or a network"),                                     \
        TEXT("key", "of an own limit, instead")
#define ASKED_TO_GO                                                                                \
    .field_count = 2,                                                                              \
    .fields = {                                                                                    \
        TEXT("id", "of the node that is meant: another one refuses"),                              \
        TEXT("author", "who asks, for the log; by default http and the address that asks"),        \
    }

const struct operate_field operate_of_edits[OPERATE_OF_EDITS] = {
    TEXT("author", "who makes the edit; by default http and the address that asks"),
    TEXT("note", "why, for the history"),
};

const struct operate_call operate_calls[OPERATE_CALLS] = {
    [OPERATE_STATUS] = {.command = "status",
                        .flags = OPERATE_LARGE,
                        .field_count = 2,
                        .fields = {FLAG("figures", "true: those of all nodes are asked for"),
                                   FLAG("wait", "true: and waited for, half a second at most")}},
    [OPERATE_MEMBERS] = {.command = "members",
                         .list = "members",
                         .flags = OPERATE_LARGE,
                         .field_count = 2,
                         .fields = {FLAG("all", "true: those that have left, too"), AFTER("id")}},
    [OPERATE_RING] = {.command = "ring", .flags = OPERATE_LARGE},
    [OPERATE_REGIONS] = {.command = "regions", .flags = OPERATE_LARGE},
    [OPERATE_EVENTS] = {.command = "events",
                        .flags = OPERATE_LARGE,
                        .field_count = 1,
                        .fields = {NUMBER("after", "behind the event of this id")}},
    [OPERATE_OWNER] = {.command = "owner", .list = "owners", .flags = OPERATE_LARGE, ASKED_ABOUT},
    [OPERATE_EXPLAIN] = {.command = "rules.explain", .flags = OPERATE_HUGE, ASKED_ABOUT},
    [OPERATE_RULES_SHOW] = {.command = "rules.show",
                            .flags = OPERATE_TAGGED | OPERATE_HUGE | OPERATE_DOCUMENT},
    [OPERATE_RULES_APPLY] = {.command = "rules.apply",
                             .flags = OPERATE_EDITS | OPERATE_DOCUMENT,
                             .field_count = 1,
                             .fields = {TEXT("text", "the document of rules, as YAML")}},
    [OPERATE_RULES_LIST] = {.command = "rules.list",
                            .list = "rules",
                            .flags = OPERATE_HUGE,
                            .field_count = 1,
                            .fields = {AFTER("name")}},
    [OPERATE_RULES_HISTORY] = {.command = "rules.history",
                               .list = "versions",
                               .flags = OPERATE_LARGE},
    [OPERATE_RULES_VERSION] = {.command = "rules.show",
                               .flags = OPERATE_TAGGED | OPERATE_HUGE | OPERATE_DOCUMENT,
                               .field_count = 1,
                               .fields = {NUMBER("version", "of the document")}},
    [OPERATE_RULES_NAMED] = {.command = "rules.show",
                             .flags = OPERATE_HUGE,
                             .field_count = 1,
                             .fields = {TEXT("name", "of a rule in force")}},
    [OPERATE_RULES_VALIDATE] = {.command = "rules.validate",
                                .flags = OPERATE_HUGE | OPERATE_DOCUMENT,
                                RULES},
    [OPERATE_RULES_DIFF] = {.command = "rules.diff",
                            .flags = OPERATE_HUGE | OPERATE_DOCUMENT,
                            RULES},
    [OPERATE_RULES_ROLLBACK] = {.command = "rules.apply",
                                .flags = OPERATE_EDITS,
                                .field_count = 1,
                                .fields = {{.name = "version",
                                            .kind = OPERATE_NUMBER,
                                            .needed = true,
                                            .says = "of a document that is kept"}}},
    [OPERATE_BLOCKS] = {.command = "blocks",
                        .list = "blocks",
                        .flags = OPERATE_LARGE,
                        .field_count = 1,
                        .fields = {AFTER("row, its kind, a blank and its what")}},
    [OPERATE_BLOCK] = {.command = "block",
                       .flags = OPERATE_EDITS,
                       .field_count = 5,
                       .fields = {BLOCKED, TEXT("reason", "what those who are blocked are told"),
                                  FOR, UNTIL}},
    [OPERATE_UNBLOCK] = {.command = "unblock",
                         .flags = OPERATE_EDITS,
                         .field_count = 2,
                         .fields = {BLOCKED}},
    [OPERATE_QUOTAS] = {.command = "quota.list",
                        .list = "quotas",
                        .flags = OPERATE_LARGE,
                        .field_count = 1,
                        .fields = {AFTER("user")}},
    [OPERATE_QUOTA] = {.command = "quota.show",
                       .flags = OPERATE_TAGGED,
                       .field_count = 1,
                       .fields = {NEEDED("user", "whose quota it is")}},
    [OPERATE_QUOTA_SET] = {.command = "quota.set",
                           .flags = OPERATE_EDITS,
                           .field_count = 11,
                           .fields = {NEEDED("user", "whose quota it is"),
                                      TEXT("tier", "that counts instead of the request's"), LIMITS,
                                      BURST, TEXT("block", "blocks the user, for this reason"), FOR,
                                      UNTIL, FLAG("unblock", "true: lets the user in again"),
                                      TEXT("notes", "what is to be known of the user"),
                                      FLAG("clear", "true: forgets what was set before"),
                                      FLAG("dry_run", "true: shows what would be set")}},
    [OPERATE_QUOTA_DELETE] = {.command = "quota.delete",
                              .flags = OPERATE_EDITS,
                              .field_count = 1,
                              .fields = {NEEDED("user", "whose quota it is")}},
    [OPERATE_KEYS] = {.command = "apikey.list",
                      .list = "api_keys",
                      .flags = OPERATE_LARGE,
                      .field_count = 2,
                      .fields = {TEXT("owner", "whose keys alone"), AFTER("id")}},
    [OPERATE_KEY_CREATE] = {.command = "apikey.create",
                            .flags = OPERATE_EDITS | OPERATE_MAKES,
                            .field_count = 7,
                            .fields = {TEXT("name", "what people call it"),
                                       TEXT("owner", "the user that requests with it are of"),
                                       TEXT("tier", "that counts instead of the request's"), LIMITS,
                                       BURST, FOR, UNTIL}},
    [OPERATE_KEY] = {.command = "apikey.show",
                     .flags = OPERATE_TAGGED,
                     .field_count = 1,
                     .fields = {TEXT("key", "its id, or a name that no other has")}},
    [OPERATE_KEY_REVOKE] = {.command = "apikey.revoke",
                            .flags = OPERATE_EDITS,
                            .field_count = 1,
                            .fields = {TEXT("key", "its id, or a name that no other has")}},
    [OPERATE_KEY_DELETE] = {.command = "apikey.delete",
                            .flags = OPERATE_EDITS,
                            .field_count = 2,
                            .fields = {TEXT("key", "its id, or a name that no other has"),
                                       FLAG("force", "true: the last one, too")}},
    [OPERATE_POOLS] = {.command = "pools.list", .list = "pools", .flags = OPERATE_LARGE},
    [OPERATE_POOL_LOAD] = {.command = "pools.report",
                           .field_count = 2,
                           .fields = {TEXT("pool", "its name"),
                                      {.name = "load",
                                       .kind = OPERATE_SHARE,
                                       .needed = true,
                                       .says = "how loaded is what the pool protects"}}},
    [OPERATE_EDIT] = {.command = "edit.state",
                      .field_count = 1,
                      .fields = {TEXT("id", "of the edit")}},
    [OPERATE_DRAIN] = {.command = "drain", ASKED_TO_GO},
    [OPERATE_LEAVE] = {.command = "leave", ASKED_TO_GO},
    [OPERATE_REMOVE] =
        {.command = "remove",
         .field_count = 4,
         .fields = {TEXT("node", "name or id of a dead member"), TEXT("region", "instead"),
                    FLAG("force", "true: although the ring is frozen"),
                    TEXT("author",
                         "who asks, for the log; by default http and the address that asks")}},
};
