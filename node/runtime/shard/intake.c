/* intake.c - queues of connections that take turns.
 *
 *     round   c7 -> c2 -> c9 -> (c7)      connections with something waiting; `turn` is in front
 *             |     |     |
 *           [.][.] [.]   [.][.][.]        places, first to last
 *
 * A message weighs its bytes and WEIGHT_BASE for itself. A connection in front may have decided
 * what it has credit for; then it gets QUANTUM more and goes behind the others. Credit is for who
 * waits: it ends with the queue.
 *
 * Connections are found by a hash table of chains. Their numbers are places and how often these
 * were used, which nobody outside chooses.
 */
#include "node/runtime/shard/intake.h"

#include <assert.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/hash.h"

enum {
    WEIGHT_BASE = 128,    /* what a message costs beside its bytes is worth about so many */
    QUANTUM = 8192,       /* some 300 checks */
    BUCKETS = 4096,       /* a power of two */
    PACE_UNIT = 1024,     /* of weight; the pace is told in ns for so much */
    PACE_FIRST_NS = 8000, /* 200 ns a check */
    PACE_LEAST_NS = 100,
    PACE_MOST_NS = 1000 * 1000,
    PACE_SHARE = 8, /* of a new measurement: 1 in so many */
    MESSAGE_MAX = 1 << 20,
    MESSAGES_MOST = INTAKE_MESSAGES_MAX / 2,
};

static_assert((int)INTAKE_MESSAGES_MAX < (int)INTAKE_NONE, "a place has a number");
static_assert((int)INTAKE_CONNECTIONS_MAX < (int)INTAKE_NONE, "a queue has a number");
static_assert((int)MESSAGES_MOST + (int)MESSAGES_MOST / 2 + (int)INTAKE_CONNECTIONS_MAX <=
                  (int)INTAKE_MESSAGES_MAX,
              "a first message finds a place");
static_assert((BUCKETS & (BUCKETS - 1)) == 0, "a mask finds the bucket");

struct place {
    uint32_t weight;
    uint16_t next; /* of its queue, or of the free ones */
};

struct queue {
    uint64_t connection;
    uint64_t weight; /* of all that waits */
    uint32_t count;
    uint32_t credit;
    uint16_t first; /* place */
    uint16_t last;
    uint16_t next;    /* in the round, or of the free ones */
    uint16_t chained; /* next of the bucket */
};

struct intake {
    struct place places[INTAKE_MESSAGES_MAX];
    struct queue queues[INTAKE_CONNECTIONS_MAX];
    uint16_t buckets[BUCKETS];
    uint16_t place_free;
    uint16_t queue_free;
    uint16_t turn; /* first of the round */
    uint16_t last; /* of the round */
    uint32_t active;
    uint32_t count;
    uint64_t weight;
    uint64_t taken; /* weight, since intake_decided */
    uint64_t pace_ns;
};

int intake_new(struct intake **out)
{
    struct intake *intake = calloc(1, sizeof *intake);
    *out = intake;
    if (intake == NULL)
        return TG_ENOMEM;
    for (uint32_t i = 0; i < BUCKETS; i++)
        intake->buckets[i] = INTAKE_NONE;
    for (uint32_t i = 0; i < INTAKE_MESSAGES_MAX; i++)
        intake->places[i].next = (uint16_t)(i + 1);
    for (uint32_t i = 0; i < INTAKE_CONNECTIONS_MAX; i++)
        intake->queues[i].next = (uint16_t)(i + 1);
    intake->places[INTAKE_MESSAGES_MAX - 1].next = INTAKE_NONE;
    intake->queues[INTAKE_CONNECTIONS_MAX - 1].next = INTAKE_NONE;
    intake->turn = intake->last = INTAKE_NONE;
    intake->pace_ns = PACE_FIRST_NS;
    return 0;
}

void intake_free(struct intake **intake)
{
    free(*intake);
    *intake = NULL;
}

uint32_t intake_count(const struct intake *intake)
{
    return intake->count;
}

void intake_each(const struct intake *intake, void (*fn)(void *context, uint64_t connection),
                 void *context)
{
    uint16_t at = intake->turn;
    for (uint32_t i = 0; i < intake->active; i++) {
        fn(context, intake->queues[at].connection);
        at = intake->queues[at].next;
    }
}

bool intake_room(const struct intake *intake)
{
    return intake->place_free != INTAKE_NONE && intake->queue_free != INTAKE_NONE &&
           intake->weight + MESSAGE_MAX <= INTAKE_BYTES_MAX;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static uint32_t bucket_number(uint64_t connection)
{
    return (uint32_t)hash_mix64(connection) & (BUCKETS - 1);
}

static uint16_t *bucket_of(struct intake *intake, uint64_t connection)
{
    return &intake->buckets[bucket_number(connection)];
}

static uint16_t find(const struct intake *intake, uint64_t connection)
{
    uint16_t at = intake->buckets[bucket_number(connection)];
    while (at != INTAKE_NONE && intake->queues[at].connection != connection)
        at = intake->queues[at].chained;
    return at;
}

static void go_behind(struct intake *intake, uint16_t number)
{
    intake->queues[number].next = INTAKE_NONE;
    if (intake->turn == INTAKE_NONE)
        intake->turn = number;
    else
        intake->queues[intake->last].next = number;
    intake->last = number;
}

static void leave_front(struct intake *intake)
{
    intake->turn = intake->queues[intake->turn].next;
    if (intake->turn == INTAKE_NONE)
        intake->last = INTAKE_NONE;
}

static uint16_t begin_queue(struct intake *intake, uint64_t connection)
{
    const uint16_t number = intake->queue_free;
    uint16_t *bucket = bucket_of(intake, connection);
    ASSERT(number != INTAKE_NONE && find(intake, connection) == INTAKE_NONE); /* INTAKE-4 */
    struct queue *queue = &intake->queues[number];
    intake->queue_free = queue->next;
    *queue = (struct queue){.connection = connection,
                            .credit = QUANTUM,
                            .first = INTAKE_NONE,
                            .last = INTAKE_NONE,
                            .chained = *bucket};
    *bucket = number;
    go_behind(intake, number);
    intake->active++;
    return number;
}

/* The one in front has nothing more waiting. */
static void end_queue(struct intake *intake)
{
    const uint16_t number = intake->turn;
    struct queue *queue = &intake->queues[number];
    uint16_t *link = bucket_of(intake, queue->connection);
    ASSERT(queue->count == 0 && queue->weight == 0 && intake->active > 0); /* INTAKE-4 */
    leave_front(intake);
    while (*link != number)
        link = &intake->queues[*link].chained;
    *link = queue->chained;
    queue->next = intake->queue_free;
    intake->queue_free = number;
    intake->active--;
}

/* ---- in and out ------------------------------------------------------------------------------ */

/* Whether `more` may be added to what a connection has, and all have: beyond `most` only where it
 * is a small part of that. */
static bool fits(const struct intake *intake, uint64_t own, uint64_t all, uint64_t more,
                 uint64_t most)
{
    return all + more <= most || (own + more) * 2 * intake->active <= most;
}

static bool accepts(const struct intake *intake, uint16_t number, uint32_t weight)
{
    if (number == INTAKE_NONE)
        return true;
    const struct queue *queue = &intake->queues[number];
    const uint64_t most = (uint64_t)INTAKE_WAIT_NS * PACE_UNIT / intake->pace_ns;
    return fits(intake, queue->weight, intake->weight, weight, most) &&
           fits(intake, queue->count, intake->count, 1, MESSAGES_MOST);
}

uint16_t intake_put(struct intake *intake, uint64_t connection, size_t len)
{
    ASSERT(intake_room(intake) && len <= MESSAGE_MAX);
    const uint32_t weight = (uint32_t)len + WEIGHT_BASE;
    uint16_t number = find(intake, connection);
    if (!accepts(intake, number, weight))
        return INTAKE_NONE;
    if (number == INTAKE_NONE)
        number = begin_queue(intake, connection);
    struct queue *queue = &intake->queues[number];
    const uint16_t place = intake->place_free;
    ASSERT(place < INTAKE_MESSAGES_MAX && intake->count < INTAKE_MESSAGES_MAX); /* INTAKE-3 */
    intake->place_free = intake->places[place].next;
    intake->places[place] = (struct place){.weight = weight, .next = INTAKE_NONE};
    if (queue->first == INTAKE_NONE)
        queue->first = place;
    else
        intake->places[queue->last].next = place;
    queue->last = place;
    queue->weight += weight;
    queue->count++;
    intake->weight += weight;
    intake->count++;
    return place;
}

uint16_t intake_take(struct intake *intake, uint64_t *connection)
{
    if (intake->count == 0)
        return INTAKE_NONE;
    struct queue *queue = &intake->queues[intake->turn];
    while (queue->credit < intake->places[queue->first].weight) { /* ends: a message has a length */
        const uint16_t number = intake->turn;
        queue->credit += QUANTUM;
        leave_front(intake);
        go_behind(intake, number);
        queue = &intake->queues[intake->turn];
    }
    const uint16_t at = queue->first;
    ASSERT(queue->count > 0 && queue->weight <= intake->weight); /* INTAKE-4 */
    struct place *place = &intake->places[at];
    *connection = queue->connection;
    queue->credit -= place->weight;
    queue->weight -= place->weight;
    queue->count--;
    queue->first = place->next;
    intake->weight -= place->weight;
    intake->taken += place->weight;
    intake->count--;
    place->next = intake->place_free;
    intake->place_free = at;
    if (queue->first == INTAKE_NONE)
        end_queue(intake);
    return at;
}

void intake_decided(struct intake *intake, int64_t ns)
{
    if (intake->taken == 0 || ns <= 0)
        return;
    uint64_t pace_ns = (uint64_t)ns * PACE_UNIT / intake->taken;
    if (pace_ns > PACE_MOST_NS)
        pace_ns = PACE_MOST_NS;
    intake->pace_ns = intake->pace_ns - intake->pace_ns / PACE_SHARE + pace_ns / PACE_SHARE;
    if (intake->pace_ns < PACE_LEAST_NS)
        intake->pace_ns = PACE_LEAST_NS;
    intake->taken = 0;
}

/* ---- the invariants -------------------------------------------------------------------------- */

/* What waits of one connection, in its order; returns how many. */
static uint32_t check_queue(const struct intake *intake, uint16_t number)
{
    const struct queue *queue = &intake->queues[number];
    uint64_t weight = 0;
    uint32_t count = 0;
    uint16_t last = INTAKE_NONE;
    INVARIANT("INTAKE-4", find(intake, queue->connection) == number);
    for (uint16_t at = queue->first; at != INTAKE_NONE; at = intake->places[at].next) {
        INVARIANT("INTAKE-4", at < INTAKE_MESSAGES_MAX && count < queue->count);
        weight += intake->places[at].weight;
        last = at;
        count++;
    }
    INVARIANT("INTAKE-4", count > 0 && count == queue->count && last == queue->last);
    INVARIANT("INTAKE-4", weight == queue->weight);
    return count;
}

static uint32_t count_free_places(const struct intake *intake)
{
    uint32_t count = 0;
    for (uint16_t at = intake->place_free; at != INTAKE_NONE; at = intake->places[at].next) {
        INVARIANT("INTAKE-4", at < INTAKE_MESSAGES_MAX && count < INTAKE_MESSAGES_MAX);
        count++;
    }
    return count;
}

static uint32_t count_free_queues(const struct intake *intake)
{
    uint32_t count = 0;
    for (uint16_t at = intake->queue_free; at != INTAKE_NONE; at = intake->queues[at].next) {
        INVARIANT("INTAKE-4", at < INTAKE_CONNECTIONS_MAX && count < INTAKE_CONNECTIONS_MAX);
        count++;
    }
    return count;
}

void intake_check_invariants(const struct intake *intake)
{
    uint64_t weight = 0;
    uint32_t active = 0;
    uint32_t count = 0;
    uint16_t last = INTAKE_NONE;
    for (uint16_t at = intake->turn; at != INTAKE_NONE; at = intake->queues[at].next) {
        INVARIANT("INTAKE-4", at < INTAKE_CONNECTIONS_MAX && active < intake->active);
        count += check_queue(intake, at);
        weight += intake->queues[at].weight;
        last = at;
        active++;
    }
    INVARIANT("INTAKE-4", active == intake->active && last == intake->last);
    INVARIANT("INTAKE-4", count == intake->count && weight == intake->weight);
    INVARIANT("INTAKE-4", count + count_free_places(intake) == INTAKE_MESSAGES_MAX);
    INVARIANT("INTAKE-4", active + count_free_queues(intake) == INTAKE_CONNECTIONS_MAX);
    INVARIANT("INTAKE-3", weight <= INTAKE_BYTES_MAX + (uint64_t)count * WEIGHT_BASE);
    INVARIANT("INTAKE-2", intake->pace_ns >= PACE_LEAST_NS && intake->pace_ns <= PACE_MOST_NS);
}
