// Fuzzes what an earlier daemon may have left in the state directory: a journal's frames, and the
// records in them.
#include <fstream>
#include <string>

#include "daemon/journal_file.h"
#include "daemon/journal_record.h"
#include "tests/fuzz/fuzz.h"

using namespace parkade;
using namespace parkade::fuzz;

namespace {

// What is taken for a record can be written again, and is then read as the same.
template <typename T>
void CheckRecord(const std::optional<T>& record, std::optional<T> (*unpack)(std::string_view)) {
  if (!record) return;
  const std::string packed = Pack(*record);
  const auto again = unpack(packed);
  Must(again.has_value() && Pack(*again) == packed);
}

// Nothing gets out that the rest of the daemon cannot name.
void CheckAnswer(const std::optional<daemon::GivenAnswer>& given) {
  if (!given) return;
  const int code = int(given->answer.status().code());
  Must(code >= 0 && code <= int(absl::StatusCode::kUnauthenticated));
  if (!given->answer.ok()) return;
  for (const daemon::Outcome& outcome : *given->answer) {
    Must(wire::IsProcessState(uint32_t(outcome.state)));
  }
}

void CheckFile(std::string_view bytes) {
  static constexpr size_t kFrame = 16;
  static const std::string path = Folder() + "/journal";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  const auto content = daemon::JournalFile::Read(path);
  Must(content.ok());
  size_t whole = 0;
  for (const std::string& record : content->records) whole += kFrame + record.size();
  Must(whole + content->lost_bytes == bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckRecord(daemon::UnpackProcess(bytes), daemon::UnpackProcess);
  CheckRecord(daemon::UnpackOperation(bytes), daemon::UnpackOperation);
  CheckRecord(daemon::UnpackAnswer(bytes), daemon::UnpackAnswer);
  CheckRecord(daemon::UnpackGroup(bytes), daemon::UnpackGroup);
  CheckRecord(daemon::UnpackReservation(bytes), daemon::UnpackReservation);
  CheckRecord(daemon::UnpackBudget(bytes), daemon::UnpackBudget);
  CheckAnswer(daemon::UnpackAnswer(bytes));
  CheckFile(bytes);
  return 0;
}
