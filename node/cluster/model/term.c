/* term.c - ordering and opening of terms; term.h tells what they are for.
 *
 * The epoch counts first, so that a term of an older ring configuration can never outrank one of
 * a newer; the number next; the writer only breaks ties between openings that did not see each
 * other. Pure.
 */
#include "node/cluster/model/term.h"

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

int term_compare(const struct term *a, const struct term *b)
{
    if (a->epoch != b->epoch)
        return compare(a->epoch, b->epoch);
    if (a->number != b->number)
        return compare(a->number, b->number);
    return compare(a->writer, b->writer);
}

struct term term_above(const struct term *seen, uint64_t epoch, uint64_t writer,
                       uint64_t incarnation)
{
    const uint64_t round = (seen->number >> TERM_INCARNATION_BITS) + 1;
    const uint64_t place = incarnation & ((UINT64_C(1) << TERM_INCARNATION_BITS) - 1);
    struct term next = {
        .epoch = epoch > seen->epoch ? epoch : seen->epoch,
        .number = round << TERM_INCARNATION_BITS | place,
        .writer = writer,
    };
    return next;
}
