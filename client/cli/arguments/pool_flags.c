/* pool_flags.c - the flags of `pools set`; see pool_flags.h.
 */
#include "client/cli/arguments/pool_flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"

#define SAY(...) (void)snprintf(sentence, CLI_SENTENCE_LEN, __VA_ARGS__)

/* "5%" or "5". */
static bool parse_percent(const char *text, uint32_t *out)
{
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 3 || (text[digits] != '\0' && strcmp(text + digits, "%") != 0))
        return false;
    *out = (uint32_t)strtoul(text, NULL, 10);
    return *out <= 100;
}

/* How much there is of it. */
static int read_figures(const struct pool_flags *given, struct pool_edit *edit,
                        char sentence[CLI_SENTENCE_LEN])
{
    char error[QUANTITY_ERROR_LEN];
    const char *load_max = given->load_max;
    if (given->rate != NULL && quantity_parse_rate(given->rate, &edit->rate, error) != 0)
        SAY("--%s", error);
    else if (load_max != NULL &&
             (policy_parse_load(load_max, strlen(load_max), &edit->load_max_ppm) != 0 ||
              edit->load_max_ppm == 0))
        SAY("--load-max is '%.64s'; expected a number above 0 and at most 1, such as 0.8",
            load_max);
    else if (given->reserve != NULL && !parse_percent(given->reserve, &edit->reserve_percent))
        SAY("--reserve is '%.64s'; expected 0%% to 100%%", given->reserve);
    else
        return CLI_EXIT_OK;
    return CLI_EXIT_INVALID;
}

/* Whose it is. */
static int read_scope(const struct pool_flags *given, struct pool_edit *edit,
                      char sentence[CLI_SENTENCE_LEN])
{
    const char *home = given->home;
    if (given->scope != NULL)
        edit->scope =
            strcmp(given->scope, "global") == 0 ? POLICY_SCOPE_GLOBAL : POLICY_SCOPE_REGION;
    edit->home = home;
    if (given->scope != NULL && strcmp(given->scope, policy_scope_name(edit->scope)) != 0)
        SAY("--scope is '%.64s'; expected region or global", given->scope);
    else if (home != NULL && edit->scope == POLICY_SCOPE_REGION)
        SAY("--home is of a pool with scope global only");
    else if (home != NULL && (home[0] == '\0' || strlen(home) > POLICY_REGION_LEN_MAX))
        SAY("--home has %zu bytes; expected the name of a region, 1 to %d", strlen(home),
            (int)POLICY_REGION_LEN_MAX);
    else
        return CLI_EXIT_OK;
    return CLI_EXIT_INVALID;
}

int cli_read_pool_flags(const struct pool_flags *given, struct pool_edit *edit,
                        char sentence[CLI_SENTENCE_LEN])
{
    *edit = (struct pool_edit){.name = edit->name,
                               .load_max_ppm = POOL_EDIT_KEPT,
                               .reserve_percent = POOL_EDIT_KEPT,
                               .scope = POOL_EDIT_KEPT};
    if (given->rate == NULL && given->load_max == NULL && given->reserve == NULL &&
        given->scope == NULL && given->home == NULL) {
        SAY("'pools set' needs --rate, --load-max, --reserve, --scope or --home");
        return CLI_EXIT_USAGE;
    }
    const int status = read_figures(given, edit, sentence);
    return status == CLI_EXIT_OK ? read_scope(given, edit, sentence) : status;
}
