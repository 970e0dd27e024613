/* heat.c - one cell a key, found by its tag, with a ring of spans of 25 ms.
 *
 *   cell    | place | span of now | checks, tokens: [now % 8] ... the seven spans before |
 *
 * Cells are few and keys are many. A key that meets another in its cell takes it when that one was
 * seen less often in the last 200 ms than others came by: so hot keys keep their cells among
 * millions of cold ones, and a key that has cooled down loses it. What is forgotten so costs a few
 * checks that travel, nothing else.
 */
#include "client/lib/cache/heat.h"

#include <string.h>

int client_heat_init(struct client_heat *heat, const struct allocator *allocator)
{
    heat->allocator = allocator;
    heat->cells = alloc_array(allocator, CLIENT_HEAT_CELLS, sizeof *heat->cells);
    return heat->cells != NULL ? 0 : TG_ENOMEM;
}

void client_heat_fini(struct client_heat *heat)
{
    if (heat->allocator != NULL)
        alloc_put(heat->allocator, heat->cells, CLIENT_HEAT_CELLS * sizeof *heat->cells);
    memset(heat, 0, sizeof *heat);
}

static struct client_heat_cell *cell_of(struct client_heat *heat, uint64_t place)
{
    return &heat->cells[place >> 8 & (CLIENT_HEAT_CELLS - 1)];
}

/* Clears the spans that came since the cell was last looked at. */
static void advance(struct client_heat_cell *cell, int64_t now_ns)
{
    const int64_t now = now_ns / ((int64_t)CLIENT_HEAT_SPAN_MS * 1000000);
    int64_t from = cell->span + 1;

    if (now - from >= CLIENT_HEAT_SPANS)
        from = now - CLIENT_HEAT_SPANS + 1;
    for (; from <= now; from++) {
        cell->checks[from % CLIENT_HEAT_SPANS] = 0;
        cell->tokens[from % CLIENT_HEAT_SPANS] = 0;
    }
    cell->span = now;
}

static uint64_t sum_of(const struct client_heat_cell *cell, uint64_t *tokens)
{
    uint64_t checks = 0;

    *tokens = 0;
    for (int i = 0; i < CLIENT_HEAT_SPANS; i++) {
        checks += cell->checks[i];
        *tokens += cell->tokens[i];
    }
    return checks;
}

uint64_t client_heat_count(struct client_heat *heat, uint64_t place, uint32_t checks,
                           uint64_t tokens, int64_t now_ns)
{
    struct client_heat_cell *cell = cell_of(heat, place);
    uint64_t spent;
    int at;

    advance(cell, now_ns);
    if (cell->place != place) {
        cell->passed += checks;
        if (cell->passed <= sum_of(cell, &spent))
            return 0;
        *cell = (struct client_heat_cell){.place = place, .span = cell->span};
    }
    cell->passed -= cell->passed < checks ? cell->passed : checks;
    at = (int)(cell->span % CLIENT_HEAT_SPANS);
    cell->checks[at] += checks;
    cell->tokens[at] += tokens;
    if (sum_of(cell, &spent) < CLIENT_HEAT_CHECKS || now_ns < cell->quiet_ns)
        return 0;
    return spent;
}

void client_heat_quiet(struct client_heat *heat, uint64_t place, int64_t quiet_ns)
{
    struct client_heat_cell *cell = cell_of(heat, place);

    if (cell->place == place && cell->quiet_ns < quiet_ns)
        cell->quiet_ns = quiet_ns;
}
