/* test_config.c - what the daemon can be told, and what it refuses, sentence by sentence. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/runtime/config/config_option.h"
#include "tests/unit/support_scratch.h"

enum { ARGUMENTS_MAX = 100 };

/* Parses the NULL-terminated flags; keeps the struct and the sentence of the last call. */
static struct config config;
static struct container container; /* without limits, but for a test that says otherwise */
static char sentence[CONFIG_ERROR_LEN];

static int parse_list(const char *const *flags)
{
    const char *argv[ARGUMENTS_MAX] = {"tidegated"};
    int argc = 1;

    while (flags[argc - 1] != NULL) {
        argv[argc] = flags[argc - 1];
        argc++;
    }
    return config_parse(argc, argv, &container, &config, sentence, sizeof(sentence));
}
#define parse(...) parse_list((const char *const[]){__VA_ARGS__, NULL})

static void assert_refused(int result, const char *expected)
{
    if (result != TG_EINVALID)
        fail_msg("result %d, expected a refusal with: %s", result, expected);
    if (strstr(sentence, expected) == NULL)
        fail_msg("said: %s\nexpected: %s", sentence, expected);
}

static int read_text(const char *text)
{
    config_option_defaults(&config);
    return config_yaml_apply_text("node.yaml", text, strlen(text), &config, sentence);
}

static void assert_text_refused(const char *text, const char *expected)
{
    assert_refused(read_text(text), expected);
}

/* Without arguments a node of its own starts on loopback, as the interface promises. */
static void no_argument_is_one_node_on_loopback(void **state)
{
    char text[CONFIG_ENDPOINT_LEN];

    (void)state;
    assert_int_equal(parse_list((const char *const[]){NULL}), 0);
    assert_string_equal(config_endpoint_text(&config.client, text), "127.0.0.1:7600");
    assert_string_equal(config_endpoint_text(&config.peer, text), "127.0.0.1:7601");
    assert_string_equal(config_endpoint_text(&config.gossip, text), "127.0.0.1:7602");
    assert_string_equal(config.resp.host, "127.0.0.1");
    assert_int_equal(config.resp.port, 7603);
    assert_string_equal(config_endpoint_text(&config.http.first, text), "127.0.0.1:7604");
    assert_string_equal(config_endpoint_text(&config.grpc, text), "127.0.0.1:7605");
    assert_string_equal(config.client_address, "127.0.0.1:7600");
    assert_string_equal(config.peer_address, "127.0.0.1:7601");
    assert_string_equal(config.gossip_address, "127.0.0.1:7602");
    assert_string_equal(config.data, "./tidegate-data");
    assert_string_equal(config.region, "default");
    assert_string_equal(config.zone, "");
    assert_string_equal(config.rules, "");
    assert_int_equal(config.rules_watch, CONFIG_RULES_WATCH_AUTO);
    assert_true(config.name[0] != '\0');
    assert_int_equal(config.seed_count, 0);
    assert_int_equal(config.weight, 100);
    assert_int_equal(config.shards, 1);
    assert_int_equal(config.vnodes, 4096);
    assert_int_equal(config.replicas, 3);
    assert_true(config.room.memory_bytes == UINT64_C(256) << 20);
    assert_true(config.flush_interval_ns == 500 * INT64_C(1000000));
    assert_int_equal(config.handoff_rate, 64 << 20);
    assert_true(config.drain_timeout_ns == 25 * INT64_C(1000000000));
    assert_int_equal(config.log.level, LOG_LEVEL_INFO);
    assert_int_equal(config.log.format, CONFIG_LOG_TEXT);
    assert_false(config.ephemeral || config.rebuild || config.insecure || config.bootstrap ||
                 config.check_config);
}

/* Both spellings of a flag, and every kind of value, reach their field. */
static void every_flag_reaches_its_field(void **state)
{
    (void)state;
    assert_int_equal(parse("--bind=10.0.0.5", "--base-port", "7700", "--client", "127.0.0.1:9000",
                           "--insecure", "--advertise", "node-1.example.org", "--seed",
                           "10.0.0.1:7602", "--seed=[::1]:7602", "--bootstrap", "--name", "n1",
                           "--region", "eu-1", "--zone", "a", "--weight", "50", "--data",
                           "/srv/tide gate", "--rules=rules.yaml", "--shards", "4", "--memory",
                           "1G", "--vnodes", "64", "--replicas", "2", "--flush-interval", "1s",
                           "--drain-timeout=5s", "--handoff-rate", "2M", "--log-level", "debug",
                           "--log-format", "json", "--ephemeral", "--check-config"),
                     0);
    assert_string_equal(config.client_address, "node-1.example.org:9000");
    assert_string_equal(config.peer_address, "node-1.example.org:7701");
    assert_string_equal(config.peer.host, "10.0.0.5");
    assert_int_equal(config.gossip.port, 7702);
    assert_int_equal(config.seed_count, 2);
    assert_string_equal(config.seeds[0].host, "10.0.0.1");
    assert_string_equal(config.seeds[1].host, "::1");
    assert_int_equal(config.seeds[1].port, 7602);
    assert_string_equal(config.name, "n1");
    assert_string_equal(config.region, "eu-1");
    assert_string_equal(config.zone, "a");
    assert_int_equal(config.weight, 50);
    assert_string_equal(config.data, "/srv/tide gate");
    assert_string_equal(config.rules, "rules.yaml");
    assert_int_equal(config.shards, 4);
    assert_true(config.room.memory_bytes == UINT64_C(1) << 30);
    assert_int_equal(config.vnodes, 64);
    assert_int_equal(config.replicas, 2);
    assert_true(config.flush_interval_ns == INT64_C(1000000000));
    assert_int_equal(config.handoff_rate, 2 << 20);
    assert_true(config.drain_timeout_ns == 5 * INT64_C(1000000000));
    assert_int_equal(config.log.level, LOG_LEVEL_DEBUG);
    assert_int_equal(config.log.format, CONFIG_LOG_JSON);
    assert_true(config.insecure && config.bootstrap && config.ephemeral && config.check_config);
}

/* A misspelt flag is named, with the one that was probably meant. */
static void unknown_flags_are_refused_with_a_hint(void **state)
{
    (void)state;
    assert_refused(parse("--sed", "10.0.0.1:7602"), "\"--sed\"; did you mean --seed?");
    assert_refused(parse("--base_port=1"), "\"--base_port=1\"; did you mean --base-port?");
    assert_refused(parse("--wieght", "1"), "did you mean --weight?");
    assert_refused(parse("--frobnicate"), "\"--frobnicate\"; tidegated --help lists all flags");
    assert_refused(parse("--a-name-longer-than-any-flag-could-ever-be-in-this-program"),
                   "unknown flag");
    assert_refused(parse("seed"), "found argument \"seed\"");
    assert_refused(parse("--"), "found argument \"--\"");
}

/* What is missing, or there twice, is never guessed. */
static void missing_and_repeated_values_are_refused(void **state)
{
    (void)state;
    assert_refused(parse("--shards"), "--shards: found no value; expected N");
    assert_refused(parse("--zone", "--name", "x"), "--zone: found no value; expected NAME");
    assert_refused(parse("--shards", "2", "--shards=2"), "--shards: found it");
    assert_refused(parse("--ephemeral", "--ephemeral"), "--ephemeral: found it again");
    assert_refused(parse("--ephemeral=perhaps"),
                   "--ephemeral: found \"perhaps\"; expected true or false");
    assert_int_equal(parse("--ephemeral=false"), 0);
    assert_false(config.ephemeral);
}

/* Half of what there is, unless somebody says how much; and no node starts that cannot live on it.
 */
static void keys_have_half_of_what_a_container_may_have(void **state)
{
    (void)state;
    container.memory_max = UINT64_C(128) << 20;
    assert_int_equal(parse("--ephemeral"), TG_OK);
    assert_true(config.room.memory_bytes == UINT64_C(64) << 20 && !config.room.memory_given);
    assert_true(config.room.container.memory_max == container.memory_max);
    assert_int_equal(parse("--memory", "1G"), TG_OK); /* the node warns */
    assert_true(config.room.memory_bytes == UINT64_C(1) << 30 && config.room.memory_given);
    container.memory_max = UINT64_C(95) << 20;
    assert_refused(parse("--ephemeral"),
                   "the container: found a limit of 95M of memory; expected at least 96M for 1 "
                   "shards, half of it for keys, or --memory");
    assert_int_equal(parse("--memory", "16M"), TG_OK);
    container.memory_max = UINT64_C(159) << 20;
    assert_int_equal(parse("--ephemeral"), TG_OK);
    assert_refused(parse("--shards", "2"), "expected at least 160M for 2 shards");
    container.memory_max = UINT64_C(160) << 20;
    assert_int_equal(parse("--shards", "2"), TG_OK);
    container.memory_max = 0;
}

/* Each bound is checked on both sides, and the sentence says the range. */
static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    assert_refused(parse("--shards", "0"), "--shards: found \"0\"; expected a whole number from 1 "
                                           "to 16");
    assert_refused(parse("--shards", "17"), "from 1 to 16");
    assert_refused(parse("--weight", "1e3"), "--weight: found \"1e3\"");
    assert_refused(parse("--replicas", "4"), "from 1 to 3");
    assert_refused(parse("--vnodes", "1000"), "--vnodes: found 1000; expected a power of two");
    assert_refused(parse("--memory", "7M"), "--memory: found \"7M\"; expected a size from 8M");
    assert_refused(parse("--memory", "8M", "--shards", "16"),
                   "--memory: found 8M for 16 shards; expected at least 4M for each");
    assert_refused(parse("--handoff-rate", "63K"), "--handoff-rate: ");
    assert_refused(parse("--flush-interval", "9ms"), "expected a time from 10ms to 1m");
    assert_refused(parse("--flush-interval", "61s"), "expected a time from 10ms to 1m");
    assert_refused(parse("--flush-interval", "0s"), "expected a time from 10ms to 1m");
    assert_int_equal(parse("--drain-timeout", "0s"), TG_OK); /* it ends at once, not never */
    assert_true(config.drain_timeout_ns == 0);
    assert_refused(parse("--flush-interval", "500"), "--flush-interval: ");
    assert_refused(parse("--base-port", "65536"), "from 1 to 65535");
    assert_refused(parse("--log-level", "loud"), "expected debug, info, warn or error");
    assert_refused(parse("--log-format", "xml"), "expected text or json");
    assert_refused(parse("--name", "a b"), "--name: found \"a b\"");
    assert_refused(parse("--region", ""), "--region: found \"\"");
    assert_refused(parse("--ephemeral", "--rebuild"), "--rebuild: found with --ephemeral");
}

/* What this version lacks is refused by name, so that nobody believes it is there. */
static void what_is_not_supported_says_so(void **state)
{
    (void)state;
    assert_refused(parse("--cluster-secret", "FILE"),
                   "--cluster-secret: is not supported by this version");
    assert_int_equal(parse("--resp", "off", "--http=off", "--grpc=off"), 0);
}

/* Without transport keys nothing but loopback is served, unless the operator says so. */
static void other_machines_are_let_in_only_with_insecure(void **state)
{
    (void)state;
    assert_refused(
        parse("--bind", "10.0.0.5"),
        "--client: other machines can reach 10.0.0.5:7600, and this version has no "
        "transport keys: whoever reaches it can read and change limits; give --insecure");
    assert_refused(parse("--gossip", "example.org:7602"), "--gossip: other machines");
    assert_refused(parse("--peer", "[2001:db8::1]:7601"),
                   "--peer: other machines can reach [2001:db8::1]:7601");
    assert_refused(parse("--bind", "0.0.0.0", "--advertise", "10.0.0.5"), "give --insecure");
    assert_int_equal(parse("--bind", "10.0.0.5", "--insecure"), 0);
    assert_int_equal(parse("--bind", "::1"), 0);
    assert_string_equal(config.peer_address, "[::1]:7601");
    assert_int_equal(parse("--bind", "localhost"), 0);
    assert_int_equal(parse("--bind", "127.8.9.1"), 0);
}

/* Who listens on every address must say which one the others are to use. */
static void a_wildcard_needs_an_advertised_host(void **state)
{
    (void)state;
    assert_refused(parse("--bind", "0.0.0.0", "--insecure"),
                   "--advertise: found none; expected the host that others reach this node by");
    assert_refused(parse("--bind", "::", "--insecure"), "--advertise: found none");
    assert_refused(parse("--bind", "0.0.0.0", "--insecure", "--advertise", "::"),
                   "--advertise: found a wildcard");
    assert_int_equal(parse("--bind", "0.0.0.0", "--insecure", "--advertise", "10.0.0.5"), 0);
    assert_string_equal(config.client_address, "10.0.0.5:7600");
    assert_string_equal(config.client.host, "0.0.0.0");
    assert_refused(parse("--advertise", "a-host-with-a-name-of-more-than-fifty-eight-characters."
                                        "example.org"),
                   "--advertise: found address");
}

/* Two sockets of one node on one port would fail at start: it is said before. */
/* A place for metrics alone: none by default, one for all shards, and like any other listener. */
static void metrics_have_a_place_of_their_own_if_it_is_given(void **state)
{
    (void)state;
    assert_int_equal(parse("--shards", "2"), 0);
    assert_true(config.http.metrics.off);
    assert_int_equal(parse("--shards", "2", "--metrics", "127.0.0.1:9464", "--http", "off"), 0);
    assert_int_equal(config.http.metrics.port, 9464);
    assert_int_equal(parse("--metrics", "off"), 0);
    assert_refused(parse("--metrics", "127.0.0.1:7604"), "--http and --metrics: found port 7604");
    assert_refused(parse("--metrics", "10.0.0.5:9464"), "--metrics: other machines can reach");
    assert_int_equal(parse("--metrics", "10.0.0.5:9464", "--insecure"), 0);
    assert_refused(parse("--metrics", "9464"), "expected HOST:PORT");
}

static void clashing_ports_are_refused(void **state)
{
    (void)state;
    assert_refused(parse("--client", "127.0.0.1:7601"),
                   "--client and --peer: found port 7601 for both");
    assert_refused(parse("--shards", "2", "--gossip", "127.0.0.1:7611"),
                   "--peer and --gossip: found port 7611 for both");
    assert_refused(parse("--insecure", "--gossip", "0.0.0.0:7600", "--advertise", "10.0.0.5"),
                   "--client and --gossip: found port 7600 for both");
    assert_int_equal(parse("--client", "127.0.0.2:7601"), 0);
    assert_refused(parse("--base-port", "65534"), "--base-port: found port 65536");
    assert_refused(parse("--peer", "127.0.0.1:65530", "--shards", "2"),
                   "--peer: found port 65540 for shard 1");
    assert_int_equal(parse("--base-port", "65530"), 0);
    assert_int_equal(config.grpc.port, 65535);
    assert_refused(parse("--base-port", "65531"), "--base-port: found port 65536");
    assert_int_equal(parse("--base-port", "65531", "--grpc", "off"), 0);
    assert_int_equal(config.http.first.port, 65535);
    assert_refused(parse("--grpc", "127.0.0.1:7604"), "--http and --grpc: found port 7604");
    assert_refused(parse("--grpc", "0.0.0.0:7605"),
                   "--grpc: other machines can reach 0.0.0.0:7605");
    assert_int_equal(parse("--base-port", "65532", "--http", "off"), 0);
    assert_int_equal(config.resp.port, 65535);
    assert_true(config.grpc.off); /* who wants no HTTP has none at another port */
    assert_int_equal(parse("--http", "off", "--grpc", "127.0.0.1:1"), 0);
    assert_false(config.grpc.off);
    assert_int_equal(parse("--base-port", "65533", "--resp", "off", "--http", "off"), 0);
    assert_int_equal(config.gossip.port, 65535);
}

/* Where clients come may be said more than once: others are told the first one with a port, and
 * flags replace what a file says. */
static void clients_may_come_at_several_places(void **state)
{
    (void)state;
    assert_int_equal(parse("--client", "unix:/run/a", "--client", "127.0.0.1:1", "--client",
                           "[::1]:2", "--resp", "unix:/run/b"),
                     0);
    assert_int_equal(config.client.port, 1);
    assert_int_equal(config.client_more.count, 2);
    assert_string_equal(config.client_more.at[0].path, "/run/a");
    assert_int_equal(config.client_more.at[1].endpoint.port, 2);
    assert_int_equal(config.resp.port, 7603);
    assert_int_equal(config.resp_more.count, 1);
    assert_int_equal(read_text("resp: [127.0.0.1:5, unix:/run/c, 127.0.0.1:6]\n"), 0);
    assert_int_equal(config.resp.port, 5);
    assert_int_equal(config.resp_more.count, 2);
    assert_refused(parse("--resp", "off", "--resp", "127.0.0.1:5"),
                   "expected off alone, or places");
    assert_refused(parse("--resp", "127.0.0.1:5", "--resp", "off"),
                   "expected off alone, or places");
    assert_refused(parse("--resp", "unix:b"), "expected HOST:PORT");
    assert_refused(parse("--resp", "unix:/"), "expected HOST:PORT");
    assert_refused(parse("--peer", "unix:/run/b"), "expected HOST:PORT");
    assert_refused(parse("--resp", "127.0.0.1:5", "--resp", "0.0.0.0:6"),
                   "--resp: other machines can reach 0.0.0.0:6");
    assert_refused(parse("--resp", "127.0.0.1:5", "--resp", "127.0.0.1:7602"),
                   "found port 7602 for both");
    assert_refused(parse("--resp", "127.0.0.1:1", "--resp", "127.0.0.1:2", "--resp", "127.0.0.1:3",
                         "--resp", "127.0.0.1:4", "--resp", "127.0.0.1:5", "--resp", "127.0.0.1:6",
                         "--resp", "127.0.0.1:7", "--resp", "127.0.0.1:8", "--resp", "127.0.0.1:9",
                         "--resp", "127.0.0.1:10"),
                   "at most 8 places beside the first");
}

/* HTTP clients have one port, whatever the number of shards, further ones, or none; and call the
 * node by names that are listed, each of which is a host. */
static void http_clients_have_one_port_and_names_for_it(void **state)
{
    (void)state;
    assert_int_equal(parse("--shards", "3", "--http", "127.0.0.1:80", "--http", "unix:/run/h"), 0);
    assert_int_equal(config.http.first.port, 80);
    assert_int_equal(config.http.more.count, 1);
    assert_int_equal(parse("--shards", "3", "--gossip", "127.0.0.1:7614"), 0);
    assert_refused(parse("--gossip", "127.0.0.1:7604"), "--gossip and --http: found port 7604");
    assert_refused(parse("--http", "10.0.0.1:7604"), "--http: other machines can reach 10.0.0.1");
    assert_int_equal(parse("--http-name", "limits.example", "--http-name", "*"), 0);
    assert_int_equal(config.http.names.count, 2);
    assert_string_equal(config.http.names.at[0], "limits.example");
    assert_int_equal(read_text("http_name: [a.example, \"[::2]\"]\n"), 0);
    assert_string_equal(config.http.names.at[1], "::2");
    assert_refused(parse("--http-name", "a.example:80"), "--http-name: found \"a.example:80\"");
    assert_refused(parse("--http-name", ""), "--http-name: ");
    assert_int_equal(config.http.headers, DECISION_IETF);
    assert_int_equal(read_text("http_headers: off\n"), 0);
    assert_int_equal(config.http.headers, DECISION_NO_HEADERS);
    assert_int_equal(parse("--http-headers", "legacy"), 0);
    assert_int_equal(config.http.headers, DECISION_LEGACY);
    assert_refused(parse("--http-headers", "on"),
                   "--http-headers: found \"on\"; expected ietf, legacy or off");
}

/* Names of metrics that others know are told where somebody asks for them. */
static void metrics_of_others_are_off_unless_they_are_named(void **state)
{
    (void)state;
    assert_int_equal(parse("--ephemeral"), 0);
    assert_int_equal(config.http.metrics_compat, METRICS_COMPAT_OFF);
    assert_int_equal(read_text("metrics_compat: gubernator\n"), 0);
    assert_int_equal(config.http.metrics_compat, METRICS_COMPAT_GUBERNATOR);
    assert_int_equal(parse("--metrics-compat", "off"), 0);
    assert_int_equal(config.http.metrics_compat, METRICS_COMPAT_OFF);
    assert_refused(parse("--metrics-compat", "on"),
                   "--metrics-compat: found \"on\"; expected off or gubernator");
}

/* What rules are read again as they change is one of three words. */
static void rules_are_watched_by_word(void **state)
{
    (void)state;
    assert_int_equal(read_text("rules_watch: on\n"), 0);
    assert_int_equal(config.rules_watch, CONFIG_RULES_WATCH_ON);
    assert_int_equal(parse("--rules-watch", "off"), 0);
    assert_int_equal(config.rules_watch, CONFIG_RULES_WATCH_OFF);
    assert_refused(parse("--rules-watch", "yes"),
                   "--rules-watch: found \"yes\"; expected auto, on or off");
}

/* Proxies that are believed are networks, one after the other; flags replace what a file says. */
static void proxies_are_trusted_by_network(void **state)
{
    (void)state;
    assert_int_equal(parse("--trusted-proxy", "10.0.0.0/8", "--trusted-proxy=2001:db8::/32",
                           "--trusted-proxy", "unix"),
                     0);
    assert_int_equal(config.between.trusted_proxies.count, 2);
    assert_true(config.between.trusted_proxies.local);
    assert_int_equal(config.between.proxy_protocol, CONFIG_PROXY_OPTIONAL);
    assert_int_equal(read_text("trusted_proxies: [10.0.0.0/8, 192.0.2.1]\nproxy_protocol: off\n"),
                     0);
    assert_int_equal(config.between.trusted_proxies.count, 2);
    assert_int_equal(config.between.proxy_protocol, CONFIG_PROXY_OFF);
    assert_int_equal(read_text("trusted_proxies: unix\nproxy_protocol: required\n"), 0);
    assert_true(config.between.trusted_proxies.local &&
                config.between.proxy_protocol == CONFIG_PROXY_REQUIRED);
    assert_int_equal(parse("--proxy-protocol", "required", "--trusted-proxy", "unix"), 0);
    assert_refused(parse("--trusted-proxy", "10.0.0.1/8"),
                   "--trusted-proxy: found \"10.0.0.1/8\"; expected 10.0.0.0/8: no bits behind");
    assert_refused(parse("--trusted-proxy", "proxy.example.org"),
                   "expected a network such as 10.0.0.0/8 or 2001:db8::/32, an address, or unix");
    assert_text_refused(
        "name: n1\ntrusted_proxies:\n  - 10.0.0.0/8\n  - 10.0.0.0/33\n",
        "node.yaml:4:5: trusted_proxies: found \"10.0.0.0/33\"; expected a network");
    assert_int_equal(read_text("trusted_proxy: 192.0.2.1\n"), 0);
    assert_int_equal(config.between.trusted_proxies.count, 1);
    assert_text_refused("trusted_proxys: 10.0.0.0/8\n", "did you mean trusted_prox");
    assert_refused(parse("--trusted-proxys", "10.0.0.0/8"), "did you mean --trusted-proxy?");
    assert_refused(parse("--proxy-protocol", "v2"), "expected optional, required or off");
    assert_refused(parse("--proxy-protocol", "required"),
                   "--proxy-protocol: found required without --trusted-proxy");
}

/* Where ports are mapped, Redis clients of a cluster are told another place than they came to. */
static void redis_clients_may_be_told_another_place(void **state)
{
    (void)state;
    assert_int_equal(parse("--base-port", "7700"), 0);
    assert_int_equal(config.between.resp_advertise.port, 0);
    assert_int_equal(parse("--resp-advertise", "[2001:db8::1]:16379"), 0);
    assert_string_equal(config.between.resp_advertise.host, "2001:db8::1");
    assert_int_equal(config.between.resp_advertise.port, 16379);
    assert_refused(parse("--resp-advertise", "0.0.0.0:6379"), "expected HOST:PORT that clients");
    assert_refused(parse("--resp-advertise", "off"), "expected HOST:PORT that clients reach");
    assert_refused(parse("--resp-advertise",
                         "a-host-with-a-name-of-more-than-fifty-eight-characters."
                         "example.org:1"),
                   "expected HOST:PORT of at most 63 bytes");
}

/* Redis clients have a port of each shard, bound by the rules of the others, unless it is off. */
static void redis_clients_have_a_port_or_none(void **state)
{
    (void)state;
    assert_int_equal(parse("--base-port", "7700", "--shards", "2"), 0);
    assert_int_equal(config.resp.port, 7703);
    assert_int_equal(config_shard_endpoint(&config.resp, 1).port, 7713);
    assert_int_equal(parse("--resp", "127.0.0.1:6379"), 0);
    assert_int_equal(config.resp.port, 6379);
    assert_int_equal(parse("--resp", "off"), 0);
    assert_true(config.resp.off);
    assert_true(config_shard_endpoint(&config.resp, 0).off);
    assert_refused(parse("--resp", "0.0.0.0:6379"), "--resp: other machines can reach");
    assert_int_equal(parse("--resp", "0.0.0.0:6379", "--insecure"), 0);
    assert_refused(parse("--resp", "127.0.0.1:7602"), "--gossip and --resp: found port 7602");
    assert_refused(parse("--shards", "2", "--resp", "127.0.0.1:7601"), "found port 7601 for both");
    assert_refused(parse("--resp", "6379"), "expected HOST:PORT");
}

/* A node without one of its three endpoints could not take its part. */
static void an_endpoint_that_is_off_is_refused(void **state)
{
    (void)state;
    assert_refused(parse("--client", "off"), "--client: off is not supported by this version");
    assert_refused(parse("--peer=off"), "--peer: off is not supported by this version");
    assert_refused(parse("--gossip", "off"), "--gossip: off is not supported by this version");
}

/* Endpoints keep their meaning on the way through text, and nonsense is refused. */
static void endpoints_are_parsed_exactly(void **state)
{
    static const char *const good[] = {"127.0.0.1:1", "a.b-c_d:65535", "[::1]:7600", "*:7600",
                                       "[2001:db8::1]:7602"};
    static const char *const bad[] = {"",           "host",    "host:",      ":7600",   "host:0",
                                      "host:65536", "host:07", "::1:7600",   "[::1]",   "[host]:1",
                                      "[]:1",       "[::1:1",  "ho st:1",    "host:1 ", "host:+1",
                                      "-a:1",       "a/b:1",   "host:123456"};
    struct config_endpoint endpoint;
    char text[CONFIG_ENDPOINT_LEN];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(config_endpoint_parse(good[i], &endpoint), 0);
        assert_string_equal(config_endpoint_text(&endpoint, text), good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (config_endpoint_parse(bad[i], &endpoint) != TG_EINVALID)
            fail_msg("accepted: %s", bad[i]);
    }
    assert_int_equal(config_endpoint_parse("10.0.0.1:7600", &endpoint), 0);
    endpoint = config_shard_endpoint(&endpoint, 3);
    assert_string_equal(config_endpoint_text(&endpoint, text), "10.0.0.1:7630");
}

/* What counts as this machine alone decides about safety. */
static void loopback_and_wildcards_are_told_from_the_rest(void **state)
{
    (void)state;
    assert_true(config_host_is_loopback("127.0.0.1"));
    assert_true(config_host_is_loopback("127.255.0.9"));
    assert_true(config_host_is_loopback("::1"));
    assert_true(config_host_is_loopback("::ffff:127.0.0.1"));
    assert_true(config_host_is_loopback("localhost"));
    assert_false(config_host_is_loopback("128.0.0.1"));
    assert_false(config_host_is_loopback("127.example.org"));
    assert_false(config_host_is_loopback("::2"));
    assert_false(config_host_is_loopback("0.0.0.0"));
    assert_true(config_host_is_wildcard("0.0.0.0"));
    assert_true(config_host_is_wildcard("::"));
    assert_true(config_host_is_wildcard("0:0:0:0:0:0:0:0"));
    assert_true(config_host_is_wildcard("*"));
    assert_false(config_host_is_wildcard("127.0.0.1"));
}

/* The file has the flags' names with underscores, and seeds as one text or a list. */
static void the_file_sets_the_same_options(void **state)
{
    (void)state;
    assert_int_equal(
        read_text("base_port: 7700\nname: n7\nephemeral: true\nmemory: 64M\n"
                  "flush_interval: 250ms\nhandoff_rate: 1M\nseed: [10.0.0.1:7602, \"[::1]:7602\"]\n"
                  "client: off\nzone: \"\"\nlog_format: json\n"),
        0);
    assert_int_equal(config.base_port, 7700);
    assert_string_equal(config.name, "n7");
    assert_true(config.ephemeral);
    assert_true(config.room.memory_bytes == UINT64_C(64) << 20);
    assert_true(config.flush_interval_ns == INT64_C(250000000));
    assert_int_equal(config.handoff_rate, 1 << 20);
    assert_int_equal(config.seed_count, 2);
    assert_string_equal(config.seeds[1].host, "::1");
    assert_true(config.client.off);
    assert_int_equal(config.log.format, CONFIG_LOG_JSON);
    assert_int_equal(read_text("seed: 10.0.0.9:7602\n"), 0);
    assert_int_equal(config.seed_count, 1);
    assert_int_equal(read_text(""), 0);
    assert_int_equal(read_text("# nothing set\n"), 0);
}

/* A wrong file is refused with the place where the mistake is. */
static void a_wrong_file_is_refused_with_its_place(void **state)
{
    (void)state;
    assert_text_refused("name: n1\nbase_prt: 7700\n",
                        "node.yaml:2:1: found unknown key \"base_prt\"; did you mean base_port?");
    assert_text_refused("base-port: 7700\n", "node.yaml:1:1: found unknown key \"base-port\"; did "
                                             "you mean base_port?");
    assert_text_refused("\n\n  wings: 2\n", "node.yaml:3:3: found unknown key \"wings\"; expected");
    assert_text_refused(
        "name: n1\nshards: 99\n",
        "node.yaml:2:9: shards: found \"99\"; expected a whole number from 1 to 16");
    assert_text_refused("seed: [10.0.0.1:7602, 10.0.0.2]\n", "node.yaml:1:23: seed: found");
    assert_text_refused("seed: {a: b}\n", "node.yaml:1:7: seed: ");
    assert_text_refused("name:\n", "node.yaml:1:");
    assert_text_refused("name: [a]\n", "node.yaml:1:7: name: ");
    assert_text_refused("name: a\nname: b\n", "node.yaml:2:1: ");
    assert_text_refused("- name\n", "node.yaml:1:1: configuration: ");
    assert_text_refused("name: \"a\n", "node.yaml:");
    assert_text_refused("config: other.yaml\n", "node.yaml:1:1: found unknown key \"config\"");
    assert_text_refused("check_config: true\n", "node.yaml:1:1: found unknown key");
    assert_text_refused("cluster_secret: x\n",
                        "node.yaml:1:17: cluster_secret: is not supported by this version");
    assert_text_refused("grpc: 80\n", "node.yaml:1:7: grpc: ");
}

static void write_file(char path[SCRATCH_PATH_LEN], const char *text)
{
    assert_int_equal(scratch_file(path, "tidegate-config"), 0);
    const int fd = open(path, O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (int)strlen(text));
    assert_int_equal(close(fd), 0);
}

/* A flag wins over the file, whichever comes first; its seeds replace the file's. */
static void flags_override_the_file(void **state)
{
    char path[SCRATCH_PATH_LEN];
    char missing[SCRATCH_PATH_LEN + 64];

    (void)state;
    write_file(path, "name: from-file\nweight: 7\nseed: [10.0.0.1:7602, 10.0.0.2:7602]\n");
    assert_int_equal(parse("--name", "from-flag", "--config", path), 0);
    assert_string_equal(config.name, "from-flag");
    assert_string_equal(config.file, path);
    assert_int_equal(config.weight, 7);
    assert_int_equal(config.seed_count, 2);
    assert_int_equal(parse("--config", path, "--seed", "10.0.0.3:7602"), 0);
    assert_int_equal(config.seed_count, 1);
    assert_string_equal(config.seeds[0].host, "10.0.0.3");
    assert_int_equal(unlink(path), 0);
    (void)snprintf(missing, sizeof missing, "--config: cannot read %s: No such file", path);
    assert_refused(parse("--config", path), missing);
    assert_refused(parse("--config", "/"), "--config: cannot read /: ");
}

/* As many seeds as the bound are taken, one more is refused. */
static void the_number_of_seeds_is_bounded(void **state)
{
    char text[CONFIG_SEEDS_MAX * 24 + 64] = "seed: [";
    size_t len = strlen(text);

    (void)state;
    for (int i = 0; i < CONFIG_SEEDS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s10.0.0.%d:7602",
                                i > 0 ? ", " : "", i + 1);
    (void)snprintf(text + len, sizeof(text) - len, "]\n");
    assert_int_equal(read_text(text), 0);
    assert_int_equal(config.seed_count, CONFIG_SEEDS_MAX);
    (void)snprintf(text + len, sizeof(text) - len, ", h:1]\n");
    assert_text_refused(text, "at most 64 seeds");
}

/* Help and version end the reading, and every option is in the help with its default. */
static void help_names_every_option(void **state)
{
    char help[CONFIG_HELP_LEN];
    char small[16];
    size_t count;
    const struct config_option *options = config_options(&count);

    (void)state;
    assert_int_equal(parse("--help"), CONFIG_HELP);
    assert_int_equal(parse("--name", "x", "-h"), CONFIG_HELP);
    assert_int_equal(parse("--version"), CONFIG_VERSION);
    assert_refused(parse("--nonsense", "--help"), "unknown flag");
    assert_refused(parse("--help=yes"), "--help: found");
    const size_t len = config_help(help, sizeof(help));
    assert_true(len < sizeof(help));
    assert_int_equal(strlen(help), len);
    for (size_t i = 0; i < count; i++) {
        char flag[64];
        (void)snprintf(flag, sizeof(flag), "  --%s", options[i].name);
        const char *line = strstr(help, flag);
        assert_non_null(line);
        const char *initial = options[i].initial;
        if (initial != NULL && initial[0] != '\0') {
            (void)snprintf(flag, sizeof(flag), "[%s]\n", initial);
            assert_true(strstr(line, flag) != NULL && strstr(line, flag) < strchr(line, '\n'));
        }
    }
    assert_int_equal(config_help(small, sizeof(small)), len);
    assert_int_equal(strlen(small), sizeof(small) - 1);
}

/* A sentence is cut to the caller's room, and hostile bytes in it are made printable. */
static void sentences_are_bounded_and_printable(void **state)
{
    char small[10];
    char flag[600];
    const char *argv[] = {"tidegated", flag};

    (void)state;
    memset(flag, 'x', sizeof(flag) - 1);
    flag[sizeof(flag) - 1] = '\0';
    memcpy(flag, "--\n\x1b", 4);
    assert_int_equal(config_parse(2, argv, &container, &config, small, sizeof(small)), TG_EINVALID);
    assert_int_equal(strlen(small), sizeof(small) - 1);
    assert_int_equal(config_parse(2, argv, &container, &config, sentence, sizeof(sentence)),
                     TG_EINVALID);
    for (const char *at = sentence; *at != '\0'; at++)
        assert_true(*at >= 0x20 && *at < 0x7f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_argument_is_one_node_on_loopback),
        cmocka_unit_test(every_flag_reaches_its_field),
        cmocka_unit_test(unknown_flags_are_refused_with_a_hint),
        cmocka_unit_test(missing_and_repeated_values_are_refused),
        cmocka_unit_test(keys_have_half_of_what_a_container_may_have),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(what_is_not_supported_says_so),
        cmocka_unit_test(other_machines_are_let_in_only_with_insecure),
        cmocka_unit_test(a_wildcard_needs_an_advertised_host),
        cmocka_unit_test(metrics_have_a_place_of_their_own_if_it_is_given),
        cmocka_unit_test(clashing_ports_are_refused),
        cmocka_unit_test(clients_may_come_at_several_places),
        cmocka_unit_test(http_clients_have_one_port_and_names_for_it),
        cmocka_unit_test(metrics_of_others_are_off_unless_they_are_named),
        cmocka_unit_test(rules_are_watched_by_word),
        cmocka_unit_test(proxies_are_trusted_by_network),
        cmocka_unit_test(redis_clients_may_be_told_another_place),
        cmocka_unit_test(redis_clients_have_a_port_or_none),
        cmocka_unit_test(an_endpoint_that_is_off_is_refused),
        cmocka_unit_test(endpoints_are_parsed_exactly),
        cmocka_unit_test(loopback_and_wildcards_are_told_from_the_rest),
        cmocka_unit_test(the_file_sets_the_same_options),
        cmocka_unit_test(a_wrong_file_is_refused_with_its_place),
        cmocka_unit_test(flags_override_the_file),
        cmocka_unit_test(the_number_of_seeds_is_bounded),
        cmocka_unit_test(help_names_every_option),
        cmocka_unit_test(sentences_are_bounded_and_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
