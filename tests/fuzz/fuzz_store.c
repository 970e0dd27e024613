/* fuzz_store.c - what a disk may hold: chunks, journal records, meta values and whole files.
 *
 *     chunk:   u8 sealed | body           sealed: with a right checksum, as a buggy writer would
 *     record:  u8 sealed, u8 kind, u8 vnode | value, read back through every call of the journal
 *     file:    (u16 at, u8 byte)*         changes to a real data file, looked at by pages_check
 *
 * Properties: what is damaged is an error with a sentence and never a signal; a chunk that opens
 * has ascending records inside its bytes; a file that pages_check accepts can be read to its end.
 */
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "storage/chunk.h"
#include "storage/internal.h"
#include "storage/pages.h"
#include "tests/fuzz/fuzz.h"

enum { KINDS = 3, BODY_MAX = 4096, FILE_MAX = 1 << 17, SLOTS = 300 };

static char root[64];
static struct store *store; /* for journal records and meta values */
static uint8_t image[FILE_MAX];
static size_t image_len;

/* ---- chunks ---------------------------------------------------------------------------------- */

static void walk_chunk(const uint8_t *body, size_t body_len)
{
    struct store_record record;
    struct store_record found;
    struct hash128 last = {0, 0};
    size_t at = 0;
    for (size_t count = 0; chunk_next(body, body_len, &at, &record); count++) {
        ASSERT(count == 0 || chunk_id_less(last, record.id));
        ASSERT(record.len == 0 ||
               (record.state >= body && record.state + record.len <= body + body_len));
        ASSERT(chunk_find(body, body_len, record.id, &found) && found.len == record.len);
        last = record.id;
    }
    ASSERT(at <= body_len);
}

static void try_chunk(struct fuzz_input *input)
{
    const uint8_t sealed = fuzz_u8(input);
    size_t len = 0;
    const uint8_t *bytes = fuzz_take(input, BODY_MAX, &len);
    uint8_t *const chunk = malloc(CHUNK_HEAD_LEN + len);
    const uint8_t *body = NULL;
    size_t body_len = 0;
    ASSERT(chunk != NULL);
    if (sealed != 0) {
        chunk_seal(chunk, bytes, len, sealed, 7);
        len += CHUNK_HEAD_LEN;
    } else if (len > 0) {
        memcpy(chunk, bytes, len);
    }
    if (chunk_open(chunk, len, 7, &body, &body_len) == 0) {
        walk_chunk(body, body_len);
    }
    free(chunk);
}

/* ---- journal and values ---------------------------------------------------------------------- */

struct raw {
    MDB_val key;
    MDB_val value;
};

static int put_raw(void *context, MDB_txn *txn)
{
    struct raw *const raw = context;
    return raw->value.mv_data == NULL ? mdb_del(txn, store->meta.dbi, &raw->key, NULL)
                                      : mdb_put(txn, store->meta.dbi, &raw->key, &raw->value, 0);
}

static int see(void *context, const struct store_journal_record *record)
{
    const size_t *const len = context;
    ASSERT(record->slot.len <= *len && record->vnode < STATE_VNODES_MAX);
    return 0;
}

static void read_journal(uint32_t vnode, size_t len)
{
    static uint8_t buffer[STORE_STATE_MAX];
    struct store_listing listing = {.vnode = vnode};
    struct store_journal_expiry expiry;
    struct store_record record;
    struct hash128 ids[8];
    size_t count = 0;
    char error[STORE_ERROR_LEN];
    const int scanned = store_journal_scan(store, see, &len);
    if (scanned != 0) {
        ASSERT(scanned == TG_ECORRUPT || scanned == TG_EVERSION);
        store_last_error(store, error);
        ASSERT(strstr(error, "journal") != NULL);
    }
    (void)!store_journal_get(store, vnode, (struct hash128){1, 1}, buffer, sizeof(buffer), &record);
    (void)!store_journal_list(store, &listing, 5, ids, 8, &count);
    (void)!store_journal_expire(store, 5, 100, &expiry);
}

/* A record with a right checksum over the bytes, as storage/journal.c writes it. */
static void seal_record(const uint8_t *key, size_t key_len, uint8_t *value, size_t len)
{
    struct bytes_writer writer;
    const uint64_t check =
        chunk_checksum(chunk_checksum(UINT64_C(0x6a6f7572), key, key_len), value + 8, len - 8);
    bytes_writer_init(&writer, value, 8);
    bytes_put_u64(&writer, check);
}

static void try_record(struct fuzz_input *input)
{
    uint8_t key[1 + STATE_KEY_LEN] = {2};
    uint8_t value[BODY_MAX];
    size_t len = 0;
    const uint8_t sealed = fuzz_u8(input);
    const uint8_t kind = fuzz_u8(input);
    const uint32_t vnode = fuzz_u8(input);
    const struct state_key inner = state_key_make(vnode, kind % 4, (struct hash128){1, 1});
    memcpy(key + 1, inner.bytes, STATE_KEY_LEN);
    const uint8_t *const bytes = fuzz_take(input, sizeof(value), &len);
    memcpy(value, bytes, len);
    if (sealed != 0 && len > 8) {
        seal_record(key, sizeof(key), value, len);
    }
    const size_t key_len = kind > 250 ? kind % 22 + 1U : sizeof(key);
    struct raw raw = {.key = {key_len, key}, .value = {len, value}};
    ASSERT(env_write(&store->meta, put_raw, &raw, NULL) == 0);
    read_journal(vnode, len);
    raw.value = (MDB_val){0, NULL};
    const int removed = env_write(&store->meta, put_raw, &raw, NULL);
    ASSERT(removed == 0 || removed == MDB_NOTFOUND); /* it may have expired */
}

/* ---- files ----------------------------------------------------------------------------------- */

static int read_all(void *context, MDB_txn *txn)
{
    const struct env *const env = context;
    MDB_cursor *cursor = NULL;
    MDB_val key;
    MDB_val value;
    uint64_t sum = 0;
    int result = mdb_cursor_open(txn, env->dbi, &cursor);
    if (result != 0) {
        return result;
    }
    while ((result = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        sum += chunk_checksum(0, value.mv_data, value.mv_size);
    }
    mdb_cursor_close(cursor);
    return sum == 1 ? TG_EIO : result;
}

static void try_file(struct fuzz_input *input)
{
    char dir[96];
    char path[128];
    char error[STORE_ERROR_LEN] = "";
    static uint8_t changed[FILE_MAX];
    size_t len = image_len;
    struct env env;
    memcpy(changed, image, image_len);
    for (int i = 0; i < 16 && fuzz_more(input); i++) {
        const size_t at = (size_t)fuzz_u16(input) * 2 + (i & 1);
        changed[at % image_len] = fuzz_u8(input);
        if (at > 131000) {
            len = at % image_len;
        }
    }
    (void)snprintf(dir, sizeof(dir), "%s/file", root);
    (void)snprintf(path, sizeof(path), "%s/data.mdb", dir);
    FILE *const file = fopen(path, "wb");
    ASSERT(file != NULL && fwrite(changed, 1, len, file) == len && fclose(file) == 0);
    const int result = pages_check(path, alloc_heap(), error);
    ASSERT(result == 0 || error[0] != '\0');
    if (result == 0 && env_open(&env, dir, 1 << 20, 0, error) == 0) {
        (void)!env_read(&env, read_all, &env);
        env_close(&env);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void make_image(const char *dir)
{
    static struct store_record records[SLOTS];
    char path[128];
    char error[STORE_ERROR_LEN];
    struct store *made = NULL;
    ASSERT(store_open(dir, NULL, &made, error) == 0);
    for (uint64_t i = 0; i < SLOTS; i++) {
        records[i] = (struct store_record){.id = {hash_mix64(i + 1), i},
                                           .expires_ms = STORE_EXPIRES_NEVER,
                                           .state = (const uint8_t *)"sixteen bytes ..",
                                           .len = 16};
    }
    for (uint32_t vnode = 0; vnode < 6; vnode++) {
        const struct store_vnode_header header = {.epoch = 1, .seq = vnode};
        const struct store_vnode_batch batch = {.vnode = vnode % 4,
                                                .header = &header,
                                                .records = records,
                                                .count = SLOTS / (1 + vnode)};
        ASSERT(store_write(made, &batch, 1, 1) == 0);
    }
    store_close(&made);
    (void)snprintf(path, sizeof(path), "%s/state/data.mdb", dir);
    FILE *const file = fopen(path, "rb");
    ASSERT(file != NULL);
    image_len = fread(image, 1, sizeof(image), file);
    ASSERT(image_len > 0 && image_len < sizeof(image) && fclose(file) == 0);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static void cleanup(void)
{
    store_close(&store);
    (void)nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void setup(void)
{
    char dir[96];
    char error[STORE_ERROR_LEN];
    const char *const above = getenv("TMPDIR");
    (void)snprintf(root, sizeof(root), "%.40s/store-XXXXXX", above != NULL ? above : "/tmp");
    ASSERT(mkdtemp(root) != NULL && atexit(cleanup) == 0);
    (void)snprintf(dir, sizeof(dir), "%s/image", root);
    make_image(dir);
    (void)snprintf(dir, sizeof(dir), "%s/store", root);
    ASSERT(store_open(dir, NULL, &store, error) == 0);
    (void)snprintf(dir, sizeof(dir), "%s/file", root);
    ASSERT(mkdir(dir, 0700) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    if (store == NULL) {
        setup();
    }
    const uint8_t kind = fuzz_u8(&input) % KINDS;
    if (kind == 0) {
        try_chunk(&input);
    } else if (kind == 1) {
        try_record(&input);
    } else {
        try_file(&input);
    }
    return 0;
}
