/* ordinals.c - see ordinals.h.
 *
 *   old rule, what was kept --> was   in force, in order; then gone
 *                                |        match: ORDINALS-1, ORDINALS-2, ORDINALS-3, ORDINALS-4
 *   new rule ----------------> items --> ordinals given --> bytes to be kept
 *
 * A subject is what has one name: a rule, or all plans of users together. Its items are the limits
 * that need an ordinal of their own; in several plans those of one kind are one item, the first
 * with the first, the second with the second.
 *
 * ORDINALS-6  No two items of a subject and algorithm have one ordinal, as long as they are
 *             ORDINALS_MAX.
 * ORDINALS-7  What was given is given again by the bytes that were kept beside it.
 */
#include "node/policy/compile/ordinals.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/own_limits.h"

enum {
    BYTES_VERSION = 1,
    HEAD_LEN = 5,
    SUBJECT_LEN = 4, /* of a rule in the bytes, beside its name and its limits */
    ITEM_LEN = 19,
    WAS_MAX = 1024,
    NONE = 0xff
};

static_assert((int)ORDINALS_MAX == (int)OWN_ORDINAL, "own limits have those above");

struct item {
    uint64_t window_ns;
    uint64_t count; /* 0: not known */
    uint64_t burst;
    uint64_t gone; /* the last version that had it; 0: in force */
    uint8_t algorithm;
    uint8_t align;
    uint8_t ordinal; /* NONE: none yet */
    bool taken;      /* of what was: by an item that goes on with it */
};

struct items {
    struct item list[WAS_MAX];
    uint32_t count;
};

/* ---- items ----------------------------------------------------------------------------------- */

static bool same_kind(const struct item *a, const struct item *b)
{
    return a->algorithm == b->algorithm && a->align == b->align && a->window_ns == b->window_ns;
}

static struct item item_of(const struct limit *limit)
{
    return (struct item){.window_ns = limit->window_ns,
                         .count = limit->count,
                         .burst = limit->burst,
                         .algorithm = limit->algorithm,
                         .align = limit->align,
                         .ordinal = limit->ordinal};
}

/* Which of the rule's limits of its kind limit `i` is. */
static uint32_t number_of(const struct policy_rule *rule, uint32_t i)
{
    const struct item own = item_of(&rule->limits[i]);
    uint32_t number = 0;
    for (uint32_t k = 0; k < i; k++) {
        const struct item other = item_of(&rule->limits[k]);
        number += same_kind(&own, &other);
    }
    return number;
}

/* The item of a limit; NULL: the subject has none. */
static struct item *find_item(struct items *items, const struct policy_rule *rule, uint32_t i)
{
    const struct item own = item_of(&rule->limits[i]);
    uint32_t left = number_of(rule, i);
    for (uint32_t k = 0; k < items->count; k++)
        if (same_kind(&items->list[k], &own) && left-- == 0)
            return &items->list[k];
    return NULL;
}

/* The ordinal that a limit of a plan has by its window; NONE: that does not tell. Two of one window
 * that are aligned in other ways are two. */
static uint8_t fixed_ordinal(const struct policy_rule *rule, uint32_t i)
{
    if (rule->descriptor != NULL)
        return rule->limits[i].ordinal; /* that of its unit (descriptor_limit) */
    const struct limit *own = &rule->limits[i];
    uint32_t number = 0;
    for (uint32_t k = 0; rule->plan && k < i; k++)
        number += rule->limits[k].algorithm == own->algorithm &&
                  rule->limits[k].window_ns == own->window_ns;
    const uint8_t ordinal = own_limits_ordinal(own, number);
    return rule->plan && ordinal != 0 ? ordinal : NONE;
}

static void gather_rule(const struct policy_rule *rule, struct items *items)
{
    for (uint32_t i = 0; i < rule->limit_count; i++)
        if (fixed_ordinal(rule, i) == NONE && find_item(items, rule, i) == NULL &&
            items->count < ORDINALS_MAX)
            items->list[items->count++] = item_of(&rule->limits[i]);
}

/* The items of a rule, or, of a plan, those of all plans; NULL: of nothing. */
static void gather(const struct policy *policy, const struct policy_rule *subject,
                   struct items *items)
{
    items->count = 0;
    if (subject == NULL)
        return;
    if (!subject->plan) {
        gather_rule(subject, items);
        return;
    }
    for (size_t i = 0; i < policy->rule_count; i++)
        if (policy->rules[i]->plan)
            gather_rule(policy->rules[i], items);
}

/* ---- matching -------------------------------------------------------------------------------- */

static bool is_free(const struct items *items, unsigned algorithm, unsigned ordinal)
{
    for (uint32_t i = 0; i < items->count; i++)
        if (items->list[i].algorithm == algorithm && items->list[i].ordinal == ordinal)
            return false;
    return true;
}

static void take(struct item *item, struct item *was)
{
    ASSERT(item->ordinal == NONE && !was->taken); /* ORDINALS-6 */
    item->ordinal = was->ordinal;
    item->gone = was->gone;
    was->taken = true;
}

enum fit { FIT_COUNT, FIT_WINDOW, FIT_GONE };

static bool fits(const struct item *item, const struct item *was, enum fit fit)
{
    if (was->taken || !same_kind(item, was) || (was->gone != 0) != (fit == FIT_GONE))
        return false;
    return fit != FIT_COUNT || (was->count == item->count && was->burst == item->burst);
}

/* ORDINALS-1 and ORDINALS-2. */
static void match_windows(struct items *items, struct items *was, enum fit fit)
{
    for (uint32_t i = 0; i < items->count; i++) {
        struct item *item = &items->list[i];
        for (uint32_t k = 0; k < was->count && item->ordinal == NONE; k++)
            if (fits(item, &was->list[k], fit) &&
                is_free(items, item->algorithm, was->list[k].ordinal))
                take(item, &was->list[k]);
    }
}

/* The only one of the algorithm that is open; NULL: there is none, or more than one. */
static struct item *only_open(struct items *items, unsigned algorithm, bool was)
{
    struct item *only = NULL;
    for (uint32_t i = 0; i < items->count; i++) {
        struct item *item = &items->list[i];
        const bool open = was ? !item->taken && item->gone == 0 : item->ordinal == NONE;
        if (item->algorithm != algorithm || !open)
            continue;
        if (only != NULL)
            return NULL;
        only = item;
    }
    return only;
}

/* ORDINALS-3 */
static void match_changed(struct items *items, struct items *was)
{
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        struct item *came = only_open(items, algorithm, false);
        struct item *went = only_open(was, algorithm, true);
        if (came != NULL && went != NULL && is_free(items, algorithm, went->ordinal))
            take(came, went);
    }
}

/* ORDINALS-4: where all have been used, the first that nothing has now. */
static uint8_t fresh(const struct items *items, const struct items *was, unsigned algorithm)
{
    for (unsigned ordinal = 0; ordinal < ORDINALS_MAX; ordinal++)
        if (is_free(items, algorithm, ordinal) && is_free(was, algorithm, ordinal))
            return (uint8_t)ordinal;
    for (unsigned ordinal = 0; ordinal < ORDINALS_MAX; ordinal++)
        if (is_free(items, algorithm, ordinal))
            return (uint8_t)ordinal;
    return ORDINALS_MAX - 1;
}

static void match(struct items *items, struct items *was)
{
    ASSERT(items->count <= ORDINALS_MAX);
    for (uint32_t i = 0; i < items->count; i++)
        items->list[i].ordinal = NONE;
    match_windows(items, was, FIT_COUNT);
    match_windows(items, was, FIT_WINDOW);
    match_windows(items, was, FIT_GONE);
    match_changed(items, was);
    for (uint32_t i = 0; i < items->count; i++)
        if (items->list[i].ordinal == NONE)
            items->list[i].ordinal = fresh(items, was, items->list[i].algorithm);
}

/* ---- giving ---------------------------------------------------------------------------------- */

/* The ordinal of a limit whose subject's items have theirs. */
static uint8_t ordinal_of(struct items *items, const struct policy_rule *rule, uint32_t i)
{
    const uint8_t fixed = fixed_ordinal(rule, i);
    const struct item *item = fixed == NONE ? find_item(items, rule, i) : NULL;
    ASSERT(item == NULL || item->ordinal < ORDINALS_MAX);
    return fixed != NONE ? fixed : item != NULL ? item->ordinal : ORDINALS_MAX - 1;
}

/* Writes the ordinals of a rule's limits into them: it has just been compiled, and is still ours.
 */
static void give_rule(struct items *items, struct policy_rule *rule)
{
    struct limit *limits = (struct limit *)(uintptr_t)rule->limits;
    for (uint32_t i = 0; i < rule->limit_count; i++)
        limits[i].ordinal = ordinal_of(items, rule, i);
}

static void give(struct policy *policy, const struct policy_rule *subject, struct items *items)
{
    for (size_t i = 0; subject->plan && i < policy->rule_count; i++)
        if (policy->rules[i]->plan)
            give_rule(items, policy->rules[i]);
    if (!subject->plan)
        give_rule(items, policy->rules[subject->rank]);
}

static const struct policy_rule *first_plan(const struct policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        if (policy->rules[i]->plan)
            return policy->rules[i];
    return NULL;
}

void ordinals_place(struct policy *policy)
{
    struct items items;
    struct items none = {.count = 0};
    const struct policy_rule *plan = first_plan(policy);
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct policy_rule *rule = policy->rules[i];
        if (rule->plan && rule != plan)
            continue;
        gather(policy, rule, &items);
        match(&items, &none);
        give(policy, rule, &items);
    }
}

/* ---- subjects by name ------------------------------------------------------------------------ */

/* Rules with limits by the name that they are counted under, of plans the first; from the heap of
 * whoever asks. */
struct subjects {
    const struct policy_rule **rules;
    size_t count;
    size_t capacity;
};

static int compare_subjects(const void *a, const void *b)
{
    const struct policy_rule *left = *(const struct policy_rule *const *)a;
    const struct policy_rule *right = *(const struct policy_rule *const *)b;
    return policy_text_compare(&left->counted, &right->counted);
}

static int subjects_init(struct subjects *subjects, const struct policy *policy,
                         const struct allocator *allocator)
{
    const struct policy_rule *plan = first_plan(policy);
    subjects->count = 0;
    subjects->capacity = policy->rule_count + 1;
    subjects->rules = alloc_array(allocator, subjects->capacity, sizeof *subjects->rules);
    if (subjects->rules == NULL)
        return TG_ENOMEM;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct policy_rule *rule = policy->rules[i];
        if (rule->limit_count > 0 && rule->descriptor == NULL && (!rule->plan || rule == plan))
            subjects->rules[subjects->count++] = rule;
        ASSERT(subjects->count < subjects->capacity);
    }
    if (subjects->count > 1)
        qsort(subjects->rules, subjects->count, sizeof *subjects->rules, compare_subjects);
    return TG_OK;
}

static void subjects_fini(struct subjects *subjects, const struct allocator *allocator)
{
    alloc_put(allocator, subjects->rules, subjects->capacity * sizeof *subjects->rules);
}

static const struct policy_rule *subjects_find(const struct subjects *subjects,
                                               const struct policy_text *name)
{
    const struct policy_rule wanted = {.counted = *name};
    const struct policy_rule *key = &wanted;
    const struct policy_rule **found =
        bsearch(&key, subjects->rules, subjects->count, sizeof *subjects->rules, compare_subjects);
    return found != NULL ? *found : NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* One rule of the bytes: its name, and its limits. False: there is none, or it cannot be read. */
static bool read_rule(struct bytes_reader *reader, struct policy_text *name, struct items *items)
{
    name->len = bytes_get_u16(reader);
    name->data = (const char *)bytes_take(reader, name->len);
    items->count = 0;
    for (uint32_t left = bytes_get_u16(reader); left > 0 && !reader->failed; left--) {
        struct item item = {.algorithm = bytes_get_u8(reader), .align = bytes_get_u8(reader)};
        item.window_ns = bytes_get_u64(reader);
        item.ordinal = bytes_get_u8(reader);
        item.gone = bytes_get_u64(reader);
        if (reader->failed || item.algorithm >= ALGORITHM_COUNT ||
            item.align >= LIMIT_ALIGN_COUNT || item.ordinal >= ORDINALS_MAX)
            return false;
        if (items->count < WAS_MAX)
            items->list[items->count++] = item;
    }
    return !reader->failed;
}

/* Begins to read: the number of rules. */
static uint32_t read_begin(struct bytes_reader *reader, const void *bytes, size_t len)
{
    bytes_reader_init(reader, bytes, len);
    if (len == 0)
        return 0;
    if (bytes_get_u8(reader) != BYTES_VERSION)
        reader->failed = true;
    return bytes_get_u32(reader);
}

int ordinals_give(struct policy *policy, const void *bytes, size_t len,
                  const struct allocator *allocator)
{
    struct bytes_reader reader;
    struct subjects subjects;
    struct items items;
    struct items was;
    struct policy_text name;
    bool readable = true;

    if (subjects_init(&subjects, policy, allocator) != TG_OK)
        return TG_ENOMEM;
    for (uint32_t left = read_begin(&reader, bytes, len); left > 0 && readable; left--) {
        readable = read_rule(&reader, &name, &was);
        const struct policy_rule *rule = readable ? subjects_find(&subjects, &name) : NULL;
        if (rule == NULL)
            continue;
        gather(policy, rule, &items);
        match(&items, &was);
        give(policy, rule, &items);
    }
    subjects_fini(&subjects, allocator);
    return readable && !reader.failed ? TG_OK : TG_EPROTOCOL;
}

static void write_item(struct bytes_writer *writer, const struct item *item)
{
    bytes_put_u8(writer, item->algorithm);
    bytes_put_u8(writer, item->align);
    bytes_put_u64(writer, item->window_ns);
    bytes_put_u8(writer, item->ordinal);
    bytes_put_u64(writer, item->gone);
}

/* ---- an edit --------------------------------------------------------------------------------- */

/* An edit on its way: everything by name, walked side by side. */
struct walk {
    struct ordinals_edit edit;
    struct subjects old;
    struct subjects new;
    struct bytes_reader known;
    uint32_t known_left;
    struct policy_text known_name; /* of the next rule of the bytes */
    struct items known_items;
    bool known_there;
    uint8_t *given;
    bool *back;
    struct bytes_writer writer;
    uint32_t written;
    bool forgetful; /* there is no room for what is gone */
    struct items was;
    struct items items;
};

static bool next_known(struct walk *walk)
{
    walk->known_there = walk->known_left > 0;
    if (!walk->known_there)
        return true;
    walk->known_left--;
    return read_rule(&walk->known, &walk->known_name, &walk->known_items);
}

/* Appends what is known of the subject to `was`: what a kept version has, or (`all`: no rule of
 * that name is in force) what would be in force. */
static void append_known(struct walk *walk, bool all)
{
    const struct items *known = &walk->known_items;
    for (uint32_t i = 0; i < known->count && walk->was.count < WAS_MAX; i++) {
        const struct item *item = &known->list[i];
        if (item->gone == 0 ? all : item->gone >= walk->edit.oldest)
            walk->was.list[walk->was.count++] = *item;
    }
}

/* Whether what was is to be remembered: it is gone now. */
static bool is_remembered(const struct walk *walk, const struct item *was)
{
    if (walk->forgetful)
        return false;
    for (uint32_t i = 0; i < walk->items.count; i++)
        if (same_kind(&walk->items.list[i], was) && walk->items.list[i].ordinal == was->ordinal)
            return false;
    return true;
}

static bool is_positional(const struct items *items)
{
    uint8_t next[ALGORITHM_COUNT] = {0};
    for (uint32_t i = 0; i < items->count; i++)
        if (items->list[i].ordinal != next[items->list[i].algorithm]++)
            return false;
    return true;
}

/* Whether what is in force of a subject can be written. */
static bool has_room(const struct walk *walk, const struct policy_text *name)
{
    const size_t len = SUBJECT_LEN + name->len + walk->items.count * (size_t)ITEM_LEN;
    return len <= walk->writer.capacity - walk->writer.len;
}

/* Writes what is to be kept of a subject, if positions do not tell it. */
static void write_subject(struct walk *walk, const struct policy_text *name)
{
    uint32_t gone = 0;
    for (uint32_t i = 0; i < walk->was.count; i++)
        gone += is_remembered(walk, &walk->was.list[i]);
    if (gone == 0 && is_positional(&walk->items))
        return;
    walk->written++;
    bytes_put_u16(&walk->writer, (uint16_t)name->len);
    uint8_t *place = bytes_claim(&walk->writer, name->len);
    if (place != NULL)
        memcpy(place, name->data, name->len);
    bytes_put_u16(&walk->writer, (uint16_t)(walk->items.count + gone));
    for (uint32_t i = 0; i < walk->items.count; i++) {
        struct item item = walk->items.list[i];
        item.gone = 0;
        write_item(&walk->writer, &item);
    }
    for (uint32_t i = 0; i < walk->was.count; i++) {
        struct item was = walk->was.list[i];
        if (!is_remembered(walk, &was))
            continue;
        was.gone = was.gone != 0 ? was.gone : walk->edit.version;
        write_item(&walk->writer, &was);
    }
}

static void note_given(struct walk *walk, const struct policy_rule *rule)
{
    for (uint32_t i = 0; i < rule->limit_count; i++) {
        const size_t place = rule->rank * POLICY_LIMITS_MAX + i;
        const struct item *item =
            fixed_ordinal(rule, i) == NONE ? find_item(&walk->items, rule, i) : NULL;
        walk->given[place] = ordinal_of(&walk->items, rule, i);
        walk->back[place] = item != NULL && item->gone != 0;
    }
}

/* One name: the rule that had it, and the one that has it now (NULL: none); whether more is known.
 */
static void walk_subject(struct walk *walk, const struct policy_text *name,
                         const struct policy_rule *before, const struct policy_rule *after,
                         bool knows)
{
    const struct policy *policy = walk->edit.new;
    gather(walk->edit.old, before, &walk->was);
    if (knows)
        append_known(walk, before == NULL);
    gather(policy, after, &walk->items);
    match(&walk->items, &walk->was);
    if (walk->forgetful && !has_room(walk, name)) { /* positions need none */
        walk->was.count = 0;
        match(&walk->items, &walk->was);
    }
    const bool plans = after != NULL && after->plan;
    if (after != NULL && !plans)
        note_given(walk, after);
    for (size_t i = 0; plans && i < policy->rule_count; i++)
        if (policy->rules[i]->plan)
            note_given(walk, policy->rules[i]);
    write_subject(walk, name);
}

/* The least name of those that come next. */
static const struct policy_text *least(const struct policy_text *a, const struct policy_text *b)
{
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    return policy_text_compare(a, b) <= 0 ? a : b;
}

static bool is_next(const struct policy_text *name, const struct policy_text *least_name)
{
    return name != NULL && policy_text_equal(name, least_name);
}

/* All names in order. False: the bytes cannot be read. */
static bool walk_all(struct walk *walk)
{
    size_t i = 0;
    size_t k = 0;
    bool readable = next_known(walk);
    while (readable) {
        const struct policy_text *old = i < walk->old.count ? &walk->old.rules[i]->counted : NULL;
        const struct policy_text *new = k < walk->new.count ? &walk->new.rules[k]->counted : NULL;
        const struct policy_text *known = walk->known_there ? &walk->known_name : NULL;
        const struct policy_text *next = least(least(old, new), known);
        if (next == NULL)
            return true;
        const struct policy_text name = *next;
        const bool had = is_next(old, &name);
        const bool has = is_next(new, &name);
        const bool knows = is_next(known, &name);
        walk_subject(walk, &name, had ? walk->old.rules[i] : NULL, has ? walk->new.rules[k] : NULL,
                     knows);
        i += had;
        k += has;
        if (knows)
            readable = next_known(walk);
    }
    return false;
}

/* Those of descriptors are the same in all versions. */
static void note_descriptors(struct walk *walk)
{
    const struct policy *policy = walk->edit.new;
    for (size_t i = 0; i < policy->rule_count; i++)
        if (policy->rules[i]->descriptor != NULL)
            note_given(walk, policy->rules[i]);
}

/* Walks once, and writes. 0, TG_ETOOBIG (no room) or TG_EPROTOCOL. */
static int walk_once(struct walk *walk, struct ordinals *out)
{
    bytes_writer_init(&walk->writer, out->bytes, out->capacity);
    walk->known_left = read_begin(&walk->known, walk->edit.known, walk->edit.known_len);
    walk->written = 0;
    bytes_put_u8(&walk->writer, BYTES_VERSION);
    bytes_put_u32(&walk->writer, 0);
    if (!walk_all(walk))
        return TG_EPROTOCOL;
    if (walk->writer.failed)
        return TG_ETOOBIG;
    bytes_set_u32(out->bytes + 1, walk->written);
    out->len = walk->written == 0 ? 0 : walk->writer.len;
    return TG_OK;
}

static int edit_with(struct walk *walk, struct ordinals *out)
{
    int result = walk_once(walk, out);
    if (result == TG_EPROTOCOL) { /* nobody wrote such bytes: all goes by what is in force */
        walk->edit.known_len = 0;
        result = walk_once(walk, out);
    }
    if (result == TG_ETOOBIG) {
        walk->forgetful = true;
        result = walk_once(walk, out);
    }
    return result;
}

int ordinals_edit(const struct ordinals_edit *edit, const struct allocator *allocator,
                  struct ordinals *out)
{
    const size_t rules = edit->new->rule_count;
    const size_t capacity = edit->len_max < ORDINALS_LEN_MAX ? edit->len_max : ORDINALS_LEN_MAX;
    *out = (struct ordinals){.allocator = allocator,
                             .given_len = rules * POLICY_LIMITS_MAX + 1,
                             .capacity = capacity + HEAD_LEN};
    struct walk *walk = alloc_get(allocator, sizeof *walk);
    out->given = alloc_get(allocator, out->given_len);
    out->back = alloc_get(allocator, out->given_len * sizeof *out->back);
    out->bytes = alloc_get(allocator, out->capacity);
    int result = TG_ENOMEM;
    if (walk != NULL && out->given != NULL && out->back != NULL && out->bytes != NULL) {
        memset(walk, 0, sizeof *walk);
        memset(out->given, 0, out->given_len);
        memset(out->back, 0, out->given_len * sizeof *out->back);
        walk->edit = *edit;
        walk->given = out->given;
        walk->back = out->back;
        result = subjects_init(&walk->old, edit->old, allocator);
        if (result == TG_OK)
            result = subjects_init(&walk->new, edit->new, allocator);
        note_descriptors(walk);
        if (result == TG_OK)
            result = edit_with(walk, out);
        subjects_fini(&walk->old, allocator);
        subjects_fini(&walk->new, allocator);
    }
    alloc_put(allocator, walk, sizeof *walk);
    if (result != TG_OK)
        ordinals_fini(out);
    return result;
}

void ordinals_fini(struct ordinals *ordinals)
{
    alloc_put(ordinals->allocator, ordinals->given, ordinals->given_len);
    alloc_put(ordinals->allocator, ordinals->back, ordinals->given_len * sizeof *ordinals->back);
    alloc_put(ordinals->allocator, ordinals->bytes, ordinals->capacity);
    *ordinals = (struct ordinals){.allocator = ordinals->allocator};
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Whether a count of `old` is one of `new`: by the same key, in the same plane and region. */
static bool same_place(const struct policy_rule *old, const struct policy_rule *new)
{
    if (!policy_text_equal(&old->counted, &new->counted) || old->key_count != new->key_count ||
        old->scope != new->scope || !policy_text_equal(&old->home, &new->home) ||
        (old->consistency == POLICY_CONSISTENCY_QUORUM) !=
            (new->consistency == POLICY_CONSISTENCY_QUORUM) ||
        old->ipv6_prefix != new->ipv6_prefix)
        return false;
    for (uint32_t i = 0; i < old->key_count; i++)
        if (!policy_text_equal(&old->key[i], &new->key[i]))
            return false;
    return true;
}

static uint8_t given_to(const struct ordinals *ordinals, const struct policy_rule *rule, uint32_t i)
{
    return ordinals->given[rule->rank * POLICY_LIMITS_MAX + i];
}

/* Whether a limit of the old rule and one of the new one have the same count. */
static bool same_count(const struct ordinals *ordinals, const struct policy_rule *old, uint32_t i,
                       const struct policy_rule *new, uint32_t k)
{
    return old->limits[i].algorithm == new->limits[k].algorithm &&
           old->limits[i].ordinal == given_to(ordinals, new, k);
}

static bool stays_of(const struct ordinals *ordinals, const struct policy_rule *old,
                     const struct policy_rule *new, uint32_t k)
{
    for (uint32_t i = 0; i < old->limit_count; i++)
        if (same_place(old, new) && same_count(ordinals, old, i, new, k))
            return true;
    return false;
}

enum ordinals_fate ordinals_fate(const struct ordinals *ordinals, const struct policy *old,
                                 const struct policy_rule *before, const struct policy_rule *rule,
                                 uint32_t i)
{
    if (before != NULL && stays_of(ordinals, before, rule, i))
        return ORDINALS_STAYS;
    for (size_t k = 0; rule->plan && k < old->rule_count; k++)
        if (old->rules[k]->plan && stays_of(ordinals, old->rules[k], rule, i))
            return ORDINALS_STAYS;
    const bool back = ordinals->back[rule->rank * (size_t)POLICY_LIMITS_MAX + i];
    return back && (before == NULL || same_place(before, rule)) ? ORDINALS_BACK : ORDINALS_ANEW;
}

bool ordinals_ends(const struct ordinals *ordinals, const struct policy_rule *rule, uint32_t i,
                   const struct policy *new, const struct policy_rule *after)
{
    for (uint32_t k = 0; k < after->limit_count; k++)
        if (same_place(rule, after) && same_count(ordinals, rule, i, after, k))
            return false;
    for (size_t n = 0; rule->plan && n < new->rule_count; n++)
        for (uint32_t k = 0; new->rules[n]->plan &&k < new->rules[n]->limit_count; k++)
            if (same_count(ordinals, rule, i, new->rules[n], k))
                return false;
    return true;
}
