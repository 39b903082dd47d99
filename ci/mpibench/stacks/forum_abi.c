/*
 * What an MPI library translates for programs of the MPI Forum's ABI (MPI 5.0, chapter 20), where its own ABI has other handles,
 * constants and structures: functions of the program that it calls back, arrays of handles, a status. Two ranks or more; each
 * prints what it found otherwise, at last a line that forum_abi.py reads.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, size, compared, wrong;

static void compare(const char *what, long got, long wanted)
{
    compared++;
    if (got == wanted)
        return;
    wrong++;
    printf("forum abi: wrong: rank %d, %s: %ld instead of %ld\n", rank, what, got, wanted);
}

static int other_types, copies, deletes, handled, code_seen, queried;

static void add_twice(void *sent, void *kept, int *length, MPI_Datatype *type)
{
    other_types += *type != MPI_INT;
    for (int at = 0; at < *length; at++)
        ((int *)kept)[at] += ((int *)sent)[at];
}

static int copy(MPI_Comm comm, int key, void *extra, void *old, void *made, int *flag)
{
    (void)comm, (void)key;
    copies += *(int *)extra;
    *(void **)made = old;
    *flag = 1;
    return MPI_SUCCESS;
}

static int forget(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value;
    deletes += *(int *)extra;
    return MPI_SUCCESS;
}

static void handle(MPI_Comm *comm, int *code, ...)
{
    int result = MPI_UNEQUAL;
    MPI_Comm_compare(*comm, MPI_COMM_WORLD, &result);
    handled = result;
    code_seen = *code;
}

static int query(void *extra, MPI_Status *status)
{
    queried += *(int *)extra;
    MPI_Status_set_elements(status, MPI_INT, 5);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_PROC_NULL;
    status->MPI_TAG = 77;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

static void reductions(void)
{
    enum { COUNT = 1000 };
    static int kept[COUNT];
    MPI_Op operation;
    for (int at = 0; at < COUNT; at++)
        kept[at] = at + rank;
    MPI_Op_create(add_twice, 1, &operation);
    MPI_Allreduce(MPI_IN_PLACE, kept, COUNT, MPI_INT, operation, MPI_COMM_WORLD);
    MPI_Op_free(&operation);
    for (int at = 0; at < COUNT; at += 333)
        compare("MPI_Allreduce with MPI_Op_create", kept[at], (long)size * at + size * (size - 1) / 2);
    compare("types that its function was given", other_types, 0);
    struct { double value; int at; } mine = {rank, rank}, most;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    compare("MPI_MAXLOC", most.at, size - 1);
}

struct pair {
    int number;
    double real;
};

static MPI_Datatype at_its_address(struct pair *row)
{
    MPI_Aint where[2];
    MPI_Datatype parts[] = {MPI_INT, MPI_DOUBLE}, type;
    MPI_Get_address(&row->number, &where[0]);
    MPI_Get_address(&row->real, &where[1]);
    MPI_Type_create_struct(2, (int[]){1, 1}, where, parts, &type);
    MPI_Type_commit(&type);
    return type;
}

static void types(void)
{
    enum { ROWS = 500, ROW = 7, BLOCK = 3 };
    static char sent[ROWS * ROW], got[ROWS * ROW];
    int to = (rank + 1) % size, from = (rank + size - 1) % size, count = 0, integers, addresses, inner, combiner;
    MPI_Datatype columns;
    MPI_Status status;
    memset(sent, rank + 1, sizeof sent);
    MPI_Type_vector(ROWS, BLOCK, ROW, MPI_CHAR, &columns);
    MPI_Type_commit(&columns);
    MPI_Sendrecv(sent, 1, columns, to, rank, got, 1, columns, from, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    long sum = 0;
    for (size_t at = 0; at < sizeof got; at++)
        sum += got[at];
    compare("sum of what came in an MPI_Type_vector", sum, (long)ROWS * BLOCK * (from + 1));
    MPI_Get_count(&status, columns, &count);
    compare("MPI_Get_count", count, 1);
    compare("MPI_SOURCE", status.MPI_SOURCE, from);
    compare("MPI_TAG", status.MPI_TAG, from);
    MPI_Type_get_envelope(columns, &integers, &addresses, &inner, &combiner);
    compare("MPI_Type_get_envelope", combiner, MPI_COMBINER_VECTOR);
    MPI_Type_free(&columns);

    struct pair mine = {rank, rank + 0.5}, there = {-1, -1};
    MPI_Datatype from_mine = at_its_address(&mine), to_there = at_its_address(&there);
    MPI_Sendrecv(MPI_BOTTOM, 1, from_mine, to, 5, MPI_BOTTOM, 1, to_there, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    compare("an MPI_Type_create_struct from MPI_BOTTOM", there.number + (long)(2 * there.real), 3 * from + 1);
    MPI_Type_free(&from_mine);
    MPI_Type_free(&to_there);

    MPI_Datatype kinds[size];
    int counts[size], places[size];
    double values[size], came[size];
    for (int other = 0; other < size; other++) {
        kinds[other] = MPI_DOUBLE;
        counts[other] = 1;
        places[other] = other * (int)sizeof(double);
        values[other] = rank * 100 + other;
        came[other] = -1;
    }
    MPI_Alltoallw(values, counts, places, kinds, came, counts, places, kinds, MPI_COMM_WORLD);
    for (int other = 0; other < size; other++)
        compare("MPI_Alltoallw", (long)came[other], other * 100 + rank);
}

static void callbacks(void)
{
    int key, one = 1, found = 0, done = 0, count = 0;
    void *value = NULL;
    MPI_Comm twin;
    MPI_Errhandler handler;
    MPI_Comm_create_keyval(copy, forget, &key, &one);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &one);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_get_attr(twin, key, &value, &found);
    compare("an attribute of an MPI_Comm_dup", found && value == &one, 1);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(twin, handler);
    MPI_Comm_call_errhandler(twin, MPI_ERR_OTHER);
    compare("code that an error handler was given", code_seen, MPI_ERR_OTHER);
    compare("communicator that it was given", handled, MPI_CONGRUENT);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&twin);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
    compare("copies of an attribute", copies, 1);
    compare("deletions of an attribute", deletes, 2);
    int *bound = NULL;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
    compare("MPI_TAG_UB is 32767 or more", found && *bound >= 32767, 1);

    MPI_Request request;
    MPI_Status status;
    MPI_Grequest_start(query, release, cancel, &one, &request);
    MPI_Grequest_complete(request);
    MPI_Test(&request, &done, &status);
    MPI_Get_elements(&status, MPI_INT, &count);
    compare("an MPI_Grequest's status", done ? queried * 10000 + count * 100 + status.MPI_TAG : -1, 10577);
    MPI_Recv(&count, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    compare("source of nothing", status.MPI_SOURCE, MPI_PROC_NULL);
    compare("tag of nothing", status.MPI_TAG, MPI_ANY_TAG);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    reductions();
    types();
    callbacks();
    printf("forum abi: rank %d of %d: %d compared, %d wrong\n", rank, size, compared, wrong);
    fflush(stdout);
    return MPI_Finalize();
}
