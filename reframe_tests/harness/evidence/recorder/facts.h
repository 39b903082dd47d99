/* What holds for the whole run and is written once: who the rank is, its settings, its node; part of recorder.c. */
#ifndef RECORDER_FACTS_H
#define RECORDER_FACTS_H
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include "library.h"

#define MAX_NAME 256 /* bytes of a variable's name, its end included */
#define MAX_VALUE 4096 /* bytes kept of an environment variable */

extern char **environ;

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

static void put_identity(struct text *out)
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    put_member(out, "host");
    put_string(out, host);
    put_member(out, "pid");
    put(out, "%ld", (long)getpid());
    put_member(out, "executable");
    put_path(out, "/proc/self/exe");
    put_first_set(out, "rank", "MPIBENCH_RANK_VARIABLES");
    put_first_set(out, "size", "MPIBENCH_SIZE_VARIABLES");
    put_first_set(out, "job", "MPIBENCH_JOB_VARIABLES");
}

/* Variables that choose or tune the network, the binding or the MPI library. */
static const char *const SETTINGS[] = {
    RUN_SETTINGS, /* those of each MPI library and launcher, from the compiler's command line (__init__.py) */
    "FI_", "UCX_", "PSM_", "PSM2_", "PSM3_", "HFI_", "HCOLL_", "SHARP_", "IBV_", "RDMAV_", "MLX4_", "MLX5_",
    "MPI4PY_", "OMP_", "KMP_", "GOMP_", "LD_PRELOAD", "LD_LIBRARY_PATH",
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
    put_line(out, "boot_id", read_line("/proc/sys/kernel/random/boot_id"));
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
