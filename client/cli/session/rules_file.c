/* rules_file.c - reads a file of rules into memory, or says why it cannot. */
#include "client/cli/session/rules_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/cli/session/cli.h"

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
    ASSERT(file->len <= file->capacity);
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
        cli_complain("%s is larger than %zu bytes", path, len_max);
        good = false;
    }
    ASSERT(!good || out->len < out->capacity); /* there is room for an end */
    if (!good)
        cli_rules_fini(out);
    return good;
}

void cli_rules_fini(struct cli_rules_file *file)
{
    alloc_put(alloc_heap(), file->text, file->capacity);
    *file = (struct cli_rules_file){0};
}

bool cli_rules_pack(const char *path, const char *text, size_t len, struct packed *out)
{
    const int error = packed_make(text, len, alloc_heap(), out);
    if (error != 0) {
        cli_complain("out of memory to pack %s", path);
        return false;
    }
    if (out->len <= POLICY_DOCUMENT_LEN_MAX)
        return true;
    cli_complain("%s " PACKED_TOO_LARGE, path, len, out->len, (int)POLICY_DOCUMENT_LEN_MAX);
    packed_fini(out, alloc_heap());
    return false;
}

int cli_rules_timeout(const struct packed *document, int usual_ms, int given_ms)
{
    enum { LARGE_LEN = 64 << 10, LARGE_TIMEOUT_MS = 10000 };
    const bool large = document->len > LARGE_LEN || packed_is(document->data, document->len);
    return given_ms == 0 && large ? LARGE_TIMEOUT_MS : usual_ms;
}

void cli_rules_put(struct mp_writer *question, const struct packed *document)
{
    const bool packed = packed_is(document->data, document->len);
    mp_put_str(question, packed ? "packed" : "text");
    if (packed)
        mp_put_bin(question, document->data, document->len);
    else
        mp_put_strn(question, document->data, document->len);
}
