/* control_events.c - what came about lately: events (event_log.h), and how busy all nodes were. */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/model/event_log.h"
#include "node/cluster/operator/control_answer.h"

enum { EVENTS_SHOWN = 8, RULES_SUMMED = 64, RULES_SHOWN = 5 }; /* in `status` */

#define PERIOD_MS (UINT64_C(1000) * FIGURES_PERIOD_S)

static void put_event(const struct event *event, struct mp_writer *writer)
{
    ASSERT(event->kind < EVENT_LOG_KINDS);
    mp_put_map(writer, 7);
    put_field_uint(writer, "id", event->id);
    control_put_time(writer, "time", event->time_ms);
    put_field_str(writer, "kind", event_kind_names[event->kind]);
    put_field_bool(writer, "grave", event->grave);
    put_field_str(writer, "code", event->code);
    put_field_str(writer, "says", event->says);
    put_field_uint(writer, "lasted_ms", event->lasted_ms);
}

/* A value: all events behind that id, in their order. */
static void put_events(const struct event_log *log, uint64_t id, struct mp_writer *writer)
{
    uint32_t count = 0;
    const struct event *event = event_log_after(log, id);
    for (; event != NULL; event = event_log_after(log, event->id))
        count++;
    mp_put_array(writer, count);
    for (event = event_log_after(log, id); count > 0; count--) {
        put_event(event, writer);
        event = event_log_after(log, event->id);
    }
}

void control_put_events(const struct answer_context *context)
{
    static const struct event_log none;
    const struct event_log *log = context->report->events != NULL ? context->report->events : &none;
    mp_put_str(context->writer, "events");
    put_events(log, event_log_newest(log, EVENTS_SHOWN), context->writer);
}

void answer_events(struct answer_context *context)
{
    const struct event_log *log = context->report->events;
    uint64_t after = 0;
    (void)control_read_uint(context, "after", &after);
    if (log == NULL) {
        answer_error(context, TG_EUNSUPPORTED, "this node keeps no events");
        return;
    }
    answer_begin(context);
    mp_put_map(context->writer, 4);
    put_field_str(context->writer, "node", context->control->options.name);
    put_field_uint(context->writer, "last", log->last_id);
    put_field_bool(context->writer, "missed", event_log_missed(log, after));
    mp_put_str(context->writer, "events");
    put_events(log, after, context->writer);
}

/* ---- how busy all nodes were, whose figures are known -----------------------------------------
 */

static const struct figures *next_figures(const struct control *control, size_t *cursor)
{
    const struct swim_member *member;
    while ((member = swim_next(control->swim, cursor)) != NULL) {
        const struct figures *figures = control_figures_of(control, member->record.id);
        if (figures != NULL)
            return figures;
    }
    return NULL;
}

/* A value: rules with two rates. */
static void put_rules(const struct figures_rule *rules, uint32_t count, struct mp_writer *writer)
{
    count = count < RULES_SHOWN ? count : RULES_SHOWN;
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        mp_put_map(writer, 3);
        put_field_str(writer, "rule", rules[i].name);
        mp_put_str(writer, "checks_per_s");
        mp_put_real(writer, (double)rules[i].checks_rate / 1000);
        mp_put_str(writer, "denied_per_s");
        mp_put_real(writer, (double)rules[i].denied_rate / 1000);
    }
}

static void put_periods(const char *name, const uint32_t *counts, uint32_t count,
                        struct mp_writer *writer)
{
    mp_put_str(writer, name);
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++)
        mp_put_real(writer, (double)counts[i] / FIGURES_PERIOD_S);
}

void control_put_busiest(const struct answer_context *context)
{
    struct figures_rule busiest[RULES_SUMMED];
    struct figures_rule pressed[RULES_SUMMED];
    struct figures_history history;
    struct mp_writer *writer = context->writer;
    const struct figures *figures;
    uint32_t busy = 0;
    uint32_t near = 0;
    size_t cursor = 0;
    const uint64_t now_period = (uint64_t)(context->now_ns / 1000000) / PERIOD_MS;
    memset(&history, 0, sizeof history);
    while ((figures = next_figures(context->control, &cursor)) != NULL) {
        for (uint32_t i = 0; i < figures->rule_count; i++)
            busy = figures_add_rule(busiest, busy, RULES_SUMMED, &figures->rules[i]);
        for (uint32_t i = 0; i < figures->pressed_count; i++)
            near = figures_add_rule(pressed, near, RULES_SUMMED, &figures->pressed[i]);
        if (figures->history.period <= now_period + 1) /* else its time is none that can be */
            figures_add_history(&history, &figures->history);
    }
    mp_put_str(writer, "busiest");
    put_rules(busiest, busy, writer);
    mp_put_str(writer, "pressed");
    put_rules(pressed, near, writer);
    mp_put_str(writer, "history");
    mp_put_map(writer, 4);
    put_field_uint(writer, "step_ms", PERIOD_MS);
    put_field_uint(writer, "until_ms", history.period * PERIOD_MS);
    put_periods("allowed_per_s", history.allowed, history.count, writer);
    put_periods("denied_per_s", history.denied, history.count, writer);
}
