/* nearest.h - the word that somebody meant who has mistyped it, for "did you mean". */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

enum {
    NEAREST_LEN_MAX = 63, /* of a word; what is longer is near nothing */
    NEAREST_MAX = 2       /* letters that may be wrong, and fewer than half of them */
};

struct nearest {
    const char *word;
    size_t len;
    size_t away;       /* how far `found` is from the word */
    const char *found; /* the nearest candidate so far, NULL: none is near */
};

/* `word` and the candidates are to live as long as the search. */
void nearest_init(struct nearest *nearest, const char *word);
/* Looks at one candidate; of several that are equally near the first one counts. */
void nearest_try(struct nearest *nearest, const char *candidate);

#endif
