/* process.h - what the process tells its starter: its version, and how it ended. */
#ifndef NODE_RUNTIME_SYSTEM_PROCESS_H
#define NODE_RUNTIME_SYSTEM_PROCESS_H

/* Exit codes of the process. */
enum daemon_exit {
    DAEMON_OK = 0,
    DAEMON_CONFIG = 2, /* bad configuration */
    DAEMON_DATA = 3,   /* data unusable */
    DAEMON_ADDRESS = 4 /* address in use */
};

#define DAEMON_VERSION "0.1.0"

#endif
