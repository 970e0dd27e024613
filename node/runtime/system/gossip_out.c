/* gossip_out.c - a bounded cache of gossip connections; the least recently used makes room. */
#include "node/runtime/system/gossip_out.h"

#include <string.h>

#include "base/assert.h"
#include "node/runtime/system/socket.h"

#define IDLE_NS ((int64_t)60 * 1000000000)

void gossip_out_init(struct gossip_out *out, void *context)
{
    memset(out, 0, sizeof *out);
    out->context = context;
}

static void close_line(struct gossip_out *out, uint32_t at)
{
    ASSERT(at < out->count && out->count <= GOSSIP_OUT_MAX);
    socket_close(&out->lines[at].dealer);
    out->lines[at] = out->lines[--out->count];
}

void gossip_out_fini(struct gossip_out *out)
{
    while (out->count > 0)
        close_line(out, out->count - 1);
}

static struct gossip_line *find(struct gossip_out *out, const char *address)
{
    for (uint32_t i = 0; i < out->count; i++)
        if (strcmp(out->lines[i].address, address) == 0)
            return &out->lines[i];
    return NULL;
}

static void make_room(struct gossip_out *out)
{
    uint32_t oldest = 0;
    if (out->count < GOSSIP_OUT_MAX)
        return;
    for (uint32_t i = 1; i < out->count; i++)
        if (out->lines[i].used_ns < out->lines[oldest].used_ns)
            oldest = i;
    close_line(out, oldest);
}

static struct gossip_line *open_line(struct gossip_out *out, const char *address)
{
    struct gossip_line line = {.dealer = NULL};
    make_room(out);
    if (strlen(address) >= sizeof line.address ||
        socket_connect(out->context, SOCKET_GOSSIP, address, &line.dealer) != 0)
        return NULL;
    if (socket_join(line.dealer, address) != 0) {
        socket_close(&line.dealer);
        return NULL;
    }
    ASSERT(out->count < GOSSIP_OUT_MAX);
    memcpy(line.address, address, strlen(address) + 1);
    out->lines[out->count] = line;
    return &out->lines[out->count++];
}

void gossip_out_send(struct gossip_out *out, int64_t now_ns, const char *address, const void *data,
                     size_t len)
{
    struct gossip_line *line = find(out, address);
    if (line == NULL)
        line = open_line(out, address);
    if (line == NULL)
        return;
    line->used_ns = now_ns;
    if (socket_send(line->dealer, data, len) == TG_EBUSY) { /* stuck: begin anew next time */
        close_line(out, (uint32_t)(line - out->lines));
    }
}

void gossip_out_tidy(struct gossip_out *out, int64_t now_ns)
{
    for (uint32_t i = 0; i < out->count;) {
        if (now_ns - out->lines[i].used_ns > IDLE_NS)
            close_line(out, i);
        else
            i++;
    }
}
