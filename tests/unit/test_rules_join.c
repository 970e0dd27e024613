/* test_rules_join.c - files of a directory as one document, and which file a line of it is of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/policy/compile/policy_compile.h"
#include "node/policy/compile/rules_join.h"
#include "node/sources/rules_source.h"
#include "tests/unit/support_scratch.h"

enum { LEN_MAX = 1 << 16 };

static void what_is_a_file_of_rules(void **state)
{
    static const struct {
        const char *name;
        bool takes;
    } rows[] = {{"a.yaml", true},    {"a.yml", true},          {".a.yaml", false},
                {"..data", false},   {"a.yaml~", false},       {"a.json", false},
                {"yaml", false},     {".yaml", false},         {"a b.yaml", true},
                {"a\n.yaml", false}, {"\xc3\xa4.yaml", false}, {"", false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(rules_join_takes(rows[i].name), rows[i].takes);
}

static void a_line_of_the_whole_is_one_of_its_file(void **state)
{
    static const char whole[] = "first\n--- # a.yaml\none\ntwo\n--- # b.yaml\n\nthree\n";
    static const struct {
        const char *name;
        uint32_t line;
    } rows[] = {{NULL, 1},     {NULL, 2},     {"a.yaml", 1}, {"a.yaml", 2},
                {"a.yaml", 3}, {"b.yaml", 1}, {"b.yaml", 2}, {"b.yaml", 3}};
    char text[sizeof whole];
    (void)state;
    size_t len = sizeof "first\n" - 1;
    memcpy(text, "first\n", len);
    len = rules_join_add(text, sizeof text - 1, len, "a.yaml", "\xef\xbb\xbfone\ntwo", 10);
    len = rules_join_add(text, sizeof text - 1, len, "b.yaml", "\nthree\n", 7);
    text[len] = '\0';
    assert_string_equal(text, whole);
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct rules_join_place place = rules_join_find(text, len, i + 1);
        assert_int_equal(place.line, rows[i].line);
        assert_int_equal(place.name == NULL, rows[i].name == NULL);
        if (place.name != NULL)
            assert_memory_equal(place.name, rows[i].name, place.name_len);
    }
    assert_int_equal(rules_join_add(text, 10, 0, "a.yaml", "one", 3), 17); /* counted alone */
}

/* What is left open at the end of a file is closed, or an error of that file, before the next. */
static void no_file_reaches_into_the_next(void **state)
{
    static const char *const broken[] = {"a: \"x\n", "a: 'x\n", "a: [1,\n", "a: {b: 1,\n",
                                         "a: |\n x\n"};
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char text[256];
        struct policy_error error;
        struct policy *policy;
        size_t len = rules_join_add(text, sizeof text, 0, "a.yaml", broken[i], strlen(broken[i]));
        len = rules_join_add(text, sizeof text, len, "b.yaml", "domain: b\n", 10);
        assert_int_equal(policy_compile(text, len, alloc_heap(), &policy, &error), TG_EINVALID);
        const struct rules_join_place place = rules_join_find(text, len, error.line);
        assert_memory_equal(place.name, "a.yaml", place.name_len);
    }
}

struct folder {
    char path[SCRATCH_PATH_LEN];
};

static void put_file(const struct folder *folder, const char *name, const char *text)
{
    char path[SCRATCH_PATH_LEN + 32];
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Removes the files of these names, apart by spaces, and the folder. */
static void remove_all(const struct folder *folder, const char *names)
{
    char path[SCRATCH_PATH_LEN + 32];
    while (*names != '\0') {
        const size_t len = strcspn(names, " ");
        (void)snprintf(path, sizeof path, "%s/%.*s", folder->path, (int)len, names);
        assert_int_equal(remove(path), 0);
        names += len + (names[len] == ' ');
    }
    assert_int_equal(rmdir(folder->path), 0);
}

/* As a ConfigMap is mounted: names are links through a hidden one, which is exchanged. */
static void a_directory_is_read_as_it_is_mounted(void **state)
{
    struct folder folder;
    struct rules_source source;
    char error[512];
    char path[SCRATCH_PATH_LEN + 32];
    char place[256];
    (void)state;
    assert_int_equal(scratch_folder(folder.path, "tidegate-join"), 0);
    assert_int_equal(rules_source_read(folder.path, LEN_MAX, &source, error, sizeof error),
                     TG_EINVALID);
    assert_non_null(strstr(error, "is a directory without a file *.yaml or *.yml"));
    (void)snprintf(path, sizeof path, "%s/..1", folder.path);
    assert_int_equal(mkdir(path, 0700), 0);
    put_file(&folder, "..1/b.yaml", "domain: b\n");
    (void)snprintf(path, sizeof path, "%s/..data", folder.path);
    assert_int_equal(symlink("..1", path), 0);
    (void)snprintf(path, sizeof path, "%s/b.yaml", folder.path);
    assert_int_equal(symlink("..data/b.yaml", path), 0);
    put_file(&folder, "a.yml", "domain: a");
    put_file(&folder, ".hidden.yaml", "nonsense: [");
    put_file(&folder, "notes.txt", "nonsense: [");
    assert_int_equal(rules_source_read(folder.path, LEN_MAX, &source, error, sizeof error), 0);
    static const char whole[] = "--- # a.yml\ndomain: a\n--- # b.yaml\ndomain: b\n";
    assert_true(source.joined && source.len == sizeof whole - 1);
    assert_memory_equal(source.text, whole, source.len);
    assert_string_equal(rules_source_place("dir", &source, 4, place, sizeof place), "dir/b.yaml:1");
    rules_source_fini(&source);
    assert_int_equal(rules_source_read(folder.path, 30, &source, error, sizeof error), TG_EINVALID);
    assert_non_null(strstr(error, "/b.yaml: is too large with the files before it"));
    assert_int_equal(rules_source_read(path, LEN_MAX, &source, error, sizeof error), 0);
    assert_false(source.joined);
    assert_string_equal(rules_source_place("f", &source, 4, place, sizeof place), "f:4");
    rules_source_fini(&source);
    assert_int_equal(rules_source_read(path, 5, &source, error, sizeof error), TG_EINVALID);
    assert_non_null(strstr(error, "b.yaml is larger than 5 bytes"));
    remove_all(&folder, "b.yaml ..data ..1/b.yaml ..1 a.yml .hidden.yaml notes.txt");
    assert_int_equal(rules_source_read(folder.path, LEN_MAX, &source, error, sizeof error),
                     TG_EINVALID);
    assert_non_null(strstr(error, "No such file"));
}

static void files_are_added_by_their_paths(void **state)
{
    struct folder folder;
    struct rules_source source;
    char error[512];
    char path[SCRATCH_PATH_LEN + 32];
    (void)state;
    assert_int_equal(scratch_folder(folder.path, "tidegate-join"), 0);
    put_file(&folder, "a.yaml", "domain: a\n");
    (void)snprintf(path, sizeof path, "%s/a.yaml", folder.path);
    assert_true(rules_source_begin(&source, "x\n", 2));
    assert_int_equal(rules_source_add(&source, path, LEN_MAX, error, sizeof error), 0);
    assert_int_equal(rules_source_add(&source, folder.path, LEN_MAX, error, sizeof error), 0);
    const struct rules_join_place first = rules_join_find(source.text, source.len, 3);
    const struct rules_join_place second = rules_join_find(source.text, source.len, 5);
    assert_true(first.line == 1 && second.line == 1 && first.name_len == strlen(path));
    assert_memory_equal(first.name, path, first.name_len);
    assert_memory_equal(second.name, path, second.name_len);
    assert_int_equal(rules_source_add(&source, "a\nb", LEN_MAX, error, sizeof error), TG_EINVALID);
    rules_source_fini(&source);
    remove_all(&folder, "a.yaml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_a_file_of_rules),
        cmocka_unit_test(a_line_of_the_whole_is_one_of_its_file),
        cmocka_unit_test(no_file_reaches_into_the_next),
        cmocka_unit_test(a_directory_is_read_as_it_is_mounted),
        cmocka_unit_test(files_are_added_by_their_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
