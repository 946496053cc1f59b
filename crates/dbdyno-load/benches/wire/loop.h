/*
 * The least that a client can do: N connections, one request under way on each, and nothing else. No times are taken, no
 * rows decoded, nothing recorded. A client that does more is measured against this.
 *
 * A protocol brings three functions (see "What a protocol brings"); this file brings the connections, two loops, `epoll`
 * and `uring`, and the report. The loops end by a timer's signal, so that no clock is read between requests.
 */
#ifndef DBDYNO_WIRE_LOOP_H
#define DBDYNO_WIRE_LOOP_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ROWS 100000
#define QUERY_BYTES 128
#define ANSWER_BYTES 1024
/* An answer without a row is shorter than this, because a row's filler alone is longer. */
#define ANSWER_BYTES_MIN 100

struct connection {
	int socket;
	/* Bytes of an answer that has not come completely. */
	uint32_t have;
	uint32_t query_length;
	uint64_t random;
	unsigned char query[QUERY_BYTES];
	unsigned char answer[ANSWER_BYTES];
};

/* What a protocol brings. */

/* Logs in and prepares the statement, blocking; fills in `query` and `query_length`. */
static void log_in(struct connection *connection);
/* Writes the row that is looked for into the query. */
static inline void set_row(struct connection *connection, uint64_t row);
/* Whether so many bytes are a whole answer. An answer that holds no row ends the program. */
static inline int is_answer(const unsigned char *bytes, uint32_t length);

static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static void __attribute__((noreturn, cold)) die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "not what was expected");
	exit(1);
}

/* Blocking, while connections are made: all bytes or none. */
static void send_all(int socket, const void *bytes, size_t length)
{
	if (send(socket, bytes, length, MSG_NOSIGNAL) != (ssize_t)length)
		die("send");
}

static void receive_all(int socket, void *bytes, size_t length)
{
	if (length != 0 && recv(socket, bytes, length, MSG_WAITALL) != (ssize_t)length)
		die("receive");
}

/* The next row's number, from the high bits of a linear congruential generator. */
static inline void next_row(struct connection *connection)
{
	connection->random = connection->random * 6364136223846793005u + 1442695040888963407u;
	set_row(connection, (((connection->random >> 32) * ROWS) >> 32) + 1);
}

/* Takes in what was received: 1 if the answer is complete and the next query has been made, 0 if more must come. */
static inline int take(struct connection *connection, long received)
{
	if (received <= 0) {
		errno = received < 0 ? (int)-received : 0;
		die("receive");
	}
	connection->have += (uint32_t)received;
	if (!is_answer(connection->answer, connection->have)) {
		if (connection->have == ANSWER_BYTES)
			die("an answer is longer than it can be");
		return 0;
	}
	connection->have = 0;
	next_row(connection);
	return 1;
}

static inline void send_query(struct connection *connection)
{
	if (send(connection->socket, connection->query, connection->query_length,
		 MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)connection->query_length)
		die("send");
}

/* Waits for any answers; each costs one receive and one send. Edge-triggered: a socket is reported once per arrival. */
static uint64_t run_epoll(struct connection *connections, int clients)
{
	struct epoll_event ready[256];
	uint64_t operations = 0;
	int epoll = epoll_create1(0);
	for (int i = 0; i < clients; i++) {
		struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &connections[i]};
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, connections[i].socket, &event) != 0)
			die("epoll_ctl");
	}
	for (int i = 0; i < clients; i++)
		send_query(&connections[i]);
	while (!ended) {
		int count = epoll_wait(epoll, ready, 256, -1);
		for (int i = 0; i < count; i++) {
			struct connection *connection = ready[i].data.ptr;
			ssize_t received = recv(connection->socket, connection->answer + connection->have,
						ANSWER_BYTES - connection->have, MSG_DONTWAIT);
			if (take(connection, received < 0 ? -errno : received)) {
				operations++;
				send_query(connection);
			}
		}
	}
	return operations;
}

/* The rings that are shared with the kernel. */
struct uring {
	int ring;
	unsigned *submit_tail, *submit_array, *complete_head, *complete_tail;
	unsigned submit_mask, complete_mask, to_submit, tail;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *completions;
};

static void open_uring(struct uring *uring, const struct connection *connections, int clients)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
		.cq_entries = 2048,
	};
	int sockets[1024];
	uring->ring = (int)syscall(SYS_io_uring_setup, 1024, &params);
	if (uring->ring < 0)
		die("io_uring_setup");
	if (!(params.features & IORING_FEAT_SINGLE_MMAP))
		die("io_uring without one mapping of both rings");
	size_t submit_bytes = params.sq_off.array + params.sq_entries * sizeof(unsigned);
	size_t complete_bytes = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	char *rings = mmap(NULL, submit_bytes > complete_bytes ? submit_bytes : complete_bytes,
			   PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, uring->ring, IORING_OFF_SQ_RING);
	uring->entries = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_POPULATE, uring->ring, IORING_OFF_SQES);
	if (rings == MAP_FAILED || (void *)uring->entries == MAP_FAILED)
		die("mmap");
	uring->submit_tail = (unsigned *)(rings + params.sq_off.tail);
	uring->submit_array = (unsigned *)(rings + params.sq_off.array);
	uring->submit_mask = *(unsigned *)(rings + params.sq_off.ring_mask);
	uring->complete_head = (unsigned *)(rings + params.cq_off.head);
	uring->complete_tail = (unsigned *)(rings + params.cq_off.tail);
	uring->complete_mask = *(unsigned *)(rings + params.cq_off.ring_mask);
	uring->completions = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
	/* Entries are used in order, so the array that could reorder them is written once. */
	for (unsigned i = 0; i < params.sq_entries; i++)
		uring->submit_array[i] = i;
	for (int i = 0; i < clients; i++)
		sockets[i] = connections[i].socket;
	if (syscall(SYS_io_uring_register, uring->ring, IORING_REGISTER_FILES, sockets, clients) != 0)
		die("io_uring_register");
}

/* An empty entry for operations on one connection's socket. At most two per connection are ever under way. */
static inline struct io_uring_sqe *entry(struct uring *uring, int opcode, int number)
{
	struct io_uring_sqe *entry = &uring->entries[uring->tail++ & uring->submit_mask];
	uring->to_submit++;
	memset(entry, 0, sizeof *entry);
	entry->opcode = (uint8_t)opcode;
	entry->flags = IOSQE_FIXED_FILE;
	entry->fd = number;
	entry->user_data = (uint64_t)number;
	return entry;
}

static inline void ask_for_answer(struct uring *uring, struct connection *connection, int number)
{
	struct io_uring_sqe *receive = entry(uring, IORING_OP_RECV, number);
	receive->addr = (uint64_t)(connection->answer + connection->have);
	receive->len = ANSWER_BYTES - connection->have;
	/* The server has only just been asked, so a first try would find nothing. */
	receive->ioprio = IORING_RECVSEND_POLL_FIRST;
}

static inline void ask(struct uring *uring, struct connection *connection, int number)
{
	struct io_uring_sqe *query = entry(uring, IORING_OP_SEND, number);
	query->addr = (uint64_t)connection->query;
	query->len = connection->query_length;
	query->msg_flags = MSG_NOSIGNAL;
	/* Only a send that fails says so; it then carries the connection's number like a failed receive, and ends all. */
	query->flags |= IOSQE_CQE_SKIP_SUCCESS;
	ask_for_answer(uring, connection, number);
}

/* One system call hands over all queries that are ready and waits for any answers. */
static uint64_t run_uring(struct connection *connections, int clients)
{
	struct uring uring = {0};
	uint64_t operations = 0;
	open_uring(&uring, connections, clients);
	for (int i = 0; i < clients; i++)
		ask(&uring, &connections[i], i);
	while (!ended) {
		__atomic_store_n(uring.submit_tail, uring.tail, __ATOMIC_RELEASE);
		long taken = syscall(SYS_io_uring_enter, uring.ring, uring.to_submit, 1, IORING_ENTER_GETEVENTS,
				     NULL, 0);
		if (taken < 0 && errno != EINTR)
			die("io_uring_enter");
		uring.to_submit -= taken < 0 ? 0 : (unsigned)taken;
		unsigned head = *uring.complete_head;
		unsigned tail = __atomic_load_n(uring.complete_tail, __ATOMIC_ACQUIRE);
		for (; head != tail; head++) {
			struct io_uring_cqe *completion = &uring.completions[head & uring.complete_mask];
			int number = (int)completion->user_data;
			if (take(&connections[number], completion->res)) {
				operations++;
				ask(&uring, &connections[number], number);
			} else {
				ask_for_answer(&uring, &connections[number], number);
			}
		}
		__atomic_store_n(uring.complete_head, head, __ATOMIC_RELEASE);
	}
	return operations;
}

static void open_connection(struct connection *connection, const char *path, uint64_t number)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof address.sun_path)
		die("the socket's path is too long");
	strcpy(address.sun_path, path);
	connection->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(connection->socket, (struct sockaddr *)&address, sizeof address) != 0)
		die(path);
	connection->random = number * 0x9e3779b97f4a7c15u;
	log_in(connection);
	next_row(connection);
}

static double seconds_of(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Arguments: epoll or uring, the server's socket, clients, seconds. */
int main(int count, char **arguments)
{
	int is_uring = count == 5 && strcmp(arguments[1], "uring") == 0;
	int clients = count == 5 ? atoi(arguments[3]) : 0;
	int seconds = count == 5 ? atoi(arguments[4]) : 0;
	struct rusage before, after;
	if (clients < 1 || clients > 512 || seconds < 1) {
		fprintf(stderr, "usage: %s epoll|uring SOCKET CLIENTS SECONDS (at most 512 clients)\n", arguments[0]);
		return 2;
	}
	struct connection *connections = calloc((size_t)clients, sizeof *connections);
	for (int i = 0; i < clients; i++)
		open_connection(&connections[i], arguments[2], (uint64_t)i + 1);
	/* No SA_RESTART: the signal must end a wait. It repeats, in case it comes just before one. */
	struct sigaction action = {.sa_handler = end};
	sigaction(SIGALRM, &action, NULL);
	struct itimerval timer = {.it_value.tv_sec = seconds, .it_interval.tv_usec = 10000};
	getrusage(RUSAGE_SELF, &before);
	double start = now();
	setitimer(ITIMER_REAL, &timer, NULL);
	uint64_t operations = (is_uring ? run_uring : run_epoll)(connections, clients);
	double wall = now() - start;
	getrusage(RUSAGE_SELF, &after);
	printf("operations %llu user %.6f system %.6f wall %.6f\n", (unsigned long long)operations,
	       seconds_of(after.ru_utime) - seconds_of(before.ru_utime),
	       seconds_of(after.ru_stime) - seconds_of(before.ru_stime), wall);
	return 0;
}

#endif
