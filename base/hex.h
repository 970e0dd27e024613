/* hex.h - digits of base 16. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

/* The value of a digit in either case, or -1. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
