/* container.h - how much of the machine the process may use: processors, and memory.
 *
 *   /proc/self/cgroup      "4:memory:/pod/box"          which group it is in
 *   /proc/self/mountinfo   "/pod /sys/fs/cgroup/memory" where groups are seen, and from which on
 *            |
 *            v
 *   /sys/fs/cgroup/memory/box, /sys/fs/cgroup/memory    the smallest limit on the way counts
 *
 * Version 2 of control groups has `cpu.max` and `memory.max`, version 1 `cpu.cfs_quota_us` with
 * `cpu.cfs_period_us` and `memory.limit_in_bytes`. A machine may have both, each controller in one.
 *
 * CONTAINER-1  What is missing, or is no such number, limits nothing: a limit is only ever made
 *              smaller, by a number that was read.
 * CONTAINER-2  A limit of memory that is not below what the machine has is none. (Version 1 says 9
 *              exabytes where there is none.)
 *
 * Files are read when the process starts, and never again. One thread.
 */
#ifndef NODE_RUNTIME_SYSTEM_CONTAINER_H
#define NODE_RUNTIME_SYSTEM_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONTAINER_TEXT_LEN = 256 };

struct container {
    uint32_t processors;  /* that the process may run on; 0: it is not known */
    uint32_t cpu_milli;   /* thousandths of a processor that it may use; 0: no limit */
    uint64_t memory_max;  /* bytes; 0: no limit */
    uint64_t memory_here; /* bytes that the machine has; 0: it is not known */
};

/* Reads the files below `root`, "" for those of the machine, and asks the system for processors.
 * Never fails (CONTAINER-1). */
void container_look(const char *root, struct container *out);

/* Thousandths of a processor that can be used: affinity and limit together; 0 if neither is known.
 * Pure. */
uint32_t container_usable_milli(const struct container *container);

/* Whether a thread may look again and again for who is about to ask: not with less than two
 * processors, where it keeps the client from running, or uses up the time that is left. Pure. */
bool container_may_poll(const struct container *container);

/* One of so many equal parts of the memory there is, 0 without a limit. Pure. */
uint64_t container_share(const struct container *container, uint32_t parts);

/* Where there is little memory (CONTAINER_SMALL), the system is told that the process wants no huge
 * pages: it gives 2 MiB to who touches a byte. */
#define CONTAINER_SMALL (UINT64_C(512) << 20)
void container_settle(const struct container *container);

/* What was found, as a part of a sentence, cut to CONTAINER_TEXT_LEN with its NUL; returns `out`.
 * Pure. */
const char *container_text(const struct container *container, char out[CONTAINER_TEXT_LEN]);

/* Thousandths of a processor that `cpu.max` allows, 0 for no limit: "max 100000", "50000 100000".
 * At least 1 where there is a limit. Pure. */
uint32_t container_cpu_max(const char *text);
/* The same of two files of version 1: "-1" is no limit. Pure. */
uint32_t container_cpu_quota(const char *quota, const char *period);
/* Bytes that `memory.max` or `memory.limit_in_bytes` allows, 0 for no limit. Pure. */
uint64_t container_memory_max(const char *text);
/* Of the text of /proc/meminfo, the bytes that the machine has, 0 if it does not say. Pure. */
uint64_t container_memory_total(const char *text);

#endif
