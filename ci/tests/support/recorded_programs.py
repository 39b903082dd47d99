"""C that stands for an MPI library and for programs on it, in each way
one can be loaded, entered, left or broken off.
"""

from __future__ import annotations

#: An MPI library: the PMPI_ names are the functions and the MPI_
#: names weak aliases, as in all MPIs.
MPI_SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#define ALIAS(name) __attribute__((weak, alias(name)))
static int number(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }
int PMPI_Init(int *c, char ***v) { (void)c; (void)v; return number("FAKE_INIT_CODE", 0); }
int PMPI_Init_thread(int *c, char ***v, int wanted, int *got) { *got = wanted; return PMPI_Init(c, v); }
int PMPI_Finalize(void) { return 0; }
int PMPI_Get_library_version(char *text, int *length)
{
    strcpy(text, getenv("FAKE_VERSION") ? getenv("FAKE_VERSION") : "MPICH Version: 0 \"fake\"\n\tcaf\xc3\xa9 \\");
    *length = (int)strlen(text);
    return 0;
}
#ifdef OPENMPI
char ompi_mpi_comm_world[64];
#define HANDLE void *
#define WORLD (void *)ompi_mpi_comm_world
#else
#define HANDLE int
#define WORLD 0x44000000
#endif
int PMPI_Comm_rank(HANDLE world, int *rank) { if (world != WORLD) abort(); *rank = number("FAKE_RANK", 0); return 0; }
int PMPI_Comm_size(HANDLE world, int *size) { if (world != WORLD) abort(); *size = number("FAKE_SIZE", 1); return 0; }
int PMPI_Session_init(HANDLE info, HANDLE handler, HANDLE *session)
{
    (void)info; (void)handler; *session = (HANDLE)7; return number("FAKE_INIT_CODE", 0);
}
int PMPI_Session_finalize(HANDLE *session) { if (*session != (HANDLE)7) abort(); *session = 0; return 0; }
int MPI_Session_init(HANDLE info, HANDLE handler, HANDLE *session) ALIAS("PMPI_Session_init");
int MPI_Session_finalize(HANDLE *session) ALIAS("PMPI_Session_finalize");
int MPI_Init(int *c, char ***v) ALIAS("PMPI_Init");
int MPI_Init_thread(int *c, char ***v, int wanted, int *got) ALIAS("PMPI_Init_thread");
int MPI_Finalize(void) ALIAS("PMPI_Finalize");
"""

#: Fortran bindings on top of it, which call the PMPI_ functions (as the
#: f08 module of Intel MPI and Open MPI does).
FORTRAN_SOURCE = r"""
int PMPI_Init(int *, char ***);
int PMPI_Finalize(void);
void mpi_init_(int *code) { *code = PMPI_Init(0, 0); }
void mpi_finalize_(int *code) { *code = PMPI_Finalize(); }
void mpi_init_f08_(int *code) { *code = PMPI_Init(0, 0); }
void mpi_finalize_f08_(int *code) { *code = PMPI_Finalize(); }
"""

#: So many bytes through a TCP connection over loopback, both ends
#: in one process; 1 where that fails.
EXCHANGE_SOURCE = r"""
static int exchange(long bytes)
{
    static char block[65536];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t width = sizeof at;
    int door = socket(AF_INET, SOCK_STREAM, 0), out = socket(AF_INET, SOCK_STREAM, 0), in;
    if (bind(door, (struct sockaddr *)&at, sizeof at) || listen(door, 1)) return 1;
    if (getsockname(door, (struct sockaddr *)&at, &width) || connect(out, (struct sockaddr *)&at, width)) return 1;
    in = accept(door, 0, 0);
    for (; bytes > 0; bytes -= sizeof block)
        if (write(out, block, sizeof block) != sizeof block || recv(in, block, sizeof block, MSG_WAITALL) < 1) return 1;
    return 0;
}
"""

PROGRAM_SOURCE = (
    r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
int MPI_Init(int *, char ***), MPI_Init_thread(int *, char ***, int, int *), MPI_Finalize(void);
int PMPI_Init(int *, char ***), PMPI_Finalize(void);
int MPI_Session_init(void *, void *, void **), MPI_Session_finalize(void **);
void mpi_init_(int *), mpi_finalize_(int *), mpi_init_f08_(int *), mpi_finalize_f08_(int *);
static void *idle(void *nothing) { pause(); return nothing; }
"""
    + EXCHANGE_SOURCE
    + r"""
int main(int count, char **words)
{
    int code = 0, level;
    const char *way = count > 1 ? words[1] : "";
    void *one = 0, *two = 0;
    if (!strcmp(way, "without")) return 0;
    if (!strncmp(way, "session", 7) && MPI_Session_init(0, 0, &one)) return 3;
    if (!strcmp(way, "session")) return MPI_Session_finalize(&one);
    if (!strcmp(way, "session and world")) return MPI_Init(&count, &words) | MPI_Finalize() | MPI_Session_finalize(&one);
    if (!strcmp(way, "session left open")) return MPI_Init(&count, &words) | MPI_Finalize();
    if (!strcmp(way, "sessions")) return MPI_Session_finalize(&one) | MPI_Session_init(0, 0, &two) | MPI_Session_finalize(&two);
    if (!strcmp(way, "sessions, the second open")) return MPI_Session_finalize(&one) | MPI_Session_init(0, 0, &two);
    if (!strcmp(way, "fortran")) { mpi_init_(&code); mpi_finalize_(&code); return code; }
    if (!strcmp(way, "f08")) { mpi_init_f08_(&code); mpi_finalize_f08_(&code); return code; }
    if (!strcmp(way, "profiled")) return PMPI_Init(&count, &words) | PMPI_Finalize();
    if (!strcmp(way, "threaded") && MPI_Init_thread(&count, &words, 3, &level)) return 1;
    if (strcmp(way, "threaded") && MPI_Init(&count, &words)) return 3;
    if (!strcmp(way, "threaded")) {
        pthread_t thread;
        pthread_create(&thread, 0, idle, 0);
        pthread_setname_np(thread, "progress");
    }
    if (!strcmp(way, "killed")) raise(SIGKILL);
    if (!strcmp(way, "exits")) return 0;
    if (!strcmp(way, "forks")) { if (fork()) wait(0); else { MPI_Finalize(); _exit(0); } }
    if (!strcmp(way, "sends") && exchange(4 << 20)) return 4;
    if (!strcmp(way, "udp") && socket(AF_INET, SOCK_DGRAM, 0) < 0) return 4;
    if (!strcmp(way, "udp")) { struct sockaddr_in any = {.sin_family = AF_INET}; bind(3, (struct sockaddr *)&any, sizeof any); }
    if (!strcmp(way, "private")) return 5;
    return MPI_Finalize();
}
"""
)

#: A program that needs nothing but MPI.
MPI_PROGRAM = (
    "int MPI_Init(int *, char ***), MPI_Finalize(void); int main(void) { return MPI_Init(0, 0) "
    "| MPI_Finalize(); }"
)
#: Opens the library as mpi4py does: privately, so that no symbol of it can be found by name.
PRIVATE_SOURCE = r"""
#include <dlfcn.h>
#include <stdio.h>
int MPI_Init(int *, char ***) __attribute__((weak));
int MPI_Finalize(void) __attribute__((weak));
int main(int count, char **words)
{
    if (!dlopen(words[1], RTLD_NOW | RTLD_LOCAL)) return fprintf(stderr, "%s\n", dlerror());
    if (!MPI_Init) return 6; /* not preloaded */
    return MPI_Init(&count, &words) | MPI_Finalize();
}
"""
