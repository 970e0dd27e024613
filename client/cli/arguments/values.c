/* values.c - what flags say, read into struct cli_arguments.
 *
 *   a flag whose row says how    take_rows: switches, texts, numbers, choices
 *   all others                   a reader each, because flags are looked at together
 *
 * A refusal names the flag, what was found and what was expected (ARGUMENTS-2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/limit.h"
#include "base/quantity.h"
#include "client/cli/arguments/given.h"
#include "client/replay/log_time.h"

enum { MS_NS = 1000000 };
#define DAY_NS UINT64_C(86400000000000)

static int take_number(const struct cli_given *given, enum cli_flag flag, uint64_t min,
                       uint64_t max, uint64_t *out)
{
    char error[QUANTITY_ERROR_LEN];
    const char *value = given->values[flag];
    ASSERT(min <= max);
    if (value == NULL)
        return CLI_EXIT_OK;
    if (quantity_parse_uint(value, max, out, error) != 0)
        return cli_refuse(given, CLI_EXIT_INVALID, "--%s: %s", cli_flag_name(flag), error);
    if (*out < min)
        return cli_refuse(given, CLI_EXIT_INVALID, "--%s is %.64s; expected %llu or more",
                          cli_flag_name(flag), value, (unsigned long long)min);
    return CLI_EXIT_OK;
}

/* ---- what rows tell -------------------------------------------------------------------------- */

static int take_text(const struct cli_given *given, const struct cli_flag_row *row,
                     const char **out)
{
    const size_t len = strlen(given->values[row->flag]);
    ASSERT(row->min <= row->max);
    if (row->max > 0 && (len < row->min || len > row->max))
        return cli_refuse(given, CLI_EXIT_INVALID, "--%s has %zu bytes; expected %d to %d",
                          row->name, len, (int)row->min, (int)row->max);
    *out = given->values[row->flag];
    return CLI_EXIT_OK;
}

/* Adds "table, json or yaml" to the sentence. */
static int refuse_choice(const struct cli_given *given, const struct cli_flag_row *row)
{
    char list[CLI_SENTENCE_LEN / 2] = "";
    size_t len = 0;
    for (const char *at = row->choices; *at != '\0';) {
        const size_t word = strcspn(at, " ");
        const char *between = at == row->choices ? "" : at[word] == '\0' ? " or " : ", ";
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%.*s", between, (int)word, at);
        at += word + (at[word] == ' ');
    }
    ASSERT(len > 0 && len < sizeof list); /* what the table tells is said whole */
    return cli_refuse(given, CLI_EXIT_INVALID, "--%s is '%.64s'; expected %s", row->name,
                      given->values[row->flag], list);
}

/* The place of the value among the choices. */
static int take_choice(const struct cli_given *given, const struct cli_flag_row *row, unsigned *out)
{
    const char *value = given->values[row->flag];
    unsigned place = 0;
    for (const char *at = row->choices; *at != '\0'; place++) {
        const size_t word = strcspn(at, " ");
        if (strlen(value) == word && memcmp(value, at, word) == 0) {
            *out = place;
            return CLI_EXIT_OK;
        }
        at += word + (at[word] == ' ');
    }
    return refuse_choice(given, row);
}

/* Sets the field of one flag that was given. */
static int take_row(struct cli_arguments *out, const struct cli_given *given,
                    const struct cli_flag_row *row)
{
    ASSERT(row->offset < sizeof *out && given->values[row->flag] != NULL);
    void *field = (char *)out + row->offset;
    switch (row->kind) {
    case CLI_VALUE_SWITCH:
        *(bool *)field = true;
        return CLI_EXIT_OK;
    case CLI_VALUE_TEXT:
        return take_text(given, row, field);
    case CLI_VALUE_NUMBER:
        return take_number(given, row->flag, row->min, row->max, field);
    case CLI_VALUE_CHOICE:
        return take_choice(given, row, field);
    case CLI_VALUE_OTHER:
        break;
    }
    return CLI_EXIT_OK;
}

/* The same of all of them, in the order of their numbers. */
static int take_rows(struct cli_arguments *out, const struct cli_given *given)
{
    int status = CLI_EXIT_OK;
    for (enum cli_flag i = 0; i < CLI_FLAG_COUNT && status == CLI_EXIT_OK; i++) {
        const struct cli_flag_row *row =
            given->values[i] != NULL ? cli_flag_row(i, out->command) : NULL;
        if (row != NULL)
            status = take_row(out, given, row);
    }
    return status;
}

/* ---- flags that belong together -------------------------------------------------------------- */

static int take_timeout(struct cli_arguments *out, const struct cli_given *given)
{
    char error[QUANTITY_ERROR_LEN];
    uint64_t ns;
    const char *value = given->values[CLI_FLAG_TIMEOUT];
    if (value == NULL)
        return CLI_EXIT_OK;
    if (quantity_parse_wait(value, &ns, error) != 0)
        return cli_refuse(given, CLI_EXIT_INVALID, "--timeout: %s", error);
    const uint64_t ms = ns / MS_NS + (ns % MS_NS != 0);
    if (ms < 1 || ms > TG_TIMEOUT_MS_MAX)
        return cli_refuse(given, CLI_EXIT_INVALID, "--timeout is '%.64s'; expected 1ms to 1h",
                          value);
    out->timeout_ms = (int)ms;
    return CLI_EXIT_OK;
}

#define COMMA_ALGORITHM(name, number, text) ", " text
static const char algorithm_list[] = ALGORITHM_MAP(COMMA_ALGORITHM);

/* Weeks, months and years have no length of their own. */
static bool unit_is_nominal(const char *rate)
{
    uint64_t number;
    uint64_t unit_ns;
    quantity_rate_window(rate, &number, &unit_ns);
    return unit_ns > DAY_NS;
}

int cli_take_limit(struct cli_arguments *out, const struct cli_given *given)
{
    char error[QUANTITY_ERROR_LEN];
    struct quantity_rate rate;
    const bool leases =
        out->command == CLI_LEASE || out->command == CLI_RELEASE || out->command == CLI_RENEW;
    struct limit limit = {.algorithm = leases ? ALGORITHM_CONCURRENCY : ALGORITHM_TOKEN_BUCKET};
    const char *algorithm = given->values[CLI_FLAG_ALGORITHM];
    if (quantity_parse_rate(given->values[CLI_FLAG_RATE], &rate, error) != 0)
        return cli_refuse(given, CLI_EXIT_INVALID, "--rate: %s", error);
    if (algorithm != NULL) {
        const int number = algorithm_parse(algorithm, strlen(algorithm));
        if (number < 0)
            return cli_refuse(given, CLI_EXIT_INVALID, "--algorithm is '%.64s'; expected one of %s",
                              algorithm, algorithm_list + 2);
        limit.algorithm = (uint8_t)number;
    }
    const int status = take_number(given, CLI_FLAG_BURST, 1, LIMIT_COUNT_MAX, &limit.burst);
    if (status != CLI_EXIT_OK)
        return status;
    limit.count = rate.count;
    limit.window_ns = rate.window_ns;
    if (limit_validate(&limit, error) != 0)
        return cli_refuse(given, CLI_EXIT_INVALID, "--rate %.64s: %s", given->values[CLI_FLAG_RATE],
                          error);
    if (limit.algorithm == ALGORITHM_FIXED_WINDOW && unit_is_nominal(given->values[CLI_FLAG_RATE]))
        return cli_refuse(
            given, CLI_EXIT_INVALID,
            "--rate is '%.64s'; expected days: a fixed_window of weeks, months or years "
            "needs a rule with align: calendar",
            given->values[CLI_FLAG_RATE]);
    out->limit = (tg_limit_t){.algorithm = (tg_algorithm_t)limit.algorithm,
                              .count = limit.count,
                              .window_ns = limit.window_ns,
                              .burst = limit.burst};
    return CLI_EXIT_OK;
}

static int take_time(struct cli_arguments *out, const struct cli_given *given)
{
    char error[QUANTITY_ERROR_LEN];
    uint64_t ns;
    const char *span = given->values[CLI_FLAG_FOR];
    const char *until = given->values[CLI_FLAG_UNTIL];
    if (span != NULL && until != NULL)
        return cli_refuse(given, CLI_EXIT_USAGE, "--for and --until exclude each other");
    if (span != NULL) {
        if (quantity_parse_duration(span, &ns, error) != 0)
            return cli_refuse(given, CLI_EXIT_INVALID, "--for: %s", error);
        out->for_ms = ns / MS_NS + (ns % MS_NS != 0);
    }
    const char *wrong = until != NULL ? log_time_date(until, strlen(until), &out->until_ms) : NULL;
    if (wrong != NULL)
        return cli_refuse(
            given, CLI_EXIT_INVALID,
            "--until is '%.64s': %s; expected a time like 2026-12-31T18:00:00Z, a day "
            "like 2026-12-31 (in UTC), or seconds since 1970",
            until, wrong);
    return CLI_EXIT_OK;
}

/* The own limits given, apart by spaces; the node judges each. */
static int take_limits(struct cli_arguments *out, const struct cli_given *given)
{
    struct cli_quota *quota = &out->quota;
    const char *limits[CLI_REPEATED_MAX];
    const size_t count = cli_gather(given, CLI_FLAG_LIMIT, limits);
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        ASSERT(len < CLI_LIMITS_LEN);
        const size_t more = strlen(limits[i]);
        if (more == 0 || strchr(limits[i], ' ') != NULL || more >= CLI_LIMITS_LEN - 1 - len)
            return cli_refuse(given, CLI_EXIT_INVALID,
                              "--limit is '%.64s'; expected a rate of one unit, such as 500/h",
                              limits[i]);
        if (len > 0)
            quota->limits[len++] = ' ';
        memcpy(quota->limits + len, limits[i], more + 1);
        len += more;
    }
    return CLI_EXIT_OK;
}

/* The id that the flag `--name` has to give, of a lease or a reservation. */
static int take_id(struct cli_arguments *out, const struct cli_given *given, enum cli_flag flag,
                   const char *name)
{
    enum { LEASE_LEN = 16 };
    const char *value = given->values[flag];
    if (value == NULL)
        return cli_refuse(given, CLI_EXIT_USAGE, "'%s' needs --%s ID, as the admission gave it",
                          cli_command_name(out->command), name);
    if (strlen(value) != LEASE_LEN || strspn(value, "0123456789abcdef") != LEASE_LEN)
        return cli_refuse(given, CLI_EXIT_INVALID,
                          "--%s is '%.64s'; expected %d hexadecimal digits", name, value,
                          LEASE_LEN);
    out->lease_id = strtoull(value, NULL, LEASE_LEN);
    return CLI_EXIT_OK;
}

static int take_ttl(struct cli_arguments *out, const struct cli_given *given)
{
    char error[QUANTITY_ERROR_LEN];
    uint64_t ns;
    const char *ttl = given->values[CLI_FLAG_TTL];
    if (ttl == NULL)
        return CLI_EXIT_OK;
    if (quantity_parse_duration(ttl, &ns, error) != 0)
        return cli_refuse(given, CLI_EXIT_INVALID, "--ttl: %s", error);
    out->used = ns / MS_NS + (ns % MS_NS != 0);
    if (!limit_ttl_fits(out->used))
        return cli_refuse(given, CLI_EXIT_INVALID, "--ttl is '%.64s'; expected 1s to 1h", ttl);
    return CLI_EXIT_OK;
}

static int take_lease(struct cli_arguments *out, const struct cli_given *given)
{
    const bool commits = out->command == CLI_COMMIT;
    if (out->command == CLI_RELEASE || out->command == CLI_RENEW)
        return take_id(out, given, CLI_FLAG_LEASE, "lease");
    if (commits && given->values[CLI_FLAG_ACTUAL] == NULL)
        return cli_refuse(given, CLI_EXIT_USAGE, "'commit' needs --actual N: what was really used");
    return commits || out->command == CLI_CANCEL ? take_id(out, given, CLI_FLAG_HOLD, "hold")
                                                 : take_ttl(out, given);
}

/* --members N, or all: of a status, a line for each of them. */
static int take_members(struct cli_arguments *out, const struct cli_given *given)
{
    const char *members = given->values[CLI_FLAG_MEMBERS];
    const bool waits = given->values[CLI_FLAG_WAIT] != NULL;
    unsigned place;
    if (waits && take_choice(given, cli_flag_row(CLI_FLAG_WAIT, CLI_STATUS), &place) != CLI_EXIT_OK)
        return CLI_EXIT_INVALID;
    out->wait_healthy = waits;
    out->all_members = members != NULL && !waits && strcmp(members, "all") == 0;
    return out->all_members ? CLI_EXIT_OK
                            : take_number(given, CLI_FLAG_MEMBERS, 1, UINT16_MAX, &out->members);
}

int cli_take_output(struct cli_arguments *out, const struct cli_given *given)
{
    const struct cli_flag_row *row = cli_flag_row(CLI_FLAG_OUTPUT, out->command);
    return given->values[CLI_FLAG_OUTPUT] != NULL && row != NULL ? take_row(out, given, row)
                                                                 : CLI_EXIT_OK;
}

int cli_take_times_and_limits(struct cli_arguments *out, const struct cli_given *given)
{
    const int status = take_limits(out, given);
    return status == CLI_EXIT_OK ? take_time(out, given) : status;
}

int cli_take_values(struct cli_arguments *out, const struct cli_given *given)
{
    static int (*const readers[])(struct cli_arguments *, const struct cli_given *) = {
        take_lease, take_rows, take_timeout, take_members};
    int status = CLI_EXIT_OK;
    for (size_t i = 0; i < sizeof readers / sizeof *readers && status == CLI_EXIT_OK; i++)
        status = readers[i](out, given);
    return status;
}
