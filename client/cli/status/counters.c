/* counters.c - every counter with a line of help; counters.h is the contract. */
#include "client/cli/status/counters.h"

#include <stdio.h>
#include <string.h>

#include "base/mp_walk.h"
#include "client/cli/status/screen_text.h"

enum { NAME_WIDTH = 23, NUMBER_WIDTH = 15, GROUP_WIDTH = 17, LINE_LEN = 256 };

/* In the order in which they are shown. */
static const struct {
    const char *group;
    const char *name;
    const char *help;
} counters[] = {
    {"answers", "checks", "items decided here"},
    {"answers", "allowed", "of them"},
    {"answers", "denied", "of them"},
    {"answers", "borrowed", "allowed above an elastic limit"},
    {"answers", "forwarded", "parts sent to another node that decides them"},
    {"answers", "resent", "sent again, as no answer came"},
    {"answers", "moved", "forwards that came to the wrong node"},
    {"answers", "expired", "not decided within the client's deadline"},
    {"answers", "stand_ins", "decided by a share, as nobody who holds the key was in reach"},
    {"answers", "no_address", "values of addresses that were none"},
    {"answers", "explains_dropped", "explanations for which there was no room"},
    {"refused", "busy", "for want of room, those of `shed` included"},
    {"refused", "shed", "unread, as too much waited already"},
    {"refused", "turned_away", "new keys above what memory and disk can take"},
    {"refused", "refused", "changes, and states of copies, that found no room"},
    {"refused", "uncounted", "tokens that on_failure: open allowed for want of room"},
    {"refused", "unfinished", "messages whose rules took longer than a turn"},
    {"refused", "parts_waiting", "parts of requests that wait for other nodes now"},
    {"retries", "retries_recalled", "answered from memory"},
    {"retries", "retries_dropped", "first answers that were not kept, for want of room"},
    {"retries", "retry_lost", "answers that replicas may not know"},
    {"retries", "several", "requests whose rules several nodes decided"},
    {"retries", "undone", "charges given back"},
    {"retries", "undo_resent", "undos sent again"},
    {"retries", "undo_lost", "charges that could not be given back in time"},
    {"retries", "undo_unknown", "undos of nothing that is known: it may stay charged"},
    {"retries", "reserves_dropped", "charges not remembered for an undo, for want of room"},
    {"deciding", "vnodes_deciding", "decided here now"},
    {"deciding", "vnodes_replica", "kept here for others now"},
    {"deciding", "vnodes_recovering", "that wait for what they held"},
    {"deciding", "vnodes_cut_off", "decided here, without another replica in reach"},
    {"deciding", "vnodes_degraded", "decided here, without a majority"},
    {"deciding", "vnodes_incomplete", "decided here, of which a replica has no whole copy"},
    {"deciding", "takeovers", "terms opened after a decider's silence"},
    {"deciding", "terms_opened", "in all"},
    {"deciding", "stepped_down", "gave way to a newer term"},
    {"deciding", "stalls", "own pauses long enough to be deposed in"},
    {"deciding", "peers_left_out", "shards of members for which there is no room"},
    {"copies", "slots_replicated", "states sent to replicas"},
    {"copies", "stale_writes", "of an old term, refused"},
    {"copies", "resyncs", "streams begun anew"},
    {"copies", "copies", "complete copies of vnodes begun"},
    {"copies", "slots_copied", "keys sent in them"},
    {"copies", "over_tokens", "granted, and known to no other replica, now"},
    {"copies", "unconfirmed", "changes that no replica has acknowledged yet, now"},
    {"copies", "merges", "branches of a split that were merged"},
    {"copies", "merged_slots", "keys that something was added to"},
    {"copies", "merge_fallbacks", "of which the larger of both was taken"},
    {"copies", "handed_over", "branches handed over"},
    {"copies", "guarded", "keys remembered to be merged with, now"},
    {"keys", "slots", "in memory now"},
    {"keys", "slots_max", "that fit into --memory"},
    {"keys", "slots_room", "places for new ones now"},
    {"keys", "evicted", "moved to disk to make room"},
    {"keys", "forgotten", "given up while their limits lasted: unreadable"},
    {"keys", "loads", "fetched from disk"},
    {"keys", "loads_missed", "of which the disk held nothing"},
    {"keys", "disk_copies", "vnodes of which keys on disk were sent to replicas"},
    {"keys", "unreadable", "damaged on disk, passed over"},
    {"keys", "filter_refreshes", "filters of what is on disk made anew"},
    {"quorum", "quorum_checks", "of consistency quorum"},
    {"quorum", "quorum_unavailable", "without a majority"},
    {"quorum", "quorum_in_doubt", "not known to be decided in time"},
    {"quorum", "quorum_terms", "opened"},
    {"quorum", "quorum_uncommitted", "not committed yet, now"},
    {"quorum", "quorum_vnodes", "that have such keys"},
    {"quorum", "quorum_vnodes_deciding", "of them decided here"},
    {"quorum", "quorum_vnodes_undecided", "of them decided by nobody"},
    {"quorum", "journal_batches", "written to the journal"},
    {"quorum", "journal_records", "in them"},
    {"quorum", "journal_failures", "batches that could not be written"},
    {"leases", "leases_granted", "of tokens"},
    {"leases", "leases_refused", "not asked of the limit"},
    {"leases", "leases_untold", "not known to a majority in time: spent"},
    {"leases", "leases_tokens", "that were leased"},
    {"leases", "leases_back", "of them given back"},
    {"leases", "any_allowed", "checks of consistency any, by tokens held here"},
    {"leases", "any_denied", "and by a denial that was known"},
    {"leases", "any_leases", "that their tokens came with"},
    {"leases", "any_tokens", "of these"},
    {"leases", "any_back", "of them went back"},
    {"pools", "pools_lent", "requests that pools lent to"},
    {"pools", "pools_refused", "above an elastic limit that got nothing"},
    {"pools", "pools_no_room", "of these for want of room"},
    {"pools", "pools_reports_dropped", "reports without room: nothing was lent then"},
    {"pools", "pools_keys", "that asked for more than their limit lately"},
    {"frames", "bad_frames", "that could not be read"},
    {"frames", "forged_frames", "that cannot be the peer's"},
    {"frames", "frames_dropped", "that did not fit in one step"},
};

enum { KNOWN = sizeof counters / sizeof *counters };

static bool is_known(const struct mp_token *name)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (cli_token_is(name, counters[i].name))
            return true;
    return false;
}

/* Where the first shard's map begins, and how many there are. */
static uint32_t shards_of(const struct cli_answer *answer, size_t *at)
{
    struct mp_cursor cursor;
    if (!cli_answer_find(answer, "shards", &cursor) || mp_peek_type(&cursor) != MP_ARRAY)
        return 0;
    const uint32_t count = mp_get_array(&cursor);
    *at = cursor.at;
    return count > 0 && *at < answer->count && answer->tokens[*at].type == MP_MAP ? count : 0;
}

static uint64_t sum_of(const struct cli_answer *answer, const char *name)
{
    size_t at = 0;
    uint64_t sum = 0;
    const uint32_t shards = shards_of(answer, &at);
    for (uint32_t i = 0; i < shards && at < answer->count; i++) {
        const struct mp_token *value =
            answer->tokens[at].type == MP_MAP ? cli_answer_value(answer, at, name) : NULL;
        if (value != NULL && value->type == MP_UINT)
            sum += value->uint;
        at = cli_token_next(answer, at);
    }
    return sum;
}

static void add(struct cli_text *out, const char *group, const char *name, uint64_t value,
                const char *help)
{
    char line[LINE_LEN];
    char number[SCREEN_WORD_LEN];
    (void)snprintf(line, sizeof line, "%-*s%-*s%*s  %s", GROUP_WIDTH, group, NAME_WIDTH, name,
                   NUMBER_WIDTH, screen_count(value, number), help);
    screen_line(out, line, SCREEN_WIDTH);
}

/* What a newer release counts. */
static void add_unknown(struct cli_text *out, const struct cli_answer *answer)
{
    size_t at = 0;
    bool first = true;
    if (shards_of(answer, &at) == 0)
        return;
    const uint32_t fields = answer->tokens[at].count;
    at++;
    for (uint32_t i = 0; i < fields && at < answer->count; i++) {
        char name[CLI_MEMBER_LEN];
        const uint64_t sum =
            is_known(&answer->tokens[at])
                ? 0
                : (mp_text_of(&answer->tokens[at], name, sizeof name), sum_of(answer, name));
        if (sum > 0)
            add(out, first ? "other" : "", name, sum, "");
        first = first && sum == 0;
        at = cli_token_next(answer, cli_token_next(answer, at));
    }
}

/* The numbers of a map of the answer that is of the node as a whole. */
static void add_map(struct cli_text *out, const struct cli_answer *answer, const char *map)
{
    struct mp_cursor cursor;
    bool first = true;
    if (!cli_answer_find(answer, map, &cursor) || mp_peek_type(&cursor) != MP_MAP)
        return;
    const uint32_t fields = mp_get_map(&cursor);
    size_t at = cursor.at;
    for (uint32_t i = 0; i < fields && at < answer->count; i++) {
        const size_t value = cli_token_next(answer, at);
        char name[CLI_MEMBER_LEN];
        mp_text_of(&answer->tokens[at], name, sizeof name);
        if (value < answer->count && answer->tokens[value].type == MP_UINT &&
            answer->tokens[value].uint > 0) {
            add(out, first ? map : "", name, answer->tokens[value].uint, "");
            first = false;
        }
        at = value < answer->count ? cli_token_next(answer, value) : answer->count;
    }
}

void counters_write(struct cli_text *out, const struct cli_answer *answer)
{
    static const char *const maps[] = {"handoff", "acknowledgement", "storage",
                                       "gossip",  "clients",         "resp",
                                       "http",    "files",           "telemetry"};
    const char *last = "";
    char node[CLI_MEMBER_LEN];
    char line[LINE_LEN];
    cli_answer_text(answer, "node", node, sizeof node);
    (void)snprintf(line, sizeof line, "counters of %s since it started, and what is now:", node);
    cli_text_str(out, "\n");
    screen_line(out, line, SCREEN_WIDTH);
    for (size_t i = 0; i < KNOWN; i++) {
        const uint64_t sum = sum_of(answer, counters[i].name);
        if (sum == 0)
            continue;
        add(out, strcmp(last, counters[i].group) == 0 ? "" : counters[i].group, counters[i].name,
            sum, counters[i].help);
        last = counters[i].group;
    }
    add_unknown(out, answer);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        add_map(out, answer, maps[i]);
}
