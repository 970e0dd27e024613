/* support_vectors.c - a line reader for the vectors file: "## name", then "field: text" lines. */
#include "tests/unit/support_vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t read_hex(const char *text, uint8_t *out, size_t capacity)
{
    size_t len = 0;
    unsigned byte;

    for (; sscanf(text, "%2x", &byte) == 1 && len < capacity; text += 2)
        out[len++] = (uint8_t)byte;
    assert_int_equal(strlen(text), 0);
    return len;
}

static void read_field(struct vector *vector, const char *field, const char *text)
{
    if (strcmp(field, "frame") == 0 || strcmp(field, "identity") == 0)
        vector->len = read_hex(text, vector->frame, sizeof vector->frame);
    else if (strcmp(field, "error") == 0)
        (void)snprintf(vector->error, sizeof vector->error, "%s", text);
    else if (strcmp(field, "route_key") == 0)
        assert_int_equal(read_hex(text, vector->route_key, sizeof vector->route_key), 16);
    else if (strcmp(field, "vnodes") == 0)
        vector->vnodes = strtoul(text, NULL, 10);
    else if (strcmp(field, "vnode") == 0)
        vector->vnode = strtoul(text, NULL, 10);
    else
        assert_string_equal(field, "value"); /* which is for implementations with JSON */
}

size_t vectors_read(struct vector **vectors)
{
    FILE *file = fopen("client/protocol/vectors.txt", "r");
    size_t count = 0;
    char *line = NULL;
    size_t line_capacity = 0;

    assert_non_null(file);
    *vectors = calloc(VECTORS_MAX, sizeof **vectors);
    assert_non_null(*vectors);
    while (getline(&line, &line_capacity, file) > 0) {
        char *text;

        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "## ", 3) == 0) {
            assert_true(count < VECTORS_MAX);
            (void)snprintf((*vectors)[count++].name, VECTOR_NAME_LEN, "%s", line + 3);
        } else if (line[0] != '\0' && line[0] != '#') {
            text = strchr(line, ':');
            assert_non_null(text);
            *text = '\0';
            text += text[1] == ' ' ? 2 : 1;
            assert_true(count > 0);
            read_field(&(*vectors)[count - 1], line, text);
        }
    }
    free(line);
    assert_int_equal(fclose(file), 0);
    assert_true(count > 0);
    return count;
}
