/* config.c - the rules of a ring configuration, and the changes from one to the next.
 *
 *            add / remove / reweigh
 *   STABLE -------------------------> TRANSITION      each arrow: epoch + 1
 *   from = to <---------------------- from != to
 *                   settle
 *
 * RINGCONFIG-1  A change reads the old configuration and writes a new one; the old one stays as it
 *               was, because the register compares it with what it holds.
 * RINGCONFIG-2  Both sides are ascending by id, so equal configurations are equal field by field.
 * RINGCONFIG-3  A member on both sides of a join or leave is the same on both, its seats included.
 *
 * It must not decide when to change anything: that is node/cluster's business.
 */
#include "ring/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

/* Where the parts of an epoch begin: the lineage, and in it the generation. */
enum { LINEAGE_SHIFT = 32, GENERATION_SHIFT = 40 };
#define GENERATION_LAST (UINT64_MAX >> GENERATION_SHIFT)

/* ---- validation ---- */

__attribute__((format(printf, 2, 3))) static int refuse(char *sentence, const char *format, ...)
{
    if (sentence != NULL) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(sentence, RING_SENTENCE_LEN, format, arguments);
        va_end(arguments);
    }
    return TG_EINVALID;
}

static int check_seats(const struct ring_member *member, const char *side, uint32_t index,
                       char *sentence)
{
    ASSERT(ring_seats_of_weight(member->weight) <= RING_SEATS_EACH_MAX);
    if (member->seats_count == 0) {
        return 0;
    }
    if (member->seats_count != ring_seats_of_weight(member->weight)) {
        return refuse(sentence, "%s[%u]: %u seats, expected %u for weight %u", side, index,
                      member->seats_count, ring_seats_of_weight(member->weight), member->weight);
    }
    for (uint32_t i = 0; i < member->seats_count; i++) {
        const uint32_t seat = member->seats[i];
        if (seat == 0 || seat > RING_SEATS_MAX || (i > 0 && seat <= member->seats[i - 1])) {
            return refuse(sentence, "%s[%u]: seat %u, expected ascending within 1..%d", side, index,
                          seat, RING_SEATS_MAX);
        }
    }
    return 0;
}

static int check_member(const struct ring_member *member, const char *side, uint32_t index,
                        char *sentence)
{
    if (member->id == 0) {
        return refuse(sentence, "%s[%u]: id 0, expected a non-zero id", side, index);
    }
    if (member->weight < RING_WEIGHT_MIN || member->weight > RING_WEIGHT_MAX) {
        return refuse(sentence, "%s[%u]: weight %u, expected %d..%d", side, index, member->weight,
                      RING_WEIGHT_MIN, RING_WEIGHT_MAX);
    }
    if (memchr(member->name, '\0', RING_NAME_LEN) == NULL ||
        memchr(member->zone_name, '\0', RING_NAME_LEN) == NULL) {
        return refuse(sentence, "%s[%u]: name or zone too long, expected at most %d bytes", side,
                      index, RING_NAME_LEN - 1);
    }
    if (member->zone != ring_zone_hash(member->zone_name)) {
        return refuse(sentence, "%s[%u]: zone number is not the hash of its zone name", side,
                      index);
    }
    return check_seats(member, side, index, sentence);
}

static bool same_name(const struct ring_member *a, const struct ring_member *b)
{
    return a->name[0] != '\0' && strcmp(a->name, b->name) == 0;
}

/* Seats and names must not repeat within a side. */
static int check_distinct(const struct ring_member *members, uint32_t count, const char *side,
                          char *sentence)
{
    uint8_t taken[RING_SEATS_MAX / 8 + 1] = {0};

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < members[i].seats_count; k++) {
            const uint32_t seat = members[i].seats[k];
            if (taken[seat / 8] & 1U << seat % 8) {
                return refuse(sentence, "%s[%u]: seat %u is taken, expected a free one", side, i,
                              seat);
            }
            taken[seat / 8] |= (uint8_t)(1U << seat % 8);
        }
        for (uint32_t earlier = 0; earlier < i; earlier++) {
            if (same_name(&members[i], &members[earlier])) {
                return refuse(sentence, "%s[%u]: name \"%s\" repeats, expected a unique one", side,
                              i, members[i].name);
            }
        }
    }
    return 0;
}

static int check_side(const struct ring_member *members, uint32_t count, const char *side,
                      char *sentence)
{
    if (count == 0 || count > RING_MEMBERS_MAX) {
        return refuse(sentence, "%s: %u members, expected 1..%d", side, count, RING_MEMBERS_MAX);
    }
    for (uint32_t i = 0; i < count; i++) {
        const int error = check_member(&members[i], side, i, sentence);
        if (error < 0) {
            return error;
        }
        if (i > 0 && members[i].id <= members[i - 1].id) {
            return refuse(sentence, "%s[%u]: id not above the one before, expected ascending ids",
                          side, i);
        }
    }
    return check_distinct(members, count, side, sentence);
}

static int check_voters(const struct ring_config *config, char *sentence)
{
    if (config->voters_count == 0 || config->voters_count > RING_VOTERS_MAX) {
        return refuse(sentence, "voters: %u, expected 1..%d", config->voters_count,
                      RING_VOTERS_MAX);
    }
    for (uint32_t i = 0; i < config->voters_count; i++) {
        if (ring_config_find(config, config->voters[i]) == NULL) {
            return refuse(sentence, "voters[%u]: not a member of either side", i);
        }
        if (i > 0 && config->voters[i] <= config->voters[i - 1]) {
            return refuse(sentence, "voters[%u]: not above the one before, expected ascending ids",
                          i);
        }
    }
    return 0;
}

int ring_config_validate(const struct ring_config *config, char sentence[RING_SENTENCE_LEN])
{
    if (config->epoch == 0) {
        return refuse(sentence, "epoch: 0, expected at least 1");
    }
    if (!ring_vnodes_valid(config->vnodes)) {
        return refuse(sentence, "vnodes: %u, expected a power of two in %d..%d", config->vnodes,
                      RING_VNODES_MIN, RING_VNODES_MAX);
    }
    if (config->replicas == 0 || config->replicas > RING_REPLICAS_MAX) {
        return refuse(sentence, "replicas: %u, expected 1..%d", config->replicas,
                      RING_REPLICAS_MAX);
    }
    if (check_side(config->from, config->from_count, "from", sentence) < 0 ||
        check_side(config->to, config->to_count, "to", sentence) < 0) {
        return TG_EINVALID;
    }
    return check_voters(config, sentence);
}

/* ---- reading ---- */

static bool member_equal(const struct ring_member *a, const struct ring_member *b)
{
    return a->id == b->id && a->weight == b->weight && a->zone == b->zone &&
           a->seats_count == b->seats_count &&
           memcmp(a->seats, b->seats, a->seats_count * sizeof a->seats[0]) == 0 &&
           strcmp(a->name, b->name) == 0 && strcmp(a->zone_name, b->zone_name) == 0;
}

static bool side_equal(const struct ring_member *a, uint32_t a_count, const struct ring_member *b,
                       uint32_t b_count)
{
    if (a_count != b_count) {
        return false;
    }
    for (uint32_t i = 0; i < a_count; i++) {
        if (!member_equal(&a[i], &b[i])) {
            return false;
        }
    }
    return true;
}

bool ring_config_is_stable(const struct ring_config *config)
{
    return side_equal(config->from, config->from_count, config->to, config->to_count);
}

bool ring_config_equal(const struct ring_config *a, const struct ring_config *b)
{
    return a->epoch == b->epoch && a->vnodes == b->vnodes && a->replicas == b->replicas &&
           a->voters_count == b->voters_count &&
           memcmp(a->voters, b->voters, a->voters_count * sizeof a->voters[0]) == 0 &&
           side_equal(a->from, a->from_count, b->from, b->from_count) &&
           side_equal(a->to, a->to_count, b->to, b->to_count);
}

void ring_config_copy(struct ring_config *out, const struct ring_config *in)
{
    ASSERT(in->from_count <= RING_MEMBERS_MAX && in->to_count <= RING_MEMBERS_MAX);
    memcpy(out, in, offsetof(struct ring_config, from));
    memcpy(out->from, in->from, in->from_count * sizeof in->from[0]);
    memcpy(out->to, in->to, in->to_count * sizeof in->to[0]);
}

/* Index of the first member whose id is not below `id`. */
static uint32_t lower_bound(const struct ring_member *members, uint32_t count, uint64_t id)
{
    uint32_t low = 0;

    for (uint32_t high = count; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        if (members[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    ASSERT(low <= count);
    return low;
}

static const struct ring_member *find(const struct ring_member *members, uint32_t count,
                                      uint64_t id)
{
    const uint32_t at = lower_bound(members, count, id);

    return at < count && members[at].id == id ? &members[at] : NULL;
}

const struct ring_member *ring_config_find(const struct ring_config *config, uint64_t id)
{
    const struct ring_member *member = find(config->to, config->to_count, id);

    return member != NULL ? member : find(config->from, config->from_count, id);
}

/* ---- changes ---- */

/* Copies `in` with the next epoch; TG_ECONFLICT unless it is stable. */
static int begin(struct ring_config *out, const struct ring_config *in)
{
    ASSERT(out != in);
    if (!ring_config_is_stable(in)) {
        return TG_ECONFLICT;
    }
    ring_config_copy(out, in);
    out->epoch++;
    return 0;
}

int ring_config_init(struct ring_config *config, const struct ring_member *first, uint32_t vnodes,
                     uint32_t replicas)
{
    memset(config, 0, offsetof(struct ring_config, from));
    config->epoch = 1;
    config->vnodes = vnodes;
    config->replicas = replicas;
    config->voters_count = 1;
    config->voters[0] = first->id;
    config->to_count = 1;
    config->to[0] = *first;
    config->to[0].seats_count = 0;
    if (first->weight < RING_WEIGHT_MIN || first->weight > RING_WEIGHT_MAX ||
        ring_member_seat(&config->to[0], NULL, 0) < 0) {
        return TG_EINVALID;
    }
    config->from_count = 1;
    config->from[0] = config->to[0];
    return ring_config_validate(config, NULL);
}

/* The first epoch of a lineage. */
static uint64_t first_epoch(uint64_t generation, uint64_t maker)
{
    return generation << GENERATION_SHIFT | (maker & 0xff) << LINEAGE_SHIFT | 1;
}

void ring_config_begin(struct ring_config *config, uint64_t generation, uint64_t maker)
{
    ASSERT(config->epoch == 1 && generation > 0 && generation <= GENERATION_LAST);
    config->epoch = first_epoch(generation, maker);
}

uint64_t ring_config_generation(uint64_t epoch)
{
    return epoch >> GENERATION_SHIFT;
}

int ring_config_add(struct ring_config *out, const struct ring_config *in,
                    const struct ring_member *member)
{
    const int error = begin(out, in);

    if (error < 0) {
        return error;
    }
    struct ring_member seated = *member;
    seated.seats_count = 0;
    if (check_member(&seated, "member", 0, NULL) < 0) {
        return TG_EINVALID;
    }
    for (uint32_t i = 0; i < out->to_count; i++) {
        if (out->to[i].id == member->id || same_name(&out->to[i], member)) {
            return TG_EEXISTS;
        }
    }
    if (out->to_count == RING_MEMBERS_MAX ||
        ring_member_seat(&seated, out->to, out->to_count) < 0) {
        return TG_EFULL;
    }
    ASSERT(out->to_count < RING_MEMBERS_MAX && seated.seats_count > 0);
    const uint32_t at = lower_bound(out->to, out->to_count, member->id);
    memmove(&out->to[at + 1], &out->to[at], (out->to_count - at) * sizeof out->to[0]);
    out->to[at] = seated;
    out->to_count++;
    return 0;
}

int ring_config_remove(struct ring_config *out, const struct ring_config *in, uint64_t id)
{
    const int error = begin(out, in);
    uint32_t kept = 0;

    if (error < 0) {
        return error;
    }
    const uint32_t at = lower_bound(out->to, out->to_count, id);
    if (at == out->to_count || out->to[at].id != id) {
        return TG_ENOTFOUND;
    }
    for (uint32_t i = 0; i < out->voters_count; i++) {
        if (out->voters[i] != id) {
            out->voters[kept++] = out->voters[i];
        }
    }
    if (kept == 0 || out->to_count == 1) {
        return TG_EINVALID;
    }
    ASSERT(kept <= out->voters_count && at < out->to_count);
    out->voters_count = kept;
    out->to_count--;
    memmove(&out->to[at], &out->to[at + 1], (out->to_count - at) * sizeof out->to[0]);
    return 0;
}

int ring_config_reweigh(struct ring_config *out, const struct ring_config *in, uint64_t id,
                        uint32_t weight)
{
    const int error = begin(out, in);

    if (error < 0) {
        return error;
    }
    const uint32_t at = lower_bound(out->to, out->to_count, id);
    if (at == out->to_count || out->to[at].id != id) {
        return TG_ENOTFOUND;
    }
    if (weight < RING_WEIGHT_MIN || weight > RING_WEIGHT_MAX) {
        return TG_EINVALID;
    }
    out->to[at].weight = weight;
    if (out->to[at].seats_count == 0) {
        return 0; /* a set that was made without seats stays so */
    }
    return ring_member_seat(&out->to[at], out->to, out->to_count);
}

bool ring_config_epoch_forced(uint64_t epoch)
{
    return ring_config_lineage(epoch) != 0 && (uint32_t)epoch == 1;
}

int ring_config_settle(struct ring_config *out, const struct ring_config *in)
{
    ASSERT(in->to_count >= 1);
    ASSERT(out != in);
    if (ring_config_is_stable(in)) {
        return TG_ECONFLICT;
    }
    ring_config_copy(out, in);
    out->epoch++;
    out->from_count = in->to_count;
    memcpy(out->from, in->to, in->to_count * sizeof in->to[0]);
    return check_voters(out, NULL);
}

/* Gives `out` these voters, in ascending order. */
static int take_voters(struct ring_config *out, const uint64_t *voters, uint32_t voters_count)
{
    if (voters_count == 0 || voters_count > RING_VOTERS_MAX) {
        return TG_EINVALID;
    }
    out->voters_count = voters_count;
    for (uint32_t i = 0; i < voters_count; i++) {
        uint32_t at = i;
        if (ring_config_find(out, voters[i]) == NULL) {
            return TG_ENOTFOUND;
        }
        for (; at > 0 && out->voters[at - 1] > voters[i]; at--) {
            out->voters[at] = out->voters[at - 1];
        }
        out->voters[at] = voters[i];
    }
    return check_voters(out, NULL);
}

int ring_config_set_voters(struct ring_config *out, const struct ring_config *in,
                           const uint64_t *voters, uint32_t voters_count)
{
    ASSERT(out != in);
    if (ring_config_epoch_forced(in->epoch) && !ring_config_is_stable(in)) {
        return TG_ECONFLICT;
    }
    ring_config_copy(out, in);
    out->epoch++;
    return take_voters(out, voters, voters_count);
}

/* How many members two sides do not have in common, or not as they are. */
static uint32_t differences(const struct ring_member *a, uint32_t a_count,
                            const struct ring_member *b, uint32_t b_count)
{
    uint32_t count = 0;
    uint32_t i = 0;
    for (uint32_t j = 0; i < a_count || j < b_count; count++) {
        if (i < a_count && j < b_count && a[i].id == b[j].id) {
            count -= member_equal(&a[i++], &b[j++]) ? 1 : 0;
        } else if (j == b_count || (i < a_count && a[i].id < b[j].id)) {
            i++;
        } else {
            j++;
        }
    }
    ASSERT(count <= a_count + b_count && i == a_count);
    return count;
}

static bool same_voters(const struct ring_config *a, const struct ring_config *b)
{
    return a->voters_count == b->voters_count &&
           memcmp(a->voters, b->voters, a->voters_count * sizeof a->voters[0]) == 0;
}

bool ring_config_follows(const struct ring_config *next, const struct ring_config *config)
{
    const bool from_same =
        side_equal(next->from, next->from_count, config->from, config->from_count);
    const bool to_same = side_equal(next->to, next->to_count, config->to, config->to_count);
    if (next->epoch != config->epoch + 1 || next->vnodes != config->vnodes ||
        next->replicas != config->replicas) {
        return false;
    }
    if (from_same && to_same) {
        return true; /* set_voters */
    }
    if (ring_config_is_stable(config)) { /* add, remove, reweigh */
        return from_same &&
               differences(next->to, next->to_count, config->to, config->to_count) == 1;
    }
    return to_same && same_voters(next, config) && ring_config_is_stable(next); /* settle */
}

uint32_t ring_config_lineage(uint64_t epoch)
{
    return (uint32_t)(epoch >> LINEAGE_SHIFT);
}

int ring_config_force(struct ring_config *out, const struct ring_config *in, uint64_t id,
                      const uint64_t *voters, uint32_t voters_count, uint64_t maker)
{
    ASSERT(out != in);
    if (ring_config_generation(in->epoch) == GENERATION_LAST) {
        return TG_EINVALID;
    }
    ring_config_copy(out, in);
    const uint32_t at = lower_bound(out->to, out->to_count, id);
    if (at < out->to_count && out->to[at].id == id) {
        if (out->to_count == 1) {
            return TG_EINVALID;
        }
        out->to_count--;
        memmove(&out->to[at], &out->to[at + 1], (out->to_count - at) * sizeof out->to[0]);
    }
    out->epoch = first_epoch(ring_config_generation(in->epoch) + 1, maker);
    ASSERT(out->epoch > in->epoch);
    return take_voters(out, voters, voters_count);
}
