/* Set key, search, get value, reset: nothing else. Each row is read once before the clock starts, which is read once in
 * 1,000 reads. Arguments: data directory, rows, nanoseconds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <wiredtiger.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int count, char **arguments)
{
    WT_CONNECTION *connection;
    WT_SESSION *session;
    WT_CURSOR *cursor;
    WT_ITEM value;
    uint64_t rows = strtoull(arguments[2], NULL, 10), row = 0, reads = 0;
    double limit = atof(arguments[3]), start, elapsed;
    if (count != 4 || wiredtiger_open(arguments[1], NULL, "cache_size=256MB,config_base=false,statistics=(fast)", &connection) != 0 ||
      connection->open_session(connection, NULL, "isolation=snapshot", &session) != 0 ||
      session->open_cursor(session, "table:t1", NULL, NULL, &cursor) != 0)
        return 1;
    for (row = 1; row <= rows; row++) {
        cursor->set_key(cursor, row);
        if (cursor->search(cursor) != 0)
            return 2;
        cursor->reset(cursor);
    }
    row = 0;
    start = now();
    do {
        for (int i = 0; i < 1000; i++) {
            row = (row + 61803) % rows;
            cursor->set_key(cursor, row + 1);
            if (cursor->search(cursor) != 0 || cursor->get_value(cursor, &value) != 0 || value.size < 8)
                return 2;
            __asm__ volatile("" : : "r"(*(const uint64_t *)value.data));
            cursor->reset(cursor);
        }
        reads += 1000;
        elapsed = now() - start;
    } while (elapsed < limit);
    printf("%f\n", elapsed / reads);
    return connection->close(connection, NULL) == 0 ? 0 : 3;
}
