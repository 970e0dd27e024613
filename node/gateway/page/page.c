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
    bool advice; /* the line before, and those below it, are what to do */
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
        page_put_sentence(reply, text);
        page_put(reply, "</p>\n");
        lines->verdict = true;
        return;
    }
    if (lines->verdict && label[0] == '\0') {
        page_put(reply, "<p>");
        page_put_sentence(reply, text);
        page_put(reply, "</p>\n");
        return;
    }
    if (!lines->list) {
        close_lines(lines);
        page_put(reply, "<dl>\n");
        lines->list = true;
    }
    if (label[0] != '\0') {
        lines->advice = strcmp(label, "do") == 0;
        page_put(reply, "<dt>");
        page_put_text(reply, label);
        page_put(reply, "</dt>");
    }
    page_put(reply, lines->advice ? "<dd class=\"advice\">" : "<dd>");
    page_put_sentence(reply, text);
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
    page_put(reply, node == NULL ? "<th scope=\"col\"" : "<td");
    page_put(reply, is_number(column)       ? " class=\"n\">"
                    : column == SCREEN_NOTE ? " class=\"note\">"
                                            : ">");
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

/* What is wrong stands where a narrow window has it. */
static void put_row(struct http_reply *reply, const struct screen *screen,
                    const struct screen_node *node, bool regions)
{
    static const enum screen_column columns[SCREEN_COLUMNS] = {
        SCREEN_REGION, SCREEN_NAME, SCREEN_STATE,  SCREEN_NOTE, SCREEN_UP,   SCREEN_CHECKS,
        SCREEN_DENIED, SCREEN_ACK,  SCREEN_MEMORY, SCREEN_DISK, SCREEN_CLOCK};
    if (node == NULL || !screen_is_ill(node))
        page_put(reply, "<tr>");
    else
        page_put(reply,
                 strcmp(node->state, "alive") == 0 ? "<tr class=\"near\">" : "<tr class=\"ill\">");
    for (int i = regions ? 0 : 1; i < SCREEN_COLUMNS; i++)
        put_cell(reply, screen, node, columns[i]);
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

/* Rules by how often they answer, and what part of that they deny; or by how often they are near
 * their limits, or deny. */
static void put_rules(struct http_reply *reply, bool near, const struct screen_rule *rules,
                      uint32_t count)
{
    char number[SCREEN_WORD_LEN];
    if (count == 0)
        return;
    page_put(reply, "<div class=\"wide\"><table><caption>");
    page_put(reply, near ? "Rules near their limits" : "Busiest rules");
    page_put(reply, "</caption><thead><tr><th scope=\"col\">RULE</th>"
                    "<th scope=\"col\" class=\"n\">");
    page_put(reply, near ? "A FIFTH LEFT/S" : "CHECKS/S");
    page_put(reply, "</th><th scope=\"col\" class=\"n\">");
    page_put(reply, near ? "DENIED/S" : "DENIED");
    page_put(reply, "</th></tr></thead><tbody>\n");
    for (uint32_t i = 0; i < count; i++) {
        const struct screen_rule *rule = &rules[i];
        const double part = rule->checks_rate > 0 ? rule->denied_rate / rule->checks_rate : 0;
        page_put(reply, "<tr><td class=\"name\">");
        page_put_text(reply, rule->name);
        page_put(reply, "</td><td class=\"n\">");
        page_put_text(
            reply,
            screen_rate(near ? rule->checks_rate - rule->denied_rate : rule->checks_rate, number));
        page_put(reply, "</td><td class=\"n\">");
        if (near)
            page_put_text(reply, screen_rate(rule->denied_rate, number));
        else
            page_put_number(reply, part * PERCENT, 1);
        page_put(reply, near ? "</td></tr>\n" : "%</td></tr>\n");
    }
    page_put(reply, "</tbody></table></div>\n");
}

/* ---- what came about ------------------------------------------------------------------------- */

/* Whether "2026-11-26T..." is of the day of "Thu, 26 Nov 2026 ...". */
static bool is_day(const char *time, const char *date)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char month[4] = "";
    char day[32];
    memcpy(month, date + 8, 3);
    const char *at = strstr(months, month);
    const int number = at != NULL ? (int)(at - months) / 3 + 1 : 0;
    (void)snprintf(day, sizeof day, "%.4s-%02d-%.2sT", date + 12, number, date + 5);
    return strncmp(time, day, strlen(day)) == 0;
}

/* "2026-11-26T20:05:36Z" as people read it; the column says that it is UTC. */
static void put_time(struct http_reply *reply, const char *time)
{
    const size_t day = strcspn(time, "T");
    const char *rest = time[day] == 'T' ? time + day + 1 : "";
    if (!is_day(time, reply->date)) {
        page_put_bytes(reply, time, day);
        page_put(reply, " ");
    }
    page_put_bytes(reply, rest, strcspn(rest, "Z"));
}

/* Whether what began is not over, as far as is shown. */
static bool lasts(const struct screen *screen, uint32_t at)
{
    const struct screen_event *event = &screen->events[at];
    if (!event->grave || strcmp(event->kind, "begun") != 0)
        return false;
    for (uint32_t i = at + 1; i < screen->event_count; i++)
        if (strcmp(screen->events[i].kind, "over") == 0 &&
            strcmp(screen->events[i].says, event->says) == 0)
            return false;
    return true;
}

/* The newest first. */
static void put_events(struct http_reply *reply, const struct screen *screen)
{
    if (screen->event_count == 0)
        return;
    page_put(reply,
             "<div class=\"wide\"><table><caption>Events, the newest first</caption><thead><tr>"
             "<th scope=\"col\" class=\"when\">WHEN (UTC)</th><th "
             "scope=\"col\">WHAT</th></tr></thead><tbody>\n");
    for (uint32_t i = screen->event_count; i > 0; i--) {
        const struct screen_event *event = &screen->events[i - 1];
        const bool ill = lasts(screen, i - 1);
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
    put_rules(reply, false, screen->busiest, screen->busiest_count);
    put_rules(reply, true, screen->pressed, screen->pressed_count);
    page_put(reply, "</div><div>\n");
    page_put_ring(reply, screen);
    page_put(reply, "</div></div>\n");
    put_events(reply, screen);
    put_changes(reply, screen);
    page_put(reply, "<p class=\"asof\">as of ");
    page_put_bytes(reply, reply->date, strlen("Thu, 26 Nov 2026 20:05:36"));
    page_put(reply, " UTC</p>\n");
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
