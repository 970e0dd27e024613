/* links.c - connections to peers; links.h is the contract.
 *
 * A DEALER with IMMEDIATE set takes messages only while its connection stands, so nothing piles up
 * for a peer that is gone. The monitor of the live one tells when the connection ends; that of the
 * bulk one is nobody's evidence, as it is missed by the stream on it alone.
 *
 * What cannot be opened is tried again each second: no view need come for it.
 *
 * All monitors are behind one descriptor, an epoll set: with a hundred peers a look at each would
 * cost hundreds of system calls, whenever anything woke the loop.
 */
#include "node/runtime/shard/links.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/assert.h"
#include "node/runtime/system/failure.h"
#include "node/runtime/system/socket.h"

struct link {
    uint64_t node;
    uint16_t shard;
    bool wanted;
    bool remote; /* of another region: `live` alone, once something was said */
    bool failed; /* it could not be opened, which was logged */
    char endpoint[VIEW_TEXT_LEN];
    void *live;
    void *bulk;
    void *monitor;    /* of `live` */
    int64_t probe_ns; /* when the host of a lost connection is asked again; 0: not at all */
    uint32_t probes;
};

struct links {
    struct links_options options;
    struct link links[LINKS_MAX];
    uint32_t count;
    int monitored; /* epoll set of the monitors' descriptors */
    uint64_t monitors;
    _Atomic uint64_t dropped; /* the loop adds, operators' figures read */
    uint32_t failed;          /* links that could not be opened */
    int64_t retry_ns;
    int64_t probe_ns; /* the first of any link; INT64_MAX: none */
};

#define LINKS_RETRY_NS INT64_C(1000000000)

enum { PROBES = 7 /* 1, 2, 4 .. 64 ms apart */ };
#define PROBE_NS INT64_C(1000000)

int links_new(const struct links_options *options, struct links **out)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return TG_ENOMEM;
    (*out)->options = *options;
    (*out)->probe_ns = INT64_MAX;
    (*out)->monitored = epoll_create1(EPOLL_CLOEXEC);
    if ((*out)->monitored >= 0)
        return 0;
    links_free(out);
    return TG_EIO;
}

static void disconnect(struct links *links, struct link *link)
{
    if (link->monitor != NULL) /* the descriptor is closed later, on another thread */
        (void)epoll_ctl(links->monitored, EPOLL_CTL_DEL, socket_fd(link->monitor), NULL);
    socket_close(&link->live);
    socket_close(&link->bulk);
    socket_close(&link->monitor);
    link->probe_ns = 0;
}

void links_free(struct links **links)
{
    if (*links == NULL)
        return;
    for (uint32_t i = 0; i < (*links)->count; i++)
        disconnect(*links, &(*links)->links[i]);
    if ((*links)->monitored >= 0)
        (void)close((*links)->monitored);
    free(*links);
    *links = NULL;
}

static struct link *find(struct links *links, uint64_t node, uint16_t shard)
{
    for (uint32_t i = 0; i < links->count; i++)
        if (links->links[i].node == node && links->links[i].shard == shard)
            return &links->links[i];
    return NULL;
}

static int watch(struct links *links, struct link *link)
{
    /* Monitor names must be unique in the process: shard in the high bits, a count below. */
    const uint64_t number = (uint64_t)links->options.shard << 32 | ++links->monitors;
    const int error = socket_monitor(links->options.context, link->live, number, &link->monitor);
    if (error != 0)
        return error;
    struct epoll_event event = {.events = EPOLLIN};
    const int fd = socket_fd(link->monitor);
    (void)socket_lost(link->monitor); /* ZeroMQ wakes only who has found nothing before */
    return epoll_ctl(links->monitored, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : TG_EIO;
}

static void connect_link(struct links *links, struct link *link)
{
    int error = socket_connect(links->options.context, SOCKET_PEERS, link->endpoint, &link->live);
    if (error == 0 && !link->remote)
        error = socket_connect(links->options.context, SOCKET_PEERS, link->endpoint, &link->bulk);
    if (error == 0 && !link->remote)
        error = watch(links, link);
    if (error == 0)
        error = socket_join(link->live, link->endpoint);
    if (error == 0 && !link->remote)
        error = socket_join(link->bulk, link->endpoint);
    if (error != 0 && !link->failed)
        log_printf(links->options.log, LOG_LEVEL_ERROR,
                   "cannot connect to peer %s: %s; trying again each second", link->endpoint,
                   error_message(error));
    if (error == 0 && link->failed)
        log_printf(links->options.log, LOG_LEVEL_INFO, "can connect to peer %s again",
                   link->endpoint);
    ASSERT(error != 0 || (link->live != NULL && (link->bulk == NULL) == link->remote));
    link->failed = error != 0;
    if (error != 0)
        disconnect(links, link);
}

static void want(struct links *links, const struct view_member *member, uint16_t shard, bool remote)
{
    char endpoint[VIEW_TEXT_LEN];
    if (view_shard_endpoint(member->peer, shard, endpoint) != 0)
        return;
    struct link *link = find(links, member->id, shard);
    if (link == NULL) {
        if (links->count == LINKS_MAX)
            return;
        ASSERT(links->count < LINKS_MAX);
        link = &links->links[links->count++];
        memset(link, 0, sizeof *link);
        link->node = member->id;
        link->shard = shard;
    }
    ASSERT(link->node == member->id && link->shard == shard);
    link->wanted = true;
    if (link->live != NULL && link->remote == remote && strcmp(link->endpoint, endpoint) == 0)
        return;
    disconnect(links, link);
    memcpy(link->endpoint, endpoint, sizeof link->endpoint);
    link->remote = remote;
    if (!remote)
        connect_link(links, link);
}

static void count_failed(struct links *links)
{
    links->failed = 0;
    for (uint32_t i = 0; i < links->count; i++)
        links->failed += links->links[i].failed;
    ASSERT(links->failed <= links->count);
}

void links_follow(struct links *links, const struct view *view)
{
    for (uint32_t i = 0; i < links->count; i++)
        links->links[i].wanted = false;
    for (uint32_t m = 0; m < view->member_count; m++) {
        const struct view_member *member = &view->members[m];
        for (uint16_t s = 0; member->state != VIEW_LEFT && s < member->shards; s++)
            if (member->id != links->options.self || s != links->options.shard)
                want(links, member, s, view_is_remote(view, member));
    }
    for (uint32_t i = 0; i < links->count;) {
        if (links->links[i].wanted) {
            i++;
            continue;
        }
        disconnect(links, &links->links[i]);
        links->links[i] = links->links[--links->count];
    }
    ASSERT(links->count <= LINKS_MAX);
    count_failed(links);
}

void links_retry(struct links *links, int64_t now_ns)
{
    if (links->failed == 0 || now_ns < links->retry_ns)
        return;
    links->retry_ns = now_ns + LINKS_RETRY_NS;
    for (uint32_t i = 0; i < links->count; i++)
        if (links->links[i].failed)
            connect_link(links, &links->links[i]);
    count_failed(links);
}

void links_send(struct links *links, uint64_t node, uint16_t shard, bool bulk, const void *data,
                size_t len)
{
    struct link *link = find(links, node, shard);
    if (link != NULL && link->remote && link->live == NULL && !link->failed)
        connect_link(links, link);
    ASSERT(link == NULL || !link->remote || link->bulk == NULL);
    void *dealer = link == NULL ? NULL : bulk ? link->bulk : link->live;
    failure_frame(links->options.failpoints, FAILURE_SENDING, data, len);
    if (dealer == NULL || socket_send(dealer, data, len) != 0)
        atomic_fetch_add_explicit(&links->dropped, 1, memory_order_relaxed);
    else
        failure_frame(links->options.failpoints, FAILURE_SENT, data, len);
}

int links_descriptor(const struct links *links)
{
    return links->monitored;
}

/* Asks the host of a lost connection, and says when again. Who does not answer at all is not asked
 * again: the shard waits for each answer. */
static bool ask(struct link *link, int64_t now_ns)
{
    ASSERT(link->probes <= PROBES);
    const enum socket_listener listener = socket_listener(link->endpoint);
    const bool again = listener != SOCKET_UNKNOWN && link->probes < PROBES;
    link->probe_ns = again ? now_ns + (PROBE_NS << link->probes++) : 0;
    return listener == SOCKET_REFUSES;
}

void links_poll(struct links *links, bool news, int64_t now_ns,
                void (*lost)(void *context, uint64_t node, uint16_t shard, bool refused),
                void *context)
{
    links->probe_ns = INT64_MAX;
    for (uint32_t i = 0; i < links->count; i++) {
        struct link *link = &links->links[i];
        if (news && link->monitor != NULL && socket_lost(link->monitor)) {
            link->probes = 0;
            lost(context, link->node, link->shard, ask(link, now_ns));
        } else if (link->probe_ns != 0 && now_ns >= link->probe_ns && ask(link, now_ns)) {
            lost(context, link->node, link->shard, true);
        }
        if (link->probe_ns != 0 && link->probe_ns < links->probe_ns)
            links->probe_ns = link->probe_ns;
    }
}

int64_t links_deadline(const struct links *links)
{
    return links->probe_ns;
}

uint64_t links_dropped(const struct links *links)
{
    return atomic_load_explicit(&links->dropped, memory_order_relaxed);
}
