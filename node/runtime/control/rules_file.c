/* rules_file.c - the rules: those of the settings, put in force; the rules file, handed to them.
 *
 *   start    file --> compiled, in force while the settings have no rules
 *            settings without rules --> the file becomes their first version (RULES_SEEDED)
 *            settings with other rules --> these are in force, and a warning says so, once
 *   SIGHUP   file --> an edit of the settings by "file" (RULES_RELOADED): in force on every node
 *   changed  file --> judged (rules_watch.h) --> the same (RULES_FOLLOWED), if it is news
 *   A large file is kept, compared and sent as it is packed (packed.h), which the compiler does.
 *   It may be a directory: its files are one document then (rules_source.h).
 *   settings changed --> compiled once, by a thread (compiler.h), shared by all shards, swapped
 *
 * RULESFILE-1  Rules that do not compile change nothing: the old ones stay in force. Of the
 *              settings they can only be those of a newer release or of a node that knows more time
 *              zones, for a node compiles what it proposes; status shows them. Those that found no
 *              memory are tried again a second later.
 * RULESFILE-2  All threads share one compiled policy, which nobody changes.
 * RULESFILE-3  A node serves nobody before rules that its settings know at the start are in force,
 *              with their blocks, API keys and quotas: without them it would allow everything.
 *              Where they cannot be read it ends, and the others go on; but first it waits for
 *              newer ones, for what it has may be of before it stopped.
 * RULESFILE-4  An edit that was asked of this node is done for whoever asked when this node decides
 *              by it.
 * RULESFILE-5  A file that has changed is owed until it was judged: applied, by an edit that is
 *              based on what it was judged beside, or found to be applied already, or older. What
 *              cannot be done now is tried again.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/configstore/block_record.h"
#include "node/cluster/configstore/settings.h"
#include "node/policy/compile/policy_diff.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/blocks.h"
#include "node/policy/people/people.h"
#include "node/policy/people/policy_join.h"
#include "node/policy/rights/credentials.h"
#include "node/runtime/control/daemon_state.h"
#include "node/sources/rules_source.h"
#include "node/zones/zones.h"

enum {
    RULES_LEN_MAX = POLICY_FILE_LEN_MAX,
    SEED_PAUSE_MS = 1000,
    PLACE_LEN = 4096 + 512,
    ERROR_LEN = 16 * CONFIG_ERROR_LEN
};

#define AUTHOR   "file"              /* of the edits that are made here */
#define RETRY_NS INT64_C(1000000000) /* after a want of memory */
#define NEWER_NS INT64_C(2000000000) /* in which whoever can be reached has told what is newer */

/* ---- the file -------------------------------------------------------------------------------- */

static void wake(void *context)
{
    struct daemon *daemon = context;
    (void)uv_async_send(&daemon->events.wake);
}

struct compiler_options rules_compiler_options(struct daemon *daemon)
{
    return (struct compiler_options){
        .allocator = alloc_heap(), .zones = zones_system(), .wake = wake, .context = daemon};
}

/* Makes what was read a job that is to compile it; NULL with a sentence, and it is freed. */
static struct compiler_job *job_of(const struct daemon *daemon, struct rules_source *source,
                                   char *error, size_t capacity)
{
    struct compiler_job *job = compiler_job_new(COMPILER_FILE, NULL, 0);
    if (job == NULL) {
        (void)snprintf(error, capacity, "%s: out of memory", daemon->config->rules);
        rules_source_fini(source);
        return NULL;
    }
    job->block = source->text;
    job->text = source->text;
    job->len = source->len;
    job->joined = source->joined;
    return job;
}

/* Reads the file into a job that is to compile it; NULL with a sentence. */
static struct compiler_job *read_rules(const struct daemon *daemon, char *error, size_t capacity)
{
    struct rules_source source;
    if (rules_source_read(daemon->config->rules, RULES_LEN_MAX, &source, error, capacity) != 0)
        return NULL;
    return job_of(daemon, &source, error, capacity);
}

/* A process that starts again for its clock goes on with what it had read: what was written into
 * the file since was never reloaded, and may not even compile. */
static struct compiler_job *kept_rules(const struct daemon *daemon, char *error, size_t capacity)
{
    const struct daemon_kept *kept = daemon->kept;
    struct compiler_job *job = compiler_job_new(COMPILER_FILE, kept->rules_text, kept->rules_len);
    if (job == NULL)
        (void)snprintf(error, capacity, "%s: out of memory", daemon->config->rules);
    return job;
}

static bool is_text(const char *text, size_t len, const struct compiler_job *job)
{
    return text != NULL && len == job->len && memcmp(text, job->text, len) == 0;
}

/* The file is as the settings want it, or has nothing for them. */
static void settle(struct rules_file_state *file)
{
    file->owed = false;
    free(file->was);
    file->was = NULL;
    if (file->compared)
        policy_free(&file->policy);
}

/* Notes that the file holds something else now (RULESFILE-5). */
static void owe(struct rules_file_state *file, const struct compiler_job *job)
{
    if (is_text(file->text, file->len, job))
        return;
    file->compared = true; /* it is no longer what it was at the start */
    file->overtaken = file->state != RULES_IDLE;
    if (!file->owed) {
        file->was = file->text;
        file->was_len = file->len;
        file->text = NULL;
    }
    file->owed = !is_text(file->was, file->was_len, job); /* it may be back at what it was */
    file->owed_told = false;
}

/* Keeps what the file was compiled to. 0, or an error with "FILE:LINE:COLUMN: what". */
static int take_file(struct daemon *daemon, struct compiler_job *job, char *error, size_t capacity)
{
    ASSERT(job->purpose == COMPILER_FILE && (job->error == 0) == (job->policy != NULL));
    if (job->error != 0 && job->place.line == 0) {
        (void)snprintf(error, capacity, "%s%s %s", daemon->config->rules,
                       job->error == TG_ETOOBIG ? "" : ":", job->place.message);
        return job->error;
    }
    if (job->error != 0) {
        const struct rules_source source = {job->block, job->len, job->joined};
        char place[PLACE_LEN];
        const int len = snprintf(error, capacity, "%s:%u: %s",
                                 rules_source_place(daemon->config->rules, &source, job->place.line,
                                                    place, sizeof place),
                                 job->place.column, job->place.message);
        const uint32_t all = job->errors != NULL ? job->errors->count + job->errors->more : 1;
        if (all > 1 && len > 0 && (size_t)len < capacity)
            (void)snprintf(error + len, capacity - (size_t)len,
                           "; and %u errors more: `tidegate rules validate` lists them", all - 1);
        return job->error;
    }
    if (daemon->rules.file.watch != NULL)
        owe(&daemon->rules.file, job);
    free(daemon->rules.file.text);
    daemon->rules.file.text = job->block;
    daemon->rules.file.len = job->len;
    job->block = NULL;
    policy_free(&daemon->rules.file.policy);
    daemon->rules.file.policy = job->policy;
    job->policy = NULL;
    return 0;
}

int rules_load(struct daemon *daemon, char *error, size_t capacity)
{
    const struct compiler_options compiling = rules_compiler_options(daemon);
    if (daemon->config->rules[0] == '\0')
        return 0;
    const bool kept = daemon->kept != NULL && daemon->kept->rules_text != NULL;
    if (!kept) /* else it is looked at what there is by now */
        daemon->rules.file.stamp = rules_source_stamp(daemon->config->rules);
    struct compiler_job *job =
        kept ? kept_rules(daemon, error, capacity) : read_rules(daemon, error, capacity);
    if (job == NULL)
        return TG_EINVALID;
    compiler_do(&compiling, job);
    const int result = take_file(daemon, job, error, capacity);
    compiler_job_free(&job);
    if (result != 0)
        return result;
    policy_free(&daemon->rules.alone);
    policy_free(&daemon->rules.joined);
    daemon->rules.alone = policy_share(daemon->rules.file.policy);
    daemon->rules.joined = policy_share(daemon->rules.file.policy);
    return 0;
}

/* ---- in force -------------------------------------------------------------------------------- */

/* Until a mailbox has room, its shard decides by the old rules. */
static void spread_owed(struct daemon *daemon)
{
    ASSERT((daemon->rules.owed & ~daemon_all_shards(daemon)) == 0);
    for (uint32_t i = 0; i < daemon->shard_count; i++) {
        if ((daemon->rules.owed & 1u << i) == 0)
            continue;
        const struct policy *shared = daemon->rules.joined != NULL
                                          ? policy_share(daemon->rules.joined)
                                          : policy_empty(); /* RULESFILE-2 */
        struct policy *policy = (struct policy *)(uintptr_t)shared;
        const struct mailbox_message message = {.kind = MESSAGE_POLICY, .pointer = policy};
        if (mailbox_put(shard_loop_mailbox(daemon->shards[i]), &message)) {
            daemon->rules.owed &= ~(1u << i);
            daemon->rules.sent[i]++;
        } else {
            policy_free(&policy);
        }
    }
}

void rules_spread(struct daemon *daemon)
{
    daemon->rules.owed = daemon_all_shards(daemon);
    spread_owed(daemon);
}

/* All blocks of the settings, in the spelling of these kinds; NULL if there are none, or no memory
 * for them: *error tells. */
static struct blocks *collect_blocks(const struct daemon *daemon,
                                     const struct attribute_kinds *kinds, int *error)
{
    struct blocks *blocks = NULL;
    const struct settings_entry *entry;
    size_t cursor = 0;
    size_t count = 0;
    size_t most = 0;
    while (control_setting_next(daemon->control, SETTINGS_BLOCK, &cursor) != NULL)
        most++;
    *error = 0;
    if (most == 0)
        return NULL;
    struct block *list = calloc(most, sizeof *list);
    *error = list == NULL ? TG_ENOMEM : 0;
    cursor = 0;
    while (list != NULL &&
           (entry = control_setting_next(daemon->control, SETTINGS_BLOCK, &cursor)) != NULL) {
        ASSERT(count < most); /* nothing changes meanwhile */
        count += control_block_of(entry, &list[count]);
    }
    if (*error == 0)
        *error = blocks_new(alloc_heap(), kinds, list, count, &blocks);
    free(list);
    return blocks;
}

/* Joins the rules of that version with blocks, API keys and quotas, and gives them to the shards.
 * 0, or why nothing changes. */
static int join_records(struct daemon *daemon, struct policy *rules, uint64_t version)
{
    int error;
    const bool ruled = rules != NULL;
    struct policy *policy = NULL;
    const struct attribute_kinds *kinds = policy_kinds(ruled ? rules : policy_empty());
    struct policy_joined with = {.blocks = collect_blocks(daemon, kinds, &error),
                                 .version = version};
    if (daemon->records.api_keys != NULL)
        with.api_keys = api_keys_share(daemon->records.api_keys);
    if (daemon->records.people != NULL)
        with.people = people_share(daemon->records.people);
    if (daemon->records.credentials != NULL)
        with.credentials = credentials_share(daemon->records.credentials);
    if (error == 0 && (ruled || with.blocks != NULL || with.api_keys != NULL ||
                       with.people != NULL || with.credentials != NULL))
        error = policy_join(alloc_heap(), ruled ? rules : policy_empty(), &with, &policy);
    if (error != 0) {
        blocks_free(&with.blocks);
        api_keys_free(&with.api_keys);
        people_free(&with.people);
        credentials_free(&with.credentials);
        return error;
    }
    ASSERT(!ruled || policy != NULL);
    policy_free(&daemon->rules.joined);
    daemon->rules.joined = policy;
    rules_spread(daemon);
    return 0;
}

/* Those before stay (RULESFILE-1); for want of memory it is tried again. Where there are none
 * before, nobody is served (RULESFILE-3). */
static void refuse(struct daemon *daemon, uint64_t version, int error, const char *why)
{
    ASSERT(error != 0); /* RULESFILE-1 */
    control_rules_refused(daemon->control, version, why);
    daemon->rules.refusals++;
    if (error == TG_ENOMEM)
        daemon->rules.missed_ns = clock_now_ns(&daemon->clock);
    else if (!daemon->told.ready && daemon->rules.refused_ns == 0)
        daemon->rules.refused_ns = clock_now_ns(&daemon->clock);
    log_printf(daemon->log, LOG_LEVEL_ERROR,
               "rules of version %u cannot be put in force here, %s: %s",
               settings_version_shown(version),
               daemon->told.ready ? "those before them stay" : "so nobody is served yet", why);
}

bool rules_awaited(const struct daemon *daemon)
{
    struct settings_entry rules;
    if (daemon->told.ready)
        return false;
    if (daemon->records.missed_ns != 0 || daemon->records.owed)
        return true;
    return (daemon->rules.missed_ns != 0 || daemon->rules.refused_ns != 0) &&
           control_rules_known(daemon->control, &rules);
}

/* RULESFILE-3: ends a node whose rules cannot be read when nobody has told of others. */
static void look_at_refused(struct daemon *daemon)
{
    if (daemon->rules.refused_ns == 0 || !rules_awaited(daemon) ||
        clock_now_ns(&daemon->clock) - daemon->rules.refused_ns < NEWER_NS)
        return;
    log_printf(daemon->log, LOG_LEVEL_ERROR,
               "this node cannot read the cluster's rules, and would allow everything without "
               "them; start it with the release, and the time zones, of the others");
    daemon->end.exit_code = DAEMON_DATA;
    daemon->end.done = true;
}

static void put_in_force(struct daemon *daemon, struct compiler_job *job)
{
    char why[sizeof job->place.message + 64];
    ASSERT(job->purpose == COMPILER_RULES && (job->error == 0) == (job->policy != NULL));
    daemon->rules.judged = job->version;
    if (job->error != 0) {
        if (job->place.line == 0) /* it is not about a line */
            (void)snprintf(why, sizeof why, "%s", job->place.message);
        else
            (void)snprintf(why, sizeof why, "line %u, column %u: %s", job->place.line,
                           job->place.column, job->place.message);
        refuse(daemon, job->version, job->error, why);
        return;
    }
    const int error = join_records(daemon, job->policy, job->version);
    if (error != 0) {
        refuse(daemon, job->version, error, error_message(error));
        return;
    }
    policy_free(&daemon->rules.alone);
    daemon->rules.alone = job->policy;
    daemon->rules.version = job->version;
    free(daemon->rules.ordinals);
    daemon->rules.ordinals = job->known;
    daemon->rules.ordinals_len = job->known_len;
    job->known = NULL;
    job->policy = NULL;
    daemon->rules.missed_ns = 0;
    daemon->rules.refused_ns = 0;
    control_rules(daemon->control, job->version, policy_digest(daemon->rules.alone));
    log_printf(&daemon->told.teller.log, LOG_LEVEL_INFO,
               "rules of version %u by %s are in force: %zu", settings_version_shown(job->version),
               job->author, policy_rule_count(daemon->rules.alone));
}

/* Has the rules compiled, to be put in force then: at once, as long as nobody is served. */
static void compile(struct daemon *daemon, const struct settings_entry *rules)
{
    const struct compiler_options compiling = rules_compiler_options(daemon);
    struct compiler_job *job =
        compiler_job_new(COMPILER_RULES, rules->value.data, rules->value.len);
    if (job == NULL) {
        refuse(daemon, rules->version, TG_ENOMEM, "out of memory");
        return;
    }
    job->version = rules->version;
    const struct settings_text known = control_ordinals_known(daemon->control);
    if (!compiler_job_know(job, known.data, known.len)) {
        compiler_job_free(&job);
        refuse(daemon, rules->version, TG_ENOMEM, "out of memory");
        return;
    }
    (void)snprintf(job->author, sizeof job->author, "%.*s", (int)rules->author.len,
                   rules->author.data);
    if (daemon->told.ready) {
        const bool taken = compiler_ask(daemon->rules.compiler, job);
        ASSERT(taken); /* COMPILER-2 */
        return;
    }
    compiler_do(&compiling, job);
    put_in_force(daemon, job);
    compiler_job_free(&job);
}

/* ---- the file and the settings --------------------------------------------------------------- */

static bool is_file(const struct daemon *daemon, const struct settings_entry *rules)
{
    return rules->value.len == daemon->rules.file.len &&
           memcmp(rules->value.data, daemon->rules.file.text, daemon->rules.file.len) == 0;
}

/* Says once that the file is not what is in force. */
static void compare_file(struct daemon *daemon, const struct settings_entry *rules)
{
    const struct policy *file = daemon->rules.file.policy;
    const struct policy *mine = daemon->rules.alone != NULL ? daemon->rules.alone : policy_empty();
    struct policy_diff diff = {.rules = {NULL, NULL, NULL}};
    ASSERT(file != NULL); /* it is kept until it was compared */
    daemon->rules.file.compared = true;
    if (!is_file(daemon, rules) && policy_digest(file) != policy_digest(mine) &&
        policy_compare(mine, file, alloc_heap(), 0, &diff) == 0)
        log_printf(daemon->log, LOG_LEVEL_WARN,
                   "in force are the cluster's rules, version %u by %.*s, not those of %s, which "
                   "has %u rules more, %u fewer and %u changed%s: `tidegate rules diff FILE` "
                   "shows them, `tidegate rules apply FILE` or SIGHUP puts them in force",
                   settings_version_shown(rules->version), (int)rules->author.len,
                   rules->author.data, daemon->config->rules, diff.counts[POLICY_ADDED],
                   diff.counts[POLICY_REMOVED], diff.counts[POLICY_CHANGED],
                   diff.reordered ? ", in another order" : "");
    policy_free(&daemon->rules.file.policy);
}

/* Has the settings changed to what the file holds. */
static int request(struct daemon *daemon, uint64_t based_on, const char *note)
{
    static const char name[] = "rules";
    struct rules_file_state *wanted = &daemon->rules.file;
    randombytes_buf(&wanted->edit_id, sizeof wanted->edit_id);
    struct control_edit_request request = {
        .id = wanted->edit_id,
        .kind = SETTINGS_RULES,
        .based_on = based_on,
        .name = {name, sizeof name - 1},
        .value = {daemon->rules.file.text, daemon->rules.file.len},
        .author = {AUTHOR, sizeof AUTHOR - 1},
        .note = {note, strlen(note)},
        .rules = daemon->rules.file.policy,
    };
    wanted->asked_ns = clock_now_ns(&daemon->clock);
    wanted->overtaken = false;
    ASSERT(request.rules != NULL);
    return control_edit_rules(daemon->control, wanted->asked_ns,
                              daemon->rules.alone != NULL ? daemon->rules.alone : policy_empty(),
                              &request);
}

/* What the file holds is not taken: the rules before it stay. */
static void refuse_file(struct daemon *daemon, const char *why)
{
    daemon->rules.unread++;
    log_printf(daemon->log, LOG_LEVEL_ERROR, "rules not reloaded: %s", why);
}

static void compile_file(struct daemon *daemon, struct compiler_job *job)
{
    const bool taken = compiler_ask(daemon->rules.compiler, job);
    ASSERT(taken); /* COMPILER-2 */
}

void rules_reload(struct daemon *daemon)
{
    char error[ERROR_LEN];
    if (daemon->config->rules[0] == '\0') {
        log_printf(daemon->log, LOG_LEVEL_WARN,
                   "SIGHUP: there is nothing to reload: this node was started without --rules; the "
                   "rules of a cluster are changed by `tidegate rules apply FILE`");
        return;
    }
    struct compiler_job *job = read_rules(daemon, error, sizeof error);
    daemon->rules.file.told = job != NULL;
    if (job == NULL)
        refuse_file(daemon, error);
    else
        compile_file(daemon, job);
}

/* Takes what the watch has read. */
static void take_changed(struct daemon *daemon)
{
    struct rules_watched read;
    if (daemon->rules.file.watch == NULL || !rules_watch_take(daemon->rules.file.watch, &read))
        return;
    struct compiler_job *job =
        read.failed ? NULL : job_of(daemon, &read.source, read.error, sizeof read.error);
    if (job == NULL)
        refuse_file(daemon, read.error);
    else
        compile_file(daemon, job);
}

/* What was compiled is news of the file's, or SIGHUP wants it applied whatever it is. */
static void reload(struct daemon *daemon, struct compiler_job *job)
{
    char error[ERROR_LEN];
    struct rules_file_state *file = &daemon->rules.file;
    const bool told = file->told;
    file->told = false;
    int result = take_file(daemon, job, error, sizeof error);
    if (result != 0) {
        refuse_file(daemon, error);
        return;
    }
    if (told)
        result = request(daemon, SETTINGS_ANY, "SIGHUP");
    if (file->compared && !file->owed)
        settle(file);
    if (!told)
        return;
    file->state = result == 0 ? RULES_RELOADED : RULES_IDLE;
    if (result != 0)
        log_printf(daemon->log, LOG_LEVEL_ERROR, "rules not reloaded: %s", error_message(result));
}

void rules_compiled(struct daemon *daemon, struct compiler_job *job)
{
    if (job->purpose == COMPILER_RULES)
        put_in_force(daemon, job);
    else
        reload(daemon, job);
}

/* An edit of what the file holds could not be made: it is tried again, and told of once. */
static void await(struct daemon *daemon, const char *why)
{
    if (!daemon->rules.file.owed_told)
        log_printf(daemon->log, LOG_LEVEL_WARN, "rules of %s are still to be applied: %s",
                   daemon->config->rules, why);
    daemon->rules.file.owed_told = true;
}

/* Tells how an edit of the file's ended. */
static void look_at_request(struct daemon *daemon)
{
    static const char *const verbs[] = {
        [RULES_SEEDED] = "seeded", [RULES_RELOADED] = "reloaded", [RULES_FOLLOWED] = "reloaded"};
    struct rules_file_state *wanted = &daemon->rules.file;
    ASSERT(wanted->state != RULES_IDLE);
    const struct settings_edit *edit = control_edit_find(daemon->control, wanted->edit_id);
    if (edit != NULL && edit->state == SETTINGS_EDIT_WAITS)
        return;
    const unsigned asked = wanted->state;
    wanted->state = RULES_IDLE;
    if (edit == NULL)
        return;
    if (edit->state == SETTINGS_EDIT_DONE) {
        log_printf(daemon->log, LOG_LEVEL_INFO, "rules %s from %s: version %u%s", verbs[asked],
                   daemon->config->rules, settings_version_shown(edit->version),
                   edit->changed ? "" : ", which was in force before");
        if (wanted->owed && !wanted->overtaken)
            settle(wanted);
    } else if (asked == RULES_FOLLOWED) {
        if (edit->state != SETTINGS_EDIT_CONFLICT) /* else it is judged anew */
            await(daemon, edit->sentence);
    } else if (asked == RULES_RELOADED || edit->state != SETTINGS_EDIT_CONFLICT) {
        log_printf(daemon->log, asked == RULES_RELOADED ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN,
                   "rules not %s: %s", verbs[asked], edit->sentence);
    }
}

/* What becomes of the file, beside the edits by files that the settings still have. */
static enum rules_verdict judge(const struct daemon *daemon)
{
    const struct rules_file_state *file = &daemon->rules.file;
    struct rules_judge judge = {.was = {file->was, file->was_len}, .is = {file->text, file->len}};
    const struct settings_entry *entry;
    size_t cursor = 0;
    while ((entry = control_setting_next(daemon->control, SETTINGS_RULES, &cursor)) != NULL) {
        const struct rules_text edit = {entry->value.data, entry->value.len};
        if (entry->author.len == sizeof AUTHOR - 1 &&
            memcmp(entry->author.data, AUTHOR, sizeof AUTHOR - 1) == 0)
            rules_judge_tell(&judge, &edit);
    }
    return rules_judge_end(&judge);
}

/* RULESFILE-5 */
static void follow(struct daemon *daemon)
{
    struct rules_file_state *file = &daemon->rules.file;
    struct settings_entry rules = {.version = 0};
    ASSERT(file->owed && file->policy != NULL && file->state == RULES_IDLE);
    if (clock_now_ns(&daemon->clock) - file->asked_ns < (int64_t)SEED_PAUSE_MS * 1000000 ||
        !control_settings_known(daemon->control) ||
        (control_rules_known(daemon->control, &rules) && rules.version != daemon->rules.judged))
        return;
    const enum rules_verdict verdict = judge(daemon);
    if (verdict != RULES_APPLY) {
        log_printf(daemon->log, LOG_LEVEL_INFO, "rules of %s have changed: %s",
                   daemon->config->rules,
                   verdict == RULES_APPLIED
                       ? "another node has applied them already"
                       : "not applied, for they were before, and newer ones of another node since");
        settle(file);
        return;
    }
    const int result = request(daemon, rules.version, "the rules file has changed");
    if (result == 0)
        file->state = RULES_FOLLOWED;
    else
        await(daemon, error_message(result));
}

static void look_at_records(struct daemon *daemon)
{
    const int error = join_records(daemon, daemon->rules.alone, daemon->rules.version);
    daemon->records.missed_ns = error != 0 ? clock_now_ns(&daemon->clock) : 0;
    if (error != 0)
        log_printf(daemon->log, LOG_LEVEL_ERROR, "blocks, API keys and quotas not put in force: %s",
                   error_message(error));
}

/* Whether what found no memory at that time, 0 for nothing, is to be tried again. */
static bool is_missed(const struct daemon *daemon, int64_t since_ns)
{
    return since_ns != 0 && clock_now_ns(&daemon->clock) - since_ns >= RETRY_NS;
}

/* Whether the rules in force were compiled with other ordinals than the store has by now: a copy of
 * it broke off between them, when this node had no rules yet. */
static bool lacks_ordinals(struct daemon *daemon)
{
    const struct settings_text known = control_ordinals_known(daemon->control);
    return control_kind_due(daemon->control, SETTINGS_ORDINALS) && daemon->rules.alone != NULL &&
           (known.len != daemon->rules.ordinals_len ||
            (known.len > 0 && memcmp(known.data, daemon->rules.ordinals, known.len) != 0));
}

void rules_note_spread(struct daemon *daemon)
{
    bool taken =
        daemon->shard_count > 0 && daemon->rules.owed == 0 && daemon->records.missed_ns == 0;
    for (uint32_t i = 0; taken && i < daemon->shard_count; i++) {
        const uint64_t got = shard_loop_policies(daemon->shards[i]);
        ASSERT(got <= daemon->rules.sent[i]); /* SHARDLOOP-4 */
        taken = got == daemon->rules.sent[i];
    }
    if (taken)
        control_spread(daemon->control, daemon->rules.judged);
}

static void look_at_settings(struct daemon *daemon)
{
    struct settings_entry rules;
    const bool records_due = records_look(daemon);
    const bool missed = is_missed(daemon, daemon->records.missed_ns);
    if (daemon->shard_count > 0 &&
        (control_kind_due(daemon->control, SETTINGS_BLOCK) || records_due || missed))
        look_at_records(daemon);
    spread_owed(daemon);
    if (is_missed(daemon, daemon->rules.missed_ns))
        control_rules_missed(daemon->control);
    const bool lacks = lacks_ordinals(daemon);
    if (lacks && control_rules_known(daemon->control, &rules) &&
        rules.version == daemon->rules.version)
        compile(daemon, &rules);
    if (daemon->shard_count > 0 && control_rules_due(daemon->control, &rules)) {
        daemon->rules.missed_ns = 0;
        compile(daemon, &rules);
    }
    look_at_refused(daemon);
    rules_note_spread(daemon);
}

void rules_look(struct daemon *daemon)
{
    struct rules_file_state *wanted = &daemon->rules.file;
    struct settings_entry rules;
    look_at_settings(daemon);
    take_changed(daemon);
    if (wanted->state != RULES_IDLE) {
        look_at_request(daemon);
        return;
    }
    if (wanted->owed) {
        follow(daemon);
        return;
    }
    if (daemon->rules.file.text == NULL || wanted->compared ||
        clock_now_ns(&daemon->clock) - wanted->asked_ns < (int64_t)SEED_PAUSE_MS * 1000000 ||
        !control_settings_known(daemon->control))
        return;
    const bool known = control_rules_known(daemon->control, &rules);
    if (known && rules.version == daemon->rules.judged)
        compare_file(daemon, &rules);
    else if (!known && request(daemon, 0, "the rules file, at the first start") == 0)
        wanted->state = RULES_SEEDED;
}

/* ---- the watch ------------------------------------------------------------------------------- */

int rules_watch_begin(struct daemon *daemon)
{
    const char *path = daemon->config->rules;
    const enum config_rules_watch wanted = daemon->config->rules_watch;
    const struct rules_watch_options options = {.path = path,
                                                .len_max = RULES_LEN_MAX,
                                                .first = daemon->rules.file.stamp,
                                                .wake = wake,
                                                .context = daemon};
    if (path[0] == '\0' || strcmp(path, "-") == 0 || wanted == CONFIG_RULES_WATCH_OFF ||
        (wanted == CONFIG_RULES_WATCH_AUTO && !rules_source_is_directory(path)))
        return 0;
    return rules_watch_new(&options, &daemon->rules.file.watch);
}

void rules_keep(struct daemon *daemon, char **text, size_t *len)
{
    struct rules_file_state *file = &daemon->rules.file;
    char **kept = file->owed ? &file->was : &file->text; /* RULESFILE-5 */
    *text = *kept;
    *len = file->owed ? file->was_len : file->len;
    *kept = NULL;
}

void rules_file_fini(struct daemon *daemon)
{
    struct rules_file_state *file = &daemon->rules.file;
    policy_free(&file->policy);
    free(file->text);
    free(file->was);
    file->text = NULL;
    file->was = NULL;
}
