/* packed.h - a rules document as it travels and is kept: as it was written or, where that is more
 * than a record holds, packed.
 *
 *     up to POLICY_DOCUMENT_LEN_MAX   name: value ...                            as written
 *     longer, to POLICY_FILE_LEN_MAX  1f 8b ... | crc of the text | its length   gzip (RFC 1952)
 *
 * No text begins like gzip, 1f being no character of YAML, so bytes say themselves what they are,
 * and everything between two ends (frames, records, the register, the disk) goes on knowing one
 * bound. Rules are written alike, and pack to a sixth or less.
 *
 * PACKED-1  The length of the text is read before anything is unpacked, and refused above
 *           POLICY_FILE_LEN_MAX; what unpacks to more or less than that, or to another sum, is
 *           damaged.
 * PACKED-2  The same text is packed to the same bytes, wherever it is done by the same zlib; by
 *           another one it may be other bytes of the same text.
 *
 * Why gzip: zlib is well kept, allocates through us alone, and whatever language a client is
 * written in has it. Pure; packing takes a tenth of a second for 3 MB, unpacking a hundredth: not
 * for a thread that others wait for.
 */
#ifndef NODE_POLICY_COMPILE_PACKED_H
#define NODE_POLICY_COMPILE_PACKED_H

#include "node/policy/model/policy.h"

/* What is said of a document that is too large even so; its length, the same packed, the bound. */
#define PACKED_TOO_LARGE                                                                           \
    "has %zu bytes, packed %zu, which is more than the %d that a cluster keeps as its rules; "     \
    "expected a shorter one (what many rules have in common can be written once, as &name, and "   \
    "then *name)"

/* Bytes in a block of the allocator's, or (block NULL) the caller's. */
struct packed {
    const char *data;
    size_t len;
    void *block;
    size_t block_len;
};

/* Whether these are of a packed document; else of one as it was written. */
bool packed_is(const void *bytes, size_t len);
/* The length of the text; of a packed one, as it says itself. */
size_t packed_text_len(const void *bytes, size_t len);

/* The document, of at most POLICY_FILE_LEN_MAX bytes, as it is kept: the text itself, which has to
 * outlive `out` then, or packed. That may still be more than POLICY_DOCUMENT_LEN_MAX, and is not to
 * be kept then. 0 or TG_ENOMEM: nothing is held. */
MUST_USE int packed_make(const char *text, size_t len, const struct allocator *allocator,
                         struct packed *out);
/* The text of a document: the bytes themselves, which have to outlive `out` then, or what they
 * unpack to, and a NUL behind it. 0, TG_EINVALID (damaged), TG_ETOOBIG (PACKED-1) or TG_ENOMEM:
 * nothing is held. */
MUST_USE int packed_open(const void *bytes, size_t len, const struct allocator *allocator,
                         struct packed *out);
void packed_fini(struct packed *packed, const struct allocator *allocator);

/* policy_compile_zoned of a document, packed or not. Its errors, and those of packed_open, with
 * `error` filled. */
MUST_USE int packed_compile(const void *bytes, size_t len, const struct allocator *allocator,
                            const struct policy_zones *zones, struct policy **policy,
                            struct policy_error *error);

#endif
