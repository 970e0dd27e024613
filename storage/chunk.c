/* chunk.c - packed records: see chunk.h for the layout.
 *
 * The idea: a million dirty slots are a million small changes, but only some ten thousand chunks.
 * Rewriting a chunk is one pass over two sorted sequences, so the cost a slot is a
 * copy of forty bytes instead of a descent into a B-tree.
 *
 * CHUNK-1  Ids within a body ascend strictly.
 * CHUNK-2  A merged body holds no record that had expired at the merge's now_ms.
 * CHUNK-3  chunk_open accepts only what chunk_seal wrote for the same vnode.
 *
 * Must not touch LMDB, the clock or memory beyond its arguments.
 */
#include "storage/chunk.h"

#include <endian.h>
#include <string.h>

#include "base/assert.h"
#include "base/prefetch.h"

#define CHUNK_EXPIRES_MAX ((UINT64_C(1) << (64 - CHUNK_LEN_BITS)) - 1)

enum {
    CHUNK_LANE_LEN = 16,
    CHUNK_LANES = 4,
    CHUNK_BLOCK_LEN = CHUNK_LANES * CHUNK_LANE_LEN,
    CHUNK_BUCKET_BITS_MAX = 12,    /* of the distribution in chunk_sort */
    CHUNK_AHEAD = 8,               /* records whose states are asked for before they are copied */
    CHUNK_INSERTION_MOVES_MAX = 8, /* a record on average; beyond, ids are no hashes: heap sort */
};

static inline uint64_t load_u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

static inline void store_u64(uint8_t *at, uint64_t value)
{
    const uint64_t little = htole64(value);
    memcpy(at, &little, sizeof(little));
}

/* Both halves of the product of two words, folded: each bit of a and b reaches all of it. */
static inline uint64_t fold_multiply(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Takes CHUNK_BLOCK_LEN bytes into the lanes. They do not depend on each other, so that the
 * processor overlaps their multiplications. */
static inline void checksum_block(uint64_t lanes[CHUNK_LANES], const uint8_t *block)
{
    static const uint64_t primes[CHUNK_LANES] = {0x9e3779b97f4a7c15ULL, 0xd6e8feb86659fd93ULL,
                                                 0xa0761d6478bd642fULL, 0xe7037ed1a0b428dbULL};
    for (int i = 0; i < CHUNK_LANES; i++) {
        const uint8_t *const at = block + i * CHUNK_LANE_LEN;
        lanes[i] += fold_multiply(load_u64(at) ^ lanes[i], load_u64(at + 8) ^ primes[i]);
    }
}

uint64_t chunk_checksum(uint64_t seed, const void *data, size_t len)
{
    const uint8_t *at = data;
    size_t left = len;
    uint64_t lanes[CHUNK_LANES];
    for (int i = 0; i < CHUNK_LANES; i++) {
        lanes[i] = hash_mix64(seed + (uint64_t)len * CHUNK_LANES + (uint64_t)i + 1);
    }
    for (; left >= CHUNK_BLOCK_LEN; at += CHUNK_BLOCK_LEN, left -= CHUNK_BLOCK_LEN) {
        checksum_block(lanes, at);
    }
    uint8_t tail[CHUNK_BLOCK_LEN] = {0};
    if (left > 0) {
        memcpy(tail, at, left);
    }
    checksum_block(lanes, tail);
    uint64_t sum = len;
    for (int i = 0; i < CHUNK_LANES; i++) {
        sum = hash_mix64(sum ^ lanes[i]) + lanes[i];
    }
    return sum;
}

bool chunk_next(const uint8_t *body, size_t body_len, size_t *at, struct store_record *record)
{
    if (*at >= body_len) {
        return false;
    }
    const uint8_t *p = body + *at;
    const uint64_t packed = load_u64(p + 16);
    const uint64_t expires_ms = packed >> CHUNK_LEN_BITS;

    record->id.hi = load_u64(p);
    record->id.lo = load_u64(p + 8);
    record->expires_ms = expires_ms == CHUNK_EXPIRES_MAX ? STORE_EXPIRES_NEVER : expires_ms;
    record->len = (uint32_t)(packed & ((1U << CHUNK_LEN_BITS) - 1));
    record->state = p + CHUNK_RECORD_LEN;
    *at += chunk_record_len(record->len);
    return true;
}

/* The checksum already says that nothing changed since sealing; the walk says that what was sealed
 * makes sense, so that no reader has to look at a bound again. */
int chunk_open(const void *data, size_t len, uint32_t vnode, const uint8_t **body, size_t *body_len)
{
    const uint8_t *bytes = data;
    if (len <= CHUNK_HEAD_LEN || len > CHUNK_BYTES_MAX ||
        load_u64(bytes) != chunk_checksum(vnode, bytes + 8, len - 8)) {
        return TG_ECORRUPT;
    }
    const uint64_t sizes = load_u64(bytes + 8);
    const uint32_t count = (uint32_t)sizes;
    if (sizes >> 32 != len || count == 0 || count > CHUNK_RECORDS_MAX) {
        return TG_ECORRUPT;
    }
    struct hash128 before = {0, 0};
    size_t at = CHUNK_HEAD_LEN;
    for (uint32_t i = 0; i < count; i++) {
        struct store_record record;
        if (len - at < CHUNK_RECORD_LEN || !chunk_next(bytes, len, &at, &record)) {
            return TG_ECORRUPT;
        }
        if (at > len || (i > 0 && !chunk_id_less(before, record.id))) {
            return TG_ECORRUPT;
        }
        before = record.id;
    }
    *body = bytes + CHUNK_HEAD_LEN;
    *body_len = len - CHUNK_HEAD_LEN;
    return at == len ? 0 : TG_ECORRUPT;
}

bool chunk_find(const uint8_t *body, size_t body_len, struct hash128 id,
                struct store_record *record)
{
    size_t at = 0;
    while (chunk_next(body, body_len, &at, record)) {
        if (!chunk_id_less(record->id, id)) {
            return hash128_equal(record->id, id);
        }
    }
    return false;
}

/* Order by id, then by place in the batch: what was said last comes last. */
static inline bool ref_less(const struct store_record *records, const struct chunk_ref *a,
                            const struct chunk_ref *b)
{
    if (a->hi != b->hi) {
        return a->hi < b->hi;
    }
    const uint64_t a_lo = records[a->index].id.lo;
    const uint64_t b_lo = records[b->index].id.lo;
    return a_lo != b_lo ? a_lo < b_lo : a->index < b->index;
}

static void sift_down(const struct store_record *records, struct chunk_ref *refs, size_t root,
                      size_t count)
{
    ASSERT(root < count);
    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && ref_less(records, &refs[child], &refs[child + 1])) {
            child++;
        }
        if (!ref_less(records, &refs[root], &refs[child])) {
            return;
        }
        const struct chunk_ref swapped = refs[root];
        refs[root] = refs[child];
        refs[child] = swapped;
        root = child;
    }
}

/* For ids that are no hashes: never quadratic. */
static void sort_heap(const struct store_record *records, struct chunk_ref *refs, size_t count)
{
    for (size_t i = count / 2; i > 0; i--) {
        sift_down(records, refs, i - 1, count);
    }
    for (size_t i = count; i > 1; i--) {
        const struct chunk_ref top = refs[0];
        refs[0] = refs[i - 1];
        refs[i - 1] = top;
        sift_down(records, refs, 0, i - 1);
    }
}

/* True if the refs are in order after at most `moves_max` moves; else some order. */
static bool sort_insertion(const struct store_record *records, struct chunk_ref *refs, size_t count,
                           size_t moves_max)
{
    size_t moves = 0;
    for (size_t i = 1; i < count; i++) {
        const struct chunk_ref ref = refs[i];
        size_t j = i;
        for (; j > 0 && ref_less(records, &ref, &refs[j - 1]); j--) {
            refs[j] = refs[j - 1];
        }
        refs[j] = ref;
        moves += i - j;
        if (moves > moves_max) {
            return false;
        }
    }
    return true;
}

/* Hashes are evenly spread, so their top bits tell almost the final place. */
static void sort_distribute(const struct store_record *records, size_t count,
                            struct chunk_ref *refs)
{
    uint32_t starts[(1U << CHUNK_BUCKET_BITS_MAX) + 1];
    unsigned bits = 1;
    while (bits < CHUNK_BUCKET_BITS_MAX && (size_t)1 << bits < count) {
        bits++;
    }
    ASSERT(bits >= 1 && bits <= CHUNK_BUCKET_BITS_MAX);
    const unsigned shift = 64 - bits;
    memset(starts, 0, (((size_t)1 << bits) + 1) * sizeof(starts[0]));
    for (size_t i = 0; i < count; i++) {
        starts[(records[i].id.hi >> shift) + 1]++;
    }
    for (size_t b = 1; b <= (size_t)1 << bits; b++) {
        starts[b] += starts[b - 1];
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t hi = records[i].id.hi;
        refs[starts[hi >> shift]++] = (struct chunk_ref){.hi = hi, .index = (uint32_t)i};
    }
}

size_t chunk_sort(const struct store_record *records, size_t count, struct chunk_ref *refs)
{
    if (count == 0) {
        return 0;
    }
    sort_distribute(records, count, refs);
    if (!sort_insertion(records, refs, count, count * CHUNK_INSERTION_MOVES_MAX)) {
        sort_heap(records, refs, count);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const bool again = i + 1 < count &&
                           hash128_equal(records[refs[i].index].id, records[refs[i + 1].index].id);
        if (!again) {
            refs[kept++] = refs[i];
        }
    }
    ASSERT(kept >= 1 && kept <= count);
    return kept;
}

static size_t record_encode(uint8_t *out, const struct store_record *record)
{
    const uint64_t expires_ms =
        record->expires_ms < CHUNK_EXPIRES_MAX ? record->expires_ms : CHUNK_EXPIRES_MAX;

    ASSERT(record->len <= STORE_STATE_MAX);
    store_u64(out, record->id.hi);
    store_u64(out + 8, record->id.lo);
    store_u64(out + 16, expires_ms << CHUNK_LEN_BITS | record->len);
    if (record->len > 0) {
        memcpy(out + CHUNK_RECORD_LEN, record->state, record->len);
    }
    return chunk_record_len(record->len);
}

/* Where copying stands: records of the old body stay a run until one of them has to go. */
struct merge {
    const uint8_t *body;
    size_t body_len;
    size_t run; /* start of the run that is not copied yet */
    size_t at;  /* start of the next old record */
    uint8_t *out;
    size_t out_len;
};

static void merge_flush(struct merge *merge, size_t until)
{
    ASSERT(until >= merge->run && until <= merge->body_len);
    if (until > merge->run) {
        memcpy(merge->out + merge->out_len, merge->body + merge->run, until - merge->run);
        merge->out_len += until - merge->run;
    }
}

/* Passes old records with ids up to `bound` (all if NULL); one with that very id is left out. */
static void merge_pass(struct merge *merge, const struct hash128 *bound, uint64_t now_ms,
                       struct chunk_tally *tally)
{
    struct store_record old;
    size_t next = merge->at;
    while (chunk_next(merge->body, merge->body_len, &next, &old)) {
        if (bound != NULL && chunk_id_less(*bound, old.id)) {
            break;
        }
        const bool replaced = bound != NULL && hash128_equal(*bound, old.id);
        const bool expired = old.expires_ms <= now_ms;
        if (replaced || expired) {
            merge_flush(merge, merge->at);
            merge->run = next;
            tally->expired += expired && !replaced;
        }
        merge->at = next;
    }
}

size_t chunk_merge(const uint8_t *body, size_t body_len, const struct store_record *records,
                   const struct chunk_ref *refs, size_t count, uint64_t now_ms, uint8_t *out,
                   struct chunk_tally *tally)
{
    struct merge merge = {.body = body, .body_len = body_len, .out = out};
    for (size_t i = 0; i < count; i++) {
        const struct store_record *record = &records[refs[i].index];
        if (i + CHUNK_AHEAD < count)
            prefetch(records[refs[i + CHUNK_AHEAD].index].state);
        merge_pass(&merge, &record->id, now_ms, tally);
        if (record->expires_ms <= now_ms) {
            tally->expired++; /* CHUNK-2 */
            continue;
        }
        merge_flush(&merge, merge.at);
        merge.run = merge.at;
        merge.out_len += record_encode(out + merge.out_len, record);
        tally->stored++;
    }
    merge_pass(&merge, NULL, now_ms, tally);
    merge_flush(&merge, merge.at);
    ASSERT(merge.at == body_len); /* every old record was passed */
    return merge.out_len;
}

size_t chunk_cut(const uint8_t *body, size_t body_len, uint32_t *count)
{
    ASSERT(body_len > 0);
    const size_t pieces =
        body_len <= CHUNK_BODY_MAX ? 1 : (body_len + CHUNK_BODY_FILL - 1) / CHUNK_BODY_FILL;
    const size_t share = body_len / pieces;
    struct store_record record;
    size_t at = 0;
    *count = 0;
    for (size_t next = 0; chunk_next(body, body_len, &next, &record); at = next) {
        /* A long state starts a chunk of its own, so that its neighbours stay cheap to rewrite. */
        if (*count > 0 && pieces > 1 && (at >= share || next > CHUNK_BODY_MAX)) {
            break;
        }
        ++*count;
    }
    ASSERT(at <= body_len && (*count > 0) == (at > 0));
    return at;
}

void chunk_seal(uint8_t *out, const uint8_t *body, size_t body_len, uint32_t count, uint32_t vnode)
{
    const size_t len = CHUNK_HEAD_LEN + body_len;

    ASSERT(count > 0 && count <= CHUNK_RECORDS_MAX && len <= CHUNK_BYTES_MAX);
    memcpy(out + CHUNK_HEAD_LEN, body, body_len);
    store_u64(out + 8, (uint64_t)len << 32 | count);
    store_u64(out, chunk_checksum(vnode, out + 8, len - 8));
}
