/* attribute_kind.c - see attribute_kind.h: the table of kinds, and applying them to a request.
 *
 * It is on the way of every request with attributes. So a name without a kind costs one bit, and a
 * value in its one spelling a scan.
 */
#include "node/policy/model/attribute_kind.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/model/policy_ip.h"
#include "node/policy/model/policy_path.h"

#define NAME_BIT(len, first) (UINT64_C(1) << (((len)*7u + (unsigned)(first)) & 63u))

static_assert((int)POLICY_SPELLING_LEN >=
                  (ATTRIBUTE_DEFAULTS - 1) * POLICY_VALUE_LEN_MAX + POLICY_IP_TEXT_LEN,
              "one value of each attribute that has a kind by default has room");

static const struct attribute_kinds defaults = {
    .filter = NAME_BIT(2, 'i') | NAME_BIT(3, 'a') | NAME_BIT(4, 'p') | NAME_BIT(6, 'm'),
    .count = ATTRIBUTE_DEFAULTS,
    .named = {{{"ip", 2}, ATTRIBUTE_ADDRESS},
              {{"api", 3}, ATTRIBUTE_PATH},
              {{"path", 4}, ATTRIBUTE_PATH},
              {{"method", 6}, ATTRIBUTE_UPPER}},
};

const char *attribute_kind_name(enum attribute_kind kind)
{
    static const char *const names[ATTRIBUTE_KINDS] = {
        [ATTRIBUTE_VERBATIM] = "verbatim",
        [ATTRIBUTE_ADDRESS] = "address",
        [ATTRIBUTE_PATH] = "path",
        [ATTRIBUTE_UPPER] = "upper",
    };

    ASSERT(kind < ATTRIBUTE_KINDS);
    return names[kind];
}

/* ---- whose kind is what ---------------------------------------------------------------------- */

const struct attribute_kinds *attribute_kinds_default(void)
{
    return &defaults;
}

static uint64_t bit_of(const char *name, size_t len)
{
    return len == 0 ? 0 : NAME_BIT(len, (uint8_t)name[0]);
}

/* The place of the name; kinds->count if nothing is said of it. */
static uint32_t find(const struct attribute_kinds *kinds, const char *name, size_t len)
{
    uint32_t at = 0;

    while (at < kinds->count &&
           (kinds->named[at].name.len != len || memcmp(kinds->named[at].name.data, name, len) != 0))
        at++;
    return at;
}

void attribute_kinds_set(struct attribute_kinds *kinds, const struct policy_text *name,
                         enum attribute_kind kind)
{
    const uint32_t at = find(kinds, name->data, name->len);

    ASSERT(at < sizeof kinds->named / sizeof kinds->named[0]);
    ASSERT(kind < ATTRIBUTE_KINDS && at <= kinds->count);
    kinds->named[at] = (struct attribute_named){*name, (uint8_t)kind};
    kinds->filter |= bit_of(name->data, name->len);
    kinds->count += at == kinds->count;
}

enum attribute_kind attribute_kinds_of(const struct attribute_kinds *kinds, const char *name,
                                       size_t len)
{
    if ((kinds->filter & bit_of(name, len)) == 0)
        return ATTRIBUTE_VERBATIM;
    const uint32_t at = find(kinds, name, len);
    return at < kinds->count ? (enum attribute_kind)kinds->named[at].kind : ATTRIBUTE_VERBATIM;
}

/* Whether each attribute of which `a` says something has the same kind in `b`. */
static bool is_within(const struct attribute_kinds *a, const struct attribute_kinds *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const struct policy_text *name = &a->named[i].name;
        if (attribute_kinds_of(b, name->data, name->len) != a->named[i].kind)
            return false;
    }
    return true;
}

bool attribute_kinds_equal(const struct attribute_kinds *a, const struct attribute_kinds *b)
{
    return is_within(a, b) && is_within(b, a);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Leaves the value where it is if it is spelt so already (ATTRIBUTE-2). */
static void settle(struct policy_text *value, const char *out, size_t len)
{
    if (len == value->len && memcmp(out, value->data, len) == 0)
        return;
    *value = (struct policy_text){out, len};
}

static void apply_address(struct policy_text *value, struct policy_ip *ip, char *out)
{
    if (policy_ip_parse(value->data, value->len, ip))
        settle(value, out, policy_ip_put(ip, out));
    else
        value->len = 0;
}

static void apply_upper(struct policy_text *value, char *out)
{
    size_t at = 0;

    while (at < value->len && (value->data[at] < 'a' || value->data[at] > 'z'))
        at++;
    if (at == value->len)
        return;
    for (size_t i = 0; i < value->len; i++) {
        const char c = value->data[i];
        out[i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    value->data = out;
}

void attribute_kind_apply(enum attribute_kind kind, struct policy_text *value, struct policy_ip *ip,
                          char *out)
{
    ASSERT(value->len > 0);
    switch (kind) {
    case ATTRIBUTE_ADDRESS:
        apply_address(value, ip, out);
        break;
    case ATTRIBUTE_PATH:
        if (!policy_path_is_plain(value->data, value->len))
            settle(value, out, policy_path_put(value->data, value->len, out));
        break;
    case ATTRIBUTE_UPPER:
        apply_upper(value, out);
        break;
    case ATTRIBUTE_VERBATIM:
    case ATTRIBUTE_KINDS:
        break;
    }
}

const char *attribute_kind_refusal(enum attribute_kind kind, const struct policy_text *value)
{
    struct policy_ip ip;

    if (kind == ATTRIBUTE_ADDRESS && !policy_ip_parse(value->data, value->len, &ip))
        return "which is no address; expected one such as 10.1.2.3 or 2001:db8::1";
    if (kind != ATTRIBUTE_PATH)
        return NULL;
    if (policy_path_end(value->data, value->len) != value->len)
        return "but a path is compared without query and fragment; expected it without ? and #";
    if (policy_path_origin(value->data, value->len) != 0)
        return "but a path is compared without scheme and host; expected what stands behind them";
    return NULL;
}

/* Whether the value is spelt so already, as far as a scan can tell. */
static bool is_plain(enum attribute_kind kind, const struct policy_text *value)
{
    if (kind == ATTRIBUTE_PATH)
        return policy_path_is_plain(value->data, value->len);
    for (size_t i = 0; kind == ATTRIBUTE_UPPER && i < value->len; i++) {
        if (value->data[i] >= 'a' && value->data[i] <= 'z')
            return false;
    }
    return kind == ATTRIBUTE_UPPER;
}

int attribute_kind_spell(enum attribute_kind kind, struct policy_text *value, struct policy_ip *ip,
                         struct policy_spelling *spelling)
{
    if (is_plain(kind, value))
        return TG_OK;
    const size_t room = value->len > POLICY_IP_TEXT_LEN ? value->len : POLICY_IP_TEXT_LEN;
    char *out = spelling->bytes + spelling->used;
    if (sizeof spelling->bytes - spelling->used < room)
        return TG_EINVALID;
    attribute_kind_apply(kind, value, ip, out);
    spelling->absent += value->len == 0;
    spelling->used += value->len > 0 && value->data == out ? (uint32_t)value->len : 0;
    return TG_OK;
}

int attribute_kinds_apply(const struct attribute_kinds *kinds, struct policy_attribute *attributes,
                          size_t count, struct policy_spelling *spelling)
{
    for (size_t i = 0; i < count; i++) {
        struct policy_attribute *at = &attributes[i];
        const enum attribute_kind kind = attribute_kinds_of(kinds, at->name, at->name_len);
        struct policy_text value = {at->value, at->value_len};
        struct policy_ip ip;
        if (kind == ATTRIBUTE_VERBATIM || value.len == 0 || value.len > POLICY_VALUE_LEN_MAX)
            continue;
        if (attribute_kind_spell(kind, &value, &ip, spelling) != TG_OK)
            return TG_EINVALID;
        at->value = value.data;
        at->value_len = value.len;
    }
    return TG_OK;
}
