// Opens a stage and tells the ledger which way it works.
#include "shim/pause/move_tools.h"

#include <cstdio>

namespace parkade::shim {

Result<std::unique_ptr<DiskStage>> OpenStage(MoveTools& tools, Bytes stage_bytes) {
  std::optional<Error> refusal;
  auto stage = DiskStage::Make(tools.pool, tools.files, stage_bytes, tools.make_engine, &refusal);
  if (!stage.ok()) return stage;
  char line[320];
  if (refusal) {
    snprintf(line, sizeof line, "disk I/O by threads, io_uring is refused: %s (errno %d)",
             refusal->what, refusal->os_errno);
    tools.ledger.AddWarning(line);
  }
  if (tools.files.buffered_because()[0] != '\0') {
    snprintf(line, sizeof line, "disk I/O through the page cache: %s",
             tools.files.buffered_because());
    tools.ledger.AddWarning(line);
  }
  return stage;
}

}  // namespace parkade::shim
