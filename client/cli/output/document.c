/* document.c - walks tokens with an explicit stack and writes JSON or YAML; see document.h.
 *
 * A frame of the stack is an open container and how many values it still waits for. In a map
 * keys and values alternate, so an even number left means that a key comes next.
 *
 *   {"a": [1]}      tokens  MAP(1)   STR a      ARRAY(1)   UINT 1
 *                   stack   {2       {1         {0 [1      (all closed)
 */
#include "client/cli/output/document.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/utf8.h"

enum { STACK_MAX = MP_DEPTH_MAX + 1 };

struct frame {
    uint64_t left; /* values still to come; a map counts keys and values */
    bool map;
    bool first;
};

struct walk {
    struct frame frames[STACK_MAX];
    size_t depth;
};

static bool is_container(const struct mp_token *token)
{
    return token->type == MP_ARRAY || token->type == MP_MAP;
}

static void push(struct walk *walk, const struct mp_token *token)
{
    const bool map = token->type == MP_MAP;
    ASSERT(walk->depth < STACK_MAX && is_container(token)); /* DOCUMENT-2 */
    walk->frames[walk->depth++] = (struct frame){
        .left = map ? 2 * (uint64_t)token->count : token->count,
        .map = map,
        .first = true,
    };
}

static struct frame *top(struct walk *walk)
{
    return walk->depth > 0 ? &walk->frames[walk->depth - 1] : NULL;
}

static bool expects_key(const struct frame *frame)
{
    return frame != NULL && frame->map && frame->left % 2 == 0;
}

size_t cli_value_len(const struct mp_token *tokens, size_t count)
{
    uint64_t left = 1;
    size_t used = 0;
    while (left > 0 && used < count) {
        const struct mp_token *token = &tokens[used++];
        left--;
        if (is_container(token))
            left += token->type == MP_MAP ? 2 * (uint64_t)token->count : token->count;
    }
    ASSERT(used <= count);
    return used;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static void add_quoted(struct cli_text *text, const char *data, size_t len)
{
    cli_text_str(text, "\"");
    for (size_t i = 0; i < len;) {
        const size_t step = utf8_len(data + i, len - i);
        const char *at = data + i;
        i += step == 0 ? 1 : step;
        if (step == 0)
            cli_text_str(text, "\xef\xbf\xbd");
        else if (*at == '"' || *at == '\\')
            cli_text_format(text, "\\%c", *at);
        else if (*at == '\n')
            cli_text_str(text, "\\n");
        else if (*at == '\t')
            cli_text_str(text, "\\t");
        else if (step == 1 && ((uint8_t)*at < 0x20 || *at == 0x7f))
            cli_text_format(text, "\\u%04x", (unsigned)*at);
        else if (step == 2 && (uint8_t)at[0] == 0xc2 && (uint8_t)at[1] < 0xa0)
            cli_text_format(text, "\\u%04x", (unsigned)(uint8_t)at[1]);
        else if (step == 3 && (uint8_t)at[0] == 0xef && (uint8_t)at[1] == 0xbf &&
                 (uint8_t)at[2] >= 0xbe) /* YAML does not have them as they are */
            cli_text_format(text, "\\uff%02x", (unsigned)(uint8_t)at[2] + 0x40);
        else
            cli_text_add(text, at, step);
    }
    cli_text_str(text, "\"");
}

static void add_hex(struct cli_text *text, const struct mp_token *token)
{
    for (uint32_t i = 0; i < token->count; i++)
        cli_text_format(text, "%02x", token->data[i]);
}

/* The shortest of the two usual precisions that reads back as the same number. */
static void add_real(struct cli_text *text, double value)
{
    enum { REAL_LEN = 40 };
    char out[REAL_LEN];
    double again = 0;
    if (!isfinite(value)) {
        cli_text_str(text, "null");
        return;
    }
    (void)snprintf(out, sizeof out, "%.15g", value);
    if (sscanf(out, "%lf", &again) != 1 || again < value || again > value)
        (void)snprintf(out, sizeof out, "%.17g", value);
    cli_text_str(text, out);
}

/* Every scalar but strings looks the same in JSON and YAML. */
static void add_scalar(struct cli_text *text, const struct mp_token *token)
{
    switch (token->type) {
    case MP_BOOL:
        cli_text_str(text, token->uint != 0 ? "true" : "false");
        break;
    case MP_UINT:
        cli_text_format(text, "%llu", (unsigned long long)token->uint);
        break;
    case MP_INT:
        cli_text_format(text, "%lld", (long long)token->sint);
        break;
    case MP_FLOAT:
        add_real(text, token->real);
        break;
    case MP_STR:
        add_quoted(text, (const char *)token->data, token->count);
        break;
    case MP_BIN:
        cli_text_str(text, "\"");
        add_hex(text, token);
        cli_text_str(text, "\"");
        break;
    case MP_NIL:
    case MP_EXT:
    case MP_ARRAY:
    case MP_MAP:
    default:
        cli_text_str(text, "null");
        break;
    }
}

/* DOCUMENT-1: a key is a string, whatever it was. */
static void add_key(struct cli_text *text, const struct mp_token *token)
{
    const bool quoted = token->type == MP_STR || token->type == MP_BIN;
    if (!quoted)
        cli_text_str(text, "\"");
    add_scalar(text, token);
    if (!quoted)
        cli_text_str(text, "\"");
}

void cli_plain(struct cli_text *text, const struct mp_token *token)
{
    if (token->type == MP_STR && token->count > 0)
        cli_text_shown(text, (const char *)token->data, token->count);
    else if (token->type == MP_BIN && token->count > 0)
        add_hex(text, token);
    else if (token->type == MP_BOOL)
        cli_text_str(text, token->uint != 0 ? "yes" : "no");
    else if (token->type == MP_UINT || token->type == MP_INT || token->type == MP_FLOAT)
        add_scalar(text, token);
    else
        cli_text_str(text, "-");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void close_json(struct cli_text *text, struct walk *walk)
{
    while (walk->depth > 0 && top(walk)->left == 0) {
        cli_text_str(text, top(walk)->map ? "}" : "]");
        walk->depth--;
    }
}

void cli_json(struct cli_text *text, const struct mp_token *tokens, size_t count)
{
    struct walk walk = {.depth = 0};
    const size_t used = cli_value_len(tokens, count);
    for (size_t i = 0; i < used; i++) {
        struct frame *frame = top(&walk);
        const bool key = expects_key(frame);
        ASSERT(frame == NULL || frame->left > 0); /* DOCUMENT-1 */
        if (frame != NULL) {
            if (!frame->first && (key || !frame->map))
                cli_text_str(text, ",");
            frame->first = false;
            frame->left--;
        }
        if (key) {
            /* Containers as keys cannot be said in JSON; no node sends them. */
            add_key(text, &tokens[i]);
            cli_text_str(text, ":");
            if (is_container(&tokens[i]))
                i += cli_value_len(&tokens[i], used - i) - 1;
            continue;
        }
        if (is_container(&tokens[i]) && walk.depth < STACK_MAX) {
            cli_text_str(text, tokens[i].type == MP_MAP ? "{" : "[");
            push(&walk, &tokens[i]);
        } else {
            add_scalar(text, &tokens[i]);
        }
        close_json(text, &walk);
    }
    ASSERT(walk.depth == 0 || used == count); /* DOCUMENT-1: all is closed, but of a part */
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
        add_key(text, token);
}

struct yaml {
    struct cli_text *text;
    struct walk walk;
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
    if (!is_container(token) || yaml->walk.depth == STACK_MAX) {
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
    push(&yaml->walk, token);
}

void cli_yaml(struct cli_text *text, const struct mp_token *tokens, size_t count, bool item)
{
    struct yaml yaml = {.text = text, .indent_base = item ? 1 : 0};
    const size_t used = cli_value_len(tokens, count);
    if (item)
        cli_text_str(text, "- ");
    for (size_t i = 0; i < used; i++) {
        struct frame *frame = top(&yaml.walk);
        ASSERT(frame == NULL || frame->left > 0); /* DOCUMENT-1 */
        if (expects_key(frame)) {
            start_line(&yaml);
            add_yaml_key(text, &tokens[i]);
            cli_text_str(text, ":");
            frame->left--;
            if (is_container(&tokens[i]))
                i += cli_value_len(&tokens[i], used - i) - 1;
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
        while (yaml.walk.depth > 0 && top(&yaml.walk)->left == 0)
            yaml.walk.depth--;
    }
}
