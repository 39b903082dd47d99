/* The MPI library of the process, and rank and size as it says them; part of recorder.c. */
#ifndef RECORDER_LIBRARY_H
#define RECORDER_LIBRARY_H
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "text.h"

/* ---- loaded libraries ---- */

static bool starts_with_one(const char *string, const char *const *prefixes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strncmp(string, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

#define STARTS_WITH_ONE(string, prefixes) starts_with_one(string, prefixes, sizeof prefixes / sizeof *prefixes)

/* Prefixes of the MPI libraries themselves, from the compiler's command line (__init__.py). */
static const char *const MPI_PREFIXES[] = {MPI_LIBRARIES};

/* Prefixes of the other libraries that decide which network an MPI could use. */
static const char *const NETWORK_PREFIXES[] = {
    "libpmi", "libfabric", "libuc", "libpsm", "libmlx", "libibverbs", "librdmacm", "libopen-pal", "libopen-rte",
    "libhwloc", "libhcoll", "libsharp", "libefa", "libcxi", "libxpmem",
};

static int collect_library(struct dl_phdr_info *info, size_t size, void *paths)
{
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    if (!name)
        return 0;
    if (strstr(name, "-fi.so") /* loadable providers of libfabric */ ||
        STARTS_WITH_ONE(name + 1, MPI_PREFIXES) || STARTS_WITH_ONE(name + 1, NETWORK_PREFIXES))
        put_bytes(paths, info->dlpi_name, strlen(info->dlpi_name) + 1);
    return 0;
}

/* A symbol behind this library; or, when MPI was opened privately (mpi4py does), from the mapped MPI library itself. */
static void *find_symbol(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol)
        return symbol;
    struct text paths = {0};
    dl_iterate_phdr(collect_library, &paths);
    for (char *path = paths.data; path && path < paths.data + paths.length && !symbol; path += strlen(path) + 1) {
        if (!STARTS_WITH_ONE(strrchr(path, '/') + 1, MPI_PREFIXES))
            continue;
        void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        if (library) {
            symbol = dlsym(library, name);
            dlclose(library); /* gives back the reference NOLOAD took; the library stays */
        }
    }
    free(paths.data);
    return symbol;
}

/* A function pointer of the type asked for; ISO C has no cast from an object pointer. */
#define FUNCTION(pointer, name)                                            \
    do {                                                                   \
        void *found_symbol = find_symbol(name);                            \
        memcpy(&(pointer), &found_symbol, sizeof found_symbol);            \
    } while (0)

static void put_path(struct text *out, const char *path) /* as the file system has it, links resolved */
{
    char *real = realpath(path, NULL);
    put_string(out, real ? real : path);
    free(real);
}

/* ---- MPI's own rank and size ---- */

static size_t stem_length(const char *path) /* up to the ".so" of its file name */
{
    const char *name = strrchr(path, '/'), *end = strstr(name ? name : path, ".so");
    return end ? (size_t)(end - path) : strlen(path);
}

/* Whether two files are one installation's library: wheels hold libmpi.so and libmpi.so.12 as copies side by side. */
static bool same_library(const char *path, const char *other)
{
    char *one = realpath(path, NULL), *two = realpath(other, NULL);
    size_t length = one ? stem_length(one) : 0;
    bool same = one && two && length == stem_length(two) && !strncmp(one, two, length);
    free(one);
    free(two);
    return same;
}

/* Address of the object a library exports under that name; NULL for anything else, such as a function. */
static void *find_object(const char *name)
{
    /* A program that names the handle has it copied into itself (R_*_COPY), and libmpi then works on that copy. */
    void *object = dlsym(RTLD_DEFAULT, name), *entry = NULL;
    Dl_info origin;
    if (!object)
        object = find_symbol(name);
    if (!object || !dladdr1(object, &origin, &entry, RTLD_DL_SYMENT) || !entry || origin.dli_saddr != object)
        return NULL;
    return ELF64_ST_TYPE(((const ElfW(Sym) *)entry)->st_info) == STT_OBJECT ? object : NULL;
}

/* MPI_COMM_WORLD for the library that answered. The handle differs by ABI, and a wrong one would abort the run: it is used
 * for the library only that it was given for (MPIBENCH_WORLD, MPIBENCH_LIBRARY). Says why there is none, else NULL. */
static const char *find_world(const char *path, void **world)
{
    const char *given = getenv("MPIBENCH_WORLD"), *library = getenv("MPIBENCH_LIBRARY");
    const char *name = path ? strrchr(path, '/') : NULL;
    if (!name)
        return "the file of the MPI library is not known";
    if (!strncmp(name, "/libmpi_abi.so", 14)) { /* MPI 5.0, chapter 20 and appendix A: whoever made it */
        *world = (void *)(uintptr_t)0x101;
        return NULL;
    }
    if (!given || !*given || !library || !*library)
        return "MPIBENCH_WORLD and MPIBENCH_LIBRARY do not say what MPI_COMM_WORLD is";
    if (!same_library(path, library))
        return "the MPI library is not the one of MPIBENCH_LIBRARY";
    if (isdigit((unsigned char)*given)) {
        char *end = NULL;
        errno = 0;
        unsigned long number = strtoul(given, &end, 0);
        if (*end || errno || number > INT_MAX)
            return "MPIBENCH_WORLD is not a number of C's int";
        *world = (void *)(uintptr_t)number; /* passed in the register an int is passed in */
        return NULL;
    }
    *world = find_object(given);
    return *world ? NULL : "the MPI library has no object of the name in MPIBENCH_WORLD";
}

static const char *ask_world(const char *path, int *rank, int *size)
{
    int (*get_rank)(void *, int *), (*get_size)(void *, int *);
    void *world = NULL;
    const char *wrong = find_world(path, &world);
    if (wrong)
        return wrong;
    FUNCTION(get_rank, "PMPI_Comm_rank");
    FUNCTION(get_size, "PMPI_Comm_size");
    if (!get_rank || !get_size)
        return "the MPI library has no PMPI_Comm_rank or PMPI_Comm_size";
    return get_rank(world, rank) || get_size(world, size) ? "MPI_Comm_rank or MPI_Comm_size failed" : NULL;
}

/* Without a world the launcher's variables must do, and the reader says why. */
static void put_world(struct text *out, const char *path, bool has_world)
{
    int rank = -1, size = -1;
    const char *wrong = has_world ? ask_world(path, &rank, &size) : "the program began with a session, which has no world";
    put_member(out, "world");
    if (!wrong) {
        put(out, "{\"rank\":%d,\"size\":%d}", rank, size);
        return;
    }
    put(out, "null");
    put_member(out, "world_unknown");
    put_string(out, wrong);
}

/* ---- the MPI library ---- */

static void put_library(struct text *out, bool has_world)
{
    static char version[16384]; /* MPI_MAX_LIBRARY_VERSION_STRING is at most 8192 in the MPIs known */
    int length = 0, (*get_version)(char *, int *);
    Dl_info origin = {0};
    struct text paths = {0};
    void *anchor = find_symbol("PMPI_Get_library_version");
    FUNCTION(get_version, "PMPI_Get_library_version");
    if (get_version && get_version(version, &length))
        version[0] = '\0';
    if (!anchor)
        anchor = find_symbol("PMPI_Init");
    if (!anchor || !dladdr(anchor, &origin))
        origin.dli_fname = NULL;
    put_member(out, "library");
    put(out, "{\"version\":");
    put_string(out, get_version ? version : NULL);
    put(out, ",\"path\":");
    if (origin.dli_fname)
        put_path(out, origin.dli_fname);
    else
        put(out, "null");
    put(out, ",\"mapped\":[");
    dl_iterate_phdr(collect_library, &paths);
    for (char *path = paths.data; path && path < paths.data + paths.length; path += strlen(path) + 1) {
        put_comma(out);
        put_path(out, path);
    }
    put(out, "]}");
    out->bad |= paths.bad;
    free(paths.data);
    put_world(out, origin.dli_fname, has_world);
}

#endif
