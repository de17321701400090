// Handles SIGINT with async-signal-safe calls alone.
#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "cli/exit_codes.h"

namespace parkade::cli {
namespace {

std::atomic<const char*> interrupt_sentence{nullptr};

void OnInterrupt(int) {
  const char* sentence = interrupt_sentence.load(std::memory_order_relaxed);
  if (sentence != nullptr) {
    // There is nobody left to tell when stderr is gone.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, sentence, strlen(sentence));
  }
  _exit(kExitInterrupted);
}

}  // namespace

void EndOnInterrupt() {
  struct sigaction before {};
  if (sigaction(SIGINT, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  sigaction(SIGINT, &action, nullptr);
}

void SetInterruptSentence(const char* sentence) {
  interrupt_sentence.store(sentence, std::memory_order_relaxed);
}

}  // namespace parkade::cli
