/* check.c - the smallest useful client: may this user log in now?
 *
 *   cc check.c -o check $(pkg-config --cflags --libs tidegate)
 *   ./check tcp://127.0.0.1:7600 user:42 5/60s
 *
 * Exit status: 0 allowed, 1 denied, 2 no decision, 3 bad arguments.
 */
#include <stdio.h>
#include <tidegate.h>

int main(int argc, char **argv)
{
    char error[256] = "";
    tg_options_t options = tg_options();
    tg_decision_t decision;
    tg_request_t request;
    tg_client_t *client;
    tg_limit_t limit;
    int code;

    if (argc != 4 || tg_limit_parse(argv[3], &limit, error, sizeof error) != 0) {
        fprintf(stderr, "usage: check ENDPOINTS KEY RATE  (%s)\n", error);
        return 3;
    }
    options.error = error;
    options.error_size = sizeof error;
    client = tg_open(argv[1], &options);
    if (client == NULL) {
        fprintf(stderr, "%s\n", error);
        return 3;
    }
    request = tg_request_inline(argv[2], &limit);
    code = tg_check(client, &request, &decision);
    if (code != 0) {
        tg_error_detail(client, error, sizeof error);
        fprintf(stderr, "%s: %s\n", tg_strerror(code), error);
    } else {
        printf("%s, %llu of %llu left, retry after %lld ms\n",
               decision.allowed ? "allowed" : "denied", (unsigned long long)decision.remaining,
               (unsigned long long)decision.limit, (long long)decision.retry_after_ms);
    }
    tg_close(&client);
    return code != 0 ? 2 : !decision.allowed;
}
