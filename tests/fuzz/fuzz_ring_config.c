/* fuzz_ring_config.c - the ring configuration as it comes from peers and disk.
 *
 * Property: what was accepted keeps every rule, and its bytes are the only ones that mean it.
 */
#include "ring/config.h"
#include "ring/ring.h"
#include "tests/fuzz/fuzz.h"

static struct ring_config config;
static struct ring_config again;
static struct mp_token tokens[RING_CONFIG_TOKENS_MAX];
static uint8_t bytes[RING_CONFIG_BYTES_MAX];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char sentence[RING_SENTENCE_LEN];
    uint8_t *const copy = fuzz_copy(data, len);
    if (ring_config_decode(&config, copy, len, tokens, RING_CONFIG_TOKENS_MAX) == 0) {
        ASSERT(ring_config_validate(&config, sentence) == 0);
        const int a = ring_config_encode(&config, bytes, sizeof(bytes));
        ASSERT(a > 0);
        ASSERT(ring_config_decode(&again, bytes, (size_t)a, tokens, RING_CONFIG_TOKENS_MAX) == 0);
        ASSERT(ring_config_equal(&config, &again));
        if (!ring_config_is_stable(&config) && ring_config_settle(&again, &config) == 0) {
            ASSERT(ring_config_validate(&again, sentence) == 0);
            ASSERT(ring_config_is_stable(&again) && again.epoch == config.epoch + 1);
        }
    }
    free(copy);
    return 0;
}
