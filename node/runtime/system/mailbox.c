/* mailbox.c - a bounded queue of messages under a mutex; mailbox.h tells who writes to whom. */
#include "node/runtime/system/mailbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* What clients ask, and what they are answered. */
static bool is_asked(const struct mailbox_message *message)
{
    return message->kind == MESSAGE_ADMIN || message->kind == MESSAGE_REPLY;
}

int mailbox_init(struct mailbox *mailbox, uv_async_t *wake)
{
    memset(mailbox, 0, sizeof *mailbox);
    mailbox->wake = wake;
    mailbox->messages = calloc(MAILBOX_MESSAGES_MAX, sizeof *mailbox->messages);
    if (mailbox->messages == NULL)
        return TG_ENOMEM;
    if (pthread_mutex_init(&mailbox->lock, NULL) == 0)
        return 0;
    free(mailbox->messages);
    mailbox->messages = NULL;
    return TG_ENOMEM;
}

void mailbox_fini(struct mailbox *mailbox)
{
    struct mailbox_message message;
    if (mailbox->messages == NULL)
        return;
    while (mailbox_take(mailbox, &message))
        if (is_asked(&message))
            free(message.pointer);
    (void)pthread_mutex_destroy(&mailbox->lock);
    free(mailbox->messages);
    mailbox->messages = NULL;
}

static_assert(MAILBOX_KEPT < MAILBOX_MESSAGES_MAX / 2, "most places are for what is asked");

bool mailbox_put(struct mailbox *mailbox, const struct mailbox_message *message)
{
    const bool asked = is_asked(message);
    const uint32_t places = MAILBOX_MESSAGES_MAX - (asked ? MAILBOX_KEPT : 0);
    (void)pthread_mutex_lock(&mailbox->lock);
    ASSERT(mailbox->first < MAILBOX_MESSAGES_MAX && mailbox->count <= MAILBOX_MESSAGES_MAX);
    const bool room = mailbox->count < places;
    if (room)
        mailbox->messages[(mailbox->first + mailbox->count++) % MAILBOX_MESSAGES_MAX] = *message;
    else
        mailbox->refused++;
    ASSERT(mailbox->count <= places || !room); /* MAILBOX-2 */
    (void)pthread_mutex_unlock(&mailbox->lock);
    if (room)
        (void)uv_async_send(mailbox->wake);
    return room;
}

bool mailbox_put_copy(struct mailbox *mailbox, enum mailbox_message_kind kind, uint32_t shard,
                      uint64_t number, const void *data, size_t len)
{
    struct mailbox_message message = {.kind = kind, .shard = shard, .number = number, .len = len};
    message.pointer = malloc(len > 0 ? len : 1);
    if (message.pointer == NULL)
        return false;
    memcpy(message.pointer, data, len);
    if (mailbox_put(mailbox, &message))
        return true;
    free(message.pointer);
    return false;
}

bool mailbox_take(struct mailbox *mailbox, struct mailbox_message *out)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    const bool some = mailbox->count > 0;
    if (some) {
        ASSERT(mailbox->first < MAILBOX_MESSAGES_MAX && mailbox->count <= MAILBOX_MESSAGES_MAX);
        *out = mailbox->messages[mailbox->first];
        mailbox->first = (mailbox->first + 1) % MAILBOX_MESSAGES_MAX;
        mailbox->count--;
    }
    (void)pthread_mutex_unlock(&mailbox->lock);
    return some;
}

static bool hands_over(const struct mailbox_message *message)
{
    return is_asked(message) || message->kind == MESSAGE_VIEW || message->kind == MESSAGE_POLICY;
}

void mailbox_check_invariants(struct mailbox *mailbox)
{
    uint32_t asked = 0;
    (void)pthread_mutex_lock(&mailbox->lock);
    INVARIANT("MAILBOX-1", mailbox->count <= MAILBOX_MESSAGES_MAX);
    INVARIANT("MAILBOX-1", mailbox->first < MAILBOX_MESSAGES_MAX);
    for (uint32_t i = 0; i < mailbox->count; i++) {
        const struct mailbox_message *message =
            &mailbox->messages[(mailbox->first + i) % MAILBOX_MESSAGES_MAX];
        INVARIANT("MAILBOX-1", (unsigned)message->kind <= MESSAGE_USAGE);
        INVARIANT("MAILBOX-1", !hands_over(message) || message->pointer != NULL);
        asked += is_asked(message);
    }
    INVARIANT("MAILBOX-2", asked <= MAILBOX_MESSAGES_MAX - MAILBOX_KEPT);
    (void)pthread_mutex_unlock(&mailbox->lock);
}
