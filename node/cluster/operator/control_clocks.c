/* control_clocks.c - status: the clocks of the members of this region, as measured. */
#include "node/cluster/operator/control_answer.h"

enum { MEMBER_FIELDS = 8 };

static void put_field_int(struct mp_writer *writer, const char *name, int64_t value)
{
    mp_put_str(writer, name);
    mp_put_int(writer, value);
}

static void put_member(const struct control *control, const struct cluster_time_member *member,
                       struct mp_writer *writer)
{
    const struct swim_member *known = swim_find(control->swim, member->id);
    mp_put_map(writer, MEMBER_FIELDS);
    put_field_hex(writer, "node_id", member->id);
    put_field_str(writer, "node", known != NULL ? known->record.name : "");
    put_field_str(writer, "verdict", cluster_time_verdict_name(member->verdict));
    put_field_bool(writer, "held", member->held);
    put_field_int(writer, "time_ns", member->skew_ns);
    put_field_int(writer, "wall_ns", member->wall_skew_ns);
    put_field_int(writer, "error_ns", (member->high_ns - member->low_ns) / 2);
    put_field_bool(writer, "in_ring", member->listed);
}

void control_put_clock(const struct control *control, struct mp_writer *writer)
{
    const struct cluster_time_member *member;
    uint32_t count = 0;
    uint32_t cursor = 0;
    while ((member = cluster_time_next(control->time, &cursor)) != NULL)
        count += swim_find(control->swim, member->id) != NULL && count < CLOCKS_SHOWN_MAX;
    mp_put_str(writer, "clock");
    mp_put_map(writer, 5);
    put_field_int(writer, "wall_ns", control->wall_ns);
    put_field_int(writer, "slew_to_ns", cluster_time_target_ns(control->time));
    put_field_bool(writer, "agreed", cluster_time_agreed(control->time));
    put_field_bool(writer, "divided", cluster_time_divided(control->time));
    mp_put_str(writer, "members");
    mp_put_array(writer, count);
    cursor = 0;
    for (uint32_t put = 0; put < count && (member = cluster_time_next(control->time, &cursor));)
        if (swim_find(control->swim, member->id) != NULL) {
            put_member(control, member, writer);
            put++;
        }
}
