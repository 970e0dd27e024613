/* client_figures.c - see client_figures.h: each counter has its name here, once. */
#include "node/runtime/control/client_figures.h"

#include <assert.h>
#include <stddef.h>

#include "base/assert.h"

/* What is counted of clients: what a report calls it, and where it is. */
struct figure_place {
    const char *name;
    size_t offset;
};

#define CLIENT_FIGURE(name)                                                                        \
    {                                                                                              \
#name, offsetof(struct gateway_stats, name)                                                \
    }
#define HTTP_FIGURE(text, name)                                                                    \
    {                                                                                              \
        text, offsetof(struct http_stats, name)                                                    \
    }

static const struct figure_place client_figures[] = {
    CLIENT_FIGURE(connections),     CLIENT_FIGURE(accepted),
    CLIENT_FIGURE(refused),         CLIENT_FIGURE(accept_failures),
    CLIENT_FIGURE(commands),        CLIENT_FIGURE(checks),
    CLIENT_FIGURE(batches),         CLIENT_FIGURE(busy),
    CLIENT_FIGURE(protocol_errors), CLIENT_FIGURE(slow_readers),
    CLIENT_FIGURE(crowded),         CLIENT_FIGURE(late),
    CLIENT_FIGURE(evicted),         CLIENT_FIGURE(unfinished),
    CLIENT_FIGURE(dropped),         CLIENT_FIGURE(idle),
    CLIENT_FIGURE(proxied),
};
static const struct figure_place http_figures[] = {
    HTTP_FIGURE("answered", answered),
    HTTP_FIGURE("answered_3xx", redirected),
    HTTP_FIGURE("answered_4xx", refused),
    HTTP_FIGURE("answered_5xx", failed),
    HTTP_FIGURE("foreign_hosts", hosts),
    HTTP_FIGURE("foreign_origins", origins),
    HTTP_FIGURE("wrong_types", types),
    HTTP_FIGURE("unauthorized", unauthorized),
    HTTP_FIGURE("unknown_paths", unknown),
    HTTP_FIGURE("wrong_methods", methods),
    HTTP_FIGURE("long_heads", heads),
    HTTP_FIGURE("long_bodies", bodies),
    HTTP_FIGURE("continued", expectations),
    HTTP_FIGURE("expired", expired),
    HTTP_FIGURE("h2_connections", h2.connections),
    HTTP_FIGURE("h2_streams", h2.streams),
    HTTP_FIGURE("h2_refused", h2.refused),
    HTTP_FIGURE("h2_cut", h2.cut),
    HTTP_FIGURE("h2_late", h2.late),
    HTTP_FIGURE("h2_floods", h2.floods),
    HTTP_FIGURE("h2_aged", h2.aged),
    HTTP_FIGURE("h2_unanswered", h2.unanswered),
    HTTP_FIGURE("gubernator_local", gubernator.local),
    HTTP_FIGURE("gubernator_forward", gubernator.forward),
    HTTP_FIGURE("gubernator_global", gubernator.global),
    HTTP_FIGURE("gubernator_over", gubernator.over),
    HTTP_FIGURE("gubernator_invalid", gubernator.invalid),
    HTTP_FIGURE("gubernator_algorithm", gubernator.algorithm),
    HTTP_FIGURE("gubernator_timeout", gubernator.timeout),
    HTTP_FIGURE("gubernator_busy", gubernator.busy),
    HTTP_FIGURE("gubernator_too_large", gubernator.too_large),
    HTTP_FIGURE("grpc_calls", grpc.calls),
    HTTP_FIGURE("grpc_faults", grpc.faults),
    HTTP_FIGURE("grpc_late", grpc.late),
    HTTP_FIGURE("streams", streams),
    HTTP_FIGURE("streams_refused", streamless),
};
static_assert(sizeof client_figures / sizeof *client_figures == CLIENT_FIGURES &&
                  sizeof http_figures / sizeof *http_figures == HTTP_FIGURES,
              "each has a place");
/* All but `polls`, which is for tests, and what is counted by method. */
static_assert(sizeof(struct gateway_stats) == (CLIENT_FIGURES + 1) * sizeof(uint64_t) &&
                  offsetof(struct http_stats, grpc.answered) == HTTP_FIGURES * sizeof(uint64_t) &&
                  sizeof(struct http_stats) ==
                      HTTP_FIGURES * sizeof(uint64_t) + sizeof(((struct grpc_stats *)0)->answered),
              "each counter of a protocol's clients is summed, and shown");

static uint64_t *counter_at(void *stats, const struct figure_place *place)
{
    return (uint64_t *)(void *)((char *)stats + place->offset);
}

static void put_figures(void *stats, const struct figure_place *places, uint32_t count,
                        struct control_figure *out)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = (struct control_figure){places[i].name, *counter_at(stats, &places[i])};
}

static void add_stats(void *sum, void *more, const struct figure_place *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        *counter_at(sum, &places[i]) += *counter_at(more, &places[i]);
}

/* What is counted by method and status, of those that there are. */
static void put_calls(const struct grpc_stats *stats, struct client_figures *out)
{
    size_t count;
    const struct grpc_method *methods = grpc_methods(&count);
    ASSERT(count <= GRPC_METHODS_MAX);
    out->call_count = 0;
    for (size_t i = 0; i <= count; i++) {
        const size_t place = i < count ? i : GRPC_METHODS_MAX;
        const char *method = i < count ? methods[i].path + 1 : "other";
        for (int k = 0; k < GRPC_STATUSES; k++) {
            const char *status = grpc_status_name((enum grpc_status)k);
            if (status != NULL)
                out->calls[out->call_count++] =
                    (struct control_call){method, status, stats->answered[place][k]};
        }
    }
}

static void add_calls(struct grpc_stats *sum, const struct grpc_stats *more)
{
    for (size_t i = 0; i <= GRPC_METHODS_MAX; i++)
        for (size_t k = 0; k < GRPC_STATUSES; k++)
            sum->answered[i][k] += more->answered[i][k];
}

void client_figures_collect(struct shard_loop *const *shards, uint32_t count,
                            struct client_figures *out)
{
    struct shard_loop_fronts sum = {.native = {.connections = 0}};
    for (uint32_t i = 0; i < count; i++) {
        struct shard_loop_fronts of;
        shard_loop_clients(shards[i], &of);
        add_stats(&sum.native, &of.native, client_figures, CLIENT_FIGURES);
        add_stats(&sum.redis, &of.redis, client_figures, CLIENT_FIGURES);
        add_stats(&sum.http, &of.http, client_figures, CLIENT_FIGURES);
        add_stats(&sum.http_more, &of.http_more, http_figures, HTTP_FIGURES);
        add_calls(&sum.http_more.grpc, &of.http_more.grpc);
    }
    put_figures(&sum.native, client_figures, CLIENT_FIGURES, out->native);
    put_figures(&sum.redis, client_figures, CLIENT_FIGURES, out->redis);
    put_figures(&sum.http, client_figures, CLIENT_FIGURES, out->http);
    put_figures(&sum.http_more, http_figures, HTTP_FIGURES, out->http + CLIENT_FIGURES);
    put_calls(&sum.http_more.grpc, out);
    out->not_accepted =
        sum.native.accept_failures + sum.redis.accept_failures + sum.http.accept_failures;
}

void client_figures_report(const struct client_figures *figures, struct control_report *report)
{
    report->native = figures->native;
    report->native_count = CLIENT_FIGURES;
    report->resp = figures->redis;
    report->resp_count = CLIENT_FIGURES;
    report->http = figures->http;
    report->http_count = CLIENT_FIGURES + HTTP_FIGURES;
    report->calls = figures->calls;
    report->call_count = figures->call_count;
}
