/* view.c - building and reading views; view.h tells what they are and their invariants. Pure. */
#include "node/cluster/model/view.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/quantity.h"
#include "base/search.h"

static_assert((int)VIEW_REPLICATION_MAX <= (int)RING_REPLICAS_MAX,
              "the ring can place every replica");

static void sort_members(struct view_member *members, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) { /* insertion: the list is short and mostly sorted */
        const struct view_member member = members[i];
        uint32_t at = i;
        for (; at > 0 && members[at - 1].id > member.id; at--)
            members[at] = members[at - 1];
        members[at] = member;
    }
}

static int copy_members(struct view *view, const struct view_member *members, uint32_t count,
                        uint64_t self_id)
{
    view->members = alloc_array(view->allocator, count, sizeof *members);
    if (view->members == NULL)
        return TG_ENOMEM;
    view->member_count = count;
    memcpy(view->members, members, count * sizeof *members);
    sort_members(view->members, count);
    for (uint32_t i = 0; i < count; i++) {
        if (view->members[i].id == self_id) {
            view->self = i;
            return 0;
        }
    }
    return TG_EINVALID;
}

int view_new(const struct allocator *allocator, uint64_t version, const struct view_member *members,
             uint32_t member_count, uint64_t self_id, const struct ring_config *config,
             struct view **out)
{
    ASSERT(config->replicas <= VIEW_REPLICATION_MAX);
    *out = NULL;
    struct view *view = alloc_get(allocator, sizeof *view);
    if (view == NULL)
        return TG_ENOMEM;
    view->allocator = allocator;
    view->version = version;
    view->epoch = config->epoch;
    view->vnodes = config->vnodes;
    view->replicas = config->replicas;
    view->stable = ring_config_is_stable(config);
    int error = copy_members(view, members, member_count, self_id);
    if (error == 0)
        error = ring_table_init(&view->from, allocator, config->from, config->from_count,
                                config->vnodes, config->replicas);
    if (error == 0 && view->stable)
        error = ring_table_copy(&view->to, allocator, &view->from);
    else if (error == 0)
        error = ring_table_init(&view->to, allocator, config->to, config->to_count, config->vnodes,
                                config->replicas);
    if (error == 0)
        *out = view;
    else
        view_free(&view);
    return error;
}

int view_again(const struct allocator *allocator, uint64_t version,
               const struct view_member *members, uint32_t member_count, uint64_t self_id,
               const struct view *like, struct view **out)
{
    *out = NULL;
    struct view *view = alloc_get(allocator, sizeof *view);
    if (view == NULL)
        return TG_ENOMEM;
    view->allocator = allocator;
    view->version = version;
    view->epoch = like->epoch;
    view->vnodes = like->vnodes;
    view->replicas = like->replicas;
    view->stable = like->stable;
    int error = copy_members(view, members, member_count, self_id);
    if (error == 0)
        error = ring_table_copy(&view->from, allocator, &like->from);
    if (error == 0)
        error = ring_table_copy(&view->to, allocator, &like->to);
    if (error == 0)
        *out = view;
    else
        view_free(&view);
    return error;
}

void view_free(struct view **pointer)
{
    struct view *view = *pointer;
    *pointer = NULL;
    if (view == NULL)
        return;
    ring_table_fini(&view->from);
    ring_table_fini(&view->to);
    alloc_put(view->allocator, view->members, view->member_count * sizeof *view->members);
    alloc_put(view->allocator, view, sizeof *view);
}

bool view_is_remote(const struct view *view, const struct view_member *member)
{
    ASSERT(view->self < view->member_count); /* VIEW-1 */
    return strcmp(member->region, view->members[view->self].region) != 0;
}

const struct view_member *view_find(const struct view *view, uint64_t id)
{
    if (view->member_count == 0)
        return NULL;
    const uint32_t at =
        search_ids(&view->members->id, sizeof *view->members, view->member_count, id);
    return at != SEARCH_NONE ? &view->members[at] : NULL;
}

uint32_t view_up(const struct view *view)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const enum view_state state = view->members[i].state;
        count += state == VIEW_ALIVE || state == VIEW_SUSPECT || i == view->self;
    }
    return count;
}

static uint32_t append_replicas(const struct ring_table *table, uint32_t vnode, uint64_t *out,
                                uint32_t count)
{
    uint32_t replicas;
    const uint16_t *list = ring_replicas(table, vnode, &replicas);
    for (uint32_t i = 0; i < replicas; i++) {
        const uint64_t id = ring_member_id(table, list[i]);
        uint32_t known = 0;
        while (known < count && out[known] != id)
            known++;
        if (known == count)
            out[count++] = id;
    }
    return count;
}

uint32_t view_replica_set(const struct view *view, uint32_t vnode, uint64_t out[VIEW_REPLICAS_MAX])
{
    const uint32_t count = append_replicas(&view->to, vnode, out, 0);
    return view->stable ? count : append_replicas(&view->from, vnode, out, count);
}

uint32_t view_owned(const struct view *view, uint64_t id)
{
    const int index = ring_index_of(&view->to, id);
    return index < 0 ? 0 : ring_owned_count(&view->to, (uint32_t)index);
}

const char *view_state_name(enum view_state state)
{
    static const char *const names[] = {"alive", "suspect", "dead", "left"};
    return names[state];
}

int view_shard_endpoint(const char *base, uint16_t shard, char out[VIEW_TEXT_LEN])
{
    const char *colon = strrchr(base, ':');
    uint64_t port;
    char error[QUANTITY_ERROR_LEN];
    if (colon == NULL || quantity_parse_uint(colon + 1, UINT16_MAX, &port, error) != 0)
        return TG_EINVALID;
    port += (uint64_t)shard * VIEW_SHARD_PORT_STEP;
    const int len =
        snprintf(out, VIEW_TEXT_LEN, "%.*s:%u", (int)(colon - base), base, (unsigned)port);
    return port <= UINT16_MAX && len > 0 && len < VIEW_TEXT_LEN ? 0 : TG_EINVALID;
}

static void check_set(const struct view *view, uint32_t vnode)
{
    uint64_t ids[VIEW_REPLICAS_MAX];
    const uint32_t count = view_replica_set(view, vnode, ids);
    INVARIANT("VIEW-3", count > 0 && count <= VIEW_REPLICAS_MAX);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            INVARIANT("VIEW-3", ids[k] != ids[i]);
}

void view_check_invariants(const struct view *view)
{
    INVARIANT("VIEW-1", view->self < view->member_count);
    INVARIANT("VIEW-1", view->member_count <= VIEW_MEMBERS_MAX);
    for (uint32_t i = 1; i < view->member_count; i++)
        INVARIANT("VIEW-1", view->members[i - 1].id < view->members[i].id);
    INVARIANT("VIEW-2", view->regions.count <= VIEW_REGIONS_MAX);
    for (uint32_t vnode = 0; vnode < view->vnodes; vnode++)
        check_set(view, vnode);
}
