/*
 * The recorder: preloaded into every rank of an MPI program, it writes down what the kernel and the MPI library say about
 * that rank, so that a measurement can be checked against the conditions it was asked for.
 *
 *   mpirun ... env LD_PRELOAD=<recorder.so> MPIBENCH_EVIDENCE=<directory> <program>
 *
 * It knows no MPI and no launcher by name: whoever starts it says what their records know (__init__.py, variables()).
 *   MPIBENCH_LIBRARY, MPIBENCH_WORLD    the MPI library, and its MPI_COMM_WORLD: a number, or the object whose address it is
 *   MPIBENCH_RANK_VARIABLES, ..._SIZE_..., ..._LOCAL_RANK_..., ..._JOB_...    variables of the launcher, "A:B", first set counts
 * Without them, or where they make no sense, rank and size are null, with the reason ("world_unknown"), and the library, the
 * CPUs and the counters are recorded as ever.
 *
 * One JSON file per rank, <directory>/<host>.<pid>.json, written when MPI_Init has returned ("finalized": false) and
 * replaced when MPI_Finalize is called. Between the two snapshots nothing of this library runs. A program that never
 * calls MPI_Init writes nothing. Every failure is silent: a missing file is the failure, and the reader reports it.
 *
 * The C entry points are wrapped under both names (MPI_ and PMPI_), because Fortran 2008 bindings and statically linked
 * profilers call the PMPI_ one; whichever is entered first records. No mpi.h is needed: one binary serves every MPI.
 * A session (MPI_Session_init, MPI 4.0, chapter 11) begins and ends a record alike; it has no MPI_COMM_WORLD, so rank and size are
 * the launcher's. Of several sessions, or a world and sessions, the first begins the record and the last one open ends it.
 * MPI_Session_finalize waits for nobody: over TCP, a rank that comes later may find its connections closed by the other end and
 * their bytes no longer counted (seen over TCP), so that evidence is missing; MPI_Finalize closes them when all are there.
 *
 * text.h: JSON and small files. library.h: the MPI library. facts.h: what else is written once. links.h: the state of the
 * node's links. snapshot.h: what changes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdatomic.h>

#include "snapshot.h"

#define FORMAT 2 /* version of the file's layout; evidence_rank.py says which it reads */

static const char *directory; /* NULL: nobody asked, stay out of the way */
static struct text load, facts, start;
static pid_t recorded_process; /* a child forked later is not the rank */
static atomic_int entered, leaving;
static atomic_int open_count; /* worlds and sessions that were begun and not ended */
static atomic_flag initialized = ATOMIC_FLAG_INIT;

__attribute__((constructor)) static void notice_load(void)
{
    int saved = errno;
    directory = getenv("MPIBENCH_EVIDENCE");
    if (directory && !*directory)
        directory = NULL;
    if (directory)
        put_load(&load);
    errno = saved;
}

/* Writes the record under a temporary name and moves it in place, so that no reader sees half of it. */
static void write_record(const struct text *end)
{
    char host[HOST_NAME_MAX + 1] = "", path[PATH_MAX], part[PATH_MAX];
    struct text out = {0};
    gethostname(host, sizeof host - 1);
    int length = snprintf(path, sizeof path, "%s/%s.%ld.json", directory, host, (long)getpid());
    int room = snprintf(part, sizeof part, "%s/.%s.%ld.part", directory, host, (long)getpid());
    put(&out, "{\"format\":%d,\"finalized\":%s", FORMAT, end ? "true" : "false");
    const struct text *parts[] = {&load, &facts, &start, end};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i]) {
            put_bytes(&out, ",", 1);
            put_bytes(&out, parts[i]->data ? parts[i]->data : "", parts[i]->length);
            out.bad |= parts[i]->bad || !parts[i]->length;
        }
    put(&out, "}\n");
    if (!out.bad && length > 0 && length < PATH_MAX && room > 0 && room < PATH_MAX) {
        int file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        bool whole = file >= 0;
        for (size_t done = 0; whole && done < out.length;) {
            ssize_t count = write(file, out.data + done, out.length - done);
            whole = count > 0 || (count < 0 && errno == EINTR);
            done += count > 0 ? (size_t)count : 0;
        }
        if (file >= 0 && close(file))
            whole = false;
        if (file >= 0 && (!whole || rename(part, path)))
            unlink(part);
    }
    free(out.data);
}

static void take_snapshot(struct text *out, const char *name, bool at_start, bool with_links)
{
    out->length = 0;
    put_member(out, name);
    put_snapshot(out, at_start, with_links);
}

static void record_start(bool world)
{
    bool again = !atomic_fetch_add(&open_count, 1);
    if (!directory)
        return;
    if (atomic_flag_test_and_set(&initialized)) {
        if (again && recorded_process == getpid()) {
            int saved = errno;
            write_record(NULL); /* it had ended, and goes on */
            errno = saved;
        }
        return;
    }
    int saved = errno;
    recorded_process = getpid();
    put_identity(&facts);
    put_library(&facts, world);
    put_environment(&facts);
    put_node(&facts);
    take_snapshot(&start, "init", true, false); /* links are compared with the end, which this one may never see */
    write_record(NULL); /* a rank that hangs or is killed leaves this one */
    take_snapshot(&start, "init", true, true); /* writing is not part of the run */
    errno = saved;
}

static void record_end(void)
{
    struct text end = {0};
    if (atomic_fetch_sub(&open_count, 1) > 1 || !directory || recorded_process != getpid())
        return;
    int saved = errno;
    take_snapshot(&end, "finalize", false, true);
    write_record(&end);
    free(end.data);
    errno = saved;
}

/* ---- entry points ---- */

#define ERROR_OTHER 1 /* no symbol behind the wrapper, which a program that got here cannot meet */
#define EXPORTED __attribute__((visibility("default")))

/* Runs the wrapped initialisation; the outermost of nested ones (Fortran on C, MPI_ on PMPI_) records. */
#define INITIALIZE(call, good, world)                    \
    do {                                                 \
        bool outermost = !atomic_fetch_add(&entered, 1); \
        call;                                            \
        atomic_fetch_sub(&entered, 1);                   \
        if (outermost && (good))                         \
            record_start(world);                         \
    } while (0)

/* Runs the wrapped end; the outermost of nested ones records, before it. */
#define FINALIZE(call)                      \
    do {                                    \
        if (!atomic_fetch_add(&leaving, 1)) \
            record_end();                   \
        call;                               \
        atomic_fetch_sub(&leaving, 1);      \
    } while (0)

/* A handle is an int or a pointer, by the ABI; both are handed on in the register they came in. */
#define HANDLE void *

#define WRAP_C(prefix)                                                                        \
    EXPORTED int prefix##MPI_Init(int *count, char ***arguments)                              \
    {                                                                                         \
        int code = ERROR_OTHER, (*next)(int *, char ***);                                     \
        FUNCTION(next, #prefix "MPI_Init");                                                   \
        INITIALIZE(code = next ? next(count, arguments) : code, !code, true);                 \
        return code;                                                                          \
    }                                                                                         \
    EXPORTED int prefix##MPI_Init_thread(int *count, char ***arguments, int wanted, int *got) \
    {                                                                                         \
        int code = ERROR_OTHER, (*next)(int *, char ***, int, int *);                         \
        FUNCTION(next, #prefix "MPI_Init_thread");                                            \
        INITIALIZE(code = next ? next(count, arguments, wanted, got) : code, !code, true);    \
        return code;                                                                          \
    }                                                                                         \
    EXPORTED int prefix##MPI_Finalize(void)                                                   \
    {                                                                                         \
        int code = ERROR_OTHER, (*next)(void);                                                \
        FUNCTION(next, #prefix "MPI_Finalize");                                               \
        FINALIZE(code = next ? next() : code);                                                \
        return code;                                                                          \
    }                                                                                         \
    EXPORTED int prefix##MPI_Session_init(HANDLE info, HANDLE handler, HANDLE *session)       \
    {                                                                                         \
        int code = ERROR_OTHER, (*next)(HANDLE, HANDLE, HANDLE *);                            \
        FUNCTION(next, #prefix "MPI_Session_init");                                           \
        INITIALIZE(code = next ? next(info, handler, session) : code, !code, false);          \
        return code;                                                                          \
    }                                                                                         \
    EXPORTED int prefix##MPI_Session_finalize(HANDLE *session)                                \
    {                                                                                         \
        int code = ERROR_OTHER, (*next)(HANDLE *);                                            \
        FUNCTION(next, #prefix "MPI_Session_finalize");                                       \
        FINALIZE(code = next ? next(session) : code);                                         \
        return code;                                                                          \
    }

WRAP_C()
WRAP_C(P)

/* Fortran, as gfortran, ifx, flang and nvfortran spell it. */
#define WRAP_FORTRAN(prefix)                                                                  \
    EXPORTED void prefix##mpi_init_(int *code)                                                \
    {                                                                                         \
        void (*next)(int *);                                                                  \
        FUNCTION(next, #prefix "mpi_init_");                                                  \
        *code = ERROR_OTHER;                                                                  \
        INITIALIZE(if (next) next(code), !*code, true);                                       \
    }                                                                                         \
    EXPORTED void prefix##mpi_init_thread_(int *wanted, int *got, int *code)                  \
    {                                                                                         \
        void (*next)(int *, int *, int *);                                                    \
        FUNCTION(next, #prefix "mpi_init_thread_");                                           \
        *code = ERROR_OTHER;                                                                  \
        INITIALIZE(if (next) next(wanted, got, code), !*code, true);                          \
    }                                                                                         \
    EXPORTED void prefix##mpi_finalize_(int *code)                                            \
    {                                                                                         \
        void (*next)(int *);                                                                  \
        FUNCTION(next, #prefix "mpi_finalize_");                                              \
        *code = ERROR_OTHER;                                                                  \
        FINALIZE(if (next) next(code));                                                       \
    }                                                                                         \
    EXPORTED void prefix##mpi_session_init_(int *info, int *handler, int *session, int *code) \
    {                                                                                         \
        void (*next)(int *, int *, int *, int *);                                             \
        FUNCTION(next, #prefix "mpi_session_init_");                                          \
        *code = ERROR_OTHER;                                                                  \
        INITIALIZE(if (next) next(info, handler, session, code), !*code, false);              \
    }                                                                                         \
    EXPORTED void prefix##mpi_session_finalize_(int *session, int *code)                      \
    {                                                                                         \
        void (*next)(int *, int *);                                                           \
        FUNCTION(next, #prefix "mpi_session_finalize_");                                      \
        *code = ERROR_OTHER;                                                                  \
        FINALIZE(if (next) next(session, code));                                              \
    }

WRAP_FORTRAN()
WRAP_FORTRAN(p)
