/* commands.c - see commands.h. */
#include "node/policy/rights/commands.h"

#include <string.h>

static const struct {
    const char *command;
    enum right right;
} table[] = {
    {"status", RIGHT_OBSERVE},
    {"metrics", RIGHT_OBSERVE},
    {"members", RIGHT_OBSERVE},
    {"regions", RIGHT_OBSERVE},
    {"ring", RIGHT_OBSERVE},
    {"events", RIGHT_OBSERVE},
    {"owner", RIGHT_OBSERVE},
    {"rules.list", RIGHT_OBSERVE},
    {"rules.validate", RIGHT_OBSERVE},
    {"rules.explain", RIGHT_OBSERVE},
    {"rules.show", RIGHT_OBSERVE},
    {"rules.diff", RIGHT_OBSERVE},
    {"rules.history", RIGHT_OBSERVE},
    {"edit.state", RIGHT_OBSERVE},
    {"pools.list", RIGHT_OBSERVE},
    {"pools.report", RIGHT_ADJUST}, /* by what the pool protects */
    {"block", RIGHT_OPERATE}, /* whom operators keep an eye on is not for everybody who observes */
    {"unblock", RIGHT_OPERATE},
    {"blocks", RIGHT_OPERATE},
    {"quota.set", RIGHT_OPERATE},
    {"quota.show", RIGHT_OPERATE},
    {"quota.list", RIGHT_OPERATE},
    {"quota.delete", RIGHT_OPERATE},
    {"drain", RIGHT_OPERATE},
};

enum right command_right(const char *command, size_t len)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].command) == len && memcmp(table[i].command, command, len) == 0)
            return table[i].right;
    return RIGHT_ADMIN; /* RIGHTS-2 */
}
