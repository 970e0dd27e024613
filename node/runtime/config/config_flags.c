/* config_flags.c - argv into (option, value) pairs.
 *
 *   --flag VALUE    --flag=VALUE    --switch    --switch=false    -h
 *
 * Reading and applying are two steps, because --config has to be known before the other flags are
 * applied over the file.
 *
 * CONFIGFLAGS-1  No flag is taken twice but those that repeat (--seed, --client, --resp,
 *                --trusted-proxy): which of two would count is a guess.
 *
 * Must not: know what a value means.
 */
#include <stdio.h>
#include <string.h>

#include "node/runtime/config/config_option.h"

struct reader {
    int argc;
    const char *const *argv;
    int at; /* the next argument */
};

static int refuse_unknown(const char *argument, const char *name, char error[CONFIG_ERROR_LEN])
{
    char shown[CONFIG_SHOWN_LEN];
    char nearest[CONFIG_NAME_MAX];

    config_option_nearest(name, '-', nearest);
    if (nearest[0] != '\0')
        (void)snprintf(error, CONFIG_ERROR_LEN, "found unknown flag %s; did you mean --%s?",
                       config_shown(argument, shown), nearest);
    else
        (void)snprintf(error, CONFIG_ERROR_LEN,
                       "found unknown flag %s; tidegated --help lists all flags",
                       config_shown(argument, shown));
    return TG_EINVALID;
}

/* The value of a flag: behind "=", implied, or the next argument. */
static int read_value(struct reader *reader, const char *equals, struct config_argument *item,
                      char error[CONFIG_ERROR_LEN])
{
    const bool bare = config_option_bare(item->option);
    const char *next = reader->at < reader->argc ? reader->argv[reader->at] : NULL;

    if (equals != NULL) {
        item->value = equals + 1;
    } else if (bare) {
        item->value = "true";
    } else if (next != NULL && strncmp(next, "--", 2) != 0) {
        item->value = next;
        reader->at++;
    } else {
        (void)snprintf(error, CONFIG_ERROR_LEN, "--%s: found no value; expected %s",
                       item->option->name, item->option->value);
        return TG_EINVALID;
    }
    return TG_OK;
}

static bool is_repeated(const struct config_arguments *arguments,
                        const struct config_option *option)
{
    for (uint32_t i = 0; i < arguments->count; i++) {
        if (arguments->items[i].option == option)
            return !config_option_repeats(option); /* CONFIGFLAGS-1 */
    }
    return false;
}

/* Reads the argument at reader->at, and its value. */
static int read_argument(struct reader *reader, struct config_arguments *out,
                         char error[CONFIG_ERROR_LEN])
{
    const char *argument = reader->argv[reader->at++];
    const char *equals = strchr(argument, '=');
    struct config_argument item = {.option = NULL};
    char shown[CONFIG_SHOWN_LEN];
    char name[CONFIG_NAME_MAX];

    if (strcmp(argument, "-h") == 0)
        return CONFIG_HELP;
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0') {
        (void)snprintf(error, CONFIG_ERROR_LEN, "found argument %s; expected a flag such as --bind",
                       config_shown(argument, shown));
        return TG_EINVALID;
    }
    const size_t len = equals != NULL ? (size_t)(equals - argument) - 2 : strlen(argument) - 2;
    (void)snprintf(name, sizeof(name), "%.*s", (int)(len < sizeof(name) ? len : sizeof(name)),
                   argument + 2);
    item.option = len < sizeof(name) ? config_option_find(name, '-') : NULL;
    if (item.option == NULL)
        return refuse_unknown(argument, name, error);
    if (item.option->kind == CONFIG_KIND_HELP && equals == NULL)
        return CONFIG_HELP;
    if (item.option->kind == CONFIG_KIND_VERSION && equals == NULL)
        return CONFIG_VERSION;
    if (item.option->kind == CONFIG_KIND_HELP || item.option->kind == CONFIG_KIND_VERSION ||
        is_repeated(out, item.option) || out->count == CONFIG_ARGUMENTS_MAX) {
        (void)snprintf(error, CONFIG_ERROR_LEN, "--%s: found %s; expected it once, %s", name,
                       equals != NULL ? "it with a value or again" : "it again",
                       item.option->value != NULL ? "with one value" : "without value");
        return TG_EINVALID;
    }
    const int result = read_value(reader, equals, &item, error);
    if (result == TG_OK)
        out->items[out->count++] = item;
    return result;
}

int config_flags_read(int argc, const char *const *argv, struct config_arguments *out,
                      char error[CONFIG_ERROR_LEN])
{
    struct reader reader = {.argc = argc, .argv = argv, .at = 1};
    int result = TG_OK;

    out->count = 0;
    while (result == TG_OK && reader.at < argc)
        result = read_argument(&reader, out, error);
    return result;
}

static bool is_first(const struct config_arguments *arguments, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (arguments->items[i].option == arguments->items[at].option)
            return false;
    return true;
}

int config_flags_apply(const struct config_arguments *arguments, struct config *config,
                       char error[CONFIG_ERROR_LEN])
{
    char why[CONFIG_WHY_LEN];

    for (uint32_t i = 0; i < arguments->count; i++) {
        const struct config_argument *item = &arguments->items[i];
        if (config_option_repeats(item->option) && is_first(arguments, i))
            config_option_clear(item->option, config);
        if (config_option_set(item->option, config, item->value, why) != TG_OK) {
            (void)snprintf(error, CONFIG_ERROR_LEN, "--%s: %s", item->option->name, why);
            return TG_EINVALID;
        }
    }
    return TG_OK;
}
