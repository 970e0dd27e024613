/* settings_change.h - one change of the settings, and one record of them, byte by byte.
 *
 * Settings are what operators write and every node obeys: rules, blocks, and as they come pools,
 * tiers, quotas and API keys. They are records of a kind, a name and a value; a change puts or
 * removes some of them, and each change makes a version (settings.h tells how it is agreed on).
 *
 *   change   [1, version, voters: [id ..], digest before: lo, hi, id: lo, hi, time_ms,
 *             author, note, [[kind, name, value or nil] ..]]
 *   record   [1, kind, name, version, time_ms, author, note, value]
 *
 * A change names the digest of the change before it, and the digest of a change covers all its
 * bytes: nodes that have the same digest have had the same history.
 *
 * Version: as ring epochs, the upper half is the lineage, which only an operator's force raises,
 * and the lower half counts changes; people are shown the lower half, which goes on counting.
 *
 * Pure codecs: texts and values point into the bytes that were read.
 */
#ifndef NODE_CLUSTER_CONFIGSTORE_SETTINGS_CHANGE_H
#define NODE_CLUSTER_CONFIGSTORE_SETTINGS_CHANGE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "node/cluster/consensus/register.h"

enum {
    SETTINGS_CHANGE_LEN_MAX = REGISTER_CHANGE_LEN_MAX, /* bytes of an encoded change */
    SETTINGS_VALUE_LEN_MAX = SETTINGS_CHANGE_LEN_MAX - 8192,
    SETTINGS_BESIDE_LEN = 4096,   /* room beside the largest value, for what is changed with it */
    SETTINGS_NAME_LEN_MAX = 1280, /* an attribute's name and its value fit */
    SETTINGS_AUTHOR_LEN_MAX = 128,
    SETTINGS_NOTE_LEN_MAX = 256,
    SETTINGS_OPS_MAX = 64, /* of one change */
    SETTINGS_RECORD_LEN_MAX = SETTINGS_CHANGE_LEN_MAX,
};

static_assert(SETTINGS_VALUE_LEN_MAX + SETTINGS_NAME_LEN_MAX + SETTINGS_AUTHOR_LEN_MAX +
                      SETTINGS_NOTE_LEN_MAX + 1024 <
                  SETTINGS_CHANGE_LEN_MAX,
              "the largest value fits into a change, and into a record");
static_assert(SETTINGS_VALUE_LEN_MAX + SETTINGS_BESIDE_LEN + SETTINGS_AUTHOR_LEN_MAX +
                      SETTINGS_NOTE_LEN_MAX + 64 * 32 + 1024 <
                  SETTINGS_CHANGE_LEN_MAX,
              "so do the largest rules, with what is beside them and the names of old versions");

/* What others do not know yet they keep and pass on: kinds may be added. */
enum settings_kind {
    SETTINGS_RULES = 1, /* name: the version that made it, 16 hex digits; the highest is in force */
    SETTINGS_BLOCK = 2, /* name: what is blocked (node/policy/people/blocks.h) */
    SETTINGS_POOL = 3,
    SETTINGS_TIER = 4,
    SETTINGS_QUOTA = 5,
    SETTINGS_API_KEY = 6,
    SETTINGS_REGION = 7, /* name: the region; value: who founds its ring (control_region.c) */
    SETTINGS_ORDINALS =
        8, /* name: "rules"; value: which count is whose (node/policy/compile/ordinals.h) */
    SETTINGS_CREDENTIAL = 9, /* name: its id; value: node/policy/rights/credential.h */
    SETTINGS_KINDS,          /* those of this release are below */
    SETTINGS_KIND_MAX = 255
};

struct settings_text {
    const char *data;
    size_t len;
};

struct settings_op {
    uint32_t kind;
    struct settings_text name;
    bool removes;
    struct settings_text value;
};

struct settings_change {
    uint64_t version;
    struct register_voters voters; /* who decides the change after this one */
    struct hash128 before;         /* the digest of the change before */
    struct hash128 id;             /* of the edit that it carries out */
    int64_t time_ms;
    struct settings_text author;
    struct settings_text note;
    uint32_t op_count;
    struct settings_op ops[SETTINGS_OPS_MAX];
};

struct settings_entry {
    uint32_t kind;
    struct settings_text name;
    uint64_t version;
    int64_t time_ms;
    struct settings_text author;
    struct settings_text note;
    struct settings_text value;
};

/* What people are shown of a version. */
static inline uint32_t settings_version_shown(uint64_t version)
{
    return (uint32_t)version;
}

/* Whether the text may be a name, an author or a note: no longer, and without control characters.
 */
bool settings_text_ok(const struct settings_text *text, size_t len_max);
bool settings_text_equal(const struct settings_text *a, const struct settings_text *b);

/* The length, or TG_ETOOBIG. */
MUST_USE int settings_change_encode(const struct settings_change *change, void *out,
                                    size_t capacity);
/* 0, TG_EPROTOCOL, or TG_EVERSION: of a newer release. */
MUST_USE int settings_change_decode(const void *bytes, size_t len, struct settings_change *change);
/* What register_options.read wants of an encoded change. */
bool settings_change_read(const uint8_t *bytes, size_t len, uint64_t *version,
                          struct register_voters *voters);
/* The digest of an encoded change. */
struct hash128 settings_change_digest(const void *bytes, size_t len);

/* The same for a record. */
MUST_USE int settings_entry_encode(const struct settings_entry *entry, void *out, size_t capacity);
MUST_USE int settings_entry_decode(const void *bytes, size_t len, struct settings_entry *entry);

#endif
