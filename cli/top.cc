// `parkade top`: who holds which GPU, live, with keys to pause and resume.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/read.h"
#include "cli/top_screen.h"
#include "cli/verbs.h"
#include "common/mutex.h"

namespace parkade::cli {
namespace {

volatile sig_atomic_t ends = 0;

void OnEnd(int) { ends = 1; }
void OnResize(int) {}  // only so that poll returns

// The terminal without echo and line editing, on a screen of its own; as before when this goes.
class RawTerminal {
 public:
  RawTerminal() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~tcflag_t(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    struct sigaction action {};
    action.sa_handler = OnEnd;
    for (const int signal : {SIGTERM, SIGHUP, SIGINT}) sigaction(signal, &action, nullptr);
    action.sa_handler = OnResize;
    sigaction(SIGWINCH, &action, nullptr);
    Say("\033[?1049h\033[?25l");
  }
  ~RawTerminal() {
    Say("\033[?25h\033[?1049l");
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  void Draw(const std::vector<std::string>& lines) {
    std::string all = "\033[H";
    for (size_t i = 0; i < lines.size(); ++i) {
      absl::StrAppend(&all, lines[i], "\033[K", i + 1 < lines.size() ? "\n" : "");
    }
    Say(absl::StrCat(all, "\033[J"));
  }

 private:
  static void Say(const std::string& text) { std::cout << text << std::flush; }
  termios before_{};
};

// A pause or resume that a key began. It goes on when this ends: the daemon does the work.
class Order {
 public:
  explicit Order(const Globals& globals) : globals_(globals) {}
  ~Order() {
    if (thread_.joinable()) thread_.join();
  }

  bool busy() const { return busy_.load(std::memory_order_acquire); }
  std::string message() EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    return message_;
  }
  void Say(std::string text) EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    message_ = std::move(text);
  }
  void Begin(int32_t pid, bool pause, v1::Policy policy) {
    if (busy()) return Say("one thing at a time: the last key is still being carried out");
    if (thread_.joinable()) thread_.join();
    busy_.store(true, std::memory_order_release);
    Say(absl::StrCat(pause ? "pausing " : "resuming ", pid, " ..."));
    thread_ = std::thread([this, pid, pause, policy] {
      Say(Carry(pid, pause, policy));
      busy_.store(false, std::memory_order_release);
    });
  }

 private:
  std::string Carry(int32_t pid, bool pause, v1::Policy policy) const {
    Client client(globals_);
    const std::string what = absl::StrCat(pause ? "pause " : "resume ", pid);
    absl::Status status;
    if (pause) {
      v1::PauseRequest request;
      request.mutable_selector()->add_pids(pid);
      request.set_policy(policy);
      status = client.Pause(request).status();
    } else {
      v1::ResumeRequest request;
      request.mutable_selector()->add_pids(pid);
      status = client.Resume(request).status();
    }
    return status.ok() ? absl::StrCat(what, ": done") : Sentence(what, status);
  }

  const Globals globals_;
  std::atomic<bool> busy_{false};  // release by whoever sets it, acquire by busy()
  Mutex mu_;                       // innermost
  std::string message_ GUARDED_BY(mu_);
  std::thread thread_;
};

absl::Status Look(Client& client, TopView& view) {
  auto node = client.GetNode();
  if (!node.ok()) return node.status();
  const auto processes = client.ListProcesses(v1::ListProcessesRequest());
  if (!processes.ok()) return processes.status();
  const auto operations = client.ListOperations(v1::ListOperationsRequest());
  if (!operations.ok()) return operations.status();
  view.node = std::move(*node);
  view.processes.assign(processes->processes().begin(), processes->processes().end());
  view.running.assign(operations->operations().begin(), operations->operations().end());
  view.selected = std::min(view.selected, view.processes.empty() ? 0 : view.processes.size() - 1);
  view.time = absl::FormatTime("%H:%M:%S", absl::Now(), absl::LocalTimeZone());
  return absl::OkStatus();
}

// What was typed: a letter, or 'U' and 'D' for the arrows; empty: nothing.
std::string ReadKeys() {
  char text[64];
  const ssize_t n = read(STDIN_FILENO, text, sizeof text);
  std::string keys;
  for (ssize_t i = 0; i < n; ++i) {
    if (text[i] == '\033' && i + 2 < n && (text[i + 1] == '[' || text[i + 1] == 'O')) {
      keys += text[i + 2] == 'A' ? 'U' : text[i + 2] == 'B' ? 'D' : '?';
      i += 2;
    } else {
      keys += text[i];
    }
  }
  return keys;
}

// False: the end is wanted.
bool Obey(char key, TopView& view, Order& order) {
  switch (key) {
    case 'q':
    case 3:  // Ctrl-C
      return false;
    case 'U':
    case 'k':
      view.selected -= view.selected > 0;
      return true;
    case 'D':
    case 'j':
      view.selected += view.selected + 1 < view.processes.size();
      return true;
    case 'p':
    case 'd':
    case 'r':
      break;
    default:
      return true;
  }
  if (view.processes.empty()) return true;
  order.Begin(view.processes[view.selected].pid(), key != 'r',
              key == 'd' ? v1::POLICY_DISK : v1::POLICY_UNSPECIFIED);
  return true;
}

int Live(const std::string& every, const Context& context) {
  const int every_ms = int(absl::ToInt64Milliseconds(*ReadDuration(every)));
  Client client(context.globals);
  TopView view;
  // A daemon that is not there is said as by every verb, before the screen is another one.
  if (auto s = Look(client, view); !s.ok()) return context.Fail("top", s);
  Order order(context.globals);
  RawTerminal terminal;
  absl::Time next = absl::Now() + absl::Milliseconds(every_ms);
  while (ends == 0) {
    winsize size{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
    if (view.message.empty()) view.message = order.message();
    terminal.Draw(TopScreen(view, known ? size.ws_col : 80, known ? size.ws_row : 24,
                            context.terminal.colour));
    const auto left = absl::ToInt64Milliseconds(next - absl::Now());
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (left > 0 && poll(&input, 1, int(left)) > 0) {
      if ((input.revents & (POLLHUP | POLLERR)) != 0) break;
      for (const char key : ReadKeys()) {
        if (!Obey(key, view, order)) return kExitOk;
      }
      view.message = "";
      continue;
    }
    if (absl::Now() < next) continue;  // the terminal has another size
    const absl::Status looked = Look(client, view);
    view.message = looked.ok() ? "" : Sentence("top", looked);
    next = absl::Now() + absl::Milliseconds(every_ms);
  }
  return kExitOk;
}

int Once(const Context& context) {
  Client client(context.globals);
  TopView view;
  if (auto s = Look(client, view); !s.ok()) return context.Fail("top", s);
  const size_t width = context.terminal.out_columns == 0 ? 100 : context.terminal.out_columns;
  auto lines = TopScreen(
      view, width, view.processes.size() + view.running.size() + size_t(view.node.gpus_size()) + 10,
      context.terminal.colour);
  lines.resize(lines.size() - 2);  // there are no keys
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (const std::string& line : lines) context.terminal.out << line << '\n';
  return kExitOk;
}

struct TopOptions {
  std::string every = "1s";
  bool once = false;
};

}  // namespace

void AddTop(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "top",
      "Who holds which GPU, live, with keys to pause and resume; once where it is no terminal");
  auto options = std::make_shared<TopOptions>();
  verb->add_option("--every", options->every, "How often it looks")
      ->type_name("TIME")
      ->check(IsDuration())
      ->capture_default_str();
  verb->add_flag("--once", options->once, "Prints what there is and ends");
  verb->callback([&context, options] {
    context.verb = [&context, options] {
      const bool live = !options->once && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
      return live ? Live(options->every, context) : Once(context);
    };
  });
}

}  // namespace parkade::cli
