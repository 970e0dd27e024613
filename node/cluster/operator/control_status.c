/* control_status.c - status: whether the cluster is well as this node sees it, why not
 * (conditions.c), and figures. Every reason is a sentence that names the member.
 */
#include <stdio.h>
#include <string.h>

#include "node/cluster/conditions/conditions.h"
#include "node/cluster/operator/control_answer.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/usage/usage_ledger.h"

enum { SHARD_POOL_FIELDS = 6, REASONS_MAX = 16 };

static void put_members_count(const struct control *control, struct mp_writer *writer)
{
    struct swim_stats stats;
    const uint32_t removed = control_count_removed(control);
    swim_stats(control->swim, &stats);
    mp_put_str(writer, "members");
    mp_put_map(writer, 4);
    put_field_uint(writer, "alive", stats.alive);
    put_field_uint(writer, "suspect", stats.suspect);
    put_field_uint(writer, "dead", stats.dead - removed);
    put_field_uint(writer, "left", stats.left + removed);
    mp_put_str(writer, "gossip");
    mp_put_map(writer, 3);
    put_field_uint(writer, "malformed", stats.malformed);
    put_field_uint(writer, "doubts", stats.doubts);
    put_field_uint(writer, "strangers_refused", stats.strangers_refused);
}

enum { SEVERAL_FIELDS = 6, LEASES_FIELDS = 10 };

/* Of requests whose rules several nodes decide. */
static void put_several(const struct shard_stats *stats, struct mp_writer *writer)
{
    put_field_uint(writer, "several", stats->several);
    put_field_uint(writer, "undo_resent", stats->undo_resent);
    put_field_uint(writer, "undo_unknown", stats->undo_unknown);
    put_field_uint(writer, "reserves_dropped", stats->reserves_dropped);
    put_field_uint(writer, "retries_dropped", stats->retries_dropped);
    put_field_uint(writer, "retry_lost", stats->retry_lost);
}

/* Leases of tokens. */
static void put_leases(const struct shard_stats *stats, struct mp_writer *writer)
{
    put_field_uint(writer, "leases_granted", stats->leases_granted);
    put_field_uint(writer, "leases_refused", stats->leases_refused);
    put_field_uint(writer, "leases_untold", stats->leases_untold);
    put_field_uint(writer, "leases_tokens", stats->leases_tokens);
    put_field_uint(writer, "leases_back", stats->leases_back);
    put_field_uint(writer, "any_allowed", stats->any_allowed);
    put_field_uint(writer, "any_denied", stats->any_denied);
    put_field_uint(writer, "any_leases", stats->any_leases);
    put_field_uint(writer, "any_tokens", stats->any_tokens);
    put_field_uint(writer, "any_back", stats->any_back);
}

/* What elastic limits did: the last fields of a shard. */
static void put_shard_pools(const struct shard_stats *stats, struct mp_writer *writer)
{
    put_field_uint(writer, "borrowed", stats->borrowed);
    put_field_uint(writer, "pools_lent", stats->pools_lent);
    put_field_uint(writer, "pools_refused", stats->pools_refused);
    put_field_uint(writer, "pools_no_room", stats->pools_no_room);
    put_field_uint(writer, "pools_reports_dropped", stats->pools_reports_dropped);
    put_field_uint(writer, "pools_keys", stats->pools_keys);
}

enum { SHARD_QUORUM_FIELDS = 11 };

static void put_shard_quorum(const struct shard_stats *stats, struct mp_writer *writer)
{
    put_field_uint(writer, "quorum_checks", stats->quorum.checks);
    put_field_uint(writer, "quorum_unavailable", stats->quorum.unavailable);
    put_field_uint(writer, "quorum_in_doubt", stats->quorum.in_doubt);
    put_field_uint(writer, "quorum_terms", stats->quorum.terms);
    put_field_uint(writer, "quorum_uncommitted", stats->quorum.uncommitted);
    put_field_uint(writer, "quorum_vnodes", stats->quorum.vnodes);
    put_field_uint(writer, "quorum_vnodes_deciding", stats->quorum.vnodes_leading);
    put_field_uint(writer, "quorum_vnodes_undecided", stats->quorum.vnodes_undecided);
    put_field_uint(writer, "journal_batches", stats->journal_batches);
    put_field_uint(writer, "journal_records", stats->journal_records);
    put_field_uint(writer, "journal_failures", stats->journal_failures);
}

enum { MORE_FIELDS = SEVERAL_FIELDS + LEASES_FIELDS + SHARD_POOL_FIELDS + SHARD_QUORUM_FIELDS };

static void put_more(const struct shard_stats *stats, struct mp_writer *writer)
{
    put_several(stats, writer);
    put_leases(stats, writer);
    put_shard_pools(stats, writer);
    put_shard_quorum(stats, writer);
}

static void put_shard(const struct shard_stats *stats, struct mp_writer *writer)
{
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {
        {"checks", stats->checks},
        {"allowed", stats->allowed},
        {"denied", stats->denied},
        {"forwarded", stats->forwarded},
        {"resent", stats->resent},
        {"moved", stats->moved},
        {"busy", stats->busy},
        {"shed", stats->shed},
        {"unfinished", stats->unfinished},
        {"expired", stats->expired},
        {"no_address", stats->no_address},
        {"retries_recalled", stats->retries_recalled},
        {"takeovers", stats->takeovers},
        {"merges", stats->merges},
        {"merged_slots", stats->merged_slots},
        {"merge_fallbacks", stats->merge_fallbacks},
        {"handed_over", stats->handed_over},
        {"guarded", stats->guarded},
        {"terms_opened", stats->terms_opened},
        {"stepped_down", stats->stepped_down},
        {"stale_writes", stats->stale_writes},
        {"slots_replicated", stats->slots_replicated},
        {"resyncs", stats->resyncs},
        {"copies", stats->copies},
        {"slots_copied", stats->slots_copied},
        {"loads", stats->loads},
        {"loads_missed", stats->loads_missed},
        {"disk_copies", stats->disk_copies},
        {"unreadable", stats->unreadable},
        {"filter_refreshes", stats->filter_refreshes},
        {"stalls", stats->stalls},
        {"bad_frames", stats->bad_frames},
        {"forged_frames", stats->forged_frames},
        {"clock_refused", stats->clock_refused},
        {"frames_dropped", stats->frames_dropped},
        {"stand_ins", stats->fallbacks},
        {"explains_dropped", stats->explains_dropped},
        {"undone", stats->undone},
        {"undo_lost", stats->undo_lost},
        {"unconfirmed", stats->unconfirmed},
        {"over_tokens", stats->over_tokens},
        {"slots", stats->slots},
        {"slots_max", stats->slots_max},
        {"evicted", stats->evicted},
        {"forgotten", stats->forgotten},
        {"refused", stats->refused},
        {"turned_away", stats->turned_away},
        {"uncounted", stats->uncounted},
        {"slots_room", stats->room},
        {"vnodes_deciding", stats->vnodes_leading},
        {"vnodes_replica", stats->vnodes_replica},
        {"vnodes_recovering", stats->vnodes_recovering},
        {"vnodes_cut_off", stats->vnodes_cut_off},
        {"vnodes_degraded", stats->vnodes_unconfirmed},
        {"vnodes_incomplete", stats->vnodes_incomplete},
        {"parts_waiting", stats->checks_pending},
        {"peers_left_out", stats->peers_left_out},
    };
    mp_put_map(writer, sizeof fields / sizeof *fields + MORE_FIELDS);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        put_field_uint(writer, fields[i].name, fields[i].value);
    put_more(stats, writer);
}

/* How far complete copies are, of all shards; what lasts longest tells when the node is done. */
static void put_handoff(const struct control_report *report, struct mp_writer *writer)
{
    struct shard_handoff_stats sum = {.give = 0};
    for (uint32_t i = 0; i < report->shard_count; i++) {
        const struct shard_handoff_stats *stats = &report->shards[i].handoff;
        sum.give += stats->give;
        sum.receive += stats->receive;
        sum.sent += stats->sent;
        sum.received += stats->received;
        sum.rate += stats->rate;
        if (stats->left_ns < 0 || sum.left_ns < 0)
            sum.left_ns = -1;
        else if (stats->left_ns > sum.left_ns)
            sum.left_ns = stats->left_ns;
    }
    mp_put_str(writer, "handoff");
    mp_put_map(writer, 6);
    put_field_uint(writer, "vnodes_to_give", sum.give);
    put_field_uint(writer, "vnodes_to_receive", sum.receive);
    put_field_uint(writer, "bytes_sent", sum.sent);
    put_field_uint(writer, "bytes_received", sum.received);
    put_field_uint(writer, "bytes_per_s", sum.rate);
    mp_put_str(writer, "left_ms");
    if (sum.left_ns < 0)
        mp_put_nil(writer);
    else
        mp_put_uint(writer, (uint64_t)(sum.left_ns + 999999) / 1000000);
}

static void put_cluster_id(const struct control *control, struct mp_writer *writer)
{
    char text[2 * CONTROL_CLUSTER_ID_LEN + 1] = "";
    for (size_t i = 0; control->joined && i < CONTROL_CLUSTER_ID_LEN; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", control->identity.cluster_id[i]);
    put_field_str(writer, "cluster_id", text);
}

/* What is in force, and if something newer is known that is not, why. */
static void put_rules(struct answer_context *context, bool agree)
{
    const struct control *control = context->control;
    struct mp_writer *writer = context->writer;
    struct settings_entry newest;
    const bool known = control_rules_known(control, &newest);
    mp_put_str(writer, "rules");
    mp_put_map(writer, 6);
    put_field_uint(writer, "count", policy_rule_count(context->report->policy));
    put_field_hex(writer, "digest", policy_digest(context->report->policy));
    put_field_bool(writer, "agree", agree);
    put_field_uint(writer, "version", settings_version_shown(control->rules_version));
    put_field_uint(writer, "newest", known ? settings_version_shown(newest.version) : 0);
    put_field_str(writer, "error", control->rules_error);
}

static void put_figures(const char *name, const struct control_figure *figures, uint32_t count,
                        struct mp_writer *writer)
{
    mp_put_str(writer, name);
    mp_put_map(writer, count);
    for (uint32_t i = 0; i < count; i++)
        put_field_uint(writer, figures[i].name, figures[i].value);
}

/* Of the oldest of the shards' figures: each shard leaves a copy of its own from time to time. */
static uint64_t figures_age_ms(const struct answer_context *context)
{
    int64_t age_ns = 0;
    for (uint32_t i = 0; i < context->report->shard_count; i++) {
        const int64_t shard_ns = context->now_ns - context->report->shards[i].taken_ns;
        age_ns = shard_ns > age_ns ? shard_ns : age_ns;
    }
    return (uint64_t)age_ns / 1000000;
}

static void put_reasons(const struct conditions *conditions, struct mp_writer *writer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < conditions->count; i++)
        count += conditions->list[i].grave;
    count = count < REASONS_MAX ? count : REASONS_MAX;
    mp_put_str(writer, "reasons");
    mp_put_array(writer, count);
    for (uint32_t i = 0; count > 0; i++) {
        if (!conditions->list[i].grave)
            continue;
        mp_put_str(writer, conditions->list[i].says);
        count--;
    }
}

static void put_conditions(const struct answer_context *context,
                           const struct conditions *conditions)
{
    struct mp_writer *writer = context->writer;
    mp_put_str(writer, "conditions");
    mp_put_array(writer, conditions->count);
    for (uint32_t i = 0; i < conditions->count; i++) {
        const struct condition *condition = &conditions->list[i];
        const int64_t age_ns = context->now_ns - condition->since_ns;
        mp_put_map(writer, 9);
        put_field_str(writer, "code", condition->code);
        put_field_bool(writer, "grave", condition->grave);
        put_field_str(writer, "node", condition->node);
        put_field_str(writer, "region", condition->region);
        put_field_str(writer, "says", condition->says);
        put_field_str(writer, "short", condition->short_form);
        put_field_str(writer, "means", condition->means);
        put_field_str(writer, "advice", condition->advice);
        put_field_uint(writer, "for_ms",
                       condition->since_ns > 0 && age_ns > 0 ? (uint64_t)(age_ns / CONTROL_MS) : 0);
    }
}

void answer_status(struct answer_context *context)
{
    const struct control *control = context->control;
    const struct control_report *report = context->report;
    struct mp_writer *writer = context->writer;
    struct conditions conditions;
    bool figures;
    if (!control_read_flag(context, "figures", &figures))
        return;
    if (figures)
        control_gather_look(context->control);
    conditions_look(control, report, &conditions);
    answer_begin(context);
    mp_put_map(writer, 43);
    put_field_str(writer, "node", control->options.name);
    put_field_hex(writer, "node_id", control->options.node_id);
    put_cluster_id(control, writer);
    put_field_str(writer, "version", control->options.version);
    put_field_bool(writer, "healthy", !conditions.grave);
    put_reasons(&conditions, writer);
    control_put_warnings(context, &conditions, writer);
    put_conditions(context, &conditions);
    put_field_uint(writer, "conditions_more", conditions.more);
    control_put_nodes(context);
    control_put_busiest(context);
    control_put_changes(context);
    control_put_events(context);
    put_field_uint(writer, "epoch", control->config->epoch);
    put_field_bool(writer, "stable", ring_config_is_stable(control->config));
    put_field_uint(writer, "vnodes_total", control->identity.vnodes);
    put_field_uint(writer, "replicas", control->identity.replicas);
    put_field_uint(writer, "uptime_ms", (uint64_t)(context->now_ns - report->started_ns) / 1000000);
    put_field_uint(writer, "figures_age_ms", figures_age_ms(context));
    put_members_count(control, writer);
    control_put_clock(control, writer);
    control_put_register(control, context->now_ns, writer);
    control_put_exposure(report, writer);
    put_handoff(report, writer);
    mp_put_str(writer, "storage");
    mp_put_map(writer, 7);
    put_field_str(writer, "kind", report->storage);
    put_field_bool(writer, "ok", report->storage_ok);
    put_field_uint(writer, "failed_writes", report->storage_failed_writes);
    put_field_uint(writer, "flush_lag_ms", (uint64_t)report->flush_lag_ns / 1000000);
    put_field_uint(writer, "used_bytes", report->storage_used);
    put_field_uint(writer, "most_bytes", report->storage_most);
    put_field_bool(writer, "closed", report->storage_closed);
    put_rules(context, conditions.rules_agree);
    control_put_settings(control, writer);
    mp_put_str(writer, "pools");
    control_put_pools(report, writer);
    put_field_uint(writer, "usage_lost",
                   report->usage != NULL ? usage_ledger_lost(report->usage) : 0);
    put_field_uint(writer, "links_dropped", report->links_dropped);
    put_field_uint(writer, "log_lines_dropped", report->log_lines_dropped);
    put_figures("clients", report->native, report->native_count, writer);
    put_figures("resp", report->resp, report->resp_count, writer);
    put_figures("http", report->http, report->http_count, writer);
    put_figures("files", report->files, report->files_count, writer);
    put_figures("telemetry", report->telemetry, report->telemetry_count, writer);
    mp_put_str(writer, "shards");
    mp_put_array(writer, report->shard_count);
    for (uint32_t i = 0; i < report->shard_count; i++)
        put_shard(&report->shards[i], writer);
}
