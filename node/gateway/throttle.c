/* throttle.c - CL.THROTTLE; throttle.h has its form.
 *
 * redis-cell keeps a bucket of max_burst + 1 tokens as one time, by the generic cell rate
 * algorithm. So does token_bucket (node/limit/algorithms/gcra.c): with T = period / count,
 *
 *   redis-cell                                     here
 *   limited    max(TAT, now) + q T - now > B T     q > B - ceil(debt / T), which is the same, for q
 *                                                  and B are whole
 *   remaining  floor((B T - debt) / T)             B - ceil(debt / T)
 *   retry      debt + q T - B T, else -1           retry_after, exact
 *   reset      debt                                reset_after, exact
 *
 * It rounds T down to a nanosecond, and reckons `remaining` in whole microseconds; here a rate is
 * exact, so after n requests of 3 in a second the two may differ by n/3 ns in when a token is
 * there.
 *
 * 1. Times are given as whole seconds, and one more if the milliseconds behind them are at least 1:
 *    what is below a millisecond is dropped. Decisions come in milliseconds, rounded up, so a rest
 * of 1 may have been less: it counts only if it is what whole tokens take, as on a key that was
 * full. But whoever is limited is never told to ask again in 0 s: that is 1.
 * 2. Quantity 0 looks and takes nothing; it is limited if the key is deeper in debt than the burst
 *    that is asked about allows. A negative quantity gives tokens back, never above full, where
 *    redis-cell ends in an error.
 * 3. What makes no rate is an error, in redis-cell's words where it has some.
 */
#include "node/gateway/throttle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "base/sat.h"

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull
/* So that a quantity that is cut to WIRE_COST_MAX never fits. */
#define MAX_BURST_MAX ((int64_t)WIRE_COST_MAX - 2)
#define PERIOD_MAX    ((int64_t)(LIMIT_WINDOW_MAX_NS / NS_PER_S)) /* ten years */

enum { KEY = 1, MAX_BURST, COUNT, PERIOD, QUANTITY, WORDS_MAX, SHOWN_LEN = 64 };

bool throttle_read_integer(struct wire_text text, int64_t *value)
{
    const bool negative = text.len > 0 && text.data[0] == '-';
    size_t i = text.len > 0 && (negative || text.data[0] == '+');
    const uint64_t most = (uint64_t)INT64_MAX + negative;
    uint64_t number = 0;
    if (i == text.len)
        return false;
    for (; i < text.len; i++) {
        const uint64_t digit = (uint64_t)((unsigned char)text.data[i] - '0');
        if (digit > 9 || number > (most - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *value = negative ? (int64_t)(0 - number) : (int64_t)number;
    return true;
}

static int refuse_integer(struct wire_text text, char *error)
{
    const int shown = text.len < SHOWN_LEN ? (int)text.len : SHOWN_LEN;
    (void)snprintf(error, THROTTLE_ERROR_LEN, "Cell error: Couldn't parse as integer: %.*s", shown,
                   text.data);
    return TG_EINVALID;
}

static int refuse_range(const char *name, int64_t found, int64_t least, int64_t most, char *error)
{
    (void)snprintf(error, THROTTLE_ERROR_LEN,
                   "Cell error: %s: found %" PRId64 ", expected %" PRId64 " to %" PRId64, name,
                   found, least, most);
    return TG_EINVALID;
}

/* The numbers behind the key, in their order; the quantity is 1 if there is none. */
static int read_numbers(const struct resp_request *request, int64_t numbers[WORDS_MAX], char *error)
{
    numbers[QUANTITY] = 1;
    for (uint32_t i = MAX_BURST; i < request->count; i++)
        if (!throttle_read_integer(request->arguments[i], &numbers[i]))
            return refuse_integer(request->arguments[i], error);
    return 0;
}

static int read_limit(const int64_t numbers[WORDS_MAX], struct limit *out, char *error)
{
    char sentence[QUANTITY_ERROR_LEN];
    if (numbers[MAX_BURST] < 0 || numbers[MAX_BURST] > MAX_BURST_MAX)
        return refuse_range("max_burst", numbers[MAX_BURST], 0, MAX_BURST_MAX, error);
    if (numbers[COUNT] < 0)
        return refuse_range("count per period", numbers[COUNT], 1, MAX_BURST_MAX, error);
    if (numbers[PERIOD] < 0 || numbers[PERIOD] > PERIOD_MAX)
        return refuse_range("period", numbers[PERIOD], 1, PERIOD_MAX, error);
    const uint64_t window_ns = (uint64_t)numbers[PERIOD] * NS_PER_S;
    if (numbers[COUNT] == 0 || (uint64_t)numbers[COUNT] > window_ns) {
        (void)snprintf(error, THROTTLE_ERROR_LEN, "Cell error: Zero rates are not supported");
        return TG_EINVALID;
    }
    *out = (struct limit){
        .algorithm = ALGORITHM_TOKEN_BUCKET,
        .count = (uint64_t)numbers[COUNT],
        .window_ns = window_ns,
        .burst = (uint64_t)numbers[MAX_BURST] + 1,
    };
    if (limit_validate(out, sentence) == 0)
        return 0;
    (void)snprintf(error, THROTTLE_ERROR_LEN, "Cell error: %s", sentence);
    return TG_EINVALID;
}

int throttle_read(const struct resp_request *request, struct throttle *out,
                  char error[THROTTLE_ERROR_LEN])
{
    int64_t numbers[WORDS_MAX];
    if (request->count != QUANTITY && request->count != WORDS_MAX) {
        (void)snprintf(error, THROTTLE_ERROR_LEN,
                       "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> "
                       "<period> [<quantity>]");
        return TG_EINVALID;
    }
    if (read_numbers(request, numbers, error) != 0 || read_limit(numbers, &out->limit, error) != 0)
        return TG_EINVALID;
    if (request->arguments[KEY].len > WIRE_VALUE_MAX) {
        (void)snprintf(error, THROTTLE_ERROR_LEN,
                       "Cell error: key: found %zu bytes, expected at most %d",
                       request->arguments[KEY].len, WIRE_VALUE_MAX);
        return TG_EINVALID;
    }
    const int64_t quantity = numbers[QUANTITY];
    const uint64_t cost = quantity < 0 ? 0 - (uint64_t)quantity : (uint64_t)quantity;
    out->cost = cost < WIRE_COST_MAX ? cost : WIRE_COST_MAX;
    out->operation = quantity > 0    ? OPERATION_CHECK
                     : quantity == 0 ? OPERATION_PEEK
                                     : OPERATION_REFUND;
    return 0;
}

struct throttle_asked throttle_asked(const struct throttle *throttle)
{
    return (struct throttle_asked){
        .limit = throttle->limit.burst,
        .count = throttle->limit.count,
        .window_ns = throttle->limit.window_ns,
        .cost = throttle->cost,
        .peek = throttle->operation == OPERATION_PEEK,
    };
}

/* See 1. */
static int64_t seconds_of(int64_t ms)
{
    return ms < 0 ? -1 : ms / 1000 + (ms % 1000 > 1);
}

/* The same of when to ask again. */
static int64_t retry_seconds_of(int64_t ms)
{
    const int64_t seconds = seconds_of(ms);
    return seconds == 0 ? 1 : seconds;
}

/* The time of so many tokens, in ms. */
static int64_t time_of(const struct throttle_asked *asked, uint64_t tokens)
{
    return (int64_t)(sat_muldiv(tokens, asked->window_ns, asked->count) / NS_PER_MS);
}

/* `ms`, or one more where a rest of 1 ms is to count as one (1): so much do the tokens take. */
static int64_t whole_ms(const struct throttle_asked *asked, int64_t ms, uint64_t tokens)
{
    if (ms < 0 || ms % 1000 != 1)
        return ms;
    const uint64_t exact_ns = (uint64_t)ms * NS_PER_MS;
    return ms + (sat_muldiv(tokens, asked->window_ns, asked->count) == exact_ns);
}

void throttle_put_figures(const struct throttle_figures *figures, struct gateway_out *out)
{
    resp_put_integer(out, figures->limited);
    resp_put_integer(out, (int64_t)figures->limit);
    resp_put_integer(out, (int64_t)figures->remaining);
    resp_put_integer(out, figures->limited ? retry_seconds_of(figures->retry_ms) : -1);
    resp_put_integer(out, seconds_of(figures->reset_ms));
}

void throttle_answer(const struct throttle_asked *asked, const struct wire_decision *decision,
                     struct gateway_out *out)
{
    const uint64_t used = decision->used;
    const uint64_t lacking = sat_subu(sat_addu(used, asked->cost), asked->limit);
    struct throttle_figures figures = {
        .limited = !decision->allowed,
        .limit = asked->limit,
        .remaining = decision->remaining,
        .retry_ms = whole_ms(asked, decision->retry_after_ms, lacking),
        .reset_ms = whole_ms(asked, decision->reset_after_ms, used),
    };
    if (asked->peek && decision->allowed && decision->used > asked->limit) { /* 2 */
        figures.limited = true;
        figures.retry_ms = decision->reset_after_ms - time_of(asked, asked->limit);
        if (figures.retry_ms < 0) /* by what both are rounded; it is not never */
            figures.retry_ms = 0;
    }
    resp_put_array(out, 5);
    throttle_put_figures(&figures, out);
}
