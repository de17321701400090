// Takes requests from the queue, calls the freezer, and turns outcomes into replies.
#include "shim/agent/operations.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/text.h"
#include "proto/scratch.h"
#include "shim/agent/bad_request.h"
#include "shim/libc/inherited_files.h"
#include "shim/pause/gate.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kLookMs = 1000;  // again, whether a task is done

// "/parkade-v1/": what the path of a scratch file contains.
constexpr auto kScratchPart = [] {
  std::array<char, sizeof wire::kScratchRoot + 2> part{'/'};
  std::copy_n(wire::kScratchRoot, sizeof wire::kScratchRoot - 1, part.begin() + 1);
  part[sizeof wire::kScratchRoot] = '/';
  return part;
}();

wire::Reply ToReply(uint64_t op_id, const Freezer::Outcome& outcome, wire::ProcessState state) {
  auto reply = wire::Make<wire::Reply>(op_id);
  reply.state = uint32_t(state);
  reply.already = outcome.already ? 1 : 0;
  reply.device = outcome.device;
  reply.stats = outcome.stats;
  if (outcome.result.ok()) return reply;
  const Error& e = outcome.result.error();
  reply.code = uint32_t(e.code);
  reply.cuda = e.cuda;
  reply.os_errno = e.os_errno;
  CopyText(reply.reason, e.reason);
  CopyText(reply.message, e.what);
  return reply;
}

bool IsInTurn(const wire::Packet& packet) {
  wire::Resume resume;
  return packet.Read(&resume) && resume.in_turn != 0;
}

bool IsAbortable(const wire::Packet& packet) {
  const wire::Type type = packet.header().type;
  return type == wire::Type::kPrepare || type == wire::Type::kLetThrough ||
         type == wire::Type::kCommit || IsInTurn(packet);
}

}  // namespace

Operations::Operations(Freezer& freezer, PauseHooks& hooks, const Driver& driver,
                       LedgerWriter& ledger, wire::Elision elision)
    : freezer_(freezer), hooks_(hooks), driver_(driver), ledger_(ledger), elision_(elision) {}

Operations::~Operations() = default;

Result<void> Operations::Init() {
  replies_fd_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!replies_fd_) return OsError(errno, "eventfd");
  return {};
}

std::vector<wire::Reply> Operations::TakeReplies() {
  uint64_t count;
  [[maybe_unused]] const ssize_t n = read(replies_fd_.get(), &count, sizeof count);
  MutexLock lock(mu_);
  return std::exchange(replies_, {});
}

std::vector<wire::WrongBlock> Operations::TakeWrongBlocks() {
  MutexLock lock(mu_);
  return std::exchange(wrong_blocks_, {});
}

Result<void> Operations::Queue(std::unique_ptr<wire::Packet> packet) {
  if (packet->header().type == wire::Type::kAbort) {
    MutexLock lock(mu_);
    if (abortable_) freezer_.RequestAbort();
  }
  wire::LetThrough let;
  if (packet->Read(&let) && let.arrival_ns == 0) {
    Nudge(let.header.op_id);
    return {};
  }
  wire::Room room;
  if (packet->Read(&room)) {
    freezer_.room().Allow(room.device, room.bytes);
    return {};
  }
  wire::Shift shift;
  if (packet->Read(&shift) && shift.to == uint32_t(wire::Place::kDisk) && GivesWay(shift)) {
    return {};
  }
  // Here and not when it begins: the first Room may come before that.
  if (IsInTurn(*packet)) freezer_.room().Reset();
  return Push({std::move(packet)});
}

Result<void> Operations::Do(Task& task) {
  if (auto r = Push({nullptr, &task}); !r.ok()) return r;
  MutexLock lock(mu_);
  while (!task.done_) task_done_.WaitUntil(mu_, Deadline::InMs(kLookMs));
  return {};
}

bool Operations::GivesWay(const wire::Shift& shift) {
  uint64_t connection;
  {
    MutexLock lock(mu_);
    if (!running_) return false;
    connection = connection_;
  }
  Freezer::Outcome outcome;
  outcome.result = MakeError(Code::kCancelled, "CANCELLED", "something else is being done");
  Post(ToReply(shift.header.op_id, outcome, ledger_.state()), connection);
  return true;
}

wire::Reply Operations::Refusal(uint64_t op_id, const Error& error) const {
  Freezer::Outcome outcome;
  outcome.result = error;
  return ToReply(op_id, outcome, freezer_.state());
}

void Operations::Nudge(uint64_t op_id) {
  uint64_t connection;
  {
    MutexLock lock(mu_);
    connection = connection_;
  }
  Gate::Nudge();  // nothing where no preparation is under way
  Post(ToReply(op_id, {}, wire::ProcessState::kPreparing), connection);
}

void Operations::Settle() {
  {
    MutexLock lock(mu_);
    ++connection_;
    std::erase_if(queue_, [](const Request& request) { return request.task == nullptr; });
    replies_.clear();
    wrong_blocks_.clear();
    if (abortable_) freezer_.RequestAbort();
  }
  if (Push({}).ok()) return;
  // No thread can be had and so none runs: nobody else is at the freezer, and the gate must open.
  [[maybe_unused]] const Freezer::Outcome outcome = freezer_.Abort();
}

void Operations::AbandonAfterFork() {
  close(replies_fd_.get());
  if (!had_files_.load(std::memory_order_relaxed)) return;
  CloseInheritedFiles(kScratchPart.data());
}

Operations::Scratch Operations::scratch() const {
  MutexLock lock(mu_);
  return {scratch_.path, Fd(fcntl(scratch_.lock.get(), F_DUPFD_CLOEXEC, 0))};
}

Result<void> Operations::Push(Request request) {
  MutexLock starting(start_mu_);
  {
    MutexLock lock(mu_);
    idle_stop_.store(true, std::memory_order_release);
    queue_.push_back(std::move(request));
    if (running_) return {};
    running_ = true;
  }
  // The last thread has set running_ to false as its last step.
  thread_.Join();
  auto thread = Thread::Start("parkade-op", Work, this);
  if (!thread.ok()) {
    MutexLock lock(mu_);
    running_ = false;
    queue_.pop_back();
    return thread.error();
  }
  thread_ = std::move(*thread);
  return {};
}

void Operations::Work(void* self) { static_cast<Operations*>(self)->RunAll(); }

void Operations::RunAll() {
  for (;;) {
    Request request;
    uint64_t connection;
    {
      MutexLock lock(mu_);
      if (queue_.empty()) {
        running_ = false;
        return;
      }
      request = std::move(queue_.front());
      queue_.pop_front();
      connection = connection_;
      idle_stop_.store(!queue_.empty(), std::memory_order_release);
      abortable_ = request.packet != nullptr && IsAbortable(*request.packet);
      freezer_.ClearAbort();
      // An Abort that has come before this has begun; others run, and it then undoes them.
      const auto is_abort = [](const Request& r) {
        return r.packet != nullptr && r.packet->header().type == wire::Type::kAbort;
      };
      if (abortable_ && IsInTurn(*request.packet) &&
          std::any_of(queue_.begin(), queue_.end(), is_abort)) {
        freezer_.RequestAbort();
      }
    }
    Run(request, connection);
  }
}

void Operations::Run(const Request& request, uint64_t connection) {
  if (request.task != nullptr) {
    request.task->Run();
    RunHooksAfter();
    MutexLock lock(mu_);
    request.task->done_ = true;
    task_done_.NotifyAll();
    return;
  }
  if (request.packet == nullptr) {
    // What the outcome is stands in the ledger; nobody waits for it.
    [[maybe_unused]] const Freezer::Outcome outcome = freezer_.Abort();
    RunHooksAfter();
    return;
  }
  std::vector<wire::WrongBlock> wrong;
  const wire::Reply reply = Execute(*request.packet, &wrong);
  RunHooksAfter();
  {
    MutexLock lock(mu_);
    abortable_ = false;
  }
  Post(reply, connection, wrong);
  wire::Resume resume;
  wire::Shift shift;
  const bool releases = (request.packet->Read(&resume) && resume.release_host != 0) ||
                        (request.packet->Read(&shift) && shift.release_host != 0);
  // After the answer, which need not wait for it.
  if (reply.code == 0 && releases) freezer_.ReleaseHost();
}

wire::Reply Operations::Execute(wire::Packet& packet, std::vector<wire::WrongBlock>* wrong) {
  const uint64_t op_id = packet.header().op_id;
  Freezer::Outcome outcome;
  wire::Prepare prepare;
  wire::LetThrough let;
  wire::Commit commit;
  wire::Resume resume;
  wire::Warm warm;
  wire::Verify verify;
  wire::Shift shift;
  if (packet.Read(&prepare)) {
    outcome = Prepare(prepare);
  } else if (packet.Read(&let)) {
    outcome = LetThrough(let);
  } else if (packet.Read(&commit)) {
    outcome = Commit(commit, packet);
  } else if (packet.header().type == wire::Type::kAbort) {
    outcome = freezer_.Abort();
  } else if (packet.Read(&resume)) {
    outcome = Resume(resume);
  } else if (packet.header().type == wire::Type::kReleaseHost) {
    freezer_.ReleaseHost();
  } else if (packet.Read(&warm)) {
    outcome = freezer_.Warm(warm.host_bytes, idle_stop_);
  } else if (packet.Read(&verify)) {
    if (verify.stop == 0) outcome = freezer_.Verify(op_id, idle_stop_, wrong);
  } else if (packet.Read(&shift)) {
    outcome = Shift(shift, wrong);
  } else {
    outcome.result = BadRequest("not a request");
  }
  for (wire::WrongBlock& block : *wrong) block.header.op_id = op_id;
  return ToReply(op_id, outcome, freezer_.state());
}

Result<void> Operations::RunHooksBefore() {
  if (freezer_.state() != wire::ProcessState::kRunning) return {};
  hooked_ = true;
  return hooks_.Run(PauseHooks::When::kBeforePause, driver_, freezer_.abort_requested());
}

void Operations::RunHooksAfter() {
  if (!hooked_ || freezer_.state() != wire::ProcessState::kRunning) return;
  hooked_ = false;
  static const std::atomic<bool> never{false};
  const auto ran = hooks_.Run(PauseHooks::When::kAfterResume, driver_, never);
  if (!ran.ok()) ledger_.AddEvent(std::string("after a resume: ") + ran.error().what);
}

Freezer::Outcome Operations::Commit(const wire::Commit& commit, wire::Packet& packet) {
  const size_t lock_count = commit.has_lock != 0 ? 1 : 0;
  if (commit.tag_count > wire::kMaxTags || commit.file_count > wire::kMaxFiles ||
      packet.fd_count != commit.file_count + lock_count || !wire::IsPolicy(commit.policy) ||
      (commit.elision != 0 && !wire::IsElision(commit.elision))) {
    return {BadRequest("commit: counts, policy or elision out of range")};
  }
  for (uint32_t i = 0; i < commit.tag_count; ++i) {
    if (!wire::IsPolicy(commit.tags[i].policy)) return {BadRequest("commit: unknown policy")};
  }
  if (commit.block_bytes == 0 || commit.block_bytes > 32_MiB ||
      commit.block_bytes % kDirectAlign != 0 || commit.depth == 0 || commit.depth > 256) {
    return {BadRequest("commit: requests to files out of range")};
  }
  EvictionPlan plan;
  plan.host_bytes = commit.host_bytes;
  plan.disk_bytes = commit.disk_bytes;
  plan.chunk_bytes = commit.chunk_bytes;
  plan.policy = wire::Policy(commit.policy);
  plan.elision = commit.elision != 0 ? wire::Elision(commit.elision) : elision_;
  plan.tags = std::span(commit.tags, commit.tag_count);
  plan.disk = {commit.block_bytes, commit.depth, commit.registers_memory != 0};
  plan.files = std::span(packet.fds + lock_count, commit.file_count);
  if (packet.fd_count != 0) had_files_.store(true, std::memory_order_relaxed);
  {
    MutexLock lock(mu_);
    scratch_.path = ReadText(commit.scratch);
    if (lock_count == 1) std::swap(scratch_.lock, packet.fds[0]);  // the packet closes the old one
  }
  return freezer_.Commit(commit.header.op_id, plan);
}

void Operations::Post(const wire::Reply& reply, uint64_t connection,
                      const std::vector<wire::WrongBlock>& wrong) {
  {
    MutexLock lock(mu_);
    if (connection != connection_) return;
    wrong_blocks_.insert(wrong_blocks_.end(), wrong.begin(), wrong.end());
    replies_.push_back(reply);
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(replies_fd_.get(), &one, sizeof one);
}

}  // namespace parkade::shim
