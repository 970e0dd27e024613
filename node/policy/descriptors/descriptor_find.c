/* descriptor_find.c - see descriptor_find.h. */
#include "node/policy/descriptors/descriptor_find.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/descriptors/descriptor_reader.h"
#include "node/policy/model/policy_internal.h"

enum { COMPOSITE_LEN_MAX = DESCRIPTOR_KEY_LEN_MAX + 1 + DESCRIPTOR_GIVEN_LEN_MAX };

/* ---- wildcards ------------------------------------------------------------------------------- */

/* What is between two stars, or NULL behind the last one. */
static const char *segment_end(const char *from, const char *end)
{
    return memchr(from, '*', (size_t)(end - from));
}

/* The first piece is the beginning, the last the end, and those between are found from the left:
 * if any way to match exists, that one does. */
static bool wildcard_matches(const struct policy_text *pattern, const char *text, size_t len)
{
    const char *end = pattern->data + pattern->len;
    const char *star = segment_end(pattern->data, end);
    const char *last = memrchr(pattern->data, '*', pattern->len);
    const size_t begin_len = (size_t)(star - pattern->data);
    const size_t end_len = (size_t)(end - last) - 1;
    if (len < begin_len + end_len || memcmp(text, pattern->data, begin_len) != 0 ||
        memcmp(text + len - end_len, last + 1, end_len) != 0)
        return false;
    const char *at = text + begin_len;
    const char *stop = text + len - end_len;
    while (star != last) {
        const char *piece = star + 1;
        star = segment_end(piece, end);
        const size_t piece_len = (size_t)(star - piece);
        if (piece_len == 0)
            continue;
        const char *found = memmem(at, (size_t)(stop - at), piece, piece_len);
        if (found == NULL)
            return false;
        at = found + piece_len;
    }
    return true;
}

/* ---- a level --------------------------------------------------------------------------------- */

struct walk {
    const struct descriptors *descriptors;
    struct descriptor_found *out;
    size_t len; /* of the composite */
    char composite[COMPOSITE_LEN_MAX];
};

static uint32_t look(struct walk *walk, uint32_t parent, size_t len,
                     const struct descriptor_shape *shape)
{
    const struct descriptor_wanted wanted = {parent, walk->composite, len, shape};
    walk->out->looks++;
    return descriptors_find(walk->descriptors, &wanted);
}

/* The first of the wildcards that are filed alike which matches. */
static uint32_t first_alike(struct walk *walk, uint32_t node)
{
    const struct descriptor_node *nodes = walk->descriptors->nodes;
    for (; node != DESCRIPTOR_NONE; node = nodes[node].alike) {
        walk->out->compared++;
        if (wildcard_matches(&nodes[node].composite, walk->composite, walk->len))
            return node;
    }
    return DESCRIPTOR_NONE;
}

/* The first of all wildcards of the level: nodes stand in the order of the file. */
static uint32_t find_wildcard(struct walk *walk, uint32_t parent)
{
    const struct descriptor_node *nodes = walk->descriptors->nodes;
    uint32_t first = DESCRIPTOR_NONE;
    for (uint32_t at = nodes[parent].shapes; at != DESCRIPTOR_NONE; at = nodes[at].shaped) {
        const struct descriptor_shape *shape = &nodes[at].shape;
        if (walk->len < shape->begin_len || walk->len < shape->end_len)
            continue;
        const uint32_t node = first_alike(walk, look(walk, parent, walk->len, shape));
        first = node < first ? node : first; /* NONE is the greatest */
    }
    return first;
}

static uint32_t find_level(struct walk *walk, uint32_t parent, const struct descriptor_entry *entry)
{
    const size_t longest = walk->descriptors->exact_max;
    uint32_t node = DESCRIPTOR_NONE;
    memcpy(walk->composite, entry->key.data, entry->key.len);
    walk->composite[entry->key.len] = '_';
    memcpy(walk->composite + entry->key.len + 1, entry->value.data, entry->value.len);
    walk->len = entry->key.len + 1 + entry->value.len;
    if (walk->len <= longest)
        node = look(walk, parent, walk->len, NULL);
    if (node == DESCRIPTOR_NONE)
        node = find_wildcard(walk, parent);
    if (node == DESCRIPTOR_NONE && entry->key.len <= longest)
        node = look(walk, parent, entry->key.len, NULL);
    return node;
}

/* ---- the path -------------------------------------------------------------------------------- */

/* What an entry is counted by: the pattern where that is shared. */
static struct descriptor_entry counted_entry(const struct walk *walk,
                                             const struct descriptor_request *request, uint32_t i)
{
    const struct descriptor_found *out = walk->out;
    if (out->descriptor == NULL || i >= out->depth)
        return request->entries[i];
    const struct descriptor_node *node = &walk->descriptors->nodes[out->nodes[i]];
    if (!node->share_threshold)
        return request->entries[i];
    return (struct descriptor_entry){{node->composite.data, node->key_len}, descriptor_value(node)};
}

static void chain(struct hash_key *key, const struct policy_text *text)
{
    const struct hash128 hash = hash128(key, text->data, text->len);
    memcpy(key->bytes, &hash.lo, sizeof hash.lo);
    memcpy(key->bytes + sizeof hash.lo, &hash.hi, sizeof hash.hi);
}

/* DESCRIPTORFIND-3 */
static void write_path(const struct walk *walk, const struct descriptor_request *request,
                       const struct hash_key *secret)
{
    struct descriptor_found *out = walk->out;
    struct descriptor_writer writer = {out->text, DESCRIPTOR_PATH_LEN_MAX, 0};
    struct hash_key key = *secret;
    for (uint32_t i = 0; i < request->entry_count; i++) {
        const struct descriptor_entry entry = counted_entry(walk, request, i);
        descriptor_write_entry(&writer, &entry.key, &entry.value, i == 0);
    }
    size_t len = writer.len;
    for (uint32_t i = 0; len > DESCRIPTOR_PATH_LEN_MAX && i < request->entry_count; i++) {
        const struct descriptor_entry entry = counted_entry(walk, request, i);
        chain(&key, &entry.key);
        chain(&key, &entry.value);
    }
    if (len > DESCRIPTOR_PATH_LEN_MAX) {
        const struct hash128 hash = hash128(&key, "", 0);
        len = (size_t)snprintf(out->text, sizeof out->text, "#%016llx%016llx",
                               (unsigned long long)hash.hi, (unsigned long long)hash.lo);
    }
    out->text[len] = '\0';
    out->path = (struct policy_text){out->text, len};
}

/* ---- the limit ------------------------------------------------------------------------------- */

static void take_limit(struct descriptor_found *out, const struct policy_rule *rule,
                       uint32_t requests, uint64_t window_s)
{
    out->rule = rule;
    out->requests_per_unit = requests;
    out->window_s = window_s;
    out->match = window_s == 0   ? DESCRIPTOR_UNLIMITED
                 : requests == 0 ? DESCRIPTOR_NOTHING
                                 : DESCRIPTOR_LIMITED;
    if (out->match == DESCRIPTOR_LIMITED)
        out->limit = descriptor_limit(requests, window_s);
}

/* Walks entries and levels together. */
static void find(struct walk *walk, uint32_t domain, const struct descriptor_request *request)
{
    const struct descriptor_node *nodes = walk->descriptors->nodes;
    struct descriptor_found *out = walk->out;
    uint32_t node = domain;
    for (uint32_t i = 0; i < request->entry_count; i++) {
        if (nodes[node].first == DESCRIPTOR_NONE) /* the request is deeper */
            return;
        node = find_level(walk, node, &request->entries[i]);
        if (node == DESCRIPTOR_NONE)
            return;
        out->nodes[out->depth++] = node;
    }
    const struct policy_rule *rule = nodes[node].rule;
    if (rule == NULL || node == domain)
        return;
    out->descriptor = rule->descriptor;
    take_limit(out, rule, rule->descriptor->requests_per_unit, rule->descriptor->unit_s);
}

static int check_bounds(const struct descriptor_request *request, char *error)
{
    if (request->domain.len == 0) {
        (void)snprintf(error, DESCRIPTOR_ERROR_LEN, "domain: found nothing; expected a name");
        return TG_EINVALID;
    }
    if (request->entry_count > DESCRIPTOR_ENTRIES_MAX) {
        (void)snprintf(error, DESCRIPTOR_ERROR_LEN, "entries: found %u; expected at most %d",
                       request->entry_count, DESCRIPTOR_ENTRIES_MAX);
        return TG_EINVALID;
    }
    for (uint32_t i = 0; i < request->entry_count; i++) {
        const struct descriptor_entry *entry = &request->entries[i];
        const bool key = entry->key.len > DESCRIPTOR_KEY_LEN_MAX;
        if (!key && entry->value.len <= DESCRIPTOR_GIVEN_LEN_MAX)
            continue;
        (void)snprintf(error, DESCRIPTOR_ERROR_LEN,
                       "entries[%u].%s: found %zu bytes; expected at most %d", i,
                       key ? "key" : "value", key ? entry->key.len : entry->value.len,
                       key ? (int)DESCRIPTOR_KEY_LEN_MAX : (int)DESCRIPTOR_GIVEN_LEN_MAX);
        return TG_EINVALID;
    }
    if (request->given != NULL && (request->given->window_s == 0 ||
                                   request->given->window_s > LIMIT_WINDOW_MAX_NS / 1000000000)) {
        (void)snprintf(error, DESCRIPTOR_ERROR_LEN,
                       "limit.unit: found %llu seconds; expected a unit, of at most ten years",
                       (unsigned long long)request->given->window_s);
        return TG_EINVALID;
    }
    return TG_OK;
}

int policy_descriptor_find(const struct policy *policy, const struct descriptor_request *request,
                           const struct hash_key *secret, struct descriptor_found *out, char *error)
{
    struct walk walk; /* 8 KiB that nobody clears */
    const struct descriptors *descriptors = policy->descriptors;
    out->match = DESCRIPTOR_NO_DOMAIN;
    out->rule = NULL;
    out->descriptor = NULL;
    out->path = (struct policy_text){"", 0};
    out->window_s = 0;
    out->requests_per_unit = 0;
    out->depth = out->looks = out->compared = 0;
    if (check_bounds(request, error) != TG_OK)
        return TG_EINVALID;
    const struct descriptor_domain *domain =
        descriptors == NULL ? NULL : descriptors_domain(descriptors, &request->domain);
    if (domain == NULL)
        return TG_OK;
    out->match = DESCRIPTOR_NO_LIMIT;
    walk.descriptors = descriptors;
    walk.out = out;
    if (request->given != NULL)
        take_limit(out, &domain->given, request->given->requests_per_unit,
                   request->given->window_s);
    else if (request->entry_count <= DESCRIPTOR_DEPTH_MAX)
        find(&walk, domain->node, request);
    if (out->match == DESCRIPTOR_LIMITED)
        write_path(&walk, request, secret);
    return TG_OK;
}

/* ---- several --------------------------------------------------------------------------------- */

static bool has_limit(const struct descriptor_found *found)
{
    return found->descriptor != NULL && found->descriptor->name.len > 0;
}

void policy_descriptors_replace(struct descriptor_found *found, size_t count)
{
    /* What replaces does so even if it is replaced itself. */
    for (size_t i = 0; i < count; i++) {
        const struct descriptor *by = found[i].descriptor;
        for (uint32_t k = 0; by != NULL && k < by->replace_count; k++)
            for (size_t other = 0; other < count; other++)
                if (has_limit(&found[other]) &&
                    policy_text_equal(&found[other].descriptor->name, &by->replaces[k]))
                    found[other].match = DESCRIPTOR_REPLACED;
    }
}

/* ---- names of counters ----------------------------------------------------------------------- */

struct stat {
    char *out;
    size_t len;
    size_t capacity;
};

static void put(struct stat *stat, const char *text, size_t len)
{
    for (size_t i = 0; i < len && stat->len + 1 < stat->capacity; i++)
        stat->out[stat->len++] = text[i] == ':' || text[i] == '|' ? '_' : text[i];
}

/* The length of an IPv4 address that begins at `at`, or 0. */
static size_t address_len(const char *at)
{
    size_t len = 0;
    for (int part = 0; part < 4; part++) {
        const size_t digits = strspn(at + len, "0123456789");
        if (digits == 0 || digits > 3 || (part < 3 && at[len + digits] != '.'))
            return 0;
        len += digits + (part < 3);
    }
    return len;
}

/* Dots part the levels of a name: those of addresses do not. */
static void fold_addresses(char *text)
{
    for (char *at = text; *at != '\0'; at++) {
        const size_t len = at == text || at[-1] < '0' || at[-1] > '9' ? address_len(at) : 0;
        for (size_t i = 0; i < len; i++)
            at[i] = at[i] == '.' ? '_' : at[i];
    }
}

static void put_entry(struct stat *stat, const struct descriptor_entry *entry)
{
    put(stat, entry->key.data, entry->key.len);
    if (entry->value.len == 0)
        return;
    put(stat, "_", 1);
    put(stat, entry->value.data, entry->value.len);
}

size_t policy_descriptor_stat(const struct policy *policy, const struct descriptor_request *request,
                              const struct descriptor_found *found, char *out, size_t capacity)
{
    struct stat stat = {out, 0, capacity};
    ASSERT(capacity > 0);
    out[0] = '\0';
    if (found->rule == NULL)
        return 0;
    const struct descriptor_node *nodes = policy->descriptors->nodes;
    const bool given = found->descriptor == NULL;
    const bool detailed = !given && nodes[found->descriptor->node].detailed_metric;
    put(&stat, request->domain.data, request->domain.len);
    for (uint32_t i = 0; i < request->entry_count; i++) {
        const struct descriptor_node *node = given ? NULL : &nodes[found->nodes[i]];
        const bool told = given || (!node->share_threshold && (detailed || node->value_to_metric));
        put(&stat, ".", 1);
        if (told)
            put_entry(&stat, &request->entries[i]);
        else
            put(&stat, node->composite.data, node->composite.len);
    }
    out[stat.len] = '\0';
    fold_addresses(out);
    return stat.len;
}
