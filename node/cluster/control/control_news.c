/* control_news.c - what has come about in the cluster that a log should have: sentences, each once.
 *
 *   asked for   drain, leave and remove, by whom
 *   frozen      the ring, or the configuration, lost its majority; and won it back
 *   time        that of all is off the wall clocks of a majority; or right again
 *   changed     blocks, keys, credentials and quotas, by whom; rules have lines of their own, where
 *               they are put in force (rules_file.c)
 *
 * NEWS-1  A state is told when it has lasted for a second: a restart in order is none.
 * NEWS-2  Of changes at most NEWS_LINES are told in a second, and then how many more: an import of
 *         100,000 quotas is no reason to write as many lines.
 * NEWS-3  No sentence has in it who is blocked, or whose quota it is (log.h): the version that is
 *         named leads there, for whoever may ask.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/cluster/configstore/settings.h"
#include "node/cluster/control/control_state.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/rights/credential.h"

enum { NEWS_LINES = 8, WHAT_LEN = 160, SHOWN_MAX = 64 };

#define NEWS_WINDOW_NS (1000 * CONTROL_MS)
#define NEWS_LASTS_NS  (1000 * CONTROL_MS) /* NEWS-1 */

/* ---- what operators asked of this node ------------------------------------------------------- */

static bool tell_asked(struct control *control, char *out, size_t capacity)
{
    struct control_news *news = &control->news;
    if (control->departure > news->departure) {
        news->departure = control->departure;
        (void)snprintf(out, capacity, "asked by %s to %s", control->departure_by,
                       control->departure == CONTROL_LEAVES ? "leave: it moves all it holds away, "
                                                              "and ends"
                                                            : "drain: it moves all it holds away");
        return true;
    }
    if (control->request.remove == 0) /* it was granted, or nobody pursues it: it may come again */
        news->removal_of = 0;
    if (control->request.remove == news->removal_of)
        return false;
    news->removal_of = control->request.remove;
    (void)snprintf(out, capacity, "asked by %s to remove %s from the ring%s", control->removal_by,
                   control->removal_name, control->request.force ? ", by force" : "");
    return true;
}

/* ---- majorities ------------------------------------------------------------------------------ */

/* Whether the state is another than was told, for long enough; it is then taken for told. */
static bool lasts(const struct control *control, struct control_news_state *state, bool now)
{
    if (now == state->told) {
        state->since_ns = 0;
        return false;
    }
    if (state->since_ns == 0)
        state->since_ns = control->now_ns;
    if (control->now_ns - state->since_ns < NEWS_LASTS_NS)
        return false;
    state->told = now;
    state->since_ns = 0;
    return true;
}

static bool tell_majorities(struct control *control, char *out, size_t capacity)
{
    struct control_news *news = &control->news;
    const bool ring = control->config->epoch > 0 && voters_frozen(control);
    const bool settings = control->settings->version > 0 && control_settings_frozen(control);
    if (lasts(control, &news->ring, ring)) {
        if (ring)
            control_say_frozen(control, out, capacity);
        else
            (void)snprintf(out, capacity,
                           "the ring can change again: a majority of its voters is in reach");
        return true;
    }
    if (lasts(control, &news->time, control_clock_off(control, out, capacity))) {
        if (!news->time.told)
            (void)snprintf(out, capacity,
                           "the time of the cluster is that of its wall clocks again");
        return true;
    }
    if (!lasts(control, &news->settings, settings))
        return false;
    if (settings)
        control_say_settings_frozen(control, out, capacity);
    else
        (void)snprintf(out, capacity,
                       "the configuration can be changed again: a majority of its "
                       "voters is in reach");
    return true;
}

/* ---- changes of the configuration ------------------------------------------------------------ */

/* "attr user=ada" is of the attribute user, "cidr ..." of an address, "key ..." an inline key. */
static void say_block(const struct settings_op *op, char out[WHAT_LEN])
{
    const char *attribute =
        op->name.len > 5 && memcmp(op->name.data, "attr ", 5) == 0 ? op->name.data + 5 : NULL;
    const size_t left = op->name.len - 5;
    const char *end = attribute != NULL ? memchr(attribute, '=', left) : NULL;
    const size_t len = end != NULL ? (size_t)(end - attribute) : 0;
    const bool addresses = op->name.len > 5 && memcmp(op->name.data, "cidr ", 5) == 0;
    const char *done = op->removes ? "was lifted" : "is in force";
    if (len > 0)
        (void)snprintf(out, WHAT_LEN, "a block by the attribute %.*s %s",
                       (int)(len < SHOWN_MAX ? len : SHOWN_MAX), attribute, done);
    else
        (void)snprintf(out, WHAT_LEN, "a block of %s %s", addresses ? "addresses" : "an inline key",
                       done);
}

static void say_key(const struct settings_op *op, char out[WHAT_LEN])
{
    struct api_key_record key;
    const bool revoked =
        op->kind == SETTINGS_API_KEY
            ? api_key_decode(op->value.data, op->value.len, &key) && key.revoked_ms > 0
            : credential_revoked(op->value.data, op->value.len);
    (void)snprintf(out, WHAT_LEN, "the %s with id %.*s was %s",
                   op->kind == SETTINGS_API_KEY ? "API key" : "credential",
                   (int)(op->name.len < SHOWN_MAX ? op->name.len : SHOWN_MAX), op->name.data,
                   op->removes ? "deleted"
                   : revoked   ? "revoked"
                               : "created or changed");
}

/* What an operation did; false if it is nothing to tell. */
static bool say_op(const struct settings_op *op, char out[WHAT_LEN])
{
    if (op->kind == SETTINGS_BLOCK)
        say_block(op, out);
    else if (op->kind == SETTINGS_API_KEY || op->kind == SETTINGS_CREDENTIAL)
        say_key(op, out);
    else if (op->kind == SETTINGS_QUOTA)
        (void)snprintf(out, WHAT_LEN, "what is set for a user was %s",
                       op->removes ? "removed" : "changed");
    else
        return false;
    return true;
}

/* The next change behind the one told last, into `change`; false: there is none. */
static bool next_change(struct control *control, struct settings_change *change)
{
    struct control_news *news = &control->news;
    const struct settings *settings = control->settings;
    bool known;
    const struct settings_logged *logged =
        settings_log_after(&settings->log, news->version, news->digest, &known);
    if (!known || news->version == 0) { /* it has just started, or took a copy of all */
        news->version = settings->version;
        news->digest = settings->digest;
        return false;
    }
    if (logged == NULL)
        return false;
    news->version = logged->version;
    news->digest = logged->digest;
    return settings_change_decode(logged->bytes, logged->len, change) == 0;
}

/* NEWS-2. */
static bool has_room(struct control *control)
{
    struct control_news *news = &control->news;
    if (control->now_ns - news->window_ns >= NEWS_WINDOW_NS) {
        news->window_ns = control->now_ns;
        news->lines = 0;
    }
    return news->lines < NEWS_LINES;
}

static bool tell_changes(struct control *control, char *out, size_t capacity)
{
    struct control_news *news = &control->news;
    struct settings_change change;
    char what[WHAT_LEN];
    if (news->version == control->settings->version && (news->untold == 0 || !has_room(control)))
        return false;
    while (news->version != control->settings->version && next_change(control, &change)) {
        if (change.op_count == 0 || !say_op(&change.ops[0], what))
            continue;
        if (!has_room(control)) {
            news->untold++;
            continue;
        }
        news->lines++;
        (void)snprintf(out, capacity, "configuration of version %u by %.*s: %s",
                       settings_version_shown(change.version), (int)change.author.len,
                       change.author.data, what);
        return true;
    }
    if (news->untold == 0 || !has_room(control))
        return false;
    (void)snprintf(out, capacity,
                   "and %" PRIu64 " changes more of blocks, API keys and quotas, up to version %u",
                   news->untold, settings_version_shown(news->version));
    news->untold = 0;
    news->lines = NEWS_LINES;
    return true;
}

const char *control_asked(const struct control *control, uint64_t *node)
{
    const bool goes = control->departure != CONTROL_STAYS;
    *node = goes ? control->options.node_id : control->removal_of;
    return *node == 0 ? NULL : goes ? control->departure_by : control->removal_by;
}

bool control_news(struct control *control, char *out, size_t capacity, bool *warns)
{
    *warns = false;
    if (!control->joined)
        return false;
    if (tell_asked(control, out, capacity))
        return true;
    if (tell_majorities(control, out, capacity)) {
        *warns = true;
        return true;
    }
    return tell_changes(control, out, capacity);
}
