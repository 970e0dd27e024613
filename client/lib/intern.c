/* intern.c - a chained hash table of strings that only grows, up to its bounds.
 *
 * INTERN-1  Two equal texts give the same pointer; a pointer stays valid until fini.
 * INTERN-2  count <= CLIENT_INTERN_MAX and bytes <= CLIENT_INTERN_BYTES_MAX, whatever nodes send.
 */
#include "client/lib/intern.h"

#include <string.h>

#include "base/hash.h"

struct client_intern_entry {
    struct client_intern_entry *next;
    size_t len;
    char text[];
};

int client_intern_init(struct client_intern *intern, const struct allocator *allocator)
{
    *intern = (struct client_intern){.allocator = allocator};
    intern->buckets = alloc_array(allocator, CLIENT_INTERN_BUCKETS, sizeof *intern->buckets);
    return intern->buckets != NULL ? 0 : TG_ENOMEM;
}

void client_intern_fini(struct client_intern *intern)
{
    if (intern->buckets == NULL)
        return;
    for (size_t i = 0; i < CLIENT_INTERN_BUCKETS; i++) {
        while (intern->buckets[i] != NULL) {
            struct client_intern_entry *entry = intern->buckets[i];

            intern->buckets[i] = entry->next;
            alloc_put(intern->allocator, entry, sizeof *entry + entry->len + 1);
        }
    }
    alloc_put(intern->allocator, intern->buckets, CLIENT_INTERN_BUCKETS * sizeof *intern->buckets);
    *intern = (struct client_intern){0};
}

static size_t bucket_of(struct wire_text text)
{
    uint64_t hash = text.len;

    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (uint8_t)text.data[i]) * 0x100000001b3ULL;
    return hash_mix64(hash) & (CLIENT_INTERN_BUCKETS - 1);
}

/* Two ends: what is empty has nothing behind its end either. */
static const char nothing[2] = "";

const char *client_intern_get(struct client_intern *intern, struct wire_text text)
{
    struct client_intern_entry **bucket;
    struct client_intern_entry *entry;

    if (text.len == 0)
        return nothing;
    bucket = &intern->buckets[bucket_of(text)];
    for (entry = *bucket; entry != NULL; entry = entry->next) {
        if (entry->len == text.len && memcmp(entry->text, text.data, text.len) == 0)
            return entry->text;
    }
    if (intern->count == CLIENT_INTERN_MAX || intern->bytes + text.len > CLIENT_INTERN_BYTES_MAX)
        return nothing;
    entry = alloc_get(intern->allocator, sizeof *entry + text.len + 1);
    if (entry == NULL)
        return nothing;
    entry->len = text.len;
    memcpy(entry->text, text.data, text.len);
    entry->text[text.len] = '\0';
    entry->next = *bucket;
    *bucket = entry;
    intern->count++;
    intern->bytes += text.len;
    return entry->text;
}
