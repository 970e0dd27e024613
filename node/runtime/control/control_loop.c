/* control_loop.c - the main thread's loop: gossip, membership, signals, operators' questions.
 *
 *     gossip ROUTER --+                          +--> gossip DEALERs
 *     timer, messages --+--> control core --> effects --> durable meta values
 *     signals --------+                          +--> views to the shards
 *
 * Nothing here is on the check path, so it may take a mutex, allocate, and wait for a disk sync:
 * a configuration or a promise is durable before the frames that tell of it are sent, because
 * effects are carried out in their order; what the disk has no room for ends them there
 * (control_disk_loop.c). Rules are compiled elsewhere (compiler.h), for that may
 * take longer than gossip can wait.
 */
#include <assert.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "base/assert.h"
#include "client/protocol/wire.h"
#include "node/cluster/conditions/conditions.h"
#include "node/cluster/model/edit_wait.h"
#include "node/runtime/control/client_figures.h"
#include "node/runtime/control/daemon_state.h"
#include "node/runtime/control/member_log.h"
#include "node/runtime/control/ring_log.h"
#include "node/runtime/system/resources.h"
#include "node/runtime/telemetry/telemetry.h"

enum {
    BURST_FRAMES = 256,
    BURST_MESSAGES = 32, /* who asks without end keeps gossip waiting no longer than these take */
    WAITING_MS = 5000,
    WAITING_AGAIN_MS = 60000,
    TIMER_REPEAT_MS = 1,
    FAREWELL_MS = 500,
    NEWS_MAX = 16 /* lines of one turn */
};
#define HEALTH_LOOK_NS INT64_C(250000000)

static int64_t now_of(const struct daemon *daemon)
{
    return clock_now_ns(&daemon->clock);
}

/* ---- effects --------------------------------------------------------------------------------- */

/* How many effects from `at` on are one transaction. */
static size_t group_len(const struct effects *effects, size_t at)
{
    size_t end = at;
    while (effects->items[end].more) {
        end++;
        ASSERT(end < effects->count && effects->items[end].kind == EFFECT_META);
    }
    ASSERT(end - at < EFFECTS_KEPT);
    return end - at + 1;
}

static void carry_out(struct daemon *daemon)
{
    for (size_t i = 0; i < daemon->effects.count && !daemon->end.done; i++) {
        const struct effect *effect = &daemon->effects.items[i];
        switch (effect->kind) {
        case EFFECT_SEND_GOSSIP:
            gossip_out_send(&daemon->sockets.out, now_of(daemon), effect->address, effect->bytes,
                            effect->len);
            break;
        case EFFECT_META:
            if (!disk_keep(daemon, effect, group_len(&daemon->effects, i))) {
                effects_clear(&daemon->effects);
                return;
            }
            i += group_len(&daemon->effects, i) - 1;
            break;
        case EFFECT_INCARNATION:
            disk_keep_incarnation(daemon, effect->target);
            break;
        case EFFECT_JOINED:
            daemon->joined_due = true;
            break;
        case EFFECT_SEND_CLIENT:
        case EFFECT_SEND_PEER:
        case EFFECT_LOAD:
        case EFFECT_LIST:
        case EFFECT_ADMIN:
        case EFFECT_DROP_VNODE:
            ASSERT(false); /* a shard's */
        }
    }
    effects_clear(&daemon->effects);
}

/* ---- operators ------------------------------------------------------------------------------- */

enum { FILE_FIGURES = 5, QUESTION_LEN = 64 };

/* What the node is as a whole, but for `compiled`. `stats` has a place for each shard. */
static struct control_report report_of(struct daemon *daemon, struct shard_stats *stats)
{
    struct disk_stats disk;
    int64_t flush_lag_ns = 0;
    ASSERT(daemon->shard_count > 0 &&
           daemon->shard_count <= CONFIG_SHARDS_MAX); /* else there is no disk */
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        if (stats[i].flush_lag_ns > flush_lag_ns)
            flush_lag_ns = stats[i].flush_lag_ns;
    disk_stats(daemon->disk, &disk);
    return (struct control_report){
        .shards = stats,
        .shard_count = daemon->shard_count,
        .policy = daemon->rules.joined != NULL ? daemon->rules.joined : policy_empty(),
        .storage = daemon->store != NULL ? "lmdb" : "ephemeral",
        .storage_ok = !disk.failing && !disk.journal_failing && !control_disk_full(daemon->control),
        .storage_full = disk.full || disk.journal_full || control_disk_full(daemon->control),
        .storage_failed_writes = disk.write_fails + disk.journal_fails,
        .storage_used = daemon->room.used,
        .storage_most = daemon->room.most,
        .storage_percent = room_percent(&daemon->room),
        .storage_closed = daemon->room.level == ROOM_FULL,
        .flush_lag_ns = flush_lag_ns,
        .started_ns = daemon->started_ns,
        .usage = daemon->usage.book,
        .memory_max = daemon->config->room.memory_bytes,
        .metrics_compat = daemon->config->http.metrics_compat,
        .events = &daemon->told.teller.events,
    };
}

/* What only metrics tell, unless they are told already. */
static void tell_more(struct daemon *daemon, struct shard_told *told, struct control_report *report)
{
    report->page = &daemon->page;
    if (daemon->page.len > 0)
        return;
    memset(told, 0, sizeof *told);
    answered_follow(&told->answered, report->policy);
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        shard_loop_told(daemon->shards[i], told);
    report->told = told;
    resources_look(&report->process);
    report->process.max_files = daemon->sockets.files.max;
}

/* A report, and what it points to. */
struct whole_report {
    struct control_report report;
    struct shard_stats stats[CONFIG_SHARDS_MAX];
    struct client_figures clients;
    struct control_figure files[FILE_FIGURES];
    struct control_figure telemetry[TELEMETRY_FIGURES];
    struct shard_told told;
};

static void make_report(struct daemon *daemon, struct whole_report *whole)
{
    struct control_report *report = &whole->report;
    client_figures_collect(daemon->shards, daemon->shard_count, &whole->clients);
    const struct control_figure files[FILE_FIGURES] = {
        {"max", daemon->sockets.files.max},
        {"kept", daemon->sockets.files.kept},
        {"paused", atomic_load(&daemon->sockets.files.paused)},
        {"pauses", daemon->sockets.files.pauses},
        {"dropped", whole->clients.not_accepted},
    };
    memcpy(whole->files, files, sizeof files);
    for (int i = 0; i < TELEMETRY_FIGURES; i++)
        whole->telemetry[i] = (struct control_figure){
            telemetry_figure_names[i],
            telemetry_figure(daemon->sockets.telemetry, (enum telemetry_figure)i)};
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        shard_loop_stats(daemon->shards[i], true, &whole->stats[i]);
    *report = report_of(daemon, whole->stats);
    client_figures_report(&whole->clients, report);
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        report->links_dropped += shard_loop_links_dropped(daemon->shards[i]);
    report->log_lines_dropped = log_output_dropped(&daemon->output);
    report->files = whole->files;
    report->files_count = FILE_FIGURES;
    report->telemetry = whole->telemetry;
    report->telemetry_count = TELEMETRY_FIGURES;
    report->rules_refusals = daemon->rules.refusals;
    report->rules_unread = daemon->rules.unread;
    tell_more(daemon, &whole->told, report);
}

static void answer_admin(struct daemon *daemon, const struct mailbox_message *message,
                         const struct control_compiled *compiled)
{
    struct whole_report whole;
    ASSERT(message->shard < daemon->shard_count);
    rules_note_spread(daemon);
    make_report(daemon, &whole);
    whole.report.compiled = compiled;
    const size_t len =
        control_admin(daemon->control, now_of(daemon), message->pointer, message->len,
                      &whole.report, daemon->reply, sizeof daemon->reply);
    ASSERT(len <= sizeof daemon->reply);
    uint8_t again[EDIT_WAIT_LEN];
    const size_t again_len =
        edit_wait_again(message->pointer, message->len, daemon->reply, len, again);
    if (again_len > 0 && held_put(&daemon->held, message, again, again_len))
        return;
    if (again_len == 0 && control_admin_waits(daemon->control, message->pointer, message->len) &&
        held_put(&daemon->held, message, message->pointer, message->len))
        return;
    (void)mailbox_put_copy(shard_loop_mailbox(daemon->shards[message->shard]), MESSAGE_REPLY,
                           message->shard, message->number, daemon->reply, len);
}

/* Gives the collector what Prometheus would be told now. */
static void push_metrics(struct daemon *daemon)
{
    struct whole_report whole;
    uint8_t question[QUESTION_LEN];
    struct mp_writer writer;
    if (daemon->shard_count == 0 || daemon->end.done || !telemetry_due(daemon->sockets.telemetry))
        return;
    mp_writer_init(&writer, question, sizeof question);
    wire_begin_admin(&writer, 1, 1, "metrics");
    mp_put_map(&writer, 0);
    ASSERT(!writer.failed);
    daemon->page.len = 0;
    make_report(daemon, &whole);
    (void)control_admin(daemon->control, now_of(daemon), question, writer.len, &whole.report,
                        daemon->reply, sizeof daemon->reply);
    if (daemon->page.len > 0)
        telemetry_give(daemon->sockets.telemetry, daemon->page.text, daemon->page.len);
}

/* A text of the configuration store, which may change meanwhile, is copied behind the frame. False:
 * there is no memory. */
static bool own_text(struct compiler_job *job)
{
    const uintptr_t frame = (uintptr_t)job->block;
    if ((uintptr_t)job->text >= frame && (uintptr_t)job->text < frame + job->message.len)
        return true;
    char *block = realloc(job->block, job->message.len + job->len);
    if (block == NULL)
        return false;
    memcpy(block + job->message.len, job->text, job->len);
    job->block = job->message.pointer = block;
    job->text = block + job->message.len;
    return true;
}

/* Asks again what waits for edits. */
static void look_at_held(struct daemon *daemon)
{
    struct mailbox_message questions[HELD_MAX];
    const uint32_t count = held_take(&daemon->held, now_of(daemon), questions);
    for (uint32_t i = 0; i < count; i++) {
        if (control_admin_waits(daemon->control, questions[i].pointer, questions[i].len)) {
            held_keep(&daemon->held, &questions[i]);
            continue;
        }
        answer_admin(daemon, &questions[i], NULL);
        free(questions[i].pointer);
    }
}

/* Answers what an operator asks, or has its rules compiled first. The message's block is taken. */
static void take_admin(struct daemon *daemon, const struct mailbox_message *message)
{
    static const struct control_compiled busy = {.error = TG_EBUSY};
    const char *text;
    size_t len;
    struct compiler_job *job;
    if (!control_admin_compiles(daemon->control, message->pointer, message->len, &text, &len)) {
        answer_admin(daemon, message, NULL);
        free(message->pointer);
        return;
    }
    if ((job = compiler_job_new(COMPILER_QUESTION, NULL, 0)) == NULL) {
        answer_admin(daemon, message, &busy);
        free(message->pointer);
        return;
    }
    job->message = *message;
    job->block = message->pointer;
    job->text = text;
    job->len = len;
    if (!own_text(job)) {
        answer_admin(daemon, message, &busy);
        compiler_job_free(&job);
        return;
    }
    if (!compiler_ask(daemon->rules.compiler, job)) {
        answer_admin(daemon, &job->message, &busy);
        compiler_job_free(&job);
    }
}

static void read_compiled(struct daemon *daemon)
{
    struct compiler_job *job;
    while ((job = compiler_take(daemon->rules.compiler)) != NULL) {
        const struct control_compiled compiled = {.error = job->error,
                                                  .policy = job->policy,
                                                  .place = job->place,
                                                  .errors = job->errors,
                                                  .warnings = job->warnings,
                                                  .warning_count = job->warning_count};
        if (job->purpose == COMPILER_QUESTION)
            answer_admin(daemon, &job->message, &compiled);
        else
            rules_compiled(daemon, job);
        compiler_job_free(&job);
    }
}

/* ---- input ----------------------------------------------------------------------------------- */

static void take_settled(struct daemon *daemon, const struct mailbox_message *message)
{
    uint64_t lowest = UINT64_MAX;
    ASSERT(message->shard < daemon->config->shards);
    daemon->settled[message->shard] = message->number;
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        if (daemon->settled[i] < lowest)
            lowest = daemon->settled[i];
    control_settled(daemon->control, lowest);
}

/* Returns how many it has taken; at BURST_MESSAGES there may be more. */
static uint32_t read_messages(struct daemon *daemon)
{
    uint32_t taken = 0;
    struct mailbox_message message;
    daemon->page.len = 0;
    for (; taken < BURST_MESSAGES && mailbox_take(&daemon->mailbox, &message); taken++) {
        switch (message.kind) {
        case MESSAGE_ADMIN:
            take_admin(daemon, &message);
            break;
        case MESSAGE_CLOSED:
            control_suspect(daemon->control, message.number);
            break;
        case MESSAGE_SETTLED:
            take_settled(daemon, &message);
            break;
        case MESSAGE_IDLE:
            ASSERT(message.shard < daemon->config->shards);
            daemon->idle[message.shard] = true;
            break;
        case MESSAGE_USAGE:
            usage_take(daemon, &message);
            break;
        case MESSAGE_VIEW:
        case MESSAGE_POLICY:
        case MESSAGE_REPLY:
        case MESSAGE_RESIGN:
        case MESSAGE_STOP:
            ASSERT(false); /* a shard's */
        }
    }
    return taken;
}

static uint32_t read_gossip(struct daemon *daemon)
{
    uint32_t taken = 0;
    struct socket_message message;
    while (taken < BURST_FRAMES &&
           socket_receive(daemon->sockets.gossip, &daemon->sockets.holder, &message) > 0) {
        control_receive(daemon->control, now_of(daemon), message.data,
                        message.odd ? 0 : message.len, &daemon->effects);
        carry_out(daemon);
        taken++;
    }
    return taken;
}

/* ---- consequences ---------------------------------------------------------------------------- */

/* Has the core look at the node as a whole, as an operator would. */
static void look_at_health(struct daemon *daemon)
{
    struct shard_stats stats[CONFIG_SHARDS_MAX];
    const int64_t now_ns = now_of(daemon);
    if (daemon->shard_count == 0 || daemon->end.done ||
        now_ns - daemon->looks.health_ns < HEALTH_LOOK_NS)
        return;
    daemon->looks.health_ns = now_ns;
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        shard_loop_stats(daemon->shards[i], daemon->looks.troubled, &stats[i]);
    const struct control_report report = report_of(daemon, stats);
    daemon->looks.troubled = control_look(daemon->control, now_ns, &report);
    conditions_tell(daemon->control, &report, teller_now(&daemon->told.teller));
}

/* Out of memory the next change is told along with this one. */
static void tell_members(struct daemon *daemon)
{
    struct view *now = control_view(daemon->control);
    if (now == NULL)
        return;
    uint64_t asked_of;
    const char *asked = control_asked(daemon->control, &asked_of);
    member_log_tell(daemon->log, daemon->told.view, now);
    if (daemon->told.view == NULL || daemon->told.view->epoch != now->epoch)
        ring_log_tell(&daemon->told.teller.log, control_config(daemon->control), now, asked_of,
                      asked);
    view_free(&daemon->told.view);
    daemon->told.view = now;
}

static void spread_view(struct daemon *daemon)
{
    if (daemon->shard_count == 0 || daemon->end.done || rules_awaited(daemon) ||
        control_settings_awaited(daemon->control, now_of(daemon)))
        return;
    if (control_view_due(daemon->control)) {
        daemon->views_owed = daemon_all_shards(daemon);
        tell_members(daemon);
    } else if (daemon->views_owed == 0) {
        return;
    }
    ASSERT((daemon->views_owed & ~daemon_all_shards(daemon)) == 0);
    for (uint32_t i = 0; i < daemon->shard_count; i++) {
        if ((daemon->views_owed & 1u << i) == 0)
            continue;
        const struct mailbox_message message = {.kind = MESSAGE_VIEW,
                                                .pointer = control_view(daemon->control)};
        struct view *view = message.pointer;
        if (view != NULL && mailbox_put(shard_loop_mailbox(daemon->shards[i]), &message))
            daemon->views_owed &= ~(1u << i);
        else
            view_free(&view);
    }
    if (daemon->told.ready)
        return;
    daemon->told.ready = true;
    log_printf(daemon->log, LOG_LEVEL_INFO, "node %s (%016llx) serves", daemon->config->name,
               (unsigned long long)daemon->node_id);
    char resp[CONFIG_ENDPOINT_LEN];
    char http[CONFIG_ENDPOINT_LEN];
    char grpc[CONFIG_ENDPOINT_LEN];
    (void)fprintf(stderr,
                  "tidegated ready client=%s peer=%s gossip=%s resp=%s http=%s grpc=%s name=%s\n",
                  daemon->config->client_address, daemon->config->peer_address,
                  daemon->config->gossip_address, config_endpoint_text(&daemon->config->resp, resp),
                  config_endpoint_text(&daemon->config->http.first, http),
                  config_endpoint_text(&daemon->config->grpc, grpc), daemon->config->name);
    (void)sd_notify(0, "READY=1");
}

static void start_if_joined(struct daemon *daemon)
{
    if (!daemon->joined_due || daemon->shard_count > 0 || daemon->end.stopping || daemon->end.done)
        return;
    const int code = daemon_start_shards(daemon);
    if (code != 0) {
        daemon->end.exit_code = code;
        daemon->end.done = true;
        return;
    }
    ASSERT(daemon->shard_count == daemon->config->shards);
    files_hold(&daemon->sockets.files);
    rules_spread(daemon);
    control_rules(daemon->control, 0,
                  daemon->rules.joined != NULL ? policy_digest(daemon->rules.joined) : 0);
}

/* While no cluster was found: names may resolve only now, or to other nodes than before. */
static void look_for_seeds(struct daemon *daemon, const struct log *log)
{
    char seeds[CONTROL_SEEDS_MAX][VIEW_TEXT_LEN];
    const uint32_t count = seeds_resolve(daemon->config, seeds, log, daemon->seeds_lost);
    for (uint32_t i = 0; i < count; i++)
        control_add_seed(daemon->control, seeds[i]);
}

/* What a node that does not serve yet waits for: the one place that says so, to whoever asks. */
static void say_waiting(const struct daemon *daemon, char out[CONTROL_SENTENCE_LEN])
{
    if (control_waiting(daemon->control, out, CONTROL_SENTENCE_LEN)) {
        const size_t len = strlen(out);
        ASSERT(len < CONTROL_SENTENCE_LEN);
        if (control_identity(daemon->control) == NULL)
            (void)snprintf(out + len, CONTROL_SENTENCE_LEN - len, "%s", daemon->seeds_lost);
        return;
    }
    (void)snprintf(
        out, CONTROL_SENTENCE_LEN, "%s",
        rules_awaited(daemon)
            ? "waiting for rules of the cluster that this node can put in force (its log "
              "tells what keeps it)"
        : control_settings_awaited(daemon->control, now_of(daemon))
            ? "waiting for the cluster's configuration"
            : "about to serve");
}

/* In the log at first after five seconds, then every minute. Meanwhile seeds are resolved again. */
static void tell_waiting(struct daemon *daemon)
{
    char sentence[CONTROL_SENTENCE_LEN];
    const int64_t now_ns = now_of(daemon);
    if (daemon->told.ready || now_ns - daemon->looks.seeds_ns < (int64_t)WAITING_MS * 1000000)
        return;
    const bool told = daemon->told.waiting_ns != 0 &&
                      now_ns - daemon->told.waiting_ns < (int64_t)WAITING_AGAIN_MS * 1000000;
    daemon->looks.seeds_ns = now_ns;
    look_for_seeds(daemon, told ? NULL : daemon->log);
    if (told)
        return;
    daemon->told.waiting_ns = now_ns;
    say_waiting(daemon, sentence);
    log_printf(daemon->log, LOG_LEVEL_WARN, "not serving: %s%s", sentence,
               control_identity(daemon->control) == NULL
                   ? "; trying on (start one node without --seed, or with --bootstrap, to create a "
                     "cluster)"
                   : "");
}

static uint32_t list_listeners(const struct daemon *daemon,
                               const struct daemon_listeners *listeners, int *out)
{
    uint32_t count = 0;
    static_assert((int)LOBBY_LISTENERS_MAX > (int)CONFIG_SHARDS_MAX * ((int)CONFIG_LISTEN_MAX + 2),
                  "the lobby is at all of them, and at one for metrics");
    for (uint32_t i = 0; i < daemon->config->shards; i++) {
        ASSERT(listeners->counts[i] <= CONFIG_LISTEN_MAX + 2);
        for (uint32_t k = 0; k < listeners->counts[i]; k++)
            out[count++] = listeners->fds[i][k];
    }
    return count;
}

/* Clients are told why, while nobody else is there to answer them. */
static void look_at_lobby(struct daemon *daemon)
{
    char sentence[CONTROL_SENTENCE_LEN];
    if (daemon->shard_count > 0 || daemon->end.done) {
        lobby_free(&daemon->sockets.lobby);
        return;
    }
    int native[LOBBY_LISTENERS_MAX];
    int redis[LOBBY_LISTENERS_MAX];
    int http[LOBBY_LISTENERS_MAX];
    const struct http_facts facts = daemon_http_facts(daemon);
    uint32_t http_count = list_listeners(daemon, &daemon->sockets.http, http);
    http_count += list_listeners(daemon, &daemon->sockets.metrics, http + http_count);
    const struct lobby_options options = {
        .native = native,
        .native_count = list_listeners(daemon, &daemon->sockets.native, native),
        .redis = redis,
        .redis_count = list_listeners(daemon, &daemon->sockets.redis, redis),
        .http = http,
        .http_count = http_count,
        .http_session = daemon->node_id,
        .http_facts = &facts,
        .clock = &daemon->clock};
    if (daemon->sockets.lobby == NULL && lobby_new(&options, &daemon->sockets.lobby) != 0)
        return; /* the next turn tries again */
    say_waiting(daemon, sentence);
    lobby_turn(daemon->sockets.lobby, sentence);
}

/* ---- stopping -------------------------------------------------------------------------------- */

/* Says good-bye to gossip: for good if the node leaves, else until it is started again, for which
 * nobody waits longer than for FAREWELL_MS. True when there is nothing left to say. */
static bool say_farewell(struct daemon *daemon)
{
    ASSERT(daemon->end.stopping);
    if (!daemon->end.leaving)
        return control_stop(daemon->control) ||
               now_of(daemon) - daemon->end.stop_ns >= (int64_t)FAREWELL_MS * 1000000;
    const bool told = control_leave(daemon->control, now_of(daemon), &daemon->effects);
    carry_out(daemon);
    return told;
}

static void begin_stop(struct daemon *daemon)
{
    if (daemon->end.stopping) {
        daemon->end.done = true; /* asked twice: at once */
        return;
    }
    daemon->end.stopping = true;
    daemon->end.stop_ns = now_of(daemon);
    log_printf(daemon->log, LOG_LEVEL_INFO, "stopping: passing deciding on and writing everything");
    if (!daemon->end.again)
        (void)sd_notify(0, "STOPPING=1");
    if (!daemon->end.leaving)
        (void)control_stop(daemon->control); /* others hear of it while shards pass deciding on */
    const struct mailbox_message message = {.kind = MESSAGE_RESIGN};
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        (void)mailbox_put(shard_loop_mailbox(daemon->shards[i]), &message);
}

/* A node that an operator asked to leave stops when it has no part in the ring any more. */
static void look_at_departure(struct daemon *daemon)
{
    if (daemon->end.stopping || !control_departed(daemon->control, now_of(daemon)))
        return;
    log_printf(daemon->log, LOG_LEVEL_INFO, "left the ring");
    daemon->end.leaving = true;
    begin_stop(daemon);
}

/* What was kept is of another cluster than the seeds: said once, and the end of a node that came up
 * so. It may have served, so it stops as it would when asked to. */
static void look_at_foreign(struct daemon *daemon)
{
    char sentence[CONTROL_SENTENCE_LEN];
    if (daemon->end.stopping || !control_foreign_say(daemon->control, sentence, sizeof sentence))
        return;
    if (!daemon->told.foreign)
        log_printf(daemon->log, LOG_LEVEL_WARN, "%s", sentence);
    daemon->told.foreign = true;
    if (!control_misplaced(daemon->control))
        return;
    log_printf(daemon->log, LOG_LEVEL_ERROR,
               "%s: %s, and nobody of its own is heard; expected the data directory or the seeds "
               "of one cluster",
               daemon->config->data, sentence);
    daemon->end.exit_code = DAEMON_DATA;
    begin_stop(daemon);
}

/* What has come about since, a line each. */
static void tell_news(struct daemon *daemon)
{
    char sentence[CONTROL_SENTENCE_LEN];
    bool warns;
    for (int i = 0; i < NEWS_MAX && !daemon->end.done &&
                    control_news(daemon->control, sentence, sizeof sentence, &warns);
         i++)
        log_printf(&daemon->told.teller.log, warns ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "%s",
                   sentence);
}

static void look_at_standing(struct daemon *daemon)
{
    struct shard_stats stats[CONFIG_SHARDS_MAX];
    const int64_t now_ns = (int64_t)uv_hrtime();
    if (daemon->shard_count == 0 || daemon->end.stopping ||
        !standing_due(&daemon->standing, now_ns))
        return;
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        shard_loop_stats(daemon->shards[i], false, &stats[i]);
    standing_look(&daemon->standing, now_ns, stats, daemon->shard_count, daemon->log);
}

/* Another node of this one's name: each of them says so once, and the one outside ends, if somebody
 * gave it that name; with the name of its host it may be what is left of a change of hosts. */
static void look_at_twin(struct daemon *daemon)
{
    char sentence[CONTROL_SENTENCE_LEN];
    const uint64_t twin = control_twin_say(daemon->control, sentence, sizeof sentence);
    if (daemon->end.stopping || twin == 0)
        return;
    if (twin != daemon->told.twin)
        log_printf(daemon->log, LOG_LEVEL_WARN, "%s", sentence);
    daemon->told.twin = twin;
    if (!daemon->config->name_given || !control_twin_ends(daemon->control))
        return;
    log_printf(daemon->log, LOG_LEVEL_ERROR,
               "--name %s: %s; this one ends. Expected a name that no living node has",
               daemon->config->name, sentence);
    daemon->end.exit_code = DAEMON_CONFIG;
    daemon->end.leaving = true; /* it was never in the ring: nobody is to wait for it */
    begin_stop(daemon);
}

static void look_at_stop(struct daemon *daemon)
{
    if (!daemon->end.stopping)
        return;
    bool idle = true;
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        idle = idle && daemon->idle[i];
    const bool late = now_of(daemon) - daemon->end.stop_ns >= daemon->config->drain_timeout_ns;
    if (late && !idle)
        log_printf(daemon->log, LOG_LEVEL_WARN,
                   "the drain time-out passed before all was handed "
                   "over or written");
    daemon->end.done = daemon->end.done || late || (idle && say_farewell(daemon));
}

/* A node that stops to start again for its clock goes on stopping in order, and stays away then. */
static void end(struct daemon *daemon)
{
    const bool under_way = daemon->end.again && daemon->end.stopping;
    daemon->end.again = false;
    if (!under_way) {
        begin_stop(daemon);
        return;
    }
    log_printf(daemon->log, LOG_LEVEL_INFO, "told to stop: this node does not start again");
    (void)sd_notify(0, "STOPPING=1");
}

static void read_signals(struct daemon *daemon)
{
    int number;
    while ((number = signals_take(daemon->events.signals)) != 0) {
        if (number == SIGHUP)
            rules_reload(daemon);
        else
            end(daemon);
    }
}

/* ---- clocks ---------------------------------------------------------------------------------- */

/* A node whose own time is off starts again: in order while the others still listen to it, or at
 * once. Its state is with them, and on its disk. */
static void look_at_own_clock(struct daemon *daemon)
{
    const enum clock_verdict verdict = control_clock_verdict(daemon->control);
    if (verdict < CLOCK_PASSES || daemon->end.stopping)
        return;
    daemon->end.again = true;
    log_printf(daemon->log, LOG_LEVEL_ERROR,
               "the time of this node has left that of the cluster: %s",
               verdict == CLOCK_PASSES ? "passing deciding on, to start again"
                                       : "nobody listens to it any more, it starts again");
    if (verdict == CLOCK_PASSES)
        begin_stop(daemon);
    else
        daemon->end.done = true;
}

/* A boot time that is set back would make time stand still until it is where it was, and leases
 * with it. */
static void look_for_setback(struct daemon *daemon)
{
    const int64_t now_ns = now_of(daemon);
    if (now_ns > daemon->looks.latest_ns)
        daemon->looks.latest_ns = now_ns;
    ASSERT(daemon->looks.latest_ns >= now_ns);
    if (daemon->looks.latest_ns - now_ns < CLUSTER_TIME_REFUSED_NS || daemon->end.stopping)
        return;
    log_printf(daemon->log, LOG_LEVEL_ERROR,
               "the machine's boot time was set back by %lld ms: this node starts again",
               (long long)((daemon->looks.latest_ns - now_ns) / 1000000));
    daemon->end.again = true;
    daemon->end.done = true;
}

static void look_at_clocks(struct daemon *daemon, int64_t now_ns)
{
    struct cluster_time_sample clocks[SHARD_LOOP_CLOCKS_MAX];
    daemon->looks.clocks_ns = now_ns;
    clock_look(&daemon->clock);
    control_wall(daemon->control, clock_wall_ns(&daemon->clock));
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        control_clock_heard(daemon->control, now_ns, clocks,
                            shard_loop_clocks(daemon->shards[i], clocks));
    look_at_own_clock(daemon);
    if (now_ns - daemon->looks.rate_ns < CLOCK_ADJUST_EVERY_NS)
        return;
    daemon->looks.rate_ns = now_ns;
    clock_adjust(&daemon->clock, control_clock_target_ns(daemon->control));
    gossip_out_tidy(&daemon->sockets.out, now_ns);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    (void)timer; /* only wakes the loop */
}

static void on_wake(uv_async_t *wake)
{
    (void)wake;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
}

static void turn(struct daemon *daemon)
{
    read_signals(daemon);
    const uint32_t messages = read_messages(daemon);
    read_compiled(daemon);
    const uint32_t frames = read_gossip(daemon);
    control_tick(daemon->control, now_of(daemon), &daemon->effects);
    carry_out(daemon);
    disk_look(daemon);
    look_at_health(daemon);
    start_if_joined(daemon);
    look_at_lobby(daemon);
    rules_look(daemon);
    look_at_held(daemon);
    usage_look(daemon);
    push_metrics(daemon);
    spread_view(daemon);
    tell_waiting(daemon);
    tell_news(daemon);
    look_at_standing(daemon);
    look_at_departure(daemon);
    look_at_foreign(daemon);
    look_at_twin(daemon);
    look_at_stop(daemon);
    const int64_t now_ns = now_of(daemon);
    if (now_ns - daemon->looks.clocks_ns >= CLOCK_WALL_EVERY_NS)
        look_at_clocks(daemon, now_ns);
    if (daemon->shard_count > 0 && !daemon->end.stopping)
        files_look(&daemon->sockets.files, now_ns, daemon->log);
    if (daemon->shard_count > 0 &&
        room_look(&daemon->room, daemon->store, daemon->config->data, now_ns, daemon->log))
        disk_close(daemon->disk, daemon->room.level == ROOM_FULL);
    int64_t wait_ns = control_next_deadline(daemon->control) - now_ns;
    if (wait_ns < 0 || frames == BURST_FRAMES || messages == BURST_MESSAGES ||
        socket_readable(daemon->sockets.gossip))
        wait_ns = 0;
    if (daemon->held.count > 0 && wait_ns > HELD_EVERY_NS)
        wait_ns = HELD_EVERY_NS;
    ASSERT(frames <= BURST_FRAMES && wait_ns >= 0);
    /* uv_run looks at timers before it sleeps. One that is due by then must not leave the sleep
     * without an end: it repeats. */
    uv_update_time(&daemon->events.loop);
    daemon->events.wake_ns = (int64_t)uv_hrtime() + wait_ns;
    (void)uv_timer_start(&daemon->events.timer, on_timer, (uint64_t)(wait_ns + 999999) / 1000000,
                         TIMER_REPEAT_MS);
}

void control_loop_run(struct daemon *daemon)
{
    while (!daemon->end.done) {
        look_for_setback(daemon);
        if (!daemon->end.done)
            turn(daemon);
        if (!daemon->end.done)
            (void)uv_run(&daemon->events.loop, UV_RUN_ONCE);
        const int64_t now_ns = (int64_t)uv_hrtime();
        standing_woke(&daemon->standing, now_ns, now_ns - daemon->events.wake_ns, daemon->log);
    }
}

static bool wake_when_readable(struct daemon *daemon, uv_poll_t *poll, int fd)
{
    return uv_poll_init(&daemon->events.loop, poll, fd) == 0 &&
           uv_poll_start(poll, UV_READABLE, on_poll) == 0;
}

int control_loop_open(struct daemon *daemon)
{
    if (uv_loop_init(&daemon->events.loop) != 0)
        return TG_EIO;
    const bool ok =
        signals_open(&daemon->events.signals) == 0 &&
        uv_async_init(&daemon->events.loop, &daemon->events.wake, on_wake) == 0 &&
        uv_timer_init(&daemon->events.loop, &daemon->events.timer) == 0 &&
        wake_when_readable(daemon, &daemon->events.poll, socket_fd(daemon->sockets.gossip)) &&
        wake_when_readable(daemon, &daemon->events.signals_poll, daemon->events.signals);
    const struct compiler_options compiling = rules_compiler_options(daemon);
    if (!ok)
        return TG_EIO;
    const int error = mailbox_init(&daemon->mailbox, &daemon->events.wake);
    if (error != 0 || compiler_new(&compiling, &daemon->rules.compiler) != 0)
        return error != 0 ? error : TG_ENOMEM;
    return rules_watch_begin(daemon);
}

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void control_loop_close(struct daemon *daemon)
{
    uv_walk(&daemon->events.loop, close_handle, NULL);
    (void)uv_run(&daemon->events.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&daemon->events.loop);
    signals_close(&daemon->events.signals);
    mailbox_fini(&daemon->mailbox);
    held_fini(&daemon->held);
    socket_release(&daemon->sockets.holder);
}
