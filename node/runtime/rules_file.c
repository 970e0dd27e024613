/* rules_file.c - the rules file: read, compiled, handed to every shard.
 *
 * Each shard gets a compiled copy of its own, so that no thread shares anything with another. A
 * file that does not compile changes nothing: the old rules stay in force.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/runtime/daemon_state.h"
#include "node/zones/zones.h"

/* The whole file with its length, or NULL with a sentence. The caller frees it. */
static char *read_file(const char *path, size_t *len, char *error, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        (void)snprintf(error, capacity, "%s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = malloc(POLICY_FILE_LEN_MAX + 1);
    *len = text == NULL ? 0 : fread(text, 1, POLICY_FILE_LEN_MAX + 1, file);
    const bool failed = text == NULL || ferror(file) != 0 || *len > POLICY_FILE_LEN_MAX;
    (void)fclose(file);
    if (!failed)
        return text;
    (void)snprintf(error, capacity, "%s: cannot be read, or is larger than %d bytes", path,
                   POLICY_FILE_LEN_MAX);
    free(text);
    return NULL;
}

int rules_load(struct daemon *daemon, char *error, size_t capacity)
{
    const char *path = daemon->config->rules;
    struct policy_error place;
    struct policy *policy;
    size_t len;
    if (path[0] == '\0')
        return 0;
    char *text = read_file(path, &len, error, capacity);
    if (text == NULL)
        return TG_EINVALID;
    const int result =
        policy_compile_zoned(text, len, alloc_heap(), zones_system(), &policy, &place);
    if (result != 0) {
        (void)snprintf(error, capacity, "%s:%u:%u: %s", path, place.line, place.column,
                       place.message);
        free(text);
        return result;
    }
    policy_free(&daemon->policy);
    free(daemon->rules_text);
    daemon->policy = policy;
    daemon->rules_text = text;
    daemon->rules_len = len;
    return 0;
}

void rules_spread(struct daemon *daemon)
{
    if (daemon->policy == NULL)
        return;
    for (uint32_t i = 0; i < daemon->shard_count; i++) {
        struct policy_error place;
        struct policy *policy;
        if (policy_compile_zoned(daemon->rules_text, daemon->rules_len, alloc_heap(),
                                 zones_system(), &policy, &place) != 0) {
            log_printf(daemon->log, LOG_LEVEL_ERROR, "rules: %s", place.message);
            return;
        }
        const struct letter letter = {.kind = LETTER_POLICY, .pointer = policy};
        if (!mailbox_put(shard_loop_mailbox(daemon->shards[i]), &letter))
            policy_free(&policy);
    }
    control_rules(daemon->control, policy_digest(daemon->policy));
}
