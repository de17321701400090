// The checks of `parkade doctor`: each looks at one part of a node and says what it has found.
//
// None changes anything. What they read of the kernel lies beneath KernelFiles, and what they know
// of driver and daemon is handed in, so that tests can make it up.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/driver_probe.h"
#include "cli/finding.h"
#include "cli/kernel_files.h"
#include "cli/process_tree.h"
#include "proto/control.pb.h"

namespace parkade::cli {

// What the daemon says; without an answer, why.
struct NodeAnswers {
  absl::Status status;
  v1::GetNodeResponse node;
  std::vector<v1::Process> processes;
};

// Driver, virtual memory management, sharing between processes.
Findings CheckDriver(const KernelFiles& files, const DriverFacts& facts);

// Transparent and reserved huge pages; what this user's processes may lock.
Findings CheckHugePages(const KernelFiles& files);
Findings CheckMemlock(const KernelFiles& files);

Findings CheckIoUring(const KernelFiles& files);
// One directory for backups: its file system, direct I/O, and what the daemon knows of its disk
// (null: nothing). A nameless file is made in it and goes at once.
Findings CheckScratch(const std::string& path, const v1::ScratchBase* known);
// What a file system of that type (statfs) means for backups in `path`.
Finding JudgeFileSystem(const std::string& path, unsigned long type);

// The runtime directory with its sockets, as far as files tell.
Findings CheckSockets(const std::string& runtime_dir);
// Whether the daemon answers, whether its driver figures are there, and whose version is another.
Findings CheckDaemon(const NodeAnswers& answers, const std::string& own_version);
// Whether all that is in HBM now fits into host memory and disks.
Findings CheckNeed(const NodeAnswers& answers);

// The library that `parkade run` preloads.
Findings CheckLibraryFile();
// Processes without the library, and why they lack it: those beneath `root`, or without one those
// that have the driver loaded.
Findings CheckTree(const KernelFiles& files, std::optional<pid_t> root);
// Variables that change what a pause can do: of the processes with the library, else of this one.
Findings CheckEnvironment(const KernelFiles& files, std::optional<pid_t> root);

}  // namespace parkade::cli
