/* rules_file.c - reads rules into memory, or says why it cannot. */
#include "client/cli/session/rules_file.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/cli/session/cli.h"

enum { ERROR_LEN = 4096 + 256 };

bool cli_rules_read(const char *path, size_t len_max, struct cli_rules_file *out)
{
    char error[ERROR_LEN];
    *out = (struct cli_rules_file){.path = path};
    if (rules_source_read(path, len_max, &out->source, error, sizeof error) == 0)
        return true;
    cli_complain("%s", error);
    return false;
}

void cli_rules_fini(struct cli_rules_file *file)
{
    rules_source_fini(&file->source);
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
