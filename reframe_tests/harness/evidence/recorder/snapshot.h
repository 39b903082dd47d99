/* What changes while a benchmark runs: clocks, masks, counters of networks, sockets and scheduler; part of recorder.c. */
#ifndef RECORDER_SNAPSHOT_H
#define RECORDER_SNAPSHOT_H
#include <ctype.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "links.h"

#define MAX_THREADS 64 /* threads listed one by one; all are counted */
#define MAX_PAIRS 512  /* address pairs of TCP sockets listed; beyond it "complete" is false */

static void put_clock(struct text *out, const char *name, clockid_t clock)
{
    struct timespec now;
    put_member(out, name);
    out->bad |= clock_gettime(clock, &now) != 0;
    put(out, "%lld", (long long)now.tv_sec * 1000000000LL + now.tv_nsec);
}

/* ---- where it runs ---- */

static int threads_seen;

static void put_thread(struct text *out, const char *thread)
{
    char status[NAME_MAX + 64];
    if (atol(thread) == (long)getpid() || ++threads_seen > MAX_THREADS)
        return;
    snprintf(status, sizeof status, "/proc/self/task/%s/status", thread);
    put_comma(out);
    put(out, "{");
    put_line(out, "name", status_field(status, "Name:"));
    put_line(out, "cpus", status_field(status, "Cpus_allowed_list:"));
    put(out, "}");
}

static void put_place(struct text *out)
{
    unsigned long nodes[16] = {0}; /* 1024 NUMA nodes, the kernel's own limit */
    unsigned cpu = 0, node = 0;
    int mode = 0;
    put_line(out, "cpus", status_field("/proc/self/status", "Cpus_allowed_list:"));
    put_line(out, "mems", status_field("/proc/self/status", "Mems_allowed_list:"));
    if (!syscall(SYS_getcpu, &cpu, &node, NULL))
        put(out, ",\"cpu\":%u,\"numa_node\":%u", cpu, node);
    if (!syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof nodes, NULL, 0))
        put(out, ",\"mempolicy\":%d", mode); /* numbers of <linux/mempolicy.h> */
    threads_seen = 0;
    put_member(out, "threads");
    put(out, "[");
    each_entry(out, put_thread, "/proc/self/task");
    put(out, "],\"thread_count\":%d", threads_seen);
}

/* ---- counters of the node's networks ---- */

static void put_interface_counters(struct text *out)
{
    char *table = read_file("/proc/net/dev"), *state = NULL;
    int titles = 2;
    put_member(out, "interfaces");
    put(out, "{");
    for (char *line = table ? strtok_r(table, "\n", &state) : NULL; line; line = strtok_r(NULL, "\n", &state)) {
        /* bytes, errs, drop, fifo and frame received; the same and carrier sent (net/core/net-procfs.c) */
        unsigned long long in[5], sent[5];
        char *colon = strrchr(line, ':');
        if (titles-- > 0 || !colon)
            continue;
        *colon = '\0';
        if (sscanf(colon + 1, "%llu %*u %llu %llu %llu %llu %*u %*u %llu %*u %llu %llu %llu %*u %llu", &in[0], &in[1], &in[2],
                   &in[3], &in[4], &sent[0], &sent[1], &sent[2], &sent[3], &sent[4]) != 10) {
            out->bad = true;
            break;
        }
        put_member(out, line + strspn(line, " "));
        put(out, "{\"rx_bytes\":%llu,\"tx_bytes\":%llu,", in[0], sent[0]);
        put(out, "\"rx_errors\":%llu,\"rx_dropped\":%llu,\"rx_fifo_errors\":%llu,\"rx_frame_errors\":%llu,", in[1], in[2],
            in[3], in[4]);
        put(out, "\"tx_errors\":%llu,\"tx_dropped\":%llu,\"tx_fifo_errors\":%llu,\"tx_carrier_errors\":%llu}", sent[1],
            sent[2], sent[3], sent[4]);
    }
    put(out, "}");
    out->bad |= !table;
    free(table);
}

/* Bytes of one RDMA port. port_xmit_data counts 4-byte words (Linux, Documentation/ABI/stable/sysfs-class-infiniband);
 * adapters without it (EFA, drivers/infiniband/hw/efa/efa_verbs.c; bnxt_re) count bytes in hw_counters. */
static void put_port_counters(struct text *out, const char *port)
{
    char name[2 * NAME_MAX], path[3 * NAME_MAX];
    snprintf(name, sizeof name, "%s/%s", device_listed, port);
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%s", device_listed, port);
    put_member(out, name);
    put(out, "{");
    if (!put_number(out, "rx_bytes", read_line("%s/counters/port_rcv_data", path), 4))
        put_number(out, "rx_bytes", read_line("%s/hw_counters/rx_bytes", path), 1);
    if (!put_number(out, "tx_bytes", read_line("%s/counters/port_xmit_data", path), 4))
        put_number(out, "tx_bytes", read_line("%s/hw_counters/tx_bytes", path), 1);
    put(out, "}");
}

static void put_device_counters(struct text *out, const char *device)
{
    device_listed = device;
    each_entry(out, put_port_counters, "/sys/class/infiniband/%s/ports", device);
}

/* Slingshot: the adapter's telemetry files read "<octets>@<time>" (fi_cxi(7), FI_CXI_TELEMETRY). One port a device. */
static void put_slingshot_counters(struct text *out, const char *device)
{
    char name[NAME_MAX + 8];
    snprintf(name, sizeof name, "%s/1", device);
    put_member(out, name);
    put(out, "{");
    put_number(out, "rx_bytes", read_line("/sys/class/cxi/%s/device/telemetry/hni_sts_rx_ok_octets", device), 1);
    put_number(out, "tx_bytes", read_line("/sys/class/cxi/%s/device/telemetry/hni_sts_tx_ok_octets", device), 1);
    put(out, "}");
}

/* ---- this process's own TCP connections ---- */

struct pair {
    char local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
    uint64_t sent, received;
    uint64_t out, again, segments_out, segments_in; /* payload with what was sent again, that alone, segments with and without */
    unsigned count;
    bool whole; /* the kernel wrote the second line for each connection */
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
    found.sent = bytes.acked;
    found.received = bytes.received;
    found.whole = size >= sizeof bytes;
    found.out = bytes.sent;
    found.again = bytes.again;
    found.segments_out = bytes.segments_out;
    found.segments_in = bytes.segments_in;
    if (!address_text((struct sockaddr *)&ends[0], found.local) || !address_text((struct sockaddr *)&ends[1], found.peer))
        return;
    for (size_t i = 0; i < pairs->used; i++)
        if (!strcmp(pairs->list[i].local, found.local) && !strcmp(pairs->list[i].peer, found.peer)) {
            pairs->list[i].sent += found.sent;
            pairs->list[i].received += found.received;
            pairs->list[i].out += found.out;
            pairs->list[i].again += found.again;
            pairs->list[i].segments_out += found.segments_out;
            pairs->list[i].segments_in += found.segments_in;
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
    DIR *files = opendir("/proc/self/fd");
    struct dirent *entry;
    put_member(out, "tcp");
    put(out, "{\"pairs\":[");
    if (pairs)
        pairs->complete = files != NULL;
    while (pairs && files && (entry = readdir(files)))
        if (isdigit((unsigned char)entry->d_name[0]) && atoi(entry->d_name) != dirfd(files))
            count_socket(pairs, atoi(entry->d_name));
    for (size_t i = 0; pairs && i < pairs->used; i++) {
        const struct pair *at = &pairs->list[i];
        put_comma(out);
        put(out, "{\"local\":\"%s\",\"peer\":\"%s\",\"count\":%u,\"sent_bytes\":%llu,\"received_bytes\":%llu", at->local,
            at->peer, at->count, (unsigned long long)at->sent, (unsigned long long)at->received);
        if (at->whole)
            put(out, ",\"out_bytes\":%llu,\"again_bytes\":%llu,\"segments_out\":%llu,\"segments_in\":%llu",
                (unsigned long long)at->out, (unsigned long long)at->again, (unsigned long long)at->segments_out,
                (unsigned long long)at->segments_in);
        put(out, "}");
    }
    put(out, "],\"uncounted\":%u,\"complete\":%s}", pairs ? pairs->uncounted : 0,
        pairs && pairs->complete ? "true" : "false");
    if (files)
        closedir(files);
    free(pairs);
}

/* ---- the whole snapshot ---- */

static void put_usage(struct text *out)
{
    struct rusage usage;
    out->bad |= getrusage(RUSAGE_SELF, &usage) != 0;
    put_member(out, "usage");
    put(out, "{\"user_us\":%lld,\"system_us\":%lld,\"voluntary_switches\":%ld,\"involuntary_switches\":%ld}",
        (long long)usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec,
        (long long)usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec, usage.ru_nvcsw, usage.ru_nivcsw);
}

/* Clocks and usage are read on the benchmark's side of everything else: last at the start, first at the end. */
static void put_snapshot(struct text *out, bool at_start, bool with_links)
{
    put(out, "{");
    for (int part = 0; part < 2; part++)
        if ((part == 0) != at_start) {
            put_clock(out, "realtime_ns", CLOCK_REALTIME);
            put_clock(out, "monotonic_ns", CLOCK_MONOTONIC);
            put_usage(out);
        } else {
            put_place(out);
            put_sockets(out);
            put_interface_counters(out);
            if (with_links)
                put_links(out);
            put_member(out, "ports");
            put(out, "{");
            each_entry(out, put_device_counters, "/sys/class/infiniband");
            each_entry(out, put_slingshot_counters, "/sys/class/cxi");
            put(out, "}");
        }
    put(out, "}");
}

#endif
