/* rules_file.c - reads a file of rules into memory, or says why it cannot. */
#include "client/cli/rules_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "client/cli/cli.h"
#include "node/policy/policy.h"

/* Reads up to `capacity` bytes. False after complaining. */
static bool read_all(const char *path, struct cli_rules_file *file)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    FILE *from = is_stdin ? stdin : fopen(path, "rb");
    if (from == NULL) {
        cli_complain("cannot open %s: %s", path, strerror(errno));
        return false;
    }
    file->len = fread(file->text, 1, file->capacity, from);
    const bool bad = ferror(from) != 0;
    const int error = errno;
    if (!is_stdin)
        (void)fclose(from);
    if (bad)
        cli_complain("cannot read %s: %s", path, strerror(error));
    return !bad;
}

bool cli_rules_read(const char *path, size_t len_max, struct cli_rules_file *out)
{
    *out = (struct cli_rules_file){.capacity = len_max + 1};
    out->text = alloc_get(alloc_heap(), out->capacity);
    bool good = out->text != NULL;
    if (!good)
        cli_complain("out of memory to read %s", path);
    good = good && read_all(path, out);
    if (good && out->len > len_max) {
        if (len_max == POLICY_DOCUMENT_LEN_MAX)
            cli_rules_too_large(path);
        else
            cli_complain("%s is larger than %zu bytes", path, len_max);
        good = false;
    }
    if (!good)
        cli_rules_fini(out);
    return good;
}

void cli_rules_too_large(const char *path)
{
    cli_complain("%s " POLICY_DOCUMENT_TOO_LARGE, path, (int)POLICY_DOCUMENT_LEN_MAX);
}

void cli_rules_fini(struct cli_rules_file *file)
{
    alloc_put(alloc_heap(), file->text, file->capacity);
    *file = (struct cli_rules_file){0};
}
