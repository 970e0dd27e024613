/* support_disk.h - disks for a lab of shards (support_shard.h): what a shard wrote back survives
 * it.
 *
 * While a lab has disks, batches of write-back are written with each tick in which they are due,
 * loads and listings are answered with the next tick, and lab_create gives back what is stored. A
 * disk that is stopped writes nothing.
 */
#ifndef TESTS_UNIT_SUPPORT_DISK_H
#define TESTS_UNIT_SUPPORT_DISK_H

#include "tests/unit/support_shard.h"

/* Gives every shard of the lab an empty disk; disks_fini before lab_free. */
void disks_init(struct lab *lab);
void disks_fini(struct lab *lab);
/* Lets the disk of shard `at` write, or not. */
void disks_stop(struct lab *lab, uint32_t at, bool stopped);
/* Runs the lab until everything of shard `at` is on disk. */
void disks_flush(struct lab *lab, uint32_t at);
/* Whether the disk of shard `at` has the slot. */
bool disks_have(const struct lab *lab, uint32_t at, uint32_t vnode, struct hash128 id);

/* Makes the slot that the disk has unreadable, until it is written again. */
void disks_spoil(struct lab *lab, uint32_t at, uint32_t vnode, struct hash128 id);

/* For support_shard.c: what a shard wants of its disk, and its turn of each tick. */
void disks_load(struct lab *lab, uint32_t at, uint32_t vnode, struct hash128 id);
void disks_list(struct lab *lab, uint32_t at, uint32_t vnode);
void disks_drop(struct lab *lab, uint32_t at, uint32_t vnode);
void disks_step(struct lab *lab, uint32_t at);
void disks_restore(struct lab *lab, uint32_t at);

#endif
