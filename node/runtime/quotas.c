/* quotas.c - the quota records of the settings, as the set of people that shards look in.
 *
 *   settings changed --> collected, at most every 250 ms --> joined with the rules (rules_file.c)
 *
 * With 100,000 records a set takes some 20 ms to make, so an import of many does not make one for
 * each of them; a record is still in force within a quarter of a second of its coming here.
 *
 * I1  A set that cannot be made changes nothing: the old one stays in force, and the log says so.
 */
#include <stdlib.h>

#include "node/cluster/settings.h"
#include "node/policy/people.h"
#include "node/runtime/daemon_state.h"

#define QUOTAS_PAUSE_NS INT64_C(250000000)

/* All records; *out NULL if there are none. */
static int collect(const struct daemon *daemon, struct people **out)
{
    const struct settings_entry *entry;
    size_t cursor = 0;
    size_t count = 0;
    *out = NULL;
    while (control_setting_next(daemon->control, SETTINGS_QUOTA, &cursor) != NULL)
        count++;
    if (count == 0)
        return 0;
    struct quota *list = calloc(count, sizeof *list);
    if (list == NULL)
        return TG_ENOMEM;
    cursor = 0;
    count = 0;
    while ((entry = control_setting_next(daemon->control, SETTINGS_QUOTA, &cursor)) != NULL)
        count += control_quota_of(entry, &list[count]);
    const int error = people_new(alloc_heap(), list, count, out);
    free(list);
    return error;
}

bool quotas_look(struct daemon *daemon)
{
    struct people *people;
    const int64_t now_ns = clock_now_ns(&daemon->clock);
    if (daemon->shard_count == 0 || now_ns - daemon->people_ns < QUOTAS_PAUSE_NS ||
        !control_quotas_due(daemon->control))
        return false;
    const int error = collect(daemon, &people);
    daemon->people_ns = now_ns;
    if (error != 0) {
        log_printf(daemon->log, LOG_LEVEL_ERROR, "quotas not put in force: %s",
                   error_message(error));
        return false;
    }
    people_free(&daemon->people);
    daemon->people = people;
    return true;
}
