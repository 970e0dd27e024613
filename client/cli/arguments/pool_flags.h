/* pool_flags.h - the flags of `pools set`, read into what is to be changed of a pool.
 */
#ifndef CLIENT_CLI_ARGUMENTS_POOL_FLAGS_H
#define CLIENT_CLI_ARGUMENTS_POOL_FLAGS_H

#include "client/cli/arguments/arguments.h"

/* As they were given; NULL: not at all. */
struct pool_flags {
    const char *rate;
    const char *load_max;
    const char *reserve;
    const char *scope;
    const char *home;
};

/* Fills in all of `edit` but its name. An exit status; of a failure `sentence` says what is wrong.
 */
int cli_read_pool_flags(const struct pool_flags *given, struct pool_edit *edit,
                        char sentence[CLI_SENTENCE_LEN]);

#endif
