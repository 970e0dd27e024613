/* test_resp_check.c - TG.CHECK and its kin: which words are options, wherever they stand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/resp_check.h"

static char error[RESP_CHECK_ERROR_LEN];

/* Reads the words behind the command's name, cut at single spaces. */
static int read_line(struct resp_check *out, enum operation operation, const char *line)
{
    static struct resp_request request;
    static char words[256];
    (void)snprintf(words, sizeof words, "%s", line);
    request.count = 1;
    request.arguments[0] = wire_text_of("tg.check");
    for (char *at = words; *at != '\0';) {
        const size_t len = strcspn(at, " ");
        request.arguments[request.count++] = (struct wire_text){at, len};
        at += len + (at[len] == ' ');
    }
    error[0] = '\0';
    return resp_check_read(&request, operation, out, error);
}

struct reading {
    const char *line;
    uint32_t attributes;
    enum operation operation;
    uint64_t cost;
    bool says;
    bool tells;
};

/* Options are the last words, in any order and case; what only looks like one is a name or a value.
 */
static void options_come_in_any_order(void **state)
{
    static const struct reading known[] = {
        {"user ada", 1, OPERATION_CHECK, 1, false, false},
        {"user ada COST 2", 1, OPERATION_CHECK, 2, false, false},
        {"user ada PEEK", 1, OPERATION_PEEK, 1, false, false},
        {"user ada COST 2 PEEK", 1, OPERATION_PEEK, 2, false, false},
        {"user ada PEEK COST 2", 1, OPERATION_PEEK, 2, false, false},
        {"user ada peek cost 2", 1, OPERATION_PEEK, 2, false, false},
        {"user ada MESSAGE", 1, OPERATION_CHECK, 1, true, false},
        {"user ada MESSAGE PEEK", 1, OPERATION_PEEK, 1, true, false},
        {"user ada PEEK MESSAGE COST 0", 1, OPERATION_PEEK, 0, true, false},
        {"user ada api /x MESSAGE COST 3 PEEK", 2, OPERATION_PEEK, 3, true, false},
        {"user PEEK", 1, OPERATION_CHECK, 1, false, false},
        {"user PEEK COST 2", 1, OPERATION_CHECK, 2, false, false},
        {"user PEEK PEEK", 1, OPERATION_PEEK, 1, false, false},
        {"tier cost PEEK", 1, OPERATION_PEEK, 1, false, false},
        {"user MESSAGE", 1, OPERATION_CHECK, 1, false, false},
        {"user ada STATUS", 1, OPERATION_CHECK, 1, false, true},
        {"user ada message status", 1, OPERATION_CHECK, 1, true, true},
        {"user ada STATUS MESSAGE COST 3 PEEK", 1, OPERATION_PEEK, 3, true, true},
        {"user STATUS", 1, OPERATION_CHECK, 1, false, false},
        {"cost 5 user ada", 2, OPERATION_CHECK, 1, false, false},
        {"cost 5 user ada COST 2", 2, OPERATION_CHECK, 2, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct resp_check check;
        if (read_line(&check, OPERATION_CHECK, known[i].line) != 0)
            fail_msg("\"%s\" is refused: %s", known[i].line, error);
        if (check.count != known[i].attributes || check.operation != known[i].operation ||
            check.cost != known[i].cost || check.says != known[i].says ||
            check.tells != known[i].tells)
            fail_msg("\"%s\": %u attributes, operation %u, cost %llu, says %d", known[i].line,
                     (unsigned)check.count, (unsigned)check.operation,
                     (unsigned long long)check.cost, check.says);
    }
}

/* An option that is given twice, or where it means nothing, is refused, never taken for an
 * attribute that no rule knows. */
static void an_option_out_of_place_is_refused(void **state)
{
    static const struct {
        enum operation operation;
        const char *line;
        const char *sentence;
    } refused[] = {
        {OPERATION_CHECK, "user ada COST 2 COST 3", "COST: found it twice"},
        {OPERATION_CHECK, "user ada COST 2 PEEK cost 3", "COST: found it twice"},
        {OPERATION_CHECK, "user ada cost 5 COST 2", "COST: found it twice"},
        {OPERATION_CHECK, "user ada PEEK PEEK", "PEEK: found it twice"},
        {OPERATION_CHECK, "user ada PEEK COST 2 PEEK", "PEEK: found it twice"},
        {OPERATION_CHECK, "user ada MESSAGE MESSAGE", "MESSAGE: found it twice"},
        {OPERATION_CHECK, "user ada COST x", "COST: found 'x', expected a whole number"},
        {OPERATION_CHECK, "user ada COST PEEK", "COST: found 'PEEK', expected a whole number"},
        {OPERATION_CHECK, "user ada COST -1", "COST: found '-1'"},
        {OPERATION_CHECK, "user", "'user': expected a value behind each attribute"},
        {OPERATION_CHECK, "user ada COST", "'COST': expected a value"},
        {OPERATION_CHECK, "COST 2", "found 0 attributes"},
        {OPERATION_CHECK, "PEEK", "found 0 attributes"},
        {OPERATION_HIT, "user ada PEEK", "PEEK: expected it with TG.CHECK alone"},
        {OPERATION_REFUND, "user ada PEEK COST 2", "PEEK: expected it with TG.CHECK alone"},
        {OPERATION_PEEK, "user ada PEEK", "PEEK: expected it with TG.CHECK alone"},
        {OPERATION_RESET, "user ada COST 2", "COST: expected none with TG.RESET"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct resp_check check;
        const int result = read_line(&check, refused[i].operation, refused[i].line);
        if (result != TG_EINVALID || strstr(error, refused[i].sentence) == NULL)
            fail_msg("\"%s\" gives %d, \"%s\"", refused[i].line, result, error);
    }
}

/* Who asks for the message gets one with every denial, also of a node that sent none. */
static void a_message_is_one_more_answer(void **state)
{
    char bytes[512];
    struct gateway_out out = {.data = bytes, .capacity = sizeof bytes, .protocol = 2};
    const struct wire_source spoken = {.message = wire_text_of("SLOWER")};
    const struct wire_source silent = {.status = 429};
    struct wire_decision decision = {.outcome = OUTCOME_DENY, .source = &spoken};
    (void)state;
    resp_check_answer(&decision, true, false, &out);
    decision.source = &silent;
    resp_check_answer(&decision, true, false, &out);
    decision = (struct wire_decision){.allowed = true, .outcome = OUTCOME_ALLOW};
    resp_check_answer(&decision, true, false, &out);
    resp_check_answer(&decision, false, false, &out);
    static const char denied[] = "*8\r\n:1\r\n:0\r\n:0\r\n:1\r\n:0\r\n$4\r\ndeny\r\n$0\r\n\r\n";
    static const char allowed[] = ":0\r\n:0\r\n:0\r\n:-1\r\n:0\r\n$5\r\nallow\r\n$0\r\n\r\n";
    char expected[512];
    const int len = snprintf(expected, sizeof expected,
                             "%s$6\r\nSLOWER\r\n%s$20\r\nthe limit is reached\r\n*8\r\n%s$0\r\n\r\n"
                             "*7\r\n%s",
                             denied, denied, allowed, allowed);
    assert_int_equal(out.len, len);
    assert_memory_equal(bytes, expected, (size_t)len);
}

/* A block is told as over HTTP: with its reason and its status. */
static void a_status_is_one_more_answer_behind_the_message(void **state)
{
    char bytes[512];
    struct gateway_out out = {.data = bytes, .capacity = sizeof bytes, .protocol = 2};
    const struct wire_source source = {.status = 403, .message = wire_text_of("abuse")};
    const struct wire_decision decision = {.outcome = OUTCOME_BLOCKED, .source = &source};
    static const char expected[] =
        "*9\r\n:1\r\n:0\r\n:0\r\n:1\r\n:0\r\n$7\r\nblocked\r\n$0\r\n\r\n$5\r\nabuse\r\n:403\r\n"
        "*8\r\n:1\r\n:0\r\n:0\r\n:1\r\n:0\r\n$7\r\nblocked\r\n$0\r\n\r\n:403\r\n";
    (void)state;
    resp_check_answer(&decision, true, true, &out);
    resp_check_answer(&decision, false, true, &out);
    assert_int_equal(out.len, sizeof expected - 1);
    assert_memory_equal(bytes, expected, sizeof expected - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status_is_one_more_answer_behind_the_message),
        cmocka_unit_test(options_come_in_any_order),
        cmocka_unit_test(an_option_out_of_place_is_refused),
        cmocka_unit_test(a_message_is_one_more_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
