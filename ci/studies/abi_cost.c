/* Times of an MPI's calls between two ranks in microseconds, as medians of BLOCKS blocks; abi_cost.py compiles it twice. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 11, REPEATS = 100, WINDOW = 64, ROWS = 64, ROW = 7, PART = 3 };

static int rank;
static char sent[WINDOW * 8 + ROWS * ROW], got[WINDOW * 8 + ROWS * ROW];
static MPI_Datatype columns, eight;
static MPI_Op sum;
static MPI_Win window;

static void add(void *from, void *to, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int at = 0; at < *length; at++)
        ((double *)to)[at] += ((double *)from)[at];
}

static void pass(int count, MPI_Datatype type)
{
    if (rank == 0)
        MPI_Send(sent, count, type, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(got, count, type, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Send(sent, count, type, 0, 0, MPI_COMM_WORLD);
}

static void latency(void) { pass(8, MPI_CHAR); }
static void vector(void) { pass(1, columns); }

static void messages(void)
{
    MPI_Request requests[WINDOW];
    MPI_Status states[WINDOW];
    for (int at = 0; at < WINDOW; at++)
        if (rank == 0)
            MPI_Isend(sent + 8 * at, 8, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[at]);
        else
            MPI_Irecv(got + 8 * at, 8, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[at]);
    MPI_Waitall(WINDOW, requests, states);
    if (rank == 0)
        MPI_Recv(got, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(sent, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
}

static void allreduce(void) { MPI_Allreduce(sent, got, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void own_operation(void) { MPI_Allreduce(sent, got, 1, MPI_DOUBLE, sum, MPI_COMM_WORLD); }

static void alltoallw(void)
{
    int counts[] = {1, 1}, places[] = {0, 8};
    MPI_Datatype kinds[] = {MPI_DOUBLE, eight};
    if (rank) {
        kinds[0] = eight;
        kinds[1] = MPI_DOUBLE;
    }
    MPI_Alltoallw(sent, counts, places, kinds, got, counts, places, kinds, MPI_COMM_WORLD);
}

static void put(void)
{
    if (rank)
        return;
    MPI_Put(sent, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, window);
    MPI_Win_flush(1, window);
}

static void type_made(void)
{
    MPI_Datatype type;
    MPI_Type_vector(ROWS, PART, ROW, MPI_CHAR, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&type);
}

static int order(const void *one, const void *two)
{
    double first = *(const double *)one, second = *(const double *)two;
    return (first > second) - (first < second);
}

static void measure(const char *name, void (*call)(void), double parts)
{
    double times[BLOCKS];
    for (int block = -2; block < BLOCKS; block++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int at = 0; at < REPEATS; at++)
            call();
        if (block >= 0)
            times[block] = (MPI_Wtime() - start) * 1e6 / REPEATS / parts;
    }
    qsort(times, BLOCKS, sizeof *times, order);
    if (rank == 0)
        printf("abi cost: %s: %.6f\n", name, times[BLOCKS / 2]);
}

int main(int argc, char **argv)
{
    char line[4096], *memory;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (!rank && strstr(line, argv[1]) && strstr(line, " r-xp "))
            printf("abi cost: ran %s", strchr(line, '/'));
    MPI_Type_vector(ROWS, PART, ROW, MPI_CHAR, &columns);
    MPI_Type_commit(&columns);
    MPI_Type_contiguous(8, MPI_CHAR, &eight);
    MPI_Type_commit(&eight);
    MPI_Op_create(add, 1, &sum);
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_lock_all(0, window);
    measure("latency (there and back), 8 B", latency, 2);
    measure("a message of 64, 8 B", messages, WINDOW);
    measure("MPI_Allreduce, 8 B", allreduce, 1);
    measure("MPI_Allreduce with MPI_Op_create, 8 B", own_operation, 1);
    measure("MPI_Alltoallw, 8 B", alltoallw, 1);
    measure("MPI_Put and flush, 8 B", put, 1);
    measure("latency of an MPI_Type_vector, 64 x 3 B", vector, 2);
    measure("MPI_Type_vector, commit and free", type_made, 1);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    return MPI_Finalize();
}
