/*
 * The MySQL side of the least client: COM_STMT_PREPARE once, then COM_STMT_EXECUTE whose eight bytes of parameter change.
 * Packets are three bytes of length, a sequence number and a body; numbers are little-endian. The user dbdyno must have
 * no password.
 */
#include "loop.h"

static const char statement[] = "SELECT counter, filler FROM t1 WHERE id = ?";

/* Protocol of version 4.1, login with database and named method, and no packet that only says "end". */
#define CAPABILITIES (0x1u | 0x8u | 0x200u | 0x2000u | 0x8000u | 0x80000u | 0x1000000u)
/* utf8mb4_general_ci */
#define COLLATION 45
/* Where the parameter is in the query: behind header, command, statement, flags, count, nulls and "types as before". */
#define ROW_OFFSET 16

/* One packet; returns its length and, through `sequence`, its number. An error ends the program. */
static uint32_t receive_packet(int socket, unsigned char *body, uint32_t room, unsigned char *sequence)
{
	unsigned char header[4];
	receive_all(socket, header, sizeof header);
	uint32_t length = header[0] | (uint32_t)header[1] << 8 | (uint32_t)header[2] << 16;
	if (length == 0 || length >= room)
		die("a packet is longer than it can be");
	receive_all(socket, body, length);
	body[length] = 0;
	*sequence = header[3];
	errno = 0;
	if (body[0] == 0xff)
		die((const char *)body + 3);
	return length;
}

static void send_packet(int socket, unsigned char sequence, const void *body, uint32_t length)
{
	unsigned char out[256] = {(unsigned char)length, 0, 0, sequence};
	memcpy(out + 4, body, length);
	send_all(socket, out, 4 + length);
}

static void authenticate(int socket)
{
	static const char names[] = "dbdyno\0\0dbdyno\0mysql_native_password";
	unsigned char body[4096], sequence;
	const uint32_t capabilities = CAPABILITIES, packet_bytes_max = 1 << 24;
	receive_packet(socket, body, sizeof body, &sequence);
	memset(body, 0, 32);
	memcpy(body, &capabilities, 4);
	memcpy(body + 4, &packet_bytes_max, 4);
	body[8] = COLLATION;
	memcpy(body + 32, names, sizeof names);
	send_packet(socket, 1, body, 32 + sizeof names);
	receive_packet(socket, body, sizeof body, &sequence);
	/* The server would rather have another method; without a password every method's answer is empty. */
	if (body[0] == 0xfe) {
		send_packet(socket, sequence + 1, "", 0);
		receive_packet(socket, body, sizeof body, &sequence);
	}
	if (body[0] != 0)
		die("the server does not let dbdyno in");
}

static void log_in(struct connection *connection)
{
	unsigned char body[4096], sequence, *query = connection->query;
	int socket = connection->socket;
	authenticate(socket);
	body[0] = 0x16;
	memcpy(body + 1, statement, sizeof statement - 1);
	send_packet(socket, 0, body, sizeof statement);
	receive_packet(socket, body, sizeof body, &sequence);
	uint32_t number;
	memcpy(&number, body + 1, sizeof number);
	/* Descriptions of one parameter and two columns. */
	for (int i = 0; i < 3; i++)
		receive_packet(socket, body, sizeof body, &sequence);
	/* The first execution also says the parameter's type, a number of eight bytes; the server remembers it. */
	unsigned char first[22] = {0x17, [6] = 1, [11] = 1, [12] = 8, [14] = 1};
	memcpy(first + 1, &number, sizeof number);
	send_packet(socket, 0, first, sizeof first);
	/* The count of columns, their descriptions, one row, and the end. */
	for (int i = 0; i < 5; i++)
		receive_packet(socket, body, sizeof body, &sequence);
	if (body[0] != 0xfe)
		die("row 1 is not there");
	query[0] = 20;
	query[4] = 0x17;
	memcpy(query + 5, &number, sizeof number);
	query[10] = 1;
	connection->query_length = 24;
}

static inline void set_row(struct connection *connection, uint64_t row)
{
	memcpy(connection->query + ROW_OFFSET, &row, sizeof row);
}

/* From the count of columns to the packet of seven bytes that ends the rows. */
static inline int is_answer(const unsigned char *bytes, uint32_t length)
{
	if (length < 11 || memcmp(bytes + length - 11, "\7\0\0", 3) != 0 || bytes[length - 7] != 0xfe)
		return 0;
	if (bytes[4] != 2 || length < ANSWER_BYTES_MIN)
		die("an answer without a row");
	return 1;
}
