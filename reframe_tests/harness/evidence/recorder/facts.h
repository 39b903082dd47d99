/* What holds for the whole run and is written once: who the rank is, its libraries, its settings; part of recorder.c. */
#ifndef RECORDER_FACTS_H
#define RECORDER_FACTS_H
#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <link.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include "text.h"

#define MAX_VALUE 4096 /* bytes kept of an environment variable */

extern char **environ;

/* ---- loaded libraries ---- */

static bool starts_with_one(const char *string, const char *const *prefixes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strncmp(string, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

/* Prefixes of the libraries that decide which MPI ran and which network it could use. */
static const char *const LIBRARIES[] = {
    "libmpi", "libpmi", "libfabric", "libuc", "libpsm", "libmlx", "libibverbs", "librdmacm", "libopen-pal", "libopen-rte",
    "libhwloc", "libhcoll", "libsharp", "libefa", "libcxi", "libxpmem",
};

static int collect_library(struct dl_phdr_info *info, size_t size, void *paths)
{
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    if (!name)
        return 0;
    if (strstr(name, "-fi.so") /* loadable providers of libfabric */ ||
        starts_with_one(name + 1, LIBRARIES, sizeof LIBRARIES / sizeof *LIBRARIES))
        put_bytes(paths, info->dlpi_name, strlen(info->dlpi_name) + 1);
    return 0;
}

/* A symbol behind this library; or, when MPI was opened privately (mpi4py does), from the mapped libmpi itself. */
static void *find_symbol(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol)
        return symbol;
    struct text paths = {0};
    dl_iterate_phdr(collect_library, &paths);
    for (char *path = paths.data; path && path < paths.data + paths.length && !symbol; path += strlen(path) + 1) {
        if (strncmp(strrchr(path, '/') + 1, "libmpi", 6))
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

/* MPI's own rank and size. The communicator handle differs by ABI and is only used where the ABI is certain: a wrong
 * one would abort the run. Anything else is null, and the launcher's variables must do. */
static void put_world(struct text *out, const char *version, const char *path)
{
    int rank = -1, size = -1, bad = 1;
    const char *name = path && strrchr(path, '/') ? strrchr(path, '/') : "";
    /* A program that names the handle has it copied into itself (R_*_COPY), and libmpi then works on that copy. */
    void *pointer = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
    if (!pointer)
        pointer = find_symbol("ompi_mpi_comm_world");
    if (!pointer && !strncmp(name, "/libmpi_abi.so", 14)) /* MPI 5.0, appendix A: MPI_COMM_WORLD is 0x101 */
        pointer = (void *)(uintptr_t)0x101;
    put_member(out, "world");
    if (pointer) {
        int (*get_rank)(void *, int *), (*get_size)(void *, int *);
        FUNCTION(get_rank, "PMPI_Comm_rank");
        FUNCTION(get_size, "PMPI_Comm_size");
        bad = !get_rank || !get_size || get_rank(pointer, &rank) || get_size(pointer, &size);
    } else if (strstr(version, "MPICH") || strstr(version, "Intel(R) MPI") || strstr(version, "MVAPICH")) {
        int (*get_rank)(int, int *), (*get_size)(int, int *); /* common ABI of the MPICH family, mpi.h: 0x44000000 */
        FUNCTION(get_rank, "PMPI_Comm_rank");
        FUNCTION(get_size, "PMPI_Comm_size");
        bad = !get_rank || !get_size || get_rank(0x44000000, &rank) || get_size(0x44000000, &size);
    }
    if (bad)
        put(out, "null");
    else
        put(out, "{\"rank\":%d,\"size\":%d}", rank, size);
}

static void put_library(struct text *out)
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
    put_world(out, version, origin.dli_fname);
}

/* ---- identity and settings ---- */

/* Member {"value":..., "source":...} from the first variable that is set, else null. */
static void put_first_set(struct text *out, const char *name, const char *const *variables)
{
    put_member(out, name);
    for (; *variables; variables++)
        if (getenv(*variables)) {
            put(out, "{\"value\":");
            put_string(out, getenv(*variables));
            put(out, ",\"source\":");
            put_string(out, *variables);
            put(out, "}");
            return;
        }
    put(out, "null");
}

static void put_identity(struct text *out)
{
    /* The process manager's own variables first: Slurm's exist even where MPI never arrived of its peers. */
    static const char *const rank[] = {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK",
                                       "MVP_COMM_WORLD_RANK", "PALS_RANKID", "FLUX_TASK_RANK", "SLURM_PROCID", NULL};
    static const char *const size[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                       "MVP_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
                                       NULL};
    static const char *const job[] = {"SLURM_JOB_ID", "PBS_JOBID", "FLUX_JOB_ID", "LSB_JOBID", "JOB_ID", NULL};
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    put_member(out, "host");
    put_string(out, host);
    put_member(out, "pid");
    put(out, "%ld", (long)getpid());
    put_member(out, "executable");
    put_path(out, "/proc/self/exe");
    put_first_set(out, "rank", rank);
    put_first_set(out, "size", size);
    put_first_set(out, "job", job);
}

/* Variables that choose or tune the network, the binding or the MPI library. */
static const char *const SETTINGS[] = {
    MPI_SETTINGS, /* those of each MPI library, from the compiler's command line (__init__.py) */
    "FI_", "UCX_", "PSM_", "PSM2_", "PSM3_", "HFI_", "HCOLL_", "SHARP_", "IBV_", "RDMAV_", "MLX4_", "MLX5_",
    "MPI4PY_", "OMP_", "KMP_", "GOMP_", "SLURM_CPU_BIND", "SLURM_MPI_TYPE", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NODEID", "SLURM_LOCALID",
    "SLURM_PROCID", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "LD_PRELOAD", "LD_LIBRARY_PATH",
};

/* What matches above but says nothing: the launcher's own bookkeeping, long and different for every rank. */
static const char *const BOOKKEEPING[] = {"I_MPI_INFO_", "I_MPI_HYDRA_", "OMPI_ARGV", "OMPI_MCA_PREFIXES"};

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
        char name[256];
        bool asked = is_asked(*variable, width);
        if (!width || width >= sizeof name)
            continue;
        if (!asked && (may_be_secret(*variable, width) ||
                       !starts_with_one(*variable, SETTINGS, sizeof SETTINGS / sizeof *SETTINGS) ||
                       starts_with_one(*variable, BOOKKEEPING, sizeof BOOKKEEPING / sizeof *BOOKKEEPING)))
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

static void put_lower(struct text *out, const char *entry) /* interfaces a bond, VLAN or bridge sits on */
{
    if (!strncmp(entry, "lower_", 6)) {
        put_comma(out);
        put_string(out, entry + 6);
    }
}

static void put_interface(struct text *out, const char *name, const struct ifaddrs *addresses)
{
    put_member(out, name);
    put(out, "{");
    put_number(out, "mtu_bytes", read_line("/sys/class/net/%s/mtu", name), 1);
    put_number(out, "speed_mbit_per_s", read_line("/sys/class/net/%s/speed", name), 1); /* -1 where there is none */
    put_number(out, "dev_port", read_line("/sys/class/net/%s/dev_port", name), 1); /* from 0; cards with several */
    put_link(out, "slot", "/sys/class/net/%s/device", name);
    put_member(out, "lower");
    put(out, "[");
    each_entry(out, put_lower, "/sys/class/net/%s", name);
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

static const char *device_listed; /* the RDMA device whose ports are being listed, in the one thread that does it */

static void put_port_facts(struct text *out, const char *port)
{
    char name[2 * NAME_MAX];
    snprintf(name, sizeof name, "%s/%s", device_listed, port);
    put_member(out, name);
    put(out, "{");
    put_line(out, "state", read_line("/sys/class/infiniband/%s/ports/%s/state", device_listed, port));
    put_line(out, "rate", read_line("/sys/class/infiniband/%s/ports/%s/rate", device_listed, port));
    put_line(out, "link_layer", read_line("/sys/class/infiniband/%s/ports/%s/link_layer", device_listed, port));
    put_link(out, "slot", "/sys/class/infiniband/%s/device", device_listed);
    put(out, "}");
}

static void put_device_facts(struct text *out, const char *device)
{
    device_listed = device;
    each_entry(out, put_port_facts, "/sys/class/infiniband/%s/ports", device);
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

static void put_rdma_firmware(struct text *out, const char *device)
{
    char key[NAME_MAX + 16];
    snprintf(key, sizeof key, "driver of %s", device);
    put_link(out, key, "/sys/class/infiniband/%s/device/driver", device);
    snprintf(key, sizeof key, "firmware of %s", device);
    put_line(out, key, read_line("/sys/class/infiniband/%s/fw_ver", device));
}

static void put_node(struct text *out)
{
    struct utsname system;
    put_member(out, "node");
    put(out, "{\"release\":");
    put_string(out, uname(&system) ? NULL : system.release);
    put_line(out, "smt_active", read_line("/sys/devices/system/cpu/smt/active"));
    put_line(out, "zone_reclaim_mode", read_line("/proc/sys/vm/zone_reclaim_mode"));
    put_line(out, "numa_balancing", read_line("/proc/sys/kernel/numa_balancing"));
    each_entry(out, put_interface_driver, "/sys/class/net");
    each_entry(out, put_rdma_firmware, "/sys/class/infiniband");
    put_interfaces(out);
    put_member(out, "ports");
    put(out, "{");
    each_entry(out, put_device_facts, "/sys/class/infiniband");
    put(out, "}}");
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

/* Where the process might run before MPI had a say; collected when the library is loaded. */
static void put_load(struct text *out)
{
    char parent[64];
    snprintf(parent, sizeof parent, "/proc/%ld/status", (long)getppid());
    put_member(out, "load");
    put(out, "{");
    put_line(out, "cpus", status_field("/proc/self/status", "Cpus_allowed_list:"));
    put_line(out, "parent_cpus", status_field(parent, "Cpus_allowed_list:"));
    put_line(out, "cpuset", cpuset_cpus());
    put_line(out, "online", read_line("/sys/devices/system/cpu/online"));
    put_line(out, "present", read_line("/sys/devices/system/cpu/present"));
    put(out, "}");
}

#endif
