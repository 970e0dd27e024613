/* members.h - all members of the cluster, asked at once.
 *
 *   asked node --members--> who there is, in its order
 *
 *   thread  --tg_open--> n1 --question--> answer --+
 *   thread  --tg_open--> n2 --question--> answer --+--> what the caller adds up
 *   thread  --tg_open--> n3 --question-->   -      |    n3: not answered
 *   ...                                     ...  --+
 *
 * MEMBERS-1  Each member is asked for as long as the command's timeout allows, beside all others:
 *            so the whole takes one timeout, whoever does not answer. Of more than
 *            CLI_MEMBERS_AT_ONCE the next one is asked as soon as one is done with.
 * MEMBERS-2  Who is dead, or of a region out of reach, is not asked; who has left is no member.
 * MEMBERS-3  Answers come in any order, on several threads: the caller locks what they share.
 */
#ifndef CLIENT_CLI_SESSION_MEMBERS_H
#define CLIENT_CLI_SESSION_MEMBERS_H

#include "client/cli/session/answer.h"

enum {
    CLI_MEMBERS_AT_ONCE = 32, /* each takes four threads and ten descriptors */
    CLI_ADDRESS_LEN = 128,
    CLI_TIME_LEN = 40
};

struct cli_member {
    char name[CLI_MEMBER_LEN];
    char region[CLI_MEMBER_LEN];
    char address[CLI_ADDRESS_LEN];
    char lost[CLI_TIME_LEN]; /* since when its region is out of reach; "": it is not */
    bool asked;              /* MEMBERS-2; the caller may take it back */
    bool answered;           /* what its cli_member_ask returned */
};

struct cli_members {
    struct cli_member *list; /* in the order of the answer */
    size_t count;
    size_t capacity;
};

/* Asks the node for its members. Returns the exit status, after complaining. To be finished in any
 * case. */
MUST_USE int cli_members_read(struct cli *cli, struct cli_members *members);
void cli_members_fini(struct cli_members *members);

/* Asks one member what the caller wants to know: `there` is the command with a connection to it,
 * which may be asked more than once. Returns whether it answered. */
typedef bool (*cli_member_ask)(struct cli *there, const struct cli_member *member, void *argument);

/* Has all members asked that are to be; returns when none is any more. */
void cli_members_ask(const struct cli *cli, struct cli_members *members, cli_member_ask ask,
                     void *argument);

#endif
