/* attribute_kind.h - kinds of attributes: what makes two spellings one value.
 *
 *   kind       who has it                  its one spelling
 *   address    ip                          10.1.2.3 of [::ffff:10.1.2.3]:80 (policy_ip.h); what is
 *                                          no address is absent
 *   path       api, path                   /a/~u of //a/./%7Eu/?page=2 (policy_path.h)
 *   upper      method                      POST of post
 *   verbatim   all others                  as it came
 *
 * `attributes: {NAME: KIND}` of a rules file says otherwise. Whatever takes attributes applies the
 * kinds of the rules in force before it compares a value: rules as they take it up
 * (policy_resolve.c), so checks, explanations and replay, and blocks before that. Values that rules
 * and blocks name are put into the same spelling.
 *
 * ATTRIBUTE-1  A spelling is its own: applying a kind to what it gave changes nothing.
 * ATTRIBUTE-2  A value in its one spelling is left where it is: nothing is copied.
 *
 * Records of users and API keys are found byte by byte, so `user`, `tier` and `api_key` are
 * verbatim, always. Pure: nothing here allocates.
 */
#ifndef NODE_POLICY_MODEL_ATTRIBUTE_KIND_H
#define NODE_POLICY_MODEL_ATTRIBUTE_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/policy/model/policy.h"
#include "node/policy/model/policy_ip.h"
#include "node/policy/model/policy_request.h"

enum attribute_kind {
    ATTRIBUTE_VERBATIM = 0,
    ATTRIBUTE_ADDRESS = 1,
    ATTRIBUTE_PATH = 2,
    ATTRIBUTE_UPPER = 3,
    ATTRIBUTE_KINDS
};

enum {
    ATTRIBUTE_NAMED_MAX = 64, /* attributes that a rules file may give a kind */
    ATTRIBUTE_DEFAULTS = 4    /* that have one if it says nothing */
};

struct attribute_named {
    struct policy_text name;
    uint8_t kind; /* enum attribute_kind */
};

/* The attributes whose kind is said, by name; the others are verbatim. */
struct attribute_kinds {
    uint64_t
        filter; /* a bit for each name, by its length and first byte: most names have no kind */
    uint32_t count;
    struct attribute_named named[ATTRIBUTE_DEFAULTS + ATTRIBUTE_NAMED_MAX];
};

/* "address"; static storage. */
const char *attribute_kind_name(enum attribute_kind kind);

/* The kinds of a file that says nothing. Static storage. */
const struct attribute_kinds *attribute_kinds_default(void);
/* Says the kind of an attribute, in place of what was said before; there must be room. The name
 * must outlive the kinds. */
void attribute_kinds_set(struct attribute_kinds *kinds, const struct policy_text *name,
                         enum attribute_kind kind);
enum attribute_kind attribute_kinds_of(const struct attribute_kinds *kinds, const char *name,
                                       size_t len);

/* Whether each attribute has the same kind in both. */
bool attribute_kinds_equal(const struct attribute_kinds *a, const struct attribute_kinds *b);

/* Puts the one spelling of a value of 1 byte or more in its place: `out`, if that is another, has
 * room for as many bytes as the value has, and for POLICY_IP_TEXT_LEN. An address that is none
 * becomes empty; else *ip is set to it. */
void attribute_kind_apply(enum attribute_kind kind, struct policy_text *value, struct policy_ip *ip,
                          char *out);
/* The same of a request's value of at most POLICY_VALUE_LEN_MAX bytes: another spelling goes to
 * `spelling`, which counts what is absent. 0, or TG_EINVALID if there is no room in it. */
MUST_USE int attribute_kind_spell(enum attribute_kind kind, struct policy_text *value,
                                  struct policy_ip *ip, struct policy_spelling *spelling);
/* Why no request can have the value that somebody writes into a rule or a block, to go behind
 * "found VALUE"; NULL if one can. Such a value is refused: its one spelling would mean more. */
const char *attribute_kind_refusal(enum attribute_kind kind, const struct policy_text *value);

/* Spells all values of a request, which may be empty, after policy_spelling_begin. Values longer
 * than POLICY_VALUE_LEN_MAX are left alone, to be refused. Returns as attribute_kind_spell does. */
MUST_USE int attribute_kinds_apply(const struct attribute_kinds *kinds,
                                   struct policy_attribute *attributes, size_t count,
                                   struct policy_spelling *spelling);

/* The kinds of a policy's rules; they live as long as it. */
const struct attribute_kinds *policy_kinds(const struct policy *policy);

#endif
