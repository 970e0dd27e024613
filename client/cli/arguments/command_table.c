/* command_table.c - every command once: its name, usage, operands, what it does, and examples.
 *
 * What a flag does is told by flag_table.c, so that these notes say only what several flags mean
 * together. An example can be typed as it is. See command_table.h.
 */
#include "client/cli/arguments/command_table.h"

#include "base/assert.h"

#define USAGE_ASK "attr=value... | --key K --rate RATE [--burst B] [--algorithm A]"

const char cli_program_summary[] = "asks a Tidegate cluster, and looks at it";

static const struct cli_command_row commands[CLI_COMMAND_COUNT] = {
    [CLI_CHECK] = {.name = "check",
                   .usage = USAGE_ASK,
                   .operand = CLI_OPERAND_TARGET,
                   .summary = "decide and, if allowed, consume",
                   .notes =
                       "Exit status 0 if every request was allowed, 1 if any was denied.\n"
                       "With -o json one object a request, one a line. What a rule on trial would "
                       "have denied has the outcome shadow_denied, and shadow_rule names that "
                       "rule: nothing else of the answer is the trial's.\n",
                   .examples =
                       "tidegate check --key ada --rate 5/60s --repeat 7\n"
                       "tidegate check api=/signup phone=+15550100 -o json\n"
                       "tidegate check --key upload --rate 100/minute --cost 30 --at-most\n"},
    [CLI_PEEK] = {.name = "peek",
                  .usage = USAGE_ASK,
                  .operand = CLI_OPERAND_TARGET,
                  .summary = "may a check pass now, and if not when; nothing is consumed",
                  .notes =
                      "Whether, and when, is told as check would; used, remaining and reset are "
                      "the limit as it is: of a new key of 5/60s 0 and 5. Granted is 0.\n",
                  .examples = "tidegate peek --key ada --rate 5/60s\n"
                              "tidegate peek api=/signup phone=+15550100\n"},
    [CLI_HIT] = {.name = "hit",
                 .usage = USAGE_ASK,
                 .operand = CLI_OPERAND_TARGET,
                 .summary = "consume without asking, even into debt",
                 .notes = "For what is only known afterwards: failed log-ins, bytes sent.\n",
                 .examples = "tidegate hit --key failed-logins:ada --rate 5/15m\n"
                             "tidegate hit api=/download user=ada --cost 4096\n"},
    [CLI_REFUND] = {.name = "refund",
                    .usage = USAGE_ASK,
                    .operand = CLI_OPERAND_TARGET,
                    .summary = "give back what was consumed, never above full",
                    .examples = "tidegate refund --key ada --rate 5/60s --cost 2\n"},
    [CLI_RESET] = {.name = "reset",
                   .usage = USAGE_ASK,
                   .operand = CLI_OPERAND_TARGET,
                   .summary = "as if the key were new",
                   .examples = "tidegate reset --key ada --rate 5/60s\n"
                               "tidegate reset api=/signup phone=+15550100\n"},
    [CLI_LEASE] =
        {.name = "lease",
         .usage = USAGE_ASK,
         .operand = CLI_OPERAND_TARGET,
         .summary = "take a place in flight, or tokens; LEASE is its name until it is released",
         .notes = "A check that must give a lease, of limits with the algorithm concurrency, "
                  "which is the default here. With --key the rate is how many in flight and "
                  "the time-out of a lease: 3/30s. A lease that is not released in time frees "
                  "its place by itself.\n"
                  "Of limits with other algorithms it takes a block of tokens (--cost, "
                  "--at-most), which may be used without asking for lease_ms from before the "
                  "question on, and are spent then, unless they are released before. Limits "
                  "that give none refuse, and say so.\n",
         .examples =
             "tidegate lease --key exports --rate 3/30s\n"
             "tidegate lease --key ada --rate 500/s --algorithm token_bucket --cost 100 --at-most\n"
             "tidegate lease api=/export user=ada -o json\n"},
    [CLI_RELEASE] =
        {.name = "release",
         .usage = "--lease ID attr=value... | --lease ID --key K --rate RATE",
         .operand = CLI_OPERAND_TARGET,
         .summary = "give the places, or the unused tokens, of a lease back",
         .notes = "With the same attributes, or key and rate, that the lease was taken with. "
                  "A lease that is over, or was released before, is none: that does no harm.\n",
         .examples = "tidegate release --lease 9f86d081884c7d65 api=/export user=ada\n"
                     "tidegate release --lease 9f86d081884c7d65 --used 40 api=/search user=ada\n"},
    [CLI_RENEW] = {.name = "renew",
                   .usage = "--lease ID attr=value... | --lease ID --key K --rate RATE",
                   .operand = CLI_OPERAND_TARGET,
                   .summary = "let the time-out of a lease begin anew",
                   .notes = "Denied, with exit status 1, when the lease is over.\n",
                   .examples =
                       "tidegate renew --lease 9f86d081884c7d65 --key exports --rate 3/30s\n"},
    [CLI_RESERVE] =
        {.name = "reserve",
         .usage = USAGE_ASK,
         .operand = CLI_OPERAND_TARGET,
         .summary = "hold an estimate of tokens; HOLD is its name until it is settled",
         .notes = "For a cost that is known only when the work is done. It takes the tokens out of "
                  "all limits that the request meets, or out of none. What is not committed or "
                  "cancelled within --ttl is given back.\n",
         .examples = "tidegate reserve api=/v1/chat user=ada --cost 4000 --ttl 120s\n"
                     "tidegate reserve --key ada --rate 10000/min --cost 4000 -o json\n"},
    [CLI_COMMIT] =
        {.name = "commit",
         .usage = "--hold ID --actual N attr=value... | --hold ID --actual N --key K --rate RATE",
         .operand = CLI_OPERAND_TARGET,
         .summary = "settle a reservation by what was really used",
         .notes = "With the same attributes, or key and rate, that it was made with. What is less "
                  "than was reserved is given back, what is more is charged as hit does; so is a "
                  "commit that comes too late. Settled is settled: a second commit or cancel "
                  "changes nothing.\n",
         .examples =
             "tidegate commit --hold 9f86d081884c7d65 --actual 1234 api=/v1/chat user=ada\n"},
    [CLI_CANCEL] = {.name = "cancel",
                    .usage = "--hold ID attr=value... | --hold ID --key K --rate RATE",
                    .operand = CLI_OPERAND_TARGET,
                    .summary = "give a reservation back",
                    .notes = "With the same attributes, or key and rate, that it was made with.\n",
                    .examples = "tidegate cancel --hold 9f86d081884c7d65 api=/v1/chat user=ada\n"},
    [CLI_STATUS] =
        {.name = "status",
         .usage = "[--node NAME | --all | --regions | --wait healthy] [--members N|all] "
                  "[--watch]",
         .summary = "how the cluster is doing, as the node that is asked sees it",
         .notes = "Says first whether all is well, and if not why, what it leads to and what "
                  "to do. Then a line a node: decisions a second, the share of them that "
                  "denied, how soon replicas acknowledge them (99 of 100), keys in memory, "
                  "how far the disk is behind, and its clock against that of the node that is "
                  "asked. Exit status 0 healthy, 1 not, 2 no answer.\n"
                  "--wait healthy: exit status 1 if it is not healthy by then, 2 if no node "
                  "answered. A first node is a healthy cluster of one until the others have "
                  "joined it: a script that starts several says by --members N how many.\n"
                  "--regions tells of each region its members, how old that is, when one of "
                  "them last spoke to it, and the round trip there; since when it is out of "
                  "reach; and, added up over the members in reach, the tokens of its keys "
                  "that this region HELD on lease just now, and those of this one that were "
                  "LENT to it.\n",
         .examples = "tidegate status\n"
                     "tidegate status --node n2\n"
                     "tidegate status --wait healthy --members 3 --timeout 1m\n"
                     "tidegate status --regions\n"
                     "tidegate status --watch\n"},
    [CLI_MEMBERS] =
        {.name = "members",
         .usage = "[--all] [--watch]",
         .summary = "the nodes of the cluster and what is known of them",
         .notes = "Sorted by name. Members that have left or were removed are shown by --all, "
                  "for a day.\n"
                  "RING tells where a node stands in the ring: member; draining, asked to go; "
                  "drained, gone and alive; outside, not in it yet or not any more; abroad, "
                  "of another region, which has a ring of its own.\n",
         .examples = "tidegate members\n"
                     "tidegate members -o json\n"},
    [CLI_RING] = {.name = "ring",
                  .usage = "[--watch]",
                  .summary = "the ring configuration: epoch, members and their shares",
                  .examples = "tidegate ring\n"
                              "tidegate -e tcp://10.0.0.2:7600 ring -o yaml\n"},
    [CLI_EVENTS] = {.name = "events",
                    .usage = "[--follow]",
                    .summary = "what came about lately, as the node that is asked saw it",
                    .notes =
                        "What is wrong with the cluster, when it begins and when it is over; "
                        "changes of the ring, the rules and the configuration. The last 256 since "
                        "the node started, the oldest first. Times are UTC. With -o json one "
                        "object an event, one a line.\n",
                    .examples = "tidegate events\n"
                                "tidegate events --follow -o json\n"},
    [CLI_OWNER] = {.name = "owner",
                   .usage = "attr=value... | --key K",
                   .operand = CLI_OPERAND_TARGET,
                   .summary = "which node decides for a key, one row a limit",
                   .notes =
                       "DEAD: those of the replicas that do not answer. With -o json one object a "
                       "limit, one a line.\n",
                   .examples = "tidegate owner --key ada\n"
                               "tidegate owner api=/signup phone=+15550100 -o json\n"},
    [CLI_RULES_LIST] = {.name = "rules list",
                        .summary = "the rules in force",
                        .examples = "tidegate rules list\n"
                                    "tidegate rules list -o yaml\n"},
    [CLI_RULES_SHOW] =
        {.name = "rules show",
         .usage = "[NAME | --of-version VERSION]",
         .operand = CLI_OPERAND_RULE_IF_ANY,
         .summary = "the rules as they were written, an older version of them, or one rule",
         .notes = "Without NAME the document that is in force, comments and all: change it "
                  "and apply it again: tidegate rules show > rules.yaml\n",
         .examples = "tidegate rules show\n"
                     "tidegate rules show signup-per-phone\n"
                     "tidegate rules show --of-version 12\n"},
    [CLI_RULES_VALIDATE] =
        {.name = "rules validate",
         .usage = "FILE",
         .operand = CLI_OPERAND_FILE,
         .summary = "whether a rules file is good; nothing is changed",
         .notes = "All that is wrong is said, a line each, as FILE:LINE:COLUMN: message, with "
                  "exit status 3. No node is asked, unless one is named by --endpoint: a node "
                  "of another version may judge otherwise.\n"
                  "Of a good file it is told, as a warning, what it probably does not mean: "
                  "more than 8 rules with limits that can meet on one request, which would be "
                  "an error, and soft limits that may be exceeded by less than one.\n",
         .examples = "tidegate rules validate rules.yaml\n"
                     "tidegate -e tcp://10.0.0.2:7600 rules validate rules.yaml\n"},
    [CLI_RULES_EXPLAIN] =
        {.name = "rules explain",
         .usage = "attr=value... | --domain D --descriptor K=V,... [--rules FILE]",
         .operand = CLI_OPERAND_ATTRIBUTES,
         .summary = "which rules act on a request, and why others do not",
         .notes = "Nothing is counted. With --rules the rules of FILE (- for standard input) "
                  "are meant, and no node is asked; without it, those in force at the node "
                  "that is asked. BLOCKED is what denies the request before any rule: by "
                  "whom, until when and why. What the limits say is told by `tidegate peek "
                  "--explain`.\n"
                  "With --domain it is told which limit a descriptor of a proxy asks: what each "
                  "entry meets, and by what it is counted.\n",
         .examples = "tidegate rules explain api=/signup phone=+15550100 --rules rules.yaml\n"
                     "tidegate rules explain --domain shop --descriptor path=/cart,user=ada\n"
                     "tidegate rules explain api=/signup phone=+15550100 -o json\n"},
    [CLI_RULES_IMPORT] =
        {.name = "rules import",
         .usage = "envoy FILE... [--merge] [--charge each|all]",
         .operand = CLI_OPERAND_IMPORTED,
         .summary = "print rules of another limiter as a document of ours; nothing is changed",
         .notes = "FILE is one of envoyproxy/ratelimit, or a directory of such files. They are "
                  "rules as they are, too: `tidegate rules apply FILE` takes them. No node is "
                  "asked. What is wrong is said as FILE:LINE:COLUMN: message.\n",
         .examples = "tidegate rules import envoy shop.yaml search.yaml > rules.yaml\n"
                     "tidegate rules import envoy config/ --merge\n"},
    [CLI_RULES_DIFF] =
        {.name = "rules diff",
         .usage = "FILE",
         .operand = CLI_OPERAND_FILE,
         .summary = "how a rules file differs from the rules of the cluster",
         .notes = "Exit status 0 whether or not it differs. Of rules that change it tells "
                  "whether the count of each limit stays, is back, begins anew or ends: a "
                  "limit with its window and algorithm is the same limit wherever it stands.\n",
         .examples = "tidegate rules diff rules.yaml\n"},
    [CLI_RULES_APPLY] =
        {.name = "rules apply",
         .usage = "FILE [--dry-run] [--yes] [--note TEXT] [--author NAME]",
         .operand = CLI_OPERAND_FILE,
         .summary = "put a rules file in force on every node of the cluster",
         .notes = "Shows the difference and asks; --yes does not ask, --dry-run only shows. "
                  "Without a terminal --yes is needed. The file is taken whole or refused "
                  "whole, with FILE:LINE:COLUMN. If somebody else has changed the rules since "
                  "the difference was shown, nothing is changed, and it says so (exit status "
                  "3). The author is user@host or --author; --note says why. Every reachable "
                  "node has it within two seconds. A file has at most 1,036,288 bytes, or, "
                  "above that, packed so many, and 16 MiB unpacked.\n",
         .examples = "tidegate rules apply rules.yaml\n"
                     "tidegate rules apply rules.yaml --yes --note more-for-partners\n"},
    [CLI_RULES_DELETE] =
        {.name = "rules delete",
         .usage = "NAME [--dry-run] [--yes] [--note TEXT] [--author NAME]",
         .operand = CLI_OPERAND_RULE,
         .summary = "take one rule out of the rules in force",
         .notes = "The rest of the document stays as it is written. Flags as of apply.\n",
         .examples = "tidegate rules delete search-per-address\n"},
    [CLI_RULES_HISTORY] =
        {.name = "rules history",
         .summary = "the versions of the rules that are kept, the newest first",
         .notes = "At most 64 are kept, with author, time and note, and 8 MiB of them: of "
                  "large documents, as they are packed, fewer.\n",
         .examples = "tidegate rules history\n"
                     "tidegate rules history -o json\n"},
    [CLI_RULES_ROLLBACK] =
        {.name = "rules rollback",
         .usage = "VERSION [--dry-run] [--yes] [--note TEXT] [--author NAME]",
         .operand = CLI_OPERAND_VERSION,
         .summary = "put an older version of the rules in force again",
         .notes = "It becomes a new version; what was counted stays. Flags as of apply.\n",
         .examples = "tidegate rules rollback 12\n"},
    [CLI_BLOCK] = {.name = "block",
                   .usage = "attr=value | CIDR | --key K [--for DURATION | --until TIME] [--reason "
                            "TEXT] [--yes] [--author NAME]",
                   .operand = CLI_OPERAND_BLOCKED,
                   .summary = "deny requests at once, on every node, until a time",
                   .notes =
                       "Blocks an attribute value, the addresses of a CIDR (of the attribute ip), "
                       "or an inline key: status 403, outcome blocked, and the reason as the "
                       "message. Of a path or an address all spellings are blocked (api=/x/ is "
                       "api=/x), as the rules say. It lifts itself at its end: --for 1h (never 0), "
                       "or --until 2026-12-31T18:00:00Z (UTC), or with a zone (+01:00), or a day "
                       "alone, which must exist; without either it stays until unblock. Blocked "
                       "again, end and reason are replaced. A CIDR names a network, without bits "
                       "behind its prefix. One with everybody in it, 0.0.0.0/0 or ::/0, is asked "
                       "for first; --yes does not ask, and is needed without a terminal.\n",
                   .examples = "tidegate block user=mallory --for 1h --reason too-many-tries\n"
                               "tidegate block 203.0.113.0/24 --until 2026-12-31T18:00:00Z\n"
                               "tidegate block --key ada\n"},
    [CLI_UNBLOCK] =
        {.name = "unblock",
         .usage = "attr=value | CIDR | --key K [--author NAME]",
         .operand = CLI_OPERAND_BLOCKED,
         .summary = "lift a block",
         .notes = "Names it as block did, or in another spelling that the rules take for the "
                  "same (api=/x/ is api=/x); what is not blocked is nothing to change.\n",
         .examples = "tidegate unblock user=mallory\n"},
    [CLI_BLOCKS] = {.name = "blocks",
                    .summary = "what is blocked, until when, and why",
                    .notes =
                        "At most 1000 are shown; -o json tells times as Unix milliseconds, 0 as "
                        "never.\n",
                    .examples = "tidegate blocks\n"
                                "tidegate blocks -o json\n"},
    [CLI_APIKEY_CREATE] =
        {.name = "apikey create",
         .usage = "[--name TEXT] [--owner USER] [--tier TIER] [--limit RATE]... [--burst N] "
                  "[--for DURATION | --until TIME] [--note TEXT] [--author NAME]",
         .summary = "issue an API key; it is shown this once",
         .notes = "The key is made here, of 160 random bits, and goes nowhere: the cluster "
                  "keeps its digest. A request with the attribute api_key is counted by the "
                  "id of the key, and has the attributes user (--owner) and tier (--tier) of "
                  "the key.\n"
                  "From the first key on, every node refuses requests with an api_key that "
                  "was not issued, has expired or was revoked: outcome blocked, status 401.\n",
         .examples = "tidegate apikey create --name ci --owner ada --tier premium --for 90d\n"
                     "tidegate apikey create --owner bob --limit 500/h --limit 20000/day\n"
                     "tidegate apikey create --owner bob -o json\n"},
    [CLI_APIKEY_LIST] =
        {.name = "apikey list",
         .usage = "[--owner USER] [--after ID]",
         .summary = "the API keys that were issued, by id",
         .notes = "At most 1000 are shown; --after goes on behind that id. The keys "
                  "themselves nobody knows but their holders. LAST USED and TOTAL, the "
                  "requests with the key, are those of all members that can be asked now.\n",
         .examples = "tidegate apikey list\n"
                     "tidegate apikey list --owner ada -o json\n"},
    [CLI_APIKEY_SHOW] = {.name = "apikey show",
                         .usage = "KEY",
                         .operand = CLI_OPERAND_API_KEY,
                         .summary =
                             "one API key: its id, its name if it has it alone, or the key itself",
                         .notes = "Of a key itself only the id is sent.\n",
                         .examples = "tidegate apikey show ci\n"
                                     "tidegate apikey show 4wq7ce2lkzam -o json\n"},
    [CLI_APIKEY_REVOKE] =
        {.name = "apikey revoke",
         .usage = "KEY [--note TEXT] [--author NAME]",
         .operand = CLI_OPERAND_API_KEY,
         .summary = "refuse an API key from now on, on every node",
         .notes = "Every reachable node refuses it within two seconds. It stays in the list, "
                  "with who revoked it and when, and cannot be made valid again.\n",
         .examples = "tidegate apikey revoke 4wq7ce2lkzam --note leaked\n"},
    [CLI_APIKEY_DELETE] =
        {.name = "apikey delete",
         .usage = "KEY [--force] [--note TEXT] [--author NAME]",
         .operand = CLI_OPERAND_API_KEY,
         .summary = "forget an API key: it is unknown then",
         .notes = "The last one is not deleted: without any key, api_key is an attribute like "
                  "any other, and nobody is refused for it. --force does so nevertheless.\n",
         .examples = "tidegate apikey delete 4wq7ce2lkzam\n"},
    [CLI_TOKEN_CREATE] =
        {.name = "token create",
         .usage = "NAME --role ROLES [--network CIDR[,CIDR...]] [--for DURATION | --until TIME] "
                  "[--note TEXT] [--author NAME]",
         .operand = CLI_OPERAND_CREDENTIAL,
         .summary = "make a credential, and its token; that is shown this once",
         .notes = "The token is made here, of 160 random bits, and goes nowhere: the cluster keeps "
                  "its digest. Callers show it as `Authorization: Bearer TOKEN` over HTTP and "
                  "gRPC, and Redis clients by AUTH, with the name or `default` as the user.\n"
                  "Whoever shows none has the anonymous roles of his protocol: --http-anonymous, "
                  "--grpc-anonymous and --resp-anonymous of tidegated.\n",
         .examples = "tidegate token create web --role check --for 365d\n"
                     "tidegate token create grafana --role observe --network 10.0.0.0/8\n"},
    [CLI_CREDENTIAL_LIST] = {.name = "credential list",
                             .usage = "[--after ID]",
                             .summary = "who may do what: the credentials that were made, by id",
                             .notes = "At most 1000 are shown; --after goes on behind that id.\n",
                             .examples = "tidegate credential list\n"
                                         "tidegate credential list -o json\n"},
    [CLI_CREDENTIAL_SHOW] = {.name = "credential show",
                             .usage = "NAME",
                             .operand = CLI_OPERAND_CREDENTIAL,
                             .summary = "one credential",
                             .notes = "Of a token only the id is sent.\n",
                             .examples = "tidegate credential show web\n"},
    [CLI_CREDENTIAL_ROTATE] =
        {.name = "credential rotate",
         .usage = "NAME [--for DURATION] [--note TEXT] [--author NAME]",
         .operand = CLI_OPERAND_CREDENTIAL,
         .summary = "make a further token of a credential, instead of the one before",
         .notes = "With --for the token before is good for so long yet: give callers the new one "
                  "meanwhile. Roles, networks and end stay.\n",
         .examples = "tidegate credential rotate web --for 24h\n"},
    [CLI_CREDENTIAL_REVOKE] =
        {.name = "credential revoke",
         .usage = "NAME [--note TEXT] [--author NAME]",
         .operand = CLI_OPERAND_CREDENTIAL,
         .summary = "refuse a credential from now on, on every node",
         .notes = "Every reachable node refuses it within two seconds, on connections that are "
                  "there, too. There is no way back.\n",
         .examples = "tidegate credential revoke web --note leaked\n"},
    [CLI_QUOTA_SET] =
        {.name = "quota set",
         .usage = "USER [--tier T] [--limit RATE]... [--burst N] [--block REASON [--for "
                  "DURATION | --until TIME]] [--unblock] [--notes TEXT] [--clear] [--dry-run] "
                  "[--note TEXT] [--author NAME]",
         .operand = CLI_OPERAND_USER,
         .summary = "give one user a tier, limits of his own, or a block",
         .notes = "What is not named stays as it is. What he has consumed stays: with a "
                  "higher limit he has the difference left. Every reachable node has it "
                  "within two seconds. If somebody else changes the record at the same time, "
                  "one of the two is told (exit status 3).\n",
         .examples = "tidegate quota set ada --tier premium\n"
                     "tidegate quota set ada --limit 500/h --limit 20000/day\n"
                     "tidegate quota set mallory --block unpaid --for 7d\n"},
    [CLI_QUOTA_SHOW] =
        {.name = "quota show",
         .usage = "USER",
         .operand = CLI_OPERAND_USER,
         .summary = "what is set for a user, and what he has left",
         .notes = "STATE tells every limit that a request meets whose only attribute is the "
                  "user: used, remaining, and the time until it is full again.\n"
                  "REQUESTS and EXCEEDED are how often he asked since his record is there, "
                  "and how often a limit denied it: today, this month (UTC), and in all, at "
                  "all members that can be asked now; the others are in NOT COUNTED. A node "
                  "that is killed forgets up to 17 seconds.\n",
         .examples = "tidegate quota show ada\n"
                     "tidegate quota show ada -o json\n"},
    [CLI_QUOTA_LIST] =
        {.name = "quota list",
         .usage = "[--after USER]",
         .summary = "the users for whom something is set, by name",
         .notes = "At most 1000 are shown; --after goes on behind that user. Totals are those "
                  "of all members that can be asked now.\n",
         .examples = "tidegate quota list\n"
                     "tidegate quota list --after zoe -o json\n"},
    [CLI_QUOTA_DELETE] = {.name = "quota delete",
                          .usage = "USER [--note TEXT] [--author NAME]",
                          .operand = CLI_OPERAND_USER,
                          .summary = "forget what is set for a user",
                          .notes = "He is as all others then; what he has consumed stays.\n",
                          .examples = "tidegate quota delete ada\n"},
    [CLI_QUOTA_RESET] =
        {.name = "quota reset",
         .usage = "USER",
         .operand = CLI_OPERAND_USER,
         .summary = "forget what a user has consumed",
         .notes = "Resets every limit that a request meets whose only attribute is the user, "
                  "as `tidegate reset user=USER` does.\n",
         .examples = "tidegate quota reset ada\n"},
    [CLI_POOLS_LIST] =
        {.name = "pools list",
         .summary = "how the pools that elastic limits borrow of are doing",
         .notes = "GUARANTEED and BORROWED are tokens a second, in the last half second, of "
                  "all nodes of the region that is asked, or of all regions if the pool's "
                  "SCOPE is global. LEVEL is what a key of weight 1 may borrow, by class. "
                  "HOME is the region that lends of a global pool. One that nothing was HEARD "
                  "of lately shows zeros: it is idle or, if it is global, its home is out of "
                  "reach, and nothing is lent here. LOAD is what was reported, - when nothing "
                  "was.\n",
         .examples = "tidegate pools list\n"
                     "tidegate pools list -o json\n"},
    [CLI_POOLS_SET] =
        {.name = "pools set",
         .usage = "NAME [--rate RATE] [--load-max X] [--reserve P%] [--scope S [--home R]] "
                  "[--dry-run] [--yes]",
         .operand = CLI_OPERAND_POOL,
         .summary = "change a pool, or make one: an edit of the rules document",
         .notes = "What is not given stays as it is, and so does the rest of the document. "
                  "Shown and asked for as by `rules apply`. To remove a pool, take it out of "
                  "the document.\n",
         .examples = "tidegate pools set api --rate 10000/s --reserve 5%\n"
                     "tidegate pools set api --load-max 0.8 --dry-run\n"},
    [CLI_POOLS_REPORT] =
        {.name = "pools report",
         .usage = "NAME --load X",
         .operand = CLI_OPERAND_POOL,
         .summary = "tell how loaded what a pool protects is",
         .notes = "Valid for 3 s: whatever protects itself so reports every second or so. At "
                  "the pool's load_max and above nobody borrows, in the region that is asked, "
                  "or in all of them if the pool is global; what is inside the limits is "
                  "never denied for it.\n",
         .examples = "tidegate pools report api --load 0.93\n"},
    [CLI_DRAIN] = {.name = "drain",
                   .usage = "[--no-wait] [--timeout DURATION]",
                   .summary = "move all that the node that is asked holds away, out of the ring",
                   .notes =
                       "No count is lost: each vnode changes hands by itself. The drained node "
                       "stays a member that forwards what it is asked; started again, it joins the "
                       "ring anew. Waits until nothing is left, at most --timeout (here 10m by "
                       "default; what was begun goes on); --no-wait returns at once. Name one node "
                       "by --endpoint.\n",
                   .examples = "tidegate -e tcp://10.0.0.2:7600 drain\n"},
    [CLI_LEAVE] =
        {.name = "leave",
         .usage = "[--no-wait] [--timeout DURATION]",
         .summary = "drain the node that is asked, say good-bye, and end its process",
         .notes = "As drain does, and then the node's process ends with status 0. Waits until "
                  "then, at most --timeout (here 10m by default); --no-wait returns at once.\n",
         .examples = "tidegate -e tcp://10.0.0.2:7600 leave\n"},
    [CLI_REMOVE] =
        {.name = "remove",
         .usage = "NODE | --region REGION [--force] [--no-wait] [--timeout DURATION]",
         .operand = CLI_OPERAND_MEMBER,
         .summary = "take a dead member out of the ring, or a region that is gone out of the "
                    "cluster",
         .notes = "NODE is a name or an id of `tidegate members`, or REGION/NAME. A living "
                  "one is refused: it can drain or leave, which loses nothing. Of another "
                  "region, that is asked. Waits until it is out, at most --timeout (here 1m "
                  "by default); --no-wait returns at once.\n"
                  "--force: when most voters of the ring are gone for good, the ring is "
                  "frozen, and nothing can be agreed on. The members that the asked node sees "
                  "then go on alone, under a new lineage that wins wherever others come back. "
                  "What those others decided meanwhile is lost. Never force on two sides of a "
                  "split.\n"
                  "Counts of rules with consistency quorum may be forgotten by it: a vnode "
                  "that has lost most of its replicas goes on with what a living one holds. "
                  "Each further member that is gone for good is removed with --force as well: "
                  "where it does not end otherwise, force takes effect after ten seconds, "
                  "frozen or not.\n"
                  "--region: of a region that is gone for good, or was a slip of the pen. "
                  "Refused while nodes of its ring answer: end them first. What it held on "
                  "lease of other regions' keys is spent; keys of global rules that it "
                  "counted by hash are counted anew in the regions that stay, and for four "
                  "seconds on_failure decides on them. Under its name a region may begin "
                  "anew. --force: although a rule names it as home, or most voters of the "
                  "configuration are lost with it.\n",
         .examples = "tidegate remove n3\n"
                     "tidegate remove --region us\n"
                     "tidegate -e tcp://10.0.0.2:7600 remove n3 --force\n"},
    [CLI_REPLAY] =
        {.name = "replay",
         .usage = "LOGFILE... --rules FILE [FLAG]...",
         .operand = CLI_OPERAND_LOGS,
         .summary = "what these rules would have done to an access log",
         .notes = "Nothing is sent anywhere: rules and limits are decided here, by the log's "
                  "own time.\n"
                  "LOGFILE is in nginx's or Apache's combined format (with the virtual host "
                  "in front or X-Forwarded-For behind, too) or has one JSON object a line; it "
                  "may be compressed by gzip, - is standard input, and several are merged by "
                  "time. Attributes that rules may ask for: ip method api (path without "
                  "query) status user host referer user_agent bytes query.NAME, and every "
                  "field of JSON by its name (a.b.c where nested).\n"
                  "Addresses and paths are spelt as checks spell them: /x/ is /x, [::1]:80 is "
                  "::1. DENIED counts what a rule itself refuses, of a shadow rule what it "
                  "would refuse.\n",
         .examples = "tidegate replay /var/log/nginx/access.log --rules rules.yaml\n"
                     "tidegate replay access.log.*.gz --rules rules.yaml --suggest 0.1%\n"
                     "tidegate replay api.json --rules rules.yaml --map user=claims.sub -o json\n"},
    [CLI_VERSION] = {.name = "version",
                     .summary = "the version of this program",
                     .examples = "tidegate version\n"},
    [CLI_HELP] = {.name = "help",
                  .usage = "[COMMAND]",
                  .operand = CLI_OPERAND_TOPIC,
                  .summary = "this help, or that on one command",
                  .examples = "tidegate help check\n"
                              "tidegate help rules validate\n"},
};

static const struct cli_operand_row operands[CLI_OPERAND_COUNT] = {
    [CLI_OPERAND_NONE] = {.term = NULL},
    [CLI_OPERAND_TARGET] =
        {.term = "attr=value...",
         .help = "attributes of the request; the cluster's rules say which limits apply"},
    [CLI_OPERAND_ATTRIBUTES] = {.term = "attr=value...", .help = "attributes of the request"},
    [CLI_OPERAND_IMPORTED] = {.term = "envoy FILE...",
                              .help = "the form, envoy, and the files; - for standard input",
                              .file = true},
    [CLI_OPERAND_TOPIC] = {.term = "COMMAND",
                           .help = "the command to explain; without it all are named",
                           .command = true},
    [CLI_OPERAND_LOGS] = {.term = "LOGFILE...",
                          .help = "the logs, merged by time; - for standard input",
                          .file = true},
    [CLI_OPERAND_FILE] = {.term = "FILE",
                          .help = "the rules file; - for standard input",
                          .file = true},
    [CLI_OPERAND_MEMBER] = {.term = "NODE",
                            .help = "a name or an id of `tidegate members`, or REGION/NAME"},
    [CLI_OPERAND_RULE_IF_ANY] = {.term = "NAME", .help = "one rule alone"},
    [CLI_OPERAND_RULE] = {.term = "NAME", .help = "the name of a rule"},
    [CLI_OPERAND_VERSION] = {.term = "VERSION", .help = "a version of `tidegate rules history`"},
    [CLI_OPERAND_BLOCKED] = {.term = "attr=value | CIDR",
                             .help = "an attribute value, or the addresses of a network"},
    [CLI_OPERAND_API_KEY] =
        {.term = "KEY",
         .help = "the id of an API key, its name if it has it alone, or the key itself"},
    [CLI_OPERAND_CREDENTIAL] = {.term = "NAME",
                                .help = "the name of a credential, its id, or its token"},
    [CLI_OPERAND_USER] = {.term = "USER", .help = "the user, as the attribute user names him"},
    [CLI_OPERAND_POOL] = {.term = "NAME", .help = "the name of a pool"},
};

static const struct cli_group_row groups[] = {
    {"rules", "see and change the rules"},
    {"apikey", "issue and revoke API keys"},
    {"token", "make tokens, by which callers are known"},
    {"credential", "see, replace and revoke credentials"},
    {"quota", "what is set for one user"},
    {"pools", "what elastic limits borrow of"},
};

static const struct cli_exit_row exits[] = {
    {CLI_EXIT_OK, "ok or allowed"},
    {CLI_EXIT_DENIED, "denied (any of the requests) or not in time (what waits)"},
    {CLI_EXIT_UNREACHABLE, "no answer from the cluster"},
    {CLI_EXIT_INVALID, "invalid input"},
    {CLI_EXIT_USAGE, "wrong usage"},
    {CLI_EXIT_OUTPUT, "output not written"},
};

static const struct cli_variable_row variables[] = {
    {"TIDEGATE_ENDPOINT", "the nodes to ask where --endpoint does not name them"},
    {"NO_COLOR",
     "if it is set and not empty, nothing is coloured; nor is an output that is no terminal"},
};

const struct cli_command_row *cli_command_row(enum cli_command command)
{
    ASSERT(command < CLI_COMMAND_COUNT);
    return &commands[command];
}

const struct cli_operand_row *cli_operand_row(enum cli_operand operand)
{
    ASSERT(operand < CLI_OPERAND_COUNT);
    return &operands[operand];
}

const struct cli_group_row *cli_group_rows(size_t *count)
{
    *count = sizeof groups / sizeof *groups;
    return groups;
}

const struct cli_exit_row *cli_exit_rows(size_t *count)
{
    *count = sizeof exits / sizeof *exits;
    return exits;
}

const struct cli_variable_row *cli_variable_rows(size_t *count)
{
    *count = sizeof variables / sizeof *variables;
    return variables;
}
