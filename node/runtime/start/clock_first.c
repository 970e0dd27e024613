/* clock_first.c - asks the other members for their time. See clock_first.h. */
#include "node/runtime/start/clock_first.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "node/cluster/clock/first_time.h"
#include "node/runtime/system/socket.h"

enum {
    BURST_FRAMES = 256, /* then the time is looked at, whoever sends */
    ROUNDS = 5          /* in which every address is asked */
};

static_assert((int)SWIM_SEEDS_MAX <= (int)FIRST_TIME_ANSWERS_MAX, "each address has its place");

struct asking {
    const struct clock_first *first;
    struct swim *swim;
    struct swim_effects effects;
    struct first_time answers;
    char addresses[SWIM_SEEDS_MAX][SWIM_ADDRESS_LEN]; /* that are asked */
};

static void know_ring(struct asking *asking)
{
    const struct control_options *options = asking->first->options;
    struct ring_config *config = malloc(sizeof *config);
    struct mp_token *tokens = malloc(RING_CONFIG_TOKENS_MAX * sizeof *tokens);
    if (config != NULL && tokens != NULL && options->config != NULL &&
        ring_config_decode(config, options->config, options->config_len, tokens,
                           RING_CONFIG_TOKENS_MAX) == 0)
        first_time_ring(&asking->answers, config);
    free(config);
    free(tokens);
}

static uint32_t place_of(const struct asking *asking, const char *address)
{
    uint32_t place = 0;
    ASSERT(asking->answers.asked <= SWIM_SEEDS_MAX);
    while (place < asking->answers.asked && strcmp(asking->addresses[place], address) != 0)
        place++;
    return place;
}

static void add_address(struct asking *asking, const char *address)
{
    if (strcmp(address, asking->first->options->gossip) == 0 ||
        place_of(asking, address) < asking->answers.asked ||
        swim_add_seed(asking->swim, address) != 0)
        return;
    ASSERT(asking->answers.asked < SWIM_SEEDS_MAX && strlen(address) < SWIM_ADDRESS_LEN);
    memcpy(asking->addresses[asking->answers.asked++], address, strlen(address) + 1);
}

static void add_addresses(struct asking *asking)
{
    const struct control_options *options = asking->first->options;
    const uint8_t *at = options->peers;
    size_t left = at == NULL ? 0 : options->peers_len;
    for (uint32_t i = 0; i < options->seed_count; i++)
        add_address(asking, options->seeds[i]);
    while (left > 0) {
        const uint8_t *end = memchr(at, '\n', left);
        const size_t len = end == NULL ? left : (size_t)(end - at);
        char address[SWIM_ADDRESS_LEN] = "";
        if (len > 0 && len < sizeof address) {
            memcpy(address, at, len);
            add_address(asking, address);
        }
        const size_t step = len < left ? len + 1 : len;
        at += step;
        left -= step;
    }
}

/* After how long the next few addresses are greeted, so that each has its turn in every round. */
static int64_t pause_ns(const struct control_options *options)
{
    uint32_t addresses = options->seed_count;
    for (size_t i = 0; i < (options->peers == NULL ? 0 : options->peers_len); i++)
        addresses += options->peers[i] == '\n';
    addresses = addresses < SWIM_SEEDS_MAX ? addresses : SWIM_SEEDS_MAX;
    return CLOCK_FIRST_NS / ROUNDS / (1 + addresses / SWIM_SEEDS_PER_ROUND_MAX);
}

static int begin(struct asking *asking)
{
    static const uint8_t none[SWIM_CLUSTER_ID_LEN];
    const struct control_options *options = asking->first->options;
    struct swim_options swim_options;
    struct swim_record record = {.id = options->node_id,
                                 .incarnation = options->incarnation,
                                 .weight = options->weight,
                                 .shards = options->shards,
                                 .protocol_min = 1,
                                 .protocol_max = 1};
    memcpy(record.name, options->name, sizeof record.name);
    memcpy(record.region, options->region, sizeof record.region);
    memcpy(record.zone, options->zone, sizeof record.zone);
    memcpy(record.gossip, options->gossip, sizeof record.gossip);
    memcpy(record.peer, options->peer, sizeof record.peer);
    memcpy(record.client, options->client, sizeof record.client);
    memcpy(record.software, options->version, sizeof record.software);
    swim_options_default(&swim_options);
    swim_options.join_retry_ns = pause_ns(options);
    const int error =
        swim_new(&asking->swim, alloc_heap(), &swim_options, &record, none, options->seed);
    if (error != 0)
        return error;
    swim_wall(asking->swim, 0, true); /* the wall clock is the time until there is another */
    first_time_init(&asking->answers, options->node_id);
    add_addresses(asking);
    know_ring(asking);
    return 0;
}

/* Of this node's cluster, if it has one, and of its region. */
static bool counts(const struct asking *asking, const struct swim_met *met)
{
    static const uint8_t none[SWIM_CLUSTER_ID_LEN];
    const struct control_options *options = asking->first->options;
    const bool starts = memcmp(met->cluster_id, none, sizeof none) == 0;
    return strcmp(swim_region_name(&met->record), options->region) == 0 &&
           (starts || !options->has_identity ||
            memcmp(met->cluster_id, options->identity.cluster_id, sizeof none) == 0);
}

static void take_answer(struct asking *asking, const struct swim_met *met, int64_t now_ns)
{
    const uint32_t place = place_of(asking, met->seed);
    if (!met->answers || place == asking->answers.asked)
        return;
    const struct first_time_answer answer = {.id = counts(asking, met) ? met->record.id : 0,
                                             .place = place,
                                             .running = !met->timeless,
                                             .confirmed = control_clock_confirmed(&met->record),
                                             .time_ns = met->time_ns,
                                             .wall_ns = met->wall_ns,
                                             .asked_ns = met->asked_ns,
                                             .now_ns = now_ns};
    first_time_heard(&asking->answers, &answer);
}

static void carry_out(struct asking *asking, int64_t now_ns)
{
    const struct swim_effects *effects = &asking->effects;
    for (size_t i = 0; i < effects->met_count; i++)
        take_answer(asking, &effects->met[i], now_ns);
    for (size_t i = 0; i < effects->sends_count; i++)
        gossip_out_send(asking->first->out, now_ns, effects->sends[i].address,
                        effects->bytes + effects->sends[i].offset, effects->sends[i].len);
    swim_effects_clear(&asking->effects);
}

static void turn(struct asking *asking)
{
    struct socket_holder holder = {.held = false};
    struct socket_message message;
    struct pollfd readable = {.fd = socket_fd(asking->first->gossip), .events = POLLIN};
    int64_t now_ns = clock_now_ns(asking->first->clock);
    if (now_ns >= swim_next_deadline(asking->swim)) {
        swim_tick(asking->swim, now_ns, &asking->effects);
        carry_out(asking, now_ns);
    }
    if (!socket_readable(asking->first->gossip))
        (void)poll(&readable, 1, 10);
    for (int taken = 0;
         taken < BURST_FRAMES && socket_receive(asking->first->gossip, &holder, &message) > 0;
         taken++) {
        now_ns = clock_now_ns(asking->first->clock);
        (void)swim_receive(asking->swim, now_ns, message.data, message.odd ? 0 : message.len,
                           &asking->effects);
        carry_out(asking, now_ns);
    }
    socket_release(&holder);
}

static void set(struct asking *asking, const struct first_time_choice *choice)
{
    const struct clock_first *first = asking->first;
    const int64_t ms = choice->offset_ns / 1000000;
    clock_set(first->clock, choice->offset_ns);
    if (ms >= 100 || ms <= -100)
        log_printf(first->log, LOG_LEVEL_WARN,
                   "the wall clock of this node is %" PRId64 " ms %s that of the cluster (%" PRIu32
                   " members answered), whose time it goes by",
                   ms < 0 ? -ms : ms, ms < 0 ? "ahead of" : "behind", asking->answers.count);
    else if (!choice->majority)
        log_printf(first->log, LOG_LEVEL_INFO,
                   "no majority told its time at the start (%" PRIu32 " members answered): "
                   "going by what there is",
                   asking->answers.count);
}

int clock_first(const struct clock_first *first)
{
    struct asking *asking = calloc(1, sizeof *asking);
    struct first_time_choice choice = {.enough = false};
    if (asking == NULL)
        return TG_ENOMEM;
    asking->first = first;
    const int error = begin(asking);
    const int64_t until_ns = clock_now_ns(first->clock) + CLOCK_FIRST_NS;
    if (error == 0)
        choice = first_time_choose(&asking->answers, false);
    while (error == 0 && !choice.enough && clock_now_ns(first->clock) < until_ns) {
        turn(asking);
        choice = first_time_choose(&asking->answers, false);
    }
    if (error == 0 && !choice.enough)
        choice = first_time_choose(&asking->answers, true);
    if (error == 0 && asking->answers.asked > 0)
        set(asking, &choice);
    swim_free(&asking->swim);
    free(asking);
    return error;
}
