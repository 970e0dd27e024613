/* fail.c - what a failure says, and memory of the writer that can fail.
 *
 * The newest text stands, under a lock of its own: readers and writer fail at the same time.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "storage/internal.h"

int store_fail(struct store *store, int code, const char *format, ...)
{
    char what[STORE_ERROR_LEN / 2];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    ASSERT(pthread_mutex_lock(&store->error_lock) == 0);
    (void)snprintf(store->error, sizeof(store->error), "%.200s: %s", store->dir, what);
    ASSERT(pthread_mutex_unlock(&store->error_lock) == 0);
    ASSERT(code < 0);
    return code;
}

int store_result(struct store *store, int result, const char *operation)
{
    const int code = env_code(result);
    /* A worker that returns a TG_E* has said what is wrong, and NOTFOUND is an answer. */
    if (code == result || code == TG_ENOTFOUND) {
        return code;
    }
    return store_fail(store, code, "%s: %s", operation, env_text(result));
}

void store_last_error(struct store *store, char error[STORE_ERROR_LEN])
{
    ASSERT(pthread_mutex_lock(&store->error_lock) == 0);
    memcpy(error, store->error, STORE_ERROR_LEN);
    ASSERT(pthread_mutex_unlock(&store->error_lock) == 0);
}

int scratch_reserve(struct store *store, struct scratch *scratch, size_t bytes)
{
    if (bytes <= scratch->capacity) {
        return 0;
    }
    ASSERT(bytes <= SIZE_MAX / 2);
    const size_t capacity = bytes + bytes / 2;
    alloc_put(store->allocator, scratch->data, scratch->capacity);
    scratch->capacity = 0;
    scratch->data = alloc_get(store->allocator, capacity);
    if (scratch->data == NULL) {
        return store_fail(store, TG_ENOMEM, "no memory for %zu bytes", capacity);
    }
    scratch->capacity = capacity;
    return 0;
}

void store_check_invariants(const struct store *store)
{
    INVARIANT("STORE-6", (store->merged.data == NULL) == (store->merged.capacity == 0));
    INVARIANT("STORE-6", (store->refs.data == NULL) == (store->refs.capacity == 0));
    INVARIANT("OPEN-1", store->lock_file >= 0);
    INVARIANT("STORE-7", store->state.mdb == NULL || store->state.map_bytes > 0);
    INVARIANT("STORE-7", store->meta.mdb == NULL || store->meta.map_bytes > 0);
    INVARIANT("STORE-8", store->records_written == 0 || store->chunks_written > 0 ||
                             store->records_expired > 0);
    INVARIANT("STORE-8", store->bytes_written >= store->chunks_written * CHUNK_HEAD_LEN);
}
