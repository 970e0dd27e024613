/* natural.h - the order in which people expect names: n2 before n10. */
#ifndef BASE_NATURAL_H
#define BASE_NATURAL_H

/* Below, at or above 0, as `a` comes before `b`, is the same or comes behind it: runs of digits are
 * compared as numbers, everything else byte by byte. A total order: 0 for equal texts only. */
int natural_compare(const char *a, const char *b);

#endif
