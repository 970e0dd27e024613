/* judge.c - reads what clients of real nodes saw, and says of each key whether it is linearizable.
 *
 *   judge < HISTORY          one line a key: NAME ok | NAME unknown | NAME broken at LINE
 *
 * A history is text, a line each; `-` stands for an answer that never came or a count not told:
 *
 *   key NAME LIMIT                                        begins the operations of a key
 *   op CALL_NS RETURN_NS|- COST ALLOWED USED|- EXTRA      a check; EXTRA: times it was sent again
 *
 * The judgement is linear.h's, the same that the simulator uses. Exit status: 0 all ok, 1 one is
 * broken, 2 none is broken but one could not be followed, 3 bad input.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/linear.h"

enum { LINE_LEN = 256, NAME_LEN = 128, OPS_MAX = 1 << 18 };

struct key {
    char name[NAME_LEN];
    uint64_t limit;
    struct linear_op *ops;
    size_t *lines;
    size_t count;
};

/* A number, or `none` for "-". False for anything else. */
static bool number_of(const char *text, int64_t none, int64_t *out)
{
    char *end = NULL;
    if (strcmp(text, "-") == 0) {
        *out = none;
        return true;
    }
    *out = strtoll(text, &end, 10);
    return end != text && *end == '\0';
}

static bool read_op(const char *line, struct linear_op *op)
{
    char returned[32];
    char told[32];
    int64_t call_ns;
    unsigned cost;
    unsigned allowed;
    unsigned extra;
    if (sscanf(line, "op %" SCNd64 " %31s %u %u %31s %u", &call_ns, returned, &cost, &allowed, told,
               &extra) != 6 ||
        cost > LINEAR_COST_MAX || allowed > 1)
        return false;
    *op = (struct linear_op){.call_ns = call_ns,
                             .kind = LINEAR_CHECK,
                             .cost = cost,
                             .allowed = allowed == 1,
                             .extra = extra};
    return number_of(returned, LINEAR_NEVER, &op->return_ns) && number_of(told, -1, &op->used);
}

/* Prints the verdict on a key that was read whole; the exit status it asks for. */
static int judge(const struct key *key)
{
    size_t at = 0;
    if (key->count == 0)
        return 0;
    switch (linear_check(key->ops, key->count, key->limit, &at)) {
    case LINEAR_OK:
        (void)printf("%s ok\n", key->name);
        return 0;
    case LINEAR_BROKEN:
        (void)printf("%s broken at %zu\n", key->name, key->lines[at]);
        return 1;
    case LINEAR_UNKNOWN:
        break;
    }
    (void)printf("%s unknown\n", key->name);
    return 2;
}

/* The graver of two statuses: broken, then unknown. */
static int worse(int one, int other)
{
    return one == 1 || other == 1 ? 1 : one > other ? one : other;
}

static int bad(size_t number, const char *line)
{
    (void)fprintf(stderr, "judge: line %zu: found %.60s; expected `key NAME LIMIT` or an op\n",
                  number, line);
    return 3;
}

/* Reads and judges; 0 to 3. */
static int run(struct key *key, FILE *file)
{
    char line[LINE_LEN];
    int status = 0;
    for (size_t number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        if (strncmp(line, "key ", 4) == 0) {
            status = worse(status, judge(key));
            key->count = 0;
            if (sscanf(line, "key %127s %" SCNu64, key->name, &key->limit) != 2)
                return bad(number, line);
        } else if (key->name[0] == '\0' || key->count == OPS_MAX ||
                   !read_op(line, &key->ops[key->count])) {
            return bad(number, line);
        } else {
            key->lines[key->count++] = number;
        }
    }
    return worse(status, judge(key));
}

int main(void)
{
    struct key key = {.name = ""};
    key.ops = calloc(OPS_MAX, sizeof *key.ops);
    key.lines = calloc(OPS_MAX, sizeof *key.lines);
    const int status = key.ops == NULL || key.lines == NULL ? 3 : run(&key, stdin);
    free(key.ops);
    free(key.lines);
    return status;
}
