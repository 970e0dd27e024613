/* support_death.c - a child process whose end is looked at.
 *
 *   parent  --fork-->  child: act()  --stderr through a pipe-->  parent reads until it closes
 *
 * The child must not return into the test runner, so it exits at once if `act` comes back.
 */
#include "tests/unit/support_death.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"

static _Noreturn void child_run(void (*act)(void *context), void *context, int stderr_fd)
{
    const struct rlimit no_core = {0, 0};

    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)signal(SIGABRT, SIG_DFL); /* the test runner catches it otherwise */
    (void)dup2(stderr_fd, STDERR_FILENO);
    act(context);
    _exit(0);
}

bool death_by_assert(void (*act)(void *context), void *context, char *message, size_t capacity)
{
    char text[512] = "";
    size_t len = 0;
    ssize_t got;
    int ends[2];
    int status;

    ASSERT(pipe(ends) == 0);
    (void)fflush(NULL);
    const pid_t child = fork();
    ASSERT(child >= 0);
    if (child == 0)
        child_run(act, context, ends[1]);
    close(ends[1]);
    while (len < sizeof(text) - 1 && (got = read(ends[0], text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)got;
    close(ends[0]);
    ASSERT(waitpid(child, &status, 0) == child);
    if (message != NULL)
        (void)snprintf(message, capacity, "%s", text);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
