/* hot.c - asks about one key as fast as it can, and says how many of the answers were made here.
 *
 *   cc hot.c -o hot $(pkg-config --cflags --libs tidegate)
 *   ./hot tcp://127.0.0.1:7600 checkout 100000/s 3
 *   ./hot tcp://127.0.0.1:7600 checkout 300000/h,fixed_window 3 64 counts
 *   ./hot tcp://127.0.0.1:7600 api=/search,user=ada rules 3
 *
 * A key that is asked about often is leased: the library takes a block of its tokens and admits
 * with them by itself, so that most checks cost no message, however many processes share the limit.
 * With `rules` for a rate it asks about attributes. The fifth argument is how many are asked at a
 * time. With a sixth the counts are kept in that file as well, where they outlive the program: two
 * numbers of 64 bits, allowed and made here, as this machine writes them.
 *
 * Output: asked N allowed N local N seconds S. Exit status: 0, 2 no decision, 3 bad arguments.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tidegate.h>
#include <time.h>
#include <unistd.h>

enum { RATE_LEN = 64, BATCH_MAX = 1000, ATTRIBUTES_MAX = 8 };

struct counts {
    volatile uint64_t allowed;
    volatile uint64_t local;
};

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Where to count: in the file, or in `own`. NULL: it cannot be. */
static struct counts *place_counts(const char *path, struct counts *own)
{
    void *map = MAP_FAILED;
    int file;

    if (path == NULL)
        return own;
    file = open(path, O_RDWR | O_CREAT, 0600);
    if (file >= 0 && ftruncate(file, sizeof(struct counts)) == 0)
        map = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0)
        (void)close(file);
    return map == MAP_FAILED ? NULL : map;
}

/* "5/60s" or "5/60s,ALGORITHM". */
static int parse_limit(const char *text, tg_limit_t *limit)
{
    const char *comma = strchr(text, ',');
    const size_t len = comma != NULL ? (size_t)(comma - text) : strlen(text);
    char rate[RATE_LEN];

    if (len >= sizeof rate)
        return -1;
    memcpy(rate, text, len);
    rate[len] = '\0';
    if (tg_limit_parse(rate, limit, NULL, 0) != 0)
        return -1;
    return comma != NULL ? tg_algorithm_parse(comma + 1, &limit->algorithm) : 0;
}

/* Makes attributes of "api=/search,user=ada", in place. Returns how many, 0 if it is something
 * else. */
static size_t parse_attributes(char *text, tg_attribute_t *attributes)
{
    size_t count = 0;
    char *rest = NULL;

    for (char *one = strtok_r(text, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(one, '=');

        if (equals == NULL || count == ATTRIBUTES_MAX)
            return 0;
        *equals = '\0';
        attributes[count++] = (tg_attribute_t){one, equals + 1, TG_STRLEN};
    }
    return count;
}

/* Asks until the time is over; a decision that cannot be had ends it. */
static int ask(tg_client_t *client, const tg_request_t *requests, size_t batch, double seconds,
               struct counts *counts)
{
    static tg_decision_t decisions[BATCH_MAX];
    const double start = now_s();
    uint64_t asked = 0;
    int code = 0;

    for (size_t turn = 0; turn % 64 != 0 || now_s() < start + seconds; turn++) {
        code = batch == 1 ? tg_check(client, requests, decisions)
                          : tg_check_many(client, requests, batch, decisions);
        if (code != 0)
            break;
        asked += batch;
        for (size_t i = 0; i < batch; i++) {
            counts->allowed += decisions[i].allowed != 0;
            counts->local += decisions[i].allowed != 0 && decisions[i].local != 0;
        }
    }
    printf("asked %" PRIu64 " allowed %" PRIu64 " local %" PRIu64 " seconds %.3f\n", asked,
           counts->allowed, counts->local, now_s() - start);
    return code;
}

int main(int argc, char **argv)
{
    static tg_request_t requests[BATCH_MAX];
    const int batch = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 1;
    const int by_rules = argc > 3 && strcmp(argv[3], "rules") == 0;
    tg_attribute_t attributes[ATTRIBUTES_MAX];
    struct counts own = {0, 0};
    char error[256] = "";
    tg_options_t options = tg_options();
    struct counts *counts;
    tg_client_t *client;
    tg_limit_t limit;
    size_t attribute_count = 0;
    int code;

    if (by_rules)
        attribute_count = parse_attributes(argv[2], attributes);
    if (argc < 5 || argc > 7 || batch < 1 || batch > BATCH_MAX ||
        (by_rules ? attribute_count == 0 : parse_limit(argv[3], &limit) != 0)) {
        fprintf(stderr, "usage: hot ENDPOINTS KEY RATE[,ALGORITHM] SECONDS [BATCH [COUNTS]]\n"
                        "       hot ENDPOINTS NAME=VALUE,... rules SECONDS [BATCH [COUNTS]]\n");
        return 3;
    }
    options.error = error;
    options.error_size = sizeof error;
    client = tg_open(argv[1], &options);
    counts = place_counts(argc == 7 ? argv[6] : NULL, &own);
    if (client == NULL || counts == NULL) {
        fprintf(stderr, "hot: %s\n", client == NULL ? error : "the counts cannot be kept");
        tg_close(&client);
        return 3;
    }
    for (int i = 0; i < batch; i++)
        requests[i] =
            by_rules ? tg_request(attributes, attribute_count) : tg_request_inline(argv[2], &limit);
    code = ask(client, requests, (size_t)batch, strtod(argv[4], NULL), counts);
    if (code != 0) {
        tg_error_detail(client, error, sizeof error);
        fprintf(stderr, "hot: %s: %s\n", tg_strerror(code), error);
    }
    tg_close(&client); /* gives back what is left of a lease */
    return code != 0 ? 2 : 0;
}
