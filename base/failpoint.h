/* failpoint.h - named places at which a fault test ends the process.
 *
 * A kill at a random moment seldom meets the one microsecond that matters: between a commit and
 * the answer that promised it, or between a message and what it announced. So the code names those
 * places. A program that was not told to fail carries a NULL pointer, and a place costs one
 * comparison where nothing is hot:
 *
 *     failpoint_reach(store->failpoints, FAILPOINT_STATE_BEFORE_COMMIT);
 *
 * The names are those of TIDEGATE_FAILPOINT="name:n", which the daemon reads
 * (node/runtime/system/failure.h); tests/cluster/README.md tells how they are used.
 *
 * Must not know how a process is ended: that is the edge's.
 */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* X(NAME, "name"). "before-X" is reached when all but X is done; "after-X", when X is. */
#define FAILPOINT_MAP(X)                                                                           \
    X(STATE_BEFORE_COMMIT, "state-before-commit")     /* of limiter slots */                       \
    X(STATE_AFTER_COMMIT, "state-after-commit")       /* not told to the shard yet */              \
    X(META_BEFORE_COMMIT, "meta-before-commit")       /* of promises, identity, incarnation */     \
    X(META_AFTER_COMMIT, "meta-after-commit")         /* nothing that relies on it was sent */     \
    X(JOURNAL_BEFORE_COMMIT, "journal-before-commit") /* what an acceptor must not forget */       \
    X(JOURNAL_AFTER_COMMIT, "journal-after-commit")                                                \
    X(PROMISE_BEFORE_COMMIT, "promise-before-commit") /* a journal batch with a promise */         \
    X(PROMISE_AFTER_COMMIT, "promise-after-commit")                                                \
    X(REGISTER_BEFORE_COMMIT, "register-before-commit") /* a voter's promise or acceptance */      \
    X(REGISTER_AFTER_COMMIT, "register-after-commit")                                              \
    X(CONFIG_BEFORE_COMMIT, "config-before-commit") /* a ring configuration */                     \
    X(CONFIG_AFTER_COMMIT, "config-after-commit")                                                  \
    X(SLOT_BEFORE_SEND, "slot-before-send") /* state on its way to a replica */                    \
    X(SLOT_AFTER_SEND, "slot-after-send")                                                          \
    X(ACK_BEFORE_SEND, "ack-before-send")   /* the replica has it, the decider does not know */    \
    X(HELD_BEFORE_SEND, "held-before-send") /* a complete copy is here, unconfirmed */             \
    X(HELD_AFTER_RECEIVE, "held-after-receive") /* a complete copy was confirmed */                \
    X(PASS_BEFORE_SEND, "pass-before-send")     /* sealed, nobody told */                          \
    X(PASS_AFTER_SEND, "pass-after-send")                                                          \
    X(PASS_AFTER_RECEIVE, "pass-after-receive")                                                    \
    X(OPENED_BEFORE_SEND, "opened-before-send") /* a term is open, nobody told */                  \
    X(OPENED_AFTER_SEND, "opened-after-send")                                                      \
    X(MARK_AFTER_SEND, "mark-after-send")           /* a copy was sent whole, not confirmed */     \
    X(DIVERGED_BEFORE_SEND, "diverged-before-send") /* a split's branch, for whoever decides */    \
    X(DIVERGED_AFTER_SEND, "diverged-after-send")                                                  \
    X(MERGED_BEFORE_SEND, "merged-before-send") /* the branch is merged, nobody told */            \
    X(MERGED_AFTER_RECEIVE, "merged-after-receive")                                                \
    X(ANSWER_BEFORE_SEND, "answer-before-send") /* decided for another node, not answered */

enum failpoint {
#define FAILPOINT_ENUM(name, text) FAILPOINT_##name,
    FAILPOINT_MAP(FAILPOINT_ENUM)
#undef FAILPOINT_ENUM
        FAILPOINT_COUNT
};

struct failpoints {
    /* Called at every named place, from any thread. It may not return. */
    void (*reach)(void *context, enum failpoint point);
    void *context;
};

/* `failpoints` may be NULL: nothing happens. */
static inline void failpoint_reach(const struct failpoints *failpoints, enum failpoint point)
{
    if (failpoints != NULL)
        failpoints->reach(failpoints->context, point);
}

/* The name of a point. Static storage, any thread. */
const char *failpoint_name(enum failpoint point);
/* Reads "name:n", n from 1 on. TG_EINVALID for anything else; the outputs are unchanged then. */
MUST_USE int failpoint_parse(const char *text, enum failpoint *point, uint64_t *times);

#endif
