/* resp_user.c - see resp_user.h. */
#include "node/gateway/resp_user.h"

#include <string.h>

#include "node/policy/people/policy_join.h"

#define NS_PER_MS INT64_C(1000000)

#define WRONG_PASSWORD "WRONGPASS invalid username-password pair or user is disabled."
#define NO_PASSWORD                                                                                \
    "ERR AUTH <password> called without any password configured for the default user. Are you "    \
    "sure your configuration is correct?"
#define NO_CREDENTIALS                                                                             \
    "UNAVAILABLE the node does not know the credentials of its cluster yet; try again later"

void resp_user_look(const struct resp_users *users, const struct access_kept *user,
                    struct access *out)
{
    access_look(users->policy, users->anonymous, user, users->now_ns, out); /* RESPUSER-2 */
}

bool resp_user_unknown(const struct access *access)
{
    return access->shown ? access->verdict != CREDENTIAL_GOOD : access->rights == 0;
}

struct wire_text resp_user_name(const struct access *access)
{
    if (access->credential == NULL)
        return wire_text_of("default");
    return (struct wire_text){access->credential->name.data, access->credential->name.len};
}

static bool same(struct wire_text a, struct wire_text b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static const char *take_token(const struct resp_users *users, const char *address,
                              const struct wire_text *name, struct wire_text token,
                              struct access_kept *user)
{
    struct access_kept shown = {.shown = true};
    struct access access;
    const char *id = token_id(token.data, token.len);
    if (id == NULL)
        return WRONG_PASSWORD;
    if (users->policy == NULL)
        return NO_CREDENTIALS;
    memcpy(shown.id, id, TOKEN_ID_LEN);
    digest_make(token.data, token.len, &shown.digest);
    (void)policy_ip_parse(address, strlen(address), &shown.ip);
    resp_user_look(users, &shown, &access);
    if (access.credential == NULL || (name != NULL && !same(*name, resp_user_name(&access))))
        return WRONG_PASSWORD;
    *user = shown;
    return NULL;
}

const char *resp_user_auth(const struct resp_users *users, const char *address,
                           const struct wire_text *name, struct wire_text password,
                           struct access_kept *user)
{
    const bool is_default = name != NULL && same(*name, wire_text_of("default"));
    if (token_begins(password.data, password.len))
        return take_token(users, address, is_default ? NULL : name, password, user);
    if ((name != NULL && !is_default) || rights_of(users->anonymous) == 0)
        return WRONG_PASSWORD;
    if (name == NULL)
        return NO_PASSWORD;
    *user = (struct access_kept){.shown = false};
    return NULL;
}
