/* screen_cells.c - the table of nodes, cell by cell. */
#include <stdio.h>
#include <string.h>

#include "client/screen/screen.h"

enum { PERCENT = 100 };

static const char *const headers[SCREEN_COLUMNS] = {
    [SCREEN_REGION] = "REGION", [SCREEN_NAME] = "NODE",       [SCREEN_STATE] = "STATE",
    [SCREEN_UP] = "UP",         [SCREEN_CHECKS] = "CHECKS/S", [SCREEN_DENIED] = "DENIED",
    [SCREEN_ACK] = "ACK P99",   [SCREEN_MEMORY] = "MEMORY",   [SCREEN_DISK] = "DISK",
    [SCREEN_CLOCK] = "CLOCK",   [SCREEN_NOTE] = "NOTE"};

static bool has(const struct screen_node *node, const char *code)
{
    const size_t len = strlen(code);
    for (const char *at = strstr(node->troubles, code); at != NULL; at = strstr(at + 1, code))
        if ((at == node->troubles || at[-1] == ',') && (at[len] == '\0' || at[len] == ','))
            return true;
    return false;
}

static bool is_dead(const struct screen_node *node)
{
    return strcmp(node->state, "dead") == 0;
}

static void disk_cell(const struct screen_node *node, char *out)
{
    char word[SCREEN_WORD_LEN];
    if (has(node, "disk_full"))
        (void)snprintf(out, SCREEN_CELL_LEN, "FULL");
    else if (has(node, "disk_failing"))
        (void)snprintf(out, SCREEN_CELL_LEN, "FAILING");
    else if (has(node, "disk_95") || has(node, "disk_80"))
        (void)snprintf(out, SCREEN_CELL_LEN, "%s used", has(node, "disk_95") ? "95%" : "80%");
    else if (node->told && node->ephemeral)
        (void)snprintf(out, SCREEN_CELL_LEN, "none");
    else if (node->told && node->flush_lag_ms > 0)
        (void)snprintf(out, SCREEN_CELL_LEN, "%s behind", screen_span(node->flush_lag_ms, word));
    else
        (void)snprintf(out, SCREEN_CELL_LEN, "%s", node->told ? "written" : "-");
}

static void memory_cell(const struct screen_node *node, char *out)
{
    char word[SCREEN_WORD_LEN];
    if (!node->told || node->slots_max == 0)
        (void)snprintf(out, SCREEN_CELL_LEN, "-");
    else
        (void)snprintf(out, SCREEN_CELL_LEN, "%.0f%%/%s",
                       (double)node->slots * PERCENT / (double)node->slots_max,
                       screen_bytes(node->memory_max, word));
}

/* What the other columns do not say. */
static void note_cell(const struct screen *screen, const struct screen_node *node, char *out)
{
    char word[SCREEN_WORD_LEN];
    size_t len = 0;
    out[0] = '\0';
    if (is_dead(node))
        (void)snprintf(out, SCREEN_CELL_LEN, "no answer for %s",
                       screen_span(node->state_for_ms, word));
    else if (node->lost[0] != '\0')
        (void)snprintf(out, SCREEN_CELL_LEN, "out of reach");
    else if (strcmp(node->ring, "draining") == 0 || strcmp(node->ring, "drained") == 0)
        (void)snprintf(out, SCREEN_CELL_LEN, "%s", node->ring);
    else if (strcmp(node->ring, "outside") == 0)
        (void)snprintf(out, SCREEN_CELL_LEN, "not in the ring");
    for (uint32_t i = 0; i < screen->condition_count && !is_dead(node); i++) {
        const struct screen_condition *condition = &screen->conditions[i];
        if (strcmp(condition->node, node->name) != 0 || condition->short_form[0] == '\0' ||
            strncmp(condition->code, "disk_", strlen("disk_")) == 0 ||
            strcmp(condition->region, node->region) != 0)
            continue;
        len = strlen(out);
        (void)snprintf(out + len, SCREEN_CELL_LEN - len, "%s%s", len > 0 ? ", " : "",
                       condition->short_form);
    }
    len = strlen(out);
    if (strcmp(node->version, screen->version) != 0 && node->version[0] != '\0')
        (void)snprintf(out + len, SCREEN_CELL_LEN - len, "%srelease %s", len > 0 ? ", " : "",
                       node->version);
}

static void state_cell(const struct screen_node *node, char *out)
{
    (void)snprintf(out, SCREEN_CELL_LEN, "%s", is_dead(node) ? "DEAD" : node->state);
}

void screen_cell(const struct screen *screen, const struct screen_node *node,
                 enum screen_column column, char out[SCREEN_CELL_LEN])
{
    char word[SCREEN_WORD_LEN];
    const bool told = node != NULL && node->told && !is_dead(node);
    (void)snprintf(out, SCREEN_CELL_LEN, "%s", node == NULL ? headers[column] : "-");
    if (node == NULL)
        return;
    if (column == SCREEN_REGION)
        (void)snprintf(out, SCREEN_CELL_LEN, "%s", node->region);
    else if (column == SCREEN_NAME)
        (void)snprintf(out, SCREEN_CELL_LEN, "%s", node->name);
    else if (column == SCREEN_STATE)
        state_cell(node, out);
    else if (column == SCREEN_UP && told)
        (void)snprintf(out, SCREEN_CELL_LEN, "%s", screen_span(node->uptime_ms, word));
    else if (column == SCREEN_CHECKS && told)
        (void)snprintf(out, SCREEN_CELL_LEN, "%s", screen_rate(node->checks_rate, word));
    else if (column == SCREEN_DENIED && told && node->checks_rate > 0)
        (void)snprintf(out, SCREEN_CELL_LEN, "%.1f%%",
                       node->denied_rate * PERCENT / node->checks_rate);
    else if (column == SCREEN_ACK && told && node->ack_p99_us > 0)
        (void)snprintf(out, SCREEN_CELL_LEN, "%s", screen_us(node->ack_p99_us, word));
    else if (column == SCREEN_MEMORY && !is_dead(node))
        memory_cell(node, out);
    else if (column == SCREEN_DISK && !is_dead(node))
        disk_cell(node, out);
    else if (column == SCREEN_CLOCK && node->skewed && !is_dead(node))
        (void)snprintf(out, SCREEN_CELL_LEN, "%s", screen_skew(node->skew_us, word));
    else if (column == SCREEN_NOTE)
        note_cell(screen, node, out);
}
