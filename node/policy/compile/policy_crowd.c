/* policy_crowd.c - see policy_crowd.h.
 *
 * Rules are cut apart by one attribute after the other. A request has one value of it, so of the
 * rules that match on it only those can meet that one value satisfies:
 *
 *   api:   /a/b   /a/..   /c   (any)         /a/b: the first, the second and the fourth
 *                                            /a/ : the second and the fourth;  /c: ...
 *
 * What a condition's value begins with, up to its first *, is its stem. All stems that one value of
 * a request satisfies are beginnings of it, so each is a beginning of the longest of them: it is
 * enough to look at every stem, with those that are a beginning of it. In the order of bytes these
 * lie on a stack. Addresses are stems of bits, so a block is a beginning of what lies in it.
 *
 * The same holds of a value read from behind, and of each piece of it between two slashes, for an
 * inner * takes no slash: these are further sides from which rules are cut apart.
 *
 * Where a stem still has too many rules they are cut apart by the next side, and so on; rules that
 * no side of any attribute keeps apart are a crowd.
 *
 * CROWD-1  A stem's rules are all that some value with this longest stem can satisfy, perhaps more.
 * CROWD-2  Work is counted, and ends at WORK_MAX: then what is at hand is told as a guess.
 */
#include "node/policy/compile/policy_crowd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/index/policy_plan.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/model/policy_ip.h"
#include "node/policy/model/policy_pattern.h"

enum {
    LEVELS_MAX = 16, /* sides that cut rules apart, one within the other */
    SIDE_FRONT = 0,
    SIDE_BACK = 1,
    SIDE_PIECES = 2, /* the first piece, the second ... */
    SIDES = 10,
    BITS_LEN = 1 + 8 * POLICY_IPV6_LEN, /* the family, and a byte a bit */
    NAMES_MAX = 64                      /* attributes looked at; others keep no rules apart */
};
#define WORK_MAX UINT64_C(4000000)

/* One value of a condition. */
struct stem {
    const char *data;
    size_t len;
    uint32_t rule; /* its place in `rules` */
    bool backwards;
    bool exact;                      /* it is the whole value */
    const struct policy_text *value; /* NULL: an address */
};

/* Rules that are being cut apart by one attribute. */
struct level {
    uint32_t *rules; /* places in `rules` of the search */
    size_t count;
    size_t others; /* so many of them, the first ones, do not match on the attribute */
    uint32_t cut;  /* SIDES x the attribute in the order of the search, + the side */
    struct stem *stems;
    size_t stem_room; /* what was allocated */
    size_t stem_count;
    size_t at;      /* the next stem */
    uint32_t *open; /* patterns among those before that are a beginning of it */
    size_t open_count;
};

struct search {
    const struct allocator *allocator;
    const struct policy_rule **rules;
    uint32_t *groups; /* of each rule: the place of one of its group */
    uint32_t *marks;  /* of each place: the stamp at which it was seen last */
    size_t count;
    uint32_t stamp;
    struct policy_text names[NAMES_MAX];
    uint32_t uses[NAMES_MAX];
    uint32_t name_count;
    char *bits; /* of the addresses of the conditions, BITS_LEN each */
    size_t bits_used;
    size_t bits_count;
    uint64_t work;
    struct level levels[LEVELS_MAX];
    uint32_t depth;
    bool failed; /* no memory */
};

/* ---- the rules ------------------------------------------------------------------------------- */

static bool counts(const struct policy_rule *rule)
{
    return policy_acts(rule) && !rule->shadow && rule->act == POLICY_ACT_THROTTLE;
}

static int compare_groups(const void *a, const void *b)
{
    const struct policy_rule *const *left = a;
    const struct policy_rule *const *right = b;
    return policy_text_compare(&(*left)->group, &(*right)->group);
}

/* Rules of one group stand together, so that each names the first of them. */
static void gather_rules(struct search *search, const struct policy *policy)
{
    for (size_t i = 0; i < policy_rule_count(policy); i++)
        if (counts(policy_rule_at(policy, i)))
            search->rules[search->count++] = policy_rule_at(policy, i);
    qsort(search->rules, search->count, sizeof *search->rules, compare_groups);
    for (uint32_t i = 0; i < search->count; i++) {
        const bool same = i > 0 && search->rules[i]->group.len > 0 &&
                          policy_text_equal(&search->rules[i]->group, &search->rules[i - 1]->group);
        search->groups[i] = same ? search->groups[i - 1] : i;
    }
}

static void note_name(struct search *search, const struct policy_match *match)
{
    uint32_t at = 0;
    while (at < search->name_count && !policy_text_equal(&search->names[at], &match->attribute))
        at++;
    if (at == NAMES_MAX)
        return;
    if (at == search->name_count) {
        search->names[search->name_count++] = match->attribute;
        search->uses[at] = 0;
    }
    search->uses[at] += match->value_count;
}

/* The attributes, that with the most values first: it keeps most rules apart. */
static void gather_names(struct search *search)
{
    for (size_t i = 0; i < search->count; i++)
        for (uint8_t m = 0; m < search->rules[i]->match_count; m++) {
            const struct policy_match *match = &search->rules[i]->matches[m];
            note_name(search, match);
            if (policy_text_is(&match->attribute, "ip"))
                search->bits_count += match->value_count;
        }
    for (uint32_t i = 1; i < search->name_count; i++)
        for (uint32_t k = i; k > 0 && search->uses[k] > search->uses[k - 1]; k--) {
            const struct policy_text name = search->names[k];
            const uint32_t uses = search->uses[k];
            search->names[k] = search->names[k - 1];
            search->uses[k] = search->uses[k - 1];
            search->names[k - 1] = name;
            search->uses[k - 1] = uses;
        }
}

/* ---- stems ----------------------------------------------------------------------------------- */

static unsigned char byte_of(const struct stem *stem, size_t i)
{
    return (unsigned char)stem->data[stem->backwards ? stem->len - 1 - i : i];
}

/* How many bytes two stems begin with alike. */
static size_t alike(const struct stem *a, const struct stem *b)
{
    const size_t len = a->len < b->len ? a->len : b->len;
    size_t i = 0;
    if (!a->backwards && len > 0 && memcmp(a->data, b->data, len) == 0)
        return len;
    while (i < len && byte_of(a, i) == byte_of(b, i))
        i++;
    return i;
}

static int compare_stems(const void *a, const void *b)
{
    const struct stem *left = a;
    const struct stem *right = b;
    const size_t i = alike(left, right);
    if (i < left->len && i < right->len)
        return byte_of(left, i) < byte_of(right, i) ? -1 : 1;
    return (left->len > right->len) - (left->len < right->len);
}

static bool begins(const struct stem *stem, const struct stem *other)
{
    return alike(stem, other) == stem->len;
}

/* An address or a block of them as a letter for each of its bits. */
static struct stem stem_of_address(struct search *search, const struct policy_block *block)
{
    char *bits = search->bits + search->bits_used++ % search->bits_count * BITS_LEN;
    bits[0] = (char)block->ip.len;
    for (unsigned i = 0; i < block->prefix; i++)
        bits[1 + i] = block->ip.bytes[i / 8] >> (7 - i % 8) & 1 ? '1' : '0';
    return (struct stem){.data = bits, .len = 1U + block->prefix};
}

/* The stem of an address, a block or a pattern of addresses. */
static struct stem stem_of_ip(struct search *search, const struct policy_match *match,
                              const struct policy_text *value)
{
    struct policy_block block = {.prefix = 0};
    if (policy_plan_is_block(match, value)) {
        const enum policy_block_result result = policy_block_parse(value->data, value->len, &block);
        ASSERT(result == POLICY_BLOCK_GOOD); /* it was compiled */
        return stem_of_address(search, &block);
    }
    if (!policy_ip_parse(value->data, value->len, &block.ip))
        return (struct stem){.data = ""}; /* any address may be so written */
    block.prefix = (uint8_t)(8 * block.ip.len);
    return stem_of_address(search, &block);
}

/* The piece of a value before its slash number `number`, from 0. False if it has none. */
static bool find_piece(const struct policy_text *value, uint32_t number, struct policy_text *piece)
{
    const char *at = value->data;
    const char *end = value->data + value->len;
    for (; number > 0 && at != NULL; number--) {
        at = memchr(at, '/', (size_t)(end - at));
        at = at != NULL ? at + 1 : NULL;
    }
    if (at == NULL)
        return false;
    const char *slash = memchr(at, '/', (size_t)(end - at));
    *piece = (struct policy_text){at, (size_t)((slash != NULL ? slash : end) - at)};
    return true;
}

/* What a value demands at that side. False: nothing. */
static bool stem_of(struct search *search, const struct policy_match *match,
                    const struct policy_text *value, uint32_t side, struct stem *out)
{
    struct policy_text text = *value;
    if (policy_text_is(&match->attribute, "ip")) {
        if (side == SIDE_FRONT)
            *out = stem_of_ip(search, match, value);
        return side == SIDE_FRONT;
    }
    if (side >= SIDE_PIECES && !find_piece(value, side - SIDE_PIECES, &text))
        return false;
    const char *star = text.len > 0 ? memchr(text.data, '*', text.len) : NULL;
    *out = (struct stem){.data = text.data,
                         .len = star != NULL ? (size_t)(star - text.data) : text.len,
                         .exact = star == NULL,
                         .backwards = side == SIDE_BACK,
                         .value = side == SIDE_FRONT ? value : NULL};
    const bool last = star != NULL && star + 1 == text.data + text.len;
    if (side == SIDE_FRONT && last && out->len > 1 && star[-1] == '/')
        out->len--; /* of a path it holds without the slash as well */
    for (size_t i = text.len; side == SIDE_BACK && star != NULL && i-- > 0;)
        if (text.data[i] == '*') { /* the last one */
            out->data = text.data + i + 1;
            out->len = text.len - i - 1;
            break;
        }
    return true;
}

static const struct policy_match *match_of(const struct policy_rule *rule,
                                           const struct policy_text *name)
{
    for (uint8_t m = 0; m < rule->match_count; m++)
        if (policy_text_equal(&rule->matches[m].attribute, name))
            return &rule->matches[m];
    return NULL;
}

/* ---- levels ---------------------------------------------------------------------------------- */

/* What a rule demands of a request at that side of that attribute: how many stems, which are
 * written to `out` if it is not NULL; 0: nothing, for one of its values demands nothing. */
static size_t stems_of(struct search *search, uint32_t rule, uint32_t cut, struct stem *out)
{
    const struct policy_match *match = match_of(search->rules[rule], &search->names[cut / SIDES]);
    struct stem stem;
    search->work++;
    for (uint32_t v = 0; match != NULL && v < match->value_count; v++) {
        if (!stem_of(search, match, &match->values[v], cut % SIDES, &stem))
            return 0;
        stem.rule = rule;
        if (out != NULL)
            out[v] = stem;
    }
    return match != NULL ? match->value_count : 0;
}

/* Finds the first cut from `from` on at which some of the level's rules demand something, and how
 * many stems there are. */
static uint32_t next_cut(struct search *search, const struct level *level, uint32_t from,
                         size_t *stems)
{
    for (; from < SIDES * search->name_count; from++) {
        *stems = 0;
        search->bits_used = 0;
        for (size_t i = 0; i < level->count; i++)
            *stems += stems_of(search, level->rules[i], from, NULL);
        if (*stems > 0)
            break;
    }
    return from;
}

static void fill_stems(struct search *search, struct level *level)
{
    size_t count = 0;
    search->bits_used = 0; /* a level of addresses is one at a time: there is one such attribute */
    level->others = 0;
    for (size_t i = 0; i < level->count; i++) {
        const uint32_t rule = level->rules[i];
        const size_t more = stems_of(search, rule, level->cut, level->stems + count);
        count += more;
        if (more == 0) {
            level->rules[i] = level->rules[level->others];
            level->rules[level->others++] = rule;
        }
    }
    ASSERT(count == level->stem_count);
    qsort(level->stems, count, sizeof *level->stems, compare_stems);
    search->work += 16 * count;
}

/* Begins to cut the rules of the level on top, which is filled but for its stems, apart by the
 * first cut from `from` on. False: none keeps any apart. */
static bool cut_apart(struct search *search, uint32_t from)
{
    struct level *level = &search->levels[search->depth - 1];
    size_t stems;
    level->cut = next_cut(search, level, from, &stems);
    if (level->cut == SIDES * search->name_count)
        return false;
    level->stems = alloc_array(search->allocator, stems + 1, sizeof *level->stems);
    level->open = alloc_array(search->allocator, stems + 1, sizeof *level->open);
    level->stem_count = stems;
    level->stem_room = stems + 1;
    level->at = level->open_count = 0;
    search->failed = search->failed || level->stems == NULL || level->open == NULL;
    if (!search->failed)
        fill_stems(search, level);
    return true;
}

static void drop_stems(struct search *search, struct level *level)
{
    alloc_put(search->allocator, level->stems, level->stem_room * sizeof *level->stems);
    alloc_put(search->allocator, level->open, level->stem_room * sizeof *level->open);
    level->stems = NULL;
    level->open = NULL;
    level->stem_count = level->stem_room = 0;
}

static void pop(struct search *search)
{
    struct level *level = &search->levels[--search->depth];
    drop_stems(search, level);
    alloc_put(search->allocator, level->rules, search->count * sizeof *level->rules);
}

/* A level without rules on top; NULL: there is no memory, or there are too many. */
static struct level *push(struct search *search)
{
    if (search->depth == LEVELS_MAX)
        return NULL;
    struct level *level = &search->levels[search->depth++];
    *level = (struct level){.count = 0};
    level->rules = alloc_get(search->allocator, search->count * sizeof *level->rules);
    search->failed = search->failed || level->rules == NULL;
    return level->rules != NULL ? level : NULL;
}

/* Adds a rule, unless it is there. */
static void add(struct search *search, struct level *level, uint32_t rule)
{
    search->work++;
    if (search->marks[rule] == search->stamp)
        return;
    search->marks[rule] = search->stamp;
    level->rules[level->count++] = rule;
}

/* How many rules can act, of each group one: those, in `out` if it is not NULL. */
static uint32_t count_groups(struct search *search, const struct level *level,
                             struct policy_crowd *out)
{
    uint32_t count = 0;
    search->stamp++;
    for (size_t i = 0; i < level->count && count < POLICY_CROWD_MAX; i++) {
        const uint32_t group = search->groups[level->rules[i]];
        if (search->marks[group] == search->stamp)
            continue;
        search->marks[group] = search->stamp;
        if (out != NULL)
            out->rules[count] = search->rules[level->rules[i]];
        count++;
    }
    search->work += level->count;
    return count;
}

/* Whether a pattern that begins as the stem of a whole value does holds for all of it. */
static bool holds(const struct stem *pattern, const struct stem *whole)
{
    struct policy_pattern_space space;

    policy_pattern_begin(&space);
    return pattern->value == NULL || whole->value == NULL ||
           policy_pattern_match(pattern->value, whole->value, true, /* of a path: holds for more */
                                &space);
}

/* Puts the rules of the level's next stem (CROWD-1) into another level, and steps over it. */
static void take_stem(struct search *search, struct level *level, struct level *out)
{
    const struct stem *stem = &level->stems[level->at];
    size_t end = level->at;
    bool whole = true; /* nothing but whole values have this stem */
    while (level->open_count > 0 &&
           !begins(&level->stems[level->open[level->open_count - 1]], stem))
        level->open_count--;
    search->stamp++;
    for (; end < level->stem_count && compare_stems(&level->stems[end], stem) == 0; end++) {
        add(search, out, level->stems[end].rule);
        whole = whole && level->stems[end].exact;
        if (!level->stems[end].exact)
            level->open[level->open_count++] = (uint32_t)end;
    }
    for (size_t i = 0; i < level->open_count; i++) {
        const struct stem *pattern = &level->stems[level->open[i]];
        if (!whole || holds(pattern, stem))
            add(search, out, pattern->rule);
    }
    for (size_t i = 0; i < level->others; i++)
        add(search, out, level->rules[i]);
    level->at = end;
}

/* ---- searching ------------------------------------------------------------------------------- */

/* Looks at the next stem of the level on top. True when a crowd was found. */
static bool step(struct search *search, struct policy_crowd *out)
{
    struct level *level = &search->levels[search->depth - 1];
    if (level->at == level->stem_count) {
        pop(search);
        return false;
    }
    struct level *next = push(search);
    if (next != NULL)
        take_stem(search, level, next);
    if (next != NULL && count_groups(search, next, NULL) < POLICY_CROWD_MAX) {
        pop(search);
        return false;
    }
    out->guessed = next == NULL || search->work > WORK_MAX; /* CROWD-2 */
    (void)count_groups(search, next != NULL ? next : level, out);
    if (search->failed || out->guessed)
        return true;
    const uint32_t from = level->cut + 1;
    if (next->count == level->count) { /* all of them: other stems have no others */
        pop(search);
        drop_stems(search, level);
    }
    return !cut_apart(search, from);
}

/* A level with all rules on top; NULL: there is no memory. */
static struct level *push_all(struct search *search)
{
    struct level *all = push(search);
    for (uint32_t i = 0; all != NULL && i < search->count; i++)
        all->rules[all->count++] = i;
    return all;
}

/* The most rules that any stem of the level has, its `others` left out. */
static uint32_t most_of_stems(struct search *search, struct level *level)
{
    uint32_t most = 0;
    level->others = 0;
    while (level->at < level->stem_count && most < POLICY_CROWD_MAX) {
        struct level *next = push(search);
        if (next == NULL)
            return POLICY_CROWD_MAX;
        take_stem(search, level, next);
        const uint32_t count = count_groups(search, next, NULL);
        most = count > most ? count : most;
        pop(search);
    }
    return most;
}

/* Makes rules whose very stem is that of too many others of the level, so that the next attribute
 * is to keep them apart. */
static void defer_crowded(struct search *search, struct level *level)
{
    size_t kept = 0;
    size_t end;
    search->stamp++;
    for (size_t at = 0; at < level->stem_count; at = end) {
        for (end = at + 1;
             end < level->stem_count && compare_stems(&level->stems[end], &level->stems[at]) == 0;)
            end++;
        for (size_t i = at; i < end && end - at > POLICY_PARTS_MAX; i++)
            search->marks[level->stems[i].rule] = search->stamp;
    }
    for (size_t i = 0; i < level->stem_count; i++)
        if (search->marks[level->stems[i].rule] != search->stamp)
            level->stems[kept++] = level->stems[i];
    level->stem_count = kept;
    for (size_t i = level->others; i < level->count; i++) {
        const uint32_t rule = level->rules[i];
        if (search->marks[rule] != search->stamp)
            continue;
        level->rules[i] = level->rules[level->others];
        level->rules[level->others++] = rule;
    }
}

/* The short way, which suffices for most files, however large: the rules that the first attribute
 * keeps apart, those of the others that the second does, and so on, are looked at by themselves. No
 * more can meet than of all of these together. */
static bool is_sum_small(struct search *search)
{
    struct level *level = push_all(search);
    uint32_t sum = 0;
    uint32_t from = 0;
    while (level != NULL && sum < POLICY_CROWD_MAX && cut_apart(search, from) && !search->failed) {
        defer_crowded(search, level);
        const size_t others = level->others;
        sum += most_of_stems(search, level);
        from = (level->cut / SIDES + 1) * SIDES;
        level->count = others;
        drop_stems(search, level);
    }
    if (level == NULL || search->failed)
        return false;
    sum += count_groups(search, level, NULL);
    pop(search);
    return sum < POLICY_CROWD_MAX;
}

static void look(struct search *search, struct policy_crowd *out)
{
    if (is_sum_small(search) || search->failed)
        return;
    struct level *all = push_all(search);
    if (all == NULL || count_groups(search, all, out) < POLICY_CROWD_MAX)
        return;
    bool found = !cut_apart(search, 0);
    while (!found && !search->failed && search->depth > 0)
        found = step(search, out);
    out->count = found && !search->failed ? POLICY_CROWD_MAX : 0;
}

int policy_crowd_find(const struct policy *policy, const struct allocator *allocator,
                      struct policy_crowd *out)
{
    const size_t room = policy_rule_count(policy) + 1;
    struct search *search = alloc_get(allocator, sizeof *search);
    *out = (struct policy_crowd){.count = 0};
    if (search == NULL)
        return TG_ENOMEM;
    memset(search, 0, sizeof *search);
    search->allocator = allocator;
    search->rules = alloc_array(allocator, room, sizeof *search->rules);
    search->groups = alloc_array(allocator, room, sizeof *search->groups);
    search->marks = alloc_array(allocator, room, sizeof *search->marks);
    search->failed = search->rules == NULL || search->groups == NULL || search->marks == NULL;
    if (!search->failed) {
        memset(search->marks, 0, room * sizeof *search->marks);
        gather_rules(search, policy);
        gather_names(search);
        search->bits = alloc_get(allocator, (search->bits_count + 1) * BITS_LEN);
        search->failed = search->bits == NULL;
    }
    if (!search->failed && search->count > POLICY_PARTS_MAX)
        look(search, out);
    const int result = search->failed ? TG_ENOMEM : TG_OK;
    while (search->depth > 0)
        pop(search);
    alloc_put(allocator, search->bits, (search->bits_count + 1) * BITS_LEN);
    alloc_put(allocator, search->marks, room * sizeof *search->marks);
    alloc_put(allocator, search->groups, room * sizeof *search->groups);
    alloc_put(allocator, search->rules, room * sizeof *search->rules);
    alloc_put(allocator, search, sizeof *search);
    return result;
}
