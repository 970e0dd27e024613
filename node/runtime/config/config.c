/* config.c - the order in which a configuration comes together. See config.h.
 *
 *   argv --> flags --(--config)--> file
 *       defaults <- OTEL_... <- file <- flags --> name of the host --> check --> struct config
 *
 * CONFIG-4  A later source overrides an earlier one, option by option; a list is replaced whole.
 *
 * Must not: print, exit, or open anything but the file that --config names.
 */
#include "node/runtime/config/config.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gossip/swim.h"
#include "node/cluster/model/view.h"
#include "node/runtime/config/config_option.h"
#include "node/runtime/config/config_telemetry.h"

static_assert((int)CONFIG_ADDRESS_LEN <= (int)VIEW_TEXT_LEN, "addresses fit member records");
static_assert((int)CONFIG_ADDRESS_LEN <= (int)SWIM_ADDRESS_LEN, "and gossip");
static_assert((int)CONFIG_NAME_LEN <= (int)SWIM_NAME_LEN, "names fit gossip");
static_assert((int)CONFIG_NAME_LEN <= (int)VIEW_TEXT_LEN, "and views");
static_assert((int)CONFIG_PLACE_LEN <= (int)SWIM_PLACE_LEN, "regions and zones fit gossip");
static_assert((int)CONFIG_SHARD_PORT_STEP == (int)VIEW_SHARD_PORT_STEP, "peers count as we do");
static_assert((int)CONFIG_SHARDS_MAX <= (int)VIEW_SHARDS_MAX, "peers know all shards");
static_assert((int)CONFIG_REPLICAS_MAX == (int)VIEW_REPLICATION_MAX, "all replicas are served");
static_assert((int)CONFIG_SEEDS_MAX <= (int)SWIM_SEEDS_MAX, "gossip takes all seeds");

/* The host's name up to its first dot, with '-' for what a node's name may not have. */
static void derive_name(struct config *config)
{
    const struct config_option *option = config_option_find("name", '-');
    char host[CONFIG_HOST_LEN] = "";
    char why[CONFIG_WHY_LEN];

    config->name_given = config->name[0] != '\0';
    if (config->name_given)
        return;
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '.' || host[0] == '\0')
        memcpy(host, "node", sizeof("node"));
    host[strcspn(host, ".")] = '\0';
    host[CONFIG_NAME_LEN - 1] = '\0';
    for (char *at = host; *at != '\0'; at++) {
        const char one[2] = {*at, '\0'};
        if (config_option_set(option, config, one, why) != TG_OK)
            *at = '-';
    }
    memcpy(config->name, host, CONFIG_NAME_LEN);
}

/* Half of what the container may have, for keys; the other half is for all else. */
static void derive_memory(struct config_room *room, const struct container *container)
{
    room->container = *container;
    room->memory_given = room->memory_bytes != 0;
    if (!room->memory_given)
        room->memory_bytes =
            container->memory_max == 0 ? CONFIG_MEMORY_DEFAULT : container->memory_max / 2;
}

/* The file that --config names, or NULL. */
static const char *named_file(const struct config_arguments *arguments)
{
    for (uint32_t i = 0; i < arguments->count; i++) {
        if (arguments->items[i].option->kind == CONFIG_KIND_FILE)
            return arguments->items[i].value;
    }
    return NULL;
}

static int parse(int argc, const char *const *argv, const struct container *container,
                 struct config *out, char error[CONFIG_ERROR_LEN])
{
    struct config_arguments arguments;
    int result = config_flags_read(argc, argv, &arguments, error);

    if (result != TG_OK)
        return result;
    const char *file = named_file(&arguments);
    config_option_defaults(out);
    config_telemetry_environment(out);
    if (file != NULL)
        result = config_yaml_apply(file, out, error);
    if (result == TG_OK)
        result = config_flags_apply(&arguments, out, error); /* CONFIG-4 */
    if (result != TG_OK)
        return result;
    derive_name(out);
    derive_memory(&out->room, container);
    return config_check(out, error);
}

int config_parse(int argc, const char *const *argv, const struct container *container,
                 struct config *out, char *error, size_t error_len)
{
    char sentence[CONFIG_ERROR_LEN] = "";
    const int result = parse(argc, argv, container, out, sentence);

    (void)snprintf(error, error_len, "%s", sentence);
    return result;
}
