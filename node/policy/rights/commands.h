/* commands.h - which right an operator's command needs, by whatever protocol it comes.
 *
 * RIGHTS-2  A command that is not in the table needs `admin`: one that is added and forgotten here
 *           is nobody's by chance.
 */
#ifndef NODE_POLICY_RIGHTS_COMMANDS_H
#define NODE_POLICY_RIGHTS_COMMANDS_H

#include <stddef.h>

#include "node/policy/rights/rights.h"

enum right command_right(const char *command, size_t len);

#endif
