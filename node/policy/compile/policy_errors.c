/* policy_errors.c - a rules file read to its end though parts of it are refused.
 *
 * A reader that is told to collect (yaml_reader.h) goes on behind a refused part wherever the rest
 * can be understood without it: the next key, the next limit, the next rule. Bytes that are no YAML
 * are one error, for nobody knows where they would go on.
 *
 * Must not: be done where a text is good; it costs as much as to compile it.
 */
#include "node/policy/compile/policy_errors.h"

#include <stdlib.h>
#include <string.h>

#include "base/mp.h"
#include "node/policy/compile/packed.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/yaml_reader.h"

static_assert((int)POLICY_ERRORS_MAX == (int)YAML_READER_ERRORS_MAX, "all that is found is told");

static int compare_places(const void *a, const void *b)
{
    const struct policy_error *left = a;
    const struct policy_error *right = b;

    if (left->line != right->line)
        return left->line < right->line ? -1 : 1;
    return (left->column > right->column) - (left->column < right->column);
}

/* The list as of the reader, or the one error that ended the compiling before or behind it. */
static void take(struct policy_errors *out, const struct yaml_reader_errors *all,
                 const struct policy_error *first)
{
    out->more = all->more;
    for (uint32_t i = 0; i < all->count; i++) {
        struct policy_error *error = &out->list[out->count++];
        error->line = all->list[i].line;
        error->column = all->list[i].column;
        memcpy(error->message, all->list[i].message, sizeof(error->message));
    }
    if (out->count == 0)
        out->list[out->count++] = *first;
    qsort(out->list, out->count, sizeof(out->list[0]), compare_places);
}

void policy_errors_find(const char *text, size_t len, const struct allocator *allocator,
                        const struct policy_zones *zones, struct policy_errors *out)
{
    static_assert(sizeof(out->list[0].message) >= YAML_READER_MESSAGE_LEN, "no sentence is cut");
    struct yaml_reader_errors all = {.count = 0};
    struct policy_error first;
    struct policy *policy;

    *out = (struct policy_errors){.count = 0};
    if (policy_compile_collecting(text, len, allocator, zones, &policy, &first, &all) != TG_OK)
        take(out, &all, &first);
    policy_free(&policy);
}

void packed_errors_find(const void *bytes, size_t len, const struct allocator *allocator,
                        const struct policy_zones *zones, struct policy_errors *out)
{
    struct packed text;

    *out = (struct policy_errors){.count = 0};
    if (packed_open(bytes, len, allocator, &text) != TG_OK)
        return; /* nothing is known of lines */
    policy_errors_find(text.data, text.len, allocator, zones, out);
    packed_fini(&text, allocator);
}

void policy_errors_put(struct mp_writer *writer, const struct policy_errors *errors)
{
    const uint32_t count = errors != NULL ? errors->count : 0;

    mp_put_str(writer, "errors");
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        mp_put_map(writer, 3);
        mp_put_str(writer, "line");
        mp_put_uint(writer, errors->list[i].line);
        mp_put_str(writer, "column");
        mp_put_uint(writer, errors->list[i].column);
        mp_put_str(writer, "message");
        mp_put_str(writer, errors->list[i].message);
    }
    mp_put_str(writer, "more");
    mp_put_uint(writer, errors != NULL ? errors->more : 0);
}
