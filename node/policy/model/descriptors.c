/* descriptors.c - the table by which descriptors are found, and their paths; see descriptors.h.
 *
 * One table of open addressing, less than half full, has each node by (parent, composite), and the
 * first of the wildcards that are alike once more, by (parent, shape, stems):
 *
 *   (7, exact,   "path_/cart")        -> node 8
 *   (7, exact,   "path_/img-*.png")   -> node 9      a request may hold a literal star
 *   (7, 10/4,    "path_/img-" ".png") -> node 9 --alike--> node 12
 *
 * DESCRIPTORS-3  Two different paths are written differently, and none of them begins with a `#`:
 *                what would be taken for something else has a `\` before it.
 *
 * Must not: allocate.
 */
#include "node/policy/model/descriptors.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/model/policy_internal.h"

/* ---- the table --------------------------------------------------------------------------------
 */

/* The table is made of the file alone, which is the operator's: no secret is needed. */
static uint64_t stir(uint64_t hash, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint32_t hash_of(const struct descriptor_wanted *wanted)
{
    uint64_t hash = hash_mix64(((uint64_t)wanted->parent << 17) + 1);
    if (wanted->shape == NULL) {
        hash = stir(hash, wanted->data, wanted->len);
    } else {
        hash = hash_mix64(hash + 2 + wanted->shape->begin_len * 256u + wanted->shape->end_len);
        hash = stir(hash, wanted->data, wanted->shape->begin_len);
        hash =
            stir(hash, wanted->data + wanted->len - wanted->shape->end_len, wanted->shape->end_len);
    }
    hash = hash_mix64(hash);
    return (uint32_t)(hash >> 32);
}

static bool same_shape(const struct descriptor_shape *a, const struct descriptor_shape *b)
{
    return a->begin_len == b->begin_len && a->end_len == b->end_len;
}

static bool is_wanted(const struct descriptor_node *node, const struct descriptor_wanted *wanted,
                      bool by_shape)
{
    const struct policy_text *own = &node->composite;
    const struct descriptor_shape *shape = wanted->shape;
    if (node->parent != wanted->parent || by_shape != (shape != NULL))
        return false;
    if (!by_shape)
        return own->len == wanted->len && memcmp(own->data, wanted->data, own->len) == 0;
    return same_shape(&node->shape, shape) &&
           memcmp(own->data, wanted->data, shape->begin_len) == 0 &&
           memcmp(own->data + own->len - shape->end_len,
                  wanted->data + wanted->len - shape->end_len, shape->end_len) == 0;
}

/* Where it is, or is to be. */
static struct descriptor_place *place_of(const struct descriptors *descriptors,
                                         const struct descriptor_wanted *wanted)
{
    const uint32_t hash = hash_of(wanted);
    uint32_t at = hash & descriptors->mask;
    for (;; at = (at + 1) & descriptors->mask) {
        struct descriptor_place *place = &descriptors->places[at];
        if (place->node == 0)
            return place;
        const struct descriptor_node *node = &descriptors->nodes[place->node - 1];
        if (place->hash == hash && is_wanted(node, wanted, place->by_shape))
            return place;
    }
}

uint32_t descriptors_find(const struct descriptors *descriptors,
                          const struct descriptor_wanted *wanted)
{
    return place_of(descriptors, wanted)->node - 1; /* free: 0 - 1 is NONE */
}

/* Enters the newest node, unless another one is there, which is given back; else NONE. */
static uint32_t enter(struct descriptors *descriptors, const struct descriptor_wanted *wanted)
{
    struct descriptor_place *place = place_of(descriptors, wanted);
    if (place->node != 0)
        return place->node - 1;
    *place = (struct descriptor_place){.hash = hash_of(wanted),
                                       .node = descriptors->node_count + 1,
                                       .by_shape = wanted->shape != NULL};
    return DESCRIPTOR_NONE;
}

/* Puts a wildcard behind those that are found by the same bytes, and its shape among those of its
 * level. */
static void file_wildcard(struct descriptors *descriptors, struct descriptor_node *node)
{
    struct descriptor_node *nodes = descriptors->nodes;
    uint32_t *at = &nodes[node->parent].shapes;
    const struct descriptor_wanted wanted = {node->parent, node->composite.data,
                                             node->composite.len, &node->shape};
    const uint32_t first = enter(descriptors, &wanted);
    node->alike_last = descriptors->node_count;
    if (first != DESCRIPTOR_NONE) {
        nodes[nodes[first].alike_last].alike = descriptors->node_count;
        nodes[first].alike_last = descriptors->node_count;
        return;
    }
    while (*at != DESCRIPTOR_NONE && !same_shape(&nodes[*at].shape, &node->shape))
        at = &nodes[*at].shaped;
    if (*at == DESCRIPTOR_NONE)
        *at = descriptors->node_count;
}

static struct descriptor_shape shape_of(const struct policy_text *composite)
{
    const char *first = memchr(composite->data, '*', composite->len);
    const char *last = memrchr(composite->data, '*', composite->len);
    const size_t begin = (size_t)(first - composite->data);
    const size_t end = composite->len - (size_t)(last - composite->data) - 1;
    return (struct descriptor_shape){
        .begin_len = (uint8_t)(begin < DESCRIPTOR_STEM_LEN ? begin : DESCRIPTOR_STEM_LEN),
        .end_len = (uint8_t)(end < DESCRIPTOR_STEM_LEN ? end : DESCRIPTOR_STEM_LEN)};
}

void descriptors_add(struct descriptors *descriptors)
{
    struct descriptor_node *nodes = descriptors->nodes;
    const uint32_t index = descriptors->node_count;
    struct descriptor_node *node = &nodes[index];
    const struct descriptor_wanted exact = {node->parent, node->composite.data, node->composite.len,
                                            NULL};
    const uint32_t other = enter(descriptors, &exact);
    ASSERT(other == DESCRIPTOR_NONE); /* DESCRIPTORS-1 */
    node->first = node->last = node->next = DESCRIPTOR_NONE;
    node->shapes = node->shaped = node->alike = DESCRIPTOR_NONE;
    if (node->parent != DESCRIPTOR_NONE) {
        struct descriptor_node *parent = &nodes[node->parent];
        *(parent->first == DESCRIPTOR_NONE ? &parent->first : &nodes[parent->last].next) = index;
        parent->last = index;
        node->wild = memchr(node->composite.data, '*', node->composite.len) != NULL;
    }
    if (node->wild) {
        node->shape = shape_of(&node->composite);
        file_wildcard(descriptors, node);
    }
    if (node->composite.len > descriptors->exact_max)
        descriptors->exact_max = (uint32_t)node->composite.len;
    descriptors->node_count++;
}

uint32_t descriptors_places(uint32_t nodes)
{
    uint32_t places = 8;
    while (places < 4 * nodes) /* each is entered twice at most */
        places *= 2;
    return places;
}

const struct policy_rule *descriptors_rule(const struct descriptors *descriptors,
                                           const struct policy_text *name, uint32_t node,
                                           uint32_t *compared)
{
    if (node < descriptors->node_count && descriptors->nodes[node].rule != NULL &&
        policy_text_equal(&descriptors->nodes[node].rule->name, name))
        return descriptors->nodes[node].rule;
    *compared += descriptors->node_count;
    for (uint32_t i = 0; i < descriptors->node_count; i++)
        if (descriptors->nodes[i].rule != NULL &&
            policy_text_equal(&descriptors->nodes[i].rule->name, name))
            return descriptors->nodes[i].rule;
    return NULL;
}

const struct descriptor_domain *descriptors_domain(const struct descriptors *descriptors,
                                                   const struct policy_text *name)
{
    const struct descriptor_wanted wanted = {DESCRIPTOR_NONE, name->data, name->len, NULL};
    const uint32_t node = descriptors_find(descriptors, &wanted);
    return node == DESCRIPTOR_NONE ? NULL : &descriptors->domains[descriptors->nodes[node].domain];
}

/* ---- paths ------------------------------------------------------------------------------------
 */

static void put(struct descriptor_writer *writer, char c)
{
    if (writer->len < writer->capacity)
        writer->out[writer->len] = c;
    writer->len++;
}

void descriptor_write(struct descriptor_writer *writer, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        put(writer, text[i]);
}

/* The character at `at` if no text in quotes may hold it as it is, and how many bytes it has; 0.
 * libyaml has checked the encoding. */
static unsigned escaped_at(const unsigned char *at, size_t left, size_t *len)
{
    *len = 1;
    if (at[0] < 0x20 || at[0] == 0x7f)
        return at[0];
    if (left >= 2 && at[0] == 0xc2 && at[1] < 0xa0) {
        *len = 2;
        return at[1];
    }
    if (left < 3 || (at[0] != 0xe2 && at[0] != 0xef))
        return 0;
    const unsigned code = (at[0] & 0xfU) << 12 | (at[1] & 0x3fU) << 6 | (at[2] & 0x3fU);
    const bool bad = code == 0x2028 || code == 0x2029 || code == 0xfeff || code >= 0xfffe;
    *len = bad ? 3 : 1;
    return bad ? code : 0;
}

void descriptor_write_quoted(struct descriptor_writer *writer, const struct policy_text *text)
{
    const unsigned char *at = (const unsigned char *)text->data;
    char escape[8];
    size_t len;
    put(writer, '"');
    for (size_t i = 0; i < text->len; i += len) {
        const unsigned code = escaped_at(at + i, text->len - i, &len);
        if (code != 0) {
            const int written = snprintf(escape, sizeof escape, "\\u%04x", code & 0xffffU);
            descriptor_write(writer, escape, (size_t)written);
            continue;
        }
        if (at[i] == '"' || at[i] == '\\')
            put(writer, '\\');
        put(writer, text->data[i]);
    }
    put(writer, '"');
}

static void put_text(struct descriptor_writer *writer, const struct policy_text *text)
{
    for (size_t i = 0; i < text->len; i++) {
        if (text->data[i] != '\0' && strchr(",=#:\\", text->data[i]) != NULL)
            put(writer, '\\'); /* DESCRIPTORS-3 */
        put(writer, text->data[i]);
    }
}

void descriptor_write_entry(struct descriptor_writer *writer, const struct policy_text *key,
                            const struct policy_text *value, bool first)
{
    if (!first)
        put(writer, ',');
    put_text(writer, key);
    if (value == NULL)
        return;
    put(writer, '=');
    put_text(writer, value);
}

struct policy_text descriptor_value(const struct descriptor_node *node)
{
    const struct policy_text *whole = &node->composite;
    const size_t from = node->key_len == whole->len ? whole->len : node->key_len + (size_t)1;
    return (struct policy_text){whole->data + from, whole->len - from};
}

const struct descriptors *policy_descriptors(const struct policy *policy)
{
    return policy->descriptors;
}
