/* support_scratch.c - names that nobody else has, from mkstemp and mkdtemp. */
#include "tests/unit/support_scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *scratch_root(void)
{
    const char *const root = getenv("TMPDIR");
    return root != NULL && root[0] != '\0' ? root : "/tmp";
}

/* 0, or -1 if the path is too long. */
static int pattern(char path[SCRATCH_PATH_LEN], const char *name)
{
    const int len = snprintf(path, SCRATCH_PATH_LEN, "%s/%s-XXXXXX", scratch_root(), name);
    return len < 0 || len >= SCRATCH_PATH_LEN ? -1 : 0;
}

int scratch_file(char path[SCRATCH_PATH_LEN], const char *name)
{
    if (pattern(path, name) != 0)
        return -1;
    const int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

int scratch_folder(char path[SCRATCH_PATH_LEN], const char *name)
{
    return pattern(path, name) != 0 || mkdtemp(path) == NULL ? -1 : 0;
}
