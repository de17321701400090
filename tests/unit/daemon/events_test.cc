// Events: order, bounds and the end.
#include "daemon/events.h"

#include <catch2/catch.hpp>

using namespace parkade;
using namespace parkade::daemon;

namespace {

Process MakeProcess(int pid) {
  Identity identity;
  identity.pid = pid;
  return Process(identity, Fd());
}

}  // namespace

TEST_CASE("a watcher gets what is published after it came, in order") {
  Events events;
  const Process process = MakeProcess(5);
  events.Publish(Event::Kind::kAppeared, process);
  const auto watcher = events.Watch();
  events.Publish(Event::Kind::kState, process, wire::ProcessState::kEvicting);
  events.Publish(Event::Kind::kState, process, wire::ProcessState::kPaused);
  const auto first = watcher->Next(Deadline::InMs(1000));
  const auto second = watcher->Next(Deadline::InMs(1000));
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  CHECK(first->process.state == wire::ProcessState::kEvicting);
  CHECK(second->process.state == wire::ProcessState::kPaused);
  CHECK(first->process.identity.pid == 5);
  CHECK_FALSE(watcher->Next(Deadline::InMs(10)).has_value());
}

TEST_CASE("nothing is told of a process after it has gone") {
  int heard = 0;
  Events events([&](const Event&) { ++heard; });
  Process process = MakeProcess(5);
  const auto watcher = events.Watch();
  process.End();
  events.Publish(Event::Kind::kState, process, wire::ProcessState::kPaused);
  events.Publish(Event::Kind::kGone, process);
  events.Publish(Event::Kind::kState, process);
  const auto event = watcher->Next(Deadline::InMs(1000));
  REQUIRE(event.has_value());
  CHECK(event->kind == Event::Kind::kGone);
  CHECK_FALSE(watcher->Next(Deadline::InMs(10)).has_value());
  CHECK(heard == 1);
}

TEST_CASE("a watcher that does not keep up loses events and is told") {
  Events events;
  const Process process = MakeProcess(5);
  const auto watcher = events.Watch();
  for (int i = 0; i < 1025; ++i) events.Publish(Event::Kind::kState, process);
  CHECK_FALSE(watcher->Next(Deadline::InMs(1000)).has_value());
  CHECK(watcher->TakeLost());
  CHECK_FALSE(watcher->TakeLost());
  events.Publish(Event::Kind::kGone, process);
  const auto event = watcher->Next(Deadline::InMs(1000));
  REQUIRE(event.has_value());
  CHECK(event->kind == Event::Kind::kGone);
}

TEST_CASE("there are 64 watchers at most, and one that leaves makes room") {
  Events events;
  std::vector<std::shared_ptr<Watcher>> watchers;
  for (int i = 0; i < 64; ++i) watchers.push_back(events.Watch());
  CHECK(watchers.back() != nullptr);
  CHECK(events.Watch() == nullptr);
  watchers.pop_back();
  CHECK(events.Watch() != nullptr);
}

TEST_CASE("the end wakes every watcher and lets no new one in") {
  Events events;
  const auto watcher = events.Watch();
  events.Close();
  CHECK_FALSE(watcher->Next(Deadline::InMs(10'000)).has_value());
  CHECK(watcher->closed());
  CHECK(events.Watch() == nullptr);
}
