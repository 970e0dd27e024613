/* rights.c - see rights.h. */
#include "node/policy/rights/rights.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define CHECKS (RIGHT_CHECK | RIGHT_ADJUST | RIGHT_INLINE)

static const struct {
    const char *name;
    uint8_t gives;
} roles[RIGHTS_COUNT] = {
    {"check", RIGHT_CHECK},
    {"adjust", RIGHT_ADJUST | RIGHT_CHECK},
    {"inline", RIGHT_INLINE | RIGHT_CHECK},
    {"observe", RIGHT_OBSERVE},
    {"operate", RIGHT_OPERATE | RIGHT_OBSERVE},
    {"admin", RIGHT_ADMIN | RIGHT_OPERATE | RIGHT_OBSERVE | CHECKS},
    {"node", RIGHT_NODE},
};

uint8_t rights_of(uint8_t given)
{
    unsigned rights = 0;
    for (unsigned i = 0; i < RIGHTS_COUNT; i++)
        if ((given >> i & 1) != 0)
            rights |= roles[i].gives;
    return (uint8_t)rights;
}

const char *right_name(enum right right)
{
    for (unsigned i = 0; i < RIGHTS_COUNT; i++)
        if ((unsigned)right == 1U << i)
            return roles[i].name;
    return "";
}

static int find(const char *text, size_t len)
{
    for (int i = 0; i < RIGHTS_COUNT; i++)
        if (strlen(roles[i].name) == len && memcmp(roles[i].name, text, len) == 0)
            return i;
    return -1;
}

int rights_parse(const char *text, size_t len, uint8_t *out, char error[RIGHTS_EXPECTED_LEN])
{
    enum { SHOWN = 40 };
    unsigned found = 0;
    size_t at = 0;
    if (len == 4 && memcmp(text, "none", 4) == 0) {
        *out = 0;
        return TG_OK;
    }
    do {
        const char *comma = memchr(text + at, ',', len - at);
        const size_t part = comma != NULL ? (size_t)(comma - text) - at : len - at;
        const int role = find(text + at, part);
        if (role < 0) {
            (void)snprintf(error, RIGHTS_EXPECTED_LEN,
                           "found role \"%.*s\"; expected check, adjust, inline, observe, operate, "
                           "admin or node, several with commas between",
                           (int)(part < SHOWN ? part : SHOWN), text + at);
            return TG_EINVALID;
        }
        found |= 1U << role;
        at += part + 1;
    } while (at <= len);
    *out = (uint8_t)found;
    return TG_OK;
}

size_t rights_put(uint8_t given, char out[RIGHTS_TEXT_LEN])
{
    size_t len = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < RIGHTS_COUNT; i++) {
        if ((given >> i & 1) == 0)
            continue;
        const int more =
            snprintf(out + len, RIGHTS_TEXT_LEN - len, "%s%s", len > 0 ? "," : "", roles[i].name);
        ASSERT(more > 0 && len + (size_t)more < RIGHTS_TEXT_LEN);
        len += (size_t)more;
    }
    if (len == 0)
        len = (size_t)snprintf(out, RIGHTS_TEXT_LEN, "none");
    return len;
}
