/* page.c - the page out of the answer to `status`; page.h tells of it.
 *
 * PAGE-1  What nodes say is text: each letter that HTML gives a meaning to is written as a
 *         reference, and control characters as U+FFFD.
 */
#include "node/gateway/page/page.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "client/screen/screen.h"
#include "node/gateway/page/page_parts.h"

enum {
    ROOM = 512 << 10,
    NODES_SHOWN =
        64, /* of more, the first ones: the region's own, those that are ill before others */
    CHARACTER_MAX = 4,
    PERCENT = 100
};

/* ---- text ------------------------------------------------------------------------------------ */

static void put(struct http_reply *reply, const char *markup)
{
    http_put_text(reply, markup);
}

/* PAGE-1. */
static void put_text(struct http_reply *reply, const char *text)
{
    const size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        const size_t step = utf8_len(text + i, len - i);
        const char *at = text + i;
        const bool control = step == 0 || (unsigned char)*at < ' ' || *at == 0x7f ||
                             (step == 2 && at[0] == '\xc2' && (unsigned char)at[1] < 0xa0);
        i += step == 0 ? 1 : step;
        ASSERT(step <= CHARACTER_MAX);
        if (*at == '\n' || *at == '\t')
            put(reply, " ");
        else if (control)
            put(reply, "\xef\xbf\xbd");
        else if (*at == '<')
            put(reply, "&lt;");
        else if (*at == '>')
            put(reply, "&gt;");
        else if (*at == '&')
            put(reply, "&amp;");
        else if (*at == '"')
            put(reply, "&quot;");
        else if (*at == '\'')
            put(reply, "&#39;");
        else
            http_put(reply, at, step);
    }
}

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
        put(lines->reply, "</div>\n");
    if (lines->list)
        put(lines->reply, "</dl>\n");
    lines->verdict = lines->list = false;
}

/* The verdict and what is said below it are in a box; all else is a list of terms. */
static void write_line(void *context, enum screen_line kind, const char *label, const char *text)
{
    struct lines *lines = context;
    struct http_reply *reply = lines->reply;
    if (kind != SCREEN_LINE) {
        put(reply, kind == SCREEN_WELL ? "<div class=\"verdict\" role=\"status\"><p><b>"
                                       : "<div class=\"verdict ill\" role=\"alert\"><p><b>");
        put_text(reply, label);
        put(reply, "</b> ");
        put_text(reply, text);
        put(reply, "</p>\n");
        lines->verdict = true;
        return;
    }
    if (lines->verdict && label[0] == '\0') {
        put(reply, "<p>");
        put_text(reply, text);
        put(reply, "</p>\n");
        return;
    }
    if (!lines->list) {
        close_lines(lines);
        put(reply, "<dl>\n");
        lines->list = true;
    }
    if (label[0] != '\0') {
        put(reply, "<dt>");
        put_text(reply, label);
        put(reply, "</dt>");
    }
    put(reply, "<dd>");
    put_text(reply, text);
    put(reply, "</dd>\n");
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
        put(reply, is_number(column) ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">");
    else
        put(reply, is_number(column) ? "<td class=\"n\">" : "<td>");
    if (node != NULL && column == SCREEN_MEMORY && node->told && node->slots_max > 0) {
        (void)snprintf(number, sizeof number, "%.0f",
                       (double)node->slots * PERCENT / (double)node->slots_max);
        put(reply, "<meter max=\"100\" high=\"90\" value=\"");
        put_text(reply, number);
        put(reply, "\"></meter>");
    }
    put_text(reply, text);
    put(reply, node == NULL ? "</th>" : "</td>");
}

static void put_row(struct http_reply *reply, const struct screen *screen,
                    const struct screen_node *node, bool regions)
{
    put(reply, node != NULL && screen_is_ill(node) ? "<tr class=\"ill\">" : "<tr>");
    for (int i = regions ? SCREEN_REGION : SCREEN_NAME; i < SCREEN_COLUMNS; i++)
        put_cell(reply, screen, node, (enum screen_column)i);
    put(reply, "</tr>\n");
}

static void put_nodes(struct http_reply *reply, const struct screen *screen)
{
    char number[SCREEN_WORD_LEN];
    bool regions = false;
    for (uint32_t i = 1; i < screen->node_count; i++)
        regions = regions || strcmp(screen->nodes[i].region, screen->nodes[0].region) != 0;
    if (screen->node_count == 0)
        return;
    put(reply, "<div class=\"wide\"><table><caption>Nodes</caption><thead>");
    put_row(reply, screen, NULL, regions);
    put(reply, "</thead><tbody>\n");
    for (uint32_t i = 0; i < screen->node_count; i++)
        put_row(reply, screen, &screen->nodes[i], regions);
    put(reply, "</tbody></table></div>\n");
    if (screen->nodes_more > 0) {
        put(reply, "<p>and ");
        put_text(reply, screen_count(screen->nodes_more, number));
        put(reply, " more: <code>tidegate status --members all</code></p>\n");
    }
}

/* ---- rules and changes ----------------------------------------------------------------------- */

static void put_busiest(struct http_reply *reply, const struct screen *screen)
{
    char number[SCREEN_WORD_LEN];
    if (screen->busiest_count == 0)
        return;
    put(reply, "<div class=\"wide\"><table><caption>Busiest rules</caption><thead><tr>"
               "<th scope=\"col\">RULE</th><th scope=\"col\" class=\"n\">CHECKS/S</th>"
               "<th scope=\"col\" class=\"n\">DENIED</th></tr></thead><tbody>\n");
    for (uint32_t i = 0; i < screen->busiest_count; i++) {
        const struct screen_rule *rule = &screen->busiest[i];
        put(reply, "<tr><td class=\"name\">");
        put_text(reply, rule->name);
        put(reply, "</td><td class=\"n\">");
        put_text(reply, screen_rate(rule->checks_rate, number));
        put(reply, "</td><td class=\"n\">");
        (void)snprintf(number, sizeof number, "%.1f%%",
                       rule->checks_rate > 0 ? rule->denied_rate * PERCENT / rule->checks_rate : 0);
        put_text(reply, number);
        put(reply, "</td></tr>\n");
    }
    put(reply, "</tbody></table></div>\n");
}

static void put_changes(struct http_reply *reply, const struct screen *screen)
{
    if (screen->change_count == 0)
        return;
    put(reply, "<div class=\"wide\"><table><caption>Last changes</caption><thead><tr>"
               "<th scope=\"col\">WHEN</th><th scope=\"col\">WHO</th><th scope=\"col\">WHAT</th>"
               "</tr></thead><tbody>\n");
    for (uint32_t i = 0; i < screen->change_count; i++) {
        const struct screen_change *change = &screen->changes[i];
        put(reply, "<tr><td>");
        put_text(reply, change->time);
        put(reply, "</td><td>");
        put_text(reply, change->author);
        put(reply, "</td><td>");
        put_text(reply, change->says);
        if (change->note[0] != '\0') {
            put(reply, " (");
            put_text(reply, change->note);
            put(reply, ")");
        }
        put(reply, "</td></tr>\n");
    }
    put(reply, "</tbody></table></div>\n");
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_head(struct http_reply *reply, const struct screen *screen)
{
    http_reply_begin(reply, 200);
    http_reply_header(reply, "Content-Security-Policy", page_policy);
    http_reply_header(reply, "X-Content-Type-Options", "nosniff");
    http_reply_header(reply, "Referrer-Policy", "no-referrer");
    http_reply_header(reply, "Cross-Origin-Opener-Policy", "same-origin");
    http_reply_body(reply, "text/html; charset=utf-8");
    put(reply, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
               "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
               "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript><title>");
    put(reply, screen->healthy ? "HEALTHY" : "DEGRADED");
    put(reply, " - ");
    put_text(reply, screen->node);
    put(reply, " - Tidegate</title><style>");
    put(reply, page_style);
    put(reply, "</style></head>\n<body><header><h1>Tidegate</h1><p>as node ");
    put_text(reply, screen->node);
    put(reply, " sees its cluster; release ");
    put_text(reply, screen->version);
    put(reply,
        "</p><p id=\"stale\" role=\"alert\" hidden>the node does not answer: this is what was "
        "known before</p></header>\n<main>\n");
}

static void write_page(struct http_reply *reply, const struct screen *screen)
{
    struct lines lines = {.reply = reply};
    const struct screen_sink sink = {write_line, &lines};
    put_head(reply, screen);
    screen_say(&sink, screen);
    close_lines(&lines);
    put_nodes(reply, screen);
    put_busiest(reply, screen);
    put_changes(reply, screen);
    put(reply,
        "</main>\n<footer>The same in a terminal: <code>tidegate status</code>; for programs: "
        "<code>GET /v1/status</code></footer><script>");
    put(reply, page_script);
    put(reply, "</script></body></html>\n");
    http_reply_end(reply);
}

static void answer(struct http_completion *completion)
{
    struct screen screen;
    struct screen_node nodes[NODES_SHOWN];
    const struct wire_admin_reply *said = completion->admin;
    ASSERT(said != NULL);
    if (said->code != 0) {
        http_problem(&completion->reply, http_status_of(said->code),
                     "the node cannot tell its status");
        return;
    }
    screen_read(said->value.tokens, said->value.token_count, nodes, NODES_SHOWN, &screen);
    write_page(&completion->reply, &screen);
}

enum http_verdict page_show(struct http_exchange *exchange)
{
    struct mp_writer *writer;
    void *context;
    const enum http_verdict verdict =
        http_ask_admin(exchange, "status", ROOM, answer, &context, &writer);
    if (verdict != HTTP_ASKED)
        return verdict;
    mp_put_map(writer, 1);
    mp_put_str(writer, "figures");
    mp_put_bool(writer, true);
    return HTTP_ASKED;
}
