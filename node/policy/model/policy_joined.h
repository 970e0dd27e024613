/* policy_joined.h - what a policy is joined with, which operators keep one by one; policy_join.h.
 */
#ifndef NODE_POLICY_MODEL_POLICY_JOINED_H
#define NODE_POLICY_MODEL_POLICY_JOINED_H

#include <stdint.h>

struct api_keys;
struct blocks;
struct credentials;
struct people;

/* Each is NULL where there is none. */
struct policy_joined {
    struct blocks *blocks;           /* blocks.h */
    struct api_keys *api_keys;       /* api_keys.h */
    struct people *people;           /* people.h */
    struct credentials *credentials; /* credentials.h */
    uint64_t version; /* of the rules, in the configuration store; 0: they are not of it */
};

#endif
