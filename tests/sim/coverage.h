/* coverage.h - what runs have gone through, counted.
 *
 * A counter is one line of COVERAGE_COUNTERS: its name, what is printed, and whether a run of
 * COVERAGE_SEEDS_MIN seeds or more must have met it. A run that never met a hand-over says nothing
 * about hand-overs, so a zero there is a failure of the run.
 */
#ifndef TESTS_SIM_COVERAGE_H
#define TESTS_SIM_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

enum { COVERAGE_SEEDS_MIN = 300 };

/* X(field, printed name, must be met) */
#define COVERAGE_COUNTERS(X)                                                                       \
    X(seeds, "seeds", true)                                                                        \
    X(events, "events", true)                                                                      \
    X(virtual_ms, "virtual milliseconds", true)                                                    \
    X(phases, "phases", true)                                                                      \
    X(joins, "joins", true)                                                                        \
    X(crashes, "crashes", true)                                                                    \
    X(echoes, "messages asked again after a crash", true)                                          \
    X(mid_steps, "crashes within a step", true)                                                    \
    X(restarts, "restarts", true)                                                                  \
    X(stops, "orderly stops (drains)", true)                                                       \
    X(blackouts, "blackouts", true)                                                                \
    X(replacements, "lost disks, replaced", true)                                                  \
    X(snapshots, "old snapshots restored", true)                                                   \
    X(ring_changes, "ring configurations", true)                                                   \
    X(departures, "departures (drain, leave)", true)                                               \
    X(removals, "removals", true)                                                                  \
    X(lineages, "lineages forced", true)                                                           \
    X(presses, "presses", true)                                                                    \
    X(turned_away, "new keys turned away", true)                                                   \
    X(floods, "floods", true)                                                                      \
    X(splits, "splits", true)                                                                      \
    X(regions_cut, "regions cut off", true)                                                        \
    X(one_ways, "splits, one way", true)                                                           \
    X(resets, "connections reset", true)                                                           \
    X(breaks, "connections broken", true)                                                          \
    X(slow_links, "slow links", true)                                                              \
    X(pauses, "pauses", true)                                                                      \
    X(starved, "nodes without a processor for a while", true)                                      \
    X(clock_steps, "clock steps", true)                                                            \
    X(wrong_clocks, "clocks that are wrong", true)                                                 \
    X(held_newcomers, "newcomers whose clock is a day off", true)                                  \
    X(clock_refused, "frames of those that are refused", true)                                     \
    X(clock_restarts, "nodes that start again, for their time was off", true)                      \
    X(full_disks, "full disks", true)                                                              \
    X(brims, "all disks full at once", true)                                                       \
    X(refused_values, "values that a full disk refused", true)                                     \
    X(settings_versions, "settings: versions", true)                                               \
    X(settings_edits, "settings: edits made", true)                                                \
    X(settings_conflicts, "settings: edits told of another", true)                                 \
    X(settings_refused, "settings: edits without a majority", true)                                \
    X(settings_doubts, "settings: edits in doubt", false)                                          \
    X(settings_copies, "settings: complete copies", true)                                          \
    X(settings_lineages, "settings: lineages forced", true)                                        \
    X(settings_apart, "settings: one version, two histories", false)                               \
    X(troubles, "troubles that members told of themselves", true)                                  \
    X(wild, "frames of a faulty member", true)                                                     \
    X(rule_changes, "rule changes", true)                                                          \
    X(terms, "terms opened", true)                                                                 \
    X(takeovers, "take-overs", true)                                                               \
    X(stepped_down, "stepped down", true)                                                          \
    X(passes, "hand-offs (passes)", true)                                                          \
    X(recoveries, "recoveries", true)                                                              \
    X(pulls, "pulls", true)                                                                        \
    X(merges, "merges", true)                                                                      \
    X(merged_slots, "merged slots", true)                                                          \
    X(laws, "merges judged by their laws", true)                                                   \
    X(sums, "merges that gave the exact sum", true)                                                \
    X(handed_over, "branches handed over", true)                                                   \
    X(resyncs, "resyncs", true)                                                                    \
    X(disk_copies, "disk copies", true)                                                            \
    X(stalls, "stalls", true)                                                                      \
    X(checks, "checks decided", true)                                                              \
    X(admitted, "checks admitted", true)                                                           \
    X(degraded, "answers degraded", true)                                                          \
    X(forwarded, "forwards", true)                                                                 \
    X(resent, "forwards sent again", true)                                                         \
    X(moved, "moved", true)                                                                        \
    X(quorum_calls, "quorum operations", true)                                                     \
    X(quorum_answers, "quorum operations answered", true)                                          \
    X(quorum_terms, "quorum terms opened", true)                                                   \
    X(quorum_in_doubt, "quorum decisions in doubt", true)                                          \
    X(quorum_unavailable, "quorum checks refused", true)                                           \
    X(fallbacks, "stand-ins", true)                                                                \
    X(nights, "blackouts under load", true)                                                        \
    X(shifts, "ring changes in a split", true)                                                     \
    X(histories, "histories judged", true)                                                         \
    X(histories_unknown, "histories too wide to judge", false)                                     \
    X(retries, "client retries", true)                                                             \
    X(recalled, "retries recalled", true)                                                          \
    X(unfinished, "messages that took more than a turn", true)                                     \
    X(several, "requests of several owners", true)                                                 \
    X(failed, "of these, not decided in time", true)                                               \
    X(undo_resent, "undos sent again", true)                                                       \
    X(undo_lost, "undos given up", false)                                                          \
    X(undo_unknown, "undos of nothing known", false)                                               \
    X(orphans, "parts that died with a node", true)                                                \
    X(undone, "undone", true)                                                                      \
    X(borrowed, "requests that borrowed", true)                                                    \
    X(pool_owners, "owners of pools killed", true)                                                 \
    X(pools_filled, "pools filled by guaranteed traffic", true)                                    \
    X(leases, "leases taken", true)                                                                \
    X(leases_released, "leases released", true)                                                    \
    X(leases_renewed, "leases renewed", true)                                                      \
    X(leases_left, "leases left to end by themselves", true)                                       \
    X(holds, "leases of tokens taken", true)                                                       \
    X(holds_used, "tokens used by holders", true)                                                  \
    X(holds_back, "tokens given back", true)                                                       \
    X(holds_left, "holders that died", true)                                                       \
    X(holds_deadly, "deciders that died of a lease", true)                                         \
    X(holds_refused, "leases of tokens refused for a while", true)                                 \
    X(reservations, "reservations taken", true)                                                    \
    X(reservations_settled, "reservations committed", true)                                        \
    X(reservations_late, "of these, too late", true)                                               \
    X(reservations_cancelled, "reservations cancelled", true)                                      \
    X(reservations_expired, "reservations left to their end", true)                                \
    X(reservations_again, "reservations settled again", true)                                      \
    X(reservations_deadly, "deciders that died of a commit", true)                                 \
    X(reservations_refused, "reservations refused for a while", true)                              \
    X(any_allowed, "checks admitted by tokens that a node held", true)                             \
    X(any_denied, "checks denied by what a node was told", true)                                   \
    X(any_leases, "leases of tokens taken by nodes", true)                                         \
    X(any_back, "tokens of them given back", true)                                                 \
    X(global_leases, "global: leases that a region took", true)                                    \
    X(global_back, "global: tokens given back", true)                                              \
    X(global_again, "global: asked again", true)                                                   \
    X(global_expired, "global: leases that ended by themselves", true)                             \
    X(global_allowed, "global: admitted by tokens held", true)                                     \
    X(global_denied, "global: denied for want of tokens", true)                                    \
    X(global_late, "global: no tokens came in time", true)                                         \
    X(global_local, "global: decided by a share", true)                                            \
    X(global_open, "global: admitted though nobody was reached", true)                             \
    X(global_cuts, "global: homes cut off", true)                                                  \
    X(global_lost, "global: regions lost", true)                                                   \
    X(global_takeovers, "global: new deciders with leases out", true)                              \
    X(global_kept, "global: rests of limits admitted in full", true)                               \
    X(global_thirds, "global: with three regions", true)                                           \
    X(global_pairs, "global: two regions of three cut apart", true)                                \
    X(global_slow, "global: a region 200 ms away", true)                                           \
    X(global_clocks, "global: clocks of a region off", true)                                       \
    X(global_steps, "global: clocks stepped", true)                                                \
    X(global_lowered, "global: limits lowered", true)                                              \
    X(global_raised, "global: limits raised", true)                                                \
    X(global_moved, "global: homes changed", true)                                                 \
    X(global_strict, "global: new rules judged alone", true)                                       \
    X(global_both, "global: two limits admitted at once", true)                                    \
    X(evicted, "spilled slots", true)                                                              \
    X(forgotten, "forgotten slots", false)                                                         \
    X(loads, "loads", true)                                                                        \
    X(commits, "commits", true)                                                                    \
    X(commits_failed, "commits failed", true)                                                      \
    X(sent, "frames", true)                                                                        \
    X(lost, "frames lost", true)                                                                   \
    X(repeated, "frames repeated", true)                                                           \
    X(late, "frames late", true)                                                                   \
    X(reordered, "frames reordered", true)                                                         \
    X(unconnected, "frames without a connection", true)                                            \
    X(broken, "frames lost with a connection", true)                                               \
    X(held, "frames held by a split", true)                                                        \
    X(full, "frames refused by a queue", false)                                                    \
    X(audited, "keys audited", true)                                                               \
    X(lost_changes, "changes lost by take-overs", true)                                            \
    X(excess, "admitted above limits", false)                                                      \
    X(settle_ms_max, "longest settling, ms", true)

struct coverage {
#define COVERAGE_FIELD(field, name, required) uint64_t field;
    COVERAGE_COUNTERS(COVERAGE_FIELD)
#undef COVERAGE_FIELD
};

/* Adds what another run has met. */
void coverage_add(struct coverage *sum, const struct coverage *other);
/* Prints all counters, with the speed. */
void coverage_print(const struct coverage *coverage, double seconds);
/* Prints what a run of enough seeds should have met and did not; false if there is any. */
bool coverage_complete(const struct coverage *coverage);

#endif
