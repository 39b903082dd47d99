/* The state of the node's links: settings, and counters of errors, drops and waits; part of recorder.c. */
#ifndef RECORDER_LINKS_H
#define RECORDER_LINKS_H
#include "facts.h"

/* One file of sysfs and the member it becomes; a file that is missing or holds nothing of use becomes no member. */
struct link_file {
    const char *name, *path;
    bool number;
};

/* Linux, Documentation/ABI/testing/sysfs-class-net; the PCI files, Documentation/ABI/testing/sysfs-bus-pci. */
static const struct link_file INTERFACE_FILES[] = {
    {"mtu_bytes", "mtu", true},
    {"speed_mbit_per_s", "speed", true}, /* -1 or an error where the driver knows none */
    {"duplex", "duplex", false},
    {"state", "operstate", false},
    {"carrier_changes", "carrier_changes", true},
    {"pcie_speed", "device/current_link_speed", false},
    {"pcie_width", "device/current_link_width", true},
};

/* Linux, Documentation/ABI/stable/sysfs-class-infiniband; below the port's folder. hw_counters are the drivers' own: most
 * here are of mlx5_ib (drivers/infiniband/hw/mlx5/counters.c), rx_drops of efa (drivers/infiniband/hw/efa/efa_verbs.c). */
static const struct link_file PORT_FILES[] = {
    {"state", "state", false},
    {"phys_state", "phys_state", false},
    {"rate", "rate", false},
    {"pcie_speed", "../../device/current_link_speed", false},
    {"pcie_width", "../../device/current_link_width", true},
    {"symbol_error", "counters/symbol_error", true},
    {"link_error_recovery", "counters/link_error_recovery", true},
    {"link_downed", "counters/link_downed", true},
    {"port_rcv_errors", "counters/port_rcv_errors", true},
    {"port_rcv_remote_physical_errors", "counters/port_rcv_remote_physical_errors", true},
    {"port_rcv_switch_relay_errors", "counters/port_rcv_switch_relay_errors", true},
    {"port_rcv_constraint_errors", "counters/port_rcv_constraint_errors", true},
    {"port_xmit_constraint_errors", "counters/port_xmit_constraint_errors", true},
    {"port_xmit_discards", "counters/port_xmit_discards", true},
    {"local_link_integrity_errors", "counters/local_link_integrity_errors", true},
    {"excessive_buffer_overrun_errors", "counters/excessive_buffer_overrun_errors", true},
    {"port_xmit_wait", "counters/port_xmit_wait", true},
    {"out_of_buffer", "hw_counters/out_of_buffer", true},
    {"out_of_sequence", "hw_counters/out_of_sequence", true},
    {"packet_seq_err", "hw_counters/packet_seq_err", true},
    {"implied_nak_seq_err", "hw_counters/implied_nak_seq_err", true},
    {"local_ack_timeout_err", "hw_counters/local_ack_timeout_err", true},
    {"rnr_nak_retry_err", "hw_counters/rnr_nak_retry_err", true},
    {"rx_icrc_encapsulated", "hw_counters/rx_icrc_encapsulated", true},
    {"roce_adp_retrans", "hw_counters/roce_adp_retrans", true},
    {"req_transport_retries_exceeded", "hw_counters/req_transport_retries_exceeded", true},
    {"np_cnp_sent", "hw_counters/np_cnp_sent", true},
    {"rp_cnp_handled", "hw_counters/rp_cnp_handled", true},
    {"rx_drops", "hw_counters/rx_drops", true},
    /* hfi1 counts per device (drivers/infiniband/hw/hfi1/chip.c, dev_cntrs) */
    {"DcTotCrc", "../../hw_counters/DcTotCrc", true},
    {"DcTxReplay", "../../hw_counters/DcTxReplay", true},
    {"DcRxReplay", "../../hw_counters/DcRxReplay", true},
};

/* Slingshot: port files as cxi_stat(1) shows them, telemetry as in the Slingshot NIC's counter guide ("<count>@<time>"). */
static const struct link_file SLINGSHOT_FILES[] = {
    {"state", "device/port/link", false},
    {"rate", "device/port/speed", false},
    {"pcie_speed", "device/current_link_speed", false},
    {"pcie_width", "device/current_link_width", true},
    {"hni_pcs_corrected_cw", "device/telemetry/hni_pcs_corrected_cw", true},
    {"hni_pcs_uncorrected_cw", "device/telemetry/hni_pcs_uncorrected_cw", true},
    {"hni_llr_tx_replay_event", "device/telemetry/hni_llr_tx_replay_event", true},
    {"hni_llr_rx_replay_event", "device/telemetry/hni_llr_rx_replay_event", true},
    {"pct_sct_timeouts", "device/telemetry/pct_sct_timeouts", true},
    {"pct_spt_timeouts", "device/telemetry/pct_spt_timeouts", true},
};

static void put_link_files(struct text *out, const char *name, const char *folder, const struct link_file *files, size_t count)
{
    put_member(out, name);
    put(out, "{");
    for (size_t i = 0; i < count; i++) {
        char *line = read_line("%s/%s", folder, files[i].path);
        if (line && files[i].number)
            put_number(out, files[i].name, line, 1);
        else if (line)
            put_line(out, files[i].name, line);
    }
    put(out, "}");
}

#define PUT_LINK(out, name, folder, files) put_link_files(out, name, folder, files, sizeof files / sizeof *files)

static void put_interface_link(struct text *out, const char *name)
{
    char folder[NAME_MAX + 32];
    snprintf(folder, sizeof folder, "/sys/class/net/%s", name);
    PUT_LINK(out, name, folder, INTERFACE_FILES);
}

static void put_port_link(struct text *out, const char *port)
{
    char name[2 * NAME_MAX], folder[3 * NAME_MAX];
    snprintf(name, sizeof name, "%s/%s", device_listed, port);
    snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/ports/%s", device_listed, port);
    PUT_LINK(out, name, folder, PORT_FILES);
}

static void put_device_links(struct text *out, const char *device)
{
    device_listed = device;
    each_entry(out, put_port_link, "/sys/class/infiniband/%s/ports", device);
}

static void put_slingshot_link(struct text *out, const char *device)
{
    char name[NAME_MAX + 8], folder[NAME_MAX + 32];
    snprintf(name, sizeof name, "%s/1", device);
    snprintf(folder, sizeof folder, "/sys/class/cxi/%s", device);
    PUT_LINK(out, name, folder, SLINGSHOT_FILES);
}

/* One rank of a node is enough to read its links; a rank that does not know its number on the node reads them too. */
static bool reads_links(void)
{
    char name[MAX_NAME];
    const char *number = first_set("MPIBENCH_LOCAL_RANK_VARIABLES", name);
    return !number || !strcmp(number, "0");
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
    if (!reads_links())
        return;
    put_member(out, "links");
    put(out, "{");
    each_entry(out, put_interface_link, "/sys/class/net");
    each_entry(out, put_device_links, "/sys/class/infiniband");
    each_entry(out, put_slingshot_link, "/sys/class/cxi");
    put(out, "}");
    put_tcp_counters(out);
}

#endif
