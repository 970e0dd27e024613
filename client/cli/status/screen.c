/* screen.c - the screen of `tidegate status` but for its table; screen_text.h tells what it looks
 * like.
 */
#include "client/cli/status/screen_text.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

enum { LINE_LEN = 1100, LABEL = 10 };

/* ---- lines ----------------------------------------------------------------------------------- */

static void add_cut(struct cli_text *out, const char *line, size_t len, size_t width)
{
    size_t at = 0;
    for (size_t columns = 0; at < len && columns < width; columns++) {
        const size_t step = utf8_len(line + at, len - at);
        at += step > 0 ? step : 1;
    }
    ASSERT(at <= len);
    cli_text_add(out, line, at);
}

void screen_line(struct cli_text *out, const char *line, size_t width)
{
    struct cli_text shown;
    ASSERT(width > 2); /* SCREENTEXT-1: there is room for ".." */
    cli_text_init(&shown);
    cli_text_shown(&shown, line, strlen(line));
    while (shown.len > 0 && shown.data[shown.len - 1] == ' ')
        shown.len--;
    if (cli_utf8_count(shown.data, shown.len) <= width) {
        cli_text_add(out, shown.data != NULL ? shown.data : "", shown.len);
    } else {
        add_cut(out, shown.data, shown.len, width - 2);
        cli_text_str(out, "..");
    }
    out->failed = out->failed || shown.failed;
    cli_text_str(out, "\n");
    cli_text_fini(&shown);
}

/* Where lines go. */
struct writing {
    struct cli_text *out;
    const struct screen_options *options;
};

static void write_line(void *context, enum screen_line kind, const char *label, const char *text)
{
    const struct writing *writing = context;
    const struct screen_options *options = writing->options;
    char line[LINE_LEN];
    if (kind != SCREEN_LINE && options->colour) {
        cli_text_str(writing->out, kind == SCREEN_WELL ? "\033[1;32m" : "\033[1;31m");
        cli_text_str(writing->out, label);
        cli_text_str(writing->out, "\033[0m");
        cli_text_fill(writing->out, ' ', LABEL - strlen(label));
        screen_line(writing->out, text, options->width - LABEL);
        return;
    }
    (void)snprintf(line, sizeof line, "%-*s%s", LABEL, label, text);
    screen_line(writing->out, line, options->width);
}

void screen_write(struct cli_text *out, const struct screen *screen,
                  const struct screen_options *options)
{
    struct writing writing = {out, options};
    const struct screen_sink sink = {write_line, &writing};
    ASSERT(options->width > LABEL);
    screen_say(&sink, screen);
    if (screen->node_count > 0) {
        cli_text_str(out, "\n");
        screen_write_table(out, screen, options);
        cli_text_str(out, "\n");
    }
    screen_say_more(&sink, screen);
    write_line(&writing, SCREEN_LINE, "more",
               "--node NAME, --all, --watch, -o json; tidegate members, events");
}

void screen_write_node(struct cli_text *out, const struct screen *screen,
                       const struct screen_node *node, const struct screen_options *options)
{
    struct writing writing = {out, options};
    const struct screen_sink sink = {write_line, &writing};
    screen_say_node(&sink, screen, node);
}
