/* page.c - the page out of the answer to `status`; page.h tells of it. */
#include "node/gateway/page/page.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/screen/screen.h"
#include "node/gateway/http/http_stream.h"
#include "node/gateway/page/page_frame.h"
#include "node/gateway/page/page_picture.h"
#include "node/gateway/page/page_text.h"

enum {
    ROOM = 512 << 10,
    NODES_SHOWN =
        64, /* of more, the first ones: the region's own, those that are ill before others */
    PERCENT = 100
};

/* ---- lines ----------------------------------------------------------------------------------- */

/* What has been opened. */
struct lines {
    struct http_reply *reply;
    bool verdict;
    bool list;
};

static void close_lines(struct lines *lines)
{
    if (lines->verdict)
        page_put(lines->reply, "</div>\n");
    if (lines->list)
        page_put(lines->reply, "</dl>\n");
    lines->verdict = lines->list = false;
}

/* The verdict and what is said below it are in a box; all else is a list of terms. */
static void write_line(void *context, enum screen_line kind, const char *label, const char *text)
{
    struct lines *lines = context;
    struct http_reply *reply = lines->reply;
    if (kind != SCREEN_LINE) {
        page_put(reply, kind == SCREEN_WELL ? "<div class=\"verdict\"><p><b>"
                                            : "<div class=\"verdict ill\"><p><b>");
        page_put_text(reply, label);
        page_put(reply, "</b> ");
        page_put_text(reply, text);
        page_put(reply, "</p>\n");
        lines->verdict = true;
        return;
    }
    if (lines->verdict && label[0] == '\0') {
        page_put(reply, "<p>");
        page_put_text(reply, text);
        page_put(reply, "</p>\n");
        return;
    }
    if (!lines->list) {
        close_lines(lines);
        page_put(reply, "<dl>\n");
        lines->list = true;
    }
    if (label[0] != '\0') {
        page_put(reply, "<dt>");
        page_put_text(reply, label);
        page_put(reply, "</dt>");
    }
    page_put(reply, "<dd>");
    page_put_text(reply, text);
    page_put(reply, "</dd>\n");
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_number(enum screen_column column)
{
    return column == SCREEN_CHECKS || column == SCREEN_DENIED || column == SCREEN_ACK;
}

static void put_cell(struct http_reply *reply, const struct screen *screen,
                     const struct screen_node *node, enum screen_column column)
{
    char text[SCREEN_CELL_LEN];
    char number[SCREEN_WORD_LEN];
    screen_cell(screen, node, column, text);
    if (node == NULL)
        page_put(reply,
                 is_number(column) ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">");
    else
        page_put(reply, is_number(column) ? "<td class=\"n\">" : "<td>");
    if (node != NULL && column == SCREEN_MEMORY && node->told && node->slots_max > 0) {
        (void)snprintf(number, sizeof number, "%.0f",
                       (double)node->slots * PERCENT / (double)node->slots_max);
        page_put(reply, "<meter max=\"100\" high=\"90\" value=\"");
        page_put_text(reply, number);
        page_put(reply, "\"></meter>");
    }
    page_put_text(reply, text);
    page_put(reply, node == NULL ? "</th>" : "</td>");
}

static void put_row(struct http_reply *reply, const struct screen *screen,
                    const struct screen_node *node, bool regions)
{
    page_put(reply, node != NULL && screen_is_ill(node) ? "<tr class=\"ill\">" : "<tr>");
    for (int i = regions ? SCREEN_REGION : SCREEN_NAME; i < SCREEN_COLUMNS; i++)
        put_cell(reply, screen, node, (enum screen_column)i);
    page_put(reply, "</tr>\n");
}

static void put_nodes(struct http_reply *reply, const struct screen *screen)
{
    char number[SCREEN_WORD_LEN];
    bool regions = false;
    for (uint32_t i = 1; i < screen->node_count; i++)
        regions = regions || strcmp(screen->nodes[i].region, screen->nodes[0].region) != 0;
    if (screen->node_count == 0)
        return;
    page_put(reply, "<div class=\"wide\"><table><caption>Nodes</caption><thead>");
    put_row(reply, screen, NULL, regions);
    page_put(reply, "</thead><tbody>\n");
    for (uint32_t i = 0; i < screen->node_count; i++)
        put_row(reply, screen, &screen->nodes[i], regions);
    page_put(reply, "</tbody></table></div>\n");
    if (screen->nodes_more > 0) {
        page_put(reply, "<p>and ");
        page_put_text(reply, screen_count(screen->nodes_more, number));
        page_put(reply, " more: <code>tidegate status --members all</code></p>\n");
    }
}

/* ---- rules and changes ----------------------------------------------------------------------- */

/* `rates`: what the second column is called. */
static void put_rules(struct http_reply *reply, const char *caption, const char *rates,
                      const struct screen_rule *rules, uint32_t count)
{
    char number[SCREEN_WORD_LEN];
    if (count == 0)
        return;
    page_put(reply, "<div class=\"wide\"><table><caption>");
    page_put(reply, caption);
    page_put(reply, "</caption><thead><tr><th scope=\"col\">RULE</th>"
                    "<th scope=\"col\" class=\"n\">");
    page_put(reply, rates);
    page_put(reply, "</th><th scope=\"col\" class=\"n\">DENIED</th></tr></thead><tbody>\n");
    for (uint32_t i = 0; i < count; i++) {
        const struct screen_rule *rule = &rules[i];
        page_put(reply, "<tr><td class=\"name\">");
        page_put_text(reply, rule->name);
        page_put(reply, "</td><td class=\"n\">");
        page_put_text(reply, screen_rate(rule->checks_rate, number));
        page_put(reply, "</td><td class=\"n\">");
        page_put_number(
            reply, rule->checks_rate > 0 ? rule->denied_rate * PERCENT / rule->checks_rate : 0, 1);
        page_put(reply, "%</td></tr>\n");
    }
    page_put(reply, "</tbody></table></div>\n");
}

/* "2026-11-26T20:05:36Z" as people read it; the column says that it is UTC. */
static void put_time(struct http_reply *reply, const char *time)
{
    const size_t day = strcspn(time, "T");
    const char *rest = time[day] == 'T' ? time + day + 1 : "";
    page_put_bytes(reply, time, day);
    page_put(reply, " ");
    page_put_bytes(reply, rest, strcspn(rest, "Z"));
}

/* The newest first. */
static void put_events(struct http_reply *reply, const struct screen *screen)
{
    if (screen->event_count == 0)
        return;
    page_put(reply, "<div class=\"wide\"><table><caption>Events</caption><thead><tr>"
                    "<th scope=\"col\" class=\"when\">WHEN (UTC)</th><th "
                    "scope=\"col\">WHAT</th></tr></thead><tbody>\n");
    for (uint32_t i = screen->event_count; i > 0; i--) {
        const struct screen_event *event = &screen->events[i - 1];
        const bool ill = event->grave && strcmp(event->kind, "begun") == 0;
        char says[SCREEN_EVENT_LEN];
        screen_event_say(event, says);
        page_put(reply, ill ? "<tr class=\"ill\"><td>" : "<tr><td>");
        put_time(reply, event->time);
        page_put(reply, "</td><td>");
        page_put_text(reply, says);
        page_put(reply, "</td></tr>\n");
    }
    page_put(reply, "</tbody></table></div>\n");
}

static void put_changes(struct http_reply *reply, const struct screen *screen)
{
    if (screen->change_count == 0)
        return;
    page_put(reply, "<div class=\"wide\"><table><caption>Last changes</caption><thead><tr>"
                    "<th scope=\"col\" class=\"when\">WHEN (UTC)</th><th scope=\"col\">WHO</th><th "
                    "scope=\"col\">WHAT</th>"
                    "</tr></thead><tbody>\n");
    for (uint32_t i = 0; i < screen->change_count; i++) {
        const struct screen_change *change = &screen->changes[i];
        page_put(reply, "<tr><td>");
        put_time(reply, change->time);
        page_put(reply, "</td><td>");
        page_put_text(reply, change->author);
        page_put(reply, "</td><td>");
        page_put_text(reply, change->says);
        if (change->note[0] != '\0') {
            page_put(reply, " (");
            page_put_text(reply, change->note);
            page_put(reply, ")");
        }
        page_put(reply, "</td></tr>\n");
    }
    page_put(reply, "</tbody></table></div>\n");
}

/* ---- the page -------------------------------------------------------------------------------- */

/* What stands between <main> and its end; what is not there yet has a place all the same. */
static void put_main(struct http_reply *reply, const struct screen *screen)
{
    struct lines lines = {.reply = reply};
    const struct screen_sink sink = {write_line, &lines};
    screen_say(&sink, screen);
    close_lines(&lines);
    page_put_history(reply, &screen->history);
    put_nodes(reply, screen);
    page_put(reply, "<div class=\"pair\"><div>\n");
    put_rules(reply, "Busiest rules", "CHECKS/S", screen->busiest, screen->busiest_count);
    put_rules(reply, "Rules near their limits", "NEAR OR DENIED/S", screen->pressed,
              screen->pressed_count);
    page_put(reply, "</div><div>\n");
    page_put_ring(reply, screen);
    page_put(reply, "</div></div>\n");
    put_events(reply, screen);
    put_changes(reply, screen);
}

static bool read_status(const struct wire_admin_reply *said, struct screen_node nodes[NODES_SHOWN],
                        struct screen *screen)
{
    ASSERT(said != NULL);
    if (said->code != 0)
        return false;
    screen_read(said->value.tokens, said->value.token_count, nodes, NODES_SHOWN, screen);
    return true;
}

static enum http_verdict ask(struct http_exchange *exchange, http_complete_fn *complete)
{
    struct mp_writer *writer;
    void *context;
    const enum http_verdict verdict =
        http_ask_admin(exchange, "status", ROOM, complete, &context, &writer);
    if (verdict != HTTP_ASKED)
        return verdict;
    mp_put_map(writer, 2);
    mp_put_str(writer, "figures");
    mp_put_bool(writer, true);
    mp_put_str(writer, "wait");
    mp_put_bool(writer, true);
    return HTTP_ASKED;
}

static void answer(struct http_completion *completion)
{
    struct screen screen;
    struct screen_node nodes[NODES_SHOWN];
    struct http_reply *reply = &completion->reply;
    struct page_frame frame = {.verdict = "HEALTHY", .node = screen.node, .live = true};
    if (!read_status(completion->admin, nodes, &screen)) {
        http_problem(reply, http_status_of(completion->admin->code),
                     "the node cannot tell its status");
        return;
    }
    if (!screen.healthy)
        frame.verdict = "DEGRADED";
    frame.version = screen.version;
    page_begin(reply, &frame);
    put_main(reply, &screen);
    page_end(reply, &frame);
}

enum http_verdict page_show(struct http_exchange *exchange)
{
    return ask(exchange, answer);
}

/* ---- as a stream ----------------------------------------------------------------------------- */

/* What a stream keeps. */
struct showing {
    uint64_t turns;
};

static void show_again(struct http_completion *completion)
{
    struct screen screen;
    struct screen_node nodes[NODES_SHOWN];
    struct http_reply *reply = &completion->reply;
    if (!read_status(completion->admin, nodes, &screen))
        return; /* the page says that it is not told anything */
    http_chunk_begin(reply);
    page_put(reply, screen.healthy ? "event: HEALTHY" : "event: DEGRADED");
    http_put_text(reply, "\ndata: ");
    put_main(reply, &screen);
    http_put_text(reply, "\n\n");
    http_chunk_end(reply);
}

static enum http_verdict go_on(struct http_exchange *exchange)
{
    struct showing *showing = exchange->stream;
    if (showing->turns++ % 2 != 0) /* every two seconds */
        return HTTP_ANSWERED;
    const enum http_verdict verdict = ask(exchange, show_again);
    showing->turns -= verdict == HTTP_AGAIN;
    return verdict;
}

enum http_verdict page_live(struct http_exchange *exchange)
{
    const struct showing *showing = http_stream_begin(exchange, "text/event-stream", go_on);
    (void)showing;
    return HTTP_ANSWERED;
}
