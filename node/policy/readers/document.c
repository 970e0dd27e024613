/* document.c - lines, places and brackets of a document; see document.h. */
#include "node/policy/readers/document.h"
#include "base/assert.h"
#include "node/policy/readers/yaml_reader.h"

#include <string.h>

/* ---- lines ----------------------------------------------------------------------------------- */

static struct document_line line_at(const struct document *document, size_t start)
{
    struct document_line line = {.start = start, .end = start, .indent = 0, .first = 0};
    while (line.end < document->len && document->text[line.end] != '\n') {
        const char c = document->text[line.end];
        if (line.first == 0 && c != ' ' && c != '\t' && c != '\r') {
            line.first = c;
            line.indent = line.end - start;
        }
        line.end++;
    }
    line.end += line.end < document->len;
    return line;
}

struct document_line document_line(const struct document *document, uint32_t number)
{
    struct document_line line = line_at(document, 0);
    for (uint32_t i = 1; i < number && line.end < document->len; i++)
        line = line_at(document, line.end);
    return line;
}

size_t document_block_end(const struct document *document, const struct document_line *item)
{
    size_t end = item->end;
    for (size_t at = item->end; at < document->len;) {
        const struct document_line line = line_at(document, at);
        const bool empty = line.first == 0 || line.first == '#';
        if (!empty && line.indent <= item->indent)
            break;
        at = line.end;
        if (!empty || (line.first == '#' && line.indent > item->indent))
            end = at; /* comments at its own depth belong to what follows */
    }
    return end;
}

size_t document_place(const struct document *document, const struct document_line *line,
                      uint32_t column)
{
    size_t at = line->start;
    for (uint32_t i = 1; i < column && at < document->len; i++)
        for (at++; at < document->len && ((unsigned char)document->text[at] & 0xc0) == 0x80;)
            at++;
    return at;
}

/* ---- brackets -------------------------------------------------------------------------------- */

bool document_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Behind the quoted text that begins at `at`. */
static size_t skip_quoted(const struct document *document, size_t at)
{
    const char *text = document->text;
    const char quote = text[at++];
    ASSERT(at <= document->len);
    while (at < document->len) {
        const bool more = at + 1 < document->len;
        if (quote == '"' && text[at] == '\\')
            at += more ? 2 : 1;
        else if (quote == '\'' && text[at] == quote && more && text[at + 1] == quote)
            at += 2; /* one of the text's own */
        else if (text[at++] == quote)
            break;
    }
    return at;
}

/* Whether a text or a comment may begin at `at`: within a word those signs mean nothing. */
static bool begins(const struct document *document, size_t at)
{
    return at == 0 || document_is_space(document->text[at - 1]) ||
           strchr("[{,:", document->text[at - 1]) != NULL;
}

static size_t skip_comment(const struct document *document, size_t at)
{
    while (at < document->len && document->text[at] != '\n')
        at++;
    return at;
}

size_t document_brackets_end(const struct document *document, size_t at)
{
    size_t depth = 0;
    while (at < document->len) {
        const char c = document->text[at];
        if ((c == '"' || c == '\'') && begins(document, at)) {
            at = skip_quoted(document, at);
            continue;
        }
        if (c == '#' && begins(document, at)) {
            at = skip_comment(document, at);
            continue;
        }
        at++;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (depth == 0)
            return at;
    }
    return 0;
}

/* ---- the tree -------------------------------------------------------------------------------- */

uint32_t document_value(const struct yaml_reader *reader, uint32_t mapping, const char *key)
{
    if (yaml_reader_at(reader, mapping)->kind != YAML_READER_MAPPING)
        return YAML_READER_NONE;
    uint32_t at = yaml_reader_at(reader, mapping)->first;
    while (at != YAML_READER_NONE && strcmp(yaml_reader_at(reader, at)->text, key) != 0)
        at = yaml_reader_at(reader, yaml_reader_at(reader, at)->next)->next;
    return at == YAML_READER_NONE ? at : yaml_reader_at(reader, at)->next;
}
