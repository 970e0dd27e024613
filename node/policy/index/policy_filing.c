/* policy_filing.c - the hashes of policy_filing.h, of values that are filed and of requests.
 *
 * All are FNV-1a, so the hash of a prefix is an intermediate state of the hash of the whole, and a
 * request's value is read once for all its prefixes; likewise backwards for suffixes.
 *
 *   value   / u s e r / v 1 / m e
 *   hash    ----------^----^------^   asked at lengths 6 and 9 (prefix) and at the end (exact)
 *
 * Must not: decide whether a value matches; the index only filters.
 */
#include "node/policy/index/policy_filing.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "node/policy/index/policy_plan.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/model/policy_pattern.h"

#define FNV_OFFSET 0xcbf29ce484222325ULL
#define FNV_PRIME  0x100000001b3ULL

static_assert(POLICY_LENGTHS_MAX <= 32 && POLICY_SEGMENTS_MAX <= 32, "they are bits of a word");
static_assert(POLICY_VALUE_LEN_MAX <= UINT16_MAX, "a length fits");

static uint64_t hash_start(uint32_t attribute, enum policy_filing_kind kind)
{
    return FNV_OFFSET ^ hash_mix64((uint64_t)attribute << 8 | (uint64_t)kind);
}

static inline uint64_t hash_byte(uint64_t hash, char byte)
{
    return (hash ^ (uint8_t)byte) * FNV_PRIME;
}

static uint64_t hash_add(uint64_t hash, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = hash_byte(hash, data[i]);
    return hash;
}

static uint64_t hash_back(uint64_t hash, const char *end, size_t len)
{
    for (size_t i = 1; i <= len; i++)
        hash = hash_byte(hash, end[-(ptrdiff_t)i]);
    return hash;
}

static uint32_t hash_end(uint64_t hash)
{
    return (uint32_t)hash_mix64(hash);
}

static uint32_t hash_block(uint32_t attribute, const struct policy_ip *ip, unsigned bits)
{
    struct policy_ip cut = *ip;

    policy_ip_cut(&cut, bits);
    const char shape[2] = {(char)cut.len, (char)bits};
    uint64_t hash = hash_add(hash_start(attribute, POLICY_FILED_BLOCK), shape, sizeof(shape));
    return hash_end(hash_add(hash, (const char *)cut.bytes, (bits + 7) / 8));
}

static uint32_t hash_segment(uint32_t attribute, unsigned number, const char *data, size_t len)
{
    const uint64_t hash = hash_byte(hash_start(attribute, POLICY_FILED_SEGMENT), (char)number);
    return hash_end(hash_add(hash, data, len));
}

/* --- lengths ----------------------------------------------------------------------------- */

/* The position of the greatest kept length <= len, or -1. */
static int floor_length(const struct policy_lengths *kept, size_t len)
{
    int at = (int)kept->count - 1;

    while (at >= 0 && kept->lengths[at] > len)
        at--;
    return at;
}

/* Keeps a length unless there are too many; one place is for length 0, to which any can be cut. */
static void add_length(struct policy_lengths *kept, size_t len)
{
    int at = floor_length(kept, len);

    if (at >= 0 && kept->lengths[at] == len)
        return;
    const bool has_zero = kept->count > 0 && kept->lengths[0] == 0;
    if (kept->count + (has_zero || len == 0 ? 0 : 1) >= POLICY_LENGTHS_MAX) {
        if (has_zero)
            return;
        len = 0;
        at = -1;
    }
    ASSERT(kept->count < POLICY_LENGTHS_MAX && len <= UINT16_MAX); /* FILING-2 */
    const size_t behind = (size_t)(kept->count - (at + 1));
    memmove(&kept->lengths[at + 2], &kept->lengths[at + 1], behind * sizeof(uint16_t));
    kept->lengths[at + 1] = (uint16_t)len;
    kept->count++;
}

/* The kept length for `len` (FILING-2). */
static uint16_t cut_length(const struct policy_lengths *kept, size_t len)
{
    const int at = floor_length(kept, len);

    ASSERT(at >= 0);
    return kept->lengths[at];
}

static void use_length(struct policy_lengths *kept, size_t len)
{
    const int at = floor_length(kept, len);
    ASSERT(at >= 0 && kept->lengths[at] == len); /* FILING-1 */
    kept->used |= 1U << at;
}

static void drop_unused(struct policy_lengths *kept)
{
    uint8_t count = 0;

    for (uint8_t i = 0; i < kept->count; i++) {
        if ((kept->used >> i & 1) != 0)
            kept->lengths[count++] = kept->lengths[i];
    }
    ASSERT(count <= kept->count);
    kept->count = count;
}

/* --- values ------------------------------------------------------------------------------ */

static const char *last_star(const struct policy_text *value)
{
    return memrchr(value->data, '*', value->len);
}

static struct policy_block block_of(const struct policy_text *value)
{
    struct policy_block block;
    const enum policy_block_result result = policy_block_parse(value->data, value->len, &block);

    ASSERT(result == POLICY_BLOCK_GOOD); /* match_reader.c wrote it */
    return block;
}

/* What stands before the first star and is before it in each value: of a path without the slash,
 * where that may be left over. */
static size_t prefix_len(const struct policy_match *match, const struct policy_text *value)
{
    const size_t star = (size_t)((const char *)memchr(value->data, '*', value->len) - value->data);
    const bool folds =
        match->kind == ATTRIBUTE_PATH && star + 1 == value->len && policy_pattern_folds(value);

    ASSERT(!folds || star > 0);
    return folds ? star - 1 : star;
}

static size_t suffix_len(const struct policy_text *value, const char *star)
{
    return (size_t)(value->data + value->len - (star + 1));
}

void policy_filed_learn(struct policy_filed *filed, const struct policy_match *match,
                        const struct policy_text *value)
{
    const char *star = memchr(value->data, '*', value->len);

    if (star != NULL) {
        add_length(&filed->prefixes, prefix_len(match, value));
        add_length(&filed->suffixes, suffix_len(value, last_star(value)));
    } else if (policy_plan_is_block(match, value)) {
        const struct policy_block block = block_of(value);
        add_length(block.ip.len == POLICY_IPV4_LEN ? &filed->ipv4_blocks : &filed->ipv6_blocks,
                   block.prefix);
    }
}

/* The whole segments behind the first *, the last ones that fit into `room`. */
static size_t segment_filings(uint32_t attribute, const struct policy_text *value, size_t room,
                              struct policy_filing *out)
{
    const char *const end = value->data + value->len;
    size_t count = 0;
    unsigned number = 0;
    bool starred = false;

    for (const char *at = value->data; number < POLICY_SEGMENTS_MAX; number++) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        const char *stop = slash != NULL ? slash : end;
        const size_t len = (size_t)(stop - at);
        const bool wild = memchr(at, '*', len) != NULL;
        if (starred && !wild && len > 0) {
            out[count % room] = (struct policy_filing){
                .hash = hash_segment(attribute, number, at, len),
                .at = (uint16_t)number,
                .kind = POLICY_FILED_SEGMENT,
            };
            count++;
        }
        starred = starred || wild;
        if (slash == NULL)
            break;
        at = slash + 1;
    }
    return count < room ? count : room;
}

static size_t pattern_filings(const struct policy_filed *filed, uint32_t attribute,
                              const struct policy_match *match, const struct policy_text *value,
                              struct policy_filing *out)
{
    const uint16_t prefix = cut_length(&filed->prefixes, prefix_len(match, value));
    const uint16_t suffix = cut_length(&filed->suffixes, suffix_len(value, last_star(value)));
    uint64_t hash = hash_add(hash_start(attribute, POLICY_FILED_PREFIX), value->data, prefix);
    size_t count = 0;

    out[count++] =
        (struct policy_filing){.hash = hash_end(hash), .at = prefix, .kind = POLICY_FILED_PREFIX};
    if (suffix > 0) {
        hash = hash_start(attribute, POLICY_FILED_SUFFIX);
        hash = hash_back(hash, value->data + value->len, suffix);
        out[count++] = (struct policy_filing){
            .hash = hash_end(hash), .at = suffix, .kind = POLICY_FILED_SUFFIX};
    }
    ASSERT(count < POLICY_FILINGS_MAX);
    return count + segment_filings(attribute, value, POLICY_FILINGS_MAX - count, out + count);
}

size_t policy_filings_of(const struct policy_filed *filed, uint32_t attribute,
                         const struct policy_match *match, const struct policy_text *value,
                         struct policy_filing *out)
{
    if (memchr(value->data, '*', value->len) != NULL)
        return pattern_filings(filed, attribute, match, value, out);
    if (policy_plan_is_block(match, value)) {
        const struct policy_block block = block_of(value);
        const bool ipv6 = block.ip.len != POLICY_IPV4_LEN;
        const uint16_t bits =
            cut_length(ipv6 ? &filed->ipv6_blocks : &filed->ipv4_blocks, block.prefix);
        *out = (struct policy_filing){.hash = hash_block(attribute, &block.ip, bits),
                                      .at = bits,
                                      .kind = POLICY_FILED_BLOCK,
                                      .ipv6 = ipv6};
        return 1;
    }
    const uint64_t hash =
        hash_add(hash_start(attribute, POLICY_FILED_PREFIX), value->data, value->len);
    *out = (struct policy_filing){.hash = hash_end(hash + POLICY_FILED_EXACT),
                                  .kind = POLICY_FILED_EXACT};
    return 1;
}

void policy_filed_use(struct policy_filed *filed, const struct policy_filing *filing)
{
    switch ((enum policy_filing_kind)filing->kind) {
    case POLICY_FILED_EXACT:
        filed->exact = true;
        break;
    case POLICY_FILED_PREFIX:
        use_length(&filed->prefixes, filing->at);
        break;
    case POLICY_FILED_SUFFIX:
        use_length(&filed->suffixes, filing->at);
        break;
    case POLICY_FILED_SEGMENT:
        ASSERT(filing->at < POLICY_SEGMENTS_MAX);
        filed->segments |= 1U << filing->at;
        break;
    case POLICY_FILED_BLOCK:
        use_length(filing->ipv6 ? &filed->ipv6_blocks : &filed->ipv4_blocks, filing->at);
        break;
    }
}

void policy_filed_end(struct policy_filed *filed)
{
    drop_unused(&filed->prefixes);
    drop_unused(&filed->suffixes);
    drop_unused(&filed->ipv4_blocks);
    drop_unused(&filed->ipv6_blocks);
}

/* --- requests ---------------------------------------------------------------------------- */

static size_t suffix_hashes(const struct policy_lengths *kept, uint32_t attribute,
                            const struct policy_text *value, uint32_t *hashes)
{
    uint64_t hash = hash_start(attribute, POLICY_FILED_SUFFIX);
    size_t count = 0;
    size_t at = 0;

    for (size_t i = 0; i < kept->count && kept->lengths[i] <= value->len; i++) {
        hash = hash_back(hash, value->data + value->len - at, kept->lengths[i] - at);
        at = kept->lengths[i];
        hashes[count++] = hash_end(hash);
    }
    return count;
}

static size_t segment_hashes(uint32_t segments, uint32_t attribute, const struct policy_text *value,
                             uint32_t *hashes)
{
    const char *const end = value->data + value->len;
    const char *at = value->data;
    size_t count = 0;

    for (unsigned number = 0; segments >> number != 0; number++) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        const char *stop = slash != NULL ? slash : end;
        if ((segments >> number & 1) != 0)
            hashes[count++] = hash_segment(attribute, number, at, (size_t)(stop - at));
        if (slash == NULL)
            break;
        at = slash + 1;
    }
    return count;
}

size_t policy_filed_hashes(const struct policy_filed *filed, uint32_t attribute,
                           const struct policy_text *value, uint32_t *hashes)
{
    const struct policy_lengths *kept = &filed->prefixes;
    uint64_t hash = hash_start(attribute, POLICY_FILED_PREFIX);
    size_t count = 0;
    size_t at = 0;

    for (size_t i = 0; i < kept->count && kept->lengths[i] <= value->len; i++) {
        hash = hash_add(hash, value->data + at, kept->lengths[i] - at);
        at = kept->lengths[i];
        hashes[count++] = hash_end(hash);
    }
    if (filed->exact) {
        hash = hash_add(hash, value->data + at, value->len - at);
        hashes[count++] = hash_end(hash + POLICY_FILED_EXACT);
    }
    if (filed->suffixes.count > 0)
        count += suffix_hashes(&filed->suffixes, attribute, value, hashes + count);
    if (filed->segments != 0)
        count += segment_hashes(filed->segments, attribute, value, hashes + count);
    return count;
}

size_t policy_filed_block_hashes(const struct policy_filed *filed, uint32_t attribute,
                                 const struct policy_ip *ip, uint32_t *hashes)
{
    const struct policy_lengths *kept =
        ip->len == POLICY_IPV4_LEN ? &filed->ipv4_blocks : &filed->ipv6_blocks;

    for (size_t i = 0; i < kept->count; i++)
        hashes[i] = hash_block(attribute, ip, kept->lengths[i]);
    return kept->count;
}
