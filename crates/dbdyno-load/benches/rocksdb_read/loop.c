/* RocksDB point reads by hand: get, look, end the value; nothing else. The clock is read once in 1,000 reads.
 * Arguments: library, data directory, cache in MiB, rows, nanoseconds. Prints nanoseconds per read. */
#include <dlfcn.h>
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *library;

static void *named(const char *name) { return dlsym(library, name); }

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

typedef void *(*make_t)(void);
typedef void (*set_t)(void *, void *);
typedef void *(*pinned_t)(void *, void *, void *, const char *, size_t, char **);
typedef const char *(*value_t)(void *, size_t *);
typedef void (*end_t)(void *);
typedef char *(*copied_t)(void *, void *, void *, const char *, size_t, size_t *, char **);
typedef void *(*open_t)(void *, void *, const char *, int, const char *const *, void **, void **, char **);

int main(int count, char **arguments) {
    if (count != 6) fail("wants library, directory, cache, rows, nanoseconds");
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(dlerror());
    uint64_t rows = strtoull(arguments[4], NULL, 10), limit = strtoull(arguments[5], NULL, 10);
    void *options = ((make_t)named("rocksdb_options_create"))();
    void *table = ((make_t)named("rocksdb_block_based_options_create"))();
    void *cache = ((void *(*)(size_t))named("rocksdb_cache_create_lru"))(strtoull(arguments[3], NULL, 10) << 20);
    ((set_t)named("rocksdb_block_based_options_set_block_cache"))(table, cache);
    ((set_t)named("rocksdb_options_set_block_based_table_factory"))(options, table);
    void *transactions = ((make_t)named("rocksdb_transactiondb_options_create"))();
    void *read = ((make_t)named("rocksdb_readoptions_create"))();
    const char *names[] = {"default", "dbdyno", "t1"};
    void *each[] = {options, options, options}, *families[3];
    char *error = NULL;
    void *database = ((open_t)named("rocksdb_transactiondb_open_column_families"))(
        options, transactions, arguments[2], 3, names, each, families, &error);
    if (error) fail(error);
    pinned_t pinned = (pinned_t)named("rocksdb_transactiondb_get_pinned_cf");
    copied_t copied = (copied_t)named("rocksdb_transactiondb_get_cf");
    value_t value = (value_t)named("rocksdb_pinnableslice_value");
    end_t end = (end_t)named("rocksdb_pinnableslice_destroy"), release = (end_t)named("rocksdb_free");
    uint64_t row = 0, reads = 0, start = 0, elapsed = 0;
    /* Until every row was read once, and so is in the cache, no time is taken. */
    while (elapsed < limit) {
        if (start == 0 && reads >= rows) {
            reads = 0;
            start = now();
        }
        for (int turn = 0; turn < 1000; turn++) {
            row = (row + 61803) % rows;
            uint64_t key = htobe64(row + 1);
            size_t size = 0;
            if (pinned) {
                void *found = pinned(database, read, families[2], (char *)&key, 8, &error);
                if (!found) fail(error ? error : "a row is missing");
                volatile char first = *value(found, &size);
                (void)first;
                end(found);
            } else {
                char *found = copied(database, read, families[2], (char *)&key, 8, &size, &error);
                if (!found) fail(error ? error : "a row is missing");
                volatile char first = *found;
                (void)first;
                release(found);
            }
        }
        reads += 1000;
        if (start != 0) elapsed = now() - start;
    }
    printf("%.3f\n", (double)elapsed / (double)reads);
    for (int family = 0; family < 3; family++) {
        ((end_t)named("rocksdb_column_family_handle_destroy"))(families[family]);
    }
    ((end_t)named("rocksdb_transactiondb_close"))(database);
    return 0;
}
