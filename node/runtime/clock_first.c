/* clock_first.c - asks the other members for their time. See clock_first.h. */
#include "node/runtime/clock_first.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "node/cluster/cluster_time.h"
#include "node/runtime/socket.h"

#define MS ((int64_t)1000000)
/* How well an answer must tell the time; others count when time is up. */
#define PROMPT_NS (50 * MS)

enum { ANSWERS_MAX = SWIM_SEEDS_MAX };

struct asking {
    const struct clock_first *first;
    struct swim *swim;
    struct swim_effects effects;
    struct cluster_time_answer answers[ANSWERS_MAX];
    uint32_t count;
    uint32_t addresses; /* that are asked */
    uint32_t members;   /* of the ring, as it was known; 0: it is not */
    int64_t asked_ns;   /* when the first greeting left; 0: none did */
};

/* How many members the ring had that this node knows; 0: none. */
static uint32_t members_of(const struct control_options *options)
{
    struct ring_config *config = malloc(sizeof *config);
    struct mp_token *tokens = malloc(RING_CONFIG_TOKENS_MAX * sizeof *tokens);
    uint32_t members = 0;
    if (config != NULL && tokens != NULL && options->config != NULL &&
        ring_config_decode(config, options->config, options->config_len, tokens,
                           RING_CONFIG_TOKENS_MAX) == 0)
        members = config->to_count;
    free(config);
    free(tokens);
    return members;
}

static void add_address(struct asking *asking, const char *address)
{
    if (strcmp(address, asking->first->options->gossip) != 0 &&
        swim_add_seed(asking->swim, address) == 0)
        asking->addresses++; /* one that is given twice is waited for in vain, and not for long */
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
    swim_options.join_retry_ns = CLOCK_FIRST_NS / 5;
    const int error =
        swim_new(&asking->swim, alloc_heap(), &swim_options, &record, none, options->seed);
    if (error != 0)
        return error;
    swim_wall(asking->swim, 0, true); /* the wall clock is the time until there is another */
    add_addresses(asking);
    asking->members = members_of(options);
    return 0;
}

/* Of this node's cluster, if it has one, and of its region. */
static bool counts(const struct asking *asking, const struct swim_met *met)
{
    static const uint8_t none[SWIM_CLUSTER_ID_LEN];
    const struct control_options *options = asking->first->options;
    const bool starts = memcmp(met->cluster_id, none, sizeof none) == 0;
    return met->answers && strcmp(swim_region_name(&met->record), options->region) == 0 &&
           (starts || !options->has_identity ||
            memcmp(met->cluster_id, options->identity.cluster_id, sizeof none) == 0);
}

static void take_answer(struct asking *asking, const struct swim_met *met, int64_t now_ns)
{
    uint32_t at = 0;
    if (!counts(asking, met))
        return;
    while (at < asking->count && asking->answers[at].id != met->record.id)
        at++;
    if (at == ANSWERS_MAX)
        return;
    if (at == asking->count)
        asking->answers[asking->count++] = (struct cluster_time_answer){.id = met->record.id};
    cluster_time_answered(&asking->answers[at], met->time_ns, !met->timeless, asking->asked_ns,
                          now_ns);
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

/* Whether what came is enough, and what follows from it. */
static bool enough(struct asking *asking, bool late, int64_t *offset_ns)
{
    struct cluster_time_answer answers[ANSWERS_MAX];
    uint32_t count = 0;
    uint32_t running = 0;
    for (uint32_t i = 0; i < asking->count; i++)
        if (late || asking->answers[i].high_ns - asking->answers[i].low_ns <= PROMPT_NS) {
            running += asking->answers[i].running;
            answers[count++] = asking->answers[i];
        }
    uint32_t members = asking->members;
    if (members == 0) /* of a newcomer: whoever knows the time, or else all that it knows */
        members = running > 0 ? 1 : asking->addresses + 1;
    return cluster_time_first(answers, count, members, offset_ns) && count > 0;
}

static void turn(struct asking *asking)
{
    struct socket_holder holder = {.held = false};
    struct socket_message message;
    struct pollfd readable = {.fd = socket_fd(asking->first->gossip), .events = POLLIN};
    int64_t now_ns = clock_now_ns(asking->first->clock);
    if (now_ns >= swim_next_deadline(asking->swim)) {
        swim_tick(asking->swim, now_ns, &asking->effects);
        if (asking->effects.sends_count > 0 && asking->asked_ns == 0)
            asking->asked_ns = now_ns;
        carry_out(asking, now_ns);
    }
    if (!socket_readable(asking->first->gossip))
        (void)poll(&readable, 1, 10);
    while (socket_receive(asking->first->gossip, &holder, &message) > 0) {
        now_ns = clock_now_ns(asking->first->clock);
        (void)swim_receive(asking->swim, now_ns, message.data, message.odd ? 0 : message.len,
                           &asking->effects);
        carry_out(asking, now_ns);
    }
    socket_release(&holder);
}

static void set(struct asking *asking, int64_t offset_ns, bool agreed)
{
    const struct clock_first *first = asking->first;
    const int64_t ms = offset_ns / 1000000;
    clock_set(first->clock, offset_ns);
    if (ms >= 100 || ms <= -100)
        log_printf(first->log, LOG_LEVEL_WARN,
                   "the wall clock of this node is %" PRId64 " ms %s that of the cluster (%" PRIu32
                   " members answered), whose time it goes by",
                   ms < 0 ? -ms : ms, ms < 0 ? "ahead of" : "behind", asking->count);
    else if (!agreed)
        log_printf(first->log, LOG_LEVEL_INFO,
                   "no majority told its time at the start (%" PRIu32 " members answered): "
                   "going by what there is",
                   asking->count);
}

int clock_first(const struct clock_first *first)
{
    struct asking *asking = calloc(1, sizeof *asking);
    int64_t offset_ns = 0;
    if (asking == NULL)
        return TG_ENOMEM;
    asking->first = first;
    const int error = begin(asking);
    const int64_t until_ns = clock_now_ns(first->clock) + CLOCK_FIRST_NS;
    bool agreed = false;
    while (error == 0 && asking->addresses > 0 && !agreed &&
           clock_now_ns(first->clock) < until_ns) {
        turn(asking);
        agreed = enough(asking, false, &offset_ns);
    }
    if (error == 0 && !agreed)
        (void)enough(asking, true, &offset_ns);
    if (error == 0 && asking->addresses > 0)
        set(asking, offset_ns, agreed);
    swim_free(&asking->swim);
    free(asking);
    return error;
}
