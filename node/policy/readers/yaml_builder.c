/* yaml_builder.c - from the events of libyaml to the bounded tree of yaml_reader.h.
 *
 * libyaml's own document loader keeps every anchor in a list it searches for each new one, so a
 * hostile file of a few megabytes costs it hours. Its events are linear; the tree is built from
 * them here, in one array of nodes in document order:
 *
 *   a: [x, y]      0 MAPPING first=1     1 "a" next=2     2 LIST first=3     3 "x" next=4    4 "y"
 *
 * A stack holds the open lists and mappings with the child that was added last. An alias becomes a
 * node that shares its target's text or children, so it costs one node; what it would cost as a
 * copy is added up and bounded, because readers walk it as if it were one.
 *
 * YAMLBUILDER-1  Depth, nodes, anchors and expanded weight stay at or below their maximum
 *                (yaml_reader.h).
 * YAMLBUILDER-2  An alias points at a finished subtree: the tree has no cycles.
 * YAMLBUILDER-3  A scalar has no NUL inside, so its text is a C string.
 *
 * Must not: recurse, read files, or give a meaning to any key.
 */
#include "node/policy/readers/yaml_reader.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/assert.h"

enum {
    NODES_FIRST = 1024,                            /* grown by doubling */
    TEXT_LEN_MAX = YAML_READER_EXPANDED_MAX + 1024 /* of the chunks, counted roughly */
};
static_assert(YAML_READER_EXPANDED_MAX >= 2 * YAML_READER_LEN_MAX,
              "a file without aliases is never refused for its expansion");
static_assert((YAML_READER_NODES_MAX & (YAML_READER_NODES_MAX - 1)) == 0 &&
                  YAML_READER_NODES_MAX % NODES_FIRST == 0,
              "doubling ends at the maximum");

struct anchor {
    const char *name;
    uint32_t node;
};

struct builder {
    struct yaml_reader *reader;
    uint32_t open[YAML_READER_DEPTH_MAX]; /* the lists and mappings that did not end yet */
    uint32_t last[YAML_READER_DEPTH_MAX]; /* and the newest child of each */
    uint32_t children[YAML_READER_DEPTH_MAX];
    uint32_t depth;
    uint32_t anchor_count;
    uint32_t last_root; /* of a stream: the document before, or NONE */
    bool stream;
    uint64_t expanded;
    bool finished;
    struct anchor anchors[YAML_READER_ANCHORS_MAX];
};

/* Records an error at a place of the text. Always TG_EINVALID. */
static int fail_at(struct builder *builder, const yaml_mark_t *mark, const char *message)
{
    struct yaml_reader_error *error = builder->reader->error;

    error->line = (uint32_t)mark->line + 1;
    error->column = (uint32_t)mark->column + 1;
    (void)snprintf(error->message, sizeof(error->message), "%s", message);
    return TG_EINVALID;
}

static int fail_memory(struct builder *builder)
{
    struct yaml_reader_error *error = builder->reader->error;

    *error = (struct yaml_reader_error){0};
    (void)snprintf(error->message, sizeof(error->message), "out of memory while reading YAML");
    return TG_ENOMEM;
}

static int grow_nodes(struct builder *builder)
{
    struct yaml_reader *reader = builder->reader;
    const uint32_t capacity = reader->node_capacity == 0 ? NODES_FIRST : reader->node_capacity * 2;
    struct yaml_reader_node *nodes =
        alloc_array(reader->chunks.allocator, capacity, sizeof(*nodes));

    if (nodes == NULL)
        return fail_memory(builder);
    if (reader->nodes != NULL) {
        memcpy(nodes, reader->nodes, reader->node_count * sizeof(*nodes));
        alloc_put(reader->chunks.allocator, reader->nodes, reader->node_capacity * sizeof(*nodes));
    }
    reader->nodes = nodes;
    reader->node_capacity = capacity;
    return TG_OK;
}

/* Appends a node, or a negative error. The weight is what the node adds by itself. */
static int add_node(struct builder *builder, const yaml_mark_t *mark,
                    const struct yaml_reader_node *node, uint32_t *index)
{
    struct yaml_reader *reader = builder->reader;

    if (reader->node_count == YAML_READER_NODES_MAX)
        return fail_at(builder, mark, "too many values; expected at most 1048576 in a file");
    builder->expanded += node->weight;
    if (builder->expanded > YAML_READER_EXPANDED_MAX)
        return fail_at(builder, mark, "aliases expand to more than 64 MiB; expected fewer aliases");
    if (reader->node_count == reader->node_capacity) {
        const int result = grow_nodes(builder);
        if (result != TG_OK)
            return result;
    }
    ASSERT(reader->node_count < reader->node_capacity); /* YAMLBUILDER-1 */
    *index = reader->node_count++;
    reader->nodes[*index] = *node;
    reader->nodes[*index].next = YAML_READER_NONE;
    reader->nodes[*index].line = (uint32_t)mark->line + 1;
    reader->nodes[*index].column = (uint32_t)mark->column + 1;
    return TG_OK;
}

/* Hangs a node below the innermost open one, or makes it the root. */
static int attach(struct builder *builder, const yaml_mark_t *mark, uint32_t index)
{
    struct yaml_reader_node *nodes = builder->reader->nodes;

    ASSERT(index < builder->reader->node_count && builder->depth <= YAML_READER_DEPTH_MAX);
    if (builder->depth == 0) {
        if (builder->last_root == YAML_READER_NONE)
            builder->reader->root = index;
        else if (builder->stream)
            nodes[builder->last_root].next = index;
        else
            return fail_at(builder, mark, "a second document; expected one document in a file");
        builder->last_root = index;
        return TG_OK;
    }
    const uint32_t top = builder->depth - 1;
    const struct yaml_reader_node *parent = &nodes[builder->open[top]];
    const bool is_key = parent->kind == YAML_READER_MAPPING && builder->children[top] % 2 == 0;
    if (is_key && nodes[index].kind != YAML_READER_SCALAR)
        return fail_at(builder, mark, "a list or mapping as a key; expected a text as a key");
    if (builder->children[top] == 0)
        nodes[builder->open[top]].first = index;
    else
        nodes[builder->last[top]].next = index;
    builder->last[top] = index;
    builder->children[top]++;
    return TG_OK;
}

/* Adds a finished node's weight to what contains it, so that an alias knows what it repeats. */
static void weigh(struct builder *builder, uint32_t index)
{
    struct yaml_reader_node *nodes = builder->reader->nodes;

    if (builder->depth > 0)
        nodes[builder->open[builder->depth - 1]].weight += nodes[index].weight;
}

static int add_anchor(struct builder *builder, const yaml_event_t *event, const yaml_char_t *name,
                      uint32_t index)
{
    const char *text = (const char *)name;

    if (text == NULL)
        return TG_OK;
    if (builder->anchor_count == YAML_READER_ANCHORS_MAX)
        return fail_at(builder, &event->start_mark,
                       "too many anchors; expected at most 256 in a file");
    char *copy = chunks_copy(&builder->reader->chunks, text, strlen(text));
    if (copy == NULL)
        return fail_memory(builder);
    ASSERT(index < builder->reader->node_count);
    builder->anchors[builder->anchor_count++] = (struct anchor){copy, index};
    return TG_OK;
}

static int on_scalar(struct builder *builder, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    const size_t len = event->data.scalar.length;
    uint32_t index;

    if (event->data.scalar.tag != NULL)
        return fail_at(builder, &event->start_mark, "a tag; expected values without tags");
    if (memchr(value, '\0', len) != NULL)
        return fail_at(builder, &event->start_mark, "a NUL character; expected text without it");
    char *copy = chunks_copy(&builder->reader->chunks, value, len);
    if (copy == NULL)
        return fail_memory(builder);
    const struct yaml_reader_node node = {
        .kind = YAML_READER_SCALAR,
        .text = copy,
        .len = (uint32_t)len,
        .first = YAML_READER_NONE,
        .weight = (uint32_t)len + 1,
        .plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
    };
    int result = add_node(builder, &event->start_mark, &node, &index);
    if (result == TG_OK)
        result = attach(builder, &event->start_mark, index);
    if (result == TG_OK)
        result = add_anchor(builder, event, event->data.scalar.anchor, index);
    if (result == TG_OK)
        weigh(builder, index);
    return result;
}

static int on_start(struct builder *builder, const yaml_event_t *event, enum yaml_reader_kind kind,
                    const yaml_char_t *tag, const yaml_char_t *anchor)
{
    const struct yaml_reader_node node = {
        .kind = (uint8_t)kind, .first = YAML_READER_NONE, .weight = 1, .open = true};
    uint32_t index;

    if (tag != NULL)
        return fail_at(builder, &event->start_mark, "a tag; expected values without tags");
    if (builder->depth == YAML_READER_DEPTH_MAX)
        return fail_at(builder, &event->start_mark,
                       "nested too deep; expected at most 48 lists and mappings inside each other");
    int result = add_node(builder, &event->start_mark, &node, &index);
    if (result == TG_OK)
        result = attach(builder, &event->start_mark, index);
    if (result == TG_OK)
        result = add_anchor(builder, event, anchor, index);
    if (result != TG_OK)
        return result;
    builder->open[builder->depth] = index;
    builder->children[builder->depth] = 0;
    builder->depth++;
    return TG_OK;
}

static int on_end(struct builder *builder)
{
    ASSERT(builder->depth > 0);
    const uint32_t top = --builder->depth;
    struct yaml_reader_node *node = &builder->reader->nodes[builder->open[top]];

    ASSERT(node->open && node->kind != YAML_READER_SCALAR); /* YAMLBUILDER-2 */
    node->open = false;
    node->len =
        node->kind == YAML_READER_MAPPING ? builder->children[top] / 2 : builder->children[top];
    weigh(builder, builder->open[top]);
    return TG_OK;
}

static int on_alias(struct builder *builder, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    uint32_t found = YAML_READER_NONE;
    uint32_t index;

    /* A later anchor of the same name replaces an earlier one, so the last match counts. */
    for (uint32_t i = 0; i < builder->anchor_count; i++) {
        if (strcmp(builder->anchors[i].name, name) == 0)
            found = builder->anchors[i].node;
    }
    if (found == YAML_READER_NONE)
        return fail_at(builder, &event->start_mark, "an unknown alias; expected a name set by &");
    ASSERT(found < builder->reader->node_count);
    const struct yaml_reader_node node = builder->reader->nodes[found];
    if (node.open)
        /* YAMLBUILDER-2 */
        return fail_at(builder, &event->start_mark, "an alias inside of what it names");
    int result = add_node(builder, &event->start_mark, &node, &index);
    if (result == TG_OK)
        result = attach(builder, &event->start_mark, index);
    if (result == TG_OK)
        weigh(builder, index);
    return result;
}

static int on_event(struct builder *builder, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(builder, event);
    case YAML_SEQUENCE_START_EVENT:
        return on_start(builder, event, YAML_READER_LIST, event->data.sequence_start.tag,
                        event->data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT:
        return on_start(builder, event, YAML_READER_MAPPING, event->data.mapping_start.tag,
                        event->data.mapping_start.anchor);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_end(builder);
    case YAML_ALIAS_EVENT:
        return on_alias(builder, event);
    case YAML_STREAM_END_EVENT:
        builder->finished = true;
        return TG_OK;
    case YAML_DOCUMENT_START_EVENT:
        builder->anchor_count = 0; /* names are of one document */
        return TG_OK;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return TG_OK;
    }
    return TG_OK;
}

/* libyaml gives a byte offset, not a mark, for bytes that are no characters. What is before them is
 * characters: all bytes but the first of one are 10xxxxxx. */
static yaml_mark_t mark_of_offset(const char *text, size_t len, size_t offset)
{
    yaml_mark_t mark = {0};

    for (size_t i = 0; i < offset && i < len; i++) {
        const bool crlf = text[i] == '\r' && i + 1 < len && text[i + 1] == '\n';
        mark.column += ((unsigned char)text[i] & 0xc0) != 0x80;
        if ((text[i] == '\n' || text[i] == '\r') && !crlf) {
            mark.line++;
            mark.column = 0;
        }
    }
    return mark;
}

static int fail_syntax(struct builder *builder, const yaml_parser_t *parser, const char *text,
                       size_t len)
{
    char message[YAML_READER_MESSAGE_LEN];

    if (parser->error == YAML_MEMORY_ERROR)
        return fail_memory(builder);
    const bool in_reader = parser->error == YAML_READER_ERROR;
    const yaml_mark_t mark =
        in_reader ? mark_of_offset(text, len, parser->problem_offset) : parser->problem_mark;
    (void)snprintf(message, sizeof(message), "YAML syntax: %s%s%s; expected well-formed YAML",
                   parser->problem == NULL ? "error" : parser->problem,
                   parser->context == NULL ? "" : " ",
                   parser->context == NULL ? "" : parser->context);
    return fail_at(builder, &mark, message);
}

static int build(struct builder *builder, yaml_parser_t *parser, const char *text, size_t len)
{
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(parser, (const unsigned char *)text, len);
    while (!builder->finished) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return fail_syntax(builder, parser, text, len);
        const int result = on_event(builder, &event);
        yaml_event_delete(&event);
        if (result != TG_OK)
            return result;
    }
    return TG_OK;
}

static int init(struct yaml_reader *reader, const char *text, size_t len, bool stream,
                const struct allocator *allocator, struct yaml_reader_error *error)
{
    static const char bom[] = "\xef\xbb\xbf";
    const bool marked = len >= sizeof(bom) - 1 && memcmp(text, bom, sizeof(bom) - 1) == 0;
    const size_t from = marked ? sizeof(bom) - 1 : 0; /* no editor counts it as a column */
    struct builder builder = {.reader = reader, .last_root = YAML_READER_NONE, .stream = stream};
    const yaml_mark_t start = {0};
    yaml_parser_t parser;

    ASSERT(text != NULL || len == 0);
    *reader = (struct yaml_reader){.root = YAML_READER_NONE, .error = error};
    *error = (struct yaml_reader_error){0};
    /* Every text costs its bytes, a NUL and rounding; 32 bytes a node bound the last two. */
    chunks_init(&reader->chunks, allocator, TEXT_LEN_MAX + (size_t)32 * YAML_READER_NODES_MAX);
    if (len > YAML_READER_LEN_MAX)
        return fail_at(&builder, &start, "the file is too large; expected at most 16 MiB");
    if (!yaml_parser_initialize(&parser))
        return fail_memory(&builder);
    const int result = build(&builder, &parser, text == NULL ? "" : text + from, len - from);
    yaml_parser_delete(&parser);
    if (result != TG_OK)
        yaml_reader_fini(reader);
    return result;
}

int yaml_reader_init(struct yaml_reader *reader, const char *text, size_t len,
                     const struct allocator *allocator, struct yaml_reader_error *error)
{
    return init(reader, text, len, false, allocator, error);
}

int yaml_reader_init_stream(struct yaml_reader *reader, const char *text, size_t len,
                            const struct allocator *allocator, struct yaml_reader_error *error)
{
    return init(reader, text, len, true, allocator, error);
}

void yaml_reader_fini(struct yaml_reader *reader)
{
    chunks_fini(&reader->chunks);
    if (reader->nodes != NULL)
        alloc_put(reader->chunks.allocator, reader->nodes,
                  reader->node_capacity * sizeof(*reader->nodes));
    reader->nodes = NULL;
    reader->node_count = 0;
    reader->node_capacity = 0;
    reader->root = YAML_READER_NONE;
}
