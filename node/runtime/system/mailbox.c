/* mailbox.c - a bounded queue of letters under a mutex; mailbox.h tells who writes to whom. */
#include "node/runtime/system/mailbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* What clients ask, and what they are answered. */
static bool is_asked(const struct letter *letter)
{
    return letter->kind == LETTER_ADMIN || letter->kind == LETTER_REPLY;
}

int mailbox_init(struct mailbox *mailbox, uv_async_t *wake)
{
    memset(mailbox, 0, sizeof *mailbox);
    mailbox->wake = wake;
    mailbox->letters = calloc(MAILBOX_LETTERS_MAX, sizeof *mailbox->letters);
    if (mailbox->letters == NULL)
        return TG_ENOMEM;
    if (pthread_mutex_init(&mailbox->lock, NULL) == 0)
        return 0;
    free(mailbox->letters);
    mailbox->letters = NULL;
    return TG_ENOMEM;
}

void mailbox_fini(struct mailbox *mailbox)
{
    struct letter letter;
    if (mailbox->letters == NULL)
        return;
    while (mailbox_take(mailbox, &letter))
        if (is_asked(&letter))
            free(letter.pointer);
    (void)pthread_mutex_destroy(&mailbox->lock);
    free(mailbox->letters);
    mailbox->letters = NULL;
}

static_assert(MAILBOX_KEPT < MAILBOX_LETTERS_MAX / 2, "most places are for what is asked");

bool mailbox_put(struct mailbox *mailbox, const struct letter *letter)
{
    const bool asked = is_asked(letter);
    const uint32_t places = MAILBOX_LETTERS_MAX - (asked ? MAILBOX_KEPT : 0);
    (void)pthread_mutex_lock(&mailbox->lock);
    ASSERT(mailbox->first < MAILBOX_LETTERS_MAX && mailbox->count <= MAILBOX_LETTERS_MAX);
    const bool room = mailbox->count < places;
    if (room)
        mailbox->letters[(mailbox->first + mailbox->count++) % MAILBOX_LETTERS_MAX] = *letter;
    else
        mailbox->refused++;
    (void)pthread_mutex_unlock(&mailbox->lock);
    if (room)
        (void)uv_async_send(mailbox->wake);
    return room;
}

bool mailbox_put_copy(struct mailbox *mailbox, enum letter_kind kind, uint32_t shard,
                      uint64_t number, const void *data, size_t len)
{
    struct letter letter = {.kind = kind, .shard = shard, .number = number, .len = len};
    letter.pointer = malloc(len > 0 ? len : 1);
    if (letter.pointer == NULL)
        return false;
    memcpy(letter.pointer, data, len);
    if (mailbox_put(mailbox, &letter))
        return true;
    free(letter.pointer);
    return false;
}

bool mailbox_take(struct mailbox *mailbox, struct letter *out)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    const bool some = mailbox->count > 0;
    if (some) {
        ASSERT(mailbox->first < MAILBOX_LETTERS_MAX); /* MAILBOX-1 */
        *out = mailbox->letters[mailbox->first];
        mailbox->first = (mailbox->first + 1) % MAILBOX_LETTERS_MAX;
        mailbox->count--;
    }
    (void)pthread_mutex_unlock(&mailbox->lock);
    return some;
}

static bool hands_over(const struct letter *letter)
{
    return is_asked(letter) || letter->kind == LETTER_VIEW || letter->kind == LETTER_POLICY;
}

void mailbox_check_invariants(struct mailbox *mailbox)
{
    uint32_t asked = 0;
    (void)pthread_mutex_lock(&mailbox->lock);
    INVARIANT("MAILBOX-1", mailbox->count <= MAILBOX_LETTERS_MAX);
    INVARIANT("MAILBOX-1", mailbox->first < MAILBOX_LETTERS_MAX);
    for (uint32_t i = 0; i < mailbox->count; i++) {
        const struct letter *letter = &mailbox->letters[(mailbox->first + i) % MAILBOX_LETTERS_MAX];
        INVARIANT("MAILBOX-1", (unsigned)letter->kind <= LETTER_USAGE);
        INVARIANT("MAILBOX-1", !hands_over(letter) || letter->pointer != NULL);
        asked += is_asked(letter);
    }
    INVARIANT("MAILBOX-2", asked <= MAILBOX_LETTERS_MAX - MAILBOX_KEPT);
    (void)pthread_mutex_unlock(&mailbox->lock);
}
