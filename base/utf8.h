/* utf8.h - characters of UTF-8 (RFC 3629): no overlong forms, surrogates, or numbers past U+10FFFF.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

enum { UTF8_MAX = 4 /* bytes of a character */ };

/* Bytes of the character that begins at `data`, of which there are `len`; 0: none begins there. Any
 * thread. */
size_t utf8_len(const char *data, size_t len);

#endif
