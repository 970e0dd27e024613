/* rules_watch.h - a thread that notices when what --rules names has changed, and reads it again.
 *
 *   once a second   stamp of what the path leads to (rules_source.h)
 *                     --> as it was read last        nothing
 *                     --> another than a look ago    nothing yet: somebody is still writing
 *                     --> other, and still           read whole, and stamped once more
 *                                                      --> other again: from the beginning
 *                                                      --> the same: handed over, once
 *
 * Looks are simpler than the kernel's notices, and right where these are not: a ConfigMap swaps
 * `..data`, others swap a link above the directory, and a mounted share tells nobody. A path is
 * resolved anew with each look, so it does not matter where on it a link was turned. A thread of
 * its own looks, for a share that hangs must not hold up the control loop.
 *
 * RULESWATCH-1  What was not still for RULES_WATCH_EVERY_NS is not read, and what has changed while
 *               it was read is not handed over.
 * RULESWATCH-2  One content, or one error, is handed over once, until there was another.
 * RULESWATCH-3  One that was not taken gives way to a newer one.
 *
 * Also here, and pure: which of a directory's contents may replace the cluster's rules. Nodes see
 * an edit of their directories at different times, and some do not see each.
 *
 * RULESWATCH-4  Of the edits that directories have made, the last one is followed by whatever a
 *               node has that had it. Another node may bring only what is in none of them: what it
 *               has may be older. So the node that made the last edit is the one that undoes it,
 *               and when all directories are alike, so is the last edit.
 */
#ifndef NODE_RUNTIME_CONTROL_RULES_WATCH_H
#define NODE_RUNTIME_CONTROL_RULES_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "node/sources/rules_source.h"

#define RULES_WATCH_EVERY_NS INT64_C(1000000000)

/* ---- when to read: pure */

struct rules_eye {
    struct hash128 read; /* the stamp of what was read last */
    struct hash128 seen; /* at the last look */
    struct hash128 told; /* of the content, or error, that was handed over last */
};

/* A look: whether what has this stamp is to be read now. */
bool rules_eye_look(struct rules_eye *eye, struct hash128 stamp);
/* After it was read: whether that is whole, for its stamp is what it was at the look. */
bool rules_eye_read(struct rules_eye *eye, struct hash128 stamp);
/* Whether what was found is to be handed over, for it is not what was handed over last. */
bool rules_eye_tell(struct rules_eye *eye, struct hash128 content);

/* ---- what to apply: pure */

struct rules_text {
    const char *data; /* as it is kept (packed.h) */
    size_t len;
};

struct rules_judge {
    struct rules_text was; /* what the node had before, or NULL */
    struct rules_text is;
    bool followed; /* `was` is the last edit */
    bool last;     /* `is` is the last one, */
    bool known;    /* or one of them */
};

enum rules_verdict {
    RULES_APPLY,
    RULES_APPLIED, /* they are the last edit already */
    RULES_OLDER    /* an edit that another one has followed (RULESWATCH-4) */
};

/* Tells it of the next edit that was made by a directory or file, oldest first. */
void rules_judge_tell(struct rules_judge *judge, const struct rules_text *edit);
enum rules_verdict rules_judge_end(const struct rules_judge *judge);

/* ---- the thread */

struct rules_watch;

struct rules_watch_options {
    const char *path; /* lives as long as it */
    size_t len_max;   /* of all files */
    struct hash128
        first; /* the stamp of what was read at the start; all 0: look at what is there */
    void (*wake)(void *context); /* something can be taken; called by the thread */
    void *context;
};

enum { RULES_WATCH_ERROR_LEN = 4096 + 512 };

struct rules_watched {
    struct rules_source source; /* whoever takes it frees it */
    bool failed;                /* there is none: */
    char error[RULES_WATCH_ERROR_LEN];
};

/* Starts the thread. 0 or TG_ENOMEM. */
MUST_USE int rules_watch_new(const struct rules_watch_options *options, struct rules_watch **out);
/* Ends it, after the look at hand. */
void rules_watch_free(struct rules_watch **watch);
/* What has been read since the last call. False: nothing new. Any one thread. */
bool rules_watch_take(struct rules_watch *watch, struct rules_watched *out);

#endif
