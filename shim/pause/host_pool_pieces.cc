// HostPool's memory in one piece: mapped at once, touched and pinned on several threads.
#include <algorithm>
#include <utility>

#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"
#include "shim/pause/host_pool.h"

namespace parkade::shim {
namespace {

constexpr Bytes kStep = 2_MiB;
// As large as slices of a growth become.
constexpr Bytes kMostSlice = 128_MiB;
constexpr size_t kMostThreads = 16;

}  // namespace

// What the threads share.
struct HostPool::Making {
  struct Job {
    Part part;
    bool pinned;
    std::vector<HostBlock> made = {};
  };

  HostPool& pool;
  std::vector<Job> jobs;  // each belongs to the thread that has taken its number
  std::atomic<size_t> next{0};

  static void Run(void* self) { static_cast<Making*>(self)->Work(); }
  void Work();
};

void HostPool::Making::Work() {
  InShim ours;
  ScopedRelaxedCapture relaxed(pool.driver_);
  for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < jobs.size();) {
    Job& job = jobs[i];
    const Part& part = job.part;
    TouchPages(part.memory, part.left);
    if (!job.pinned) {
      Slice slice{part.memory, part.left, part.context, part.node, false, {}, 0, true};
      job.made.push_back(pool.EnterTaken(std::move(slice)));
      continue;
    }
    ScopedContext current(pool.driver_, part.context);
    for (Slice& slice : pool.Pin(part, part.memory)) {
      job.made.push_back(pool.EnterTaken(std::move(slice)));
    }
  }
}

HostBlock HostPool::EnterTaken(Slice slice) {
  slice.free.clear();
  slice.free_bytes = 0;
  HostBlock block(this, slice.memory, slice.bytes, slice.pinned);
  MutexLock lock(mu_);
  slices_.push_back(std::move(slice));
  return block;
}

Result<std::vector<std::vector<HostBlock>>> HostPool::MakePieces(
    const std::vector<OnePiece>& pieces) {
  Making making{*this, {}};
  std::vector<size_t> piece_of;  // by job
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Bytes bytes = RoundUp(pieces[i].bytes, kStep);
    const int node = AskNode(pieces[i].context);
    std::optional<Error> misplaced;
    auto memory = Map(bytes, node, &misplaced);
    if (!memory.ok()) {
      for (const Making::Job& job : making.jobs) UnmapPages(job.part.memory, job.part.left);
      return memory.error();
    }
    for (Bytes at = 0; at < bytes; at += kMostSlice) {
      const Bytes part = std::min(kMostSlice, bytes - at);
      making.jobs.push_back({{pieces[i].context, node, part, *memory + at}, pieces[i].pinned});
      piece_of.push_back(i);
    }
    MutexLock lock(mu_);
    if (!misplaced_) misplaced_ = misplaced;
  }
  std::vector<Thread> threads;
  const size_t most = std::min({making.jobs.size(), size_t(UsableCores()), kMostThreads});
  while (threads.size() + 1 < most) {
    auto thread = Thread::Start("parkade-pool", Making::Run, &making);
    if (!thread.ok()) break;  // fewer do as well
    threads.push_back(std::move(*thread));
  }
  making.Work();
  threads.clear();
  std::vector<std::vector<HostBlock>> made(pieces.size());
  for (size_t i = 0; i < making.jobs.size(); ++i) {
    for (HostBlock& block : making.jobs[i].made) made[piece_of[i]].push_back(std::move(block));
  }
  return made;
}

}  // namespace parkade::shim
