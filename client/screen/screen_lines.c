/* screen_lines.c - what is said of a cluster, and of one node, line by line; screen.h shows it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/screen/screen.h"

enum {
    LINE_LEN = 1024,
    NAMES_MAX = 5,
    SHORT_ID = 4,
    REGIONS_SHOWN = 32,
    LINES_MAX = 10 /* conditions that are said; how many more is told */
};

__attribute__((format(printf, 3, 4))) static void say(const struct screen_sink *sink,
                                                      const char *label, const char *format, ...)
{
    char line[LINE_LEN];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    sink->line(sink->context, SCREEN_LINE, label, line);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void say_verdict(const struct screen_sink *sink, bool healthy, const char *rest)
{
    sink->line(sink->context, healthy ? SCREEN_WELL : SCREEN_ILL,
               healthy ? "HEALTHY:" : "DEGRADED:", rest);
}

static void say_well(const struct screen_sink *sink, const struct screen *screen)
{
    char line[LINE_LEN];
    const unsigned long long nodes = screen->alive;
    const char *warned = screen->warning_count > 0 ? ", with warnings" : ", nothing to do";
    (void)snprintf(line, sizeof line, "%llu node%s%s%s", nodes, nodes == 1 ? "" : "s",
                   nodes == 1 ? " answers" : ", all answer", warned);
    say_verdict(sink, true, line);
}

/* What is said of the node, behind its name; NULL: the sentence does not begin with that. */
static const char *behind_name(const struct screen_condition *condition)
{
    const size_t len = strlen(condition->node);
    const bool begins = len > 0 && strncmp(condition->says, condition->node, len) == 0;
    return begins && condition->says[len] == ' ' ? condition->says + len : NULL;
}

/* Whether both say the same, each of its own node. */
static bool same_said(const struct screen_condition *a, const struct screen_condition *b)
{
    const char *of_a = behind_name(a);
    const char *of_b = behind_name(b);
    return a->grave == b->grave && of_a != NULL && of_b != NULL && strcmp(of_a, of_b) == 0;
}

/* "n1 (and n2, n3) decides ...": what several nodes have is one line. */
static void say_condition(const struct screen_sink *sink, const struct screen *screen, uint32_t at,
                          bool first)
{
    ASSERT(at < screen->condition_count && screen->condition_count <= SCREEN_CONDITIONS_MAX);
    const struct screen_condition *condition = &screen->conditions[at];
    char line[LINE_LEN];
    char others[NAMES_MAX * SCREEN_NAME_LEN + 64] = "";
    char span[SCREEN_WORD_LEN];
    size_t len = 0;
    uint32_t more = 0;
    for (uint32_t i = at + 1; i < screen->condition_count; i++)
        if (same_said(condition, &screen->conditions[i]) && ++more <= NAMES_MAX)
            len += (size_t)snprintf(others + len, sizeof others - len, "%s%s",
                                    more > 1 ? ", " : " (and ", screen->conditions[i].node);
    if (more > NAMES_MAX)
        len += (size_t)snprintf(others + len, sizeof others - len, ", %u more", more - NAMES_MAX);
    ASSERT(len < sizeof others);
    if (more > 0)
        (void)snprintf(line, sizeof line, "%s%s)%s", condition->node, others,
                       behind_name(condition));
    else if (condition->for_ms > 0)
        (void)snprintf(line, sizeof line, "%s, for %s", condition->says,
                       screen_span(condition->for_ms, span));
    else
        (void)snprintf(line, sizeof line, "%s", condition->says);
    if (first)
        say_verdict(sink, false, line);
    else
        say(sink, "", "%s", line);
}

static bool was_said(const struct screen *screen, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (same_said(&screen->conditions[i], &screen->conditions[at]))
            return true;
    return false;
}

static void say_degraded(const struct screen_sink *sink, const struct screen *screen)
{
    uint32_t said = 0;
    uint32_t more = 0;
    for (uint32_t i = 0; i < screen->condition_count; i++) {
        if (!screen->conditions[i].grave || was_said(screen, i))
            continue;
        if (said == LINES_MAX)
            more++;
        else
            say_condition(sink, screen, i, said++ == 0);
    }
    more += screen->conditions_more;
    if (said == 0)
        say_verdict(sink, false, "the node gives no reason");
    if (more > 0)
        say(sink, "", "and %u more (-o json has all)", more);
}

/* ---- what it means, what to do --------------------------------------------------------------- */

typedef const char *(*part)(const struct screen_condition *condition);

static const char *means_of(const struct screen_condition *condition)
{
    return condition->means;
}

static const char *advice_of(const struct screen_condition *condition)
{
    return condition->advice;
}

/* The names of all nodes whose condition has that text. */
static void name_all(const struct screen *screen, part of, const char *text, char *out,
                     size_t capacity)
{
    uint32_t count = 0;
    size_t len = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < screen->condition_count; i++) {
        const struct screen_condition *condition = &screen->conditions[i];
        if (!condition->grave || strcmp(of(condition), text) != 0)
            continue;
        if (count++ < NAMES_MAX && len < capacity)
            len += (size_t)snprintf(out + len, capacity - len, "%s%s", len > 0 ? ", " : "",
                                    condition->node);
    }
    if (count > NAMES_MAX && len < capacity)
        (void)snprintf(out + len, capacity - len, " and %u more", count - NAMES_MAX);
}

/* Each text once, with the nodes that it is about. */
static void say_parts(const struct screen_sink *sink, const struct screen *screen,
                      const char *label, part of)
{
    uint32_t said = 0;
    for (uint32_t i = 0; i < screen->condition_count && said < LINES_MAX; i++) {
        const char *text = of(&screen->conditions[i]);
        char names[NAMES_MAX * SCREEN_NAME_LEN + 64];
        bool again = !screen->conditions[i].grave || text[0] == '\0';
        for (uint32_t k = 0; k < i && !again; k++)
            again = screen->conditions[k].grave && strcmp(of(&screen->conditions[k]), text) == 0;
        if (again)
            continue;
        name_all(screen, of, text, names, sizeof names);
        say(sink, said++ == 0 ? label : "", "%s: %s", names, text);
    }
}

/* ---- the cluster ----------------------------------------------------------------------------- */

static void say_rules(const struct screen *screen, char *out, size_t capacity)
{
    const char *differ = screen->rules_agree ? "" : "; nodes go by different rules";
    if (screen->rules_version > 0)
        (void)snprintf(out, capacity, "rules version %" PRIu64 "%s", screen->rules_version, differ);
    else if (screen->rules_count > 0)
        (void)snprintf(out, capacity, "%" PRIu64 " rules of a file%s", screen->rules_count, differ);
    else
        (void)snprintf(out, capacity, "no rules%s", differ);
}

static void say_cluster(const struct screen_sink *sink, const struct screen *screen)
{
    char rules[LINE_LEN / 4];
    char id[sizeof screen->cluster];
    const size_t len = strlen(screen->cluster);
    if (len == 0)
        return;
    if (len > 3 * SHORT_ID)
        (void)snprintf(id, sizeof id, "%.*s..%s", SHORT_ID, screen->cluster,
                       screen->cluster + len - SHORT_ID);
    else
        (void)snprintf(id, sizeof id, "%s", screen->cluster);
    say_rules(screen, rules, sizeof rules);
    say(sink, "cluster", "%s as %s sees it; ring %" PRIu64 " %s; %s", id, screen->node,
        screen->epoch & UINT32_MAX, screen->stable ? "settled" : "changing", rules);
}

struct sums {
    uint32_t ring; /* members of the own ring */
    uint32_t voters;
    uint32_t voting; /* of them alive */
    bool complete;   /* all of the own region that live have told their figures */
    uint64_t decides;
    uint64_t lacking;
    uint64_t over;
};

static bool is_alive(const struct screen_node *node)
{
    return strcmp(node->state, "alive") == 0 || strcmp(node->state, "suspect") == 0;
}

static struct sums sum_up(const struct screen *screen)
{
    struct sums sums = {.complete = screen->node_count > 0 && screen->nodes_more == 0};
    for (uint32_t i = 0; i < screen->node_count; i++) {
        const struct screen_node *node = &screen->nodes[i];
        sums.over += node->over_tokens;
        if (strcmp(node->ring, "abroad") == 0)
            continue;
        sums.ring += strcmp(node->ring, "member") == 0 || strcmp(node->ring, "draining") == 0;
        sums.voters += node->voter;
        sums.voting += node->voter && is_alive(node);
        sums.complete = sums.complete && (node->told || !is_alive(node));
        sums.decides += node->decides;
        sums.lacking += node->cut_off > node->incomplete ? node->cut_off : node->incomplete;
    }
    ASSERT(sums.voting <= sums.voters && sums.ring <= screen->node_count);
    return sums;
}

__attribute__((format(printf, 3, 4))) static void join(char *line, size_t capacity,
                                                       const char *format, ...)
{
    const size_t len = strlen(line);
    const int joint = snprintf(line + len, capacity - len, "%s", len > 0 ? "; " : "");
    va_list arguments;
    if (joint < 0 || (size_t)joint >= capacity - len)
        return;
    va_start(arguments, format);
    (void)vsnprintf(line + len + joint, capacity - len - (size_t)joint, format, arguments);
    va_end(arguments);
}

static void say_voters(const struct screen_sink *sink, const struct sums *sums)
{
    const uint32_t needed = sums->voters / 2 + 1;
    const char *means = sums->voting < needed    ? ": nothing can be changed"
                        : sums->voting == needed ? ": lose one more and nothing can be changed"
                                                 : "";
    if (sums->voters > 1 && sums->voting < sums->voters)
        say(sink, "voters", "%u of %u answer%s", sums->voting, sums->voters, means);
}

static void say_keys(const struct screen_sink *sink, const struct screen *screen)
{
    char line[LINE_LEN] = "";
    char number[SCREEN_WORD_LEN];
    char all[SCREEN_WORD_LEN];
    const struct sums sums = sum_up(screen);
    const uint64_t copies = sums.ring < screen->replicas ? sums.ring : screen->replicas;
    if (sums.ring == 0 || screen->vnodes == 0)
        return;
    if (sums.complete && sums.decides < screen->vnodes)
        join(line, sizeof line, "%s of %s vnodes have no decider now",
             screen_count(screen->vnodes - sums.decides, number),
             screen_count(screen->vnodes, all));
    else if (sums.complete && sums.lacking == 0 && sums.decides > 0)
        join(line, sizeof line, "every key is answered, and kept by %" PRIu64 " node%s", copies,
             copies == 1 ? "" : "s");
    else if (sums.complete)
        join(line, sizeof line, "every key is answered");
    if (sums.lacking > 0)
        join(line, sizeof line, "%s of %s vnodes lack a copy", screen_count(sums.lacking, number),
             screen_count(screen->vnodes, all));
    if (sums.over > 0)
        join(line, sizeof line, "over-admission now <= %s", screen_count(sums.over, number));
    if (line[0] != '\0')
        say(sink, "keys", "%s", line);
    say_voters(sink, &sums);
}

static void say_moving(const struct screen_sink *sink, const struct screen *screen)
{
    char give[SCREEN_WORD_LEN];
    char receive[SCREEN_WORD_LEN];
    char left[SCREEN_WORD_LEN];
    if (screen->give + screen->receive == 0)
        return;
    (void)screen_span(screen->left_ms, left);
    say(sink, "moving", "%s gives %s vnodes and receives %s%s%s", screen->node,
        screen_count(screen->give, give), screen_count(screen->receive, receive),
        screen->left_ms > 0 ? ", done in " : "", screen->left_ms > 0 ? left : "");
}

/* "eu 3 of 3 alive, us 2 of 3", where there are several. */
static void say_regions(const struct screen_sink *sink, const struct screen *screen)
{
    char line[LINE_LEN] = "";
    uint32_t regions = 0;
    size_t len = 0;
    for (uint32_t i = 0; i < screen->node_count && regions < REGIONS_SHOWN; regions++) {
        const char *region = screen->nodes[i].region;
        const bool lost = screen->nodes[i].lost[0] != '\0';
        uint32_t all = 0;
        uint32_t alive = 0;
        bool before = false;
        for (uint32_t k = 0; k < screen->node_count; k++) {
            const bool same = strcmp(screen->nodes[k].region, region) == 0;
            before = before || (same && k < i);
            all += same;
            alive += same && is_alive(&screen->nodes[k]);
        }
        if (!before && len < sizeof line)
            len += (size_t)snprintf(line + len, sizeof line - len, "%s%s %u of %u alive%s",
                                    len > 0 ? ", " : "", region, alive, all,
                                    lost ? " (out of reach)" : "");
        regions -= before;
        i++;
    }
    if (regions > 1)
        say(sink, "regions", "%s", line);
}

static void say_busy(const struct screen_sink *sink, const char *label,
                     const struct screen_rule *rules, uint32_t count)
{
    enum { SHOWN = 3, PERCENT = 100 };
    char line[LINE_LEN] = "";
    for (uint32_t i = 0; i < count && i < SHOWN; i++) {
        const size_t len = strlen(line);
        char word[SCREEN_WORD_LEN];
        char denied[SCREEN_WORD_LEN] = "";
        if (rules[i].checks_rate <= 0)
            continue;
        if (rules[i].denied_rate > 0)
            (void)snprintf(denied, sizeof denied, " (%.0f%% denied)",
                           rules[i].denied_rate * PERCENT / rules[i].checks_rate);
        (void)snprintf(line + len, sizeof line - len, "%s%s %s/s%s", len > 0 ? ", " : "",
                       rules[i].name, screen_rate(rules[i].checks_rate, word), denied);
    }
    if (line[0] != '\0')
        say(sink, label, "%s", line);
}

static void say_history(const struct screen_sink *sink, const struct screen *screen)
{
    char blocks[SCREEN_LINE_LEN];
    char most[SCREEN_WORD_LEN];
    screen_history_line(&screen->history, blocks);
    if (blocks[0] != '\0')
        say(sink, "10 min", "%s %s/s at most", blocks,
            screen_rate(screen_history_most(&screen->history), most));
}

static void say_changes(const struct screen_sink *sink, const struct screen *screen)
{
    enum { SHOWN = 2 };
    for (uint32_t i = 0; i < screen->change_count && i < SHOWN; i++) {
        const struct screen_change *change = &screen->changes[i];
        const bool noted = change->note[0] != '\0';
        char time[sizeof change->time];
        (void)snprintf(time, sizeof time, "%s", change->time);
        for (char *at = time; *at != '\0'; at++)
            *at = *at == 'T' ? ' ' : *at;
        say(sink, i == 0 ? "changed" : "", "%.19s %s %s%s%s%s", time, change->author, change->says,
            noted ? " (" : "", change->note, noted ? ")" : "");
    }
}

/* Where the node lists none: it is of an older release, or has not joined. */
static void say_counts(const struct screen_sink *sink, const struct screen *screen)
{
    if (screen->dead > 0)
        say(sink, "nodes", "%" PRIu64 " alive, %" PRIu64 " dead", screen->alive, screen->dead);
    else
        say(sink, "nodes", "%" PRIu64 " alive", screen->alive);
}

void screen_say(const struct screen_sink *sink, const struct screen *screen)
{
    if (screen->healthy)
        say_well(sink, screen);
    else
        say_degraded(sink, screen);
    say_parts(sink, screen, "means", means_of);
    say_parts(sink, screen, "do", advice_of);
    for (uint32_t i = 0; i < screen->warning_count; i++)
        say(sink, i == 0 ? "warning" : "", "%s", screen->warnings[i]);
    say_cluster(sink, screen);
    say_keys(sink, screen);
    say_moving(sink, screen);
    say_regions(sink, screen);
    if (screen->node_count == 0)
        say_counts(sink, screen);
}

void screen_say_more(const struct screen_sink *sink, const struct screen *screen)
{
    say_history(sink, screen);
    say_busy(sink, "busiest", screen->busiest, screen->busiest_count);
    say_busy(sink, "near", screen->pressed, screen->pressed_count);
    say_changes(sink, screen);
}

/* ---- one node -------------------------------------------------------------------------------- */

const struct screen_node *screen_find(const struct screen *screen, const char *name)
{
    const char *slash = strchr(name, '/');
    const char *own = slash != NULL ? slash + 1 : name;
    const size_t region_len = slash != NULL ? (size_t)(slash - name) : 0;
    const struct screen_node *found = NULL;
    for (uint32_t i = 0; i < screen->node_count; i++) {
        const struct screen_node *node = &screen->nodes[i];
        if (strcmp(node->name, own) != 0 ||
            (slash != NULL &&
             (strlen(node->region) != region_len || memcmp(node->region, name, region_len) != 0)))
            continue;
        if (found != NULL)
            return NULL;
        found = node;
    }
    return found;
}

static void say_figures(const struct screen_sink *sink, const struct screen_node *node)
{
    char a[SCREEN_WORD_LEN];
    char b[SCREEN_WORD_LEN];
    char c[SCREEN_WORD_LEN];
    say(sink, "checks", "%s a second, %s of them denied; %s since it started",
        screen_rate(node->checks_rate, a), screen_rate(node->denied_rate, b),
        screen_count(node->checks, c));
    if (node->busy_rate > 0)
        say(sink, "busy", "%s a second are refused for want of room",
            screen_rate(node->busy_rate, a));
    if (node->ack_p99_us > 0)
        say(sink, "replicas", "acknowledge within %s (p99)", screen_us(node->ack_p99_us, a));
    say(sink, "memory", "%s keys of %s that fit into %s", screen_count(node->slots, a),
        screen_count(node->slots_max, b), screen_bytes(node->memory_max, c));
    if (node->ephemeral)
        say(sink, "disk", "none: it keeps nothing over a restart");
    else
        say(sink, "disk", "%s of %s used; %s behind", screen_bytes(node->store_used, a),
            screen_bytes(node->store_most, b), screen_span(node->flush_lag_ms, c));
    say(sink, "vnodes", "decides %s", screen_count(node->decides, a));
    if (node->cut_off + node->incomplete > 0)
        say(sink, "", "%s without another replica in reach, %s that not every replica holds",
            screen_count(node->cut_off, a), screen_count(node->incomplete, b));
    if (node->over_tokens > 0)
        say(sink, "above", "limits up to %s tokens could be admitted now",
            screen_count(node->over_tokens, a));
}

void screen_say_node(const struct screen_sink *sink, const struct screen *screen,
                     const struct screen_node *node)
{
    char a[SCREEN_WORD_LEN];
    char b[SCREEN_WORD_LEN];
    say(sink, "node", "%s, region %s%s%s: %s for %s", node->name, node->region,
        node->zone[0] != '\0' ? ", zone " : "", node->zone, node->state,
        screen_span(node->state_for_ms, a));
    for (uint32_t i = 0; i < screen->condition_count; i++) {
        const struct screen_condition *condition = &screen->conditions[i];
        if (strcmp(condition->node, node->name) != 0 ||
            strcmp(condition->region, node->region) != 0)
            continue;
        say(sink, condition->grave ? "wrong" : "warning", "%s", condition->says);
        if (condition->means[0] != '\0')
            say(sink, "means", "%s", condition->means);
        if (condition->advice[0] != '\0')
            say(sink, "do", "%s", condition->advice);
    }
    say(sink, "is", "%s, %s, release %s, id %s", node->ring,
        node->voter ? "votes" : "does not vote", node->version, node->id);
    say(sink, "asked at", "%s", node->client);
    if (node->told)
        say(sink, "up", "%s", screen_span(node->uptime_ms, a));
    if (node->told)
        say_figures(sink, node);
    if (node->skewed && !node->own)
        say(sink, "clock", "%s against %s, %s away", screen_skew(node->skew_us, a), screen->node,
            screen_us(node->rtt_us, b));
}
