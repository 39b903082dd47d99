/* STREAM with pinned threads and proven pages: copy, scale, add and triad of John McCalpin's STREAM 5.10, one thread per core.
 *
 *   stream local|remote|interleaved REPETITIONS BYTES as_is|filled
 *
 * BYTES of one array, 0: four times the last-level caches of all cores used, which is the least STREAM's rule 1(a) allows.
 * Prints a title, one line of JSON and a last line with the CRC-32 of both; what it refuses is one sentence on stderr and
 * exit status 2. Pages of a thread's part: local: where that thread touches them first, without any policy; remote: bound to
 * the NUMA node farthest from it; interleaved: over all nodes with memory. Where they are, move_pages(2) says afterwards;
 * where the threads may run, /proc/thread-self/status does.
 *
 * filled: before the arrays are made, each NUMA node reads a file of the working folder without blocks, as large as all memory,
 * until the kernel has to take back what it gave: the page cache then is where new memory would be (vm.zone_reclaim_mode). The
 * file has no name and is open to the end, since its pages go with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CPUS = CPU_SETSIZE, MOST_NODES = 1024, KERNELS = 4, CHUNK = 1024, MOST_REPETITIONS = 1000, TEXT = 1 << 20, BLOCK = 1 << 20 };
/* Blocks read between two looks at the free memory, the share of them that it must fall by, and how many looks in a row may find
 * less before all is full: others free memory meanwhile. */
enum { LOOK = 256, FALLS = 8, LOOKS = 8 };
/* linux/mempolicy.h */
enum { BIND = 2, INTERLEAVE = 3 };
static const double SCALAR = 3.0;
static const int WORDS[KERNELS] = {2, 2, 3, 3}; /* arrays a kernel reads and writes */

typedef struct {
    int cpu, node, ran_on;
    size_t first, last;
    char allowed[256];
    double (*began)[KERNELS], (*ended)[KERNELS];
    pthread_t thread;
} Worker;

static Worker workers[MOST_CPUS];
static int count, repetitions, node_ids[MOST_NODES], nodes;
static size_t elements;
static double *a, *b, *c;
static pthread_barrier_t barrier;
static char text[TEXT];
static size_t used;

static void refuse(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("stream: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    exit(2);
}

static void say(const char *format, ...) {
    va_list values;
    va_start(values, format);
    used += (size_t)vsnprintf(text + used, TEXT - used, format, values);
    va_end(values);
    if (used >= TEXT) refuse("this node has more cores than one output holds");
}

/* First line of a file without its end; empty where there is none. */
static const char *line_of(const char *format, ...) {
    static char path[512], line[4096];
    va_list values;
    va_start(values, format);
    vsnprintf(path, sizeof path, format, values);
    va_end(values);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file)) line[0] = 0;
    if (file) fclose(file);
    line[strcspn(line, "\n")] = 0;
    return line;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Bytes of the last-level caches of all workers, each cache once; 0 where sysfs shows none. */
static size_t last_level_bytes(void) {
    static char seen[MOST_CPUS][256];
    int caches = 0;
    size_t bytes = 0;
    for (int at = 0; at < count; at++) {
        int top = 0, where = -1;
        for (int index = 0; index < 16; index++) {
            int level = atoi(line_of("/sys/devices/system/cpu/cpu%d/cache/index%d/level", workers[at].cpu, index));
            if (level > top) top = level, where = index;
        }
        if (where < 0) return 0;
        char shared[256];
        snprintf(shared, sizeof shared, "%.255s",
                 line_of("/sys/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list", workers[at].cpu, where));
        int known = 0;
        while (known < caches && strcmp(seen[known], shared)) known++;
        if (known < caches) continue;
        strcpy(seen[caches++], shared);
        char unit = 0;
        unsigned long size = 0;
        if (sscanf(line_of("/sys/devices/system/cpu/cpu%d/cache/index%d/size", workers[at].cpu, where), "%lu%c", &size, &unit) < 1)
            return 0;
        bytes += size * (unit == 'M' ? 1ul << 20 : unit == 'K' ? 1ul << 10 : 1);
    }
    return bytes;
}

/* One worker per core of those this process may use, and the NUMA nodes that have memory. */
static void find_places(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) refuse("the cores of this process cannot be read: %s", strerror(errno));
    for (int cpu = 0; cpu < MOST_CPUS; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        int sibling = cpu;
        sscanf(line_of("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu), "%d", &sibling);
        if (sibling != cpu && sibling >= 0 && sibling < MOST_CPUS && CPU_ISSET(sibling, &allowed)) continue;
        workers[count++] = (Worker){.cpu = cpu, .node = -1};
    }
    for (int node = 0; node < MOST_NODES; node++) {
        unsigned long kib = 0;
        char path[128];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d", node);
        if (access(path, F_OK)) continue;
        sscanf(line_of("%s/meminfo", path), "Node %*d MemTotal: %lu", &kib);
        if (kib) node_ids[nodes++] = node;
        for (int at = 0; at < count; at++) {
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/node%d", workers[at].cpu, node);
            if (!access(path, F_OK)) workers[at].node = node;
        }
    }
    if (!nodes) node_ids[nodes++] = 0; /* a kernel without NUMA */
    for (int at = 0; at < count; at++)
        if (workers[at].node < 0) workers[at].node = node_ids[0];
}

/* The node with memory that is farthest from one, by the kernel's table of distances, which lists online nodes in order. */
static int farthest_from(int node) {
    char *rest, line[4096];
    snprintf(line, sizeof line, "%s", line_of("/sys/devices/system/node/node%d/distance", node));
    rest = line;
    int best = -1;
    long most = 0;
    for (int other = 0; other < MOST_NODES; other++) {
        char path[128];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d", other);
        if (access(path, F_OK)) continue;
        long distance = strtol(rest, &rest, 10);
        int memory = 0;
        for (int at = 0; at < nodes; at++) memory |= node_ids[at] == other;
        if (memory && other != node && distance > most) most = distance, best = other;
    }
    return best;
}

static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* Policy for the pages that lie wholly or partly in elements first to last of an array. */
static void place(double *array, size_t first, size_t last, int policy, const int *chosen, int many) {
    unsigned long mask[MOST_NODES / (8 * sizeof(long)) + 1] = {0};
    for (int at = 0; at < many; at++) mask[chosen[at] / (8 * sizeof(long))] |= 1ul << (chosen[at] % (8 * sizeof(long)));
    uintptr_t begin = (uintptr_t)(array + first) / page() * page(), end = (uintptr_t)(array + last);
    if (syscall(SYS_mbind, begin, end - begin, policy, mask, (unsigned long)MOST_NODES + 1, 0))
        refuse("the memory cannot be bound to a NUMA node (mbind: %s); ask for local memory", strerror(errno));
}

/* A number of a NUMA node's memory in KiB, by the kernel's name for it. */
static unsigned long memory_kib(int node, const char *name) {
    char path[128], line[256], format[64];
    unsigned long kib = 0;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node);
    snprintf(format, sizeof format, "Node %%*d %s: %%lu", name);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, format, &kib);
    if (file) fclose(file);
    return kib;
}

static void say_memory(const char *title, const char *name) {
    say(", \"%s\": {", title);
    for (int at = 0; at < nodes; at++) say("%s\"%d\": %lu", at ? ", " : "", node_ids[at], memory_kib(node_ids[at], name));
    say("}");
}

static void fill_page_cache(void) {
    static char block[BLOCK], name[] = "./stream-page-cache-XXXXXX";
    cpu_set_t before, mine;
    off_t bytes = 0, next = 0;
    int file = mkstemp(name);
    if (file < 0 || unlink(name)) refuse("no file to fill the page cache with: %s", strerror(errno));
    for (int at = 0; at < nodes; at++) bytes += (off_t)memory_kib(node_ids[at], "MemTotal") * 1024;
    if (ftruncate(file, bytes)) refuse("no file of %lld bytes to fill the page cache with: %s", (long long)bytes, strerror(errno));
    if (sched_getaffinity(0, sizeof before, &before)) refuse("the cores of this process cannot be read: %s", strerror(errno));
    for (int at = 0; at < nodes; at++) {
        int reader = 0;
        while (reader < count && workers[reader].node != node_ids[at]) reader++;
        if (reader == count) continue;
        CPU_ZERO(&mine);
        CPU_SET(workers[reader].cpu, &mine);
        if (sched_setaffinity(0, sizeof mine, &mine)) refuse("core %d cannot be used: %s", workers[reader].cpu, strerror(errno));
        unsigned long free_kib = memory_kib(node_ids[at], "MemFree"), look = (unsigned long)LOOK * BLOCK / 1024;
        for (int full = 0; full < LOOKS && next < bytes;) {
            for (int time = 0; time < LOOK && next < bytes; time++) {
                ssize_t got = pread(file, block, BLOCK, next);
                if (got <= 0) refuse("the file that fills the page cache cannot be read: %s", got ? strerror(errno) : "it ends");
                next += got;
            }
            unsigned long left = memory_kib(node_ids[at], "MemFree");
            full = free_kib < left + look / FALLS ? full + 1 : 0;
            free_kib = left;
        }
    }
    if (sched_setaffinity(0, sizeof before, &before)) refuse("the cores of this process cannot be used: %s", strerror(errno));
}

static void *work(void *given) {
    Worker *self = given;
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(self->cpu, &mine);
    if (sched_setaffinity(0, sizeof mine, &mine)) refuse("a thread cannot be pinned to core %d: %s", self->cpu, strerror(errno));
    for (size_t i = self->first; i < self->last; i++) a[i] = 2.0, b[i] = 2.0, c[i] = 0.0;
    for (int time = 0; time < repetitions; time++)
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            pthread_barrier_wait(&barrier);
            self->began[time][kernel] = now();
            size_t first = self->first, last = self->last;
            if (kernel == 0)
                for (size_t i = first; i < last; i++) c[i] = a[i];
            else if (kernel == 1)
                for (size_t i = first; i < last; i++) b[i] = SCALAR * c[i];
            else if (kernel == 2)
                for (size_t i = first; i < last; i++) c[i] = a[i] + b[i];
            else
                for (size_t i = first; i < last; i++) a[i] = b[i] + SCALAR * c[i];
            self->ended[time][kernel] = now();
            pthread_barrier_wait(&barrier);
        }
    self->ran_on = sched_getcpu();
    FILE *status = fopen("/proc/thread-self/status", "r");
    char line[4096];
    while (status && fgets(line, sizeof line, status)) sscanf(line, "Cpus_allowed_list: %255s", self->allowed);
    if (status) fclose(status);
    return NULL;
}

/* From the first thread's start to the last one's end: where another program takes a core away, some start or end later, and the
 * time of any one of them alone would leave a part of the work out. */
static double seconds(int kernel, int time) {
    double began = workers[0].began[time][kernel], ended = workers[0].ended[time][kernel];
    for (int at = 1; at < count; at++) {
        if (workers[at].began[time][kernel] < began) began = workers[at].began[time][kernel];
        if (workers[at].ended[time][kernel] > ended) ended = workers[at].ended[time][kernel];
    }
    return ended - began;
}

/* STREAM's own check: the mean error of each array, relative to what the kernels must give. */
static double largest_error(void) {
    double right[3] = {2.0, 2.0, 0.0}, worst = 0.0;
    for (int time = 0; time < repetitions; time++) {
        right[2] = right[0];
        right[1] = SCALAR * right[2];
        right[2] = right[0] + right[1];
        right[0] = right[1] + SCALAR * right[2];
    }
    double *arrays[3] = {a, b, c};
    for (int at = 0; at < 3; at++) {
        double sum = 0.0;
        for (size_t i = 0; i < elements; i++) sum += arrays[at][i] > right[at] ? arrays[at][i] - right[at] : right[at] - arrays[at][i];
        double error = sum / (double)elements / right[at];
        if (worst == worst && !(error <= worst)) worst = error; /* what is no number stays */
    }
    return worst;
}

/* Pages of the three arrays per NUMA node, for one worker's part; whole pages inside it only. */
static void say_pages(const Worker *one) {
    static size_t on[MOST_NODES];
    size_t unknown = 0;
    memset(on, 0, sizeof on);
    double *arrays[3] = {a, b, c};
    for (int at = 0; at < 3; at++) {
        uintptr_t next = ((uintptr_t)(arrays[at] + one->first) + page() - 1) / page() * page(), end = (uintptr_t)(arrays[at] + one->last);
        while (next + page() <= end) {
            void *pages[CHUNK];
            int status[CHUNK], many = 0;
            for (; many < CHUNK && next + page() <= end; next += page()) pages[many++] = (void *)next;
            if (syscall(SYS_move_pages, 0, (unsigned long)many, pages, NULL, status, 0)) {
                unknown += (size_t)many;
                continue;
            }
            for (int i = 0; i < many; i++)
                if (status[i] >= 0 && status[i] < MOST_NODES) on[status[i]]++;
                else unknown++;
        }
    }
    say("{");
    const char *comma = "";
    for (int node = 0; node < MOST_NODES; node++)
        if (on[node]) say("%s\"%d\": %zu", comma, node, on[node]), comma = ", ";
    if (unknown) say("%s\"unknown\": %zu", comma, unknown);
    say("}");
}

static uint32_t checksum(const char *from, size_t length) {
    uint32_t sum = ~0u;
    for (size_t i = 0; i < length; i++) {
        sum ^= (unsigned char)from[i];
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (0xedb88320u & (0u - (sum & 1u)));
    }
    return ~sum;
}

static double *reserve(size_t bytes) {
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) refuse("three arrays of %zu bytes cannot be had: %s", bytes, strerror(errno));
    return found;
}

int main(int argc, char **argv) {
    if (argc != 5) refuse("give local, remote or interleaved, repetitions, bytes of an array, and as_is or filled");
    const char *memory = argv[1];
    int remote = !strcmp(memory, "remote"), interleaved = !strcmp(memory, "interleaved");
    if (!remote && !interleaved && strcmp(memory, "local")) refuse("'%s' is not local, remote or interleaved", memory);
    int filled = !strcmp(argv[4], "filled");
    if (!filled && strcmp(argv[4], "as_is")) refuse("'%s' is not as_is or filled", argv[4]);
    repetitions = atoi(argv[2]);
    if (repetitions < 2 || repetitions > MOST_REPETITIONS) refuse("%s repetitions; give 2 to %d", argv[2], MOST_REPETITIONS);
    find_places();
    if (nodes < 2 && (remote || interleaved)) refuse("this node has one NUMA node, so none of its memory is %s", memory);
    size_t cache = last_level_bytes(), bytes = strtoull(argv[3], NULL, 10);
    if (!cache) refuse("sysfs shows no caches of these cores, so no array is known to be larger than they are");
    if (!bytes) bytes = 4 * cache;
    if (bytes < 4 * cache)
        refuse("an array of %zu bytes is smaller than 4 x the last-level caches (%zu bytes); give %zu or more", bytes, cache, 4 * cache);
    elements = bytes / sizeof(double);
    if (filled) fill_page_cache();
    say("# STREAM, format 2\n{\"memory\": \"%s\", \"page_cache\": \"%s\", \"array_bytes\": %zu, \"last_level_cache_bytes\": %zu, \"repetitions\": %d", memory,
        argv[4], elements * sizeof(double), cache, repetitions);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    say(", \"host\": \"%s\", \"zone_reclaim_mode\": \"%.20s\", \"numa_nodes\": %d", host,
        line_of("/proc/sys/vm/zone_reclaim_mode"), nodes);
    say_memory("page_cache_kib", "FilePages");
    say_memory("free_kib", "MemFree");
    a = reserve(elements * sizeof(double)), b = reserve(elements * sizeof(double)), c = reserve(elements * sizeof(double));
    double *arrays[3] = {a, b, c};
    for (int at = 0; at < count; at++) {
        workers[at].first = elements / (size_t)count * (size_t)at;
        workers[at].began = calloc((size_t)repetitions, sizeof *workers[at].began);
        workers[at].ended = calloc((size_t)repetitions, sizeof *workers[at].ended);
        if (!workers[at].began || !workers[at].ended) refuse("no memory for the times of %d repetitions", repetitions);
        workers[at].last = at + 1 == count ? elements : elements / (size_t)count * (size_t)(at + 1);
        for (int array = 0; remote && array < 3; array++) {
            int far = farthest_from(workers[at].node);
            if (far < 0) refuse("the kernel shows no node that is remote from node %d", workers[at].node);
            place(arrays[array], workers[at].first, workers[at].last, BIND, &far, 1);
        }
    }
    for (int array = 0; interleaved && array < 3; array++) place(arrays[array], 0, elements, INTERLEAVE, node_ids, nodes);
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int at = 0; at < count; at++)
        if ((errno = pthread_create(&workers[at].thread, NULL, work, &workers[at]))) refuse("no thread: %s", strerror(errno));
    for (int at = 0; at < count; at++) pthread_join(workers[at].thread, NULL);
    say(", \"threads\": [");
    for (int at = 0; at < count; at++) {
        int wanted = remote ? farthest_from(workers[at].node) : workers[at].node;
        say("%s{\"core\": %d, \"allowed\": \"%s\", \"ran_on\": %d, \"numa_node\": %d, \"memory_node\": %d, \"pages\": ", at ? ", " : "",
            workers[at].cpu, workers[at].allowed, workers[at].ran_on, workers[at].node, interleaved ? -1 : wanted);
        say_pages(&workers[at]);
        say("}");
    }
    double error = largest_error();
    say("], \"largest_error\": %s%.3e%s", error == error ? "" : "\"", error, error == error ? "" : "\"");
    static const char *names[KERNELS] = {"Copy", "Scale", "Add", "Triad"};
    say(", \"mb_per_s\": {");
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        double best = seconds(kernel, 1); /* as STREAM: the first time does not count */
        for (int time = 2; time < repetitions; time++)
            if (seconds(kernel, time) < best) best = seconds(kernel, time);
        say("%s\"%s\": %.1f", kernel ? ", " : "", names[kernel], 1e-6 * WORDS[kernel] * sizeof(double) * (double)elements / best);
    }
    say("}}\n");
    printf("%s# end: CRC-32 %08x\n", text, checksum(text, used));
    return 0;
}
