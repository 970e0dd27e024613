/* page_picture.c - see page_picture.h. Colours are classes of the style (page_parts.c). */
#include "node/gateway/page/page_picture.h"

#include <stdio.h>
#include <string.h>

#include "node/gateway/page/page_text.h"

enum { HEIGHT = 40, COLOURS = 8, SHARES_MAX = 12, PERCENT = 100 };

/* ---- ten minutes ----------------------------------------------------------------------------- */

static double decided(const struct screen_history *history, uint32_t at, bool all)
{
    return history->denied[at] + (all ? history->allowed[at] : 0);
}

/* Steps as high as what was decided in each period, and the area below them. */
static void put_steps(struct http_reply *reply, const struct screen_history *history, bool all,
                      double most)
{
    const uint32_t first = SCREEN_PERIODS_MAX - history->count;
    page_put(reply, all ? "<path class=\"allowed\" d=\"M" : "<path class=\"denied\" d=\"M");
    page_put_number(reply, first, 0);
    page_put(reply, " ");
    page_put_number(reply, HEIGHT, 0);
    for (uint32_t i = 0; i < history->count; i++) {
        page_put(reply, "V");
        page_put_number(reply, HEIGHT - decided(history, i, all) / most * (HEIGHT - 1), 1);
        page_put(reply, "H");
        page_put_number(reply, first + i + 1, 0);
    }
    page_put(reply, "V");
    page_put_number(reply, HEIGHT, 0);
    page_put(reply, "Z\"/>");
}

void page_put_history(struct http_reply *reply, const struct screen_history *history)
{
    const double most = screen_history_most(history);
    char word[SCREEN_WORD_LEN];
    double all = 0;
    double denied = 0;
    if (most <= 0)
        return;
    for (uint32_t i = 0; i < history->count; i++) {
        all += decided(history, i, true);
        denied += decided(history, i, false);
    }
    page_put(reply, "<figure><figcaption>Ten minutes, in steps of 10 s: at most <b>");
    page_put_text(reply, screen_rate(most, word));
    page_put(reply, "</b> decisions a second, <b>");
    page_put_number(reply, denied * PERCENT / all, 1);
    page_put(reply, "%</b> of decisions denied</figcaption>\n"
                    "<svg class=\"past\" viewBox=\"0 0 60 40\" preserveAspectRatio=\"none\" "
                    "aria-hidden=\"true\">");
    put_steps(reply, history, true, most);
    put_steps(reply, history, false, most);
    page_put(reply, "</svg><p class=\"ends\"><span>10 min ago</span>"
                    "<span class=\"key\"><i class=\"allowed\"></i>allowed "
                    "<i class=\"denied\"></i>denied</span><span>now</span></p></figure>\n");
}

/* ---- the ring -------------------------------------------------------------------------------- */

struct share {
    const char *name; /* NULL: that of all others */
    uint64_t vnodes;
    bool lives;
};

/* Nodes of the own region, and what they decide, as many as are shown; the others in the last. */
static uint32_t collect(const struct screen *screen, struct share *shares, uint64_t *sum)
{
    uint32_t count = 0;
    *sum = 0;
    for (uint32_t i = 0; i < screen->node_count; i++) {
        const struct screen_node *node = &screen->nodes[i];
        const bool lives = strcmp(node->state, "alive") == 0;
        if ((!node->told && lives) || strcmp(node->region, screen->nodes[0].region) != 0)
            continue;
        *sum += node->decides;
        if (count < SHARES_MAX) {
            shares[count++] = (struct share){node->name, node->decides, lives};
        } else {
            shares[SHARES_MAX - 1].name = NULL;
            shares[SHARES_MAX - 1].lives = true;
            shares[SHARES_MAX - 1].vnodes += node->decides;
        }
    }
    return count;
}

static void put_class(struct http_reply *reply, uint32_t number, bool nobody)
{
    page_put(reply, "class=\"");
    if (nobody) {
        page_put(reply, "nobody");
    } else {
        page_put(reply, "m");
        page_put_number(reply, number % COLOURS, 0);
    }
    page_put(reply, "\"");
}

/* A part of the circle, from `from` on, in hundredths of it. */
static void put_arc(struct http_reply *reply, uint32_t number, bool nobody, double from,
                    double part)
{
    page_put(reply, "<circle ");
    put_class(reply, number, nobody);
    page_put(reply, " cx=\"21\" cy=\"21\" r=\"15.9155\" fill=\"none\" stroke-width=\"6\" "
                    "stroke-dasharray=\"");
    page_put_number(reply, part, 2);
    page_put(reply, " ");
    page_put_number(reply, PERCENT - part, 2);
    page_put(reply, "\" stroke-dashoffset=\"");
    page_put_number(reply, 25 - from, 2); /* twelve o'clock is a quarter before where it begins */
    page_put(reply, "\"/>");
}

static void put_legend(struct http_reply *reply, uint32_t number, bool nobody, const char *name,
                       uint64_t vnodes, double part)
{
    char word[SCREEN_WORD_LEN];
    page_put(reply, "<li><svg viewBox=\"0 0 8 8\" aria-hidden=\"true\"><circle ");
    put_class(reply, number, nobody);
    page_put(reply, " cx=\"4\" cy=\"4\" r=\"2\" fill=\"none\" stroke-width=\"4\"/></svg>");
    page_put_text(reply, name);
    page_put(reply, ": ");
    page_put_number(reply, part, part < 1 ? 1 : 0);
    page_put(reply, "%, ");
    page_put_text(reply, screen_count(vnodes, word));
    page_put(reply, " vnodes</li>");
}

void page_put_ring(struct http_reply *reply, const struct screen *screen)
{
    struct share shares[SHARES_MAX];
    uint64_t sum;
    double from = 0;
    const uint32_t count = collect(screen, shares, &sum);
    if (sum == 0 || screen->vnodes == 0)
        return;
    const uint64_t all = sum > screen->vnodes ? sum : screen->vnodes;
    const double rest = (double)(all - sum) * PERCENT / (double)all;
    page_put(reply,
             "<figure class=\"ring\"><figcaption>Who decides how much of the keys</figcaption>"
             "<svg viewBox=\"0 0 42 42\" aria-hidden=\"true\">");
    for (uint32_t i = 0; i < count; i++) {
        const double part = (double)shares[i].vnodes * PERCENT / (double)all;
        put_arc(reply, i, false, from, part);
        from += part;
    }
    if (rest > 0)
        put_arc(reply, 0, true, from, rest);
    page_put(reply, "</svg><ul>");
    for (uint32_t i = 0; i < count; i++)
        put_legend(reply, i, !shares[i].lives,
                   shares[i].name != NULL ? shares[i].name : "all others", shares[i].vnodes,
                   (double)shares[i].vnodes * PERCENT / (double)all);
    if (rest > 0)
        put_legend(reply, 0, true, "of whom nothing is known", all - sum, rest);
    page_put(reply, "</ul></figure>\n");
}
