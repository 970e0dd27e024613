/* ring_log.c - the log's account of the ring: who joins, drains, is removed, weighs something else;
 * who is in it.
 *
 * While vnodes move, a configuration has two lists, of before and after: whoever is in one of them
 * alone comes or goes. Once it is settled they are one.
 */
#include "node/runtime/control/ring_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"

enum { LINE_LEN = 512, NAMED_MAX = 4 };

struct line {
    char text[LINE_LEN];
    size_t len;
    uint32_t named;
    uint32_t more;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list arguments;
    ASSERT(line->named <= NAMED_MAX && line->len < sizeof line->text);
    if (line->named == NAMED_MAX) {
        line->more++;
        return;
    }
    line->named++;
    va_start(arguments, format);
    const int len =
        vsnprintf(line->text + line->len, sizeof line->text - line->len, format, arguments);
    va_end(arguments);
    line->len += len > 0 ? (size_t)len : 0;
    if (line->len >= sizeof line->text)
        line->len = sizeof line->text - 1;
}

static const struct ring_member *find(const struct ring_member *list, uint32_t count, uint64_t id)
{
    uint32_t at = 0;
    while (at < count && list[at].id != id)
        at++;
    return at < count ? &list[at] : NULL;
}

/* Who was not there before, or weighs something else. */
static void add_coming(struct line *line, const struct ring_member *before,
                       const struct ring_member *now)
{
    if (before == NULL)
        add(line, "%s joins; ", now->name);
    else if (before->weight != now->weight)
        add(line, "%s weighs %" PRIu32 ", %" PRIu32 " before; ", now->name, now->weight,
            before->weight);
}

static void add_going(struct line *line, const struct ring_member *going, const struct view *view,
                      const char *asked)
{
    const struct view_member *member = view_find(view, going->id);
    const bool dead = member == NULL || member->state == VIEW_DEAD || member->state == VIEW_LEFT;
    if (dead && asked != NULL)
        add(line, "%s is removed, as %s asked; ", going->name, asked);
    else if (dead)
        add(line, "%s is removed, it is dead; ", going->name);
    else if (asked != NULL)
        add(line, "%s drains, as %s asked; ", going->name, asked);
    else
        add(line, "%s drains, as it was told; ", going->name);
}

void ring_log_tell(const struct log *log, const struct ring_config *config, const struct view *view,
                   uint64_t asked_of, const char *asked)
{
    struct line line = {.len = 0};
    char names[LINE_LEN];
    if (ring_config_is_stable(config)) {
        control_ring_names(config, names, sizeof names);
        log_printf(log, LOG_LEVEL_INFO, "ring of epoch %" PRIu64 ": settled; in it are %s",
                   config->epoch, names);
        return;
    }
    for (uint32_t i = 0; i < config->to_count; i++)
        add_coming(&line, find(config->from, config->from_count, config->to[i].id), &config->to[i]);
    for (uint32_t i = 0; i < config->from_count; i++)
        if (find(config->to, config->to_count, config->from[i].id) == NULL)
            add_going(&line, &config->from[i], view, config->from[i].id == asked_of ? asked : NULL);
    if (line.more > 0)
        log_printf(log, LOG_LEVEL_INFO,
                   "ring of epoch %" PRIu64 ": %sand so %" PRIu32 " more; vnodes are moving",
                   config->epoch, line.text, line.more);
    else
        log_printf(log, LOG_LEVEL_INFO, "ring of epoch %" PRIu64 ": %svnodes are moving",
                   config->epoch, line.text);
}
