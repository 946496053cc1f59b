/*
 * dbdyno's way into WiredTiger. The library's interface is structures of function pointers, some of them variadic, whose
 * layout changes between versions; so this file is compiled against the header of the very library that it is linked
 * with, and offers plain functions of fixed types instead. They return WiredTiger's own codes and decide nothing.
 *
 * Keys are unsigned numbers (key_format=Q), values are bytes (value_format=u) that begin with a counter of eight bytes.
 * dbdyno-load/src/driver/wiredtiger/shim.rs declares the same functions for Rust: change both together.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wiredtiger.h>

#define COUNTER_BYTES 8
/* Room for a changed value: no row that dbdyno loads is longer. */
#define VALUE_BYTES_MAX (64 << 10)
#define MESSAGE_BYTES 512

/* Where an update failed. */
enum stage { STAGE_BEGIN, STAGE_SEARCH, STAGE_WRITE, STAGE_COMMIT };

/* How a counter changes. */
enum change { CHANGE_ADD, CHANGE_SET };

/* The event handler comes first, so that WiredTiger's pointer to it is a pointer to the whole. */
struct dbdyno_connection {
    WT_EVENT_HANDLER handler;
    pthread_mutex_t lock;
    char message[MESSAGE_BYTES];
    int is_about_full_disk;
    int has_given_up;
    WT_CONNECTION *connection;
};

struct dbdyno_session {
    WT_EVENT_HANDLER handler;
    struct dbdyno_connection *owner;
    WT_SESSION *session;
    unsigned char value[VALUE_BYTES_MAX];
};

/* On a full disk the library gives up for good: what it said first is why every later call fails, and stays. */
static void keep(struct dbdyno_connection *connection, int error, const char *message)
{
    pthread_mutex_lock(&connection->lock);
    if (!connection->is_about_full_disk)
        snprintf(connection->message, sizeof(connection->message), "%s", message);
    connection->is_about_full_disk |= error == ENOSPC || error == EDQUOT || error == EFBIG;
    connection->has_given_up |= error == WT_PANIC || connection->is_about_full_disk;
    pthread_mutex_unlock(&connection->lock);
}

/* A library that has given up may call its handlers after a session's end, and never come back from being closed: it waits
 * for a log that nobody writes any more. It is left as it is, for the process to end with it. */
static int has_given_up(struct dbdyno_connection *connection)
{
    int has_given_up;
    pthread_mutex_lock(&connection->lock);
    has_given_up = connection->has_given_up;
    pthread_mutex_unlock(&connection->lock);
    return has_given_up;
}

static int on_connection_error(WT_EVENT_HANDLER *handler, WT_SESSION *session, int error, const char *message)
{
    (void)session;
    keep((struct dbdyno_connection *)handler, error, message);
    return 0;
}

static int on_session_error(WT_EVENT_HANDLER *handler, WT_SESSION *session, int error, const char *message)
{
    (void)session;
    keep(((struct dbdyno_session *)handler)->owner, error, message);
    return 0;
}

/* Standard output belongs to dbdyno. */
static int on_message(WT_EVENT_HANDLER *handler, WT_SESSION *session, const char *message)
{
    (void)handler;
    (void)session;
    (void)message;
    return 0;
}

void dbdyno_wiredtiger_version(int *major, int *minor, int *patch)
{
    wiredtiger_version(major, minor, patch);
}

/* What a code means; a static text. */
const char *dbdyno_wiredtiger_words(int code)
{
    return wiredtiger_strerror(code);
}

/* Opens a database. The handle is made even where opening fails, so that its last message can be read. */
int dbdyno_wiredtiger_open(const char *directory, const char *config, struct dbdyno_connection **opened)
{
    struct dbdyno_connection *connection = calloc(1, sizeof(*connection));
    *opened = connection;
    if (connection == NULL)
        return ENOMEM;
    pthread_mutex_init(&connection->lock, NULL);
    connection->handler.handle_error = on_connection_error;
    connection->handler.handle_message = on_message;
    return wiredtiger_open(directory, &connection->handler, config, &connection->connection);
}

/* Closes what is open and frees the handle. No session may be in use. */
int dbdyno_wiredtiger_close(struct dbdyno_connection *connection)
{
    int code = 0;
    if (connection == NULL)
        return 0;
    if (connection->connection != NULL && has_given_up(connection))
        return WT_PANIC;
    if (connection->connection != NULL)
        code = connection->connection->close(connection->connection, NULL);
    pthread_mutex_destroy(&connection->lock);
    free(connection);
    return code;
}

/* Copies the last message of any thread, which may be empty, and returns whether it is about a full disk. */
int dbdyno_wiredtiger_message(struct dbdyno_connection *connection, char *text, size_t bytes)
{
    int is_about_full_disk;
    pthread_mutex_lock(&connection->lock);
    is_about_full_disk = connection->is_about_full_disk;
    snprintf(text, bytes, "%s", connection->message);
    if (!is_about_full_disk)
        connection->message[0] = '\0';
    pthread_mutex_unlock(&connection->lock);
    return is_about_full_disk;
}

int dbdyno_wiredtiger_session(struct dbdyno_connection *connection, struct dbdyno_session **opened)
{
    WT_CONNECTION *library = connection->connection;
    struct dbdyno_session *session = calloc(1, sizeof(*session));
    int code;
    *opened = NULL;
    if (session == NULL)
        return ENOMEM;
    session->owner = connection;
    session->handler.handle_error = on_session_error;
    session->handler.handle_message = on_message;
    code = library->open_session(library, &session->handler, "isolation=snapshot", &session->session);
    if (code != 0)
        free(session);
    else
        *opened = session;
    return code;
}

/* Closes a session with its cursors and frees it. */
int dbdyno_wiredtiger_end_session(struct dbdyno_session *session)
{
    int code;
    if (has_given_up(session->owner))
        return WT_PANIC;
    code = session->session->close(session->session, NULL);
    free(session);
    return code;
}

int dbdyno_wiredtiger_create(struct dbdyno_session *session, const char *uri, const char *config)
{
    return session->session->create(session->session, uri, config);
}

int dbdyno_wiredtiger_cursor(struct dbdyno_session *session, const char *uri, WT_CURSOR **opened)
{
    return session->session->open_cursor(session->session, uri, NULL, NULL, opened);
}

int dbdyno_wiredtiger_begin(struct dbdyno_session *session)
{
    return session->session->begin_transaction(session->session, NULL);
}

int dbdyno_wiredtiger_commit(struct dbdyno_session *session)
{
    return session->session->commit_transaction(session->session, NULL);
}

int dbdyno_wiredtiger_rollback(struct dbdyno_session *session)
{
    return session->session->rollback_transaction(session->session, NULL);
}

int dbdyno_wiredtiger_checkpoint(struct dbdyno_session *session)
{
    return session->session->checkpoint(session->session, NULL);
}

/* Writes a row, new or not. */
int dbdyno_wiredtiger_put(WT_CURSOR *cursor, uint64_t key, const void *value, size_t bytes)
{
    WT_ITEM item;
    memset(&item, 0, sizeof(item));
    item.data = value;
    item.size = bytes;
    cursor->set_key(cursor, key);
    cursor->set_value(cursor, &item);
    return cursor->insert(cursor);
}

/* Finds a row; the value is readable until the cursor moves or is reset. */
int dbdyno_wiredtiger_get(WT_CURSOR *cursor, uint64_t key, const void **value, size_t *bytes)
{
    WT_ITEM item;
    int code;
    cursor->set_key(cursor, key);
    if ((code = cursor->search(cursor)) != 0 || (code = cursor->get_value(cursor, &item)) != 0)
        return code;
    *value = item.data;
    *bytes = item.size;
    return 0;
}

/* Moves to the next row, or the one before; from a reset cursor, to the first or the last. */
int dbdyno_wiredtiger_step(WT_CURSOR *cursor, int backwards, uint64_t *key, const void **value, size_t *bytes)
{
    WT_ITEM item;
    int code = backwards ? cursor->prev(cursor) : cursor->next(cursor);
    if (code != 0 || (code = cursor->get_key(cursor, key)) != 0 || (code = cursor->get_value(cursor, &item)) != 0)
        return code;
    *value = item.data;
    *bytes = item.size;
    return 0;
}

int dbdyno_wiredtiger_reset(WT_CURSOR *cursor)
{
    return cursor->reset(cursor);
}

/* One point read: find, take, reset. */
int dbdyno_wiredtiger_read(WT_CURSOR *cursor, uint64_t key, uint64_t *counter)
{
    const void *value = NULL;
    size_t bytes = 0;
    int code = dbdyno_wiredtiger_get(cursor, key, &value, &bytes);
    if (code == 0 && bytes < COUNTER_BYTES)
        code = EINVAL;
    if (code == 0)
        memcpy(counter, value, COUNTER_BYTES);
    cursor->reset(cursor);
    return code;
}

/* The part of an update between begin and commit. */
static int change_row(struct dbdyno_session *session, WT_CURSOR *cursor, uint64_t key, int how, uint64_t number,
  int *stage)
{
    WT_ITEM item;
    uint64_t counter;
    const void *value = NULL;
    size_t bytes = 0;
    int code;
    *stage = STAGE_SEARCH;
    if ((code = dbdyno_wiredtiger_get(cursor, key, &value, &bytes)) != 0)
        return code;
    if (bytes < COUNTER_BYTES || bytes > VALUE_BYTES_MAX)
        return EINVAL;
    /* A copy: the library may pack the new value into the buffer that holds the old one. */
    memcpy(session->value, value, bytes);
    memcpy(&counter, session->value, COUNTER_BYTES);
    counter = how == CHANGE_ADD ? counter + number : number;
    memcpy(session->value, &counter, COUNTER_BYTES);
    memset(&item, 0, sizeof(item));
    item.data = session->value;
    item.size = bytes;
    *stage = STAGE_WRITE;
    cursor->set_value(cursor, &item);
    return cursor->update(cursor);
}

/* One transaction that changes one row's counter. On failure `stage` says where; nothing is left open. */
int dbdyno_wiredtiger_update(struct dbdyno_session *session, WT_CURSOR *cursor, uint64_t key, int how, uint64_t number,
  int *stage)
{
    WT_SESSION *library = session->session;
    int code;
    *stage = STAGE_BEGIN;
    if ((code = library->begin_transaction(library, NULL)) != 0)
        return code;
    if ((code = change_row(session, cursor, key, how, number, stage)) != 0) {
        cursor->reset(cursor);
        library->rollback_transaction(library, NULL);
        return code;
    }
    cursor->reset(cursor);
    *stage = STAGE_COMMIT;
    return library->commit_transaction(library, NULL);
}

/* Hands out every number that the library keeps about itself. */
int dbdyno_wiredtiger_statistics(struct dbdyno_session *session, void (*each)(void *to, const char *name, int64_t value),
  void *to)
{
    WT_SESSION *library = session->session;
    WT_CURSOR *cursor;
    const char *name, *printable;
    int64_t value;
    int code = library->open_cursor(library, "statistics:", NULL, NULL, &cursor);
    if (code != 0)
        return code;
    while ((code = cursor->next(cursor)) == 0) {
        if ((code = cursor->get_value(cursor, &name, &printable, &value)) != 0)
            break;
        each(to, name, value);
    }
    cursor->close(cursor);
    return code == WT_NOTFOUND ? 0 : code;
}

/* Copies what the library's catalogue says of a table, cut off where the room ends. */
int dbdyno_wiredtiger_metadata(struct dbdyno_session *session, const char *uri, char *text, size_t bytes)
{
    WT_SESSION *library = session->session;
    WT_CURSOR *cursor;
    const char *found;
    int code = library->open_cursor(library, "metadata:create", NULL, NULL, &cursor);
    if (code != 0)
        return code;
    cursor->set_key(cursor, uri);
    if ((code = cursor->search(cursor)) == 0 && (code = cursor->get_value(cursor, &found)) == 0)
        snprintf(text, bytes, "%s", found);
    cursor->close(cursor);
    return code;
}
