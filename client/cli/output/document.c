/* document.c - JSON by base/mp_json.h, and YAML by the same walk; see document.h. */
#include "client/cli/output/document.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/mp_json.h"
#include "base/mp_walk.h"

static void add_piece(void *text, const char *data, size_t len)
{
    cli_text_add(text, data, len);
}

/* Every scalar but strings looks the same in JSON and YAML. */
static void add_scalar(struct cli_text *text, const struct mp_token *token)
{
    const struct mp_sink sink = {add_piece, text};
    mp_json_scalar(&sink, token);
}

void cli_json(struct cli_text *text, const struct mp_token *tokens, size_t count)
{
    const struct mp_sink sink = {add_piece, text};
    mp_json(&sink, tokens, count);
}

void cli_plain(struct cli_text *text, const struct mp_token *token)
{
    if (token->type == MP_STR && token->count > 0)
        cli_text_shown(text, (const char *)token->data, token->count);
    else if (token->type == MP_BIN && token->count > 0)
        mp_json_hex(&(struct mp_sink){add_piece, text}, token);
    else if (token->type == MP_BOOL)
        cli_text_str(text, token->uint != 0 ? "yes" : "no");
    else if (token->type == MP_UINT || token->type == MP_INT || token->type == MP_FLOAT)
        add_scalar(text, token);
    else
        cli_text_str(text, "-");
}

/* ---- YAML ------------------------------------------------------------------------------------ */

/* A word that no YAML reader takes for anything but a string. */
static bool is_plain_word(const char *data, size_t len)
{
    static const char *const taken[] = {"true", "false", "yes", "no", "on",
                                        "off",  "null",  "y",   "n"};
    if (len == 0 || !((data[0] >= 'a' && data[0] <= 'z') || (data[0] >= 'A' && data[0] <= 'Z')))
        return false;
    for (size_t i = 1; i < len; i++) {
        const char c = data[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-' || c == '.' || c == '/'))
            return false;
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strlen(taken[i]) == len && strncasecmp(taken[i], data, len) == 0)
            return false;
    return true;
}

static void add_yaml_scalar(struct cli_text *text, const struct mp_token *token)
{
    if (token->type == MP_STR && is_plain_word((const char *)token->data, token->count))
        cli_text_add(text, (const char *)token->data, token->count);
    else
        add_scalar(text, token);
}

static void add_yaml_key(struct cli_text *text, const struct mp_token *token)
{
    if (token->type == MP_STR)
        add_yaml_scalar(text, token);
    else
        mp_json_key(&(struct mp_sink){add_piece, text}, token);
}

struct yaml {
    struct cli_text *text;
    struct mp_walk walk;
    size_t indent_base; /* containers around the value that are not on the stack */
    bool inline_start;  /* the line already holds the "- " or indentation of what comes next */
};

static void start_line(struct yaml *yaml)
{
    if (!yaml->inline_start) {
        ASSERT(yaml->indent_base + yaml->walk.depth > 0);
        cli_text_fill(yaml->text, ' ', 2 * (yaml->indent_base + yaml->walk.depth - 1));
    }
    yaml->inline_start = false;
}

/* Writes a value behind its key or dash, or opens it when it is a container with something in it.
 */
static void add_yaml_value(struct yaml *yaml, const struct mp_token *token, bool behind_key)
{
    if (!mp_is_container(token) || yaml->walk.depth == MP_WALK_MAX) {
        cli_text_str(yaml->text, behind_key ? " " : "");
        add_yaml_scalar(yaml->text, token);
        cli_text_str(yaml->text, "\n");
        return;
    }
    if (token->count == 0) {
        cli_text_str(yaml->text, behind_key ? " " : "");
        cli_text_str(yaml->text, token->type == MP_MAP ? "{}\n" : "[]\n");
        return;
    }
    if (behind_key)
        cli_text_str(yaml->text, "\n");
    yaml->inline_start = !behind_key && (yaml->walk.depth > 0 || yaml->indent_base > 0);
    mp_walk_push(&yaml->walk, token);
}

void cli_yaml(struct cli_text *text, const struct mp_token *tokens, size_t count, bool item)
{
    struct yaml yaml = {.text = text, .indent_base = item ? 1 : 0};
    const size_t used = mp_value_len(tokens, count);
    if (item)
        cli_text_str(text, "- ");
    for (size_t i = 0; i < used; i++) {
        struct mp_frame *frame = mp_walk_top(&yaml.walk);
        ASSERT(frame == NULL || frame->left > 0); /* DOCUMENT-1 */
        if (mp_walk_at_key(frame)) {
            start_line(&yaml);
            add_yaml_key(text, &tokens[i]);
            cli_text_str(text, ":");
            frame->left--;
            if (mp_is_container(&tokens[i]))
                i += mp_value_len(&tokens[i], used - i) - 1;
            continue;
        }
        bool behind_key = false;
        if (frame != NULL) {
            behind_key = frame->map;
            frame->left--;
            if (!frame->map) {
                start_line(&yaml);
                cli_text_str(text, "- ");
            }
        }
        add_yaml_value(&yaml, &tokens[i], behind_key);
        while (yaml.walk.depth > 0 && mp_walk_top(&yaml.walk)->left == 0)
            yaml.walk.depth--;
    }
}
