/* natural.c - names in the order of the numbers in them.
 *
 * Numbers of any length are compared without computing them: zeros in front aside, the longer one
 * is the larger one. Where two names differ in such zeros alone, bytes decide.
 */
#include "base/natural.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits(const char *text)
{
    size_t len = 0;
    while (is_digit(text[len]))
        len++;
    return len;
}

/* Compares the numbers at both places, and moves behind them. */
static int compare_numbers(const char **a, const char **b)
{
    *a += strspn(*a, "0");
    *b += strspn(*b, "0");
    const size_t len = digits(*a);
    const size_t other = digits(*b);
    ASSERT((*a)[len] < '0' || (*a)[len] > '9');
    const int order = len != other ? (len < other ? -1 : 1) : memcmp(*a, *b, len);
    *a += len;
    *b += other;
    return order;
}

int natural_compare(const char *a, const char *b)
{
    const char *const whole[] = {a, b};
    while (*a != '\0' && *b != '\0') {
        int order;
        if (is_digit(*a) && is_digit(*b))
            order = compare_numbers(&a, &b);
        else
            order = (unsigned char)*a++ - (unsigned char)*b++;
        if (order != 0)
            return order;
    }
    if (*a != *b)
        return *a == '\0' ? -1 : 1;
    return strcmp(whole[0], whole[1]);
}
