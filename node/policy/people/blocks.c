/* blocks.c - a set of blocks as one table by hash; see blocks.h.
 *
 * An entry of the table (lookup.h) is a kind, a text (of an address: its 16 bytes, cut, and the
 * length of its prefix), the rule that refuses, and an end.
 *
 * IPv4 addresses are IPv4-mapped IPv6 ones here, so that a client on a dual-stack socket is one
 * client, and prefixes of both kinds are one table.
 *
 * Must not: allocate while looking, or trust a name that comes from elsewhere.
 */
#include "node/policy/people/blocks.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "node/policy/index/lookup.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy_ip.h"

enum {
    ADDRESS_LEN = 16,
    ADDRESS_BITS = 128,
    MAPPED_LEN = 12,
    MAPPED_BITS = 96,
    STATUS_BLOCKED = 403
};

enum kind { KIND_ATTRIBUTE = 1, KIND_ADDRESS, KIND_KEY };

struct place {
    enum kind kind;
    const char *text; /* "NAME=VALUE", a key, or ADDRESS_LEN bytes and one of the prefix */
    size_t len;
};

struct entry {
    struct place place;
    struct policy_rule rule;
};

struct blocks {
    struct lookup table;                /* of struct entry */
    uint8_t prefixes[ADDRESS_BITS + 1]; /* lengths in use, longest first */
    uint32_t prefix_count;
};

/* ---- addresses ------------------------------------------------------------------------------- */

static void cut(uint8_t address[ADDRESS_LEN], unsigned prefix)
{
    ASSERT(prefix <= ADDRESS_BITS);
    for (unsigned i = 0; i < ADDRESS_LEN; i++) {
        const unsigned kept = prefix > i * 8 ? prefix - i * 8 : 0;
        if (kept < 8)
            address[i] = (uint8_t)(address[i] & (0xff00 >> kept));
    }
}

/* The 16 bytes of an address: one of IPv4 is IPv4-mapped. */
static void put_address(const struct policy_ip *ip, uint8_t out[ADDRESS_LEN])
{
    static const uint8_t mapped[MAPPED_LEN] = {[10] = 0xff, [11] = 0xff};
    if (ip->len == POLICY_IPV6_LEN) {
        memcpy(out, ip->bytes, ADDRESS_LEN);
        return;
    }
    memcpy(out, mapped, MAPPED_LEN);
    memcpy(out + MAPPED_LEN, ip->bytes, POLICY_IPV4_LEN);
}

/* Reads an address in any spelling. False if it is none. */
static bool read_address(const char *text, size_t len, uint8_t out[ADDRESS_LEN])
{
    struct policy_ip ip;
    if (!policy_ip_parse(text, len, &ip))
        return false;
    put_address(&ip, out);
    return true;
}

/* Reads an address in any spelling, or "ADDRESS/BITS"; *prefix counts from the 128, *host_bits
 * tells whether bits behind it are set, which are cleared. False if it is neither. */
static bool read_cidr(const char *text, size_t len, uint8_t out[ADDRESS_LEN], unsigned *prefix,
                      bool *host_bits)
{
    struct policy_block block;
    *host_bits = false;
    *prefix = ADDRESS_BITS;
    if (memchr(text, '/', len) == NULL)
        return read_address(text, len, out);
    const enum policy_block_result result = policy_block_parse(text, len, &block);
    if (result == POLICY_BLOCK_MALFORMED)
        return false;
    put_address(&block.ip, out);
    *host_bits = result == POLICY_BLOCK_HOST_BITS;
    *prefix = block.prefix + (block.ip.len == POLICY_IPV4_LEN ? MAPPED_BITS : 0u);
    return true;
}

static int write_cidr(const uint8_t address[ADDRESS_LEN], unsigned prefix, char *out)
{
    char text[INET6_ADDRSTRLEN];
    static const uint8_t mapped[MAPPED_LEN] = {[10] = 0xff, [11] = 0xff};
    const bool v4 = prefix >= MAPPED_BITS && memcmp(address, mapped, MAPPED_LEN) == 0;
    const char *written = v4 ? inet_ntop(AF_INET, address + MAPPED_LEN, text, sizeof text)
                             : inet_ntop(AF_INET6, address, text, sizeof text);
    ASSERT(written != NULL); /* `text` holds any */
    return snprintf(out, BLOCKS_NAME_LEN_MAX, "cidr %s/%u", text,
                    v4 ? prefix - MAPPED_BITS : prefix);
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return true;
}

static bool attribute_name_ok(const char *name, size_t len)
{
    if (len == 0 || len > POLICY_ATTRIBUTE_NAME_LEN_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        const char c = name[i];
        const bool ok =
            (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
        if (!ok)
            return false;
    }
    return true;
}

static int write_name(const char *kind, const char *text, size_t len, char *out)
{
    const size_t kind_len = strlen(kind);
    ASSERT(kind_len + len <= BLOCKS_NAME_LEN_MAX);
    memcpy(out, kind, kind_len);
    memcpy(out + kind_len, text, len);
    return (int)(kind_len + len);
}

static int refuse(char error[BLOCKS_ERROR_LEN], const char *sentence)
{
    (void)snprintf(error, BLOCKS_ERROR_LEN, "%s", sentence);
    return TG_EINVALID;
}

static int refuse_len(char error[BLOCKS_ERROR_LEN], const char *what, size_t len)
{
    (void)snprintf(error, BLOCKS_ERROR_LEN, "%s: found %zu bytes; expected 1 to %d", what, len,
                   POLICY_VALUE_LEN_MAX);
    return TG_EINVALID;
}

static int name_of_cidr(const char *text, size_t len, char out[BLOCKS_NAME_LEN_MAX],
                        char error[BLOCKS_ERROR_LEN])
{
    enum { KIND_LEN = sizeof "cidr " - 1, SHOWN = INET6_ADDRSTRLEN + 4 };
    uint8_t address[ADDRESS_LEN];
    unsigned prefix;
    bool host_bits;
    if (!read_cidr(text, len, address, &prefix, &host_bits))
        return refuse(error, "found neither attr=value nor an address; expected like user=ada, "
                             "192.0.2.7, 10.0.0.0/8 or 2001:db8::/32");
    const int name_len = write_cidr(address, prefix, out);
    if (!host_bits)
        return name_len;
    (void)snprintf(error, BLOCKS_ERROR_LEN,
                   "found %.*s, which sets bits behind its prefix; expected %.*s or one address",
                   len < SHOWN ? (int)len : SHOWN, text, name_len - KIND_LEN, out + KIND_LEN);
    return TG_EINVALID;
}

/* The name of an attribute's value: in its one spelling, if it can have one. */
static int name_of_value(const struct attribute_kinds *kinds, const struct policy_text *name,
                         struct policy_text value, char out[BLOCKS_NAME_LEN_MAX],
                         char error[BLOCKS_ERROR_LEN])
{
    enum { SHOWN = 64 };
    const enum attribute_kind kind = attribute_kinds_of(kinds, name->data, name->len);
    const char *refusal = attribute_kind_refusal(kind, &value);
    char text[POLICY_VALUE_LEN_MAX + POLICY_ATTRIBUTE_NAME_LEN_MAX + 1];
    char spelt[POLICY_VALUE_LEN_MAX];
    struct policy_ip ip;
    if (refusal != NULL) {
        (void)snprintf(error, BLOCKS_ERROR_LEN, "found %.*s, %s",
                       value.len < SHOWN ? (int)value.len : SHOWN, value.data, refusal);
        return TG_EINVALID;
    }
    attribute_kind_apply(kind, &value, &ip, spelt);
    memcpy(text, name->data, name->len);
    text[name->len] = '=';
    memcpy(text + name->len + 1, value.data, value.len);
    return write_name("attr ", text, name->len + 1 + value.len, out);
}

int blocks_name(const struct attribute_kinds *kinds, const char *text, size_t len, bool is_key,
                char out[BLOCKS_NAME_LEN_MAX], char error[BLOCKS_ERROR_LEN])
{
    const char *equals = len > 0 ? memchr(text, '=', len) : NULL;
    const size_t name_len = equals != NULL ? (size_t)(equals - text) : 0;
    const size_t value_len = equals != NULL ? len - name_len - 1 : 0;
    if (!printable(text, len))
        return refuse(error, "found a control character");
    if (is_key)
        return len <= POLICY_VALUE_LEN_MAX ? write_name("key ", text, len, out)
                                           : refuse_len(error, "key", len);
    if (equals == NULL)
        return name_of_cidr(text, len, out, error);
    if (!attribute_name_ok(text, name_len))
        return refuse(error, "expected the name of an attribute, of a-z 0-9 _ . -, before the '='");
    if (value_len < 1 || value_len > POLICY_VALUE_LEN_MAX)
        return refuse_len(error, "value behind the '='", value_len);
    if (name_len == 2 && memcmp(text, "ip", 2) == 0)
        return name_of_cidr(equals + 1, value_len, out, error);
    return name_of_value(kinds, &(struct policy_text){text, name_len},
                         (struct policy_text){equals + 1, value_len}, out, error);
}

/* What the name of an attribute's value means now: with a kind that has changed since, perhaps
 * another value, or none. */
static bool read_value(const struct attribute_kinds *kinds, const struct policy_text *name,
                       struct place *place, char scratch[BLOCKS_NAME_LEN_MAX])
{
    const char *equals = memchr(name->data, '=', name->len);
    char error[BLOCKS_ERROR_LEN];
    if (equals == NULL || equals == name->data || equals + 1 == name->data + name->len ||
        name->len > BLOCKS_NAME_LEN_MAX - sizeof "attr ")
        return false;
    const size_t name_len = (size_t)(equals - name->data);
    const size_t value_len = name->len - name_len - 1;
    if (name_len > POLICY_ATTRIBUTE_NAME_LEN_MAX || value_len > POLICY_VALUE_LEN_MAX)
        return false;
    const int len = name_of_value(kinds, &(struct policy_text){name->data, name_len},
                                  (struct policy_text){equals + 1, value_len}, scratch, error);
    *place = (struct place){KIND_ATTRIBUTE, scratch + 5, len > 5 ? (size_t)len - 5 : 0};
    return len > 5;
}

/* What a name means; false if blocks_name would not have written it. `scratch` is for what is not
 * in the name. */
static bool read_name(const struct attribute_kinds *kinds, const struct policy_text *name,
                      struct place *place, char scratch[BLOCKS_NAME_LEN_MAX])
{
    uint8_t address[ADDRESS_LEN];
    unsigned prefix;
    bool host_bits;
    if (name->len >= 4 && memcmp(name->data, "key ", 4) == 0) { /* also the empty one */
        *place = (struct place){KIND_KEY, name->data + 4, name->len - 4};
        return true;
    }
    if (name->len > 5 && memcmp(name->data, "attr ", 5) == 0)
        return read_value(kinds, &(struct policy_text){name->data + 5, name->len - 5}, place,
                          scratch);
    if (name->len <= 5 || memcmp(name->data, "cidr ", 5) != 0 ||
        !read_cidr(name->data + 5, name->len - 5, address, &prefix, &host_bits))
        return false;
    memcpy(scratch, address, ADDRESS_LEN);
    scratch[ADDRESS_LEN] = (char)prefix;
    *place = (struct place){KIND_ADDRESS, scratch, ADDRESS_LEN + 1};
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* What is looked for comes in pieces, NAME and VALUE, and is hashed piece by piece. */
static uint64_t hash_of(enum kind kind, const char *a, size_t a_len, const char *b, size_t b_len)
{
    static const struct hash_key key = {{0}}; /* operators choose what is in here, not callers */
    const uint64_t first = hash64(&key, a, a_len);
    return hash_mix64(first ^ hash_mix64(hash64(&key, b, b_len) + (uint64_t)kind));
}

static uint64_t hash_place(const struct place *place)
{
    const char *equals =
        place->kind == KIND_ATTRIBUTE ? memchr(place->text, '=', place->len) : NULL;
    if (equals == NULL)
        return hash_of(place->kind, place->text, place->len, "", 0);
    const size_t name_len = (size_t)(equals - place->text);
    return hash_of(place->kind, place->text, name_len, equals + 1, place->len - name_len - 1);
}

static void note_prefix(struct blocks *blocks, uint8_t prefix)
{
    uint32_t at = 0;
    while (at < blocks->prefix_count && blocks->prefixes[at] > prefix)
        at++;
    if (at < blocks->prefix_count && blocks->prefixes[at] == prefix)
        return;
    memmove(blocks->prefixes + at + 1, blocks->prefixes + at, blocks->prefix_count - at);
    ASSERT(blocks->prefix_count < sizeof blocks->prefixes && prefix <= ADDRESS_BITS); /* BLOCKS-3 */
    blocks->prefixes[at] = prefix;
    blocks->prefix_count++;
}

static void add(struct blocks *blocks, const struct attribute_kinds *kinds,
                const struct block *block)
{
    char scratch[BLOCKS_NAME_LEN_MAX];
    struct place place;
    if (!read_name(kinds, &block->name, &place, scratch))
        return;
    const size_t reason_len =
        block->reason.len < BLOCKS_REASON_LEN_MAX ? block->reason.len : BLOCKS_REASON_LEN_MAX;
    struct entry *entry = lookup_add(&blocks->table);
    const char *text = lookup_keep(&blocks->table, place.text, place.len).data;
    entry->place = (struct place){place.kind, text, place.len};
    entry->rule.until_ms = block->until_ms;
    entry->rule.name = (struct policy_text){"", 0};
    entry->rule.group = (struct policy_text){"", 0};
    entry->rule.message = lookup_keep(&blocks->table, block->reason.data, reason_len);
    entry->rule.act = POLICY_ACT_BLOCK;
    entry->rule.status = STATUS_BLOCKED;
    entry->rule.enabled = true;
    if (place.kind == KIND_ADDRESS)
        note_prefix(blocks, (uint8_t)place.text[ADDRESS_LEN]);
    lookup_file(&blocks->table, hash_place(&entry->place));
}

static bool is_place(const struct place *place, enum kind kind, const char *a, size_t a_len,
                     const char *b, size_t b_len)
{
    const size_t joint = kind == KIND_ATTRIBUTE;
    return place->kind == kind && place->len == a_len + joint + b_len &&
           memcmp(place->text, a, a_len) == 0 && (joint == 0 || place->text[a_len] == '=') &&
           (b_len == 0 || memcmp(place->text + a_len + joint, b, b_len) == 0);
}

static const struct policy_rule *find(const struct blocks *blocks, enum kind kind, const char *a,
                                      size_t a_len, const char *b, size_t b_len, uint64_t now_ms)
{
    const struct lookup *table = &blocks->table;
    const struct entry *entry;
    uint32_t at = lookup_home(table, hash_of(kind, a, a_len, b, b_len));
    while ((entry = lookup_at(table, at)) != NULL &&
           (!is_place(&entry->place, kind, a, a_len, b, b_len) ||
            (entry->rule.until_ms != 0 && now_ms >= entry->rule.until_ms)))
        at = lookup_next(table, at); /* two spellings may be blocked until different times */
    return entry != NULL ? &entry->rule : NULL;
}

static const struct policy_rule *
find_address(const struct blocks *blocks, const struct policy_attribute *attribute, uint64_t now_ms)
{
    uint8_t address[ADDRESS_LEN];
    char probe[ADDRESS_LEN + 1];
    if (blocks->prefix_count == 0 || !read_address(attribute->value, attribute->value_len, address))
        return NULL;
    const struct policy_rule *longest = NULL;
    for (uint32_t i = 0; i < blocks->prefix_count; i++) { /* longest first: cut on and on */
        cut(address, blocks->prefixes[i]);
        memcpy(probe, address, ADDRESS_LEN);
        probe[ADDRESS_LEN] = (char)blocks->prefixes[i];
        longest =
            policy_longer(longest, find(blocks, KIND_ADDRESS, probe, sizeof probe, "", 0, now_ms));
    }
    return longest;
}

const struct policy_rule *blocks_find(const struct blocks *blocks,
                                      const struct policy_attribute *attributes, size_t count,
                                      uint64_t now_ms)
{
    const struct policy_rule *longest = NULL;
    for (size_t i = 0; blocks != NULL && i < count; i++) {
        const struct policy_attribute *attribute = &attributes[i];
        const bool is_ip = attribute->name_len == 2 && memcmp(attribute->name, "ip", 2) == 0;
        longest = policy_longer(longest, is_ip ? find_address(blocks, attribute, now_ms)
                                               : find(blocks, KIND_ATTRIBUTE, attribute->name,
                                                      attribute->name_len, attribute->value,
                                                      attribute->value_len, now_ms));
    }
    return longest;
}

const struct policy_rule *blocks_find_key(const struct blocks *blocks, const char *key, size_t len,
                                          uint64_t now_ms)
{
    return blocks != NULL ? find(blocks, KIND_KEY, key, len, "", 0, now_ms) : NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

int blocks_new(const struct allocator *allocator, const struct attribute_kinds *kinds,
               const struct block *blocks, size_t count, struct blocks **out)
{
    size_t bytes = 0;
    *out = NULL;
    if (count > BLOCKS_MAX)
        return TG_ETOOBIG;
    for (size_t i = 0; i < count; i++)
        bytes += blocks[i].name.len + blocks[i].reason.len + POLICY_IP_TEXT_LEN;
    struct blocks *made = alloc_get(allocator, sizeof *made);
    if (made == NULL)
        return TG_ENOMEM;
    const int error = lookup_init(&made->table, allocator, count, sizeof(struct entry), bytes);
    for (size_t i = 0; error == 0 && i < count; i++)
        add(made, kinds, &blocks[i]);
    if (error == 0)
        *out = made;
    else
        blocks_free(&made);
    return error;
}

void blocks_free(struct blocks **pointer)
{
    struct blocks *blocks = *pointer;
    *pointer = NULL;
    if (blocks == NULL)
        return;
    const struct allocator *allocator = blocks->table.allocator;
    lookup_fini(&blocks->table);
    alloc_put(allocator, blocks, sizeof *blocks);
}

static uint64_t hash_of_entry(const void *entry)
{
    const struct entry *block = entry;
    return hash_place(&block->place);
}

static void check_address(const struct blocks *blocks, const struct place *place)
{
    const uint8_t prefix = (uint8_t)place->text[ADDRESS_LEN];
    uint8_t address[ADDRESS_LEN];
    INVARIANT("BLOCKS-3", place->len == ADDRESS_LEN + 1);
    INVARIANT("BLOCKS-3", memchr(blocks->prefixes, prefix, blocks->prefix_count) != NULL);
    memcpy(address, place->text, sizeof address);
    cut(address, prefix);
    INVARIANT("BLOCKS-3", memcmp(address, place->text, sizeof address) == 0);
}

void blocks_check_invariants(const struct blocks *blocks)
{
    if (blocks == NULL)
        return;
    lookup_check(&blocks->table, hash_of_entry);
    INVARIANT("BLOCKS-3", blocks->prefix_count <= sizeof blocks->prefixes);
    for (uint32_t i = 1; i < blocks->prefix_count; i++)
        INVARIANT("BLOCKS-3", blocks->prefixes[i - 1] > blocks->prefixes[i]);
    for (size_t i = 0; i < blocks->table.count; i++) {
        const struct entry *entry = (const void *)(blocks->table.entries + i * sizeof *entry);
        if (entry->place.kind == KIND_ADDRESS)
            check_address(blocks, &entry->place);
        INVARIANT("BLOCKS-3", entry->rule.act == POLICY_ACT_BLOCK && entry->rule.enabled);
    }
}
