/*
 * The recorder: preloaded into every rank of an MPI program, it writes down what the kernel and the MPI library say about
 * that rank, so that a measurement can be checked against the conditions it was asked for.
 *
 *   mpirun ... env LD_PRELOAD=<recorder.so> MPIBENCH_EVIDENCE=<directory> <program>
 *
 * It knows no MPI and no launcher by name: whoever starts it says what their records know (__init__.py, variables()).
 *   MPIBENCH_LIBRARY, MPIBENCH_WORLD    the MPI library, and its MPI_COMM_WORLD: a number, or the object whose address it is
 *   MPIBENCH_WORLDS                     where no library is named: "SYMBOL=WORLD:...", of the library that answered and has SYMBOL
 *   MPIBENCH_NONCE                      what only this launch was given; each record repeats it
 *   MPIBENCH_RANK_VARIABLES, ..._SIZE_..., ..._LOCAL_RANK_..., ..._JOB_...    variables of the launcher, "A:B", first set counts
 * Without them, or where they make no sense, rank and size are null, with the reason ("world_unknown"), and the library, the
 * CPUs and the counters are recorded as ever.
 *
 * One file of JSON lines per node, <directory>/<host>.<kernel's boot>.jsonl. A rank appends a line when MPI_Init has returned
 * ("finalized": false) and another when MPI_Finalize is called, with what is new by then. Each line is one write with O_APPEND,
 * which the kernel of the node keeps whole and apart from those of other ranks, also on NFS and Lustre, where other nodes write
 * other files; it begins with a line end, so that one that a full disk cut damages no other. Between the two snapshots nothing of
 * this library runs. A program that never calls MPI_Init writes nothing. Every failure is silent: a missing line is the failure,
 * and the reader reports it.
 *
 * The C entry points are wrapped under both names (MPI_ and PMPI_), because Fortran 2008 bindings and statically linked
 * profilers call the PMPI_ one; whichever is entered first records. No mpi.h is needed: one binary serves every MPI.
 * A session (MPI_Session_init, MPI 4.0, chapter 11) begins and ends a record alike; it has no MPI_COMM_WORLD, so rank and size are
 * the launcher's. Of several sessions, or a world and sessions, the first begins the record and the last one open ends it.
 * MPI_Session_finalize waits for nobody: over TCP, a rank that comes later may find its connections closed by the other end and
 * their bytes no longer counted (seen over TCP), so that evidence is missing; MPI_Finalize closes them when all are there.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <link.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define FORMAT 5       /* version of the file's layout; rank_records.py says which it reads */
#define MAX_NAME 256   /* bytes of a variable's name, its end included */
#define MAX_VALUE 4096 /* bytes kept of an environment variable */
#define MAX_THREADS 64 /* threads listed */
#define MAX_GPUS 64    /* GPUs asked for their state */
#define MAX_PAIRS 512  /* address pairs of TCP sockets listed; beyond it "complete" is false */

extern char **environ;

/* ---- text: a growing buffer; once anything failed it stays bad and is never written out ---- */

struct text {
    char *data;
    size_t length, room;
    bool bad;
};

static void put_bytes(struct text *out, const char *bytes, size_t count)
{
    if (out->bad)
        return;
    if (out->length + count + 1 > out->room) {
        size_t room = 2 * (out->length + count) + 4096;
        char *grown = realloc(out->data, room);
        if (!grown) {
            out->bad = true;
            return;
        }
        out->data = grown;
        out->room = room;
    }
    memcpy(out->data + out->length, bytes, count);
    out->length += count;
    out->data[out->length] = '\0';
}

__attribute__((format(printf, 2, 3))) static void put(struct text *out, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (count < 0 || (size_t)count >= sizeof line)
        out->bad = true;
    else
        put_bytes(out, line, (size_t)count);
}

/* A JSON string of at most `limit` bytes. Bytes above ASCII become \u00XX, which the reader turns back into bytes. */
static void put_limited(struct text *out, const char *string, size_t limit)
{
    put_bytes(out, "\"", 1);
    for (const char *at = string; *at && (size_t)(at - string) < limit; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\')
            put(out, "\\%c", byte);
        else if (byte < 0x20 || byte > 0x7e)
            put(out, "\\u%04x", byte);
        else
            put_bytes(out, at, 1);
    }
    put_bytes(out, "\"", 1);
}

static void put_string(struct text *out, const char *string) /* NULL is null */
{
    if (string)
        put_limited(out, string, SIZE_MAX);
    else
        put(out, "null");
}

static void put_comma(struct text *out) /* before the next member, unless it is the first one */
{
    if (!out->bad && out->length && !strchr("{[,", out->data[out->length - 1]))
        put(out, ",");
}

static void put_member(struct text *out, const char *name)
{
    put_comma(out);
    put_string(out, name);
    put(out, ":");
}

/* ---- files of /proc and /sys ---- */

static char *read_file(const char *path) /* whole content, to be freed; NULL when it cannot be read */
{
    struct text content = {0};
    char piece[4096];
    ssize_t count;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    put_bytes(&content, "", 0);
    while ((count = read(file, piece, sizeof piece)) > 0)
        put_bytes(&content, piece, (size_t)count);
    close(file);
    if (count < 0 || content.bad) {
        free(content.data);
        return NULL;
    }
    return content.data;
}

/* ---- paths are formats, so that callers need no buffer of their own ---- */

static bool make_path(char path[PATH_MAX], const char *format, va_list arguments)
{
    int count = vsnprintf(path, PATH_MAX, format, arguments);
    return count > 0 && count < PATH_MAX;
}

/* First line of a file, to be freed; NULL when it is missing, unreadable or empty. */
__attribute__((format(printf, 1, 2))) static char *read_line(const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    char *line = make_path(path, format, arguments) ? read_file(path) : NULL;
    va_end(arguments);
    if (line)
        line[strcspn(line, "\n")] = '\0';
    if (line && !*line) {
        free(line);
        line = NULL;
    }
    return line;
}

/* Member with a line read elsewhere, which is freed. */
static void put_line(struct text *out, const char *name, char *line)
{
    put_member(out, name);
    put_string(out, line);
    free(line);
}

/* Member with the number a line starts with ("123", or "123@time" of cxi), times `unit`; no member when it has none. */
static bool put_number(struct text *out, const char *name, char *line, uint64_t unit)
{
    char *end = line;
    errno = 0;
    unsigned long long value = line && *line != '-' ? strtoull(line, &end, 10) : 0;
    bool good = line && end != line && !errno;
    if (good) {
        put_member(out, name);
        put(out, "%llu", value * (unsigned long long)unit);
    }
    free(line);
    return good;
}

/* Member with the last part of a link's target, null when it is not a link. */
__attribute__((format(printf, 3, 4))) static void put_link(struct text *out, const char *name, const char *format, ...)
{
    char path[PATH_MAX], target[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    ssize_t count = make_path(path, format, arguments) ? readlink(path, target, sizeof target - 1) : -1;
    va_end(arguments);
    if (count < 0)
        count = 0;
    target[count] = '\0';
    const char *last = strrchr(target, '/');
    put_member(out, name);
    put_string(out, !count ? NULL : last ? last + 1 : target);
}

/* A folder to go through with next_entry(), which closes it at its end; NULL, of which there is no entry, when it cannot be read. */
__attribute__((format(printf, 1, 2))) static DIR *open_folder(const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    DIR *folder = make_path(path, format, arguments) ? opendir(path) : NULL;
    va_end(arguments);
    return folder;
}

static const char *next_entry(DIR *folder) /* that is not hidden */
{
    struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.')
            return entry->d_name;
    if (folder)
        closedir(folder);
    return NULL;
}

/* Members from files below a folder, each "path" by its last part, or "name=path"; a file that is missing or holds nothing of use
 * becomes none. A line that is a number becomes one ("123", or "123@time" of cxi); a negative one is what drivers write for "none". */
static void put_files(struct text *out, const char *folder, const char *const *files)
{
    for (; *files; files++) {
        const char *equals = strchr(*files, '='), *path = equals ? equals + 1 : *files, *slash = strrchr(path, '/');
        char name[64], *line = read_line("%s/%s", folder, path);
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - *files) : 63, equals ? *files : slash ? slash + 1 : path);
        if (line && (line[strspn(line, "-0123456789")] == '\0' || line[strspn(line, "0123456789")] == '@'))
            put_number(out, name, line, 1);
        else if (line)
            put_line(out, name, line);
    }
}

/* Value of "field" in a status file, to be freed. */
static char *status_field(const char *path, const char *field)
{
    char *found = NULL, *status = read_file(path);
    size_t width = strlen(field);
    for (char *line = status; line && !found; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, field, width)) {
            line += width + strspn(line + width, " \t");
            found = strndup(line, strcspn(line, "\n"));
        }
    free(status);
    return found;
}

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

static void put_size(struct text *out, const char *path) /* in bytes, of the file a path leads to; null where there is none */
{
    struct stat file;
    if (!path || stat(path, &file))
        put(out, "null");
    else
        put(out, "%lld", (long long)file.st_size);
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

/* MPI_COMM_WORLD of the first pair "SYMBOL=WORLD" of MPIBENCH_WORLDS whose symbol is the answering library's own; else NULL. */
static const char *world_by_symbol(const char *path, char pair[MAX_NAME])
{
    for (const char *at = getenv("MPIBENCH_WORLDS"); at && *at;) {
        size_t width = strcspn(at, ":");
        Dl_info origin;
        if (width < MAX_NAME) {
            memcpy(pair, at, width);
            pair[width] = '\0';
            char *equals = strchr(pair, '=');
            if (equals)
                *equals = '\0';
            void *symbol = equals ? find_symbol(pair) : NULL;
            if (symbol && dladdr(symbol, &origin) && !strcmp(origin.dli_fname, path))
                return equals + 1;
        }
        at += width + (at[width] == ':');
    }
    return NULL;
}

/* MPI_COMM_WORLD for the library that answered. The handle differs by ABI, and a wrong one would abort the run: it is used
 * for the library only that it was given for (MPIBENCH_WORLD, MPIBENCH_LIBRARY), or that has a symbol of its ABI
 * (MPIBENCH_WORLDS). Says why there is none, else NULL. */
static const char *find_world(const char *path, void **world)
{
    const char *given = getenv("MPIBENCH_WORLD"), *library = getenv("MPIBENCH_LIBRARY");
    const char *name = path ? strrchr(path, '/') : NULL;
    char pair[MAX_NAME];
    if (!name)
        return "the file of the MPI library is not known";
    if (!strncmp(name, "/libmpi_abi.so", 14)) { /* MPI 5.0, chapter 20 and appendix A: whoever made it */
        *world = (void *)(uintptr_t)0x101;
        return NULL;
    }
    bool named = given && *given && library && *library;
    if (!named)
        given = world_by_symbol(path, pair);
    if (!given)
        return "MPIBENCH_WORLD and MPIBENCH_LIBRARY do not say what MPI_COMM_WORLD is";
    if (named && !same_library(path, library))
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

/* Who answers when the program asks for the time: whatever was preloaded comes before the MPI and the C library. */
static void put_clocks(struct text *out)
{
    static const char *const clocks[] = {"MPI_Wtime", "clock_gettime", "gettimeofday"};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        void *clock = dlsym(RTLD_DEFAULT, clocks[i]);
        Dl_info origin;
        if (clock && dladdr(clock, &origin) && origin.dli_fname) {
            put_member(out, clocks[i]);
            put_path(out, origin.dli_fname);
        }
    }
}

static void put_library(struct text *out, bool has_world)
{
    static char version[16384]; /* MPI_MAX_LIBRARY_VERSION_STRING is at most 8192 in the MPIs known */
    int length = 0, abi = -1, minor = -1, (*get_version)(char *, int *), (*get_abi)(int *, int *);
    Dl_info origin = {0};
    struct text paths = {0};
    void *anchor = find_symbol("PMPI_Get_library_version");
    FUNCTION(get_version, "PMPI_Get_library_version");
    if (get_version && get_version(version, &length))
        version[0] = '\0';
    FUNCTION(get_abi, "PMPI_Abi_get_version"); /* MPI 5.0, section 20.3: -1 where it has none */
    if (get_abi && get_abi(&abi, &minor))
        abi = -1;
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
    put(out, ",\"abi\":%d,\"size_bytes\":", abi);
    put_size(out, origin.dli_fname);
    put(out, ",\"mapped\":[");
    dl_iterate_phdr(collect_library, &paths);
    for (char *path = paths.data; path && path < paths.data + paths.length; path += strlen(path) + 1) {
        put_comma(out);
        put_path(out, path);
    }
    put(out, "],\"clocks\":{");
    put_clocks(out);
    put(out, "}}");
    out->bad |= paths.bad;
    free(paths.data);
    put_world(out, origin.dli_fname, has_world);
}

/* ---- identity and settings ---- */

/* The first variable that is set of those that `list` names, "A:B"; its name goes to `name`. NULL where none is. */
static const char *first_set(const char *list, char name[MAX_NAME])
{
    for (const char *at = getenv(list); at && *at;) {
        size_t width = strcspn(at, ":");
        if (width && width < MAX_NAME) {
            memcpy(name, at, width);
            name[width] = '\0';
            const char *value = getenv(name);
            if (value)
                return value;
        }
        at += width + (at[width] == ':');
    }
    return NULL;
}

/* Member {"value":..., "source":...} from the first variable that is set, else null. */
static void put_first_set(struct text *out, const char *member, const char *list)
{
    char name[MAX_NAME];
    const char *value = first_set(list, name);
    put_member(out, member);
    if (value) {
        put(out, "{\"value\":");
        put_limited(out, value, MAX_VALUE);
        put(out, ",\"source\":");
        put_string(out, name);
        put(out, "}");
    } else {
        put(out, "null");
    }
}

static long long loaded_ns; /* when this library was loaded, which is before any rank of its world got through MPI_Init */

/* What both lines of a rank have; a pid comes twice where containers have their own. */
static void put_process(struct text *out)
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    put_member(out, "host");
    put_string(out, host);
    put_member(out, "pid");
    put(out, "%ld,\"loaded_ns\":%lld", (long)getpid(), loaded_ns);
}

static void put_identity(struct text *out)
{
    put_member(out, "executable");
    put_path(out, "/proc/self/exe");
    put_member(out, "executable_bytes");
    put_size(out, "/proc/self/exe");
    put_member(out, "nonce");
    put_string(out, getenv("MPIBENCH_NONCE"));
    put_first_set(out, "rank", "MPIBENCH_RANK_VARIABLES");
    put_first_set(out, "size", "MPIBENCH_SIZE_VARIABLES");
    put_first_set(out, "job", "MPIBENCH_JOB_VARIABLES");
}

/* Variables that choose or tune the network, the binding or the MPI library. */
static const char *const SETTINGS[] = {
    RUN_SETTINGS, /* those of each MPI library, launcher and platform of GPUs, from the compiler's command line (__init__.py) */
    "FI_", "UCX_", "PSM_", "PSM2_", "PSM3_", "HFI_", "HCOLL_", "SHARP_", "IBV_", "RDMAV_", "MLX4_", "MLX5_",
    "NCCL_", "RCCL_", "HSA_", "MPI4PY_", "OMP_", "KMP_", "GOMP_", "LD_PRELOAD", "LD_LIBRARY_PATH",
    "NVIDIA_VISIBLE_DEVICES",
};

/* What matches above but says nothing, likewise. */
static const char *const NOT_SETTINGS[] = {RUN_BOOKKEEPING};

static bool may_be_secret(const char *name, size_t width)
{
    static const char *const words[] = {"KEY", "TOKEN", "SECRET", "PASS", "CRED", "COOKIE", "AUTH", "UUID"};
    for (size_t at = 0; at < width; at++)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (!strncasecmp(name + at, words[i], strlen(words[i])))
                return true;
    return false;
}

/* Whether MPIBENCH_ASKED, ":A:B:", names the variable: the condition set it, so it is recorded whatever its name and length. */
static bool is_asked(const char *name, size_t width)
{
    const char *at = getenv("MPIBENCH_ASKED");
    while (at && *at == ':') {
        const char *end = strchr(++at, ':');
        if (end && (size_t)(end - at) == width && !strncmp(at, name, width))
            return true;
        at = end;
    }
    return false;
}

static void put_environment(struct text *out)
{
    put_member(out, "environment");
    put(out, "{");
    for (char **variable = environ; variable && *variable; variable++) {
        const char *equals = strchr(*variable, '=');
        size_t width = equals ? (size_t)(equals - *variable) : 0;
        char name[MAX_NAME];
        bool asked = is_asked(*variable, width);
        if (!width || width >= sizeof name)
            continue;
        if (!asked && (may_be_secret(*variable, width) ||
                       !STARTS_WITH_ONE(*variable, SETTINGS) || STARTS_WITH_ONE(*variable, NOT_SETTINGS)))
            continue;
        memcpy(name, *variable, width);
        name[width] = '\0';
        put_member(out, name);
        put_limited(out, equals + 1, asked ? SIZE_MAX : MAX_VALUE);
    }
    put(out, "}");
}

/* ---- the node ---- */

static bool address_text(const struct sockaddr *address, char host[INET6_ADDRSTRLEN]) /* false: no IP address */
{
    if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)address;
        return inet_ntop(AF_INET, &four->sin_addr, host, INET6_ADDRSTRLEN);
    }
    if (address && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)address;
        if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) /* one spelling for one address */
            return inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, host, INET6_ADDRSTRLEN);
        return inet_ntop(AF_INET6, &six->sin6_addr, host, INET6_ADDRSTRLEN);
    }
    return false;
}

static void put_interface(struct text *out, const char *name, const struct ifaddrs *addresses)
{
    static const char *const files[] = {"dev_port" /* from 0; cards with several */, NULL};
    char folder[NAME_MAX + 32];
    snprintf(folder, sizeof folder, "/sys/class/net/%s", name);
    put_member(out, name);
    put(out, "{");
    put_files(out, folder, files);
    put_link(out, "slot", "%s/device", folder);
    put(out, ",\"lower\":["); /* interfaces a bond, VLAN or bridge sits on */
    DIR *entries = open_folder("%s", folder);
    for (const char *entry; (entry = next_entry(entries));)
        if (!strncmp(entry, "lower_", 6)) {
            put_comma(out);
            put_string(out, entry + 6);
        }
    put(out, "],\"addresses\":[");
    for (; addresses; addresses = addresses->ifa_next) {
        char host[INET6_ADDRSTRLEN];
        if (!strcmp(addresses->ifa_name, name) && address_text(addresses->ifa_addr, host)) {
            put_comma(out);
            put_string(out, host);
        }
    }
    put(out, "]}");
}

static void put_interfaces(struct text *out)
{
    struct if_nameindex *list = if_nameindex();
    struct ifaddrs *addresses = NULL;
    if (getifaddrs(&addresses))
        addresses = NULL;
    put_member(out, "interfaces");
    put(out, "{");
    for (struct if_nameindex *at = list; at && at->if_index; at++)
        put_interface(out, at->if_name, addresses);
    put(out, "}");
    out->bad |= !list;
    if (addresses)
        freeifaddrs(addresses);
    if (list)
        if_freenameindex(list);
}

/* Each port of the RDMA devices as a member "mlx5_0/1", whose own members `put_port` writes from the port's folder. */
static void put_rdma_ports(struct text *out, void (*put_port)(struct text *, const char *))
{
    DIR *devices = open_folder("/sys/class/infiniband");
    for (const char *device; (device = next_entry(devices));) {
        DIR *ports = open_folder("/sys/class/infiniband/%s/ports", device);
        for (const char *port; (port = next_entry(ports));) {
            char name[2 * NAME_MAX + 4], folder[3 * NAME_MAX];
            snprintf(name, sizeof name, "%s/%s", device, port);
            snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/ports/%s", device, port);
            put_member(out, name);
            put(out, "{");
            put_port(out, folder);
            put(out, "}");
        }
    }
}

/* The same of Slingshot adapters, which have one port each. */
static void put_slingshot_ports(struct text *out, void (*put_port)(struct text *, const char *))
{
    DIR *devices = open_folder("/sys/class/cxi");
    for (const char *device; (device = next_entry(devices));) {
        char name[NAME_MAX + 8], folder[NAME_MAX + 32];
        snprintf(name, sizeof name, "%s/1", device);
        snprintf(folder, sizeof folder, "/sys/class/cxi/%s", device);
        put_member(out, name);
        put(out, "{");
        put_port(out, folder);
        put(out, "}");
    }
}

static void put_port_facts(struct text *out, const char *folder)
{
    static const char *const files[] = {"link_layer", NULL};
    put_files(out, folder, files);
    put_link(out, "slot", "%s/../../device", folder);
}

/* "driver of eth0": what an upgrade of driver or firmware changes (ioctl SIOCETHTOOL, ETHTOOL_GDRVINFO, <linux/ethtool.h>: open
 * to every user). Interfaces without a device are software. */
static void put_interface_driver(struct text *out, const char *name)
{
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {0};
    char path[PATH_MAX], key[NAME_MAX + 16], line[160];
    snprintf(path, sizeof path, "/sys/class/net/%s/device", name);
    if (access(path, F_OK) || strlen(name) >= sizeof request.ifr_name)
        return;
    strcpy(request.ifr_name, name);
    request.ifr_data = (void *)&driver;
    int file = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool known = file >= 0 && !ioctl(file, SIOCETHTOOL, &request);
    if (file >= 0)
        close(file);
    if (!known)
        return;
    snprintf(key, sizeof key, "driver of %s", name);
    snprintf(line, sizeof line, "%.31s %.31s%s%.31s", driver.driver, driver.version, *driver.fw_version ? " firmware " : "",
             driver.fw_version);
    put_member(out, key);
    put_string(out, line);
}

/* One rank of a node is enough to read what all of them share; a rank that does not know its number on the node reads it too. */
static bool reads_node(void)
{
    char name[MAX_NAME];
    const char *number = first_set("MPIBENCH_LOCAL_RANK_VARIABLES", name);
    return !number || !strcmp(number, "0");
}

/* Member for a PCI device: where it hangs (its path below /sys/devices, every bridge on the way a part of it) and some of its
 * files. None where the link is not to such a device. */
static void put_pci_device(struct text *out, const char *name, const char *link, const char *const *files)
{
    static const char root[] = "/sys/devices/";
    char *real = realpath(link, NULL);
    if (real && !strncmp(real, root, sizeof root - 1) && strstr(real, "/pci")) {
        put_member(out, name);
        put(out, "{");
        put_member(out, "path");
        put_string(out, real + sizeof root - 1);
        put_files(out, link, files);
        put(out, "}");
    }
    free(real);
}

/* Display controller or accelerator (class 03 and 12) of NVIDIA or AMD, and no virtual function, as preflight has it. */
static bool is_gpu(const char *folder)
{
    char *class = read_line("%s/class", folder), *vendor = read_line("%s/vendor", folder), physical[2 * NAME_MAX + 48];
    snprintf(physical, sizeof physical, "%s/physfn", folder);
    bool good = class && vendor && access(physical, F_OK) && (!strncmp(class, "0x03", 4) || !strncmp(class, "0x12", 4)) &&
                (!strcmp(vendor, "0x10de") || !strcmp(vendor, "0x1002"));
    free(class);
    free(vendor);
    return good;
}

/* The node's GPUs by PCI address and, to say which of them is next to which, its adapters. Only where a driver of
 * GPUs is loaded: other nodes are not searched. */
static void put_node_gpus(struct text *out)
{
    static const char *const files[] = {
        "vendor", "device", "numa_node", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width", NULL,
    };
    static const char *const classes[] = {"infiniband", "cxi", "net"}, *const home[] = {"numa_node", NULL};
    char folder[2 * NAME_MAX + 32];
    bool nvidia = !access("/sys/module/nvidia", F_OK), amd = !access("/sys/module/amdgpu", F_OK);
    put_member(out, "gpus");
    if ((!nvidia && !amd) || !reads_node()) {
        put(out, "null,\"adapters\":null");
        return;
    }
    put(out, "{");
    DIR *devices = open_folder("/sys/bus/pci/devices");
    for (const char *device; (device = next_entry(devices));) {
        snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%s", device);
        if (is_gpu(folder))
            put_pci_device(out, device, folder, files);
    }
    put(out, "}");
    put_member(out, "adapters");
    put(out, "{");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        DIR *names = open_folder("/sys/class/%s", classes[i]);
        for (const char *name; (name = next_entry(names));) {
            snprintf(folder, sizeof folder, "/sys/class/%s/%s/device", classes[i], name);
            put_pci_device(out, name, folder, home);
        }
    }
    put(out, "}");
    if (nvidia)
        put_line(out, "NVIDIA driver", read_line("/proc/driver/nvidia/version"));
    if (amd)
        put_line(out, "amdgpu driver", read_line("/sys/module/amdgpu/version")); /* none: the kernel's own */
}

static void put_node(struct text *out)
{
    struct utsname system;
    put_member(out, "node");
    put(out, "{\"release\":");
    put_string(out, uname(&system) ? NULL : system.release);
    put_line(out, "boot_id", read_line("/proc/sys/kernel/random/boot_id"));
    put_line(out, "smt_active", read_line("/sys/devices/system/cpu/smt/active"));
    put_line(out, "zone_reclaim_mode", read_line("/proc/sys/vm/zone_reclaim_mode"));
    put_line(out, "numa_balancing", read_line("/proc/sys/kernel/numa_balancing"));
    DIR *names = open_folder("/sys/class/net");
    for (const char *name; (name = next_entry(names));)
        put_interface_driver(out, name);
    DIR *devices = open_folder("/sys/class/infiniband");
    for (const char *device; (device = next_entry(devices));) {
        char key[NAME_MAX + 16];
        snprintf(key, sizeof key, "driver of %s", device);
        put_link(out, key, "/sys/class/infiniband/%s/device/driver", device);
        snprintf(key, sizeof key, "firmware of %s", device);
        put_line(out, key, read_line("/sys/class/infiniband/%s/fw_ver", device));
    }
    put_interfaces(out);
    put_member(out, "ports");
    put(out, "{");
    put_rdma_ports(out, put_port_facts);
    put(out, "}");
    put_node_gpus(out);
    put(out, "}");
}

/* CPUs the process's cgroup leaves it, from the nearest level that says so (cgroup v2, then the v1 controller). */
static char *cpuset_cpus(void)
{
    char *found = NULL, *groups = read_file("/proc/self/cgroup"), *state = NULL;
    for (char *line = groups ? strtok_r(groups, "\n", &state) : NULL; line && !found; line = strtok_r(NULL, "\n", &state)) {
        bool unified = !strncmp(line, "0::", 3);
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path || (!unified && strncmp(controllers, ":cpuset:", 8)))
            continue;
        for (path++; !found; *strrchr(path, '/') = '\0') {
            found = unified ? read_line("/sys/fs/cgroup%s/cpuset.cpus.effective", path)
                            : read_line("/sys/fs/cgroup/cpuset%s/cpuset.effective_cpus", path);
            if (!found && !unified)
                found = read_line("/sys/fs/cgroup/cpuset%s/cpuset.cpus", path);
            if (!strchr(path, '/'))
                break;
        }
    }
    free(groups);
    return found;
}

/* Where the process might run whatever MPI says; collected when the library is loaded. */
static void put_load(struct text *out)
{
    char parent[64];
    snprintf(parent, sizeof parent, "/proc/%ld/status", (long)getppid());
    put_member(out, "load");
    put(out, "{");
    put_line(out, "parent_cpus", status_field(parent, "Cpus_allowed_list:"));
    put_line(out, "cpuset", cpuset_cpus());
    put_line(out, "online", read_line("/sys/devices/system/cpu/online"));
    put(out, "}");
}

/* ---- the state of the node's links: settings, and counters of errors, drops and waits ---- */

/* Linux, Documentation/ABI/testing/sysfs-class-net; the PCI files, Documentation/ABI/testing/sysfs-bus-pci. */
static const char *const INTERFACE_FILES[] = {
    "mtu_bytes=mtu", "speed_mbit_per_s=speed", "duplex", "state=operstate", "carrier_changes",
    "pcie_speed=device/current_link_speed", "pcie_width=device/current_link_width", "address", NULL,
};

/* Linux, Documentation/ABI/stable/sysfs-class-infiniband; below the port's folder. hw_counters are the drivers' own: most
 * here are of mlx5_ib (drivers/infiniband/hw/mlx5/counters.c), rx_drops of efa (drivers/infiniband/hw/efa/efa_verbs.c); hfi1
 * counts per device (drivers/infiniband/hw/hfi1/chip.c, dev_cntrs). */
static const char *const PORT_FILES[] = {
    "state", "phys_state", "rate", "address=gids/0",
    "pcie_speed=../../device/current_link_speed", "pcie_width=../../device/current_link_width",
    "counters/symbol_error", "counters/link_error_recovery", "counters/link_downed", "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors", "counters/port_rcv_switch_relay_errors",
    "counters/port_rcv_constraint_errors", "counters/port_xmit_constraint_errors", "counters/port_xmit_discards",
    "counters/local_link_integrity_errors", "counters/excessive_buffer_overrun_errors", "counters/port_xmit_wait",
    "hw_counters/out_of_buffer", "hw_counters/out_of_sequence", "hw_counters/packet_seq_err",
    "hw_counters/implied_nak_seq_err", "hw_counters/local_ack_timeout_err", "hw_counters/rnr_nak_retry_err",
    "hw_counters/rx_icrc_encapsulated", "hw_counters/roce_adp_retrans", "hw_counters/req_transport_retries_exceeded",
    "hw_counters/np_cnp_sent", "hw_counters/rp_cnp_handled", "hw_counters/rx_drops",
    "../../hw_counters/DcTotCrc", "../../hw_counters/DcTxReplay", "../../hw_counters/DcRxReplay", NULL,
};

/* Slingshot: port files as cxi_stat(1) shows them, telemetry as in the Slingshot NIC's counter guide ("<count>@<time>"). */
static const char *const SLINGSHOT_FILES[] = {
    "state=device/port/link", "rate=device/port/speed",
    "pcie_speed=device/current_link_speed", "pcie_width=device/current_link_width",
    "device/telemetry/hni_pcs_corrected_cw", "device/telemetry/hni_pcs_uncorrected_cw",
    "device/telemetry/hni_llr_tx_replay_event", "device/telemetry/hni_llr_rx_replay_event",
    "device/telemetry/pct_sct_timeouts", "device/telemetry/pct_spt_timeouts", NULL,
};

static void put_port_link(struct text *out, const char *folder)
{
    put_files(out, folder, PORT_FILES);
}

static void put_slingshot_link(struct text *out, const char *folder)
{
    put_files(out, folder, SLINGSHOT_FILES);
}

/* The kernel's "Tcp:" counters: of all connections in the node's network namespace, whoever's (proc(5), /proc/net/snmp). */
static void put_tcp_counters(struct text *out)
{
    char *table = read_file("/proc/net/snmp"), *names = table ? strstr(table, "Tcp: ") : NULL;
    char *values = names ? strstr(names + 1, "\nTcp: ") : NULL, *name_state = NULL, *value_state = NULL;
    put_member(out, "tcp_node");
    put(out, "{");
    if (values) {
        *values++ = '\0';
        values[strcspn(values, "\n")] = '\0';
        char *name = strtok_r(names, " ", &name_state), *value = strtok_r(values, " ", &value_state);
        for (; name && value; name = strtok_r(NULL, " ", &name_state), value = strtok_r(NULL, " ", &value_state))
            if (!strcmp(name, "OutSegs") || !strcmp(name, "RetransSegs") || !strcmp(name, "InErrs"))
                put_number(out, name, strdup(value), 1);
    }
    put(out, "}");
    free(table);
}

static void put_links(struct text *out)
{
    if (!reads_node())
        return;
    put_member(out, "links");
    put(out, "{");
    DIR *names = open_folder("/sys/class/net");
    for (const char *name; (name = next_entry(names));) {
        char folder[NAME_MAX + 32];
        snprintf(folder, sizeof folder, "/sys/class/net/%s", name);
        put_member(out, name);
        put(out, "{");
        put_files(out, folder, INTERFACE_FILES);
        put(out, "}");
    }
    put_rdma_ports(out, put_port_link);
    put_slingshot_ports(out, put_slingshot_link);
    put(out, "}");
    put_tcp_counters(out);
}

static void put_clock(struct text *out, const char *name, clockid_t clock)
{
    struct timespec now;
    put_member(out, name);
    out->bad |= clock_gettime(clock, &now) != 0;
    put(out, "%lld", (long long)now.tv_sec * 1000000000LL + now.tv_nsec);
}

/* ---- where it runs ---- */

#define MAX_CPUS 8192 /* x86 Linux's CONFIG_NR_CPUS at most */

/* Marks the CPUs of a list as the kernel writes it ("0-3,8"). */
static void mark_cpus(const char *list, bool marked[MAX_CPUS])
{
    for (char *end; *list; list = *end ? end + 1 : end) {
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (end == list)
            return;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (; first <= last && first < MAX_CPUS; first++)
            marked[first] = true;
    }
}

/* Member with all CPUs of the cores that the process may use: with SMT a core has several. null: the kernel does not say. */
static void put_siblings(struct text *out, const char *allowed)
{
    bool wanted[MAX_CPUS] = {false}, siblings[MAX_CPUS] = {false}, known = allowed != NULL;
    struct text list = {0};
    if (allowed)
        mark_cpus(allowed, wanted);
    for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
        if (!wanted[cpu] || siblings[cpu])
            continue;
        char *core = read_line("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        known &= core != NULL;
        mark_cpus(core ? core : "", siblings);
        free(core);
    }
    for (int cpu = 0, last; cpu < MAX_CPUS; cpu = last + 1) {
        last = cpu;
        if (!siblings[cpu])
            continue;
        while (last + 1 < MAX_CPUS && siblings[last + 1])
            last++;
        put(&list, last > cpu ? "%s%d-%d" : "%s%d", list.length ? "," : "", cpu, last);
    }
    put_member(out, "siblings");
    put_string(out, known ? list.data : NULL);
    free(list.data);
}

static void put_place(struct text *out)
{
    unsigned cpu = 0, node = 0;
    char *allowed = status_field("/proc/self/status", "Cpus_allowed_list:");
    put_siblings(out, allowed);
    put_line(out, "cpus", allowed);
    if (!syscall(SYS_getcpu, &cpu, &node, NULL))
        put(out, ",\"cpu\":%u,\"numa_node\":%u", cpu, node);
    int count = 0; /* of the other threads */
    put_member(out, "threads");
    put(out, "[");
    DIR *threads = open_folder("/proc/self/task");
    for (const char *thread; (thread = next_entry(threads));) {
        char status[NAME_MAX + 64];
        if (atol(thread) == (long)getpid() || ++count > MAX_THREADS)
            continue;
        snprintf(status, sizeof status, "/proc/self/task/%s/status", thread);
        put_comma(out);
        put(out, "{");
        put_line(out, "name", status_field(status, "Name:"));
        put_line(out, "cpus", status_field(status, "Cpus_allowed_list:"));
        put(out, "}");
    }
    put(out, "]");
}

/* ---- the GPU it uses ---- */

static int find_loaded(struct dl_phdr_info *info, size_t size, void *library) /* of a name that begins so; its path */
{
    const char **wanted = library, *name = strrchr(info->dlpi_name, '/');
    (void)size;
    if (!name || strncmp(name + 1, wanted[0], strlen(wanted[0])))
        return 0;
    wanted[1] = info->dlpi_name;
    return 1;
}

/* A library of GPUs if the process has loaded it itself, to be closed; nothing is loaded here. Its path goes to `path`. */
static void *open_loaded(const char *prefix, const char **path)
{
    const char *wanted[2] = {prefix, NULL};
    dl_iterate_phdr(find_loaded, wanted);
    *path = wanted[1];
    return wanted[1] ? dlopen(wanted[1], RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

#define SYMBOL(pointer, library, name)                     \
    do {                                                   \
        void *loaded_symbol = dlsym(library, name);        \
        memcpy(&(pointer), &loaded_symbol, sizeof loaded_symbol); \
    } while (0)

typedef int text_of_device(char *, int, int);
typedef int bytes_of_device(char *, int);

/* A GPU as its driver names it: PCI address, model, and the UUID, which tells instances of one GPU (MIG) apart. */
static void put_gpu(struct text *out, int device, bool current, text_of_device *bus, text_of_device *model, bytes_of_device *uuid)
{
    char address[64] = "", name[256] = "", identity[16] = {0};
    if (bus(address, sizeof address - 1, device))
        return;
    put_comma(out);
    put(out, "{");
    put_member(out, "bus_id");
    put_string(out, address);
    put_member(out, "current");
    put(out, current ? "true" : "false");
    if (model && !model(name, sizeof name - 1, device)) {
        put_member(out, "name");
        put_string(out, name);
    }
    if (uuid && !uuid(identity, device)) {
        put_member(out, "uuid");
        put(out, "\"");
        for (size_t i = 0; i < sizeof identity; i++)
            put(out, "%02x", (unsigned char)identity[i]);
        put(out, "\"");
    }
    put(out, "}");
}

/* CUDA's driver: the GPU of this thread's context, and every GPU with a primary context, which is the one that the runtime works
 * in. None of these functions begins anything: before cuInit they fail. Prototypes: CUDA Driver API, "Device Management",
 * "Primary Context Management", "Context Management". */
static void put_cuda_gpus(struct text *out, void *driver)
{
    int (*get_context)(void **), (*get_device)(int *), (*get_count)(int *), (*get)(int *, int), (*get_state)(int, unsigned *, int *);
    text_of_device *bus, *model;
    bytes_of_device *uuid;
    void *context = NULL;
    int current = -1, count = 0;
    SYMBOL(get_context, driver, "cuCtxGetCurrent");
    SYMBOL(get_device, driver, "cuCtxGetDevice");
    SYMBOL(get_count, driver, "cuDeviceGetCount");
    SYMBOL(get, driver, "cuDeviceGet");
    SYMBOL(get_state, driver, "cuDevicePrimaryCtxGetState");
    SYMBOL(bus, driver, "cuDeviceGetPCIBusId");
    SYMBOL(model, driver, "cuDeviceGetName");
    SYMBOL(uuid, driver, "cuDeviceGetUuid_v2"); /* of the instance; the first version has the whole GPU's */
    if (!uuid)
        SYMBOL(uuid, driver, "cuDeviceGetUuid");
    if (!bus)
        return;
    if (get_context && get_device && !get_context(&context) && context && get_device(&current))
        current = -1;
    if (current >= 0)
        put_gpu(out, current, true, bus, model, uuid);
    if (!get_count || !get || !get_state || get_count(&count))
        return;
    for (int number = 0; number < count && number < MAX_GPUS; number++) {
        int device = -1, active = 0;
        unsigned flags = 0;
        if (!get(&device, number) && device != current && !get_state(device, &flags, &active) && active)
            put_gpu(out, device, false, bus, model, uuid);
    }
}

/* HIP has a GPU for every thread, used or not, and asking may begin its runtime: it is asked only where the process has opened
 * the kernel's driver for computing. */
static void put_hip_gpus(struct text *out, void *runtime)
{
    int (*get_device)(int *), device = -1;
    text_of_device *bus, *model;
    bytes_of_device *uuid;
    bool opened = false;
    DIR *files = open_folder("/proc/self/fd");
    for (const char *file; (file = next_entry(files));) {
        char path[NAME_MAX + 32], target[16] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", file);
        opened |= readlink(path, target, sizeof target - 1) > 0 && !strcmp(target, "/dev/kfd");
    }
    SYMBOL(get_device, runtime, "hipGetDevice");
    SYMBOL(bus, runtime, "hipDeviceGetPCIBusId");
    SYMBOL(model, runtime, "hipDeviceGetName");
    SYMBOL(uuid, runtime, "hipDeviceGetUuid");
    if (opened && get_device && bus && !get_device(&device) && device >= 0)
        put_gpu(out, device, true, bus, model, uuid);
}

static void put_gpus(struct text *out)
{
    static void (*const put_of[])(struct text *, void *) = {put_cuda_gpus, put_hip_gpus};
    static const char *const prefixes[] = {"libcuda.so", "libamdhip64.so"};
    const char *path, *first = NULL;
    put_member(out, "gpus");
    put(out, "[");
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        void *library = open_loaded(prefixes[i], &path);
        if (library) {
            first = first ? first : path;
            put_of[i](out, library);
            dlclose(library);
        }
    }
    put(out, "]");
    put_member(out, "gpu_library");
    put_string(out, first);
}

/* ---- counters of the node's networks ---- */

static void put_interface_counters(struct text *out)
{
    char *table = read_file("/proc/net/dev"), *state = NULL;
    int titles = 2;
    put_member(out, "interfaces");
    put(out, "{");
    for (char *line = table ? strtok_r(table, "\n", &state) : NULL; line; line = strtok_r(NULL, "\n", &state)) {
        /* Columns of net/core/net-procfs.c, received and sent; those without a name are not kept. */
        static const char *const names[] = {
            "rx_bytes", NULL, "rx_errors", "rx_dropped", "rx_fifo_errors", "rx_frame_errors", NULL, NULL,
            "tx_bytes", NULL, "tx_errors", "tx_dropped", "tx_fifo_errors", NULL, "tx_carrier_errors",
        };
        char *colon = strrchr(line, ':'), *at = colon;
        if (titles-- > 0 || !colon)
            continue;
        *at++ = '\0';
        put_member(out, line + strspn(line, " "));
        put(out, "{");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            char *begin = at;
            unsigned long long value = strtoull(begin, &at, 10);
            out->bad |= at == begin;
            if (names[i]) {
                put_member(out, names[i]);
                put(out, "%llu", value);
            }
        }
        put(out, "}");
    }
    put(out, "}");
    out->bad |= !table;
    free(table);
}

/* Bytes of one RDMA port. port_xmit_data counts 4-byte words (Linux, Documentation/ABI/stable/sysfs-class-infiniband);
 * adapters without it (EFA, drivers/infiniband/hw/efa/efa_verbs.c; bnxt_re) count bytes in hw_counters. */
static void put_port_counters(struct text *out, const char *folder)
{
    if (!put_number(out, "rx_bytes", read_line("%s/counters/port_rcv_data", folder), 4))
        put_number(out, "rx_bytes", read_line("%s/hw_counters/rx_bytes", folder), 1);
    if (!put_number(out, "tx_bytes", read_line("%s/counters/port_xmit_data", folder), 4))
        put_number(out, "tx_bytes", read_line("%s/hw_counters/tx_bytes", folder), 1);
}

/* Slingshot: the adapter's telemetry files read "<octets>@<time>" (fi_cxi(7), FI_CXI_TELEMETRY). */
static void put_slingshot_counters(struct text *out, const char *folder)
{
    put_number(out, "rx_bytes", read_line("%s/device/telemetry/hni_sts_rx_ok_octets", folder), 1);
    put_number(out, "tx_bytes", read_line("%s/device/telemetry/hni_sts_tx_ok_octets", folder), 1);
}

/* ---- this process's own TCP connections ---- */

/* Counts of a connection, in the order of their names; what the kernel wrote no place for is not said. */
enum { SENT, RECEIVED, OUT, AGAIN, SEGMENTS_OUT, SEGMENTS_IN, COUNTS };
static const char *const COUNT_NAMES[COUNTS] = {
    "sent_bytes", "received_bytes",
    "out_bytes", "again_bytes" /* payload with what was sent again, and that alone */, "segments_out", "segments_in",
};

struct pair {
    char local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
    unsigned long long counts[COUNTS];
    unsigned count;
    bool whole; /* the kernel wrote all counts of each connection */
};

struct pairs {
    struct pair list[MAX_PAIRS];
    size_t used;
    unsigned uncounted; /* IP sockets whose bytes the kernel does not count (UDP, raw, SCTP) */
    bool complete;
};

/* Head of the kernel's struct tcp_info; the libc's copy stops before the byte counters (<linux/tcp.h>: acked and received
 * since Linux 4.1, segments 4.2, sent and retransmitted 4.19). */
struct tcp_bytes {
    uint8_t states[8];
    uint32_t metrics[24];
    uint64_t pacing[2];
    uint64_t acked, received;
    uint32_t segments_out, segments_in, more_metrics[4];
    uint64_t rates[4];
    uint32_t delivered[2];
    uint64_t sent, again;
};

static void count_socket(struct pairs *pairs, int file)
{
    struct sockaddr_storage ends[2] = {{0}};
    struct tcp_bytes bytes;
    struct pair found = {.count = 1};
    memset(&bytes, 0, sizeof bytes);
    socklen_t local = sizeof ends[0], peer = sizeof ends[1], size = sizeof bytes, width = sizeof(int);
    int protocol = 0;
    if (getsockname(file, (struct sockaddr *)&ends[0], &local) ||
        (ends[0].ss_family != AF_INET && ends[0].ss_family != AF_INET6))
        return;
    if (getsockopt(file, SOL_SOCKET, SO_PROTOCOL, &protocol, &width) || protocol != IPPROTO_TCP) {
        pairs->uncounted++;
        return;
    }
    if (getpeername(file, (struct sockaddr *)&ends[1], &peer)) /* listening, or no longer connected */
        return;
    if (getsockopt(file, IPPROTO_TCP, TCP_INFO, &bytes, &size) || size < offsetof(struct tcp_bytes, segments_out)) {
        pairs->uncounted++;
        return;
    }
    const unsigned long long counts[COUNTS] = {
        bytes.acked, bytes.received, bytes.sent, bytes.again, bytes.segments_out, bytes.segments_in,
    };
    memcpy(found.counts, counts, sizeof counts);
    found.whole = size >= sizeof bytes;
    if (!address_text((struct sockaddr *)&ends[0], found.local) || !address_text((struct sockaddr *)&ends[1], found.peer))
        return;
    for (size_t i = 0; i < pairs->used; i++)
        if (!strcmp(pairs->list[i].local, found.local) && !strcmp(pairs->list[i].peer, found.peer)) {
            for (int k = 0; k < COUNTS; k++)
                pairs->list[i].counts[k] += found.counts[k];
            pairs->list[i].whole &= found.whole;
            pairs->list[i].count++;
            return;
        }
    if (pairs->used < MAX_PAIRS)
        pairs->list[pairs->used++] = found;
    else
        pairs->complete = false;
}

/* Interface counters belong to the whole node; these give this rank's part, summed by pair of addresses. */
static void put_sockets(struct text *out)
{
    struct pairs *pairs = calloc(1, sizeof *pairs);
    DIR *files = open_folder("/proc/self/fd");
    int own = files ? dirfd(files) : -1;
    put_member(out, "tcp");
    put(out, "{\"pairs\":[");
    if (pairs)
        pairs->complete = files != NULL;
    for (const char *file; (file = next_entry(files));)
        if (pairs && isdigit((unsigned char)*file) && atoi(file) != own)
            count_socket(pairs, atoi(file));
    for (size_t i = 0; pairs && i < pairs->used; i++) {
        const struct pair *at = &pairs->list[i];
        put_comma(out);
        put(out, "{\"local\":\"%s\",\"peer\":\"%s\",\"count\":%u", at->local, at->peer, at->count);
        for (int k = 0; k < (at->whole ? COUNTS : OUT); k++)
            put(out, ",\"%s\":%llu", COUNT_NAMES[k], at->counts[k]);
        put(out, "}");
    }
    put(out, "],\"uncounted\":%u,\"complete\":%s}", pairs ? pairs->uncounted : 0,
        pairs && pairs->complete ? "true" : "false");
    free(pairs);
}

/* ---- the whole snapshot ---- */

static void put_usage(struct text *out)
{
    struct rusage usage;
    out->bad |= getrusage(RUSAGE_SELF, &usage) != 0;
    put_member(out, "usage");
    put(out, "{\"involuntary_switches\":%ld", usage.ru_nivcsw);
    put_line(out, "schedstat", read_line("/proc/self/schedstat"));
    put(out, "}");
}

/* Clocks and usage are read on the benchmark's side of everything else: last at the start, first at the end. */
static void put_snapshot(struct text *out, bool at_start, bool with_links)
{
    put(out, "{");
    for (int part = 0; part < 2; part++)
        if ((part == 0) != at_start) {
            put_clock(out, "realtime_ns", CLOCK_REALTIME);
            put_clock(out, "monotonic_ns", CLOCK_MONOTONIC);
            put_line(out, "uptime", read_line("/proc/uptime")); /* read as the job's script reads it */
            put_usage(out);
        } else {
            put_place(out);
            put_gpus(out);
            put_sockets(out);
            put_interface_counters(out);
            if (with_links)
                put_links(out);
            put_member(out, "ports");
            put(out, "{");
            put_rdma_ports(out, put_port_counters);
            put_slingshot_ports(out, put_slingshot_counters);
            put(out, "}");
        }
    put(out, "}");
}

static const char *directory; /* NULL: nobody asked, stay out of the way */
static struct text load, identity, facts, start;
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
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    loaded_ns = now.tv_sec * 1000000000LL + now.tv_nsec;
    if (directory)
        put_load(&load);
    errno = saved;
}

/* Appends what is known at the start (end is NULL), or what has become known at the end. */
static void write_record(const struct text *end)
{
    char host[HOST_NAME_MAX + 1] = "", path[PATH_MAX];
    char *boot = read_line("/proc/sys/kernel/random/boot_id");
    struct text out = {0};
    gethostname(host, sizeof host - 1);
    int length = snprintf(path, sizeof path, "%s/%s.%.8s.jsonl", directory, host, boot ? boot : "");
    put(&out, "\n{\"format\":%d,\"finalized\":%s", FORMAT, end ? "true" : "false");
    const struct text *known[] = {&load, &facts, &start}, *new[] = {&identity, &start, end};
    for (size_t i = 0; i < 3; i++) {
        const struct text *part = end ? new[i] : known[i];
        put_bytes(&out, ",", 1);
        put_bytes(&out, part->data ? part->data : "", part->length);
        out.bad |= part->bad || !part->length;
    }
    put(&out, "}\n");
    if (!out.bad && length > 0 && length < PATH_MAX) {
        int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (file >= 0) {
            ssize_t count; /* one write: the rest of one that was cut would stand behind another rank's line */
            do
                count = write(file, out.data, out.length);
            while (count < 0 && errno == EINTR);
            close(file);
        }
    }
    free(boot);
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
    put_process(&identity);
    put_process(&facts);
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
#define FINALIZE(call, good, world)         \
    do {                                    \
        if (!atomic_fetch_add(&leaving, 1)) \
            record_end();                   \
        call;                               \
        atomic_fetch_sub(&leaving, 1);      \
    } while (0)

/* A handle is an int or a pointer, by the ABI; both are handed on in the register they came in. */
#define HANDLE void *

/* A wrapped function; `next` is the library's own, and INITIALIZE or FINALIZE records around it. */
#define C_ENTRY(name, parameters, arguments, record, world)                                   \
    EXPORTED int name parameters                                                              \
    {                                                                                         \
        int code = ERROR_OTHER, (*next) parameters;                                           \
        FUNCTION(next, #name);                                                                \
        record(code = next ? next arguments : code, !code, world);                            \
        return code;                                                                          \
    }
#define C_ENTRIES(name, ...) C_ENTRY(name, __VA_ARGS__) C_ENTRY(P##name, __VA_ARGS__)
/* Fortran, as gfortran, ifx, flang and nvfortran spell it; its last argument is the error code. */
#define FORTRAN_ENTRY(name, parameters, arguments, record, world)                             \
    EXPORTED void name parameters                                                             \
    {                                                                                         \
        void(*next) parameters;                                                               \
        FUNCTION(next, #name);                                                                \
        *code = ERROR_OTHER;                                                                  \
        record(if (next) next arguments, !*code, world);                                      \
    }
#define FORTRAN_ENTRIES(name, ...) FORTRAN_ENTRY(name, __VA_ARGS__) FORTRAN_ENTRY(p##name, __VA_ARGS__)

C_ENTRIES(MPI_Init, (int *count, char ***words), (count, words), INITIALIZE, true)
C_ENTRIES(MPI_Init_thread, (int *count, char ***words, int wanted, int *got), (count, words, wanted, got), INITIALIZE, true)
C_ENTRIES(MPI_Finalize, (void), (), FINALIZE, true)
C_ENTRIES(MPI_Session_init, (HANDLE info, HANDLE handler, HANDLE *session), (info, handler, session), INITIALIZE, false)
C_ENTRIES(MPI_Session_finalize, (HANDLE *session), (session), FINALIZE, false)

FORTRAN_ENTRIES(mpi_init_, (int *code), (code), INITIALIZE, true)
FORTRAN_ENTRIES(mpi_init_thread_, (int *wanted, int *got, int *code), (wanted, got, code), INITIALIZE, true)
FORTRAN_ENTRIES(mpi_finalize_, (int *code), (code), FINALIZE, true)
FORTRAN_ENTRIES(mpi_session_init_, (int *info, int *handler, int *session, int *code), (info, handler, session, code), INITIALIZE,
                false)
FORTRAN_ENTRIES(mpi_session_finalize_, (int *session, int *code), (session, code), FINALIZE, false)
