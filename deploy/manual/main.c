/* main.c - `manual DIR VERSION DAY`: writes all that is made of the tables below DIR.
 *
 *   DIR/man/            tidegate.1 tidegated.8 tidegated.yaml.5 tidegate-rules.5
 *                       tidegate-metrics.7
 *   DIR/reference/      the same as Markdown
 *   DIR/completion/     tidegate.bash _tidegate
 *   DIR/                tidegated.yaml.example tidegate-rules.schema.json
 *
 * It is linked with the tables of the programs that are shipped, so that what is told is what they
 * do. The build starts it (`make docs`); nobody installs it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "deploy/manual/manual.h"

enum { PATH_LEN = 4096, FAILED = 1, USAGE = 64 };

/* Writes what was put together to DIR/name, and empties it. */
static int write_file(const char *folder, const char *name, struct cli_text *text)
{
    char path[PATH_LEN];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = text->failed ? NULL : fopen(path, "w");
    const bool written = file != NULL && fwrite(text->data, 1, text->len, file) == text->len;
    const bool closed = file != NULL && fclose(file) == 0;
    cli_text_clear(text);
    if (!written || !closed)
        (void)fprintf(stderr, "manual: %s: %s\n", path, strerror(errno));
    return written && closed ? 0 : FAILED;
}

static int make_folders(const char *folder)
{
    static const char *const names[] = {"", "/man", "/reference", "/completion"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_LEN];
        (void)snprintf(path, sizeof path, "%s%s", folder, names[i]);
        if (mkdir(path, 0755) != 0 && errno != EEXIST) {
            (void)fprintf(stderr, "manual: %s: %s\n", path, strerror(errno));
            return FAILED;
        }
    }
    return 0;
}

static int write_pages(const char *folder, const struct page_release *release,
                       struct cli_text *text)
{
    static const struct {
        const char *man;
        const char *reference;
        void (*add)(struct page *page, const struct page_release *release);
    } pages[] = {
        {"man/tidegate.1", "reference/tidegate.md", manual_tidegate},
        {"man/tidegated.8", "reference/tidegated.md", manual_tidegated},
        {"man/tidegated.yaml.5", "reference/tidegated.yaml.md", manual_options},
        {"man/tidegate-rules.5", "reference/tidegate-rules.md", manual_rules},
        {"man/tidegate-metrics.7", "reference/tidegate-metrics.md", manual_metrics},
    };
    int status = 0;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        pages[i].add(&(struct page){.text = text, .format = PAGE_MAN}, release);
        status |= write_file(folder, pages[i].man, text);
        pages[i].add(&(struct page){.text = text, .format = PAGE_MARKDOWN}, release);
        status |= write_file(folder, pages[i].reference, text);
    }
    return status;
}

static int write_others(const char *folder, struct cli_text *text)
{
    static const struct {
        const char *name;
        void (*add)(struct cli_text *text);
    } files[] = {
        {"completion/tidegate.bash", manual_bash},
        {"completion/_tidegate", manual_zsh},
        {"tidegated.yaml.example", manual_options_example},
        {"tidegate-rules.schema.json", manual_schema},
    };
    int status = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        files[i].add(text);
        status |= write_file(folder, files[i].name, text);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct cli_text text;
    if (argc != 4) {
        (void)fprintf(stderr, "usage: manual DIR VERSION DAY\n");
        return USAGE;
    }
    const struct page_release release = {argv[2], argv[3]};
    cli_text_init(&text);
    int status = make_folders(argv[1]);
    if (status == 0)
        status = write_pages(argv[1], &release, &text) | write_others(argv[1], &text);
    cli_text_fini(&text);
    return status;
}
