/* resources.h - what the machine says of this process: processors, memory, open files. */
#ifndef NODE_RUNTIME_SYSTEM_RESOURCES_H
#define NODE_RUNTIME_SYSTEM_RESOURCES_H

#include "node/cluster/control/control.h"

/* Fills in all but max_files; what cannot be read is 0. Some 50 us. Any thread. */
void resources_look(struct control_process *out);

#endif
