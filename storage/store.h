/* store.h - what survives a crash: limiter state, promises, identity, in two LMDB environments.
 *
 *     DIR/LOCK             held (flock) by the one process that has the store open
 *     DIR/meta/data.mdb    durable at once: identity, incarnation, key -> value, and the journal
 *     DIR/state/data.mdb   limiter slots in packed chunks, written back every flush interval
 *
 * STORE-1  A write function that returned 0 is on disk (full sync). One that failed changed
 *          nothing; only after TG_EIO it may be there, whole: the disk did not say.
 * STORE-2  A vnode's header and its records are of the same write: they change in one transaction.
 * STORE-3  After TG_EFULL or TG_EIO the store stays usable; the same call may succeed later.
 * STORE-4  Nothing is served from bytes that fail their checksum: TG_ECORRUPT, and the vnode is
 *          named by store_last_error.
 * STORE-5  No pointer into the database leaves a call, but for the arguments of a callback while it
 *          runs.
 *
 * Threads. The store starts none and never calls back from another one. State writes (store_write,
 * store_purge, store_maintain) come from one writer thread. Reads (store_read_*, store_scan,
 * store_list, store_vnode_header) may come from any other threads at the same time, and so may the
 * meta functions and the journal's: they have their own environment and never wait for a state
 * write. Only store_journal_expire belongs to one thread. store_open and
 * store_close are alone.
 *
 * Ephemeral mode: the caller runs with no store at all (a NULL pointer that it never passes here).
 */
#ifndef STORAGE_STORE_H
#define STORAGE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "storage/store_values.h"

struct store;

/* Opens the store in `dir`, creating directory and environments when there are none.
 * `options` may be NULL for defaults. On failure *out is NULL and `error` names the directory, what
 * is wrong and what was expected: TG_EEXISTS   another process (or this one) has the store open
 *   TG_ECORRUPT  not a store, truncated, a page outside the file, one of the two environments
 *                missing or of length 0, or identity damaged or missing
 *   TG_EVERSION  another on-disk format
 *   TG_EFULL TG_EIO TG_ENOMEM TG_EINVALID (path too long)
 * Dead readers of an earlier crash are cleared. */
int store_open(const char *dir, const struct store_options *options, struct store **out,
               char error[STORE_ERROR_LEN]) MUST_USE;
/* Closes and frees, and sets *store to NULL. NULL is allowed. No other call may be running. */
void store_close(struct store **store);

/* Copies the text of the most recent failure ("" if there was none): directory, operation, vnode.
 */
void store_last_error(struct store *store, char error[STORE_ERROR_LEN]);

/* Takes an unusable store out of the way, into a fresh sibling folder DIR.set-aside-N (where it
 * cannot be moved there, DIR/set-aside-N), so that a new one can start in `dir`; nothing is
 * deleted. The state is moved. Meta values stay, with a copy in the folder, if every one of them
 * and of the journal's records can be read: *meta_kept; the node then goes on under its id.
 * Otherwise they are moved as well: the next store begins without identity, and so does its node,
 * because it no longer knows what it promised under the old one; with `must_keep` that is refused
 * with TG_ECORRUPT and nothing is moved. `moved_to` gets the folder's path (capacity bytes).
 * TG_EEXISTS if the store is open somewhere, TG_ENOTFOUND if there is nothing to move, TG_EIO,
 * TG_EFULL, TG_EINVALID. */
int store_set_aside(const char *dir, bool must_keep, bool *meta_kept, char *moved_to,
                    size_t capacity, char error[STORE_ERROR_LEN]) MUST_USE;

/* Writes a consistent, compact copy of both environments into the existing, empty directory `dir`,
 * while the store serves. The copy opens as a store; what the original promises after it was made,
 * it does not know, so a node must not go on from it under its old id. Blocks for as long as the
 * copy takes and keeps pages of the moment from reuse; any thread but the reader's. TG_EIO,
 * TG_EFULL, TG_EEXISTS (not empty). */
int store_backup(struct store *store, const char *dir) MUST_USE;

/* ---- meta: small values, durable when the call returns ------------------------------------ */

/* The identity; TG_ENOTFOUND in a new store. */
int store_identity_get(struct store *store, struct store_identity *out) MUST_USE;
/* Sets the identity; do it before the first store_write, because a store with state and without
 * identity is refused when it opens. It is written once: the same one again is 0, a different one
 * TG_ECONFLICT. TG_EINVALID for node id 0 or a V or R out of range. */
int store_identity_put(struct store *store, const struct store_identity *identity) MUST_USE;

/* Raises the incarnation by one, durably, and returns it: 1 in a new store; never one twice. */
int store_next_incarnation(struct store *store, uint64_t *incarnation) MUST_USE;
/* Makes the stored incarnation at least `at_least`, durably (after a refutation). */
int store_raise_incarnation(struct store *store, uint64_t at_least) MUST_USE;

/* Copies the value of `key` into `buffer`; *len gets its length, even if it is TG_ETOOBIG for
 * `capacity` (then nothing is copied). TG_ENOTFOUND, TG_EINVALID (key), TG_EIO. */
int store_meta_get(struct store *store, const char *key, void *buffer, size_t capacity,
                   size_t *len) MUST_USE;
/* Sets one value; data NULL removes the key. TG_EINVALID, TG_ETOOBIG, TG_EFULL, TG_EIO. */
int store_meta_put(struct store *store, const char *key, const void *data, size_t len) MUST_USE;

/* Sets all or none: one transaction, one sync (group commit). */
int store_meta_put_many(struct store *store, const struct store_meta_item *items,
                        size_t count) MUST_USE;
/* Calls `item` for every key that begins with `prefix`, in byte order; key and value live during
 * the call. A non-zero return ends the scan and is returned. `item` must not call the store. */
int store_meta_scan(struct store *store, const char *prefix,
                    int (*item)(void *context, const char *key, const void *data, size_t len),
                    void *context) MUST_USE;

/* ---- state: limiter slots by vnode --------------------------------------------------------- */

/* Writes all batches in ONE transaction: per vnode drop_all, then header, then every record put in
 * its place. A record that has expired by `now_ms` removes what was stored under its id (that is
 * how a slot is reset). Expired neighbours in a touched chunk go as well. A vnode may occur in
 * several batches; they apply in order. Keep a call's states within ~8 MiB. TG_EFULL (disk or map
 * bound), TG_EIO, TG_ECORRUPT, TG_ETOOBIG, TG_EINVALID, TG_ENOMEM: nothing was written. Writer
 * thread. Blocks for the sync. */
int store_write(struct store *store, const struct store_vnode_batch *batches, size_t count,
                uint64_t now_ms) MUST_USE;

/* The vnode's header; TG_ENOTFOUND if it has none. */
int store_vnode_header(struct store *store, uint32_t vnode,
                       struct store_vnode_header *out) MUST_USE;

/* Fetches `count` slots in one read transaction; states are copied one after the other into
 * `buffer`. Sorting by (vnode, id) makes it faster, not different. Expired slots are returned as
 * they are stored. 0 if the transaction ran (look at each result), else TG_EIO, TG_ENOMEM. */
int store_read_slots(struct store *store, struct store_slot_read *reads, size_t count, void *buffer,
                     size_t capacity) MUST_USE;
/* One slot: 0, TG_ENOTFOUND, TG_ETOOBIG, TG_ECORRUPT, TG_EIO. out->state points into `buffer`. */
int store_read_slot(struct store *store, uint32_t vnode, struct hash128 id, void *buffer,
                    size_t capacity, struct store_record *out) MUST_USE;

/* Streams `vnode`, or every vnode that has a header or records (STORE_VNODE_ALL), in ascending
 * order, each in one read transaction of its own. TG_ECORRUPT ends it.
 *
 * `records` gets those of one vnode in id order, a chunk a call; `header` is NULL if the vnode has
 * none; `last` marks the vnode's final call (count may be 0 then). What it gets lives during the
 * call only. A non-zero return ends the scan and is returned. It must not call the store. */
int store_scan(struct store *store, uint32_t vnode,
               int (*records)(void *context, uint32_t vnode,
                              const struct store_vnode_header *header,
                              const struct store_record *records, size_t count, bool last),
               void *context) MUST_USE;

/* Writes the next ids stored of the listing's vnode, in order, into `ids`: `*count` of them, at
 * most `capacity` (>= 1), without those expired by `now_ms`. Each call is a transaction of its own,
 * so that pages freed meanwhile are soon reused: an id that is stored from before the first call
 * until after the last one is listed. On failure nothing is: TG_EIO, TG_ENOMEM, TG_ECORRUPT. */
int store_list(struct store *store, struct store_listing *listing, uint64_t now_ms,
               struct hash128 *ids, size_t capacity, size_t *count) MUST_USE;

/* Removes expired records and joins small neighbouring chunks, in at most about `chunks_max` chunks
 * and one transaction, continuing where the last call stopped. For every vnode finished by this
 * call `left` (may be NULL) gets the ids that remain, after the commit, in order, at most
 * STORE_IDS_MAX a call, so that a filter can be rebuilt; `last` marks the vnode's final call (count
 * may be 0). The same errors as store_write. Writer thread. */
int store_purge(struct store *store, uint64_t now_ms, uint32_t chunks_max,
                void (*left)(void *context, uint32_t vnode, const struct hash128 *ids, size_t count,
                             bool last),
                void *context, struct store_purge_result *out) MUST_USE;

/* ---- journal: what consistency `quorum` may not forget, durable when the call returns ---------
 */

/* Writes all records or none in one transaction with one sync (group commit). They apply in order:
 * of one slot twice the last counts; a promise below the stored one changes nothing. Any thread but
 * a reader's callback. TG_EFULL, TG_EIO, TG_ECORRUPT (a stored promise), TG_ETOOBIG, TG_EINVALID:
 * nothing was written (after TG_EIO: all or nothing). */
int store_journal_write(struct store *store, const struct store_journal_record *records,
                        size_t count) MUST_USE;

/* Calls `record` for each record, by vnode, then promise, header, slots by id; what it gets lives
 * during the call. A non-zero return ends the scan and is returned. `record` must not call the
 * store. In one read transaction, so for the start. TG_ECORRUPT, with the vnode in the error text,
 * ends it; so do TG_EVERSION and TG_EIO. */
int store_journal_scan(struct store *store,
                       int (*record)(void *context, const struct store_journal_record *record),
                       void *context) MUST_USE;

/* As store_read_slots, store_read_slot and store_list, of the journal's slots. */
int store_journal_read(struct store *store, struct store_slot_read *reads, size_t count,
                       void *buffer, size_t capacity) MUST_USE;
int store_journal_get(struct store *store, uint32_t vnode, struct hash128 id, void *buffer,
                      size_t capacity, struct store_record *out) MUST_USE;
int store_journal_list(struct store *store, struct store_listing *listing, uint64_t now_ms,
                       struct hash128 *ids, size_t capacity, size_t *count) MUST_USE;

/* Forgets header and slots of `vnode` in one transaction. Its promise stays, and is raised to the
 * term of the header: should this node hold
 * the vnode again, it must not accept what it had ruled out. Errors as store_journal_write. */
int store_journal_drop(struct store *store, uint32_t vnode) MUST_USE;

/* Removes slots that expired by `now_ms` among the next `records_max` records, in one transaction,
 * continuing where the last call stopped. Errors as store_journal_write. One thread. */
int store_journal_expire(struct store *store, uint64_t now_ms, uint32_t records_max,
                         struct store_journal_expiry *out) MUST_USE;

/* ---- upkeep --------------------------------------------------------------------------------- */

/* Clears readers left by dead processes; call it each minute on the writer thread. */
int store_maintain(struct store *store) MUST_USE;

/* Any thread. */
void store_stats(struct store *store, struct store_stats *out);

#endif
