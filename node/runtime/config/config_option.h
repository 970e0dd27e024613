/* config_option.h - the one table of what can be told to tidegated; for the config files only.
 *
 *     config.c           the order: defaults, file, flags, derived values, checks
 *     config_option.c    the table, names, defaults, the help text
 *     config_set.c       text --> field
 *     config_flags.c     argv --> (option, value)
 *     config_yaml.c      the file --> (option, value)
 *     config_check.c     what one option alone cannot tell
 *     config_endpoint.c  HOST:PORT
 *     config_telemetry.c  OTEL_... of the environment, addresses of collectors
 */
#ifndef NODE_RUNTIME_CONFIG_CONFIG_OPTION_H
#define NODE_RUNTIME_CONFIG_CONFIG_OPTION_H

#include "node/runtime/config/config.h"

enum config_kind {
    CONFIG_KIND_SWITCH,   /* bool; a flag without value, true or false in the file */
    CONFIG_KIND_NUMBER,   /* uint32_t, min..max */
    CONFIG_KIND_PORT,     /* uint16_t, 1..65535 */
    CONFIG_KIND_SIZE,     /* uint64_t bytes, min..max */
    CONFIG_KIND_DURATION, /* int64_t ns, min..max */
    CONFIG_KIND_PATH,     /* char[CONFIG_PATH_LEN] */
    CONFIG_KIND_NAME,     /* char[max + 1] of letters, digits, . _ - ; min..max bytes */
    CONFIG_KIND_TEXT,     /* char[max + 1] of min..max bytes of printable ASCII */
    CONFIG_KIND_RATIO,    /* uint32_t of TRACE_RATIO_ALL; 0 to 1, with six places at most */
    CONFIG_KIND_HOST,     /* char[CONFIG_HOST_LEN] */
    CONFIG_KIND_ENDPOINT, /* struct config_endpoint or off */
    CONFIG_KIND_LISTEN,   /* the same, and further places in `more`; repeatable */
    CONFIG_KIND_SEED,     /* one more of `seeds` */
    CONFIG_KIND_HOSTS,    /* one more of a struct config_hosts */
    CONFIG_KIND_TOLD,     /* struct config_endpoint that others reach, of CONFIG_ADDRESS_LEN */
    CONFIG_KIND_NETWORK,  /* one more of a struct networks */
    CONFIG_KIND_AUTH,     /* struct auth_endpoints; a mapping */
    CONFIG_KIND_ROLES,    /* uint8_t: enum right, or'd */
    CONFIG_KIND_WORD,     /* an enum, by the names of `words` */
    CONFIG_KIND_LEVEL,
    CONFIG_KIND_UNSUPPORTED, /* known, refused by name */
    CONFIG_KIND_FILE,        /* flags only: --config, read before all others */
    CONFIG_KIND_HELP,        /* flags only, no value */
    CONFIG_KIND_VERSION,     /* flags only, no value */
};

struct config_option {
    const char *name;    /* with dashes; underscores in the file */
    const char *in_file; /* how the file calls it, where that is not its name; with dashes */
    const char *value;   /* what the help text calls it; NULL for a switch */
    const char *initial; /* the default, set through the same setter; NULL: none or derived */
    const char *derived; /* what the help text says of a default that is derived, or NULL */
    const char *help;
    enum config_kind kind;
    const char *const *words; /* of a WORD: the names, in the order of its enum, and NULL */
    bool flag_only;
    bool may_be_off; /* of an endpoint: the word `off` is taken as well */
    size_t offset;   /* in struct config */
    size_t more;     /* likewise, of a struct config_listen */
    uint64_t min;
    uint64_t max;
};

enum { CONFIG_NAME_MAX = 32, CONFIG_OPTIONS_MAX = 64, CONFIG_WHY_LEN = 256, CONFIG_SHOWN_LEN = 56 };

/* How tidegated can end. */
struct config_exit {
    int status;
    const char *meaning;
};

/* The table of them; *count gets its length. */
const struct config_exit *config_exits(size_t *count);
/* What the program is, and what it does with signals. */
extern const char config_summary[];
extern const char config_without_arguments[];
extern const char config_signals[];
/* The table; *count gets its length (<= CONFIG_OPTIONS_MAX). */
const struct config_option *config_options(size_t *count);
/* The option of that name as flags write it (dashes) or the file does (underscores), or NULL. */
const struct config_option *config_option_find(const char *name, char separator);
/* The name nearest to a misspelt one, written with `separator`, or "" if none is near. */
void config_option_nearest(const char *name, char separator, char out[CONFIG_NAME_MAX]);
/* The option's name with `separator` for its dashes: as flags have it, or as the file does. Returns
 * `out`. */
const char *config_option_name(const struct config_option *option, char separator,
                               char out[CONFIG_NAME_MAX]);
/* Whether the option takes no value as a flag. */
bool config_option_bare(const struct config_option *option);
/* Sets the option's field from `text`. 0, or TG_EINVALID with what was found and expected in `why`,
 * without the option's name. */
MUST_USE int config_option_set(const struct config_option *option, struct config *config,
                               const char *text, char why[CONFIG_WHY_LEN]);
/* Whether the option may be given more than once, each time one more. */
bool config_option_repeats(const struct config_option *option);
/* Forgets what a file gave such an option: flags do not add to it. */
void config_option_clear(const struct config_option *option, struct config *config);
/* What the option's value may be, "" if it takes none: what refusals expect, and documents tell.
 * Returns `out`. */
const char *config_option_expected(const struct config_option *option, char out[CONFIG_WHY_LEN]);
/* Sets every default. */
void config_option_defaults(struct config *config);
/* `text` in quotes, cut and made printable, for sentences. Returns `out`. */
const char *config_shown(const char *text, char out[CONFIG_SHOWN_LEN]);

/* One flag with its value, and what config_flags reads. */
struct config_argument {
    const struct config_option *option;
    const char *value; /* "true" for a bare switch; points into argv */
};
enum {
    CONFIG_ARGUMENTS_MAX = CONFIG_OPTIONS_MAX + CONFIG_SEEDS_MAX + CONFIG_HOSTS_MAX +
                           3 * CONFIG_LISTEN_MAX + NETWORKS_MAX
};
struct config_arguments {
    uint32_t count;
    struct config_argument items[CONFIG_ARGUMENTS_MAX];
};

/* Splits argv into flags and values, none of them twice but those that repeat. 0, CONFIG_HELP,
 * CONFIG_VERSION or TG_EINVALID with `error`. */
MUST_USE int config_flags_read(int argc, const char *const *argv, struct config_arguments *out,
                               char error[CONFIG_ERROR_LEN]);
/* Sets what the flags say. */
MUST_USE int config_flags_apply(const struct config_arguments *arguments, struct config *config,
                                char error[CONFIG_ERROR_LEN]);
/* Reads `path` and sets what it says. */
MUST_USE int config_yaml_apply(const char *path, struct config *config,
                               char error[CONFIG_ERROR_LEN]);
/* The same for a text in memory; `path` is only named. Pure but for the heap. */
MUST_USE int config_yaml_apply_text(const char *path, const char *text, size_t len,
                                    struct config *config, char error[CONFIG_ERROR_LEN]);
/* Fills in what follows from other options, then checks what one option alone cannot tell. */
MUST_USE int config_check(struct config *config, char error[CONFIG_ERROR_LEN]);

/* Whether `text` can be a host: a name, an IPv4 address, an IPv6 address without brackets, "*". */
bool config_host_valid(const char *text, size_t len);

#endif
