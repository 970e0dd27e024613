/* lag.c - see lag.h.
 *
 * A time of v us, v >= 8, lies in the octave e = log2(v); its two bits below the leading one choose
 * the quarter:  bucket = 8 + 4 * (e - 3) + quarter.  Below 8 each us has its own.
 */
#include "node/cluster/model/lag.h"

#include "base/assert.h"

enum { EXACT = 8, EXACT_LOG2 = 3, QUARTERS = 4, NS_PER_US = 1000 };

static unsigned bucket_of(uint64_t us)
{
    if (us < EXACT)
        return (unsigned)us;
    const unsigned octave = 63u - (unsigned)__builtin_clzll(us);
    const unsigned quarter = (unsigned)(us >> (octave - 2)) & (QUARTERS - 1);
    const unsigned bucket = EXACT + QUARTERS * (octave - EXACT_LOG2) + quarter;
    return bucket < LAG_BUCKETS ? bucket : LAG_BUCKETS - 1;
}

/* The first us that is too long for the bucket. */
static uint64_t bucket_end(unsigned bucket)
{
    if (bucket < EXACT)
        return bucket + 1;
    const unsigned octave = EXACT_LOG2 + (bucket - EXACT) / QUARTERS;
    const unsigned quarter = (bucket - EXACT) % QUARTERS;
    return (uint64_t)(QUARTERS + quarter + 1) << (octave - 2);
}

void lag_add(struct lag *lag, int64_t ns)
{
    if (ns < 0)
        ns = 0;
    uint32_t *count = &lag->counts[bucket_of((uint64_t)ns / NS_PER_US)];
    *count += *count < UINT32_MAX;
    if (ns > lag->max_ns)
        lag->max_ns = ns;
}

void lag_age(struct lag *lag)
{
    const int64_t longest_ns = lag_max_ns(lag);
    unsigned top = 0;
    for (unsigned i = 0; i < LAG_BUCKETS; i++) {
        lag->counts[i] /= 2;
        if (lag->counts[i] > 0)
            top = i;
    }
    lag->max_before_ns = lag->max_ns;
    lag->max_ns = 0;
    ASSERT(top < LAG_BUCKETS && lag->max_before_ns >= 0);
    if (lag->counts[top] == 0 || bucket_of((uint64_t)lag->max_before_ns / NS_PER_US) > top)
        return;
    const int64_t end_ns = (int64_t)bucket_end(top) * NS_PER_US;
    lag->max_before_ns = longest_ns < end_ns ? longest_ns : end_ns;
}

void lag_join(struct lag *lag, const struct lag *other)
{
    for (unsigned i = 0; i < LAG_BUCKETS; i++) {
        const uint64_t sum = (uint64_t)lag->counts[i] + other->counts[i];
        lag->counts[i] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
    }
    if (other->max_ns > lag->max_ns)
        lag->max_ns = other->max_ns;
    if (other->max_before_ns > lag->max_before_ns)
        lag->max_before_ns = other->max_before_ns;
}

uint64_t lag_count(const struct lag *lag)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < LAG_BUCKETS; i++)
        count += lag->counts[i];
    return count;
}

int64_t lag_max_ns(const struct lag *lag)
{
    return lag->max_ns > lag->max_before_ns ? lag->max_ns : lag->max_before_ns;
}

int64_t lag_quantile_ns(const struct lag *lag, unsigned permille)
{
    ASSERT(permille <= 1000);
    const uint64_t count = lag_count(lag);
    const uint64_t rank = (count * permille + 999) / 1000;
    ASSERT(rank <= count);
    uint64_t seen = 0;
    for (unsigned i = 0; count > 0 && i < LAG_BUCKETS; i++) {
        seen += lag->counts[i];
        if (seen >= rank && lag->counts[i] > 0) {
            const int64_t end_ns = (int64_t)bucket_end(i) * NS_PER_US;
            return end_ns < lag_max_ns(lag) ? end_ns : lag_max_ns(lag);
        }
    }
    return 0;
}
