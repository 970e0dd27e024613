/* descriptors.h - the domains of a policy: trees of descriptors, as envoyproxy/ratelimit has them.
 *
 *   domain "shop"
 *     path_/cart        key `path`, value `/cart`: 100 a minute
 *     path_/img-*       a wildcard: everything that begins so
 *       user            below it: key `user` alone, of whatever value
 *
 * A node is met by its composite, which is KEY, or KEY_VALUE. What has a limit is a rule of the
 * policy as well (policy_rule.descriptor), so that it is listed, compared, told of and counted as
 * others are; but requests by attributes never meet it.
 *
 * DESCRIPTORS-1  Nodes stand in the order of the file, each before those below it; no two below one
 *                node have one composite.
 * DESCRIPTORS-2  The name of a descriptor's rule is a function of its domain and path alone, and no
 *                other's: neighbours that come or go do not rename it.
 *
 * Immutable after compilation, as the policy is.
 */
#ifndef NODE_POLICY_MODEL_DESCRIPTORS_H
#define NODE_POLICY_MODEL_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "node/policy/model/policy.h"

enum {
    DESCRIPTORS_MAX = 65536,         /* nodes of a policy, domains among them */
    DESCRIPTOR_DOMAINS_MAX = 1024,   /* of a policy */
    DESCRIPTOR_DOMAIN_LEN_MAX = 120, /* beside the word that begins the name of its counts */
    DESCRIPTOR_DEPTH_MAX = 16,       /* entries of a descriptor */
    DESCRIPTOR_KEY_LEN_MAX = 256,    /* of a key of the file, or of a request's entry */
    DESCRIPTOR_VALUE_LEN_MAX = 1024, /* of a value of the file */
    DESCRIPTOR_GIVEN_LEN_MAX = 8192, /* of a value of a request's entry */
    DESCRIPTOR_REPLACES_MAX = 64,    /* names that one limit replaces */
    DESCRIPTOR_METADATA_LEN_MAX = 4096,
    DESCRIPTOR_METADATA_DEPTH_MAX = 12, /* lists and mappings inside each other */
    DESCRIPTOR_PATH_LEN_MAX = 128,      /* of what is counted; a longer path is hashed */
    DESCRIPTOR_NOTES_MAX = 8,
    DESCRIPTOR_STEM_LEN = 32 /* bytes by which wildcards are found */
};
/* Begins the name that the counts of a domain have. */
#define DESCRIPTOR_COUNTED_PREFIX "domain "
/* The one attribute that descriptors are counted by. */
#define DESCRIPTOR_ATTRIBUTE "descriptor"
#define DESCRIPTOR_NONE      UINT32_MAX

struct descriptors;

/* What a descriptor's limit has beyond a rule's. */
struct descriptor {
    struct policy_text name; /* that others may replace it by, and that answers tell; len 0: none */
    const struct policy_text *replaces; /* names of limits that it takes the place of */
    const struct descriptors *all;      /* whose node it has */
    uint32_t node;
    uint32_t requests_per_unit; /* as the file says; 0: nothing is allowed */
    uint32_t unit_s;            /* seconds of the unit; 0: unlimited */
    uint16_t replace_count;
    bool shadow; /* as the file says: its rule never denies */
    bool quota;  /* denies only where all quota descriptors of the request deny */
};

/* How much of a wildcard it is found by. */
struct descriptor_shape {
    uint8_t begin_len; /* of what is before the first `*`: its first bytes, STEM_LEN at most */
    uint8_t end_len;   /* of what is behind the last one: its last bytes */
};

struct descriptor_node {
    struct policy_text composite;   /* KEY or KEY_VALUE; of a domain, its name */
    const struct policy_rule *rule; /* NULL: it has no limit */
    struct policy_text metadata;    /* as JSON on one line; len 0: none */
    uint32_t parent;                /* NONE: it is a domain */
    uint32_t first;                 /* the first and the last one below it, or NONE */
    uint32_t last;
    uint32_t next;       /* the next one beside it, or NONE */
    uint32_t domain;     /* its domain's place in `domains` */
    uint32_t shapes;     /* of the wildcards below it: the first one of each shape, by `shaped` */
    uint32_t shaped;     /* a wildcard: the first one beside it of another shape, or NONE */
    uint32_t alike;      /* a wildcard: the next one that is found by the same bytes, or NONE */
    uint32_t alike_last; /* of the first one of them: the last one */
    uint32_t line;       /* in the file */
    uint16_t key_len;
    struct descriptor_shape shape; /* of a wildcard */
    uint8_t depth;                 /* 0: a domain */
    bool wild;
    bool share_threshold; /* all values that the wildcard matches have one count */
    bool value_to_metric;
    bool detailed_metric;
};

/* Of each domain. */
struct descriptor_domain {
    uint32_t node;
    struct policy_rule given; /* the rule of limits that come with the request; it has none itself */
};

/* A place of the table by which nodes are found. */
struct descriptor_place {
    uint32_t hash;
    uint32_t node; /* and 1; 0: free */
    bool by_shape;
};

/* A key in a place where it has no effect, which the reference ignores. */
struct descriptor_note {
    uint32_t line;
    uint32_t column;
    const char *key;   /* static */
    const char *where; /* static */
};

struct descriptors {
    struct descriptor_node *nodes;
    struct descriptor_domain *domains; /* in the order of the file */
    struct descriptor_place *places;
    uint32_t node_count;
    uint32_t domain_count;
    uint32_t mask;       /* of places, one of which is free at least */
    uint32_t exact_max;  /* bytes of the longest composite without `*` */
    bool all_or_nothing; /* `charge: all` */
    uint32_t note_count;
    struct descriptor_note notes[DESCRIPTOR_NOTES_MAX];
};

/* What a node is looked for by, below `parent`: a composite, or (`shape` not NULL) the stems that
 * wildcards of that shape have. */
struct descriptor_wanted {
    uint32_t parent;
    const char *data;
    size_t len;
    const struct descriptor_shape *shape; /* begin_len and end_len are at most `len` */
};
/* The node, of wildcards the first; NONE if there is none. Its cost is that of hashing those bytes.
 */
uint32_t descriptors_find(const struct descriptors *descriptors,
                          const struct descriptor_wanted *wanted);
/* Hangs nodes[node_count], which is filled in but for its links, below its parent, behind the
 * others. The parent has no such composite yet. */
void descriptors_add(struct descriptors *descriptors);
/* The places that so many nodes need; a power of two. */
uint32_t descriptors_places(uint32_t nodes);
/* The rule of that name, of a node's limit; NULL: there is none. `node`, if it is that rule's, saves
 * the search of all, which *compared counts. */
const struct policy_rule *descriptors_rule(const struct descriptors *descriptors,
                                           const struct policy_text *name, uint32_t node,
                                           uint32_t *compared);
/* The domain of that name, or NULL. */
const struct descriptor_domain *descriptors_domain(const struct descriptors *descriptors,
                                                   const struct policy_text *name);

/* A text that is being written. */
struct descriptor_writer {
    char *out; /* what has no room is counted alone */
    size_t capacity;
    size_t len;
};
void descriptor_write(struct descriptor_writer *writer, const char *text, size_t len);
/* Writes a text in double quotes, as JSON and YAML read it back. */
void descriptor_write_quoted(struct descriptor_writer *writer, const struct policy_text *text);
/* Adds one entry of a path, "k=v,k2=v2" with a `\` before what would be taken for something else,
 * behind a comma unless it is the first; a value of NULL is not written. */
void descriptor_write_entry(struct descriptor_writer *writer, const struct policy_text *key,
                            const struct policy_text *value, bool first);
/* The value of a node: behind the underscore of its composite; len 0: it has none. */
struct policy_text descriptor_value(const struct descriptor_node *node);
/* The domains of a policy, or NULL: it has none. */
const struct descriptors *policy_descriptors(const struct policy *policy);

#endif
