/* records.c - quota records and API keys of the settings, as the sets that shards look in.
 *
 *   settings changed --> collected, and not again for 20 times as long as that took, 250 ms at
 *                        most --> joined with the rules (rules_file.c)
 *
 * With 100,000 records a set takes some milliseconds to make, so each kind has one of its own,
 * which changes of other kinds leave as it is, and an import of many does not make one for each of
 * them; a record is still in force within a quarter of a second of its coming here.
 *
 * RECORDS-1  A set that cannot be made changes nothing: the old one stays in force, and the log
 *            says so.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "node/cluster/configstore/settings.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/people.h"
#include "node/policy/rights/credentials.h"
#include "node/runtime/control/daemon_state.h"

#define RECORDS_PAUSE_NS INT64_C(250000000)
enum { PAUSE_SHARE = 20 };

static size_t count_of(const struct daemon *daemon, uint32_t kind)
{
    size_t cursor = 0;
    size_t count = 0;
    while (control_setting_next(daemon->control, kind, &cursor) != NULL)
        count++;
    return count;
}

/* All quota records; *out NULL if there are none. */
static int collect_people(const struct daemon *daemon, struct people **out)
{
    const struct settings_entry *entry;
    size_t cursor = 0;
    size_t count = 0;
    const size_t most = count_of(daemon, SETTINGS_QUOTA);
    *out = NULL;
    if (most == 0)
        return 0;
    struct quota *list = calloc(most, sizeof *list);
    if (list == NULL)
        return TG_ENOMEM;
    while ((entry = control_setting_next(daemon->control, SETTINGS_QUOTA, &cursor)) != NULL) {
        ASSERT(count < most); /* nothing changes meanwhile */
        count += control_quota_of(entry, &list[count]);
    }
    const int error = people_new(alloc_heap(), list, count, out);
    free(list);
    return error;
}

/* All API keys; as collect_people. */
static int collect_api_keys(const struct daemon *daemon, struct api_keys **out)
{
    const struct settings_entry *entry;
    size_t cursor = 0;
    size_t count = 0;
    const size_t most = count_of(daemon, SETTINGS_API_KEY);
    *out = NULL;
    if (most == 0)
        return 0;
    struct api_key_entry *list = calloc(most, sizeof *list);
    if (list == NULL)
        return TG_ENOMEM;
    while ((entry = control_setting_next(daemon->control, SETTINGS_API_KEY, &cursor)) != NULL) {
        ASSERT(count < most);
        list[count++] = control_api_key_of(entry);
    }
    const int error = api_keys_new(alloc_heap(), list, count, out);
    free(list);
    return error;
}

/* All credentials; as collect_people. */
static int collect_credentials(const struct daemon *daemon, struct credentials **out)
{
    const struct settings_entry *entry;
    size_t cursor = 0;
    size_t count = 0;
    const size_t most = count_of(daemon, SETTINGS_CREDENTIAL);
    *out = NULL;
    if (most == 0)
        return 0;
    struct credential_entry *list = calloc(most, sizeof *list);
    if (list == NULL)
        return TG_ENOMEM;
    while ((entry = control_setting_next(daemon->control, SETTINGS_CREDENTIAL, &cursor)) != NULL) {
        ASSERT(count < most);
        list[count++] = control_credential_of(entry);
    }
    const int error = credentials_new(alloc_heap(), list, count, out);
    free(list);
    return error;
}

/* There was no memory: those before stay, and it is tried again. Always false. */
static bool miss(struct daemon *daemon, uint32_t kind, const char *what, int error)
{
    log_printf(daemon->log, LOG_LEVEL_ERROR, "%s not put in force: %s", what, error_message(error));
    control_kind_missed(daemon->control, kind);
    daemon->records.owed = true;
    daemon->records.collected_ns = clock_now_ns(&daemon->clock);
    daemon->records.pause_ns = RECORDS_PAUSE_NS;
    return false;
}

static bool look_at_people(struct daemon *daemon)
{
    struct people *people;
    if (!control_kind_due(daemon->control, SETTINGS_QUOTA))
        return false;
    const int error = collect_people(daemon, &people);
    if (error != 0)
        return miss(daemon, SETTINGS_QUOTA, "quotas", error);
    people_free(&daemon->records.people);
    daemon->records.people = people;
    return true;
}

static bool look_at_api_keys(struct daemon *daemon)
{
    struct api_keys *keys;
    if (!control_kind_due(daemon->control, SETTINGS_API_KEY))
        return false;
    const int error = collect_api_keys(daemon, &keys);
    if (error != 0)
        return miss(daemon, SETTINGS_API_KEY, "API keys", error);
    api_keys_free(&daemon->records.api_keys);
    daemon->records.api_keys = keys;
    return true;
}

static bool look_at_credentials(struct daemon *daemon)
{
    struct credentials *credentials;
    if (!control_kind_due(daemon->control, SETTINGS_CREDENTIAL))
        return false;
    const int error = collect_credentials(daemon, &credentials);
    if (error != 0)
        return miss(daemon, SETTINGS_CREDENTIAL, "credentials", error);
    credentials_free(&daemon->records.credentials);
    daemon->records.credentials = credentials;
    return true;
}

bool records_look(struct daemon *daemon)
{
    const int64_t now_ns = clock_now_ns(&daemon->clock);
    if (daemon->shard_count == 0 ||
        now_ns - daemon->records.collected_ns < daemon->records.pause_ns)
        return false;
    daemon->records.owed = false;
    const bool people = look_at_people(daemon);
    const bool keys = look_at_api_keys(daemon);
    const bool credentials = look_at_credentials(daemon);
    if (!people && !keys && !credentials)
        return false;
    daemon->records.collected_ns = clock_now_ns(&daemon->clock);
    daemon->records.pause_ns = PAUSE_SHARE * (daemon->records.collected_ns - now_ns);
    if (daemon->records.pause_ns > RECORDS_PAUSE_NS)
        daemon->records.pause_ns = RECORDS_PAUSE_NS;
    ASSERT(!daemon->records.owed || !people || !keys || !credentials); /* one was not made */
    return true;
}
