/* listener.c - TCP ports beside ZeroMQ's. Only the start of the node calls this: a name may be
 * looked up.
 */
#include "node/runtime/system/listener.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"

enum { BACKLOG = 1024, PORT_LEN = 8 };

static int listen_at(const struct addrinfo *address, bool shared, int *out)
{
    const int on = 1;
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return TG_EIO;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shared)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        *out = fd;
        return 0;
    }
    const int error = errno;
    (void)close(fd);
    if (error == EADDRINUSE)
        return TG_EADDRINUSE;
    return error == EADDRNOTAVAIL ? TG_EINVALID : TG_EIO;
}

static int open_one(const char *host, uint16_t port, bool shared, int *out)
{
    const bool any = strcmp(host, "*") == 0;
    const struct addrinfo wanted = {
        .ai_family = any ? AF_INET : AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
    };
    struct addrinfo *found;
    char text[PORT_LEN];
    *out = -1;
    (void)snprintf(text, sizeof text, "%u", port);
    if (getaddrinfo(any ? NULL : host, text, &wanted, &found) != 0)
        return TG_EINVALID;
    const int result = listen_at(found, shared, out);
    freeaddrinfo(found);
    return result;
}

int listener_open(const char *host, uint16_t port, int *out)
{
    return open_one(host, port, false, out);
}

int listener_open_group(const char *host, uint16_t port, uint32_t count, int *out)
{
    int probe;
    for (uint32_t i = 0; i < count; i++)
        out[i] = -1;
    int error = open_one(host, port, false, &probe); /* not where anybody listens, shared or not */
    listener_close(&probe);
    for (uint32_t i = 0; error == 0 && i < count; i++)
        error = open_one(host, port, true, &out[i]);
    for (uint32_t i = 0; error != 0 && i < count; i++)
        listener_close(&out[i]);
    ASSERT(error != 0 || count == 0 || out[count - 1] >= 0);
    return error;
}

/* Whether a process accepts there; what is left of one that has ended is taken away. */
static int take_path(const struct sockaddr_un *address)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0)
        return errno == ENOENT ? 0 : TG_EINVALID;
    if (!S_ISSOCK(status.st_mode))
        return TG_EINVALID;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return TG_EIO;
    const bool dead = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                      errno == ECONNREFUSED;
    (void)close(fd);
    if (!dead)
        return TG_EADDRINUSE;
    return unlink(address->sun_path) == 0 ? 0 : TG_EINVALID;
}

int listener_open_path(const char *path, int *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *out = -1;
    if (strlen(path) >= sizeof address.sun_path)
        return TG_EINVALID;
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int error = take_path(&address);
    if (error != 0)
        return error;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return TG_EIO;
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        chmod(path, S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP) == 0 && listen(fd, BACKLOG) == 0) {
        *out = fd;
        return 0;
    }
    const int failed = errno;
    (void)close(fd);
    return failed == EADDRINUSE ? TG_EADDRINUSE : TG_EINVALID;
}

void listener_close(int *listener)
{
    if (*listener >= 0)
        (void)close(*listener);
    *listener = -1;
}
