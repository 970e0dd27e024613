/* options.c - drawing, reading and writing down what a seed is made of; options.h tells of it.
 *
 * Everything is drawn, in one order, before anything given by hand is looked at: so an option that
 * is given does not change what the others are drawn to be.
 */
#include "tests/sim/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/random.h"
#include "tests/sim/phase.h"

/* Whether a seed has three regions; its number is such that no kept seed changes. */
#define THIRD_SALT UINT64_C(0x7468697264)

enum {
    QUORUM_PERMILLE = 400,
    EARLY_PHASES = 3,
    BRIM_ONE_IN = 8,
    PRESS_ONE_IN = 10,
    SHIFT_ONE_IN = 8,
    APART_ONE_IN = 6,
    RELAY_ONE_IN = 12,
    CROWD = 1200,
    BORROW_ONE_IN = 8,
    LEASE_ONE_IN = 7,
    HOLD_ONE_IN = 6,
    WILD_ONE_IN = 8,
    CLOCKS_ONE_IN = 8,
    REMOTE_ONE_IN = 10,
    THIRD_ONE_IN = 2,
    GLOBAL_ONE_IN = 8,
    STARVE_ONE_IN = 10,
    ECHO_ONE_IN = 8,
    RESERVE_ONE_IN = 6
};

#define RESERVE_SALT UINT64_C(0x726573657257)

static const char *const fault_names[] = {
    [FAULT_LOSS] = "loss",
    [FAULT_REPEAT] = "repeat",
    [FAULT_LATE] = "late",
    [FAULT_REORDER] = "reorder",
    [FAULT_RESET] = "reset",
    [FAULT_CUT] = "cut",
    [FAULT_ONE_WAY] = "one-way",
    [FAULT_SLOW] = "slow",
    [FAULT_PAUSE] = "pause",
    [FAULT_CRASH] = "crash",
    [FAULT_MID_STEP] = "mid-step",
    [FAULT_CLOCK] = "clock",
    [FAULT_DISK_ERROR] = "disk-error",
    [FAULT_DISK_FULL] = "disk-full",
    [FAULT_SNAPSHOT] = "snapshot",
    [FAULT_RING] = "ring",
};

const char *fault_name(enum fault fault)
{
    return fault_names[fault];
}

bool options_fault(const struct options *options, enum fault fault)
{
    return (options->faults_off & 1u << fault) == 0;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static uint32_t pick(struct random *random, const uint32_t *choices, uint32_t count)
{
    return choices[random_below(random, count)];
}

static void draw_phases(struct random *random, struct options *out)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < phase_count(); i++)
        sum += phase_at(i)->weight;
    out->phase_count = OPTIONS_PHASES_MAX;
    for (uint32_t i = 0; i < OPTIONS_PHASES_MAX; i++) {
        uint64_t dice = random_below(random, sum);
        uint32_t at = 0;
        while (dice >= phase_at(at)->weight)
            dice -= phase_at(at++)->weight;
        out->phases[i] = (uint8_t)at;
    }
}

/* Puts a phase that is not drawn by weight in the place of an early one. It has a stream of its
 * own, so that all other seeds stay what they are. */
static void draw_beside(uint64_t seed, struct options *out)
{
    static const char *const names[] = {"night", "lag", "alone"};
    struct random random;
    random_init(&random, hash_mix64(seed) ^ 0x626573696465);
    if (random_below(&random, 3) >= (out->quorum ? 2 : 1))
        return;
    const char *name = names[random_below(&random, sizeof names / sizeof *names)];
    const int phase = phase_find(name, strlen(name));
    ASSERT(phase >= 0);
    out->phases[random_below(&random, EARLY_PHASES)] = (uint8_t)phase;
}

/* The same for one phase that came later, each by a number of its own. */
static void draw_early(uint64_t seed, uint64_t salt, uint32_t one_in, const char *name,
                       struct options *out)
{
    struct random random;
    random_init(&random, hash_mix64(seed) ^ salt);
    if (random_below(&random, one_in) != 0)
        return;
    const int phase = phase_find(name, strlen(name));
    ASSERT(phase >= 0);
    out->phases[random_below(&random, EARLY_PHASES)] = (uint8_t)phase;
}

/* And for two that share a number, apart and orphan. */
static void draw_apart(uint64_t seed, struct options *out)
{
    struct random random;
    random_init(&random, hash_mix64(seed) ^ 0x6170617274);
    out->crowd = CROWD;
    if (random_below(&random, APART_ONE_IN) != 0)
        return;
    const char *name = random_below(&random, 2) == 0 ? "apart" : "orphan";
    const int phase = phase_find(name, strlen(name));
    ASSERT(phase >= 0);
    out->phases[random_below(&random, EARLY_PHASES)] = (uint8_t)phase;
}

/* And for phases with a second region, whose nodes stay: the phases after them are those that leave
 * it alone. Their numbers are such that no kept seed draws them that was kept before. */
static void draw_regions(uint64_t seed, uint64_t salt, uint32_t one_in, const char *const *names,
                         struct options *out)
{
    struct random random;
    random_init(&random, hash_mix64(seed) ^ salt);
    if (out->quorum || random_below(&random, one_in) != 0)
        return;
    out->phase_count = 0;
    for (uint32_t i = 0; names[i] != NULL; i++) {
        const int phase = phase_find(names[i], strlen(names[i]));
        ASSERT(phase >= 0);
        out->phases[out->phase_count++] = (uint8_t)phase;
    }
}

static void draw(uint64_t seed, struct options *out)
{
    static const char *const remote[] = {"abroad", "crash", "abroad", "roll", "abroad", NULL};
    static const char *const global[] = {"global", "roll", "global", NULL};
    static const uint32_t spares[] = {0, 0, 0, 1, 1, 2};
    static const uint32_t vnodes[] = {16, 16, 16, 32, 32, 64, 256};
    static const uint32_t replicas[] = {3, 3, 3, 3, 2};
    static const uint32_t shards[] = {1, 1, 1, 2};
    static const uint32_t keepalives[] = {10, 20, 20, 30};
    static const uint32_t heartbeats[] = {300, 600, 1000, 3000};
    struct random random;
    random_init(&random, hash_mix64(seed) ^ 0x6f7074696f6e73);
    memset(out, 0, sizeof *out);
    out->seed = seed;
    out->nodes = OPTIONS_NODES_MIN + (random_below(&random, 8) == 0);
    out->spare = pick(&random, spares, 6);
    out->vnodes = pick(&random, vnodes, 7);
    out->replicas = pick(&random, replicas, 5);
    out->shards = pick(&random, shards, 4);
    out->clients = 2 + (uint32_t)random_below(&random, SIM_CLIENTS_MAX - 1);
    out->items = 4 + (uint32_t)random_below(&random, SIM_ITEMS_MAX - 3);
    out->keepalive_ms = pick(&random, keepalives, 4);
    out->heartbeat_ms = pick(&random, heartbeats, 4);
    out->events = 14000 + (uint32_t)random_below(&random, 16000);
    out->formed = random_below(&random, 4) != 0;
    out->far = random_below(&random, 6) == 0;
    out->lazy = hash_mix64(seed ^ 0x6c617a79) % 4 == 0;
    out->slices = hash_mix64(seed ^ 0x736c69639ae9) % 4 == 0; /* no kept seed */
    out->narrow = hash_mix64(seed ^ 0x6e6172726f77) % 4 == 0;
    out->piecemeal = hash_mix64(seed ^ 0x70696563669e) % 4 == 0;  /* no kept seed */
    out->bit_by_bit = hash_mix64(seed ^ 0x6566666fb40a) % 4 == 0; /* nor here */
    out->regions = OPTIONS_REGIONS_MIN + (hash_mix64(seed ^ THIRD_SALT) % THIRD_ONE_IN == 0);
    out->quorum = random_below(&random, 1000) < QUORUM_PERMILLE;
    draw_phases(&random, out);
    draw_beside(seed, out);
    draw_early(seed, 0x6272696d, BRIM_ONE_IN, "brim", out);
    draw_early(seed, 0x70726586, PRESS_ONE_IN, "press", out);
    draw_early(seed, 0x7368696674, SHIFT_ONE_IN, "shift", out);
    draw_early(seed, 0x6563686f3f, ECHO_ONE_IN, "echo", out); /* no kept seed */
    draw_early(seed, 0x636c6f636b, CLOCKS_ONE_IN, "clocks", out);
    draw_apart(seed, out);
    draw_early(seed, 0x626f72726f77, BORROW_ONE_IN, "borrow", out);
    draw_early(seed, 0x72656c6179, RELAY_ONE_IN, "relay", out);
    draw_early(seed, 0x6c65617365, LEASE_ONE_IN, "lease", out);
    draw_early(seed, 0x686f6c64, HOLD_ONE_IN, "hold", out);
    draw_early(seed, RESERVE_SALT, RESERVE_ONE_IN, "reserve", out); /* no kept seed */
    draw_early(seed, 0x737461727669, STARVE_ONE_IN, "starve", out); /* no kept seed */
    draw_early(seed, 0x77696c89, WILD_ONE_IN, "wild", out);         /* no kept seed */
    draw_regions(seed, 0x6162726f617b, REMOTE_ONE_IN, remote, out);
    draw_regions(seed, 0x676c6f6262f2, GLOBAL_ONE_IN, global, out);
}

static void override(const struct overrides *given, struct options *out)
{
    const struct options *values = &given->values;
    out->trace = values->trace;
    out->until = values->until;
    out->faults_off = values->faults_off;
    out->nodes = given->nodes ? values->nodes : out->nodes;
    out->spare = given->spare ? values->spare : out->spare;
    out->vnodes = given->vnodes ? values->vnodes : out->vnodes;
    out->replicas = given->replicas ? values->replicas : out->replicas;
    out->shards = given->shards ? values->shards : out->shards;
    out->clients = given->clients ? values->clients : out->clients;
    out->items = given->items ? values->items : out->items;
    out->keepalive_ms = given->keepalive ? values->keepalive_ms : out->keepalive_ms;
    out->heartbeat_ms = given->heartbeat ? values->heartbeat_ms : out->heartbeat_ms;
    out->crowd = given->crowd ? values->crowd : out->crowd;
    out->regions = given->regions ? values->regions : out->regions;
    out->events = given->events ? values->events : out->events;
    out->formed = given->formed ? values->formed : out->formed;
    out->far = given->far ? values->far : out->far;
    out->quorum = given->quorum ? values->quorum : out->quorum;
    if (!given->phases)
        return;
    out->phases_given = true;
    out->phase_count = values->phase_count;
    memcpy(out->phases, values->phases, sizeof out->phases);
}

void options_draw(uint64_t seed, const struct overrides *given, struct options *out)
{
    draw(seed, out);
    override(given, out);
    if (out->quorum && !given->replicas)
        out->replicas = VIEW_REPLICATION_MAX; /* two have no majority without either */
}

/* ---- words ----------------------------------------------------------------------------------- */

struct number_option {
    const char *word;
    uint32_t low;
    uint32_t high;
    size_t value; /* offset in struct options */
    size_t given; /* offset in struct overrides; of `seed` none */
};

#define NUMBER(word, low, high, field, flag)                                                       \
    {                                                                                              \
        word, low, high, offsetof(struct options, field), offsetof(struct overrides, flag)         \
    }

static const struct number_option numbers[] = {
    NUMBER("--nodes", 3, SIM_NODES_MAX, nodes, nodes),
    NUMBER("--spare", 0, SIM_NODES_MAX - 3, spare, spare),
    NUMBER("--vnodes", 16, SIM_VNODES_MAX, vnodes, vnodes),
    NUMBER("--replicas", 1, VIEW_REPLICATION_MAX, replicas, replicas),
    NUMBER("--shards", 1, SIM_SHARDS_MAX, shards, shards),
    NUMBER("--clients", 1, SIM_CLIENTS_MAX, clients, clients),
    NUMBER("--items", 1, SIM_ITEMS_MAX, items, items),
    NUMBER("--keepalive", 1, 1000, keepalive_ms, keepalive),
    NUMBER("--heartbeat", 1, 100000, heartbeat_ms, heartbeat),
    NUMBER("--crowd", 1, SIM_CLIENTS_MAX *SIM_CROWD_MAX, crowd, crowd),
    NUMBER("--regions", OPTIONS_REGIONS_MIN, SIM_REGIONS_MAX, regions, regions),
    NUMBER("--events", 1, UINT32_MAX, events, events),
};

enum { NUMBERS = sizeof numbers / sizeof *numbers };

static bool read_number(const char *text, uint64_t low, uint64_t high, uint32_t *out)
{
    char *end = NULL;
    if (text == NULL || *text < '0' || *text > '9')
        return false;
    const uint64_t value = strtoull(text, &end, 10);
    *out = (uint32_t)value;
    return *end == '\0' && value >= low && value <= high;
}

static int parse_number(struct overrides *given, const char *word, const char *value)
{
    for (uint32_t i = 0; i < NUMBERS; i++) {
        const struct number_option *option = &numbers[i];
        uint32_t number;
        if (strcmp(word, option->word) != 0)
            continue;
        if (!read_number(value, option->low, option->high, &number))
            return -1;
        memcpy((char *)&given->values + option->value, &number, sizeof number);
        if (strcmp(word, "--vnodes") == 0 && (number & (number - 1)) != 0)
            return -1;
        *((bool *)(void *)((char *)given + option->given)) = true;
        return 2;
    }
    return 0;
}

/* "idle,chaos"; "none" for no phase at all. */
static int parse_phases(struct overrides *given, const char *value)
{
    struct options *values = &given->values;
    given->phases = true;
    values->phase_count = 0;
    if (value == NULL)
        return -1;
    if (strcmp(value, "none") == 0)
        return 2;
    for (const char *at = value;;) {
        const size_t len = strcspn(at, ",");
        const int found = phase_find(at, len);
        if (found < 0 || values->phase_count == OPTIONS_PHASES_MAX)
            return -1;
        values->phases[values->phase_count++] = (uint8_t)found;
        if (at[len] == '\0')
            return 2;
        at += len + 1;
    }
}

static int parse_flag(struct overrides *given, const char *word)
{
    if (strcmp(word, "--formed") == 0 || strcmp(word, "--forming") == 0) {
        given->formed = true;
        given->values.formed = strcmp(word, "--formed") == 0;
        return 1;
    }
    if (strcmp(word, "--far") == 0 || strcmp(word, "--near") == 0) {
        given->far = true;
        given->values.far = strcmp(word, "--far") == 0;
        return 1;
    }
    if (strcmp(word, "--quorum") == 0 || strcmp(word, "--no-quorum") == 0) {
        given->quorum = true;
        given->values.quorum = strcmp(word, "--quorum") == 0;
        return 1;
    }
    for (uint32_t fault = 0; strncmp(word, "--no-", 5) == 0 && fault < FAULT_END; fault++) {
        if (strcmp(word + 5, fault_names[fault]) != 0)
            continue;
        given->values.faults_off |= 1u << fault;
        return 1;
    }
    return 0;
}

int options_parse(struct overrides *given, const char *word, const char *value)
{
    if (strcmp(word, "-v") == 0) {
        given->values.trace++;
        return 1;
    }
    if (strcmp(word, "--until") == 0)
        return read_number(value, 1, UINT32_MAX, &given->values.until) ? 2 : -1;
    if (strcmp(word, "--phases") == 0)
        return parse_phases(given, value);
    const int words = parse_number(given, word, value);
    return words != 0 ? words : parse_flag(given, word);
}

/* ---- the line -------------------------------------------------------------------------------- */

static void append(char out[OPTIONS_LINE_LEN], const char *text)
{
    const size_t len = strlen(out);
    snprintf(out + len, OPTIONS_LINE_LEN - len, "%s", text);
}

static void append_number(char out[OPTIONS_LINE_LEN], const char *word, uint64_t value)
{
    char text[64];
    snprintf(text, sizeof text, " %s %llu", word, (unsigned long long)value);
    append(out, text);
}

static void append_phases(const struct options *values, char out[OPTIONS_LINE_LEN])
{
    append(out, " --phases ");
    if (values->phase_count == 0)
        append(out, "none");
    for (uint32_t i = 0; i < values->phase_count; i++) {
        append(out, i == 0 ? "" : ",");
        append(out, phase_at(values->phases[i])->name);
    }
}

void options_line(const struct overrides *given, uint64_t seed, char out[OPTIONS_LINE_LEN])
{
    const struct options *values = &given->values;
    snprintf(out, OPTIONS_LINE_LEN, "--seed %llu", (unsigned long long)seed);
    for (uint32_t i = 0; i < NUMBERS; i++) {
        uint32_t number;
        if (!*((const bool *)(const void *)((const char *)given + numbers[i].given)))
            continue;
        memcpy(&number, (const char *)values + numbers[i].value, sizeof number);
        append_number(out, numbers[i].word, number);
    }
    if (given->formed)
        append(out, values->formed ? " --formed" : " --forming");
    if (given->far)
        append(out, values->far ? " --far" : " --near");
    if (given->quorum)
        append(out, values->quorum ? " --quorum" : " --no-quorum");
    if (given->phases)
        append_phases(values, out);
    for (uint32_t fault = 0; fault < FAULT_END; fault++) {
        if ((values->faults_off & 1u << fault) == 0)
            continue;
        append(out, " --no-");
        append(out, fault_names[fault]);
    }
    if (values->until != 0)
        append_number(out, "--until", values->until);
}
