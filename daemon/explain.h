// What the daemon adds to failures: figures, paths and limits that the one who failed did not know.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/gpu_account.h"
#include "daemon/gpus.h"
#include "daemon/member.h"

namespace parkade::daemon {

// Who holds the GPUs of the processes that could not come back, which need `needed`, and how much
// is free there: gpu_uuid, needed_bytes, free_bytes and holders in the metadata.
absl::Status ExplainShortage(const absl::Status& failed, const GpuAccount::ByGpu& needed,
                             const Gpus& gpus);

// NO_GPU, and NO_FIGURES where the driver cannot be asked about any.
absl::Status NoGpu(const std::string& uuid);
absl::Status NoFigures(const Gpus& gpus);

// Where the backup is that an error of a disk is about: a shim knows its files by number alone.
absl::Status NameBackup(const absl::Status& failed, const std::vector<Member>& members);

// The end of a process where its connection went first: PROCESS_ENDED for SHIM_DISCONNECTED.
absl::Status NameEnd(const absl::Status& failed, const std::vector<Member>& members);

// How much a process may lock, where that was too little.
absl::Status ExplainMemlock(const absl::Status& failed);

}  // namespace parkade::daemon
