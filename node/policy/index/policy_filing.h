/* policy_filing.h - under what a match value is filed in the index, and where a request looks.
 *
 * Both sides hash the same bytes of the same kind, so they are kept together here:
 *
 *   kind      a value is filed under                     a request asks
 *   exact     all of it                                  its value
 *   prefix    what is before the first *   /v1           its first n bytes, for each n that occurs
 *   suffix    what is behind the last *    @example.org  its last n bytes, likewise
 *   segment   a whole one behind a *       /v1/ * /ITEM  its segment k, for each k that occurs
 *   block     the first bits of an address               its first n bits, likewise
 *
 * An inner * never crosses a '/', so segment k of a pattern meets segment k of a value and no
 * other. A pattern may be filed under any of its kinds; the index takes the rarest.
 *
 * Hashes have 32 bits: two pieces that share one are looked at together, which costs a comparison
 * and changes no result.
 *
 * FILING-1  A value that matches is found, whatever its pattern was filed under.
 * FILING-2  Where more lengths occur than are kept, one is cut to the next shorter that is: it then
 *           finds more, never less.
 */
#ifndef NODE_POLICY_INDEX_POLICY_FILING_H
#define NODE_POLICY_INDEX_POLICY_FILING_H

#include <stdbool.h>
#include <stdint.h>

#include "node/policy/model/policy.h"
#include "node/policy/model/policy_ip.h"

enum {
    POLICY_LENGTHS_MAX = 24,  /* distinct lengths of one kind kept for one attribute */
    POLICY_SEGMENTS_MAX = 16, /* the segments that values may be filed under: the first ones */
    POLICY_FILINGS_MAX = 5,   /* of one value: prefix, suffix, and segments */
    /* Hashes that one attribute of a request asks for, but blocks. */
    POLICY_HASHES_MAX = 1 + 2 * POLICY_LENGTHS_MAX + POLICY_SEGMENTS_MAX
};

enum policy_filing_kind {
    POLICY_FILED_EXACT = 1,
    POLICY_FILED_PREFIX,
    POLICY_FILED_SUFFIX,
    POLICY_FILED_SEGMENT,
    POLICY_FILED_BLOCK
};

/* One of the places where a value may be filed. */
struct policy_filing {
    uint32_t hash;
    uint16_t at;  /* bytes, bits, or the number of the segment */
    uint8_t kind; /* enum policy_filing_kind */
    bool ipv6;    /* BLOCK: the family */
};

/* Lengths that occur, ascending. */
struct policy_lengths {
    uint16_t lengths[POLICY_LENGTHS_MAX];
    uint32_t used; /* bits: lengths under which something is filed */
    uint8_t count;
};

/* What is filed under one attribute. */
struct policy_filed {
    struct policy_lengths prefixes;
    struct policy_lengths suffixes;
    struct policy_lengths ipv4_blocks; /* of `ip` alone, as the next */
    struct policy_lengths ipv6_blocks;
    uint32_t segments; /* bits: numbers under which something is filed */
    bool exact;
};

/* Learns the lengths of a value. First for all values of an attribute, then come the others. */
void policy_filed_learn(struct policy_filed *filed, const struct policy_match *match,
                        const struct policy_text *value);
/* The places where a value of attribute number `attribute` may be filed: 1 .. POLICY_FILINGS_MAX,
 * which is returned. */
size_t policy_filings_of(const struct policy_filed *filed, uint32_t attribute,
                         const struct policy_match *match, const struct policy_text *value,
                         struct policy_filing *out);
/* Notes that something is filed there. */
void policy_filed_use(struct policy_filed *filed, const struct policy_filing *filing);
/* Forgets the lengths under which nothing is filed; nothing may be learned or filed after it. */
void policy_filed_end(struct policy_filed *filed);

/* The hashes under which a request's value must be looked for: at most POLICY_HASHES_MAX. */
size_t policy_filed_hashes(const struct policy_filed *filed, uint32_t attribute,
                           const struct policy_text *value, uint32_t *hashes);
/* The same for blocks that hold an address: at most POLICY_LENGTHS_MAX. */
size_t policy_filed_block_hashes(const struct policy_filed *filed, uint32_t attribute,
                                 const struct policy_ip *ip, uint32_t *hashes);

#endif
