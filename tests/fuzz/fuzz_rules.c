/* fuzz_rules.c - rules files, and the configuration file that is read with the same YAML reader.
 *
 * The first byte chooses. Properties: a refusal has a place and a sentence; a rule that was
 * accepted, written as JSON, compiles to a policy of the same meaning, whatever form the file had;
 * a policy is whole (policy_check.c), and its index finds what it should for requests made of the
 * file's own words.
 */
#include "node/policy/compile/policy_check.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/policy.h"
#include "node/runtime/config/config_option.h"
#include "tests/fuzz/fuzz.h"

enum { RULE_LEN_MAX = 1 << 16, RULES_MAX = 8 };

static struct policy *compile(const char *text, size_t len)
{
    struct policy *policy = NULL;
    struct policy_error error;
    const int result = policy_compile(text, len, alloc_heap(), &policy, &error);
    ASSERT((result == 0) == (policy != NULL));
    if (result != 0) {
        ASSERT(result == TG_EINVALID || result == TG_ENOMEM);
        ASSERT(error.message[0] != '\0');
    } else {
        policy_check_invariants(policy);
    }
    return policy;
}

/* Whether the rule names a pool, which is written beside the rules. */
static bool names_pool(const struct policy_rule *rule)
{
    bool names = rule->mode.pool != NULL;
    for (size_t i = 0; i < rule->limit_count; i++)
        names = names || rule->modes[i].pool != NULL;
    return names;
}

/* Compiles the rule alone, if it can be; its digest. */
static uint64_t digest_of(const struct policy_rule *rule, struct policy **out)
{
    static char text[RULE_LEN_MAX + 16] = "rules:\n- ";
    static const size_t list = sizeof("rules:\n- ") - 1;
    /* What a descriptor's rule is written as is a document. */
    const size_t head = rule->descriptor == NULL ? list : 0;
    (void)memcpy(text, "rules:\n- ", list);
    const int len = policy_format_rule(rule, text + head, RULE_LEN_MAX);
    ASSERT(len > 0 || len == TG_ETOOBIG);
    *out = len > 0 && !names_pool(rule) ? compile(text, head + (size_t)len) : NULL;
    ASSERT(len == TG_ETOOBIG || names_pool(rule) || *out != NULL);
    return *out == NULL ? 0 : policy_digest(*out);
}

static void try_rules(const char *text, size_t len)
{
    struct policy *policy = compile(text, len);
    if (policy == NULL) {
        return;
    }
    const bool alone = attribute_kinds_equal(policy_kinds(policy), attribute_kinds_default());
    for (size_t i = 0; alone && i < policy_rule_count(policy) && i < RULES_MAX; i++) {
        struct policy *once = NULL;
        struct policy *twice = NULL;
        const uint64_t digest = digest_of(policy_rule_at(policy, i), &once);
        if (once != NULL) {
            ASSERT(digest_of(policy_rule_at(once, 0), &twice) == digest);
        }
        policy_free(&once);
        policy_free(&twice);
    }
    const struct policy_attribute attributes[] = {
        {"api", 3, text, len < 64 ? len : 64},
        {"user", 4, "u", 1},
        {"ip", 2, text, len < 64 ? len : 64},
        {"ip", 2, "2001:db8::1", 11},
    };
    struct policy_result result;
    ASSERT(policy_resolve(policy, attributes, 4, &result) == 0);
    ASSERT(result.part_count <= POLICY_PARTS_MAX);
    policy_free(&policy);
}

static void try_config(const char *text, size_t len)
{
    static struct config config;
    char error[CONFIG_ERROR_LEN];
    memset(&config, 0, sizeof(config));
    if (config_yaml_apply_text("file.yaml", text, len, &config, error) != 0) {
        ASSERT(strncmp(error, "file.yaml:", 10) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    const uint8_t kind = fuzz_u8(&input);
    size_t rest_len = 0;
    const uint8_t *const rest = fuzz_rest(&input, &rest_len);
    uint8_t *const text = fuzz_copy(rest, rest_len);
    if (kind == 'c') {
        try_config((const char *)text, rest_len);
    } else {
        try_rules((const char *)text, rest_len);
    }
    free(text);
    return 0;
}
