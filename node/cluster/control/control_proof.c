/* control_proof.c - a configuration that others have is put in force with proof of its vote only.
 *
 * Whoever decides a configuration tells it to all, and that frame alone proves nothing: anybody can
 * write epoch + 1 into one. So it is a reason to ask those who voted.
 *
 *   CONFIG, a record in gossip, a frame of the register:     voters of the one in force here
 *   somebody is ahead --> FETCH, with a random number ---------------->  |
 *                         CONFIG with that number <--------------------  |  a majority says the
 *                         same epoch and the same bytes: adopt
 *
 * PROOF-1  Answers count by what was asked: the number is random, goes to the address of whom it
 *          asks, and stands in the answer. Members of an older release, which do not repeat it, are
 *          believed when they were just asked.
 * PROOF-2  A voter votes by accepting (REGISTER-5), and says with its configuration what it has
 *          accepted for the next. This node, if it is a voter, knows that of itself. Such a vote
 *          alone is none for what was decided: that comes with the bytes, from one who has it in
 *          force.
 * PROOF-3  A new lineage has no vote (CONTROL-4): a member of the ring in force that was asked has
 *          to say so. Its number rises by small steps, so that there is always a higher one.
 * PROOF-4  Where voters other than this node are too few to prove it (others took their places
 *          while this node was away, say), most of those that live are asked instead, three being
 *          enough.
 * PROOF-5  Without a configuration of its own a node believes the first member that it has asked:
 *          it knows no voter yet.
 * PROOF-6  Addresses at which nobody is known are answered at a bounded rate, for an answer is
 *          longer than its question.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/control/control_state.h"

enum {
    ASKED_MAX = 8,      /* members beside the voters, at once */
    ENOUGH = 3,         /* of the living, where the voters are gone */
    STEPS_MAX = 1024,   /* of a generation: operators' forces that this node has missed */
    STRANGERS_MAX = 16, /* answered within STRANGERS_NS */
};

#define ASK_FIRST_NS (20 * CONTROL_MS)
#define WANT_NS      (3000 * CONTROL_MS) /* it is asked so long after the last reason */
#define NONCE_NS     (5000 * CONTROL_MS) /* the life of a random number */
#define OLDER_NS     (2000 * CONTROL_MS) /* an older release has so long to answer */
#define FROZEN_NS    (3000 * CONTROL_MS) /* voters are taken for gone after so long */
#define STRANGERS_NS (250 * CONTROL_MS)

/* ---- addresses ------------------------------------------------------------------------------- */

bool control_may_answer(struct control *control, uint64_t sender, const char *address)
{
    const struct swim_member *member = swim_find(control->swim, sender);
    if (member != NULL && strcmp(member->record.gossip, address) == 0)
        return true;
    if (control->now_ns - control->strangers_ns >= STRANGERS_NS) {
        control->strangers_ns = control->now_ns;
        control->strangers = 0;
    }
    return control->strangers++ < STRANGERS_MAX; /* PROOF-6 */
}

/* ---- what was said --------------------------------------------------------------------------- */

static struct hash128 digest_of(const uint8_t *bytes, size_t len)
{
    static const struct hash_key key = {{'r', 'i', 'n', 'g'}};
    return hash128(&key, bytes, len);
}

static void begin(struct control *control)
{
    struct control_proof *proof = &control->proof;
    const uint64_t number[2] = {random_next(&control->random), random_next(&control->random) | 1};
    memcpy(proof->nonce.bytes, number, sizeof proof->nonce.bytes);
    proof->begun_ns = control->now_ns;
    proof->said_count = 0;
}

void control_proof_want(struct control *control)
{
    struct control_proof *proof = &control->proof;
    if (control->now_ns >= proof->until_ns || proof->wait_ns == 0)
        proof->wait_ns = ASK_FIRST_NS;
    proof->until_ns = control->now_ns + WANT_NS;
}

void control_proof_end(struct control *control)
{
    control->proof.until_ns = 0;
    control->proof.begun_ns = 0;
    control->proof.said_count = 0;
    control->proof.wait_ns = 0;
}

/* PROOF-1. */
static bool answers(const struct control *control, const struct join_message *message)
{
    const struct control_proof *proof = &control->proof;
    const struct swim_member *member = swim_find(control->swim, message->sender);
    if (proof->begun_ns == 0 || member == NULL)
        return false;
    if ((member->record.flags & CONTROL_FLAG_PROVES) == 0)
        return control->now_ns - proof->asked_ns < OLDER_NS;
    return memcmp(message->identity.secret.bytes, proof->nonce.bytes, sizeof proof->nonce.bytes) ==
           0;
}

void control_proof_testify(const struct control *control, struct join_message *message)
{
    size_t len = 0;
    const uint8_t *accepted = register_accepted_value(control->ballots, &len);
    const struct hash128 digest =
        len > 0 ? digest_of(accepted, len) : (struct hash128){.lo = 0, .hi = 0};
    static_assert(sizeof digest == sizeof message->identity.route_key.bytes, "a digest fits");
    memcpy(message->identity.route_key.bytes, &digest, sizeof digest);
}

static void note(struct control *control, const struct join_message *message)
{
    struct control_proof *proof = &control->proof;
    ASSERT(proof->said_count <= CONTROL_PROOF_MAX); /* CONTROL-7 */
    const uint64_t node = message->sender;
    uint32_t at = 0;
    while (at < proof->said_count && proof->said[at].node != node)
        at++;
    if (at == CONTROL_PROOF_MAX)
        return;
    if (at == proof->said_count)
        proof->said_count++;
    struct control_said *told = &proof->said[at];
    told->node = node;
    told->epoch = control->next->epoch;
    told->digest = digest_of(message->config, message->config_len);
    memcpy(&told->accepted, message->identity.route_key.bytes, sizeof told->accepted);
}

static bool said(const struct control_proof *proof, uint64_t node, uint64_t epoch,
                 struct hash128 digest)
{
    for (uint32_t i = 0; i < proof->said_count; i++)
        if (proof->said[i].node == node)
            return proof->said[i].epoch == epoch && hash128_equal(proof->said[i].digest, digest);
    return false;
}

/* PROOF-2: whether the voter has voted for it, though it may not know yet what came of it. */
static bool accepted(const struct control_proof *proof, uint64_t node, uint64_t epoch,
                     struct hash128 digest)
{
    for (uint32_t i = 0; i < proof->said_count; i++)
        if (proof->said[i].node == node)
            return proof->said[i].epoch + 1 == epoch &&
                   hash128_equal(proof->said[i].accepted, digest);
    return false;
}

/* ---- whether it is proof --------------------------------------------------------------------- */

/* PROOF-2. What follows a change that it has accepted it need not have accepted itself. */
static bool voted_here(const struct control *control, const struct join_message *message)
{
    return control->next->epoch == control->config->epoch + 1
               ? register_accepted(control->ballots, message->config, message->config_len)
               : register_in_doubt(control->ballots);
}

static bool voted(const struct control *control, const struct join_message *message,
                  struct hash128 digest)
{
    const struct ring_config *config = control->config;
    uint32_t votes = 0;
    for (uint32_t i = 0; i < config->voters_count; i++)
        votes +=
            config->voters[i] == control->options.node_id
                ? voted_here(control, message)
                : said(&control->proof, config->voters[i], control->next->epoch, digest) ||
                      accepted(&control->proof, config->voters[i], control->next->epoch, digest);
    return votes >= config->voters_count / 2 + 1;
}

/* Living members of the region but this node, and how many of them said so. */
static uint32_t count_living(const struct control *control, struct hash128 digest, bool ring_only,
                             uint32_t *agree)
{
    uint32_t living = 0;
    size_t cursor = 0;
    const struct swim_member *member;
    *agree = 0;
    while ((member = swim_next(control->swim, &cursor)) != NULL) {
        const uint64_t id = member->record.id;
        if (id == control->options.node_id || control_remote(control, member) ||
            !control_alive(control, id) ||
            (ring_only && ring_config_find(control->config, id) == NULL))
            continue;
        living++;
        *agree += said(&control->proof, id, control->next->epoch, digest);
    }
    return living;
}

static bool frozen_long(const struct control *control)
{
    return control->proof.frozen_ns != 0 && control->now_ns - control->proof.frozen_ns >= FROZEN_NS;
}

static bool proven(const struct control *control, const struct join_message *message)
{
    const uint64_t epoch = control->next->epoch;
    const struct hash128 digest = digest_of(message->config, message->config_len);
    const uint64_t generation = ring_config_generation(control->config->epoch);
    uint32_t agree = 0;
    if (ring_config_generation(epoch) > generation + STEPS_MAX)
        return false;
    if (voted(control, message, digest))
        return true;
    if (ring_config_lineage(epoch) != ring_config_lineage(control->config->epoch)) /* PROOF-3 */
        return count_living(control, digest, true, &agree) > 0
                   ? agree > 0
                   : count_living(control, digest, false, &agree) > 0 && agree > 0;
    if (!frozen_long(control))
        return false;
    const uint32_t most = count_living(control, digest, false, &agree) / 2 + 1;
    return agree >= (most < ENOUGH ? most : ENOUGH); /* PROOF-4 */
}

bool control_proof_take(struct control *control, const struct join_message *message)
{
    const bool answered = answers(control, message);
    if (control->config->epoch == 0) /* PROOF-5 */
        return answered;
    if (answered)
        note(control, message);
    if (control->next->epoch <= control->config->epoch)
        return false; /* CONTROL-1: what was told before is no reason to ask */
    if (proven(control, message))
        return true;
    control_proof_want(control);
    return false;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void ask(struct control *control, const char *address, struct effects *effects)
{
    struct join_message message = {.type = JOIN_FETCH, .sender = control->options.node_id};
    if (address == NULL)
        return;
    memcpy(message.cluster_id, control->identity.cluster_id, sizeof message.cluster_id);
    memcpy(message.address, control->options.gossip, sizeof message.address);
    memcpy(message.region, control->options.region, sizeof message.region);
    message.identity.secret = control->proof.nonce;
    control_send_join(&message, address, effects);
}

/* Living members of the region, chosen by chance: those whose record names a higher epoch, or all.
 * Returns how many there are. */
static uint32_t choose(struct control *control, bool ahead_only,
                       const struct swim_member *chosen[ASKED_MAX], bool *lineage)
{
    uint32_t seen = 0;
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL) {
        const bool ahead = member->record.ring_epoch > control->config->epoch;
        if (member->record.id == control->options.node_id || control_remote(control, member) ||
            (ahead_only && !ahead) || !control_alive(control, member->record.id))
            continue;
        *lineage = *lineage || (ahead && ring_config_lineage(member->record.ring_epoch) !=
                                             ring_config_lineage(control->config->epoch));
        const uint64_t place = seen < ASKED_MAX ? seen : random_below(&control->random, seen + 1);
        if (place < ASKED_MAX)
            chosen[place] = member;
        seen++;
    }
    return seen;
}

static void look_at_voters(struct control *control)
{
    struct control_proof *proof = &control->proof;
    const struct ring_config *config = control->config;
    uint32_t living = 0;
    for (uint32_t i = 0; i < config->voters_count && config->epoch > 0; i++)
        living += config->voters[i] != control->options.node_id &&
                  control_alive(control, config->voters[i]);
    if (config->epoch == 0 || living >= config->voters_count / 2 + 1)
        proof->frozen_ns = 0;
    else if (proof->frozen_ns == 0)
        proof->frozen_ns = control->now_ns;
}

void control_proof_ask(struct control *control, struct effects *effects)
{
    struct control_proof *proof = &control->proof;
    const struct swim_member *chosen[ASKED_MAX];
    bool lineage = false;
    if (control->now_ns - proof->looked_ns < ASK_FIRST_NS)
        return;
    proof->looked_ns = control->now_ns;
    look_at_voters(control);
    if (choose(control, true, chosen, &lineage) > 0)
        control_proof_want(control);
    if (control->now_ns >= proof->until_ns || control->now_ns - proof->asked_ns < proof->wait_ns)
        return;
    if (proof->begun_ns == 0 || control->now_ns - proof->begun_ns >= NONCE_NS)
        begin(control);
    proof->asked_ns = control->now_ns;
    proof->wait_ns = 2 * proof->wait_ns < CONTROL_ASK_NS ? 2 * proof->wait_ns : CONTROL_ASK_NS;
    for (uint32_t i = 0; i < control->config->voters_count && control->config->epoch > 0; i++)
        if (control->config->voters[i] != control->options.node_id)
            ask(control, control_address_of(control, control->config->voters[i], NULL), effects);
    if (control->config->epoch > 0 && !lineage && !frozen_long(control))
        return;
    const uint32_t count =
        choose(control, lineage || control->config->epoch == 0, chosen, &lineage);
    for (uint32_t i = 0; i < count && i < ASKED_MAX; i++)
        ask(control, chosen[i]->record.gossip, effects);
}
