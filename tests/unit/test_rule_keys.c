/* test_rule_keys.c - the table of keys is whole, and its defaults are those of the readers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/quantity.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/rule_keys.h"

/* Compiles good rules. */
static struct policy *compiled(const char *text)
{
    struct policy_error error;
    struct policy *policy = NULL;
    if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) != TG_OK)
        fail_msg("%s\n%u:%u: %s", text, error.line, error.column, error.message);
    return policy;
}

/* A row without a sentence or an example would be an empty line of the reference. */
static void every_key_is_told_whole(void **state)
{
    (void)state;
    for (enum rule_map map = 0; map < RULE_MAPS; map++) {
        const struct rule_map_row *row = rule_map(map);
        assert_true(row->count > 0 && row->title[0] != '\0' && row->help[0] != '\0');
        for (uint32_t i = 0; i < row->count; i++) {
            const struct rule_key *key = &row->keys[i];
            const bool nests = key->type == RULE_TYPE_MAP || key->type == RULE_TYPE_LIST ||
                               key->type == RULE_TYPE_NAMED || key->type == RULE_TYPE_OLDER;
            const bool words = key->type == RULE_TYPE_WORD || key->type == RULE_TYPE_CHOICE;
            assert_non_null(key->name);
            assert_int_equal(key->help[strlen(key->help) - 1], '.');
            assert_true(key->example[0] != '\0' && key->min <= key->max);
            assert_int_equal(key->word_count > 0, words);
            assert_int_equal(key->choices != NULL, key->type == RULE_TYPE_CHOICE);
            assert_true(!nests || key->of < RULE_MAPS);
            assert_true(!key->required || key->initial == NULL);
        }
    }
}

/* A default that cannot be written would mislead who writes it. */
static void a_default_of_words_is_one_of_them(void **state)
{
    (void)state;
    for (enum rule_map map = 0; map < RULE_MAPS; map++) {
        for (uint32_t i = 0; i < rule_map(map)->count; i++) {
            const struct rule_key *key = rule_key(map, i);
            bool found = false;
            if (key->type != RULE_TYPE_WORD || key->initial == NULL)
                continue;
            for (uint32_t k = 0; k < key->word_count; k++)
                found |= strcmp(key->words[k].text, key->initial) == 0;
            if (!found)
                fail_msg("%s: %s is none of its words", key->name, key->initial);
        }
    }
}

static const char *initial(enum rule_map map, unsigned key)
{
    return rule_key(map, key)->initial;
}

/* The reference tells what a rule is that says nothing. */
static void the_defaults_are_those_of_a_rule_that_says_nothing(void **state)
{
    struct policy *policy = compiled("rules: [{name: a, key: [u], limits: [{rate: 5/h}]}]\n");
    const struct policy_rule *rule = &policy->listed[0];
    (void)state;
    assert_string_equal(policy_act_name(rule->act), initial(RULE_MAP_RULE, RULE_ACTION));
    assert_string_equal(policy_class_name(rule->class), initial(RULE_MAP_RULE, RULE_CLASS));
    assert_string_equal(policy_consistency_name(rule->consistency),
                        initial(RULE_MAP_RULE, RULE_CONSISTENCY));
    assert_string_equal(policy_scope_name(rule->scope), initial(RULE_MAP_RULE, RULE_SCOPE));
    assert_string_equal(policy_failure_name(rule->on_failure),
                        initial(RULE_MAP_RULE, RULE_ON_FAILURE));
    assert_string_equal(rule->enabled ? "true" : "false", initial(RULE_MAP_RULE, RULE_ENABLED));
    assert_string_equal(rule->shadow ? "true" : "false", initial(RULE_MAP_RULE, RULE_SHADOW));
    assert_string_equal(rule->count_denied ? "true" : "false",
                        initial(RULE_MAP_RULE, RULE_COUNT_DENIED));
    assert_string_equal(rule->missing_deny ? "deny" : "skip", initial(RULE_MAP_RULE, RULE_MISSING));
    assert_int_equal(rule->priority, strtol(initial(RULE_MAP_RULE, RULE_PRIORITY), NULL, 10));
    assert_int_equal(rule->ipv6_prefix, strtol(initial(RULE_MAP_RULE, RULE_IPV6_PREFIX), NULL, 10));
    assert_string_equal(algorithm_name(rule->limits[0].algorithm),
                        initial(RULE_MAP_LIMIT, LIMIT_KEY_ALGORITHM));
    assert_string_equal(policy->unmatched_deny ? "deny" : "allow",
                        initial(RULE_MAP_FILE, FILE_UNMATCHED));
    policy_free(&policy);
}

/* And what one is that says as much as it must of what it uses. */
static void the_defaults_of_times_are_those_of_the_readers(void **state)
{
    char text[QUANTITY_TEXT_LEN];
    struct policy *policy =
        compiled("pools: {p: {rate: 9/s}}\n"
                 "rules:\n"
                 "- {name: a, key: [u], scope: global, limits: [{rate: 5/h}]}\n"
                 "- {name: b, key: [u], limits: [{count: 5, algorithm: concurrency}]}\n"
                 "- {name: c, key: [u], mode: {elastic: {pool: p}}, limits: [{rate: 5/h}]}\n");
    (void)state;
    quantity_format_duration(policy->listed[0].wan_wait_ns, text);
    assert_string_equal(text, initial(RULE_MAP_RULE, RULE_WAN_WAIT));
    quantity_format_duration(policy->listed[1].limits[0].window_ns, text);
    assert_string_equal(text, initial(RULE_MAP_LIMIT, LIMIT_KEY_TIMEOUT));
    assert_int_equal(policy->listed[2].modes[0].weight,
                     strtol(initial(RULE_MAP_ELASTIC, ELASTIC_WEIGHT), NULL, 10));
    assert_string_equal(policy_scope_name(policy->pools[0].scope),
                        initial(RULE_MAP_POOL, POOL_SCOPE));
    policy_free(&policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_told_whole),
        cmocka_unit_test(a_default_of_words_is_one_of_them),
        cmocka_unit_test(the_defaults_are_those_of_a_rule_that_says_nothing),
        cmocka_unit_test(the_defaults_of_times_are_those_of_the_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
