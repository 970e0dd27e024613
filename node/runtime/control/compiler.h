/* compiler.h - a thread that compiles rules, so that the control loop goes on meanwhile.
 *
 * Ten thousand rules take a tenth of a second of a processor that has nothing else to do. Gossip,
 * leases and operators would wait as long, on every node at the same time.
 *
 *     control loop                          thread
 *       compiler_ask(job)  --> waiting -->  packed_compile; a file is packed first, if it is large
 *       compiler_take()    <--   done  <--  a policy, or an error with its place; `wake` is called
 *
 * COMPILER-1  A job is the loop's, or the compiler's from compiler_ask to compiler_take.
 * COMPILER-2  Of the rules that are to be in force one job waits at a time, and one of the rules
 *             file: a newer one takes the place of the older, which is freed. At most
 *             COMPILER_QUESTIONS_MAX questions are with the compiler, waiting or done; more are
 *             refused.
 * COMPILER-3  Rules to be in force go first, the file next, questions last.
 * COMPILER-4  A text that comes twice in a row is compiled once: rules are compared with what is
 *             there, applied, and put in force, and it is one text each time. With other ordinals
 *             it is another.
 *
 * compiler_ask and compiler_take belong to one thread, the control loop's.
 */
#ifndef NODE_RUNTIME_CONTROL_COMPILER_H
#define NODE_RUNTIME_CONTROL_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "node/policy/compile/policy_errors.h"
#include "node/policy/compile/policy_warnings.h"
#include "node/policy/model/policy.h"
#include "node/runtime/system/mailbox.h"

enum { COMPILER_QUESTIONS_MAX = 8, COMPILER_AUTHOR_LEN = 136 };

enum compiler_purpose {
    COMPILER_RULES,    /* to be in force */
    COMPILER_FILE,     /* of the rules file, to be applied */
    COMPILER_QUESTION, /* of an operator, in `message` */
    COMPILER_PURPOSES
};

struct compiler_job {
    enum compiler_purpose purpose;
    const char *text; /* in `block`: a document, as of packed.h; FILE: that, once it is done */
    size_t len;
    bool joined;      /* FILE: it is of a directory (rules_join.h) */
    void *block;      /* malloc'ed, freed with the job */
    uint64_t version; /* RULES: of the settings */
    void *known;      /* RULES: for ordinals_give; malloc'ed, freed with the job */
    size_t known_len;
    char author[COMPILER_AUTHOR_LEN]; /* RULES: whose they are */
    struct mailbox_message message;   /* QUESTION: whom to answer; its block is `block` */
    /* when it is done */
    int error;
    struct policy *policy; /* NULL after an error; else freed with the job, if nobody took it */
    struct policy_error place;
    struct policy_errors *errors;    /* not RULES: all places of a text that is refused, or NULL */
    struct policy_warning *warnings; /* QUESTION: what the policy probably does not mean */
    size_t warning_count;
    struct compiler_job *next;
};

struct compiler;

struct compiler_options {
    const struct allocator *allocator; /* of policies; any thread may free them */
    const struct policy_zones *zones;
    void (*wake)(void *context); /* a job is done; called by the thread */
    void *context;
};

/* Starts the thread. 0 or TG_ENOMEM. */
MUST_USE int compiler_new(const struct compiler_options *options, struct compiler **out);
/* Waits for the job at hand, ends the thread and frees all jobs. */
void compiler_free(struct compiler **compiler);

/* A job with a copy of the text, or (text NULL) one whose block the caller sets. NULL: no memory.
 */
struct compiler_job *compiler_job_new(enum compiler_purpose purpose, const char *text, size_t len);
/* Has the job's limits given the ordinals that these bytes know, a copy of them. False: no memory.
 */
MUST_USE bool compiler_job_know(struct compiler_job *job, const void *bytes, size_t len);
void compiler_job_free(struct compiler_job **job);

/* Hands the job over. False, and it stays the caller's: too many questions (COMPILER-2). */
MUST_USE bool compiler_ask(struct compiler *compiler, struct compiler_job *job);
/* The next job that is done, now the caller's; or NULL. */
struct compiler_job *compiler_take(struct compiler *compiler);

/* Compiles the job here and now, for a loop that has nothing else to do yet. */
void compiler_do(const struct compiler_options *options, struct compiler_job *job);

#endif
