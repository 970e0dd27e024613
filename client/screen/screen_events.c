/* screen_events.c - what came about lately: events, and how many decisions there were. */
#include <stdio.h>
#include <string.h>

#include "base/mp_walk.h"
#include "client/screen/screen.h"

/* ---- events ---------------------------------------------------------------------------------- */

void screen_events_begin(const struct mp_token *tokens, size_t count,
                         struct screen_event_reader *reader)
{
    const struct mp_token *list = mp_find(tokens, count, "events");
    *reader = (struct screen_event_reader){.left = 0};
    if (list == NULL || list->type != MP_ARRAY)
        return;
    reader->tokens = list + 1;
    reader->count = count - (size_t)(list + 1 - tokens);
    reader->left = list->count;
}

static uint64_t number(const struct mp_token *token)
{
    return token != NULL && token->type == MP_UINT ? token->uint : 0;
}

bool screen_events_next(struct screen_event_reader *reader, struct screen_event *event)
{
    const struct mp_token *row = reader->tokens;
    const size_t count = reader->count;
    if (reader->left == 0 || count == 0 || row->type != MP_MAP)
        return false;
    const struct mp_token *grave = mp_find(row, count, "grave");
    memset(event, 0, sizeof *event);
    event->id = number(mp_find(row, count, "id"));
    event->lasted_ms = number(mp_find(row, count, "lasted_ms"));
    event->grave = grave != NULL && grave->type == MP_BOOL && grave->uint != 0;
    mp_text_of(mp_find(row, count, "kind"), event->kind, sizeof event->kind);
    mp_text_of(mp_find(row, count, "time"), event->time, sizeof event->time);
    mp_text_of(mp_find(row, count, "says"), event->says, sizeof event->says);
    const size_t len = mp_value_len(row, count);
    reader->tokens += len;
    reader->count -= len;
    reader->left--;
    return true;
}

void screen_event_say(const struct screen_event *event, char out[SCREEN_EVENT_LEN])
{
    char span[SCREEN_WORD_LEN];
    if (strcmp(event->kind, "begun") == 0)
        (void)snprintf(out, SCREEN_EVENT_LEN, "begun: %s", event->says);
    else if (strcmp(event->kind, "over") == 0)
        (void)snprintf(out, SCREEN_EVENT_LEN, "over after %s: %s",
                       screen_span(event->lasted_ms, span), event->says);
    else
        (void)snprintf(out, SCREEN_EVENT_LEN, "%s", event->says);
}

/* ---- history --------------------------------------------------------------------------------- */

double screen_history_most(const struct screen_history *history)
{
    double most = 0;
    for (uint32_t i = 0; i < history->count; i++)
        if (history->allowed[i] + history->denied[i] > most)
            most = history->allowed[i] + history->denied[i];
    return most;
}

/* Two periods are one block, of which the greater counts, so that the line is a short one. */
void screen_history_line(const struct screen_history *history, char out[SCREEN_LINE_LEN])
{
    enum { TALLEST = 7 };
    const double most = screen_history_most(history);
    char *at = out;
    for (uint32_t i = history->count % 2; i < history->count && most > 0; i += 2) {
        const double one = history->allowed[i] + history->denied[i];
        const double two = history->allowed[i + 1] + history->denied[i + 1];
        const double height = (one > two ? one : two) / most * TALLEST;
        *at++ = '\xe2'; /* from U+2581, one eighth, to U+2588, a full block */
        *at++ = '\x96';
        *at++ = (char)(0x81 + (int)(height + 0.5));
    }
    *at = '\0';
}
