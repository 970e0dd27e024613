/* shrink.h - makes a failing seed smaller: with less it still fails, so the rest is not needed. */
#ifndef TESTS_SIM_SHRINK_H
#define TESTS_SIM_SHRINK_H

#include "tests/sim/options.h"

/* Changes `given` to the least with which `seed` still fails, and gives the reason in `why`
 * (SIM_FAILURE_LEN). False if it does not fail at all. */
bool shrink(uint64_t seed, struct overrides *given, char *why);

#endif
