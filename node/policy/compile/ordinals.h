/* ordinals.h - which count is whose when the limits of a rule are edited.
 *
 * What is counted is named by rule, key values, algorithm and an ordinal, never by the rate. So the
 * ordinal says which limit of the new list is which of the old one:
 *
 *   version 6            version 7                       version 8
 *   5/s   ordinal 0      10/d  1  same window: stays     20/d  1  same window: stays
 *   10/d  ordinal 1                                      5/s   0  it was here: has its count again
 *                                                        9/h   2  no other ever had it: anew
 *
 * ORDINALS-1  A limit whose algorithm and window are those of one before keeps its ordinal,
 *             wherever it stands and whatever it counts; of two such limits, those of the same
 *             count first, then in order.
 * ORDINALS-2  Else it takes the one that it had in a version that is still kept, if it is free.
 * ORDINALS-3  Else, if it is the only limit of its algorithm that came, and exactly one of that
 *             algorithm went, it takes that one's: its window was changed.
 * ORDINALS-4  Else it gets one that no kept version has used, and begins anew.
 * ORDINALS-5  First versions, and files that no store knows, have positions among limits of one
 *             algorithm.
 *
 * All limits of a user's plan - the rules of group `tier` counted by [user], those of tiers among
 * them - have one identity, own_limits_user_rule's, so that a change of tier or of own limits keeps
 * what was consumed. A window of one unit gives them their ordinal (own_limits_ordinal); the others
 * are told apart as above, over all plans together.
 *
 * The store keeps beside the rules what positions do not tell, as bytes:
 *
 *   u8 1 | u32 rules | rules x (u16 len | name | u16 limits | limits x
 *          (u8 algorithm | u8 align | u64 window ns | u8 ordinal | u64 gone))
 *
 * Limits in force come first, in file order; `gone` is 0 for them, and for the others the last
 * version of the rules that had them. Nodes of an older release keep the bytes without reading
 * them, and go by positions.
 *
 * Pure; not for the check path: it allocates.
 */
#ifndef NODE_POLICY_COMPILE_ORDINALS_H
#define NODE_POLICY_COMPILE_ORDINALS_H

#include "node/policy/model/policy.h"

enum {
    ORDINALS_MAX = 128,           /* of one rule and algorithm: below those of own limits */
    ORDINALS_LEN_MAX = 256 * 1024 /* bytes that are kept beside the rules */
};

/* Gives the limits of a policy their positions (ORDINALS-5); while it is compiled. */
void ordinals_place(struct policy *policy);
/* Gives the limits of a policy, which nobody else has yet, the ordinals that `bytes` know. 0,
 * TG_EPROTOCOL (not such bytes: positions stay) or TG_ENOMEM. */
MUST_USE int ordinals_give(struct policy *policy, const void *bytes, size_t len,
                           const struct allocator *allocator);

/* An edit of the rules. */
struct ordinals_edit {
    const struct policy *old; /* in force, with its ordinals */
    const struct policy *new; /* that follow, as compiled */
    const void *known;        /* bytes kept beside the old rules; len 0: none */
    size_t known_len;
    uint64_t version; /* of the old rules */
    uint64_t oldest;  /* the oldest version that is kept */
    size_t len_max;   /* room for bytes beside the new rules */
};

/* What becomes of it. */
struct ordinals {
    const struct allocator *allocator;
    uint8_t *given; /* [rank of the rule * POLICY_LIMITS_MAX + limit] of the new policy */
    bool *back;     /* the same places: it is that of a limit that had gone */
    size_t given_len;
    uint8_t *bytes; /* to be kept beside the new rules */
    size_t len;     /* 0: positions tell all */
    size_t capacity;
};

/* 0, or TG_ENOMEM: nothing is held. Where there is no room for it, what is gone is forgotten, and
 * what has no room even so goes by position: better a count exchanged than rules refused. */
MUST_USE int ordinals_edit(const struct ordinals_edit *edit, const struct allocator *allocator,
                           struct ordinals *out);
void ordinals_fini(struct ordinals *ordinals);

enum ordinals_fate {
    ORDINALS_ANEW,
    ORDINALS_STAYS, /* it goes on with a count of the old policy */
    ORDINALS_BACK   /* or with the one that it had before it went */
};

/* What becomes of limit `i` of `rule`, of the new policy; `before` is the rule of its name in the
 * old one, or NULL. */
enum ordinals_fate ordinals_fate(const struct ordinals *ordinals, const struct policy *old,
                                 const struct policy_rule *before, const struct policy_rule *rule,
                                 uint32_t i);
/* Whether limit `i` of `rule`, of the old policy, has no successor in the new one, where `after`
 * has its name: its count ends. */
bool ordinals_ends(const struct ordinals *ordinals, const struct policy_rule *rule, uint32_t i,
                   const struct policy *new, const struct policy_rule *after);

#endif
