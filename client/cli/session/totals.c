/* totals.c - asks all members, adds up, shows; see totals.h.
 *
 * Of fields named in `fields` numbers are added, or the latest taken together with its text; all
 * else is shown as the first node said it. A row that only others have is not shown: it has come or
 * gone just now. Members are asked at once, and added in the order in which they answer: sums are
 * the same in any, and the text of a time is made of it.
 *
 * A node gives as many rows of a list as fit into a message, and its totals are part of them: so
 * one member may give fewer rows than are shown. It is asked for those behind its last one, as long
 * as that tells of rows that it has not told of before.
 */
#include "client/cli/session/totals.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/cli/session/members.h"

enum { MISSING_MAX = 16, REGIONS_MAX = 32, QUESTION_TOKENS_MAX = 16, QUESTION_LEN = 4096 };

static const struct {
    const char *name;
    const char *text; /* the field whose text goes with the latest; NULL: numbers are added */
} fields[] = {
    {"requests_today", NULL}, {"exceeded_today", NULL},      {"requests_month", NULL},
    {"exceeded_month", NULL}, {"requests_total", NULL},      {"exceeded_total", NULL},
    {"total", NULL},          {"last_seen_ms", "last_seen"}, {"last_used_ms", "last_used"},
};

enum { FIELDS = sizeof fields / sizeof *fields };

struct sums {
    uint64_t values[FIELDS];
    char texts[FIELDS][CLI_TIME_LEN];
};

struct region {
    char name[CLI_MEMBER_LEN];
    char since[CLI_TIME_LEN]; /* it is out of reach; "": it is not */
    struct sums sums;         /* of the one row */
    uint32_t counted;
    uint32_t missing;
};

struct totals {
    const struct cli_answer *shown;
    const char *command; /* that every member is asked, with `question` */
    const struct mp_writer *question;
    const char *key;
    pthread_mutex_t lock; /* of all sums, while members answer */
    struct sums *rows;    /* of each row that is shown */
    size_t row_count;
    struct region regions[REGIONS_MAX + 1]; /* the last one: of no name, and of what is too many */
    uint32_t region_count;
    const char *missing[MISSING_MAX];
    uint32_t missing_count; /* also of those that there is no room for */
};

/* What one member has told so far, in one answer or several. */
struct telling {
    struct totals *totals;
    struct region *region; /* the member's */
    bool *told;            /* of each row that is shown */
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* How many rows an answer has, and where the first one is. */
static size_t rows_of(const struct cli_answer *answer, size_t *first)
{
    const bool list = answer->count > 0 && answer->tokens[0].type == MP_ARRAY;
    *first = list;
    return list ? answer->tokens[0].count
                : (size_t)(answer->count > 0 && answer->tokens[0].type == MP_MAP);
}

static bool same(const struct mp_token *a, const struct mp_token *b)
{
    return a != NULL && b != NULL && a->type == MP_STR && b->type == MP_STR &&
           a->count == b->count && memcmp(a->data, b->data, a->count) == 0;
}

/* The number of the shown row that is the same as this one; row_count if there is none. */
static size_t shown_row(const struct totals *totals, const struct mp_token *key)
{
    size_t at;
    (void)rows_of(totals->shown, &at);
    for (size_t i = 0; i < totals->row_count && at < totals->shown->count; i++) {
        if (totals->shown->tokens[at].type == MP_MAP &&
            same(cli_answer_value(totals->shown, at, totals->key), key))
            return i;
        at = cli_token_next(totals->shown, at);
    }
    return totals->row_count;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static void add_row(struct sums *sums, const struct cli_answer *answer, size_t row)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const struct mp_token *value = cli_answer_value(answer, row, fields[i].name);
        if (value == NULL || value->type != MP_UINT)
            continue;
        if (fields[i].text == NULL) {
            sums->values[i] += value->uint;
        } else if (value->uint > sums->values[i]) {
            const struct mp_token *text = cli_answer_value(answer, row, fields[i].text);
            sums->values[i] = value->uint;
            if (text != NULL && text->type == MP_STR)
                (void)snprintf(sums->texts[i], CLI_TIME_LEN, "%.*s", (int)text->count,
                               (const char *)text->data);
        }
    }
}

/* Adds each row that the member has not told of before. How many these are, and the key of its last
 * row of all in *last. */
static size_t add_answer(struct telling *telling, const struct cli_answer *answer,
                         const struct mp_token **last)
{
    struct totals *totals = telling->totals;
    size_t at;
    size_t added = 0;
    const size_t count = rows_of(answer, &at);
    for (size_t i = 0; i < count && at < answer->count; i++) {
        *last =
            answer->tokens[at].type == MP_MAP ? cli_answer_value(answer, at, totals->key) : NULL;
        const size_t row = shown_row(totals, *last);
        if (row < totals->row_count && !telling->told[row]) {
            (void)pthread_mutex_lock(&totals->lock);
            ASSERT(row < totals->row_count && answer->tokens[at].type == MP_MAP);
            add_row(&totals->rows[row], answer, at);
            add_row(&telling->region->sums, answer, at);
            (void)pthread_mutex_unlock(&totals->lock);
            telling->told[row] = true;
            added++;
        }
        at = cli_token_next(answer, at);
    }
    return added;
}

/* The region of that name, the last one of all if it is not among those that are told of. */
static struct region *region_of(struct totals *totals, const char *name)
{
    uint32_t at = 0;
    while (at < totals->region_count && strcmp(totals->regions[at].name, name) != 0)
        at++;
    ASSERT(totals->region_count <= REGIONS_MAX);
    return &totals->regions[at < totals->region_count ? at : (uint32_t)REGIONS_MAX];
}

/* Makes of `asked`, which may be NULL, the question for what is behind `last`. False if there is no
 * room. */
static bool ask_behind(const struct mp_writer *asked, const struct mp_token *last,
                       struct mp_writer *question)
{
    struct mp_token tokens[QUESTION_TOKENS_MAX];
    const int count =
        asked == NULL ? 0 : mp_parse(asked->data, asked->len, tokens, QUESTION_TOKENS_MAX);
    ASSERT(count <= QUESTION_TOKENS_MAX);
    uint32_t pairs = 1;
    for (int at = 1; at + 1 < count; at += 2) /* name and value, a token each */
        pairs += !cli_token_is(&tokens[at], "after");
    mp_put_map(question, pairs);
    for (int at = 1; at + 1 < count; at += 2) {
        if (cli_token_is(&tokens[at], "after"))
            continue;
        cli_put_token(question, &tokens[at]);
        cli_put_token(question, &tokens[at + 1]);
    }
    mp_put_str(question, "after");
    cli_put_token(question, last);
    return count >= 0 && !question->failed;
}

/* Adds what the member answers; *more: it has not told of the last row that is shown, and may if it
 * is asked with `behind`. */
static int ask_rows(struct cli *there, const struct mp_writer *question, struct telling *telling,
                    struct mp_writer *behind, bool *more)
{
    const struct totals *totals = telling->totals;
    struct cli_answer answer;
    const struct mp_token *last = NULL;
    ASSERT(totals->row_count > 0);
    const int code = cli_answer_ask(there, totals->command, question, there->timeout_ms, &answer);
    *more = code == 0 && add_answer(telling, &answer, &last) > 0 && last != NULL &&
            !telling->told[totals->row_count - 1] && ask_behind(question, last, behind);
    cli_answer_fini(&answer);
    return code;
}

/* What one member answers; one that has no such row has counted nothing of it. */
static bool ask_member(struct cli *there, const struct cli_member *member, void *argument)
{
    struct totals *totals = argument;
    struct telling telling = {totals, region_of(totals, member->region),
                              alloc_array(alloc_heap(), totals->row_count, sizeof(bool))};
    uint8_t bytes[2][QUESTION_LEN];
    struct mp_writer behind[2];
    const struct mp_writer *question = totals->question;
    bool more = telling.told != NULL;
    int code = TG_ENOMEM;
    for (uint32_t turn = 0; more; turn ^= 1) { /* a question is made of the one before */
        mp_writer_init(&behind[turn], bytes[turn], QUESTION_LEN);
        code = ask_rows(there, question, &telling, &behind[turn], &more);
        question = &behind[turn];
    }
    alloc_put(alloc_heap(), telling.told, totals->row_count * sizeof(bool));
    return code == 0 || code == TG_ENOTFOUND;
}

static void list_regions(struct totals *totals, const struct cli_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        const struct cli_member *member = &members->list[i];
        struct region *region = region_of(totals, member->region);
        const bool new = region == &totals->regions[REGIONS_MAX] && member->region[0] != '\0';
        if (new && totals->region_count < REGIONS_MAX) {
            region = &totals->regions[totals->region_count++];
            memcpy(region->name, member->region, sizeof region->name);
        }
        if (member->lost[0] != '\0')
            memcpy(region->since, member->lost, sizeof region->since);
    }
    ASSERT(totals->region_count <= REGIONS_MAX && totals->region_count <= members->count);
}

static void ask_members(const struct cli *cli, struct cli_members *members, struct totals *totals)
{
    list_regions(totals, members);
    cli_members_ask(cli, members, ask_member, totals);
    for (size_t i = 0; i < members->count; i++) {
        const struct cli_member *member = &members->list[i];
        struct region *region = region_of(totals, member->region);
        region->counted += member->answered;
        region->missing += !member->answered;
        if (!member->answered && totals->missing_count++ < MISSING_MAX)
            totals->missing[totals->missing_count - 1] = member->name;
    }
}

/* ---- showing --------------------------------------------------------------------------------- */

/* Writes the sum in the place of that field; false: it is none of them. */
static bool put_sum(struct mp_writer *writer, const struct mp_token *name, const struct sums *sums)
{
    for (size_t i = 0; i < FIELDS; i++) {
        if (cli_token_is(name, fields[i].name)) {
            mp_put_uint(writer, sums->values[i]);
            return true;
        }
        if (fields[i].text != NULL && cli_token_is(name, fields[i].text)) {
            mp_put_str(writer, sums->texts[i]);
            return true;
        }
    }
    return false;
}

static void put_missing(struct mp_writer *writer, const struct totals *totals)
{
    const uint32_t count =
        totals->missing_count < MISSING_MAX ? totals->missing_count : (uint32_t)MISSING_MAX;
    ASSERT(count <= MISSING_MAX && (count == 0 || totals->missing[count - 1] != NULL));
    mp_put_str(writer, "not_counted");
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++)
        mp_put_str(writer, totals->missing[i]);
}

/* The sums that the row at `at` has, of one region. */
static void put_region(struct mp_writer *writer, const struct totals *totals, size_t at,
                       const struct region *region)
{
    uint32_t pairs = 4;
    for (size_t i = 0; i < FIELDS; i++)
        pairs += cli_answer_value(totals->shown, at, fields[i].name) != NULL;
    mp_put_map(writer, pairs);
    mp_put_str(writer, "region");
    mp_put_str(writer, region->name);
    for (size_t i = 0; i < FIELDS; i++) {
        if (cli_answer_value(totals->shown, at, fields[i].name) == NULL)
            continue;
        mp_put_str(writer, fields[i].name);
        mp_put_uint(writer, region->sums.values[i]);
    }
    mp_put_str(writer, "members_counted");
    mp_put_uint(writer, region->counted);
    mp_put_str(writer, "members_not_counted");
    mp_put_uint(writer, region->missing);
    mp_put_str(writer, "unreachable_since");
    mp_put_str(writer, region->since);
}

static void put_regions(struct mp_writer *writer, const struct totals *totals, size_t at)
{
    mp_put_str(writer, "regions");
    mp_put_array(writer, totals->region_count);
    for (uint32_t i = 0; i < totals->region_count; i++)
        put_region(writer, totals, at, &totals->regions[i]);
}

/* The row at `at` with its sums; returns where the next one begins. */
static size_t put_row(struct mp_writer *writer, const struct totals *totals, size_t at,
                      const struct sums *sums, bool alone)
{
    const struct cli_answer *shown = totals->shown;
    ASSERT(at < shown->count && shown->tokens[at].type == MP_MAP);
    const uint32_t pairs = shown->tokens[at].count;
    const bool several = alone && totals->region_count > 1;
    const size_t row = at++;
    mp_put_map(writer, pairs + alone + several);
    for (uint32_t i = 0; i < pairs && at < shown->count; i++) {
        const size_t value = cli_token_next(shown, at);
        const size_t end = cli_token_next(shown, value);
        for (size_t k = at; k < value; k++)
            cli_put_token(writer, &shown->tokens[k]);
        if (!put_sum(writer, &shown->tokens[at], sums))
            for (size_t k = value; k < end; k++)
                cli_put_token(writer, &shown->tokens[k]);
        at = end;
    }
    if (alone)
        put_missing(writer, totals);
    if (several)
        put_regions(writer, totals, row);
    return at;
}

static void put_rows(struct mp_writer *writer, void *from)
{
    const struct totals *totals = from;
    size_t at;
    const size_t count = rows_of(totals->shown, &at);
    const bool alone = at == 0;
    ASSERT(count == totals->row_count);
    if (!alone)
        mp_put_array(writer, count);
    for (size_t i = 0; i < count && at < totals->shown->count; i++) {
        if (totals->shown->tokens[at].type == MP_MAP) {
            at = put_row(writer, totals, at, &totals->rows[i], alone);
            continue;
        }
        for (size_t end = cli_token_next(totals->shown, at); at < end; at++)
            cli_put_token(writer, &totals->shown->tokens[at]);
    }
}

/* Enough for all that put_rows writes. */
static size_t room_for(const struct totals *totals)
{
    enum { HEAD = 9 };
    return cli_answer_room(totals->shown) + (size_t)MISSING_MAX * (CLI_MEMBER_LEN + HEAD) + 64 +
           totals->region_count * (CLI_MEMBER_LEN + (FIELDS + 6) * (CLI_TIME_LEN + HEAD)) +
           totals->row_count * FIELDS * (CLI_TIME_LEN + HEAD);
}

static int show(struct cli *cli, struct totals *totals)
{
    const int status = cli_answer_show_made(cli, room_for(totals), put_rows, totals);
    if (totals->missing_count > 0)
        cli_complain("the totals are without those of %u of the members, which cannot be asked "
                     "now: %s%s",
                     totals->missing_count, totals->missing[0],
                     totals->missing_count > 1 ? " ..." : "");
    return status;
}

int cli_totals_show(struct cli *cli, const char *command, const char *key,
                    const struct mp_writer *question, const struct cli_answer *answer)
{
    struct totals totals = {.shown = answer,
                            .command = command,
                            .question = question,
                            .key = key,
                            .lock = PTHREAD_MUTEX_INITIALIZER};
    struct cli_members members;
    size_t first;
    totals.row_count = rows_of(answer, &first);
    if (totals.row_count == 0)
        return cli_answer_show(cli, answer);
    totals.rows = alloc_array(alloc_heap(), totals.row_count, sizeof *totals.rows);
    if (totals.rows == NULL)
        return cli_fail(cli, TG_ENOMEM, "out of memory");
    int status = cli_members_read(cli, &members);
    if (status == CLI_EXIT_OK) {
        ask_members(cli, &members, &totals);
        status = show(cli, &totals);
    }
    cli_members_fini(&members);
    alloc_put(alloc_heap(), totals.rows, totals.row_count * sizeof *totals.rows);
    return status;
}
