/* load_frames.c - the keys that are asked for, and CHECKS with them, built before anything is sent.
 *
 *   uniform   every key once a round, in an order drawn once
 *   zipf      key k in proportion to 1 / (k + 1)^0.99, in an order drawn once
 *   one       always the first key
 *
 * A frame's items all have their decider in common when there is a ring to tell; keys that do not
 * fill a frame are left out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/random.h"
#include "tests/bench/load.h"

enum {
    FRAME_ROOM = 256, /* bytes beside the items */
    ITEM_ROOM = 13,   /* bytes beside the values */
    SEQ_AT = 12,      /* array, version, type and session come before: 1 + 1 + 1 + 9 bytes */
    SEED = 20
};
#define ZIPF_EXPONENT 0.99
#define SEQ_SPACE     (UINT64_C(1) << 40) /* numbers from here on take nine bytes, always */

void load_key_text(uint32_t key, char text[LOAD_KEY_LEN + 1])
{
    text[0] = 'k';
    for (int i = LOAD_KEY_LEN - 1; i > 0; i--, key /= 10)
        text[i] = (char)('0' + key % 10);
    text[LOAD_KEY_LEN] = '\0';
}

static uint32_t below(struct random *random, uint32_t end)
{
    return (uint32_t)((random_next(random) >> 32) * end >> 32);
}

/* Numbers 0 .. count - 1 in some order. */
static uint32_t *shuffled(struct random *random, uint32_t count)
{
    uint32_t *numbers = load_memory(count, sizeof *numbers);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = below(random, i + 1);
        numbers[i] = numbers[at];
        numbers[at] = i;
    }
    return numbers;
}

static void draw_zipf(const struct load_options *options, struct random *random, uint32_t *keys)
{
    double *shares = load_memory(options->keys, sizeof *shares);
    uint32_t *places = shuffled(random, options->keys);
    double sum = 0;
    for (uint32_t k = 0; k < options->keys; k++)
        shares[k] = sum += pow(k + 1.0, -ZIPF_EXPONENT);
    for (uint32_t i = 0; i < options->draws; i++) {
        const double at = (double)(random_next(random) >> 11) * 0x1p-53 * sum;
        uint32_t low = 0;
        uint32_t high = options->keys - 1;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (shares[middle] > at)
                high = middle;
            else
                low = middle + 1;
        }
        keys[i] = places[low];
    }
    free(places);
    free(shares);
}

uint32_t *load_draw_keys(const struct load_options *options)
{
    struct random random;
    uint32_t *keys = load_memory(options->draws, sizeof *keys);
    random_init(&random, SEED);
    if (options->draw == LOAD_ZIPF) {
        draw_zipf(options, &random, keys);
    } else if (options->draw == LOAD_UNIFORM) {
        uint32_t *order = shuffled(&random, options->keys);
        for (uint32_t i = 0; i < options->draws; i++)
            keys[i] = order[i % options->keys];
        free(order);
    }
    for (uint32_t i = 0; i < options->draws; i++)
        keys[i] += options->first_key;
    return keys;
}

/* One frame under construction for each endpoint. */
struct bin {
    struct wire_checks_builder builder;
    int template;
};

static void open_bin(const struct load_options *options, struct bin *bin)
{
    struct wire_text names[LOAD_NAMES_MAX];
    for (uint32_t i = 0; i < options->name_count; i++)
        names[i] = wire_text_of(options->names[i]);
    wire_checks_builder_reset(&bin->builder);
    bin->template = options->name_count > 0
                        ? wire_checks_builder_attributes(&bin->builder, names, options->name_count)
                        : wire_checks_builder_inline(&bin->builder, &options->limit);
    if (bin->template <0)
        load_fail("the limit or the names are none that a message can have");
}

static void close_bin(const struct load_options *options, struct bin *bin, uint64_t session,
                      uint32_t target, struct load_frames *out)
{
    const size_t room = wire_checks_builder_len(&bin->builder) + FRAME_ROOM;
    struct load_frame *frame = &out->frames[out->count++];
    frame->data = load_memory(room, 1);
    frame->items = bin->builder.count;
    frame->target = target;
    const int len = wire_checks_builder_encode(&bin->builder, session, SEQ_SPACE, 0,
                                               options->timeout_ms, frame->data, room);
    if (len <= 0 || frame->data[SEQ_AT] != 0xcf)
        load_fail("a message of %u checks cannot be built", options->items);
    frame->len = (uint32_t)len;
    open_bin(options, bin);
}

static uint32_t target_of(const struct load_ring *ring, const char *text)
{
    struct identity identity;
    if (ring == NULL)
        return 0;
    if (identity_inline(&identity, text, LOAD_KEY_LEN) != 0)
        load_fail("a key is too long");
    return ring->targets[identity_vnode(&ring->route_key, &identity, ring->vnodes)];
}

static int by_target(const void *a, const void *b)
{
    const struct load_frame *x = a;
    const struct load_frame *y = b;
    return (x->target > y->target) - (x->target < y->target);
}

void load_frames_build(const struct load_options *options, const struct load_ring *ring,
                       uint64_t session, struct load_frames *out)
{
    struct bin *bins = load_memory(options->endpoint_count, sizeof *bins);
    const uint32_t values = options->name_count > 0 ? options->name_count : 1;
    const size_t room = (size_t)options->items * (ITEM_ROOM + values * (LOAD_KEY_LEN + 2));
    uint32_t *keys = load_draw_keys(options);
    memset(out, 0, sizeof *out);
    out->frames = load_memory(options->draws / options->items + 1, sizeof *out->frames);
    for (uint32_t e = 0; e < options->endpoint_count; e++) {
        wire_checks_builder_init(&bins[e].builder, load_memory(room + WIRE_VALUE_MAX, 1),
                                 room + WIRE_VALUE_MAX);
        open_bin(options, &bins[e]);
    }
    for (uint32_t i = 0; i < options->draws; i++) {
        char text[LOAD_KEY_LEN + 1];
        struct wire_text given[LOAD_NAMES_MAX];
        load_key_text(keys[i], text);
        for (uint32_t k = 0; k < values; k++)
            given[k] = (struct wire_text){text, LOAD_KEY_LEN};
        const uint32_t target = target_of(ring, text);
        struct bin *bin = &bins[target];
        if (wire_checks_builder_append(&bin->builder, (uint32_t)bin->template, OPERATION_CHECK, 1,
                                       given, values) < 0)
            load_fail("%u checks do not fit one message", options->items);
        if (bin->builder.count == options->items)
            close_bin(options, bin, session, target, out);
    }
    qsort(out->frames, out->count, sizeof *out->frames, by_target);
    for (uint32_t i = 0; i < out->count; i++)
        out->first[out->frames[i].target + 1] = i + 1;
    for (uint32_t e = 1; e <= options->endpoint_count; e++)
        if (out->first[e] < out->first[e - 1])
            out->first[e] = out->first[e - 1];
    for (uint32_t e = 0; e < options->endpoint_count; e++)
        free(bins[e].builder.values);
    free(bins);
    free(keys);
    if (out->count == 0)
        load_fail("no frame is full: fewer checks a message, or more keys");
}

void load_frame_number(struct load_frame *frame, uint64_t seq)
{
    seq |= SEQ_SPACE;
    for (int i = 0; i < 8; i++)
        frame->data[SEQ_AT + 1 + i] = (uint8_t)(seq >> (56 - 8 * i));
}
