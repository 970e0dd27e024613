/* vocabulary.c - numbers to words and back, generated from the maps of vocabulary.h.
 *
 * VOCABULARY-1  Every word parses to its own number, and that number's name is the word again.
 * VOCABULARY-2  A number from outside that names nothing gives NULL, a text -1: neither is ever
 *               guessed.
 *
 * Words are matched exactly, in lower case, so that a rule file has one spelling.
 */
#include "base/vocabulary.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"

#define WORD(name, number, text) [number] = text,
static const char *const algorithms[] = {ALGORITHM_MAP(WORD)};
static const char *const operations[] = {OPERATION_MAP(WORD)};
static const char *const outcomes[] = {OUTCOME_MAP(WORD)};
#undef WORD

/* The *_COUNT of each enum follows its last number; equality says that there is no gap. */
static_assert(sizeof(algorithms) / sizeof(algorithms[0]) == ALGORITHM_COUNT, "numbers are dense");
static_assert(sizeof(operations) / sizeof(operations[0]) == OPERATION_COUNT, "numbers are dense");
static_assert(sizeof(outcomes) / sizeof(outcomes[0]) == OUTCOME_COUNT, "numbers are dense");

static int word_find(const char *const *words, int count, const char *text, size_t len)
{
    ASSERT(count > 0 && (text != NULL || len == 0));
    for (int i = 0; i < count; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
            return i;
    }
    return -1;
}

const char *algorithm_name(unsigned number)
{
    return number < ALGORITHM_COUNT ? algorithms[number] : NULL;
}

const char *operation_name(unsigned number)
{
    return number < OPERATION_COUNT ? operations[number] : NULL;
}

const char *outcome_name(unsigned number)
{
    return number < OUTCOME_COUNT ? outcomes[number] : NULL;
}

const char *outcome_sentence(unsigned number)
{
    switch (number) {
    case OUTCOME_DENY:
        return "the limit is reached";
    case OUTCOME_BLOCKED:
        return "blocked";
    case OUTCOME_NO_RULE:
        return "no rule allows this request";
    case OUTCOME_BUSY:
        return "there is more to decide than can be decided now; ask again";
    case OUTCOME_ERROR:
        return "nobody who can decide for this key is in reach now; ask again";
    default:
        return "not allowed";
    }
}

int algorithm_parse(const char *text, size_t len)
{
    return word_find(algorithms, ALGORITHM_COUNT, text, len);
}
