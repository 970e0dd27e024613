/* replay_arguments.h - what `tidegate replay` was asked for. */
#ifndef CLIENT_CLI_ARGUMENTS_REPLAY_ARGUMENTS_H
#define CLIENT_CLI_ARGUMENTS_REPLAY_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "client/replay/log_fields.h"

enum { CLI_LOGS_MAX = 256 };

/* The flags as written; NULL: not given. */
struct cli_replay_words {
    const char *const *files;
    size_t file_count;
    const char *rules;
    const char *format;
    const char *time_field;
    const char *cost_field;
    const char *proxies;
    const char *reorder;
    const char *top;
    const char *suggest;
    bool spread;
    const char *const *maps;
    size_t map_count;
    const char *const *sets;
    size_t set_count;
};

/* The same, understood. Texts are those of the words. */
struct cli_replay {
    const char *files[CLI_LOGS_MAX];
    size_t file_count;
    const char *rules;
    struct log_options log;
    int64_t reorder_ns;
    bool spread;
    uint32_t top;
    bool suggest;
    uint32_t suggest_ppm; /* callers in a million that a suggested limit may deny */
};

/* Reads the words. Returns an enum cli_exit; when it is not CLI_EXIT_OK, with a sentence without a
 * final stop (CLI_SENTENCE_LEN bytes). Pure. */
MUST_USE int cli_replay_arguments(struct cli_replay *out, const struct cli_replay_words *words,
                                  char *sentence);

#endif
