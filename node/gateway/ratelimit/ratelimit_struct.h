/* ratelimit_struct.h - JSON as a google.protobuf.Struct.
 *
 *   {"a": [1, true]}  -->  fields { key: "a" value { list_value { values ... } } }
 *
 * For the metadata of rules alone, which policy compilation has written (model/descriptors.h): it
 * is well formed, without blanks, and nested within bounds. Pure.
 */
#ifndef NODE_GATEWAY_RATELIMIT_RATELIMIT_STRUCT_H
#define NODE_GATEWAY_RATELIMIT_RATELIMIT_STRUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the object `json` as bytes of a Struct. Their number; 0: they have no room, or it is no
 * such object. */
size_t ratelimit_struct_put(const char *json, size_t len, uint8_t *out, size_t capacity);

#endif
