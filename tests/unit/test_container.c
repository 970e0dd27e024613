/* test_container.c - limits of a container, from files as real machines have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/runtime/system/container.h"
#include "tests/unit/support_scratch.h"

#define MIB       (UINT64_C(1) << 20)
#define COUNT(of) (sizeof(of) / sizeof((of)[0]))
#define V1_NONE   "9223372036854771712\n"
#define MEMINFO   "MemTotal:       16330724 kB\nMemFree:         8000000 kB\n"
#define V2_MOUNT  "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNTS                                                                                  \
    "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"                                   \
    "31 30 0:27 / /sys/fs/cgroup/cpuset rw shared:10 - cgroup cgroup rw,cpuset\n"                  \
    "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:11 - cgroup cgroup rw,cpu,cpuacct\n"        \
    "33 30 0:29 / /sys/fs/cgroup/memory rw shared:12 - cgroup cgroup rw,memory\n"

enum { FILES_MAX = 8 };

static void numbers_are_read_as_kernels_write_them(void **state)
{
    static const struct {
        const char *text;
        uint32_t milli;
    } quotas[] = {
        {"max 100000\n", 0},
        {"50000 100000\n", 500},
        {"50000 100000", 500},
        {"150000 100000", 1500},
        {"1000 1000000", 1},
        {"1 1000000", 1},
        {"", 0},
        {"\n", 0},
        {"max", 0},
        {"50000", 0},
        {"50000 0", 0},
        {"0 100000", 0},
        {"-1 100000", 0},
        {"50000 -1", 0},
        {"5e4 100000", 0},
        {"50000x 100000", 0},
        {"50000 100000x", 0},
        {"99999999999999999999 100000", 0},
        {"18446744073709551615 1", 0},
        {"9000000000000 1", 0},
        {"garbage here", 0},
    };
    static const struct {
        const char *text;
        uint64_t bytes;
    } memory[] = {
        {"max\n", 0},
        {"134217728\n", 128 * MIB},
        {"134217728", 128 * MIB},
        {"", 0},
        {"\n", 0},
        {"-1\n", 0},
        {"128M\n", 0},
        {"0x100\n", 0},
        {"lots of it", 0},
        {V1_NONE, UINT64_C(9223372036854771712)},
        {"99999999999999999999\n", 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(quotas); i++)
        assert_int_equal(container_cpu_max(quotas[i].text), quotas[i].milli);
    for (size_t i = 0; i < COUNT(memory); i++)
        assert_true(container_memory_max(memory[i].text) == memory[i].bytes);
    assert_int_equal(container_cpu_quota("-1\n", "100000\n"), 0);
    assert_int_equal(container_cpu_quota("25000\n", "50000\n"), 500);
    assert_int_equal(container_cpu_quota("25000\n", ""), 0);
    assert_true(container_memory_total(MEMINFO) == UINT64_C(16330724) * 1024);
    assert_true(container_memory_total("MemFree: 5 kB\n") == 0);
    assert_true(container_memory_total("MemTotal: ") == 0);
}

struct machine {
    const char *what;
    const char *files[FILES_MAX][2]; /* path, text; up to NULL */
    uint32_t cpu_milli;
    uint64_t memory_max;
};

static const struct machine machines[] = {
    {"no files", {{NULL}}, 0, 0},
    {"version 2, no limit: the root has no such files",
     {{"/proc/self/cgroup", "0::/\n"}, {"/proc/self/mountinfo", V2_MOUNT}},
     0,
     0},
    {"docker with a namespace of its own: the mount's root is its group",
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", V2_MOUNT},
      {"/sys/fs/cgroup/cpu.max", "50000 100000\n"},
      {"/sys/fs/cgroup/memory.max", "134217728\n"}},
     500,
     128 * MIB},
    {"a service of systemd, whose slices say nothing",
     {{"/proc/self/cgroup", "0::/system.slice/tidegated.service\n"},
      {"/proc/self/mountinfo", V2_MOUNT},
      {"/sys/fs/cgroup/system.slice/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/system.slice/memory.max", "max\n"},
      {"/sys/fs/cgroup/system.slice/tidegated.service/cpu.max", "150000 100000\n"},
      {"/sys/fs/cgroup/system.slice/tidegated.service/memory.max", "1073741824\n"}},
     1500,
     1024 * MIB},
    {"a slice allows less than the service in it, of one kind, and the service of the other",
     {{"/proc/self/cgroup", "0::/a.slice/b.slice/c.service\n"},
      {"/proc/self/mountinfo", V2_MOUNT},
      {"/sys/fs/cgroup/a.slice/memory.max", "268435456\n"},
      {"/sys/fs/cgroup/a.slice/b.slice/c.service/memory.max", "1073741824\n"},
      {"/sys/fs/cgroup/a.slice/cpu.max", "400000 100000\n"},
      {"/sys/fs/cgroup/a.slice/b.slice/c.service/cpu.max", "100000 200000\n"}},
     500,
     256 * MIB},
    {"version 1, its groups' names with commas",
     {{"/proc/self/cgroup", "11:memory:/pod/box\n4:cpu,cpuacct:/pod/box\n1:name=systemd:/x\n"},
      {"/proc/self/mountinfo", V1_MOUNTS},
      {"/sys/fs/cgroup/memory/pod/box/memory.limit_in_bytes", "134217728\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE},
      {"/sys/fs/cgroup/cpu,cpuacct/pod/box/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/pod/box/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us", "75000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us", "100000\n"}},
     750,
     128 * MIB},
    {"version 1 without limits says a huge number",
     {{"/proc/self/cgroup", "11:memory:/\n4:cpu:/\n"},
      {"/proc/self/mountinfo", V1_MOUNTS},
      {"/proc/meminfo", MEMINFO},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE}},
     0,
     0},
    {"docker without a namespace: the mount shows the container's group of the machine",
     {{"/proc/self/cgroup", "11:memory:/docker/4f2a\n4:cpu,cpuacct:/docker/4f2a\n"},
      {"/proc/self/mountinfo",
       "40 39 0:28 /docker/4f2a /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
       "41 39 0:29 /docker/4f2a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
     500,
     128 * MIB},
    {"a group that is not below what is mounted: the mount's is all that is known",
     {{"/proc/self/cgroup", "0::/../../other\n"},
      {"/proc/self/mountinfo", V2_MOUNT},
      {"/sys/fs/cgroup/memory.max", "134217728\n"}},
     0,
     128 * MIB},
    {"both versions at once, as some machines begin",
     {{"/proc/self/cgroup", "4:memory:/box\n0::/user.slice\n"},
      {"/proc/self/mountinfo", "33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                               "34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"},
      {"/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "134217728\n"},
      {"/sys/fs/cgroup/unified/user.slice/cpu.max", "50000 100000\n"}},
     500,
     128 * MIB},
    {"as much memory as the machine has is no limit",
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", V2_MOUNT},
      {"/proc/meminfo", MEMINFO},
      {"/sys/fs/cgroup/memory.max", "16722661376\n"}},
     0,
     0},
    {"garbage",
     {{"/proc/self/cgroup", "::\n0:\n:::\nnothing\n0::/x"},
      {"/proc/self/mountinfo", " - \n - cgroup2\n1 2 - cgroup2 x\nx\n" V2_MOUNT "1 2 3"},
      {"/sys/fs/cgroup/x/memory.max", "12345678901234567890123\n"},
      {"/sys/fs/cgroup/x/cpu.max", "100 max"},
      {"/sys/fs/cgroup/memory.max", "134217728 bytes\n"}},
     0,
     128 * MIB},
};

static void make_file(const char *root, const char *path, const char *text)
{
    char full[512];
    assert_in_range(snprintf(full, sizeof full, "%s%s", root, path), 1, sizeof full - 1);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

static void the_smallest_limit_on_the_way_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(machines); i++) {
        char root[SCRATCH_PATH_LEN];
        struct container found;
        assert_int_equal(scratch_folder(root, "container"), 0);
        for (size_t at = 0; at < FILES_MAX && machines[i].files[at][0] != NULL; at++)
            make_file(root, machines[i].files[at][0], machines[i].files[at][1]);
        container_look(root, &found);
        if (found.cpu_milli != machines[i].cpu_milli || found.memory_max != machines[i].memory_max)
            fail_msg("%s: found %u and %llu MiB", machines[i].what, found.cpu_milli,
                     (unsigned long long)(found.memory_max / MIB));
        assert_true(found.processors > 0);
        assert_int_equal(nftw(root, remove_one, FILES_MAX, FTW_DEPTH | FTW_PHYS), 0);
    }
}

static void a_thread_polls_only_with_two_processors(void **state)
{
    static const struct {
        uint32_t processors;
        uint32_t cpu_milli;
        uint32_t usable;
        int polls;
    } cases[] = {
        {0, 0, 0, 1},       {1, 0, 1000, 0},    {2, 0, 2000, 1},    {8, 500, 500, 0},
        {8, 1999, 1999, 0}, {8, 2000, 2000, 1}, {1, 2000, 1000, 0}, {2, 8000, 2000, 1},
        {0, 500, 500, 0},   {0, 4000, 4000, 1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct container container = {.processors = cases[i].processors,
                                            .cpu_milli = cases[i].cpu_milli};
        assert_int_equal(container_usable_milli(&container), cases[i].usable);
        assert_int_equal(container_may_poll(&container), cases[i].polls);
    }
}

static void what_was_found_is_told_in_words(void **state)
{
    char text[CONTAINER_TEXT_LEN];
    const struct container half = {.processors = 2, .cpu_milli = 500, .memory_max = 128 * MIB};
    const struct container free_one = {.processors = 2};
    (void)state;
    assert_string_equal(container_text(&half, text),
                        "2 processors, 0.500 of their time, 128 MiB of memory");
    assert_string_equal(container_text(&free_one, text),
                        "2 processors, no limit of their time, no limit of memory");
    assert_true(container_share(&half, 16) == 8 * MIB);
    assert_true(container_share(&free_one, 16) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_as_kernels_write_them),
        cmocka_unit_test(the_smallest_limit_on_the_way_counts),
        cmocka_unit_test(a_thread_polls_only_with_two_processors),
        cmocka_unit_test(what_was_found_is_told_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
