/* help.c - the texts of `tidegate help`.
 *
 * Every command has a synopsis, a line that says what it does, notes and examples that can be
 * typed as they are. Flags shared by several commands are described once, below.
 */
#include "client/cli/arguments/help.h"

#include <string.h>

struct topic {
    const char *operands; /* behind the command's name */
    const char *summary;
    const char *notes;
    const char *examples;
};

#define OPERANDS_ASK "attr=value... | --key K --rate RATE [--burst B] [--algorithm A]"

static const char flags_of_target[] =
    "What it takes:\n"
    "  attr=value...        attributes of the request; the cluster's rules say which limits apply\n"
    "  --key K              instead: one counter by this name (it may be empty, as that of a\n"
    "                       Redis client may), with the limit given here\n"
    "  --rate COUNT/PERIOD  its limit: 5/60s, 30/24h, 100/minute\n"
    "  --burst B            of a bucket: how many at once (default: the rate's count)\n"
    "  --algorithm A        how it counts:\n"
    "    sliding_log, sliding_buckets   never more than COUNT in any PERIOD, wherever it begins\n"
    "    concurrency                    never more than COUNT at any moment\n"
    "    fixed_window                   never more in one of its windows, but up to twice COUNT\n"
    "                                   in a PERIOD across the end of one\n"
    "    sliding_window                 nearly: it takes what came before to be spread evenly\n"
    "    token_bucket (default), leaky_bucket   up to the burst and COUNT in a PERIOD\n";

static const char flag_cost[] = "  --cost N             tokens of one request (default 1)\n";
static const char flag_at_most[] =
    "  --at-most            take what there is, up to the cost; 'granted' says how many\n";
static const char flag_lease[] =
    "  --lease ID           the lease, as the admission gave it\n"
    "  --used N             of a lease of tokens: how many were used\n";
static const char flag_repeat[] =
    "  --repeat N           N requests one after the other, each shown\n";
static const char flag_explain[] =
    "  --explain            show every limit that was met, each with its state\n";
static const char flag_watch[] =
    "  --watch              show it again every second, until interrupted\n";

static const char flags_of_replay[] =
    "What it takes:\n"
    "  --rules FILE         the rules to try; - for standard input\n"
    "  --format F           auto (default), combined, xff (last quoted field: X-Forwarded-For),\n"
    "                       json\n"
    "  --map NAME=FIELD     attribute NAME is this field: query.user, claims.sub; repeatable\n"
    "  --set NAME=VALUE     attribute NAME is this on every line; repeatable\n"
    "  --proxies N          the caller is the Nth address of X-Forwarded-For from the right, as\n"
    "                       N proxies of yours add (default: the first address)\n"
    "  --time-field FIELD   JSON: seconds or milliseconds since 1970, or RFC 3339 (default:\n"
    "                       time, timestamp, ts and other usual names)\n"
    "  --cost-field FIELD   what a request costs, such as bytes (default: each costs 1)\n"
    "  --reorder DURATION   how far lines may be out of order (default 10s, at most 600s; 0:\n"
    "                       they are taken in the order in which they stand)\n"
    "  --spread             set requests of one whole second evenly over it, in their order\n"
    "  --top N              busiest keys shown of each rule (default 5)\n"
    "  --suggest SHARE      the smallest limit that denies at most this share of callers: 0.1%\n";

static const char flags_of_all[] =
    "Flags of every command:\n"
    "  -e, --endpoint tcp://HOST:PORT[,...]  nodes to ask (default $TIDEGATE_ENDPOINT, else\n"
    "                                        tcp://127.0.0.1:7600)\n"
    "  -o, --output table|json|yaml          (default table)\n"
    "      --timeout DURATION                how long to wait for an answer: 250ms, 1s (default "
    "1s)\n"
    "  -h, --help                            this help\n"
    "      --version                         the version of this program\n";

static const char exit_statuses[] =
    "Exit status: 0 ok or allowed, 1 denied (any of the requests) or not in time (what waits),\n"
    "2 no answer from the cluster, 3 invalid input, 64 wrong usage, 74 output not written.\n";

static const struct topic topics[CLI_COMMAND_COUNT] = {
    [CLI_CHECK] =
        {OPERANDS_ASK, "decide and, if allowed, consume",
         "Exit status 0 if every request was allowed, 1 if any was denied.\n"
         "With -o json one object a request, one a line. What a rule on trial would have\n"
         "denied has the outcome shadow_denied, and shadow_rule names that rule: nothing\n"
         "else of the answer is the trial's.\n",
         "  tidegate check --key ada --rate 5/60s --repeat 7\n"
         "  tidegate check api=/signup phone=+15550100 -o json\n"
         "  tidegate check --key upload --rate 100/minute --cost 30 --at-most\n"},
    [CLI_PEEK] = {OPERANDS_ASK, "may a check pass now, and if not when; nothing is consumed",
                  "Whether, and when, is told as check would; used, remaining and reset are the\n"
                  "limit as it is: of a new key of 5/60s 0 and 5. Granted is 0.\n",
                  "  tidegate peek --key ada --rate 5/60s\n"
                  "  tidegate peek api=/signup phone=+15550100\n"},
    [CLI_HIT] = {OPERANDS_ASK, "consume without asking, even into debt",
                 "For what is only known afterwards: failed log-ins, bytes sent.\n",
                 "  tidegate hit --key failed-logins:ada --rate 5/15m\n"
                 "  tidegate hit api=/download user=ada --cost 4096\n"},
    [CLI_REFUND] = {OPERANDS_ASK, "give back what was consumed, never above full", "",
                    "  tidegate refund --key ada --rate 5/60s --cost 2\n"},
    [CLI_RESET] = {OPERANDS_ASK, "as if the key were new", "",
                   "  tidegate reset --key ada --rate 5/60s\n"
                   "  tidegate reset api=/signup phone=+15550100\n"},
    [CLI_LEASE] =
        {OPERANDS_ASK, "take a place in flight, or tokens; LEASE is its name until it is released",
         "A check that must give a lease, of limits with the algorithm concurrency, which\n"
         "is the default here. With --key the rate is how many in flight and the time-out\n"
         "of a lease: 3/30s. A lease that is not released in time frees its place by itself.\n"
         "Of limits with other algorithms it takes a block of tokens (--cost, --at-most), which\n"
         "may be used without asking for lease_ms from before the question on, and are spent\n"
         "then, unless they are released before. Limits that give none refuse, and say so.\n",
         "  tidegate lease --key exports --rate 3/30s\n"
         "  tidegate lease --key ada --rate 500/s --algorithm token_bucket --cost 100 --at-most\n"
         "  tidegate lease api=/export user=ada -o json\n"},
    [CLI_RELEASE] =
        {"--lease ID attr=value... | --lease ID --key K --rate RATE",
         "give the places, or the unused tokens, of a lease back",
         "With the same attributes, or key and rate, that the lease was taken with.\n"
         "A lease that is over, or was released before, is none: that does no harm.\n",
         "  tidegate release --lease 9f86d081884c7d65 api=/export user=ada\n"
         "  tidegate release --lease 9f86d081884c7d65 --used 40 api=/search user=ada\n"},
    [CLI_RENEW] = {"--lease ID attr=value... | --lease ID --key K --rate RATE",
                   "let the time-out of a lease begin anew",
                   "Denied, with exit status 1, when the lease is over.\n",
                   "  tidegate renew --lease 9f86d081884c7d65 --key exports --rate 3/30s\n"},
    [CLI_STATUS] =
        {"[--node NAME | --all | --regions | --wait healthy] [--members N|all] [--watch]",
         "how the cluster is doing, as the node that is asked sees it",
         "Says first whether all is well, and if not why, what it leads to and what to do. Then\n"
         "a line a node: decisions a second, the share of them that denied, how soon replicas\n"
         "acknowledge them (99 of 100), keys in memory, how far the disk is behind, and its clock\n"
         "against that of the node that is asked. Exit status 0 healthy, 1 not, 2 no answer.\n"
         "  --node NAME     all that is known of one node; REGION/NAME where two are called so\n"
         "  --all           and every counter of the node that is asked\n"
         "  --members all   a line for each node; else those that are well stand in one of many\n"
         "  --watch         again each second, until Ctrl-C\n"
         "  --wait healthy  waits until the cluster is healthy, at most --timeout (here 30s by\n"
         "default). Exit status 1 if it is not by then, 2 if no node answered. A first node\n"
         "is a healthy cluster of one until the others have joined it: a script that starts\n"
         "several says how many. With --members N, at least so many live, of all regions.\n"
         "  --regions tells what the node knows of each region: its members, how old that is,\n"
         "when one of them last spoke to it, and the round trip there; since when it is out\n"
         "of reach; and, added up over the members in reach, the tokens of its keys that\n"
         "this region HELD on lease just now, and those of this one that were LENT to it.\n",
         "  tidegate status\n"
         "  tidegate status --node n2\n"
         "  tidegate status --wait healthy --members 3 --timeout 1m\n"
         "  tidegate status --regions\n"
         "  tidegate status --watch\n"},
    [CLI_MEMBERS] = {"[--all] [--watch]", "the nodes of the cluster and what is known of them",
                     "Sorted by name. Members that have left or were removed are shown by --all,\n"
                     "for a day.\n"
                     "RING tells where a node stands in the ring: member; draining, asked to go;\n"
                     "drained, gone and alive; outside, not in it yet or not any more; abroad,\n"
                     "of another region, which has a ring of its own.\n",
                     "  tidegate members\n"
                     "  tidegate members -o json\n"},
    [CLI_RING] = {"[--watch]", "the ring configuration: epoch, members and their shares", "",
                  "  tidegate ring\n"
                  "  tidegate -e tcp://10.0.0.2:7600 ring -o yaml\n"},
    [CLI_OWNER] = {"attr=value... | --key K", "which node decides for a key, one row a limit",
                   "DEAD: those of the replicas that do not answer. With -o json one object a\n"
                   "limit, one a line.\n",
                   "  tidegate owner --key ada\n"
                   "  tidegate owner api=/signup phone=+15550100 -o json\n"},
    [CLI_RULES_LIST] = {"", "the rules in force", "",
                        "  tidegate rules list\n"
                        "  tidegate rules list -o yaml\n"},
    [CLI_RULES_VALIDATE] =
        {"FILE", "whether a rules file is good; nothing is changed",
         "FILE may be - for standard input. All that is wrong is said, a line each, as\n"
         "FILE:LINE:COLUMN: message, with exit status 3. No node is asked, unless one is named\n"
         "by --endpoint: a node of another version may judge otherwise.\n"
         "Of a good file it is told, as a warning, what it probably does not mean: more than\n"
         "8 rules with limits that can meet on one request, which would be an error, and soft\n"
         "limits that may be exceeded by less than one.\n",
         "  tidegate rules validate rules.yaml\n"
         "  tidegate -e tcp://10.0.0.2:7600 rules validate rules.yaml\n"},
    [CLI_RULES_EXPLAIN] =
        {"attr=value... [--rules FILE]", "which rules act on a request, and why others do not",
         "Nothing is counted. With --rules the rules of FILE (- for standard input) are meant,\n"
         "and no node is asked; without it, those in force at the node that is asked. BLOCKED is\n"
         "what denies the request before any rule: by whom, until when and why. What the\n"
         "limits say is told by `tidegate peek --explain`.\n",
         "  tidegate rules explain api=/signup phone=+15550100 --rules rules.yaml\n"
         "  tidegate rules explain api=/signup phone=+15550100 -o json\n"},
    [CLI_RULES_SHOW] =
        {"[NAME | --of-version VERSION]",
         "the rules as they were written, an older version of them, or one rule",
         "Without NAME the document that is in force, comments and all: change it and apply\n"
         "it again: tidegate rules show > rules.yaml\n",
         "  tidegate rules show\n"
         "  tidegate rules show signup-per-phone\n"
         "  tidegate rules show --of-version 12\n"},
    [CLI_RULES_DIFF] =
        {"FILE", "how a rules file differs from the rules of the cluster",
         "FILE may be - for standard input. Exit status 0 whether or not it differs. Of rules\n"
         "that change it tells whether the count of each limit stays, is back, begins anew or\n"
         "ends: a limit with its window and algorithm is the same limit wherever it stands.\n",
         "  tidegate rules diff rules.yaml\n"},
    [CLI_RULES_APPLY] =
        {"FILE [--dry-run] [--yes] [--note TEXT] [--author NAME]",
         "put a rules file in force on every node of the cluster",
         "Shows the difference and asks; --yes does not ask, --dry-run only shows. Without a\n"
         "terminal --yes is needed. The file is taken whole or refused whole, with\n"
         "FILE:LINE:COLUMN. If somebody else has changed the rules since the difference was\n"
         "shown, nothing is changed, and it says so (exit status 3). The author is user@host\n"
         "or --author; --note says why. Every reachable node has it within two seconds. A file\n"
         "has at most 1,036,288 bytes, or, above that, packed so many, and 16 MiB unpacked.\n",
         "  tidegate rules apply rules.yaml\n"
         "  tidegate rules apply rules.yaml --yes --note more-for-partners\n"},
    [CLI_RULES_DELETE] = {"NAME [--dry-run] [--yes] [--note TEXT] [--author NAME]",
                          "take one rule out of the rules in force",
                          "The rest of the document stays as it is written. Flags as of apply.\n",
                          "  tidegate rules delete search-per-address\n"},
    [CLI_RULES_HISTORY] =
        {"", "the versions of the rules that are kept, the newest first",
         "At most 64 are kept, with author, time and note, and 8 MiB of them: of large\n"
         "documents, as they are packed, fewer.\n",
         "  tidegate rules history\n"
         "  tidegate rules history -o json\n"},
    [CLI_RULES_ROLLBACK] =
        {"VERSION [--dry-run] [--yes] [--note TEXT] [--author NAME]",
         "put an older version of the rules in force again",
         "It becomes a new version; what was counted stays. Flags as of apply.\n",
         "  tidegate rules rollback 12\n"},
    [CLI_BLOCK] =
        {"attr=value | CIDR | --key K [--for DURATION | --until TIME] [--reason TEXT] [--yes] "
         "[--author NAME]",
         "deny requests at once, on every node, until a time",
         "Blocks an attribute value, the addresses of a CIDR (of the attribute ip), or an\n"
         "inline key: status 403, outcome blocked, and the reason as the message. Of a path or\n"
         "an address all spellings are blocked (api=/x/ is api=/x), as the rules say. It lifts\n"
         "itself at its end: --for 1h (never 0), or --until 2026-12-31T18:00:00Z (UTC), or with\n"
         "a zone (+01:00), or a day alone, which must exist; without either it stays until\n"
         "unblock. Blocked again, end and reason are replaced. A CIDR names a\n"
         "network, without bits behind its prefix. One with everybody in it, 0.0.0.0/0 or ::/0,\n"
         "is asked for first; --yes does not ask, and is needed without a terminal.\n",
         "  tidegate block user=mallory --for 1h --reason too-many-tries\n"
         "  tidegate block 203.0.113.0/24 --until 2026-12-31T18:00:00Z\n"
         "  tidegate block --key ada\n"},
    [CLI_UNBLOCK] =
        {"attr=value | CIDR | --key K [--author NAME]", "lift a block",
         "Names it as block did, or in another spelling that the rules take for the same\n"
         "(api=/x/ is api=/x); what is not blocked is nothing to change.\n",
         "  tidegate unblock user=mallory\n"},
    [CLI_BLOCKS] =
        {"", "what is blocked, until when, and why",
         "At most 1000 are shown; -o json tells times as Unix milliseconds, 0 as never.\n",
         "  tidegate blocks\n"
         "  tidegate blocks -o json\n"},
    [CLI_APIKEY_CREATE] =
        {"[--name TEXT] [--owner USER] [--tier TIER] [--limit RATE]... [--burst N] "
         "[--for DURATION | --until TIME] [--note TEXT] [--author NAME]",
         "issue an API key; it is shown this once",
         "The key is made here, of 160 random bits, and goes nowhere: the cluster keeps its\n"
         "digest. A request with the attribute api_key is counted by the id of the key, and has\n"
         "the attributes user (--owner) and tier (--tier) of the key. It ends by itself: --for\n"
         "90d, or --until 2026-12-31T18:00:00Z (UTC).\n"
         "--limit 500/h gives the key a limit of its own, beside all that rules say, of a second,\n"
         "minute, hour, day, week, month or year; each is a token_bucket, --burst N that of all.\n"
         "From the first key on, every node refuses requests with an api_key that was not\n"
         "issued, has expired or was revoked: outcome blocked, status 401.\n",
         "  tidegate apikey create --name ci --owner ada --tier premium --for 90d\n"
         "  tidegate apikey create --owner bob --limit 500/h --limit 20000/day\n"
         "  tidegate apikey create --owner bob -o json\n"},
    [CLI_APIKEY_LIST] =
        {"[--owner USER] [--after ID]", "the API keys that were issued, by id",
         "At most 1000 are shown; --after goes on behind that id. The keys themselves nobody "
         "knows\n"
         "but their holders. LAST USED and TOTAL, the requests with the key, are those of all\n"
         "members that can be asked now.\n",
         "  tidegate apikey list\n"
         "  tidegate apikey list --owner ada -o json\n"},
    [CLI_APIKEY_SHOW] = {"KEY",
                         "one API key: its id, its name if it has it alone, or the key itself",
                         "Of a key itself only the id is sent.\n",
                         "  tidegate apikey show ci\n"
                         "  tidegate apikey show 4wq7ce2lkzam -o json\n"},
    [CLI_APIKEY_REVOKE] =
        {"KEY [--note TEXT] [--author NAME]", "refuse an API key from now on, on every node",
         "Every reachable node refuses it within two seconds. It stays in the list, with who\n"
         "revoked it and when, and cannot be made valid again.\n",
         "  tidegate apikey revoke 4wq7ce2lkzam --note leaked\n"},
    [CLI_APIKEY_DELETE] =
        {"KEY [--force] [--note TEXT] [--author NAME]", "forget an API key: it is unknown then",
         "The last one is not deleted: without any key, api_key is an attribute like any other,\n"
         "and nobody is refused for it. --force does so nevertheless.\n",
         "  tidegate apikey delete 4wq7ce2lkzam\n"},
    [CLI_QUOTA_SET] =
        {"USER [--tier T] [--limit RATE]... [--burst N] [--block REASON [--for DURATION | --until "
         "TIME]] [--unblock] [--notes TEXT] [--clear] [--dry-run] [--note TEXT] [--author NAME]",
         "give one user a tier, limits of his own, or a block",
         "  --tier T             the tier of his requests, whatever they say themselves\n"
         "  --limit RATE         replaces the limit of the same window in his plan, the limits of\n"
         "                       his tier (or of a rule of group tier): a count per second,\n"
         "                       minute, hour, day, week, month or year; another window is added\n"
         "  --burst N            of the buckets of his plan\n"
         "  --block REASON       deny his requests, status 403, with the reason as the message;\n"
         "                       --for 1h or --until 2026-12-31T18:00:00Z (UTC), or until "
         "--unblock\n"
         "  --notes TEXT         kept with the record; --note is why this change is made\n"
         "  --clear              forget what the record says, and begin anew\n"
         "  --dry-run            show the record as it would be, and change nothing\n"
         "What is not named stays as it is. What he has consumed stays: with a higher limit he\n"
         "has the difference left. Every reachable node has it within two seconds. If somebody\n"
         "else changes the record at the same time, one of the two is told (exit status 3).\n",
         "  tidegate quota set ada --tier premium\n"
         "  tidegate quota set ada --limit 500/h --limit 20000/day\n"
         "  tidegate quota set mallory --block unpaid --for 7d\n"},
    [CLI_QUOTA_SHOW] =
        {"USER", "what is set for a user, and what he has left",
         "STATE tells every limit that a request meets whose only attribute is the user: used,\n"
         "remaining, and the time until it is full again.\n"
         "REQUESTS and EXCEEDED are how often he asked since his record is there, and how often a\n"
         "limit denied it: today, this month (UTC), and in all, at all members that can be asked\n"
         "now; the others are in NOT COUNTED. A node that is killed forgets up to 17 seconds.\n",
         "  tidegate quota show ada\n"
         "  tidegate quota show ada -o json\n"},
    [CLI_QUOTA_LIST] = {"[--after USER]", "the users for whom something is set, by name",
                        "At most 1000 are shown; --after goes on behind that user. Totals are "
                        "those of all members\n"
                        "that can be asked now.\n",
                        "  tidegate quota list\n"
                        "  tidegate quota list --after zoe -o json\n"},
    [CLI_QUOTA_DELETE] = {"USER [--note TEXT] [--author NAME]", "forget what is set for a user",
                          "He is as all others then; what he has consumed stays.\n",
                          "  tidegate quota delete ada\n"},
    [CLI_QUOTA_RESET] =
        {"USER", "forget what a user has consumed",
         "Resets every limit that a request meets whose only attribute is the user, as\n"
         "`tidegate reset user=USER` does.\n",
         "  tidegate quota reset ada\n"},
    [CLI_POOLS_LIST] =
        {"", "how the pools that elastic limits borrow of are doing",
         "GUARANTEED and BORROWED are tokens a second, in the last half second, of all nodes\n"
         "of the region that is asked, or of all regions if the pool's SCOPE is global. LEVEL\n"
         "is what a key of weight 1 may borrow, by class. HOME is the region that lends of a\n"
         "global pool. One that nothing was HEARD of lately shows zeros: it is idle or, if it\n"
         "is global, its home is out of reach, and nothing is lent here. LOAD is what was\n"
         "reported, - when nothing was.\n",
         "  tidegate pools list\n"
         "  tidegate pools list -o json\n"},
    [CLI_POOLS_SET] =
        {"NAME [--rate RATE] [--load-max X] [--reserve P%] [--scope S [--home R]] [--dry-run] "
         "[--yes]",
         "change a pool, or make one: an edit of the rules document",
         "  --rate RATE          of each region, such as 10000/s; a new pool needs it\n"
         "  --load-max X         borrowing stops at this reported load, above 0 to 1\n"
         "  --reserve P%         of the rate, for class critical alone; 0% takes it away\n"
         "  --scope S            region, or global: one rate for all regions\n"
         "  --home REGION        that lends of a global pool; one is chosen by hash without it\n"
         "  --note TEXT          kept with the version\n"
         "  --author NAME        who changes it; default: you, on this host\n"
         "What is not given stays as it is, and so does the rest of the document. Shown and\n"
         "asked for as by `rules apply`. To remove a pool, take it out of the document.\n",
         "  tidegate pools set api --rate 10000/s --reserve 5%\n"
         "  tidegate pools set api --load-max 0.8 --dry-run\n"},
    [CLI_POOLS_REPORT] =
        {"NAME --load X", "tell how loaded what a pool protects is",
         "  --load X             from 0, idle, to 1\n"
         "Valid for 3 s: whatever protects itself so reports every second or so. At the pool's\n"
         "load_max and above nobody borrows, in the region that is asked, or in all of them if\n"
         "the pool is global; what is inside the limits is never denied for it.\n",
         "  tidegate pools report api --load 0.93\n"},
    [CLI_DRAIN] =
        {"[--no-wait] [--timeout DURATION]",
         "move all that the node that is asked holds away, out of the ring",
         "No count is lost: each vnode changes hands by itself. The drained node stays a\n"
         "member that forwards what it is asked; started again, it joins the ring anew.\n"
         "Waits until nothing is left, at most --timeout (here 10m by default; what was\n"
         "begun goes on); --no-wait returns at once. Name one node by --endpoint.\n",
         "  tidegate -e tcp://10.0.0.2:7600 drain\n"},
    [CLI_LEAVE] =
        {"[--no-wait] [--timeout DURATION]",
         "drain the node that is asked, say good-bye, and end its process",
         "As drain does, and then the node's process ends with status 0. Waits until then,\n"
         "at most --timeout (here 10m by default); --no-wait returns at once.\n",
         "  tidegate -e tcp://10.0.0.2:7600 leave\n"},
    [CLI_REMOVE] =
        {"NODE | --region REGION [--force] [--no-wait] [--timeout DURATION]",
         "take a dead member out of the ring, or a region that is gone out of the cluster",
         "NODE is a name or an id of `tidegate members`, or REGION/NAME. A living one is\n"
         "refused: it can drain or leave, which loses nothing. Of another region, that is\n"
         "asked. Waits until it is out, at most --timeout (here 1m by default); --no-wait\n"
         "returns at once.\n"
         "--force: when most voters of the ring are gone for good, the ring is frozen, and\n"
         "nothing can be agreed on. The members that the asked node sees then go on alone,\n"
         "under a new lineage that wins wherever others come back. What those others\n"
         "decided meanwhile is lost. Never force on two sides of a split.\n"
         "Counts of rules with consistency quorum may be forgotten by it: a vnode that has\n"
         "lost most of its replicas goes on with what a living one holds. Each further\n"
         "member that is gone for good is removed with --force as well: where it does not\n"
         "end otherwise, force takes effect after ten seconds, frozen or not.\n"
         "--region: of a region that is gone for good, or was a slip of the pen. Refused\n"
         "while nodes of its ring answer: end them first. What it held on lease of other\n"
         "regions' keys is spent; keys of global rules that it counted by hash are counted\n"
         "anew in the regions that stay, and for four seconds on_failure decides on them.\n"
         "Under its name a region may begin anew. --force: although a rule names it as\n"
         "home, or most voters of the configuration are lost with it.\n",
         "  tidegate remove n3\n"
         "  tidegate remove --region us\n"
         "  tidegate -e tcp://10.0.0.2:7600 remove n3 --force\n"},
    [CLI_REPLAY] =
        {"LOGFILE... --rules FILE [flags below]",
         "what these rules would have done to an access log",
         "Nothing is sent anywhere: rules and limits are decided here, by the log's own time.\n"
         "LOGFILE is in nginx's or Apache's combined format (with the virtual host in front or\n"
         "X-Forwarded-For behind, too) or has one JSON object a line; it may be compressed by\n"
         "gzip, - is standard input, and several are merged by time. Attributes that rules may\n"
         "ask for: ip method api (path without query) status user host referer user_agent\n"
         "bytes query.NAME, and every field of JSON by its name (a.b.c where nested).\n"
         "Addresses and paths are spelt as checks spell them: /x/ is /x, [::1]:80 is ::1.\n"
         "DENIED counts what a rule itself refuses, of a shadow rule what it would refuse.\n",
         "  tidegate replay /var/log/nginx/access.log --rules rules.yaml\n"
         "  tidegate replay access.log.*.gz --rules rules.yaml --suggest 0.1%\n"
         "  tidegate replay api.json --rules rules.yaml --map user=claims.sub -o json\n"},
    [CLI_VERSION] = {"", "the version of this program", "", "  tidegate version\n"},
    [CLI_HELP] = {"[COMMAND]", "this help, or that on one command", "",
                  "  tidegate help check\n"
                  "  tidegate help rules validate\n"},
};

static const char *space_before(const char *words)
{
    return words[0] != '\0' ? " " : "";
}

static void add_usage(struct cli_text *text, enum cli_command topic)
{
    if (topic == CLI_COMMAND_NONE) {
        cli_text_str(text, "usage: tidegate [-e tcp://HOST:PORT[,...]] [-o table|json|yaml] "
                           "COMMAND ...\n");
        return;
    }
    cli_text_str(text, "usage: tidegate ");
    cli_text_str(text, cli_command_name(topic));
    cli_text_str(text, space_before(topics[topic].operands));
    cli_text_str(text, topics[topic].operands);
    cli_text_str(text, "\n");
}

void cli_hint(struct cli_text *text, enum cli_command topic)
{
    add_usage(text, topic);
    cli_text_str(text, "see: tidegate help");
    if (topic != CLI_COMMAND_NONE) {
        cli_text_str(text, " ");
        cli_text_str(text, cli_command_name(topic));
    }
    cli_text_str(text, "\n");
}

/* The commands whose names begin with these bytes, and what they do. */
static void add_commands(struct cli_text *text, const char *prefix, size_t prefix_len)
{
    enum { NAME_WIDTH = 16 };
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++) {
        const char *name = cli_command_name(i);
        if (strncmp(name, prefix, prefix_len) != 0)
            continue;
        cli_text_str(text, "  ");
        cli_text_str(text, name);
        cli_text_fill(text, ' ', NAME_WIDTH - strlen(name));
        cli_text_str(text, topics[i].summary);
        cli_text_str(text, "\n");
    }
}

static void add_overview(struct cli_text *text)
{
    cli_text_str(text, "tidegate - asks a Tidegate cluster, and looks at it\n\n");
    add_usage(text, CLI_COMMAND_NONE);
    cli_text_str(text, "\nCommands:\n");
    add_commands(text, "", 0);
    cli_text_str(text, "\n");
    cli_text_str(text, flags_of_all);
    cli_text_str(text, "\nExamples:\n");
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++)
        cli_text_str(text, topics[i].examples);
    cli_text_str(text, "\n");
    cli_text_str(text, exit_statuses);
}

static bool is_asking(enum cli_command topic)
{
    return topic <= CLI_LEASE;
}

static bool names_lease(enum cli_command topic)
{
    return topic == CLI_RELEASE || topic == CLI_RENEW;
}

void cli_help(struct cli_text *text, enum cli_command topic)
{
    if (topic == CLI_COMMAND_NONE) {
        add_overview(text);
        return;
    }
    cli_text_str(text, "tidegate ");
    cli_text_str(text, cli_command_name(topic));
    cli_text_str(text, " - ");
    cli_text_str(text, topics[topic].summary);
    cli_text_str(text, "\n\n");
    add_usage(text, topic);
    if (is_asking(topic) || names_lease(topic) || topic == CLI_OWNER) {
        cli_text_str(text, "\n");
        cli_text_str(text, flags_of_target);
    }
    if (is_asking(topic) && topic != CLI_RESET)
        cli_text_str(text, flag_cost);
    if (topic == CLI_CHECK || topic == CLI_PEEK || topic == CLI_LEASE)
        cli_text_str(text, flag_at_most);
    if (names_lease(topic))
        cli_text_str(text, flag_lease);
    if (is_asking(topic)) {
        cli_text_str(text, flag_repeat);
        cli_text_str(text, flag_explain);
    }
    if (topic == CLI_STATUS || topic == CLI_MEMBERS || topic == CLI_RING) {
        cli_text_str(text, "\n");
        cli_text_str(text, flag_watch);
    }
    if (topic == CLI_REPLAY) {
        cli_text_str(text, "\n");
        cli_text_str(text, flags_of_replay);
    }
    if (topics[topic].notes[0] != '\0') {
        cli_text_str(text, "\n");
        cli_text_str(text, topics[topic].notes);
    }
    const char *blank = strchr(cli_command_name(topic), ' ');
    if (blank != NULL) { /* one of several: help on the first word alone shows them, too */
        const char *name = cli_command_name(topic);
        cli_text_str(text, "\nAll of its kind:\n");
        add_commands(text, name, (size_t)(blank - name) + 1);
    }
    cli_text_str(text, "\n");
    cli_text_str(text, flags_of_all);
    cli_text_str(text, "\nExamples:\n");
    cli_text_str(text, topics[topic].examples);
    cli_text_str(text, "\n");
    cli_text_str(text, exit_statuses);
}
