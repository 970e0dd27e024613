/* metrics.c - tidegate-metrics(7), from the table of metrics. */
#include <stdio.h>

#include "deploy/manual/manual.h"
#include "node/cluster/metrics/metric_table.h"
#include "node/cluster/model/answered.h"

enum { TERM_LEN = 160, PROSE_LEN = 512 };

static const char format[] =
    "Each node answers `GET /metrics`, where `--http` and where `--metrics` say, in the text "
    "format "
    "of Prometheus, version 0.0.4. What is told is of that node alone: a counter starts at 0 with "
    "its process. Series whose labels are known are there from the start.\n";

static const char labels[] =
    "protocol\tOf the client: `native`, `redis` or `http`.\n"
    "outcome\tOf an answer: that of the decision, as `allow`, `deny` or `busy`. Of a rule: "
    "`allowed`, `denied`, `would_deny` (it is on trial) or `failed` (nobody decided). Of what was "
    "decided here: `allowed` or `denied`.\n"
    "rule\tThe rule's name, of as many rules as have a series; `other` for all further ones.\n"
    "peer\tThe name of a node; `other` for those that have no series.\n"
    "trouble\tA code of `health`.\n"
    "state\tOf members: `alive`, `suspect`, `dead` or `left`. Of voters: `alive` or `lost`.\n"
    "role\tOf vnodes: `deciding`, `replica` or `recovering`.\n"
    "direction\t`give` or `receive`.\n"
    "reason\tWhy this node closed a connection.\n"
    "calltype, error, method, status\tOf Gubernator's names: as Gubernator has them; `error` is "
    "`Invalid request`, `Invalid algorithm`, `Request too large`, `Timeout`, or `Busy`, which is "
    "not among its own.\n"
    "class\tOf HTTP statuses: `2xx` to `5xx`.\n"
    "le\tUpper bound of a time, in seconds, the bound included.\n"
    "No key, user, address or value is a label.\n";

static const char names[] =
    "With `--metrics-compat gubernator` a node tells these as well, for dashboards and alerts that "
    "know them by these names.\n";

/* Those from `first` up to `end`. */
static void put_metrics(struct page *page, int first, int end)
{
    char term[TERM_LEN];
    char prose[PROSE_LEN];
    if (page->format == PAGE_MARKDOWN)
        cli_text_str(page->text, "\n");
    for (int i = first; i < end; i++) {
        const struct metric *metric = metric_of((enum metric_id)i);
        (void)snprintf(term, sizeof term, "%s", metric->name);
        (void)snprintf(prose, sizeof prose, "A %s%s%s. %s", metric_type_name(metric->type),
                       metric->labels[0] != '\0' ? " by " : "", metric->labels, metric->help);
        page_term(page, term, prose);
    }
}

void manual_metrics(struct page *page, const struct page_release *release)
{
    char prose[PROSE_LEN];
    page_title(page, "tidegate-metrics", 7, "what a node of a Tidegate cluster tells Prometheus",
               release);
    page_section(page, "Description");
    page_prose(page, format);
    (void)snprintf(prose, sizeof prose,
                   "At most %d rules, in acting order, and %d other nodes have series of their "
                   "own.\n",
                   (int)ANSWERED_RULES_MAX, (int)METRIC_PEERS_MAX);
    page_prose(page, prose);
    page_section(page, "Metrics");
    put_metrics(page, 0, METRICS);
    page_section(page, "Names of Gubernator");
    page_prose(page, names);
    put_metrics(page, METRICS, METRICS_ALL);
    page_section(page, "Labels");
    page_prose(page, labels);
    page_section(page, "See also");
    page_prose(page, "`tidegated`(8), `tidegate`(1)\n");
}
