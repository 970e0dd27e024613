/* support_scratch.h - files and folders of a test, in the folder that TMPDIR names, else in /tmp.
 *
 * Who makes one removes it.
 */
#ifndef TESTS_UNIT_SUPPORT_SCRATCH_H
#define TESTS_UNIT_SUPPORT_SCRATCH_H

enum { SCRATCH_PATH_LEN = 128 };

/* The folder that they are in. */
const char *scratch_root(void);
/* Makes an empty file / a folder whose name begins with `name`; 0, or -1 with nothing made. */
int scratch_file(char path[SCRATCH_PATH_LEN], const char *name);
int scratch_folder(char path[SCRATCH_PATH_LEN], const char *name);

#endif
