/* nearest.c - how far apart two words are: letters left out, put in, replaced or swapped.
 *
 * The table of all distances between beginnings of both words is computed row by row; of it the
 * last three rows are kept, the third one for two letters that were swapped.
 */
#include "base/nearest.h"

#include <string.h>

#include "base/assert.h"

static size_t lower(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Neither word is longer than NEAREST_LEN_MAX. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][NEAREST_LEN_MAX + 1];
    const size_t len = strlen(b);
    ASSERT(len <= NEAREST_LEN_MAX);
    size_t i;
    for (size_t j = 0; j <= len; j++)
        rows[0][j] = j;
    for (i = 1; a[i - 1] != '\0'; i++) {
        const size_t *swapped = rows[(i + 1) % 3];
        const size_t *above = rows[(i + 2) % 3];
        size_t *row = rows[i % 3];
        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            row[j] = lower(above[j - 1] + (a[i - 1] != b[j - 1]), lower(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = lower(row[j], swapped[j - 2] + 1);
        }
    }
    ASSERT(i - 1 <= NEAREST_LEN_MAX);
    return rows[(i - 1) % 3][len];
}

void nearest_init(struct nearest *nearest, const char *word)
{
    *nearest = (struct nearest){.word = word, .len = strlen(word), .away = NEAREST_MAX + 1};
}

void nearest_try(struct nearest *nearest, const char *candidate)
{
    if (nearest->len > NEAREST_LEN_MAX || strlen(candidate) > NEAREST_LEN_MAX)
        return;
    const size_t away = distance(nearest->word, candidate);
    if (away >= nearest->away || away * 2 >= nearest->len)
        return;
    ASSERT(away < nearest->away && away <= NEAREST_MAX);
    nearest->away = away;
    nearest->found = candidate;
}
