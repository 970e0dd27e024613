/* test_register.c - the register of the ring configuration under every kind of mishap; register.h.
 *
 * A world of registers joined by a bag of messages: any message may come next, twice, late or
 * never, and any node may crash at any moment, also between making something durable and saying so.
 * What is durable survives; a disk may have no room. Invariants are judged after every step:
 *
 *   A  agreement: one value for each epoch, for ever
 *   B  each decision follows the configuration before it
 *   C  a decided value is durable at a majority of the voters before it and of its own
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mp.h"
#include "base/random.h"
#include "node/cluster/consensus/register.h"
#include "tests/unit/support_effort.h"

#define MS INT64_C(1000000)

enum {
    NODES = 6,
    BAG_MAX = 256,
    EPOCHS_MAX = 4096,
    VALUE_MAX = 2048,
    STEPS = 4000,
    SEEDS = EFFORT(200),
    CALM_STEPS = 6000,
};

enum kind { KIND_REGISTER, KIND_CONFIG, KIND_FETCH };

struct letter {
    enum kind kind;
    uint32_t from;
    uint32_t to;
    struct register_message message;
    size_t len;
    uint8_t bytes[VALUE_MAX]; /* the value, or the configuration */
};

struct place {
    struct register_core *core; /* NULL: not running */
    uint64_t boot;
    bool cut; /* no message passes */
    /* its disk */
    uint8_t config[VALUE_MAX];
    size_t config_len;
    uint8_t record[VALUE_MAX];
    size_t record_len;
};

struct world {
    int64_t now_ns;
    struct random random;
    struct place places[NODES];
    struct letter bag[BAG_MAX];
    uint32_t bag_count;
    struct register_out out;
    uint8_t *values[EPOCHS_MAX]; /* what was decided, by epoch */
    size_t lens[EPOCHS_MAX];
    uint64_t epoch; /* the highest decided */
    uint32_t changes;
    int64_t pace_ns;      /* time goes on by up to this each step */
    uint32_t crash_ppm;   /* a node crashes, for each step */
    uint32_t between_ppm; /* and between durable and said */
    uint32_t refuse_ppm;  /* a disk has no room, for each thing it is to keep */
    uint32_t lose_ppm;
    uint32_t repeat_ppm;
    struct ring_config *a;
    struct ring_config *b;
    struct mp_token *tokens;
};

static uint64_t id_of(uint32_t at)
{
    return 10 + at;
}

static bool chance(struct world *world, uint32_t ppm)
{
    return random_below(&world->random, 1000000) < ppm;
}

/* ---- disks ----------------------------------------------------------------------------------- */

static struct ring_config *decode(struct world *world, struct ring_config *out,
                                  const uint8_t *bytes, size_t len)
{
    assert_int_equal(ring_config_decode(out, bytes, len, world->tokens, RING_CONFIG_TOKENS_MAX), 0);
    return out;
}

static uint64_t epoch_of(struct world *world, uint32_t at)
{
    const struct place *place = &world->places[at];
    return decode(world, world->b, place->config, place->config_len)->epoch;
}

/* Whether the disk of `at` holds the value of `epoch`: accepted, or committed, or what followed. */
static bool holds(struct world *world, uint32_t at, uint64_t epoch, const uint8_t *value,
                  size_t len)
{
    const struct place *place = &world->places[at];
    struct mp_token tokens[16];
    struct mp_cursor cursor;
    if (epoch_of(world, at) >= epoch)
        return true;
    const int count = mp_parse(place->record, place->record_len, tokens, 16);
    if (place->record_len == 0 || count < 0)
        return false;
    mp_cursor_init(&cursor, tokens, (size_t)count);
    (void)mp_get_array(&cursor);
    (void)mp_get_uint(&cursor);
    const uint64_t held = mp_get_uint(&cursor);
    for (uint32_t i = 0; i < 6; i++)
        (void)mp_get_uint(&cursor);
    size_t held_len = 0;
    const uint8_t *bytes = mp_get_bin(&cursor, &held_len);
    return !cursor.failed && held == epoch && held_len == len && memcmp(bytes, value, len) == 0;
}

static uint32_t holders(struct world *world, const uint64_t *voters, uint32_t count, uint64_t epoch,
                        const uint8_t *value, size_t len)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t at = 0; at < NODES; at++)
            found += id_of(at) == voters[i] && holds(world, at, epoch, value, len);
    return found;
}

/* A: notes what was decided for the epoch of `bytes`. */
static void note(struct world *world, uint64_t epoch, const uint8_t *bytes, size_t len)
{
    assert_true(epoch < EPOCHS_MAX);
    if (world->values[epoch] == NULL) {
        world->values[epoch] = malloc(len);
        assert_non_null(world->values[epoch]);
        memcpy(world->values[epoch], bytes, len);
        world->lens[epoch] = len;
        if (epoch > world->epoch)
            world->epoch = epoch;
        return;
    }
    assert_int_equal(world->lens[epoch], len);
    assert_memory_equal(world->values[epoch], bytes, len);
}

/* B and C: what was decided at `at`. */
static void judge(struct world *world, uint32_t at, const uint8_t *value, size_t len)
{
    struct place *place = &world->places[at];
    uint64_t voters[RING_VOTERS_MAX];
    const struct ring_config *before = decode(world, world->b, place->config, place->config_len);
    const uint64_t epoch = before->epoch;
    const uint32_t count = before->voters_count;
    memcpy(voters, before->voters, sizeof voters);
    assert_true(holders(world, voters, count, epoch + 1, value, len) >= count / 2 + 1);
    const struct ring_config *after = decode(world, world->a, value, len);
    assert_int_equal(after->epoch, epoch + 1);
    const uint32_t next = after->voters_count;
    memcpy(voters, after->voters, sizeof voters);
    assert_true(holders(world, voters, next, epoch + 1, value, len) >= next / 2 + 1);
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct letter *post(struct world *world, enum kind kind, uint32_t from, uint64_t to)
{
    const uint32_t at = (uint32_t)(to - id_of(0));
    assert_true(at < NODES);
    if (chance(world, world->lose_ppm))
        return NULL;
    if (world->bag_count == BAG_MAX) { /* too many under way: one is lost */
        const uint32_t lost = (uint32_t)random_below(&world->random, BAG_MAX);
        world->bag[lost] = world->bag[--world->bag_count];
    }
    struct letter *letter = &world->bag[world->bag_count++];
    memset(letter, 0, offsetof(struct letter, bytes));
    letter->kind = kind;
    letter->from = from;
    letter->to = at;
    return letter;
}

static void post_config(struct world *world, uint32_t from, uint64_t to)
{
    const struct place *place = &world->places[from];
    struct letter *letter = post(world, KIND_CONFIG, from, to);
    if (letter == NULL)
        return;
    memcpy(letter->bytes, place->config, place->config_len);
    letter->len = place->config_len;
}

static void crash(struct world *world, uint32_t at)
{
    register_free(&world->places[at].core);
}

/* The register of `at` is to know what is on disk, and no more. */
static void recall(struct world *world, uint32_t at)
{
    struct place *place = &world->places[at];
    register_follow(place->core, decode(world, world->a, place->config, place->config_len));
    if (place->record_len > 0)
        assert_int_equal(
            register_restore(place->core, world->now_ns, place->record, place->record_len), 0);
}

/* Whether the disk of `at` has no room; then its register goes back to what is there. */
static bool refuses(struct world *world, uint32_t at)
{
    if (world->refuse_ppm == 0 || !chance(world, world->refuse_ppm))
        return false;
    register_forget(world->places[at].core);
    recall(world, at);
    return true;
}

static void take_config(struct world *world, uint32_t at, const uint8_t *bytes, size_t len)
{
    struct place *place = &world->places[at];
    if (decode(world, world->a, bytes, len)->epoch <= epoch_of(world, at))
        return;
    note(world, world->a->epoch, bytes, len);
    if (refuses(world, at))
        return;
    memcpy(place->config, bytes, len);
    place->config_len = len;
    register_follow(place->core, decode(world, world->a, bytes, len));
}

/* Carries out what the register of `at` wants, as control does. */
static void perform(struct world *world, uint32_t at)
{
    struct place *place = &world->places[at];
    const struct register_out *out = &world->out;
    register_check_invariants(place->core);
    if (out->persist) {
        if (refuses(world, at))
            return;
        const int len = register_encode(place->core, place->record, sizeof place->record);
        assert_true(len > 0);
        place->record_len = (size_t)len;
    }
    if (chance(world, world->between_ppm)) {
        crash(world, at);
        return;
    }
    if (out->fetch_from != 0)
        (void)post(world, KIND_FETCH, at, out->fetch_from);
    if (out->tell != 0)
        post_config(world, at, out->tell);
    for (uint32_t i = 0; i < out->send_count; i++) {
        const struct register_send *send = &out->sends[i];
        struct letter *letter = post(world, KIND_REGISTER, at, send->to);
        assert_true(send->to != id_of(at));
        if (letter == NULL)
            continue;
        letter->message = send->message;
        letter->len = send->message.value_len;
        if (letter->len > 0)
            memcpy(letter->bytes, send->message.value, letter->len);
    }
    if (!out->decided)
        return;
    uint8_t value[VALUE_MAX];
    size_t len;
    const uint8_t *decided = register_value(place->core, &len);
    assert_true(len > 0 && len <= sizeof value);
    memcpy(value, decided, len);
    judge(world, at, value, len);
    take_config(world, at, value, len);
    world->changes++;
    for (uint32_t to = 0; to < NODES; to++)
        if (to != at)
            post_config(world, at, id_of(to));
}

static void start(struct world *world, uint32_t at)
{
    struct place *place = &world->places[at];
    const struct register_options options = {
        .node_id = id_of(at), .boot = ++place->boot, .seed = random_next(&world->random)};
    assert_null(place->core);
    assert_int_equal(register_new(alloc_heap(), &options, &place->core), 0);
    recall(world, at);
}

static void deliver(struct world *world, uint32_t which)
{
    static struct letter letter;
    letter = world->bag[which];
    if (!chance(world, world->repeat_ppm))
        world->bag[which] = world->bag[--world->bag_count];
    struct place *place = &world->places[letter.to];
    if (place->core == NULL || place->cut || world->places[letter.from].cut)
        return;
    if (letter.kind == KIND_CONFIG) {
        take_config(world, letter.to, letter.bytes, letter.len);
    } else if (letter.kind == KIND_FETCH) {
        post_config(world, letter.to, id_of(letter.from));
    } else {
        letter.message.value = letter.len > 0 ? letter.bytes : NULL;
        register_receive(place->core, world->now_ns, &letter.message, &world->out);
        perform(world, letter.to);
    }
}

/* ---- wishes ---------------------------------------------------------------------------------- */

/* Node `at` wants something: another weight, or other voters. */
static void want(struct world *world, uint32_t at, bool voters)
{
    const struct place *place = &world->places[at];
    uint64_t ids[NODES];
    const struct ring_config *now = decode(world, world->a, place->config, place->config_len);
    int error;
    if (voters) {
        for (uint32_t i = 0; i < NODES; i++)
            ids[i] = id_of(i);
        for (uint32_t i = 0; i < NODES; i++) {
            const uint32_t other = (uint32_t)random_below(&world->random, NODES);
            const uint64_t id = ids[i];
            ids[i] = ids[other];
            ids[other] = id;
        }
        const uint32_t count = 1 + 2 * (uint32_t)random_below(&world->random, 3);
        error = ring_config_set_voters(world->b, now, ids, count);
    } else if (ring_config_is_stable(now)) {
        error =
            ring_config_reweigh(world->b, now, id_of((uint32_t)random_below(&world->random, NODES)),
                                100 * (uint32_t)(1 + random_below(&world->random, 3)));
    } else {
        error = ring_config_settle(world->b, now);
    }
    assert_int_equal(error, 0);
    if (register_propose(place->core, world->now_ns, world->b, &world->out))
        perform(world, at);
}

/* ---- the world ------------------------------------------------------------------------------- */

static struct world *world_new(uint64_t seed, uint32_t voters_count)
{
    struct world *world = calloc(1, sizeof *world);
    struct ring_member member;
    uint64_t ids[NODES];
    assert_non_null(world);
    world->a = calloc(1, sizeof *world->a);
    world->b = calloc(1, sizeof *world->b);
    world->tokens = calloc(RING_CONFIG_TOKENS_MAX, sizeof *world->tokens);
    assert_true(world->a != NULL && world->b != NULL && world->tokens != NULL);
    random_init(&world->random, seed);
    world->now_ns = 1000 * MS;
    world->pace_ns = 6 * MS;
    for (uint32_t i = 0; i < NODES; i++) {
        char name[8];
        ids[i] = id_of(i);
        (void)snprintf(name, sizeof name, "n%u", i);
        assert_int_equal(ring_member_init(&member, id_of(i), name, "", 100), 0);
        if (i == 0) {
            assert_int_equal(ring_config_init(world->a, &member, 64, 3), 0);
            continue;
        }
        assert_int_equal(ring_config_add(world->b, world->a, &member), 0);
        assert_int_equal(ring_config_settle(world->a, world->b), 0);
    }
    assert_int_equal(ring_config_set_voters(world->b, world->a, ids, voters_count), 0);
    for (uint32_t i = 0; i < NODES; i++) {
        struct place *place = &world->places[i];
        const int len = ring_config_encode(world->b, place->config, sizeof place->config);
        assert_true(len > 0);
        place->config_len = (size_t)len;
    }
    note(world, world->b->epoch, world->places[0].config, world->places[0].config_len);
    for (uint32_t i = 0; i < NODES; i++)
        start(world, i);
    return world;
}

static void world_free(struct world *world)
{
    for (uint32_t i = 0; i < NODES; i++)
        register_free(&world->places[i].core);
    for (uint32_t i = 0; i < EPOCHS_MAX; i++)
        free(world->values[i]);
    free(world->a);
    free(world->b);
    free(world->tokens);
    free(world);
}

/* One thing happens. */
static void step(struct world *world, uint32_t want_ppm)
{
    const uint32_t at = (uint32_t)random_below(&world->random, NODES);
    struct place *place = &world->places[at];
    world->now_ns += (int64_t)random_below(&world->random, (uint64_t)world->pace_ns);
    if (place->core == NULL) {
        if (chance(world, 200000))
            start(world, at);
    } else if (chance(world, world->crash_ppm)) {
        crash(world, at);
    } else if (chance(world, want_ppm)) {
        want(world, at, chance(world, 500000));
    } else if (chance(world, 200000)) {
        register_tick(place->core, world->now_ns, &world->out);
        perform(world, at);
    }
    if (world->bag_count > 0)
        deliver(world, (uint32_t)random_below(&world->random, world->bag_count));
}

/* Without faults, `proposer` alone wants things until `count` more were decided everywhere. */
static void calm(struct world *world, uint32_t proposer, uint32_t count)
{
    world->pace_ns = 6 * MS;
    world->crash_ppm = 0;
    world->between_ppm = 0;
    world->refuse_ppm = 0;
    world->lose_ppm = 0;
    world->repeat_ppm = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        world->places[i].cut = false;
        if (world->places[i].core == NULL)
            start(world, i);
    }
    const uint64_t goal = world->epoch + count;
    uint32_t steps = 0;
    for (bool done = false; !done; steps++) {
        assert_true(steps < CALM_STEPS);
        if (steps % 20 == 0 && epoch_of(world, proposer) < goal)
            want(world, proposer, false);
        step(world, 0);
        done = true;
        for (uint32_t i = 0; i < NODES; i++)
            done = done && epoch_of(world, i) >= goal;
    }
}

/* How bad it is differs from seed to seed: what breaks one mistake hides another. */
static void adverse(struct world *world)
{
    struct random *random = &world->random;
    world->crash_ppm = (uint32_t)random_below(random, 60000);
    world->between_ppm = (uint32_t)random_below(random, 60000);
    world->refuse_ppm = (uint32_t)random_below(random, 60000);
    world->lose_ppm = (uint32_t)random_below(random, 200000);
    world->repeat_ppm = (uint32_t)random_below(random, 300000);
    world->pace_ns = random_between(random, 1, 100) * MS;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The whole of it: whatever is lost, repeated, late or crashed, there is one history; and when
 * faults end, it goes on. */
static void random_mishaps_never_make_two_histories(void **state)
{
    uint32_t changes = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world *world = world_new(seed, 1 + 2 * (uint32_t)(seed % 3));
        adverse(world);
        const uint32_t want_ppm = (uint32_t)random_between(&world->random, 20000, 400000);
        const uint32_t cut_ppm = (uint32_t)random_below(&world->random, 5000);
        for (uint32_t i = 0; i < STEPS; i++) {
            step(world, want_ppm);
            if (chance(world, cut_ppm))
                world->places[random_below(&world->random, NODES)].cut ^= true;
        }
        changes += world->changes;
        calm(world, (uint32_t)(seed % NODES), 3);
        world_free(world);
    }
    assert_true(changes > SEEDS);
}

/* The steady state: a proposer that votes decides with one answer of each kind from one other. */
static void one_proposer_and_a_majority_decide(void **state)
{
    struct world *world = world_new(1, 3);
    (void)state;
    world->places[2].cut = true;
    const uint64_t epoch = world->epoch;
    want(world, 0, false);
    assert_int_equal(world->bag_count, 2); /* a PREPARE to each other voter */
    while (world->bag_count > 0)
        deliver(world, 0);
    assert_int_equal(world->epoch, epoch + 1);
    assert_int_equal(world->changes, 1);
    world_free(world);
}

/* Two that duel may hold each other up, but not for long. */
static void proposers_that_duel_come_to_an_end(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world *world = world_new(seed, 5);
        const uint64_t epoch = world->epoch;
        uint32_t steps = 0;
        for (; world->epoch < epoch + 3; steps++) {
            assert_true(steps < CALM_STEPS);
            want(world, steps % 2, false);
            step(world, 0);
        }
        world_free(world);
    }
}

/* Without a majority of the voters nothing is decided, whoever asks. */
static void without_a_majority_nothing_is_decided(void **state)
{
    struct world *world = world_new(3, 5);
    (void)state;
    const uint64_t epoch = world->epoch;
    for (uint32_t i = 0; i < 3; i++)
        world->places[i].cut = true;
    for (uint32_t i = 0; i < 3000; i++)
        step(world, 50000);
    assert_int_equal(world->epoch, epoch);
    world_free(world);
}

/* The operator's change of a node that died in the midst of it may not hang for ever. */
static void a_value_left_in_doubt_is_carried_on_by_its_acceptor(void **state)
{
    struct world *world = world_new(4, 3);
    (void)state;
    const uint64_t epoch = world->epoch;
    want(world, 5, false); /* no voter itself */
    while (world->bag_count > 0 && world->bag[0].message.type != REGISTER_ACCEPT)
        deliver(world, 0);
    assert_true(world->bag_count > 0);
    deliver(world, 0); /* one voter accepts */
    world->bag_count = 0;
    crash(world, 5);
    for (uint32_t i = 0; i < CALM_STEPS && world->epoch == epoch; i++) {
        step(world, 0);
        if (world->places[5].core != NULL)
            crash(world, 5);
    }
    assert_int_equal(world->epoch, epoch + 1);
    world_free(world);
}

/* REGISTER-1: who missed decisions learns of them from those it asks; who is asked by one ahead
 * catches up.
 */
static void those_behind_are_told(void **state)
{
    struct world *world = world_new(5, 3);
    (void)state;
    world->places[1].cut = true;
    calm(world, 0, 0);
    world->places[1].cut = true;
    const uint64_t epoch = world->epoch;
    for (uint32_t i = 0; i < CALM_STEPS && world->epoch < epoch + 2; i++) {
        if (i % 20 == 0)
            want(world, 0, false);
        step(world, 0);
    }
    assert_int_equal(world->epoch, epoch + 2);
    world->bag_count = 0;
    world->places[1].cut = false;
    assert_int_equal(epoch_of(world, 1), epoch);
    want(world, 1, false); /* behind: told */
    while (world->bag_count > 0)
        deliver(world, 0);
    assert_int_equal(epoch_of(world, 1), epoch + 2);
    world_free(world);
}

/* A record that cannot be read, or of an epoch that the configuration does not lead to, is no disk
 * to vote from; one of an epoch that was decided since is of no use. */
static void records_are_taken_back_with_care(void **state)
{
    struct world *world = world_new(6, 3);
    struct place *place = &world->places[0];
    uint8_t record[VALUE_MAX];
    (void)state;
    want(world, 0, false);
    assert_true(place->record_len > 0);
    const size_t len = place->record_len;
    memcpy(record, place->record, len);
    while (world->bag_count > 0)
        deliver(world, 0);
    crash(world, 0);
    start(world, 0); /* decided since */
    register_check_invariants(place->core);
    for (size_t cut = 0; cut < len; cut++)
        assert_int_equal(register_restore(place->core, world->now_ns, record, cut), TG_ECORRUPT);
    record[2]++; /* an epoch ahead: [9 fields, version, epoch ...] */
    record[2]++;
    assert_int_equal(register_restore(place->core, world->now_ns, record, len), TG_ECORRUPT);
    world_free(world);
}

/* A configuration that could follow the committed one, encoded; different for each `weight`. */
static size_t follower(struct world *world, uint32_t weight, uint8_t out[VALUE_MAX])
{
    const struct place *place = &world->places[0];
    decode(world, world->a, place->config, place->config_len);
    assert_int_equal(ring_config_reweigh(world->b, world->a, id_of(0), weight), 0);
    const int len = ring_config_encode(world->b, out, VALUE_MAX);
    assert_true(len > 0);
    return (size_t)len;
}

/* Gives node `at` a message; the answer is in world->out. What it wants durable is kept. */
static void tell(struct world *world, uint32_t at, const struct register_message *message)
{
    struct place *place = &world->places[at];
    register_receive(place->core, world->now_ns, message, &world->out);
    if (!world->out.persist)
        return;
    const int len = register_encode(place->core, place->record, sizeof place->record);
    assert_true(len > 0);
    place->record_len = (size_t)len;
}

/* REGISTER-2: a promise that a crash undoes would let an older proposer in behind a newer one's
 * back. */
static void a_promise_survives_a_crash(void **state)
{
    struct world *world = world_new(7, 3);
    uint8_t value[VALUE_MAX];
    const size_t len = follower(world, 200, value);
    const struct register_message prepare = {.type = REGISTER_PREPARE,
                                             .sender = id_of(4),
                                             .epoch = world->epoch + 1,
                                             .ballot = {5, id_of(4), 1}};
    const struct register_message late = {.type = REGISTER_ACCEPT,
                                          .sender = id_of(5),
                                          .epoch = world->epoch + 1,
                                          .ballot = {4, id_of(5), 1},
                                          .value = value,
                                          .value_len = len};
    (void)state;
    tell(world, 0, &prepare);
    assert_int_equal(world->out.sends[0].message.type, REGISTER_PROMISE);
    crash(world, 0);
    start(world, 0);
    tell(world, 0, &late);
    assert_int_equal(world->out.send_count, 1);
    assert_int_equal(world->out.sends[0].message.type, REGISTER_REFUSED);
    assert_int_equal(world->out.sends[0].message.other.number, 5);
    world_free(world);
}

/* REGISTER-2: the next proposer must hear of what was accepted, whatever happened to the acceptor
 * since. */
static void an_acceptance_survives_a_crash(void **state)
{
    struct world *world = world_new(8, 3);
    uint8_t value[VALUE_MAX];
    const size_t len = follower(world, 200, value);
    struct register_message message = {.type = REGISTER_ACCEPT,
                                       .sender = id_of(4),
                                       .epoch = world->epoch + 1,
                                       .ballot = {5, id_of(4), 1},
                                       .value = value,
                                       .value_len = len};
    (void)state;
    tell(world, 0, &message);
    assert_int_equal(world->out.sends[0].message.type, REGISTER_ACCEPTED);
    crash(world, 0);
    start(world, 0);
    message.type = REGISTER_PREPARE;
    message.ballot.number = 6;
    message.value = NULL;
    message.value_len = 0;
    tell(world, 0, &message);
    const struct register_message *promise = &world->out.sends[0].message;
    assert_int_equal(promise->type, REGISTER_PROMISE);
    assert_int_equal(promise->other.number, 5);
    assert_int_equal(promise->value_len, len);
    assert_memory_equal(promise->value, value, len);
    world_free(world);
}

/* REGISTER-4: of several values that were accepted, only the one of the highest ballot may be
 * chosen. */
static void the_value_of_the_highest_ballot_is_carried_on(void **state)
{
    (void)state;
    for (uint64_t order = 0; order < 2; order++) {
        struct world *world = world_new(9, 3);
        uint8_t values[2][VALUE_MAX];
        size_t lens[2];
        lens[0] = follower(world, 200, values[0]);
        lens[1] = follower(world, 300, values[1]);
        want(world, 5, false); /* no voter: it needs two promises of others */
        const struct register_ballot ballot = world->out.sends[0].message.ballot;
        for (uint64_t i = 0; i < 2; i++) {
            const uint64_t which = i ^ order;
            const struct register_message promise = {.type = REGISTER_PROMISE,
                                                     .sender = id_of((uint32_t)which),
                                                     .epoch = world->epoch + 1,
                                                     .ballot = ballot,
                                                     .other = {1 + which, id_of(4), 1},
                                                     .value = values[which],
                                                     .value_len = lens[which]};
            tell(world, 5, &promise);
        }
        assert_int_equal(world->out.send_count, 3);
        const struct register_message *asked = &world->out.sends[0].message;
        assert_int_equal(asked->type, REGISTER_ACCEPT);
        assert_int_equal(asked->value_len, lens[1]);
        assert_memory_equal(asked->value, values[1], lens[1]);
        world_free(world);
    }
}

/* A promise of the highest number there is would leave nothing to propose, for ever. */
static void a_number_far_above_those_known_is_not_heard(void **state)
{
    (void)state;
    struct world *world = world_new(9, 3);
    uint8_t value[VALUE_MAX];
    const size_t len = follower(world, 200, value);
    const uint64_t numbers[] = {REGISTER_NUMBER_MAX, REGISTER_NUMBER_STEP + 1};
    for (size_t i = 0; i < 2; i++) {
        struct register_message wild = {.type = REGISTER_PREPARE,
                                        .sender = id_of(4),
                                        .epoch = world->epoch + 1,
                                        .ballot = {numbers[i], id_of(4), 1}};
        tell(world, 0, &wild);
        assert_false(world->out.persist);
        assert_int_equal(world->out.send_count, 0);
        wild.type = REGISTER_ACCEPT;
        wild.value = value;
        wild.value_len = len;
        tell(world, 0, &wild);
        assert_false(world->out.persist);
    }
    want(world, 5, false);
    const struct register_ballot ballot = world->out.sends[0].message.ballot;
    const struct register_message refused = {.type = REGISTER_REFUSED,
                                             .sender = id_of(0),
                                             .epoch = world->epoch + 1,
                                             .ballot = ballot,
                                             .other = {REGISTER_NUMBER_MAX, id_of(4), 1}};
    tell(world, 5, &refused);
    want(world, 5, false);
    assert_true(world->out.send_count == 0 || world->out.sends[0].message.ballot.number < 10);
    struct register_message near = {.type = REGISTER_PREPARE,
                                    .sender = id_of(4),
                                    .epoch = world->epoch + 1,
                                    .ballot = {REGISTER_NUMBER_STEP, id_of(4), 1}};
    tell(world, 0, &near);
    assert_true(world->out.persist);
    world_free(world);
}

/* REGISTER-3: a process that knows nothing of the one before may not propose under its ballot. */
static void processes_of_one_node_use_different_ballots(void **state)
{
    struct world *world = world_new(10, 3);
    (void)state;
    want(world, 5, false);
    const struct register_ballot before = world->out.sends[0].message.ballot;
    crash(world, 5);
    start(world, 5);
    want(world, 5, false);
    const struct register_ballot after = world->out.sends[0].message.ballot;
    assert_int_equal(world->out.sends[0].message.type, REGISTER_PREPARE);
    assert_true(register_ballot_compare(&before, &after) != 0);
    world_free(world);
}

/* REGISTER-2, where it had no room on the disk: the promise is made anew when it is asked for
 * again. */
static void a_promise_that_was_not_kept_is_none(void **state)
{
    struct world *world = world_new(13, 3);
    (void)state;
    const struct register_message prepare = {
        .type = REGISTER_PREPARE,
        .sender = id_of(1),
        .epoch = world->epoch + 1,
        .ballot = {.number = 1, .node = id_of(1), .boot = 1},
    };
    for (uint32_t i = 0; i < 3; i++) {
        struct register_core *core = world->places[0].core;
        register_receive(core, world->now_ns, &prepare, &world->out);
        assert_int_equal(world->out.sends[0].message.type, REGISTER_PROMISE);
        assert_int_equal(world->out.persist, i < 2);
        if (i == 0) {
            register_forget(core);
            recall(world, 0);
        }
    }
    world_free(world);
}

/* REGISTER-3, where the record of a ballot, or of a decision, had no room on the disk. */
static void a_process_uses_no_ballot_twice_though_its_disk_is_full(void **state)
{
    struct world *world = world_new(12, 3);
    (void)state;
    want(world, 5, false);
    const struct register_ballot before = world->out.sends[0].message.ballot;
    register_forget(world->places[5].core);
    recall(world, 5);
    want(world, 5, false);
    const struct register_ballot after = world->out.sends[0].message.ballot;
    assert_int_equal(world->out.sends[0].message.type, REGISTER_PREPARE);
    assert_true(register_ballot_compare(&before, &after) < 0);
    world_free(world);
}

/* REGISTER-5: the voters that decide next must know what they follow. */
static void a_change_of_voters_needs_both_majorities(void **state)
{
    (void)state;
    for (uint32_t side = 0; side < 2; side++) {
        struct world *world = world_new(11, 3); /* 0, 1 and 2 vote */
        const uint64_t next[] = {id_of(3), id_of(4), id_of(5)};
        const uint64_t epoch = world->epoch;
        decode(world, world->a, world->places[0].config, world->places[0].config_len);
        assert_int_equal(ring_config_set_voters(world->b, world->a, next, 3), 0);
        assert_true(register_propose(world->places[0].core, world->now_ns, world->b, &world->out));
        perform(world, 0);
        while (world->bag_count > 0) {
            const struct letter *letter = &world->bag[0];
            const bool old = letter->to < 3;
            if (letter->message.type == REGISTER_ACCEPT && old == (side == 0))
                world->bag[0] = world->bag[--world->bag_count]; /* lost */
            else
                deliver(world, 0);
        }
        assert_int_equal(world->epoch, epoch);
        world->now_ns += 200 * MS; /* asked again */
        register_tick(world->places[0].core, world->now_ns, &world->out);
        perform(world, 0);
        while (world->bag_count > 0)
            deliver(world, 0);
        assert_int_equal(world->epoch, epoch + 1);
        world_free(world);
    }
}

/* Without memory there is no register, and nothing is kept. */
static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    const struct register_options options = {.node_id = 1, .boot = 1, .seed = 1};
    struct register_core *core = NULL;
    int result = TG_ENOMEM;
    (void)state;
    for (size_t fail_at = 1; fail_at < 20 && result != 0; fail_at++) {
        struct alloc_failing failing;
        alloc_failing_init(&failing, fail_at);
        result = register_new(&failing.allocator, &options, &core);
        assert_true(result == 0 || (result == TG_ENOMEM && core == NULL));
        register_free(&core);
        assert_int_equal(failing.bytes_live, 0);
    }
    assert_int_equal(result, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_mishaps_never_make_two_histories),
        cmocka_unit_test(one_proposer_and_a_majority_decide),
        cmocka_unit_test(proposers_that_duel_come_to_an_end),
        cmocka_unit_test(without_a_majority_nothing_is_decided),
        cmocka_unit_test(a_value_left_in_doubt_is_carried_on_by_its_acceptor),
        cmocka_unit_test(those_behind_are_told),
        cmocka_unit_test(a_promise_survives_a_crash),
        cmocka_unit_test(an_acceptance_survives_a_crash),
        cmocka_unit_test(the_value_of_the_highest_ballot_is_carried_on),
        cmocka_unit_test(a_number_far_above_those_known_is_not_heard),
        cmocka_unit_test(processes_of_one_node_use_different_ballots),
        cmocka_unit_test(a_promise_that_was_not_kept_is_none),
        cmocka_unit_test(a_process_uses_no_ballot_twice_though_its_disk_is_full),
        cmocka_unit_test(a_change_of_voters_needs_both_majorities),
        cmocka_unit_test(records_are_taken_back_with_care),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
