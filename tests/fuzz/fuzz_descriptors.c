/* fuzz_descriptors.c - files of envoyproxy/ratelimit, and descriptors that are asked by them.
 *
 * The input is a file up to a byte of 0xff (no text has one), then entries: a length and bytes for
 * each key and value. Properties: a refusal has a place and a sentence; all domains, written as a
 * document of ours, compile to the same policy; a descriptor meets what a walk of the file meets,
 * and its path and counter are bounded.
 */
#include "node/policy/compile/policy_check.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/descriptors/descriptor_status.h"
#include "node/policy/model/descriptors.h"
#include "node/policy/readers/descriptor_format.h"
#include "tests/fuzz/fuzz.h"

enum { ENTRIES_MAX = 6, NODES_MAX = 64, TEXT_MAX = 256, WRITTEN_MAX = 1 << 18 };

static struct policy *compile(const char *text, size_t len)
{
    struct policy *policy = NULL;
    struct policy_error error;
    const int result = policy_compile(text, len, alloc_heap(), &policy, &error);
    ASSERT((result == 0) == (policy != NULL));
    if (result != 0) {
        ASSERT(error.message[0] != '\0');
    } else {
        policy_check_invariants(policy);
    }
    return policy;
}

/* Whether the pattern matches, by every way of it at once: row[i] says of the first i bytes. */
static bool matches(const struct policy_text *pattern, const char *text, size_t len)
{
    bool row[2 * TEXT_MAX + 2] = {true};
    for (size_t p = 0; p < pattern->len; p++) {
        const bool star = pattern->data[p] == '*';
        bool before = row[0];
        row[0] = row[0] && star;
        for (size_t i = 1; i <= len; i++) {
            const bool here = row[i];
            row[i] = star ? here || row[i - 1] : before && pattern->data[p] == text[i - 1];
            before = here;
        }
    }
    return row[len];
}

static bool is_met(const struct descriptor_node *node, const char *text, size_t len, size_t key_len,
                   int way)
{
    const struct policy_text *own = &node->composite;
    if (way == 1)
        return memchr(own->data, '*', own->len) != NULL && matches(own, text, len);
    const size_t wanted = way == 0 ? len : key_len;
    return own->len == wanted && memcmp(own->data, text, wanted) == 0;
}

static const struct policy_rule *walk(const struct descriptors *all, uint32_t node,
                                      const struct descriptor_request *request)
{
    for (uint32_t i = 0; i < request->entry_count; i++) {
        const struct descriptor_entry *entry = &request->entries[i];
        char text[2 * TEXT_MAX + 1];
        const size_t len = entry->key.len + 1 + entry->value.len;
        uint32_t next = DESCRIPTOR_NONE;
        memcpy(text, entry->key.data, entry->key.len);
        text[entry->key.len] = '_';
        memcpy(text + entry->key.len + 1, entry->value.data, entry->value.len);
        for (int way = 0; way < 3 && next == DESCRIPTOR_NONE; way++)
            for (uint32_t at = 0; at < all->node_count && next == DESCRIPTOR_NONE; at++)
                if (all->nodes[at].parent == node &&
                    is_met(&all->nodes[at], text, len, entry->key.len, way))
                    next = at;
        if (next == DESCRIPTOR_NONE)
            return NULL;
        node = next;
    }
    return request->entry_count == 0 ? NULL : all->nodes[node].rule;
}

static struct policy_text take_text(struct fuzz_input *input)
{
    size_t len;
    const uint8_t *bytes = fuzz_take(input, fuzz_u8(input), &len);
    return (struct policy_text){(const char *)bytes, len};
}

static void ask(const struct policy *policy, struct fuzz_input *input)
{
    static const struct hash_key secret = {{1}};
    const struct descriptors *all = policy_descriptors(policy);
    struct descriptor_entry entries[ENTRIES_MAX];
    struct descriptor_found found;
    char error[DESCRIPTOR_ERROR_LEN];
    char name[TEXT_MAX];
    struct descriptor_request request = {.domain = all->nodes[all->domains[0].node].composite,
                                         .entries = entries};
    while (fuzz_more(input) && request.entry_count < ENTRIES_MAX) {
        entries[request.entry_count].key = take_text(input);
        entries[request.entry_count++].value = take_text(input);
    }
    ASSERT(policy_descriptor_find(policy, &request, &secret, &found, error) == 0);
    ASSERT(found.path.len <= DESCRIPTOR_PATH_LEN_MAX);
    if (all->node_count <= NODES_MAX) {
        ASSERT(found.rule == walk(all, all->domains[0].node, &request));
    }
    ASSERT(policy_descriptor_stat(policy, &request, &found, name, sizeof name) < sizeof name);
    const struct descriptor_hits hits = descriptor_hits_of(0, false, 0, false);
    const struct descriptor_decision decision = {true, 1, 0};
    const struct descriptor_status status = descriptor_status_of(&found, &hits, &decision, 12345);
    ASSERT(!status.limited || (status.reset_s >= 1 && status.unit != DESCRIPTOR_UNIT_UNKNOWN));
}

/* All domains, written and read again. */
static void write_again(const struct policy *policy)
{
    static char text[WRITTEN_MAX];
    const size_t len = policy_format_domains(policy, text, sizeof text);
    if (len > sizeof text) {
        return;
    }
    struct policy *same = compile(text, len);
    ASSERT(same != NULL && policy_digest(same) == policy_digest(policy));
    policy_free(&same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *const end = len > 0 ? memchr(data, 0xff, len) : NULL;
    const size_t text_len = end == NULL ? len : (size_t)(end - data);
    struct fuzz_input input = fuzz_open(data, len);
    uint8_t *const text = fuzz_copy(data, text_len);
    struct policy *policy = compile((const char *)text, text_len);
    input.at = text_len + (end != NULL);
    if (policy != NULL && policy_descriptors(policy) != NULL &&
        policy_descriptors(policy)->domain_count > 0) {
        bool alone = true; /* rules of ours are not written */
        for (size_t i = 0; i < policy_rule_count(policy); i++)
            alone = alone && policy_rule_at(policy, i)->descriptor != NULL;
        if (alone && !policy_unmatched_deny(policy) && policy_pool_count(policy) == 0) {
            write_again(policy);
        }
        ask(policy, &input);
    }
    policy_free(&policy);
    free(text);
    return 0;
}
