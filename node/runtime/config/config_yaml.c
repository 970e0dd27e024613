/* config_yaml.c - the configuration file: one mapping of the options' names.
 *
 *   base_port: 7700
 *   seed: [10.0.0.1:7602, 10.0.0.2:7602]      # or one text
 *
 * CONFIGYAML-1  Every refusal begins with FILE:LINE:COLUMN of the key or value that is wrong.
 * CONFIGYAML-2  A file that was refused may have set some options: the caller gives the whole thing
 *               up.
 *
 * Must not: know what a value means.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "node/policy/readers/yaml_reader.h"
#include "node/runtime/config/config_auth.h"
#include "node/runtime/config/config_option.h"

enum { FILE_LEN_MAX = 1 << 20, WHERE_LEN = 160 };

/* What is being read: for the place in sentences. */
struct source {
    const char *path;
    const struct yaml_reader *reader;
    struct config *config;
    char *error; /* CONFIG_ERROR_LEN */
};

/* The end of a long path says more than its beginning. */
static const char *path_shown(const char *path)
{
    const size_t len = strlen(path);

    return len < WHERE_LEN ? path : path + (len - WHERE_LEN);
}

/* FILE:LINE:COLUMN: what was found and expected (CONFIGYAML-1). */
static int refuse_at(const struct source *source, uint32_t line, uint32_t column, const char *key,
                     const char *why)
{
    (void)snprintf(source->error, CONFIG_ERROR_LEN, "%s:%" PRIu32 ":%" PRIu32 ": %s%s%s",
                   path_shown(source->path), line, column, key, key[0] != '\0' ? ": " : "", why);
    return TG_EINVALID;
}

static int refuse_unknown(const struct source *source, const struct yaml_reader_node *key)
{
    char shown[CONFIG_SHOWN_LEN];
    char nearest[CONFIG_NAME_MAX];
    char why[CONFIG_WHY_LEN];

    config_option_nearest(key->text, '_', nearest);
    if (nearest[0] != '\0')
        (void)snprintf(why, sizeof(why), "found unknown key %s; did you mean %s?",
                       config_shown(key->text, shown), nearest);
    else
        (void)snprintf(why, sizeof(why),
                       "found unknown key %s; expected a flag's name as in "
                       "tidegated --help, with underscores",
                       config_shown(key->text, shown));
    return refuse_at(source, key->line, key->column, "", why);
}

static int apply_scalar(const struct source *source, const struct config_option *option,
                        const char *key, uint32_t index)
{
    const struct yaml_reader_node *value = yaml_reader_at(source->reader, index);
    char why[CONFIG_WHY_LEN];
    const char *text;
    size_t len;

    if (yaml_reader_text(source->reader, index, key, 0, CONFIG_PATH_LEN - 1, &text, &len) != TG_OK)
        return TG_EINVALID; /* the reader's error is taken over by the caller */
    if (config_option_set(option, source->config, text, why) != TG_OK)
        return refuse_at(source, value->line, value->column, key, why);
    return TG_OK;
}

static int apply_pair(const struct source *source, uint32_t key_index)
{
    const struct yaml_reader_node *key = yaml_reader_at(source->reader, key_index);
    const struct config_option *option = config_option_find(key->text, '_');

    if (option == NULL || option->flag_only)
        return refuse_unknown(source, key);
    if (option->kind == CONFIG_KIND_AUTH &&
        yaml_reader_at(source->reader, key->next)->kind == YAML_READER_MAPPING)
        return config_auth_read(source->reader, key->next, &source->config->between.auth);
    if (!config_option_repeats(option) ||
        yaml_reader_at(source->reader, key->next)->kind != YAML_READER_LIST)
        return apply_scalar(source, option, key->text, key->next);
    uint32_t item = yaml_reader_at(source->reader, key->next)->first;
    while (item != YAML_READER_NONE) {
        if (apply_scalar(source, option, key->text, item) != TG_OK)
            return TG_EINVALID;
        item = yaml_reader_at(source->reader, item)->next;
    }
    return TG_OK;
}

static int apply_tree(const struct source *source)
{
    const struct yaml_reader *reader = source->reader;

    if (reader->root == YAML_READER_NONE)
        return TG_OK;
    if (yaml_reader_mapping(reader, reader->root, "configuration", 0, CONFIG_OPTIONS_MAX) != TG_OK)
        return TG_EINVALID;
    uint32_t key = yaml_reader_at(reader, reader->root)->first;
    while (key != YAML_READER_NONE) {
        if (apply_pair(source, key) != TG_OK)
            return TG_EINVALID;
        key = yaml_reader_at(reader, yaml_reader_at(reader, key)->next)->next;
    }
    return TG_OK;
}

int config_yaml_apply_text(const char *path, const char *text, size_t len, struct config *config,
                           char error[CONFIG_ERROR_LEN])
{
    struct yaml_reader_error reader_error = {.line = 0};
    struct yaml_reader reader;
    struct source source = {.path = path, .reader = &reader, .config = config, .error = error};

    error[0] = '\0';
    int result = yaml_reader_init(&reader, text, len, alloc_heap(), &reader_error);
    if (result == TG_OK) {
        result = apply_tree(&source);
        yaml_reader_fini(&reader);
    }
    if (result == TG_OK)
        return TG_OK;
    if (error[0] == '\0')
        (void)refuse_at(&source, reader_error.line, reader_error.column, "",
                        result == TG_ENOMEM ? error_message(result) : reader_error.message);
    return TG_EINVALID;
}

/* Reads at most `capacity` bytes; the length, or -1 with errno. */
static long read_whole(const char *path, char *out, size_t capacity)
{
    FILE *file = fopen(path, "rbe");

    if (file == NULL)
        return -1;
    const size_t len = fread(out, 1, capacity, file);
    const int failed = ferror(file) != 0 ? errno : 0;
    (void)fclose(file);
    errno = failed;
    return failed != 0 ? -1 : (long)len;
}

int config_yaml_apply(const char *path, struct config *config, char error[CONFIG_ERROR_LEN])
{
    char *text = alloc_get(alloc_heap(), FILE_LEN_MAX);
    int result = TG_EINVALID;

    if (text == NULL) {
        (void)snprintf(error, CONFIG_ERROR_LEN, "%s: %s", path_shown(path),
                       error_message(TG_ENOMEM));
        return TG_EINVALID;
    }
    const long len = read_whole(path, text, FILE_LEN_MAX);
    if (len < 0)
        (void)snprintf(error, CONFIG_ERROR_LEN, "--config: cannot read %s: %s", path_shown(path),
                       strerror(errno));
    else if (len == FILE_LEN_MAX)
        (void)snprintf(error, CONFIG_ERROR_LEN, "--config: %s is larger than expected (%d bytes)",
                       path_shown(path), FILE_LEN_MAX - 1);
    else
        result = config_yaml_apply_text(path, text, (size_t)len, config, error);
    alloc_put(alloc_heap(), text, FILE_LEN_MAX);
    return result;
}
