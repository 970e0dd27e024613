/* swim_seed.c - addresses that are tried for ever: those given, and those of members forgotten.
 *
 * SEED-1  A seed that was given is never replaced; one that was learned from an expired tombstone
 *         makes room for one that is given.
 * SEED-2  A WELCOME counts if it has the number of one of the last greetings of a seed, and once:
 *         the number is random and went to that address alone, and it tells when the question left.
 */
#include "gossip/swim_seed.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_record.h"

int swim_seed_add(struct swim *swim, const char *address)
{
    if (!swim_address_ok(address))
        return TG_EINVALID;
    for (uint32_t i = 0; i < swim->seeds.len; i++) {
        if (strcmp(swim->seeds.all[i].address, address) == 0) {
            swim->seeds.all[i].learned = false;
            return 0;
        }
    }
    uint32_t place = swim->seeds.len;
    for (uint32_t i = 0; place == SWIM_SEEDS_MAX && i < SWIM_SEEDS_MAX; i++) {
        if (swim->seeds.all[i].learned)
            place = i;
    }
    if (place == SWIM_SEEDS_MAX)
        return TG_EFULL;
    ASSERT(place <= swim->seeds.len &&
           (place == swim->seeds.len || swim->seeds.all[place].learned)); /* SEED-1 */
    struct swim_seed *seed = &swim->seeds.all[place];
    memset(seed, 0, sizeof *seed);
    memcpy(seed->address, address, strlen(address) + 1);
    if (place == swim->seeds.len)
        swim->seeds.len++;
    swim->seeds.join_ns = swim->now_ns; /* a new chance need not wait its turn */
    swim->at_once = true;
    return 0;
}

void swim_seed_remember(struct swim *swim, const char *address)
{
    for (uint32_t i = 0; i < swim->seeds.len; i++) {
        if (strcmp(swim->seeds.all[i].address, address) == 0)
            return;
    }
    const int64_t join_ns = swim->seeds.join_ns;
    if (swim_seed_add(swim, address) != 0)
        return; /* every place is taken by a configured seed, which leads back as well */
    swim->seeds.join_ns = join_ns;
    for (uint32_t i = 0; i < swim->seeds.len; i++) {
        if (strcmp(swim->seeds.all[i].address, address) == 0)
            swim->seeds.all[i].learned = true;
    }
}

void swim_seed_answered(struct swim *swim, uint64_t seq, uint64_t id)
{
    ASSERT(id != 0 && swim->seeds.len <= SWIM_SEEDS_MAX); /* GOSSIP-8 */
    for (uint32_t i = 0; i < swim->seeds.len; i++) {
        if (swim->seeds.all[i].seq == seq && seq != 0)
            swim->seeds.all[i].id = id;
    }
}

bool swim_seed_settled(const struct swim *swim, const struct swim_seed *seed)
{
    const struct swim_record *self = &swim->slots[SWIM_SELF].member.record;
    if (seed->id == self->id || strcmp(seed->address, self->gossip) == 0)
        return true;
    if (seed->id != 0) {
        const uint32_t at = swim_lookup(swim, seed->id);
        return at != SWIM_SLOT_NONE && swim->slots[at].member.state <= SWIM_SUSPECT;
    }
    for (uint32_t i = 0; i < swim->order_len; i++) {
        const struct swim_member *member = &swim->slots[swim->order[i]].member;
        if (member->state <= SWIM_SUSPECT && strcmp(member->record.gossip, seed->address) == 0)
            return true;
    }
    return false;
}

const struct swim_seed *swim_seed_welcomed(struct swim *swim, const struct swim_message *message,
                                           int64_t *asked_ns)
{
    if (message->kind != SWIM_WELCOME || message->seq == 0)
        return NULL;
    for (uint32_t i = 0; i < swim->seeds.len; i++)
        for (uint32_t k = 0; k < SWIM_GREETINGS_MAX; k++) {
            struct swim_greeting *greeting = &swim->seeds.all[i].greetings[k];
            if (greeting->seq != message->seq)
                continue;
            greeting->seq = 0;
            *asked_ns = greeting->sent_ns;
            return &swim->seeds.all[i];
        }
    return NULL;
}
