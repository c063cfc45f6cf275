/** Fields of a cluster, or of a group of devices. */

import { type Field, field, hasPreset, type Section } from "./field";
import type { JsonObject } from "./json-text";

export function cluster(at: "cluster" | "devices", body: JsonObject): Section {
  const gpu = [
    field(`${at}.gpu.memory_bytes`, "bytes", "gpu.memory_bytes"),
    field(`${at}.gpu.bf16_flop_per_s`, "flops", "gpu.bf16_flop_per_s"),
    field(`${at}.gpu.hbm_bytes_per_s`, "rate", "gpu.hbm_bytes_per_s"),
    field(`${at}.gpu.pcie_bytes_per_s`, "rate", "gpu.pcie_bytes_per_s"),
    field(`${at}.gpu.nvlink_bytes_per_s`, "rate", "gpu.nvlink_bytes_per_s"),
  ];
  const main = [
    field(`${at}.gpu.preset`, "gpu", "gpu.preset"),
    field(`${at}.nodes`, "whole", "cluster.nodes", { standard: "1" }),
    field(`${at}.gpus_per_node`, "whole", "cluster.gpus_per_node"),
    field(`${at}.gpu_memory_bytes`, "bytes", "cluster.gpu_memory_bytes"),
    field(`${at}.pcie_topology`, "choice", "cluster.pcie_topology", {
      choices: ["full_mesh", "switch"],
    }),
    field(`${at}.host_memory_bytes`, "bytes", "cluster.host_memory_bytes"),
  ];
  const more = [...clusterDetails(at), ...gpuDetails(at)];
  return hasPreset(body, `${at}.gpu`)
    ? { title: at, main, more: [...more, ...gpu] }
    : { title: at, main: [...main, ...gpu], more };
}

function clusterDetails(at: string): Field[] {
  return [
    field(`${at}.inter_node_bytes_per_s`, "rate", "cluster.inter_node_bytes_per_s"),
    field(`${at}.nodes_per_rack`, "whole", "cluster.nodes_per_rack"),
    field(`${at}.inter_rack_bytes_per_s`, "rate", "cluster.inter_rack_bytes_per_s"),
    field(`${at}.link_latency_ns`, "whole", "cluster.link_latency_ns", {
      standard: "6000",
      unit: "ns",
    }),
    field(`${at}.network_latency_ns`, "whole", "cluster.network_latency_ns", {
      standard: "20000",
      unit: "ns",
    }),
    field(`${at}.host_link_duplex`, "choice", "cluster.host_link_duplex", {
      choices: ["full", "half"],
      standard: "full",
    }),
    field(`${at}.reserved_bytes`, "bytes", "cluster.reserved_bytes", { standard: "2 GiB" }),
    field(`${at}.efficiency.compute`, "number", "efficiency.compute", { standard: "0.74" }),
    field(`${at}.efficiency.hbm`, "number", "efficiency.hbm", { standard: "0.7" }),
    field(`${at}.efficiency.pcie`, "number", "efficiency.pcie", { standard: "0.8" }),
    field(`${at}.efficiency.nvlink`, "number", "efficiency.nvlink", { standard: "0.93" }),
    field(`${at}.efficiency.network`, "number", "efficiency.network", { standard: "0.8" }),
    field(`${at}.host_memory_numa`, "socket", "cluster.host_memory_numa", { standard: "local" }),
    field(`${at}.numa_remote_factor`, "number", "cluster.numa_remote_factor"),
    field(`${at}.ssd_bytes_per_s`, "rate", "cluster.ssd_bytes_per_s"),
    field(`${at}.ssd_memory_bytes`, "bytes", "cluster.ssd_memory_bytes"),
  ];
}

function gpuDetails(at: string): Field[] {
  return [
    field(`${at}.gpu.fp16_flop_per_s`, "flops", "gpu.fp16_flop_per_s"),
    field(`${at}.gpu.fp32_flop_per_s`, "flops", "gpu.fp32_flop_per_s"),
    field(`${at}.gpu.network_bytes_per_s`, "rate", "gpu.network_bytes_per_s"),
    field(`${at}.gpu.gpus_per_pcie_switch`, "whole", "gpu.gpus_per_pcie_switch"),
    field(`${at}.gpu.watts`, "number", "gpu.watts", { unit: "W" }),
    field(`${at}.gpu.name`, "text", "gpu.name"),
  ];
}

export function counted(): Section {
  return {
    title: "devices",
    main: [
      field("devices.count", "whole", "devices.count"),
      field("devices.memory_bytes", "bytes", "devices.memory_bytes"),
    ],
    more: [],
  };
}
