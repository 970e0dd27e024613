/* yaml_reader.h - a YAML (or JSON) text as a bounded tree, read with typed, place-naming getters.
 *
 * Rules and configuration are written by people, so every refusal names line, column, what was
 * found and what was expected. Whoever reads a mapping lists its fields in a table; unknown,
 * repeated and missing keys are then found here, once for all files.
 *
 *   struct yaml_reader_field fields[] = {{"name", YAML_READER_REQUIRED, 0}, ...};
 *   if (yaml_reader_fields(&reader, node, "rule", fields, count) != 0) ...
 *   if (fields[0].node != YAML_READER_NONE) yaml_reader_text(&reader, fields[0].node, ...)
 *
 * YAMLREADER-1  The first error stays; later ones do not overwrite it, but are listed where all are
 *               wanted. Every failing call sets one.
 * YAMLREADER-2  The tree, its depth and what its aliases would expand to are bounded, whatever the
 *               bytes.
 *
 * Purely computes: reads no file. Allocates only in init. One thread at a time.
 */
#ifndef NODE_POLICY_READERS_YAML_READER_H
#define NODE_POLICY_READERS_YAML_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "node/policy/model/chunks.h"

enum {
    YAML_READER_LEN_MAX = 16 * 1024 * 1024,      /* bytes of input */
    YAML_READER_DEPTH_MAX = 48,                  /* lists and mappings inside each other */
    YAML_READER_NODES_MAX = 1024 * 1024,         /* scalars, lists and mappings */
    YAML_READER_ANCHORS_MAX = 256,               /* &names */
    YAML_READER_EXPANDED_MAX = 64 * 1024 * 1024, /* bytes and nodes if aliases were copies */
    YAML_READER_ERRORS_MAX = 20,
    YAML_READER_MESSAGE_LEN = 256,
    YAML_READER_SHOWN_LEN = 52
};

#define YAML_READER_NONE UINT32_MAX

/* A place (from 1; 0 = none, as when memory ran out) and a sentence. */
struct yaml_reader_error {
    uint32_t line;
    uint32_t column;
    char message[YAML_READER_MESSAGE_LEN];
};

/* All that is wrong, in the order in which it was found, as far as there is room. */
struct yaml_reader_errors {
    uint32_t count; /* of the list */
    uint32_t more;  /* that have no room */
    struct yaml_reader_error list[YAML_READER_ERRORS_MAX];
};

enum yaml_reader_kind { YAML_READER_SCALAR, YAML_READER_LIST, YAML_READER_MAPPING };

struct yaml_reader_node {
    const char *text; /* SCALAR: NUL-terminated, without NULs inside */
    uint32_t len;     /* SCALAR: bytes; LIST: elements; MAPPING: pairs */
    uint32_t first;   /* LIST, MAPPING: first child, or NONE; a mapping's are key, value, key.. */
    uint32_t next;    /* next sibling, or NONE */
    uint32_t line;    /* from 1 */
    uint32_t column;  /* from 1, in characters */
    uint32_t weight;  /* bytes and nodes of this subtree with aliases counted as copies */
    uint8_t kind;     /* enum yaml_reader_kind */
    bool plain;       /* SCALAR: written without quotes */
    bool open;        /* LIST, MAPPING: its end was not reached yet */
};

struct yaml_reader {
    struct chunks chunks; /* the nodes' texts */
    struct yaml_reader_node *nodes;
    uint32_t node_count;
    uint32_t node_capacity;
    uint32_t root; /* NONE for an empty text; of a stream, `next` of it is the next document's */
    struct yaml_reader_error *error;
    struct yaml_reader_errors *all; /* NULL, as init leaves it: the first error ends the reading */
};

/* Parses `len` bytes of UTF-8. 0, or TG_EINVALID / TG_ENOMEM with `error` filled. After a failure
 * nothing is held. The text need not outlive the call; `error` must outlive the reader. */
MUST_USE int yaml_reader_init(struct yaml_reader *reader, const char *text, size_t len,
                              const struct allocator *allocator, struct yaml_reader_error *error);
/* The same of a text that may hold several documents, each behind a line of `---`. */
MUST_USE int yaml_reader_init_stream(struct yaml_reader *reader, const char *text, size_t len,
                                     const struct allocator *allocator,
                                     struct yaml_reader_error *error);
/* Gives the tree back; all texts got from it are gone. */
void yaml_reader_fini(struct yaml_reader *reader);

/* The node; `index` is one that the reader gave out, not NONE. */
const struct yaml_reader_node *yaml_reader_at(const struct yaml_reader *reader, uint32_t index);

/* Whether the node is a value left out, or one of YAML's words for it. */
bool yaml_reader_is_nothing(const struct yaml_reader *reader, uint32_t index);

/* Records an error at the node unless there is one (YAMLREADER-1). Always TG_EINVALID. */
__attribute__((format(printf, 3, 4))) int yaml_reader_fail(const struct yaml_reader *reader,
                                                           uint32_t node, const char *format, ...);
/* Takes what one part of a text came to. True if there may be more to read behind it: it was good,
 * or all errors are wanted. *result keeps the failure. */
bool yaml_reader_goes_on(const struct yaml_reader *reader, int part, int *result);
/* What the node is, for an error sentence: "\"text\"" shortened and made printable, "a list",
 * "a mapping" or "nothing". Returns `out`, which has YAML_READER_SHOWN_LEN bytes. */
const char *yaml_reader_shown(const struct yaml_reader *reader, uint32_t node, char *out);

enum yaml_reader_need { YAML_READER_OPTIONAL, YAML_READER_REQUIRED };

struct yaml_reader_field {
    const char *name;
    uint8_t need;  /* enum yaml_reader_need */
    uint32_t node; /* out: the value, or NONE when the key is absent */
};

/* Reads a mapping into a table of fields. Each getter below and this one: `what` names the node in
 * error sentences; 0, or TG_EINVALID with the error set. */
MUST_USE int yaml_reader_fields(const struct yaml_reader *reader, uint32_t node, const char *what,
                                struct yaml_reader_field *fields, size_t count);

/* A scalar of min..max bytes. `*text` is NUL-terminated and lives as long as the reader. */
MUST_USE int yaml_reader_text(const struct yaml_reader *reader, uint32_t node, const char *what,
                              size_t len_min, size_t len_max, const char **text, size_t *len);
/* A whole decimal number between min and max, written without quotes. */
MUST_USE int yaml_reader_int(const struct yaml_reader *reader, uint32_t node, const char *what,
                             int64_t min, int64_t max, int64_t *value);
/* true or false, written without quotes. */
MUST_USE int yaml_reader_bool(const struct yaml_reader *reader, uint32_t node, const char *what,
                              bool *value);

struct yaml_reader_word {
    const char *text;
    int number; /* what yaml_reader_word gives */
};

/* One of the words; the error lists them. */
MUST_USE int yaml_reader_word(const struct yaml_reader *reader, uint32_t node, const char *what,
                              const struct yaml_reader_word *words, size_t count, int *number);
/* A list of min..max elements: walk it with `first` and `next` of its nodes. */
MUST_USE int yaml_reader_list(const struct yaml_reader *reader, uint32_t node, const char *what,
                              uint32_t min, uint32_t max);
/* A mapping of min..max pairs with free keys, none of them twice: its children alternate. */
MUST_USE int yaml_reader_mapping(const struct yaml_reader *reader, uint32_t node, const char *what,
                                 uint32_t min, uint32_t max);

#endif
