/* signals.c - a signalfd for what every thread blocks. */
#include "node/runtime/system/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t held(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    return set;
}

void signals_hold(void)
{
    const sigset_t set = held();
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    /* What nohup or a shell had this process ignore would not wait. */
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGHUP, SIG_DFL);
}

int signals_open(int *out)
{
    const sigset_t set = held();
    *out = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return *out >= 0 ? 0 : TG_EIO;
}

int signals_take(int signals)
{
    struct signalfd_siginfo taken;
    return read(signals, &taken, sizeof taken) == sizeof taken ? (int)taken.ssi_signo : 0;
}

void signals_close(int *signals)
{
    if (*signals >= 0)
        (void)close(*signals);
    *signals = -1;
}
