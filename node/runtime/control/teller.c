/* teller.c - see teller.h. */
#include "node/runtime/control/teller.h"

#include <string.h>

int64_t teller_now(const struct teller *teller)
{
    return clock_now_ns(teller->clock) + clock_wall_ns(teller->clock);
}

static void tell(void *context, enum log_level level, const char *line)
{
    struct teller *teller = context;
    event_log_add(&teller->events, teller_now(teller), line);
    if (log_enabled(teller->to, level))
        teller->to->write(teller->to->context, level, line);
}

void teller_init(struct teller *teller, const struct log *to, const struct clock *clock)
{
    memset(teller, 0, sizeof *teller);
    teller->to = to;
    teller->clock = clock;
    event_log_begin(&teller->events, teller_now(teller));
    teller->log = (struct log){.level = LOG_LEVEL_INFO, .write = tell, .context = teller};
}
