/*
 * The PostgreSQL side of the least client: a statement prepared once, then Bind, Execute and Sync in one message whose
 * eight bytes of parameter change. Numbers are big-endian; parameter and results are binary. The server must trust the
 * user dbdyno.
 */
#include "loop.h"

#include <endian.h>

static const char statement[] = "SELECT counter, filler FROM t1 WHERE id = $1";

/* Where the parameter is in the query. */
#define ROW_OFFSET 18

/* Reads messages until the server is ready for the next query. */
static void wait_until_ready(int socket)
{
	unsigned char header[5];
	char body[4096];
	do {
		receive_all(socket, header, sizeof header);
		uint32_t length;
		memcpy(&length, header + 1, sizeof length);
		length = be32toh(length) - 4;
		if (length > sizeof body - 1)
			die("a message is longer than it can be");
		receive_all(socket, body, length);
		if (header[0] == 'E') {
			body[length] = 0;
			for (uint32_t i = 0; i < length; i++)
				body[i] = body[i] ? body[i] : ' ';
			errno = 0;
			die(body);
		}
		/* Anything but "it is done" would be a question that needs a password. */
		if (header[0] == 'R' && memcmp(body, "\0\0\0\0", 4) != 0)
			die("the server asks for a password");
	} while (header[0] != 'Z');
}

/* Appends a message: its type, unless 0, the length that the protocol wants, and the body. */
static uint32_t put(unsigned char *out, char type, const void *body, uint32_t length)
{
	uint32_t at = 0, number = htobe32(length + 4);
	if (type)
		out[at++] = (unsigned char)type;
	memcpy(out + at, &number, 4);
	memcpy(out + at + 4, body, length);
	return at + 4 + length;
}

static void log_in(struct connection *connection)
{
	static const char start[] = "\0\3\0\0user\0dbdyno\0database\0dbdyno\0";
	/* Portal "", statement "s"; one format, binary; one parameter of eight bytes; one format of results, binary. */
	static const char bind[] = "\0s\0\0\1\0\1\0\1\0\0\0\10\0\0\0\0\0\0\0\0\0\1\0\1";
	unsigned char out[256], parse[128] = "s";
	send_all(connection->socket, out, put(out, 0, start, sizeof start));
	wait_until_ready(connection->socket);
	/* After the text: one parameter, of the type that the server numbers 20, int8. */
	memcpy(parse + 2, statement, sizeof statement);
	memcpy(parse + 2 + sizeof statement, "\0\1\0\0\0\24", 6);
	uint32_t length = put(out, 'P', parse, 2 + sizeof statement + 6);
	length += put(out + length, 'S', "", 0);
	send_all(connection->socket, out, length);
	wait_until_ready(connection->socket);
	unsigned char *query = connection->query;
	length = put(query, 'B', bind, sizeof bind - 1);
	length += put(query + length, 'E', "\0\0\0\0\0", 5);
	length += put(query + length, 'S', "", 0);
	connection->query_length = length;
}

static inline void set_row(struct connection *connection, uint64_t row)
{
	uint64_t number = htobe64(row);
	memcpy(connection->query + ROW_OFFSET, &number, sizeof number);
}

/* From BindComplete to ReadyForQuery, not in a transaction. */
static inline int is_answer(const unsigned char *bytes, uint32_t length)
{
	if (length < 6 || memcmp(bytes + length - 6, "Z\0\0\0\5I", 6) != 0)
		return 0;
	if (bytes[0] != '2' || length < ANSWER_BYTES_MIN)
		die("an answer without a row");
	return 1;
}
