// Writes a store's record.
#include "shim/stream/store_sheet.h"

#include <string_view>

#include "common/deadline.h"
#include "common/text.h"

namespace parkade::shim {
namespace {

// As many lines as fit, whole ones.
template <size_t N>
void AddLine(char (&text)[N], std::string* lines, std::string_view line) {
  if (lines->size() + line.size() + 1 >= N) return;
  *lines += line;
  *lines += '\n';
  CopyText(text, *lines);
}

}  // namespace

void StoreSheet::Begins(uint64_t step, Bytes device_bytes) {
  begun_ns_[step % 2].store(MonotonicNs(), std::memory_order_release);
  ledger_.ChangeStore(slot_, [&](wire::LedgerStore& s) {
    s.state = uint32_t(wire::StoreState::kStepping);
    s.open_step = step;
    s.device_bytes = device_bytes;
    s.reason[0] = s.message[0] = '\0';
  });
}

void StoreSheet::Commits(uint64_t step, Bytes read, Bytes written) {
  const uint64_t took = MonotonicNs() - begun_ns_[step % 2].load(std::memory_order_acquire);
  ledger_.ChangeStore(slot_, [&](wire::LedgerStore& s) {
    s.step = step;
    s.last_ns = took;
    s.last_read_bytes = read - s.read_bytes;
    s.last_written_bytes = written - s.written_bytes;
    s.read_bytes = read;
    s.written_bytes = written;
    if (s.open_step != step) return;  // the next one has begun
    s.open_step = wire::kNoStoreStep;
    s.state = uint32_t(wire::StoreState::kIdle);
  });
}

void StoreSheet::Ends(wire::StoreState state, const Error& why) {
  ledger_.ChangeStore(slot_, [&](wire::LedgerStore& s) {
    s.state = uint32_t(state);
    s.open_step = wire::kNoStoreStep;
    CopyText(s.reason, why.reason);
    CopyText(s.message, why.what);
  });
}

void StoreSheet::SetServing(bool serves) {
  ledger_.ChangeStore(slot_, [&](wire::LedgerStore& s) { s.serving = serves ? 1 : 0; });
}

wire::LedgerStore DescribeStore(const std::string& name, const store::Layout& layout,
                                const std::vector<std::string>& directories) {
  wire::LedgerStore s = {};
  s.state = uint32_t(wire::StoreState::kIdle);
  s.step = s.open_step = wire::kNoStoreStep;
  CopyText(s.name, name);
  for (const store::Entry& entry : layout.entries())
    s.elements += entry.flat_end - entry.flat_begin;
  s.buckets = uint32_t(layout.buckets().size());
  std::string lines;
  for (const store::Segment& segment : layout.segments()) {
    AddLine(s.segments, &lines, segment.name + "=" + store::NameOf(segment.encoding));
  }
  lines.clear();
  for (const std::string& directory : directories) AddLine(s.directories, &lines, directory);
  return s;
}

}  // namespace parkade::shim
