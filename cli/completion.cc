// `parkade completion`: the shells' scripts; and `parkade complete`, which they ask for the words
// that a command line may go on with.
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/verbs.h"

// Files of cli/completions, by completions.S; each ends with a NUL.
extern "C" const char parkade_completion_bash[];
extern "C" const char parkade_completion_zsh[];
extern "C" const char parkade_completion_fish[];

namespace parkade::cli {
namespace {

using Words = std::set<std::string>;

// A shell that waits for a Tab is no place to wait long.
constexpr absl::Duration kPatience = absl::Seconds(1);

int Print(const std::string& shell, const Context& context) {
  const char* const script = shell == "bash"  ? parkade_completion_bash
                             : shell == "zsh" ? parkade_completion_zsh
                                              : parkade_completion_fish;
  context.terminal.out << script;
  return kExitOk;
}

// Which option of the verb, or of all verbs, the word is; null: none. "--job=rl" is none, for its
// value is there.
const CLI::Option* OptionOf(const CLI::App* verb, const std::string& word) {
  for (; verb != nullptr; verb = verb->get_parent()) {
    if (const CLI::Option* option = verb->get_option_no_throw(word)) return option;
  }
  return nullptr;
}

Words OptionsOf(const CLI::App* verb) {
  Words words;
  for (; verb != nullptr; verb = verb->get_parent()) {
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& name : option->get_lnames()) words.insert(absl::StrCat("--", name));
    }
  }
  return words;
}

Words VerbsOf(const CLI::App& app) {
  Words words;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (!verb->get_group().empty()) words.insert(verb->get_name());
  }
  return words;
}

Words Pids(const Globals& globals) {
  Words words;
  const auto answer = Client(globals).ListProcesses({});
  if (!answer.ok()) return words;
  for (const auto& process : answer->processes()) words.insert(absl::StrCat(process.pid()));
  return words;
}

Words Groups(const Globals& globals) {
  Words words;
  const auto answer = Client(globals).ListGroups();
  if (!answer.ok()) return words;
  for (const auto& group : answer->groups()) words.insert(group.name());
  return words;
}

// The words that may stand where `current` does, after `before`.
Words Candidates(const CLI::App& app, const std::vector<std::string>& before,
                 const std::string& current, const Globals& globals) {
  const CLI::App* verb = &app;
  const CLI::Option* open = nullptr;  // whose value comes next
  for (const std::string& word : before) {
    if (word == "--") return {};  // a command of the user's own
    if (open != nullptr) {
      open = nullptr;
    } else if (absl::StartsWith(word, "-")) {
      open = OptionOf(verb, word);
      if (open != nullptr && open->get_items_expected_max() == 0) open = nullptr;
    } else if (const auto verbs = VerbsOf(*verb); verbs.contains(word)) {
      verb = verb->get_subcommand(word);
    }
  }
  if (open != nullptr) {
    if (open->check_lname("output")) return {"json", "table", "wide", "yaml"};
    return open->check_lname("group") ? Groups(globals) : Words();
  }
  if (absl::StartsWith(current, "-")) return OptionsOf(verb);
  if (const Words verbs = VerbsOf(*verb); !verbs.empty()) return verbs;
  if (verb->get_name() == "completion") return {"bash", "fish", "zsh"};
  return OptionOf(verb, "PID") != nullptr ? Pids(globals) : Words();
}

int Complete(const CLI::App& app, const Context& context) {
  std::vector<std::string> before = context.command;
  std::string current;
  if (!before.empty()) {
    current = before.back();
    before.pop_back();
  }
  Globals globals = context.globals;
  globals.timeout = kPatience;
  for (const std::string& word : Candidates(app, before, current, globals)) {
    if (absl::StartsWith(word, current)) context.terminal.out << word << '\n';
  }
  return kExitOk;
}

}  // namespace

void AddCompletion(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("completion", "Prints a script that completes words in a shell");
  auto shell = std::make_shared<std::string>();
  verb->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  verb->callback(
      [&context, shell] { context.verb = [&context, shell] { return Print(*shell, context); }; });
  CLI::App* asked = app.add_subcommand("complete", "For those scripts: `complete -- WORD...`");
  asked->group("");
  asked->callback(
      [&context, &app] { context.verb = [&context, &app] { return Complete(app, context); }; });
}

}  // namespace parkade::cli
