/* main.c - tidegated: reads the configuration and runs the node. It decides nothing else. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>

#include "node/runtime/config/config.h"
#include "node/runtime/start/daemon.h"
#include "node/runtime/system/container.h"
#include "node/runtime/system/process.h"

/* A longer block is a mapping of its own, and goes back to the system when it is freed. By default
 * glibc takes such blocks from the heap once one of them was freed, and what lies above a hundred
 * freed messages of a megabyte keeps all of them. */
enum { MAPPED_LEN = 256 << 10 };

/* As much that is free at a heap's end stays with it. LMDB takes the pages of a transaction from
 * the heap, and frees them all: given back each time, they would be mapped and cleared each time.
 */
enum { KEPT_LEN = 8 << 20 };

int main(int argc, char **argv)
{
    static struct config config;
    char error[CONFIG_ERROR_LEN];
    char help[CONFIG_HELP_LEN];
    struct container container;
    container_look("", &container);
    container_settle(&container);
    const int result =
        config_parse(argc, (const char *const *)argv, &container, &config, error, sizeof error);
    if (result == CONFIG_HELP) {
        (void)config_help(help, sizeof help);
        (void)fputs(help, stdout);
        return DAEMON_OK;
    }
    if (result == CONFIG_VERSION) {
        (void)puts("tidegated " DAEMON_VERSION);
        return DAEMON_OK;
    }
    if (result != 0) {
        (void)fprintf(stderr, "tidegated: %s\n", error);
        return DAEMON_CONFIG;
    }
    /* Who reads the log may go, a file may be as long as allowed; the node stays. A failed write is
     * an error like any other. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_LEN);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_LEN);
    return config.check_config ? daemon_check(&config) : daemon_run(&config);
}
