/* fuzz_text.c - what people type: quantities, rates, addresses, flags and the command line.
 *
 * The first byte chooses. Properties: a quantity that was read is written in a form that reads as
 * the same; a refusal always has a sentence; nothing shown holds a control character.
 */
#include "base/limit.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "client/cli/arguments/arguments.h"
#include "client/cli/output/text.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/policy.h"
#include "node/runtime/config/config.h"
#include "tests/fuzz/fuzz.h"

enum { WORDS_MAX = 40, KINDS = 6 };

static char sentence[1024];

static void try_quantities(const char *text)
{
    char shown[QUANTITY_TEXT_LEN];
    struct quantity_rate rate;
    struct quantity_rate rate_again;
    uint64_t value = 0;
    uint64_t again = 0;
    if (quantity_parse_duration(text, &value, sentence) == 0) {
        quantity_format_duration(value, shown);
        ASSERT(quantity_parse_duration(shown, &again, sentence) == 0 && again == value);
    } else {
        ASSERT(sentence[0] != '\0');
    }
    if (quantity_parse_rate(text, &rate, sentence) == 0) {
        quantity_format_rate(&rate, shown);
        ASSERT(quantity_parse_rate(shown, &rate_again, sentence) == 0);
        ASSERT(rate.count == rate_again.count && rate.window_ns == rate_again.window_ns);
    }
    if (quantity_parse_uint(text, 1000, &value, sentence) == 0) {
        ASSERT(value <= 1000);
    }
    (void)!quantity_parse_size(text, &value, sentence);
}

static void try_limit(struct fuzz_input *input)
{
    const struct limit limit = {.count = fuzz_u64(input),
                                .window_ns = fuzz_u64(input),
                                .burst = fuzz_u64(input),
                                .algorithm = fuzz_u8(input),
                                .ordinal = fuzz_u8(input)};
    if (limit_validate(&limit, sentence) == 0) {
        ASSERT(limit.count >= 1 && limit.count <= LIMIT_COUNT_MAX);
        ASSERT(limit.window_ns >= LIMIT_WINDOW_MIN_NS && limit.window_ns <= LIMIT_WINDOW_MAX_NS);
    } else {
        ASSERT(sentence[0] != '\0');
    }
}

/* The one spelling of a value is its own, and a path's is never longer. */
static void try_spelling(enum attribute_kind kind, const char *text, size_t len)
{
    char out[POLICY_VALUE_LEN_MAX];
    char again[POLICY_VALUE_LEN_MAX];
    struct policy_text once = {text, len};
    struct policy_ip ip;
    if (len == 0 || len > POLICY_VALUE_LEN_MAX) {
        return;
    }
    attribute_kind_apply(kind, &once, &ip, out);
    ASSERT(kind == ATTRIBUTE_ADDRESS || (once.len > 0 && once.len <= len));
    if (once.len == 0) {
        return;
    }
    struct policy_text twice = once;
    attribute_kind_apply(kind, &twice, &ip, again);
    ASSERT(twice.data == once.data && twice.len == once.len);
    ASSERT(attribute_kind_refusal(kind, &once) == NULL);
}

static void try_address(const char *text, size_t len)
{
    struct config_endpoint endpoint;
    struct config_endpoint again;
    char shown[CONFIG_ENDPOINT_LEN];
    char ip[POLICY_IP_TEXT_LEN];
    char ip_again[POLICY_IP_TEXT_LEN];
    if (config_endpoint_parse(text, &endpoint) == 0) {
        ASSERT(config_endpoint_parse(config_endpoint_text(&endpoint, shown), &again) == 0);
        ASSERT(endpoint.port == again.port && strcmp(endpoint.host, again.host) == 0);
        (void)config_host_is_loopback(endpoint.host);
    }
    const size_t ip_len = policy_ip_format(text, len, 128, ip);
    if (ip_len > 0) {
        ASSERT(policy_ip_format(ip, ip_len, 128, ip_again) == ip_len);
        ASSERT(memcmp(ip, ip_again, ip_len) == 0);
    }
    for (int kind = ATTRIBUTE_VERBATIM; kind < ATTRIBUTE_KINDS; kind++) {
        try_spelling((enum attribute_kind)kind, text, len);
    }
}

static void try_shown(const uint8_t *data, size_t len)
{
    struct cli_text text;
    cli_text_init(&text);
    cli_text_shown(&text, (const char *)data, len);
    cli_text_check_invariants(&text);
    for (size_t at = 0; at < text.len;) {
        const size_t step = utf8_len(text.data + at, text.len - at);
        ASSERT(step > 0 && (unsigned char)text.data[at] >= ' ' && text.data[at] != 0x7f);
        at += step;
    }
    cli_text_fini(&text);
}

/* Cuts a text at its line ends; how many words there are. */
static int cut_words(char *text, const char **words)
{
    int count = 1;
    words[0] = "program";
    for (char *at = text; at != NULL && count < WORDS_MAX;) {
        char *const end = strchr(at, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        words[count++] = at;
        at = end == NULL ? NULL : end + 1;
    }
    return count;
}

static void try_command(char *text)
{
    static struct cli_arguments arguments;
    const char *words[WORDS_MAX];
    const int count = cut_words(text, words);
    sentence[0] = '\0';
    if (cli_arguments_parse(&arguments, count, words, sentence) != CLI_EXIT_OK) {
        ASSERT(sentence[0] != '\0');
    }
}

static void try_flags(char *text)
{
    static struct config config;
    static const struct container container;
    const char *words[WORDS_MAX];
    const int count = cut_words(text, words);
    for (int i = 1; i < count; i++) {
        if (strstr(words[i], "config") != NULL) {
            return; /* would read whatever file the input names */
        }
    }
    sentence[0] = '\0';
    if (config_parse(count, words, &container, &config, sentence, sizeof(sentence)) ==
        TG_EINVALID) {
        ASSERT(sentence[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    const uint8_t kind = fuzz_u8(&input) % KINDS;
    size_t rest_len = 0;
    if (kind == 1) {
        try_limit(&input);
        return 0;
    }
    const uint8_t *const rest = fuzz_rest(&input, &rest_len);
    char *const text = fuzz_text(rest, rest_len);
    if (kind == 0) {
        try_quantities(text);
    } else if (kind == 2) {
        try_address(text, strlen(text));
    } else if (kind == 3) {
        try_shown(rest, rest_len);
    } else if (kind == 4) {
        try_command(text);
    } else {
        try_flags(text);
    }
    free(text);
    return 0;
}
