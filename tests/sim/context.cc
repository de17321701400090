// Submission order between the streams of a context.
#include "tests/sim/context.h"

namespace parkade::sim {
namespace {
std::atomic<uint64_t> next_context_id{1};
}

Context::Context(int context_gpu, unsigned context_flags, CUcontext context_handle)
    : gpu(context_gpu),
      id(next_context_id++),
      handle(context_handle),
      flags(context_flags),
      legacy_(std::make_shared<Stream>(*this, StreamKind::kLegacy, CU_STREAM_DEFAULT, 0)) {}

Point Context::Submit(Stream& stream, Task task, std::vector<Point> after) {
  MutexLock lock(mu_);
  if (stream.kind == StreamKind::kBlocking) {
    after.push_back(legacy_->Tail());
  } else if (stream.kind == StreamKind::kLegacy) {
    for (const auto& other : streams_)
      if (other->kind == StreamKind::kBlocking) after.push_back(other->Tail());
  }
  std::erase_if(after, [](const Point& point) { return point.Reached(); });
  return stream.Push(std::move(after), std::move(task));
}

std::vector<Point> Context::LegacyTails() {
  MutexLock lock(mu_);
  std::vector<Point> tails = {legacy_->Tail()};
  for (const auto& stream : streams_)
    if (stream->kind == StreamKind::kBlocking) tails.push_back(stream->Tail());
  return tails;
}

CUresult Context::Drain() {
  std::vector<Point> tails;
  for (const auto& stream : Streams()) tails.push_back(stream->Tail());
  for (const Point& tail : tails) tail.Wait();
  return sticky;
}

std::shared_ptr<Stream> Context::Add(StreamKind kind, unsigned stream_flags, int priority) {
  auto stream = std::make_shared<Stream>(*this, kind, stream_flags, priority);
  MutexLock lock(mu_);
  streams_.push_back(stream);
  return stream;
}

void Context::Forget(const Stream* stream) {
  MutexLock lock(mu_);
  std::erase_if(streams_, [stream](const auto& known) { return known.get() == stream; });
}

std::shared_ptr<Stream> Context::PerThread() {
  const auto self = std::this_thread::get_id();
  {
    MutexLock lock(mu_);
    if (auto found = per_thread_.find(self); found != per_thread_.end()) return found->second;
  }
  auto stream = Add(StreamKind::kBlocking, CU_STREAM_DEFAULT, 0);
  MutexLock lock(mu_);
  per_thread_[self] = stream;
  return stream;
}

std::vector<std::shared_ptr<Stream>> Context::Streams() {
  MutexLock lock(mu_);
  std::vector<std::shared_ptr<Stream>> streams = streams_;
  streams.push_back(legacy_);
  return streams;
}

}  // namespace parkade::sim
