/* admin_cred.c - see admin_cred.h.
 *
 *   tga_abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst     260 random bits
 */
#include "node/runtime/system/admin_cred.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

#define PREFIX "tga_"

enum {
    RANDOM_LETTERS = 52,
    TOKEN_LEN = sizeof PREFIX - 1 + RANDOM_LETTERS,
    TOKEN_MIN = 32, /* of one that people have put there */
    TOKEN_MAX = 256,
    FILE_LEN = TOKEN_MAX + 8,
    MODE = 0600,
    MODE_OTHERS = 0077,
    PATH_LEN = 4096
};

static void make_token(char out[TOKEN_LEN + 2])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t random[RANDOM_LETTERS];
    randombytes_buf(random, sizeof random);
    memcpy(out, PREFIX, sizeof PREFIX - 1);
    for (size_t i = 0; i < RANDOM_LETTERS; i++)
        out[sizeof PREFIX - 1 + i] = letters[random[i] % (sizeof letters - 1)];
    out[TOKEN_LEN] = '\n';
    out[TOKEN_LEN + 1] = '\0';
    sodium_memzero(random, sizeof random);
}

/* Makes the file, whole or not at all: it is written beside its place. TG_EEXISTS: it is there. */
static int make_file(const char *path)
{
    char beside[PATH_LEN];
    char line[TOKEN_LEN + 2];
    if (snprintf(beside, sizeof beside, "%s.new", path) >= (int)sizeof beside)
        return TG_EIO;
    (void)unlink(beside);
    const int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
    if (file < 0)
        return TG_EIO;
    make_token(line);
    const bool written = write(file, line, TOKEN_LEN + 1) == TOKEN_LEN + 1 && fsync(file) == 0;
    sodium_memzero(line, sizeof line);
    const int wrong = errno;
    (void)close(file);
    const bool there = written && link(beside, path) == 0;
    const int error = there ? 0 : !written ? TG_EIO : errno == EEXIST ? TG_EEXISTS : TG_EIO;
    const int why = written ? errno : wrong;
    (void)unlink(beside);
    errno = why;
    return error;
}

/* Reads the line. Its length without what ends it, or -1. */
static ssize_t read_file(const char *path, char out[FILE_LEN], bool *shared)
{
    struct stat status;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return -1;
    ssize_t len = read(file, out, FILE_LEN);
    const int why = errno;
    *shared =
        fstat(file, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & MODE_OTHERS) != 0;
    (void)close(file);
    while (len > 0 && (out[len - 1] == '\n' || out[len - 1] == '\r' || out[len - 1] == ' '))
        len--;
    errno = why;
    return len;
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return len >= TOKEN_MIN && len <= TOKEN_MAX;
}

int admin_cred_open(const char *path, const struct log *log, struct admin_cred *out)
{
    char text[FILE_LEN];
    bool shared = false;
    ssize_t len = read_file(path, text, &shared);
    *out = (struct admin_cred){.given = false};
    if (len < 0 && errno == ENOENT) {
        const int made = make_file(path);
        if (made == 0)
            log_printf(log, LOG_LEVEL_INFO, "%s: made, with the token of operators' calls", path);
        if (made == 0 || made == TG_EEXISTS)
            len = read_file(path, text, &shared);
    }
    if (len < 0) {
        log_printf(log, LOG_LEVEL_ERROR,
                   "%s: cannot be read or made: %s; expected a file of the "
                   "node's user (--admin-cred)",
                   path, strerror(errno));
        return TG_EINVALID;
    }
    out->given = is_token(text, (size_t)len);
    digest_make(text, (size_t)len, &out->digest);
    sodium_memzero(text, sizeof text);
    if (!out->given) {
        log_printf(log, LOG_LEVEL_ERROR,
                   "%s: found no token; expected one line of %d to %d letters, "
                   "digits and signs (remove the file, and it is made anew)",
                   path, (int)TOKEN_MIN, (int)TOKEN_MAX);
        return TG_EINVALID;
    }
    if (shared)
        log_printf(log, LOG_LEVEL_WARN,
                   "%s may be read by others than the node's user, who may then "
                   "do everything; expected mode 0600",
                   path);
    return 0;
}
