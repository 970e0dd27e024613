/* resources.c - see resources.h. */
#include "node/runtime/system/resources.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_PATH "/proc/self/fd"

static int64_t ns_of(const struct timeval *time)
{
    return (int64_t)time->tv_sec * 1000000000 + (int64_t)time->tv_usec * 1000;
}

static void look_at_memory(struct control_process *out)
{
    char text[128];
    uint64_t pages = 0;
    uint64_t resident = 0;
    const long page = sysconf(_SC_PAGESIZE);
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        (void)close(fd);
    text[len > 0 ? len : 0] = '\0';
    if (page <= 0 || sscanf(text, "%" SCNu64 " %" SCNu64, &pages, &resident) != 2)
        return;
    out->virtual = pages * (uint64_t)page;
    out->resident = resident * (uint64_t)page;
}

/* Newer kernels tell by the folder's size; else its entries are counted, but for the folder's own
 * descriptor and the two that every folder has. */
static uint64_t count_files(void)
{
    enum { NO_FILES = 3 };
    struct stat folder;
    uint64_t count = 0;
    if (stat(FILES_PATH, &folder) == 0 && folder.st_size > 0)
        return (uint64_t)folder.st_size;
    DIR *files = opendir(FILES_PATH);
    if (files == NULL)
        return 0;
    while (readdir(files) != NULL)
        count++;
    (void)closedir(files);
    return count > NO_FILES ? count - NO_FILES : 0;
}

void resources_look(struct control_process *out)
{
    struct rusage usage;
    *out = (struct control_process){.open_files = count_files()};
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        out->cpu_ns = ns_of(&usage.ru_utime) + ns_of(&usage.ru_stime);
    look_at_memory(out);
}
